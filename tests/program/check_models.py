#!/usr/bin/env python3
"""`clattn layer --model DIR --layer N`, compared with numpy in float64. The folders are small
models with random weights in the style of BERT, GPT-2, Phi, Gemma and Qwen, also with experts, with
their config.json and tensor names. With --block each complete block is compared.

   check_models.py BUILD
"""
import json, math, os, subprocess, sys, tempfile

import files

try:
    import numpy as np
except ImportError:
    print("no numpy")
    sys.exit(77)

CLATTN = os.path.abspath(os.path.join(sys.argv[1], "clattn"))
WIDTH, ROWS = 48, 21
random = np.random.default_rng(7)


def rounded(x):
    return x.astype(np.float32).astype(np.float64)


def matrix(rows, columns):
    return rounded(random.standard_normal((rows, columns)) / math.sqrt(columns))


def vector(size, spread=0.5):
    return rounded(random.standard_normal(size) * spread)


def bf16(x):
    bits = np.ascontiguousarray(x).astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def safetensors(path, tensors, dtype="F32"):
    numbers = bf16 if dtype == "BF16" else lambda x: np.ascontiguousarray(x).astype("<f4")
    files.safetensors(path, {key: (list(value.shape), numbers(value).tobytes(), dtype) for key, value in tensors.items()})


def turn(x, base, width, factor=1.0):
    inv = base ** (-np.arange(0, width, 2) / width) / factor
    angle = np.arange(x.shape[1])[:, None] * inv[None]
    a, b = x[..., :width // 2], x[..., width // 2:width]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[..., width:]], -1)


def heads_of(x, count):
    return x.reshape(len(x), count, -1).transpose(1, 0, 2)


def attend(q, k, v, causal, scale, window=None):
    group = len(q) // len(k)
    i, j = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None]
    seen = (j <= i if causal else True) & (j > i - window if window else j >= 0)
    s = np.where(seen, scale * q @ np.repeat(k, group, 0).transpose(0, 2, 1), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    out = p / p.sum(-1, keepdims=True) @ np.repeat(v, group, 0)
    return out.transpose(1, 0, 2).reshape(q.shape[1], -1)


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 + w)


def plain(w, x, heads, kv, causal, rope=None, norm=None, scale=None, window=None):
    q, k, v = (heads_of(x @ w[n].T + w.get("b" + n, 0), count) for n, count in (("q", heads), ("k", kv), ("v", kv)))
    if norm:
        q, k = rms(q, w["qn"], norm), rms(k, w["kn"], norm)
    if rope:
        q, k = turn(q, *rope), turn(k, *rope)
    return attend(q, k, v, causal, scale or q.shape[-1] ** -0.5, window) @ w["o"].T + w.get("bo", 0)


def four(heads, kv, size, biases):
    w = {"q": matrix(heads * size, WIDTH), "k": matrix(kv * size, WIDTH), "v": matrix(kv * size, WIDTH), "o": matrix(WIDTH, heads * size)}
    if biases:
        w.update({"b" + n: vector(len(w[n])) for n in "qkvo"})
    return w


def named(prefix, w, names):
    return {f"{prefix}.{to}": w[n] for n, to in names.items()}


