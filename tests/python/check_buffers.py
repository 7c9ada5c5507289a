"""Buffers of the Python module: views, shared memory, caches, in-place outputs, and calls that do
not wait.

   check_buffers.py BUILD
"""
import gc
import os
import subprocess
import sys
import tempfile

import numpy as np

import python_checks
from python_checks import check, clattn, close, reference, refused

random = np.random.default_rng(3)


def numbers(*shape):
    return random.standard_normal(shape, np.float32)


int16 = "int16"  # torch's name


class Lent:
    """Memory with torch's interface: an address, strides in elements, and torch's names of types.
    """

    class device:
        type = "cpu"

    def __init__(self, array, dtype):
        self.array, self.dtype, self.shape = array, f"torch.{dtype}", array.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def detach(self):
        return self

    def view(self, dtype):
        return Lent(self.array.view(dtype), dtype)

    def numpy(self):
        return self.array


class Packet:
    """Memory that only has DLPack's interface."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def views():
    x = numbers(2, 3, 8, 4)
    buffer = clattn.Buffer(x)
    check(np.array_equal(buffer.numpy(), x) and buffer.shape == x.shape and buffer.strides == (96, 32, 4, 1), "a copy")
    x_, b_ = x, buffer
    for words, view in (("rows", lambda t: t[:, :, 3:7]), ("one", lambda t: t[1]), ("steps", lambda t: t[:, ::2, ::3, 1:3]),
        ("axes", lambda t: t.transpose(0, 2, 1, 3)),
                        ("last", lambda t: t[..., -1]), ("new axis", lambda t: t[0, :, None]), ("number", lambda t: t[1, 2, 3, 1, ...]),
                        ("none", lambda t: t[:, :, 5:5]), ("both", lambda t: t.transpose(2, 0, 1, 3)[1:4, :, 1]),
                            ("other axes", lambda t: t.reshape(6, 32))):
        check(np.array_equal(view(b_).numpy(), view(x_)) and view(b_).shape == view(x_).shape, words)
        written = x.copy()
        view(written)[...] = 7
        with_copy = clattn.Buffer(x)
        view(with_copy)[...] = 7
        check(np.array_equal(with_copy.numpy(), written), f"written: {words}")
    many = clattn.Buffer(numbers(600, 3))
    many[:, 1] = np.arange(600)
    check(np.array_equal(many[:, 1].numpy(), np.arange(600)) and not np.array_equal(many[:, 0].numpy(), np.arange(600)),
        "a view of many pieces")
    refused("negative step", lambda: buffer[::-1])
    refused("numbers and slices", lambda: buffer[np.array([0, 1])])
    refused("no other shape", buffer.transpose(0, 2, 1, 3).reshape, 6, 32)
    refused("repeats", lambda: buffer[:, :, :1].broadcast_to((2, 3, 8, 4)).write(0))
    refused("index 5", lambda: buffer[5])
    for dtype, given in (("float16", x.astype(np.float16)), ("int8", np.arange(6, dtype=np.int8)), ("bool", np.array([True, False])),
                         ("int32", np.arange(6).reshape(2, 3)), ("bfloat16", clattn.to_bf16(x))):
        made = clattn.Buffer(given, dtype)
        check(made.dtype == dtype and np.array_equal(made.numpy(), given), dtype)
    check(np.array_equal(clattn.Buffer(x, "bfloat16").numpy(), clattn.to_bf16(x)), "rounded to bfloat16")
    check(np.array_equal(clattn.Buffer(clattn.to_bf16(x).view(np.uint16), "bfloat16").numpy(), clattn.to_bf16(x)), "the bits of bfloat16")
    check(np.array_equal(clattn.Buffer(x.astype(">f4")).numpy(), x), "another byte order")
    check(clattn.Buffer([3, 4]).dtype == "int32" and clattn.Buffer.zeros((2, 0, 3)).numpy().shape == (2, 0, 3), "small ones")
    check(not clattn.Buffer.zeros((3, 50), "int8").numpy().any(), "zeros")
    refused("does not fit int32", clattn.Buffer, [2**31])
    refused("does not fit int8", clattn.Buffer, [200], "int8")
    bits = np.arange(256, dtype=np.uint8)
    check((clattn.Buffer(bits, "float8_e5m2").numpy().view(np.uint8) == bits).all(), "the bits of float8")
    check(clattn.Buffer(bits.view(clattn.F8E4M3)).dtype == "float8_e4m3fn", "arrays of F8E4M3")
    refused("", clattn.Buffer, np.ones(3, np.float32), "float8_e5m2")
    refused("float64 are not taken", clattn.Buffer, x.astype(np.float64))
    refused("below 0", clattn.Buffer.zeros, (2, -1))


def shared():
    x = numbers(1, 2, 40, 16)
    buffer = clattn.Buffer.over(x[:, :, 3:35])
    check(buffer.shared and "over memory of the host" in repr(buffer), "shared")
    want = reference(*[x[:, :, 3:35]] * 3)[0]
    close(clattn.attention(buffer, buffer, buffer).numpy(), want, "attention over numpy's memory")
    x *= 2
    close(clattn.attention(buffer, buffer, buffer).numpy(), reference(*[x[:, :, 3:35]] * 3)[0], "what the host writes is read")
    out = np.zeros((1, 2, 32, 16), np.float32)
    clattn.attention(buffer, buffer, buffer, out=clattn.Buffer.over(out)).wait()
    close(out, reference(*[x[:, :, 3:35]] * 3)[0], "what a call writes stands there")
    clattn.Buffer.over(out)[0, 1, 2] = 5
    check((out[0, 1, 2] == 5).all(), "what is written stands there")
    half = clattn.to_bf16(x).view(np.uint16)
    for words, given, dtype in (("torch", Lent(x[:, :, ::2], "float32"), None), ("torch's bfloat16", Lent(half, "bfloat16"), None),
        ("DLPack", Packet(x), None),
                                ("the bits of bfloat16", half, "bfloat16"), ("no address of 64",
                                    np.frombuffer(bytearray(4 * 33), np.float32)[1:], None)):
        made = clattn.Buffer.over(given, dtype)
        check(made.shared and made.shape == tuple(getattr(given, "array", given).shape), words)
    check(np.array_equal(clattn.Buffer.over(Lent(half, "bfloat16")).numpy().view(np.uint16), half), "torch's bfloat16")
    check(np.array_equal(clattn.Buffer(Lent(half, "bfloat16")).numpy().view(np.uint16), half), "a copy of torch's bfloat16")
    close(clattn.attention(*[Lent(x, "float32")] * 3), reference(x, x, x)[0], "torch in a call", 1e-5)
    locked = x.copy()
    locked.flags.writeable = False
    close(clattn.attention(*[clattn.Buffer.over(locked)] * 3).numpy(), reference(x, x, x)[0], "memory that is only read", 1e-5)
    refused("READ_ONLY", clattn.attention, x, x, x, out=clattn.Buffer.over(locked))
    refused("may not be written", clattn.Buffer.over(locked).write, 0)
    refused("stride is negative", clattn.Buffer.over, x[:, ::-1])
    refused("byte", clattn.Buffer.over, x.astype(">f4"))
    refused("cannot lie as float16", clattn.Buffer.over, x, "float16")
    odd = np.frombuffer(bytearray(4 * 33), np.uint8)[1:5].view(np.float32)
    refused("no multiple of an element", clattn.Buffer.over, odd)
    check(not clattn.Buffer.over(odd, copy=True).shared, "copied where that is allowed")

    class Nowhere:
        shape, dtype = (1, 1), "float32"

        def data_ptr(self):
            return 4096
    refused("no device that says where it lies", clattn.Buffer.over, Nowhere())

    class Gathers:
        def __index__(self):
            raise TypeError("only integer tensors of a single element")

        def __array__(self, *_, **__):
            return np.array([0, 1])
    for part in (np.True_, True, Gathers(), np.array([0, 1]), [0, 1]):
        refused("by numbers and slices", clattn.Buffer(x).__getitem__, part)
    check("views of" in repr(vars(clattn.Buffer(x))), "what is shown of a Buffer is no element")

    class Far(Lent):
        class device:
            type = "cuda"
    refused("a tensor on cuda", clattn.Buffer.over, Far(x, "float32"))


def layouts():
    packed = clattn.Buffer(numbers(2, 20, 3, 4, 16))  # [B, N, q k v, H, D]
    q, k, v = (packed[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    out = clattn.attention(q, k, v, causal=True)
    check(isinstance(out, clattn.Buffer), "Buffers give a Buffer")
    close(out.numpy(), reference(q.numpy(), k.numpy(), v.numpy(), causal=True)[0], "one buffer of q, k and v")
    rows = clattn.Buffer(numbers(1, 1, 30, 24))  # latent attention: v is the first 16 numbers of k
    query = numbers(1, 4, 3, 24)
    got = clattn.attention(clattn.Buffer(query), rows, rows[..., :16])
    close(got.numpy(), reference(query, rows.numpy(), rows.numpy()[..., :16])[0], "v as a view of k")
    into = clattn.Buffer.zeros((2, 20, 4, 16))
    back = clattn.attention(q, k, v, causal=True, out=into.transpose(0, 2, 1, 3), lse=True)
    close(into.transpose(0, 2, 1, 3).numpy(), out.numpy(), "into a strided Buffer", 0)
    check(isinstance(back[1], clattn.Buffer) and back[1].dtype == "float32", "lse of Buffers is one")
    array = np.full((2, 20, 4, 16), 9, np.float32)
    check(clattn.attention(q, k, v, causal=True, out=array.transpose(0, 2, 1, 3)).base is array, "out is what was given")
    close(array.transpose(0, 2, 1, 3), out.numpy(), "into a strided array", 0)
    mixed = clattn.attention(q.numpy(), k, v, causal=True)
    check(isinstance(mixed, np.ndarray), "an array first gives an array")
    pool, table = clattn.Buffer(numbers(5, 2, 8, 16)), np.array([[4, 0, 2]])
    keys = np.concatenate([pool.numpy()[n] for n in table[0]], 1)[None, :, :19]
    ask = numbers(1, 4, 1, 16)
    got = clattn.attention(clattn.Buffer(ask), pool, pool, block_table=table, page_size=8, kv_lengths=[19], weights=True, scores="masked")
    out, _, p = reference(ask, keys, keys)
    close(got[0].numpy(), out, "pages")
    check(got[1].shape == got[2].shape == (1, 4, 1, 24), "weights beside pages count all of their rows")
    close(got[1].numpy()[..., :19], p, "weights beside pages")


def caches():
    for dtype, tolerance in (("float32", 2e-6), ("bfloat16", 2e-2), ("int8", 3e-2), ("float8_e4m3fn", 0.2), ("f8e5m2", 0.4),
                             ("int4", 0.5), ("u4", 0.4)):
        rows, new = numbers(2, 2, 9, 16), numbers(2, 2, 3, 16)
        k, v = (clattn.Buffer.zeros((2, 2, 16, 8 if "4" in dtype[-2:] else 16), dtype) for _ in "kv")
        scales = {"k_scale": clattn.Buffer.zeros((2, 2, 16)), "v_scale": clattn.Buffer.zeros((2, 2, 16))} if "8" in dtype else {}
        if "4" in dtype[-2:]:
            scales = {name: clattn.Buffer.zeros((2, 2, 16, 1), "float16") for name in ("k_scale", "v_scale", "k_zero", "v_zero")[:2 if dtype == "int4" else 4]}
        clattn.append(rows, -rows, k=k, v=v, **scales)
        clattn.append(k_new=clattn.Buffer(new), v_new=clattn.Buffer(-new), k=k, v=v, starts=[9, 9], lengths=[3, 2], **scales)
        q = numbers(2, 4, 1, 16)
        last = numbers(2, 2, 1, 16)
        got = clattn.attention(q, k, v, k_new=last, v_new=-last, kv_lengths=[13, 12], **scales)
        for b, keys in enumerate((np.concatenate([rows[0], new[0], last[0]], 1), np.concatenate([rows[1], new[1, :, :2], last[1]], 1))):
            close(got[b:b + 1], reference(q[b:b + 1], keys[None], -keys[None])[0], f"a cache of {dtype}, item {b}", tolerance)
    refused("clattn.Buffer", clattn.attention, q, rows, rows, k_new=last, v_new=last)
    refused("clattn.Buffer", clattn.append, new, new, k=rows, v=rows)
    refused("starts: shape (1,) was given, [B] is wanted, (2,)", clattn.append, new, new, k=k, v=v, starts=[0])
    # Keys with RoPE, shifted by -3, equal keys with RoPE at positions lower by 3. Rows past an
    # item's length do not change.
    for dtype, tolerance in (("float32", 2e-6), ("bfloat16", 4e-2), ("int8", 6e-2), ("float8_e4m3fn", 0.5), ("i8 in groups", 6e-2), ("q8_0", 6e-2)):
        groups = dtype == "i8 in groups"  # RoPE changes a part of one group
        rows, how = numbers(2, 2, 5, 64 if groups else 32), {"layout": "half", "base": 500.0, "rotary_dim": 20 * groups}
        dtype = "int8" if groups else dtype
        k = clattn.Buffer(rows, dtype) if dtype == "q8_0" else clattn.Buffer.zeros(rows.shape, dtype)
        scales = {"k_scale": clattn.Buffer.zeros((2, 2, 5))} if dtype in ("int8", "float8_e4m3fn") else {}
        if groups:
            scales = {name: clattn.Buffer.zeros((2, 2, 5, 2), "float16") for name in ("k_scale", "k_zero")}
        clattn.append(rows, k=k, rope={**how, "position": 9}, **scales)
        clattn.shift(k, deltas=[-3, 0], lengths=[4, 5], rope=how, **scales)
        got = clattn.attention(rows[:, :, :1], k, k, kv_lengths=[1, 1], **scales, **{"v" + name[1:]: x for name, x in scales.items()})
        close(got[0], clattn.rope(rows[:1, :, :1], position=6, **how)[0], f"a shifted key of {dtype}", tolerance)
        close(got[1], clattn.rope(rows[1:, :, :1], position=9, **how)[0], f"a key of {dtype} that stays", tolerance)
    refused("clattn.Buffer", clattn.shift, rows, delta=1, rope=how)
    kept, x = clattn.Buffer(rows), clattn.Buffer(rows)
    clattn.hadamard(x, y=x, block=4)
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    close(x.numpy(), (rows.reshape(-1, 4) @ signs).reshape(rows.shape), "Hadamard's matrix in place", 1e-6)
    close(clattn.hadamard(clattn.hadamard(kept)).numpy(), rows, "Hadamard's matrix twice", 1e-6)
    refused("block: 3 of D = 32", clattn.hadamard, rows, block=3)
    ring = clattn.Buffer.zeros((1, 1, 4, 8))
    for at in range(6):
        clattn.append(np.full((1, 1, 1, 8), at, np.float32), k=ring, start=at, circular=True)
    check(ring[0, 0, :, 0].numpy().tolist() == [4, 5, 2, 3], "a ring")
    # A layer that appends one token at a time equals the layer over all tokens.
    x, w = numbers(1, 7, 32), {name: numbers(n, 32) / 6 for name, n in (("wq", 32), ("wk", 16), ("wv", 16), ("wo", 32))}
    options = dict(w, heads=4, kv_heads=2, causal=True, rope={"layout": "half"}, projection="native")
    k, v = (clattn.Buffer.zeros((1, 2, 10, 8)) for _ in "kv")
    whole = clattn.layer(x, **options)
    for n in range(7):
        step = clattn.layer(x[:, n:n + 1], k=k, v=v, append=True, kv_lengths=[n + 1], alignment="bottom_right", **options)
        close(step, whole[:, n:n + 1], f"step {n}", 2e-6)
    refused("clattn.Buffer", clattn.layer, x, k=k.numpy(), v=v.numpy(), append=True, **options)
    made = clattn.layer_kv(x, wk=w["wk"], wv=w["wv"], kv_heads=2, rope={"layout": "half"})
    close(made[0], k[:, :, :7].numpy(), "keys of layer_kv", 2e-6)
    given = {name: value for name, value in options.items() if name not in ("wk", "wv", "kv_heads")}
    got = clattn.layer(x, k=made[0], v=made[1], kv_heads=2, weights=True, **given)
    close(got[0], whole, "a layer of given k and v needs no wk and wv", 2e-6)
    check(got[1].shape == (1, 4, 7, 7), "its weights")
    weights = clattn.layer(x[:, :1], k=k, v=v, append=True, kv_lengths=[8], alignment="bottom_right", weights=True, **options)[1]
    check(weights.shape == (1, 4, 1, 10), "weights of a layer with a cache count its capacity")
    past = clattn.layer(x[:, :2], past_k=made[0], past_v=made[1], weights=True, alignment="bottom_right", **options)[1]
    check(past.shape == (1, 4, 2, 9), "weights of a layer beside a past count both")


def waits():
    """A call on Buffers does not wait, and reads nothing back."""
    lib, waited = clattn.library(), []
    kept = {name: getattr(lib, name) for name in ("clFinish", "clEnqueueReadBuffer", "clEnqueueWriteBuffer")}
    q, cache, w = clattn.Buffer(numbers(1, 4, 1, 16)), clattn.Buffer(numbers(1, 2, 9, 16)), clattn.Buffer(numbers(16, 16))
    for name in kept:
        setattr(lib, name, lambda *arguments, name=name: waited.append(name) or kept[name](*arguments))
    out = clattn.attention(q, cache, cache, lse=True, kv_lengths=[9])
    out = clattn.linear(out[0][0, :, 0], w, projection="native")
    cache[0, 1, 2, 4:8] = 5
    check(not waited, f"{waited}")
    out.numpy()
    check(waited == ["clEnqueueReadBuffer"], f"{waited}")
    for name, function in kept.items():
        setattr(lib, name, function)
    check((cache.numpy() == 5).sum() == 4 and (cache.numpy()[0, 1, 2, 4:8] == 5).all(), "few numbers are written as a pattern")
    before = cache.numpy()
    later = [view.later() for view in (cache, cache[0, :, 1:3, 3], cache[:, :, 3:3])]
    cache.write(7)
    for found, want in zip(later, (before, before[0, :, 1:3, 3], before[:, :, 3:3])):
        check(np.array_equal(found.numpy(), want) and np.array_equal(found.numpy(), want), "numbers of before, read later")
    cache.later()  # its result is never used


def lives():
    context = clattn.Context()
    x = numbers(1, 2, 5, 8)
    buffer, over = clattn.Buffer(x, context=context), clattn.Buffer.over(x.copy(), context=context)
    refused("another context", clattn.Context().attention, buffer, buffer, buffer)
    check(clattn.attention(buffer, buffer, buffer).context is context, "the function takes a Buffer's context")
    context.close()
    refused("the context is closed", buffer.numpy)
    refused("the context is closed", clattn.attention, buffer, buffer, buffer)
    refused("the context is closed", buffer.write, x)
    del buffer, over, context
    gc.collect()
    for _ in range(20):  # memory that is released while a call still uses it
        q, out = clattn.Buffer.over(numbers(1, 4, 256, 64)), clattn.Buffer.zeros((1, 4, 256, 64))
        want = clattn.attention(q.numpy(), q, q)
        clattn.attention(q, q, q, out=out)
        del q
        close(out.numpy(), want, "memory that is let go", 0)
    refused("is taken", clattn.Buffer, x, context=3)


def recorded():
    """A decoder step, recorded once with new rows and lengths in Buffers, compared with calls that
    have lengths on the host."""
    context = clattn.Context()
    heads, size, capacity, steps = 4, 16, 12, 5
    def buffer(x, **of):
        return clattn.Buffer(np.asarray(x), context=context, **of)
    rows = {name: buffer(np.zeros((1, n, 2, size), np.float32)) for name, n in (("q", heads), ("k_new", 2), ("v_new", 2))}
    caches = [buffer(np.zeros((2, 2, capacity, size), np.float32)) for _ in "kvkv"]
    out, ends, lengths = clattn.Buffer.zeros((1, heads, 2, size), context=context), buffer(np.arange(3)), buffer(np.ones(2, int))
    with context.record() as step:
        context.attention(**rows, k=caches[0], v=caches[1], cu_seqlens_q_device=ends, kv_lengths_device=lengths, max_q=1, out=out,
                          causal=True, alignment="bottom_right", rope={"layout": "half"})
        refused("writes into Buffers", context.attention, numbers(1, 2, 3, 8), numbers(1, 2, 3, 8), numbers(1, 2, 3, 8))
        refused("linear_pack is not recorded", context.linear_pack, numbers(8, 8))
        refused("inside its own", step.close)
        refused("another one", context.record().__enter__)
    check(not out.numpy().any() and step.launches > 1, "nothing ran")
    for at in range(steps):
        if at == 2:  # on a CPU one launch, if its compiler supports that
            before = step.launches
            check(step.fuse() is step and 0 < step.launches <= before, "fused")
        new, counts = {name: numbers(*x.shape) for name, x in rows.items()}, [1 + at, 3 + 2 * at]
        for name, x in new.items():
            rows[name][...] = x
        lengths[...] = np.array(counts)
        step()
        dense = {name: np.ascontiguousarray(x.transpose(2, 1, 0, 3)) for name, x in new.items()}
        want = context.attention(**dense, k=caches[2], v=caches[3], kv_lengths=counts, causal=True, alignment="bottom_right",
                                 rope={"layout": "half"})
        close(out.numpy().transpose(2, 1, 0, 3), want, f"step {at}", 2e-6)
    q, pool, pages = numbers(1, 2, 1, size), numbers(6, 2, 4, size), buffer(np.arange(3)[None])
    fed, ends, lengths, kept = buffer(q), buffer(np.arange(2)), buffer(np.array([11])), buffer(pool)
    with context.record() as paged:
        found = context.attention(fed, kept, kept, block_table=pages, page_size=4, cu_seqlens_q_device=ends, kv_lengths_device=lengths,
                                  max_q=1)
    for order in [0, 1, 2], [5, 3, 4]:  # other pages between two replays
        pages[...] = np.array([order])
        paged()
        keys = np.concatenate([pool[page] for page in order], axis=1)[None, :, :11]
        close(found.numpy(), context.attention(q, keys, keys), f"pages {order}", 2e-6)
    over = clattn.Buffer.over(numbers(1, 2, 5, 8), context=context)
    with context.record() as short:
        found = context.attention(over, over, over)
    del over
    gc.collect()
    short()
    check(np.isfinite(found.numpy()).all() and found.numpy().any(), "memory that is let go")
    short.close()
    refused("the recording is closed", short)
    refused("the recording is closed", lambda: short.launches)
    refused("the recording is closed", short.fuse)
    try:
        with context.record() as broken:
            raise KeyError
    except KeyError:
        refused("the recording is closed", broken)
    context.attention(found, found, found)  # succeeds
    context.close()
    refused("the context is closed", step)


SHARING = """
import sys
sys.path.insert(0, sys.argv[1])
import clattn, numpy as np
raw = np.zeros(5 * 4096, np.uint8)
first = -raw.ctypes.data % 4096
def piece(at):
    return raw[first + at:first + at + 4 * 2 * 20 * 16].view(np.float32).reshape(1, 2, 20, 16)
