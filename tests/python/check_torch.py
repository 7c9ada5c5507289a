#!/usr/bin/env python3
"""clattn_torch compared with PyTorch: attention and its gradients on torch's own samples and on
others, replacing torch's function and selected within it. Also torch's checks of operators,
compiled graphs, and calls that are left to torch.

    check_torch.py [FOLDER]    the folder of clattn.py and clattn_torch.py, unless installed
"""
import contextlib
import os
import sys
import warnings

os.environ.setdefault("POCL_AFFINITY", "0")
sys.path[:0] = sys.argv[1:]
import torch
import torch.nn.attention
import torch.nn.functional as functional

import clattn_torch

try:
    from torch.testing._internal.common_methods_invocations import op_db  # needs expecttest
except ImportError:
    op_db = None

# rounding of storage types
EPSILON = {torch.float64: 0.0, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
TAKEN = (torch.float32, torch.float16, torch.bfloat16)
# The tolerance: this many times torch's own error compared with double precision, plus this many
# roundings of storage and lse.
MORE = 4
checks, peak = 0, 0.0


def same(what, ours, theirs, exact, dtype):
    """clattn's result must be as close to double precision as torch's, up to a factor. Gradients
    use float32 log-sum-exps, which are as large as `peak`."""
    global checks
    checks += 1
    if not ours.numel():
        return
    if not (torch.isnan(ours) == torch.isnan(exact)).all():
        raise SystemExit(f"{what}: NaNs differ")
    scale = 1 + exact.abs().max().item()
    error, allowed = ((x - exact).abs().nan_to_num(0).max().item() for x in (ours.double(), theirs.double()))
    if error > MORE * (allowed + (EPSILON[dtype] + EPSILON[torch.float32] * peak) * scale):
        raise SystemExit(f"{what}: off by {error:.2g}, torch's own by {allowed:.2g}")


calls = {"attention": 0, "attention_backward": 0}  # calls of the library


def counted(name, call):
    def counts(*arguments):
        calls[name] += 1
        return call(*arguments)
    return counts


for name in calls:
    function = f"clattn_{name}_enqueue"
    setattr(clattn_torch.clattn.library(), function, counted(name, getattr(clattn_torch.clattn.library(), function)))


@contextlib.contextmanager
def in_place():
    """Replaces torch's function by clattn's for all callers. `peak` is an upper bound of its
    scores."""
    def replaced(query, key, value, *more, **options):
        global peak
        sizes = [x.detach().double().norm(dim=-1).max().item() if x.numel() else 0.0 for x in (query, key)]
        peak = sizes[0] * sizes[1] * (options.get("scale") or query.shape[-1] ** -0.5)
        return clattn_torch.scaled_dot_product_attention(query, key, value, *more, **options)
    own, functional.scaled_dot_product_attention = functional.scaled_dot_product_attention, replaced
    yield
    functional.scaled_dot_product_attention = own


@contextlib.contextmanager
def activated():
    """Selects clattn as the flash attention within torch's function."""
    torch.nn.attention.activate_flash_attention_impl("clattn")
    yield
    torch.nn.attention.restore_flash_attention_impl()


def floats(given):
    return [x for x in given if isinstance(x, torch.Tensor) and x.is_floating_point()]


def changed(given, change):
    return {name: change(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in given.items()}


def results_of(function, given, masks, within=contextlib.nullcontext):
    """Returns out and the gradients of all inputs, with `masks` also of masks. `given` has
    arguments by position or name."""
    given = changed(given, lambda x: x.detach().requires_grad_())
    if not masks and given.get("attn_mask") is not None:
        given["attn_mask"] = given["attn_mask"].detach()
    with within():
        out = function(*(given[n] for n in given if isinstance(n, int)), **{n: x for n, x in given.items() if isinstance(n, str)})
        out = out[0] if isinstance(out, tuple) else out
        if out.numel():
            out.backward(torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape))
    wanted = [x for x in floats(given.values()) if x.requires_grad]
    return [out.detach()] + [torch.zeros_like(x) if x.grad is None else x.grad for x in wanted]


def compare(what, tensors, within=in_place, function=lambda *given, **options: functional.scaled_dot_product_attention(*given, **options),
            **options):
    """Compares results and gradients of the same call by both, and in double precision. Returns the
    number of clattn calls."""
    given, before, masks = {**dict(enumerate(tensors)), **options}, sum(calls.values()), within is in_place
    ours, theirs = results_of(function, given, masks, within), results_of(function, given, masks)
    exact = results_of(function, changed(given, lambda x: x.detach().double()), masks)
    for n, found in enumerate(zip(ours, theirs, exact)):
        same(f"{what}, {within.__name__}, result {n}", *found, tensors[0].dtype)
    return sum(calls.values()) - before


def sees_something(mask):
    """For a row that sees no key torch returns NaN or 0, by its version, and clattn returns 0."""
    return mask is None or (mask.any(-1).all().item() if mask.dtype == torch.bool else True)


def samples_of(name):
    operator = next(op for op in op_db if op.name == name) if op_db else None
    for dtype in TAKEN if op_db else ():
        for n, sample in enumerate(operator.sample_inputs("cpu", dtype)):
            yield f"torch's sample {n} of {name}, {dtype}", [sample.input, *sample.args], dict(sample.kwargs)


torch.manual_seed(1)
samples = {"in place": 0, "activated": 0, "of several heads": 0}
registry = hasattr(torch.nn.attention, "activate_flash_attention_impl")
for what, given, options in samples_of("nn.functional.scaled_dot_product_attention"):
    if len(given) > 3:
        options["attn_mask"] = given.pop()
    if options.get("dropout_p") or not sees_something(options.get("attn_mask")):
        continue
    empty = not given[0].numel()
    if compare(what, given, **options) != (1 if empty else 2):
        raise SystemExit(f"{what}: it is not clattn that computes it")
    samples["in place"] += 1
    if registry:
        samples["activated"] += compare(what, given, activated, **options) == 2
for what, given, options in samples_of("nn.functional.multi_head_attention_forward"):
    if options["training"]:
        continue  # dropout
    # Numbers up to 9 lead to scores in the thousands, as products of four of them, and the softmax
    # becomes a step. An eighth of each avoids that.
    given, options = ([*changed(dict(enumerate(given)), lambda x: x / 8).values()], changed(options, lambda x: x / 8))
    compared = compare(what, given, function=functional.multi_head_attention_forward, need_weights=False, **options)
    if compared != 2:
        raise SystemExit(f"{what}: it is not clattn that computes it")
    samples["of several heads"] += 1
if op_db and (samples["in place"] < 39 or samples["of several heads"] < 250 or samples["activated"] < 20 * registry):
    raise SystemExit(f"only so many of torch's samples were compared: {samples}")

R = torch.randn
for dtype in TAKEN:
    compare(f"{dtype}: strided views", [R(2, n, 3, 16).to(dtype).transpose(1, 2) for n in (10, 12, 12)])
    compare(f"{dtype}: a bias with a gradient, repeated", [R(2, 3, n, 16).to(dtype) for n in (10, 12, 12)],
            attn_mask=R(2, 1, 10, 12).to(dtype))
    compare(f"{dtype}: grouped heads", [R(2, h, 12, 16).to(dtype) for h in (4, 2, 2)], is_causal=True, enable_gqa=True)

# Sinks: an additional key with the sink as its score and 0 as its value.
q, k, v, sinks = (R(*shape, requires_grad=True) for shape in ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8), (4,)))
scores = torch.cat([q @ k.mT * 8 ** -0.5, sinks.reshape(1, 4, 1, 1).expand(2, 4, 5, 1)], -1)
wanted = scores.softmax(-1)[..., :-1] @ v
for n, (one, other) in enumerate(zip(*([out, *torch.autograd.grad(out.sin().sum(), (q, k, v, sinks))] for out in (
        clattn_torch.attention(q, k, v, sinks=sinks), wanted)))):
    torch.testing.assert_close(one, other, msg=lambda text: f"with sinks, result {n}: {text}")

