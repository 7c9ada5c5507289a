#!/usr/bin/env python3
"""Creates tests/data/model_kinds.json: config.json files of every kind, with each key absent, null
and changed, and the results that transformers' own modules ("eager", float64) compute from them.
Needs torch and transformers 5.24.

    make_kinds.py           compares with the existing file
    make_kinds.py write     writes the file
"""
import json, os, sys, warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
import check_kinds as kinds

try:
    import torch, transformers
except ImportError:
    print("no torch and transformers")
    sys.exit(77)

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
WIDTH, ROWS, LAYERS = 64, 24, 6
SIZES = dict(hidden_size=WIDTH, num_attention_heads=4, num_hidden_layers=LAYERS, intermediate_size=48, vocab_size=8, pad_token_id=0)
TEXT = {**SIZES, "num_key_value_heads": 2, "head_dim": 16}
EXPERTS = dict(num_experts_per_tok=1, num_local_experts=2)
BASE = {"llama": TEXT, "mistral": TEXT, "mixtral": {**TEXT, **EXPERTS}, "qwen2": {k: v for k, v in TEXT.items() if k != "head_dim"},
        "qwen3": TEXT, "qwen3_moe": {**TEXT, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16},
        "olmo2": {k: v for k, v in TEXT.items() if k != "head_dim"}, "gemma": TEXT, "gemma2": TEXT, "gemma3_text": TEXT,
        "gpt_oss": {**TEXT, **EXPERTS}, "phi": {**SIZES, "num_key_value_heads": 2}, "phi3": {**SIZES, "num_key_value_heads": 2},
        "bert": SIZES, "roberta": SIZES, "xlm-roberta": SIZES,
        "gpt2": dict(n_embd=WIDTH, n_head=4, n_layer=LAYERS, vocab_size=8, pad_token_id=0)}
ROPE = [kind for kind in BASE if kind not in ("bert", "roberta", "xlm-roberta", "gpt2")]
BLOCKS = [kind for kind in BASE if kind not in ("mixtral", "qwen3_moe", "gpt_oss")]
SLIDING, FULL = "sliding_attention", "full_attention"
TYPES = [SLIDING, FULL, FULL, SLIDING, SLIDING, FULL]

# Keys of some kinds, each with a value that is no kind's default.
KEYS = {"rope_theta": 777.0, "partial_rotary_factor": 0.75, "rope_local_base_freq": 333.0, "sliding_window": 7, "use_sliding_window": True,
        "max_window_layers": 2, "layer_types": TYPES, "sliding_window_pattern": 4, "query_pre_attn_scalar": 24,
        "attn_logit_softcapping": 2.0,
        "rms_norm_eps": 0.25, "layer_norm_eps": 0.25, "layer_norm_epsilon": 0.25, "attention_multiplier": 0.3, "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": False, "clip_qkv": 0.5, "use_qk_norm": True, "alibi": True,
        "max_position_embeddings": 16, "original_max_position_embeddings": 8, "rope_interleaved": True, "rope_scaling": {}}
OWN = {"rope_theta": ROPE, "partial_rotary_factor": ["phi", "phi3", "llama"], "rope_local_base_freq": ["gemma3_text"],
       "sliding_window": ["mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text", "gpt_oss"],
       "use_sliding_window": ["qwen2", "qwen3", "qwen3_moe"], "max_window_layers": [], "layer_types": [],
       "sliding_window_pattern": ["gemma3_text"], "query_pre_attn_scalar": ["gemma2", "gemma3_text"], "attn_logit_softcapping": ["gemma2"],
       "rms_norm_eps": ["qwen3", "qwen3_moe", "olmo2", "gemma3_text"], "scale_attn_weights": ["gpt2"],
       "scale_attn_by_inverse_layer_idx": ["gpt2"], "reorder_and_upcast_attn": ["gpt2"]}


# Keys whose wrong type may go unnoticed, because they may not affect the tested layer.
FREE = ("rms_norm_eps", "rope_theta", "sliding_window", "reorder_and_upcast_attn")
# Keys that may not be null, or that nearly all kinds have.
COMMON = ("layer_types", "max_position_embeddings", "original_max_position_embeddings", "rms_norm_eps", "layer_norm_eps",
          "layer_norm_epsilon")


