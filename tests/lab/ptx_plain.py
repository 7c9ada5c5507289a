"""Instructions of one work-item, by their complete names. [PTX ISA], chapter "Instruction Set":
"Integer Arithmetic Instructions", "Floating Point Instructions", "Comparison and Selection
Instructions", "Logic and Shift Instructions", "Data Movement and Conversion Instructions".
Approximations are exact here, and rounded to float32."""
import numpy as np

from ptx_machine import TYPES, operands_of
from ptx_memory import LOCAL_WINDOW, SHARED_WINDOW
from ptx_text import PtxError

PLAIN = {}
INTEGERS = [f"{k}{b}" for k in "su" for b in (16, 32, 64)]
SIGNED, BITS = [f"s{b}" for b in (16, 32, 64)], [f"b{b}" for b in (16, 32, 64)]


def computes(names, sources, what):
    """Define `names`, each ending with a type: one result of operands with the types `sources`,
    where None is the name's type."""
    for name in names:
        kind = name.split(".")[-1]
        PLAIN[name] = lambda m, ins, kind=kind: apply(m, ins, [s or kind for s in sources], what)


def apply(m, ins, kinds, what):
    if len(ins.operands) != len(kinds) + 1:
        raise PtxError(f"{len(ins.operands)} operands, not {len(kinds) + 1}")
    put, get = m.writer(ins.operands[0]), [m.reader(o, k) for o, k in zip(ins.operands[1:], kinds)]
    if len(get) == 1:
        one, = get
        return lambda mask: put(what(one()), mask)
    if len(get) == 2:
        one, two = get
        return lambda mask: put(what(one(), two()), mask)
    return lambda mask: put(what(*(g() for g in get)), mask)


def each(name, kinds):
    return [f"{name}.{k}" for k in kinds]


def wide(x):
    return x.astype(np.dtype(f"{x.dtype.kind}{2 * x.dtype.itemsize}"))


def divide(a, b):
    """Rounds towards 0. Division by 0 is unspecified."""
    b = np.where(b == 0, 1, b).astype(a.dtype)
    return (a - np.fmod(a, b)) // b


def field(a, begin, count):
    """`count` bits starting with bit `begin`. For a signed number the last of them is the sign
    ([PTX ISA] "bfe")."""
    begin, count = begin.astype(np.int64) & 255, np.minimum(count.astype(np.int64) & 255, 32)
    x = a.astype(np.int64) >> np.minimum(begin, 63) & (1 << count) - 1
    negative = (a.dtype.kind == "i") & (count > 0) & (x >> np.maximum(count - 1, 0) & 1 == 1)
    return np.where(negative, x - (1 << count), x).astype(a.dtype)


