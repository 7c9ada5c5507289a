"""A complete Llama decoder in float64 with numpy, and a synthetic model, for comparison with the
examples of complete decoders. Weights have GGUF's names, and rows of q and k have GGUF's order, in
which RoPE pairs neighbouring columns.

    whole_llama.py FOLDER [MODEL.gguf]

Writes the synthetic model, or a real one, in Hugging Face's format, with tokens.npy and the logits
in logits.npy. FOLDER-bf16 and FOLDER-f16 have the weights in those types.
"""
import json
import os
import sys

import numpy as np


def rope(x, base):
    """RoPE of x [H, N, D]: neighbours (x[2d], x[2d + 1]) are rotated by n base^(-2d/D)."""
    n, d = x.shape[1:]
    angle = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)
    turned = np.empty_like(x)
    turned[..., ::2] = x[..., ::2] * np.cos(angle) - x[..., 1::2] * np.sin(angle)
    turned[..., 1::2] = x[..., ::2] * np.sin(angle) + x[..., 1::2] * np.cos(angle)
    return turned


def norm(x, w, epsilon):
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + epsilon) * w


def reference(weights, tokens, heads, kv_heads, base, epsilon):
    """Logits [N, vocabulary] of all tokens at once, without a cache."""
    w = lambda name: weights[name].astype(np.float64)
    split = lambda x, count: x.reshape(len(tokens), count, -1).transpose(1, 0, 2)
    x = w("token_embd.weight")[tokens]
    for n in range(sum(name.endswith("attn_q.weight") for name in weights)):
        part = lambda name: w(f"blk.{n}.{name}.weight")
        hidden = norm(x, part("attn_norm"), epsilon)
        q, k, v = (split(hidden @ part(f"attn_{name}").T, count) for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        k, v = (np.repeat(y, heads // kv_heads, 0) for y in (rope(k, base), v))
        s = rope(q, base) @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
        s = np.where(np.tri(len(tokens), dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + (p @ v).transpose(1, 0, 2).reshape(len(tokens), -1) @ part("attn_output").T
        hidden = norm(x, part("ffn_norm"), epsilon)
        gate, up = hidden @ part("ffn_gate").T, hidden @ part("ffn_up").T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ part("ffn_down").T
    return norm(x, w("output_norm.weight"), epsilon) @ w("output.weight" if "output.weight" in weights else "token_embd.weight").T


def made_up(blocks=3, width=96, heads=6, kv_heads=2, size=16, hidden=160, vocabulary=131):
    random = np.random.default_rng(11)
    matrix = lambda rows, columns: random.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))
    weights = {"token_embd.weight": matrix(vocabulary, width) * 4, "output_norm.weight": random.uniform(0.5, 1.5, width).astype(np.float32)}
    for n in range(blocks):
        shapes = {"attn_q": (heads * size, width), "attn_k": (kv_heads * size, width), "attn_v": (kv_heads * size, width),
            "attn_output": (width, heads * size),
                  "ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden)}
        weights.update({f"blk.{n}.{name}.weight": matrix(*shape) for name, shape in shapes.items()})
        weights.update({f"blk.{n}.{name}.weight": random.uniform(0.5, 1.5, width).astype(np.float32) for name in ("attn_norm", "ffn_norm")})
    return weights, {"heads": heads, "kv_heads": kv_heads, "base": 10000.0, "epsilon": 1e-5}


def stored(w, dtype):
    """float32 numbers rounded to a type, and as bytes."""
    if dtype == "F16":
        return w.astype(np.float16).astype(np.float32), w.astype("<f2").tobytes()
    if dtype == "F32":
        return w, w.astype("<f4").tobytes()
    bits = w.view(np.uint32)
    half = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return (half << 16).astype(np.uint32).view(np.float32), half.astype("<u2").tobytes()


NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def name_of(name):
    parts = name.split(".")
    return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight" if parts[0] == "blk" else f"{NAMES[parts[0]]}.weight"


def halves(w, heads):
    """Rows of q or k in Hugging Face's order, in which RoPE pairs the halves of a head."""
    return np.ascontiguousarray(w.reshape(heads, -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape))


def write(folder, weights, options, tokens, dtype):
    os.makedirs(folder, exist_ok=True)
    rounded, data, header = {}, b"", {}
    for name, w in weights.items():
        rounded[name], _ = stored(w, dtype)
        heads = {"attn_q": options["heads"], "attn_k": options["kv_heads"]}.get(name.split(".")[-2])
        _, numbers = stored(halves(w, heads) if heads else w, dtype)
        header[name_of(name)] = {"dtype": dtype, "shape": list(w.shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    q, embedding = weights["blk.0.attn_q.weight"], weights["token_embd.weight"]
    config = {"num_hidden_layers": sum(name.endswith("attn_q.weight") for name in weights), "hidden_size": q.shape[1],
              "intermediate_size": weights["blk.0.ffn_up.weight"].shape[0], "num_attention_heads": options["heads"],
              "num_key_value_heads": options["kv_heads"], "head_dim": q.shape[0] // options["heads"], "vocab_size": embedding.shape[0],
              "rope_theta": options["base"], "rms_norm_eps": options["epsilon"], "rope_scaling": None, "hidden_act": "silu"}
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    np.save(f"{folder}/tokens.npy", np.array(tokens, np.int32))
    np.save(f"{folder}/logits.npy", reference(rounded, tokens, **options).astype(np.float32))


def main():
    folder, tokens = sys.argv[1], [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46]
    weights, options = made_up()
    if len(sys.argv) > 2:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
        import smollm2
        weights, options, _ = smollm2.read(sys.argv[2])
        tokens = smollm2.PROMPT + [7042, 30, 378, 3575, 282, 4649, 314, 7042, 28, 284, 260, 3575, 282, 4649, 314, 7042, 30]
    for dtype, suffix in (("F32", ""), ("BF16", "-bf16"), ("F16", "-f16")):
        write(folder + suffix, weights, options, tokens, dtype)


if __name__ == "__main__":
    main()
