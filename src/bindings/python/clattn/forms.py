"""The calls: their arguments, and the shapes of their results."""
import collections
import ctypes as c

import numpy as np

from ._abi import (
    CLATTN_BLOCK_KEYS, CLATTN_BLOCK_ROWS, clattn_activation_params, clattn_append_params,
    clattn_argmax_params, clattn_attention_backward_params, clattn_attention_params,
    clattn_dropout_mask_params, clattn_embedding_params, clattn_hadamard_params, clattn_index_params,
    clattn_topk_params,
    clattn_layer_backward_params, clattn_layer_kv_params, clattn_layer_params,
    clattn_linear_attention_params, clattn_linear_backward_params, clattn_linear_params,
    clattn_merge_params, clattn_norm_params, clattn_rope_params, clattn_sample_params,
    clattn_shift_params,
)
from .buffer import Buffer, _shape
from .runtime import library
from .storage import BLOCKS, STORAGE
from .values import _array, _bool, _number, _suits, _type

# The tensors of a cache that a call with new rows writes.
_CACHES = "k", "v", "k_scale", "v_scale", "k_zero", "v_zero"
_Form = collections.namedtuple("_Form", "params sizes main outputs written sized", defaults=((), (), ()))


def _given(g, name, axes, others=()):
    """Return the tensor from which sizes are derived: a Buffer or an array with the axes that
    `axes` shows."""
    value = g.get(name)
    if value is None:
        raise ValueError(f"{name}: an array or a Buffer {axes} is needed")
    if not isinstance(value, Buffer):
        value = g[name] = _array(name, value)
        # Results have its type. The call itself checks the types of other tensors.
        if value.dtype.kind == "f" or name in ("q", "x", "dout"):
            _suits(name, value.dtype)
    if value.ndim != axes.count(",") + 1:
        fewer = axes.startswith("[B, H") and value.ndim == 3
        raise ValueError(f"{name}: shape {tuple(value.shape)} was given, {axes} is wanted" +
                         f": {name}[None] has a batch axis; of heads in columns .reshape(B, N, H, D).transpose(0, 2, 1, 3)" * fewer)
    return value


def _width(name, x):
    """Return how many numbers a row has, which may be stored in blocks."""
    return x.shape[-1] * library().clattn_type_numbers(STORAGE[_type(name, x.dtype)][0])


def _sizes(batch, heads=None):
    return {"B": batch, "B+1": batch + 1, "H": heads}


def _longest(g, table, bound):
    """Return an upper bound for the sequences' lengths: the given bound, or the longest in the host
    array."""
    if g.get(bound):
        return _number(bound, g[bound], c.c_int32)
    ends = _array(table, g[table]) if g.get(table) is not None else np.zeros(1)
    return int(np.diff(ends).max(initial=0)) if ends.ndim == 1 else 0


def _ragged(g, batch, rows, own, packed):
    """Return the batch size, and the rows and keys of the longest item. A batch that is not ragged
    has those of its tensors."""
    table = g.get("cu_seqlens_q") if g.get("cu_seqlens_q") is not None else g.get("cu_seqlens_q_device")
    if table is None:
        return batch, rows, own
    if g.get("sequences") is None:
        g["sequences"] = max(np.shape(table)[0] - 1 if np.ndim(table) else 0, 0)
    rows = _longest(g, "cu_seqlens_q", "max_q")
    if packed:
        own = _longest(g, "cu_seqlens_kv", "max_kv")
    if any(g.get(name) is not None and g.get(name) is not False for name in ("weights", "scores")):
        # The shapes of these results must not depend on lengths.
        g.update({"max_q": rows, **({"max_kv": own} if packed else {})})
    return _number("sequences", g["sequences"], c.c_int32), rows, own


def _keys(g, own):
    """Return Nkv: the keys of pages, or of the past and the call's own."""
    if g.get("block_table") is not None:
        table = g["block_table"]
        return (np.shape(table)[1] if np.ndim(table) == 2 else 0) * _number("page_size", g.get("page_size") or 0, c.c_int32)
    return own + (_given(g, "past_k", "[B or 1, Hkv, P, D]").shape[2] if g.get("past_k") is not None else 0)