def dot_four(a, b, c):
    """c + the products of the four signed bytes of a and b."""
    return c + sum((a << n).view(np.int32) // (1 << 24) * ((b << n).view(np.int32) // (1 << 24)) for n in np.uint32([0, 8, 16, 24]))


def high(a, b):
    return (wide(a) * wide(b) >> (8 * a.dtype.itemsize)).astype(a.dtype)


def left(a, n):
    bits = 8 * a.dtype.itemsize
    return np.where(n < bits, a << np.minimum(n, bits - 1).astype(a.dtype), a.dtype.type(0)).astype(a.dtype)


def right(a, n):
    bits = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(n, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(n < bits, shifted, a.dtype.type(0)).astype(a.dtype)


def extract(a, at, count):
    """bfe of unsigned numbers."""
    at, count = at & np.uint32(0xff), np.minimum(count & np.uint32(0xff), 63)
    return (right(a.astype(np.uint64), at) & ((np.uint64(1) << count.astype(np.uint64)) - np.uint64(1))).astype(a.dtype)


def extract_signed(a, at, count):
    """bfe of signed numbers: the sign is the field's highest bit, or that of a if the field extends
    above it."""
    at, count = at & np.uint32(0xff), np.minimum(count & np.uint32(0xff), 63)
    above = (np.uint32(64) - count).astype(np.int64) % 64
    field = right(a.astype(np.int64), at)
    return np.where(count > 0, field << above >> above, 0).astype(a.dtype)


def multiply_add_odd(a, b, c):
    """The product is exact in double precision. The sum is rounded to odd, so that rounding it to
    float32 is the same as rounding the exact sum."""
    p, c = a.astype(np.float64) * b, c.astype(np.float64)
    s = p + c
    back = s - p
    lost = (p - (s - back)) + (c - back)
    even = (s.view(np.int64) & 1) == 0
    return np.where((lost != 0) & np.isfinite(s) & np.isfinite(lost) & even, np.nextafter(s, np.where(lost > 0, np.inf, -np.inf)), s)


def multiply_add(a, b, c):
    return multiply_add_odd(a, b, c).astype(np.float32)


def multiply_add_up(a, b, c):
    """Rounded up."""
    exact = multiply_add_odd(a, b, c)
    nearest = exact.astype(np.float32)
    return np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)


def flush(x):
    """.ftz: a subnormal number becomes 0 with its sign."""
    return np.where(np.abs(x) < np.float32(2.0 ** -126), np.copysign(np.float32(0), x), x).astype(np.float32)


def in_double(what):
    return lambda x: what(x.astype(np.float64)).astype(np.float32)


power, logarithm = in_double(np.exp2), in_double(np.log2)

computes(each("add", INTEGERS), [None] * 2, np.add)
computes(each("sub", INTEGERS), [None] * 2, np.subtract)
computes(each("mul.lo", INTEGERS), [None] * 2, np.multiply)
computes(each("mul.hi", ["s32", "u32", "s16", "u16"]), [None] * 2, high)
computes(each("mul.wide", ["s16", "u16", "s32", "u32"]), [None] * 2, lambda a, b: wide(a) * wide(b))
computes(each("mad.lo", INTEGERS), [None] * 3, lambda a, b, c: a * b + c)
for k in ("s32", "u32"):
    PLAIN[f"mad.wide.{k}"] = lambda m, ins, k=k: apply(m, ins, [k, k, f"{k[0]}64"], lambda a, b, c: wide(a) * wide(b) + c)
computes(["dp4a.s32.s32"], ["u32", "u32", "s32"], dot_four)
computes(each("div", INTEGERS), [None] * 2, divide)
computes(each("rem", INTEGERS), [None] * 2, lambda a, b: np.fmod(a, np.where(b == 0, 1, b).astype(a.dtype)))
computes(each("min", INTEGERS), [None] * 2, np.minimum)
computes(each("max", INTEGERS), [None] * 2, np.maximum)
computes(each("abs", SIGNED), [None], np.abs)
computes(each("neg", SIGNED), [None], np.negative)
computes(["bfe.u32", "bfe.u64"], [None, "u32", "u32"], extract)
computes(["bfe.s32", "bfe.s64"], [None, "u32", "u32"], extract_signed)
computes(each("and", BITS + ["pred"]), [None] * 2, np.bitwise_and)
computes(each("or", BITS + ["pred"]), [None] * 2, np.bitwise_or)
computes(each("xor", BITS + ["pred"]), [None] * 2, np.bitwise_xor)
computes(each("not", BITS + ["pred"]), [None], np.bitwise_not)
computes(each("shl", BITS), [None, "u32"], left)
computes(each("shr", INTEGERS + BITS), [None, "u32"], right)
computes(["bfe.s32", "bfe.u32"], [None, "u32", "u32"], field)
computes(["add.f32", "add.rn.f32"], [None] * 2, np.add)
computes(["sub.f32", "sub.rn.f32"], [None] * 2, np.subtract)
computes(["mul.f32", "mul.rn.f32"], [None] * 2, np.multiply)
computes(["div.rn.f32"], [None] * 2, np.divide)
computes(["fma.rn.f32"], [None] * 3, multiply_add)
computes(["fma.rp.f32"], [None] * 3, multiply_add_up)
computes(["neg.f32"], [None], np.negative)
computes(["abs.f32"], [None], np.abs)
computes(["min.f32"], [None] * 2, np.fmin)  # if one is NaN, the result is the other
computes(["max.f32"], [None] * 2, np.fmax)
computes(["max.NaN.f32"], [None] * 2, np.maximum)
computes(["sqrt.rn.f32"], [None], in_double(np.sqrt))
computes(["rcp.rn.f32"], [None], lambda x: np.float32(1) / x)
computes(["ex2.approx.f32"], [None], power)
computes(["ex2.approx.ftz.f32"], [None], lambda x: flush(power(flush(x))))
computes(["lg2.approx.f32"], [None], logarithm)
computes(each("mov", BITS + INTEGERS + ["f32", "pred"]), [None], lambda x: x)
for k in BITS + INTEGERS + ["f32", "f16"]:
    PLAIN[f"selp.{k}"] = lambda m, ins, k=k: apply(m, ins, [k, k, "pred"], lambda a, b, p: np.where(p, a, b))

ORDERED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
for test, compares in ORDERED.items():
    computes(each(f"setp.{test}", INTEGERS + (BITS if test in ("eq", "ne") else [])), [None] * 2, compares)
    # False if one is NaN. Tests ending in u are then true.
    computes([f"setp.{test}.f32"], [None] * 2, lambda a, b, f=compares: f(a, b) & ~np.isnan(a) & ~np.isnan(b))
    computes([f"setp.{test}u.f32"], [None] * 2, lambda a, b, f=compares: f(a, b) | np.isnan(a) | np.isnan(b))
for test, like in UNSIGNED.items():
    computes(each(f"setp.{test}", ["u16", "u32", "u64"]), [None] * 2, ORDERED[like])
computes(["setp.num.f32"], [None] * 2, lambda a, b: ~np.isnan(a) & ~np.isnan(b))
computes(["setp.nan.f32"], [None] * 2, lambda a, b: np.isnan(a) | np.isnan(b))


# Conversions: [PTX ISA] "cvt".
def to_bf16(x):
    """Round to nearest even. Every NaN becomes the NaN with all bits of the fraction set."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7fff) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7fff), rounded).astype(np.uint16)


def to_f16(x):
    return np.where(np.isnan(x), np.uint16(0x7fff), x.astype(np.float16).view(np.uint16))


def from_bf16(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def convert(to):
    return lambda x: x.astype(TYPES[to])


def pair(rounds):
    return lambda upper, lower: rounds(upper).astype(np.uint32) << np.uint32(16) | rounds(lower)


def from_float(to):
    """Rounds towards 0 and saturates. NaN becomes 0."""
    least, most = np.iinfo(TYPES[to]).min, np.iinfo(TYPES[to]).max
    return lambda x: np.clip(np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64)), least, most).astype(TYPES[to])


WHOLE = [f"{k}{b}" for k in "su" for b in (8, 16, 32, 64)]
for source in WHOLE:
    for k in WHOLE:
        PLAIN[f"cvt.{k}.{source}"] = lambda m, ins, s=source, k=k: apply(m, ins, [s], convert(k))
    PLAIN[f"cvt.rn.f32.{source}"] = lambda m, ins, s=source: apply(m, ins, [s], convert("f32"))
for k in ("s32", "u32"):
    PLAIN[f"cvt.rzi.{k}.f32"] = lambda m, ins, k=k: apply(m, ins, ["f32"], from_float(k))
computes(["cvt.rn.f16.f32"], ["f32"], to_f16)
computes(["cvt.rn.bf16.f32"], ["f32"], to_bf16)
computes(["cvt.f32.f16"], ["f16"], convert("f32"))
computes(["cvt.rn.f16x2.f32"], ["f32"] * 2, pair(to_f16))
computes(["cvt.rn.bf16x2.f32"], ["f32"] * 2, pair(to_bf16))


# mov of a vector: its parts, starting with the lowest bits.
def move(m, ins):
    to, source = ins.operands
    bits = int(ins.name.split(".b")[1])
    parts = operands_of(to if len(operands_of(to)) > 1 else source)
    if len(parts) == 1:
        return apply(m, ins, [f"b{bits}"], lambda x: x)
    kind = TYPES[f"b{bits // len(parts)}"]
    if operands_of(to) is parts:
        get, put = m.reader(source, f"b{bits}"), [m.writer(p) for p in parts]

        def unpack(mask):
            values = np.ascontiguousarray(get()).view(kind).reshape(m.lanes, -1)
            for i, p in enumerate(put):
                p(np.ascontiguousarray(values[:, i]), mask)
        return unpack
    get, put = [m.reader(p, f"b{8 * kind.itemsize}") for p in parts], m.writer(to)
    return lambda mask: put(np.stack([g() for g in get], 1).view(TYPES[f"b{bits}"])[:, 0], mask)


for k in ("b32", "b64"):
    PLAIN[f"mov.{k}"] = move


# Loads and stores: [PTX ISA] "ld", "st". Without a space the address is generic.
def space_of(m, space, addresses, what):
    """Returns (space, addresses in it)."""
    if space != "generic":
        return space, addresses
    spaces = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, 2 * LOCAL_WINDOW)}
    for name, (first, end) in spaces.items():
        inside = (addresses >= np.uint64(first)) & (addresses < np.uint64(end))
        if inside.all():
            return name, addresses - np.uint64(first)
        if inside.any():
            raise PtxError(f"{what}: work-items address several spaces")
    return "global", addresses


def load_rows(m, space, addresses, size, lanes):
    space, addresses = space_of(m, space, addresses, "load")
    if space == "global":
        return m.buffers.load(addresses, size, "load")
    if space == "shared":
        return m.shared.load(addresses, size, m.warp[lanes], "load")
    if space == "local":
        return m.local.load(addresses, size, lanes, "load")
    columns = addresses.astype(np.int64)[:, None] + np.arange(size)
    if int(columns.max()) >= len(m.arguments):
        raise PtxError("load past the arguments")
    return m.arguments[columns]


def store_rows(m, space, addresses, rows, lanes):
    space, addresses = space_of(m, space, addresses, "store")
    if space == "global":
        m.buffers.store(addresses, rows, "store")
    elif space == "shared":
        m.shared.store(addresses, rows, m.warp[lanes], lanes, "store")
    else:
        m.local.store(addresses, rows, lanes, "store")


def load(m, ins, space, count, kind):
    at, put, dtype = m.address(ins.operands[1]), [m.writer(o) for o in operands_of(ins.operands[0])], TYPES[kind]
    if len(put) != count:
        raise PtxError(f"{len(put)} registers")

    def run(mask):
        lanes = m.chosen(mask)
        rows = np.ascontiguousarray(load_rows(m, space, at()[lanes], count * dtype.itemsize, lanes)).view(dtype)
        for i, p in enumerate(put):
            values = np.zeros(m.lanes, dtype)
            values[lanes] = rows[:, i]
            p(values, mask)
    return run


def store(m, ins, space, count, kind):
    at, get = m.address(ins.operands[0]), [m.reader(o, kind) for o in operands_of(ins.operands[1])]
    if len(get) != count:
        raise PtxError(f"{len(get)} registers")

    def run(mask):
        lanes = m.chosen(mask)
        rows = np.stack([g()[lanes] for g in get], 1)
        store_rows(m, space, at()[lanes], rows.view(np.uint8).reshape(len(lanes), -1), lanes)
    return run


for k in WHOLE + ["b8"] + BITS + ["f32"]:
    for place in ("global", "shared", "local", "param", "generic"):
        for n in (1, 2, 4):
            word = f"{'' if place == 'generic' else '.' + place}{'' if n == 1 else f'.v{n}'}.{k}"
            PLAIN[f"ld{word}"] = lambda m, ins, a=(place, n, k): load(m, ins, *a)
            if place != "param":
                PLAIN[f"st{word}"] = lambda m, ins, a=(place, n, k): store(m, ins, *a)
    for name in ("ld", "st"):
        PLAIN[f"{name}.volatile.shared.{k}"] = PLAIN[f"{name}.shared.{k}"]


# Generic addresses: [PTX ISA] "cvta".
for place, first in (("global", 0), ("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
    PLAIN[f"cvta.{place}.u64"] = lambda m, ins, w=np.uint64(first): apply(m, ins, ["u64"], lambda x: x + w)
    PLAIN[f"cvta.to.{place}.u64"] = lambda m, ins, w=np.uint64(first): apply(m, ins, ["u64"], lambda x: x - w)
