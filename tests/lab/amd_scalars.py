"""Scalar instructions of AMD's chips, by name, and scalar loads: functions of a wave
(amd_machine.py). Numbers are Python integers."""
import re

import numpy as np

from amd_machine import EXEC, NULL, constant, register_of
from ptx_plain import multiply_add
from ptx_text import PtxError

WORD = 0xffffffff
COMPARES = {"eq": lambda x, y: x == y, "lg": lambda x, y: x != y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
            "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "ngt": lambda x, y: not x > y, "nlt": lambda x, y: not x < y,
            "nge": lambda x, y: not x >= y, "nle": lambda x, y: not x <= y, "neq": lambda x, y: x != y}


def signed(x, bits=32):
    return x - (1 << bits) if x >> bits - 1 & 1 else x


def real(x):
    return np.uint32(x).view(np.float32)


def bits(x):
    return int(np.float32(x).view(np.uint32))


def source(word, count):
    """Returns a function of a wave that reads 32 or 64 bits."""
    found = register_of(word)
    if found:
        if found[0] != "s" or found[2] != count and found[1] != NULL:
            raise PtxError(f"{word} is no scalar of {32 * count} bits")
        place = found[1]
        return lambda w: w.get(place, count)
    value = constant(word) & (1 << 32 * count) - 1
    return lambda w: value


def target(word, count):
    found = register_of(word)
    if not found or found[0] != "s" or found[2] != count:
        raise PtxError(f"{word} is no scalar of {32 * count} bits")
    place = found[1]
    return lambda w, value: w.put(place, count, value)


def to_unsigned(x):
    return 0 if np.isnan(x) else int(min(max(float(x), 0.0), float(WORD)))


# Each instruction: bits of the result and of the operands, the computation, and the condition code
# from (result, operands), or nothing.
def nonzero(z, *_):
    return z != 0


def add_overflows(z, x, y):
    return signed(x) + signed(y) != signed(z)


def subtract_overflows(z, x, y):
    return signed(x) - signed(y) != signed(z)


SCALARS = {
    "s_mov_b32": (1, (1,), lambda x: x, None), "s_mov_b64": (2, (2,), lambda x: x, None),
    "s_movk_i32": (1, (1,), lambda x: signed(x & 0xffff, 16), None),
    "s_add_u32 s_add_co_u32": (1, (1, 1), lambda x, y: x + y, lambda z, x, y: x + y > WORD),
    "s_sub_u32 s_sub_co_u32": (1, (1, 1), lambda x, y: x - y, lambda z, x, y: x < y),
    "s_add_i32 s_add_co_i32": (1, (1, 1), lambda x, y: x + y, add_overflows),
    "s_sub_i32 s_sub_co_i32": (1, (1, 1), lambda x, y: x - y, subtract_overflows),
    "s_add_nc_u64": (2, (2, 2), lambda x, y: x + y, None), "s_sub_nc_u64": (2, (2, 2), lambda x, y: x - y, None),
    "s_mul_i32": (1, (1, 1), lambda x, y: x * y, None), "s_mul_u64": (2, (2, 2), lambda x, y: x * y, None),
    "s_mul_hi_u32": (1, (1, 1), lambda x, y: x * y >> 32, None),
    "s_mul_hi_i32": (1, (1, 1), lambda x, y: signed(x) * signed(y) >> 32, None),
    "s_abs_i32": (1, (1,), lambda x: abs(signed(x)), nonzero),
    "s_brev_b32": (1, (1,), lambda x: int(f"{x:032b}"[::-1], 2), None),
    "s_lshl_b32": (1, (1, 1), lambda x, y: x << (y & 31), nonzero), "s_lshl_b64": (2, (2, 1), lambda x, y: x << (y & 63), nonzero),
    "s_lshr_b32": (1, (1, 1), lambda x, y: x >> (y & 31), nonzero), "s_lshr_b64": (2, (2, 1), lambda x, y: x >> (y & 63), nonzero),
    "s_ashr_i32": (1, (1, 1), lambda x, y: signed(x) >> (y & 31), nonzero),
    "s_min_i32": (1, (1, 1), lambda x, y: min(signed(x), signed(y)), lambda z, x, y: signed(x) < signed(y)),
    "s_max_i32": (1, (1, 1), lambda x, y: max(signed(x), signed(y)), lambda z, x, y: signed(x) > signed(y)),
    "s_min_u32": (1, (1, 1), min, lambda z, x, y: x < y), "s_max_u32": (1, (1, 1), max, lambda z, x, y: x > y),
    "s_mul_f32": (1, (1, 1), lambda x, y: bits(real(x) * real(y)), None),
    "s_add_f32": (1, (1, 1), lambda x, y: bits(real(x) + real(y)), None),
    "s_fmamk_f32": (1, (1, 1, 1), lambda x, k, y: bits(multiply_add(real(x), real(k), real(y))), None),
    "s_trunc_f32": (1, (1,), lambda x: bits(np.trunc(real(x))), None), "s_cvt_f32_u32": (1, (1,), lambda x: bits(np.float32(x)), None),
    "s_cvt_f32_i32": (1, (1,), lambda x: bits(np.float32(signed(x))), None),
    "s_cvt_u32_f32": (1, (1,), lambda x: to_unsigned(real(x)), None),
}
LOGIC = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "andn2": lambda x, y: x & ~y,
         "and_not1": lambda x, y: x & ~y, "orn2": lambda x, y: x | ~y, "or_not1": lambda x, y: x | ~y}
