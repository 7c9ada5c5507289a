"""clattn and the device's limits, through the shared module of peer_shim.c."""
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
                + [(name, c.c_void_p) for name in ("q", "k", "v", "dout")])


class Layer(c.Structure):
    _fields_ = ([(name, c.c_int32) for name in ("type", "heads", "causal", "weights")]
                + [(name, c.c_int64) for name in ("b", "n", "m")]
                + [(name, c.c_void_p) for name in ("x", "in_weight", "in_bias", "out_weight", "out_bias", "dout")])


class Linear(c.Structure):
    _fields_ = ([("type", c.c_int32)] + [(name, c.c_int64) for name in ("b", "n", "m", "columns")]
                + [(name, c.c_void_p) for name in ("x", "weight", "bias")])


FUNCTIONS = {  # name: (result, arguments)
    "peer_open": (c.c_void_p, (c.c_char_p, c.c_char_p)), "peer_error": (c.c_char_p, (c.c_void_p,)),
    "peer_text": (c.c_char_p, (c.c_void_p, c.c_int)),
    "peer_attention_create": (c.c_void_p, (c.c_void_p, c.POINTER(Attention))),
    "peer_backward_create": (c.c_void_p, (c.c_void_p, c.POINTER(Attention))),
    "peer_read_gradients": (c.c_int, (c.c_void_p, c.POINTER(c.c_void_p))),
    "peer_train_create": (c.c_void_p, (c.c_void_p, c.POINTER(Layer))),
    "peer_layer_create": (c.c_void_p, (c.c_void_p, c.POINTER(Layer))),
    "peer_linear_create": (c.c_void_p, (c.c_void_p, c.POINTER(Linear))),
    "peer_engine": (c.c_char_p, (c.c_void_p, c.c_int, c.POINTER(c.c_float))), "peer_units": (c.c_int, (c.c_void_p,)),
    "peer_destroy": (None, (c.c_void_p,)), "peer_kernel": (c.c_char_p, (c.c_void_p,)), "peer_run": (c.c_int, (c.c_void_p,)),
    "peer_read": (c.c_int, (c.c_void_p, c.c_void_p, c.c_void_p)),
    "peer_fma_create": (c.c_void_p, (c.c_void_p,)), "peer_fma_loads_create": (c.c_void_p, (c.c_void_p,)),
    "peer_bf16_create": (c.c_void_p, (c.c_void_p,)),
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
        self.units, self.engines = self.lib.peer_units(self.device), self.probe()

    def probe(self):
        """{name: GFLOP/s of one work-item, 0 if it does not work}, as clattn's probes measure it in
        this run.
        """
        found, rate = {}, c.c_float()
        while name := self.lib.peer_engine(self.device, len(found), c.byref(rate)):
            found[name.decode()] = rate.value
        return found

    def engine_rate(self, word):
        return max((rate for name, rate in self.engines.items() if word in name), default=0)

    @property
    def kind(self):
        """The CPU's kind: one of peers_cases.KINDS."""
        return "amx" if self.engine_rate("AMX") else "dot" if self.engine_rate("bfloat16 dot") else "plain"

    def check(self, ok):
        if not ok:
            raise RuntimeError(self.lib.peer_error(self.device).decode())

    def runner(self, function, handle):
        def run():
            if function(handle):
                self.check(False)
        return run

    def way(self, case, data):
        """The only way in which clattn runs the case."""
        pointers = {name: x.ctypes.data for name, x in data.items()}
        if case.op in ("layer", "train"):
            shape = (case.b, case.n, case.width)
            create = self.lib.peer_train_create if case.op == "train" else self.lib.peer_layer_create
            args = Layer(type=TYPES[case.dtype], heads=case.heads, causal=TOP_LEFT * case.causal, weights=case.weights, b=case.b, n=case.n,
                m=case.width, **pointers)
        elif case.op == "linear":
            shape, create = (case.b, case.n, case.width), self.lib.peer_linear_create
            args = Linear(type=TYPES[case.dtype], b=case.b, n=case.n, m=case.width, columns=case.width, **pointers)
        else:
            shape = (case.b, case.heads, case.n, case.d)
            create = self.lib.peer_backward_create if case.op == "backward" else self.lib.peer_attention_create
            args = Attention(type=TYPES[case.dtype], causal=TOP_LEFT * case.causal, b=case.b, h=case.heads, hkv=case.kv_heads,
                             nq=case.n, nkv=case.n_kv, d=case.d, dv=case.d, **pointers)
        handle = create(self.device, args)
        self.check(handle)
        read = self.read_gradients if case.op in ("backward", "train") else self.read
        way = Way(self.lib.peer_kernel(handle).decode(), self.runner(self.lib.peer_run, handle), lambda: read(case, handle, shape))
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

    def read_gradients(self, case, handle, shape):
        keys, m = (case.b, case.kv_heads, case.n_kv, case.d), case.width
        shapes = (shape, shape, (3 * m, m), (3 * m,), (m, m), (m,)) if case.op == "train" else (shape, keys, keys)
        made = [np.empty(s, np.uint16 if SIZE[case.dtype] == 2 else np.float32) for s in shapes]
        self.check(self.lib.peer_read_gradients(handle, (c.c_void_p * len(made))(*(x.ctypes.data for x in made))) == 0)
        return [to_f32(x.view(np.float16) if case.dtype == "f16" else x, case.dtype) for x in made]

    def limit_handle(self, case):
        """(handle or None, name, unit) of the fastest engine that the type may use; None: the
        engine has no loop.
        """
        lib = self.lib
        if case.op == "decode":
            return lib.peer_read_create(self.device, case.kv_bytes), f"read bandwidth, {case.kv_bytes / 1e6:.0f} MB", "GB/s"
        handle, dot = None, self.engine_rate("bfloat16 dot") if case.dtype == "bf16" else 0
        amx, fma = self.engine_rate("AMX") if case.dtype == "bf16" else 0, self.engine_rate("multiply-add")
        if amx > max(dot, fma):
            return None, "AMX peak", "GFLOP/s"
        if dot > fma:
            handle = lib.peer_bf16_create(self.device)
        if handle:
            return handle, "bf16 dot-product peak", "GFLOP/s"
        return lib.peer_fma_create(self.device), "fp32 FMA peak", "GFLOP/s"

    def limit_way(self, name, handle):
        way = Way(name, self.runner(lambda limit: self.lib.peer_limit_run(self.device, limit), handle), None)
        way.close = lambda: self.lib.peer_limit_destroy(handle)
        return way

    def limit(self, case):
        """The limit that bounds the case: (name, unit in billions per second, way or None, work per
        run or per second).
        """
        handle, name, unit = self.limit_handle(case)
        if handle is None and name == "AMX peak":  # the rate comes from the probe
            return name, unit, None, 1e9 * self.units * self.engine_rate("AMX")
        self.check(handle)
        return name, unit, self.limit_way(name, handle), self.lib.peer_limit_work(handle)

    def loads_limit(self, case):
        """(way, work per run) of multiply-adds with a matrix product's loads, if these bound the
        case; else None.
        """
        handle = self.lib.peer_fma_loads_create(self.device) if case.dtype != "bf16" and case.op != "decode" else None
        return (self.limit_way("FMA with its loads", handle), self.lib.peer_limit_work(handle)) if handle else None
