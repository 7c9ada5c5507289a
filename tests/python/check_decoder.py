"""tests/examples/smollm2.py against the whole model written once more, in float64 by numpy alone: on a made-up model of the same
architecture, or on a GGUF file.   check_decoder.py BUILD [MODEL.gguf]"""
import os
import sys

import numpy as np

import python_checks
from python_checks import check, clattn, refused

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
import smollm2  # noqa: E402


def rope(x, base):
    """x [H, N, D]: neighbours (x[2d], x[2d + 1]) turn by n base^(-2d/D)."""
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
    return weights, {"heads": heads, "kv_heads": kv_heads, "base": 10000.0, "epsilon": 1e-5}, None


def compare(weights, options, prompt, count, tolerance, **own):
    """A prompt at once and then token by token, tokens one by one from the first, and the reference over all of them."""
    with clattn.Context() as context:
        decoder = smollm2.Decoder(weights, **options, **own, capacity=len(prompt) + count + 1, context=context)
        first = decoder.step(prompt)
        decoder.length = 0  # the cache is written anew
        made = list(decoder.generate(prompt, count))
        tokens = [token for token, _ in made]
        single = smollm2.Decoder(weights, **options, **own, capacity=len(prompt) + count + 1, context=context)
        one = np.stack([single.step([token])[0] for token in prompt])
    want = reference(weights, prompt + tokens, **options)
    steps = np.stack([logits for _, logits in made])
    errors = [np.abs(got - expected).max() for got,
        expected in ((first, want[:len(prompt)]), (one, want[:len(prompt)]), (steps, want[len(prompt) - 1:-1]))]
    scale = np.abs(want).max()
    check(max(errors) <= tolerance * scale, f"largest differences {errors} of logits up to {scale}")
    check(tokens == want[len(prompt) - 1:-1].argmax(-1).tolist(), "the same tokens")
    print(f"decoder: {len(prompt)} + {count} tokens, logits up to {scale:.3g}: largest difference {errors[0]:.2g} in the prompt at once, {errors[1]:.2g} token by token, "
          f"{errors[2]:.2g} in the steps; the same tokens")


if len(sys.argv) > 2:
    loaded = smollm2.read(sys.argv[2])
    compare(*loaded[:2], smollm2.PROMPT, 40, 2e-5)
else:
    weights, options, _ = made_up()
    compare(weights, options, [3, 14, 15, 92, 65, 35], 12, 2e-6, projection="native")
    refused("the cache holds 4 tokens", smollm2.Decoder(weights, **options, capacity=4).step, [1, 2, 3, 4, 5])
print(f"{python_checks.checks} checks of the decoder")
