"""OpenCL, which is the system's or comes from packages of PyPI.

A package's library is opened by its path, so that nobody needs to set environment variables.
pyopencl's own loader is not used, because it fails outside of pyopencl."""
import contextlib
import ctypes as c
import importlib.metadata
import os
import sys
from typing import Any

from ._abi import (
    CLATTN_DRIVER, CLATTN_UNSUPPORTED, LIBRARY_PATH, PROGRAM_PATH, clattn_opencl_params,
)
from .runtime import Error, _lock, _Log, library
from .values import _text

CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR = 1, 4, 8, 32
_P, _N, _U = c.c_void_p, c.c_size_t, c.c_uint32
OPENCL: dict[str, tuple[Any, list[Any]]] = {"clCreateBuffer": (_P, [_P, c.c_uint64, _N, _P, _P]), "clReleaseMemObject": (c.c_int32, [_P]),
          "clCreateCommandQueue": (_P, [_P, _P, c.c_uint64, _P]), "clRetainCommandQueue": (c.c_int32, [_P]),
          "clReleaseCommandQueue": (c.c_int32, [_P]), "clFlush": (c.c_int32, [_P]), "clFinish": (c.c_int32, [_P]),
          "clWaitForEvents": (c.c_int32, [_U, _P]), "clReleaseEvent": (c.c_int32, [_P]),
          "clEnqueueReadBuffer": (c.c_int32, [_P, _P, _U, _N, _N, _P, _U, _P, _P]),
          "clEnqueueWriteBuffer": (c.c_int32, [_P, _P, _U, _N, _N, _P, _U, _P, _P]),
          "clEnqueueCopyBuffer": (c.c_int32, [_P, _P, _P, _N, _N, _N, _U, _P, _P]),
          "clEnqueueFillBuffer": (c.c_int32, [_P, _P, _P, _N, _N, _N, _U, _P, _P])}


def _ask(lib, name, *arguments):
    """Call an OpenCL function that returns a status."""
    code = getattr(lib, name)(*arguments)
    if code:
        raise Error(CLATTN_DRIVER, f"{name} failed ({code})")


# A loader, which finds the system's drivers.
_PACKAGED = (("nvidia-cuda-opencl", "libOpenCL.so.1"),
             # A driver for any x86-64 CPU, which has OpenCL's functions itself.
             ("intel-opencl-rt", "libintelocl.so"))


def _packaged():
    """Yield the paths of the packaged libraries that are installed."""
    for package, name in _PACKAGED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(package) or ():
                if file.name == name and os.path.exists(file.locate()):
                    yield os.path.abspath(file.locate())


def _has_platforms(path):
    count = c.c_uint32()
    with contextlib.suppress(OSError, AttributeError):
        c.CDLL(path).clGetPlatformIDs(0, None, c.byref(count))
    return count.value > 0


def _packaged_opencl():
    """Return the path of the first packaged library with a platform, if the system's OpenCL has
    none.

    Otherwise return None, and the library looks for the system's OpenCL itself."""
    found = list(_packaged())
    if not found or _has_platforms("libOpenCL.so.1"):
        return None
    return next(filter(_has_platforms, found), None)


def _with_opencl():
    """The library, after it has looked for OpenCL, with the OpenCL functions that it found; None
    for missing ones."""
    lib = library()
    with _lock:
        if not lib.looked:
            path = _packaged_opencl()
            if path:  # fails if opencl_load() was called before
                lib.clattn_opencl_load(c.byref(clattn_opencl_params(path=os.fsencode(path))))
            for name, (result, arguments) in OPENCL.items():
                at = lib.clattn_opencl_function(name.encode())
                setattr(lib, name, c.CFUNCTYPE(result, *arguments)(at) if at else None)
            lib.looked = True
    return lib


def opencl_load(path):
    """Use the OpenCL library at this path or of this name. Call it before anything else needs a
    device."""
    log = _Log()
    log.check(library().clattn_opencl_load(c.byref(clattn_opencl_params(path=_text("path", path), log=log.struct))))


def onnxruntime_library():
    """Return the path of libclattn-onnxruntime, for ONNX Runtime to load: docs/onnxruntime.md.

    It is installed beside the library, and uses the OpenCL that this module found."""
    name = "libclattn-onnxruntime" + (".dylib" if sys.platform == "darwin" else ".so")
    places = os.path.dirname(_with_opencl()._name), os.path.dirname(os.path.abspath(__file__))
    for place in (*places, os.path.join(places[1], LIBRARY_PATH)):
        if os.path.isfile(path := os.path.join(place, name)):
            return os.path.abspath(path)
    raise Error(CLATTN_UNSUPPORTED, f"{name} was not installed with the library: it was built with -Donnxruntime=disabled")


def main():
    """Replace this process by the program clattn: python -m clattn.

    The program is beside the library, or was installed with it."""
    here = os.path.dirname(os.path.abspath(__file__))
    program = next((place for place in (os.path.join(here, "clattn"), os.path.join(here, PROGRAM_PATH, "clattn")) if os.path.isfile(place)),
        None)
    if not program:
        sys.exit("clattn: the program was not installed with the module: it was built without jansson, or with -Dtool=disabled")
    path = _packaged_opencl()
    # The program looks for a loader here first, and the packaged loader for its driver beside it.
    if path:
        places = {"LD_LIBRARY_PATH": os.path.dirname(path), "OCL_ICD_FILENAMES": "" if "libOpenCL" in os.path.basename(path) else path}
        os.environ.update({name: os.pathsep.join(filter(None, (first, os.environ.get(name)))) for name, first in places.items()})
    os.execv(program, ["clattn", *sys.argv[1:]])
