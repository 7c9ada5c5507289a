# The calls: what each is given, the shapes of its results, and a context that does them.
_Form = collections.namedtuple("_Form", "params sizes main outputs written sized", defaults=((), (), ()))


def _given(g, name, axes, others=()):
    """A tensor that sizes come from: a Buffer or an array, with as many axes as the words say."""
    value = g.get(name)
    if value is None:
        raise ValueError(f"{name}: an array or a Buffer {axes} is needed")
    if not isinstance(value, Buffer):
        value = g[name] = _array(name, value)
    if value.ndim != axes.count(",") + 1:
        raise ValueError(f"{name}: shape {tuple(value.shape)} was given, {axes} is wanted")
    return value


def _width(name, x):
    """Numbers of a row, which may lie in blocks."""
    return x.shape[-1] * library().clattn_type_numbers(STORAGE[_type(name, x.dtype)][0])


def _sizes(batch, heads=None):
    return {"B": batch, "B+1": batch + 1, "H": heads}


def _longest(g, table, bound):
    """What no sequence exceeds: the bound, or what the array in host memory says."""
    if g.get(bound):
        return _number(bound, g[bound], c.c_int32)
    ends = _array(table, g[table]) if g.get(table) is not None else np.zeros(1)
    return int(np.diff(ends).max(initial=0)) if ends.ndim == 1 else 0


def _ragged(g, batch, rows, own, packed):
    """Batch items, rows of the longest and keys of the longest, which are the tensors' own where no batch is ragged."""
    table = g.get("cu_seqlens_q") if g.get("cu_seqlens_q") is not None else g.get("cu_seqlens_q_device")
    if table is None:
        return batch, rows, own
    if g.get("sequences") is None:
        g["sequences"] = max(np.shape(table)[0] - 1 if np.ndim(table) else 0, 0)
    rows = _longest(g, "cu_seqlens_q", "max_q")
    if packed:
        own = _longest(g, "cu_seqlens_kv", "max_kv")
    if any(g.get(name) is not None and g.get(name) is not False for name in ("weights", "scores")):
        g.update({"max_q": rows, **({"max_kv": own} if packed else {})})  # so that their shapes do not hang on lengths
    return _number("sequences", g["sequences"], c.c_int32), rows, own


def _keys(g, own):
    """Nkv: of pages, or of past and own rows."""
    if g.get("block_table") is not None:
        table = g["block_table"]
        return (np.shape(table)[1] if np.ndim(table) == 2 else 0) * _number("page_size", g.get("page_size") or 0, c.c_int32)
    return own + (_given(g, "past_k", "[B or 1, Hkv, P, D]").shape[2] if g.get("past_k") is not None else 0)


def _out(g, name, shape, dtype):
    """A result that there always is: into an array or a Buffer, or new, of the type that is given or of this one."""
    given = g.pop(name, None)
    if given is None or isinstance(given, (Buffer, np.ndarray)):
        return name, shape, dtype, given
    return name, shape, _type(name, given), None


def _extras(g, rows, taps):
    """lse, weights and scores as they are asked for: by True, a type, a tap's word, or by what they go into."""
    found = []
    for name, shape in (("lse", rows), ("weights", taps), ("scores", taps)):
        given, dtype = g.pop(name, None), "float32"
        if given is None or given is False:
            continue
        into = given if isinstance(given, (Buffer, np.ndarray)) else None
        if name == "weights" and into is not None and into.ndim == 4 and into.shape[2] == 1:
            shape = (*shape[:2], 1, shape[3])  # their sums over the rows
        if into is None and given is not True:
            if name == "scores" and g.get("scores_at") is None:
                g["scores_at"] = given
            elif name == "weights":
                dtype = _type(name, given)
            else:
                raise TypeError(f"{name}: True, an array or a Buffer is taken, not {given!r}")
        found.append((name, shape, dtype, into))
    return found


def _attention(g):
    q, k, v = (_given(g, *x) for x in (("q", "[B, H, Nq, D]"), ("k", "[B, Hkv, Nkv, D]"), ("v", "[B, Hkv, Nkv, Dv]")))
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    batch, rows, own = _ragged(g, q.shape[0], q.shape[2], k.shape[2], packed)
    outputs = [_out(g, "out", q.shape[:3] + (_width("v", v),), q.dtype)]
    outputs += _extras(g, q.shape[:3], (batch, q.shape[1], rows, _keys(g, own)))
    appends = g.get("k_new") is not None or g.get("v_new") is not None
    return _Form(clattn_attention_params(), _sizes(batch, q.shape[1]), q, outputs, ("k", "v", "k_scale", "v_scale", "k_zero", "v_zero") * appends)


# Gradients: their names, those of what they are gradients of, and whether they are asked for where nothing is said.
_GRADIENTS = (("dq", "q", True), ("dk", "k", True), ("dv", "v", True), ("dbias", "bias", False), ("dsinks", "sinks", False),
              ("dalibi_slopes", "alibi_slopes", False), ("dhead_scales", "head_scales", False))


