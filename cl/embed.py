#!/usr/bin/env python3
"""Embed the kernels: replace the #include lines of .cl files and write the texts as C arrays.

    embed.py OUT.c OUT.h OUT.d NAME.cl [NAME.cl ...]
    embed.py --knobs OUT.clh    only base/knobs.clh, for compilers that read cl/ directly

OUT.h has a line KERNEL(name, NAME) per kernel, so the build files are the only list of kernels.
OUT.d has the files that were read, for the build. Includes are relative to this script's folder.
base/knobs.clh is generated from the rows of src/lib/tables/knobs.def.

C11 guarantees only 4,095 characters per string literal. So a text is an array of rows of 4,000
characters, without zeros between them. Literals compile 50 times faster than a list of bytes.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
KNOBS, KNOBS_DEF = os.path.join(TOP, "base/knobs.clh"), os.path.join(os.path.dirname(TOP), "src/lib/tables/knobs.def")


def knobs_text():
    """Each knob's default, and an #error if it is out of range."""
    text = "".join(open(KNOBS_DEF, encoding="utf-8"))
    rows = re.findall(r"^KNOB\((\w+), \w+, (\w+), (\w+), (\w+)\)", text, re.M)
    if len(rows) != len(re.findall("^KNOB", text, re.M)):
        sys.exit(f"{KNOBS_DEF}: a row that is not KNOB(macro, field, standard, least, most)")
    # All defaults come first, because some refer to others.
    return "".join(f"#ifndef {name}\n#define {name} {standard}\n#endif\n" for name, standard, _, _ in rows) + "".join(
        f'#if {name} < {least} || {name} > {most}\n#error "{name} is {least} to {most}"\n#endif\n' for name, _, least, most in rows)


def flatten(path, seen, read=None):
    """The text of `path` with every quoted include replaced by its file, each file once.

    An include inside an #if may not be compiled, so a later include of the same file is replaced,
    too. The file's guard keeps one copy. `read` collects the files that were read."""
    if read is not None:
        read.add(KNOBS_DEF if path == KNOBS else path)
    if path == KNOBS:
        return knobs_text()
    lines, depth = [], -path.endswith(".clh")  # its guard
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        include = re.match(r'\s*#include "([^"]+)"', line)
        if not include:
            lines.append(line)
            continue
        target = os.path.join(TOP, include.group(1))
        if target not in seen:
            inside = set(seen) if depth > 0 else seen
            inside.add(target)
            lines.append(f'#line 1 "{os.path.basename(target)}"\n')
            lines.append(flatten(target, inside, read))
            lines.append(f'#line {number + 1} "{os.path.basename(path)}"\n')
    return "".join(lines)


ROW = 4000
# Newer compilers warn of rows without a terminating zero, and of adjacent literals without a comma.
QUIET = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n'
                for name in ("pragmas", "unknown-warning-option", "string-concatenation", "unterminated-string-initialization"))
# "??" would begin a trigraph.
ESCAPES = {ord("\n"): "\\n", ord('"'): '\\"', ord("\\"): "\\\\", ord("?"): "\\?"}


def literal(data):
    """These bytes as string literals, one per line."""
    lines = data.splitlines(keepends=True)
    return "\n".join('"' + "".join(ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in line) + '"' for line in lines)


def main(out_c, out_h, out_d, *sources):
    parts, sizes, read = ['#include "program/kernels.h"\n#if defined(__GNUC__)\n' + QUIET + "#endif\n"], {}, set()
    for path in sources:
        name = os.path.splitext(os.path.basename(path))[0]
        data = flatten(path, set(), read).encode()
        sizes[name] = len(data)
        rows = [literal(data[i:i + ROW]) for i in range(0, len(data), ROW)]
        parts.append(f"static const char text_{name}[][{ROW}] = {{\n" + ",\n".join(rows) + "};\n")
    parts.append("const struct kernel_source clattn_kernel_sources[KERNEL_COUNT] = {\n")
    for name, size in sizes.items():
        parts.append(f'    [KERNEL_{name.upper()}] = {{"{name}", (const unsigned char *)text_{name}, {size}}},\n')
    parts.append("};\n")
    with open(out_c, "w", encoding="utf-8") as f:
        f.write("".join(parts))
    with open(out_h, "w", encoding="utf-8") as f:
        f.write("".join(f"KERNEL({name}, {name.upper()})\n" for name in sizes))
    with open(out_d, "w", encoding="utf-8") as f:
        f.write(f"{out_c} {out_h}: " + " ".join(sorted(p.replace(" ", "\\ ") for p in read)) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--knobs":
        open(sys.argv[2], "w", encoding="utf-8").write(knobs_text())
    else:
        main(*sys.argv[1:])
