"""clattn from Python: transformer attention on any OpenCL device, on numpy arrays and on buffers of
the device.

    import clattn
    # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    out = clattn.attention(q, k, v, causal=True)
    out, lse = clattn.attention(q, k, v, lse=True, softcap=30.0, window=(127, 0),
                                alignment="bottom_right")
    # A device by number, or by a part of its name.
    with clattn.Context("radeon", cache_dir="/var/cache/app") as c:
        y = c.layer(x, wq=wq, wk=wk, wv=wv, wo=wo, heads=12)
        # Caches, to which a step of a decoder appends.
        k, v = (clattn.Buffer.zeros((1, 4, 2048, 64), context=c) for _ in "kv")
        y = c.layer(x, wq=wq, wk=wk, wv=wv, wo=wo, heads=12, kv_heads=4, k=k, v=v, append=True,
                    kv_lengths=[n], causal=True, alignment="bottom_right",
                    rope={"layout": "half"})

Each call is a function here, and a method of Context. help(clattn.attention) lists its keywords.
Tensors are numpy arrays or Buffers. `rope` is a dictionary, whose fields help(clattn.rope) lists. A
keyword of another library, such as softmax_scale, is an error that names the keyword to use. A
value that does not fit its keyword is refused before the call. Another integer type is converted if
no number changes.

A numpy array is copied to the device, and results are copied back. A Buffer stays on the device, or
uses memory of numpy or torch without a copy, and may be a strided view. Caches, pages and tensors
that a call writes are Buffers. Results are Buffers if the first tensor is a Buffer. The call then
does not wait: .numpy() does.

The types are float32, float16, bool, int8, int32, and BF16 (bfloat16), F8E4M3, F8E5M2, I4, U4 and
BLOCKS, or those of ml_dtypes. score_mod and mask_mod are texts. An untrusted text can only be slow
or wrong, unless the Context has mods_unchecked=True.

A call that fails raises Error with the status and one line. Several threads may use a Context: they
wait for one another. The module is one file, with structs that are generated from the header."""
import atexit
import collections
import contextlib
import ctypes as c
import difflib
import functools
import importlib.metadata
import inspect
import operator
import os
import re
import sys
import textwrap
import threading
import warnings
import weakref

import numpy as np

# THE HEADER


__version__ = f"{CLATTN_VERSION_MAJOR}.{CLATTN_VERSION_MINOR}.{CLATTN_VERSION_PATCH}"
HEADER = {name: kind for name, kind in list(globals().items()) if name.startswith("clattn_") and hasattr(kind, "words")}
for _struct in HEADER.values():
    _struct.kinds = dict(_struct._fields_)
