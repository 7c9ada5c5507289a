# Where OpenCL comes from: the system's, else what packages of PyPI have of it, which is opened by its path, so that nobody sets
# environment variables. pyopencl's own loader is none of them: it fails in the hands of another.
_PACKAGED = (("nvidia-cuda-opencl", "libOpenCL.so.1"),  # a loader, which finds the drivers of the system
             ("intel-opencl-rt", "libintelocl.so"))     # a driver that runs on any x86-64 CPU, with OpenCL's functions of its own


def _packaged():
    """Those files that are installed."""
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
    """The path of the first that shows a platform, where the system's OpenCL shows none; else None. Without such packages nothing is
    asked: the library looks for the system's itself."""
    found = list(_packaged())
    if not found or _has_platforms("libOpenCL.so.1"):
        return None
    return next(filter(_has_platforms, found), None)


def _with_opencl():
    """The library, which has looked for OpenCL, with the functions of OpenCL that it found; they are None without one."""
    lib = library()
    with _lock:
        if not lib.looked:
            path = _packaged_opencl()
            if path:  # refused where opencl_load() was first
                lib.clattn_opencl_load(c.byref(clattn_opencl_params(path=os.fsencode(path))))
            for name, (result, arguments) in OPENCL.items():
                at = lib.clattn_opencl_function(name.encode())
                setattr(lib, name, c.CFUNCTYPE(result, *arguments)(at) if at else None)
            lib.looked = True
    return lib


def opencl_load(path):
    """Take this OpenCL, by its path or name, before anything else needs a device."""
    log = _Log()
    log.check(library().clattn_opencl_load(c.byref(clattn_opencl_params(path=_text("path", path), log=log.struct))))


def onnxruntime_library():
    """The path of libclattn-onnxruntime, which is installed beside the library, for ONNX Runtime to load: docs/onnxruntime.md. It takes
    the OpenCL that this module found."""
    name = "libclattn-onnxruntime" + (".dylib" if sys.platform == "darwin" else ".so")
    places = os.path.dirname(_with_opencl()._name), os.path.dirname(os.path.abspath(__file__))
    for place in (*places, os.path.join(places[1], LIBRARY_PATH)):
        if os.path.isfile(path := os.path.join(place, name)):
            return os.path.abspath(path)
    raise Error(CLATTN_UNSUPPORTED, f"{name} was not installed with the library: it was built with -Donnxruntime=disabled")


def main():
    """Run the program clattn, which lies beside the library or was installed with it, in this process' place: python -m clattn."""
    here = os.path.dirname(os.path.abspath(__file__))
    program = next((place for place in (os.path.join(here, "clattn"), os.path.join(here, PROGRAM_PATH, "clattn")) if os.path.isfile(place)),
        None)
    if not program:
        sys.exit("clattn: the program was not installed with the module: it was built without jansson, or with -Dtool=disabled")
    path = _packaged_opencl()
    if path:  # where the program looks for a loader first, and the driver beside it that this one is to load
        places = {"LD_LIBRARY_PATH": os.path.dirname(path), "OCL_ICD_FILENAMES": "" if "libOpenCL" in os.path.basename(path) else path}
        os.environ.update({name: os.pathsep.join(filter(None, (first, os.environ.get(name)))) for name, first in places.items()})
    os.execv(program, ["clattn", *sys.argv[1:]])
