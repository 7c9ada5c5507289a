"""The arrays of a case, the same for all systems, and the expected result in float64 by NumPy
alone.

float16 is numpy's; bfloat16 is stored as uint16. Used by peers_measure.py.
"""
import numpy as np

BLOCK = 256  # query rows at a time, so that the scores stay in the cache


def to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_f32(x, dtype):
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32)


def stored(x, dtype):
    return to_bf16(x) if dtype == "bf16" else x.astype({"f32": np.float32, "f16": np.float16}[dtype])


def aligned(x):
    """A copy that starts on a cache line, as every runtime's own memory does."""
    memory = np.empty(x.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start:start + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def make(case):
    """The arrays of a case by name.

    Attention has q, k, v, and dout for gradients. A layer has x, in_weight, in_bias, out_weight,
    out_bias, and dout for training. A projection has x, weight, bias.
    """
    rng = np.random.default_rng(7)

    def normal(*shape, scale=1.0):
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

    if not case.projects:
        sizes = {"q": (case.heads, case.n), "k": (case.kv_heads, case.n_kv), "v": (case.kv_heads, case.n_kv)}
        if case.op == "backward":
            sizes["dout"] = sizes["q"]
        return {name: aligned(stored(normal(case.b, *hn, case.d), case.dtype)) for name, hn in sizes.items()}
    m = case.width
    if case.op == "linear":
        made = {"x": normal(case.b, case.n, m), "weight": normal(m, m, scale=m**-0.5), "bias": normal(m, scale=0.1)}
        return {name: aligned(stored(x, case.dtype)) for name, x in made.items()}
    made = {"x": normal(case.b, case.n, m), "in_weight": normal(3 * m, m, scale=m**-0.5), "in_bias": normal(3 * m, scale=0.1),
            "out_weight": normal(m, m, scale=m**-0.5), "out_bias": normal(m, scale=0.1)}
    if case.op == "train":
        made["dout"] = normal(case.b, case.n, m)
    return {name: aligned(stored(x, case.dtype)) for name, x in made.items()}


def attention(q, k, v, causal, weights=None):
    """One head in float64: q [Nq, D], k [Nkv, D], v [Nkv, Dv]. Fills `weights` [Nq, Nkv] unless it
    is None.
    """
    out = np.empty((len(q), v.shape[1]))
    for first in range(0, len(q), BLOCK):
        rows = slice(first, min(first + BLOCK, len(q)))
        keys = rows.stop if causal else len(k)
        s = q[rows] @ k[:keys].T / np.sqrt(q.shape[1])
        if causal:
            s[np.arange(keys)[None, :] > np.arange(first, rows.stop)[:, None]] = -np.inf
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        out[rows] = s @ v[:keys]
        if weights is not None:
            weights[rows, :keys] = s
    return out


def heads(case, q, k, v, weights=None):
    """All heads in float64: q [B, H, Nq, D], k, v [B, Hkv, Nkv, D]."""
    group = case.heads // case.kv_heads
    out = np.empty(q.shape[:3] + v.shape[3:])
    for b in range(case.b):
        for h in range(case.heads):
            part = None if weights is None else weights[b, h]
            out[b, h] = attention(q[b, h], k[b, h // group], v[b, h // group], case.causal, part)
    return out


def gradients_of_head(q, k, v, dout, causal):
    """dq, dk, dv of one head in float64."""
    scale, dq, dk, dv = q.shape[1]**-0.5, np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    weights = np.zeros((len(q), len(k)))
    out = attention(q, k, v, causal, weights)
    for first in range(0, len(q), BLOCK):
        rows = slice(first, min(first + BLOCK, len(q)))
        p = weights[rows]
        ds = p * (dout[rows] @ v.T - np.sum(dout[rows] * out[rows], axis=1, keepdims=True)) * scale
        dq[rows] = ds @ k
        dk += ds.T @ q[rows]
        dv += p.T @ dout[rows]
    return dq, dk, dv


def gradients(case, q, k, v, dout):
    group = case.heads // case.kv_heads
    made = tuple(np.zeros_like(x) for x in (q, k, v))
    for b in range(case.b):
        for h in range(case.heads):
            parts = gradients_of_head(q[b, h], k[b, h // group], v[b, h // group], dout[b, h], case.causal)
            for to, part, of in zip(made, parts, (h, h // group, h // group)):
                to[b, of] += part
    return made


def layer_gradients(case, a, q, k, v, joined):
    """out, and the gradients of x, in_weight, in_bias, out_weight and out_bias. q, k, v are [B, H,
    N, D]; joined is [B, N, M].
    """
    b, n, m = a["x"].shape
    dout = a["dout"].reshape(b * n, m)
    djoined = (dout @ a["out_weight"]).reshape(b, n, case.heads, case.d).swapaxes(1, 2)
    made = np.stack(gradients(case, q, k, v, djoined))  # [3, B, H, N, D]
    dqkv = np.moveaxis(made, (0, 2), (2, 3)).reshape(b * n, 3 * m)
    return (joined @ a["out_weight"].T + a["out_bias"], (dqkv @ a["in_weight"]).reshape(b, n, m), dqkv.T @ a["x"].reshape(b * n, m),
            dqkv.sum(axis=0), dout.T @ joined.reshape(b * n, m), dout.sum(axis=0))


def reference(case, data):
    """The output with the attention weights or None; the gradients of q, k and v; or a layer's
    output and gradients.
    """
    a = {name: to_f32(x, case.dtype).astype(np.float64) for name, x in data.items()}
    if case.op == "backward":
        return gradients(case, a["q"], a["k"], a["v"], a["dout"])
    if not case.projects:
        return heads(case, a["q"], a["k"], a["v"]), None
    if case.op == "linear":
        return a["x"] @ a["weight"].T + a["bias"], None
    qkv = (a["x"] @ a["in_weight"].T + a["in_bias"]).reshape(case.b, case.n, 3, case.heads, case.d)
    q, k, v = np.moveaxis(qkv, (2, 3), (0, 2))
    weights = np.zeros((case.b, case.heads, case.n, case.n)) if case.weights else None
    joined = heads(case, q, k, v, weights).swapaxes(1, 2).reshape(case.b, case.n, case.width)
    if case.op == "train":
        return layer_gradients(case, a, q, k, v, joined)
    return joined @ a["out_weight"].T + a["out_bias"], weights


def nmse(result, expected):
    """Squared error divided by squared size; infinity if the result has a NaN or another shape."""
    if result.shape != expected.shape:
        return float("inf")
    error = float(np.sum((result - expected) ** 2) / np.sum(expected**2))
    return error if error == error else float("inf")