def cases():
    """Yields (kind, name, changes of the base config.json, layer, more). `more` has rows, block,
    without, options, later (not in the default run), refuse (a word of the required refusal,
    although transformers computes a result), free (either outcome is right)."""
    for kind in BASE:
        yield kind, "defaults", {}, 1, {}
        yield kind, "defaults, last layer", {}, 5, {}
        strange = {key: value for key, value in KEYS.items() if kind not in OWN.get(key, [])
                   and (kind in ROPE or key != "max_position_embeddings") and (kind != "gpt_oss" or key != "partial_rotary_factor")
                   and (key not in ("layer_types", "max_window_layers") or kind not in ("qwen2", "qwen3", "gemma2", "gemma3_text",
                           "gpt_oss"))}
        yield kind, "keys of other kinds", strange, 3, {}
        yield kind, "keys of other kinds, null", dict.fromkeys(key for key in strange if key not in COMMON), 3, {}
        for key, value in strange.items():
            yield kind, f"{key} of other kinds", {key: value}, 3, {"later": True}
        for key, of in OWN.items():
            if kind in of:
                yield kind, f"{key} changed", {key: KEYS[key]}, 3, {}
                others = kind in ("gemma2", "gemma3_text", "gpt_oss") and key in ("sliding_window",
                        "rope_theta")  # not read by layer 3
                yield kind, f"{key} null", {key: None}, 3, {"free": others or key == "reorder_and_upcast_attn"}
                yield kind, f"{key} true", {key: True}, 3, {"free": True, "later": key not in ("rope_theta", "sliding_window")}
                yield kind, f"{key} of words", {key: "7"}, 3, {"later": True, "free": key in FREE}
    yield from of_sizes()
    yield from of_windows()
    yield from of_rope()
    yield from of_blocks()
    yield from of_scales()


def of_sizes():
    for kind in ROPE:
        base = BASE[kind]
        yield kind, "num_key_value_heads 1", {"num_key_value_heads": 1}, 1, {}
        yield kind, "num_key_value_heads null", {"num_key_value_heads": None}, 1, {}
        yield kind, "head_dim 32", {"head_dim": 32}, 1, {}
        yield kind, "head_dim null", {"head_dim": None}, 1, {"free": True}
        yield kind, "num_key_value_heads 3", {"num_key_value_heads": 3}, 1, {"free": True, "later": True}
    for kind in ("llama", "olmo2", "phi", "phi3"):
        yield kind, "no num_key_value_heads", {}, 1, {"without": ["num_key_value_heads"]}
    for kind in ("mistral", "mixtral", "gpt_oss"):
        yield kind, "no num_key_value_heads: 8", {"num_attention_heads": 8, "head_dim": 8}, 1, {"without": ["num_key_value_heads"]}
    for kind in ("qwen2", "qwen3"):
        yield kind, "no num_key_value_heads: 32", {"num_attention_heads": 32, "head_dim": 2 if kind == "qwen2" else 8}, 1, {
            "without": ["num_key_value_heads"]}
    for kind in ("qwen3_moe", "gemma2", "gemma3_text"):
        yield kind, "no num_key_value_heads: 4", {}, 1, {"without": ["num_key_value_heads"]}
    yield "gemma", "no num_key_value_heads: 16", {"num_attention_heads": 16, "head_dim": 8}, 1, {"without": ["num_key_value_heads"]}
    for kind in ("llama", "mistral", "mixtral", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "gpt_oss"):
        yield kind, "no head_dim", {"num_attention_heads": 2}, 1, {"without": ["head_dim"]}
    for kind in ("llama", "mistral", "qwen3", "qwen3_moe", "olmo2", "gemma", "gemma2", "gemma3_text", "gpt_oss"):
        for value in (True, False, None):
            yield kind, f"attention_bias {value}", {"attention_bias": value}, 1, {}


