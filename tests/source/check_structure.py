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
    "base": [],
    "device": ["base"],
    "program": ["base", "device"],
    "launch": ["base", "device", "program"],
    "probe": ["base", "device", "program", "launch"],
    "plan": ["base", "device", "program", "launch", "probe"],
    "attention": ["base", "device", "program", "launch", "probe", "plan"],
    "layer": ["base", "device", "program", "launch", "probe", "plan", "attention"],
    "group": ["base", "device", "program", "launch", "probe", "plan", "attention"],
    "context.c": ["base", "device", "program", "launch", "probe", "plan", "attention", "layer"],  # the composition root
    "mpi": [],
    "evidence": [],
    "tool": ["evidence"],
}
# Where an include without a folder of its own is looked for.
ROOTS = ["src", "include", "cl", "tests", "bench"]
LINES, MEDIAN, FUNCTION, KERNEL = 600, 150, 46, 80
faults = []


def includes_of(path):
    """The project's own files that a file includes, however they are written."""
    found = []
    for mark, name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', open(path, encoding="utf-8").read(), re.M):
        for root in ([os.path.dirname(path)] if mark == '"' else []) + ROOTS:
            other = os.path.normpath(os.path.join(root, name))
            if os.path.isfile(other):
                found.append(other)
                break
    return found


def sources(*folders):
    return [p for d in folders for e in ("c", "h", "def", "cl", "clh") for p in glob.glob(f"{d}/**/*.{e}", recursive=True)]


def check_folders():
    for path in sources("src", "include", "cl"):
        top, folder = (path.split("/") + [""])[:2]
        if top == "src" and folder not in BELOW:
            faults.append(f"{path}: its folder has no place in this check")
            continue
        for name in includes_of(path):
            other_top, other = name.split("/")[:2]
            if other_top == top and (top != "src" or other == folder or other in BELOW[folder]):
                continue
            if top != "src" or other_top not in ("include", "cl"):
                below = ", ".join(BELOW[folder]) or "nothing" if top == "src" else "nothing"
                faults.append(f"{path} includes {name}: {folder if top == 'src' else top} stands on {below}")


def check_circles():
    """No file reaches itself."""
    graph = {p: includes_of(p) for p in sources("src", "include", "cl", "tests", "bench")}

    def reach(name, trail):
        if name in trail:
            faults.append("a circle of includes: " + " -> ".join(trail[trail.index(name):] + [name]))
            return
        if name in done:
            return
        for other in graph.get(name, []):
            reach(other, trail + [name])
        done.add(name)

    done = set()
    for name in graph:
        reach(name, [])


def functions_of(path):
    """(name, lines) of what starts in the first column with a name and a parenthesis, opens a brace and closes it there."""
    start = name = None
    inside = False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = re.sub(r"\s*(//.*|/\*.*\*/)?\s*$", "", line)
        head = re.match(r"^(?=[A-Za-z_])[^=;]*?\b(\w+)\(", line)
        if not inside and re.match(r"[A-Za-z_#]", line):
            start = None  # what came before was no head
        if not inside and head and not line.startswith("typedef"):
            start, name = number, line.rstrip(" {") if head.group(1).isupper() else head.group(1)
        if start is not None and not inside:
            if line.endswith(";"):
                start = None  # a declaration
            inside = start is not None and "{" in line and not line.endswith("}")
        elif inside and line.startswith("}"):
            yield name, number - start + 1
            start, inside = None, False


def check_sizes():
    every = [p for p in sources("src", "include", "tests", "bench", "cl") if not p.endswith(".def")]
    host = [p for p in every if not p.startswith("cl/")]
    kernels = [p for p in every if p.startswith("cl/")]
    lines = {p: sum(1 for _ in open(p, encoding="utf-8")) for p in every}
    faults.extend(f"{p}: {n} lines, at most {LINES}" for p, n in lines.items() if n > LINES)
    median = statistics.median(lines.values())
    if median > MEDIAN:
        faults.append(f"the median file has {median} lines, at most {MEDIAN}")
    longest, count = (0, ""), 0
    for path in host:
        for name, n in functions_of(path):
            longest, count = max(longest, (n, f"{path}: {name}")), count + 1
            if n > FUNCTION:
                faults.append(f"{path}: {name} has {n} lines, at most {FUNCTION}")
    for path in kernels:
        for name, n in functions_of(path):
            count += 1
            if n > KERNEL:
                faults.append(f"{path}: {name} has {n} lines, at most {KERNEL}")
    if len(every) < 100 or count < 1000:
        faults.append(f"saw {len(every)} files and {count} functions: this check looks in the wrong place")
    print(f"{len(every)} files, median {median:.0f} lines; {count} functions; longest {longest[1]}, {longest[0]} lines")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
check_folders()
check_circles()
check_sizes()
print("\n".join(faults))
sys.exit(1 if faults else 0)
