"""Memory of a device, and views of it."""
import contextlib
import ctypes as c
import operator
import os
import sys
import threading
from typing import Any

import numpy as np

from ._abi import CLATTN_DRIVER, CLATTN_OUT_OF_MEMORY
from .opencl import (
    CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, _ask,
)
from .runtime import Error, _Owned, library
from .storage import BF16, BLOCKS, STORAGE, from_bf16, to_bf16, to_blocks
from .values import _array, _converted, _number, _type


# Returns the given context, or that of the first device. context.py defines the function, since it
# imports this module.
_context: Any = None


class _Memory(_Owned):
    """A cl_mem. It lives as long as a call or a view uses it, even longer than its context. `owner`
    is the host memory under it."""

    def __init__(self, context, nbytes, flags=CL_MEM_READ_WRITE, address=None, owner=None):
        self.handle, self.context, self.owner, self.pid, code = None, context, owner, os.getpid(), c.c_int32()
        self.nbytes = nbytes
        lib = library()
        self.handle = lib.clCreateBuffer(lib.clattn_context_opencl(context.handle), flags, nbytes if owner is not None
            else max(nbytes, 64), address, c.byref(code))
        if not self.handle:
            raise Error(CLATTN_OUT_OF_MEMORY, f"clCreateBuffer of {nbytes} bytes failed ({code.value})")
        self.queue = context.queue
        _ask(lib, "clRetainCommandQueue", self.queue)

    @classmethod
    def copy(cls, context, array, flags=CL_MEM_READ_WRITE):
        """Copy a dense array."""
        made = array if array.nbytes >= 64 else np.resize(array, 64) if array.size else np.zeros(64, np.uint8)
        return cls(context, array.nbytes, flags | CL_MEM_COPY_HOST_PTR, made.ctypes.data)

    @classmethod
    def zeros(cls, context, nbytes):
        made, zero = cls(context, nbytes), c.c_uint8(0)
        _ask(library(), "clEnqueueFillBuffer", context.queue, made.handle, c.byref(zero), 1, 0, max(nbytes, 64), 0, None, None)
        return made

    def __del__(self):
        if self.handle and sys is not None and not sys.is_finalizing() and self.pid == os.getpid():
            lib = library()
            if self.owner is not None:
                lib.clFinish(self.queue)  # commands may still use the owner's memory
            lib.clReleaseMemObject(self.handle)
            lib.clReleaseCommandQueue(self.queue)


class _Views(np.ndarray):
    """An array from which numpy makes views. Its elements have no memory and are never read."""

    def __repr__(self):
        return f"<views of shape {self.shape}>"
    __str__ = __repr__


class Later(_Owned):
    """The result of Buffer.later(): numbers that are being read. Several threads may use it."""
    _event = _failed = None

    def __init__(self, span, view, event, memory):
        self._kept, self._view, self._lock, self._pid = (span, memory), view, threading.Lock(), os.getpid()
        self._event = event

    def numpy(self):
        """Wait until the numbers are read, and return the numpy array."""
        if self._event and self._pid != os.getpid():
            # The driver's threads exist only in that process.
            raise ValueError("the numbers are another process's")
        with self._lock:
            # Hold the lock until the wait ends. Otherwise a second thread could get numbers that
            # are not read yet.
            if self._event:
                code = library().clWaitForEvents(1, c.byref(self._event))
                event, self._event = self._event, None
                library().clReleaseEvent(event)
                self._failed = Error(CLATTN_DRIVER, f"clWaitForEvents failed ({code})") if code else None
        if self._failed:
            raise self._failed
        return self._view

    def __repr__(self):
        return f"<clattn.Later of shape {list(self._view.shape)}, {'not read yet' if self._event else 'read'}>"

    def __del__(self):
        if self._event and sys is not None and not sys.is_finalizing() and self._pid == os.getpid():
            with contextlib.suppress(Error):
                self.numpy()  # memory must not be freed while it is being written


