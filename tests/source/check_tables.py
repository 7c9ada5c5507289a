#!/usr/bin/env python3
"""The tables of include/clattn name every field of their header exactly once. Every kernel family
names its verification and its tests.

    check_tables.py      from the project's top folder or as a test of meson; exit status 1 and one
                         line for each fault
"""
import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, "src/bindings/python")
sys.dont_write_bytecode = True
from generate import Header  # noqa: E402

HEADERS = ["version", "tensor", "runtime", "opencl", "rope", "attention", "backward", "group", "append", "layer", "mods"]
faults = []


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows_of(table, macro):
    """The columns of each row of a table of macros."""
    text = re.sub(r"//.*", "", text_of(table))
    return [[word.strip() for word in row.split(",")] for row in re.findall(rf"^{macro}\((.*?)\)$", text, flags=re.M | re.S)]


def leaves(header, struct, prefix=""):
    """Returns (name, type) of every field, with nested structs and arrays expanded."""
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
compare("src/lib/tables/views.def", [row[0] for row in rows_of("src/lib/tables/views.def", "VIEW")], tensors,
        "a group would not deal it, and overlaps would not be seen")
views = [["forward." + row[0], *row[1:]] for row in rows_of("src/lib/tables/views.def", "VIEW")]
compare("src/lib/tables/views.def", [row[0] for row in views + rows_of("src/lib/tables/views.def", "GRADIENT")],
        [name for name, kind in leaves(header, "clattn_attention_backward_params") if kind == "clattn_tensor"],
        "a group would not deal it, and overlaps would not be seen")
enum = re.search(r"typedef enum clattn_type \{(.*?)\} clattn_type;", re.sub(r"/\*.*?\*/", "", text_of("include/clattn/tensor.h"), flags=re.S), flags=re.S)
compare("src/lib/tables/types.def", [row[0] for row in rows_of("src/lib/tables/types.def", "TYPE")],
        [name for name in re.findall(r"CLATTN_TYPE_(\w+)", enum.group(1)) if name != "COUNT"], "it would have no word and no size")
KINDS = {"const float *": {"HEADS"}, "const int32_t *": {"ITEMS"}, "const char *": {"TEXT"}, "clattn_tensor": {"VIEW", "BUFFER"}}
fields, rows = dict(leaves(header, "clattn_score")), rows_of("src/lib/tables/score.def", "OPTION")
compare("src/lib/tables/score.def", [row[0] for row in rows], fields, "results on several devices would be wrong")
faults.extend(f"src/lib/tables/score.def: {name} is no {kind}" for name, kind, *_ in rows
              if name in fields and kind not in KINDS.get(fields[name], {"NUMBER", "DROPOUT"}))


SHAPES = {"FAMILY": r"\w+", "VARIANT": r'"[\w-]+", [A-Z0-9]+, "\w+", [A-Z0-9]+, "[^"]*"', "TUNE": r'[A-Z0-9]+, "[^"]+"',
          "SUITES": r'"\w+", "[^"]*", "\w*", "\w+(:\w+)?[!+]?(/\d+)?(=\d+)?( \w+(:\w+)?[!+]?(/\d+)?(=\d+)?)*"',
          "BY_HAND": r'"\w+", "[^"]+"', "OCLGRIND": r'"(\w+", "(all|decode|projections|integers|blocks|tiles|fragments|bf16|i8|gradients|gradients-bf16)", "[^"]+|", "[^"]+", ")"'}


def check_families(table, kinds, needed):
    """Finds rows of unknown kinds, and families without a row of a required kind. Families without
    rows in between share the rows that follow. Returns the names of the families."""
    groups, cases = [], {}
    for line in text_of(table).split("\nFAMILY(", 1)[1].join(["FAMILY(", ""]).split("#undef")[0].split("\n"):
        kind = line.split("(")[0]
        if line and not line.startswith("//") and not (kind in kinds and re.fullmatch(rf"{kind}\({SHAPES[kind]}\)( //.*)?", line)):
            faults.append(f"{table}: no row of its kind: {line}")
        elif kind == "FAMILY" and (not groups or groups[-1][1]):
            groups.append(([line[7:-1]], set()))
        elif kind == "FAMILY":
            groups[-1][0].append(line[7:-1])
        elif line and not line.startswith("//"):
            groups[-1][1].add(kind)
        if kind == "OCLGRIND" and cases.setdefault(line.split('"')[1] or line, line.split('"')[3]) != line.split('"')[3]:
            faults.append(f"{table}: a run has other cases before: {line}")
    faults.extend(f"{table}: {' and '.join(names)}: no {kind}" for names, has in groups for kind in sorted(needed - has))
    return [name for group, _ in groups for name in group]


FAMILIES = "src/lib/tables/families.def"
names = check_families(FAMILIES, {"FAMILY", "VARIANT", "TUNE"}, {"VARIANT"})
if check_families("tests/families.def", {"FAMILY", "SUITES", "BY_HAND", "OCLGRIND"}, {"SUITES", "OCLGRIND"}) != names:
    faults.append(f"tests/families.def: its families are not those of {FAMILIES}, in its order")
files = glob.glob("src/lib/plan/families/family_*.c")
faults.extend(f"{path}: no family of this name stands in {FAMILIES}: it is not built" for path in files
              if os.path.basename(path)[7:-2] not in names)
if len(names) < 10 or len(files) < 10:
    faults.append(f"{FAMILIES}: saw {len(names)} families and {len(files)} files: this check looks in the wrong place")
print(f"{FAMILIES}: {len(names)} families")
print("\n".join(faults))
sys.exit(1 if faults else 0)
