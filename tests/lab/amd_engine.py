"""Memory instructions and matrix instructions of AMD's chips, by name; and `known`, all
instructions of amd_machine.py.

Sources of the operand layouts, independent of the kernels' macros: AMD, RDNA 3 and RDNA 4
instruction set architecture, "Wave Matrix Multiply Accumulate", and AMD's matrix instruction
calculator for v_mfma_f32_32x32x8.
"""
import re

import numpy as np

from amd_machine import register_of
from amd_vectors import source, target, vector_or_scalar
from ptx_plain import flush, from_bf16
from ptx_text import PtxError

WORDS = {"dword": 1, "b32": 1, "dwordx2": 2, "b64": 2, "dwordx3": 3, "b96": 3, "dwordx4": 4, "b128": 4}


def offset_of(ins, name="offset", size=1):
    return size * int(ins.notes.pop(name, "0"))


def vectors(ins, n, count):
    """The first register of an operand with this many registers."""
    found = register_of(ins.words[n])
    if not found or found[0] != "v" or found[2] != count:
        raise PtxError(f"{ins.words[n]} is not {count} vector registers")
    return found[1]


def form(ins, pattern):
    """Match a pattern with the instruction's name."""
    found = re.match(pattern, ins.name)
    if not found:
        raise PtxError("no such instruction is known here")
    return found.groups()


# Local memory: one access, or two of the same size, whose offsets count in units of that size or of
# 64 times that size.
LOCAL = r"(?:(2|_2addr)(st64|_stride64)?)?_(b\d+|u16)(_d16)?(_hi)?$"


def local_access(ins, pattern):
    """Returns (words of an access, 0 for a half; offsets; whether a load keeps the other half;
    whether it is the upper half)."""
    two, far, kind, keeps, high = form(ins, pattern)
    count = 0 if kind in ("u16", "b16") else WORDS[kind]
    offsets = [offset_of(ins, f"offset{k}", 4 * count * (64 if far else 1)) for k in (0, 1)] if two else [offset_of(ins)]
    if (keeps or high or two) and bool(count) != bool(two):
        raise PtxError("no such instruction is known here")
    return count, offsets, keeps, high


def local_addresses(w, n, offset):
    """Addresses of the active work-items."""
    return w.v[n][w.mask].astype(np.uint64) + np.uint64(offset) + np.uint64(w.local.places["all"])


def put_half(w, place, where, words, keeps, high):
    words, kept = words.astype(np.uint32), w.v[place][where]
    if keeps:
        words = kept & np.uint32(0xffff) | words << np.uint32(16) if high else kept & np.uint32(0xffff0000) | words
    w.v[place][where] = words


def local_load(ins):
    count, offsets, keeps, high = local_access(ins, r"ds_(?:read|load)" + LOCAL)
    place, at, size = vectors(ins, 0, (count or 1) * len(offsets)), ins.place(1, "v"), 4 * count or 2

    def do(w):
        where = w.chosen()
        if not len(where):
            return
        rows = np.concatenate([w.local.load(local_addresses(w, at, o), size, w.waves[where], "local memory") for o in offsets], axis=1)
        if not count:
            put_half(w, place, where, rows.view(np.uint16)[:, 0], keeps, high)
            return
        for k, words in enumerate(rows.view(np.uint32).T):
            w.v[place + k][where] = words
    return do


def halves_of(words, high):
    return (words >> np.uint32(16 if high else 0)).astype(np.uint16)


def local_store(ins):
    count, offsets, _, high = local_access(ins, r"ds_(?:write|store)" + LOCAL)
    at, places = ins.place(0, "v"), [vectors(ins, 1 + n, count or 1) for n in range(len(offsets))]

    def do(w):
        where = w.chosen()
        for offset, place in zip(offsets, places) if len(where) else ():
            words = np.stack([w.v[place + k][where] for k in range(count or 1)], axis=1)
            rows = (words if count else halves_of(words, high)).view(np.uint8)
            w.local.store(local_addresses(w, at, offset), rows, w.waves[where], w.items[where], "local memory")
    return do


def exchange(ins):
    """Words of other work-items, which must be active."""
    put, n, swizzles = target(ins, "u"), ins.place(2 if "bpermute" in ins.name else 1, "v"), "swizzle" in ins.name
    by = int(re.match(r"swizzle\(SWAP,(\d+)\)$", ins.notes.pop("offset"))[1]) if swizzles else None
    at = None if swizzles else source(ins.words[1], "u")

    def do(w):
        lane = np.arange(w.lanes)
        other = lane ^ by if swizzles else (at(w) >> np.uint32(2)) % np.uint32(w.lanes)
        if not w.mask[other][w.mask].all():
            raise PtxError("takes a word of a work-item that does not take part")
        put(w, w.v[n][other])
    return do


# Global memory. clang's target allows unaligned accesses. An access that is not aligned to words is
# split into halves of words here.
def load_words(w, at, count):
    each = 2 if (at % np.uint64(4)).any() else 4
    return np.concatenate([w.buffers.load(at + np.uint64(k), each, "global memory") for k in range(0, 4 * count, each)], axis=1).view(np.uint32)


def store_rows(w, at, rows):
    each = 2 if rows.shape[1] < 4 or (at % np.uint64(4)).any() else 4
    for k in range(0, rows.shape[1], each):
        w.buffers.store(at + np.uint64(k), rows[:, k:k + each], "global memory")


