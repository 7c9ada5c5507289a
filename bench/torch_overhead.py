#!/usr/bin/env python3
"""The overhead of clattn_torch beside its kernel, and the time per token of small transformers
models beside torch's own attention.

    torch_overhead.py [--module FOLDER] [--rounds N] [--tokens N] [--json]
    torch_overhead.py --module build    after `ninja -C build`

Needs torch; with transformers also measures its models.

All times are minima in microseconds over interleaved rounds. "kernel" is one
clattn_attention_enqueue and clFinish with existing buffers and a filled struct. "beyond" is the
difference between a way's time and the kernel's. A token is one step of generation with a cache;
its ratio is to eager attention.
"""
import argparse
import ctypes
import json
import os
import sys
import time

SHAPE = {"heads": 8, "keys": 64, "width": 32}
WIDTHS = dict(vocab_size=256, bos_token_id=1, eos_token_id=None, pad_token_id=0)
LLAMA = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **WIDTHS)
MODELS = {"llama": ("LlamaConfig", LLAMA), "gpt2": ("GPT2Config", dict(n_embd=64, n_layer=2, n_head=4, **WIDTHS)),
          "gemma": ("GemmaConfig", dict(head_dim=16, **LLAMA))}
PROMPT = 16


def minima(ways, rounds):
    """The minimum time of each way. The ways are interleaved, so that other work on the machine
    affects all of them.
    """
    best = dict.fromkeys(ways, float("inf"))
    for call in ways.values():
        for _ in range(5):
            call()
    for _ in range(rounds):
        for name, call in ways.items():
            start = time.perf_counter_ns()
            call()
            best[name] = min(best[name], (time.perf_counter_ns() - start) / 1e3)
    return best


def calls(torch, clattn, clattn_torch, rounds):
    heads, keys, width = SHAPE.values()
    q, k, v = (torch.randn(1, heads, n, width) for n in (1, keys, keys))
    given = [clattn.Buffer.over(x.numpy(), copy=True) for x in (q, k, v, torch.empty(1, heads, 1, width))]
    context, lib = given[0].context, clattn.library()
    struct = clattn.clattn_attention_params()
    filled = clattn._Call(context, struct)
    filled.options(struct, {"q": given[0], "k": given[1], "v": given[2], "out": given[3]})
    params = ctypes.byref(struct)

    def kernel():
        lib.clattn_attention_enqueue(context.handle, context.queue, params, 0, None, None)
        lib.clFinish(context.queue)
    own = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        best = minima({"kernel": kernel, "attention": lambda: clattn_torch.attention(q, k, v),
                       "scaled_dot_product_attention": lambda: clattn_torch.scaled_dot_product_attention(q, k, v),
                       "torch": lambda: own(q, k, v)}, rounds)
    return [{"way": name, "us": us, "beyond_us": None if name == "torch" else us - best["kernel"]} for name, us in best.items()]


def tokens(torch, clattn_torch, rounds):
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    import warnings

    import transformers
    warnings.simplefilter("ignore", FutureWarning)  # transformers 5 renames past_key_values
    clattn_torch.register()
    rows = []
    for name, (config, words) in MODELS.items():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**words)).eval()
        ids, token = torch.randint(2, 256, (1, PROMPT)), torch.randint(2, 256, (1, 1))
        best, found = {}, {}
        with torch.no_grad():
            caches = {}
            for way in ("eager", "sdpa", "clattn"):
                model.set_attn_implementation(way)
                caches[way] = transformers.DynamicCache()
                model(input_ids=ids, past_key_values=caches[way], use_cache=True)
            for n in range(rounds + 5):
                for way, cache in caches.items():
                    model.set_attn_implementation(way)
                    start = time.perf_counter_ns()
                    made = model(input_ids=token, past_key_values=cache, use_cache=True)
                    found[way] = made.logits[:, -1].argmax(-1).item()
                    us = (time.perf_counter_ns() - start) / 1e3
                    cache.crop(-1)
                    best[way] = min(best.get(way, us), us)
        if len(set(found.values())) > 1:
            raise SystemExit(f"{name}: the ways write other tokens: {found}")
        rows += [{"model": name, "way": way, "us": us, "ratio": us / best["eager"]} for way, us in best.items()]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", metavar="FOLDER", help="where clattn.py and clattn_torch.py are; default: as installed")
    parser.add_argument("--rounds", type=int, default=400, help="rounds of the single call (400)")
    parser.add_argument("--tokens", type=int, default=100, help="rounds of a token of each model (100); 0: no models")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of tables")
    asked = parser.parse_args()
    if asked.rounds < 1 or asked.tokens < 0:
        parser.error("--rounds is at least 1, --tokens at least 0")
    sys.path[:0] = [asked.module] if asked.module else []
    import torch

    import clattn
    import clattn_torch
    torch.manual_seed(0)
    found = {"torch": torch.__version__, "device": clattn.devices()[0]["name"], "case": SHAPE,
             "calls": calls(torch, clattn, clattn_torch, asked.rounds),
             "tokens": tokens(torch, clattn_torch, asked.tokens) if asked.tokens else []}
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    print(f"torch {found['torch']}, {found['device']}; q [1, 8, 1, 32], 64 keys, microseconds\n")
    print("| way | time | beyond the kernel |\n|---|---|---|")
    for row in found["calls"]:
        print(f"| {row['way']} | {row['us']:.0f} | {'' if row['beyond_us'] is None else format(row['beyond_us'], '.0f')} |")
    if found["tokens"]:
        print("\n| model | attention | a token | of eager |\n|---|---|---|---|")
    for row in found["tokens"]:
        print(f"| {row['model']} | {row['way']} | {row['us']:.0f} | {row['ratio']:.2f} |")


if __name__ == "__main__":
    main()
