"""Small calls of kernels with a matrix engine: tensors, arguments, the right result in double
precision, and the comparison within the error budget of budget.c. A device of check_ptx.py or of
offline_execute.py executes them. It has:

    engine, rows, items      MATRIX_ENGINE, query rows of a fragment, work-items of a warp
    run(kernel, options, items, groups, arguments, buffers)
                             compiles and runs it, with this many work-items per group and groups
"""
import os
import re
import struct

import numpy as np

from ptx_memory import Buffers
from ptx_plain import from_bf16, to_bf16

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
F32, F16, BF16, I8 = 0, 1, 2, 4
# float32: a tenth of the budget, because the full budget would hide a missing product
NMSE = {F32: 1e-12, F16: 1e-6, BF16: 5e-5}
LSE = 2e-5  # as for float32 results


class Wrong(Exception):
    """A wrong result."""


def stored(x, kind):
    if kind == F32:
        return x.astype(np.float32)
    return x.astype(np.float16).view(np.uint16) if kind == F16 else to_bf16(x.astype(np.float32))


def loaded(bits, kind):
    if kind == F32:
        return bits.astype(np.float64)
    return (bits.view(np.float16) if kind == F16 else from_bf16(bits)).astype(np.float64)


def rounded(x, kind):
    return loaded(stored(x, kind), kind)


def changed(text, change):
    if change:
        text, count = re.subn(change[0], lambda _: change[1], text)
        if not count:
            raise Wrong(f"no text {change[0]} to break")
    return text


# The arguments of a call, packed by a struct of args.h.
def struct_of_args(of="attention_args"):
    with open(f"{TOP}/cl/args/args.h", encoding="utf-8") as f:
        body = re.search(rf"typedef struct {of} {{(.*?)}} {of};", f.read(), re.S).group(1)
    view = np.dtype([(x, "i8") for x in "offset batch head row column".split()])
    types = {"args_view": view, "args_i64": "i8", "args_i32": "i4", "args_f32": "f4"}
    body = re.sub(r"//[^\n]*", "", body)
    fields = re.findall(r"(\w+)\s+([^;]+);", body)
    return np.dtype([(name.strip(), types[kind]) for kind, names in fields for name in names.split(",")])


class Tensor:
    """A tensor [B, H, N, D] of 16 or 32 bits, or of bytes. Rows are padded with NaN, but the last
    row ends the buffer."""

    def __init__(self, values, kind, room):
        b, h, n, d = values.shape
        row = d + room
        whole = np.full((b, h, n, row), 127 if kind == I8 else np.nan)
        whole[..., :d] = values
        whole = whole.astype(np.int8) if kind == I8 else stored(whole, kind)
        self.bits = whole.ravel()[:b * h * n * row - room]
        self.view = (0, h * n * row, n * row, row, 1)
        self.shape, self.kind, self.row = values.shape, kind, row

    def values(self, bits):
        b, h, n, d = self.shape
        whole = np.concatenate([bits, np.zeros(self.row - d, bits.dtype)]).reshape(b, h, n, self.row)
        return loaded(np.ascontiguousarray(whole[..., :d]), self.kind)


