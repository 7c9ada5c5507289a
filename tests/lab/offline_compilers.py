"""Compilers of absent devices. Each compiles a kernel's text with its options and work-group size,
and returns properties of the code.

NVIDIA: clang 14 with libclc writes PTX, ptxas compiles it, and nvdisasm prints the code. For a
target whose name ends with "a", instructions in comments of the PTX are uncommented first, as
src/lib/program/binary.c does. AMD: clang 19 with ROCm's device library. Intel: ocloc. SPIR-V: clang
14, llvm-spirv and spirv-val.
"""
import glob
import os
import re
import subprocess
from collections import namedtuple

from offline_loops import AMD, INTEL, SASS, instructions, loops_of

# Scratch is the number of bytes of spilled registers and of private arrays in memory. Registers
# belong to a work-item (Intel: to a thread). Code has the instructions, and loops are those of
# offline_loops. Note is a word about the compiler's choice.
Result = namedtuple("Result", "registers scratch local code loops note")


class Failed(Exception):
    pass


class Missing(Exception):
    pass


def result_of(registers, scratch, local, text, kernel, language, note=""):
    code = list(instructions(text, kernel, language))
    return Result(registers, scratch, local, code, loops_of(code, language), note)


class Tools:
    """The folder that check_offline.sh filled: root/ has Debian packages, python/ has PyPI's."""

    def __init__(self, folder):
        self.folder = folder
        self.root = f"{folder}/root"
        self.environment = dict(os.environ, LD_LIBRARY_PATH=f"{self.root}/usr/lib/x86_64-linux-gnu")

    def find(self, *patterns):
        """Returns the first existing file of these, in the folder or on the system."""
        for pattern in patterns:
            found = sorted(glob.glob(f"{self.folder}/{pattern}", recursive=True)) or sorted(glob.glob("/" + pattern))
            if found:
                return found[0]
        raise Missing(f"no {os.path.basename(patterns[0])}")

    def run(self, words, folder, **more):
        done = subprocess.run(words, cwd=folder, env=dict(self.environment, **more), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            lines = [x for x in done.stdout.splitlines() if "error" in x.lower()] or done.stdout.splitlines() or ["no word"]
            raise Failed(f"{os.path.basename(words[0])}: {lines[0].strip()}")
        return done.stdout


def number(pattern, text, default=0):
    found = re.search(pattern, text, re.M)
    return int(found.group(1)) if found else default


def write(folder, name, text):
    with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
        f.write(text)


HIDDEN = "//@ "  # FRAGMENT_HIDDEN of args.h
OPENCL = ["-x", "cl", "-O3", "-w", "-Xclang", "-finclude-default-header"]


def link(*files):
    return [word for f in files for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", f)]


class Nvidia:
    LANGUAGE = SASS
    # Missing in libclc 14. Launches start at 0 here.
    PRELUDE = "size_t __attribute__((overloadable, const)) get_global_offset(uint d) { return 0; }\n"

    def __init__(self, tools, name):
        self.tools, self.name = tools, name
        self.clang = tools.find("usr/bin/clang-14")
        self.library = tools.find("root/usr/lib/clc/nvptx64--nvidiacl.bc")
        self.ptxas = tools.find("python/lib/*/site-packages/nvidia/**/bin/ptxas")
        self.nvdisasm = tools.find("python/lib/*/site-packages/nvidia/**/bin/nvdisasm")

    def version(self):
        clang = number(r"clang version (\d+)", self.tools.run([self.clang, "--version"], "/"))
        ptxas = re.search(r"V([\d.]+)", self.tools.run([self.ptxas, "--version"], "/")).group(1)
        return f"clang {clang}, ptxas {ptxas}"

    def compile(self, folder, kernel, text, options, group):
        write(folder, "a.cl", self.PRELUDE + text)
        # clang 14 declares vload_half here only with the extension, and drops the size of the
        # work-group.
        self.tools.run([self.clang, *OPENCL, "-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang",
                        "-cl-ext=+cl_khr_fp16", *link(self.library), *options.split(), "-S", "-o", "a.ptx", "a.cl"], folder)
        ptx = open(f"{folder}/a.ptx", encoding="utf-8").read()
        entry = re.search(rf"\.entry {kernel}\(.*?\n\)", ptx, re.S)
        if group and entry:
            ptx = ptx[:entry.end()] + f"\n.reqntid {group}, 1, 1" + ptx[entry.end():]
        write(folder, "a.ptx", self.shown(ptx))
        said = self.tools.run([self.ptxas, f"-arch={self.name}", "-v", "-o", "a.cubin", "a.ptx"], folder)
        said = said[said.find(f"Compiling entry function '{kernel}'"):]
        code = self.tools.run([self.nvdisasm, "-c", "a.cubin"], folder)
        scratch = number(r"(\d+) bytes stack frame", said) + number(r"(\d+) bytes spill stores", said)
        return result_of(number(r"Used (\d+) registers", said), scratch, number(r"(\d+) bytes smem", said), code, kernel, SASS)


    def shown(self, ptx):
        if not self.name.endswith("a"):
            return ptx
        ptx = ptx.replace(HIDDEN, " " * len(HIDDEN))
        return re.sub(r"^\.target .*", f".target {self.name}", re.sub(r"^\.version .*", ".version 8.0", ptx, flags=re.M), flags=re.M)


class Amd:
    LANGUAGE = AMD
    # The device library in Debian 12 is older than the newest chips, which use the constants of a
    # related chip.
    ISA = {"gfx90a": ("90a", "on"), "gfx942": ("90a", "on"), "gfx1100": ("1030", "off"), "gfx1201": ("1030", "off")}

    def __init__(self, tools, name):
        self.tools, self.name = tools, name
        self.clang = tools.find("root/usr/lib/llvm-19/bin/clang", "usr/lib/llvm-19/bin/clang")
        isa, wide = self.ISA[name]
        bitcode = os.path.dirname(tools.find("root/usr/lib/**/bitcode/ocml.bc", "usr/lib/**/amdgcn/bitcode/ocml.bc"))
        self.libraries = [f"{bitcode}/{x}.bc" for x in (
            "opencl", "ocml", "ockl", "oclc_daz_opt_off", "oclc_finite_only_off", "oclc_unsafe_math_off",
            "oclc_correctly_rounded_sqrt_off", f"oclc_wavefrontsize64_{wide}", f"oclc_isa_version_{isa}", "oclc_abi_version_500")]

    def version(self):
        return "clang " + re.search(r"clang version ([\d.]+)", self.tools.run([self.clang, "--version"], "/")).group(1)

    def compile(self, folder, kernel, text, options, group):
        write(folder, "a.cl", text)
        self.tools.run([self.clang, *OPENCL, "-target", "amdgcn-amd-amdhsa", f"-mcpu={self.name}", "-nogpulib", "-mcode-object-version=5",
                        *link(*self.libraries), *options.split(), "-S", "-o", "a.s", "a.cl"], folder)
        code = open(f"{folder}/a.s", encoding="utf-8").read()
        notes = code[code.find("amdhsa.kernels:"):]
        registers = number(r"\.vgpr_count: +(\d+)", notes)
        scratch = max(number(r"\.private_segment_fixed_size: +(\d+)", notes), 4 * number(r"\.vgpr_spill_count: +(\d+)", notes))
        local = number(r"\.group_segment_fixed_size: +(\d+)", notes)
        return result_of(registers, scratch, local, code, kernel, AMD)


class Intel:
    # loads are messages that the compiler splits, so no rule here counts the bytes per key
    LANGUAGE = None
    # Intel's driver defines a macro for each extension of the chip, and ocloc does not.
    EXTENSIONS = " -Dcl_intel_subgroup_local_block_io=1"
    # otherwise the compiler rejects its own header for chips without images
    FEATURES = " -cl-ext=+__opencl_c_images,+__opencl_c_read_write_images"

    def __init__(self, tools, name):
        self.tools, self.name = tools, name
        self.ocloc = tools.find("root/usr/bin/ocloc", "usr/bin/ocloc")

    def version(self):
        self.tools.run([self.ocloc, "query", "OCL_DRIVER_VERSION"], self.tools.folder)
        with open(f"{self.tools.folder}/OCL_DRIVER_VERSION", encoding="utf-8") as f:
            return "ocloc " + f.read().strip("\0 \n")

    def compile(self, folder, kernel, text, options, group):
        for old in glob.glob(f"{folder}/*"):
            os.remove(old)
        write(folder, "a.cl", text)
        self.tools.run([self.ocloc, "compile", "-file", "a.cl", "-device", self.name, "-output", "a", "-options", options + self.EXTENSIONS + " -w",
                        "-internal_options", "-cl-intel-allow-zebin" + self.FEATURES * ("CL3.0" in options)],
                       folder, IGC_ShaderDumpEnable="1", IGC_DumpToCustomDir=folder)
        binary = open(glob.glob(f"{folder}/*.bin")[0], "rb").read().decode("latin-1")
        info = binary[binary.find("kernels:"):]
        info = info[:info.find("kernels_misc_info:")]
        tried = [open(p, encoding="utf-8").read() for p in glob.glob(f"{folder}/*_simd*_entry_*.asm")]
        tried = [t for t in tried if t.startswith(f"//.kernel {kernel}\n")]
        # A second compilation replaces the first if it spills less.
        spilled = {number(r"^//\.spill size (\d+)", t) + number(r"^//\.private memory size (\d+)", t): t for t in tried}
        least = min(spilled)
        # A private array that stayed in global memory. Its size is not reported.
        code = "".join(open(p, encoding="utf-8").read() for p in glob.glob(f"{folder}/*_codegen.ll"))
        private = 4 if re.search(r"^(?!define).*%privateBase", code, re.M) else 0
        wide = number(r"simd_size: +(\d+)", info)
        note = f"SIMD{wide}, private array" if private else f"SIMD{wide}"
        return result_of(number(r"grf_count: +(\d+)", info), least + private, number(r"slm_size: +(\d+)", info), spilled[least],
                         kernel, INTEL, note)


class Spirv:
    """Portable code only: it is generated and validated."""
    LANGUAGE = None

    def __init__(self, tools, name):
        self.tools, self.name = tools, name
        self.clang = tools.find("usr/bin/clang-14")
        self.translate = tools.find("root/usr/bin/llvm-spirv-14", "usr/bin/llvm-spirv-14")
        self.validate = tools.find("root/usr/bin/spirv-val", "usr/bin/spirv-val")

    def version(self):
        return "clang " + re.search(r"clang version ([\d.]+)", self.tools.run([self.clang, "--version"], "/")).group(1)

    def compile(self, folder, kernel, text, options, group):
        write(folder, "a.cl", text)
        self.tools.run([self.clang, *OPENCL[:2], "-O0", *OPENCL[3:], "-target", "spir64", *options.split(), "-emit-llvm", "-c", "-o",
            "a.bc", "a.cl"], folder)
        self.tools.run([self.translate, "--spirv-max-version=1.0", "a.bc", "-o", "a.spv"], folder)
        self.tools.run([self.validate, "--target-env", "opencl1.2", "a.spv"], folder)
        return Result(0, 0, 0, [], [], "")


TARGETS = {"sm_80": Nvidia, "sm_90": Nvidia, "sm_90a": Nvidia, "sm_120": Nvidia, "gfx90a": Amd, "gfx942": Amd, "gfx1100": Amd, "gfx1201": Amd,
           "dg2": Intel, "pvc": Intel, "spirv": Spirv}
