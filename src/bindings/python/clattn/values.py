"""Conversions of Python values to the header's types.

A value is converted exactly, or refused with the name of its field."""
import contextlib
import ctypes as c
import operator
import os
import re
import sys

import numpy as np

from ._abi import ENUMS
from .storage import BF16, SHORT, STORAGE


def _words(kind):
    """The words of an enum: the ends of the header's names, in lower case."""
    names = [(name, number) for name, number in ENUMS[kind] if not name.endswith("_COUNT")]
    common = len(os.path.commonprefix([name for name, _ in names]).rpartition("_")[0]) + 1
    return {name[common:].lower(): number for name, number in names}


# Words of other libraries for the values of enums.
OTHERS = {"neox": "half", "gpt_neox": "half", "neox_style": "half", "rotate_half": "half", "hf": "half", "default": "half",
          "gptj": "interleaved", "gpt_j": "interleaved", "llama": "interleaved", "meta": "interleaved",
          "traditional": "interleaved", "norm": "interleaved", "swish": "silu",
          "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_approx": "gelu_tanh", "tanh": "gelu_tanh",
          "quick_gelu": "gelu_quick", "relu2": "relu_squared", "squared_relu": "relu_squared", "logistic": "sigmoid", "identity": "none",
          "linear": "none", "upper_left": "top_left", "lower_right": "bottom_right", "rmsnorm": "rms", "rms_norm": "rms",
          "layernorm": "layer", "layer_norm": "layer", "ntk_aware": "ntk", "dynamic_ntk": "dynamic", "math": "unfused",
          "flash_attention": "flash", "flash_attention_2": "flash", "fa2": "flash", "fa3": "flash", "eager": "unfused", "sdpa": "auto",
          "fp32": "exact", "float32": "exact", "tf32": "split", "per_head": "heads", "raw_scores": "raw", "logits": "raw",
          "probs": "softmax"}


def _enum(name, value, kind):
    words = _words(kind)
    if isinstance(value, str):
        word = value.lower().replace("-", "_")
        found = words.get(word, next((number for long, number in ENUMS[kind] if long.lower() == word), None))
    else:
        found = _number(name, value, c.c_int)
    if found not in words.values():
        use = OTHERS.get(word) if isinstance(value, str) else None
        raise ValueError(f"{name}: {value!r} is none of {', '.join(words)}" + f": use {use!r}" * (use in words))
    return found


def _text(name, value):
    """Convert a text or a path to bytes."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, bytes)):
        example = " of an OpenCL C expression, such as 'j <= i'," if callable(value) and "_mod" in name else ""
        raise TypeError(f"{name}: a text{example} is taken, not {type(value).__name__}")
    value = os.fsencode(value) if isinstance(value, str) else value
    if b"\0" in value:
        raise ValueError(f"{name}: a NUL is in the text")
    return value


def _bool(name, value):
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    aligned = name == "causal" and isinstance(value, str) and ("right" in value or "left" in value)
    raise TypeError(f"{name}: True or False is taken, not {value!r}" + f": causal=True, alignment={value!r}" * aligned)


def _number(name, value, kind):
    """Convert to an integer that fits the ctypes type."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: an integer is taken, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, (float, np.floating)) or value != np.floor(value) or not np.isfinite(value):
            raise TypeError(f"{name}: an integer is taken, not {value!r}") from None
        number = int(value)
    if kind(number).value != number:
        bits, signed = 8 * c.sizeof(kind), kind(-1).value < 0
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        raise ValueError(f"{name}: {number} does not fit: {low} to {high} are taken")
    return number


