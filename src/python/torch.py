"""clattn in PyTorch: attention on tensors of the CPU, with gradients, on any OpenCL device.

    import clattn_torch
    out = clattn_torch.attention(q, k, v, causal=True, window=(127, 0))       # q [B, H, Nq, D], k [B, Hkv, Nkv, D], v [B, Hkv, Nkv, Dv]
    torch.nn.functional.scaled_dot_product_attention = clattn_torch.scaled_dot_product_attention    # the same arguments as torch's
    torch.nn.attention.activate_flash_attention_impl("clattn")        # or within torch, whoever calls it: the name is registered here
    clattn_torch.register()                                 # transformers: from_pretrained(..., attn_implementation="clattn")

A device that works in the host's memory, such as a CPU, reads and writes torch's own memory; others are given copies. The operators are
torch.ops.clattn.attention and torch.ops.clattn.attention_backward: torch.compile, torch.export and autograd know them. Tensors of float64,
or that do not lie on the CPU, go to torch's own attention, and one warning says so. Second derivatives are not there."""
import math
import warnings

import torch
import torch.nn.attention
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


def _options(mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed):
    options = {"scale": scale, "softcap": softcap, "alignment": alignment}
    if causal:
        options["causal"] = True
    if window:
        options["window"] = tuple(window)
    if dropout:
        options.update(dropout=dropout, dropout_seed=seed)
    if sinks is not None:
        options["sinks"] = sinks.detach().float().numpy()
    for name, tensor in (("mask", mask), ("bias", bias)):
        if tensor is not None:
            options[name] = _over(tensor)
    return options


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None,
               sinks: torch.Tensor | None, causal: bool, alignment: str, scale: float, softcap: float, window: list[int], dropout: float,
               seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    results = _Results()
    out = results(q.shape[:3] + v.shape[3:], q.dtype)
    lse = results(q.shape[:3], torch.float32)
    if q.numel() or out.size:
        clattn.attention(_over(_last(q)), _over(_last(k)), _over(_last(v)), out=out, lse=lse,
                         **_options(mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed))
    return tuple(results.take())


