"""NVIDIA's kernels without a GPU: clang compiles them to PTX, and ptx_machine.py executes the PTX
instruction by instruction, as the manual defines. Intel's kernels run in the same way, and their
sub-group product becomes an additional instruction.

    python3 tests/lab/check_ptx.py [--names PATTERN]

The kernels probe_fragments and probe_wgmma use numbers with distinct rows and columns, and must be
exact. Results of flash_fragments and linear_fragments are compared with double precision, within
the error budget of budget.c. Then each part of the layouts is broken, and the checks must notice.
Prints a line for each failure. Exit status 77: clang or numpy is missing.
"""
import argparse
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

TESTS = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(TESTS))
sys.path[:0] = [TESTS, f"{TOP}/cl"]
try:
    import numpy as np
except ImportError:
    print("no numpy")
    sys.exit(77)
import embed  # noqa: E402
import ptx_text  # noqa: E402
# noqa: E402
from fragment_calls import BF16, F16, F32, I8, PROBE_ITEMS, Call, Probe, Product, Wrong, changed, probe_number, stored
from ptx_dpas import DPAS  # noqa: E402
from ptx_machine import launch  # noqa: E402
from ptx_memory import Buffers  # noqa: E402
from ptx_plain import PLAIN  # noqa: E402
from ptx_text import PtxError  # noqa: E402
from ptx_warpgroups import WARPGROUPS  # noqa: E402
from ptx_warps import WARPS  # noqa: E402

INSTRUCTIONS = {**PLAIN, **WARPS, **WARPGROUPS, **DPAS}
# This mark hides instructions from clang 14, whose assembler for another target does not know them.
HIDDEN = "//@ "
BLOCK_READS = "-Dcl_intel_subgroup_local_block_io"
MMA, WGMMA, DPAS_8, DPAS_16 = 3, 4, 8, 9  # MATRIX_ENGINE


