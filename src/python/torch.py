"""clattn in PyTorch: attention on tensors of the CPU, with gradients, on any OpenCL device.

    import clattn_torch
    out = clattn_torch.attention(q, k, v, causal=True, window=(127, 0))       # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    torch.nn.functional.scaled_dot_product_attention = clattn_torch.scaled_dot_product_attention    # the same arguments as torch's
    clattn_torch.register()                                 # transformers: from_pretrained(..., attn_implementation="clattn")

A device that works in the host's memory, such as a CPU, reads and writes torch's own memory; others are given copies. The operators are
torch.ops.clattn.attention and torch.ops.clattn.attention_backward: torch.compile, torch.export and autograd know them. Tensors of float64,
or that do not lie on the CPU, go to torch's own attention, and one warning says so. Second derivatives are not there."""
import math
import warnings

import torch
import torch.nn.functional as functional

import clattn

_OWN = functional.scaled_dot_product_attention
_TAKEN = (torch.float32, torch.float16, torch.bfloat16)
_said = set()


def _last(x):
    """A tensor whose last axis is dense, as clattn takes it."""
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _over(x, copy=True):
    """The memory of a tensor for the device, or a copy of it."""
    x = x.detach()
    if x.dtype == torch.bfloat16:
        return clattn.Buffer.over(x.view(torch.uint16).numpy(), dtype="bfloat16", copy=copy)
    return clattn.Buffer.over(x.numpy(), copy=copy)


class _Results:
    """New tensors that a call writes into."""

    def __init__(self):
        self.made = []

    def __call__(self, shape, dtype):
        tensor = torch.empty(shape, dtype=dtype)
        buffer = _over(tensor) if tensor.numel() else clattn.Buffer.zeros(tuple(shape), str(dtype).partition(".")[2])
        self.made.append((tensor, buffer))
        return buffer

    def take(self):
        for tensor, buffer in self.made:
            if buffer.shared:
                buffer.wait()
            elif tensor.numel():
                found = torch.from_numpy(buffer.numpy().view("uint16" if tensor.dtype == torch.bfloat16 else buffer.numpy().dtype))
                tensor.copy_(found.view(torch.bfloat16) if tensor.dtype == torch.bfloat16 else found)
        return [tensor for tensor, _ in self.made]


def _options(mask, bias, causal, alignment, scale, softcap, window, dropout, seed):
    options = {"scale": scale, "softcap": softcap, "alignment": alignment}
    if causal:
        options["causal"] = True
    if window:
        options["window"] = tuple(window)
    if dropout:
        options.update(dropout=dropout, dropout_seed=seed)
    for name, tensor in (("mask", mask), ("bias", bias)):
        if tensor is not None:
            options[name] = _over(tensor)
    return options


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None, causal: bool,
               alignment: str, scale: float, softcap: float, window: list[int], dropout: float,
               seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    results = _Results()
    out = results(q.shape[:3] + v.shape[3:], q.dtype)
    lse = results(q.shape[:3], torch.float32)
    if q.numel() or out.size:
        clattn.attention(_over(_last(q)), _over(_last(k)), _over(_last(v)), out=out, lse=lse,
                         **_options(mask, bias, causal, alignment, scale, softcap, window, dropout, seed))
    return tuple(results.take())


