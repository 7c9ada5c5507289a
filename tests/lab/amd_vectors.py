"""Vector instructions of AMD's chips, by name: functions of a wave (amd_machine.py), over all its
work-items at once.

Approximations are exact here, and rounded to float32. Subnormal numbers are flushed to 0 where the
chip does so.
"""
import re

import numpy as np

from amd_machine import EXEC, NULL, VCC, Instruction, constant, register_of
from amd_scalars import bits, real, scalar
from amd_scalars import source as number
from ptx_plain import flush, logarithm, multiply_add, power
from ptx_text import PtxError

LOW = np.uint64(0xffffffff)


# Operands. Kinds: u and i of 32 bits, f of float32, h of float16 in the lower half, w the lower
# half itself, U and I of 64 bits.
def raw(word):
    """The 32 bits of each work-item."""
    found = register_of(word)
    if not found:
        values = np.full(64, constant(word) & 0xffffffff, np.uint32)
        return lambda w: values[:w.lanes]
    file, n, count = found
    if count != 1:
        raise PtxError(f"{word} is more than 32 bits")
    return (lambda w: w.v[n]) if file == "v" else (lambda w: np.full(w.lanes, w.get(n, 1), np.uint32))


def raw_wide(word):
    found = register_of(word)
    if not found:
        value = constant(word)
        if not -16 <= value <= 64:
            raise PtxError(f"{word} of 64 bits is not known here")
        values = np.full(64, value & (1 << 64) - 1, np.uint64)
        return lambda w: values[:w.lanes]
    file, n, count = found
    if count != 2:
        raise PtxError(f"{word} is not 64 bits")
    if file == "v":
        return lambda w: w.v[n].astype(np.uint64) | w.v[n + 1].astype(np.uint64) << np.uint64(32)
    return lambda w: np.full(w.lanes, w.get(n, 2), np.uint64)


def half_number(x):
    return (x & np.uint32(0xffff)).astype(np.uint16).view(np.float16).astype(np.float32)


CASTS = {"u": lambda x: x, "i": lambda x: x.view(np.int32), "f": lambda x: x.view(np.float32), "h": half_number,
         "w": lambda x: x & np.uint32(0xffff)}


def selected(get, part, has_sign=False):
    """SDWA: a half or a byte of an operand, signed or unsigned, or the whole operand."""
    if part in (None, "DWORD") and not has_sign:
        return get
    size = {"WORD": 16, "BYTE": 8}[part[:-2]]
    shift, rest = np.uint32(size * int(part[-1])), np.uint32(32 - size)
    if has_sign:
        return lambda w: ((get(w) >> shift << rest).view(np.int32) >> rest.view(np.int32)).view(np.uint32)
    return lambda w: get(w) >> shift << rest >> rest


def source(word, kind, part=None):
    if kind in "UI":
        wide = raw_wide(word)
        return wide if kind == "U" else lambda w: wide(w).view(np.int64)
    if word.startswith("sext("):
        inner, cast = selected(raw(word[5:-1]), part, True), CASTS[kind]
        return lambda w: cast(inner(w))
    found = re.match(r"(-?)(\|?)(.+?)\|?$", word)
    changes = bool(found[2]) or bool(found[1]) and register_of(found[3]) is not None
    if not changes:
        get, cast = selected(raw(word), part), CASTS[kind]
        return lambda w: cast(get(w))
    if kind not in "fh":
        raise PtxError(f"a sign of {word}, which is no float")
    get, cast = selected(raw(found[3]), part), CASTS[kind]
    absolute, sign = (np.abs if found[2] else lambda x: x), (np.negative if found[1] else lambda x: x)
    return lambda w: sign(absolute(cast(get(w))))


def as_bits(x):
    if x.dtype in (np.float32, np.int32):
        return x.view(np.uint32)
    return x if x.dtype == np.uint32 else x.astype(np.uint32)


def target(ins, result, n=0):
    """Returns a function of a wave and a value that writes the result. Kinds of results: 32 bits,
    64 bits (U), float16 (h) or 16-bit integer (w). For h and w CDNA clears the other half, and RDNA
    keeps it. With k both keep it."""
    place = ins.place(n, "v")
    if result == "U":
        def put(w, x):
            w.put_vector(place, (x & LOW).astype(np.uint32))
            w.put_vector(place + 1, (x >> np.uint64(32)).astype(np.uint32))
    elif result in "hwk":
        keeps = result == "k" or not ins.chip.startswith("gfx9")

        def put(w, x):
            low = (x.astype(np.uint16) if result == "w" else x.astype(np.float16).view(np.uint16)).astype(np.uint32)
            w.put_vector(place, low | w.v[place] & np.uint32(0xffff0000) if keeps else low)
    else:
        def put(w, x):
            w.put_vector(place, as_bits(x))
    return put


