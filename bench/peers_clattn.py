"""clattn, and the device's own limits, through the shared module of peer_shim.c."""
import ctypes as c

import numpy as np

from peers_cases import SIZE
from peers_data import to_f32
from peers_runtimes import Way

TYPES = {"f32": 0, "f16": 1, "bf16": 2}
TOP_LEFT = 1


class Attention(c.Structure):
    _fields_ = ([(name, c.c_int32) for name in ("type", "causal")]
                + [(name, c.c_int64) for name in ("b", "h", "hkv", "nq", "nkv", "d", "dv")]
                + [(name, c.c_void_p) for name in ("q", "k", "v")])


class Layer(c.Structure):
    _fields_ = ([(name, c.c_int32) for name in ("heads", "causal", "weights")]
                + [(name, c.c_int64) for name in ("b", "n", "m")]
                + [(name, c.c_void_p) for name in ("x", "in_weight", "in_bias", "out_weight", "out_bias")])


FUNCTIONS = {  # name: (result, arguments)
    "peer_open": (c.c_void_p, (c.c_char_p, c.c_char_p)), "peer_error": (c.c_char_p, (c.c_void_p,)),
    "peer_text": (c.c_char_p, (c.c_void_p, c.c_int)),
    "peer_attention_create": (c.c_void_p, (c.c_void_p, c.POINTER(Attention))),
    "peer_layer_create": (c.c_void_p, (c.c_void_p, c.POINTER(Layer))),
    "peer_destroy": (None, (c.c_void_p,)), "peer_kernel": (c.c_char_p, (c.c_void_p,)), "peer_run": (c.c_int, (c.c_void_p,)),
    "peer_read": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p)),
    "peer_fma_create": (c.c_void_p, (c.c_void_p,)), "peer_bf16_create": (c.c_void_p, (c.c_void_p,)),
    "peer_read_create": (c.c_void_p, (c.c_void_p, c.c_size_t)),
    "peer_limit_destroy": (None, (c.c_void_p,)), "peer_limit_run": (c.c_int, (c.c_void_p, c.c_void_p)),
    "peer_limit_work": (c.c_double, (c.c_void_p,)),
}


class Clattn:
    name = "clattn"

    def __init__(self, shim, device, cache):
        self.lib = c.CDLL(shim)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.device = self.lib.peer_open(device.encode() if device else None, cache.encode())
        self.check(not self.lib.peer_error(self.device))
        self.device_name, self.driver, self.platform, self.version = (
            self.lib.peer_text(self.device, i).decode() for i in range(4))

    def check(self, ok):
        if not ok:
            raise RuntimeError(self.lib.peer_error(self.device).decode())

    def runner(self, function, handle):
        def run():
            if function(handle):
                self.check(False)
        return run

    def way(self, case, data):
        """Its one way to do the case."""
        pointers = {name: x.ctypes.data for name, x in data.items()}
        if case.op == "layer":
            shape, create = (case.b, case.n, case.width), self.lib.peer_layer_create
            args = Layer(heads=case.heads, causal=TOP_LEFT * case.causal, weights=case.weights, b=case.b, n=case.n, m=case.width, **pointers)
        else:
            shape, create = (case.b, case.heads, case.n, case.d), self.lib.peer_attention_create
            args = Attention(type=TYPES[case.dtype], causal=TOP_LEFT * case.causal, b=case.b, h=case.heads, hkv=case.kv_heads,
                             nq=case.n, nkv=case.n_kv, d=case.d, dv=case.d, **pointers)
        handle = create(self.device, args)
        self.check(handle)
        way = Way(self.lib.peer_kernel(handle).decode(), self.runner(self.lib.peer_run, handle), lambda: self.read(case, handle, shape))
        way.close = lambda: self.lib.peer_destroy(handle)
        return way

    def read(self, case, handle, shape):
        kind = np.uint16 if SIZE[case.dtype] == 2 else np.float32
        out = np.empty(shape, kind)
        weights = np.empty((case.b, case.heads, case.n, case.n), np.float32) if case.weights else None
        self.check(self.lib.peer_read(handle, out.ctypes.data, weights.ctypes.data if case.weights else None) == 0)
        if case.dtype == "f16":
            out = out.view(np.float16)
        out = to_f32(out, case.dtype)
        return [out, weights] if case.weights else [out]

    def limit_handle(self, case):
        if case.op == "decode":
            name = f"read bandwidth, {case.kv_bytes / 1e6:.0f} MB"
            return self.lib.peer_read_create(self.device, case.kv_bytes), name, "GB/s"
        handle = self.lib.peer_bf16_create(self.device) if case.dtype == "bf16" else None
        if handle:
            return handle, "bf16 dot-product peak", "GFLOP/s"
        return self.lib.peer_fma_create(self.device), "fp32 FMA peak", "GFLOP/s"

    def limit(self, case):
        """(its name, what is counted in billions a second, its way, its work a run): the limit that bounds the case."""
        handle, name, unit = self.limit_handle(case)
        self.check(handle)
        way = Way(name, self.runner(lambda limit: self.lib.peer_limit_run(self.device, limit), handle), None)
        way.close = lambda: self.lib.peer_limit_destroy(handle)
        return name, unit, way, self.lib.peer_limit_work(handle)
