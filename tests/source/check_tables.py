#!/usr/bin/env python3
"""The tables of include/clattn name every field of the header that they are about, once each.

    check_tables.py      from the project's top folder or as a test of meson; exit status 1 and one line for each fault
"""
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, "src/python")
sys.dont_write_bytecode = True
from generate import Header  # noqa: E402

HEADERS = ["version", "tensor", "runtime", "opencl", "rope", "attention", "group", "append", "layer", "mods"]
faults = []


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows_of(table, macro):
    """The columns of each row of a table of macros."""
    text = re.sub(r"//.*", "", text_of(table))
    return [[word.strip() for word in row.split(",")] for row in re.findall(rf"^{macro}\((.*?)\)$", text, flags=re.M | re.S)]


def leaves(header, struct, prefix=""):
    """(name, type) of every field, those of structs inside and of arrays apart."""
    for name, kind, word in header.structs[struct]:
        base, size = word.removesuffix("[]"), re.search(r" \* (\d+)$", kind)
        for name in [f"{prefix}{name}[{n}]" for n in range(int(size.group(1)))] if size else [prefix + name]:
            if base in header.structs and base != "clattn_tensor":
                yield from leaves(header, base, name + ".")
            else:
                yield name, base


def compare(table, rows, fields, why):
    faults.extend(f"{table}: {name} has no row: {why}" for name in fields if name not in rows)
    faults.extend(f"{table}: {name} is no field that it is about" for name in rows if name not in fields)
    faults.extend(f"{table}: {name} has {rows.count(name)} rows" for name in sorted(set(rows)) if rows.count(name) > 1)
    if len(fields) < 10:
        faults.append(f"{table}: saw {len(fields)} fields: this check looks in the wrong place")
    print(f"{table}: {len(rows)} rows for {len(fields)} fields")


header = Header([text_of(f"include/clattn/{name}.h") for name in HEADERS])
tensors = [name for name, kind in leaves(header, "clattn_attention_params") if kind == "clattn_tensor"]
compare("include/clattn/views.def", [row[0] for row in rows_of("include/clattn/views.def", "VIEW")], tensors,
        "a group would not deal it, and overlaps would not be seen")
KINDS = {"const float *": {"HEADS"}, "const int32_t *": {"ITEMS"}, "const char *": {"TEXT"}, "clattn_tensor": {"VIEW", "BUFFER"}}
fields, rows = dict(leaves(header, "clattn_score")), rows_of("include/clattn/score.def", "OPTION")
compare("include/clattn/score.def", [row[0] for row in rows], fields, "results on several devices would be wrong")
faults.extend(f"include/clattn/score.def: {name} is no {kind}" for name, kind, *_ in rows
              if name in fields and kind not in KINDS.get(fields[name], {"NUMBER", "DROPOUT"}))
print("\n".join(faults))
sys.exit(1 if faults else 0)
