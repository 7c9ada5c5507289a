"""Functions of the Python module: every function of the header is a function of the module, or is
used by one.

   check_calls.py BUILD
"""
import os
import re
import tempfile
import warnings

import numpy as np

import python_checks
from python_checks import check, clattn, close, reference, refused

random = np.random.default_rng(5)
# C functions without a Python function of the same name, and who calls them. Other functions are in
# the module, without clattn_ and _enqueue.
BEHIND = {"type_size": "Buffer", "type_numbers": "BLOCKS", "type_name": "Buffer", "tensor_dense": "Buffer", "tensor_bhsd": "Buffer", "tensor_bshd": "Buffer",
    "status_name": "Error",
          "status_text": "Error", "version_number": "library", "device_list": "devices", "device_describe": "devices",
              "context_create": "Context",
          "context_destroy": "Context", "context_opencl": "Context", "context_device": "Context", "context_last_error": "Error",
              "kernel_name": "kernel_names",
          "opencl_function": "library", "group_create": "Group", "group_destroy": "Group", "group_last_error": "Error",
              "partition_name": "Group",
          "linear_packed_bytes": "linear_pack", "layer_kept": "layer_forward",
          **{f"recording{name}": "Recording" for name in ("", "_begin", "_end", "_launches", "_fuse", "_destroy")}}
METHODS = {"context_measure": "measure", "context_engines": "engines", "context_unfit": "unfit", "context_in_place": "in_place",
           "features_get": "features", "context_save_kernels": "save_kernels",
           "context_capabilities": "capabilities", "context_get_stats": "stats", "group_attention": "attention", "group_plan": "plan",
           "group_attention_backward": "attention_backward", "group_backward_plan": "backward_plan"}


def numbers(*shape):
    return random.standard_normal(shape, np.float32)


def names():
    for name in clattn.FUNCTIONS:
        short = name.removeprefix("clattn_").removesuffix("_enqueue")
        there = short in METHODS and callable(getattr(clattn.Group if short.startswith("group") else clattn.Context, METHODS[short])) or \
            hasattr(clattn, BEHIND.get(short, short))
        check(there, f"{name} cannot be reached from Python")
    check(clattn.version() == "0.2.0" or clattn.version().count(".") == 2, "version")
    for call, fields in (("attention", ("softcap", "k_new", "cascade")), ("layer", ("w_gate", "norm")), ("rope", ("base", "cos")),
        ("append", ("circular",)), ("shift", ("deltas",)), ("hadamard", ("block",)),
                         ("linear", ("packed",)), ("layer_kv", ("k_norm",))):
        text = getattr(clattn, call).__doc__
        check(all(field in text for field in fields) and all(field in text
            for field in clattn._fields(getattr(clattn, f"clattn_{call}_params")())), f"help({call})")


