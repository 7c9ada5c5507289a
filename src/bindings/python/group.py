# Plans of calls, several devices, and the functions of the module, which are the methods of a
# context.
_ASKED = {"attention": (_attention, ("q", "k", "v"), clattn_attention_params, clattn_plan),
          "attention_backward": (_backward, ("q", "k", "v", "out", "lse", "dout"), clattn_attention_backward_params, clattn_plan),
          "layer": (_layer, ("x",), clattn_layer_params, clattn_plan),
          "layer_backward": (_layer_backward, ("x", "dout"), clattn_layer_backward_params, None),
              "linear": (_linear, ("x", "w"), clattn_linear_params, clattn_linear_choice),
          "linear_backward": (_linear_backward, ("dout",), clattn_linear_backward_params, None),
          "append": (_append, ("k_new", "v_new"), clattn_append_params, None), "shift": (_shift, ("k",), clattn_shift_params, None),
          "rope": (_rope, ("x",), clattn_rope_params, None), "hadamard": (_hadamard, ("x",), clattn_hadamard_params, None),
          "topk": (_topk, ("scores",), clattn_topk_params, clattn_selection_plan),
          "index": (_index, ("q", "k"), clattn_index_params, clattn_selection_plan)}
_ANSWERS = {"plan": "Which kernel the call would take, and why: a dictionary.", "workspace": "The scratch bytes that the call needs.",
            "prepare": "Compile ahead what the call needs.", "families": "What each kernel family says of the call: dictionaries."}


def _asks(call, what):
    """Make a method CALL_plan, CALL_workspace, CALL_prepare or CALL_families, which does not run
    the call and copies no array."""
    form, takes, _, answer = _ASKED[call]

    def method(self, *arguments, **options):
        if len(arguments) > len(takes):
            raise TypeError(f"{call}_{what}: {len(arguments)} arguments were given, {', '.join(takes)} are taken by place")
        given = {**dict(zip(takes, arguments)), **options}
        with self._use():
            made = self._prepared(form, given, planned=True)
            function, params = f"clattn_{call}_{what}", c.byref(made.params)
            if what == "families":
                return self._listed(function, clattn_family, params)
            found = answer() if what == "plan" else c.c_size_t()
            made.run(function, params, *([] if what == "prepare" else [c.byref(found)]))
        return _facts(found) if what == "plan" else found.value if what == "workspace" else None
    method.__name__, method.__doc__ = f"{call}_{what}", f"{_ANSWERS[what]} Arguments are those of {call}()."
    _sign(method, _ASKED[call][2], getattr(Context, call))
    return method


def _sign(function, kind, like=None):
    """Set the signature of a function whose **options are fields of these params: all keywords, in
    the order of help()."""
    own = inspect.signature(like or function).parameters.values()
    named = [x for x in own if x.kind is not x.VAR_KEYWORD]
    if len(named) < len(own):
        # A group allocates its own workspace.
        there = {x.name for x in named} | ({"workspace"} if function.__qualname__.startswith("Group.") else set())
        named += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False if _annotation(struct, name) == "bool" else None)
                  for name, struct in _keywords(kind).items() if name not in there]
    function.__signature__ = inspect.Signature(named)


_PLANNED = ("plan", "workspace", "prepare")
for _call, _whats in {"attention": _ANSWERS, "attention_backward": _PLANNED, "layer": _PLANNED, "layer_backward": _PLANNED[1:],
                      "linear": _PLANNED, "linear_backward": _PLANNED[1:], "append": ("prepare",), "shift": ("prepare",), "hadamard": ("prepare",),
                      "rope": ("prepare",), "topk": _PLANNED[::2], "index": _PLANNED[::2]}.items():
    for _what in _whats:
        setattr(Context, f"{_call}_{_what}", _asks(_call, _what))
# The params of each call, whose fields are its keywords.
_PARAMS = {**{name: asked[2] for name, asked in _ASKED.items()}, "layer_forward": clattn_layer_params, "block_mask": clattn_attention_params,
           **{name: HEADER[f"clattn_{name}_params"] for name in ("layer_kv", "merge", "dropout_mask", "norm", "activation", "embedding", "argmax",
                                                                 "sample")}, "linear_pack": clattn_pack_params, "__init__": clattn_context_params}
