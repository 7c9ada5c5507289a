# A context, which does the calls, and recordings of them.
_contexts = weakref.WeakSet()


class Recording(_Closed):
    """What Context.record made: step() enqueues its launches, behind what was enqueued before."""

    def __init__(self, context, handle):
        self.context, self.handle, self.kept = context, handle, []
        context._recordings.add(self)

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
        """Make as few launches of it as the device allows, which takes seconds the first time; returns it."""
        with self._use() as lib:
            status = lib.clattn_recording_fuse(self.handle)
            if status != CLATTN_OK:
                raise Error(status, last_error(self.context.handle))
        return self

    def __call__(self):
        with self._use() as lib:
            status = lib.clattn_recording_enqueue(self.handle, self.context.queue, 0, None, None)
            if status != CLATTN_OK:
                raise Error(status, last_error(self.context.handle))
            _ask(lib, "clFlush", self.context.queue)

    def close(self):
        """Finish its calls, and give its memory back."""
        if self.context._pid != os.getpid():
            return  # a child of fork has no threads of the driver's
        with self.context._lock:
            if self.context._recorded is self:
                raise ValueError("a recording is not closed inside its own `with`")
            if self.handle and self.context.handle:
                library().clFinish(self.context.queue)
                library().clattn_recording_destroy(self.handle)
            self.handle, self.kept = None, []


