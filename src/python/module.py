"""clattn from Python: transformer attention on any OpenCL device, on numpy arrays and on buffers of the device.

    import clattn
    out = clattn.attention(q, k, v, causal=True)                       # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    out, lse = clattn.attention(q, k, v, lse=True, softcap=30.0, window=(127, 0), alignment="bottom_right")
    with clattn.Context("radeon", cache_dir="/var/cache/app") as c:    # a device by number or by a part of its name
        y = c.layer(x, wq=wq, wk=wk, wv=wv, wo=wo, heads=12)
        k, v = (clattn.Buffer.zeros((1, 4, 2048, 64), context=c) for _ in "kv")    # caches, which a step of a decoder appends to
        y = c.layer(x, wq=wq, wk=wk, wv=wv, wo=wo, heads=12, kv_heads=4, k=k, v=v, append=True, kv_lengths=[n], causal=True,
                    alignment="bottom_right", rope={"layout": "half"})

Each call of the header is a function here, and a method of Context, with the fields of its struct as keywords of the same name and
meaning, those of clattn_score and clattn_kv among them: help(clattn.attention) lists them. Tensors are numpy arrays or Buffers, host
arrays anything that numpy makes one axis of, enums the words that end the header's names ("bottom_right", "flash"), `rope` a
dictionary of clattn_rope's fields, `progress` a function of the share that is done. What is left out is zero, which is every
field's default. What does not fit a field is refused before the call; what has another type is converted where nothing is lost.

A numpy array is copied to the device as dense rows, and results are copied back. A Buffer stays on the device, or lies over memory
of numpy's or torch's, and may be a strided view: caches, pages and what a call writes are Buffers. Results are Buffers where the
first tensor is one, and the call then does not wait: .numpy() does. Types are float32, float16, bool, int8, int32, and bfloat16,
float8_e4m3fn and float8_e5m2 as BF16, F8E4M3 and F8E5M2, below, or as ml_dtypes has them.
score_mod and mask_mod are texts: one of a stranger's can at worst be slow or wrong, unless the Context has mods_unchecked=True; then it is code of the application's own.

A call that fails raises Error, with the header's status and the library's one line. A Context may be used from several threads,
which then wait for one another. One file; the structs in it are generated from the header it was built with."""
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
import sys
import textwrap
import threading
import weakref

import numpy as np

# THE HEADER


HEADER = {name: kind for name, kind in list(globals().items()) if name.startswith("clattn_") and hasattr(kind, "words")}
for _struct in HEADER.values():
    _struct.kinds = dict(_struct._fields_)
BF16 = np.dtype([("bf16", "<u2")])  # the upper half of a float32
F8E4M3, F8E5M2 = np.dtype([("f8e4m3", "u1")]), np.dtype([("f8e5m2", "u1")])  # bytes of k, v and weights, beside their scales
I4, U4 = np.dtype([("i4", "u1")]), np.dtype([("u4", "u1")])  # likewise, of two numbers, the first in the lower half: a row of D has D / 2
# Blocks of 32 weights, or of k's and v's numbers, as ggml and GGUF files lay them: an array of them has K / 32 where a matrix has K columns.
BLOCKS = {"q8_0": np.dtype([("d", "<f2"), ("n", "i1", 32)]), "q4_0": np.dtype([("d", "<f2"), ("n", "u1", 16)]),
          "q4_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("n", "u1", 16)])}
# A storage type's word, its number, and how numpy holds it. A block mask is bool to the header, and holds 0, 1 and 2.
STORAGE = {"float32": (CLATTN_TYPE_F32, np.dtype(np.float32)), "float16": (CLATTN_TYPE_F16, np.dtype(np.float16)),
           "bfloat16": (CLATTN_TYPE_BF16, BF16), "bool": (CLATTN_TYPE_BOOL, np.dtype(bool)),
           "uint8": (CLATTN_TYPE_BOOL, np.dtype(np.uint8)), "int8": (CLATTN_TYPE_I8, np.dtype(np.int8)),
           "int32": (CLATTN_TYPE_I32, np.dtype(np.int32)),
           "float8_e4m3fn": (CLATTN_TYPE_F8E4M3, F8E4M3), "float8_e5m2": (CLATTN_TYPE_F8E5M2, F8E5M2), "q8_0": (CLATTN_TYPE_Q8_0, BLOCKS["q8_0"]),
           "q4_0": (CLATTN_TYPE_Q4_0, BLOCKS["q4_0"]), "q4_1": (CLATTN_TYPE_Q4_1, BLOCKS["q4_1"]),
           "int4": (CLATTN_TYPE_I4, I4), "uint4": (CLATTN_TYPE_U4, U4)}
SHORT = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32",
         "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "i4": "int4", "u4": "uint4"}
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
    """A call was refused or failed: `status` is a CLATTN_ number, `name` its word, `text` what it means."""

    def __init__(self, status, message):
        self.status = status
        self.name = library().clattn_status_name(status).decode()
        self.text = library().clattn_status_text(status).decode()
        super().__init__(f"{self.name}: {message}" if message else self.name)


_library, _lock = None, threading.RLock()


def library(path=None):
    """The library, loaded on first use: the one at `path`, else the one beside this file or where it was installed with, else
    the system's. Refuses one of another version than the header this file was made from."""
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
            lib.looked = False  # for OpenCL, which is done when a device is asked for
            _library = lib
        elif path:
            raise ImportError("the library is loaded already")
    return _library


def _ask(lib, name, *arguments):
    """Call a function of OpenCL's that answers with a number."""
    code = getattr(lib, name)(*arguments)
    if code:
        raise Error(CLATTN_DRIVER, f"{name} failed ({code})")


class _Closed:
    """What has a handle of the library's and a close(): at the end of a `with`, or when nobody knows it any more."""

    handle = None

    def __reduce_ex__(self, _):
        raise TypeError("what has a handle of the library's is not copied")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if sys is not None and not sys.is_finalizing() and self.handle:
            self.close()


class _Log:
    """The last lines that the library said: `struct` goes to it, and must live as long as what it is given to."""

    def __init__(self):
        self.said = collections.deque(maxlen=20)
        said = self.said  # the function must not hold this object: it would hold itself
        self._fn = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)(lambda _user, _level,
            text: said.append(text.decode(errors="replace")))
        self.struct = clattn_log(fn=c.cast(self._fn, c.c_void_p))

    def check(self, status):
        if status != CLATTN_OK:
            raise Error(status, "; ".join(self.said))


