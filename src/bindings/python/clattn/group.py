"""Several devices that share a call."""
import contextlib
import ctypes as c
import os
import threading

import numpy as np

from ._abi import (
    CLATTN_OK, clattn_group_attention_backward_params, clattn_group_attention_params,
    clattn_group_member, clattn_group_params, clattn_group_report, clattn_group_share,
)
from .buffer import Buffer
from .call import _Call, _refuse_strangers, _words_of_python
from .context import Context
from .device import _facts
from .forms import _attention, _backward
from .plans import _sign
from .runtime import Error, _Closed, _Log, _old_name, library
from .storage import STORAGE
from .values import _array, _number, _type


class _HostCall(_Call):
    """A call of a group, which uses tensors in host memory directly.

    `caller` has the caller's own tensors, of which some are converted."""

    def __init__(self, params, sizes, written, caller):
        super().__init__(None, params, sizes, written)
        self.caller = caller

    def host_view(self, array, word):
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
        return self.host_view(array, word)

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
        return self.host_view(given, word)


class _Report(dict):
    """A report of a group, in which the key of version 0.1 is found, too."""

    def __missing__(self, name):
        if name != "deal":
            raise KeyError(name)
        _old_name("report['deal']", "report['partition']", 2)
        return self["partition"]

    def get(self, name, default=None):
        if name == "deal":
            _old_name("report['deal']", "report['partition']", 2)
        return super().get("partition" if name == "deal" else name, default)


def _renamed(options):
    """Return the options, with the keyword of version 0.1 renamed."""
    if "deal" not in options:
        return options
    if "partition" in options:
        raise TypeError("deal is the old name of partition: use partition alone")
    _old_name("deal=", "partition=", 3)
    return {"partition" if name == "deal" else name: value for name, value in options.items()}


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
        named = ", ".join(x._named() for x in self.contexts)
        return f"<clattn.Group of {len(self.contexts)} devices, {'open' if self.handle else 'closed'}: {named}>"

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
            call = _HostCall(params, {**form.sizes, "members": len(self.contexts)}, form.written, caller)
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
                said = c.create_string_buffer(1024)
                library().clattn_group_last_error(self.handle, c.cast(said, c.c_void_p), len(said))
                text = said.value.decode(errors="replace")
                raise Error(status, text + _words_of_python(call.mods.get(text.partition(":")[0])))
            return [array for array, _ in call.results], _Report(_facts(report)), [_facts(share) for share in shares]

    def attention(self, q, k, v, **options):
        """Compute Context.attention, with the work partitioned over the contexts.

        `partition` is "auto", "heads", "rows", "keys" or "whole", and `shares` has a number for
        each context. Afterwards .report and .shares describe the partition: a dictionary, and one
        for each context."""
        given = {"q": q, "k": k, "v": v, **_renamed(options)}
        return self._told("clattn_group_attention", _attention, clattn_group_attention_params(), given)

    def attention_backward(self, q, k, v, out, lse, dout, *, dlse=None, **options):
        """Compute Context.attention_backward, with `partition`, `shares`, .report and .shares as
        for attention()."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, "dlse": dlse, **_renamed(options)}
        return self._told("clattn_group_attention_backward", _backward, clattn_group_attention_backward_params(), given)

    def _told(self, *call):
        found, self.report, self.shares = self._do(*call)
        return found[0] if len(found) == 1 else tuple(found)

    def plan(self, q, k, v, **options):
        """Return how attention() would be partitioned now: (report, shares)."""
        given = {"q": q, "k": k, "v": v, **_renamed(options)}
        return self._do("clattn_group_plan", _attention, clattn_group_attention_params(), given)[1:]

    def backward_plan(self, q, k, v, out, lse, dout, **options):
        """Return how attention_backward() would be partitioned now: (report, shares)."""
        given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, **_renamed(options)}
        return self._do("clattn_group_backward_plan", _backward, clattn_group_attention_backward_params(), given)[1:]


# The params of each call, whose fields are its keywords.
_GROUP_PARAMS = {"attention": clattn_group_attention_params, "plan": clattn_group_attention_params,
                 "attention_backward": clattn_group_attention_backward_params,
                 "backward_plan": clattn_group_attention_backward_params}
for _name, _kind in _GROUP_PARAMS.items():
    _sign(getattr(Group, _name), _kind)