def own_bits(x, n):
    return x.astype(np.int64) << 64 - n >> 64 - n


def turned_over(x):
    return sum((x >> np.uint32(n) & np.uint32(1)) << np.uint32(31 - n) for n in range(32))


def permuted(x, y, select):
    """Select bytes of (x, y), where y has the lower four."""
    both, result = x.astype(np.uint64) << np.uint64(32) | y.astype(np.uint64), 0 * x.astype(np.uint64)
    for n in range(4):
        code = (select >> np.uint32(8 * n) & np.uint32(0xff)).astype(np.uint64)
        if (code > 12).any() or ((code > 7) & (code < 12)).any():
            raise PtxError("signs of v_perm_b32 are not known here")
        byte = np.where(code == 12, np.uint64(0), both >> (code % np.uint64(8) * np.uint64(8)) & np.uint64(0xff))
        result = result | byte << np.uint64(8 * n)
    return result.astype(np.uint32)


def limited(low, high):
    def convert(x):
        whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
        return np.clip(whole, low, high).astype(np.int64)
    return convert


def two_roundings(x, y, z):
    return flush(flush(flush(x) * flush(y)) + flush(z))


def reciprocal(x):
    return flush(np.float32(1) / flush(x))


def fixed_up(q, d, n):
    """The quotient q of n / d, or its special value."""
    sign = np.signbit(d) ^ np.signbit(n)
    with_sign = lambda x: np.where(sign, -x, x).astype(np.float32)  # noqa: E731
    is_nan = np.isnan(n) | np.isnan(d) | (n == 0) & (d == 0) | np.isinf(n) & np.isinf(d)
    result = np.where((d == 0) | np.isinf(n), with_sign(np.float32(np.inf)), with_sign(np.abs(q)))
    return np.where(is_nan, np.float32(np.nan), np.where(np.isinf(d) | (n == 0), np.where(is_nan, q, with_sign(np.float32(0))), result))


