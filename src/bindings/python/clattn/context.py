"""A context, which runs the calls, and its recordings."""
import atexit
import contextlib
import ctypes as c
import os
import threading
import weakref
from typing import Any

import numpy as np

from . import buffer
from ._abi import (
    CLATTN_DRIVER, CLATTN_OK, CLATTN_UNSUPPORTED, clattn_capabilities, clattn_context_params,
    clattn_context_stats, clattn_engine, clattn_features, clattn_pack_params, clattn_packed,
    clattn_unfit,
)
from .buffer import Buffer, _Memory
from .call import Packed, _Call, _refuse_strangers, last_error
from .device import _chosen, _devices, _facts
from .forms import (
    _TAKES, _activate, _append, _argmax, _attention, _backward, _block_mask, _dropout_mask,
    _embedding, _hadamard, _index, _layer, _layer_backward, _layer_forward, _layer_kv, _linear,
    _linear_attention, _linear_backward, _merge, _norm, _rope, _sample, _shift, _topk,
)
from .opencl import _ask
from .runtime import Error, _Closed, _lock, _Log, library
from .values import _array

_contexts: weakref.WeakSet["Context"] = weakref.WeakSet()


class Recording(_Closed):
    """A recorded step, made by Context.record(). Calling it enqueues its launches on the context's
    queue."""

    def __init__(self, context, handle):
        self.context, self.handle, self.kept, self._count = context, handle, [], None
        context._recordings.add(self)

    def __repr__(self):
        state = "closed" if not self.handle else "recording" if self._count is None else f"{self._count} launches"
        return f"<clattn.Recording, {state}, on {self.context._named()}>"

    @contextlib.contextmanager
    def _use(self):
        with self.context._use() as lib:
            if not self.handle:
                raise ValueError("the recording is closed")
            yield lib

    @property
    def launches(self):
        with self._use() as lib:
            return lib.clattn_recording_launches(self.handle)

    def fuse(self):
        """Combine its launches into as few as the device allows. Returns the recording.

        The first time needs seconds."""
        with self._use() as lib:
            status = lib.clattn_recording_fuse(self.handle)
            if status != CLATTN_OK:
                raise Error(status, last_error(self.context.handle))
            self._count = lib.clattn_recording_launches(self.handle)
        return self

    def __call__(self):
        with self._use() as lib:
            status = lib.clattn_recording_enqueue(self.handle, self.context.queue, 0, None, None)
            if status != CLATTN_OK:
                raise Error(status, last_error(self.context.handle))
            _ask(lib, "clFlush", self.context.queue)

    def close(self):
        """Wait for its calls, and release its memory."""
        if self.context._pid != os.getpid():
            return  # a child of fork has no threads of the driver
        with self.context._lock:
            if self.context._recorded is self:
                raise ValueError("a recording is not closed inside its own `with`")
            if self.handle and self.context.handle:
                library().clFinish(self.context.queue)
                library().clattn_recording_destroy(self.handle)
            self.handle, self.kept = None, []


class _Use:
    """The result of Context._use(). Each call uses it; this class is twice as fast as a
    generator."""
    __slots__ = ("_context",)

    def __init__(self, context):
        self._context = context

    def __enter__(self):
        context = self._context
        context._lock.acquire()
        if not context.handle or context._pid != os.getpid():
            context._lock.release()
            raise ValueError("the context is closed" if not context.handle else "the context is another process's")
        context._depth += 1
        return library()

    def __exit__(self, *_):
        self._context._depth -= 1
        self._context._lock.release()


