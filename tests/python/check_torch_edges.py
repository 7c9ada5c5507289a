#!/usr/bin/env python3
"""clattn_torch with unusual calls. Its outcome must be that of torch's own function: a result with
the same shape, type and gradients, or an exception. Scales of 0, empty tensors, dropout of 1,
autocast, masks and batches of all shapes, torch.func, forward mode. Also memory: views, copies,
threads, recordings, and released tensors.

    check_torch_edges.py [FOLDER]    the folder of clattn.py and clattn_torch.py, unless installed
"""
import contextlib
import gc
import os
import sys
import threading
import types
import warnings
import weakref

os.environ.setdefault("POCL_AFFINITY", "0")
sys.path[:0] = sys.argv[1:]
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as functional

import clattn
import clattn_torch

try:
    from torch.testing._internal.common_methods_invocations import op_db  # needs expecttest
except ImportError:
    op_db = []

warnings.simplefilter("ignore")
OWN, DOOR, F, R = functional.scaled_dot_product_attention, clattn_torch.scaled_dot_product_attention, torch.func, torch.randn
NEAR = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
checks, calls = 0, 0
own_enqueue = clattn.library().clattn_attention_enqueue


def counted(*arguments):
    global calls
    calls += 1
    return own_enqueue(*arguments)


clattn.library().clattn_attention_enqueue = counted


def expect(what, said):
    global checks
    checks += 1
    if not said:
        raise SystemExit(what)


def near(what, ours, theirs, limit=0):
    expect(f"{what}: shape {tuple(ours.shape)}, type {ours.dtype}; torch: {tuple(theirs.shape)}, {theirs.dtype}",
           ours.shape == theirs.shape and ours.dtype == theirs.dtype)
    limit = max(limit, NEAR.get(theirs.dtype, 0))
    torch.testing.assert_close(ours, theirs, rtol=limit, atol=limit, equal_nan=True, msg=lambda text: f"{what}: {text}")


def outcome(function, attend):
    try:
        found = function(attend)
        return list(found) if isinstance(found, (list, tuple)) else [found]
    except Exception as error:
        return error


