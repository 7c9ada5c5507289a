#!/usr/bin/env python3
"""The structure of the code: includes only point downward, there are no cycles, and files,
functions and folders stay small.

    check_structure.py      from the project's top folder; exit status 1 and one line for each fault

Prints each rule with its worst value. A rule that is not fulfilled yet has a number in TO_DO, which
may only decrease.
"""
import collections
import glob
import os
import re
import sys

# The folders that each folder of src/lib, src/bindings and src may include. All may include the
# public header, themselves, the tables of src/lib/tables and the kernels' argument structs.
BELOW = {
    "tables": [],
    "base": [],
    "device": ["base"],
    "program": ["base", "device"],
    "launch": ["base", "device", "program"],
    "probe": ["base", "device", "program", "launch"],
    "plan": ["base", "device", "program", "launch", "probe"],
    "attention": ["base", "device", "program", "launch", "probe", "plan"],
    "layer": ["base", "device", "program", "launch", "probe", "plan", "attention"],
    "group": ["base", "device", "program", "launch", "probe", "plan", "attention"],
    # the composition roots
    "context.c": ["base", "device", "program", "launch", "probe", "plan", "attention", "layer"],
    "survey.c": ["base", "device", "program", "launch", "probe"],
    "measure.c": ["base", "device", "program", "launch", "probe", "plan", "attention", "layer"],
    "mpi": [],
    "onnxruntime": [],
    "packaging": [],
    "ggml": [],
    "verification": [],
    "cli": ["verification"],
}
ALSO = {("cli", "src/lib/base/sha256.h")}  # the only hash function
# Folders in which includes without a folder are searched.
ROOTS = ["src", "include", "cl", "tests", "bench"]
INCLUDE_ROOTS = ["src/lib", "src/bindings"] + ROOTS
MADE = {"base/knobs.clh": "src/lib/tables/knobs.def"}  # the build creates the first from the second
LINES, FUNCTION, KERNEL, COLUMNS, FOLDER = 600, 46, 80, 140, 35
# most files in the include tree of a kernel
OPENED, OPENED_MOST = 14, {"cl/lanes/layer_few_lanes.cl": 19, "cl/fragments/decode_fragments.cl": 15}
DECLARES = 3  # most .c files for one header of src, tests or bench
# The remaining violations of each rule. Lower a number with every fix, and remove its line at 0.
TO_DO = {}
DATA = re.compile(r"(^|/)(data|seeds|results)(/|$)") # data folders may have any size
# File names in comments that do not exist here: files of other projects, and files that a script
# creates.
ELSEWHERE = {"asm/prctl.h", "onnxruntime_c_api.h", "onnxruntime_c_api.cc",
             "onnxruntime_ep_c_api.h", "kernel_list.h", "base/knobs.clh", "tests/test_flash_attn.py", "numpy.py", "clattn.py", "_abi.py", "clattn/_abi.py",
             "onnx/backend/test/runner/__init__.py"}
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
NAME = re.compile(
    r"(?<![\w.*<{$/-])[\w./-]*\w\.(?:clh|cl|c|h|def|py|sh|md|tsv)\b(?![\w/(-])"
    r"|(?<![\w./])(?:src|cl|tests|bench|include)/[a-z_/]+\b(?!/|\.\w)")
# the head of an external function
HEAD = r"^(?!static\b|typedef\b)(?=[A-Za-z_])[^=;{}#()]*?\b(\w+)\([^;{}]*\)\s*"
# an external variable
TABLE = r"^(?!static\b|extern\b|typedef\b)(?=[a-z])[^=;{}#()]*?\b(\w+)(?:\[[^\]]*\])*"
faults = []
texts = {}


def text_of(path):
    if path not in texts:
        with open(path, encoding="utf-8") as file:
            texts[path] = file.read()
    return texts[path]


def code_of(path):
    """A C file without comments, strings and attributes."""
    code = TOKEN.sub(lambda m: " " if m.group().startswith("/") else '""', text_of(path))
    return re.sub(r"__attribute__\(\(.*?\)\)|^[ \t]*#(\\\n|.)*", "", code, flags=re.M)


def includes_of(path):
    """The project's files that a file includes, with any spelling."""
    found = []
    for mark, name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', text_of(path), re.M):
        if name in MADE:
            found.append(MADE[name])
            continue
        for root in ([os.path.dirname(path)] if mark == '"' else []) + INCLUDE_ROOTS:
            other = os.path.normpath(os.path.join(root, name))
            if os.path.isfile(other):
                found.append(other)
                break
    return found


def reach_of(path):
    """The file and everything that it includes."""
    found, todo = {path}, [path]
    while todo:
        new = set(includes_of(todo.pop())) - found
        found |= new
        todo += new
    return found


def sources(*folders):
    return [p for d in folders for e in ("c", "h", "def", "cl", "clh") for p in glob.glob(f"{d}/**/*.{e}", recursive=True)]


