"""One call of the header: its params from keywords, and the objects that must live as long as the
call."""
import ctypes as c
import functools
import re
import textwrap
import warnings
from typing import Any

import numpy as np

from ._abi import (
    CLATTN_MAX_RANK, CLATTN_OK, ENUMS, HEADER, clattn_progress, clattn_rope, clattn_rope_params,
    clattn_tensor,
)
from .about import _PLACES, _about
from .buffer import Buffer, _Memory, _stored
from .opencl import CL_MEM_READ_ONLY, _ask
from .runtime import Error, library
from .storage import STORAGE
from .values import (
    I32, _array, _bool, _converted, _enum, _host, _number, _real, _suits, _text, _type, _words,
)
from .words import _stranger

# Structs inside others whose fields are keywords, too.
PARTS = ("clattn_score", "clattn_kv", "clattn_selection", "clattn_attention_params", "clattn_attention_backward_params",
         "clattn_layer_params")
INTEGERS = {"int": c.c_int, "unsigned": c.c_uint, "size_t": c.c_size_t, "int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64,
            "uint64_t": c.c_uint64}
REALS = {"float": c.c_float, "double": c.c_double}
HOST = {"const int32_t *": np.dtype(np.int32), "const float *": np.dtype(np.float32), "const double *": np.dtype(np.float64)}
PROGRESS = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_double)


def _fields(struct):
    """Return the possible keywords of a call with these params, and the part of the params that has
    each."""
    found, flat = {}, PARTS + ("clattn_rope",) * isinstance(struct, clattn_rope_params)
    for name, word in struct.words.items():
        found[name] = struct
        if word in flat:
            found.update(_fields(getattr(struct, name)))
    return found


@functools.cache
def _annotation(struct, name):
    """Return the Python type of a field; None: the field is only for C. A Tensor is an array or a
    Buffer."""
    word = struct.words[name]
    if name in struct.host_lengths.values():
        return None
    if word in HEADER and word not in ("clattn_tensor", "clattn_packed"):
        fields = [field for field in HEADER[word].words if _annotation(HEADER[word], field)]
        return word if fields and word not in (*PARTS, "clattn_log") else None
    if word in ENUMS:
        return f"Literal[{', '.join(map(repr, _words(word)))}] | int"
    if word in HOST:
        return "ArrayLike"
    if word.endswith("[]"):
        return "Sequence[Tensor]" if word == "clattn_tensor[]" else "Sequence[int]" if word[:-2] in INTEGERS else None
    if name == "window":
        return "bool | tuple[int, int]"
    return "int" if word in INTEGERS else "float" if word in REALS else {"clattn_tensor": "Tensor", "bool": "bool", "cl_mem": "Buffer",
        "const char *": "str | bytes | PathLike", "clattn_packed": "Packed", "const clattn_progress *": "Callable[[float], Any]"}.get(word)


def _described(struct, name, call):
    """Return the help text for a field of a call: its type and its description."""
    kind = _annotation(struct, name).replace("str | bytes | PathLike", "path" if "path" in name or "dir" in name else "str")
    kind = "dict" if kind in HEADER else kind[8:-7].replace("', '", "' | '") if kind.startswith("Literal") else kind
    text = f"{name}: {kind}; {_about(struct, name, call)}"
    return textwrap.fill(text, 100, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)


@functools.cache
def _keywords(kind):
    """Return the keywords of a call with these params, in the order of help(), each with its
    struct."""
    found = {name: type(part) for name, part in _fields(kind()).items() if _annotation(part.__class__, name)}
    return {name: found[name] for name in sorted(found, key=lambda name: _PLACES.get(name, len(_PLACES)))}


@functools.cache
def _all_keywords():
    """Return the fields of all calls, and the arguments that are no fields."""
    return {"axes", "shape", "kv_heads"}.union(*(_fields(kind()) for name, kind in HEADER.items() if name.endswith("_params")))


def _refuse_strangers(kind, given):
    """Refuse a keyword that no call has, before other errors of the call."""
    known = _all_keywords()
    for name in given:
        if name not in known:
            raise TypeError(_stranger(name, _keywords(kind)))


class Packed:
    """Weights packed for a device by linear_pack. Pass it as packed= of linear, or packed_wq= and
    so on of a layer, with the weights."""

    def __init__(self, struct, memory):
        self._struct, self._memory = struct, memory

    def __repr__(self):
        if not self._memory:
            return "<clattn.Packed, without effect>"
        return f"<clattn.Packed of {self._memory.nbytes} bytes on {self._memory.context._named()}>"