def of_windows():
    whole = {"sliding_window": 7}
    for kind in ("qwen2", "qwen3", "qwen3_moe"):
        used = {"use_sliding_window": True, **whole}
        for layer in (0, 1, 5):
            yield kind, f"window from layer 1, layer {layer}", {**used, "max_window_layers": 1}, layer, {}
        yield kind, "window, no max_window_layers", used, 0, {}
        yield kind, "window, no max_window_layers, 30 layers", {**used, "num_hidden_layers": 30}, 28, {}
        yield kind, "window, max_window_layers null", {**used, "max_window_layers": None}, 0, {"free": kind == "qwen3_moe"}
        yield kind, "window null", {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}, 1, {}
        yield kind, "window unused", {"use_sliding_window": False, **whole, "max_window_layers": 0}, 1, {}
        yield kind, "default window", {"use_sliding_window": True, "max_window_layers": 0, "num_attention_heads": 2,
                                       "num_key_value_heads": 1, "max_position_embeddings": 8192}, 1, {"rows": 4160, "later": True}
        for layer in (0, 1):
            yield kind, f"layer_types, layer {layer}", {**used, "layer_types": TYPES, "max_window_layers": 0}, layer, {}
            yield kind, f"layer_types unused, layer {layer}", {**whole, "layer_types": TYPES}, layer, {
                "free": layer == 1 and kind != "qwen3_moe"}
        yield kind, "pattern", {**used, "max_window_layers": 0, "sliding_window_pattern": 2}, 1, {}
    for kind in ("gemma2", "gemma3_text", "gpt_oss"):
        for layer in (0, 1, 5):
            yield kind, f"window, layer {layer}", whole, layer, {}
            yield kind, f"window, layer_types, layer {layer}", {**whole, "layer_types": TYPES}, layer, {}
        for layer in (1, 2):
            yield kind, f"pattern 2, layer {layer}", {**whole, "sliding_window_pattern": 2}, layer, {}
            yield kind, f"pattern 3, layer {layer}", {**whole, "sliding_window_pattern": 3}, layer, {}
        yield kind, "pattern null", {**whole, "sliding_window_pattern": None}, 5, {}
        yield kind, "layer_types null", {**whole, "layer_types": None}, 5, {}
        yield kind, "unused", {**whole, "use_sliding_window": False, "max_window_layers": 5}, 0, {}
        yield kind, "window null, sliding", {"sliding_window": None}, 0, {}
        yield kind, "window null, full", {"sliding_window": None}, 5, {"free": True}
        yield kind, "window 0", {"sliding_window": 0}, 0, {"free": True}
        yield kind, "types of other models", {**whole, "layer_types": ["chunked_attention"] * LAYERS}, 0, {}
        if kind != "gpt_oss":
            yield kind, "default window", {"num_attention_heads": 2, "num_key_value_heads": 1}, 0, {"rows": 4160, "later": True}
    yield "gpt_oss", "default window", {}, 0, {"rows": 150}
    yield "gpt_oss", "default window, full", {}, 1, {"rows": 150}
    for kind in ("mistral", "mixtral", "phi3"):
        for layer in (0, 5):
            yield kind, f"window, layer {layer}", whole, layer, {}
        yield kind, "unused", {**whole, "use_sliding_window": False, "max_window_layers": 5, "sliding_window_pattern": 1}, 0, {}
        yield kind, "window and layer_types", {**whole, "layer_types": [FULL] * LAYERS}, 0, {}
        yield kind, "default window", {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8192}, 0, {
            "rows": 4160, "later": kind != "mistral"}
        yield kind, "window -1", {"sliding_window": -1}, 0, {"free": True}
        yield kind, "window 2 ** 80", {"sliding_window": 2 ** 80}, 0, {"free": True, "later": True}
    for both in (True, False, None):
        for layer in (0, 5):
            yield "gemma3_text", f"use_bidirectional_attention {both}, layer {layer}", {"use_bidirectional_attention": both,
                                                                                         "sliding_window": 9}, layer, {}
    for kind in ("gemma", "gemma2"):
        yield kind, "use_bidirectional_attention null", {"use_bidirectional_attention": None}, 1, {}
        yield kind, "use_bidirectional_attention", {"use_bidirectional_attention": True}, 1, {"refuse": "use_bidirectional_attention"}
    yield "llama", "is_causal false", {"is_causal": False}, 1, {"refuse": "is_causal"}
    yield "llama", "is_causal true", {"is_causal": True}, 1, {}
    yield "llama", "per_layer_config", {"per_layer_config": {"1": {"rms_norm_eps": 0.5}}}, 1, {"refuse": "per_layer_config"}


FACTORS = [1.0, 1.125, 1.5, 2.0, 3.25, 5.0, 9.0, 17.0]
LONG = [1.0, 1.5, 2.5, 4.0, 9.0, 18.0, 32.0, 60.0]
SCALINGS = {"default": {}, "linear": {"factor": 4.0}, "dynamic": {"factor": 2.0},
            "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
            "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
            "longrope": {"short_factor": FACTORS, "long_factor": LONG, "original_max_position_embeddings": 16},
            "proportional": {"partial_rotary_factor": 0.5}}


def rope_of(name, **more):
    return {"rope_type": name, **SCALINGS[name], **more}


def cut(rope, pairs):
    return {key: value[:pairs] if isinstance(value, list) else value for key, value in rope.items()}


