#!/usr/bin/env python3
"""Layers of published models with their own heads and options, but a reduced width and random
weights. For comparison with `clattn layer --preset` and `--model`, numpy computes them in float64
from the fields of config.json. Nothing here uses the program's own tables or reference.

   check_presets.py BUILD
"""
import json, math, os, struct, subprocess, sys, tempfile

try:
    import numpy as np
except ImportError:
    print("no numpy")
    sys.exit(77)

CLATTN = os.path.abspath(os.path.join(sys.argv[1], "clattn"))
WIDTH = 24
# The fields of each config.json that concern attention. The width is reduced here.
CONFIGS = {
    "llama-3.1": dict(model_type="llama", num_attention_heads=32, num_key_value_heads=8, head_dim=128, rope_theta=500000.0,
                      rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=8192)),
    "qwen3": dict(model_type="qwen3", num_attention_heads=32, num_key_value_heads=8, head_dim=128, rope_theta=1000000,
                  rms_norm_eps=1e-6, attention_bias=False),
    "olmo-2": dict(model_type="olmo2", num_attention_heads=32, num_key_value_heads=32, head_dim=128, rope_theta=500000,
                   rms_norm_eps=1e-6),
    "gemma-2": dict(model_type="gemma2", num_attention_heads=32, num_key_value_heads=16, head_dim=128, rope_theta=10000.0,
                    query_pre_attn_scalar=144, attn_logit_softcapping=50.0, sliding_window=4096),
    "gpt-oss": dict(model_type="gpt_oss", num_attention_heads=64, num_key_value_heads=8, head_dim=64, rope_theta=150000,
                    attention_bias=True, sliding_window=128,
                    rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                      original_max_position_embeddings=4096)),
    "deepseek-v3": dict(model_type="deepseek_v3", num_attention_heads=128, qk_nope_head_dim=128, qk_rope_head_dim=64,
                        v_head_dim=128, rope_theta=10000,
                        rope_scaling=dict(type="yarn", factor=40, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0,
                                          original_max_position_embeddings=4096)),
    "phi-2": dict(model_type="phi", num_attention_heads=32, head_dim=80, rope_theta=10000.0, partial_rotary_factor=0.4),
    "phi-1.5": dict(model_type="phi", num_attention_heads=32, head_dim=64, rope_theta=10000.0, partial_rotary_factor=0.5),
}
for full, name in (("gemma-2-full", "gemma-2"), ("gpt-oss-full", "gpt-oss")):
    CONFIGS[full] = {**CONFIGS[name], "sliding_window": None}


def mscale(factor, m=1.0):
    return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0


