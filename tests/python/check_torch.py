#!/usr/bin/env python3
"""clattn_torch against PyTorch: attention and its gradients on torch's own samples and on others, what torch asks of an operator, compiled
graphs, and what is left to torch.   check_torch.py FOLDER: where clattn.py and clattn_torch.py lie"""
import os
import sys
import warnings

os.environ.setdefault("POCL_AFFINITY", "0")
sys.path[:0] = sys.argv[1:]
import torch
import torch.nn.functional as functional

import clattn_torch

try:
    from torch.testing._internal.common_methods_invocations import op_db  # which needs expecttest
except ImportError:
    op_db = None

EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}  # of storage
MORE = 4  # times the error of torch's own result beside double precision, and so many times what storage and lse round
checks = 0


def same(what, ours, theirs, exact, dtype, peak):
    """Ours is as near to double precision as torch's, up to a factor. A gradient is made of float32 log-sum-exps, as large as `peak`."""
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


def results_of(function, tensors, options):
    mask = options.get("attn_mask")
    wanted = [x for x in (*tensors, mask) if x is not None and x.is_floating_point()]
    for x in wanted:
        x.grad = None
        x.requires_grad_()
    out = function(*tensors, **options)
    if out.numel():
        out.backward(torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape))
    return [out.detach()] + [torch.zeros_like(x) if x.grad is None else x.grad.clone() for x in wanted]


def compare(what, tensors, **options):
    """Results and gradients of the same call by both, and in double precision."""
    theirs, ours = (results_of(function, tensors, options)
                    for function in (functional.scaled_dot_product_attention, clattn_torch.scaled_dot_product_attention))
    wide = {**options}
    if options.get("attn_mask") is not None and options["attn_mask"].is_floating_point():
        wide["attn_mask"] = options["attn_mask"].detach().double()
    exact = results_of(functional.scaled_dot_product_attention, [x.detach().double() for x in tensors], wide)
    sizes = [x.detach().double().norm(dim=-1).max().item() if x.numel() else 0.0 for x in tensors[:2]]
    peak = sizes[0] * sizes[1] * (options.get("scale") or tensors[0].shape[-1] ** -0.5)
    for n, found in enumerate(zip(ours, theirs, exact)):
        same(f"{what}, result {n}", *found, tensors[0].dtype, peak)


def sees_something(mask):
    """Of a row that sees no key torch has NaN or 0, by its version: clattn has 0."""
    return mask is None or (mask.any(-1).all().item() if mask.dtype == torch.bool else True)


torch.manual_seed(1)
samples = 0
for dtype in EPSILON if op_db else ():
    operator = next(op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")
    for sample in operator.sample_inputs("cpu", dtype, requires_grad=True):
        tensors = [x.detach().clone() for x in (sample.input, *sample.args[:2])]
        options = dict(sample.kwargs)
        if len(sample.args) > 2:
            options["attn_mask"] = sample.args[2]
        if options.get("dropout_p") or not sees_something(options.get("attn_mask")):
            continue
        samples += 1
        compare(f"torch's sample {samples} of {dtype}", tensors, **options)
if op_db and samples < 20:
    raise SystemExit(f"only {samples} of torch's samples were compared")

R = torch.randn
for dtype in EPSILON:
    compare(f"{dtype}: strided views", [R(2, n, 3, 16).to(dtype).transpose(1, 2) for n in (10, 12, 12)])
    compare(f"{dtype}: a bias with a gradient, repeated", [R(2, 3, n, 16).to(dtype) for n in (10, 12, 12)],
            attn_mask=R(2, 1, 10, 12).to(dtype))
    compare(f"{dtype}: grouped heads", [R(2, h, 12, 16).to(dtype) for h in (4, 2, 2)], is_causal=True, enable_gqa=True)

q, k, v, b = (R(1, 2, n, 8, requires_grad=True) for n in (5, 6, 6, 5))
args = (q, k, v, None, R(5, 6, requires_grad=True), False, "top_left", 0.3, 0.0, [2, 1], 0.0, 0)
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
compiled = torch.compile(lambda x: clattn_torch.attention(x, x, x, causal=True) * 2, backend="aot_eager")
x = R(1, 2, 7, 8, requires_grad=True)
compiled(x).sum().backward()
once = x.grad.clone()
x.grad = None
(clattn_torch.attention(x, x, x, causal=True) * 2).sum().backward()
if not torch.equal(once, x.grad):
    raise SystemExit("a compiled graph has other gradients")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    wide = R(1, 2, 5, 8, dtype=torch.float64)
    if clattn_torch.scaled_dot_product_attention(wide, wide, wide).dtype != torch.float64 or len(caught) != 1:
        raise SystemExit("float64 goes to torch's own attention, with one warning")
for wrong in ({"attn_mask": torch.ones(5, 5, dtype=torch.bool), "is_causal": True},):
    try:
        clattn_torch.scaled_dot_product_attention(R(1, 2, 5, 8), R(1, 2, 5, 8), R(1, 2, 5, 8), **wrong)
        raise SystemExit(f"{list(wrong)} was taken")
    except RuntimeError:
        pass
print(f"{checks} results and gradients beside torch {torch.__version__}, {samples} of its own samples")