q, k, v = (R(1, 2, n, 8, requires_grad=True) for n in (5, 6, 6))
args = (q, k, v, None, R(5, 6, requires_grad=True), R(2, requires_grad=True), False, "top_left", 0.3, 0.0, [2, 1], 0.0, 0)
said = torch.library.opcheck(torch.ops.clattn.attention, args)
if set(said.values()) != {"SUCCESS"} or len(said) < 4:
    raise SystemExit(f"torch.library.opcheck: {said}")
out, lse = clattn_torch.attention(q, k, v, softcap=2.0, dropout=0.25, seed=7, lse=True)
(out.sum() + lse.sum()).backward()
step = q.grad[0, 1, 2, 3].item()
moved = [q.detach().clone() for _ in range(2)]
moved[0][0, 1, 2, 3] += 1e-2
moved[1][0, 1, 2, 3] -= 1e-2
sums = [sum(x.double().sum().item() for x in clattn_torch.attention(x, k, v, softcap=2.0, dropout=0.25, seed=7, lse=True)) for x in moved]
if abs((sums[0] - sums[1]) / 2e-2 - step) > 1e-3 * (1 + abs(step)):
    raise SystemExit(f"with softcap and dropout a gradient is {step}, a difference {(sums[0] - sums[1]) / 2e-2}")

# Compiled graphs: as traced, and compiled with the machine's compiler.
for backend in ("aot_eager", "inductor"):
    for name, within, function in (("the operator", contextlib.nullcontext, lambda x: clattn_torch.attention(x, x, x, causal=True)),
                                   ("what is activated", activated if registry else contextlib.nullcontext,
                                    lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True))):
        found = []
        with within():
            before = calls["attention"]
            for call in (lambda x: function(x.sin()) * 2, torch.compile(lambda x: function(x.sin()) * 2, backend=backend)):
                x = torch.linspace(-1, 1, 112).reshape(1, 7, 2, 8).transpose(1, 2).requires_grad_()
                call(x).sum().backward()
                found.append(x.grad)
        torch.testing.assert_close(*found, msg=lambda text: f"{name}, compiled by {backend}: other gradients: {text}")
        if calls["attention"] - before != (0 if within is contextlib.nullcontext and name != "the operator" else 2):
            raise SystemExit(f"{name}, compiled by {backend}: it is not clattn that computes it")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    wide = R(1, 2, 5, 8, dtype=torch.float64)
    if clattn_torch.scaled_dot_product_attention(wide, wide, wide).dtype != torch.float64 or len(caught) != 1:
        raise SystemExit("float64 goes to torch's own attention, with one warning")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    clattn_torch._said.clear()
    before = dict(calls)
    if registry:
        compare("float64 within torch", [wide] * 3, activated, is_causal=True)
    if calls != before or len(caught) != registry:
        raise SystemExit("float64 goes to torch's own kernel, with one warning")
for wrong in ({"attn_mask": torch.ones(5, 5, dtype=torch.bool), "is_causal": True},):
    try:
        clattn_torch.scaled_dot_product_attention(R(1, 2, 5, 8), R(1, 2, 5, 8), R(1, 2, 5, 8), **wrong)
        raise SystemExit(f"{list(wrong)} was taken")
    except RuntimeError:
        pass
print(f"counted: {checks} results and gradients beside torch {torch.__version__}; of its own samples {samples}")
