"""The loops of a compiled kernel: the numbers of multiply-adds and of local reads in a loop, and
the global bytes that a work-item reads. For NVIDIA's SASS (nvdisasm), AMD's assembly (clang -S) and
Intel's (IGC's dump).

A loop is the code between a label and a branch back to it. Only innermost loops are counted. The
products of an attention kernel are the loops with the most multiply-adds. A packed or dual
multiply-add is one instruction. Waits delay an instruction until another result is available. On
AMD they are instructions that occupy no unit, and on NVIDIA they are bits of the waiting
instruction.
"""
import math
import re
from collections import namedtuple

# For one loop: instructions, waits among them, multiply-adds, multiply-adds per lane, local reads,
# global bytes.
Loop = namedtuple("Loop", "instructions waits fma products local_reads global_bytes")
# For one instruction: labels before it, its condition, name, operands and comments.
Instruction = namedtuple("Instruction", "labels condition name rest")
# The syntax of a compiler's code. `section` starts a section, which may be a kernel's (None: there
# is one kernel). `instruction` matches condition, name and rest. `kind` is a function that returns
# an instruction's kind and its amount per lane.
Language = namedtuple("Language", "section label instruction branch kind")
ENGINES = "HG?MMA|v_wmma|v_mfma|dpas"  # instructions of matrix engines
NOTHING, MULTIPLY_ADD, LOCAL_READ, GLOBAL_READ, WAIT = range(5)
WIDTHS = {"": 4, "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1, "ushort": 2,
          "u16": 2, "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16}


def kind_of_sass(i):
    parts = i.name.split(".")
    if parts[0] in ("FFMA", "FFMA2"):
        return MULTIPLY_ADD, 2 if parts[0] == "FFMA2" else 1
    if parts[0] == "HMMA":
        return MULTIPLY_ADD, 64  # 16 x 8 x 16 by 32 lanes
    if parts[0] == "HGMMA":  # by 128 lanes
        return MULTIPLY_ADD, math.prod(int(x) for x in re.match(r"HGMMA\.(\d+)x(\d+)x(\d+)", i.name + i.rest).groups()) // 128
    if parts[0] in ("LDS", "LDSM"):
        return LOCAL_READ, 1
    if parts[0] == "LDG":
        return GLOBAL_READ, next((WIDTHS[p] for p in parts if p and p in WIDTHS), 4)
    return NOTHING, 0


def kind_of_amd(i):
    both = i.name + i.rest
    if re.match(r"v_wmma_f32_16x16x16_|v_mfma_f32_32x32x8_?b?f16", i.name):
        return MULTIPLY_ADD, 128  # 16 x 16 x 16 by 32 lanes, and 32 x 32 x 8 by 64
    if re.search(r"v_(dual_)?(fma|fmac|fmaak|fmamk|mac|mad)\w*_f32", both):
        return MULTIPLY_ADD, len(re.findall(r"v_dual_fma\w*_f32", both)) or 1
    if re.match(r"v_pk_fma\w*_f32", i.name):
        return MULTIPLY_ADD, 2
    if re.match(r"ds_(read|load)", i.name):
        return LOCAL_READ, 1
    if re.match(r"s_(wait|nop|delay_alu|clause)", i.name):
        return WAIT, 1
    found = re.match(r"(?:global|flat|buffer)_load_(?:d16_)?(?:hi_)?([a-z0-9]+)", i.name)
    return (GLOBAL_READ, WIDTHS.get(found.group(1), 4)) if found else (NOTHING, 0)


def kind_of_intel(i):
    """float32 multiply-adds for each lane. A lane is a work-item."""
    if re.match(r"dpasw?\.8x8$", i.name):
        return MULTIPLY_ADD, 128  # 8 x 8 x 16 by 8 lanes, and 8 x 16 x 16 by 16
    if i.name.startswith("mad") and ":f" in i.rest and not re.match(r"\s*\(1\|", i.rest):
        return MULTIPLY_ADD, 1
    if i.name.startswith("load.slm"):
        return LOCAL_READ, 1
    if i.name.startswith("send") and " read" in i.rest:
        local = re.search(r"0x[0-9A-F]{6}FE\s", i.rest)
        return (LOCAL_READ, 1) if local else (GLOBAL_READ, 4 * len((re.findall(r"read with (\w+)", i.rest) or ["x"])[0]))
    found = re.match(r"load\.ugm\.d(\d+)\w*?(?:x(\d+))?", i.name)
    return (GLOBAL_READ, int(found.group(1)) // 8 * int(found.group(2) or 1)) if found else (NOTHING, 0)


SASS = Language(r"\.text\.(\w+):|\s*\.section()", r"(\.L_\w+):", r"\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*)",
                r"(BRA|CALL)\b", kind_of_sass)  # a CALL that never returns is a far branch
AMD = Language(r"([A-Za-z_]\w*):", r"(\.LBB\w+):", r"\s+()([a-z]\w+)(\s.*|$)", r"s_c?branch", kind_of_amd)
INTEL = Language(None, r"([A-Za-z_]\w*):", r"\s*(\([^)]*\))?\s+([a-z][a-z0-9_.]*)(\s.*|$)", r"(jmpi|goto|while)\b", kind_of_intel)


def instructions(text, kernel, language):
    inside, labels = language.section is None, []
    for line in text.splitlines():
        section = language.section and re.match(language.section, line)
        label = re.match(language.label, line)
        found = re.match(language.instruction, line)
        if section:
            inside = section.group(1) == kernel
        elif label:
            labels.append(label.group(1))
        elif inside and found:
            yield Instruction(labels, *found.groups())
            labels = []


def all_spans(code, language):
    """Returns (first, last) of each loop."""
    place = {label: n for n, i in enumerate(code) for label in i.labels}
    ends = {}
    for n, i in enumerate(code):
        if re.match(language.branch, i.name):
            for word in re.findall(r"[.\w]+", i.rest):
                if place.get(word, n + 1) <= n:
                    ends[place[word]] = max(n, ends.get(place[word], 0))
    return sorted(ends.items())


def spans(code, language):
    """The instructions of each innermost loop. For an outer loop with products of a matrix engine,
    its instructions outside of inner loops."""
    every = all_spans(code, language)
    for a, b in every:
        inner = [(c, d) for c, d in every if (c, d) != (a, b) and a <= c and d <= b]
        own = [i for n, i in enumerate(code[a:b + 1], a) if not any(c <= n <= d for c, d in inner)]
        if not inner or any(re.match(ENGINES, i.name) for i in own):
            yield own


def loops_of(code, language):
    """Loops with multiply-adds, those with the most first."""
    result = []
    for own in spans(code, language):
        count = {kind: [0, 0] for kind in range(5)}
        for i in own:
            kind, each = language.kind(i)
            count[kind][0] += 1
            count[kind][1] += each
        if count[MULTIPLY_ADD][0]:
            result.append(Loop(len(own), count[WAIT][0], *count[MULTIPLY_ADD], count[LOCAL_READ][0], count[GLOBAL_READ][1]))
    return sorted(result, key=lambda x: -x.products)