class _Call:
    """One call of the library.

    `sizes` has the lengths of host arrays. `written` names the tensors that the call writes, which
    must be Buffers. A call that is only planned copies nothing."""

    def __init__(self, context, params, sizes=None, written=(), planned=False):
        self.context, self.params, self.sizes, self.written, self.planned = context, params, sizes or {}, written, planned
        self.kept: list[Any] = []
        self.results: list[tuple[Any, Any]] = []
        self.failed: list[BaseException] = []
        self.mods: dict[str, bytes] = {}
        self.sized: tuple[str, ...] = ()
        self.results_named: list[str] = []

    def known(self, name, value):
        """Convert to a numpy array of a type that tensors have."""
        array = _array(name, value)
        _suits(name, array.dtype)
        if name in I32 or (array.dtype.kind in "iu" and array.dtype.itemsize > 1) or (array.dtype == np.uint8 and "mask" not in name):
            array = _converted(name, array, np.dtype(np.int32))
        word = _type(name, array.dtype)
        if not 1 <= array.ndim <= CLATTN_MAX_RANK:
            raise ValueError(f"{name}: an array has {array.ndim} axes: 1 to {CLATTN_MAX_RANK} are taken")
        return _stored(name, array, word), word

    def view(self, memory, word, shape, strides=None, offset=0):
        if len(shape) > CLATTN_MAX_RANK:
            raise ValueError(f"a shape has {len(shape)} axes: 1 to {CLATTN_MAX_RANK} are taken")
        strides = strides or [int(np.prod(shape[at + 1:], dtype=np.int64)) for at in range(len(shape))]
        if memory is not None:
            self.kept.append(memory)
        return clattn_tensor(buffer=memory.handle if memory is not None else None, offset=offset, type=STORAGE[word][0], rank=len(shape),
                             shape=(c.c_int64 * CLATTN_MAX_RANK)(*shape), stride=(c.c_int64 * CLATTN_MAX_RANK)(*strides))

    def tensor(self, name, value):
        if isinstance(value, Buffer):
            if value.context is not self.context:
                raise ValueError(f"{name}: the Buffer is of another context")
            if name in ("mask", "bias"):
                _suits(name, STORAGE[value.dtype][1])
            if not 1 <= value.ndim <= CLATTN_MAX_RANK:
                raise ValueError(f"{name}: a Buffer has {value.ndim} axes: 1 to {CLATTN_MAX_RANK} are taken")
            return self.view(value._memory, value.dtype, value.shape, value.strides, value.offset)
        if name in self.written:
            raise TypeError(f"{name}: the call writes into it, which a copy of an array would not keep: make it a clattn.Buffer")
        array, word = self.known(name, value)
        if self.planned or name in self.sized:
            return self.view(None, word, array.shape)
        dense = np.ascontiguousarray(array)
        return self.view(_Memory.copy(self.context, dense, CL_MEM_READ_ONLY), word, array.shape)

    def result(self, name, given, shape, dtype, device):
        """Return the view of a result: in the Buffer or array that was passed, or in a new one."""
        if isinstance(given, (Buffer, np.ndarray)):
            if tuple(given.shape) != tuple(shape):
                raise ValueError(f"{name}: shape {tuple(given.shape)} was given, {tuple(shape)} is wanted")
            if isinstance(given, np.ndarray) and not (given.flags.writeable and given.dtype.isnative):
                raise ValueError(f"{name}: an array that may be written is wanted, in the machine's byte order")
        word = given.dtype if isinstance(given, Buffer) else _type(name, given.dtype if isinstance(given, np.ndarray) else dtype)
        if self.planned:
            return self.view(None, word, shape)
        if isinstance(given, Buffer) or (device and given is None):
            made = given if isinstance(given, Buffer) else Buffer.zeros(shape, word, self.context)
            self.results.append((made, None))
            return self.tensor(name, made)
        if isinstance(given, np.ndarray):
            array, memory = given, _Memory.copy(self.context, np.ascontiguousarray(given))
        else:
            kind = STORAGE[word][1] if isinstance(dtype, str) else np.dtype(dtype)
            array = np.empty(shape, kind)
            # The call may leave rows unwritten, which are then zero.
            memory = _Memory.zeros(self.context, array.nbytes)
        self.results.append((array, memory))
        return self.view(memory, word, shape)

    def put(self, struct, name, value):
        """Set a field of a struct from a Python value."""
        word, kind = struct.words[name], struct.kinds[name]
        if word == "clattn_tensor":
            value = self.tensor(name, value)
        elif word == "clattn_tensor[]":
            if not np.iterable(value):
                raise TypeError(f"{name}: a list of arrays and Buffers is taken, not {value!r}")
            value = [value] if isinstance(value, (Buffer, np.ndarray)) or hasattr(value, "data_ptr") else list(value)
            if len(value) > kind._length_:
                raise ValueError(f"{name}: {len(value)} were given, at most {kind._length_} are taken")
            value = kind(*(clattn_tensor() if x is None else self.tensor(f"{name}[{at}]", x) for at, x in enumerate(value)))
        elif word in HOST:
            letter, sizes = struct.host_lengths[name], self.sizes
            if letter in struct.words:  # the length is a field of the same struct
                sizes = {letter: np.size(value)}
                setattr(struct, letter, np.size(value))
            array = _host(name, value, HOST[word], letter, sizes)
            self.kept.append(array)
            value = array.ctypes.data
        elif word == "const char *":
            value = _text(name, value)
            if "_mod" in name:
                self.mods[name] = value
                _warn_of_python(name, value)
        elif word in ENUMS:
            value = _enum(name, value, word)
        elif word == "bool":
            value = _bool(name, value)
        elif word in INTEGERS and name in struct.host_lengths.values():
            raise TypeError(f"{name} is for C alone: it is the length of an array")
        elif word in INTEGERS:
            value = _number(name, value, INTEGERS[word])
        elif word in REALS:
            value = _real(name, value, REALS[word])
        elif word[:-2] in INTEGERS:
            numbers = list(value) if np.iterable(value) else []
            if len(numbers) != kind._length_:
                raise ValueError(f"{name}: {kind._length_} numbers are taken, not {value!r}")
            value = kind(*(_number(name, x, kind._type_) for x in numbers))
        elif word == "clattn_packed" and isinstance(value, Packed):
            self.kept.append(value)
            value = value._struct
        elif word == "cl_mem" and isinstance(value, Buffer):
            if value.offset or not value._at.flags.c_contiguous or value.size * value._at.itemsize != value._memory.nbytes:
                raise ValueError(f"{name}: the whole of a Buffer is taken, no view of a part")
            value = self.tensor(name, value).buffer
        elif word == "const clattn_progress *" and callable(value):
            value = self.progress(value)
        elif word in PARTS:
            raise TypeError(f"{name}: its fields are keywords themselves: {', '.join(HEADER[word].words)}")
        elif word in HEADER and isinstance(value, dict):
            self.options(getattr(struct, name), value)
            return
        elif word in HEADER and word != "clattn_packed" and _annotation(struct.__class__, name):
            example = f", such as {{'layout': {value if isinstance(value, str) else 'half'!r}}}" if word == "clattn_rope" else ""
            raise TypeError(f"{name}: a dictionary is taken{example}, of {', '.join(HEADER[word].words)}, not {value!r}")
        elif word in ("clattn_packed", "const clattn_progress *"):
            wanted = "what linear_pack made" if word == "clattn_packed" else "a function of the share that is done"
            raise TypeError(f"{name}: {wanted} is taken")
        else:
            raise TypeError(f"{name} is for C alone" + ": use cache_dir" * (name == "cache"))
        setattr(struct, name, value)

    def progress(self, function):
        failed = self.failed  # the function must not refer to the call, which refers to it

        def report(_user, done):
            try:
                answer = function(done)
                return answer or not isinstance(answer, (bool, np.bool_))
            except BaseException as error:  # cancels the call, which then raises it again
                failed.append(error)
                return False
        callback = PROGRESS(report)
        struct = clattn_progress(fn=c.cast(callback, c.c_void_p))
        self.kept += [callback, struct]
        return c.addressof(struct)

    def options(self, struct, given):
        """Set fields of the struct, or of its parts, by name. Returns the part that has each
        field."""
        fields, rope_fields = _fields(struct), set()
        for name, value in given.items():
            if name not in fields:
                raise TypeError(_stranger(name, fields))
            if value is None:
                continue
            part = fields[name]
            if isinstance(part, clattn_rope):
                rope_fields.add(name)
            if name == "window" and isinstance(value, (tuple, list, np.ndarray)):
                if len(value) != 2:
                    raise ValueError(f"window: (left, right) is taken, not {value!r}")
                self.put(part, "window_left", value[0])
                self.put(part, "window_right", value[1])
                value = True
            elif name == "window" and not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
                raise TypeError(f"window: (left, right) is taken, not {value!r}: a row sees `left` keys before its position and `right` "
                                "keys behind it, and -1 is unbounded: causal=True, window=(2, 0) sees 3 keys")
            self.put(part, name, value)
        if rope_fields and "layout" not in rope_fields:
            raise ValueError(f"rope: {min(rope_fields)} is given, layout is not: half or interleaved")
        return fields

    def run(self, function, *arguments):
        """Call a function of the library, and raise an Error if it fails."""
        status = getattr(library(), function)(self.context.handle, *arguments)
        if self.failed:
            raise self.failed[0]
        if status != CLATTN_OK:
            text = last_error(self.context.handle).replace("clattn_tensor_bshd views [B, N, H, D] so", "[B, N, H, D] is viewed so by "
                                                           ".transpose(0, 2, 1, 3)")
            raise Error(status, text + _words_of_python(self.mods.get(text.partition(":")[0])))

    def enqueue(self, function):
        queue = self.context.queue
        if self.context._recorded and any(memory is not None for _, memory in self.results):
            raise ValueError("a call that is recorded writes into Buffers: give it Buffers")
        self.run(function, queue, c.byref(self.params), 0, None, None)
        if self.context._recorded:
            # A Buffer may be over memory of numpy or torch.
            self.context._recorded.kept += self.kept
        for array, memory in self.results:
            if memory is not None and array.size:
                dense = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
                _ask(library(), "clEnqueueReadBuffer", queue, memory.handle, 1, 0, dense.nbytes, dense.ctypes.data, 0, None, None)
                if dense is not array:
                    array[...] = dense
        _ask(library(), "clFlush", queue)
        return [array for array, _ in self.results]


