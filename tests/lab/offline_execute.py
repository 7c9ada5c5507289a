"""Kernels with a matrix engine as compiled for AMD, executed instruction by instruction by
amd_machine.py and compared with double precision. This checks that the compiled loads, addresses,
exchanges, masks and stores fit the engine's layouts, including tails of rows and keys. Attention
values are random, or the numbers of their keys or channels. Then parts of the kernels are broken,
and the checks must notice."""
import glob
import os
import re
import sys
import tempfile

TESTS = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(TESTS))
sys.path[:0] = [TESTS, f"{TOP}/cl"]
import embed  # noqa: E402
from amd_engine import known  # noqa: E402
from amd_machine import Kernel, launch  # noqa: E402
from fragment_calls import BF16, F16, F32, I8, Call, Probe, Product, Wrong, changed  # noqa: E402
from ptx_text import PtxError  # noqa: E402

WMMA, MFMA = 5, 7  # MATRIX_ENGINE
# For each target: the engine, the work-items of its warp and the rows of its fragment (args/args.h,
# args/fragments.h).
ENGINES = {"gfx90a": (MFMA, 64, 32), "gfx942": (MFMA, 64, 32), "gfx1100": (WMMA, 32, 16), "gfx1201": (WMMA, 32, 16)}


class Amd:
    """A device of fragment_calls.py. `change`, a pattern and its replacement, may change a kernel's
    text first."""

    def __init__(self, compiler, target, folder, change=None):
        self.compiler, self.target, self.folder, self.change = compiler, target, folder, change
        self.engine, self.items, self.rows = ENGINES[target]

    def run(self, kernel, options, items, groups, arguments, buffers):
        text = changed(embed.flatten(glob.glob(f"{TOP}/cl/*/{kernel}.cl")[0], set()), self.change)
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            self.compiler.compile(own, kernel, text, f"-cl-std=CL1.2 {options}", items)
            with open(f"{own}/a.s", encoding="utf-8") as f:
                code = f.read()
        launch(Kernel(code, kernel, self.target, known), items, groups, arguments, buffers)


# Description and call: tails of rows and of keys; rows that see nothing; query heads that share
# keys.
D64, D128, CHUNK = "-DALIGNED_VECTORS=2 -DTILE_KV=64", "-DALIGNED_VECTORS=2 -DTILE_KV=32", "-DALIGNED_VECTORS=2 -DCHUNK=32"
CASES = {
    "probe_fragments f16": Probe(F16),
    "probe_fragments bf16": Probe(BF16),
    "flash_fragments f16, D = 64": Call(F16, 64, 64, 70, 70, D64),
    "flash_fragments f16, D = 64, causal, no key for some rows": Call(F16, 64, 64, 70, 65, D64, causal=-5, values="keys"),
    "flash_fragments f16, D = 64, causal, an infinity and a NaN": Call(F16, 64, 64, 33, 70, D64, causal=37, kv_heads=2,
                                                                       strange=[(45, 3, float("inf")), (69, 63, float("nan"))]),
    "flash_fragments f16, D = 40, values of 24": Call(F16, 40, 24, 33, 40, D64, causal=7, batch=2, heads=1),
    "flash_fragments f16, D = 64, keys and values of int8": Call(F16, 64, 40, 33, 70, D128, causal=37, kv_heads=2, cache=I8),
    "flash_fragments f16, D = 64, two fragments of rows": Call(F16, 64, 64, 70, 70, D128, (2, 2), causal=-5),
    "flash_fragments bf16, D = 40, numbers one by one": Call(BF16, 40, 40, 33, 70, "-DALIGNED_VECTORS=0 -DTILE_KV=32", (2, 1), room=3),
    "flash_fragments f16, D = 128, a window of 20 keys": Call(F16, 128, 128, 33, 70, D128, causal=37, window=20, values="channels"),
    "flash_fragments bf16, D = 64, causal": Call(BF16, 64, 64, 33, 70, D64, causal=37),
    "flash_fragments bf16, D = 64, a window of 20 keys": Call(BF16, 64, 64, 33, 70, D64, causal=37, window=20, values="channels"),
    "flash_fragments bf16, D = 128, causal, no key for some rows": Call(BF16, 128, 128, 70, 65, D128, causal=-5, values="keys"),
    "decode_fragments f16, D = 64, causal, 10 heads a key": Call(F16, 64, 64, 3, 70, D128, (2, 1), 2, causal=66, heads=20,
                                                                 kernel="decode_fragments"),
    "decode_fragments bf16, D = 64, 16 heads a key": Call(BF16, 64, 64, 1, 45, D128, (2, 1), heads=16, kernel="decode_fragments"),
    "linear_fragments f16": Product(F16, 35, 71, 103, CHUNK, 1, room=1),
    "linear_fragments bf16": Product(BF16, 33, 130, 72, CHUNK, tile=64),
    "linear_fragments bf16, numbers one by one": Product(BF16, 5, 9, 41, "-DALIGNED_VECTORS=0 -DCHUNK=64", 1, room=3),
    "linear_fragments f32, three terms": Product(F32, 21, 40, 103, CHUNK + " -DBF16_TERMS=3", 1, room=1),
}

