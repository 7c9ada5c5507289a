"""tests/examples/smollm2.py, compared with a numpy implementation of the model (whole_llama.py),
with synthetic weights of the same architecture or with a GGUF file.

   check_decoder.py BUILD [MODEL.gguf]
"""
import json
import os
import sys

import numpy as np

import python_checks
from python_checks import check, clattn, refused
from whole_llama import made_up, reference

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
import smollm2  # noqa: E402


def compare(weights, options, prompt, count, tolerance, **own):
    """A prompt at once and then token by token, all tokens one by one, and the reference over all
    of them."""
    with clattn.Context() as context:
        decoder = smollm2.Decoder(weights, **options, **own, capacity=len(prompt) + count + 1, context=context)
        first = decoder.step(prompt)
        decoder.length = 0  # the cache is overwritten
        made = list(decoder.generate(prompt, count))
        tokens = [token for token, _ in made]
        single = smollm2.Decoder(weights, **options, **own, capacity=len(prompt) + count + 1, context=context)
        one = np.stack([single.step([token])[0] for token in prompt])
    plain = {name: clattn.from_blocks(w) if w.dtype in clattn.BLOCKS.values() else w for name, w in weights.items()}
    want = reference(plain, prompt + tokens, **options)
    steps = np.stack([logits for _, logits in made])
    errors = [np.abs(got - expected).max() for got,
        expected in ((first, want[:len(prompt)]), (one, want[:len(prompt)]), (steps, want[len(prompt) - 1:-1]))]
    scale = np.abs(want).max()
    check(max(errors) <= tolerance * scale, f"largest differences {errors} of logits up to {scale}")
    check(tokens == want[len(prompt) - 1:-1].argmax(-1).tolist(), "the same tokens")
    print(f"decoder: {len(prompt)} + {count} tokens, logits up to {scale:.3g}: largest difference {errors[0]:.2g} in the prompt at once, {errors[1]:.2g} token by token, "
          f"{errors[2]:.2g} in the steps; the same tokens")


def benched():
    """bench/decoder.py measures such a decoder. With float32 it must choose the reference's tokens.
    """
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
    import decoder
    decoder.plain_weights = lambda path: (weights, options)
    for word in decoder.SYSTEMS["clattn"]:
        model, prompt = decoder.Clattn("", word), [3, 14, 15, 92, 65, 35]
        tokens = [model.begin(prompt)]
        while len(tokens) < 8:
            tokens.append(model.next(tokens[-1]))
        want = reference(weights, prompt + tokens, **options)[len(prompt) - 1:-1].argmax(-1).tolist()
        check(word != "f32" or tokens == want, f"{tokens} in place of {want}")
        check(model.begin(prompt) == tokens[0] and model.next(tokens[0]) == tokens[1], "a second text")