def by_math(*tensors, **options):
    """torch's function in plain operators. torch's flash attention multiplies the causal -inf by
    the scale, which is NaN for 0."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return OWN(*tensors, **options)


def alike(what, function, by_clattn=None, attend=DOOR, own=OWN, limit=0):
    """Checks that `function` has the same tensors, or the same exception, with either attention.
    by_clattn: whether clattn must compute it."""
    torch.manual_seed(5)
    theirs = outcome(function, own)
    torch.manual_seed(5)
    before = calls
    ours = outcome(function, attend)
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        expect(f"{what}: {ours!r}; torch: {theirs!r}", type(ours) is type(theirs))
        return
    for n, pair in enumerate(zip(ours, theirs, strict=True)):
        if pair[1] is None:
            expect(f"{what}, result {n}: {pair[0]}, torch: None", pair[0] is None)
        else:
            near(f"{what}, result {n}", *pair, limit)
    expect(f"{what}: {calls - before} calls of clattn", by_clattn is None or (calls > before) == by_clattn)


def trained(attend, *tensors, which=None, **options):
    """Returns out, and the gradients of all floating-point tensors or of those whose indices
    `which` has."""
    tensors = [x.detach().clone() if x.is_contiguous() else x.detach() for x in tensors]
    wanted = [x.requires_grad_() for n, x in enumerate(tensors) if x.is_floating_point() and (which is None or n in which)]
    named = {"attn_mask": tensors[3]} if len(tensors) > 3 else {}
    out = attend(*tensors[:3], **named, **options)
    out.backward(torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape))
    return [out.detach(), *(x.grad for x in wanted)]


def tensors_of(*shapes, dtype=torch.float32):
    return [R(shape, generator=torch.Generator().manual_seed(7 + n)).to(dtype) for n, shape in enumerate(shapes)]


SHAPE = (1, 2, 4, 8)
q, k, v = tensors_of(*[SHAPE] * 3)
keep = torch.ones(4, 4, dtype=torch.bool).tril()
keep[2] = False  # a row that sees no key

# A scale that float32 rounds to 0 counts as 0. Scales that are not finite are left to torch.
for scale in (0.0, -0.0, 1e-50, -0.3, 1, True, None, float("nan"), float("inf"), -float("inf"), 1e39):
    ours = scale is None or abs(scale) < 1e38
    own = by_math if ours else OWN
    alike(f"scale={scale}", lambda attend: trained(attend, q, k, v, scale=scale), ours, own=own)
    alike(f"scale={scale}, causal", lambda attend: trained(attend, q, k, v, scale=scale, is_causal=True), ours, own=own)
    alike(f"scale={scale}, a mask", lambda attend: trained(attend, q, k, v, keep, scale=scale), ours, own=own)
    alike(f"scale={scale}, grouped heads", lambda attend: trained(attend, *tensors_of((2, 4, 5, 8), *[(2, 2, 6, 8)] * 2), scale=scale,
                                                                  enable_gqa=True), ours, own=own)

# Axes without elements, alone and with a call's other options.
for dtype in (torch.float32, torch.bfloat16):
    for name, shapes in {"B": [(0, 2, 4, 8)] * 3, "H": [(1, 0, 4, 8)] * 3, "L": [(1, 2, 0, 8), SHAPE, SHAPE], "L and S": [(1, 2, 0, 8)] * 3,
                         "S": [SHAPE, (1, 2, 0, 8), (1, 2, 0, 8)], "E": [(1, 2, 4, 0), (1, 2, 4, 0), SHAPE], "Ev": [SHAPE, SHAPE, (1, 2, 4, 0)],
                         "E and Ev": [(1, 2, 4, 0)] * 3, "three axes, S": [(2, 4, 8), (2, 0, 8), (2, 0, 8)],
                         "five axes": [(3, 0, 2, 4, 8)] * 3}.items():
        empty = tensors_of(*shapes, dtype=dtype)
        alike(f"{name} is 0, {dtype}", lambda attend: trained(attend, *empty))
        alike(f"{name} is 0, {dtype}, causal", lambda attend: trained(attend, *empty, is_causal=True))
        alike(f"{name} is 0, {dtype}, a mask", lambda attend: trained(
            attend, *empty, torch.ones(empty[0].shape[-2], empty[1].shape[-2], dtype=torch.bool)))
        if len(shapes[0]) == 4:  # attention() itself: as torch's function, and with lse
            own = trained(OWN, *empty)
            ours = trained(lambda *given: clattn_torch.attention(*given, lse=True)[0], *empty)
            for n, pair in enumerate(zip(ours, own)):
                near(f"attention: {name} is 0, {dtype}, result {n}", pair[0], torch.zeros_like(pair[0]) if pair[1] is None else pair[1])
for heads in ((2, 0), (0, 0), (0, 2)):
    alike(f"{heads} heads", lambda attend: trained(attend, *tensors_of((1, heads[0], 4, 8), *[(1, heads[1], 4, 8)] * 2), enable_gqa=True))
sinks = torch.zeros(2, requires_grad=True)
out, lse = clattn_torch.attention(q, k[:, :, :0], v[:, :, :0], sinks=sinks, lse=True)
(out.sum() + lse.sum()).backward()
expect("without keys a sink is all that a row sees", (out == 0).all() and (lse == 0).all() and (sinks.grad == 4).all())

# Dropout.
for p in (0.0, 1.0, 1.0 - 1e-12, 1.5, -0.1, float("nan")):
    alike(f"dropout_p={p}", lambda attend: trained(attend, q, k, v, dropout_p=p))
leaves = [x.clone().requires_grad_() for x in (q, k, v)]
out, lse = clattn_torch.attention(*leaves, dropout=1.0, lse=True)
(out.sum() + lse.sum()).backward()
plain = [x.clone().requires_grad_() for x in (q, k, v)]
clattn_torch.attention(*plain, lse=True)[1].sum().backward()
expect("a dropout of 1 leaves lse alone", (out == 0).all() and all(torch.equal(x.grad, y.grad) for x, y in zip(leaves[:2], plain[:2])) and
       (leaves[2].grad == 0).all())

# Shapes: batches, heads, masks that broadcast, and shapes that do not match.
for name, shapes, options in (
        ("two axes", [(4, 8)] * 3, {}), ("three axes", [(3, 4, 8), (3, 6, 8), (3, 6, 8)], {}), ("five axes", [(2, 3, 2, 4, 8)] * 3, {}),
        ("six axes, another width", [(2, 1, 3, 2, 4, 8), (2, 1, 3, 2, 5, 8), (2, 1, 3, 2, 5, 7)], {}), ("one axis", [(8,)] * 3, {}),
        ("a batch of keys repeats", [(3, 2, 4, 8), SHAPE, SHAPE], {}), ("a batch of queries repeats", [SHAPE, (3, 2, 4, 8), (3, 2, 4, 8)], {}),
        ("a head of keys repeats", [SHAPE, (1, 1, 4, 8), (1, 1, 4, 8)], {}), ("fewer axes", [(2, 4, 8), SHAPE, SHAPE], {}),
        ("more axes", [(3, 1, 2, 4, 8), SHAPE, (2, 4, 8)], {}), ("batches that differ", [(3, 2, 4, 8), (2, 2, 4, 8), (2, 2, 4, 8)], {}),
        ("widths that differ", [(1, 2, 4, 7), SHAPE, SHAPE], {}), ("groups", [(1, 4, 4, 8), SHAPE, SHAPE], {"enable_gqa": True}),
        ("groups of two sizes", [(1, 4, 4, 8), SHAPE, (1, 1, 4, 8)], {"enable_gqa": True}),
        ("groups of three axes", [(4, 4, 8), (2, 4, 8), (2, 4, 8)], {"enable_gqa": True}),
        ("groups in five axes", [(2, 3, 4, 4, 8), (2, 3, 2, 4, 8), (3, 2, 4, 8)], {"enable_gqa": True}),
        ("groups that do not divide", [(1, 3, 4, 8), SHAPE, SHAPE], {"enable_gqa": True}),
        ("groups of two axes", [(4, 8)] * 3, {"enable_gqa": True})):
    given = tensors_of(*shapes)
    alike(name, lambda attend: trained(attend, *given, **options))
    for causal in (True, False) if len(shapes[0]) > 1 else ():
        alike(f"{name}, causal={causal}", lambda attend: attend(*given, is_causal=causal, **options))
    whole = torch.broadcast_shapes(*(x[:-2] for x in shapes[:2])) + (shapes[0][-2], shapes[1][-2]) if len(shapes[0]) > 1 and \
        "differ" not in name and not options else ()
    for axes in range(2, len(whole) + 1):
        for ones in range(2 ** axes):  # each axis has its full size, or 1
            shape = [1 if ones >> n & 1 else size for n, size in enumerate(whole[len(whole) - axes:])]
            mask = torch.ones(shape, dtype=torch.bool).bernoulli_(0.7, generator=torch.Generator().manual_seed(ones))
            alike(f"{name}, mask {shape}", lambda attend: attend(*given, attn_mask=mask))
            if ones in (0, 1, 6):
                alike(f"{name}, bias {shape}", lambda attend: trained(attend, *given, mask * 0.5))
for shape in ((), (4,), (3, 4), (5, 1, 4, 4), (1, 1, 1, 1, 4, 4), (5, 1, 2, 4, 4)):
    alike(f"a mask of {shape}", lambda attend: attend(q, k, v, attn_mask=torch.ones(shape, dtype=torch.bool)))
alike("rows that see nothing", lambda attend: trained(attend, q, k, v, keep))
alike("rows of -inf", lambda attend: trained(attend, q, k, v, torch.zeros(4, 4).masked_fill(~keep, -torch.inf), which=(0, 1, 2)))
alike("a mask beside is_causal", lambda attend: attend(q, k, v, attn_mask=keep, is_causal=True))

# Types of tensors and masks, alone and mixed.
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.complex64):
    given = tensors_of(*[(1, 2, 5, 8)] * 3, dtype=dtype)
    alike(f"{dtype}", lambda attend: attend(*given), dtype in clattn_torch._TAKEN)
    for other in (torch.bool, torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int64):
        alike(f"{dtype}, a mask of {other}", lambda attend: attend(*given, attn_mask=torch.ones(5, 5, dtype=other)))
alike("several types", lambda attend: attend(q, k.half(), v))
for dtype in clattn_torch._TAKEN:
    given = [x.to(dtype) for x in (q, k, v)]
    for which in ((0,), (1,), (2,), (0, 2), (3,), (1, 3)):
        alike(f"{dtype}: gradients of {which}", lambda attend: trained(attend, *given, torch.zeros(4, 4, dtype=dtype), which=which), True)

# torch.autocast: tensors and masks are cast as torch casts them. Gradients have the types of the
# inputs.
for dtype in (torch.bfloat16, torch.float16):
    for given in ((q, k, v), (q.half(), k, v.bfloat16()), (q.double(), k.double(), v.double()), (q.double(), k, v)):
        for mask in (None, keep, torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.bfloat16)):
            def cast(attend, enabled=True):
                with torch.autocast("cpu", dtype=dtype), torch.autocast("cpu", dtype=dtype, enabled=enabled):
                    return trained(attend, *given, *([] if mask is None else [mask]))
            types_of = [x.dtype for x in given]
            alike(f"autocast {dtype}, {types_of}, mask {mask if mask is None else mask.dtype}", cast, limit=NEAR[dtype])
            alike(f"autocast off within {dtype}, {types_of}", lambda attend: cast(attend, False), limit=NEAR[torch.bfloat16])
    with torch.autocast("cpu", dtype=dtype):
        expect("attention() honours autocast", clattn_torch.attention(q, k, v, bias=torch.zeros(4, 4)).dtype == dtype)
with torch.autocast("cuda", dtype=torch.bfloat16):
    alike("autocast of another device", lambda attend: attend(q, k, v), True)

# torch.func, and derivatives that are not implemented.
many = torch.stack([q, k, v])
alike("grad", lambda attend: F.grad(lambda x: attend(x, k, v).sin().sum())(q), True)
alike("jacrev", lambda attend: F.jacrev(lambda x: attend(q, x, v))(k), True)
alike("vmap", lambda attend: F.vmap(lambda x: attend(x, k, v))(many), True)
alike("vmap of masks", lambda attend: F.vmap(lambda x: attend(q, k, v, attn_mask=x))(torch.stack([keep, keep.T])))
alike("vmap of grad", lambda attend: F.vmap(F.grad(lambda x: attend(q, x, v).sin().sum()))(many), True)


def of_gradient(attend, again):
    leaf = q.clone().requires_grad_()
    found, = torch.autograd.grad(attend(leaf, k, v).sin().sum(), leaf, create_graph=True)
    return torch.autograd.grad(found.sum(), leaf)[0] if again else found.detach()


alike("create_graph", lambda attend: of_gradient(attend, False), True)
alike("a second derivative", lambda attend: of_gradient(attend, True))
alike("grad of grad", lambda attend: F.grad(lambda y: F.grad(lambda x: attend(x, k, v).sin().sum())(y).sum())(q))
alike("hessian", lambda attend: F.hessian(lambda x: attend(x, k, v).sin().sum())(q))
alike("jvp of a gradient, by what it is multiplied by",
      lambda attend: F.jvp(lambda w: F.grad(lambda x: (attend(x, k, v) * w).sum())(q), (q,), (q,))[1])


def by_operator(q, k, v, bias=None, sinks=None):
    return torch.ops.clattn.attention(q, k, v, None, bias, sinks, False, "top_left", 0.3, 0.0, [], 0.0, 0)[0]


def by_transformers(q, k, v, bias=None, sinks=None):
    mask = None if bias is None else bias[None, None]
    return clattn_torch._transformers(types.SimpleNamespace(training=False), q, k, v, mask, scaling=0.3, s_aux=sinks)[0]


def within_torch(q, k, v, bias=None):
    torch.nn.attention.activate_flash_attention_impl("clattn")
    try:
        return OWN(q, k, v, attn_mask=bias)
    finally:
        torch.nn.attention.restore_flash_attention_impl()


def dual(function, x, mode=contextlib.nullcontext):
    with forward_ad.dual_level(), mode():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


given = {"q": q, "k": k, "v": v, "bias": torch.zeros(4, 4), "sinks": torch.zeros(2)}
doors = {"attention": clattn_torch.attention, "the operator": by_operator, "transformers' function": by_transformers,
         "the drop-in": lambda q, k, v, bias=None: DOOR(q, k, v, attn_mask=bias)}
if hasattr(torch.nn.attention, "activate_flash_attention_impl"):
    doors["within torch"] = within_torch
for door, function in doors.items():
    for name, x in given.items():
        if name == "sinks" and door in ("the drop-in", "within torch"):
            continue
        def moved(x):
            return function(**{**{other: given[other] for other in ("q", "k", "v")}, name: x})
        for way, derived in (("jvp", lambda: F.jvp(moved, (x,), (torch.ones_like(x),))), ("jacfwd", lambda: F.jacfwd(moved)(x)),
                             ("dual_level", lambda: dual(moved, x)), ("dual_level, no_grad", lambda: dual(moved, x, torch.no_grad)),
                             ("vmap of jvp", lambda: F.vmap(lambda t: F.jvp(moved, (x,), (t,))[1])(torch.stack([x, x])))):
            found = outcome(lambda _: derived(), None)
            expect(f"{door}: {way} by {name} gives {found!r}", isinstance(found, NotImplementedError))
leaf = q.clone().requires_grad_()
out = clattn_torch.attention(leaf, k, v)
expect("a derivative of a gradient in forward mode", isinstance(
    outcome(lambda _: dual(lambda x: torch.autograd.grad(out, leaf, x)[0], torch.ones_like(out)), None), NotImplementedError))
with forward_ad.dual_level():
    near("a level without tangents", clattn_torch.attention(q, k, v), OWN(q, k, v))

# A scale of 0 within torch, and with transformers' function; its gradients.
if "within torch" in doors:
    for scale in (0.0, -0.7, float("nan")):
        def activated(*tensors, **options):
            torch.nn.attention.activate_flash_attention_impl("clattn")
            return OWN(*tensors, **options)
        try:
            alike(f"within torch: scale={scale}", lambda attend: trained(attend, q, k, v, scale=scale), scale == scale, activated)
        finally:
            torch.nn.attention.restore_flash_attention_impl()
module = types.SimpleNamespace(training=False)
alike("transformers' function, scaling=0.0", lambda attend: trained(attend, q, k, v, scale=0.0), True,
      lambda *tensors, scale: clattn_torch._transformers(module, *tensors, None, scaling=scale, is_causal=False)[0].transpose(1, 2))
near("a scale of 0 with sinks", clattn_torch.attention(q, k, v, scale=0.0, sinks=torch.zeros(2)),
     (v.sum(2, keepdim=True) / 5).expand(SHAPE))

# Memory: views, a lazy negation, an address between elements, and copies for a device with separate
# memory.
views = {"transposed": R(1, 4, 2, 8).transpose(1, 2), "repeated": R(1, 1, 1, 8).expand(SHAPE), "every second": R(1, 2, 8, 16)[:, :, ::2, ::2],
         "at an offset": R(1, 2, 5, 9)[:, :, 1:, 1:], "columns first": R(1, 2, 8, 4).mT, "negated": torch.imag(R(SHAPE).cfloat().conj())}
for name, x in views.items():
    alike(f"{name}", lambda attend: attend(x, x, x), True)
    alike(f"{name}, with gradients", lambda attend: trained(attend, x, k, x, which=(1,)), True)
between = torch.frombuffer(memoryview(bytearray(b"\0" + q.numpy().tobytes())), dtype=torch.float32, offset=1, count=q.numel()).reshape(SHAPE)
alike("an address between elements", lambda attend: attend(between, between, between), True)
in_place, clattn.Context._in_place = clattn.Context._in_place, lambda *_: False
for name, x in views.items():
    alike(f"copies of {name}", lambda attend: trained(attend, x, k, v, torch.zeros(4, 4), which=(1, 2, 3)), True)
clattn.Context._in_place = in_place
context = clattn._context()
with context.record() as step:
    recorded = clattn_torch.attention(q, k, v)
recorded.zero_()
step()
context.save_kernels()  # finishes the queue
near("a call that was recorded", recorded, OWN(q, k, v))
step.close()

# A call keeps no reference to its tensors. Reusing their memory does not change its result.
given = [x.clone() for x in (q, k, v)]
found = clattn_torch.attention(*given)
gone = [weakref.ref(x) for x in (*given, found)]
del given, found
gc.collect()
expect("a tensor of a call is kept", not any(x() is not None for x in gone))
for n in range(200):
    given = tensors_of(*[(1, 2, 3 + n % 7, 8)] * 3)
    found = clattn_torch.attention(*given)
    kept = [x.clone() for x in given]
    del given
    fresh = [torch.full_like(x, 3.0) for x in kept]
    clattn_torch.attention(*kept)
    expect("memory of a call before is written", all((x == 3).all() for x in fresh))
    near("a call after others", found, OWN(*kept))
failed = []


def threaded(seed):
    try:
        for n in range(40):
            given = [R(1, 2, 2 + (n + seed) % 9, 8) for _ in "qkv"]
            scale = (0.0, None, 0.5)[n % 3]
            torch.testing.assert_close(clattn_torch.attention(*given, scale=scale), OWN(*given, scale=scale), rtol=2e-5, atol=2e-5)
            leaves = [x.requires_grad_() for x in given]
            torch.testing.assert_close(torch.autograd.grad(clattn_torch.attention(*leaves).sum(), leaves),
                                       torch.autograd.grad(OWN(*leaves).sum(), leaves), rtol=1e-4, atol=1e-4)
    except BaseException as error:
        failed.append(error)


threads = [threading.Thread(target=threaded, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
expect(f"four threads: {failed}", not failed)

# Tensors without memory, and another default device.
with torch.device("meta"):
    near("beside a default device", clattn_torch.attention(q, k, v), OWN(q, k, v))
expect("meta tensors", DOOR(*[x.to("meta") for x in (q, k, v)]).device.type == "meta")
with torch._subclasses.FakeTensorMode() as mode:
    fake = [mode.from_tensor(x) for x in (q, k, v)]
    expect("fake tensors", DOOR(*fake).shape == SHAPE and clattn_torch.attention(*fake, lse=True)[1].shape == SHAPE[:3])

# Finite differences by torch itself. torch's samples with a dropout of 1, its reference inputs and
# its wrong inputs.
leaves = [x.clone().requires_grad_() for x in (q, k, v, torch.zeros(4, 4))]
expect("gradcheck", torch.autograd.gradcheck(lambda q, k, v, bias: DOOR(q, k, v, bias, scale=0.4), leaves, eps=1e-2, atol=5e-3, rtol=5e-3,
                                             nondet_tol=0.0))
for operator in (op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention"):
    for dtype in (torch.float32, torch.bfloat16):
        for n, sample in enumerate(operator.reference_inputs("cpu", dtype)):
            if sample.kwargs.get("dropout_p") in (None, 0.0, 1.0):
                alike(f"torch's reference input {n}, {dtype}", lambda attend: attend(sample.input, *sample.args, **sample.kwargs))
    for wrong in operator.error_inputs("cpu") if operator.error_inputs_func else ():
        sample = wrong.sample_input
        alike("torch's error input", lambda attend: attend(sample.input, *sample.args, **sample.kwargs))
print(f"counted: {checks} outcomes beside torch {torch.__version__}, {calls} calls of clattn")