# Deliberate errors: the targets, the case, a pattern of the kernel's text, its replacement, and a
# pattern of the expected message.
FIRST, CAUSAL = "flash_fragments f16, D = 64", "flash_fragments f16, D = 64, causal, no key for some rows"
NUMBERS, BARRIER = "nmse|lse|not where it should", "since the last barrier"
EACH, ONE = tuple(ENGINES), ("gfx1100",)
BROKEN = {
    "places of WMMA's sums": (("gfx1100",), CAUSAL, r"\(16 \* \(part\) \+ 2 \* \(e\) \+ FRAGMENT_HALF\)",
                              "(16 * (part) + 8 * FRAGMENT_HALF + (e))", NUMBERS),
    "places of WMMA's sums on gfx12": (("gfx1201",), CAUSAL, r"\(16 \* \(part\) \+ 8 \* FRAGMENT_HALF \+ \(e\)\)",
                                       "(16 * (part) + 2 * (e) + FRAGMENT_HALF)", NUMBERS),
    "numbers of a half on gfx12": (("gfx1201",), FIRST, r"\(8 \* FRAGMENT_HALF\)", "(8 - 8 * FRAGMENT_HALF)", NUMBERS),
    "places of MFMA's sums": (("gfx90a", "gfx942"), CAUSAL, r"8 \* \(\(e\) / 4\) \+ 4 \* FRAGMENT_HALF",
                              "4 * ((e) / 4) + 16 * FRAGMENT_HALF", NUMBERS),
    "the other half's keys": (("gfx1100",), FIRST, r"even_ = FRAGMENT_HALF \?", "even_ = !FRAGMENT_HALF ?", NUMBERS),
    "the partner of a row": (("gfx1100", "gfx1201"), FIRST, "0x401f", "0x201f", NUMBERS),
    "the partner of a row on MFMA": (("gfx90a", "gfx942"), FIRST, r"get_local_id\(0\) \^ 32", "get_local_id(0) ^ 16", NUMBERS),
    "an exchange that is moved behind a branch": (("gfx1100", "gfx1201"), "probe_fragments f16", r"__builtin_amdgcn_ds_swizzle\(\(int\)x, 0x401f\)",
                                                  "__builtin_amdgcn_permlanex16((int)x, (int)x, 0x76543210, 0xfedcba98, true, false)",
                                                  "another product"),
    "channels of values": (EACH, FIRST, r"FRAGMENT_VALUE_PLACE\(8 \* \(piece\), row\)",
                           "FRAGMENT_VALUE_PLACE(8 * (piece), (row) ^ 1)", NUMBERS),
    "no barrier before the keys": (EACH, FIRST, r"barrier\(CLK_LOCAL_MEM_FENCE\); // keys", "// keys", BARRIER),
    "no barrier before the values": (EACH, FIRST, r"barrier\(CLK_LOCAL_MEM_FENCE\); // values", "// values", BARRIER),
    "a wrong scale": (ONE, FIRST, r"folded \? scale \* LOG2E", "folded ? scale * 1.44f", NUMBERS),
    "keys past the end": (ONE, FIRST, r"min\(j, end - 1\)\), d, width, side", "j), d, width, side", "bytes at .* of buffer"),
    "rows past the end": (ONE, FIRST, r"i < end \? HEAD_DIM_V : 0", "HEAD_DIM_V", "bytes at .* of buffer"),
    "the last key that a row sees": (ONE, CAUSAL, r"j < first \|\| j >= last\)", "j < first || j > last)", NUMBERS),
    "rows of another head": (("gfx1201",), "decode_fragments f16, D = 64, causal, 10 heads a key", r"a\)->group \+ \(i\) % \(a\)->group",
                             "a)->group + (i) % ((a)->group - 1)", NUMBERS),
    "no barrier before a chunk": (("gfx942", "gfx1201"), "linear_fragments f16", r"barrier\(CLK_LOCAL_MEM_FENCE\); // the chunk", "// the chunk",
                                  BARRIER),
    "terms of x in another order": (("gfx90a", "gfx1201"), "linear_fragments f32, three terms", r"X_BYTES \* i", "X_BYTES * (i == 0 ? 0 : 3 - i)",
                                    NUMBERS),
    "columns of a projection": (("gfx942",), "linear_fragments bf16", r"FRAGMENT_COLUMN\(y, z \+ u\)",
                                "FRAGMENT_COLUMN(y, z + 1 - u)", NUMBERS),
    "numbers past the reduction": (("gfx942",), "linear_fragments bf16", r"2 \* clamp\(a->reduction - \(d\), 0, 8\)", "16",
                                   "bytes at .* of buffer|" + NUMBERS),
    "an instruction that is not known": (ONE, FIRST, r"__builtin_amdgcn_exp2f\(x\)", "__builtin_amdgcn_sinf(x)", "v_sin_f32.*no such instruction is known"),
}


def seen(device, case, says):
    """Returns None, or a message if the error was not noticed."""
    try:
        CASES[case].check(device)
    except (Wrong, PtxError) as e:
        return None if re.search(says, str(e)) else str(e)
    return "not seen"


def execute(compiler, target, folder):
    """Returns ({kernel and type: largest mean squared error, "lse": largest error}, number of
    cases, number of noticed errors)."""
    errors, most = {}, 0.0
    for case, call in CASES.items():
        try:
            nmse, lse = call.check(Amd(compiler, target, folder))
        except (Wrong, PtxError) as e:
            raise Wrong(f"{case}, executed: {e}") from e
        if nmse is not None:
            name = case.split(",")[0]
            errors[name], most = max(nmse, errors.get(name, 0.0)), max(most, lse or 0.0)
    broken = {what: how for what, (targets, *how) in BROKEN.items() if target in targets}
    for what, (case, old, new, says) in broken.items():
        why = seen(Amd(compiler, target, folder, (old, new)), case, says)
        if why:
            raise Wrong(f"{what}: broken in {case}, and {why}")
    return dict(errors, lse=most), len(CASES), len(broken)
