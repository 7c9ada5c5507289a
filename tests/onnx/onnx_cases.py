#!/usr/bin/env python3
"""Writes ONNX's own node cases of attention, in clattn's terms, for tests/onnx/onnx_cases.c.

    onnx_cases.py FOLDER      FOLDER/cases.json, and FOLDER/cases.bin with its arrays

The onnx wheel has the cases as code. Importing one of its modules computes inputs and outputs with
numpy, from a seed, so one version of onnx and numpy has the same numbers everywhere. A case is one
node of an operator. Its variants, in which the node is expanded to others, have the same numbers
and are skipped. A node's attributes become fields of clattn_attention_params, so the program that
runs the cases needs no knowledge of ONNX. Unsupported cases have an "out" with the reason.
"""
import importlib
import json
import os
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as cases

VERSION = "1.23.2"
MODULES = {"Attention": "attention", "FlexAttention": "flexattention", "RotaryEmbedding": "rotaryembedding",
           "TensorScatter": "tensorscatter", "LinearAttention": "linear_attention"}
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int32": "i32", "float64": "f64"}
# Two units in bfloat16's last place, as in ONNX's own runner: onnx/backend/test/runner/__init__.py.
BFLOAT16_RTOL = 2**-6
TAPS = ["raw", "softcap", "masked", "softmax"]  # qk_matmul_output_mode

# FlexAttention's sub-graphs as expressions, by the case. {name} is the graph's constant of that
# name.
SCORE_MODS = {
    "test_flexattention_score_mod": {"score_mod": "score + {bias}f"},
    "test_flexattention_causal_mask": {"mask_mod": "j <= i"},
    "test_flexattention_soft_cap": {"score_mod": "{cap}f * tanh(score / {cap}f)"},
    "test_flexattention_relative_positional": {"score_mod": "score + (float)(i - j)"},
}
PROB_MOD = "prob_mod: there is no step of the caller's after the softmax"


class Writer:
    """The arrays of all cases, one after another."""

    def __init__(self, folder):
        self.file = open(os.path.join(folder, "cases.bin"), "wb")

    def put(self, a, split_heads=None):
        """An array of the manifest. split_heads: a is [B, N, H * D] and becomes [B, H, N, D], a
        view of the same memory."""
        word = {"type": TYPES[str(a.dtype)]}
        if a.dtype == np.float64:
            a, word["type"] = a.astype(np.float32), "f32"
        if split_heads and a.ndim == 3:
            a = a.reshape(*a.shape[:2], split_heads, -1).transpose(0, 2, 1, 3)
            word["bshd"] = True
        self.file.seek((self.file.tell() + 63) // 64 * 64)
        word.update(at=self.file.tell(), shape=list(a.shape))
        self.file.write(np.ascontiguousarray(a).tobytes())
        return word


def attention_words(write, node, values, results):
    """Attention, in its three versions. Optional inputs are absent if the node omits them."""
    attributes = attributes_of(node)
    slots = dict(zip(("q", "k", "v", "attn_mask", "past_k", "past_v", "nonpad"), values))
    heads, kv_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    case = {"q": write.put(slots["q"], heads), "k": write.put(slots["k"], kv_heads), "v": write.put(slots["v"], kv_heads)}
    past, nonpad, mask = slots.get("past_k"), slots.get("nonpad"), slots.get("attn_mask")
    keys = slots["k"].shape[-2] + (past.shape[2] if past is not None else 0)
    if past is not None:
        case.update(past_k=write.put(past), past_v=write.put(slots["past_v"]))
    if mask is not None:
        # A mask that ends before the last key hides the remaining keys.
        hidden = False if mask.dtype == np.bool_ else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])], constant_values=hidden)
        case["mask" if mask.dtype == np.bool_ else "bias"] = write.put(mask)
    case["scale"] = attributes.get("scale", 0.0)
    case["softcap"] = attributes.get("softcap", 0.0)
    case["causal"] = bool(attributes.get("is_causal", 0))
    window = [attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)]
    if window != [-1, -1]:
        case["window"] = window
    # The position of row 0. With a past it follows the past. With a separate cache the last row has
    # the position of the last key. Otherwise it is the position of key 0.
    case["align"] = "offset" if past is not None else "bottom_right" if nonpad is not None else "top_left"
    case["offset"] = past.shape[2] if past is not None else 0
    if nonpad is not None:
        case["kv_lengths"] = [int(n) for n in nonpad]
    outputs = dict(zip(("out", "present_k", "present_v", "tap"), results))
    case["out"] = write.put(outputs["out"], heads)
    for name in "present_k", "present_v":
        if outputs.get(name) is not None:
            case[name] = write.put(outputs[name])
    if outputs.get("tap") is not None:
        case["scores"], case["scores_at"] = write.put(outputs["tap"]), TAPS[attributes.get("qk_matmul_output_mode", 0)]
    return case


