"""The loaded library, and the errors and lines that it reports."""
import collections
import ctypes as c
import os
import sys
import threading
import warnings

from ._abi import (
    CLATTN_KERNEL_COUNT, CLATTN_LOG_ERROR, CLATTN_LOG_INFO, CLATTN_OK, CLATTN_VERSION_MAJOR,
    CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH, FUNCTIONS, LIBRARY, LIBRARY_PATH, clattn_log,
)
from .values import _number, _text


class Error(Exception):
    """A call was refused or failed. `status` is a CLATTN_ number, `name` its word, `text` its
    meaning."""

    def __init__(self, status, message):
        self.status = status
        self.name = library().clattn_status_name(status).decode()
        self.text = library().clattn_status_text(status).decode()
        super().__init__(f"{self.name}: {message}" if message else self.name)
        self._said = status, message

    def __reduce__(self):
        return type(self), self._said


class _Library(c.CDLL):
    """The library, with the OpenCL functions that it found; None for missing ones."""

    looked = False  # OpenCL is looked up when a device is needed


_library: _Library | None = None
_lock = threading.RLock()


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
            lib = _Library(found)
            lib.clattn_version_number.restype = c.c_int
            made = CLATTN_VERSION_MAJOR * 1000000 + CLATTN_VERSION_MINOR * 1000 + CLATTN_VERSION_PATCH
            if lib.clattn_version_number() // 1000 != made // 1000:
                raise ImportError(f"{found} is version {lib.clattn_version_number()}, this module is for {made}")
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(lib, name)
                function.restype, function.argtypes = result, arguments
            _library = lib
        elif path:
            raise ImportError("the library is loaded already")
    return _library


def _old_name(old, new, depth):
    """Warn that a name of version 0.1 is used. `depth` is 1 for the caller of this function."""
    warnings.warn(f"clattn: {old} is now {new}, and the old name goes with version 0.3", DeprecationWarning, stacklevel=depth + 1)


class _Owned:
    """An object that owns a handle. A copy would release the handle a second time, so copy,
    deepcopy and pickle are refused."""

    def __reduce_ex__(self, _):
        raise TypeError(f"a clattn.{type(self).__name__.strip('_')} has a handle and is not copied")


class _Closed(_Owned):
    """An object with a library handle and a close(). The end of a `with` or the garbage collector
    calls close()."""

    handle: c.c_void_p | None = None

    def close(self):
        raise NotImplementedError

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
        self.said: collections.deque[str] = collections.deque(maxlen=20)
        self.unkept: collections.deque[str] = collections.deque(maxlen=20)
        self.warned = False
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
        if self.unkept and not self.warned:
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