def version():
    """The library's version, such as "0.2.0"."""
    return library().clattn_version().decode()


def cache_clean(dir, max_bytes=0):
    """Clean a folder of compiled kernels down to max_bytes; 0: remove all of them."""
    log = _Log()
    log.check(library().clattn_cache_clean(_text("dir", dir), _number("max_bytes", max_bytes, c.c_uint64), c.byref(log.struct)))


def kernel_names():
    """The kernels that attention may be asked for (kernel=), by the library's words."""
    return [library().clattn_kernel_name(kernel).decode() for kernel in range(CLATTN_KERNEL_COUNT)]


def to_bf16(x):
    """float32 numbers rounded to bfloat16, to nearest, ties to even; NaN stays NaN."""
    x = np.ascontiguousarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16).view(BF16)


def from_bf16(x):
    """bfloat16 numbers as float32."""
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_blocks(x, dtype):
    """Numbers [..., K] as blocks [..., K / 32] of "q8_0", "q4_0" or "q4_1", rounded as ggml does: the largest number of a block, or
    its range, decides the scale."""
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
    """The numbers [..., K] of blocks [..., K / 32], in float32."""
    n, d = blocks["n"], blocks["d"].astype(np.float32)[..., None]
    if blocks.dtype != BLOCKS["q8_0"]:
        n = np.concatenate([n & 15, n >> 4], -1)
    x = n.astype(np.float32) * d + blocks["m"].astype(np.float32)[..., None] if blocks.dtype == BLOCKS["q4_1"] else \
        (n.astype(np.float32) - (8 if blocks.dtype == BLOCKS["q4_0"] else 0)) * d
    return x.reshape(*blocks.shape[:-1], -1)


def devices():
    """What each OpenCL device is and can do, in the order of their numbers: dictionaries of clattn_capabilities."""
    found = []
    with _lock:
        listed = _devices()
    for device in listed:
        facts = clattn_capabilities()
        status = library().clattn_device_describe(device.device, c.byref(facts))
        if status != CLATTN_OK:
            raise Error(status, "a device cannot be described")
        found.append(_facts(facts))
    return found


def _facts(struct):
    """A struct that the library filled, as a dictionary; enums are their words."""
    def value(name, x):
        if struct.words[name] in ENUMS:
            return next((word for word, number in _words(struct.words[name]).items() if number == x), x)
        return x.decode(errors="replace") if isinstance(x, bytes) else list(x) if isinstance(x, c.Array) else x
    return {name: value(name, getattr(struct, name)) for name in struct.words}


def _devices(log=None):
    """The devices, none without OpenCL; why goes to the log."""
    lib, count, log = _with_opencl(), c.c_size_t(), log or _Log()
    status = lib.clattn_device_list(None, 0, c.byref(count), c.byref(log.struct))
    if status == CLATTN_UNSUPPORTED:
        return []
    listed = (clattn_device * count.value)()
    if status == CLATTN_OK:
        status = lib.clattn_device_list(listed, count.value, c.byref(count), c.byref(log.struct))
    log.check(status)
    return list(listed)