def _asked_gradients(g, gradients, heads):
    """Those that are asked for: by default, by True, by a type, or by what they go into."""
    outputs = []
    for name, of, asked in gradients:
        given, there = g.pop(name, None), g.get(of) is not None
        if given is False or (given is None and not (there if asked is None else asked)):
            continue
        a_head = name in ("dsinks", "dalibi_slopes", "dhead_scales")
        if not there:
            raise ValueError(f"{name}: is asked for without {of}")
        if not a_head and not isinstance(g[of], Buffer):
            g[of] = _array(of, g[of])
        g[name] = None if given is True else given
        outputs.append(_out(g, name, (heads,) if a_head else g[of].shape, "float32" if a_head or name == "dbias" else g[of].dtype))
    return outputs


def _backward(g):
    form = _attention(dict(g))
    return _Form(clattn_attention_backward_params(), form.sizes, form.main, _asked_gradients(g, _GRADIENTS, form.sizes["H"]))


def _layer(g):
    x, wo, heads = _given(g, "x", "[B, Nq, M]"), _given(g, "wo", "[Mo, H*Dv]"), _number("heads", g.get("heads"), c.c_int32)
    source = _given(g, "k", "[B, Hkv, Nkv, D]").shape[2] if g.get("k") is not None else \
        _given(g, "y", "[B, Nkv, My]").shape[1] if g.get("y") is not None else x.shape[1]
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    batch, rows, own = _ragged(g, x.shape[0], x.shape[1], source, packed)
    own = rows if g.get("k") is None and g.get("y") is None else own
    outputs = [_out(g, "out", x.shape[:2] + wo.shape[:1], x.dtype)]
    outputs += _extras(g, (x.shape[0], heads, x.shape[1]), (batch, heads, rows, _keys(g, own)))
    written = ("k", "v", "k_scale", "v_scale", "k_zero", "v_zero") * _bool("append", g.get("append") or False)
    return _Form(clattn_layer_params(), _sizes(batch, heads), x, outputs, written)


# Those of a layer, likewise; of the others whether there is something to be the gradient of decides.
_LAYER_GRADIENTS = tuple((f"d{of}", of, None) for of in ("x", "y", "wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo", "q_norm", "k_norm",
                                                         "w_gate", "b_gate")) + _GRADIENTS[3:]


def _layer_forward(g):
    form, kept = _layer(g), g.pop("kept", None)
    outputs = form.outputs if kept is None else form.outputs + [("kept", kept.shape, kept.dtype, kept)]
    return _Form(clattn_layer_backward_params(), form.sizes, form.main, outputs)


def _layer_backward(g):
    form = _layer(dict(g))
    dout = _given(g, "dout", "[B, Nq, Mo]")
    return _Form(clattn_layer_backward_params(), form.sizes, dout, _asked_gradients(g, _LAYER_GRADIENTS, form.sizes["H"]))


def _linear(g):
    x, w = _given(g, "x", "[B, N, K]"), _given(g, "w", "[M, K]")
    return _Form(clattn_linear_params(), {}, x, [_out(g, "out", x.shape[:2] + w.shape[:1], x.dtype)])


def _linear_backward(g):
    dout, outputs = _given(g, "dout", "[B, N, M]"), []
    x, w = (g.get(name) is not None and _given(g, name, axes) for name, axes in (("x", "[B, N, K]"), ("w", "[M, K]")))
    for name, like, shape in (("dx", w, w is not False and dout.shape[:2] + w.shape[1:]),
                              ("dw", x, x is not False and dout.shape[2:] + x.shape[2:]), ("db", dout, dout.shape[2:])):
        given = g.pop(name, None)
        if given is False or (like is False and given is None):
            continue
        g[name] = None if given is True else given
        outputs.append(_out(g, name, shape, (w if name == "dw" and w is not False else dout).dtype))
    return _Form(clattn_linear_backward_params(), {}, dout, outputs)


def _rope(g):
    x = _given(g, "x", "[B, H, N, D]")
    return _Form(clattn_rope_params(), _sizes(x.shape[0], x.shape[1]), x, [_out(g, "y", x.shape, x.dtype)])


def _hadamard(g):
    x = _given(g, "x", "[B, H, N, D]")
    return _Form(clattn_hadamard_params(), {}, x, [_out(g, "y", x.shape, x.dtype)])


def _append(g):
    new = _given(g, "k_new" if g.get("k_new") is not None else "v_new", "[B, Hkv, n, D]")
    return _Form(clattn_append_params(), _sizes(new.shape[0]), new, written=("k", "v", "k_scale", "v_scale", "k_zero", "v_zero"))


def _shift(g):
    k = _given(g, "k", "[B, Hkv, N, D]")
    return _Form(clattn_shift_params(), _sizes(k.shape[0]), k, written=("k", "k_scale", "k_zero"))


