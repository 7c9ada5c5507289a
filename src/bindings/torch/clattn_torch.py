"""clattn in PyTorch: attention on tensors of the CPU, with gradients, on any OpenCL device.

    import clattn_torch
    # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    out = clattn_torch.attention(q, k, v, causal=True, window=(127, 0))
    # The same arguments as torch's function.
    torch.nn.functional.scaled_dot_product_attention = clattn_torch.scaled_dot_product_attention
    # Or within torch, for all callers: importing this module registers the name.
    torch.nn.attention.activate_flash_attention_impl("clattn")
    # transformers: from_pretrained(..., attn_implementation="clattn")
    clattn_torch.register()

A device that works in host memory, such as a CPU, reads and writes torch's own memory. Other
devices get copies. The operators are torch.ops.clattn.attention and
torch.ops.clattn.attention_backward. They work with torch.compile, torch.export and autograd.

torch's own attention computes tensors of float64 and tensors that are not on the CPU, after one
warning. Second derivatives and derivatives in forward mode raise an exception."""
import contextlib
import ctypes
import functools
import math
import operator
import struct
import warnings

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.attention
import torch.nn.functional as functional

import clattn
from clattn.buffer import _Memory
from clattn.call import last_error
from clattn.context import _context
from clattn.opencl import CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, _ask

_OWN = functional.scaled_dot_product_attention
_TAKEN = (torch.float32, torch.float16, torch.bfloat16)
_TYPES = {torch.float32: clattn.CLATTN_TYPE_F32, torch.float16: clattn.CLATTN_TYPE_F16, torch.bfloat16: clattn.CLATTN_TYPE_BF16,
          torch.bool: clattn.CLATTN_TYPE_BOOL, torch.uint8: clattn.CLATTN_TYPE_BOOL}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_dispatch_modes, _transforms, _tracing = (getattr(torch._C, name) for name in (
    "_len_torch_dispatch_stack", "_are_functorch_transforms_active", "_get_tracing_state"))
_said: set[str] = set()


def _packing(kind):
    """Return the function by which struct packs a ctypes struct."""
    letters = {ctypes.c_void_p: "P", ctypes.c_int64: "q", ctypes.c_int: "i"}
    fields = ((field, 1) if field in letters else (field._type_, field._length_) for _, field in kind._fields_)
    packing = struct.Struct("@" + "".join(letters[field] * count for field, count in fields))
    if packing.size != ctypes.sizeof(kind):
        raise ImportError(f"{kind.__name__} has {ctypes.sizeof(kind)} bytes, not {packing.size}")
    return packing.pack_into


def _place(kind, path):
    """Return the byte offset of a field in a struct."""
    at = 0
    for name in path.split("."):
        at, kind = at + getattr(kind, name).offset, kind.kinds[name]
    return at


_put_tensor, _put_seed = _packing(clattn.clattn_tensor), struct.Struct("@Q").pack_into
_READ, _WRITTEN = CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY, CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE
# Zeros for the axes that a tensor of each rank lacks.
_REST = [(0,) * (4 - rank) for rank in range(5)]


class _Call:
    """A function of the library and its struct.

    For each tensor it has the field, whether the field is written, and whether the last axis must
    be dense."""

    def __init__(self, function, kind, within, **fields):
        self.function, self.kind, self.block = function, kind, ctypes.c_char * ctypes.sizeof(kind)
        shared = {"q": "q", "k": "kv.k", "v": "kv.v", "mask": "score.mask", "bias": "score.bias", "sinks": "score.sinks_device"}
        fields = {**{name: (within + path, False, name in ("q", "k", "v")) for name, path in shared.items()}, **fields}
        self.fields = [(name, _place(kind, path), *more) for name, (path, *more) in fields.items()]
        self.seed = _place(kind, within + "score.dropout_seed")


_FORWARD = _Call("clattn_attention_enqueue", clattn.clattn_attention_params, "", out=("out", True, True), lse=("lse", True, False))
_BACKWARD = _Call("clattn_attention_backward_enqueue", clattn.clattn_attention_backward_params, "forward.",
                  out=("forward.out", False, True), lse=("forward.lse", False, False), dout=("dout", False, True),
                  dlse=("dlse", False, False),
                  **{name: (name, True, True) for name in ("dq", "dk", "dv", "dbias", "dsinks")})