BF16 = np.dtype([("bf16", "<u2")])  # the upper half of a float32
# Bytes of k, v and weights, which have scales.
F8E4M3, F8E5M2 = np.dtype([("f8e4m3", "u1")]), np.dtype([("f8e5m2", "u1")])
# Bytes of two numbers each, the first in the lower half, also with scales: a row of D numbers has D
# / 2 bytes.
I4, U4 = np.dtype([("i4", "u1")]), np.dtype([("u4", "u1")])
# Blocks of 32 weights, or of numbers of k and v, in the layout of ggml and GGUF files. A matrix of
# K columns has K / 32 blocks in a row.
BLOCKS = {"q8_0": np.dtype([("d", "<f2"), ("n", "i1", 32)]), "q4_0": np.dtype([("d", "<f2"), ("n", "u1", 16)]),
          "q4_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("n", "u1", 16)])}
# A storage type's word: its number, and its numpy type. A block mask has the header's type bool,
# but its values are 0, 1 and 2.
STORAGE = {"float32": (CLATTN_TYPE_F32, np.dtype(np.float32)), "float16": (CLATTN_TYPE_F16, np.dtype(np.float16)),
           "bfloat16": (CLATTN_TYPE_BF16, BF16), "bool": (CLATTN_TYPE_BOOL, np.dtype(bool)),
           "uint8": (CLATTN_TYPE_BOOL, np.dtype(np.uint8)), "int8": (CLATTN_TYPE_I8, np.dtype(np.int8)),
           "int32": (CLATTN_TYPE_I32, np.dtype(np.int32)),
           "float8_e4m3fn": (CLATTN_TYPE_F8E4M3, F8E4M3), "float8_e5m2": (CLATTN_TYPE_F8E5M2, F8E5M2), "q8_0": (CLATTN_TYPE_Q8_0, BLOCKS["q8_0"]),
           "q4_0": (CLATTN_TYPE_Q4_0, BLOCKS["q4_0"]), "q4_1": (CLATTN_TYPE_Q4_1, BLOCKS["q4_1"]),
           "int4": (CLATTN_TYPE_I4, I4), "uint4": (CLATTN_TYPE_U4, U4)}
# Other words for the types, from the header, torch, safetensors and ggml. Case does not matter.
SHORT = {word: name for name, words in (
    ("float32", "f32 fp32 float single"), ("float16", "f16 fp16 half"), ("bfloat16", "bf16 bfloat"), ("bool", "bool_ boolean"),
    ("uint8", "u8 byte"), ("int8", "i8 s8 char"), ("int32", "i32 s32 int"), ("int4", "i4 s4"), ("uint4", "u4"),
    ("float8_e4m3fn", "f8e4m3 f8_e4m3 fp8_e4m3 fp8e4m3 float8_e4m3 e4m3 f8_e4m3fn"),
    ("float8_e5m2", "f8e5m2 f8_e5m2 fp8_e5m2 fp8e5m2 e5m2")) for word in words.split()}
CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR = 1, 4, 8, 32
_P, _N, _U = c.c_void_p, c.c_size_t, c.c_uint32
OPENCL = {"clCreateBuffer": (_P, [_P, c.c_uint64, _N, _P, _P]), "clReleaseMemObject": (c.c_int32, [_P]),
          "clCreateCommandQueue": (_P, [_P, _P, c.c_uint64, _P]), "clRetainCommandQueue": (c.c_int32, [_P]),
          "clReleaseCommandQueue": (c.c_int32, [_P]), "clFlush": (c.c_int32, [_P]), "clFinish": (c.c_int32, [_P]),
          "clWaitForEvents": (c.c_int32, [_U, _P]), "clReleaseEvent": (c.c_int32, [_P]),
          "clEnqueueReadBuffer": (c.c_int32, [_P, _P, _U, _N, _N, _P, _U, _P, _P]),
          "clEnqueueWriteBuffer": (c.c_int32, [_P, _P, _U, _N, _N, _P, _U, _P, _P]),
          "clEnqueueCopyBuffer": (c.c_int32, [_P, _P, _P, _N, _N, _N, _U, _P, _P]),
          "clEnqueueFillBuffer": (c.c_int32, [_P, _P, _P, _N, _N, _N, _U, _P, _P])}


class Error(Exception):
    """A call was refused or failed. `status` is a CLATTN_ number, `name` its word, `text` its
    meaning."""

    def __init__(self, status, message):
        self.status = status
        self.name = library().clattn_status_name(status).decode()
        self.text = library().clattn_status_text(status).decode()
        super().__init__(f"{self.name}: {message}" if message else self.name)


_library, _lock = None, threading.RLock()


def library(path=None):
    """Return the library, loaded on first use.

    It is the file at `path`, else the one beside this file or at its installed place, else the
    system's. A library of another version than the header of this module is refused."""
    global _library
    if _library is not None and path is None:
        return _library
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
            lib.looked = False  # OpenCL is looked up when a device is needed
            _library = lib
        elif path:
            raise ImportError("the library is loaded already")
    return _library


def _ask(lib, name, *arguments):
    """Call an OpenCL function that returns a status."""
    code = getattr(lib, name)(*arguments)
    if code:
        raise Error(CLATTN_DRIVER, f"{name} failed ({code})")


class _Owned:
    """An object that owns a handle. A copy would release the handle a second time, so copy,
    deepcopy and pickle are refused."""

    def __reduce_ex__(self, _):
        raise TypeError(f"a clattn.{type(self).__name__.strip('_')} has a handle and is not copied")


class _Closed(_Owned):
    """An object with a library handle and a close(). The end of a `with` or the garbage collector
    calls close()."""

    handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if sys is not None and not sys.is_finalizing() and self.handle:
            self.close()


class _Log:
    """The last error lines of the library (`said`), and lines about an unusable cache folder
    (`unkept`).

    The library keeps `struct`, which must outlive the object that receives it."""

    def __init__(self):
        self.said, self.unkept = collections.deque(maxlen=20), collections.deque(maxlen=20)
        # The function must not refer to this object, which refers to it.
        said, unkept = self.said, self.unkept

        def hear(_user, level, text):
            text = text.decode(errors="replace")
            if level == CLATTN_LOG_ERROR:
                said.append(text)
            elif text.startswith(("cache: the folder", "cache: the entry")) and ("not used" in text or "not kept" in text):
                unkept.append(text)
        self._fn = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)(hear)
        self.struct = clattn_log(fn=c.cast(self._fn, c.c_void_p), level=CLATTN_LOG_INFO)

    def warn(self):
        """Warn once about an unusable cache folder."""
        if self.unkept and not getattr(self, "warned", False):
            self.warned = True
            warnings.warn(f"clattn: {self.unkept[0]}", RuntimeWarning, stacklevel=4)

    def check(self, status):
        if status != CLATTN_OK:
            raise Error(status, "; ".join(self.said))