@_attention.register_fake
def _(q, k, v, *_):
    return q.new_empty(q.shape[:3] + v.shape[3:]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward(dout: torch.Tensor, dlse: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
              lse: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None, sinks: torch.Tensor | None, causal: bool,
              alignment: str, scale: float, softcap: float, window: list[int], dropout: float, seed: int,
              wants: list[bool]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    results = _Results()
    given = {name: results(x.shape, x.dtype) for name, x in (("dq", q), ("dk", k), ("dv", v))}
    for name, x, wanted in zip(("dbias", "dsinks"), (bias, sinks), wants):
        made = results(x.shape if wanted else (0,), torch.float32)
        if wanted:
            given[name] = made
    clattn.attention_backward(*(_over(_last(x)) for x in (q, k, v, out)), _over(lse), _over(_last(dout)), dlse=_over(dlse), **given,
                              **_options(mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed))
    return tuple(results.take())


@_backward.register_fake
def _(dout, dlse, q, k, v, out, lse, mask, bias, sinks, causal, alignment, scale, softcap, window, dropout, seed, wants):
    return (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape),
            *(q.new_empty(x.shape if wanted else (0,), dtype=torch.float32) for x, wanted in zip((bias, sinks), wants)))


def _keep(ctx, inputs, output):
    q, k, v, mask, bias, sinks, *ctx.options = inputs
    ctx.wants = [x is not None and x.requires_grad for x in (bias, sinks)]
    ctx.save_for_backward(q, k, v, *output, mask, bias, sinks)


def _derive(ctx, dout, dlse):
    q, k, v, out, lse, mask, bias, sinks = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    dlse = torch.zeros_like(lse) if dlse is None else dlse
    *found, dbias, dsinks = torch.ops.clattn.attention_backward(dout.to(out.dtype), dlse, q, k, v, out, lse, mask, bias, sinks,
                                                                *ctx.options, ctx.wants)
    more = (dx.to(x.dtype) if wanted else None for dx, x, wanted in zip((dbias, dsinks), (bias, sinks), ctx.wants))
    return (*found, None, *more, *(None,) * len(ctx.options))


_attention.register_autograd(_derive, setup_context=_keep)


def attention(q, k, v, *, mask=None, bias=None, sinks=None, causal=False, alignment="top_left", scale=None, softcap=0.0, window=None,
              dropout=0.0, seed=None, lse=False):
    """Attention with gradients: out [B, H, Nq, Dv] of q's type, and with lse=True float32 [B, H, Nq] after it, which has gradients, too.
    mask (bool, true keeps) and bias (added) have the last axes of [B, H, Nq, Nkv], sinks are [H]: bias and sinks have a gradient where they
    ask for one. window=(left, right); seed: of dropout, None takes one from torch. Meanings are those of clattn.attention."""
    seed = seed if seed is not None else int(torch.randint(2 ** 62, ())) if dropout else 0
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    found = torch.ops.clattn.attention(q, k, v, mask, bias, sinks, causal, alignment, scale, float(softcap), list(window or ()),
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


def _say(why):
    if why not in _said:
        _said.add(why)
        warnings.warn(f"clattn_torch: {why}: torch's own attention is taken", stacklevel=3)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention by clattn, where its tensors lie on the CPU and are of float32, float16 or bfloat16;
    else torch's own."""
    why = _refused(query, key, value, attn_mask)
    if why:
        _say(why)
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


class _Flash:
    """clattn as torch's own flash attention on the CPU, until remove(): what torch.nn.attention.activate_flash_attention_impl("clattn")
    makes. torch chooses it by itself where there is no dropout, and a mask, which it has made a bias of, needs no gradient."""

    def __init__(self):
        forward, backward = (f"_scaled_dot_product_flash_attention_for_cpu{end}" for end in ("", "_backward"))
        self.own = [torch.library.get_kernel("aten::" + name, "CPU") for name in (forward, backward)]
        self.library = torch.library.Library("aten", "IMPL", "CPU")
        self.library.impl(forward, self.forward, with_keyset=True, allow_override=True)
        self.library.impl(backward, self.backward, with_keyset=True, allow_override=True)

    def remove(self):
        self.library._destroy()

    def forward(self, keys, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
        why = _refused(query, key, value, attn_mask)
        if why:
            _say(why)
            return self.own[0].call_boxed(keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
        out, lse = attention(query, key, value, bias=attn_mask, causal=is_causal, scale=scale, lse=True)
        laid = torch.empty_like(query)  # as torch's, which compiled graphs rely on
        return laid.copy_(out), lse.transpose(1, 2).contiguous().transpose(1, 2)

    def backward(self, keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
        if _refused(query, key, value, attn_mask):
            return self.own[1].call_boxed(keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask,
                                          scale=scale)
        lse = logsumexp.contiguous()
        found = torch.ops.clattn.attention_backward(grad_out, torch.zeros_like(lse), query, key, value, out, lse, None, attn_mask, None,
                                                    is_causal, "top_left", 1 / math.sqrt(query.shape[-1]) if scale is None else scale,
                                                    0.0, [], 0.0, 0, [False, False])
        return tuple(dx.transpose(1, 2).contiguous().transpose(1, 2) for dx in found[:3])


try:
    torch.nn.attention.register_flash_attention_impl("clattn", register_fn=_Flash)
except AttributeError:
    pass  # an older torch has no such registry


def _transformers(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, softcap=None, position_bias=None,
                  s_aux=None, **more):
    """An attention function of transformers' AttentionInterface: [B, H, N, D] in, [B, N, H, D] and no weights out."""
    why = _refused(query, key, value, attention_mask)
    if why:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        if s_aux is not None:
            raise RuntimeError(f"clattn_torch: {why}, and torch's own attention has no sinks")
        _say(why)
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, is_causal=is_causal,
                                      softcap=softcap, position_bias=position_bias, **more)
    # Without a mask a prompt's rows are the first keys: what is behind them is the empty rest of a static cache.
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
    """Make attn_implementation=name known to transformers, with the masks of its "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    AttentionInterface.register(name, _transformers)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