@functools.lru_cache(1024)
def _prepared(kind, heads, causal, alignment, scale, softcap, window, dropout):
    """Return the bytes of a call's struct with its options, and the objects to which the struct
    points.

    A scale of 0 is passed as head_scales, because clattn_score's scale of 0 means the default."""
    options = {"causal": causal, "alignment": alignment, "scale": scale, "softcap": softcap, "dropout": dropout or None}
    if ctypes.c_float(scale).value == 0:
        options.update(scale=None, head_scales=[0.0] * heads)
    call = clattn.call._Call(None, kind(), {"H": heads})
    call.options(call.params, {**options, "window": window or None})
    return bytes(call.params), call.kept


def _launch(call, options, seed, *tensors):
    """Run one call of the library on torch's tensors; None for absent ones.

    It works in torch's own memory, or on copies for a device with memory of its own. The call has
    ended when this function returns, so that no OpenCL buffer outlives the memory under it."""
    template, kept = _prepared(call.kind, tensors[0].shape[1], *options)
    params, context, held, back = call.block.from_buffer_copy(template), _context(), [], []
    _put_seed(params, call.seed, seed)
    with context._use() as lib:
        opencl, queue, recorded = lib.clattn_context_opencl(context.handle), context.queue, context._recorded
        try:
            for (name, place, written, dense), x in zip(call.fields, tensors):
                if x is None:
                    continue
                kind, shape, stride, address = _TYPES.get(x.dtype), x.shape, x.stride(), x.data_ptr()
                rank = len(shape)
                if kind is None or not 1 <= rank <= 4:
                    raise TypeError(f"{name}: {x.dtype} of {rank} axes is not taken: float32, float16 and bfloat16 are, bool for a mask")
                rest, nbytes = _REST[rank], x.nbytes
                if not nbytes:  # it needs no buffer
                    _put_tensor(params, place, 0, 0, kind, rank, *shape, *rest, *stride, *rest, 0, 0)
                    continue
                if not x.is_contiguous():  # from the first element to the last
                    nbytes = (sum(map(operator.mul, shape, stride)) - sum(stride) + 1) * x.element_size()
                shared = context._in_place(address, nbytes)
                if (dense and stride[-1] != 1) or address & 3 and address % x.element_size() or not (shared or written):
                    x = x.clone(memory_format=torch.contiguous_format)
                    stride, address, nbytes = x.stride(), x.data_ptr(), x.nbytes
                    shared = shared and context._in_place(address, nbytes)
                if shared and recorded is None:
                    memory = lib.clCreateBuffer(opencl, _WRITTEN if written else _READ, nbytes, address, None)
                    if not memory:
                        raise clattn.Error(clattn.CLATTN_OUT_OF_MEMORY, f"clCreateBuffer of {nbytes} bytes failed")
                    held.append((memory, x))
                elif shared:
                    kept = kept, _Memory(context, nbytes, _WRITTEN if written else _READ, address, owner=x)
                    memory = kept[1].handle
                elif recorded is not None:
                    raise ValueError("a call on torch's tensors is recorded only on a device that works in the host's memory")
                else:
                    kept = kept, _Memory(context, nbytes) if written else \
                        _Memory.copy(context, x.view(-1).view(torch.uint8).numpy())
                    memory = kept[1].handle
                    back += [(memory, nbytes, address)] * written
                _put_tensor(params, place, memory, 0, kind, rank, *shape, *rest, *stride, *rest, 0, 0)
            status = getattr(lib, call.function)(context.handle, queue, params, 0, None, None)
            if status:
                raise clattn.Error(status, last_error(context.handle))
            if recorded is not None:
                recorded.kept.append(kept)
            for memory, nbytes, address in back:
                _ask(lib, "clEnqueueReadBuffer", queue, memory, 0, 0, nbytes, address, 0, None, None)
        finally:
            ended = lib.clFinish(queue)
            for memory, _ in held:
                lib.clReleaseMemObject(memory)
    if ended:
        raise clattn.Error(clattn.CLATTN_DRIVER, f"clFinish failed ({ended})")


def _wide(x):
    """Return a tensor whose rows are not empty. An added column of zeros changes no product; the
    library refuses empty rows."""
    return x if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)