class _Use:
    """Context._use(). Each call passes here, and a class costs half of a generator's time."""
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
    """A device with its compiled kernels and an in-order queue. `device` is its number among devices(), or a part of one name alone.
    Other keywords are fields of clattn_context_params, such as cache_dir. It closes with `with`, close(), when it is collected, and
    when Python ends; calls of several threads wait for one another."""
    handle = queue = None

    def __init__(self, device=0, **options):
        self._lock, self._depth, self._pid, self._groups, self._log = threading.RLock(), 0, os.getpid(), weakref.WeakSet(), _Log()
        self._recordings, self._recorded = weakref.WeakSet(), None
        self._placed = {}  # what _in_place found
        with _lock:  # of PoCL 3.1 the first question starts it, and two at once end the process
            self._create(device, options)

    def _create(self, device, options):
        lib, listed = library(), _devices(self._log)
        if not listed:
            self._log.check(CLATTN_UNSUPPORTED)
        if isinstance(device, str):
            named = [n for n, facts in enumerate(devices()) if device.lower() in facts["name"].lower()]
            if len(named) != 1:
                raise ValueError(f"{len(named)} devices are called {device!r}: {[facts['name'] for facts in devices()]}")
            device = named[0]
        if not 0 <= _number("device", device, c.c_int32) < len(listed):
            raise ValueError(f"there is no device {device}: there are {len(listed)}")
        params, made, code = clattn_context_params(device=listed[device].device, log=self._log.struct), c.c_void_p(), c.c_int32()
        call = _Call(None, params)
        call.options(params, options)
        self._log.check(lib.clattn_context_create(c.byref(params), c.byref(made)))
        self.handle = made
        self.queue = lib.clCreateCommandQueue(lib.clattn_context_opencl(made), lib.clattn_context_device(made), 0, c.byref(code))
        if not self.queue:
            self.close()
            raise Error(CLATTN_DRIVER, f"clCreateCommandQueue failed ({code.value})")
        _contexts.add(self)

    def _use(self):
        """The context for this thread alone, and open."""
        return _Use(self)

    def close(self):
        """Finish its calls, keep its kernels, and give all back. Its Buffers may live on, but not be used."""
        if self._pid != os.getpid():
            return  # a child of fork has no threads of the driver's, and nothing of this is its own
        while True:
            for group in list(self._groups):
                group.close()
            with self._lock:
                if not any(group.handle for group in self._groups):  # none was made meanwhile
                    return self._end()

    def _end(self):
        """Give all back: within the lock."""
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

    @contextlib.contextmanager
    def record(self):
        """`with context.record() as step:` the calls of this context within are not run, but recorded, and step() runs them as often as
        wanted, with nothing left to check or to plan: the step of a decoder, say. Tensors that change are Buffers, which are written in
        between, and so are lengths (kv_lengths_device with cu_seqlens_q_device); numbers and arrays stay what they were. Results are
        Buffers, which a step writes. Other threads wait meanwhile."""
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
            except BaseException:
                self._recorded = None
                step.close()
                raise

    def _prepared(self, form, given, planned=False):
        """A call whose params are filled: within _use()."""
        given = dict(given)
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
        """Attention: out [B, H, Nq, Dv] of q's type, or written into `out`, an array or a Buffer; rows that the call leaves alone, such
        as those past q_lengths, are zero in a new one. With lse=True float32 [B, H, Nq] after it; with weights=True, or a type, the
        attention weights [B, H, Nq, Nkv] after those; with scores a word of clattn_tap ("raw", "softcap", "masked", "softmax") that
        tap, float32. lse, weights and scores may be arrays or Buffers to write into, too (scores then with scores_at). k_new and v_new
        are appended to k and v, which are Buffers then. `sequences` is found from cu_seqlens_q where it is not given."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "weights": weights, "scores": scores, **options}
        return self._run("clattn_attention_enqueue", _attention, given)

    def attention_backward(self, q, k, v, out, lse, dout, *, dlse=None, **options):
        """Gradients of attention(): dq, dk and dv, of the types of q, k and v, or into arrays or Buffers of these names; False leaves one
        out. out and lse are what attention() gave, with the same keywords here. With dbias=True, dsinks=True, dalibi_slopes=True or
        dhead_scales=True those follow, float32. score_mod_gradient is score_mod's derivative by `score`, where it is not one
        that the library makes itself."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, **({} if dlse is None else {"dlse": dlse}), **options}
        return self._run("clattn_attention_backward_enqueue", _backward, given)

    def layer(self, x, *, wq, wo, heads, wk=None, wv=None, out=None, lse=False, weights=False, scores=None, **options):
        """A layer: out [B, Nq, Mo] of x's type; out, lse, weights and scores as in attention(). With k and v, which a layer_kv() made,
        wk and wv are left out; with append=True k and v are caches, Buffers, and what is made of x goes to their end."""
        given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, "out": out, "lse": lse, "weights": weights,
                 "scores": scores, **options}
        return self._run("clattn_layer_enqueue", _layer, given)

    def layer_forward(self, x, *, wq, wo, heads, wk=None, wv=None, out=None, kept=None, **options):
        """layer() of a training step: out, and a Buffer that layer_backward() with the same arguments takes as `kept`; a new one, or
        that of an earlier step. Between its projections and attention all is float32."""
        given = {"x": x, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, "out": out, **options}
        with self._use():
            if kept is None:
                asked, numbers = self._prepared(_layer_forward, given, planned=True), c.c_int64()
                asked.run("clattn_layer_kept", c.byref(asked.params), c.byref(numbers))
                kept = Buffer.zeros((numbers.value,), "float32", self)
            given["kept"] = kept
            return tuple(self._prepared(_layer_forward, given).enqueue("clattn_layer_forward_enqueue"))

    def layer_backward(self, x, dout, *, wq, wo, heads, wk=None, wv=None, **options):
        """Gradients of layer(), with its keywords, as a dictionary: dx, dy and those of all weights, biases and norms that are given, by
        their names with a d before, each of the type of what it is the gradient of; False leaves one out, an array or a Buffer of these
        names is written into, and a type is its own. dbias, dsinks, dalibi_slopes and dhead_scales as in attention_backward(). dout is the
        derivative with respect to the layer's result, which itself is not needed. With `kept`, of layer_forward() with the same
        arguments, the layer is not made once more."""
        given = {"x": x, "dout": dout, "wq": wq, "wk": wk, "wv": wv, "wo": wo, "heads": heads, **options}
        with self._use():
            call = self._prepared(_layer_backward, given)
            return dict(zip(call.results_named, call.enqueue("clattn_layer_backward_enqueue")))

    def layer_kv(self, y, *, wk, wv, kv_heads, k=None, v=None, **options):
        """A layer's keys and values alone, k [B, Hkv, Nkv, D] and v [B, Hkv, Nkv, Dv] of y's type, or into the arrays or Buffers."""
        given = {"y": y, "wk": wk, "wv": wv, "kv_heads": kv_heads, "k": k, "v": v, **options}
        return self._run("clattn_layer_kv_enqueue", _layer_kv, given)

    def linear(self, x, w, *, out=None, **options):
        """x w^T + b: [B, N, K] by [M, K] is [B, N, M], of x's type, or written into `out`; x may be [N, K] or [K], and out then likewise."""
        x = x if isinstance(x, Buffer) else _array("x", x)
        into = (None,) * max(3 - x.ndim, 0)
        given = {"x": x[into], "w": w, "out": out[into] if isinstance(out, (Buffer, np.ndarray)) else out, **options}
        found = self._run("clattn_linear_enqueue", _linear, given)
        return out if isinstance(out, (Buffer, np.ndarray)) else found[(0,) * len(into)]

    def linear_backward(self, dout, *, x=None, w=None, **options):
        """Gradients of linear() without what follows it: dx [B, N, K] where w is given, dw [M, K] where x is, of w's or dout's type, and
        db [M]; False leaves one out, an array or a Buffer of these names is written into, and a type is its own."""
        given = {"dout": dout, **({} if x is None else {"x": x}), **({} if w is None else {"w": w}), **options}
        return self._run("clattn_linear_backward_enqueue", _linear_backward, given)

    def linear_pack(self, w, *, precision="exact"):
        """Weights packed for this device, a Packed: without effect where no kernel of it gains by that."""
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
        """RoPE of x [B, H, N, D]: y of x's type, or of the type that y names, or into y; in place where y is x, a Buffer. The fields of
        clattn_rope are keywords: layout, base, position, positions and so on."""
        return self._run("clattn_rope_enqueue", _rope, {"x": x, "y": y, **options})

    def hadamard(self, x, *, y=None, **options):
        """Rows of x [B, H, N, D] times the normalised Hadamard matrix, in blocks of columns, which is its own inverse: y of x's type, or of
        the type that y names, or into y; in place where y is x, a Buffer."""
        return self._run("clattn_hadamard_enqueue", _hadamard, {"x": x, "y": y, **options})

    def append(self, k_new=None, v_new=None, *, k=None, v=None, **options):
        """New rows [B, Hkv, n, D] into caches k and v [B, Hkv, capacity, D], which are Buffers."""
        self._run("clattn_append_enqueue", _append, {"k_new": k_new, "v_new": v_new, "k": k, "v": v, **options})

    def shift(self, k, *, rope, **options):
        """Keys [B, Hkv, N, D] of a cache, a Buffer, turned on by delta positions where they lie, or by deltas, one of each item. `rope` is
        what turned them, without positions."""
        self._run("clattn_shift_enqueue", _shift, {"k": k, "rope": rope, **options})

    def merge(self, out_a, lse_a, out_b, lse_b):
        """Two results over disjoint keys as one: (out, lse). Buffers out_a and lse_a are written in place; of arrays there are new ones."""
        given = {"out_a": out_a, "lse_a": lse_a, "out_b": out_b, "lse_b": lse_b}
        return self._run("clattn_merge_enqueue", _merge, given) or (out_a, lse_a)

    def block_mask(self, q, k, v=None, *, block_mask=None, axes=None, **options):
        """What mask and mask_mod hide, block by block: uint8 [B, H, ceil(Nq / 64), ceil(Nkv / 64)], to be given as block_mask to
        attention. `axes` are its first two sizes, (B or 1, H or 1). Of q, k and v sizes alone matter."""
        return self._run("clattn_block_mask_enqueue", _block_mask,
            {"q": q, "k": k, "v": v, "block_mask": block_mask, "axes": axes, **options})

    def dropout_mask(self, shape, *, dropout, dropout_seed=0, mask=None):
        """Which keys dropout keeps: bool [B, H, Nq, Nkv]."""
        given = {"shape": shape, "dropout": dropout, "dropout_seed": dropout_seed, "mask": mask}
        return self._run("clattn_dropout_mask_enqueue", _dropout_mask, given)

    def norm(self, x, *, residual=None, sum=None, out=None, **options):
        """RMSNorm (kind="layer": LayerNorm) of x [B, N, M], or of x + residual: out, and with sum=True (out, sum), which is x + residual."""
        return self._run("clattn_norm_enqueue", _norm, {"x": x, "residual": residual, "sum": sum, "out": out, **options})

    def activation(self, x, activation, *, up=None, out=None):
        """"silu", "gelu", "gelu_tanh", "gelu_quick", "relu", "relu_squared", "sigmoid" or "none" of x [B, N, M], times up."""
        given = {"x": x, "activation": activation, "up": up, "out": out}
        return self._run("clattn_activation_enqueue", _activate, given)

    def embedding(self, ids, table, *, scale=0.0, out=None):
        """Rows [B, N, M] of a table [V, M] by their numbers [B, N], times scale where that is not 0; zeros where there is no such row."""
        return self._run("clattn_embedding_enqueue", _embedding, {"ids": ids, "table": table, "scale": scale, "out": out})

    def argmax(self, x, *, lengths=None, out=None):
        """The places int32 [B, N] of the greatest of x [B, N, V], the first of several; a NaN is greater than all. `lengths`: an int32
        Buffer [B, N], whose numbers become one more each."""
        return self._run("clattn_argmax_enqueue", _argmax, {"x": x, "lengths": lengths, "out": out})

    def sample(self, x, *, temperature=1.0, top_k=0, top_p=0.0, min_p=0.0, seed=0, out=None):
        """Places int32 [B, N] drawn from softmax(x / temperature) of logits x [B, N, V], of what top_k, top_p and min_p leave."""
        given = {"x": x, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed, "out": out}
        return self._run("clattn_sample_enqueue", _sample, given)

    def measure(self):
        """Measure what plans ask of the device: seconds. cache_dir keeps the answers."""
        with self._use():
            _Call(self, None).run("clattn_context_measure")

    def _listed(self, function, kind, *arguments):
        count, call = c.c_size_t(), _Call(self, None)
        call.run(function, *arguments, None, 0, c.byref(count))
        found = (kind * count.value)()
        call.run(function, *arguments, found, count.value, c.byref(count))
        return [_facts(x) for x in found]

    def engines(self):
        """What the device may compute with, probed: dictionaries of clattn_engine."""
        with self._use():
            return self._listed("clattn_context_engines", clattn_engine)

    def features(self):
        """What the build has and this context found: a dictionary of clattn_features."""
        with self._use():
            found = clattn_features()
            _Call(self, None).run("clattn_features_get", c.byref(found))
            return _facts(found)

    def stats(self):
        """Programs built and taken from cache_dir so far: a dictionary of clattn_context_stats."""
        with self._use() as lib:
            found = clattn_context_stats()
            lib.clattn_context_get_stats(self.handle, c.byref(found))
            return _facts(found)

    def capabilities(self):
        """What the device reports: a dictionary of clattn_capabilities."""
        with self._use() as lib:
            return _facts(clattn_capabilities.from_address(lib.clattn_context_capabilities(self.handle)))

    def save_kernels(self):
        """Write what was compiled into cache_dir now; close() does it, too."""
        with self._use() as lib:
            lib.clFinish(self.queue)
            lib.clattn_context_save_kernels(self.handle)
