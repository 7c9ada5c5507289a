#!/usr/bin/env python3
"""ONNX Runtime's attention operators on clattn, as custom operators and through the execution
provider: ONNX's own node cases, and com.microsoft's operators compared with ONNX Runtime's CPU
kernels. Run by check_onnxruntime.sh. The exit status is 1 if a check failed, or few ran.

    onnxruntime_cases.py LIBRARY           all checks; the last lines begin with "counted:"
    onnxruntime_cases.py LIBRARY wrong     slightly wrong expectations: all cases must fail
    onnxruntime_cases.py LIBRARY few       every twelfth case of ONNX: aarch64_inside.sh
    onnxruntime_cases.py LIBRARY time      a layer of BERT-base's size with both, interleaved
"""
import concurrent.futures
import ctypes
import importlib
import os
import re
import sys
import time

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as onnx_cases

LIBRARY, WRONG = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["wrong"]
MODULES = {"Attention": ("attention", 93), "RotaryEmbedding": ("rotaryembedding", 8), "TensorScatter": ("tensorscatter", 3)}
BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, BF16: TensorProto.BFLOAT16,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int8): TensorProto.INT8,
         np.dtype(bool): TensorProto.BOOL}
# Tolerances for com.microsoft's operators: another order of sums, and the rounding of results.
NEAR = {np.dtype(np.float32): (1e-5, 2e-6), np.dtype(np.float16): (2**-9, 2**-10), BF16: (2**-6, 2**-7)}
BFLOAT16_RTOL = 2**-6  # as in onnx_cases.py
failures = []


def fail(name, why):
    failures.append(name)
    print(f"FAIL  {name}: {' '.join(str(why).split())[:240]}")


def session(model, way="operators", **entries):
    """way: "operators", "provider", or "own" (ONNX Runtime's kernels). entries: module options."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if way == "provider":
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices([device for device in ort.get_ep_devices() if device.ep_name == "clattn"], entries)
        return ort.InferenceSession(model.SerializeToString(), options)
    for key, text in entries.items():
        options.add_session_config_entry("clattn." + key, text)
    if way == "operators":
        options.register_custom_ops_library(LIBRARY)
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def taken_by_provider(made):
    return [one.op_type for part in made.get_provider_graph_assignment_info() if part.ep_name == "clattn" for one in part.get_nodes()]


def shape_without(model):
    """The shape that a session infers for the first output if the model has none."""
    silent = onnx.ModelProto()
    silent.CopyFrom(model)
    silent.graph.output[0].type.tensor_type.ClearField("shape")
    return session(silent).get_outputs()[0].shape


def computed(model, feeds, way):
    """Returns clattn's results, and checks that clattn computed them."""
    made = session(model, way)
    if way == "operators":
        got = run(made, feeds)
        wanted = [n + WRONG for n in got[0].shape]
        assert shape_without(model) == wanted, "another shape is inferred for the first output"
        return got
    if way == "provider":
        assert taken_by_provider(made) == [model.graph.node[0].op_type], "the provider did not take the node"
    return run(made, feeds)


