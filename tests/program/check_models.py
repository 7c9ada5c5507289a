#!/usr/bin/env python3
"""`clattn layer --model DIR --layer N` on small folders of BERT-, GPT-2-, Phi-, Gemma- and Qwen-style models, with experts, too, with random
weights, as their config.json and their names of tensors have it, against numpy in float64.   $1 build folder"""
import json, math, os, struct, subprocess, sys, tempfile

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


def safetensors(path, tensors):
    head, at, data = {}, 0, b""
    for key, value in tensors.items():
        raw = np.ascontiguousarray(value).astype("<f4").tobytes()
        head[key] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


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


def run(folder, layer=0):
    done = subprocess.run([CLATTN, "layer", "--model", folder, "--layer", str(layer), "--x", "x.npy", "--out", "out.npy", "--projection",
        "native",
                           "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    return np.load("out.npy")[0].astype(np.float64)


counted = 0


def check(what, config, tensors, want, layer=0):
    global counted
    folder = what.replace(" ", "-")
    os.mkdir(folder)
    json.dump(config, open(folder + "/config.json", "w"))
    safetensors(folder + "/model.safetensors", tensors)
    got = run(folder, layer)
    error = ((got - want) ** 2).sum() / (want ** 2).sum()
    assert error < 1e-11, f"{what}: NMSE {error:.2g}"
    print(f"{what}: NMSE {error:.1e}")
    counted += 1


os.chdir(tempfile.mkdtemp())
os.environ["XDG_CACHE_HOME"] = os.getcwd()
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

# GPT-2's Conv1D: [in, out], q, k and v one after another.
joined = np.concatenate([w["q"], w["k"], w["v"]])
conv = {"c_attn.weight": joined.T, "c_attn.bias": np.concatenate([w["bq"], w["bk"], w["bv"]]), "c_proj.weight": w["o"].T,
    "c_proj.bias": w["bo"]}
gpt2 = dict(model_type="gpt2", n_embd=WIDTH, n_head=4, n_layer=2, scale_attn_by_inverse_layer_idx=False)
want = plain(w, x, 4, 4, True)
check("GPT-2", gpt2, {"h.1.attn." + key: value for key, value in conv.items()}, want, 1)
check("GPT-2 with its head", gpt2, {"transformer.h.0.attn." + key: value for key, value in conv.items()}, want)

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

# Biases of q, k and v and none of the output; the window holds from max_window_layers on, where it is used at all.
w = {**four(6, 2, 8, False), "bq": vector(48), "bk": vector(16), "bv": vector(16)}
QWEN2 = {**LLAMA, "bq": "q_proj.bias", "bk": "k_proj.bias", "bv": "v_proj.bias"}
qwen2 = dict(model_type="qwen2", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=4, rope_theta=1000000.0,
             use_sliding_window=True, sliding_window=5, max_window_layers=2)
check("Qwen2", qwen2, named("model.layers.1.self_attn", w, QWEN2), plain(w, x, 6, 2, True, (1000000.0, 8)), 1)
check("Qwen2 with its window", qwen2, named("model.layers.2.self_attn", w, QWEN2), plain(w, x, 6, 2, True, (1000000.0, 8), window=5), 2)

# Each head of q and k is normed; what chooses among experts is beside the attention.
w = {**four(6, 2, 16, False), "qn": vector(16), "kn": vector(16)}
QWEN3 = {**LLAMA, "qn": "q_norm.weight", "kn": "k_norm.weight"}
qwen3 = dict(model_type="qwen3_moe", hidden_size=WIDTH, num_attention_heads=6, num_key_value_heads=2, head_dim=16, num_hidden_layers=2,
    rope_theta=1000000.0,
             rms_norm_eps=1e-6, attention_bias=False, use_sliding_window=False, sliding_window=None, max_window_layers=2, num_experts=2,
                 num_experts_per_tok=1,
             moe_intermediate_size=8, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True)
experts = {"model.layers.1.mlp.gate.weight": matrix(2, WIDTH),
    **{f"model.layers.1.mlp.experts.{n}.up_proj.weight": matrix(8, WIDTH) for n in range(2)}}
# rms() takes 1 + w.
want = plain({**w, "qn": w["qn"] - 1, "kn": w["kn"] - 1}, x, 6, 2, True, (1000000.0, 16), 1e-6)
w_moe = w
check("Qwen3-MoE", qwen3, {**named("model.layers.1.self_attn", w, QWEN3), **experts}, want, 1)

# Layers with the window turn by a base of their own; every second one here has none.
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


def refused(what, word, config, tensors):
    global counted
    try:
        check(what, config, tensors, x)
    except AssertionError as error:
        assert word in str(error) and "\n" not in str(error).strip(), error
        counted += 1
        return
    raise SystemExit(f"{what}: was not refused")


w = four(4, 4, 12, True)
refused("relative", "position_embedding_type", {**bert, "position_embedding_type": "relative_key"},
    named("encoder.layer.0.attention", w, BERT))
refused("decoder", "is_decoder", {**bert, "is_decoder": True}, named("encoder.layer.0.attention", w, BERT))
refused("upcast", "scale_attn_by_inverse_layer_idx", {**gpt2, "scale_attn_by_inverse_layer_idx": True},
    {"h.0.attn." + k: v for k, v in conv.items()})
refused("other heads", "--model: q, k and v are [144, 48]", {**gpt2, "n_embd": 60}, {"h.0.attn." + k: v for k, v in conv.items()})
refused("no bias", "bq", gpt2, {"h.0.attn." + k: v for k, v in conv.items() if "attn.bias" not in k})
refused("without norms", "q-norm", {**qwen3, "num_hidden_layers": 1},
    named("model.layers.0.self_attn", {k: v for k, v in w_moe.items() if k in "qkvo"}, LLAMA))
refused("missing", "encoder.layer.0", bert, {"nothing": x})
assert counted == 23, counted
print(f"{counted} folders of models: all held")