def of_rope():
    short = {"max_position_embeddings": 16}
    for kind in ROPE:
        pairs = 4 if kind == "phi" else 8
        layer = 5 if kind == "gemma3_text" else 1
        whole = {"rope_parameters": {FULL: None}} if kind == "gemma3_text" else {}
        put = (lambda rope: {"rope_parameters": {FULL: rope}}) if kind == "gemma3_text" else (lambda rope: {"rope_parameters": rope})
        for name in SCALINGS:
            rope = cut(rope_of(name, rope_theta=5000.0), pairs)
            yield kind, f"rope_parameters {name}", {**put(rope), **short}, layer, {}
            old = {("type" if key == "rope_type" and kind != "gemma3_text" else key): value for key, value in rope.items()
                    if key != "rope_theta"}
            yield kind, f"rope_scaling {name}", {"rope_scaling": old, "rope_theta": 900.0, **short}, layer, {
                "later": kind not in ("llama", "mixtral", "gemma3_text", "phi", "phi3", "gpt_oss")}
        yield kind, "rope_parameters of a base alone", put({"rope_theta": 50.0}), layer, {}
        yield kind, "rope_parameters of a base, and one beside it", {**put({"rope_type": "default", "rope_theta": 50.0}),
                "rope_theta": 70.0}, layer, {}
        yield kind, "rope_parameters {}", put({}), layer, {}
        yield kind, "rope_parameters null, rope_scaling null", {"rope_parameters": None, "rope_scaling": None}, layer, {}
        yield kind, "rope_scaling before rope_parameters", {**put(rope_of("linear", factor=2.0)), "rope_scaling": rope_of("linear",
                factor=4.0)}, layer, {}
        yield kind, "rope_scaling su", {"rope_scaling": cut({**SCALINGS["longrope"], "type": "su"}, pairs),
                **short}, layer, {"free": kind == "gemma3_text"}
        yield kind, "rope_scaling yarn with lists", {"rope_scaling": cut({**SCALINGS["longrope"], "type": "yarn"}, pairs),
                **short}, layer, {"free": kind == "gemma3_text"}
        yield kind, "an unknown type", put({"rope_type": "ntk", "factor": 2.0}), layer, {}
        yield kind, "attn_factor", put(cut(rope_of("longrope" if kind == "phi3" else "yarn", attn_factor=0.5),
                pairs)), layer, {"refuse": "attn_factor"}
        for part in (0.5, 1.0):
            yield kind, f"a part of {part} in rope_parameters", put({"rope_type": "default", "partial_rotary_factor": part}), layer, {}
    yield from of_yarn()
    for name in SCALINGS:
        for key, value in SCALINGS[name].items():
            rope = rope_of(name)
            yield "llama", f"{name} without {key}", {"rope_parameters": {k: v for k, v in rope.items() if k != key}, **short}, 1, {}
            yield "llama", f"{name}, {key} null", {"rope_parameters": {**rope, key: None}, **short}, 1, {
                "free": (name, key) == ("yarn", "factor")}  # the factor is below 1
            yield "llama", f"{name}, {key} true", {"rope_parameters": {**rope, key: True}, **short}, 1, {"free": True}
            yield "llama", f"{name}, {key} of words", {"rope_parameters": {**rope, key: "4"}, **short}, 1, {"later": True, "free": True}
            yield "llama", f"{name}, {key} -1", {"rope_parameters": {**rope, key: -1}, **short}, 1, {"free": True, "later": key != "factor"}
        for lengths in ((None, 64), (32, 64), (12, None), (32, None)):
            beside = {key: value for key, value in zip(("original_max_position_embeddings", "max_position_embeddings"), lengths) if value}
            inside = {key: value for key, value in rope_of(name).items() if key[:8] != "original"}
            yield "llama", f"{name}, lengths {lengths} beside it", {"rope_parameters": inside, **beside}, 1, {}
            yield "llama", f"{name}, lengths {lengths} beside and 20 in it", {
                "rope_parameters": {**inside, "original_max_position_embeddings": 20}, **beside}, 1, {"later": lengths[0] != 32}
        yield "llama", f"{name}, original length null beside it", {"rope_parameters": rope_of(name),
                "original_max_position_embeddings": None}, 1, {}
        yield "llama", f"{name} in nested objects", {"rope_parameters": {FULL: rope_of(name),
                SLIDING: rope_of("default")}}, 1, {"refuse": "_attention"}
        yield "gemma3_text", f"{name} of layers with the window", {"rope_parameters": {SLIDING: rope_of(name, rope_theta=600.0),
                FULL: rope_of(
            "linear")}, "layer_types": TYPES, "sliding_window": 20, "original_max_position_embeddings": 4, **short}, 0, {}
    for kind in ("qwen2", "qwen3", "gemma2", "gpt_oss"):
        yield kind, "nested objects", {"rope_parameters": {FULL: rope_of("default"), SLIDING: rope_of("default")}, "layer_types": TYPES,
                                       "use_sliding_window": True, "sliding_window": 9}, 1, {}
    yield from of_long()
    yield from of_gemma3()