SHIFT = np.uint32(31)
PLAIN = {
    "v_mov_b32": ("u", "u", lambda x: x), "v_mov_b64": ("U", "U", lambda x: x), "v_not_b32": ("u", "u", lambda x: ~x),
    "v_add_u32 v_add_nc_u32": ("u", "uu", lambda x, y: x + y), "v_sub_u32 v_sub_nc_u32": ("u", "uu", lambda x, y: x - y),
    "v_subrev_u32 v_subrev_nc_u32": ("u", "uu", lambda x, y: y - x), "v_add3_u32": ("u", "uuu", lambda x, y, z: x + y + z),
    "v_and_b32": ("u", "uu", lambda x, y: x & y), "v_or_b32": ("u", "uu", lambda x, y: x | y), "v_xor_b32": ("u", "uu", lambda x, y: x ^ y),
    "v_or3_b32": ("u", "uuu", lambda x, y, z: x | y | z), "v_and_or_b32": ("u", "uuu", lambda x, y, z: x & y | z),
    "v_lshl_or_b32": ("u", "uuu", lambda x, y, z: x << (y & SHIFT) | z), "v_lshl_add_u32": ("u", "uuu", lambda x, y, z: (x << (y & SHIFT)) + z),
    "v_add_lshl_u32": ("u", "uuu", lambda x, y, z: x + y << (z & SHIFT)),
    "v_lshl_add_u64": ("U", "UuU", lambda x, y, z: (x << (y & np.uint32(7)).astype(np.uint64)) + z),
    "v_lshlrev_b32": ("u", "uu", lambda x, y: y << (x & SHIFT)), "v_lshrrev_b32": ("u", "uu", lambda x, y: y >> (x & SHIFT)),
    "v_ashrrev_i32": ("i", "ui", lambda x, y: y >> (x & SHIFT).astype(np.int32)),
    "v_lshlrev_b64": ("U", "uU", lambda x, y: y << (x & np.uint32(63)).astype(np.uint64)),
    "v_bfe_u32": ("u", "uuu", lambda x, y, z: x >> (y & SHIFT) & (np.uint32(1) << (z & SHIFT)) - np.uint32(1)),
    "v_bfe_i32": ("i", "uuu", lambda x, y, z: own_bits(x >> (y & SHIFT), np.maximum(z & SHIFT, 1).astype(np.int64)) * (z & SHIFT != 0)),
    "v_bfrev_b32": ("u", "u", turned_over),
    "v_mul_u32_u24": ("u", "uu", lambda x, y: (x & np.uint32(0xffffff)) * (y & np.uint32(0xffffff))),
    "v_mad_u32_u24": ("u", "uuu", lambda x, y, z: (x & np.uint32(0xffffff)) * (y & np.uint32(0xffffff)) + z),
    "v_mul_i32_i24": ("i", "uu", lambda x, y: own_bits(x, 24) * own_bits(y, 24)),
    "v_mad_i32_i24": ("i", "uuu", lambda x, y, z: own_bits(x, 24) * own_bits(y, 24) + z),
    "v_mul_lo_u16": ("w", "ww", lambda x, y: x * y), "v_add_u16 v_add_nc_u16": ("w", "ww", lambda x, y: x + y),
    "v_sub_u16 v_sub_nc_u16": ("w", "ww", lambda x, y: x - y), "v_lshrrev_b16": ("w", "ww", lambda x, y: y >> (x & np.uint32(15))),
    "v_lshlrev_b16": ("w", "ww", lambda x, y: y << (x & np.uint32(15))),
    "v_mul_lo_u32": ("u", "uu", lambda x, y: x * y),
    "v_mul_hi_u32": ("u", "uu", lambda x, y: x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(32)),
    "v_min_i32": ("i", "ii", np.minimum), "v_max_i32": ("i", "ii", np.maximum),
    "v_min_u32": ("u", "uu", np.minimum), "v_max_u32": ("u", "uu", np.maximum),
    "v_min3_u32": ("u", "uuu", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
    "v_max3_u32": ("u", "uuu", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "v_perm_b32": ("u", "uuu", permuted), "v_pack_b32_f16": ("u", "ww", lambda x, y: x | y << np.uint32(16)),
    "v_add_f32": ("f", "ff", lambda x, y: x + y), "v_sub_f32": ("f", "ff", lambda x, y: x - y), "v_subrev_f32": ("f", "ff", lambda x, y: y - x),
    "v_mul_f32": ("f", "ff", lambda x, y: x * y), "v_max_f32 v_max_num_f32": ("f", "ff", np.fmax),
    "v_min_f32 v_min_num_f32": ("f", "ff", np.fmin),
    "v_max3_f32 v_max3_num_f32": ("f", "fff", lambda x, y, z: np.fmax(np.fmax(x, y), z)),
    "v_fma_f32 v_fmaak_f32 v_fmamk_f32": ("f", "fff", multiply_add),
    "v_madmk_f32": ("f", "fff", two_roundings),
    "v_exp_f32": ("f", "f", lambda x: flush(power(flush(x)))), "v_log_f32": ("f", "f", lambda x: logarithm(flush(x))),
    "v_rcp_f32 v_rcp_iflag_f32": ("f", "f", reciprocal), "v_rndne_f32": ("f", "f", np.rint), "v_trunc_f32": ("f", "f", np.trunc),
    "v_ldexp_f32": ("f", "fi", lambda x, n: np.ldexp(x.astype(np.float64), np.clip(n, -400, 400)).astype(np.float32)),
    "v_cvt_f32_u32": ("f", "u", lambda x: x.astype(np.float32)), "v_cvt_f32_i32": ("f", "i", lambda x: x.astype(np.float32)),
    "v_cvt_u32_f32": ("u", "f", limited(0, 2 ** 32 - 1)), "v_cvt_i32_f32": ("i", "f", limited(-2 ** 31, 2 ** 31 - 1)),
    "v_cvt_f16_f32": ("h", "f", lambda x: x), "v_cvt_f32_f16": ("f", "h", lambda x: x),
    "v_fma_mixlo_f16": ("k", "fff", multiply_add),  # float32, unless the operand has another type
    "v_div_fixup_f32": ("f", "fff", fixed_up),
}
PLAIN = {name: row for names, row in PLAIN.items() for name in names.split()}


def plain(ins):
    """Returns (destination, value), both functions of a wave, so that two instructions in one read
    all operands first."""
    result, kinds, what = PLAIN[ins.name]
    if len(ins.words) != len(kinds) + 1:
        raise PtxError(f"{len(ins.words)} operands, not {len(kinds) + 1}")
    if ins.notes.pop("dst_sel", "DWORD") != "DWORD" or ins.notes.pop("dst_unused", "UNUSED_PAD") != "UNUSED_PAD":
        raise PtxError("parts of a result are not known here")
    if ins.name == "v_pack_b32_f16" and not all(register_of(x) for x in ins.words):
        raise PtxError("constants of float16 are not known here")
    get = [source(x, k, ins.notes.pop(f"src{n}_sel", None)) for n, (x, k) in enumerate(zip(ins.words[1:], kinds))]
    return target(ins, result), lambda w: what(*(g(w) for g in get))


def accumulate(ins):
    own, x, y = (source(word, "f") for word in ins.words)
    what = multiply_add if ins.name == "v_fmac_f32" else two_roundings
    return target(ins, "f"), lambda w: what(x(w), y(w), own(w))


def choose(ins):
    x, y, by = source(ins.words[1], "u"), source(ins.words[2], "u"), place_of_bits(ins.words[3] if len(ins.words) > 3 else "vcc_lo")
    return target(ins, "u"), lambda w: np.where(w.bools(w.get(by, w.lanes // 32)), y(w), x(w))


def place_of_bits(word):
    found = register_of(word)
    if not found or found[0] != "s":
        raise PtxError(f"{word} is no scalar")
    return found[1]


def put_carry(w, place, carry):
    if place != NULL:
        w.put_bools(place, carry & w.mask)


def carry(ins):
    """32-bit additions and subtractions with carry."""
    op = re.match(r"v_(add|subrev|subbrev|sub|subb|addc)_co_(ci_)?u32$", ins.name)
    name, takes = op[1], bool(op[2]) or op[1] in ("addc", "subb", "subbrev")
    put, out, x, y = target(ins, "u"), place_of_bits(ins.words[1]), source(ins.words[2], "u"), source(ins.words[3], "u")
    given = place_of_bits(ins.words[4]) if takes else None

    def do(w):
        a, b = x(w).astype(np.int64), y(w).astype(np.int64)
        c = w.bools(w.get(given, w.lanes // 32)).astype(np.int64) if takes else 0
        value = a + b + c if name.startswith("add") else b - a - c if "rev" in name else a - b - c
        put(w, value & 0xffffffff)
        put_carry(w, out, (value < 0) | (value > 0xffffffff))
    return do


def multiply_wide(ins):
    put, out, x, y, z = target(ins, "U"), place_of_bits(ins.words[1]), *(source(a, k) for a, k in zip(ins.words[2:], "uuU"))

    def do(w):
        more = z(w)
        value = x(w).astype(np.uint64) * y(w).astype(np.uint64) + more
        put(w, value)
        put_carry(w, out, value < more)
    return do


COMPARES = {"lt": lambda x, y: x < y, "eq": lambda x, y: x == y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
            "lg": lambda x, y: (x < y) | (x > y), "ge": lambda x, y: x >= y, "o": lambda x, y: (x == x) & (y == y),
            "u": lambda x, y: (x != x) | (y != y), "nge": lambda x, y: ~(x >= y), "nlg": lambda x, y: ~((x < y) | (x > y)),
            "ngt": lambda x, y: ~(x > y), "nle": lambda x, y: ~(x <= y), "neq": lambda x, y: x != y, "nlt": lambda x, y: ~(x < y),
            "ne": lambda x, y: x != y}


def in_class(x, classes):
    """Class bits 2 to 9: -inf, -normal, -subnormal, -0, and then 0 to inf. Bits 0 and 1: NaN."""
    size, negative = np.abs(x), np.signbit(x)
    bit = np.where(size == 0, 0, np.where(size < np.float32(2.0 ** -126), 1, np.where(np.isinf(x), 3, 2)))
    bit = np.where(negative, 5 - bit, 6 + bit).astype(np.uint32)
    quiet = x.view(np.uint32) >> np.uint32(22) & np.uint32(1)
    return (classes >> np.where(np.isnan(x), quiet, bit) & np.uint32(1)) != 0


def compare(ins):
    _, op, kind = re.match(r"v_(cmpx?)_(\w+)_(\w\d\d)$", ins.name).groups()
    kind = {"f32": "f", "u32": "u", "i32": "i", "u64": "U", "i64": "I", "u16": "w"}[kind]
    only_exec = ins.name.startswith("v_cmpx")
    if only_exec and ins.chip.startswith("gfx9"):
        raise PtxError("what v_cmpx does beside EXEC is not known here")
    out = EXEC if only_exec else place_of_bits(ins.words[0])
    words = ins.words if only_exec else ins.words[1:]
    parts = [ins.notes.pop(f"src{n}_sel", None) for n in (0, 1)]
    x, y = source(words[0], kind, parts[0]), source(words[1], "u" if op == "class" else kind, parts[1])
    what = in_class if op == "class" else COMPARES[op]
    if (op == "class" or op in ("o", "u") or op[0] == "n" and op != "ne") and kind != "f":
        raise PtxError("only floats are compared so")
    return lambda w: put_carry(w, out, what(x(w), y(w)))


def exponent(x):
    return (np.abs(x).view(np.uint32) >> np.uint32(23)).astype(np.int64)


def scale_for_division(ins):
    """The number is not scaled if neither operand nor the quotient is near the limits of float32.
    """
    put, out, x, d, n = target(ins, "f"), place_of_bits(ins.words[1]), *(source(a, "f") for a in ins.words[2:])

    def do(w):
        down, up = d(w), n(w)
        zero, apart = (down == 0) | (up == 0), exponent(up) - exponent(down)
        strange = (exponent(down) == 0) | (apart >= 96) | (exponent(down) >= 253) | (apart <= -126) | (exponent(up) <= 23)
        if (strange & ~zero & w.mask).any():
            raise PtxError("numbers that v_div_scale_f32 scales are not known here")
        put(w, np.where(zero, np.float32(np.nan), x(w)))
        put_carry(w, out, np.zeros(w.lanes, bool))
    return do


def finish_division(ins):
    put, x, y, z = target(ins, "f"), *(source(a, "f") for a in ins.words[1:])

    def do(w):
        if (w.bools(w.get(VCC, w.lanes // 32)) & w.mask).any():
            raise PtxError("scaled numbers of v_div_fmas_f32 are not known here")
        put(w, multiply_add(x(w), y(w), z(w)))
    return do


def choices(ins, name, count, given):
    text = ins.notes.pop(name, None)
    return [int(x) for x in text.strip("[]").split(",")] if text else [given] * count


def half_of(word, half):
    """One register of a pair. For a constant, both halves are the same."""
    file, n, count = register_of(word) or ("", 0, 0)
    if not file and half == 0:
        return word
    if count != 2 or file == "s" and n >= VCC:
        raise PtxError("packed operands are pairs of registers here")
    return f"{file}{n + half}"


def packed(ins):
    """Two float32 operations at once: which of an operand's two numbers each result uses, and their
    signs."""
    what, count = {"v_pk_mul_f32": (lambda x, y: x * y, 2), "v_pk_add_f32": (lambda x, y: x + y, 2), "v_pk_fma_f32": (multiply_add, 3)}[ins.name]
    place = ins.place(0, "v")
    if len(ins.words) != count + 1:
        raise PtxError(f"{len(ins.words)} operands, not {count + 1}")
    halves = [(choices(ins, "op_sel", count, 0), choices(ins, "neg_lo", count, 0)),
              (choices(ins, "op_sel_hi", count, 1), choices(ins, "neg_hi", count, 0))]
    get = [[source("-" * n + half_of(x, s), "f") for x, s, n in zip(ins.words[1:], *half)] for half in halves]

    def do(w):
        for k, x in enumerate([what(*(g(w) for g in half)) for half in get]):
            w.put_vector(place + k, as_bits(x))
    return do


def packed_halves(ins):
    """Two 16-bit operations at once."""
    put, (x, y) = target(ins, "u"), (raw(word) for word in ins.words[1:])
    parts = list(zip(choices(ins, "op_sel", 2, 0), choices(ins, "op_sel_hi", 2, 1)))

    def do(w):
        (a, b), (c, d) = ([v >> np.uint32(16 * s) & np.uint32(0xffff) for s in part] for v, part in zip((x(w), y(w)), parts))
        put(w, a * c & np.uint32(0xffff) | b * d << np.uint32(16))
    return do


def packed_move(ins):
    place, select = ins.place(0, "v"), choices(ins, "op_sel", 2, 0)
    get = [raw(x if register_of(x) is None else half_of(x, s)) for s, x in zip(select, ins.words[1:])]

    def do(w):
        for k, x in enumerate([g(w).copy() for g in get]):
            w.put_vector(place + k, x)
    return do


def read_lane(ins):
    out, n = place_of_bits(ins.words[0]), ins.place(1, "v")
    if ins.name == "v_readfirstlane_b32":
        return lambda w: w.put(out, 1, int(w.v[n][np.argmax(w.mask)]))
    lane = number(ins.words[2], 1)
    return lambda w: w.put(out, 1, int(w.v[n][lane(w) % w.lanes]))


def write_lane(ins):
    n, x, lane = ins.place(0, "v"), number(ins.words[1], 1), number(ins.words[2], 1)

    def do(w):
        w.v[n][lane(w) % w.lanes] = x(w)
    return do


def permute_rows(ins):
    """Each work-item reads from the other sixteen of its 32. Four bits of a 64-bit number select
    the work-item."""
    put, n, low, high = target(ins, "u"), ins.place(1, "v"), number(ins.words[2], 1), number(ins.words[3], 1)
    from_all = choices(ins, "op_sel", 2, 0)[0] == 1

    def do(w):
        lane = np.arange(w.lanes)
        picks = low(w) | high(w) << 32
        other = (lane // 16 ^ 1) * 16 + np.array([picks >> 4 * k & 15 for k in range(16)])[lane % 16]
        if not from_all and not w.mask[other][w.mask].all():
            raise PtxError("takes a word of a work-item that does not take part")
        put(w, w.v[n][other])
    return do


def scalar_reciprocal(ins):
    out, x = place_of_bits(ins.words[0]), place_of_bits(ins.words[1])
    return lambda w: w.put(out, 1, bits(reciprocal(real(w.get(x, 1)))))


OTHERS = [(r"v_(cmpx?)_", compare), (r"v_(add|addc|sub|subb|subrev|subbrev)_co_(ci_)?u32$", carry), (r"v_mad_(co_)?u64_u32$", multiply_wide),
          (r"v_div_scale_f32$", scale_for_division), (r"v_div_fmas_f32$", finish_division), (r"v_pk_(mul|add|fma)_f32$", packed),
          (r"v_pk_mov_b32$", packed_move), (r"v_pk_mul_lo_u16$", packed_halves), (r"v_read(first)?lane_b32$", read_lane), (r"v_writelane_b32$", write_lane),
          (r"v_permlanex16_b32$", permute_rows), (r"v_s_rcp_f32$", scalar_reciprocal)]


PAIRED = {"v_fmac_f32": accumulate, "v_mac_f32": accumulate, "v_cndmask_b32": choose}


def value_of(ins):
    if ins.name in PLAIN:
        return plain(ins)
    return PAIRED[ins.name](ins)


def both(texts, chip):
    """Two instructions in one. The second reads the values from before the first."""
    parts = []
    for text in texts:
        ins = Instruction(text.replace("v_dual_", "v_"), chip)
        parts.append(value_of(ins))
        if ins.notes:
            raise PtxError(f"{ins.notes} is not known here")

    def do(w):
        for put, x in [(put, np.array(value(w))) for put, value in parts]:
            put(w, x)
    return do


def one(ins):
    if ins.name in PLAIN or ins.name in PAIRED:
        put, value = value_of(ins)
        return lambda w: put(w, value(w))
    for pattern, make in OTHERS:
        if re.match(pattern, ins.name):
            return make(ins)
    raise PtxError("no such instruction is known here")


def vector_or_scalar(text, chip, others):
    """Returns the function of an instruction. Other instructions match a pattern of names, which
    has a function that creates theirs."""
    if " :: " in text:
        return both(text.split(" :: "), chip)
    ins = Instruction(text, chip)
    ins.name = re.sub(r"_(e32|e64|sdwa)$", "", ins.name)
    made = next((make for pattern, make in others if re.match(pattern, ins.name)), scalar if ins.name.startswith("s_") else one)
    what = made(ins)
    if ins.notes:
        raise PtxError(f"{ins.notes} is not known here")
    return what
