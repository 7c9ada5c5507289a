#!/usr/bin/env python3
"""How the code lies: includes run downward and in no circle, files and functions stay short.

    check_structure.py      from the project's top folder; exit status 1 and one line for each fault
"""
import glob
import os
import re
import statistics
import sys

# What each folder of src may include besides the public header, itself and the kernels' argument structs.
BELOW = {
    "core": [],
    "plan": ["core"],
    "attention": ["core", "plan"],
    "layer": ["core", "plan", "attention"],
    "context.c": ["core", "plan", "attention", "layer"],  # the composition root
    "evidence": [],
    "tool": ["evidence"],
}
LINES, MEDIAN, FUNCTION, KERNEL = 400, 150, 46, 80
faults = []


def includes_of(path):
    return re.findall(r'^#include "([^"]+)"', open(path, encoding="utf-8").read(), re.M)


def check_folders():
    for path in glob.glob("src/**/*.[ch]", recursive=True):
        folder = path.split("/")[1]
        if folder not in BELOW:
            faults.append(f"{path}: its folder has no place in this check")
            continue
        for name in includes_of(path):
            other = name.split("/")[0] if "/" in name else None
            if other and other != folder and other not in BELOW[folder]:
                faults.append(f"{path} includes {name}: {folder} stands on {', '.join(BELOW[folder]) or 'nothing'}")


def check_circles():
    """No header of the library reaches itself."""
    graph = {p[4:]: [n for n in includes_of(p) if "/" in n] for p in glob.glob("src/*/*.h")}

    def reach(name, trail):
        if name in trail:
            faults.append("a circle of includes: " + " -> ".join(trail[trail.index(name):] + [name]))
            return
        for other in graph.get(name, []):
            if name not in done:
                reach(other, trail + [name])
        done.add(name)

    done = set()
    for name in graph:
        reach(name, [])


def functions_of(path):
    """(name, lines) of what starts in the first column and ends with a brace there."""
    start = name = None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        head = re.match(r"^[A-Za-z_].*?\b(\w+)\(", line)
        if start is None and head and not line.startswith(("typedef", "#", "return", "TRY")):
            start, name = number, head.group(1)
        if start is not None and re.match(r"^}\s*$", line):
            yield name, number - start + 1
            start = None
        elif start is not None and re.match(r"^\S.*;\s*$", line):
            start = None  # a declaration


def check_sizes():
    library = [p for d in ("core", "plan", "attention", "layer") for p in glob.glob(f"src/{d}/*.c")] + ["src/context.c"]
    kernels = glob.glob("cl/*.cl") + glob.glob("cl/*.clh")
    every = [p for d in ("src", "include", "tests", "bench", "cl") for e in ("c", "h", "cl", "clh")
             for p in glob.glob(f"{d}/**/*.{e}", recursive=True)]
    lines = {p: sum(1 for _ in open(p, encoding="utf-8")) for p in every}
    faults.extend(f"{p}: {n} lines, at most {LINES}" for p, n in lines.items() if n > LINES)
    median = statistics.median(lines.values())
    if median > MEDIAN:
        faults.append(f"the median file has {median} lines, at most {MEDIAN}")
    longest, count = (0, ""), 0
    for path in library:
        for name, n in functions_of(path):
            longest, count = max(longest, (n, f"{path}: {name}")), count + 1
            if n > FUNCTION:
                faults.append(f"{path}: {name} has {n} lines, at most {FUNCTION}")
    for path in kernels:
        for name, n in functions_of(path):
            count += 1
            if n > KERNEL:
                faults.append(f"{path}: {name} has {n} lines, at most {KERNEL}")
    if len(every) < 100 or count < 300:
        faults.append(f"saw {len(every)} files and {count} functions: this check looks in the wrong place")
    print(f"{len(every)} files, median {median:.0f} lines; {count} functions; longest {longest[1]}, {longest[0]} lines")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
check_folders()
check_circles()
check_sizes()
print("\n".join(faults))
sys.exit(1 if faults else 0)