def run(folder, layer=0, *options):
    given = [] if "--x" in options else ["--x", "x.npy"]
    given += [] if "--projection" in options else ["--projection", "native"]
    done = subprocess.run([CLATTN, "layer", "--model", folder, "--layer", str(layer), *given, "--out", "out.npy", "--quiet", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    out = np.load("out.npy")
    return (from_bf16(out) if out.dtype == np.uint16 else out.astype(np.float64))[0]


counted = 0


def make(what, config, tensors, dtype="F32"):
    folder = what.replace(" ", "-")
    os.mkdir(folder)
    json.dump(config, open(folder + "/config.json", "w"))
    safetensors(folder + "/model.safetensors", tensors, dtype)
    return folder


def near(what, got, want, most=1e-11):
    global counted
    error = ((got - want) ** 2).sum() / (want ** 2).sum()
    assert error < most, f"{what}: NMSE {error:.2g}"
    print(f"{what}: NMSE {error:.1e}")
    counted += 1


def check(what, config, tensors, want, layer=0, *options):
    near(what, run(make(what, config, tensors), layer, *options), want)


os.chdir(tempfile.mkdtemp())
# no cache folder, so that commands are independent
os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = "none"
x = rounded(random.standard_normal((ROWS, WIDTH)))
np.save("x.npy", x[None].astype(np.float32))

BERT = {"q": "self.query.weight", "k": "self.key.weight", "v": "self.value.weight", "o": "output.dense.weight", "bq": "self.query.bias",
        "bk": "self.key.bias", "bv": "self.value.bias", "bo": "output.dense.bias"}
w = four(4, 4, 12, True)
bert = dict(model_type="bert", hidden_size=WIDTH, num_attention_heads=4, num_hidden_layers=3, position_embedding_type="absolute",
    is_decoder=False)
want = plain(w, x, 4, 4, False)
check("BERT", bert, named("bert.encoder.layer.2.attention", w, BERT), want, 2)
check("RoBERTa", {**bert, "model_type": "roberta"}, named("roberta.encoder.layer.2.attention", w, BERT), want, 2)
check("XLM-RoBERTa", {**bert, "model_type": "xlm-roberta"}, named("encoder.layer.2.attention", w, BERT), want, 2)
check("BERT without its head", bert, named("encoder.layer.0.attention", w, BERT), want)

# GPT-2's Conv1D: [in, out], with q, k and v joined.
joined = np.concatenate([w["q"], w["k"], w["v"]])
conv = {"c_attn.weight": joined.T, "c_attn.bias": np.concatenate([w["bq"], w["bk"], w["bv"]]), "c_proj.weight": w["o"].T,
    "c_proj.bias": w["bo"]}
gpt2 = dict(model_type="gpt2", n_embd=WIDTH, n_head=4, n_layer=2, scale_attn_by_inverse_layer_idx=False)
want = plain(w, x, 4, 4, True)
check("GPT-2", gpt2, {"h.1.attn." + key: value for key, value in conv.items()}, want, 1)
check("GPT-2 with its head", gpt2, {"transformer.h.0.attn." + key: value for key, value in conv.items()}, want)
check("GPT-2 with a scale by layer", {**gpt2, "scale_attn_by_inverse_layer_idx": True},
      {"h.1.attn." + key: value for key, value in conv.items()}, plain(w, x, 4, 4, True, scale=12 ** -0.5 / 2), 1)

LLAMA = {"q": "q_proj.weight", "k": "k_proj.weight", "v": "v_proj.weight", "o": "o_proj.weight"}
PHI = {**LLAMA, "o": "dense.weight", "bq": "q_proj.bias", "bk": "k_proj.bias", "bv": "v_proj.bias", "bo": "dense.bias"}
w = four(3, 3, 16, True)
check("Phi", dict(model_type="phi", hidden_size=WIDTH, num_attention_heads=3, num_hidden_layers=1, rope_theta=10000.0,
    partial_rotary_factor=0.5,
                  qk_layernorm=False), named("model.layers.0.self_attn", w, PHI), plain(w, x, 3, 3, True, (10000.0, 8)))

w = four(6, 2, 8, False)
joined = np.concatenate([w["q"], w["k"], w["v"]])
check("Phi-3", dict(model_type="phi3", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=1,
    rope_theta=10000.0,
                    rope_scaling=None, sliding_window=5),
      {"model.layers.0.self_attn.qkv_proj.weight": joined, "model.layers.0.self_attn.o_proj.weight": w["o"]},
      plain(w, x, 6, 2, True, (10000.0, 8), window=5))

w = four(4, 1, 16, False)
check("Gemma", dict(model_type="gemma", hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=1, head_dim=16, num_hidden_layers=1,
                    rope_theta=10000.0), named("model.layers.0.self_attn", w, LLAMA), plain(w, x, 4, 1, True, (10000.0, 16)))

# Biases of q, k and v, but not of the output. The window applies from max_window_layers on, if it
# is used at all.
w = {**four(6, 2, 8, False), "bq": vector(48), "bk": vector(16), "bv": vector(16)}
QWEN2 = {**LLAMA, "bq": "q_proj.bias", "bk": "k_proj.bias", "bv": "v_proj.bias"}
qwen2 = dict(model_type="qwen2", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=4, rope_theta=1000000.0,
             use_sliding_window=True, sliding_window=5, max_window_layers=2)
check("Qwen2", qwen2, named("model.layers.1.self_attn", w, QWEN2), plain(w, x, 6, 2, True, (1000000.0, 8)), 1)
check("Qwen2 with its window", qwen2, named("model.layers.2.self_attn", w, QWEN2), plain(w, x, 6, 2, True, (1000000.0, 8), window=5), 2)

# Norms of each head of q and k. The router of the experts has no effect on attention.
w = {**four(6, 2, 16, False), "qn": vector(16), "kn": vector(16)}
QWEN3 = {**LLAMA, "qn": "q_norm.weight", "kn": "k_norm.weight"}
qwen3 = dict(model_type="qwen3_moe", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, head_dim=16, num_hidden_layers=2,
    rope_theta=1000000.0,
             rms_norm_eps=1e-6, attention_bias=False, use_sliding_window=False, sliding_window=None, max_window_layers=2, num_experts=2,
                 num_experts_per_tok=1,
             moe_intermediate_size=8, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True)
experts = {"model.layers.1.mlp.gate.weight": matrix(2, WIDTH),
    **{f"model.layers.1.mlp.experts.{n}.up_proj.weight": matrix(8, WIDTH) for n in range(2)}}
# rms() adds 1 to w.
want = plain({**w, "qn": w["qn"] - 1, "kn": w["kn"] - 1}, x, 6, 2, True, (1000000.0, 16), 1e-6)
w_moe = w
check("Qwen3-MoE", qwen3, {**named("model.layers.1.self_attn", w, QWEN3), **experts}, want, 1)

# Layers with a window have their own RoPE base. Here every second layer has no window.
w = {**four(4, 2, 16, False), "qn": vector(16), "kn": vector(16)}
GEMMA3 = {**LLAMA, "qn": "q_norm.weight", "kn": "k_norm.weight"}
gemma3 = dict(model_type="gemma3_text", hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_hidden_layers=4,
              rope_theta=1000000.0, rope_local_base_freq=10000.0, query_pre_attn_scalar=24, attn_logit_softcapping=None, sliding_window=6,
              rms_norm_eps=1e-6, rope_scaling=dict(rope_type="linear", factor=8.0))
local = plain(w, x, 4, 2, True, (10000.0, 16), 1e-6, 24 ** -0.5, 6)
whole = plain(w, x, 4, 2, True, (1000000.0, 16, 8.0), 1e-6, 24 ** -0.5)
for what, more in ("pattern", dict(sliding_window_pattern=2)), ("kinds", dict(layer_types=["sliding_attention", "full_attention"] * 2)):
    for layer, want in (0, local), (1, whole):
        check(f"Gemma 3 by {what}, layer {layer}", {**gemma3, **more}, named(f"model.layers.{layer}.self_attn", w, GEMMA3), want, layer)


# Complete blocks. `t` has the other tensors of the block by their roles, and `attention` computes
# the layer of its input.
HIDDEN, EPSILON = 40, 0.03
ACTIVATIONS = {"silu": lambda g: g / (1 + np.exp(-g)), "gelu": lambda g: g * (1 + np.vectorize(math.erf)(g / math.sqrt(2))) / 2,
               "gelu_new": lambda g: g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))) / 2,
               "quick_gelu": lambda g: g / (1 + np.exp(-1.702 * g)), "relu": lambda g: np.maximum(g, 0),
               "relu2": lambda g: np.maximum(g, 0) ** 2}