def scripts():
    found = [p for e in ("py", "sh") for d in ("src", "cl", "tests", "bench") for p in glob.glob(f"{d}/**/*.{e}", recursive=True)]
    return found + glob.glob("meson.build") + [p for d in ROOTS for p in glob.glob(f"{d}/**/meson.build", recursive=True)]


def held(rule, excess, lines):
    """A rule of TO_DO: `excess` is the number of violations, and `lines` are the faults."""
    allowed = TO_DO.get(rule, 0)
    if excess > allowed:
        faults.extend(lines)
        faults.append(f"{rule}: {excess} too many, at most {allowed}")
    elif excess < allowed:
        print(f"to do: {rule}: {excess} too many; lower its number of {allowed} to that")
    elif excess:
        print(f"to do: {rule}: {excess} too many")


def room_of(path):
    """The top folder of a file, and its folder in BELOW."""
    parts = path.split("/") + ["", ""]
    return parts[0], parts[2 if parts[1] in ("lib", "bindings") else 1]


def check_folders():
    for path in sources("src", "include", "cl"):
        top, folder = room_of(path)
        if top == "src" and folder not in BELOW:
            faults.append(f"{path}: its folder has no place in this check")
            continue
        for name in includes_of(path):
            other_top, other = room_of(name)
            if name in MADE.values() or (folder, name) in ALSO or other == "tables":
                continue
            if other_top == top and (top != "src" or other == folder or other in BELOW[folder]):
                continue
            if top != "src" or other_top not in ("include", "cl"):
                below = ", ".join(BELOW[folder]) or "nothing" if top == "src" else "nothing"
                faults.append(f"{path} includes {name}: {folder if top == 'src' else top} stands on {below}")
    count = {}
    for folder, _, names in os.walk("."):
        folder = folder[2:]
        if folder.split("/")[0] in ROOTS and "__pycache__" not in folder and not DATA.search(folder):
            count[folder] = len(names)
    faults.extend(f"{d}: {n} files, at most {FOLDER}" for d, n in count.items() if n > FOLDER)
    most = max(count, key=count.get)
    print(f"files in a folder: {count[most]} in {most}, at most {FOLDER}")