def _merge(g):
    a = {name: _given(g, name, axes) for name, axes in (("out_a", "[B, H, Nq, Dv]"), ("lse_a", "[B, H, Nq]"))}
    if any(isinstance(x, Buffer) for x in a.values()):
        return _Form(clattn_merge_params(), {}, a["out_a"], written=("out_a", "lse_a"))
    return _Form(clattn_merge_params(), {}, a["out_a"], [(name, x.shape, x.dtype, g.pop(name).copy()) for name, x in a.items()])


def _block_mask(g):
    g["v"] = g["k"] if g.get("v") is None else g["v"]
    form = _attention(g)
    packed = g.get("cu_seqlens_kv") is not None or g.get("cu_seqlens_kv_device") is not None
    own = _longest(g, "cu_seqlens_kv", "max_kv") if packed else g["k"].shape[2]
    batch, heads, rows, keys = form.sizes["B"], form.sizes["H"], _rows(g), _keys(g, own)
    axes, given = g.pop("axes", None), g.get("block_mask")
    if given is not None and not isinstance(given, (Buffer, np.ndarray)):
        raise TypeError("block_mask: an array or a Buffer is taken, which it is written into")
    axes = tuple(axes or (given.shape[:2] if given is not None else (batch, heads)))
    blocks = axes + (-(-rows // CLATTN_BLOCK_ROWS), -(-keys // CLATTN_BLOCK_KEYS))
    g["out"] = np.broadcast_to(np.float32(0), form.outputs[0][1])
    return form._replace(outputs=[_out(g, "block_mask", blocks, "uint8")], written=(), sized=("q", "k", "v", "out"))


def _rows(g):
    return _longest(g, "cu_seqlens_q", "max_q") if g.get("sequences") is not None else g["q"].shape[2]


def _dropout_mask(g):
    shape = _shape(g.pop("shape"))
    return _Form(clattn_dropout_mask_params(), {}, g.get("mask"), [_out(g, "mask", shape, "bool")])


def _layer_kv(g):
    y, heads = _given(g, "y", "[B, Nkv, My]"), _number("kv_heads", g.pop("kv_heads"), c.c_int32)
    widths = [_given(g, name, axes).shape[0] for name, axes in (("wk", "[Hkv*D, My]"), ("wv", "[Hkv*Dv, My]"))]
    if heads < 1 or any(width % heads for width in widths):
        raise ValueError(f"kv_heads: {heads} does not divide the rows of wk and wv, {widths[0]} and {widths[1]}")
    outputs = [_out(g, name, (y.shape[0], heads, y.shape[1], width // heads), y.dtype) for name, width in zip("kv", widths)]
    return _Form(clattn_layer_kv_params(), {}, y, outputs)


def _norm(g):
    x, into = _given(g, "x", "[B, N, M]"), g.pop("sum", None)
    outputs = [_out(g, "out", x.shape, x.dtype)]
    if into is True or isinstance(into, (Buffer, np.ndarray)):
        outputs.append(("sum", x.shape, x.dtype, None if into is True else into))
    elif into is not None and into is not False:
        raise TypeError(f"sum: True, an array or a Buffer is taken, not {into!r}")
    return _Form(clattn_norm_params(), {}, x, outputs)


def _activate(g):
    x = _given(g, "x", "[B, N, M]")
    return _Form(clattn_activation_params(), {}, x, [_out(g, "out", x.shape, x.dtype)])


def _embedding(g):
    ids, table = _given(g, "ids", "[B, N]"), _given(g, "table", "[V, M]")
    word = _type("table", table.dtype)
    return _Form(clattn_embedding_params(), {}, table, [_out(g, "out", ids.shape + (_width("table", table),), "float32" if word in BLOCKS else table.dtype)])


def _argmax(g):
    x = _given(g, "x", "[B, N, V]")
    return _Form(clattn_argmax_params(), {}, x, [_out(g, "out", x.shape[:2], "int32")])


def _sample(g):
    x = _given(g, "x", "[B, N, V]")
    return _Form(clattn_sample_params(), {}, x, [_out(g, "out", x.shape[:2], "int32")])


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


class Context(_Closed):
    """A device with its compiled kernels and an in-order queue. `device` is its number among devices(), or a part of one name alone.
    Other keywords are fields of clattn_context_params, such as cache_dir. It closes with `with`, close(), when it is collected, and
    when Python ends; calls of several threads wait for one another."""
    handle = queue = None

    def __init__(self, device=0, **options):
        self._lock, self._depth, self._pid, self._groups, self._log = threading.RLock(), 0, os.getpid(), weakref.WeakSet(), _Log()
        self._recordings, self._recorded = weakref.WeakSet(), None
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

    @contextlib.contextmanager
    def _use(self):
        """The context for this thread alone, and open."""
        with self._lock:
            if not self.handle or self._pid != os.getpid():
                raise ValueError("the context is closed" if not self.handle else "the context is another process's")
            self._depth += 1
            try:
                yield library()
            finally:
                self._depth -= 1

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