for op_, what_ in LOGIC.items():
    for n_ in (1, 2):
        SCALARS[f"s_{op_}_b{32 * n_}"] = (n_, (n_, n_), what_, nonzero)
for n_ in (1, 2):
    SCALARS[f"s_not_b{32 * n_}"] = (n_, (n_,), lambda x: ~x, nonzero)
SCALARS = {name: row for names, row in SCALARS.items() for name in names.split()}


def plain(ins):
    count, counts, what, condition = SCALARS[ins.name]
    if len(ins.words) != len(counts) + 1:
        raise PtxError(f"{len(ins.words)} operands, not {len(counts) + 1}")
    put, get = target(ins.words[0], count), [source(x, n) for x, n in zip(ins.words[1:], counts)]
    most = (1 << 32 * count) - 1

    def do(w):
        values = [g(w) for g in get]
        result = what(*values) & most
        if condition:
            w.scc = int(condition(result, *values))
        put(w, result)
    return do


def with_carry(ins):
    put, x, y = target(ins.words[0], 1), source(ins.words[1], 1), source(ins.words[2], 1)
    sign = -1 if "sub" in ins.name else 1

    def do(w):
        value = x(w) + sign * (y(w) + w.scc)
        w.scc = int(not 0 <= value <= WORD)
        put(w, value & WORD)
    return do


def select(ins):
    count = int(ins.name[-2:]) // 32
    put, x, y = target(ins.words[0], count), source(ins.words[1], count), source(ins.words[2], count)
    return lambda w: put(w, x(w) if w.scc else y(w))


def save_exec(ins):
    """Save the old mask, and combine it with the operand."""
    count = int(ins.name[-2:]) // 32
    put, x, what = target(ins.words[0], count), source(ins.words[1], count), LOGIC[re.match(r"s_(\w+)_saveexec", ins.name)[1]]

    def do(w):
        before, given = w.get(EXEC, count), x(w)
        now = what(given, before) & (1 << 32 * count) - 1
        put(w, before)
        w.put(EXEC, count, now)
        w.scc = int(now != 0)
    return do


def compare(ins):
    _, form, op, kind = ins.name.split("_")
    count = int(kind[1:]) // 32
    x, y, what = source(ins.words[0], count), source(ins.words[1], count), COMPARES[op]
    if form == "cmpk":  # with a 16-bit constant
        short = constant(ins.words[1]) & 0xffff
        y = lambda w: signed(short, 16) & WORD if kind[0] == "i" else short  # noqa: E731
    number = {"i": signed, "u": lambda n: n, "f": real}[kind[0]]

    def do(w):
        w.scc = int(what(number(x(w)), number(y(w))))
    return do


def test_bit(ins):
    x, y, wanted = source(ins.words[0], 1), source(ins.words[1], 1), int(ins.name[len("s_bitcmp")])

    def do(w):
        w.scc = int(x(w) >> (y(w) & 31) & 1 == wanted)
    return do


# Scalar loads: the count and the type of numbers.
LOADS = {"dword": (1, "u4"), "b32": (1, "u4"), "dwordx2": (2, "u4"), "b64": (2, "u4"), "b96": (3, "u4"), "dwordx4": (4, "u4"), "b128": (4, "u4"),
         "dwordx8": (8, "u4"), "b256": (8, "u4"), "dwordx16": (16, "u4"), "b512": (16, "u4"), "u16": (1, "u2"), "i16": (1, "i2"),
         "u8": (1, "u1"), "i8": (1, "i1")}


def load(ins):
    count, kind = LOADS[ins.name[len("s_load_"):]]
    put, base, offset, size = target(ins.words[0], count), source(ins.words[1], 2), source(ins.words[2], 1), int(kind[1])

    def do(w):
        at = np.uint64(base(w) + signed(offset(w))) + np.arange(0, size * count, size).astype(np.uint64)
        words = w.buffers.load(at, size, "scalars").view(kind)[:, 0]
        put(w, sum((int(x) & WORD) << 32 * k for k, x in enumerate(words)))
    return do


def scalar(ins):
    """Returns the function of a scalar instruction."""
    name = ins.name
    if name in SCALARS:
        return plain(ins)
    for pattern, make in ((r"s_(addc|subb)_u32$|s_(add|sub)_co_ci_u32$", with_carry), (r"s_cselect_b(32|64)$", select),
                          (r"s_\w+_saveexec_b(32|64)$", save_exec), (r"s_cmp_[a-z]+_[iuf](32|64)$|s_cmpk_[a-z]+_[iu]32$", compare),
                          (r"s_bitcmp[01]_b32$", test_bit), (r"s_load_\w+$", load)):
        if re.match(pattern, name):
            return make(ins)
    raise PtxError("no such instruction is known here")