def prepared():
    """A real layer with a cache in blocks. With Hadamard-transformed q, k and v, and the inverse
    transform of out, the error is less than half. The same with channels divided by their largest
    number in the first half of the rows."""
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "smollm2_layer0")
    with open(data + ".safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        stored = np.frombuffer(file.read(), np.uint8)
    x = np.load(data + "_x.npy")

    def heads(name):
        entry = header[f"model.layers.0.self_attn.{name}_proj.weight"]
        w = stored[slice(*entry["data_offsets"])].view(np.float32).reshape(entry["shape"])
        return (x @ w.T).reshape(1, x.shape[1], -1, 64).transpose(0, 2, 1, 3)
    q, k, v = clattn.rope(heads("q"), layout="half"), clattn.rope(heads("k"), layout="half"), heads("v")
    want = clattn.attention(q, k, v, causal=True)
    of_k, of_v = (np.abs(rows[:, :, :rows.shape[2] // 2]).max(axis=2, keepdims=True) for rows in (k, v))
    to_q, to_out = (np.repeat(channels, q.shape[1] // k.shape[1], axis=1) for channels in (of_k, of_v))
    for words in (("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0")):
        cache = [clattn.Buffer.zeros((*k.shape[:3], k.shape[3] // 32), word) for word in 3 * words]
        clattn.append(k, v, k=cache[0], v=cache[1])
        clattn.append(clattn.hadamard(k), clattn.hadamard(v), k=cache[2], v=cache[3])
        plain = clattn.attention(q, *cache[:2], causal=True)
        turned = clattn.hadamard(clattn.attention(clattn.hadamard(q), *cache[2:4], causal=True))
        clattn.append(k / of_k, v / of_v, k=cache[4], v=cache[5])
        scaled = clattn.attention(q * to_q, *cache[4:], causal=True) * to_out
        cache = cache[:4] + [clattn.Buffer.zeros((*k.shape[:3], k.shape[3] // 32), word) for word in words] + cache[4:]
        rotated = {"k_rotation": 64, "v_rotation": 64}
        clattn.append(k, v, k=cache[4], v=cache[5], **rotated)
        check(all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(cache[2:4], cache[4:6])), "rows rotated by the call and before it")
        check(np.abs(clattn.attention(q, *cache[4:6], causal=True, **rotated) - turned).max() < 1e-5, "attention over a rotated cache")
        errors = [float(((out - want) ** 2).sum() / (want ** 2).sum()) for out in (plain, turned, scaled)]
        check(max(errors[1:]) < 0.5 * errors[0] < 0.05, f"{words}: {errors}")
        print(f"layer 0 of SmolLM2 over keys of {words[0]} and values of {words[1]}: NMSE {errors[0]:.2g}, through Hadamard's matrix {errors[1]:.2g}, "
              f"through scales of channels {errors[2]:.2g}")
    smoothed(q, k, v)


def smoothed(q, k, v):
    """4-bit keys minus the mean of their first half: less than half of the error, also of the
    log-sum-exp. With scales per channel the error is smaller still."""
    def of_queries(x):
        return np.repeat(x, q.shape[1] // k.shape[1], axis=1)
    half = k.shape[2] // 2
    mean = k[:, :, :half].mean(axis=2, keepdims=True)
    channels = np.abs((k - mean)[:, :, :half]).max(axis=2, keepdims=True)
    want = clattn.attention(q, k, v, causal=True, lse=True)
    errors = []
    for keys, scales, taken in ((k, 1.0 + 0 * mean, 0 * mean), (k - mean, 1.0 + 0 * mean, mean), ((k - mean) / channels, channels, mean)):
        cache = [clattn.Buffer.zeros((*k.shape[:3], k.shape[3] // 32), word) for word in ("q4_0", "q8_0")]
        clattn.append(keys, v, k=cache[0], v=cache[1])
        out, lse = clattn.attention(q * of_queries(scales), *cache, causal=True, lse=True)
        lse = lse + (q * of_queries(taken)).sum(axis=-1) / 8  # the scale is 1 / sqrt(64)
        errors.append([float(((got - exact) ** 2).sum() / (exact ** 2).sum()) for got, exact in zip((out, lse), want)])
    plain, smooth, both = errors
    check(smooth[0] < 0.5 * plain[0] < 0.01 and smooth[1] < 0.5 * plain[1] and both[0] < 0.8 * smooth[0], f"smoothed keys: {errors}")
    print(f"layer 0 of SmolLM2 over keys of q4_0 and values of q8_0: NMSE {plain[0]:.2g}, with smoothed keys {smooth[0]:.2g}, and scales of "
          f"channels {both[0]:.2g}; of the log-sum-exp {plain[1]:.2g}, {smooth[1]:.2g}, {both[1]:.2g}")


if len(sys.argv) > 2:
    loaded = smollm2.read(sys.argv[2])
    compare(*loaded[:2], smollm2.PROMPT, 40, 2e-5)
else:
    weights, options = made_up()
    compare(weights, options, [3, 14, 15, 92, 65, 35], 12, 2e-6, projection="native")
    for word in ("q8_0", "q4_0"):
        kept = {name: clattn.to_blocks(w, word) if w.ndim == 2 else w for name, w in weights.items()}
        compare(kept, options, [3, 14, 15, 92, 65, 35], 12, 2e-6)
    # its own launch appends to it
    compare(weights, options, [3, 14, 15, 92, 65, 35], 12, 2e-2, kv_type="bfloat16")
    benched()
    # 4-bit caches, plain and Hadamard-transformed. Without outliers both have about the same
    # rounding error.
    (weights, options), tokens, logits = made_up(size=32), [3, 14, 15, 92, 65, 35], []
    for own in ({"kv_type": "float32"}, {"kv_type": "q4_0"}, {"kv_type": "q4_0", "rotation": 32}):
        with clattn.Context() as context:
            decoder = smollm2.Decoder(weights, **options, **own, context=context)
            logits.append(np.stack([decoder.step([token])[0] for token in tokens]))
    errors = [float(((rows - logits[0]) ** 2).sum() / (logits[0] ** 2).sum()) for rows in logits[1:]]
    check(0 < errors[1] < 2 * errors[0] < 0.1, f"logits over caches of q4_0: {errors}")
    prepared()
    refused("the cache holds 4 tokens", smollm2.Decoder(weights, **options, capacity=4).step, [1, 2, 3, 4, 5])
print(f"{python_checks.checks} checks of the decoder")
