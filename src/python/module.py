"""clattn from Python: transformer attention on any OpenCL device, on numpy arrays.

    import clattn
    out = clattn.attention(q, k, v, causal=True)                       # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    out, lse = clattn.attention(q, k, v, lse=True, softcap=30.0, window=(127, 0), alignment="bottom_right")
    with clattn.Context("radeon", cache_dir="/var/cache/app") as c:    # a device by number or by a part of its name
        y = c.layer(x, wq=wq, wk=wk, wv=wv, wo=wo, heads=12)

Every field of the header's structs (clattn_attention_params with its clattn_score and clattn_kv, clattn_layer_params,
clattn_linear_params, clattn_merge_params) is a keyword of the same name and meaning: tensors and host arrays are numpy arrays, enums
the last part of their names ("bottom_right", "flash"), `rope` a dictionary of clattn_rope's fields. What is left out is zero, which
is every field's default. Arrays are float32, float16, bool, int8, int32, and bfloat16 as BF16, below, or as ml_dtypes' bfloat16.
Arrays are copied to the device and results back: this is for trying, testing and scripts; what must not copy calls the C header.

A call that fails raises Error, with the header's status and the library's one line. A Context may be used from several threads,
which then wait for one another. One file; the structs in it are generated from the header it was built with."""
import ctypes as c
import difflib
import os
import sys
import threading

import numpy as np

# THE HEADER


BF16 = np.dtype([("bf16", "<u2")])  # the upper half of a float32
TYPES = {"float32": CLATTN_TYPE_F32, "float16": CLATTN_TYPE_F16, "bfloat16": CLATTN_TYPE_BF16, "bool": CLATTN_TYPE_BOOL,
         "int8": CLATTN_TYPE_I8, "int32": CLATTN_TYPE_I32}
HOST = {"const int32_t *": np.int32, "const float *": np.float32}
CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_COPY_HOST_PTR = 1, 4, 32
OPENCL = {"clCreateBuffer": (c.c_void_p, [c.c_void_p, c.c_uint64, c.c_size_t, c.c_void_p, c.c_void_p]),
          "clCreateCommandQueue": (c.c_void_p, [c.c_void_p, c.c_void_p, c.c_uint64, c.c_void_p]),
          "clEnqueueReadBuffer": (c.c_int32, [c.c_void_p, c.c_void_p, c.c_uint32, c.c_size_t, c.c_size_t, c.c_void_p, c.c_uint32,
                                              c.c_void_p, c.c_void_p]),
          "clFinish": (c.c_int32, [c.c_void_p]), "clReleaseMemObject": (c.c_int32, [c.c_void_p]),
          "clReleaseCommandQueue": (c.c_int32, [c.c_void_p])}


class Error(Exception):
    """A call was refused or failed: `status` is a CLATTN_ number, `name` its word."""

    def __init__(self, status, message):
        self.status = status
        self.name = library().clattn_status_name(status).decode()
        super().__init__(f"{self.name}: {message}" if message else self.name)


_library, _default, _lock = None, None, threading.Lock()


def library(path=None):
    """The library, loaded on first use: the one at `path`, else the one beside this file or where it was installed with, else
    the system's. Refuses one of another version than the header this file was made from."""
    global _library
    with _lock:
        if _library is None:
            here = os.path.dirname(os.path.abspath(__file__))
            places = [path] if path else [os.path.join(here, LIBRARY), os.path.join(here, LIBRARY_PATH, LIBRARY)]
            found = next((place for place in places if path or os.path.exists(place)), LIBRARY)
            lib = c.CDLL(found)
            lib.clattn_version_number.restype = c.c_int
            made = CLATTN_VERSION_MAJOR * 1000000 + CLATTN_VERSION_MINOR * 1000 + CLATTN_VERSION_PATCH
            if lib.clattn_version_number() // 1000 != made // 1000:
                raise ImportError(f"{found} is version {lib.clattn_version_number()}, this module is for {made}")
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(lib, name)
                function.restype, function.argtypes = result, arguments
            for name, (result, arguments) in OPENCL.items():  # those that the library itself found; none without OpenCL
                at = lib.clattn_opencl_function(name.encode())
                setattr(lib, name, c.CFUNCTYPE(result, *arguments)(at) if at else None)
            _library = lib
        elif path:
            raise ImportError("the library is loaded already")
    return _library


def to_bf16(x):
    """float32 numbers rounded to bfloat16, to nearest, ties to even; NaN stays NaN."""
    x = np.ascontiguousarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16).view(BF16)


def from_bf16(x):
    """bfloat16 numbers as float32."""
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def devices():
    """What each OpenCL device is and can do, in the order of their numbers: dictionaries of clattn_capabilities."""
    found = []
    for device in _devices():
        facts = clattn_capabilities()
        status = library().clattn_device_describe(device.device, c.byref(facts))
        if status != CLATTN_OK:
            raise Error(status, "a device cannot be described")
        found.append({name: _value(getattr(facts, name)) for name in facts.words})
    return found