def _out(g, name, shape, dtype):
    """Describe a result that always exists: in an array or Buffer that was passed, or a new one of
    the given or default type."""
    given = g.pop(name, None)
    if given is None or isinstance(given, (Buffer, np.ndarray)):
        return name, shape, dtype, given
    return name, shape, _type(name, given), None


def _extras(g, rows, taps):
    """Describe the requested lse, weights and scores. A request is True, a type, a tap's word, or
    where to store the result."""
    found = []
    for name, shape in (("lse", rows), ("weights", taps), ("scores", taps)):
        given, dtype = g.pop(name, None), "float32"
        if given is None or given is False:
            continue
        into = given if isinstance(given, (Buffer, np.ndarray)) else None
        if name == "weights" and into is not None and into.ndim == 4 and into.shape[2] == 1:
            shape = (*shape[:2], 1, shape[3])  # their sums over the rows
        if into is None and given is not True:
            if name == "scores" and g.get("scores_at") is None:
                g["scores_at"] = given
            elif name == "weights":
                dtype = _type(name, given)
            else:
                raise TypeError(f"{name}: True, an array or a Buffer is taken, not {given!r}")
        found.append((name, shape, dtype, into))
    return found


def _heads(g):
    """Return q, v, batch size, rows and keys of an attention call. Derived arguments are stored in
    `g`."""
    q, k, v = (_given(g, *x) for x in (("q", "[B, H, Nq, D]"), ("k", "[B, Hkv, Nkv, D]"), ("v", "[B, Hkv, Nkv, Dv]")))
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    return q, v, *_ragged(g, q.shape[0], q.shape[2], k.shape[2], packed)


def _attention(g):
    q, v, batch, rows, own = _heads(g)
    outputs = [_out(g, "out", q.shape[:3] + (_width("v", v),), q.dtype)]
    outputs += _extras(g, q.shape[:3], (batch, q.shape[1], rows, _keys(g, own)))
    appends = g.get("k_new") is not None or g.get("v_new") is not None
    return _Form(clattn_attention_params(), _sizes(batch, q.shape[1]), q, outputs, _CACHES * appends)


# Gradients: the name, the tensor, and whether the gradient is computed by default.
_GRADIENTS = (("dq", "q", True), ("dk", "k", True), ("dv", "v", True), ("dbias", "bias", False), ("dsinks", "sinks", False),
              ("dalibi_slopes", "alibi_slopes", False), ("dhead_scales", "head_scales", False))


def _asked_gradients(g, gradients, heads):
    """Describe the requested gradients. A request is the default, True, a type, or where to store
    the gradient."""
    outputs = []
    for name, of, asked in gradients:
        given, there = g.pop(name, None), g.get(of) is not None
        if given is False or (given is None and not (there if asked is None else asked)):
            continue
        a_head = name in ("dsinks", "dalibi_slopes", "dhead_scales")
        if not there:
            raise ValueError(f"{name}: is asked for without {of}")
        if not a_head and not isinstance(g[of], Buffer):
            g[of] = _array(of, g[of])
        g[name] = None if given is True else given
        outputs.append(_out(g, name, (heads,) if a_head else g[of].shape, "float32" if a_head or name == "dbias" else g[of].dtype))
    return outputs


def _refuse_results(g, names, function):
    """Refuse results of a forward call that its gradients do not have. False means no result."""
    for name in names:
        given = g.pop(name, None)
        if given is not None and given is not False:
            raise ValueError(f"{name}: has no gradient: {function}() takes none")


def _backward(g):
    _refuse_results(g, ("weights", "scores"), "attention_backward")
    q, _, batch, _, _ = _heads(g)
    return _Form(clattn_attention_backward_params(), _sizes(batch, q.shape[1]), q, _asked_gradients(g, _GRADIENTS, q.shape[1]))