class Ptx:
    """A device: clang, and the machine. `change`, a pattern and its replacement, may change a
    kernel's text first. For `apart` see ptx_machine.Machine."""
    engine, rows, items, preludes, options = MMA, 16, 32, ("ptx_prelude",), ""

    def __init__(self, clang, folder, change=None, apart=False):
        self.clang, self.folder, self.change, self.apart = clang, folder, change, apart

    def compiled(self, kernel, options):
        """Returns the PTX of a kernel of cl/."""
        folder = self.folder
        with open(f"{folder}/a.cl", "w", encoding="utf-8") as f:
            f.write(changed(embed.flatten(glob.glob(f"{TOP}/cl/*/{kernel}.cl")[0], set()), self.change))
        words = [self.clang, "-x", "cl", "-cl-std=CL1.2", "-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", "sm_80",
                 "-Xclang", "-cl-ext=+cl_khr_fp16", "-Xclang", "-finclude-default-header", "-w", "-O2", "-S", "-o", f"{folder}/a.ptx",
                 *(x for name in self.preludes for x in ("-include", f"{TOP}/tests/data/{name}.cl")), *options.split(), f"{folder}/a.cl"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            lines = done.stdout.splitlines()
            raise Wrong(f"{kernel} {options}: {next((line for line in lines if 'error:' in line), lines[0])}")
        with open(f"{folder}/a.ptx", encoding="utf-8") as f:
            return ptx_text.parse(f.read(), kernel, HIDDEN)

    def of_sub_groups(self, size, options=""):
        """The same device as an Intel device with sub-groups of this size."""
        other = Ptx(self.clang, self.folder, self.change, self.apart)
        other.engine, other.rows, other.items = {8: DPAS_8, 16: DPAS_16}[size], size, size
        other.preludes, other.options = ("ptx_prelude", "dpas_prelude"), f" -DSUB_GROUP={size} {options}"
        return other

    def run(self, kernel, options, items, groups, arguments, buffers):
        options += self.options
        launch(self.compiled(kernel, options), INSTRUCTIONS, items, groups, arguments, buffers, self.apart)


# Fills and expects the same numbers as src/lib/probe/fragments.c.
def check_probe_wgmma(kind, device):
    x = np.array([probe_number(i) for i in range(8 * PROBE_ITEMS)], np.float32)
    rows, pieces = np.arange(64)[:, None], np.arange(8)[None, :]
    a, b = (x.reshape(128, 8)[place % 128].reshape(64, 64) for place in (37 * rows + 11 * pieces, 29 * rows + 5 * pieces + 3))
    right = ((a @ b.T) @ b)[::4]
    buffers = Buffers()
    words, result = buffers.place(stored(x, kind)), buffers.place(np.full(right.size, np.nan, np.float32))
    device.run("probe_wgmma", f"-DMATRIX_ENGINE={WGMMA} -DTYPE_KV={kind}", PROBE_ITEMS, (1, 1, 1), struct.pack("<QQi", words, result, 0),
               buffers)
    if not np.array_equal(buffers.content(result, np.float32), right.ravel()):
        raise Wrong("another product than the probe expects")


# probe_eights: fills and expects the same numbers as src/lib/probe/int8_dot_gpu.c, also with the
# emulation.
LOADS_OF_8 = 256


def check_eights(way, device):
    mixed = np.arange(1, 8 * LOADS_OF_8 + 1, dtype=np.uint64)
    keys = (mixed * 2654435761 % 2 ** 32 >> np.uint64(11)).astype(np.uint8).view(np.int8)
    rows = (mixed[:32] * 2246822519 % 2 ** 32 >> np.uint64(7)).astype(np.int64) % 8001 - 4000
    right = keys.reshape(-1, 8).astype(np.float64) @ rows.reshape(4, 8).T * 0.5
    buffers = Buffers()
    words = np.concatenate([keys.view(np.uint32), np.append(rows, 0.5).astype(np.float32).view(np.uint32)])
    places = buffers.place(words), buffers.place(np.full(right.size, np.nan, np.float32))
    device.run("probe_eights", f"-DDOT_I8={way}", LOADS_OF_8, (1, 1, 1), struct.pack("<QQi", *places, 0), buffers)
    if not np.array_equal(buffers.content(places[1], np.float32), right.ravel()):
        raise Wrong("another product than the probe expects")


def flash(*words, **more):
    return lambda device: Call(*words, **more).check(device)


def linear(*words, **more):
    return lambda device: Product(*words, **more).check(device)


def probe(kind):
    return Probe(kind).check


def dpas(size, case):
    return lambda device: case(device.of_sub_groups(size))


def eights(way):
    return lambda device: check_eights(way, device)


def probe_wgmma(kind):
    return lambda device: check_probe_wgmma(kind, device)


# Tails of rows and keys, with heads that are a multiple of a line and others; rows that see
# nothing; infinities that few rows see.
CASES = {
    "probe f16": probe(F16),
    "probe bf16": probe(BF16),
    "dp4a": eights(4),
    "dp4a emulated": eights(1),
    "wgmma f16": probe_wgmma(F16),
    "wgmma bf16": probe_wgmma(BF16),
    "flash f16 d64": flash(F16, 64, 64, 33, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=64"),
    "flash f16 d64 causal": flash(F16, 64, 64, 33, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32", causal=37, kv_heads=2,
                                  strange=[(45, 3, np.inf), (69, 63, np.nan)]),
    "flash bf16 d64 causal": flash(BF16, 64, 64, 70, 65, "-DALIGNED_VECTORS=2 -DTILE_KV=32", groups=(2, 2), causal=-5),
    "flash bf16 d40": flash(BF16, 40, 40, 33, 70, "-DALIGNED_VECTORS=0 -DTILE_KV=16", groups=(2, 1), room=3),
    "flash f16 d40 dv24 causal": flash(F16, 40, 24, 33, 40, "-DALIGNED_VECTORS=2 -DTILE_KV=48", causal=7, batch=2, heads=1,
                                       strange=[(20, 5, -np.inf)]),
    "flash f16 d64 i8 causal": flash(F16, 64, 40, 33, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32", causal=37, kv_heads=2, cache=I8),
    "decode bf16 d64 i8": flash(BF16, 64, 64, 3, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32", groups=(1, 1), causal=66, heads=20, kv_heads=2, cache=I8,
                                kernel="decode_fragments"),
    "decode f16 d64 i8 integers": flash(F16, 64, 64, 1, 70, "-DLOADS_OF_8=1 -DWORK_GROUP=64 -DROWS=1 -DDOT_I8=4", groups=(2, 1), cache=I8,
                                        kernel="decode_groups"),
    "flash f32 d64 causal": flash(F32, 64, 40, 33, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32 -DBF16_TERMS=3", groups=(2, 1), causal=30, kv_heads=2),
    "flash f32 d24 strange": flash(F32, 24, 24, 33, 40, "-DALIGNED_VECTORS=0 -DTILE_KV=16 -DBF16_TERMS=3", groups=(2, 1), causal=7, heads=1,
                                   strange=[(20, 5, -np.inf), (39, 2, np.nan), (3, 1, 2.0 ** 100)], room=3),
    "flash f16 d64 wgmma causal": flash(F16, 64, 64, 70, 150, "-DALIGNED_VECTORS=2 -DTILE_KV=64", engine=WGMMA, causal=60, heads=1,
                                        strange=[(100, 3, np.inf), (129, 63, np.nan)]),
    "flash bf16 d128 wgmma": flash(BF16, 128, 72, 33, 200, "-DALIGNED_VECTORS=2 -DTILE_KV=64", engine=WGMMA, heads=1),
    "dpas 8 probe f16": dpas(8, probe(F16)),
    "dpas 8 probe bf16": dpas(8, probe(BF16)),
    "dpas 16 probe f16": dpas(16, probe(F16)),
    "dpas 16 probe bf16": dpas(16, probe(BF16)),
    "dpas 8 flash f16 causal": dpas(8, flash(F16, 64, 64, 33, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32", causal=37, kv_heads=2,
                                             strange=[(45, 3, np.inf), (69, 63, np.nan)])),
    "dpas 16 flash bf16": dpas(16, flash(BF16, 40, 24, 70, 65, "-DALIGNED_VECTORS=2 -DTILE_KV=32", groups=(2, 1), causal=-5)),
    "dpas 16 decode f16 i8": dpas(16, flash(F16, 64, 64, 3, 70, "-DALIGNED_VECTORS=2 -DTILE_KV=32", groups=(2, 1), causal=66, heads=20, kv_heads=2,
                                            cache=I8, kernel="decode_fragments")),
    "dpas 8 flash bf16 blocks": dpas(8, flash(BF16, 64, 64, 9, 40, BLOCK_READS + " -DALIGNED_VECTORS=2 -DTILE_KV=16", groups=(4, 1), heads=1)),
    "dpas 16 probe f16 blocks": lambda device: Probe(F16).check(device.of_sub_groups(16, BLOCK_READS)),
    "dpas 8 linear bf16": dpas(8, linear(BF16, 33, 71, 72, "-DALIGNED_VECTORS=2")),
    "dpas 16 linear f32": dpas(16, linear(F32, 21, 40, 103, "-DALIGNED_VECTORS=2 -DBF16_TERMS=3", vectors=1, room=1, warps=(2, 1))),
    "linear f16": linear(F16, 35, 71, 103, "-DALIGNED_VECTORS=2", room=1),
    "linear bf16": linear(BF16, 33, 130, 72, "-DALIGNED_VECTORS=2", vectors=4, tile=64),
    "linear bf16 one by one": linear(BF16, 5, 9, 41, "-DALIGNED_VECTORS=0 -DCHUNK=64", vectors=1, room=3),
    "linear f32": linear(F32, 21, 40, 103, "-DALIGNED_VECTORS=2 -DBF16_TERMS=3", vectors=1, room=1, warps=(2, 1)),
    "linear f32 bf16 one by one": linear(F32, 13, 20, 75, "-DALIGNED_VECTORS=0 -DBF16_TERMS=3", vectors=1, room=3, kind_w=BF16, warps=(2, 1)),
    "linear f32 strange": linear(F32, 20, 20, 72, "-DALIGNED_VECTORS=2 -DBF16_TERMS=3", vectors=1, warps=(2, 1), tiny=2.0 ** -118,
                                 strange=[(0, 3, 5, np.inf), (0, 17, 70, np.nan), (0, 4, 1, 2.0 ** 60)]),
}

# Deliberate errors: the case, a pattern of the kernel's text, its replacement, and a pattern of the
# expected message.
NUMBERS, BARRIER, FENCE, WAIT = "nmse|another product|^[STO] = ", "since the last barrier", "fence.* behind it", "not (yet )?waited for"
BROKEN = {
    "address of ldmatrix": ("probe f16", r"FRAGMENT_LANE % 8 \+ FRAGMENT_LANE / 16 \* 8",
                            "FRAGMENT_LANE % 8 + FRAGMENT_LANE / 8 % 2 * 8", NUMBERS),
    "keys 2 t and 2 t + 1 of P": ("probe f16", r'"=r"\(r\) : "f"\(y\), "f"\(x\)', '"=r"(r) : "f"(x), "f"(y)', NUMBERS),
    "keys of the scores' elements": ("flash f16 d64 causal", r"(\(FRAGMENT_LANE % 4\)) \+ \(e\) % 2", "(FRAGMENT_LANE % 4) + 1 - (e) % 2",
                                     NUMBERS),
    "a[1] and a[2]": ("probe f16", r'"r"\(\(a\)\[1\]\), "r"\(\(a\)\[2\]\)', '"r"((a)[2]), "r"((a)[1])', NUMBERS),
    "b0 and b1": ("probe bf16", r'"r"\(b0\), "r"\(b1\)', '"r"(b1), "r"(b0)', NUMBERS),
    "ldmatrix not turned": ("probe f16", r'FRAGMENT_LOAD_AS\("\.trans", r', 'FRAGMENT_LOAD_AS("", r', NUMBERS),
    "swizzle of one side": ("flash f16 d64", r"FRAGMENT_PLACE\(FRAGMENT_LANE % 16, \(part\) \+ FRAGMENT_LANE / 16, pitch\)",
                            "(FRAGMENT_LANE % 16 * (pitch) + 16 * ((part) + FRAGMENT_LANE / 16))", NUMBERS),
    "partner of the row's maximum": ("probe f16", r"FRAGMENT_XOR\(x, 2, memory\)\)", "FRAGMENT_XOR(x, 4, memory))", NUMBERS),
    "rows past the end are read": ("flash f16 d64", r'"l"\(from\), "r"\(n\)', '"l"(from), "r"(16)', "16 bytes at .* of buffer"),
    "no barrier before the keys": ("flash f16 d64", r"barrier\(CLK_LOCAL_MEM_FENCE\); // keys are there", "// keys are there", BARRIER),
    "numbers past the reduction are read": ("linear f16", r"2 \* clamp\(a->reduction - \(d\), 0, 8\)", "16", "16 bytes at .* of buffer"),
    "the second half of a tile": ("linear bf16", r"(OWN|SHARED)_FOLD\(\w\) \* STEPS \+ d", "d", NUMBERS),
    "no barrier before a chunk": ("linear f16", r"barrier\(CLK_LOCAL_MEM_FENCE\); // the chunk is there", "// the chunk is there", BARRIER),
    "the next chunk where this one is": ("linear f16", r"whole, 1 - buffer, memory", "whole, buffer, memory", BARRIER + "|" + WAIT),
    "a product of a projection's terms": ("linear f32", r"n \+ m < BF16_TERMS", "n + m < BF16_TERMS - (n == 1)", NUMBERS),
    "terms of x in another order": ("linear f32", r"X_BYTES \* i", "X_BYTES * (i == 0 ? 0 : 3 - i)", NUMBERS),
    "terms of W in another order": ("linear f32", r"W_LINES \* i", "W_LINES * (i == 0 ? 0 : 3 - i)", NUMBERS),
    "a chunk where the one before is read": ("linear f32", r"HAVE_READ;", "", BARRIER),
    "numbers that are too large": ("linear f32 strange", r"most >= LARGEST", "false", "not where it should|" + NUMBERS),
    "numbers that are too small": ("linear f32 strange", r"least < LEAST", "false && least < LEAST", NUMBERS),
    "strange numbers of another item": ("linear f32 strange", r"strange \|= seen\[i\] << i", "(void)0", "not where it should|" + NUMBERS),
    "no wait for copies": ("probe f16", r"FRAGMENT_WAIT\(\);", "", WAIT),
    "no barrier behind copies": ("probe f16", r"FRAGMENT_WAIT\(\);\s+barrier\(CLK_LOCAL_MEM_FENCE\);", "FRAGMENT_WAIT();", BARRIER),
    "work-items of a warp part": ("probe f16", r"FRAGMENT_LOAD_OWN\(a\[d\]", "if (FRAGMENT_LANE != 5) FRAGMENT_LOAD_OWN(a[d]",
                                  "who do not come"),
    "an instruction that is not known": ("probe f16", r"mma\.sync\.aligned\.m16n8k16", "mma.sync.aligned.m16n8k8",
                                         "mma.sync.aligned.m16n8k8.*no such instruction"),
    "scales of other keys": ("flash f16 d64 i8 causal", r"by = scales\[FRAGMENT_COLUMN\(y, e\)\]", "by = scales[FRAGMENT_COLUMN(y, e) ^ 1]",
                             NUMBERS),
    "rows of another head": ("decode bf16 d64 i8", r"a\)->group \+ \(i\) % \(a\)->group", "a)->group + (i) % ((a)->group - 1)",
                             NUMBERS + "|not where it should"),
    "keys that another row sees": ("decode bf16 d64 i8", r"bounds, \(i\) / HEAD_SHARE", "bounds, (i) % HEAD_SHARE", NUMBERS + "|lse"),
    "scales before their barrier": ("flash f16 d64 i8 causal", r"barrier\(CLK_LOCAL_MEM_FENCE\); // keys are there", "// keys are there",
                                    BARRIER),
    "a product of terms that is not made": ("flash f32 d64 causal", r"b < BF16_TERMS - a;", "b < BF16_TERMS - a - (a == 1);", NUMBERS),
    "terms of keys in another order": ("flash f32 d64 causal", r"FRAGMENT_COLUMNS \* y \+ TILE_KV \* b",
                                       "FRAGMENT_COLUMNS * y + TILE_KV * (b == 0 ? 0 : 3 - b)", NUMBERS),
    "terms of values in another order": ("flash f32 d64 causal", r"VALUES_AT \+ VALUE_TERM_BYTES \* a",
                                         "VALUES_AT + VALUE_TERM_BYTES * (a == 0 ? 0 : 3 - a)", NUMBERS),
    "weights that keep what a term took": ("flash f32 d64 causal", r"FRAGMENT_REST\(\(sums\)", "(void)(0, (sums)", NUMBERS),
    "infinities that are not looked for": ("flash f32 d24 strange", r"largest >= LARGEST", "false", "not where it should|" + NUMBERS),
    "operands of dpas": ("dpas 8 probe f16", r"as_int8\(shared\), as_int8\(own\)", "as_int8(own), as_int8(shared)", NUMBERS),
    "numbers of a left operand": ("dpas 8 probe f16", r"\[8 \* \(i\) \+ FRAGMENT_LANE\]", "[8 * (i) + (FRAGMENT_LANE ^ 1)]", NUMBERS),
    "block reads of another row": ("dpas 16 probe f16 blocks", r"intel_sub_group_block_read_us8\(\(__local const ushort \*\)\(at\)\)",
                                   "intel_sub_group_block_read_us8((__local const ushort *)(at) + 16)", NUMBERS),
    "rows of a left operand": ("dpas 16 probe bf16", r"\[16 \* \(i\) \+ FRAGMENT_LANE\]", "[16 * ((i) ^ 1) + FRAGMENT_LANE]", NUMBERS),
    "keys that change places": ("dpas 8 flash f16 causal", r"\(a_ & 0xffffu\) \| b_ << 16", "(b_ & 0xffffu) | a_ << 16", NUMBERS),
    "channels of a key": ("dpas 16 flash bf16", r"\(key\) \+ FRAGMENT_LANE, part", "(key) + (FRAGMENT_LANE ^ 1), part", NUMBERS),
    "weights of two fragments": ("dpas 8 flash f16 causal", r"\(sums\)\[2 \* \(step\) \+ e_ / 4\]\[e_ % 4 \* 2\],",
                                 "(sums)[2 * (step) + 1 - e_ / 4][e_ % 4 * 2],", NUMBERS),
    "pieces of eight rows": ("dpas 8 linear bf16", r"\(piece\) / 2 \* 256", "(piece) / 2 * 128", NUMBERS + "|to one place"),
    "operands of dp4a": ("dp4a", r'"r"\(x\), "r"\(y\), "r"\(acc\)', '"r"(x), "r"(acc), "r"(y)', NUMBERS),
    "another lane's digits": ("decode f16 d64 i8 integers", r"\(r\)\*LANES_K \+ \(lane\)", "(r) * LANES_K + ((lane) ^ 1)", NUMBERS),
    "bytes of dp4a without a sign": ("dp4a", r"dp4a\.s32\.s32", "dp4a.u32.u32", "no such instruction"),
    "a byte of the emulation": ("dp4a emulated", r"n\.s3 \* m\.s3", "n.s3 * m.s2", NUMBERS),
    "a digit that is lost": ("dp4a", r"bytes, low\.hi", "bytes, low.lo", NUMBERS),
    "no fence.proxy.async": ("wgmma f16", r"wait_group 1; fence\.proxy\.async\.shared::cta;", "wait_group 1;", FENCE),
    "fence.proxy.async before the wait": ("wgmma f16", r"cp\.async\.wait_group 1; fence\.proxy\.async\.shared::cta;",
                                          "fence.proxy.async.shared::cta; cp.async.wait_group 1;", FENCE),
    "no fence behind what becomes 0": ("flash f16 d64 wgmma causal", r"FRAGMENT_SHOW\(\);", "", FENCE),
    "no wgmma.fence": ("wgmma f16", r"wgmma\.fence\.sync\.aligned;", "", FENCE),
    "no wgmma.wait_group": ("wgmma f16", r"wgmma\.wait_group\.sync\.aligned 0;", "", WAIT),
    "one group too many on its way": ("wgmma f16", r"wait_group\.sync\.aligned 0;", "wait_group.sync.aligned 1;", WAIT),
    "two batches of copies on their way": ("flash f16 d64 wgmma causal", r"cp\.async\.wait_group 1;", "cp.async.wait_group 2;", WAIT),
    "no barrier before a warpgroup's product": ("wgmma f16", r"FRAGMENT_WAIT_BUT_LAST\(\);\s+barrier\(CLK_LOCAL_MEM_FENCE\);",
                                                "FRAGMENT_WAIT_BUT_LAST();", BARRIER),
    "the next keys where values are read": ("flash f16 d64 wgmma causal", r"COPY_KEYS\(k_next, places\.z\)", "COPY_KEYS(k_next, places.y)",
                                            BARRIER + "|" + NUMBERS + "|" + WAIT),
    "swizzle of a descriptor": ("wgmma f16", r"\(ulong\)1 << 62", "(ulong)2 << 62", NUMBERS + "|outside"),
    "stride of a descriptor": ("flash bf16 d128 wgmma", r"8 \* pitch >> 4", "4 * pitch >> 4",
                             "not where it should"),
    "the second 64 numbers of a row": ("flash bf16 d128 wgmma", r"\(step\) / 4 \* 1024", "(step) / 4 * 512", NUMBERS),
    "K where it is turned": ("wgmma f16", r'"\+f", "1", "0"', '"+f", "1", "1"', NUMBERS + "|outside"),
    "V where it is not": ("wgmma f16", r'"\+f", "1", "1"', '"+f", "1", "0"', NUMBERS + "|outside"),
    "a step of K": ("wgmma f16", r"\(step\) % 4 \* 32", "(step) % 4 * 16", NUMBERS),
    "a tile at no multiple of 1024": ("wgmma f16", r"aligned\(1024\)", "aligned(512)", NUMBERS),
}


def failure_of(check, device):
    """Returns None, or the message of a failure."""
    try:
        check(device)
    except (Wrong, PtxError) as e:
        return str(e)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default="", metavar="PATTERN", help="those cases and what breaks them alone")
    parser.add_argument("--share", default=1, type=int, metavar="N", help="one in N of the cases, by their names")
    asked = parser.parse_args()
    chosen = re.compile(asked.names)
    clang = shutil.which("clang") or shutil.which("clang-14")
    if not clang:
        print("no clang")
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: check for name, check in CASES.items()
                 if chosen.search(name) and zlib.crc32(name.encode()) % asked.share == 0}
        for name, check in cases.items():
            for apart in (False, True):
                if not apart or name in ("probe f16", "flash f16 d64"):
                    why = failure_of(check, Ptx(clang, folder, apart=apart))
                    faults += [f"{name}{', each warp by itself' if apart else ''}: {why}"] if why else []
        broken = {what: how for what, how in BROKEN.items() if how[0] in cases}
        for what, (name, old, new, says) in broken.items():
            why = failure_of(CASES[name], Ptx(clang, folder, (old, new)))
            if why is None or not re.search(says, why):
                faults.append(f"{what}: broken in {name}, and {why or 'not seen'}")
    print("\n".join(faults) if faults else f"counted: {len(cases)} kernels run as PTX, {len(broken)} things broken and seen")
    return 1 if faults or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