def _forward(q, k, v, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, *, out=None, lse=None):
    """Compute attention into `out`, and into `lse` if it is passed. Nothing is computed for a call
    without rows."""
    items, heads, rows, width = q.shape
    if out is None:  # q's shape and layout are the fastest to allocate
        out = torch.empty_like(q) if v.shape[-1] == width and q.is_contiguous() else q.new_empty((items, heads, rows, v.shape[-1]))
    drops_all = dropout and ctypes.c_float(dropout).value == 1
    if items and heads and rows:
        options = (causal, alignment, scale, softcap, tuple(window), 0.0 if drops_all else dropout)
        sinks = sinks.float() if sinks is not None and sinks.dtype not in _TAKEN else sinks
        _launch(_FORWARD, options, seed, _wide(q), _wide(k), _wide(v), mask, bias, sinks, _wide(out), lse)
    return out.zero_() if drops_all else out


def _gradients(dout, dlse, q, k, v, out, lse, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, wants, *,
               made=None):
    """Return dq, dk, dv, and float32 dbias and dsinks as `wants` selects. Without rows, or if a
    tensor is empty, they are zeros."""
    sized = q.numel() and k.numel() and v.numel()
    make = torch.empty if sized else torch.zeros
    made = made or [make(x.shape, dtype=x.dtype, device="cpu") for x in (q, k, v)]
    found = [make(x.shape, dtype=torch.float32, device="cpu") if wanted else None for x, wanted in zip((bias, sinks), wants)]
    if ctypes.c_float(dropout).value == 1:
        dout, dropout = torch.zeros_like(dout), 0.0
    if q.shape[0] and q.shape[1] and q.shape[2]:
        options = (causal, alignment, scale, softcap, tuple(window), dropout)
        sinks = sinks.float() if sinks is not None and sinks.dtype not in _TAKEN else sinks
        _launch(_BACKWARD, options, seed, _wide(q), _wide(k), _wide(v), mask, bias, sinks, _wide(out), lse, _wide(dout), dlse,
                *map(_wide, made), *found)
    return [*made, *found]


def _refuse_tangents(*tensors):
    """Refuse tangents: the operators have no forward-mode derivative, and torch would silently drop
    a tangent."""
    if forward_ad._current_level >= 0 and _has_tangent(tensors):
        raise NotImplementedError("clattn_torch: attention has no derivative in forward mode (jvp, jacfwd, dual_level)")


def _has_tangent(tensors):
    return any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None,
               sinks: torch.Tensor | None, causal: bool, alignment: str, scale: float, softcap: float, window: list[int], dropout: float,
               seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    _refuse_tangents(q, k, v, bias, sinks)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device="cpu")
    return _forward(q, k, v, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, lse=lse), lse


@_attention.register_fake
def _(q, k, v, *_):
    return q.new_empty(q.shape[:3] + v.shape[3:]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward(dout: torch.Tensor, dlse: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
              lse: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None, sinks: torch.Tensor | None, causal: bool,
              alignment: str, scale: float, softcap: float, window: list[int], dropout: float, seed: int,
              wants: list[bool]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    _refuse_tangents(dout, dlse, q, k, v, out, lse, bias, sinks)
    found = _gradients(dout, dlse, q, k, v, out, lse, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, wants)
    return tuple(torch.empty(0, device="cpu") if x is None else x for x in found)


@_backward.register_fake
def _(dout, dlse, q, k, v, out, lse, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, wants):
    return (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape),
            *(q.new_empty(x.shape if wanted else (0,), dtype=torch.float32) for x, wanted in zip((bias, sinks), wants)))


def _keep(ctx, inputs, output):
    q, k, v, mask, bias, sinks, *ctx.options = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, mask, bias, sinks)


def _derive(ctx, dout, dlse):
    q, k, v, out, lse, mask, bias, sinks = ctx.saved_tensors
    wants = list(ctx.needs_input_grad[4:6])
    dout = torch.zeros_like(out) if dout is None else dout.to(out.dtype)
    dlse = torch.zeros_like(lse) if dlse is None and not _is_eager(dout) else dlse
    given = (dout, dlse, q, k, v, out, lse, mask, bias, sinks, *ctx.options, wants)
    if torch.compiler.is_compiling() or _dispatch_modes():
        *found, dbias, dsinks = torch.ops.clattn.attention_backward(*given)
    elif torch.is_grad_enabled() or _transforms():
        *found, dbias, dsinks = _Gradients.apply(*given)
    else:
        *found, dbias, dsinks = _Gradients.forward(*given)
    more = (dx.to(x.dtype) if wanted else None for dx, x, wanted in zip((dbias, dsinks), (bias, sinks), wants))
    return (*found, None, *more, *(None,) * len(ctx.options))