def frequencies(c, width):
    """Radians per position for each pair, and the factor on cosines and sines."""
    base, s = float(c["rope_theta"]), c.get("rope_scaling")
    inv = base ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    kind = s and (s.get("rope_type") or s["type"])
    if not s:
        return inv, 1.0
    old = s["original_max_position_embeddings"]
    if kind == "llama3":
        wavelength = 2 * math.pi / inv
        low, high = old / s["low_freq_factor"], old / s["high_freq_factor"]
        smooth = (old / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        between = (1 - smooth) * inv / s["factor"] + smooth * inv
        return np.where(wavelength > low, inv / s["factor"], np.where(wavelength < high, inv, between)), 1.0
    def dimension(rotations):
        return width * math.log(old / (rotations * 2 * math.pi)) / (2 * math.log(base))
    low, high = dimension(s["beta_fast"]), dimension(s["beta_slow"])
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
    amplitude = mscale(s["factor"], s["mscale"]) / mscale(s["factor"], s["mscale_all_dim"]) if "mscale" in s else mscale(s["factor"])
    return inv / s["factor"] * ramp + inv * (1 - ramp), amplitude


def turn(x, c, width):
    """Apply RoPE to the first `width` columns of x [H, N, D], in the half layout."""
    inv, amplitude = frequencies(c, width)
    angle = np.arange(x.shape[1], dtype=np.float64)[:, None] * inv[None, :]
    cos, sin = np.cos(angle) * amplitude, np.sin(angle) * amplitude
    a, b = x[..., :width // 2], x[..., width // 2:width]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., width:]], axis=-1)


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def heads_of(x, count):
    return x.reshape(x.shape[0], count, -1).transpose(1, 0, 2)


def attend(q, k, v, rows, scale, cap=None, window=None, sinks=None):
    """Attention, one head at a time, and only for these rows."""
    out = np.zeros((len(rows), q.shape[0], v.shape[2]))
    j = np.arange(k.shape[1])[None, :]
    i = np.array(rows)[:, None]
    seen = (j <= i) & (j > i - window if window else True)
    for h in range(q.shape[0]):
        g = h // (q.shape[0] // k.shape[0])
        s = scale * (q[h][rows] @ k[g].T)
        if cap:
            s = cap * np.tanh(s / cap)
        s = np.where(seen, s, -np.inf)
        top = s.max(-1, keepdims=True)
        if sinks is not None:
            top = np.maximum(top, sinks[h])
        p = np.exp(s - top)
        total = p.sum(-1, keepdims=True) + (np.exp(sinks[h] - top) if sinks is not None else 0)
        out[:, h] = p / total @ v[g]
    return out.reshape(len(rows), -1)


def deepseek(c, w, x, rows):
    """As in DeepSeek's code: a head's rotary columns come last, and interleaved pairs are first
    reordered into halves."""
    count, nope, pe = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    def both(m):
        h = heads_of(x @ m.T, count)
        r = h[..., nope:].reshape(count, len(x), pe // 2, 2)
        return np.concatenate([h[..., :nope], turn(np.concatenate([r[..., 0], r[..., 1]], -1), c, pe)], -1)
    scale = (nope + pe) ** -0.5 * mscale(c["rope_scaling"]["factor"], c["rope_scaling"]["mscale_all_dim"]) ** 2
    return attend(both(w["wq"]), both(w["wk"]), heads_of(x @ w["wv"].T, count), rows, scale) @ w["wo"].T


def layer(c, w, x, rows):
    if c["model_type"] == "deepseek_v3":
        return deepseek(c, w, x, rows)
    count, kv = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"])
    q, k, v = (x @ w["w" + n].T + w.get("b" + n, 0) for n in "qkv")
    if c["model_type"] == "olmo2":
        q, k = rms(q, w["q-norm"], c["rms_norm_eps"]), rms(k, w["k-norm"], c["rms_norm_eps"])
    q, k, v = heads_of(q, count), heads_of(k, kv), heads_of(v, kv)
    if c["model_type"] == "qwen3":
        q, k = rms(q, w["q-norm"], c["rms_norm_eps"]), rms(k, w["k-norm"], c["rms_norm_eps"])
    width = int(c["head_dim"] * c.get("partial_rotary_factor", 1))
    q, k = turn(q, c, width), turn(k, c, width)
    scale = c.get("query_pre_attn_scalar", c["head_dim"]) ** -0.5
    heads = attend(q, k, v, rows, scale, c.get("attn_logit_softcapping"), c.get("sliding_window"), w.get("sinks"))
    return heads @ w["wo"].T + w.get("bo", 0)


def weights(c, random):
    """Random float32 weights, as float64. Scores are about 1, or tens with a soft cap."""
    count, kv = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"])
    size = c.get("head_dim") or c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    size_v = c.get("v_head_dim", size)
    louder = 3 if "attn_logit_softcapping" in c else 1
    def matrix(rows, columns):
        return random.standard_normal((rows, columns)) / math.sqrt(columns)
    w = {"wq": louder * matrix(count * size, WIDTH), "wk": matrix(kv * size, WIDTH), "wv": matrix(kv * size_v, WIDTH),
         "wo": matrix(WIDTH, count * size_v)}
    if c["model_type"] == "deepseek_v3":  # all heads share one rotary key
        shared = matrix(c["qk_rope_head_dim"], WIDTH)
        for h in range(count):
            w["wk"][(h + 1) * size - len(shared):(h + 1) * size] = shared
    if c["model_type"] in ("gpt_oss", "phi"):
        w.update({"b" + n: random.standard_normal(len(w["w" + n])) / 2 for n in "qkvo"})
    if c["model_type"] in ("qwen3", "olmo2"):
        whole = c["model_type"] == "olmo2"
        w["q-norm"], w["k-norm"] = (1 + random.standard_normal(n * size if whole else size) / 4 for n in (count, kv))
    if c["model_type"] == "gpt_oss":
        w["sinks"] = random.standard_normal(count)
    return {key: value.astype(np.float32).astype(np.float64) for key, value in w.items()}


def for_program(c, w):
    """Reorder DeepSeek's heads so that their rotary columns come first."""
    if c["model_type"] != "deepseek_v3":
        return w
    nope, size = c["qk_nope_head_dim"], c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    def first(m):
        m = m.reshape(-1, size, WIDTH)
        return np.concatenate([m[:, nope:], m[:, :nope]], 1).reshape(-1, WIDTH)
    return {**w, "wq": first(w["wq"]), "wk": first(w["wk"])}


def safetensors(path, tensors):
    head, at, data = {}, 0, b""
    for key, value in tensors.items():
        raw = value.astype("<f4").tobytes()
        head[key] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


NAMES = {"wq": "q_proj.weight", "wk": "k_proj.weight", "wv": "v_proj.weight", "wo": "o_proj.weight", "bq": "q_proj.bias",
         "bk": "k_proj.bias", "bv": "v_proj.bias", "bo": "o_proj.bias", "q-norm": "q_norm.weight", "k-norm": "k_norm.weight",
         "sinks": "sinks"}
LIMITS = {"f32": 1e-11, "f16": 1e-6, "bf16": 5e-5}


def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def run(*options):
    done = subprocess.run([CLATTN, "layer", "--out", "out.npy", "--projection", "native", "--quiet", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, f"{options}: {done.stderr}"
    return np.load("out.npy")[0]


def compare(what, got, want, dtype="f32"):
    if got.dtype == np.uint16:
        got = (got.astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(got).all(), what
    nmse = float(((got - want) ** 2).sum() / (want ** 2).sum())
    assert nmse <= LIMITS[dtype], f"{what}, {dtype}: normalised mean squared error {nmse:.2g}, may be {LIMITS[dtype]:g}"
    print(f"ok    {what}, {dtype}: {nmse:.1e}", flush=True)


def inputs(random, length, dtype):
    x = random.standard_normal((1, length, WIDTH)).astype(np.float32)
    if dtype == "bf16":
        np.save("x.npy", bf16(x))
        return (bf16(x).astype(np.uint32) << 16).view(np.float32)[0].astype(np.float64)
    np.save("x.npy", x.astype(np.float16 if dtype == "f16" else np.float32))
    return np.load("x.npy")[0].astype(np.float64)


def preset(name, length, dtype="f32"):
    random = np.random.default_rng(length)
    c, x = CONFIGS[name], inputs(random, length, dtype)
    w, rows = weights(c, random), list(range(max(0, length - 160), length))
    options = []
    for key, value in for_program(c, w).items():
        np.save(key + ".npy", value.astype(np.float32))
        options += ["--" + key, key + ".npy"]
    got = run("--preset", name, "--x", "x.npy", "--dtype", dtype, *options)
    compare("--preset " + name, got[rows], layer(c, w, x, rows), dtype)


def model(name, number, **change):
    """A folder with config.json and the layer's tensors."""
    random = np.random.default_rng(number)
    c, x = {**CONFIGS[name], **change}, inputs(random, 150, "f32")
    w, rows = weights(c, random), list(range(150))
    config = {**c, "hidden_size": WIDTH, "num_hidden_layers": 4, "max_position_embeddings": 131072}
    folder = tempfile.mkdtemp(dir=".")
    with open(folder + "/config.json", "w") as file:
        json.dump(config, file)
    safetensors(folder + "/model.safetensors", {f"model.layers.{number}.self_attn.{NAMES[key]}": w[key] for key in w})
    if c.get("sliding_window") and number % 2 and "layer_types" not in c:
        c["sliding_window"] = None
    compare(f"--model of {c['model_type']}, layer {number}", run("--model", folder, "--layer", str(number), "--x", "x.npy"),
            layer(c, w, x, rows))


def main():
    if subprocess.run([CLATTN, "devices", "--quiet"], capture_output=True).returncode:
        print("no OpenCL device")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder + "/cache"
        os.chdir(folder)
        listed = subprocess.run([CLATTN, "layer", "--list-presets"], capture_output=True, text=True).stdout.split("\n")
        assert sorted(line.split()[0] for line in listed if line) == sorted(CONFIGS), listed
        # more kernels, and a window of 4096
        thorough = os.environ.get("CLATTN_THOROUGH", "off") != "off"
        for name in CONFIGS:
            if name != "phi-1.5" or thorough:
                preset(name, 150 if "gpt-oss" in name else 24)
        if thorough:
            preset("gemma-2", 4100)
            preset("qwen3", 24, "f16")
            preset("gpt-oss", 24, "bf16")
        model("qwen3", 1)
        model("olmo-2", 0)
        for number in (0, 1):
            model("gemma-2", number, sliding_window=20)
            model("gpt-oss", number)
        model("gpt-oss", 2, layer_types=["full_attention"] * 4, sliding_window=None)
    return 0


sys.exit(main())