def flex_words(write, node, values, results):
    """FlexAttention: Q, K, V and sub-graphs over all scores, whose expressions are in the table."""
    attributes, graphs = attributes_of(node), {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    case = {name: write.put(value) for name, value in zip("qkv", values)}
    case.update(scale=attributes.get("scale", 0.0), out=write.put(results[0]))
    if "prob_mod" in graphs:
        case["out_of_reach"] = PROB_MOD
    return case, graphs


def recurrent_words(write, node, values, results):
    """LinearAttention: [B, T, H * D] is a view [B, H, T, D]. Beta [B, T, H] is transposed."""
    attributes = attributes_of(node)
    slots = dict(zip(("q", "k", "v", "past_state", "decay", "beta"), values))
    heads, kv_heads = attributes["q_num_heads"], attributes["kv_num_heads"]
    case = {name: write.put(slots[name], kv_heads if name != "q" else heads) for name in "qkv"}
    for name, value in list(slots.items())[3:]:
        if value is not None:
            case[name] = write.put(value.transpose(0, 2, 1) if name == "beta" else value, kv_heads if name == "decay" else None)
    case.update(rule=attributes.get("update_rule", b"gated_delta").decode(), scale=attributes.get("scale", 0.0))
    case.update(out=write.put(results[0], heads), present_state=write.put(results[1]))
    return case


def expressions_of(name, graphs):
    if not graphs or "prob_mod" in graphs:
        return {}
    constants = {t.name: float(numpy_helper.to_array(t)) for g in graphs.values() for t in g.initializer
                 if t.data_type == TensorProto.FLOAT and not t.dims}
    return {key: text.format(**constants) for key, text in SCORE_MODS[name].items()}


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.type != AttributeProto.GRAPH}


def plain_words(write, node, values, results):
    """The attributes of another call than attention, and every tensor by its place in the node."""
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes_of(node).items()}
    # Convert [B, N, H * D], or a cache without heads, [B, N, D], to [B, H, N, D].
    heads = attributes.get("num_heads") or 1
    rows = (0,) if node.op_type == "RotaryEmbedding" else (0, 1)
    values = [v.astype(np.int32) if v is not None and v.dtype == np.int64 else v for v in values]
    words = {"attributes": attributes, "out": write.put(results[0], heads)}
    words["inputs"] = [write.put(v, heads if n in rows else None) if v is not None else None for n, v in enumerate(values)]
    return words


def placed(names, values):
    """One value for each place of a node. An omitted place has None."""
    rest = iter(values)
    return [array(next(rest)) if name else None for name in names]


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def words_of(write, case, op):
    node = case.model.graph.node[0]
    values, results = (placed(names, arrays) for names, arrays in zip((node.input, node.output), case.data_sets[0]))
    if op == "Attention":
        words = attention_words(write, node, values, results)
    elif op == "LinearAttention":
        words = recurrent_words(write, node, values, results)
    elif op == "FlexAttention":
        words, graphs = flex_words(write, node, values, results)
        words.update(expressions_of(case.name, graphs))
    else:
        words = plain_words(write, node, values, results)
    bfloat16 = str(results[0].dtype) == "bfloat16"
    return {"name": case.name, "op": op, "rtol": max(case.rtol, BFLOAT16_RTOL) if bfloat16 else case.rtol,
            "atol": case.atol, "float64": results[0].dtype == np.float64, **words}


def main():
    folder = sys.argv[1]
    if onnx.__version__ != VERSION:
        sys.exit(f"onnx {onnx.__version__}: {VERSION} is wanted")
    write, written = Writer(folder), []
    for op, module in MODULES.items():
        first = len(cases._NodeTestCases)
        cases._TargetOpType = op
        importlib.import_module("onnx.backend.test.case.node." + module)
        for case in cases._NodeTestCases[first:]:
            nodes = case.model.graph.node
            if len(nodes) == 1 and nodes[0].op_type == op:
                assert len(case.data_sets) == 1, case.name
                written.append(words_of(write, case, op))
    write.file.close()
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as to:
        json.dump({"onnx": onnx.__version__, "numpy": np.__version__, "cases": written}, to, indent=1)


if __name__ == "__main__":
    main()