_attention.register_autograd(_derive, setup_context=_keep)


def _guard(name):
    """Refuse tangents before the operator's autograd kernel runs.

    torch.func.jvp hides the tangents from the operator's own kernel."""
    own, library = torch.library.get_kernel(f"clattn::{name}", "AutogradCPU"), torch.library.Library("clattn", "IMPL")

    def guarded(keys, *given):
        if not torch.compiler.is_compiling():
            _refuse_tangents(*given)
        return own.call_boxed(keys, *given)
    library.impl(name, guarded, "AutogradCPU", with_keyset=True)
    return library


_guards = [_guard(name) for name in ("attention", "attention_backward")] if hasattr(torch.library, "get_kernel") else []


class _Gradients(torch.autograd.Function):
    """The operator of the gradients, without torch's dispatch. A second derivative is refused only
    when it is computed."""
    generate_vmap_rule = True

    @staticmethod
    def forward(*given):
        tensors = given[:10]
        if not _is_eager(*tensors):
            return torch.ops.clattn.attention_backward(*given)
        _refuse_tangents(*tensors)
        return tuple(torch.empty(0, device="cpu") if x is None else x for x in _gradients(*given))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("clattn_torch: attention has no second derivative")


class _Attention(torch.autograd.Function):
    """The operator without torch's dispatch, for tensors that need a gradient and for
    torch.func."""
    generate_vmap_rule = True

    @staticmethod
    def forward(q, k, v, mask, bias, sinks, *options):
        if not _is_eager(q, k, v, mask, bias, sinks):
            return torch.ops.clattn.attention(q, k, v, mask, bias, sinks, *options)
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        return _forward(q, k, v, mask, bias, sinks, *options, lse=lse), lse
    setup_context, backward = staticmethod(_keep), staticmethod(_derive)


def _is_eager(*tensors):
    """True if the call runs now and on these tensors' memory: nothing traces, transforms or
    intercepts it."""
    if torch.compiler.is_compiling() or _dispatch_modes() or _transforms() or _tracing() is not None:
        return False
    for x in tensors:  # any() is slower  # noqa: SIM110
        if x is not None and (type(x) not in _PLAIN or not x.is_cpu or x.is_neg()):
            return False
    return True


def _attend(q, k, v, mask, bias, sinks, options, lse=False):
    """Return (out, lse) in the fastest way that torch allows. lse is None if it is neither wanted
    nor kept."""
    tensors = (q, k, v, mask, bias, sinks)
    if _is_eager(*tensors):
        _refuse_tangents(q, k, v, bias, sinks)
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or
                                        any(x is not None and x.requires_grad for x in (bias, sinks))):
            return _Attention.apply(*tensors, *options)
        lse = q.new_empty(q.shape[:3], dtype=torch.float32) if lse else None
        return _forward(*tensors, *options, lse=lse), lse
    if not torch.compiler.is_compiling():
        _refuse_tangents(q, k, v, bias, sinks)
        if _transforms():
            return _Attention.apply(*tensors, *options)
    return torch.ops.clattn.attention(*tensors, *options)


def _as_autocast(*tensors):
    """Cast tensors to torch.autocast's type for the CPU, as torch does for
    scaled_dot_product_attention."""
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 and x.is_cpu else x for x in tensors)