class Buffer:
    """A tensor in memory of a device, with a copy of a numpy array. Buffer.zeros and Buffer.over
    make others.

        array    a numpy array, or an object that numpy or torch can convert to one
        dtype    None: the array's type; or numpy's name of a type, or one of
            "float32", "float16", "bool", "int8", "int32"
            "bfloat16": uint16 are used as its bits, other numbers are rounded. numpy has no
                bfloat16, so numpy() returns BF16: see from_bf16()
            "float8_e4m3fn", "float8_e5m2": uint8 are used as their bits. Other numbers are not
                accepted; append() rounds them
            "int4", "uint4": bytes with two numbers of k, v or weights, as uint8 [..., D / 2]:
                n[..., ::2] & 15 | n[..., 1::2] << 4
            "q8_0", "q4_0", "q4_1": blocks of weights, or of k and v: an array of BLOCKS, the bytes
                of a GGUF file (uint8), or the result of to_blocks()
        context  a Context; None: the context of the first device, as for the module's functions

    Attributes and methods:

        buffer[:, :, 3:7], .transpose(0, 2, 1, 3), .reshape, .broadcast_to    views of the memory
        buffer[...] = array, .write      write numbers
        .numpy()                         wait for earlier calls, and copy the numbers to the host
        .dtype, .shape, .strides         the type's word; sizes and strides in elements
        .shared                          True over the caller's own memory

    A Buffer may outlive its context, but cannot be used then."""

    def __init__(self, array, dtype=None, context=None):
        array = _array("array", array)
        word = _type("dtype", _narrow(array.dtype) if dtype is None else dtype)
        array = _stored("array", array, word)
        array = np.ascontiguousarray(array).reshape(array.shape)
        context = _context(context)
        with context._use():
            self._set(_Memory.copy(context, array), word, array.shape)

    @classmethod
    def zeros(cls, shape, dtype="float32", context=None):
        """Make a Buffer that is filled with zeros."""
        self, word, context = cls.__new__(cls), _type("dtype", dtype), _context(context)
        shape = _shape(shape)
        with context._use():
            self._set(_Memory.zeros(context, int(np.prod(shape, dtype=object)) * STORAGE[word][1].itemsize), word, shape)
        return self

    @classmethod
    def over(cls, array, dtype=None, context=None, copy=False):
        """Make a Buffer over the memory of a numpy array, a torch tensor, or a CPU object with
        __dlpack__.

        Results of calls are visible there after .wait(). The host may write there while no call is
        running. A device that cannot use such memory is an error, or with `copy` causes a copy.
        dtype="bfloat16" uses uint16 as its bits."""
        self, given, context = cls.__new__(cls), array, _context(context)
        array = _array("array", given)
        if isinstance(given, np.ndarray) and array is not given:
            raise ValueError("array: its bytes are in another order than the machine's: Buffer(array) copies it")
        word = _type("dtype", array.dtype if dtype is None else dtype)
        kind = STORAGE[word][1]
        if array.dtype != kind and not (word == "bfloat16" and array.dtype.itemsize == 2 and array.dtype.name in ("uint16", "bfloat16")):
            raise TypeError(f"array: {array.dtype} cannot lie as {word}: Buffer(array, dtype) converts a copy")
        reason = "a stride is negative, or no multiple of an element" if any(s < 0 or s % kind.itemsize for s in array.strides) else \
            "its address is no multiple of an element" if array.ctypes.data % kind.itemsize else \
            "it has no elements" if not array.size else None
        with context._use():
            nbytes = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + kind.itemsize
            if not reason and not context._in_place(array.ctypes.data, nbytes):
                reason = "the device has memory of its own"
            if reason and not copy:
                raise ValueError(f"array: it cannot be shared, {reason}: Buffer(array) copies it, and so does over(array, copy=True)")
            if reason:
                return cls(array, word, context)
            flags = CL_MEM_USE_HOST_PTR | (CL_MEM_READ_WRITE if array.flags.writeable else CL_MEM_READ_ONLY)
            memory = _Memory(context, nbytes, flags, array.ctypes.data, owner=(given, array))
        self._set(memory, word, array.shape, array.strides)
        return self

    def _set(self, memory, word, shape, strides=None):
        """Set the memory and the view.

        `_at` is an array from which numpy makes views, so that numpy computes offsets and strides.
        It has no memory for its elements, which are never read."""
        self._memory, self.dtype, one = memory, word, np.zeros(1, STORAGE[word][1])
        if strides is None:
            strides = np.cumprod((one.itemsize,) + shape[:0:-1])[::-1].tolist() if shape else ()
        self._at, self._origin = np.lib.stride_tricks.as_strided(one.view(_Views), shape, strides, subok=True), one.ctypes.data

    def _view(self, at):
        made = Buffer.__new__(Buffer)
        made._memory, made.dtype, made._at, made._origin = self._memory, self.dtype, at, self._origin
        return made

    context = property(lambda self: self._memory.context)
    shape = property(lambda self: self._at.shape)
    strides = property(lambda self: tuple(s // self._at.itemsize for s in self._at.strides))
    offset = property(lambda self: (self._at.ctypes.data - self._origin) // self._at.itemsize)
    ndim, size = property(lambda self: self._at.ndim), property(lambda self: self._at.size)
    shared = property(lambda self: self._memory.owner is not None)

    def __repr__(self):
        return f"<clattn.Buffer {self.dtype} {list(self.shape)}{' over memory of the host' * self.shared} on {self.context._named()}>"

    def __len__(self):
        return len(self._at)

    def __getitem__(self, index):
        index = tuple(_part(part) for part in (index if isinstance(index, tuple) else (index,)))
        return self._view(self._at[index if any(part is Ellipsis for part in index) else index + (Ellipsis,)])

    def transpose(self, *axes):
        """Return a view with its axes in another order, as numpy does."""
        return self._view(self._at.transpose(*axes))

    def reshape(self, *shape):
        """Return a view of the same numbers with another shape, if that needs no copy."""
        at = self._at.view()
        try:
            at.shape = shape[0] if len(shape) == 1 else shape
        except (AttributeError, ValueError) as error:
            raise ValueError(f"a view of shape {self.shape} and strides {self.strides} has no other shape {shape}: {error}") from None
        return self._view(at)

    def broadcast_to(self, shape):
        """Return a view that repeats axes of size 1. Calls can read such a view."""
        return self._view(np.broadcast_to(self._at, shape, subok=True))

    def _pieces(self):
        """Return contiguous runs of elements as (offset, count, index), or None if there are more
        than 256 runs."""
        if not self.size:
            return []
        dense, axes = 1, self.ndim
        while axes and (self.shape[axes - 1] == 1 or self.strides[axes - 1] == dense):
            axes -= 1
            dense *= self.shape[axes]
        outer = self.shape[:axes]
        if np.prod(outer) > 256:
            return None
        return [(self.offset + sum(i * s for i, s in zip(index, self.strides)), dense, index) for index in np.ndindex(*outer)]

    def _span(self, event=None):
        """Read all elements from the first to the last. Returns them, and the view of them."""
        span = np.empty(1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides)), STORAGE[self.dtype][1])
        self._move("clEnqueueReadBuffer", self.offset, span, event)
        return span, np.lib.stride_tricks.as_strided(span, self.shape, self._at.strides)

    def _move(self, function, offset, array, event=None):
        """Copy between the device and an array. With `event` it does not wait, and sets the
        event."""
        _ask(library(), function, self.context.queue, self._memory.handle, event is None, offset * array.itemsize, array.nbytes,
             array.ctypes.data, 0, None, None if event is None else c.byref(event))

    def _put(self, offset, array):
        """Write elements. A few elements in a device's own memory are written by a fill command,
        which needs no wait."""
        n, at = array.nbytes, offset * array.itemsize
        if self.shared or n > 16 or n & (n - 1) or at % n:
            self._move("clEnqueueWriteBuffer", offset, array)
        else:
            _ask(library(), "clEnqueueFillBuffer", self.context.queue, self._memory.handle, array.ctypes.data, n, at, n, 0, None, None)

    def numpy(self):
        """Wait for earlier calls, and return the numbers as a numpy array."""
        with self.context._use():
            found, pieces = np.empty(self.shape, STORAGE[self.dtype][1]), self._pieces()
            if pieces is None:
                found[...] = self._span()[1]
            for offset, count, index in pieces or ():
                self._move("clEnqueueReadBuffer", offset, found[index + (Ellipsis,)].reshape(count))
        return found

    def later(self):
        """Read the numbers as they are after earlier calls, without waiting. Later calls may change
        the Buffer.

        The result's numpy() waits only for these numbers, so that the next step of a loop can run
        meanwhile."""
        if not self.size:
            return Later(None, self.numpy(), None, None)
        with self.context._use():
            event = c.c_void_p()
            span, view = self._span(event)
            return Later(span, view, event, self._memory)

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def write(self, array):
        """Write an array's numbers into the Buffer, with numpy's broadcasting."""
        if 0 in [s for s, n in zip(self.strides, self.shape) if n > 1]:
            raise ValueError("a view that repeats is not written")
        if self.shared and not self._memory.owner[1].flags.writeable:
            raise ValueError("the Buffer shares an array that may not be written")
        array = array.numpy() if isinstance(array, Buffer) else _array("array", array)
        array = np.broadcast_to(_stored("array", array, self.dtype), self.shape)
        with self.context._use():
            pieces = self._pieces()
            if pieces is None:
                span, view = self._span()
                view[...] = array
                self._move("clEnqueueWriteBuffer", self.offset, span)
            for offset, count, index in pieces or ():
                self._put(offset, np.ascontiguousarray(array[index]).reshape(count))

    def __setitem__(self, index, array):
        self[index].write(array)

    def wait(self):
        """Wait until all earlier calls have finished."""
        with self.context._use():
            _ask(library(), "clFinish", self.context.queue)
        return self


def _part(part):
    """Return an index with which numpy makes a view. An index that would read elements is
    refused."""
    if isinstance(part, slice) and part.step is not None and part.step < 0:
        raise ValueError("a view of a Buffer has no negative step")
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    try:
        if isinstance(part, (bool, np.bool_, np.ndarray)):
            raise TypeError
        return operator.index(part)
    except Exception:
        raise TypeError(f"a Buffer is viewed by numbers and slices, not by {type(part).__name__}") from None


def _shape(shape):
    shape = tuple(_number("shape", n, c.c_int64) for n in (shape if np.iterable(shape) else (shape,)))
    if min(shape, default=0) < 0:
        raise ValueError(f"shape: {shape} has a size below 0")
    return shape


def _narrow(dtype):
    """Return the type for an array: int32 for integers such as those of a list, else its own."""
    return np.dtype(np.int32) if dtype.kind in "iu" and dtype.itemsize > 1 else dtype


def _stored(name, array, word):
    """Convert an array to numpy's form of a storage type. Only floating-point types round."""
    kind = STORAGE[word][1]
    if array.dtype == kind:
        return array
    if word in BLOCKS and array.dtype == np.uint8 and array.ndim and array.shape[-1] % kind.itemsize == 0:
        return np.ascontiguousarray(array).view(kind)
    if word in BLOCKS and array.dtype.kind == "f":
        return to_blocks(array, word)
    if kind.names and array.dtype.name in (word, f"uint{8 * kind.itemsize}"):
        return np.ascontiguousarray(array).view(f"u{kind.itemsize}").view(kind).reshape(array.shape)
    if array.dtype == BF16 or array.dtype.name == "bfloat16":
        array = from_bf16(array).reshape(array.shape)
    if word == "bfloat16" and array.dtype.kind in "iuf":
        return to_bf16(array).reshape(array.shape)
    if kind.kind == "f" and array.dtype.kind in "iuf":
        return array.astype(kind)
    return _converted(name, array, kind)