def norm(t, role, h, eps=EPSILON):
    w = t[role + ".weight"]
    if role + ".bias" not in t:
        return rms(h, w - 1 + t["plus"], eps)
    h = h - h.mean(-1, keepdims=True)
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + eps) * w + t[role + ".bias"]


def mlp(t, h, act):
    def linear(role, h):
        return h @ t[role + ".weight"].T + t.get(role + ".bias", 0)
    return linear("down", ACTIVATIONS[act](linear("gate", h)) * (linear("up", h) if "up.weight" in t else 1))


def block(form, t, x, attention, act, eps=EPSILON):
    n = lambda role, h: norm(t, role, h, eps)
    if form == "pre":
        h = x + attention(n("x", x))
        return h + mlp(t, n("h", h), act)
    if form == "sandwich":
        h = x + n("attention", attention(n("x", x)))
        return h + n("mlp", mlp(t, n("h", h), act))
    if form == "result":
        h = x + n("attention", attention(x))
        return h + n("mlp", mlp(t, h, act))
    if form == "post":
        h = n("attention", x + attention(x))
        return n("mlp", h + mlp(t, h, act))
    return x + attention(n("x", x)) + mlp(t, n("x", x), act)


def beside(norms, shifted, gated, biased, plus=0):
    """Random tensors of a block besides attention: norms of these roles, with biases, and the
    matrices."""
    t = {"plus": plus}
    for role in norms:
        t[role + ".weight"] = 1 - plus + vector(WIDTH, 0.3)
        t.update({role + ".bias": vector(WIDTH)} if shifted else {})
    for role, rows, columns in [("gate", HIDDEN, WIDTH), ("down", WIDTH, HIDDEN)] + ([("up", HIDDEN, WIDTH)] if gated else []):
        t[role + ".weight"] = matrix(rows, columns)
        t.update({role + ".bias": vector(rows)} if biased else {})
    return t