def circles_of(graph):
    """Cycles: sets of files that reach one another (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) > at + 1 or name in graph.get(name, ()):
                found.append(set(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def check_circles():
    """No file includes itself. No .c file uses, directly or indirectly, a function or table of a
    file that uses its own."""
    graph = {p: includes_of(p) for p in sources("src", "include", "cl", "tests", "bench")}
    faults.extend("a circle of includes: " + " ".join(sorted(c)) for c in circles_of(graph))

    files = [p for p in sources("src", "tests", "bench") if p.endswith(".c")]
    defined, declared = collections.defaultdict(set), collections.defaultdict(set)
    for path in files:
        for name in re.findall(HEAD + r"\{", code_of(path), re.M) + re.findall(TABLE + r"\s*[=;]", code_of(path), re.M):
            defined[name].add(path)
    for path in sources("src", "include", "tests", "bench"):
        if not path.endswith(".c"):
            for name in re.findall(HEAD + ";", code_of(path), re.M) + re.findall("^extern " + TABLE[1:] + ";", code_of(path), re.M):
                declared[name].add(path)
    uses = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in files:
        seen = reach_of(path)
        own = set(re.findall(r"^static\b[^=;{}]*?\b(\w+)\(", code_of(path), re.M))
        for name in set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w+", code_of(path))) - own:
            if path not in defined[name] and declared[name] & seen:
                for other in defined[name]:
                    # a test's replacement of a function is not what src uses
                    if path.startswith("tests/") or not other.startswith("tests/"):
                        uses[path][other].add(name)
    circles = circles_of(uses)
    lines = []
    for circle in sorted(circles, key=len):
        lines.append("a circle of definitions: " + " ".join(sorted(circle)))
        lines += [f"    {p} uses {' '.join(sorted(names))} of {q}"
                  for p in sorted(circle) for q, names in sorted(uses[p].items()) if q in circle]
    print(f"circles of definitions: {len(circles)} among {len(files)} files, {len(defined)} functions")
    if len(defined) < 1000 or sum(map(len, uses.values())) < 1000:
        faults.append("the graph of definitions is too small: this check looks in the wrong place")
    held("circles", sum(map(len, circles)), lines)
    check_headers(defined, declared)


def check_headers(defined, declared):
    """An internal header declares functions of few .c files. Alternatives of one file count as one.
    """
    owners = collections.defaultdict(set)
    for name, headers in declared.items():
        for header in headers:
            files = [p for p in sorted(defined[name]) if header.startswith("tests/") or not p.startswith("tests/")]
            owners[header].update(files[:1] if not header.startswith("include/") else [])
    most = max(owners, key=lambda h: len(owners[h]))
    print(f".c files whose functions a header declares: {len(owners[most])} in {most}, at most {DECLARES}")
    over = {h: c for h, c in owners.items() if len(c) > DECLARES}
    held("declares", sum(len(c) - DECLARES for c in over.values()),
         [f"{h} declares functions of {len(c)} files: {' '.join(sorted(c))}" for h, c in over.items()])


def check_kernels():
    """A reader of one kernel needs few files."""
    opened = {p: len(reach_of(p)) for p in glob.glob("cl/**/*.cl", recursive=True)}
    over = {p: n - OPENED_MOST.get(p, OPENED) for p, n in opened.items()}
    most = max(opened, key=opened.get)
    print(f"files that a kernel includes, with itself: {opened[most]} in {most}, at most {OPENED_MOST.get(most, OPENED)}")
    held("opened", sum(max(0, n) for n in over.values()),
         [f"{p}: {opened[p]} files to open, at most {opened[p] - n}" for p, n in over.items() if n > 0])
    # Adreno's compiler E031.50 fails (NumConstRegsError) if a kernel uses both get_global_offset
    # and get_local_size.
    asks = re.compile(r"^(?!#define get_local_size\b).*\bget_local_size\b", re.M)
    faults.extend(f"{p}: uses get_local_size: divide by a macro of the work-group's size" for p in
                  glob.glob("cl/**/*.cl*", recursive=True) if asks.search(TOKEN.sub(" ", text_of(p))))


def check_columns():
    """Quoted text in a script is not counted, because it cannot be wrapped."""
    for rule, paths in (("columns", sources(*ROOTS)), ("columns of scripts", scripts())):
        wide = [(len(QUOTED.sub("", line) if rule != "columns" and len(line) > COLUMNS else line), f"{p}:{n}")
                for p in paths for n, line in enumerate(text_of(p).split("\n"), 1)]
        print("{}: {} in {}, at most {}".format(rule, *max(wide), COLUMNS))
        lines = [f"{where}: {width} columns, at most {COLUMNS}" for width, where in wide if width > COLUMNS]
        held(rule, len(lines), lines)


def check_names():
    """A file that a comment or a page names must exist. NAME and similar words are placeholders."""
    every = {os.path.join(d, n)[2:] for d, _, names in os.walk(".") for n in names if not re.match(r"./(build|\.git)", d)}
    ends = {p[at:] for p in every for at in [0] + [m.end() for m in re.finditer("/", p)]}
    seen = 0
    pages = ["README.md", "CONTRIBUTING.md"] + glob.glob("docs/**/*.md", recursive=True)
    for path in sources(*ROOTS) + scripts() + pages:
        if path in pages:
            comments = [text_of(path)]
        elif path.endswith((".py", ".sh", ".build")):
            comments = re.findall(r"(?:^|\s)#(.*)", text_of(path))
        else:
            comments = [t for t in TOKEN.findall(text_of(path)) if t.startswith("/")]
        for name in NAME.findall("\n".join(comments)):
            name = os.path.normpath(os.path.join(os.path.dirname(path), name) if name.startswith("../") else name)
            seen += 1
            if name not in ends and name not in ELSEWHERE and not re.search("NAME|FOLDER", name) and not os.path.isdir(name) and not glob.glob(name + "*"):
                faults.append(f"{path} speaks of {name}, which is not there")
    if seen < 500:
        faults.append(f"saw {seen} names of files in comments: this check looks in the wrong place")
    print(f"names of files in comments and documentation: {seen}")


def functions_of(path):
    """Returns (name, lines) of each definition that starts in the first column with a name and a
    parenthesis, and has a body in braces."""
    start = name = None
    inside = False
    for number, line in enumerate(text_of(path).split("\n"), 1):
        line = re.sub(r"\s*(//.*|/\*.*\*/)?\s*$", "", line)
        head = re.match(r"^(?=[A-Za-z_])[^=;]*?\b(\w+)\(", line)
        if not inside and re.match(r"[A-Za-z_#]", line):
            start = None  # the previous lines were no head
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
    every = [p for p in sources(*ROOTS) if not p.endswith(".def")]
    lines = {p: text_of(p).count("\n") for p in every}
    faults.extend(f"{p}: {n} lines, at most {LINES}" for p, n in lines.items() if n > LINES)
    most, count = max(lines, key=lines.get), 0
    longest = {FUNCTION: (0, ""), KERNEL: (0, "")}
    for path in every:
        limit = KERNEL if path.startswith("cl/") else FUNCTION
        for name, n in functions_of(path):
            longest[limit], count = max(longest[limit], (n, f"{name} of {path}")), count + 1
            if n > limit:
                faults.append(f"{path}: {name} has {n} lines, at most {limit}")
    if len(every) < 100 or count < 1000:
        faults.append(f"saw {len(every)} files and {count} functions: this check looks in the wrong place")
    print(f"lines of a file: {lines[most]} in {most}, at most {LINES}; {len(every)} files")
    for limit, (n, where) in longest.items():
        print(f"lines of a {'function' if limit == FUNCTION else 'function of a kernel'}: {n} in {where}, at most {limit}")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
check_folders()
check_circles()
check_kernels()
check_columns()
check_names()
check_sizes()
print("\n".join(faults))
sys.exit(1 if faults else 0)