def of_yarn():
    yarn = rope_of("yarn", factor=8.0, original_max_position_embeddings=48)
    for key, value in {"attention_factor": 0.75, "beta_fast": 5.0, "beta_slow": 0.25, "truncate": False, "mscale": 0.7,
            "mscale_all_dim": 0.4,
                       "finetuned": True, "factor": 16, "rope_theta": 100.0}.items():
        yield "llama", f"yarn with {key}", {"rope_parameters": {**yarn, key: value}}, 1, {"refuse": None}
        yield "llama", f"yarn with {key} null", {"rope_parameters": {**yarn, key: None}, "max_position_embeddings": 192}, 1, {}
    yield "llama", "yarn with both scales", {"rope_parameters": {**yarn, "mscale": 0.7, "mscale_all_dim": 0.4}}, 1, {}
    yield "llama", "yarn with betas of 0", {"rope_parameters": {**yarn, "beta_fast": 0, "beta_slow": 0, "mscale": 0}}, 1, {}
    yield "llama", "yarn, the beta's order", {"rope_parameters": {**yarn, "beta_fast": 1, "beta_slow": 2}}, 1, {"free": True}
    yield "llama", "yarn with truncate 1", {"rope_parameters": {**yarn, "truncate": 1}}, 1, {"refuse": "truncate"}
    yield "llama", "a base of 1", {"rope_theta": 1.0}, 1, {}
    yield "llama", "a base below 1", {"rope_theta": 0.5}, 1, {"refuse": "rope_theta"}
    yield "llama", "a base of 10 ** 400", {"rope_theta": 10 ** 400}, 1, {"free": True}
    yield "llama", "a factor below 1", {"rope_parameters": rope_of("linear", factor=0.5)}, 1, {"refuse": "factor"}
    yield "llama", "type and rope_type", {"rope_parameters": rope_of("linear", type="dynamic")}, 1, {}
    yield "llama", "rope_type null", {"rope_parameters": {"rope_type": None, "factor": 2.0}}, 1, {}
    yield "llama", "type null", {"rope_scaling": {"type": None, "factor": 2.0}}, 1, {}
    yield "llama", "no type", {"rope_scaling": {"rope_theta": 60.0}}, 1, {}
    yield "llama", "an unknown key that is null", {"rope_parameters": rope_of("linear", attn_factor=None)}, 1, {}
    for value in ([], [1], "yarn", 5, True):
        yield "llama", f"rope_scaling {value!r}", {"rope_scaling": value}, 1, {"free": not value}
        yield "llama", f"rope_parameters {value!r}", {"rope_parameters": value}, 1, {}
    yield "gpt_oss", "a base alone", {"rope_theta": 10000.0, "sliding_window": 128}, 1, {"rows": 60}
    yield "gpt_oss", "default scaling", {"rope_parameters": {"rope_type": "default"}}, 1, {}
    yield "mixtral", "yarn without head_dim", {"rope_parameters": yarn, "num_attention_heads": 4}, 1, {"without": ["head_dim"],
            "free": True}