for _name, _kind in _PARAMS.items():
    _function = getattr(Context, _name)
    _sign(_function, _kind)
    _holder = Context if _name == "__init__" else _function
    _holder.__doc__ += "\n\n        Arguments; a Tensor is an array or a Buffer, and None is the default of each keyword:\n" + "\n".join(
        _described(_struct, _field, _name) for _field, _struct in _keywords(_kind).items() if _field in _function.__signature__.parameters)


class _HostCall(_Call):
    """A call of a group, which uses tensors in host memory directly."""

    def lies(self, array, word):
        self.kept.append(array)
        size = STORAGE[word][1].itemsize
        made = self.view(None, word, array.shape, [stride // size for stride in array.strides])
        made.buffer = array.ctypes.data
        return made

    def tensor(self, name, value):
        if isinstance(value, Buffer):
            raise TypeError(f"{name}: a group takes arrays in host memory: .numpy() makes one of a Buffer")
        caller = self.caller.get(name)
        lost = ValueError(f"{name}: the call writes into it: an array that may be written is wanted, in the machine's byte order")
        if name in self.written and isinstance(caller, (list, tuple)):
            raise lost
        array, word = self.known(name, value)
        if any(stride < 0 or stride % array.itemsize for stride in array.strides):
            array = np.ascontiguousarray(array).reshape(array.shape)
        if name in self.written and not (array.flags.writeable and np.may_share_memory(array, caller if isinstance(caller, np.ndarray)
            else _array(name, caller))):
            raise lost
        return self.lies(array, word)

    def result(self, name, given, shape, dtype, device):
        if isinstance(given, Buffer) or device:
            raise TypeError(f"{name}: a group takes arrays in host memory, no Buffer")
        if given is not None and (given.shape != tuple(shape) or not given.flags.writeable or not given.dtype.isnative):
            raise ValueError(f"{name}: an array of shape {tuple(shape)} that may be written is wanted, in the machine's byte order")
        if given is not None and any(at % given.itemsize for at in (given.ctypes.data, *given.strides)):
            raise ValueError(f"{name}: its address or a stride is no multiple of an element")
        word = _type(name, dtype if given is None else given.dtype)
        if given is None:
            given = np.zeros(shape, STORAGE[word][1] if isinstance(dtype, str) else np.dtype(dtype))
        self.results.append((given, None))
        return self.lies(given, word)


class Group(_Closed):
    """Several contexts that share the work of a call on numpy arrays.

    The number max_bytes, or one number for each context, limits the device memory of a call. 0 is
    three quarters of a device's memory. Close a group before its contexts: by `with` or close()."""
    handle = None

    def __init__(self, contexts, max_bytes=0):
        self.contexts = list(contexts) if np.iterable(contexts) else [contexts]
        self._lock, self._depth, self._log = threading.RLock(), 0, _Log()
        limits = list(max_bytes) if np.iterable(max_bytes) else [max_bytes] * len(self.contexts)
        if len(limits) != len(self.contexts) or not all(isinstance(x, Context) for x in self.contexts):
            raise ValueError("a group is made of contexts, with one max_bytes or as many")
        made = c.c_void_p()
        with contextlib.ExitStack() as stack:
            # A fixed order prevents deadlocks with other groups.
            for x in sorted(self.contexts, key=id):
                stack.enter_context(x._use())
            members = (clattn_group_member * len(limits))(*(clattn_group_member(context=x.handle,
                max_bytes=_number("max_bytes", n, c.c_uint64))
                                                            for x, n in zip(self.contexts, limits)))
            params = clattn_group_params(members=c.cast(members, c.c_void_p), count=len(limits), log=self._log.struct)
            self._log.check(library().clattn_group_create(c.byref(params), c.byref(made)))
            self.handle, self.report, self.shares = made, None, None
            for x in self.contexts:
                x._groups.add(self)

    def __repr__(self):
        return f"<clattn.Group of {len(self.contexts)} devices, {'open' if self.handle else 'closed'}: {', '.join(x._named() for x in self.contexts)}>"

    def close(self):
        """Release everything. The contexts stay open."""
        if self.contexts and self.contexts[0]._pid != os.getpid():
            return
        with self._lock:
            if self._depth:
                raise ValueError("a group is not closed from inside a call of its own, such as by its progress")
            if self.handle:
                library().clattn_group_destroy(self.handle)
            self.handle = None

    def _do(self, function, form_of, params, given):
        with self._lock:
            if not self.handle:
                raise ValueError("the group is closed")
            caller = dict(given)
            _refuse_strangers(type(params), given)
            form = form_of(given)
            call = _HostCall(None, params, {**form.sizes, "members": len(self.contexts)}, form.written)
            call.caller = caller
            call.options(params, given)
            part = params.attention if form_of is _attention else params.backward
            for name, shape, dtype, into in form.outputs:
                setattr(part, name, call.result(name, into, shape, dtype, isinstance(form.main, Buffer)))
            report, shares = clattn_group_report(), (clattn_group_share * len(self.contexts))()
            self._depth += 1
            try:
                status = getattr(library(), function)(self.handle, c.byref(params), c.byref(report), shares)
            finally:
                self._depth -= 1
            if call.failed:
                raise call.failed[0]
            if status != CLATTN_OK:
                text = c.create_string_buffer(1024)
                library().clattn_group_last_error(self.handle, c.cast(text, c.c_void_p), len(text))
                text = text.value.decode(errors="replace")
                raise Error(status, text + _words_of_python(call.mods.get(text.partition(":")[0])))
            return [array for array, _ in call.results], _facts(report), [_facts(share) for share in shares]

    def attention(self, q, k, v, **options):
        """Compute Context.attention, with the work partitioned over the contexts.

        `partition` is "auto", "heads", "rows", "keys" or "whole", and `shares` has a number for
        each context. Afterwards .report and .shares describe the partition: a dictionary, and
        one for each context."""
        return self._told("clattn_group_attention", _attention, clattn_group_attention_params(), {"q": q, "k": k, "v": v, **options})

    def attention_backward(self, q, k, v, out, lse, dout, *, dlse=None, **options):
        """Compute Context.attention_backward, with `partition`, `shares`, .report and .shares as
        for attention()."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, "dlse": dlse, **options}
        return self._told("clattn_group_attention_backward", _backward, clattn_group_attention_backward_params(), given)

    def _told(self, *call):
        found, self.report, self.shares = self._do(*call)
        return found[0] if len(found) == 1 else tuple(found)

    def plan(self, q, k, v, **options):
        """Return how attention() would be partitioned now: (report, shares)."""
        given = {"q": q, "k": k, "v": v, **options}
        return self._do("clattn_group_plan", _attention, clattn_group_attention_params(), given)[1:]

    def backward_plan(self, q, k, v, out, lse, dout, **options):
        """Return how attention_backward() would be partitioned now: (report, shares)."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, **options}
        return self._do("clattn_group_backward_plan", _backward, clattn_group_attention_backward_params(), given)[1:]


for _name, _kind in {"attention": clattn_group_attention_params, "plan": clattn_group_attention_params,
                     "attention_backward": clattn_group_attention_backward_params, "backward_plan": clattn_group_attention_backward_params}.items():
    _sign(getattr(Group, _name), _kind)
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


def _first(name):
    """Make a function from a method of Context. It uses the context of a Buffer among its
    arguments, or the first device."""
    method = getattr(Context, name)

    @functools.wraps(method)
    def function(*arguments, **options):
        context = next((x.context for x in (*arguments, *options.values()) if isinstance(x, Buffer)), None)
        return getattr(_context(context), name)(*arguments, **options)
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return function


for _name in ("attention", "attention_backward", "layer", "layer_forward", "layer_backward", "layer_kv", "linear", "linear_backward", "linear_pack", "rope",
              "append", "shift", "hadamard", "merge", "block_mask", "dropout_mask", "norm", "activation", "embedding", "argmax", "sample", "topk", "index",
              *(name for name in vars(Context) if name.rpartition("_")[2] in _ANSWERS)):
    globals()[_name] = _first(_name)

__all__ = sorted([name for name, value in globals().items() if inspect.isfunction(value) and not name.startswith("_") and name not in
                  ("main", "last_error")] + ["Error", "Buffer", "Later", "Packed", "Recording", "Context", "Group", "BF16", "F8E4M3", "F8E5M2",
                                             "I4", "U4", "BLOCKS"])


def __dir__():
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


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


if __name__ == "__main__":
    main()