def _real(name, value, kind):
    """Convert to a floating-point number. A finite number must stay finite as the ctypes type."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: a number is taken, not {value!r}") from None
    if np.isfinite(number) and not np.isfinite(kind(number).value):
        raise ValueError(f"{name}: {number} does not fit float32")
    return number


def _type(name, dtype):
    """Return the word of a storage type: a type of numpy, torch or ml_dtypes, or a word of
    safetensors or the header."""
    if isinstance(dtype, str):
        word = dtype.lower().rpartition(".")[2]
        if word not in STORAGE and word not in SHORT:
            with contextlib.suppress(TypeError, ValueError):
                word = np.dtype(word).name
    elif type(dtype).__module__ == "torch":
        word = str(dtype).rpartition(".")[2]
    else:
        try:
            dtype = np.dtype(dtype)
        except (TypeError, ValueError):
            raise TypeError(f"{name}: {dtype!r} is no type: {', '.join(STORAGE)}") from None
        word = next((word for word, (_, kind) in STORAGE.items() if kind.names and kind == dtype), dtype.newbyteorder("=").name)
    word = SHORT.get(word, word)
    if word not in STORAGE:
        raise TypeError(f"{name}: arrays of {word} are not taken: {', '.join(STORAGE)}{_instead(word)}")
    return word


def _instead(word):
    """Return advice for a type that cannot be stored."""
    if word in ("float64", "double", "f64", "fp64"):
        return ": use float32"
    return ": use float8_e4m3fn or float8_e5m2" if word in ("fp8", "float8", "f8") else ""


def _borrowed(x):
    """Return a numpy array over the memory of a torch tensor."""
    where = getattr(getattr(x, "device", None), "type", None)
    if where != "cpu":
        raise TypeError("it has no device that says where it lies" if where is None else
                        f"a tensor on {where} is not taken: .cpu() copies it")
    if getattr(x, "requires_grad", False) and getattr(sys.modules.get("torch"), "is_grad_enabled", bool)():
        raise TypeError("the tensor requires a gradient, which this module does not record: use clattn_torch.attention, or .detach()")
    # numpy() of a detached tensor keeps the storage alive, even if the tensor releases it. It also
    # refuses tensors that are negated or conjugated lazily.
    x = x.detach()
    kind = STORAGE.get(str(x.dtype).rpartition(".")[2], (None, np.dtype(bool)))[1]
    if not kind.names:
        return x.numpy()
    bits = getattr(sys.modules[type(x).__module__.partition(".")[0]], "int16" if kind.itemsize == 2 else "uint8")
    return x.view(bits).numpy().view(kind)


def _array(name, x):
    """Convert a value to a numpy array in native byte order, without a copy if possible."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"{name}: an array or a Buffer is taken, not the text {x!r}")
    try:
        array = _borrowed(x) if hasattr(x, "data_ptr") else x if isinstance(x, np.ndarray) else \
            np.from_dlpack(x) if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") else np.asarray(x)
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"{name}: no array can be made of it: {error}") from None
    if array.dtype.kind in "OSUMmc":
        raise TypeError(f"{name}: arrays of {array.dtype} are not taken: {', '.join(STORAGE)}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


# Integer tensors that are converted to int32. Other integer tensors are quantised, or an error.
I32 = ("block_table", "positions", "k_positions", "kv_lengths_device", "cu_seqlens_q_device", "cu_seqlens_kv_device", "ids", "lengths",
       "mod_buffers")
_QUANTISED = re.compile("(past_)?[kv]$|w|table$")


def _suits(name, kind):
    """Refuse a numpy type that the tensor never has.

    The error names the types that the tensor may have, or the keyword that the caller meant."""
    base, quantised = name.partition("[")[0], _QUANTISED.match(name)
    word = "bfloat16" if kind == BF16 else kind.name
    floats = kind.kind == "f" or word == "bfloat16"
    if base in I32 or kind.kind == "V" and not floats:
        return
    if base == "mask" and floats:
        raise TypeError(f"mask: {word} was given, bool is wanted, where True keeps a key: numbers that are added to the scores are bias")
    if base == "bias" and kind == np.dtype(bool):
        raise TypeError("bias: bool was given, float32, float16 or bfloat16 is wanted: bool is mask, where True keeps a key")
    if base == "mask" and kind.kind in "iu" and kind != np.uint8:
        raise TypeError(f"mask: {word} was given, bool is wanted: mask.astype(bool) converts")
    if kind.kind == "f" and word not in STORAGE or kind.kind in "iu" and kind != np.int8 and base not in ("mask", "block_mask"):
        wanted = "float32, float16, bfloat16" + ", int8, int4, uint4, float8 and blocks" * bool(quantised)
        how = f"np.asarray({name}, np.float32) converts"
        if kind == np.uint16:
            how = f"{name}.view(clattn.BF16) if the numbers are bits of bfloat16"
        elif kind == np.uint8 and quantised:
            how = f"{name}.view(clattn.U4), {name}.view(clattn.F8E4M3) or clattn.Buffer({name}, 'q8_0') says what the bytes are"
        raise TypeError(f"{name}: arrays of {word} are not taken, but {wanted}: {how}")


def _converted(name, array, kind):
    """Convert an array to another type.

    Integers must keep their values. Floating-point numbers are accepted if they are whole."""
    if array.dtype == kind:
        return array
    if kind.kind not in "iu" or array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and not np.array_equal(array, np.rint(array))):
        raise TypeError(f"{name}: numbers of {array.dtype} are not taken where {kind} is wanted")
    limits = np.iinfo(kind)
    # float64: in float32 the largest int32 would be rounded up.
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array
    outside = (wide < limits.min) | (wide > limits.max)
    if outside.any():
        raise ValueError(f"{name}: {array[outside][0]} does not fit {kind}: {limits.min} to {limits.max} are taken")
    return array.astype(kind)


def _host(name, value, kind, letter, sizes):
    """Convert to an array in host memory with one axis, of the length that the header's letter
    means."""
    array = _array(name, value)
    if array.ndim != 1 or len(array) != sizes[letter]:
        raise ValueError(f"{name}: shape {array.shape} was given, [{letter}] is wanted, ({sizes[letter]},)")
    if kind.kind == "i":
        return np.ascontiguousarray(_converted(name, array, kind))
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: numbers of {array.dtype} are not taken where {kind} is wanted")
    with np.errstate(over="ignore"):
        given = np.ascontiguousarray(array, kind)
    if (np.isfinite(array) & ~np.isfinite(given)).any():
        raise ValueError(f"{name}: {array[np.isfinite(array) & ~np.isfinite(given)][0]} does not fit {kind}")
    return given
