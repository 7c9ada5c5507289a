#!/usr/bin/env python3
"""Write a stub file with the module's types, for editors and type checkers. Each call has all
keywords of the header.

    stubs.py FOLDER OUT.pyi

The script imports the package in FOLDER, which needs numpy but not the library."""
import importlib
import inspect
import os
import sys

import numpy as np

HEAD = '''import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

# The argument of a result may also be True, or a type.
Tensor: TypeAlias = "ArrayLike | Buffer | type[np.generic]"
'''
CLASSES = ("Error", "Buffer", "Later", "Packed", "Recording", "Context", "Group")
# Types of arguments and attributes that are no fields of the header, by name. Others are Any.
NAMED = {
    "context": "Context | None", "contexts": "Context | Sequence[Context]", "device": "int | str", "max_bytes": "int | Sequence[int]",
    "path": "str | bytes | PathLike[str] | None", "dir": "str | bytes | PathLike[str]", "shape": "int | Sequence[int]",
    "copy": "bool", "axes": "Sequence[int] | None", "dtype": "DTypeLike | None", "array": "ArrayLike", "kept": "Buffer | None",
    "kv_heads": "int", "status": "int", "message": "str",
    **dict.fromkeys(("x", "q", "k", "v", "out", "lse", "dout"), "Tensor")}
DICTIONARY = "dict[str, Any]"
RESULTS = {"context": "Context", "fuse": "Recording", "library": "ctypes.CDLL", "linear_pack": "Packed",
           "record": "AbstractContextManager[Recording]", "later": "Later", "kernel_names": "list[str]"}
for _kind, _names in {
        "np.ndarray[Any, Any]": "numpy to_bf16 from_bf16 to_blocks from_blocks", "str": "version __repr__ onnxruntime_library",
        f"list[{DICTIONARY}]": "devices engines families", DICTIONARY: "plan features stats capabilities layer_backward",
        "int": "launches workspace ndim size __len__ offset", "bool": "shared", "tuple[int, ...]": "shape strides",
        "Buffer": "zeros over reshape transpose broadcast_to __getitem__",
        "None": "measure prepare save_kernels close append opencl_load cache_clean device_survey main wait write __init__ __setitem__ "
                "__exit__"}.items():
    RESULTS.update(dict.fromkeys(_names.split(), _kind))
SPECIAL = ("__init__", "__call__", "__exit__", "__len__", "__getitem__", "__setitem__")
ATTRIBUTES = {"Error": {"status": "int", "name": "str", "text": "str"}, "Buffer": {"dtype": "str"},
              "Group": {"report": DICTIONARY, "shares": f"list[{DICTIONARY}]"}}


class Stubs:
    def __init__(self, module):
        self.module, self.dictionaries = module, {}

    def kind(self, struct, name):
        """Return the type of a field. A struct that callers pass as a dictionary becomes a
        TypedDict."""
        kind = self.module._annotation(struct, name)
        if kind in self.module.HEADER:
            inner = self.module.HEADER[kind]
            self.dictionaries[kind] = {field: self.kind(inner, field) for field in inner.words if self.module._annotation(inner, field)}
            return "_" + kind
        return kind.replace("PathLike", "PathLike[str]")

    def parameters(self, function, params):
        """Return the parameters of a function. **options are replaced by the keywords of the
        header's params."""
        keywords = {name: self.kind(struct, name) for name, struct in self.module._keywords(params).items()} if params else {}
        said, marked, own = [], False, inspect.signature(function).parameters.values()
        for one in own:
            if one.kind is one.VAR_KEYWORD:
                said += ["*"] * (not marked) + [f"{name}: {kind} | None = ..." for name, kind in keywords.items() if name not in
                    {other.name for other in own}]
                continue
            if one.kind is one.KEYWORD_ONLY and not marked:
                said.append("*")
            marked = marked or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
            kind = keywords.get(one.name) or NAMED.get(one.name, "Any")
            kind += " | None" * ((one.default is None or one.default is False and one.name in keywords) and "None" not in kind)
            said.append("self" if one.name == "self" else "cls" if one.name == "cls" else "*" * (one.kind is one.VAR_POSITIONAL) +
                f"{one.name}: {kind}{' = ...' * (one.default is not one.empty)}")
        return ", ".join(said)

    def function(self, name, function, owner="", indent="", decorators=()):
        """Return the lines of a call, or of a function about a call, such as its plan."""
        module, call, _, asked = self.module, *name.rpartition("_")
        planned = call in module._ASKED and asked in module._ANSWERS
        params = module._GROUP_PARAMS.get(name) if owner == "Group" else \
            module._PARAMS.get(call if planned else name) if owner in ("", "Context") else None
        result = RESULTS.get(asked if planned else name, "Any")
        if owner == "Group" and name not in ("close", "__init__", "__exit__"):
            result = "Any"
        # The function of the module has the same text.
        text = inspect.getdoc(function) if function.__doc__ and not (owner == "Context" and hasattr(module, name)) else ""
        lines = [f"{indent}@{word}" for word in decorators] + [f"{indent}def {name}({self.parameters(function, params)}) -> {result}:"]
        return lines + [f"{indent}    {text!r}" if text else f"{indent}    ..."]

    def of_class(self, name):
        owner = getattr(self.module, name)
        lines = [f"class {name}{'(Exception)' * issubclass(owner, Exception)}:", f"    {inspect.getdoc(owner)!r}"]
        lines += [f"    {field}: {kind}" for field, kind in ATTRIBUTES.get(name, {}).items()]
        made = [base for base in reversed(owner.__mro__) if base.__module__.partition(".")[0] == self.module.__name__]
        for member in dict.fromkeys(member for base in made for member in vars(base)):
            value = inspect.getattr_static(owner, member)
            if member == "__enter__":
                lines.append(f"    def __enter__(self) -> {name}: ...")
            elif isinstance(value, property):
                lines += ["    @property", f"    def {member}(self) -> {RESULTS[member]}: ..."]
            elif isinstance(value, classmethod):
                lines += self.function(member, value.__func__, name, "    ", ["classmethod"])
            elif inspect.isfunction(value) and (member in SPECIAL or not member.startswith("_")):
                lines += self.function(member, value, name, "    ")
        return lines

    def text(self):
        """Return the whole stub file. Dictionaries precede the functions that use them."""
        lines = [f"__version__: str\n__all__ = {self.module.__all__!r}"]
        for name, value in vars(self.module).items():
            if name.startswith("CLATTN_"):
                lines.append(f"{name}: int")
            elif name in self.module.HEADER:
                lines.append(f"class {name}(ctypes.Structure): ...")
            elif isinstance(value, np.dtype):
                lines.append(f"{name}: np.dtype[Any]")
            elif name in ("BLOCKS", "ENUMS"):
                lines.append(f"{name}: dict[str, Any]")
            elif inspect.isfunction(value) and name in (*self.module.__all__, "main"):
                lines += self.function(name, value)
        lines += [line for name in CLASSES for line in self.of_class(name)]
        for name, fields in self.dictionaries.items():
            lines += [f"class _{name}(TypedDict, total=False):", *(f"    {field}: {kind} | None" for field, kind in fields.items())]
        return HEAD + "\n".join(lines) + "\n"


def main():
    folder, name = os.path.split(os.path.abspath(sys.argv[1]))
    sys.path.insert(0, folder)
    text = Stubs(importlib.import_module(name)).text()
    compile(text, sys.argv[2], "exec")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