@_attention.register_fake
def _(q, k, v, *_):
    return q.new_empty(q.shape[:3] + v.shape[3:]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward(dout: torch.Tensor, dlse: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
              lse: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None, causal: bool, alignment: str, scale: float,
              softcap: float, window: list[int], dropout: float, seed: int,
              wants_bias: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    results = _Results()
    given = {name: results(x.shape, x.dtype) for name, x in (("dq", q), ("dk", k), ("dv", v))}
    dbias = results(bias.shape if wants_bias else (0,), torch.float32)
    if wants_bias:
        given["dbias"] = dbias
    clattn.attention_backward(*(_over(_last(x)) for x in (q, k, v, out)), _over(lse), _over(_last(dout)), dlse=_over(dlse), **given,
                              **_options(mask, bias, causal, alignment, scale, softcap, window, dropout, seed))
    return tuple(results.take())


@_backward.register_fake
def _(dout, dlse, q, k, v, out, lse, mask, bias, causal, alignment, scale, softcap, window, dropout, seed, wants_bias):
    return (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape),
            q.new_empty(bias.shape if wants_bias else (0,), dtype=torch.float32))


def _keep(ctx, inputs, output):
    q, k, v, mask, bias, *ctx.options = inputs
    ctx.wants_bias = bias is not None and bias.requires_grad
    ctx.save_for_backward(q, k, v, *output, mask, bias)


def _derive(ctx, dout, dlse):
    q, k, v, out, lse, mask, bias = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    dlse = torch.zeros_like(lse) if dlse is None else dlse
    dq, dk, dv, dbias = torch.ops.clattn.attention_backward(dout.to(out.dtype), dlse, q, k, v, out, lse, mask, bias, *ctx.options,
                                                            ctx.wants_bias)
    return (dq, dk, dv, None, dbias.to(bias.dtype) if ctx.wants_bias else None, *(None,) * len(ctx.options))


_attention.register_autograd(_derive, setup_context=_keep)


def attention(q, k, v, *, mask=None, bias=None, causal=False, alignment="top_left", scale=None, softcap=0.0, window=None, dropout=0.0,
              seed=None, lse=False):
    """Attention with gradients: out [B, H, Nq, Dv] of q's type, and with lse=True float32 [B, H, Nq] after it, which has gradients, too.
    mask (bool, true keeps) and bias (added, with a gradient where it asks for one) have the last axes of [B, H, Nq, Nkv]; window=(left,
    right); seed: of dropout, None takes one from torch. Meanings are those of clattn.attention."""
    seed = seed if seed is not None else int(torch.randint(2 ** 62, ())) if dropout else 0
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    found = torch.ops.clattn.attention(q, k, v, mask, bias, causal, alignment, scale, float(softcap), list(window or ()),
                                       float(dropout), seed)
    return found if lse else found[0]


def _refused(query, key, value, attn_mask):
    """Why torch's own attention is taken; None: it is not."""
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if x is not None and x.device.type != "cpu":
            return f"{name} lies on {x.device.type}"
        if x is not None and x.dtype not in (*_TAKEN, torch.bool)[:4 if name == "attn_mask" else 3]:
            return f"{name} is of {x.dtype}"
    if len({query.dtype, key.dtype, value.dtype}) > 1:
        return "query, key and value are of several types"
    return "there are fewer than two axes" if query.dim() < 2 else None


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention by clattn, where its tensors lie on the CPU and are of float32, float16 or bfloat16;
    else torch's own."""
    why = _refused(query, key, value, attn_mask)
    if why:
        if why not in _said:
            _said.add(why)
            warnings.warn(f"clattn_torch: {why}: torch's own attention is taken", stacklevel=2)
        return _OWN(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: attn_mask is given beside is_causal=True")
    if enable_gqa and query.dim() >= 3 and query.shape[-3] % key.shape[-3]:
        raise RuntimeError("scaled_dot_product_attention: the heads of query are no multiple of those of key")
    lead = torch.broadcast_shapes(query.shape[:-3 if enable_gqa else -2], key.shape[:-3 if enable_gqa else -2],
                                  value.shape[:-3 if enable_gqa else -2]) if query.dim() > 2 or key.dim() > 2 else ()
    keep = 3 if enable_gqa else 2
    q, k, v = (x.expand(*lead, *x.shape[-keep:]) for x in (query, key, value))
    heads = q.shape[-3:-2] or (1,)
    shape = q.shape[:-2]
    q, k, v = (x.reshape(-1, *(x.shape[-3:-2] or (1,)), *x.shape[-2:]) for x in (q, k, v))
    mask = None
    if attn_mask is not None:
        mask = attn_mask
        if attn_mask.dim() > 4:
            mask = attn_mask.expand(*shape, *attn_mask.shape[-2:]).reshape(-1, *heads, *attn_mask.shape[-2:])
    is_bool = mask is not None and mask.dtype == torch.bool
    out = attention(q, k, v, mask=mask if is_bool else None, bias=None if is_bool else mask, causal=is_causal, scale=scale,
                    dropout=dropout_p)
    return out.reshape(*shape, *out.shape[-2:])


def _transformers(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, softcap=None, **_):
    """An attention function of transformers' AttentionInterface: [B, H, N, D] in, [B, N, H, D] and no weights out."""
    causal = (getattr(module, "is_causal", True) if is_causal is None else is_causal) and attention_mask is None and query.shape[2] > 1
    if attention_mask is not None:
        attention_mask = attention_mask[:, :, :, :key.shape[2]]
    is_bool = attention_mask is not None and attention_mask.dtype == torch.bool
    out = attention(query, key, value, mask=attention_mask if is_bool else None, bias=None if is_bool else attention_mask, causal=causal,
                    alignment="bottom_right", scale=scaling, softcap=softcap or 0.0, dropout=dropout if module.training else 0.0)
    return out.transpose(1, 2).contiguous(), None


def register(name="clattn"):
    """Make attn_implementation=name known to transformers, with the masks of its "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    AttentionInterface.register(name, _transformers)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