def of_long():
    long = SCALINGS["longrope"]
    for kind in ("llama", "phi3", "qwen3"):
        for original, most in ((16, 16), (24, 64), (23, 64), (64, None), (None, 32), (None, None)):
            inside = {"rope_type": "longrope", "short_factor": FACTORS, "long_factor": LONG}
            beside = {"max_position_embeddings": most} if most else {}
            more = {"later": kind == "qwen3"}
            if original:
                yield kind, f"longrope of {original} to {most}", {"rope_parameters": {**inside,
                        "original_max_position_embeddings": original},
                                                                  **beside}, 1, more
                yield kind, f"longrope of {original} beside it to {most}", {"rope_parameters": inside, **beside,
                                                                            "original_max_position_embeddings": original}, 1, more
            else:
                yield kind, f"longrope to {most}", {"rope_parameters": inside, **beside}, 1, more
        for key, value in {"factor": 6.0, "attention_factor": 1.5}.items():
            for given in (value, None):
                yield kind, f"longrope, {key} {given}", {"rope_parameters": {"rope_type": "longrope", **long, key: given},
                                                         "original_max_position_embeddings": 12, "max_position_embeddings": 90}, 1, {}
        for bad in (FACTORS[:7], FACTORS + [1.0], [], 1.0, ["1"] * 8, [True] * 8, [0.0] + FACTORS[1:]):
            yield kind, f"longrope, long_factor {bad!r}", {"rope_parameters": {"rope_type": "longrope", **long, "long_factor": bad}}, 1, {
                "free": True, "later": kind != "phi3"}
    for part in (0.5, 0.75, 0.3, 0.1, 0.01):
        pairs = int(16 * part) // 2
        for kind in ("phi", "phi3"):
            yield kind, f"a part of {part}", {"partial_rotary_factor": part}, 1, {"free": pairs == 0 or int(16 * part) % 2}
            yield kind, f"longrope of a part of {part}", {"rope_scaling": cut({"type": "longrope", **long}, pairs),
                    "partial_rotary_factor": part,
                                                          "original_max_position_embeddings": 10, "max_position_embeddings": 40}, 1, {
                "free": pairs < 2 or int(16 * part) % 2, "later": part != 0.75}
    for part in (0.25, 0.3, 1.0):
        for factor in (None, 2.0):
            rope = rope_of("proportional", partial_rotary_factor=part, **({"factor": factor} if factor else {}))
            yield "llama", f"proportional, {part} and {factor}", {"rope_parameters": rope}, 1, {}
            yield "phi", f"proportional, {part} and {factor}", {"rope_parameters": rope}, 1, {"later": factor is not None}
            yield "gpt_oss", f"proportional, {part} and {factor}", {"rope_parameters": rope}, 1, {"later": factor is not None}


def of_gemma3():
    full, local = rope_of("linear", factor=8.0, rope_theta=1e5), rope_of("default", rope_theta=300.0)
    both = {"layer_types": TYPES, "sliding_window": 12, "query_pre_attn_scalar": 32}
    for layer in (0, 1):
        for name, more in {
                "nested": {"rope_parameters": {FULL: full, SLIDING: local}}, "nested, no local one": {"rope_parameters": {FULL: full}},
                "nested, no full one": {"rope_parameters": {SLIDING: local}}, "nested, null": {"rope_parameters": {FULL: None,
                        SLIDING: None}},
                "nested and bases beside it": {"rope_parameters": {FULL: rope_of("linear"), SLIDING: rope_of("default")}, "rope_theta": 5e4,
                                               "rope_local_base_freq": 200.0},
                "legacy": {"rope_scaling": rope_of("linear", factor=8.0), "rope_theta": 5e4, "rope_local_base_freq": 200.0},
                "legacy and nested": {"rope_scaling": rope_of("linear", factor=8.0), "rope_parameters": {FULL: rope_of("yarn"),
                        SLIDING: local}},
                "nested, a part": {"rope_parameters": {FULL: rope_of("proportional", partial_rotary_factor=0.25), SLIDING: local}},
                "a part beside nested": {"rope_parameters": {FULL: rope_of("proportional"), SLIDING: local}, "partial_rotary_factor": 0.25},
                "flat, the defaults": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}}.items():
            yield "gemma3_text", f"{name}, layer {layer}", {**both, **more}, layer, {}
        yield "gemma3_text", f"legacy by type, layer {layer}", {**both, "rope_scaling": {"type": "linear", "factor": 8.0}}, layer, {
            "refuse": "type is"}
        yield "gemma3_text", f"flat, layer {layer}", {**both, "rope_parameters": full}, layer, {"refuse": "rope_"}
        yield "gemma3_text", f"nested, unknown key, layer {layer}", {
            **both, "rope_parameters": {FULL: {**full, "x": 1}, SLIDING: {**local, "x": 1}}}, layer, {"refuse": "x is 1"}
        yield "gemma3_text", f"nested of another type, layer {layer}", {
            **both, "rope_parameters": {FULL: full, SLIDING: local, "chunked_attention": full}}, layer, {"refuse": "chunked_attention"}
        yield "gemma3_text", f"nested, no objects, layer {layer}", {**both, "rope_parameters": {FULL: 5, SLIDING: [1]}}, layer, {}


