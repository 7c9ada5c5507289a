#!/usr/bin/env python3
"""Whole models of transformers with attn_implementation="clattn": small, with random weights.
Greedy tokens must equal those with transformers' own attention. Logits and gradients must be as
close to double precision.

    check_transformers.py [FOLDER]    the folder of clattn.py and clattn_torch.py, unless installed
"""
import os
import sys
import tempfile
import warnings

os.environ.setdefault("POCL_AFFINITY", "0")
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
sys.path[:0] = sys.argv[1:]
import torch
import transformers

import clattn_torch

STEPS = 32
# The tolerance: this many times the error of transformers' own attention compared with double
# precision, plus this many float32 roundings.
MORE = 4
calls, tokens = 0, 0
library = clattn_torch.clattn.library()
own_enqueue = library.clattn_attention_enqueue


def counted(*arguments):
    global calls
    calls += 1
    return own_enqueue(*arguments)


library.clattn_attention_enqueue = counted
clattn_torch.register()
transformers.utils.logging.disable_progress_bar()
COMMON = dict(vocab_size=199, initializer_range=0.25, tie_word_embeddings=False, bos_token_id=1, eos_token_id=None, pad_token_id=0)
HEADS = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **COMMON)
T5 = dict(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, initializer_factor=3.0, decoder_start_token_id=0,
          **{**COMMON, "initializer_range": 1.0})
# Features of attention that only this model needs, and the attention implementation to compare
# with.
MODELS = {
    "Llama: heads in groups": (transformers.LlamaConfig, HEADS, "sdpa"),
    "GPT-2": (transformers.GPT2Config, dict(n_embd=64, n_layer=2, n_head=4, **COMMON), "sdpa"),
    "Gemma 2: softcap, a window, a head size of its own": (transformers.Gemma2Config, dict(
        head_dim=24, sliding_window=11, attn_logit_softcapping=3.0, query_pre_attn_scalar=20, **HEADS), "eager"),
    "gpt-oss: sinks, a window": (transformers.GptOssConfig, dict(
        head_dim=16, sliding_window=9, num_local_experts=4, num_experts_per_tok=2, **HEADS), "eager"),
    "T5: a bias of positions, an encoder": (transformers.T5Config, T5, "sdpa"),
}


def wrong(name, why):
    raise SystemExit(f"{name}: {why}")


def near(name, what, ours, theirs, exact):
    error, allowed = ((x.double() - exact).abs().max().item() for x in (ours, theirs))
    if not error <= MORE * (allowed + 2.0**-23 * (1 + exact.abs().max().item())):
        wrong(name, f"{what} is off by {error:.2g}, of {theirs_of} by {allowed:.2g}")


def loaded(kind, folder, how, **more):
    if "GptOss" in open(f"{folder}/config.json").read():
        more["experts_implementation"] = "eager"  # the default one does not support float64
    return kind.from_pretrained(folder, attn_implementation=how, **more).eval()


def written(model, ids, mask, **more):
    made = model.generate(ids, attention_mask=mask, max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False, **more)
    return made[:, -STEPS:]


def judged(model, ids, mask, encodes):
    """Logits, and the gradients of a loss in which padding has no part."""
    labels = ids.masked_fill(mask == 0, -100)
    model.zero_grad()
    found = model(input_ids=ids, attention_mask=mask, labels=labels, **({} if encodes else {"use_cache": False}))
    found.loss.backward()
    keep = torch.ones_like(mask, dtype=torch.bool) if encodes else mask.bool()
    return [found.logits.detach()[keep]] + [x.grad for x in model.parameters() if x.grad is not None]


for name, (config, words, theirs_of) in MODELS.items():
    torch.manual_seed(3)
    encodes = config is transformers.T5Config
    kind = transformers.AutoModelForSeq2SeqLM if encodes else transformers.AutoModelForCausalLM
    with tempfile.TemporaryDirectory() as folder:
        made = kind.from_config(config(**words))
        for path, x in made.named_parameters():
            if "sinks" in path:
                torch.nn.init.normal_(x)
        made.save_pretrained(folder)
        ours, theirs, exact = loaded(kind, folder, "clattn"), loaded(kind, folder, theirs_of), loaded(
            kind, folder, theirs_of, dtype=torch.float64)
        wide = loaded(kind, folder, "clattn", dtype=torch.float64)
    # A batch whose rows have different padding.
    ids = torch.randint(2, 199, (3, 17))
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 5, 11)):
        ids[row, :padding], mask[row, :padding] = 0, 0
    for what, rows, more in (("a batch", 3, {}), ("a static cache", 1, {"cache_implementation": "static"}),
                             ("a batch, a static cache", 3, {"cache_implementation": "static"}), ("no cache", 3, {"use_cache": False})):
        if more and config is not transformers.LlamaConfig:
            continue
        given = ids[:rows], mask[:rows]
        before = calls
        found = written(ours, *given, **more)
        if calls - before < STEPS * 2:
            wrong(name, f"{what}: {calls - before} calls of clattn")
        before = calls
        wanted = written(theirs, *given, **more)
        if calls != before:
            wrong(name, f"{what}: clattn is what it is compared with")
        if not torch.equal(found, wanted):
            wrong(name, f"{what}: tokens differ from step {(found != wanted).any(0).nonzero()[0].item()}:\n{found}\n{wanted}")
        if len(wanted.unique()) < 8:
            wrong(name, f"{what}: the model says nothing: {wanted}")
        tokens += found.numel()
    if theirs_of == "eager":
        # rows that see nothing are NaN in double precision, because the softmax is computed in
        # float32
        mask = torch.ones_like(mask)
    for n, found in enumerate(zip(*(judged(model, ids, mask, encodes) for model in (ours, theirs, exact)), strict=True)):
        near(name, "a logit" if n == 0 else f"gradient {n}", *found)
    if theirs_of == "sdpa":
        clattn_torch._said.clear()
        before = calls
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = written(wide, ids, mask)
        said = [str(one.message) for one in caught if "clattn_torch" in str(one.message)]
        if calls != before or said != ["clattn_torch: query is of torch.float64: torch's own attention is taken"]:
            wrong(name, f"float64: {calls - before} calls of clattn; it says {said}")
        if not torch.equal(found, written(exact, ids, mask)):
            wrong(name, "float64: tokens differ")
print(f"counted: {len(MODELS)} models of transformers {transformers.__version__}: {tokens} tokens as by its own attention, logits, gradients")