def _layer_heads(g):
    """Return x, wo, batch size, heads, rows and keys of a layer. Derived arguments are stored in
    `g`."""
    x, wo, heads = _given(g, "x", "[B, Nq, M]"), _given(g, "wo", "[Mo, H*Dv]"), _number("heads", g.get("heads"), c.c_int32)
    source = _given(g, "k", "[B, Hkv, Nkv, D]").shape[2] if g.get("k") is not None else \
        _given(g, "y", "[B, Nkv, My]").shape[1] if g.get("y") is not None else x.shape[1]
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    batch, rows, own = _ragged(g, x.shape[0], x.shape[1], source, packed)
    return x, wo, batch, heads, rows, rows if g.get("k") is None and g.get("y") is None else own


def _layer(g):
    x, wo, batch, heads, rows, own = _layer_heads(g)
    outputs = [_out(g, "out", x.shape[:2] + wo.shape[:1], x.dtype)]
    outputs += _extras(g, (x.shape[0], heads, x.shape[1]), (batch, heads, rows, _keys(g, own)))
    written = _CACHES * _bool("append", g.get("append") or False)
    return _Form(clattn_layer_params(), _sizes(batch, heads), x, outputs, written)


# The same for a layer. None: by default a gradient is computed if its tensor is passed.
_LAYER_GRADIENTS = tuple((f"d{of}", of, None) for of in ("x", "y", "wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo", "q_norm", "k_norm",
                                                         "w_gate", "b_gate")) + _GRADIENTS[3:]


def _layer_forward(g):
    form, kept = _layer(g), g.pop("kept", None)
    outputs = form.outputs if kept is None else form.outputs + [("kept", kept.shape, kept.dtype, kept)]
    return _Form(clattn_layer_backward_params(), form.sizes, form.main, outputs)


def _layer_backward(g):
    _refuse_results(g, ("lse", "weights", "scores"), "layer_backward")
    g.pop("out", None)  # layer()'s result, which the gradients do not need
    _, _, batch, heads, _, _ = _layer_heads(g)
    dout = _given(g, "dout", "[B, Nq, Mo]")
    return _Form(clattn_layer_backward_params(), _sizes(batch, heads), dout, _asked_gradients(g, _LAYER_GRADIENTS, heads))


def _linear(g):
    x = g.get("x") if isinstance(g.get("x"), Buffer) or g.get("x") is None else _array("x", g["x"])
    # x without batch axis, or a single row: out and residual then have the same axes.
    if x is not None and x.ndim in (1, 2):
        into = (None,) * (3 - x.ndim)
        g.update({"x": x[into], **{name: g[name][into] for name in ("out", "residual") if isinstance(g.get(name), (Buffer, np.ndarray))}})
    x, w = _given(g, "x", "[B, N, K]"), _given(g, "w", "[M, K]")
    return _Form(clattn_linear_params(), {}, x, [_out(g, "out", x.shape[:2] + w.shape[:1], x.dtype)])


def _linear_backward(g):
    dout, outputs = _given(g, "dout", "[B, N, M]"), []
    x, w = (g.get(name) is not None and _given(g, name, axes) for name, axes in (("x", "[B, N, K]"), ("w", "[M, K]")))
    for name, like, shape in (("dx", w, w is not False and dout.shape[:2] + w.shape[1:]),
                              ("dw", x, x is not False and dout.shape[2:] + x.shape[2:]), ("db", dout, dout.shape[2:])):
        given = g.pop(name, None)
        if given is False or (like is False and given is None):
            continue
        g[name] = None if given is True else given
        outputs.append(_out(g, name, shape, (w if name == "dw" and w is not False else dout).dtype))
    return _Form(clattn_linear_backward_params(), {}, dout, outputs)


def _rope(g):
    x = _given(g, "x", "[B, H, N, D]")
    return _Form(clattn_rope_params(), _sizes(x.shape[0], x.shape[1]), x, [_out(g, "y", x.shape, x.dtype)])


def _hadamard(g):
    x = _given(g, "x", "[B, H, N, D]")
    return _Form(clattn_hadamard_params(), {}, x, [_out(g, "y", x.shape, x.dtype)])