def roles(prefix, t, names):
    return {f"{prefix}.{names[key.split('.')[0]]}.{key.split('.')[1]}": value for key, value in t.items() if key != "plus"}


GATED = {"x": "input_layernorm", "h": "post_attention_layernorm", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
TWICE = {**GATED, "attention": "post_attention_layernorm", "h": "pre_feedforward_layernorm", "mlp": "post_feedforward_layernorm"}
small = x * 0.2  # so that epsilon matters
np.save("small.npy", small[None].astype(np.float32))
BLOCK = ("--block", "--x", "small.npy")
llama = dict(model_type="llama", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=2, rope_theta=10000.0,
             rms_norm_eps=EPSILON, intermediate_size=HIDDEN, hidden_act="silu")
w = four(6, 2, 8, False)
llama_attention = lambda n: plain(w, n, 6, 2, True, (10000.0, 8))
t = beside("xh", False, True, False)
llama_tensors = {**named("model.layers.1.self_attn", w, LLAMA), **roles("model.layers.1", t, GATED)}
llama_want = block("pre", t, small, llama_attention, "silu")
check("block of Llama", llama, llama_tensors, llama_want, 1, *BLOCK)
mistral = {**{k: v for k, v in llama.items() if k not in ("hidden_act", "rms_norm_eps")}, "model_type": "mistral"}
check("block of Mistral by default", mistral, llama_tensors, block("pre", t, small, llama_attention, "silu", 1e-6), 1, *BLOCK)
folder = make("block in shards", llama, {key: v for key, v in llama_tensors.items() if "mlp" in key})
os.rename(folder + "/model.safetensors", folder + "/2.safetensors")
safetensors(folder + "/1.safetensors", {key: v for key, v in llama_tensors.items() if "mlp" not in key})
json.dump({"weight_map": {key: f"{1 + ('mlp' in key)}.safetensors" for key in llama_tensors}},
          open(folder + "/model.safetensors.index.json", "w"))
near("block in shards", run(folder, 1, *BLOCK), llama_want)
for act in "gelu", "gelu_new", "quick_gelu", "relu", "relu2":
    check(f"block with {act}", {**llama, "hidden_act": act}, llama_tensors, block("pre", t, small, llama_attention, act), 1, *BLOCK)
biased = {**t, **{role + ".bias": vector(len(t[role + ".weight"])) for role in ("gate", "up", "down")}}
biased_tensors = {**llama_tensors, **roles("model.layers.1", biased, GATED)}
check("block with biases", {**llama, "mlp_bias": True}, biased_tensors, block("pre", biased, small, llama_attention, "silu"), 1, *BLOCK)

# The report, and types. With CLATTN_THOROUGH=on also other options of a layer, which compile other
# kernels.
done = subprocess.run([CLATTN, "layer", "--model", "block-of-Llama", "--layer", "1", *BLOCK, "--out", "out.npy", "--projection", "native",
                       "--json"], capture_output=True, text=True)
report = json.loads(done.stdout)
told = report["block"]
assert abs(told.pop("norm_eps") / EPSILON - 1) < 1e-6, told
assert told == {"form": "pre", "norm": "rms", "activation": "silu", "gated": True, "hidden": HIDDEN, "calls": 5}, told
flops = 2 * ROWS * WIDTH * (48 + 16 + 16 + 48 + 3 * HIDDEN) + 4 * 6 * 8 * ROWS * (ROWS + 1) // 2
assert abs(report["gflops"] * report["time_ns"] / flops - 1) < 1e-6, (report, flops)
thorough = os.environ.get("CLATTN_THOROUGH", "off") != "off"
if thorough:
    cut = block("pre", t, small[:8], llama_attention, "silu"), block("pre", t, small[8:], llama_attention, "silu")
    np.save("cu.npy", np.array([0, 8, ROWS], np.int32))
    near("block of two sequences", run("block-of-Llama", 1, *BLOCK, "--cu-seqlens", "cu.npy"), np.concatenate(cut))
    near("block with weights", run("block-of-Llama", 1, *BLOCK, "--attention-weights", "weights.npy"), llama_want)
    assert np.abs(np.load("weights.npy").sum(-1) - 1).max() < 1e-5
    near("block by CLBlast", run("block-of-Llama", 1, "--block", "--x", "small.npy", "--projection", "clblast"), llama_want)
rounding = lambda values: {key: from_bf16(bf16(value)) if key != "plus" else value for key, value in values.items()}
w, halved = rounding(w), rounding(t)
np.save("half.npy", bf16(small)[None])
want = block("pre", halved, from_bf16(bf16(small)), llama_attention, "silu")
make("block in bf16", llama, {**named("model.layers.1.self_attn", w, LLAMA), **roles("model.layers.1", halved, GATED)}, "BF16")
near("block in bf16", run("block-in-bf16", 1, "--block", "--x", "half.npy", "--dtype", "bf16"), want, 5e-5)

w = {**four(6, 2, 8, False), "bq": vector(48), "bk": vector(16), "bv": vector(16)}
check("block of Qwen2", {**llama, "model_type": "qwen2", "num_hidden_layers": 1, "use_sliding_window": False},
      {**named("model.layers.0.self_attn", w, QWEN2), **roles("model.layers.0", t, GATED)},
      block("pre", t, small, lambda n: plain(w, n, 6, 2, True, (10000.0, 8)), "silu"), 0, *BLOCK)
w = w_moe
check("block of Qwen3", {**llama, "model_type": "qwen3", "head_dim": 16, "num_hidden_layers": 1},
      {**named("model.layers.0.self_attn", w, QWEN3), **roles("model.layers.0", t, GATED)},
      block("pre", t, small, lambda n: plain({**w, "qn": w["qn"] - 1, "kn": w["kn"] - 1}, n, 6, 2, True, (10000.0, 16), EPSILON), "silu"),
      0, *BLOCK)
w = four(6, 2, 8, False)
check("block of Phi-3", {**llama, "model_type": "phi3"},
      {"model.layers.1.self_attn.qkv_proj.weight": np.concatenate([w["q"], w["k"], w["v"]]),
       "model.layers.1.self_attn.o_proj.weight": w["o"],
       "model.layers.1.mlp.gate_up_proj.weight": np.concatenate([t["gate.weight"], t["up.weight"]]),
       **roles("model.layers.1", {k: v for k, v in t.items() if k[:2] not in ("ga", "up")}, GATED)},
      block("pre", t, small, lambda n: plain(w, n, 6, 2, True, (10000.0, 8)), "silu"), 1, *BLOCK)
plus = beside("xh", False, True, False, 1)
for what, more in ("", {}), (" that says gelu", dict(hidden_act="gelu")), (" that says both", dict(hidden_act="gelu",
                                                                                                 hidden_activation="gelu_pytorch_tanh")):
    check("block of Gemma" + what, {**{k: v for k, v in llama.items() if k != "hidden_act"}, "model_type": "gemma", **more},
          {**named("model.layers.1.self_attn", w, LLAMA), **roles("model.layers.1", plus, GATED)},
          block("pre", plus, small, lambda n: plain(w, n, 6, 2, True, (10000.0, 8)), "gelu_new"), 1, *BLOCK)
both = beside(["x", "attention", "h", "mlp"], False, True, False, 1)
check("block of Gemma 2", {**llama, "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 24,
                          "attn_logit_softcapping": None},
      {**named("model.layers.1.self_attn", w, LLAMA), **roles("model.layers.1", both, TWICE)},
      block("sandwich", both, small, lambda n: plain(w, n, 6, 2, True, (10000.0, 8), None, 24 ** -0.5), "gelu_new"), 1, *BLOCK)
w = {**four(4, 2, 16, False), "qn": vector(16), "kn": vector(16)}
check("block of Gemma 3", {**gemma3, "rms_norm_eps": EPSILON, "intermediate_size": HIDDEN, "hidden_activation": "gelu_pytorch_tanh",
                           "sliding_window_pattern": 2},
      {**named("model.layers.0.self_attn", w, GEMMA3), **roles("model.layers.0", both, TWICE)},
      block("sandwich", both, small, lambda n: plain(w, n, 4, 2, True, (10000.0, 16), EPSILON, 24 ** -0.5, 6), "gelu_new"), 0, *BLOCK)
w = {**four(6, 2, 8, False), "qn": vector(48), "kn": vector(16)}
given = beside(["attention", "mlp"], False, True, False)


def olmo2(n):
    q, k = (rms(n @ w[side].T, w[side + "n"] - 1, EPSILON) for side in "qk")
    q, k = turn(heads_of(q, 6), 10000.0, 8), turn(heads_of(k, 2), 10000.0, 8)
    return attend(q, k, heads_of(n @ w["v"].T, 2), True, 8 ** -0.5) @ w["o"].T


check("block of OLMo 2", {**llama, "model_type": "olmo2"},
      {**named("model.layers.1.self_attn", w, QWEN3), **roles("model.layers.1", given, TWICE)},
      block("result", given, small, olmo2, "silu"), 1, *BLOCK)

w = four(4, 4, 12, True)
shifted = beside("xh", True, False, True)
GPT2 = {"x": "ln_1", "h": "ln_2", "gate": "mlp.c_fc", "down": "mlp.c_proj"}
conv_block = {"attn.c_attn.weight": np.concatenate([w["q"], w["k"], w["v"]]).T,
              "attn.c_attn.bias": np.concatenate([w["bq"], w["bk"], w["bv"]]), "attn.c_proj.weight": w["o"].T, "attn.c_proj.bias": w["bo"]}
gpt2_tensors = {**{"h.1." + key: value for key, value in conv_block.items()},
                # a vector is not transposed
                **{key: value.T for key, value in roles("h.1", shifted, GPT2).items()}}
gpt2_config = {**gpt2, "layer_norm_epsilon": EPSILON, "n_inner": HIDDEN, "activation_function": "gelu_new"}
check("block of GPT-2", gpt2_config, gpt2_tensors, block("pre", shifted, small, lambda n: plain(w, n, 4, 4, True), "gelu_new"), 1, *BLOCK)

bert = {**bert, "intermediate_size": HIDDEN, "hidden_act": "gelu", "layer_norm_eps": EPSILON}
AFTER = {"attention": "attention.output.LayerNorm", "mlp": "output.LayerNorm", "gate": "intermediate.dense", "down": "output.dense"}
after = beside(["attention", "mlp"], True, False, True)
bert_tensors = {**named("encoder.layer.2.attention", w, BERT), **roles("encoder.layer.2", after, AFTER)}
bert_want = block("post", after, small, lambda n: plain(w, n, 4, 4, False), "gelu")
check("block of BERT", bert, bert_tensors, bert_want, 2, *BLOCK)
old = {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for key, v in bert_tensors.items()}
check("block of BERT with old names", bert, old, bert_want, 2, *BLOCK)
check("block of BERT by default", {k: v for k, v in bert.items() if k not in ("hidden_act", "layer_norm_eps")}, bert_tensors,
      block("post", after, small, lambda n: plain(w, n, 4, 4, False), "gelu", 1e-12), 2, *BLOCK)
for side in "kv":
    np.save(f"past_{side}.npy", heads_of(small[:15] @ w[side].T + w["b" + side], 4)[None].astype(np.float32))
np.save("last.npy", small[None, 15:].astype(np.float32))
near("block with past rows", run("block-of-BERT", 2, "--block", "--x", "last.npy", "--past-k", "past_k.npy", "--past-v", "past_v.npy"),
     bert_want[15:])
np.save("lengths.npy", np.array([9], np.int32))
few = lambda n: attend(*(heads_of(m @ w[side].T + w["b" + side], 4) for side, m in (("q", n), ("k", n[:9]), ("v", n[:9]))), False,
                       12 ** -0.5) @ w["o"].T + w["bo"]
near("block with lengths", run("block-of-BERT", 2, *BLOCK, "--kv-lengths", "lengths.npy"), block("post", after, small, few, "gelu"))
w = four(3, 3, 16, True)
one = beside("x", True, False, True)
check("block of Phi", dict(model_type="phi", hidden_size=WIDTH, num_attention_heads=3, num_hidden_layers=1, rope_theta=10000.0,
                           partial_rotary_factor=0.5, layer_norm_eps=EPSILON, hidden_act="gelu_new", intermediate_size=HIDDEN),
      {**named("model.layers.0.self_attn", w, PHI), **roles("model.layers.0", one, {**GATED, "gate": "mlp.fc1", "down": "mlp.fc2"})},
      block("parallel", one, small, lambda n: plain(w, n, 3, 3, True, (10000.0, 8)), "gelu_new"), 0, *BLOCK)


def refused(what, word, config, tensors, layer=0, *options):
    global counted
    try:
        check(what, config, tensors, x, layer, *options)
    except AssertionError as error:
        assert word in str(error) and "\n" not in str(error).strip(), error
        counted += 1
        return
    raise SystemExit(f"{what}: was not refused")


w = four(4, 4, 12, True)
refused("relative", "position_embedding_type", {**bert, "position_embedding_type": "relative_key"},
    named("encoder.layer.0.attention", w, BERT))
refused("decoder", "is_decoder", {**bert, "is_decoder": True}, named("encoder.layer.0.attention", w, BERT))
refused("other heads", "--model: q, k and v are [144, 48]", {**gpt2, "n_embd": 60}, {"h.0.attn." + k: v for k, v in conv.items()})
refused("no bias", "bq", gpt2, {"h.0.attn." + k: v for k, v in conv.items() if "attn.bias" not in k})
refused("without norms", "q-norm", {**qwen3, "num_hidden_layers": 1},
    named("model.layers.0.self_attn", {k: v for k, v in w_moe.items() if k in "qkvo"}, LLAMA))
refused("missing", "encoder.layer.0", bert, {"nothing": x})

# Errors of a block: unknown activation, missing tensor, too many tensors, another size, another
# type of model, and unsupported options.
without = lambda word: {key: value for key, value in llama_tensors.items() if word not in key}
for what, word, config, tensors, *options in (
        ("act", 'hidden_act is "tanh_of_old": silu, swish, gelu, gelu_new', {**llama, "hidden_act": "tanh_of_old"}, llama_tensors),
        ("act number", "hidden_act is 3: silu", {**llama, "hidden_act": 3}, llama_tensors),
        ("no size", "intermediate_size is absent", {k: v for k, v in llama.items() if k != "intermediate_size"}, llama_tensors),
        ("epsilon", "rms_norm_eps is 0", {**llama, "rms_norm_eps": 0}, llama_tensors),
        ("tiny epsilon", "it is 0 as a float32", {**llama, "rms_norm_eps": 1e-60}, llama_tensors),
        ("mlp_bias", "mlp_bias is 1: true or false", {**llama, "mlp_bias": 1}, llama_tensors),
        ("no up", "model.layers.1.mlp.up_proj.weight", llama, without("up_proj")),
        ("no norm", "model.layers.1.post_attention_layernorm.weight", llama, without("post_attention_layernorm")),
        ("biases unsaid", "mlp.gate_proj.bias, which config.json does not have", llama, biased_tensors),
        ("biases missing", "mlp.gate_proj.bias", {**llama, "mlp_bias": True}, llama_tensors),
        ("other size", "--block: model.layers.1.mlp.gate_proj.weight is [40, 48], but config.json needs [41, 48]",
         {**llama, "intermediate_size": 41}, llama_tensors),
        ("experts", 'model_type is "mixtral": its MLP has experts; --block runs llama, mistral', {**llama, "model_type": "mixtral"},
         llama_tensors),
        ("gradients", "--block: has no gradients", llama, llama_tensors, "--grad-out", "x.npy", "--grad-x", "gradient.npy"),
        ("by devices", "--devices: no such option", llama, llama_tensors, "--devices", "0,0"),
        ("width", "must be [48,40]", llama, llama_tensors, "--x", "narrow.npy")):
    np.save("narrow.npy", np.zeros((1, 3, 40), np.float32))
    refused("block refused for " + what, word, config, tensors, 1, "--block", *options)
assert counted == (67 if thorough else 64), counted
print(f"{counted} folders of models: all held")