class Context(_Closed):
    """A device with its compiled kernels and an in-order queue. Calls of several threads wait for
    one another.

        device   its number among devices(), "gpu", "cpu", or a part of a name that only one device
                 has; None: the device that the environment variable CLATTN_DEVICE names in the
                 same way, else the first

    A Context closes at the end of a `with`, by close(), by the garbage collector, and when Python
    ends."""
    handle = queue = _name = None

    def __init__(self, device=None, **options):
        self._lock, self._depth, self._pid, self._log = threading.RLock(), 0, os.getpid(), _Log()
        self._groups: weakref.WeakSet[Any] = weakref.WeakSet()
        self._recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
        self._recorded: Recording | None = None
        self._placed: dict[tuple[int, int], bool] = {}  # results of _in_place
        # The first query starts PoCL 3.1. Two at once would crash the process.
        with _lock:
            self._create(device, options)

    def _create(self, device, options):
        lib, listed = library(), _devices(self._log)
        if not listed:
            self._log.check(CLATTN_UNSUPPORTED)
        device = _chosen(device, len(listed))
        params, made, code = clattn_context_params(device=listed[device].device, log=self._log.struct), c.c_void_p(), c.c_int32()
        call = _Call(None, params)
        call.options(params, options)
        self._log.check(lib.clattn_context_create(c.byref(params), c.byref(made)))
        self.handle = made
        self._log.warn()
        facts = clattn_capabilities.from_address(lib.clattn_context_capabilities(made))
        self._name = f"{facts.name.decode(errors='replace')!r} (driver {facts.driver.decode(errors='replace')})"
        self.queue = lib.clCreateCommandQueue(lib.clattn_context_opencl(made), lib.clattn_context_device(made), 0, c.byref(code))
        if not self.queue:
            self.close()
            raise Error(CLATTN_DRIVER, f"clCreateCommandQueue failed ({code.value})")
        _contexts.add(self)

    def _use(self):
        """Return a context manager that holds the open context for this thread alone."""
        return _Use(self)

    def close(self):
        """Wait for its calls, save its kernels, and release everything. Its Buffers may live on,
        but cannot be used."""
        if self._pid != os.getpid():
            # A child of fork has no threads of the driver, and owns nothing of this.
            return
        while True:
            for group in list(self._groups):
                group.close()
            with self._lock:
                # No new group was made meanwhile.
                if not any(group.handle for group in self._groups):
                    return self._end()

    def _end(self):
        """Release everything. The caller holds the lock."""
        if self._depth:
            raise ValueError("a context is not closed from inside a call of its own, such as by its progress")
        if self.queue:
            library().clFinish(self.queue)
            for recording in list(self._recordings):
                recording.close()
            library().clReleaseCommandQueue(self.queue)
        if self.handle:
            library().clattn_context_destroy(self.handle)
        self.handle = self.queue = None
        self._log.warn()

    def _named(self):
        """Return the name and driver of the device, and whether the context is closed."""
        return f"{self._name or 'no device'}{'' if self.handle else ', closed'}"

    def __repr__(self):
        return f"<clattn.Context on {self._named()}{', open' * bool(self.handle)}>"

    @contextlib.contextmanager
    def record(self):
        """Record a step: the calls of this context do not run within `with context.record() as
        step:`.

        step() runs the calls, without checks and planning. Numbers and arrays keep their values.
        Tensors and lengths that change must be Buffers, which the caller writes (lengths:
        kv_lengths_device with cu_seqlens_q_device). Results are Buffers. Other threads wait until
        the `with` ends."""
        with self._use() as lib:
            made = c.c_void_p()
            status = lib.clattn_recording_begin(self.handle, self.queue, c.byref(made))
            if status != CLATTN_OK:
                raise Error(status, last_error(self.handle))
            step = Recording(self, made)
            self._recorded = step
            try:
                yield step
                self._recorded = None
                status = lib.clattn_recording_end(made)
                if status != CLATTN_OK:
                    raise Error(status, last_error(self.handle))
                step._count = lib.clattn_recording_launches(made)
            except BaseException:
                self._recorded = None
                step.close()
                raise

    def _prepared(self, form, given, planned=False):
        """Return a call with filled params. The caller is within _use()."""
        given = dict(given)
        _refuse_strangers(_TAKES[form], given)
        form = form(given)
        call = _Call(self, form.params, form.sizes, form.written, planned)
        call.sized = form.sized
        fields = call.options(form.params, given)
        for name, shape, dtype, into in form.outputs:
            setattr(fields[name], name, call.result(name, into, shape, dtype, isinstance(form.main, Buffer)))
        call.results_named = [output[0] for output in form.outputs]
        return call

    def _run(self, function, form, given):
        with self._use():
            found = self._prepared(form, given).enqueue(function)
        return found[0] if len(found) == 1 else tuple(found)

    def attention(self, q, k, v, *, out=None, lse=False, weights=False, scores=None, **options):
        """Compute attention. Returns out [B, H, Nq, Dv] of q's type, followed by lse, weights and
        scores if requested.

        Results are Buffers if q is a Buffer, else arrays. A new result is zero in rows that the
        call does not write, such as those past q_lengths."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "weights": weights, "scores": scores, **options}
        return self._run("clattn_attention_enqueue", _attention, given)

    def attention_backward(self, q, k, v, out, lse, dout, *, dlse=None, **options):
        """Compute the gradients of attention(). Returns dq, dk and dv, of the types of q, k and v.

        If dbias, dsinks, dalibi_slopes and dhead_scales are True, these gradients follow. out and
        lse are the results of attention(..., lse=True). The keywords of that call are repeated
        here."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, **({} if dlse is None else {"dlse": dlse}), **options}
        return self._run("clattn_attention_backward_enqueue", _backward, given)

    def layer(self, x, *, wq, wo, heads, wk=None, wv=None, out=None, lse=False, weights=False, scores=None, **options):
        """Compute an attention layer with its projections.

        Returns out [B, Nq, Mo] of x's type, followed by lse, weights and scores if requested. With
        k and v, made by layer_kv(), wk and wv are left out. With append=True k and v are caches,
        and the keys and values of x are appended."""
        given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, "out": out, "lse": lse, "weights": weights,
                 "scores": scores, **options}
        return self._run("clattn_layer_enqueue", _layer, given)

    def layer_forward(self, x, *, wq, wo, heads, wk=None, wv=None, out=None, kept=None, **options):
        """Compute layer() in a training step. Returns out and a Buffer `kept`.

        layer_backward() with the same arguments uses `kept`. Passing the `kept` of an earlier step
        writes it again. Everything between the projections and attention is float32."""
        given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, "out": out, **options}
        with self._use():
            if kept is None:
                asked, numbers = self._prepared(_layer_forward, given, planned=True), c.c_int64()
                asked.run("clattn_layer_kept", c.byref(asked.params), c.byref(numbers))
                kept = Buffer.zeros((numbers.value,), "float32", self)
            given["kept"] = kept
            return tuple(self._prepared(_layer_forward, given).enqueue("clattn_layer_forward_enqueue"))

    def layer_backward(self, x, dout, *, wq, wo, heads, wk=None, wv=None, **options):
        """Compute the gradients of layer() with the same keywords.

        Returns a dictionary with dx, dy and the gradients of all weights, biases and norms that are
        passed. Their names are d and the argument's name. dbias, dsinks, dalibi_slopes and
        dhead_scales are included if they are True."""
        given = {"x": x, "dout": dout, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, **options}
        with self._use():
            call = self._prepared(_layer_backward, given)
            return dict(zip(call.results_named, call.enqueue("clattn_layer_backward_enqueue")))

    def layer_kv(self, y, *, wk, wv, kv_heads, k=None, v=None, **options):
        """Compute keys and values of a layer: k [B, Hkv, Nkv, D] and v [B, Hkv, Nkv, Dv] of y's
        type."""
        given = {"y": y, "wk": wk, "wv": wv, "kv_heads": kv_heads, "k": k, "v": v, **options}
        return self._run("clattn_layer_kv_enqueue", _layer_kv, given)

    def linear(self, x, w, *, out=None, **options):
        """Compute a projection, x w^T + b: [B, N, K] by [M, K] is [B, N, M], of x's type.

        x, out and residual may also have two axes or one."""
        x = x if isinstance(x, Buffer) else _array("x", x)
        found = self._run("clattn_linear_enqueue", _linear, {"x": x, "w": w, "out": out, **options})
        return out if isinstance(out, (Buffer, np.ndarray)) else found[(0,) * max(3 - x.ndim, 0)]

    def linear_backward(self, dout, *, x=None, w=None, **options):
        """Compute the gradients of a plain projection.

        Returns dx [B, N, K] if w is passed, dw [M, K] if x is passed, and db [M]."""
        given = {"dout": dout, **({} if x is None else {"x": x}), **({} if w is None else {"w": w}), **options}
        return self._run("clattn_linear_backward_enqueue", _linear_backward, given)

    def linear_pack(self, w, *, precision="exact"):
        """Pack weights for this device. The Packed has no effect if no kernel of the device is
        faster with it."""
        with self._use():
            if self._recorded:
                raise ValueError("linear_pack is not recorded: weights are packed before")
            params, size = clattn_pack_params(), c.c_size_t()
            call = _Call(self, params)
            call.options(params, {"w": w, "precision": precision})
            call.run("clattn_linear_packed_bytes", c.byref(params), c.byref(size))
            made, memory = clattn_packed(), _Memory(self, size.value) if size.value else None
            params.buffer = memory.handle if memory else None
            call.run("clattn_linear_pack", self.queue, c.byref(params), c.byref(made), 0, None, None)
            return Packed(made, memory)

    def rope(self, x, *, y=None, **options):
        """Apply rotary position embedding (RoPE) to x [B, H, N, D]. Returns y of x's type.

        With y=x, a Buffer, it works in place."""
        return self._run("clattn_rope_enqueue", _rope, {"x": x, "y": y, **options})

    def hadamard(self, x, *, y=None, **options):
        """Multiply rows of x [B, H, N, D] by the normalised Hadamard matrix, which is its own
        inverse.

        Returns y; y=x, a Buffer, works in place."""
        return self._run("clattn_hadamard_enqueue", _hadamard, {"x": x, "y": y, **options})

    def linear_attention(self, q, k, v, *, decay=None, beta=None, out=None, state=None, new_state=None, **options):
        """Compute linear attention with a recurrent state: q [B, Hq, T, Dk], k [B, Hk, T, Dk] and
        v [B, Hv, T, Dv] return [B, H, T, Dv].

        The state is [B, Hs, Dk, Dv], Hs = max(Hk, Hv). With new_state=True, returns (out,
        new_state); new_state=state, a Buffer, works in place. Rules are "gated_delta", "gated",
        "delta" and "linear"."""
        given = {"q": q, "k": k, "v": v, "decay": decay, "beta": beta, "out": out, "state": state, "new_state": new_state, **options}
        return self._run("clattn_linear_attention_enqueue", _linear_attention, given)

    def append(self, k_new=None, v_new=None, *, k=None, v=None, **options):
        """Append new rows [B, Hkv, n, D] to the caches k and v [B, Hkv, capacity, D], which are
        Buffers."""
        self._run("clattn_append_enqueue", _append, {"k_new": k_new, "v_new": v_new, "k": k, "v": v, **options})

    def shift(self, k, *, rope, **options):
        """Move stored keys [B, Hkv, N, D], a Buffer, by delta or deltas positions, in place. `rope`
        is the keys' RoPE."""
        self._run("clattn_shift_enqueue", _shift, {"k": k, "rope": rope, **options})

    def merge(self, out_a, lse_a, out_b, lse_b, **options):
        """Merge two results of attention over disjoint keys. Returns (out, lse). Buffers out_a and
        lse_a are written in place."""
        given = {"out_a": out_a, "lse_a": lse_a, "out_b": out_b, "lse_b": lse_b, **options}
        return self._run("clattn_merge_enqueue", _merge, given) or (out_a, lse_a)

    def block_mask(self, q, k, v=None, *, block_mask=None, axes=None, **options):
        """Compute the block mask of mask and mask_mod for attention().

        Returns uint8 [B, H, ceil(Nq / 64), ceil(Nkv / 64)]. `axes` are its first two sizes, (B or
        1, H or 1). Only the shapes of q, k and v are used."""
        return self._run("clattn_block_mask_enqueue", _block_mask,
            {"q": q, "k": k, "v": v, "block_mask": block_mask, "axes": axes, **options})

    def dropout_mask(self, shape, *, dropout, dropout_seed=0, mask=None, **options):
        """Return the weights that dropout keeps: bool [B, H, Nq, Nkv] = shape."""
        given = {"shape": shape, "dropout": dropout, "dropout_seed": dropout_seed, "mask": mask, **options}
        return self._run("clattn_dropout_mask_enqueue", _dropout_mask, given)

    def norm(self, x, *, residual=None, sum=None, out=None, **options):
        """Compute RMSNorm, or LayerNorm with kind="layer", of x [B, N, M] or of x + residual.

        Returns out; with sum=True (out, x + residual)."""
        return self._run("clattn_norm_enqueue", _norm, {"x": x, "residual": residual, "sum": sum, "out": out, **options})

    def activation(self, x, activation, *, up=None, out=None, **options):
        """Compute the activation of x [B, N, M], times up.

        The activations are "silu", "gelu", "gelu_tanh", "gelu_quick", "relu", "relu_squared",
        "sigmoid" and "none"."""
        given = {"x": x, "activation": activation, "up": up, "out": out, **options}
        return self._run("clattn_activation_enqueue", _activate, given)

    def embedding(self, ids, table, *, scale=0.0, out=None, **options):
        """Look up rows of a table [V, M] by ids [B, N]. Returns [B, N, M], times scale. An id
        outside the table returns zeros."""
        return self._run("clattn_embedding_enqueue", _embedding, {"ids": ids, "table": table, "scale": scale, "out": out, **options})

    def argmax(self, x, *, lengths=None, out=None, **options):
        """Return the index of the greatest number of each row of x [B, N, V]: int32 [B, N].

        The first of equal numbers counts, and NaN is the greatest."""
        return self._run("clattn_argmax_enqueue", _argmax, {"x": x, "lengths": lengths, "out": out, **options})

    def sample(self, x, *, temperature=1.0, top_k=0, top_p=0.0, min_p=0.0, seed=0, out=None, **options):
        """Sample indices int32 [B, N] from softmax(x / temperature) of logits x [B, N, V].

        top_k, top_p and min_p limit the choice."""
        given = {"x": x, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed, "out": out, **options}
        return self._run("clattn_sample_enqueue", _sample, given)

    def topk(self, scores, *, top_k=None, indices=None, counts=None, values=None, **options):
        """Select the top_k entries of each row of scores [B, Hs, Nq, N]: int32 [B, Nq, Hs, top_k].

        The lists are sorted by position, and -1 fills unused places. Among equal scores the
        lower position is chosen. counts=True and values=True also return lengths and scores."""
        given = {"scores": scores, "top_k": top_k, "indices": indices, "counts": counts, "values": values, **options}
        return self._run("clattn_topk_enqueue", _topk, given)

    def index(self, q, k, *, weights=None, top_k=None, indices=None, counts=None, values=None, **options):
        """Select the top_k keys of each row by index scores: int32 [B, Nq, Hs, top_k], as topk().

        The score of key j for row i is the sum over index heads h of weights[i, h] * relu(q[h, i] .
        k[j]). With linear=True there is no relu."""
        given = {"q": q, "k": k, "weights": weights, "top_k": top_k, "indices": indices, "counts": counts, "values": values, **options}
        return self._run("clattn_index_enqueue", _index, given)

    def measure(self):
        """Measure what plans need to know about the device. This needs seconds. cache_dir stores
        the answers."""
        with self._use():
            _Call(self, None).run("clattn_context_measure")

    def _listed(self, function, kind, *arguments):
        count, call = c.c_size_t(), _Call(self, None)
        call.run(function, *arguments, None, 0, c.byref(count))
        found = (kind * count.value)()
        call.run(function, *arguments, found, count.value, c.byref(count))
        return [_facts(x) for x in found]

    def engines(self):
        """Return the instructions that the device was probed for: a list of dictionaries."""
        with self._use():
            return self._listed("clattn_context_engines", clattn_engine)

    def unfit(self):
        """Return the kernels that the driver refused and that this context avoids: a list of
        dictionaries."""
        with self._use():
            return self._listed("clattn_context_unfit", clattn_unfit)

    def in_place(self, array):
        """True if the device computes in the memory of a numpy array.

        Buffer.over() then shares it, and calls copy nothing."""
        array = _array("array", array)
        with self._use():
            return bool(array.size) and self._in_place(array.ctypes.data, array.nbytes)

    def _in_place(self, address, nbytes):
        """True if the device computes in host memory of this alignment (clattn_context_in_place).

        The answer is stored by alignment and size. The caller is within _use()."""
        place = (address | 4096) & -(address | 4096), (nbytes | 64) & -(nbytes | 64)
        found = self._placed.get(place)
        if found is None:
            answer = c.c_bool()
            _Call(self, None).run("clattn_context_in_place", address, nbytes, c.byref(answer))
            found = self._placed[place] = answer.value
        return found

    def features(self):
        """Return the features of the build and of this context: a dictionary."""
        with self._use():
            found = clattn_features()
            _Call(self, None).run("clattn_features_get", c.byref(found))
            return _facts(found)

    def stats(self):
        """Return a dictionary of statistics: programs built, and programs loaded from cache_dir."""
        with self._use() as lib:
            found = clattn_context_stats()
            lib.clattn_context_get_stats(self.handle, c.byref(found))
            return _facts(found)

    def capabilities(self):
        """Return what the driver reports about the device: a dictionary."""
        with self._use() as lib:
            return _facts(clattn_capabilities.from_address(lib.clattn_context_capabilities(self.handle)))

    def save_kernels(self):
        """Write compiled kernels to cache_dir now. close() does it as well."""
        with self._use() as lib:
            lib.clFinish(self.queue)
            lib.clattn_context_save_kernels(self.handle)


_default = None


def _context(context=None):
    """Return the given context, or that of the first device."""
    global _default
    if context is not None:
        if not isinstance(context, Context):
            raise TypeError(f"context: a clattn.Context is taken, not {type(context).__name__}")
        return context
    with _lock:
        if _default is None or not _default.handle:
            _default = Context()
        return _default


buffer._context = _context


@atexit.register
def _close_all():
    """Close what a script left open, so that kernels are saved. A context that a thread still uses
    is skipped."""
    for thing in [group for context in _contexts for group in context._groups] + list(_contexts):
        if thing._lock.acquire(blocking=False):
            try:
                if not any(group.handle for group in getattr(thing, "_groups", ())):
                    thing.close()
            finally:
                thing._lock.release()