def _linear_attention(g):
    q, k, v = (_given(g, *x) for x in (("q", "[B, Hq, T, Dk]"), ("k", "[B, Hk, T, Dk]"), ("v", "[B, Hv, T, Dv]")))
    heads, starts, state, into = max(k.shape[1], v.shape[1]), g.get("cu_seqlens_device"), g.get("state"), g.pop("new_state", None)
    outputs = [_out(g, "out", (q.shape[0], max(q.shape[1], heads), q.shape[2], v.shape[3]), q.dtype)]
    if into is True or isinstance(into, (Buffer, np.ndarray)):
        if into is True and state is not None and not isinstance(state, Buffer):
            state = g["state"] = _array("state", state)
        count = q.shape[0] if starts is None else max(np.shape(starts)[0] - 1, 0) if np.ndim(starts) else 0
        shape, dtype = ((count, heads, q.shape[3], v.shape[3]), "float32") if state is None else (state.shape, state.dtype)
        outputs.append(("new_state", shape, dtype, None if into is True else into))
    elif into is not None and into is not False:
        raise TypeError(f"new_state: True, an array or a Buffer is taken, not {into!r}")
    return _Form(clattn_linear_attention_params(), {}, q, outputs)


def _append(g):
    new = _given(g, "k_new" if g.get("k_new") is not None else "v_new", "[B, Hkv, n, D]")
    return _Form(clattn_append_params(), _sizes(new.shape[0]), new, written=_CACHES)


def _shift(g):
    k = _given(g, "k", "[B, Hkv, N, D]")
    return _Form(clattn_shift_params(), _sizes(k.shape[0]), k, written=("k", "k_scale", "k_zero"))


def _merge(g):
    a = {name: _given(g, name, axes) for name, axes in (("out_a", "[B, H, Nq, Dv]"), ("lse_a", "[B, H, Nq]"))}
    if any(isinstance(x, Buffer) for x in a.values()):
        return _Form(clattn_merge_params(), {}, a["out_a"], written=("out_a", "lse_a"))
    return _Form(clattn_merge_params(), {}, a["out_a"], [(name, x.shape, x.dtype, g.pop(name).copy()) for name, x in a.items()])


