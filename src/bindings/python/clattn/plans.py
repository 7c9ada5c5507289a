"""The plans of calls, which are methods of a context, and the signatures of all calls."""
import ctypes as c
import inspect
from typing import Any

from ._abi import (
    HEADER, clattn_append_params, clattn_attention_backward_params, clattn_attention_params,
    clattn_context_params, clattn_family, clattn_hadamard_params, clattn_index_params, clattn_layer_backward_params,
    clattn_layer_params, clattn_linear_attention_choice, clattn_linear_attention_params,
    clattn_linear_backward_params, clattn_linear_choice, clattn_linear_params, clattn_selection_plan, clattn_topk_params,
    clattn_pack_params, clattn_plan, clattn_rope_params, clattn_shift_params,
)
from .call import _annotation, _described, _keywords
from .context import Context
from .device import _facts
from .forms import (
    _append, _attention, _backward, _hadamard, _index, _layer, _layer_backward, _linear, _linear_attention,
    _linear_backward, _rope, _shift, _topk,
)

# Calls that have a plan: the form, the arguments by place, the params, and the struct of the plan.
_ASKED: dict[str, tuple[Any, ...]] = {
    "attention": (_attention, ("q", "k", "v"), clattn_attention_params, clattn_plan),
    "attention_backward": (_backward, ("q", "k", "v", "out", "lse", "dout"), clattn_attention_backward_params, clattn_plan),
    "layer": (_layer, ("x",), clattn_layer_params, clattn_plan),
    "layer_backward": (_layer_backward, ("x", "dout"), clattn_layer_backward_params, None),
    "linear": (_linear, ("x", "w"), clattn_linear_params, clattn_linear_choice),
    "linear_backward": (_linear_backward, ("dout",), clattn_linear_backward_params, None),
    "append": (_append, ("k_new", "v_new"), clattn_append_params, None),
    "shift": (_shift, ("k",), clattn_shift_params, None),
    "rope": (_rope, ("x",), clattn_rope_params, None),
    "hadamard": (_hadamard, ("x",), clattn_hadamard_params, None),
    "linear_attention": (_linear_attention, ("q", "k", "v"), clattn_linear_attention_params, clattn_linear_attention_choice),
    "topk": (_topk, ("scores",), clattn_topk_params, clattn_selection_plan),
    "index": (_index, ("q", "k"), clattn_index_params, clattn_selection_plan),
}
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
for _call, _whats in {"attention": tuple(_ANSWERS), "attention_backward": _PLANNED, "layer": _PLANNED,
                      "layer_backward": _PLANNED[1:], "linear": _PLANNED, "linear_backward": _PLANNED[1:], "append": ("prepare",),
                      "shift": ("prepare",), "hadamard": ("prepare",), "rope": ("prepare",),
                      "linear_attention": ("plan", "prepare"),
                      "topk": _PLANNED[::2], "index": _PLANNED[::2]}.items():
    for _what in _whats:
        setattr(Context, f"{_call}_{_what}", _asks(_call, _what))
# The params of each call, whose fields are its keywords.
_PARAMS = {**{name: asked[2] for name, asked in _ASKED.items()}, "layer_forward": clattn_layer_params,
           "block_mask": clattn_attention_params, "linear_pack": clattn_pack_params, "__init__": clattn_context_params,
           **{name: HEADER[f"clattn_{name}_params"] for name in (
               "layer_kv", "merge", "dropout_mask", "norm", "activation", "embedding", "argmax", "sample")}}
_HEAD = "\n\n        Arguments; a Tensor is an array or a Buffer, and None is the default of each keyword:\n"
for _name, _kind in _PARAMS.items():
    _function = getattr(Context, _name)
    _sign(_function, _kind)
    _holder = Context if _name == "__init__" else _function
    _named = [_described(_struct, _field, _name) for _field, _struct in _keywords(_kind).items()
              if _field in _function.__signature__.parameters]
    _holder.__doc__ = (_holder.__doc__ or "") + _HEAD + "\n".join(_named)
# The methods of a context that are functions of the package, too.
CALLS = ("attention", "attention_backward", "layer", "layer_forward", "layer_backward", "layer_kv", "linear", "linear_backward",
         "linear_pack", "rope", "append", "shift", "hadamard", "linear_attention", "merge", "block_mask", "dropout_mask", "norm", "activation",
         "embedding", "argmax", "sample", "topk", "index", *(name for name in vars(Context) if name.rpartition("_")[2] in _ANSWERS))