def of_blocks():
    for kind in BLOCKS:
        key = {"phi": "layer_norm_eps", "gpt2": "layer_norm_epsilon"}.get(kind, "layer_norm_eps" if "bert" in kind else "rms_norm_eps")
        act = {"gpt2": "activation_function", "gemma2": "hidden_activation", "gemma3_text": "hidden_activation"}.get(kind, "hidden_act")
        block = {"block": 1}
        yield kind, "block, defaults", {}, 1, block
        yield kind, "block, epsilon changed", {key: 1e-3}, 1, block
        yield kind, "block, epsilon null", {key: None}, 1, block
        yield kind, "block, other epsilons", {other: 0.5 for other in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
                if other != key}, 1, block
        for value in ("relu", "gelu", None):
            yield kind, f"block, {act} {value}", {act: value}, 1, block
        yield kind, "block, other activations", {other: "relu" for other in ("hidden_act", "hidden_activation", "activation_function")
                                                 if other != act}, 1, block
        for value in (True, None):
            yield kind, f"block, mlp_bias {value}", {"mlp_bias": value}, 1, block
    for value in (40, None):
        yield "gpt2", f"block, n_inner {value}", {"n_inner": value}, 1, {"block": 1}
    yield "gemma", "block, gelu and hidden_activation", {"hidden_act": "gelu", "hidden_activation": None}, 1, {"block": 1}
    for kind in ("mixtral", "qwen3_moe", "gpt_oss"):
        yield kind, "block", {}, 1, {"block": 1, "refuse": "experts"}


def of_scales():
    for layer in (0, 3):
        for scaled in (True, False):
            yield "gpt2", f"scale_attn_weights {scaled}, by layer, layer {layer}", {
                "scale_attn_weights": scaled, "scale_attn_by_inverse_layer_idx": True}, layer, {}
    for value in (0, -1, 2.5, True):
        yield "gemma2", f"query_pre_attn_scalar {value}", {"query_pre_attn_scalar": value}, 1, {"free": True}
        yield "gemma2", f"attn_logit_softcapping {value}", {"attn_logit_softcapping": value}, 1, {"free": True}
    yield "phi", "qk_layernorm", {"qk_layernorm": True}, 1, {"refuse": "qk_layernorm"}
    for kind in ("bert", "roberta", "xlm-roberta"):
        yield kind, "is_decoder", {"is_decoder": True}, 1, {"refuse": "is_decoder"}
        yield kind, "position_embedding_type", {"position_embedding_type": "absolute"}, 1, {}
        yield kind, "relative positions", {"position_embedding_type": "relative_key"}, 1, {"refuse": "position_embedding_type"}
    for kind in BASE:
        yield kind, "hidden_size null", {"n_embd" if kind == "gpt2" else "hidden_size": None}, 1, {}


class Found(Exception):
    pass


def modules_of(kind, model, layer):
    """Returns the layers, the selected layer, and its attention. The attention's result needs
    `dense` if that is a separate module."""
    if kind == "gpt2":
        return model.h, model.h[layer], model.h[layer].attn
    if kind in kinds.PREFIX:
        return model.encoder.layer, model.encoder.layer[layer], model.encoder.layer[layer].attention
    return model.layers, model.layers[layer], model.layers[layer].self_attn


def tensors_of(kind, block, attention):
    """Tensor shapes by name, without the layer's prefix. In a layer with experts, only those of the
    attention."""
    inside = next(name for name, module in block.named_modules() if module is attention)
    every = kind in BLOCKS
    return {name: list(value.shape) for name, value in block.named_parameters() if every or name.startswith(inside + ".")}


def fill(block, shapes, prefix):
    small = any(name.endswith("q_norm.weight") for name in shapes)
    with torch.no_grad():
        for name, value in block.named_parameters():
            if name in shapes:
                made = torch.tensor(kinds.tensor(name, tuple(shapes[name]), small), dtype=torch.float32)
                value.copy_(made.reshape(shapes[name]).to(torch.float64))