def attention(q, k, v, *, mask=None, bias=None, sinks=None, causal=False, alignment="top_left", scale=None, softcap=0.0, window=None,
              dropout=0.0, seed=None, lse=False):
    """Compute attention with gradients.

        q, k, v    [B, H, Nq, D], [B, Hkv, Nkv, D], [B, Hkv, Nkv, Dv]
        mask       bool, True keeps: the last axes of [B, H, Nq, Nkv]
        bias       added to the scores: axes as for mask; has a gradient if it requires one
        sinks      [H]; has a gradient if it requires one
        scale      None: 1/sqrt(D); 0 is 0
        window     (left, right)
        dropout    1 drops everything
        seed       of dropout; None: drawn from torch
        lse        True: also return float32 [B, H, Nq], which has gradients, too

    Returns out [B, H, Nq, Dv] of q's type. Other arguments are those of clattn.attention. The
    function follows torch.autocast, which casts q, k, v and bias."""
    if torch.is_autocast_enabled("cpu"):
        q, k, v, bias = _as_autocast(q, k, v, bias)
    found = _attend(q, k, v, mask, bias, sinks, _options(q, causal, alignment, scale, softcap, window, dropout, seed), lse)
    return tuple(found) if lse else found[0]


def _options(q, causal=False, alignment="top_left", scale=None, softcap=0.0, window=None, dropout=0.0, seed=None):
    """Return the operators' arguments that follow the tensors."""
    seed = seed if seed is not None else int(torch.randint(2 ** 62, ())) if dropout else 0
    scale = float(scale) if scale is not None else 1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0
    return bool(causal), alignment, scale, float(softcap), list(window or ()), float(dropout), seed


def _refused(query, key, value, attn_mask, scale=None):
    """Return why torch's own attention must compute the call; None: clattn can."""
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if x is None:
            continue
        if not x.is_cpu:
            return f"{name} is on {x.device.type}"
        if x.dtype not in _TAKEN and not (x.dtype == torch.bool and name == "attn_mask"):
            return f"{name} is of {x.dtype}"
        if x.is_nested or x.layout is not torch.strided:
            return f"{name} is nested or sparse"
    if query.dtype != key.dtype or query.dtype != value.dtype:
        return "query, key and value are of several types"
    return None if scale is None or abs(scale) < 3.4028235e38 else f"scale is {scale}"


def _say(why):
    if why not in _said:
        _said.add(why)
        warnings.warn(f"clattn_torch: {why}: torch's own attention is taken", stacklevel=3)