def version():
    """Return the library's version, such as "0.2.0"."""
    return library().clattn_version().decode()


def cache_clean(dir, max_bytes=0):
    """Remove the kernels used longest ago from a cache folder until it has at most max_bytes; 0
    removes all."""
    log = _Log()
    log.check(library().clattn_cache_clean(_text("dir", dir), _number("max_bytes", max_bytes, c.c_uint64), c.byref(log.struct)))


def kernel_names():
    """Return the words for kernel=."""
    return [library().clattn_kernel_name(kernel).decode() for kernel in range(CLATTN_KERNEL_COUNT)]


def to_bf16(x):
    """Round float32 numbers to bfloat16, to nearest, ties to even; NaN stays NaN."""
    x = np.ascontiguousarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16).view(BF16)


def from_bf16(x):
    """Convert bfloat16 numbers to float32."""
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_blocks(x, dtype):
    """Convert numbers [..., K] to blocks [..., K / 32] of "q8_0", "q4_0" or "q4_1", rounded as in
    ggml.

    The largest number of a block, or its range, sets the scale."""
    x = np.asarray(x, np.float32)
    if not x.ndim or x.shape[-1] % 32:
        raise ValueError(f"x: shape {x.shape}: a last size that is a multiple of 32 is wanted")
    x = x.reshape(*x.shape[:-1], -1, 32)
    blocks, low, high = np.zeros(x.shape[:-1], BLOCKS[dtype]), x.min(-1), x.max(-1)
    d = np.maximum(-low, high) / 127 if dtype == "q8_0" else np.where(high >= -low, high, low) / -8 if dtype == "q4_0" else (high - low) / 15
    blocks["d"] = d
    by = np.divide(1, d, out=np.zeros_like(d), where=d != 0)[..., None]
    if dtype == "q8_0":
        blocks["n"] = np.rint(x * by)
        return blocks
    if dtype == "q4_1":
        blocks["m"] = low
    n = np.clip(np.floor((x - low[..., None]) * by + 0.5 if dtype == "q4_1" else x * by + 8.5), 0, 15).astype(np.uint8)
    blocks["n"] = n[..., :16] | n[..., 16:] << 4
    return blocks


def from_blocks(blocks):
    """Convert blocks [..., K / 32] to their numbers [..., K], in float32."""
    n, d = blocks["n"], blocks["d"].astype(np.float32)[..., None]
    if blocks.dtype != BLOCKS["q8_0"]:
        n = np.concatenate([n & 15, n >> 4], -1)
    x = n.astype(np.float32) * d + blocks["m"].astype(np.float32)[..., None] if blocks.dtype == BLOCKS["q4_1"] else \
        (n.astype(np.float32) - (8 if blocks.dtype == BLOCKS["q4_0"] else 0)) * d
    return x.reshape(*blocks.shape[:-1], -1)


def devices():
    """Return a list of dictionaries, one for each OpenCL device, in the order of the device
    numbers.

    The keys are the words of `clattn devices --json` (device, type, driver, memory_bytes, ...) and
    all that the driver reports (name, is_cpu, ...)."""
    found = []
    with _lock:
        listed = _devices()
    for device in listed:
        facts = clattn_capabilities()
        status = library().clattn_device_describe(device.device, c.byref(facts))
        if status != CLATTN_OK:
            raise Error(status, "a device cannot be described")
        facts = _facts(facts)
        found.append({"device": facts["name"], "type": "gpu" if facts["is_gpu"] else "cpu" if facts["is_cpu"] else "other", **facts,
                      "memory_bytes": facts["global_memory_bytes"], "local_bytes": facts["local_memory_bytes"],
                      "half": facts["half_arithmetic"], "double": facts["double_arithmetic"]})
    return found


def _facts(struct):
    """Convert a struct that the library filled to a dictionary. Enums become their words."""
    def value(name, x):
        if struct.words[name] in ENUMS:
            return next((word for word, number in _words(struct.words[name]).items() if number == x), x)
        return x.decode(errors="replace") if isinstance(x, bytes) else list(x) if isinstance(x, c.Array) else x
    return {name: value(name, getattr(struct, name)) for name in struct.words}


def _devices(log=None):
    """Return the devices. Without OpenCL there are none, and the log says why."""
    lib, count, log = _with_opencl(), c.c_size_t(), log or _Log()
    status = lib.clattn_device_list(None, 0, c.byref(count), c.byref(log.struct))
    if status == CLATTN_UNSUPPORTED:
        return []
    listed = (clattn_device * count.value)()
    if status == CLATTN_OK:
        status = lib.clattn_device_list(listed, count.value, c.byref(count), c.byref(log.struct))
    log.check(status)
    return list(listed)
