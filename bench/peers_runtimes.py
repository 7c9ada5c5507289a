"""The peers: each case as PyTorch, ONNX Runtime and OpenVINO run it, with no copies of inputs or
outputs in the timed call.

A peer offers several ways to run a case; peers_measure.py selects the fastest. A way that a peer's
version does not support raises an exception and counts as absent. Grouped heads with one query row
equal that many query rows of one head (`folded`). Peers without grouped-query attention run this
form, which is their best case.
"""
import contextlib

import numpy as np

from peers_data import aligned, to_f32


class Way:
    """One way to run a case: run() runs it, result() is [output] or [output, attention weights] as
    arrays.
    """

    def __init__(self, how, run, result):
        self.how, self.run, self.result = how, run, result


class Torch:
    name, module = "PyTorch", "torch"
    PARAMETERS = {"in_proj_weight": "in_weight", "in_proj_bias": "in_bias", "out_proj.weight": "out_weight", "out_proj.bias": "out_bias"}

    def __init__(self, threads):
        import torch
        self.torch, self.version = torch, torch.__version__
        torch.set_num_threads(threads)

    def tensor(self, x, dtype):
        t = self.torch.from_numpy(x)
        return t.view(self.torch.bfloat16) if dtype == "bf16" else t

    def ways(self, case, data):
        ways = {"layer": self.layer_ways, "linear": self.linear_ways, "backward": self.backward_ways, "train": self.train_ways}.get(case.op, self.attention_ways)
        return ways(case, data)

    def linear_ways(self, case, data):
        torch, kept = self.torch, []
        x, weight, bias = (self.tensor(data[name], case.dtype) for name in ("x", "weight", "bias"))

        def run():
            with torch.inference_mode():
                kept[:] = [torch.nn.functional.linear(x, weight, bias)]

        yield lambda: Way("F.linear", run, lambda: [kept[0].float().numpy()])

    def attention_ways(self, case, data):
        grouped = {"enable_gqa": True} if case.heads != case.kv_heads else {}
        yield lambda: self.attention_way(case, data, grouped)

    def attention_way(self, case, data, options):
        attend, mode = self.torch.nn.functional.scaled_dot_product_attention, self.torch.inference_mode
        q, k, v = (self.tensor(data[name], case.dtype) for name in "qkv")
        kept, shape = [], (case.b, case.heads, case.n, case.d)

        def run():
            with mode():
                kept[:] = [attend(q, k, v, is_causal=case.causal, **options)]

        return Way("enable_gqa" if options else "SDPA", run, lambda: [kept[0].float().numpy().reshape(shape)])

    def backward_ways(self, case, data):
        """Autograd runs backward repeatedly through one forward call."""
        yield lambda: self.backward_way(case, data)

    def backward_way(self, case, data):
        torch, options = self.torch, {"enable_gqa": True} if case.heads != case.kv_heads else {}
        inputs = [self.tensor(data[name], case.dtype).requires_grad_() for name in "qkv"]
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=case.causal, **options)
        kept, dout = [], self.tensor(data["dout"], case.dtype)

        def run():
            kept[:] = torch.autograd.grad(out, inputs, dout, retain_graph=True)

        return Way("autograd of SDPA", run, lambda: [t.float().numpy() for t in kept])

    def module_of(self, case, data):
        m = self.torch.nn.MultiheadAttention(case.width, case.heads, batch_first=True).eval()
        if case.dtype == "bf16":
            m = m.bfloat16()
        m.load_state_dict({name: self.tensor(data[ours], case.dtype) for name, ours in self.PARAMETERS.items()})
        return m

    def layer_ways(self, case, data):
        """The module's fast path, and the path without it, which is faster for some cases."""
        torch = self.torch
        x, module = self.tensor(data["x"], case.dtype), self.module_of(case, data)
        mask = torch.ones(case.n, case.n, dtype=torch.bool).triu(1) if case.causal else None
        options = {"need_weights": case.weights, "average_attn_weights": False, "attn_mask": mask, "is_causal": case.causal}

        def way(fast):
            kept = []

            def run():
                torch.backends.mha.set_fastpath_enabled(fast)
                with torch.inference_mode():
                    kept[:] = module(x, x, x, **options)

            return Way("fast path" if fast else "no fast path", run, lambda: [t.float().numpy() for t in kept if t is not None])

        yield lambda: way(True)
        yield lambda: way(False)


    def train_ways(self, case, data):
        """The module in training mode, which has no fast path, and autograd through all of it."""
        yield lambda: self.train_way(case, data)

    def train_way(self, case, data):
        torch, module = self.torch, self.module_of(case, data).train()
        x, dout = (self.tensor(data[name], case.dtype) for name in ("x", "dout"))
        x.requires_grad_()
        mask = torch.ones(case.n, case.n, dtype=torch.bool).triu(1) if case.causal else None
        inputs, kept = [x, *(module.get_parameter(name) for name in self.PARAMETERS)], []

        def run():
            out, _ = module(x, x, x, need_weights=False, attn_mask=mask, is_causal=case.causal)
            kept[:] = [out.detach(), *torch.autograd.grad(out, inputs, dout)]

        return Way("module, autograd", run, lambda: [t.float().numpy() for t in kept])


