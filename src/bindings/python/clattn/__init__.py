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
wait for one another."""
import functools
import inspect

from . import _abi, about, buffer, call, context, device, forms, group, opencl, plans, runtime, storage, values, words
from ._abi import *  # noqa: F403
from .buffer import Buffer, Later
from .call import Packed
from .context import Context, Recording, _context
from .device import device_survey, devices
from .group import Group
from .opencl import main as main
from .opencl import onnxruntime_library, opencl_load
from .runtime import Error, cache_clean, kernel_names, library, version
from .storage import BF16, BLOCKS, F8E4M3, F8E5M2, I4, U4, from_bf16, from_blocks, to_bf16, to_blocks

__version__ = f"{_abi.CLATTN_VERSION_MAJOR}.{_abi.CLATTN_VERSION_MINOR}.{_abi.CLATTN_VERSION_PATCH}"
__all__ = ["BF16", "BLOCKS", "Buffer", "Context", "Error", "F8E4M3", "F8E5M2", "Group", "I4", "Later", "Packed", "Recording", "U4",
           "cache_clean", "device_survey", "devices", "from_bf16", "from_blocks", "kernel_names", "library", "onnxruntime_library",
           "opencl_load", "to_bf16", "to_blocks", "version"]
_PARTS = _abi, storage, values, runtime, opencl, device, words, about, buffer, call, forms, context, plans, group


def _first(name):
    """Make a function from a method of Context. It uses the context of a Buffer among its
    arguments, or the first device."""
    method = getattr(Context, name)

    @functools.wraps(method)
    def function(*arguments, **options):
        given = next((x.context for x in (*arguments, *options.values()) if isinstance(x, Buffer)), None)
        return getattr(_context(given), name)(*arguments, **options)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


for _name in plans.CALLS:
    globals()[_name] = _first(_name)
__all__ += plans.CALLS  # noqa: PLE0605
__all__.sort()
# The classes are named as callers import them, in tracebacks and in pickles, too.
for _name in __all__:
    if inspect.isclass(globals()[_name]) or inspect.isfunction(globals()[_name]):
        globals()[_name].__module__ = __name__


def __getattr__(name):
    """Return a name of the package's modules, or a constant by its old name."""
    if name.startswith("CLATTN_DEAL_") and (new := name.replace("DEAL", "PARTITION", 1)) in vars(_abi):
        runtime._old_name(name, new, 2)
        return vars(_abi)[new]
    for part in _PARTS:
        if not name.startswith("__") and name in vars(part):
            return vars(part)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