def given(a):
    a = np.ascontiguousarray(a)
    if a.dtype == BF16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(a.view(np.uint16), TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(a)


def taken(value):
    if "bfloat16" not in value.data_type():
        return value.numpy()
    count = int(np.prod(value.shape()))
    bits = np.frombuffer((ctypes.c_uint16 * count).from_address(value.data_ptr()), np.uint16).copy()
    return bits.view(BF16).reshape(value.shape())


def run(made, feeds):
    names = [output.name for output in made.get_outputs()]
    values = made.run_with_ort_values(names, {name: given(a) for name, a in feeds.items()})
    return [taken(value) for value in values]


def agree(got, wanted, rtol, atol):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, f"{got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    got, wanted = got.astype(np.float64), wanted.astype(np.float64) * (1.1 if WRONG else 1)
    # A hidden score is -inf, or the lowest float32 number, which ONNX Runtime adds as its mask.
    got, wanted = (np.where(a < -3e38, -np.inf, a) for a in (got, wanted))
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def onnx_case(case, way):
    inputs, outputs = ([array(value) for value in values] for values in case.data_sets[0])
    names = [value.name for value in case.model.graph.input]
    for got, wanted in zip(computed(case.model, dict(zip(names, inputs)), way), outputs, strict=True):
        agree(got, wanted, max(case.rtol, BFLOAT16_RTOL) if wanted.dtype == BF16 else case.rtol, case.atol)


def cases_of_onnx():
    """Returns (operator, its cases), and checks their known number."""
    for op, (module, wanted) in MODULES.items():
        first = len(onnx_cases._NodeTestCases)
        onnx_cases._TargetOpType = op
        importlib.import_module("onnx.backend.test.case.node." + module)
        found = [case for case in onnx_cases._NodeTestCases[first:]
                 if [one.op_type for one in case.model.graph.node] == [op]]
        if len(found) < wanted:
            fail(op, f"{len(found)} cases, {wanted} are wanted")
        yield op, found


def all_onnx_cases(found, way):
    for op, cases in found:
        before = len(failures)
        for case in cases:
            try:
                onnx_case(case, way)
            except Exception as error:
                fail(f"{case.name} by {way}", error)
        print(f"counted: ONNX {op} through ONNX Runtime's {way}: {len(cases)} cases, {len(failures) - before} failed")


def node(op, inputs, outputs, opset=21, domain="", **attributes):
    """A model of one node. Inputs are (name, array), with None for an omitted input."""
    inputs = list(inputs)
    while inputs[-1][1] is None:
        inputs.pop()
    kind = TYPES[inputs[0][1].dtype]
    made = helper.make_node(op, [name if a is not None else "" for name, a in inputs], outputs, domain=domain, **attributes)
    graph = helper.make_graph([made], "one", [helper.make_tensor_value_info(name, TYPES[a.dtype], a.shape)
                                              for name, a in inputs if a is not None],
                              [helper.make_tensor_value_info(name, kind, None) for name in outputs])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {name: a for name, a in inputs if a is not None}


def multi_head(r, dtype, B=2, S=3, L=5, H=2, D=8, Dv=8, P=None, bias=False, pad=None, added=None, by_head=False, packed=None,
               outputs=3, **attributes):
    """MultiHeadAttention nodes for clattn and for ONNX Runtime, which has no packed rows."""
    T, numbers = (P or 0) + L, lambda *shape: r.standard_normal(shape).astype(dtype)
    masks = {None: None, "lengths": np.array([T - 2, T], np.int32), "keys": (np.arange(T) < [[T - 2], [T]]).astype(np.int32),
             "rows": (np.arange(T) % 3 != r.integers(1, 3, (B, S, 1))).astype(np.int32)}
    rows = [numbers(B, S, H * D)]
    rows += [numbers(B, H, L, D), numbers(B, H, L, Dv)] if by_head else [numbers(B, L, H * D), numbers(B, L, H * Dv)]
    rest = [("bias", numbers(2 * H * D + H * Dv) if bias else None), ("pad", masks[pad]),
            ("added", numbers(*(n for n in (dict(B=B, H=H, S=S, T=T).get(axis, 1) for axis in added))) if added else None),
            ("past_k", None if P is None else numbers(B, H, P, D)), ("past_v", None if P is None else numbers(B, H, P, Dv))]
    words = dict(domain="com.microsoft", num_heads=H, **attributes)
    names = ["y", "present_k", "present_v", "qk"][:outputs]
    plain = node("MultiHeadAttention", list(zip("qkv", rows)) + rest, names, **words)
    if packed:
        by = [a.reshape(*a.shape[:2], H, 1, D) for a in rows]
        rows = [np.concatenate(by, 3), None, None] if packed == 3 else [rows[0], np.concatenate(by[1:], 3), None]
    return node("MultiHeadAttention", list(zip("qkv", rows)) + rest, names, **words), plain, None


def group_query(r, dtype, B=2, S=1, H=4, K=2, D=16, P=8, lengths=(5, 7), past=True, packed=False, rotary=0, positions=False,
                added=False, sink=False, **attributes):
    """The same for GroupQueryAttention, and which rows to compare: padding rows are not."""
    total, numbers = max(lengths), lambda *shape: r.standard_normal(shape).astype(dtype)
    rows = [numbers(B, S, (H + 2 * K) * D), None, None] if packed else [numbers(B, S, n * D) for n in (H, K, K)]
    cache = [numbers(B, K, P, D) if past else None for _ in "kv"]
    tables = [numbers(320, rotary // 2) if rotary else None for _ in "cs"]
    inputs = list(zip(["q", "k", "v", "past_k", "past_v", "seqlens", "total", "cos", "sin", "positions", "added", "sink"],
                      rows + cache + [np.array(lengths, np.int32) - 1, np.array([total], np.int32)] + tables + [
                          np.arange(B * S, dtype=np.int64).reshape(B, S) + 3 if positions else None,
                          numbers(1, H, S, total) if added else None, numbers(H) if sink else None]))
    made = node("GroupQueryAttention", inputs, ["y", "present_k", "present_v"], domain="com.microsoft", num_heads=H,
                kv_num_heads=K, do_rotary=int(rotary > 0), **attributes)
    own = np.array(lengths) if S == total else np.full(B, S)
    seen = [np.broadcast_to((np.arange(S) < own[:, None])[:, :, None], (B, S, H * D))]
    capacity = max(P if past else 0, total)
    seen += [np.broadcast_to((np.arange(capacity) < np.array(lengths)[:, None])[:, None, :, None], (B, K, capacity, D))] * 2
    return made, made, seen


F32, F16 = np.dtype(np.float32), np.dtype(np.float16)
OPTIONS = {
    multi_head: [
        {}, {"outputs": 1}, {"outputs": 1, "Dv": 12}, {"Dv": 12}, {"P": 4}, {"P": 0}, {"bias": True},
        {"bias": True, "Dv": 12}, {"bias": True, "P": 4},
        {"pad": "lengths"}, {"pad": "keys"}, {"pad": "rows"}, {"pad": "lengths", "P": 4}, {"pad": "keys", "P": 4},
        {"pad": "rows", "P": 4}, {"added": "BHST"}, {"added": "1HST"}, {"added": "B1ST"}, {"added": "11ST", "P": 4, "pad": "keys"},
        {"by_head": True}, {"by_head": True, "outputs": 1, "L": 9}, {"unidirectional": 1, "S": 5},
        {"unidirectional": 1, "S": 5, "P": 4}, {"unidirectional": 1, "S": 1, "L": 1, "P": 6}, {"scale": 0.2},
        {"outputs": 4}, {"outputs": 4, "added": "BHST", "P": 4}, {"outputs": 4, "unidirectional": 1, "S": 5},
        {"packed": 3, "S": 5}, {"packed": 3, "S": 5, "P": 2, "unidirectional": 1}, {"packed": 2}, {"packed": 2, "P": 3, "pad": "keys"},
        {"dtype": F16}, {"dtype": F16, "P": 4, "unidirectional": 1, "S": 5}, {"dtype": BF16}, {"dtype": BF16, "pad": "keys"},
        {"B": 2, "S": 40, "L": 70, "H": 3, "D": 64, "Dv": 64}, {"B": 1, "S": 1, "L": 1, "P": 300, "H": 4, "D": 64, "Dv": 64}],
    group_query: [
        {}, {"local_window_size": 2}, {"local_window_size": 4}, {"rotary": 16}, {"rotary": 16, "D": 32},
        {"rotary": 16, "rotary_interleaved": 1}, {"rotary": 16, "positions": True}, {"softcap": 2.0}, {"scale": 0.3},
        {"smooth_softmax": 1}, {"packed": True}, {"packed": True, "rotary": 16}, {"added": True}, {"sink": True},
        {"S": 6, "lengths": (6, 6), "past": False}, {"S": 6, "lengths": (6, 4), "past": False}, {"S": 6, "lengths": (6, 6)},
        {"S": 6, "lengths": (4, 6), "rotary": 16, "packed": True}, {"B": 1, "S": 3, "lengths": (8,)},
        {"B": 1, "S": 3, "lengths": (8,), "rotary": 16, "local_window_size": 3}, {"S": 6, "lengths": (6, 6), "local_window_size": 2},
        {"P": 6, "lengths": (5, 7)}, {"P": 0, "S": 6, "lengths": (6, 6)}, {"H": 6, "K": 1}, {"K": 4}, {"dtype": F16},
        {"dtype": F16, "rotary": 16}, {"dtype": BF16},
        {"dtype": BF16, "rotary": 16, "S": 6, "lengths": (6, 6)},
        {"H": 8, "K": 2, "D": 64, "P": 320, "lengths": (300, 17), "rotary": 64},
        {"H": 8, "K": 2, "D": 64, "S": 70, "lengths": (70, 70), "past": False}],
}


def beside_own(make, way, seed, dtype=F32, **options):
    """Compare with ONNX Runtime's own kernel. Its bfloat16 results are float32's, rounded."""
    (model, feeds), (own_model, own_feeds), seen = make(np.random.default_rng(seed), dtype, **options)
    got = computed(model, feeds, way)
    if dtype == BF16:
        own_feeds = {name: a.astype(np.float32) if a.dtype == BF16 else a for name, a in own_feeds.items()}
        for value in list(own_model.graph.input) + list(own_model.graph.output):
            if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
    wanted = run(session(own_model, "own"), own_feeds)
    for n, (a, b) in enumerate(zip(got, wanted, strict=True)):
        b = b.astype(dtype)
        agree(np.where(seen[n], a, a * 0) if seen else a, np.where(seen[n], b, b * 0) if seen else b, *NEAR[dtype])


def all_beside_own(way):
    for (make, options), name in zip(OPTIONS.items(), ("MultiHeadAttention", "GroupQueryAttention")):
        before = len(failures)
        for seed, option in enumerate(options):
            try:
                beside_own(make, way, seed, **option)
            except Exception as error:
                fail(f"{name} {option} by {way}", error)
        print(f"counted: {name} by {way} beside ONNX Runtime's own: {len(options)} cases, {len(failures) - before} failed")


def refused(name, wanted, does):
    try:
        does()
    except Exception as error:
        if wanted in str(error):
            return
        fail(name, error)
    else:
        fail(name, "it was not refused")


def all_refusals():
    """Refusals name clattn, which proves that clattn ran the cases, for all types and opsets."""
    count, x, before = 0, np.ones((1, 2, 4, 8), np.float32), len(failures)
    plain, half = node("Attention", [(n, x) for n in "qkv"], ["y"], opset=23)[0], np.ones((4, 4), np.float32)
    qkv = [(name, x.reshape(1, 4, 16)) for name in "qkv"]
    heads, micro = dict(num_heads=2), dict(domain="com.microsoft")
    at_once = [("Attention", [(n, x.astype(t)) for n in "qkv"], dict(opset=opset, scale=0.0), "scale is a finite number but 0, or absent")
               for opset in (23, 24, 25) for t in (F32, F16, BF16)]
    at_once += [
        ("Attention", [(n, x) for n in "qkv"], dict(opset=23, qk_matmul_output_mode=4), "qk_matmul_output_mode is 0 to 3"),
        ("Attention", [(n, x) for n in "qkv"], dict(opset=23, softcap=float("inf")), "softcap is 0, which is none, or above it"),
        ("MultiHeadAttention", qkv, dict(micro, scale=float("nan"), **heads), "scale is a finite number"),
        ("GroupQueryAttention", qkv + [("", None)] * 2 + [("s", np.array([3], np.int32)), ("t", np.array([4], np.int32))] + [("", None)] * 4 + [("h", half[0, :2])],
         dict(micro, kv_num_heads=2, smooth_softmax=1, **heads), "head_sink and smooth_softmax exclude one another"),
        ("RotaryEmbedding", [("x", x), ("cos", half), ("sin", half)], dict(opset=23, rotary_embedding_dim=3), "is even"),
        ("TensorScatter", [("past", x), ("new", x)], dict(opset=24, mode="round"), "mode is linear or circular"),
        ("MultiHeadAttention", qkv, dict(micro, mask_filter_value=-1.0, **heads), "mask_filter_value is -1000 or less"),
        ("GroupQueryAttention", qkv + [("", None), ("", None), ("s", np.array([3], np.int32)), ("t", np.array([4], np.int32))],
         dict(micro, kv_num_heads=2, k_quant_type="PER_TENSOR", **heads), "k_quant_type and v_quant_type are NONE")]
    x16, none = [(n, a.astype(F16)) for n, a in qkv], [("", None)]
    at_once += [
        ("Attention", [(n, x.astype(F16)) for n in "qkv"], dict(opset=23, outputs=4), "qk_matmul_output of float32 alone"),
        ("MultiHeadAttention", x16, dict(micro, outputs=4, **heads), "output_qk is made of float32 alone"),
        ("MultiHeadAttention", x16 + [("b", half.astype(F16))], dict(micro, **heads), "bias is taken of float32 alone"),
        ("MultiHeadAttention", qkv + none * 5 + [("n", np.array([1], np.int32))], dict(micro, **heads), "past_sequence_length"),
        ("MultiHeadAttention", qkv + none * 6 + [("n", np.ones((1, 1, 4), np.int32))], dict(micro, **heads), "cache_indirection"),
        ("GroupQueryAttention", qkv + none * 2 + [("s", np.array([3], np.int32)), ("t", np.array([4], np.int32))] + none * 5 + [
            ("scale", half)], dict(micro, kv_num_heads=2, **heads), "k_scale and v_scale are not taken")]
    for op, inputs, words, wanted in at_once:
        outputs = ["y", "a", "b", "c"][:words.pop("outputs", 1)]
        refused(f"{op} {words}", f"clattn {op}: ", lambda: session(node(op, inputs, outputs, **words)[0]))
        refused(f"{op} {words}", wanted, lambda: session(node(op, inputs, outputs, **words)[0]))
        count += 1
    ids = np.array([[0, 1, 2, 4]])
    when_run = [
        ("Attention", qkv, dict(opset=23, q_num_heads=3, kv_num_heads=2), "no whole number of 3 heads"),
        ("Attention", [(n, x) for n in "qkv"] + [("m", np.ones((4, 5), bool))], dict(opset=23), "the last of 1 to 4 keys"),
        ("RotaryEmbedding", [("x", x), ("cos", half), ("sin", half), ("ids", ids)], dict(opset=23), "4 is not one of the 4 rows"),
        ("TensorScatter", [("past", x), ("new", x[:, :, :3]), ("at", np.array([2]))], dict(opset=24), "write_indices: row 2"),
        ("Attention", [(n, x) for n in "qkv"], dict(opset=23, q_num_heads=4), "Q is [B, H, N, D], here [any, 4, any, any]: its shape is [1, 2, 4, 8]"),
        ("Attention", [(n, x) for n in "qkv"], dict(opset=23, kv_num_heads=1), "K is [B, Hkv, L, D] as Q, here [1, 1, any, 8]"),
        ("Attention", [(n, x) for n in "qkv"] + [("", None)] * 3 + [("n", np.array([5]))], dict(opset=24), "nonpad_kv_seqlen: 5 of item 0 is not 0 to 4"),
        ("RotaryEmbedding", [("x", x), ("cos", half), ("sin", half), ("ids", ids % 4)], dict(opset=23, num_heads=4), "X is [B, H, N, D], here [any, 4"),
        ("TensorScatter", [("past", x), ("new", x[:, :, :3]), ("at", np.array([2**40]))], dict(opset=24), "does not fit into 32 bits"),
        ("MultiHeadAttention", qkv + [("", None), ("m", np.ones((3,), np.int32))], dict(micro, **heads), "key_padding_mask is [B]"),
        ("MultiHeadAttention", qkv + [("", None), ("m", np.array([5], np.int32))], dict(micro, **heads), "key_padding_mask: 5 of item 0 is not 0 to 4"),
        ("MultiHeadAttention", [qkv[0], ("", None), qkv[2]], dict(micro, **heads), "value goes with key"),
        ("GroupQueryAttention", qkv + [("p", x), ("", None), ("s", np.array([3], np.int32)), ("t", np.array([4], np.int32))],
         dict(micro, kv_num_heads=2, **heads), "past_key and past_value go together"),
        ("GroupQueryAttention", qkv + [("", None), ("", None), ("s", np.array([4], np.int32)), ("t", np.array([4], np.int32))],
         dict(micro, kv_num_heads=2, **heads), "seqlens_k: 4 is not 0 to 3"),
        ("GroupQueryAttention", qkv + [("", None), ("", None), ("s", np.array([3], np.int32)), ("t", np.array([4], np.int32)),
                                       ("c", half), ("d", half), ("ids", ids)],
         dict(micro, kv_num_heads=2, do_rotary=1, **heads), "4 is not one of the 4 rows")]
    for op, inputs, words, wanted in when_run:
        model, feeds = node(op, inputs, ["y"], **words)
        refused(f"{op} {words}", wanted, lambda: run(session(model), feeds))
        count += 1
    for text, wanted in ("63", "there is no device 63"), ("64", "0 to 63"), ("one", "0 to 63"), ("0123456789", "0 to 63"):
        refused(f"clattn.device={text}", wanted, lambda: session(plain, device=text))
    run(session(plain, device="0"), {n: x for n in "qkv"})
    print(f"counted: refusals of clattn through ONNX Runtime: {count + 4}, {len(failures) - before} failed")


def loose(model):
    """The model without the shapes of its inputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.input:
        value.type.tensor_type.ClearField("shape")
    return made


def other_shapes(shape):
    """Similar shapes: an axis longer, shorter or 1; two axes exchanged; one axis more or less."""
    near = [shape[:n] + (size,) + shape[n + 1:] for n in range(len(shape)) for size in {shape[n] + 1, shape[n] - 1, 1, 2 * shape[n]} - {0}]
    near += [shape[:n] + (shape[n + 1], shape[n]) + shape[n + 2:] for n in range(len(shape) - 1)]
    near += [(1, *shape), (*shape, 1), shape[1:], shape[:-1], (int(np.prod(shape)),)]
    return sorted({other for other in near if other != shape})


def axes_of_inputs():
    """One input has another shape: refused with both shapes, or computed like ONNX Runtime."""
    r = np.random.default_rng(0)
    n = lambda *shape: r.standard_normal(shape).astype(np.float32)
    i32, i64 = (lambda *numbers: np.array(numbers, np.int32)), (lambda *numbers: np.array(numbers, np.int64))
    tables = [("cos_cache", n(9, 8)), ("sin_cache", n(9, 8))]
    past = [("past_key", n(2, 2, 3, 16)), ("past_value", n(2, 2, 3, 16))]
    micro, none = dict(domain="com.microsoft", num_heads=4), ("", None)
    by_head = [("Q", n(2, 4, 5, 16)), ("K", n(2, 2, 6, 16)), ("V", n(2, 2, 6, 16))]
    rows = [("query", n(2, 5, 64)), ("key", n(2, 6, 64)), ("value", n(2, 6, 64))]
    more = [("key_padding_mask", np.ones((2, 5, 9), np.int32)), ("attention_bias", n(2, 4, 5, 9)), ("past_key", n(2, 4, 3, 16)), ("past_value", n(2, 4, 3, 16))]
    step = [("query", n(2, 1, 64)), ("key", n(2, 1, 32)), ("value", n(2, 1, 32)), *past, ("seqlens_k", i32(3, 2)), ("total_sequence_length", i32(4)), *tables,
            ("position_ids", i64(3, 2).reshape(2, 1)), ("attention_bias", n(2, 4, 1, 4))]
    nodes = [
        ("Attention", by_head + [("attn_mask", n(2, 4, 5, 9)), *past], dict(opset=23)),
        ("Attention", by_head + [none, none, none, ("nonpad_kv_seqlen", i64(4, 6))], dict(opset=24)),
        ("Attention", [("Q", n(2, 5, 64)), ("K", n(2, 6, 32)), ("V", n(2, 6, 32)), ("attn_mask", n(5, 9)), *past], dict(opset=23, q_num_heads=4, kv_num_heads=2)),
        ("RotaryEmbedding", [("X", n(2, 4, 5, 16)), *tables, ("position_ids", np.arange(10).reshape(2, 5) % 9)], dict(opset=23)),
        ("RotaryEmbedding", [("X", n(2, 5, 64)), ("cos_cache", n(2, 5, 4)), ("sin_cache", n(2, 5, 4))], dict(opset=23, num_heads=4, rotary_embedding_dim=8)),
        ("TensorScatter", [("past_cache", n(2, 4, 9, 16)), ("update", n(2, 4, 3, 16)), ("write_indices", i64(4, 6))], dict(opset=24)),
        ("MultiHeadAttention", rows + [("bias", n(192)), *more], micro),
        ("MultiHeadAttention", rows + [none, ("key_padding_mask", np.ones((2, 9), np.int32)), ("attention_bias", n(1, 4, 5, 9)), *more[2:]], micro),
        ("MultiHeadAttention", rows + [none, ("key_padding_mask", i32(4, 6)), ("attention_bias", n(1, 4, 5, 6))], micro),
        ("MultiHeadAttention", [rows[0], ("key", n(2, 4, 6, 16)), ("value", n(2, 4, 6, 16))], micro),
        ("MultiHeadAttention", [rows[0], ("key", n(2, 6, 4, 2, 16))], micro, "key"),
        ("MultiHeadAttention", [("query", n(2, 5, 4, 3, 16))], micro, "query"),
        ("GroupQueryAttention", step, dict(micro, kv_num_heads=2, do_rotary=1)),
        ("GroupQueryAttention", step[:5] + [("seqlens_k", i32(3, 2).reshape(2, 1)), *step[6:]], dict(micro, kv_num_heads=2, do_rotary=1)),
        ("GroupQueryAttention", step[:-1] + [none, ("head_sink", n(4))], dict(micro, kv_num_heads=2, do_rotary=1)),
        ("GroupQueryAttention", [("query", n(2, 4, 128)), none, none, none, none, ("seqlens_k", i32(3, 3)), ("total_sequence_length", i32(4))],
         dict(micro, kv_num_heads=2))]
    count, before = 0, len(failures)
    for op, inputs, words, *packed in nodes:
        model, feeds = node(op, inputs, ["y", "present_key", "present_value"][:1 + 2 * any("past" in name for name, _ in inputs[1:])], **words)
        ours, own = session(loose(model)), session(loose(node(op, rows, ["y"], **words)[0] if packed else model), "own")
        agree(outcome(ours, feeds), outcome(own, feeds, *packed), *NEAR[F32])
        for name, a in feeds.items():
            for shape in other_shapes(a.shape):
                count += 1
                other = {**feeds, name: np.resize(a, shape)}
                got = outcome(ours, other)
                what = f"{op} {words}: {name} of {list(shape)}"
                if isinstance(got, str):
                    if not re.match(f"clattn {op}: .*(: its shape is |past has|seqlens_k: )", got):
                        fail(what, got)
                    continue
                # ONNX Runtime needs a complete mask: pad it with hidden keys, and broadcast
                if name == "attn_mask":
                    mask = np.pad(other[name], [(0, 0)] * (len(shape) - 1) + [(0, 9 - shape[-1])], constant_values=-np.inf)
                    other[name] = np.broadcast_to(mask, (2, 4, 5, 9))
                wanted = outcome(own, other, *packed)
                if isinstance(wanted, str):
                    fail(what, f"is computed; ONNX Runtime: {wanted}")
                else:
                    agree(got, wanted, *NEAR[F32])
    print(f"counted: inputs of other shapes through ONNX Runtime: {count}, {len(failures) - before} failed")


def outcome(made, feeds, packed=None):
    """The first output, or the reason for none. `packed`: the input with packed rows, if any."""
    try:
        if packed:
            names = ["query", "key", "value"][packed == "key":]
            assert feeds[packed].ndim == 5 and feeds[packed].shape[2:4] == (4, len(names)), "not packed"
            parts = {name: feeds[packed][:, :, :, n].reshape(*feeds[packed].shape[:2], -1) for n, name in enumerate(names)}
            feeds = {**feeds, **parts}
        return run(made, feeds)[0]
    except Exception as error:
        text = str(error)
        return text[text.find("clattn "):] if "clattn " in text else text


def sizes_without_numbers():
    """Symbolic sizes are propagated. A computed size without a number gets its own name."""
    before = len(failures)
    for inputs, wanted in (
            ({"q": ["B", "N", 16], "k": ["B", "L", 16], "v": ["B", "L", 24]}, ["B", "N", 24]),
            ({"q": ["B", "N", 2, 3, "D"]}, ["B", "N", None]),
            ({"q": [None, 4, 16], "k": ["B", 4, 16], "v": [2, 4, 24]}, [None, 4, 24]),
            ({"q": [2, 4, 16], "k": None, "v": None}, [])):  # nothing is known
        made = helper.make_node("MultiHeadAttention", [*inputs, *[""] * (5 - len(inputs)), "added"], ["y"], domain="com.microsoft",
                                num_heads=2)
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in {**inputs, "added": None}.items()]
        graph = helper.make_graph([made], "one", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        got = session(helper.make_model(graph, opset_imports=opsets, ir_version=10)).get_outputs()[0].shape
        known = [None if isinstance(n, str) and n.startswith("clattn_") else n for n in got]
        if known != wanted:
            fail(f"shape of {inputs}", f"{got}, not {wanted}")
    print(f"counted: shapes with names through ONNX Runtime's operators: 4 sessions, {len(failures) - before} failed")


def left_to_others():
    """Models that operators refuse run on ONNX Runtime. A missing device is refused."""
    for dtype, options in ((F32, dict(mask_filter_value=-2.0, pad="keys")), (F16, dict(bias=True)), (F16, dict(outputs=4))):
        model, feeds = multi_head(np.random.default_rng(0), dtype, **options)[0]
        try:
            made = session(model, "provider")
            assert not taken_by_provider(made), "the provider took a node that it refuses"
            for got, wanted in zip(run(made, feeds), run(session(model, "own"), feeds), strict=True):
                agree(got, wanted, 0, 0)
        except Exception as error:
            fail(f"left to others: {options}", error)
    narrow, rows, numbers = np.ones((1, 2, 4, 8), np.int8), np.ones((1, 1, 16), np.float32), np.array([3], np.int32)
    cache = [("k8", narrow), ("v8", narrow), ("s", numbers), ("t", numbers + 1)]
    for name, (model, feeds) in (  # invalid options
            ("mode", node("TensorScatter", [(n, np.ones((1, 2, 4, 8), np.float32)) for n in "pu"], ["y"], opset=24, mode="round")),
            ("cache", node("GroupQueryAttention", [(n, rows) for n in "qkv"] + cache, ["y"], domain="com.microsoft", num_heads=2,
                           kv_num_heads=2))):
        try:
            run(session(model, "provider"), feeds)
            fail(f"left to others: {name}", "it was taken")
        except Exception as error:
            if "clattn" in str(error):
                fail(f"left to others: {name}", error)
    plain = multi_head(np.random.default_rng(0), F32)[0][0]
    refused("provider, device 63", "there is no device 63", lambda: session(plain, "provider", device="63"))
    refused("provider, device x", "ep.clattn.device: the number", lambda: session(plain, "provider", device="x"))
    if taken_by_provider(session(plain, "provider", device="0")) != ["MultiHeadAttention"]:
        fail("provider, device 0", "it did not take the node")


def short_masks():
    """A mask that ends before the last key hides the remaining keys, in every type."""
    r = np.random.default_rng(0)
    q, k, v = (r.standard_normal((1, 2, n, 8)).astype(np.float32) for n in (3, 6, 6))
    for mask in (r.random((3, 4)) < 0.7, *(r.standard_normal((3, 4)).astype(dtype) for dtype in NEAR)):
        try:
            whole, cut = (run(session(model), feeds)[0] for model, feeds in (
                node("Attention", [("q", q), ("k", k[:, :, :n]), ("v", v[:, :, :n]), ("m", mask)], ["y"], opset=23) for n in (6, 4)))
            agree(whole, cut, *NEAR[F32])
        except Exception as error:
            fail(f"a short mask of {mask.dtype}", error)


def nothing_to_do():
    """Sizes of zero: no rows lead to no rows, no keys to zeros. A past without rows is ignored."""
    for name, shapes, wanted in (("items", [(0, 2, 3, 8)] * 3, (0, 2, 3, 8)), ("rows", [(1, 2, 0, 8)] + [(1, 2, 3, 8)] * 2, (1, 2, 0, 8)),
                                 ("keys", [(1, 2, 3, 8)] + [(1, 2, 0, 8)] * 2, (1, 2, 3, 8)),
                                 ("past", [(1, 2, 3, 8)] + [(1, 2, 1, 8)] * 2 + [None] + [(1, 2, 0, 8)] * 2, (1, 2, 3, 8))):
        inputs = [(f"x{n}", None if shape is None else np.ones(shape, np.float32)) for n, shape in enumerate(shapes)]
        try:
            model, feeds = node("Attention", inputs, ["y", "present_k", "present_v"], opset=23)
            y, present_k, _ = run(session(model), feeds)
            assert y.shape == wanted and np.all(y == (name == "past")), (y.shape, y)
            assert present_k.shape == shapes[1], present_k.shape
        except Exception as error:
            fail(f"nothing to do: {name}", error)


def old_version():
    """ONNX Runtime's table without the required version, and with version 1's statuses."""
    heard, pointer = [], ctypes.c_void_p
    status_of = ctypes.CFUNCTYPE(pointer, ctypes.c_int, ctypes.c_char_p)(lambda code, text: heard.append((code, text)) or 1)
    table = (pointer * 1)(ctypes.cast(status_of, pointer))
    api_of = ctypes.CFUNCTYPE(pointer, ctypes.c_uint32)(lambda version: ctypes.addressof(table) if version == 1 else None)
    base = (pointer * 2)(ctypes.cast(api_of, pointer), None)
    library, count, factories = ctypes.CDLL(LIBRARY), ctypes.c_size_t(9), (pointer * 4)()
    library.RegisterCustomOps.restype = library.CreateEpFactories.restype = pointer
    said = (library.RegisterCustomOps(None, base), library.CreateEpFactories(b"clattn", base, None, factories, ctypes.c_size_t(4),
                                                                             ctypes.byref(count)))
    wanted = [(9, b"clattn: ONNX Runtime %s or later is wanted" % version) for version in (b"1.17", b"1.24")]
    if said != (1, 1) or heard != wanted or count.value != 0:
        fail("an old version", (said, heard))


def bytes_of_malloc():
    """Returns the bytes that the C library has allocated."""
    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                                                         "uordblks", "fordblks", "keepcost")]
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Info
    info = ask()
    return info.uordblks + info.hblkhd


def threads_and_memory():
    """Eight threads use one session, and each gets its own result. Calls leave no memory behind."""
    r = np.random.default_rng(0)
    feeds = [{n: r.standard_normal((2, 3, 5, 16)).astype(np.float32) for n in "qkv"} for _ in range(8)]
    made = session(node("Attention", list(feeds[0].items()), ["y"], opset=23)[0])
    wanted = [made.run(None, f)[0] for f in feeds]

    def several(n):
        return all(np.array_equal(made.run(None, feeds[n])[0], wanted[n]) for _ in range(50))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        if not all(pool.map(several, range(8))):
            fail("threads", "an answer is another's")
    if np.array_equal(wanted[0], wanted[1]):
        fail("threads", "all answers are alike")

    def grown(does, before, after):
        """Growth in bytes per run, between these numbers of runs."""
        for times in before, after:
            begun = bytes_of_malloc()
            for _ in range(times):
                does()
        return (bytes_of_malloc() - begun) / after
    # A padded mask and converted lengths also need host memory.
    more = dict(feeds[0], mask=np.ones((5, 4), bool), past_k=None, past_v=None, lengths=np.array([5, 3]))
    model, more = node("Attention", list(more.items()), ["y"], opset=24)
    whole = session(model)
    for way in "operators", "provider":
        call, made = grown(lambda: whole.run(None, more), 500, 4000), grown(lambda: session(model, way), 100, 400)
        if call > 16 or made > 160:
            fail("memory", f"a call leaves {call:.1f} bytes behind, a session by {way} {made:.1f}")
        print(f"counted: ONNX Runtime: 8 threads; a call leaves {call:.1f} bytes behind, a session by {way} {made:.1f}")


def measure():
    """BERT-base: 12 heads of 64, 384 tokens, float32."""
    r = np.random.default_rng(0)
    feeds = {n: r.standard_normal((1, 384, 768)).astype(np.float32) for n in "qkv"}
    for op, words in (("Attention", dict(opset=23, q_num_heads=12, kv_num_heads=12)),
                      ("MultiHeadAttention", dict(domain="com.microsoft", num_heads=12))):
        model = node(op, list(feeds.items()), ["y"], **words)[0]
        made = {way: session(model, way) for way in ("own", "operators", "provider")}
        taken = {name: [] for name in made}
        for _ in range(4):
            for name, one in made.items():
                time.sleep(0.2)  # ONNX Runtime's threads spin for a while after a run
                for n in range(20):
                    begun = time.perf_counter()
                    one.run(None, feeds)
                    taken[name] += [time.perf_counter() - begun] if n >= 5 else []
        own, ours, provider = (np.percentile(taken[name], 10) * 1e3 for name in made)
        print(f"{op}, the fastest tenth: ONNX Runtime {own:.2f} ms, clattn's operators {ours:.2f} ms, its provider {provider:.2f} ms")


if __name__ == "__main__":
    ort.disable_telemetry_events()
    ort.register_execution_provider_library("clattn", LIBRARY)
    if sys.argv[2:] == ["time"]:
        sys.exit(measure())
    known = list(cases_of_onnx())
    if sys.argv[2:] == ["few"]:
        for by in "operators", "provider":
            all_onnx_cases([(op, cases[::12]) for op, cases in known], by)
        sys.exit(bool(failures))
    for by in "operators", "provider":
        all_onnx_cases(known, by)
        all_beside_own(by)
    if not WRONG:
        all_refusals()
        axes_of_inputs()
        left_to_others()
        short_masks()
        sizes_without_numbers()
        nothing_to_do()
        old_version()
        threads_and_memory()
    print(f"counted: ONNX Runtime {ort.__version__}: {len(failures)} failures")
    sys.exit(bool(failures))