def _value(x):
    return x.decode(errors="replace") if isinstance(x, bytes) else list(x) if isinstance(x, c.Array) else x


def _devices():
    count = c.c_size_t()
    status = library().clattn_device_list(None, 0, c.byref(count), None)
    if status == CLATTN_UNSUPPORTED:
        return []
    listed = (clattn_device * count.value)()
    if status == CLATTN_OK:
        status = library().clattn_device_list(listed, count.value, c.byref(count), None)
    if status != CLATTN_OK:
        raise Error(status, "devices cannot be listed")
    return list(listed)


def _enum(kind, value):
    if not isinstance(value, str):
        return int(value)
    words = {name.lower(): number for name, number in ENUMS[kind]}
    fits = {number for name, number in words.items() if name.endswith("_" + value.lower().replace("-", "_"))}
    if len(fits) != 1:
        raise ValueError(f"{value!r} is none of {', '.join(words)}")
    return fits.pop()


class _Call:
    """The params of one call and what lives as long as it: buffers, host arrays, and results that are read afterwards."""

    def __init__(self, context, params):
        self.context, self.lib, self.params = context, library(), params
        self.buffers, self.kept, self.results = [], [], {}

    def buffer(self, flags, array):
        error = c.c_int32()
        source = array.ctypes.data if flags & CL_MEM_COPY_HOST_PTR else None
        made = self.lib.clCreateBuffer(self.lib.clattn_context_opencl(self.context), flags, array.nbytes, source, c.byref(error))
        if not made:
            raise Error(CLATTN_OUT_OF_MEMORY, f"clCreateBuffer of {array.nbytes} bytes failed ({error.value})")
        self.buffers.append(made)
        return made

    def tensor(self, array, flags=CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        kind = CLATTN_TYPE_BF16 if array.dtype == BF16 else TYPES.get(array.dtype.name)
        if kind is None:
            raise TypeError(f"arrays of {array.dtype} are not taken: {', '.join(TYPES)}")
        if not 1 <= array.ndim <= CLATTN_MAX_RANK:
            raise ValueError(f"an array has {array.ndim} axes: 1 to {CLATTN_MAX_RANK} are taken")
        shape = (c.c_int64 * CLATTN_MAX_RANK)(*array.shape)
        return self.lib.clattn_tensor_dense(self.buffer(flags, array) if array.size else None, kind, array.ndim, shape)

    def result(self, name, shape, dtype):
        array = np.empty(shape, dtype)
        self.results[name] = (array, self.tensor(array, CL_MEM_READ_WRITE))
        setattr(self.params, name, self.results[name][1])

    def put(self, struct, name, value):
        """Set a field of the header's from what Python has of it."""
        word = struct.words[name]
        if word == "clattn_tensor":
            value = self.tensor(value)
        elif word.endswith("[]") and word.startswith("clattn_tensor"):
            for at, array in enumerate(value):
                getattr(struct, name)[at] = self.tensor(array)
            return
        elif word in HOST:
            array = np.ascontiguousarray(value, HOST[word])
            self.kept.append(array)
            value = array.ctypes.data
        elif word == "const char *":
            value = value.encode()
            self.kept.append(value)
        elif word in ENUMS:
            value = _enum(word, value)
        elif isinstance(value, dict):
            self.options(getattr(struct, name), value)
            return
        elif word == "function" or word.endswith("*") or word in ("cl_mem", "clattn_packed"):
            raise TypeError(f"{name} is for C alone")
        setattr(struct, name, value)

    def options(self, struct, given):
        """Set fields of the struct, or of its parts clattn_score and clattn_kv, by their names."""
        fields = {}
        for part in (struct, *(getattr(struct, n) for n, w in struct.words.items() if w in ("clattn_score", "clattn_kv"))):
            fields.update({name: part for name in part.words})
        for name, value in given.items():
            if name not in fields:
                near = difflib.get_close_matches(name, fields, 1)
                raise TypeError(f"{name} is no option" + (f": did you mean {near[0]}?" if near else ""))
            if value is None:
                continue
            if name == "window" and not isinstance(value, (bool, int)):
                fields[name].window_left, fields[name].window_right = value
                value = True
            self.put(fields[name], name, value)

    def run(self, function, queue):
        status = getattr(self.lib, function)(self.context, queue, c.byref(self.params), 0, None, None)
        if status != CLATTN_OK:
            raise Error(status, last_error(self.context))
        for array, view in self.results.values():
            if not array.size:
                continue
            code = self.lib.clEnqueueReadBuffer(queue, view.buffer, 1, 0, array.nbytes, array.ctypes.data, 0, None, None)
            if code:
                raise Error(CLATTN_DRIVER, f"clEnqueueReadBuffer failed ({code})")
        return tuple(array for array, _ in self.results.values())

    def close(self, queue):
        self.lib.clFinish(queue)
        for buffer in self.buffers:
            self.lib.clReleaseMemObject(buffer)


def last_error(context):
    text = c.create_string_buffer(1024)
    library().clattn_context_last_error(context, c.cast(text, c.c_void_p), len(text))
    return text.value.decode(errors="replace")


class Context:
    """A device with its compiled kernels. `device` is its number among devices(), or a part of one name alone. Other keywords are
    fields of clattn_context_params. It closes with `with`, close(), or when it is collected."""

    def __init__(self, device=0, **options):
        self.handle = self.queue = None
        lib, listed = library(), _devices()
        if isinstance(device, str):
            named = [n for n, facts in enumerate(devices()) if device.lower() in facts["name"].lower()]
            if len(named) != 1:
                raise ValueError(f"{len(named)} devices are called {device!r}: {[facts['name'] for facts in devices()]}")
            device = named[0]
        if not 0 <= device < len(listed):
            raise ValueError(f"there is no device {device}: there are {len(listed)}")
        said = []
        log = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)(lambda _user, _level, text: said.append(text.decode(errors="replace")))
        params = clattn_context_params(device=listed[device].device)
        params.log.fn = c.cast(log, c.c_void_p)
        made, call = c.c_void_p(), _Call(None, params)
        call.options(params, {name: os.fspath(x) if name in ("cache_dir", "clblast_path") and x is not None else x for name, x in options.items()})
        self._log, self._said, self._lock = log, said, threading.Lock()
        status = lib.clattn_context_create(c.byref(params), c.byref(made))
        if status != CLATTN_OK:
            raise Error(status, "; ".join(said))
        self.handle, code = made, c.c_int32()
        self.queue = lib.clCreateCommandQueue(lib.clattn_context_opencl(made), lib.clattn_context_device(made), 0, c.byref(code))
        if not self.queue:
            self.close()
            raise Error(CLATTN_DRIVER, f"clCreateCommandQueue failed ({code.value})")

    def close(self):
        if self.queue:
            library().clFinish(self.queue)
            library().clReleaseCommandQueue(self.queue)
        if self.handle:
            library().clattn_context_destroy(self.handle)
        self.handle = self.queue = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if sys is not None and not sys.is_finalizing():
            self.close()

    def _run(self, function, params, given, results):
        if not self.handle:
            raise ValueError("the context is closed")
        with self._lock:
            call = _Call(self.handle, params)
            try:
                call.options(params, given)
                for name, shape, dtype in results:
                    call.result(name, shape, dtype)
                found = call.run(function, self.queue)
            finally:
                call.close(self.queue)
        return found[0] if len(found) == 1 else found

    def attention(self, q, k, v, *, lse=False, weights=False, scores=None, **options):
        """out [B, H, Nq, Dv] of q's type; with lse=True float32 [B, H, Nq] after it; with weights=True, or a type, the attention
        weights [B, H, Nq, Nkv] after those; with scores a word of clattn_tap ("raw", "masked", ...) that tap, float32."""
        q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
        results = [("out", q.shape[:3] + v.shape[3:], q.dtype)]
        keys = sum(np.shape(x)[2] for x in (k, options.get("past_k")) if x is not None)
        if lse:
            results.append(("lse", q.shape[:3], np.float32))
        if weights:
            results.append(("weights", q.shape[:3] + (keys,), np.float32 if weights is True else weights))
        if scores:
            options["scores_at"] = scores
            results.append(("scores", q.shape[:3] + (keys,), np.float32))
        return self._run("clattn_attention_enqueue", clattn_attention_params(), {"q": q, "k": k, "v": v, **options}, results)

    def layer(self, x, *, wq, wk, wv, wo, heads, lse=False, weights=False, **options):
        """out [B, Nq, Mo] of x's type, and as attention() lse and weights."""
        x, wo, y = np.asarray(x), np.asarray(wo), options.get("y")
        results = [("out", x.shape[:2] + wo.shape[:1], x.dtype)]
        keys = np.shape(x if y is None else y)[1]
        if lse:
            results.append(("lse", (x.shape[0], heads, x.shape[1]), np.float32))
        if weights:
            results.append(("weights", (x.shape[0], heads, x.shape[1], keys), np.float32 if weights is True else weights))
        given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, **options}
        return self._run("clattn_layer_enqueue", clattn_layer_params(), given, results)

    def linear(self, x, w, **options):
        """x w^T + bias: [B, N, K] by [M, K] is [B, N, M], of x's type."""
        x, w = np.asarray(x), np.asarray(w)
        return self._run("clattn_linear_enqueue", clattn_linear_params(), {"x": x, "w": w, **options},
                         [("out", x.shape[:-1] + w.shape[:1], x.dtype)])


def _context():
    global _default
    if _default is None:
        _default = Context()
    return _default


def attention(q, k, v, **options):
    """Context.attention on the first device."""
    return _context().attention(q, k, v, **options)


def layer(x, **options):
    """Context.layer on the first device."""
    return _context().layer(x, **options)