def folded(case, data):
    """The arrays with equal numbers of query and key/value heads."""
    group = case.heads // case.kv_heads
    if group == 1:
        return data
    if case.n != 1:
        return {"q": data["q"], "k": aligned(data["k"].repeat(group, 1)), "v": aligned(data["v"].repeat(group, 1))}
    return {**data, "q": data["q"].reshape(case.b, case.kv_heads, group, case.d)}


class TorchFolded(Torch):
    """PyTorch with grouped heads folded by the program: faster than its own option, but not what
    models call.
    """
    name = "PyTorch, heads folded"

    def ways(self, case, data):
        if case.op == "decode":
            yield lambda: self.attention_way(case, folded(case, data), {})


def rows_of_heads(x):
    """Reorder [B, H, N, D] to [B, N, H*D]."""
    b, h, n, d = x.shape
    return aligned(x.swapaxes(1, 2)).reshape(b, n, h * d)


class OnnxRuntime:
    name, module = "ONNX Runtime", "onnxruntime"

    def __init__(self, threads):
        import onnx
        import onnxruntime
        self.onnx, self.ort, self.version, self.threads = onnx, onnxruntime, onnxruntime.__version__, threads
        onnxruntime.set_default_logger_severity(4)

    def session(self, node, types, domains):
        helper = self.onnx.helper
        values = {name: helper.make_tensor_value_info(name, *kind) for name, kind in types.items()}
        graph = helper.make_graph([node], "attention", [values[n] for n in node.input], [values[n] for n in node.output])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid(*d) for d in domains])
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 4
        return self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def way(self, how, node, arrays, domains, shape_back):
        element = {np.dtype("f4"): self.onnx.TensorProto.FLOAT, np.dtype("f2"): self.onnx.TensorProto.FLOAT16}[arrays["q"].dtype]
        q = arrays["q"]
        types = {name: (element, x.shape) for name, x in {**arrays, "out": q}.items()}
        session, out = self.session(node, types, domains), self.ort.OrtValue.ortvalue_from_numpy(np.zeros_like(q))
        binding = session.io_binding()
        inputs = [self.ort.OrtValue.ortvalue_from_numpy(arrays[name]) for name in "qkv"]
        for name, value in zip("qkv", inputs):
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("out", out)
        way = Way(how, lambda: session.run_with_iobinding(binding), lambda: [shape_back(out.numpy()).astype(np.float32)])
        way.keeps = inputs
        return way

    def ways(self, case, data):
        if case.projects or case.op == "backward" or case.dtype == "bf16":
            return
        make, a = self.onnx.helper.make_node, folded(case, data)
        shape = data["q"].shape
        yield lambda: self.way("Attention", make("Attention", list("qkv"), ["out"], is_causal=int(case.causal)), a, [("", 23)],
                               lambda x: x.reshape(shape))
        if case.heads != case.kv_heads:
            yield lambda: self.way("Attention, grouped", make("Attention", list("qkv"), ["out"]), data, [("", 23)], lambda x: x)
        b, h, n, d = a["q"].shape
        node = make("MultiHeadAttention", list("qkv"), ["out"], domain="com.microsoft", num_heads=h, unidirectional=int(case.causal))
        yield lambda: self.way("MultiHeadAttention", node, {name: rows_of_heads(x) for name, x in a.items()},
                               [("", 17), ("com.microsoft", 1)], lambda x: x.reshape(b, n, h, d).swapaxes(1, 2).reshape(shape))


class OpenVino:
    name, module = "OpenVINO", "openvino"

    def __init__(self, threads):
        import openvino
        from openvino import opset13
        self.ov, self.ops, self.version, self.threads = openvino, opset13, openvino.__version__.split("-")[0], threads
        self.core = openvino.Core()

    def ways(self, case, data):
        if not case.projects and case.op != "backward":
            yield lambda: self.way(case, folded(case, data), data["q"].shape)

    def way(self, case, arrays, shape):
        ov, kind = self.ov, {"f32": self.ov.Type.f32, "f16": self.ov.Type.f16, "bf16": self.ov.Type.bf16}[case.dtype]
        parameters = [self.ops.parameter(list(arrays[name].shape), kind) for name in "qkv"]
        model = ov.Model([self.ops.scaled_dot_product_attention(*parameters, causal=case.causal)], parameters)
        # Without the precision hint, OpenVINO would round float32 to bfloat16 on processors that
        # have it. float16 is rounded to bfloat16 even with a float16 hint (2026.4).
        compiled = self.core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if case.dtype == "bf16" else "f32"})
        request = compiled.create_infer_request()
        for i, name in enumerate("qkv"):
            request.set_input_tensor(i, ov.Tensor(arrays[name], arrays[name].shape, kind))

        def result():
            out = request.get_output_tensor(0)
            bits = out.data.view(np.uint16) if case.dtype == "bf16" and out.element_type == ov.Type.bf16 else out.data
            return [to_f32(bits, case.dtype if bits.dtype == np.uint16 else "f32").reshape(shape)]

        way = Way("SDPA", request.infer, result)
        way.keeps = arrays
        return way


PEERS = (Torch, TorchFolded, OnnxRuntime, OpenVino)


def load(threads, say):
    """The peers that can be imported."""
    found = []
    for peer in PEERS:
        try:
            with contextlib.redirect_stdout(None):
                found.append(peer(threads))
        except Exception as why:  # an import may fail in any way
            say(f"{peer.name} is left out: {why}")
    return found