class Call:
    """An attention call and its right result. `causal`: number of keys before that of row 0.
    `window`: most keys that a row sees before its own."""

    def __init__(self, kind, dim, dim_v, rows, keys, options, groups=(4, 1), kv_heads=1, causal=None, strange=None, room=8, batch=1,
                 heads=2, engine=None, cache=None, kernel="flash_fragments", window=None, values=None):
        self.engine, self.cache, self.kernel, self.window = engine, cache, kernel, window
        self.kind, self.rows, self.keys, self.causal, self.options = kind, rows, keys, causal, options
        self.warps, self.vectors = groups
        self.batch, self.heads, self.kv_heads = batch, heads, kv_heads
        rng = np.random.default_rng(rows * keys + dim)
        self.q = rounded(rng.standard_normal((batch, heads, rows, dim)), kind)
        self.k = rounded(rng.standard_normal((batch, kv_heads, keys, dim)), kind)
        self.v = rounded(rng.standard_normal((batch, kv_heads, keys, dim_v)), kind)
        if values:  # "keys" or "channels": each value is the number of its key or channel
            self.v[:] = np.arange(keys)[:, None] if values == "keys" else np.arange(dim_v)
        for key, column, value in strange or ():
            self.v[:, :, key, column] = value
        if cache:  # codes, and the scales of their rows
            self.scales = {name: (np.abs(x).max(3) / 127).astype(np.float32) for name, x in dict(k=self.k, v=self.v).items()}
            self.numbers = {name: np.rint(x / self.scales[name][..., None]) for name, x in dict(k=self.k, v=self.v).items()}
            self.k, self.v = (self.numbers[x] * self.scales[x][..., None] for x in "kv")
        self.room = room

    def seen(self):
        """Which row sees which key. `causal` is the position of row 0."""
        if self.causal is None:
            return np.ones((self.rows, self.keys), bool)
        before = np.arange(self.rows)[:, None] + self.causal - np.arange(self.keys)[None, :]
        return (before >= 0) & (self.window is None or before <= self.window)

    def right(self, rounds):
        """Returns (out, lse) in double precision. With `rounds`, probabilities and result are
        rounded as by an unfused computation."""
        group, seen = self.heads // self.kv_heads, self.seen()
        k, v = np.repeat(self.k, group, 1), np.repeat(self.v, group, 1)
        scores = np.where(seen, self.q @ k.swapaxes(2, 3) / np.sqrt(self.q.shape[3]), -np.inf)
        most = scores.max(3, keepdims=True)
        p = np.where(seen, np.exp(scores - np.where(np.isfinite(most), most, 0)), 0)
        total = p.sum(3, keepdims=True)
        p = np.where(total > 0, p / np.where(total > 0, total, 1), 0)
        p = rounded(p, self.kind) if rounds else p
        strange = ~np.isfinite(v)
        out = p @ np.where(strange, 0, v)
        # must not affect a row that does not see them
        for b, h, key, d in zip(*np.nonzero(strange)):
            out[b, h, seen[:, key], d] += v[b, h, key, d]
        lse = np.where(total > 0, most + np.log(np.where(total > 0, total, 1)), -np.inf)[..., 0]
        return (rounded(out, self.kind) if rounds else out), lse

    def arguments(self, tensors, lse_view):
        a = np.zeros((), struct_of_args())
        for name, tensor in tensors.items():
            a[name] = tensor.view
        a["lse"] = lse_view
        for name in ("k_scale", "v_scale") if self.cache else ():
            a[name] = (0, self.kv_heads * self.keys, self.keys, 1, 0)
        causal = self.causal is not None
        fields = dict(batch=self.batch, heads=self.heads, kv_heads=self.kv_heads, group=self.heads // self.kv_heads, n_q=self.rows,
                      n_kv=self.keys, head_dim=self.q.shape[3], head_dim_v=self.v.shape[3], shift=self.causal or 0,
                      window_left=-1 if self.window is None else self.window,
                      window_right=0 if causal else -1, flags=64, scale=1 / np.sqrt(self.q.shape[3]), splits=1, split_keys=self.keys,
                      call_rows=self.rows)
        for name, value in fields.items():
            a[name] = value
        return a.tobytes()

    def run(self, device):
        """Returns the kernel's (out, lse)."""
        knobs = dict(MATRIX_ENGINE=self.engine or device.engine, TYPE_Q=self.kind, TYPE_KV=self.cache or self.kind, TYPE_OUT=self.kind,
                     HEAD_DIM=self.q.shape[3], HEAD_DIM_V=self.v.shape[3], GROUP_ROWS=self.warps, ROW_VECTORS=self.vectors)
        options = " ".join([f"-D{name}={value}" for name, value in knobs.items()] + [self.options])
        untouched = np.full((self.batch, self.heads, self.rows, self.v.shape[3]), np.nan)
        rows = dict(dict(q=self.q, k=self.k, v=self.v, out=untouched), **(self.numbers if self.cache else {}))
        tensors = {name: Tensor(x, self.cache if self.cache and name in "kv" else self.kind, self.room) for name, x in rows.items()}
        buffers = Buffers()
        places = {name: buffers.place(x.bits) for name, x in tensors.items()}
        places["lse"] = buffers.place(np.full(self.batch * self.heads * self.rows, np.nan, np.float32))
        lse_view = (0, self.heads * self.rows, self.rows, 1, 0)
        order = "q k k_scale v v_scale out lse" if self.cache else "q k v out lse"
        places.update({f"{x}_scale": buffers.place(self.scales[x].ravel()) for x in "kv"} if self.cache else {})
        # no table
        addresses = struct.pack(f"<{len(order.split()) + 1}Q", *(places[x] for x in order.split()), 0)
        share, heads = (self.heads // self.kv_heads, self.kv_heads) if self.kernel.startswith("decode") else (1, self.heads)
        each = 1 if self.kernel == "decode_groups" else device.rows * self.vectors * self.warps
        tiles = -(-self.rows * share // each)
        device.run(self.kernel, options, device.items * self.warps, (tiles, heads, self.batch),
                   addresses + self.arguments(tensors, lse_view), buffers)
        return (tensors["out"].values(buffers.content(places["out"], tensors["out"].bits.dtype)),
                buffers.content(places["lse"], np.float32).reshape(self.batch, self.heads, self.rows))

    def check(self, device):
        """Returns (normalised mean squared error of the output, largest error of lse)."""
        got, lse = self.run(device)
        (ref, ref_lse), (plain, _) = self.right(False), self.right(True)
        nmse = within_budget(got, ref, plain, self.kind)
        away = np.where(lse == ref_lse, 0, np.abs(lse - ref_lse)).max()
        if not away <= LSE:
            raise Wrong(f"lse: {away:.3g} away")
        return nmse, away


class Product:
    """A projection: rows of two batch items, x W^T + bias. `kind_w`: W's type if it differs from
    x's. `strange`: special numbers of x. `tiny`: factor by which the second item's numbers are
    smaller."""

    def __init__(self, kind, rows, columns, reduction, options, vectors=2, tile=32, room=8, kind_w=None, strange=None, tiny=None,
                 warps=(2, 2)):
        self.kind, self.kind_w, self.options, self.vectors, self.tile, self.warps = kind, kind_w or kind, options, vectors, tile, warps
        rng = np.random.default_rng(rows * columns + reduction)
        self.x = rounded(rng.standard_normal((2, 1, rows, reduction)), kind)
        self.w = rounded(rng.standard_normal((1, 1, columns, reduction)), self.kind_w)
        for item, row, column, value in strange or ():
            self.x[item, 0, row, column] = value
        if tiny:
            self.x[1] = rounded(self.x[1] * tiny, kind)
        self.bias = rng.standard_normal(columns).astype(np.float32) * (0 if tiny else 1)
        self.room = room

    def check(self, device):
        """Returns (the largest normalised mean squared error, None)."""
        rows, columns, reduction = self.x.shape[2], self.w.shape[2], self.x.shape[3]
        out = F32 if self.kind_w == F32 else self.kind
        knobs = dict(MATRIX_ENGINE=device.engine, TYPE_Q=self.kind, TYPE_KV=self.kind_w, TYPE_OUT=out, ROW_VECTORS=self.vectors,
                     COLUMN_TILE=self.tile, GROUP_ROWS=self.warps[0], GROUP_COLUMNS=self.warps[1])
        options = " ".join([f"-D{name}={value}" for name, value in knobs.items()] + [self.options])
        with np.errstate(invalid="ignore"):
            ref = (self.x @ self.w.swapaxes(2, 3)) + self.bias
        x, w, y = (Tensor(values, kind, self.room)
                   for values, kind in ((self.x, self.kind), (self.w, self.kind_w), (np.full(ref.shape, np.nan), out)))
        buffers = Buffers()
        places = [buffers.place(bits) for bits in (x.bits, w.bits, self.bias, y.bits)]
        a = np.zeros((), struct_of_args("linear_args"))
        fields = dict(x_batch=x.view[1], x_row=x.view[3], w_row=w.view[3], y_batch=y.view[1], y_row=y.view[3], batch=2, rows=rows,
                      columns=columns, reduction=reduction, x_head_columns=reduction, y_head_columns=columns, flags=2, amplitude=1)
        for name, value in fields.items():
            a[name] = value
        tiles = -(-2 * rows // (device.rows * self.warps[0] * self.vectors)), -(-columns // (self.warps[1] * self.tile)), 1
        device.run("linear_fragments", options, device.items * self.warps[0] * self.warps[1], tiles,
                   struct.pack("<6Q", *places, 0, 0) + a.tobytes(), buffers)
        got = y.values(buffers.content(places[3], y.bits.dtype))
        if out != F32:
            return within_budget(got, ref, rounded(ref, out), out), None
        # each row separately, since a huge row would hide the others
        each = [(row // rows, 0, row % rows) for row in range(2 * rows)]
        return max(within_budget(got[at], ref[at], ref[at], F32) for at in each), None


def within_budget(got, ref, plain, kind):
    """As budget.c: checks the mean squared error, which is returned, and the largest error relative
    to that of a plain computation."""
    finite = np.isfinite(ref)
    if not np.array_equal(np.isnan(got), np.isnan(ref)) or not np.array_equal(got[np.isinf(ref)], ref[np.isinf(ref)]):
        raise Wrong("a NaN or an infinity is not where it should be")
    if not finite.any():
        return 0.0
    got, ref, plain = got[finite], ref[finite], plain[finite]
    moved = rounded(rounded(rounded(ref, kind) + 0.3, kind) - 0.3, kind)
    nmse, largest = ((got - ref) ** 2).sum() / (ref ** 2).sum(), np.abs(got - ref).max()
    limit = 2 * np.abs(plain - ref).max() + 2 * np.abs(moved - ref).max()
    if not nmse <= NMSE[kind] or (kind != F32 and not largest <= limit):
        raise Wrong(f"nmse {nmse:.3g} (limit {NMSE[kind]:.3g}), largest error {largest:.3g} (limit {limit:.3g})")
    return nmse


SIDE, PROBE_ITEMS = 32, 128


def probe_number(i):
    mixed = (i + 1) * 2654435761 & 0xffffffff
    return (mixed >> 13) % 3 - 1 if i < SIDE * SIDE else (mixed >> 15) % 7 - 3 if i < 2 * SIDE * SIDE - 8 else 0


class Probe:
    """probe_fragments, with the numbers and the result of src/lib/probe/fragments.c, exactly."""

    def __init__(self, kind):
        self.kind = kind

    def check(self, device):
        x = np.array([probe_number(i) for i in range(2 * SIDE * SIDE)], np.float32)
        a, b = x.reshape(2, SIDE, SIDE)
        product = a[:device.rows] @ b.T
        right = np.concatenate([product.ravel(), (product @ b).ravel(), product.max(1)])
        buffers = Buffers()
        words, result = buffers.place(stored(x[:-8], self.kind)), buffers.place(np.full(len(right), np.nan, np.float32))
        device.run("probe_fragments", f"-DMATRIX_ENGINE={device.engine} -DTYPE_KV={self.kind}", PROBE_ITEMS, (1, 1, 1),
                   struct.pack("<QQi", words, result, 0), buffers)
        if not np.array_equal(buffers.content(result, np.float32), right):
            raise Wrong("another product than the probe expects")
        return None, None