def _lead(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
    """Return the axes of the result before its rows.

    None: torch's own attention is called, which raises an error or has nothing to compute."""
    q, k, v, last = query.shape, key.shape, value.shape, -3 if enable_gqa else -2
    if not 0 <= dropout_p < 1 - 2.0**-25 or (is_causal and attn_mask is not None) or min(len(q), len(k), len(v)) < -last or \
            0 in q or 0 in k or 0 in v or q[-1] != k[-1] or k[-2] != v[-2] or (enable_gqa and (q[-3] % k[-3] or q[-3] % v[-3])):
        return None
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0 and _has_tangent((query, key, value, attn_mask)):
        return None
    try:
        lead = q[:-2] if q[:last] == k[:last] == v[:last] else torch.broadcast_shapes(q[:last], k[:last], v[:last]) + q[last:-2]
        if attn_mask is not None:
            whole = lead + (q[-2], k[-2])
            if attn_mask.dim() < 2 or attn_mask.dtype not in (torch.bool, torch.float32, query.dtype) or \
                    torch.broadcast_shapes(attn_mask.shape, whole) != whole:
                return None
        return lead
    except RuntimeError:  # shapes that do not broadcast
        return None


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Compute torch.nn.functional.scaled_dot_product_attention with clattn.

    The tensors must be float32, float16 or bfloat16, and on the CPU. Other tensors, empty
    tensors and tensors with a tangent are passed to torch's own function, which also raises
    torch's errors."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attn_mask = _as_autocast(query, key, value, attn_mask)
    why = _refused(query, key, value, attn_mask, scale)
    lead = None if why else _lead(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if lead is None:
        if why:
            _say(why)
        return _OWN(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    mask, q, k, v, keep = attn_mask, query, key, value, 3 if enable_gqa else 2
    if enable_gqa and k.shape[-3] != v.shape[-3]:
        k, v = (x.repeat_interleave(lead[-1] // x.shape[-3], -3) for x in (k, v))
    if len(lead) != 2 or not q.shape[:-keep] == k.shape[:-keep] == v.shape[:-keep]:
        q, k, v = (x.expand(*lead[:len(lead) + 2 - keep], *x.shape[-keep:]) for x in (q, k, v))
        q, k, v = (x.reshape(-1, *(x.shape[-3:-2] or (1,)), *x.shape[-2:]) for x in (q, k, v))
        if mask is not None and len(lead) > 2 and mask.dim() > 3:
            mask = mask.expand(*lead, *mask.shape[-2:]).reshape(-1, lead[-1], *mask.shape[-2:])
    is_bool = mask is not None and mask.dtype == torch.bool
    out, _ = _attend(q, k, v, mask if is_bool else None, None if is_bool else mask, None,
                     _options(q, is_causal, scale=scale, dropout=dropout_p))
    return out if len(lead) == 2 else out.reshape(*lead, *out.shape[-2:])


class _Flash:
    """Compute torch's own flash attention on the CPU with clattn, until remove().

    The call torch.nn.attention.activate_flash_attention_impl("clattn") creates an object. torch
    chooses flash attention itself if there is no dropout and the mask, which torch has converted to
    a bias, needs no gradient."""

    def __init__(self):
        forward, backward = (f"_scaled_dot_product_flash_attention_for_cpu{end}" for end in ("", "_backward"))
        self.own = [torch.library.get_kernel("aten::" + name, "CPU") for name in (forward, backward)]
        self.library = torch.library.Library("aten", "IMPL", "CPU")
        self.library.impl(forward, self.forward, with_keyset=True, allow_override=True)
        self.library.impl(backward, self.backward, with_keyset=True, allow_override=True)

    def remove(self):
        self.library._destroy()

    def forward(self, keys, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
        why = _refused(query, key, value, attn_mask, scale)
        if why or not (query.numel() and key.numel() and value.numel()) or dropout_p:
            if why:
                _say(why)
            return self.own[0].call_boxed(keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
        out = torch.empty_like(query)  # in the layout of torch's own, on which compiled graphs rely
        lse = torch.empty(query.shape[0], query.shape[2], query.shape[1], dtype=torch.float32, device="cpu").transpose(1, 2)
        found = _forward(query, key, value, None, attn_mask, None, *_options(query, is_causal, scale=scale),
                         out=out if out.stride(-1) == 1 else None, lse=lse)
        return out if out is found else out.copy_(found), lse

    def backward(self, keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
        if _refused(query, key, value, attn_mask, scale) or not (query.numel() and key.numel() and value.numel()) or dropout_p:
            return self.own[1].call_boxed(keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask,
                                          scale=scale)
        made = [torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2) for x in (query, key, value)]
        given = (grad_out, None, query, key, value, out, logsumexp, None, attn_mask, None,
                 *_options(query, is_causal, scale=scale), [False, False])
        _gradients(*given, made=made)
        return tuple(made)


with contextlib.suppress(AttributeError):  # an older torch has no such registry
    torch.nn.attention.register_flash_attention_impl("clattn", register_fn=_Flash)


def _transformers(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, softcap=None, position_bias=None,
                  s_aux=None, **more):
    """An attention function for transformers' AttentionInterface: [B, H, N, D] in, [B, N, H, D]
    out, without weights."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attention_mask, position_bias = _as_autocast(query, key, value, attention_mask, position_bias)
    why = _refused(query, key, value, attention_mask, scaling)
    if why:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        if s_aux is not None:
            raise RuntimeError(f"clattn_torch: {why}, and torch's own attention has no sinks")
        _say(why)
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, is_causal=is_causal,
                                      softcap=softcap, position_bias=position_bias, **more)
    # Without a mask, a prompt's rows are the first keys. Later keys are the empty rest of a static
    # cache.
    causal = (getattr(module, "is_causal", True) if is_causal is None else is_causal) and attention_mask is None and query.shape[2] > 1
    if attention_mask is not None:
        attention_mask = attention_mask[:, :, :, :key.shape[2]]
    is_bool = attention_mask is not None and attention_mask.dtype == torch.bool
    bias = None if is_bool else attention_mask
    if position_bias is not None:
        position_bias = position_bias[:, :, :, :key.shape[2]]
        bias = position_bias if bias is None else position_bias + bias
    out = attention(query, key, value, mask=attention_mask if is_bool else None, bias=bias, sinks=s_aux, causal=bool(causal), scale=scaling,
                    softcap=softcap or 0.0, dropout=dropout if module.training else 0.0)
    return out.transpose(1, 2).contiguous(), None


def register(name="clattn"):
    """Register attn_implementation=name in transformers, with the masks of its "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    AttentionInterface.register(name, _transformers)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
