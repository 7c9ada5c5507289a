"""The OpenCL devices of the system."""
import ctypes as c
import os

from ._abi import (
    CLATTN_OK, CLATTN_UNSUPPORTED, ENUMS, clattn_capabilities, clattn_context_params, clattn_device,
)
from .opencl import _with_opencl
from .runtime import Error, _lock, _Log, library
from .values import _number, _text, _words


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


def _chosen(device, count):
    """Return a device's number for a number, "gpu", "cpu", or a part of one device's name.

    None means the environment variable CLATTN_DEVICE, and without it device 0."""
    said = "device"
    if device is None:
        device, said = os.environ.get("CLATTN_DEVICE") or 0, "CLATTN_DEVICE"
    if isinstance(device, str) and device.isdecimal() and int(device) < count:
        device = int(device)
    if not isinstance(device, str) and 0 <= _number(said, device, c.c_int32) < count:
        return device
    listed = devices()
    word = str(device).lower()
    typed = [n for n, facts in enumerate(listed) if word == facts["type"]]
    whole = [n for n, facts in enumerate(listed) if word == facts["name"].lower()]
    named = [n for n, facts in enumerate(listed) if word in facts["name"].lower()]
    named = typed[:1] or (whole if len(whole) == 1 else named) or \
        [n for n, facts in enumerate(listed) if word in facts["platform"].lower()]
    if isinstance(device, str) and len(named) == 1:
        return named[0]
    what = f"{len(named)} devices are called {device!r}" if isinstance(device, str) else f"there is no device {device}"
    raise ValueError(f"{said}: {what}: " +
                     "; ".join(f"{n} is {facts['name']!r} ({facts['type']})" for n, facts in enumerate(listed)))


def device_survey(cache_dir, device=None, resume=False, engines=0):
    """Try what may crash the process on an unknown driver: inline assembly, matrix instructions,
    first builds.

    Call it in a child process of your own, and again with resume=True while the child ends by a
    signal. cache_dir stores the answers for later contexts. `device` and `engines` have the same
    meaning as in Context."""
    log = _Log()
    listed = _devices(log)
    if not listed:
        log.check(CLATTN_UNSUPPORTED)
    params = clattn_context_params(device=listed[_chosen(device, len(listed))].device, log=log.struct,
                                   cache_dir=_text("cache_dir", cache_dir), engines=_number("engines", engines, c.c_uint32))
    log.check(library().clattn_device_survey(c.byref(params), bool(resume)))