def compute(kind, config, layer, rows, whole):
    """The result of transformers for this config.json, and the shapes of its tensors."""
    made = transformers.AutoConfig.for_model(config["model_type"], **{k: v for k, v in config.items() if k != "model_type"})
    model = transformers.AutoModel.from_config(made, attn_implementation="eager").double().eval()
    layers, block, attention = modules_of(kind, model, layer)
    shapes = tensors_of(kind, block, attention)
    fill(block, shapes, kind)
    x = torch.tensor(kinds.input_of(rows, WIDTH, whole), dtype=torch.float32).double().reshape(1, rows, WIDTH)
    seen = {}

    def take(module, args, kwargs):
        seen.update(args=args, kwargs=kwargs)
        raise Found
    for one in layers:
        if one is not block:
            one.forward = lambda hidden_states, *args, **kwargs: hidden_states
    hook = (block if whole else attention).register_forward_pre_hook(take, with_kwargs=True)
    with torch.no_grad():
        try:
            model(inputs_embeds=x, use_cache=False)
        except Found:
            pass
        hook.remove()
        args, kwargs = seen["args"], seen["kwargs"]
        if "hidden_states" in kwargs:
            kwargs = {**kwargs, "hidden_states": x}
        else:
            args = (x, *args[1:])
        # the sum with x and its norm belong to the block
        if kind in kinds.PREFIX and kind != "gpt2" and not whole:
            inner = getattr(attention, "self")
            out = attention.output.dense(inner(*args, **kwargs)[0])
        else:
            out = (block if whole else attention)(*args, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    out = out.reshape(-1)
    return [float(out[at]) for at in kinds.places(rows, WIDTH)], shapes


def main():
    write = sys.argv[1:] == ["write"]
    data = {"width": WIDTH, "rows": ROWS, "base": BASE, "tensors": [], "results": [], "cases": []}
    plain, tensors, results, seen = {}, {}, {}, {}
    for kind, name, change, layer, more in cases():
        config = {"model_type": kind, **{k: v for k, v in {**BASE[kind], **change}.items() if k not in more.get("without", [])}}
        rows, whole = more.get("rows", ROWS), more.get("block", 0)
        key = json.dumps([config, layer, rows, whole], sort_keys=True)
        config = json.loads(json.dumps(config)) # a copy, because the classes change their argument
        if key in seen:
            continue
        seen[key] = True
        why, shapes, want = None, None, None
        try:
            want, shapes = compute(kind, config, layer, rows, whole)
            if not all(abs(x) < 1e30 for x in want):
                raise ValueError("no numbers")
        except Exception as error:
            why, want = f"{type(error).__name__}: {error}".split("\n")[0][:150], None
        if shapes is None:
            if kind not in plain:
                plain[kind] = compute(kind, {"model_type": kind, **BASE[kind]}, layer, ROWS, 0)[1]
            shapes = plain[kind]
        if more.get("refuse"):
            want = more["refuse"]
        elif want is None and not more.get("free"):
            want = "refused"
        if os.environ.get("WHY") and why:
            print(f"{kind}: {name}: {want}: {why}")
        if isinstance(want, list):
            want = [float(f"{x:.8g}") for x in want]
            want = results.setdefault(json.dumps(want), len(results))
        at = tensors.setdefault(json.dumps(shapes), len(tensors))
        kept = {k: v for k, v in more.items() if k in ("rows", "block", "without", "options", "later", "free") and v}
        data["cases"].append([kind, name, change, layer, at, want] + ([kept] if kept else []))
    data["tensors"] = [json.loads(x) for x in tensors]
    data["results"] = [json.loads(x) for x in results]
    same = compare(data)
    if write:
        lists = ("tensors", "results", "cases")
        with open(kinds.DATA, "w", encoding="utf-8") as file:
            file.write("{" + ",\n".join(f"{json.dumps(k)}: " + ("[\n" + ",\n".join(map(json.dumps, v)) + "]"
                    if k in lists else json.dumps(v))
                                        for k, v in data.items()) + "}\n")
    print(f"{len(data['cases'])} cases, {len(results)} results: " + ("as recorded" if same else "written"
            if write else "other than recorded"))
    sys.exit(not (same or write))


def compare(data):
    try:
        with open(kinds.DATA, encoding="utf-8") as file:
            there = json.load(file)
    except FileNotFoundError:
        return False
    if len(there["cases"]) != len(data["cases"]) or there["base"] != data["base"]:
        return False
    for a, b in zip(there["cases"], json.loads(json.dumps(data["cases"]))):
        x, y = (case[5] if not isinstance(case[5], int) else of["results"][case[5]] for case, of in ((a, there), (b, data)))
        numbers = isinstance(x, list) and isinstance(y, list)
        if numbers and max(abs(p - q) for p, q in zip(x, y)) > 1e-6 * max(map(abs, x)) or (not numbers and x != y) or a[:4] != b[:4] \
                or there["tensors"][a[4]] != data["tensors"][b[4]]:
            print(f"{b[0]}: {b[1]}: {x} is recorded, {y} is computed")
            return False
    return True


if __name__ == "__main__":
    main()