def turned(x, base=10000.0, offset=0):
    n, d = x.shape[2:]
    angle = (np.arange(n) + offset)[:, None] * base ** (-np.arange(0, d, 2) / d)
    a, b = x[..., :d // 2].astype(np.float64), x[..., d // 2:].astype(np.float64)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def block():
    """Norm, activation, embedding and argmax, with arrays and with Buffers."""
    x, y, w = numbers(2, 3, 20), numbers(2, 3, 20), numbers(20)
    h = (x + y).astype(np.float64)
    close(clattn.norm(x, weight=w), x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * w, "RMSNorm")
    out, total = clattn.norm(x, residual=y, sum=True, kind="layer", bias=w, epsilon=0.5)
    close(total, h, "sum")
    close(out, (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 0.5) + w, "LayerNorm of a sum")
    a, b = clattn.Buffer(x), clattn.Buffer(y)
    check(clattn.norm(a, residual=b, sum=b, out=a)[1] is b, "norm in place")
    close(b.numpy(), h, "norm in place: the sum")
    silu = x / (1 + np.exp(-x.astype(np.float64)))
    close(clattn.activation(x, "silu", up=y), silu * y, "SwiGLU")
    check(clattn.activation(x, "relu", out="float16").dtype == np.float16, "activation into another type")
    close(clattn.embedding([[1, 0, 7]], x[0], scale=2), np.stack([2 * x[0, 1], 2 * x[0, 0], 0 * x[0, 0]])[None], "embedding")
    check(np.array_equal(clattn.argmax(x), x.argmax(-1)), "argmax")
    lengths = clattn.Buffer(np.arange(x.shape[0] * x.shape[1], dtype=np.int32).reshape(x.shape[:2]))
    check(np.array_equal(clattn.argmax(clattn.Buffer(x), lengths=lengths).numpy(), x.argmax(-1)), "argmax of a Buffer")
    check(np.array_equal(lengths.numpy().ravel(), 1 + np.arange(lengths.size)), "lengths that argmax counts on")
    drawn = clattn.sample(np.broadcast_to(x, (2, 3, 20)), top_k=2, seed=7)
    check(all(drawn[b, n] in np.argsort(x[b, n])[-2:] for b in range(2) for n in range(3)), "samples of the two greatest")
    check(np.array_equal(clattn.sample(clattn.Buffer(x), top_k=2, seed=7).numpy(), drawn), "samples of a Buffer")
    refused("temperature", clattn.sample, x, temperature=0)
    refused("activation", clattn.activation, x, "tanh")
    refused("sum: True", clattn.norm, x, residual=y, sum="float32")
    refused("residual", clattn.norm, x, sum=True)
    refused("[B, N]", clattn.embedding, [1, 2], x[0])


def cached(word):
    """Keys and values in blocks: a call that reads them, and a call that appends to them."""
    q, rows = numbers(2, 4, 2, 32), numbers(2, 2, 9, 64)
    k, v = clattn.to_blocks(rows[..., :32], word), clattn.to_blocks(rows, word)
    want = reference(q, clattn.from_blocks(k), clattn.from_blocks(v))[0]
    close(clattn.attention(q, k, v), want, f"{word}: keys and values")
    caches = clattn.Buffer(np.zeros_like(k)), clattn.Buffer(np.zeros_like(v))
    clattn.append(rows[..., :32], rows, k=caches[0], v=caches[1])
    for cache, made in zip(caches, (k, v)):
        check((cache.numpy() == made).all(), f"{word}: what append() stores is what to_blocks() does")
    close(clattn.attention(clattn.Buffer(q), *caches).numpy(), want, f"{word}: Buffers")
    x, matrices = numbers(2, 3, 64), {name: numbers(64, 64) / 8 for name in ("wq", "wo", "wk", "wv")}
    caches = [clattn.Buffer(numbers(2, 2, 12, 32), word) for _ in range(2)]
    keys = dict(zip("kv", caches), heads=2, causal=True, alignment="bottom_right", kv_lengths=[7, 12])
    out = clattn.layer(x, **matrices, **keys, append=True)
    ready = {name: matrices[name] for name in ("wq", "wo")}
    close(out, clattn.layer(x, **ready, **keys), f"{word}: a layer that appends, and one that reads what is there")
    kept = dict(zip("kv", (clattn.from_blocks(cache.numpy()) for cache in caches)))
    close(out, clattn.layer(x, **ready, **{**keys, **kept}), f"{word}: what a layer appends")


def blocks():
    """Weights in blocks: the precision of the stored numbers, and calls that read them."""
    x, w = numbers(2, 3, 64) / 8, numbers(40, 64)  # results are about 1
    for word, bits in (("q8_0", 7), ("q4_0", 3), ("q4_1", 4)):
        kept = clattn.to_blocks(w, word)
        back = clattn.from_blocks(kept)
        check(kept.shape == (40, 2) and kept.dtype == clattn.BLOCKS[word], f"{word}: blocks")
        reach = np.abs(w).reshape(40, 2, 32).max(-1, keepdims=True) * (2 if word == "q4_1" else 1)
        check((np.abs(back - w).reshape(40, 2, 32) <= 1.01 * reach / (1 << bits)).all(), f"{word}: what is kept")
        check(np.array_equal(clattn.from_blocks(clattn.to_blocks(back, word)), back) or word == "q4_1", f"{word}: kept once more")
        want = x.astype(np.float64) @ back.T.astype(np.float64)
        close(clattn.linear(x, kept), want, f"{word}: linear")
        raw = np.frombuffer(kept.tobytes(), np.uint8).reshape(40, -1)
        for made in (clattn.Buffer(w, word), clattn.Buffer(raw, word), clattn.Buffer(kept)):
            check(made.dtype == word and made.shape == (40, 2), f"{word}: a Buffer")
            close(clattn.linear(clattn.Buffer(x), made).numpy(), want, f"{word}: linear of Buffers")
        close(clattn.embedding([[3, 0]], kept), back[[3, 0]][None], f"{word}: embedding")
        cached(word)
    refused("multiple of 32", clattn.to_blocks, w[:, :33], "q8_0")
    refused("wanted", clattn.Buffer, np.ones(33, np.int32), "q8_0")
    refused("x: type q8_0", clattn.linear, clattn.Buffer(w[None], "q8_0"), w)


def grouped(w, group, low, high):
    """Returns integers of w, a scale and a zero point for each group of a row, and the numbers that
    they represent."""
    parts = w.reshape(len(w), -1, group)
    scale = ((parts.max(-1) - parts.min(-1)) / (high - low)).astype(np.float16)
    zero = np.rint(low - parts.min(-1) / scale).astype(np.float16)
    n = np.clip(np.rint(parts / scale[..., None] + zero[..., None]), low, high)
    back = (n - zero[..., None].astype(np.float64)) * scale[..., None]
    return n.reshape(w.shape).astype(np.int16), scale, zero, back.reshape(w.shape)


def scaled_weights():
    """Weights with separate scales, in a projection, its gate and a layer."""
    x, matrices = numbers(2, 3, 64), [numbers(64, 64) / 8 for _ in range(4)]
    made = [grouped(w, 32, 0, 15) for w in matrices]
    packed = [(n[:, ::2] | n[:, 1::2] << 4).astype(np.uint8) for n, _, _, _ in made]
    (_, scale, zero, back), (_, up_scale, up_zero, up) = made[:2]
    want = x.astype(np.float64) @ back.T
    close(clattn.linear(x, packed[0].view(clattn.U4), w_scale=scale, w_zero=zero), want, "uint4: linear")
    gated = clattn.linear(*(clattn.Buffer(*of) for of in ((x,), (packed[0], "uint4"))), w_scale=scale, w_zero=zero, activation="relu",
                          w_up=clattn.Buffer(packed[1], "uint4"), w_up_scale=up_scale, w_up_zero=up_zero)
    close(gated.numpy(), np.maximum(want, 0) * (x.astype(np.float64) @ up.T), "uint4: a gate, of Buffers")
    n, scale, zero, back = grouped(matrices[0], 64, -128, 127)
    close(clattn.linear(x, n.astype(np.int8), w_scale=scale[:, 0], w_zero=zero[:, 0]), x.astype(np.float64) @ back.T, "int8: a scale a row")
    names = ("wq", "wk", "wv", "wo")
    beside = {name + end: of[1 + i] for name, of in zip(names, made) for i, end in enumerate(("_scale", "_zero"))}
    out = clattn.layer(x, **{name: p.view(clattn.U4) for name, p in zip(names, packed)}, **beside, heads=2)
    close(out, clattn.layer(x, **{name: of[3].astype(np.float32) for name, of in zip(names, made)}, heads=2), "uint4: a layer")
    refused("w_scale: is absent", clattn.linear, x, n.astype(np.int8))
    refused("w_scale: is for weights", clattn.linear, x, matrices[0], w_scale=scale[:, 0])


def calls():
    x = numbers(2, 3, 7, 16)
    close(clattn.rope(x, layout="half"), turned(x), "rope")
    close(clattn.rope(x, rope={"layout": "half", "base": 100.0}, offsets=[3, 3]), turned(x, 100.0, 3), "rope by a dictionary")
    check(clattn.rope(x, layout="half", y="bfloat16").dtype == clattn.BF16, "rope into another type")
    buffer = clattn.Buffer(x)
    check(clattn.rope(buffer, y=buffer, layout="half") is buffer, "in place")
    close(buffer.numpy(), turned(x), "rope in place")
    q, k = numbers(2, 4, 5, 16), numbers(2, 2, 12, 16)
    whole, lse, _ = reference(q, k, k)
    parts = [clattn.attention(q, k[:, :, at], k[:, :, at], lse=True) for at in (slice(0, 5), slice(5, 12))]
    first = parts[0][0].copy()
    merged = clattn.merge(*parts[0], *parts[1])
    close(merged[0], whole, "merge")
    close(merged[1], lse, "merge's lse")
    check(np.array_equal(first, parts[0][0]), "arrays that are merged stay")
    a = [clattn.Buffer(part) for part in parts[0]]
    check(clattn.merge(*a, *parts[1])[0] is a[0], "merge in place")
    close(a[0].numpy(), whole, "merge in place")
    refused("clattn.Buffer", clattn.merge, a[0], parts[0][1], *parts[1])
    q, k = numbers(1, 2, 130, 16), numbers(1, 2, 200, 16)
    for axes in (None, (1, 1)):
        blocks = clattn.block_mask(q, k, mask_mod="j <= i + 64", axes=axes)
        check(blocks.dtype == np.uint8 and blocks.shape == (1, 1 if axes else 2, 3, 4)
            and blocks[0, 0].tolist() == [[2, 1, 0, 0], [2, 2, 1, 0], [2, 2, 2, 1]], f"{blocks}")
        close(clattn.attention(q, k, k, mask_mod="j <= i + 64", block_mask=blocks),
              reference(q, k, k, mask=np.arange(200)[None] <= np.arange(130)[:, None] + 64)[0], "with a block mask")
    given = clattn.Buffer.zeros((1, 1, 3, 4), "uint8")
    ends = [0, 70, 200]
    long = numbers(1, 2, 200, 16)
    packed = {"cu_seqlens_q": ends, "cu_seqlens_kv": ends, "mask_mod": "j <= i + 64"}
    blocks_of = clattn.block_mask(long, long, **packed)
    check(blocks_of.shape == (2, 2, 3, 3), f"the blocks of a packed batch are {blocks_of.shape}")
    close(clattn.attention(long, long, long, block_mask=blocks_of, **packed), clattn.attention(long, long, long, **packed), "packed, by blocks")
    check(clattn.block_mask(q, k, mask_mod="j <= i + 64", block_mask=given) is given and np.array_equal(given.numpy(), blocks),
        "a block mask into a Buffer")
    kept = clattn.dropout_mask((1, 2, 130, 200), dropout=0.25, dropout_seed=2**64 - 1)
    check(kept.dtype == bool and 0.74 < kept.mean() < 0.76, "a dropout mask")
    p = reference(q, k, k)[2] * kept / 0.75
    close(clattn.attention(q, k, k, dropout=0.25, dropout_seed=2**64 - 1), p @ k.astype(np.float64), "dropout")
    x, w = clattn.to_bf16(numbers(1, 64, 64)), clattn.to_bf16(numbers(96, 64) / 8)
    packed = clattn.linear_pack(w)
    check(np.array_equal(clattn.linear(x, w, packed=packed, projection="native"), clattn.linear(x, w, projection="native")),
        "packed weights")
    refused("packed: what linear_pack made", clattn.linear, x, w, packed=w)
    space = clattn.Buffer.zeros((1 << 20,), "int8")
    check(np.array_equal(clattn.linear(x, w, workspace=space, projection="native"), clattn.linear(x, w, projection="native")),
        "a workspace")
    for part in (space[1 << 19:], space[:64]):
        refused("workspace: the whole of a Buffer is taken", clattn.linear, x, w, workspace=part, projection="native")
    wide, other = numbers(1, 3, 64), numbers(1, 5, 48)
    weights = {"wq": numbers(64, 64), "wk": numbers(64, 48), "wv": numbers(64, 48), "wo": numbers(32, 64)}
    got = clattn.layer(wide, y=other, heads=4, weights=True, projection="native", **weights)
    check(got[0].shape == (1, 3, 32) and got[1].shape == (1, 4, 3, 5), "cross-attention")
    k, v = np.zeros((1, 4, 5, 16), np.float32), clattn.Buffer.zeros((1, 4, 5, 16))
    back = clattn.layer_kv(other, wk=weights["wk"], wv=weights["wv"], kv_heads=4, k=k, v=v)
    check(back[0] is k and back[1] is v and k.any() and v.numpy().any(), "layer_kv into an array and a Buffer")
    refused("kv_heads: 5 does not divide", clattn.layer_kv, other, wk=weights["wk"], wv=weights["wv"], kv_heads=5)


def plans():
    q = np.broadcast_to(np.float32(0), (1, 32, 1 << 24, 128))  # a copy would have 256 GiB
    with clattn.Context(no_measurements=True) as context:
        plan = context.attention_plan(q, q, q, causal=True, lse=True)
        check(plan["kernel"] == "flash" and plan["kernel_name"].startswith("flash") and plan["why"]
            and plan["workspace_bytes"] == context.attention_workspace(q, q, q), f"{plan}")
        families = context.attention_families(q, q, q, causal=True)
        check(len(families) > 5 and [f["name"] for f in families if f["taken"]] == [plan["kernel_name"]], f"{families}")
        check(context.attention_plan(q[:, :, :1], q, q)["kernel"] == "decode", "a plan of few rows")
        refused("D", context.attention_plan, q, q[..., :64], q)
        x, w = np.zeros((1, 128, 64), np.float32), np.zeros((64, 64), np.float32)
        options = dict(wq=w, wk=w, wv=w, wo=w, heads=4, projection="native")
        check(context.layer_plan(x, **options)["kernel"] in clattn.kernel_names() and context.layer_workspace(x, **options) > 0,
            "a layer's plan")
        choice = context.linear_plan(x, w, projection="native")
        check(choice["projection"] == "native" and choice["kernel_name"].startswith("linear")
            and context.linear_workspace(x, w, projection="native") >= 0, f"{choice}")
        small = numbers(1, 2, 3, 16)
        cache = clattn.Buffer.zeros((1, 2, 8, 16), context=context)
        for prepare in (lambda: context.attention_prepare(small, small, small), lambda: context.rope_prepare(small, layout="half"),
            lambda: context.hadamard_prepare(small),
            lambda: context.linear_prepare(x, w, projection="native"),
                        lambda: context.append_prepare(small, small, k=cache, v=cache),
                        lambda: context.shift_prepare(cache, delta=1, rope={"layout": "half"}), lambda: context.layer_prepare(x, **options)):
            check(prepare() is None, "prepare")
        built = context.stats()["programs_built"]
        context.attention(small, small, small)
        context.append(small, k=cache)
        check(built >= 4 and context.stats()["programs_built"] == built, f"what was prepared is not built again: {context.stats()}")
        refused("no_measurements", context.measure)
        check(context.features()["svm"] in (True, False) and context.capabilities()["name"] == clattn.devices()[0]["name"],
            "features, capabilities")
        check(all(engine["name"] for engine in context.engines()), "engines")
    with tempfile.TemporaryDirectory() as folder:
        with clattn.Context(cache_dir=folder) as context:
            context.attention(small, small, small)
            context.save_kernels()
            unkept = "PoCL " in context.capabilities()["platform"]
            check(bool(os.listdir(folder)) != unkept, "save_kernels: kernels are kept, but PoCL's")
        clattn.cache_clean(folder)
        check(not [name for name in os.listdir(folder) if "bin" in name], f"{os.listdir(folder)}")
    refused("", clattn.cache_clean, "/no/such/folder")
    refused("cache_dir: the folder is not usable", clattn.device_survey, "/no/such/folder/at/all")
    refused("cache_dir: a text", clattn.device_survey, 7)
    refused("", clattn.opencl_load, "/no/such/library")


def gradients():
    """Gradients of a layer, returned by name if the tensor exists. Differences of the layer's
    result along each match."""
    x, dout = numbers(2, 5, 12), numbers(2, 5, 6)
    given = {"wq": numbers(16, 12), "wk": numbers(8, 12), "wv": numbers(8, 12), "wo": numbers(6, 16), "bq": numbers(16)}
    given = {name: value / 4 for name, value in given.items()}
    how = {"heads": 4, "kv_heads": 2, "causal": True, "rope": {"layout": "half"}}
    found = clattn.layer_backward(x, dout, **given, **how)
    check(list(found) == ["dx", "dwq", "dwk", "dwv", "dwo", "dbq"], "the gradients that there are")
    for name, value in {"x": x, **given}.items():
        along = numbers(*value.shape)
        ends = [(clattn.layer(**{"x": x, **given, name: value + step * along}, **how).astype(np.float64) * dout).sum()
                for step in (0.01, -0.01)]
        along_it = (found[f"d{name}"].astype(np.float64) * along).sum()
        close((ends[0] - ends[1]) / 0.02, along_it, f"d{name}", 0.02 + 0.01 * abs(along_it))
    into, buffer = np.empty_like(x), clattn.Buffer(x)
    some = clattn.layer_backward(x, dout, dx=into, dwq=False, dwk="float16", dsinks=True, sinks=np.zeros(4), **given, **how)
    check("dwq" not in some and some["dx"] is into and some["dwk"].dtype == np.float16 and some["dsinks"].shape == (4,), "what is asked for")
    check(isinstance(clattn.layer_backward(x, clattn.Buffer(dout), **given, **how)["dwv"], clattn.Buffer), "Buffers")
    check(clattn.layer_backward_workspace(buffer, dout, **given, **how) > 0 and
          clattn.layer_backward_prepare(buffer, dout, **given, **how) is None, "asked ahead")
    out, kept = clattn.layer_forward(x, **given, **how)
    close(out, clattn.layer(x, **given, **how), "the forward call of a training step", 1e-6)
    again = clattn.layer_backward(x, dout, kept=kept, **given, **how)
    check(all((again[name] == found[name]).all() for name in found), "from what it kept, the same bits")
    check(clattn.layer_forward(x, kept=kept, **given, **how)[1] is kept, "what was kept, once more")
    refused("kept: has 1 numbers", clattn.layer_backward, x, dout, kept=np.zeros(1, np.float32), **given, **how)
    refused("lse: has no gradient", clattn.layer_forward, x, lse=True, **given, **how)
    refused("dy: is asked for without y", clattn.layer_backward, x, dout, dy=True, **given, **how)
    refused("append: has no gradient", clattn.layer_backward, x, dout, append=True, **given, **how)


def groups():
    q, k = numbers(2, 4, 40, 16), numbers(2, 2, 40, 16)
    with clattn.Context() as one, clattn.Context() as two:
        with clattn.Group([one, two]) as group:
            out, lse, _ = reference(q, k, k, causal=True)
            got = group.attention(q, k, k, causal=True, lse=True, partition="heads", shares=[1, 3])
            close(got[0], out, "a group")
            close(got[1], lse, "a group's lse")
            check(group.report["partition"] == "heads" and [round(x["share"], 2) for x in group.shares] == [0.25, 0.75],
                f"{group.report} {group.shares}")
            into = np.zeros((2, 40, 4, 16), np.float32).transpose(0, 2, 1, 3)
            check(group.attention(q[:, :, ::-1], k, k[:, :, :, ::1], out=into) is into, "into an array")
            close(into, reference(q[:, :, ::-1], k, k)[0], "strided arrays")
            report, shares = group.plan(q, k, k, partition="rows")
            check(report["partition"] == "rows" and len(shares) == 2, f"{report}")
            out, lse = one.attention(q, k, k, causal=True, lse=True)
            dout, slopes = numbers(*out.shape), np.float32([0.5, 0.25, 0.1, 0.2])
            old = {"deal=": lambda: group.attention(q, k, k, deal="heads"), "a report": lambda: group.report["deal"],
                   "a plan": lambda: group.plan(q, k, k, deal="heads")[0].get("deal"), "a constant": lambda: clattn.CLATTN_DEAL_HEADS,
                   "gradients": lambda: group.attention_backward(q, k, k, *one.attention(q, k, k, lse=True), q, deal="heads"),
                   "their plan": lambda: group.backward_plan(q, k, k, q, lse, q, deal="heads")[0]["partition"]}
            for name, call in old.items():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    got = call()
                said = [one for one in caught if one.category is DeprecationWarning and one.filename == __file__]
                check(len(said) == len(caught) == (2 if name == "a plan" else 1), f"{name}, by its old name: {caught}")
                check(isinstance(got, (np.ndarray, tuple)) or got in ("heads", clattn.CLATTN_PARTITION_HEADS), f"{name}: {got}")
            check(group.report.get("deals") is None and "deals" not in group.report, "a name that no report has")
            refused("deal is the old name", group.attention, q, k, k, deal="heads", partition="rows")
            refused("other calls have partition", clattn.attention, q, k, k, deal="heads")
            for deal in ("heads", "rows", "keys"):
                given = {"causal": True, "dlse": lse, "dv": deal != "rows"}
                got = group.attention_backward(q, k, k, out, lse, dout, partition=deal, shares=[1, 3], **given)
                for name, x, y in zip("qkv", got, one.attention_backward(q, k, k, out, lse, dout, **given)):
                    close(x, y, f"d{name} of a group by {deal}")
                check(len(got) == (2 if deal == "rows" else 3) and group.report["partition"] == deal, f"{group.report}")
            into = np.zeros((2, 40, 4, 16), np.float32).transpose(0, 2, 1, 3)
            got = group.attention_backward(q, k, k, out, lse, dout, dq=into, dalibi_slopes=True, alibi_slopes=slopes, causal=True)
            check(got[0] is into and into.any() and got[3].shape == (4,), "gradients into an array, and of heads")
            report, shares = group.backward_plan(q, k, k, out, lse, dout, partition="keys")
            check(report["partition"] == "keys" and len(shares) == 2, f"{report}")
            refused("dbias: is asked for without bias", group.attention_backward, q, k, k, out, lse, dout, dbias=True)
            refused("shares: shape (1,) was given", group.attention_backward, q, k, k, out, lse, dout, shares=[1])
            refused("takes arrays in host memory", group.attention_backward, q, k, k, out, lse, clattn.Buffer(dout, context=one))
            cache, new = np.zeros((2, 2, 44, 16), np.float32), numbers(2, 2, 1, 16)
            cache[:, :, :40] = k
            got = group.attention(q[:, :, :1], cache, -cache, kv_lengths=[40, 40])
            close(got, reference(q[:, :, :1], k, -k)[0], "lengths")
            values = cache.copy()
            got = group.attention(q[:, :, :1], cache, values, k_new=new, v_new=new, kv_lengths=[41, 41])
            check(np.array_equal(cache[:, :, 40], new[:, :, 0]) and np.array_equal(values, cache), "a cache in host memory")
            refused("the call writes into it", group.attention, q[:, :, :1], cache[:, :, ::-1], values, k_new=new, v_new=new,
                kv_lengths=[41, 41])
            # what is written to a copy would be lost
            for other in (cache.astype(">f4"), cache.astype(np.int8).tolist()):
                refused("k: the call writes into it", group.attention, q[:, :, :1], other, values, k_new=new, v_new=new, kv_lengths=[41, 41])
            pairs = np.zeros((2, 4, 40), np.dtype([("a", np.float32), ("b", np.uint16)]))
            refused("lse: its address or a stride is no multiple", group.attention, q, k, k, lse=pairs["a"])
            refused("attention: its fields are keywords", group.attention, q, k, k, attention={"sequences": 3})
            refused("kv: its fields are keywords", group.attention, q, k, k, kv={"k_new": new})
            refused("shares: shape (1,) was given, [members] is wanted, (2,)", group.attention, q, k, k, shares=[1])
            refused("kv_lengths: shape (1,) was given", group.attention, q, k, k, kv_lengths=[3])
            refused("takes arrays in host memory", group.attention, q, clattn.Buffer(k, context=one), k)
            refused("is none of auto, heads", group.attention, q, k, k, partition="tails")
            one.close()  # also closes what uses it
            refused("the group is closed", group.attention, q, k, k)
        refused("a group is made of contexts", clattn.Group, [two], [1, 2])
        refused("the context is closed", clattn.Group, [one, two])


def readme():
    """Run the README's Python example as it is."""
    text = open("README.md", encoding="utf-8").read()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    check(len(blocks) == 1, "the README's Python")
    q, k, v = numbers(2, 4, 9, 16), numbers(2, 2, 9, 16), numbers(2, 2, 9, 16)
    names = {"q": q, "k": k, "v": v, "B": 2, "Hkv": 2, "D": 16, "Nkv": 9}
    exec(blocks[0], names)
    close(names["out"], reference(turned(q), turned(k), v, causal=True)[0], "the README's last line")


names()
readme()
calls()
block()
blocks()
scaled_weights()
plans()
gradients()
groups()
print(f"{python_checks.checks} checks of the calls")