def addresses(ins, first):
    """Returns a function of a wave: the 64-bit address of each work-item."""
    offset = np.int64(offset_of(ins))
    if ins.words[first[1]] == "off":
        base = source(ins.words[first[0]], "I")
        return lambda w: (base(w) + offset).astype(np.uint64)
    base, more = source(ins.words[first[1]], "I"), source(ins.words[first[0]], "u")
    return lambda w: (base(w) + more(w).astype(np.int64) + offset).astype(np.uint64)


def global_load(ins):
    kind, = form(ins, r"global_load_(b32|b64|b96|b128|dword|dwordx[234]|(?:d16_|d16_hi_)?(?:b16|[ui]8)|[us]byte|ushort|u16"
                 r"|(?:short|[us]byte)_d16(?:_hi)?)$")
    count, at, half = WORDS.get(kind, 1), addresses(ins, (1, 2)), kind not in WORDS
    place, number = vectors(ins, 0, count), "u1" if re.search("u8|ubyte", kind) else "i1" if re.search("i8|sbyte", kind) else "u2"

    def do(w):
        where = w.chosen()
        if not len(where):
            return
        if half:
            words = w.buffers.load(at(w)[where], int(number[1]), "global memory").view(number)[:, 0].astype(np.int32).view(np.uint32)
            put_half(w, place, where, words & np.uint32(0xffff) if "d16" in kind else words, "d16" in kind, "hi" in kind)
            return
        for k, words in enumerate(load_words(w, at(w)[where], count).T):
            w.v[place + k][where] = words
    return do


def global_store(ins):
    kind, = form(ins, r"global_store_(b32|b64|b96|b128|dword|dwordx[234]|b16|short|d16_hi_b16|short_d16_hi)$")
    count, at, half = WORDS.get(kind, 1), addresses(ins, (0, 2)), kind not in WORDS
    place = vectors(ins, 1, count)

    def do(w):
        where = w.chosen()
        if not len(where):
            return
        words = np.stack([w.v[place + k][where] for k in range(count)], axis=1)
        store_rows(w, at(w)[where], (halves_of(words, "hi" in kind) if half else words).view(np.uint8))
    return do


# Matrix engines.
def numbers(w, place, count, kind, flushes):
    """Returns [item][number] of 16 bits, as bfloat16 or float16."""
    words = np.ascontiguousarray(w.v[place:place + count].T)
    halves = words.view(np.uint16)
    x = from_bf16(halves) if kind == "bf16" else halves.view(np.float16).astype(np.float32)
    if flushes:
        x = np.where(np.abs(x) < np.float32(2.0 ** (-126 if kind == "bf16" else -14)), np.float32(0), x)
    return x.astype(np.float64)


def matrix(ins):
    """The product of a left operand of 32 rows (or 16) and a right operand of as many columns, over
    8 numbers (or 16), plus the sums."""
    mfma, kind = ins.name.startswith("v_mfma"), "bf16" if "bf16" in ins.name else "f16"
    side, step, sums = (32, 8, 16) if mfma else (16, 16, 8)
    each = {"gfx11": 16, "gfx12": 8}.get(ins.chip[:5], 4)
    # CDNA 2 flushes subnormal inputs and outputs to 0 [PyTorch, "Numerical accuracy", on MI200].
    flushes = mfma and ins.chip == "gfx90a"
    out, left, right = vectors(ins, 0, sums), vectors(ins, 1, each // 2), vectors(ins, 2, each // 2)
    adds = register_of(ins.words[3]) and vectors(ins, 3, sums)
    if adds is None and ins.words[3] != "0":
        raise PtxError(f"adds {ins.words[3]}")
    half, number = np.arange(2 * side)[None, :] // side, np.arange(sums)[:, None]
    row = 8 * (number // 4) + 4 * half + number % 4 if mfma else 2 * number + half if each == step else 8 * half + number
    column = np.broadcast_to(np.arange(2 * side)[None, :] % side, row.shape)

    def operand(w, place):
        x = numbers(w, place, each // 2, kind, flushes)
        if each == step:  # each half has all numbers
            if not np.array_equal(x[:side], x[side:], equal_nan=True):
                raise PtxError("the halves of a wave have other numbers")
            return x[:side]
        return x.reshape(2, side, each).swapaxes(0, 1).reshape(side, step)

    def do(w):
        if not w.whole:
            raise PtxError("some work-items do not take part in a product")
        product = (operand(w, left) @ operand(w, right).T)[row, column]
        before = w.v[adds:adds + sums].view(np.float32) if adds is not None else np.float32(0)
        now = (before + product).astype(np.float32)
        w.v[out:out + sums] = (flush(now) if flushes else now).view(np.uint32)
    return do


OTHERS = [(r"v_wmma_f32_16x16x16_b?f16$|v_mfma_f32_32x32x8_?b?f16(_1k)?$", matrix), (r"ds_(read|load)", local_load),
          (r"ds_(write|store)", local_store), (r"ds_(bpermute|swizzle)_b32$", exchange), (r"global_load_", global_load),
          (r"global_store_", global_store)]


def known(text, chip):
    return vector_or_scalar(text, chip, OTHERS)
