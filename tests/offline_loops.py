"""The loops of a compiled kernel: how many of their instructions are multiply-adds, how many read local memory, how many
bytes of global memory a work-item reads. For NVIDIA's SASS (nvdisasm), AMD's assembly (clang -S) and Intel's (IGC's dump).

A loop is what lies between a label and a branch back to it. Only those count that hold no other: the products of an
attention kernel are the two with the most multiply-adds. A packed or dual multiply-add is one instruction.
"""
import re
from collections import namedtuple

# Of one loop: instructions, multiply-adds among them, multiply-adds that these do for a lane, local reads, global bytes.
Loop = namedtuple("Loop", "instructions fma products local_reads global_bytes")
# Of one instruction: label before it, name, operands and comments.
Instruction = namedtuple("Instruction", "labels name rest")
NOTHING, MULTIPLY_ADD, LOCAL_READ, GLOBAL_READ = range(4)


def sass(text, kernel):
    """Instructions of the section of one kernel."""
    inside, labels = False, []
    for line in text.splitlines():
        if line.startswith(".text.") or line.lstrip().startswith(".section"):
            if line.startswith(".text."):
                inside = line.startswith(f".text.{kernel}:")
            continue
        label = re.match(r"(\.L_\w+):", line)
        if label:
            labels.append(label.group(1))
            continue
        found = re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*)", line)
        if inside and found:
            yield Instruction(labels, found.group(1), found.group(2))
            labels = []


def amd(text, kernel):
    inside, labels = False, []
    for line in text.splitlines():
        if re.match(r"[A-Za-z_]\w*:", line):
            inside = line.startswith(f"{kernel}:")
        label = re.match(r"(\.LBB\w+):", line)
        if label:
            labels.append(label.group(1))
            continue
        found = re.match(r"\s+([a-z]\w+)(\s.*|$)", line)
        if inside and found:
            yield Instruction(labels, found.group(1), found.group(2))
            labels = []


def intel(text, _kernel):
    labels = []
    for line in text.splitlines():
        label = re.match(r"([A-Za-z_]\w*):", line)
        if label:
            labels.append(label.group(1))
            continue
        found = re.match(r"\s*(?:\([^)]*\))?\s+([a-z][a-z0-9_.]*)(\s.*|$)", line)
        if found and not line.startswith("//"):
            yield Instruction(labels, found.group(1), found.group(2))
            labels = []


BRANCHES = {sass: r"BRA\b", amd: r"s_c?branch", intel: r"(jmpi|goto|while)\b"}
WIDTHS = {"": 4, "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1, "ushort": 2,
          "u16": 2, "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16}


def kind_of_sass(i):
    """(kind, how many for a lane)"""
    parts = i.name.split(".")
    if parts[0] in ("FFMA", "FFMA2"):
        return MULTIPLY_ADD, 2 if parts[0] == "FFMA2" else 1
    if parts[0] in ("LDS", "LDSM"):
        return LOCAL_READ, 1
    if parts[0] == "LDG":
        return GLOBAL_READ, next((WIDTHS[p] for p in parts if p and p in WIDTHS), 4)
    return NOTHING, 0


def kind_of_amd(i):
    both = i.name + i.rest
    if re.search(r"v_(dual_)?(fma|fmac|fmaak|fmamk|mac|mad)\w*_f32", both):
        return MULTIPLY_ADD, len(re.findall(r"v_dual_fma\w*_f32", both)) or 1
    if re.match(r"v_pk_fma\w*_f32", i.name):
        return MULTIPLY_ADD, 2
    if re.match(r"ds_(read|load)", i.name):
        return LOCAL_READ, 1
    found = re.match(r"(?:global|flat|buffer)_load_(?:d16_)?(?:hi_)?([a-z0-9]+)", i.name)
    return (GLOBAL_READ, WIDTHS.get(found.group(1), 4)) if found else (NOTHING, 0)


def kind_of_intel(i):
    """Multiply-adds of float32 for a lane of their own; a lane is a work-item."""
    if i.name.startswith("mad") and ":f" in i.rest and not re.match(r"\s*\(1\|", i.rest):
        return MULTIPLY_ADD, 1
    if i.name.startswith("load.slm"):
        return LOCAL_READ, 1
    if i.name.startswith("send") and " read" in i.rest:
        local = re.search(r"0x[0-9A-F]{6}FE\s", i.rest)
        return (LOCAL_READ, 1) if local else (GLOBAL_READ, 4 * len((re.findall(r"read with (\w+)", i.rest) or ["x"])[0]))
    found = re.match(r"load\.ugm\.d(\d+)\w*?(?:x(\d+))?", i.name)
    return (GLOBAL_READ, int(found.group(1)) // 8 * int(found.group(2) or 1)) if found else (NOTHING, 0)


KINDS = {sass: kind_of_sass, amd: kind_of_amd, intel: kind_of_intel}


def spans(code, branch):
    """(first, last) of each loop that holds no other."""
    place = {label: n for n, i in enumerate(code) for label in i.labels}
    ends = {}
    for n, i in enumerate(code):
        if re.match(branch, i.name):
            for word in re.findall(r"[.\w]+", i.rest):
                if place.get(word, n + 1) <= n:
                    ends[place[word]] = max(n, ends.get(place[word], 0))
    every = sorted(ends.items())
    return [(a, b) for a, b in every if not any((c, d) != (a, b) and a <= c and d <= b for c, d in every)]


def loops_of(text, kernel, language):
    """Loops that multiply and add, those with the most of it first."""
    code = list(language(text, kernel))
    result = []
    for first, last in spans(code, BRANCHES[language]):
        count = {MULTIPLY_ADD: [0, 0], LOCAL_READ: [0, 0], GLOBAL_READ: [0, 0]}
        for i in code[first:last + 1]:
            kind, each = KINDS[language](i)
            if kind != NOTHING:
                count[kind][0] += 1
                count[kind][1] += each
        if count[MULTIPLY_ADD][0]:
            result.append(Loop(last - first + 1, *count[MULTIPLY_ADD], count[LOCAL_READ][0], count[GLOBAL_READ][1]))
    return len(code), sorted(result, key=lambda x: -x.products)