with clattn.Context(tuned_rows="flash :") as context:
    x = piece(0)
    x[:] = np.random.default_rng(1).standard_normal(x.shape)
    wanted = context.attention(x.copy(), x.copy(), x.copy())
    k = clattn.Buffer.over(x, context=context, copy=True)
    out = piece(3 * 4096)
    to = clattn.Buffer.over(out, context=context, copy=True)
    context.attention(k, k, k, out=to).wait()
    found = out if to.shared else to.numpy()
    print(context.in_place(x), context.in_place(piece(64)), k.shared, to.shared, np.abs(found - wanted).max() < 1e-6)
"""


def liars():
    """Results are right on devices that share the host's memory, or report it wrongly.

    The OpenCL layer imitates these devices."""
    build = os.path.abspath(sys.argv[1])
    layer = os.path.join(build, "tests/libclattn_layer.so")
    if not os.path.exists(layer):
        return
    kinds = (("a CPU that copies", "answer unified-memory yes", True, "False False False False True"),
             ("a GPU that shares memory", "answer type gpu\nanswer unified-memory yes", False, "True False True True True"),
             ("a GPU that copies", "answer type gpu\nanswer unified-memory yes", True, "False False False False True"),
             ("a GPU with memory of its own", "answer type gpu\nanswer unified-memory no", False, "False False False False True"))
    for name, answers, copies, want in kinds:
        with tempfile.NamedTemporaryFile("w", suffix=".driver") as driver:
            driver.write(answers + "\n")
            driver.flush()
            own = {**os.environ, "OPENCL_LAYERS": layer, "CLATTN_LAYER_DRIVER": driver.name}
            done = subprocess.run([sys.executable, "-c", SHARING, build], env={**own, "CLATTN_LAYER_COPIES": "1"} if copies else own,
                                  capture_output=True, text=True)
            check(done.stdout.strip() == want, f"{name}: {done.stdout}{done.stderr[-500:]}")


views()
liars()
recorded()
shared()
layouts()
caches()
waits()
lives()
print(f"{python_checks.checks} checks of Buffers")