def last_error(context):
    text = c.create_string_buffer(1024)
    library().clattn_context_last_error(context, c.cast(text, c.c_void_p), len(text))
    return text.value.decode(errors="replace")


# Words of Python, numpy and FlexAttention in an expression, and those of OpenCL C.
_PYTHON = {r"\band\b": "'and' is &&", r"\bor\b": "'or' is ||", r"\bnot\b": "'not' is !", r"\bTrue\b": "'True' is true",
           r"\bFalse\b": "'False' is false", r"\bif\b": "'a if c else b' is c ? a : b", r"\bwhere\b": "'where(c, a, b)' is c ? a : b",
           r"\*\*": "'x ** y' is pow(x, y)", r"\b(np|numpy|torch|math|jnp)\.": "functions have no prefix", r"\binf\b": "'inf' is INFINITY",
           r"\b(q_idx|q_index|row_idx)\b": "the query row is i",
           r"\b(kv_idx|k_idx|kv_index|col_idx)\b": "the key is j", r"\b(b_idx|batch|batch_idx)\b": "the batch item is b",
           r"\b(h_idx|head|head_idx)\b": "the head is h", r"\blambda\b|\bdef\b|\breturn\b": "the text is the expression alone"}


def _words_of_python(text):
    """Return the OpenCL C for Python words in a refused expression."""
    said = [says for word, says in _PYTHON.items() if text and re.search(word, text.decode(errors="replace"))]
    return f"; in OpenCL C {', '.join(said)}" if said else ""


# Texts that have one meaning in Python and another one in OpenCL C.
_CHAIN = re.compile(r"(?<![<>])[<>]=?(?![<>=])[^<>&|?:()!=,/]+(?<![<>])[<>]=?(?![<>=])")
_FLOOR = re.compile(r"[\w)]\s*//[^\n]*(==|!=|[<>]|&&|\|\||[-+*?])")


def _warn_of_python(name, text):
    """Warn of an expression that compiles, but has another value than in Python."""
    text = re.sub(r"/\*.*?\*/", " ", text.decode(errors="replace"), flags=re.S)
    says = "// begins a comment: whole numbers are divided by /" if _FLOOR.search(text) else \
        "a <= b <= c compares the result of a <= b with c: use a <= b && b <= c" \
        if _CHAIN.search(re.sub(r"//.*|\b(and|or|not|if)\b", "&&", text)) else None
    if says:
        warnings.warn(f"clattn: {name}: in OpenCL C {says}", RuntimeWarning, stacklevel=2)