def _block_mask(g):
    g["v"] = g["k"] if g.get("v") is None else g["v"]
    form = _attention(g)
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    own = _longest(g, "cu_seqlens_kv", "max_kv") if packed else g["k"].shape[2]
    batch, heads, rows, keys = form.sizes["B"], form.sizes["H"], _rows(g), _keys(g, own)
    axes, given = g.pop("axes", None), g.get("block_mask")
    if given is not None and not isinstance(given, (Buffer, np.ndarray)):
        raise TypeError("block_mask: an array or a Buffer is taken, which it is written into")
    axes = tuple(axes or (given.shape[:2] if given is not None else (batch, heads)))
    blocks = axes + (-(-rows // CLATTN_BLOCK_ROWS), -(-keys // CLATTN_BLOCK_KEYS))
    g["out"] = np.broadcast_to(np.float32(0), form.outputs[0][1])
    return form._replace(outputs=[_out(g, "block_mask", blocks, "uint8")], written=(), sized=("q", "k", "v", "out"))


def _rows(g):
    return _longest(g, "cu_seqlens_q", "max_q") if g.get("sequences") is not None else g["q"].shape[2]


def _dropout_mask(g):
    shape = _shape(g.pop("shape"))
    return _Form(clattn_dropout_mask_params(), {}, g.get("mask"), [_out(g, "mask", shape, "bool")])


def _layer_kv(g):
    y, heads = _given(g, "y", "[B, Nkv, My]"), _number("kv_heads", g.pop("kv_heads"), c.c_int32)
    widths = [_given(g, name, axes).shape[0] for name, axes in (("wk", "[Hkv*D, My]"), ("wv", "[Hkv*Dv, My]"))]
    if heads < 1 or any(width % heads for width in widths):
        raise ValueError(f"kv_heads: {heads} does not divide the rows of wk and wv, {widths[0]} and {widths[1]}")
    outputs = [_out(g, name, (y.shape[0], heads, y.shape[1], width // heads), y.dtype) for name, width in zip("kv", widths)]
    return _Form(clattn_layer_kv_params(), {}, y, outputs)


def _norm(g):
    x, into = _given(g, "x", "[B, N, M]"), g.pop("sum", None)
    outputs = [_out(g, "out", x.shape, x.dtype)]
    if into is True or isinstance(into, (Buffer, np.ndarray)):
        outputs.append(("sum", x.shape, x.dtype, None if into is True else into))
    elif into is not None and into is not False:
        raise TypeError(f"sum: True, an array or a Buffer is taken, not {into!r}")
    return _Form(clattn_norm_params(), {}, x, outputs)


def _activate(g):
    x = _given(g, "x", "[B, N, M]")
    return _Form(clattn_activation_params(), {}, x, [_out(g, "out", x.shape, x.dtype)])


def _embedding(g):
    ids, table = _given(g, "ids", "[B, N]"), _given(g, "table", "[V, M]")
    word = _type("table", table.dtype)
    shape, dtype = ids.shape + (_width("table", table),), "float32" if word in BLOCKS else table.dtype
    return _Form(clattn_embedding_params(), {}, table, [_out(g, "out", shape, dtype)])


def _argmax(g):
    x = _given(g, "x", "[B, N, V]")
    return _Form(clattn_argmax_params(), {}, x, [_out(g, "out", x.shape[:2], "int32")])


def _sample(g):
    x = _given(g, "x", "[B, N, V]")
    return _Form(clattn_sample_params(), {}, x, [_out(g, "out", x.shape[:2], "int32")])


def _selected(g, params, main, rows, heads):
    """Describe the lists of a selection: indices, and counts and values on request."""
    top_k, given = g.pop("top_k", None), g.get("indices")
    if isinstance(given, (Buffer, np.ndarray)):
        top_k = given.shape[-1] if given.ndim else 0
    elif top_k is None:
        raise ValueError("top_k: the number of entries of a list is needed, or indices to write them into")
    lists = (*rows, heads, _number("top_k", top_k, c.c_int32))
    outputs = [_out(g, "indices", lists, "int32")]
    for name, shape, dtype in (("counts", lists[:3], "int32"), ("values", lists, "float32")):
        into = g.pop(name, None)
        if into is True or isinstance(into, (Buffer, np.ndarray)):
            outputs.append((name, shape, dtype, None if into is True else into))
        elif into is not None and into is not False:
            raise TypeError(f"{name}: True, an array or a Buffer is taken, not {into!r}")
    return _Form(params, _sizes(_ragged(g, rows[0], 0, 0, False)[0]), main, outputs)


def _topk(g):
    scores = _given(g, "scores", "[B, Hs, Nq, N]")
    return _selected(g, clattn_topk_params(), scores, scores.shape[::2][:2], scores.shape[1])


def _index(g):
    q, k = _given(g, "q", "[B, H, Nq, D]"), _given(g, "k", "[B, Hs, N, D]")
    return _selected(g, clattn_index_params(), q, q.shape[::2][:2], k.shape[1])


# The params of each form, whose fields are its keywords.
_TAKES = {_attention: clattn_attention_params, _backward: clattn_attention_backward_params, _layer: clattn_layer_params,
          _layer_forward: clattn_layer_params, _layer_backward: clattn_layer_backward_params, _linear: clattn_linear_params,
          _linear_backward: clattn_linear_backward_params, _rope: clattn_rope_params, _hadamard: clattn_hadamard_params,
          _linear_attention: clattn_linear_attention_params,
          _append: clattn_append_params, _shift: clattn_shift_params, _merge: clattn_merge_params, _block_mask: clattn_attention_params,
          _dropout_mask: clattn_dropout_mask_params, _layer_kv: clattn_layer_kv_params, _norm: clattn_norm_params,
          _activate: clattn_activation_params, _embedding: clattn_embedding_params, _argmax: clattn_argmax_params,
          _sample: clattn_sample_params, _topk: clattn_topk_params, _index: clattn_index_params}
