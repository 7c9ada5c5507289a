"""Parses the text of a PTX kernel: its parameters, registers, shared and local variables, and
instructions.

Supports what clang writes for one kernel: [PTX ISA] "Directives", "Source Format" and "Instruction
Operands". Any other statement is an error that names it.
"""
import re
from collections import namedtuple


class PtxError(Exception):
    """An error of the kernel, or something unsupported here."""


# name: with all modifiers. guard: None or (whether it is negated, register). operands: from
# operand_of. text: for messages.
Instruction = namedtuple("Instruction", "name guard operands text")
# registers: {name: bits, 1 for a predicate}. params: {name: (offset, bytes)}. shared and local:
# {name: (alignment, bytes)}. code: the instructions. labels: {name: index of an instruction}.
Kernel = namedtuple("Kernel", "name registers params param_bytes shared local code labels")

# Kinds of operands.
REGISTER, NUMBER, FLOAT, SYMBOL, SPECIAL, ADDRESS, VECTOR, SINK = "register number float symbol special address vector sink".split()
# for a negated predicate as an operand, offset is 1
Operand = namedtuple("Operand", "kind value offset", defaults=(0,))

SIZES = {"pred": 1, **{f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64)}}
SPECIALS = re.compile(r"%(n?tid|n?ctaid)\.[xyz]$|%(laneid|warpid)$")


def without_comments(text, hidden):
    """Removes comments. Text after `hidden`, a mark that begins with //, is kept."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    if hidden:
        text = text.replace(hidden, "")
    return re.sub(r"//[^\n]*", "", text)


def body_of(text, name):
    """Returns (the kernel's parameter list, its body)."""
    found = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)[^{{]*{{", text, re.S)
    if not found:
        raise PtxError(f"no kernel {name}")
    depth, at = 1, found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return found.group(1), text[found.end():at - 1]


def split_list(text):
    """Split at commas that are outside of brackets."""
    return [x.strip() for x in re.split(r",(?![^{\[]*[}\]])", text)] if text.strip() else []


class Scopes:
    """Registers of blocks in braces, renamed to be unique."""

    def __init__(self):
        self.registers, self.stack, self.count = {}, [{}], 0

    def open(self):
        self.stack.append({})
        self.count += 1

    def declare(self, kind, names):
        for name in split_list(names):
            ranged = re.match(r"(.+)<(\d+)>$", name)
            for one in [f"{ranged.group(1)}{i}" for i in range(int(ranged.group(2)))] if ranged else [name]:
                own = one if len(self.stack) == 1 else f"{one}@{self.count}"
                self.stack[-1][one] = own
                self.registers[own] = SIZES[kind]

    def find(self, name):
        return next((scope[name] for scope in reversed(self.stack) if name in scope), None)


def operand_of(text, scopes):
    if text.startswith("{"):
        return Operand(VECTOR, tuple(operand_of(x, scopes) for x in split_list(text[1:-1])))
    if text.startswith("["):
        base, sign, offset = re.match(r"\[\s*([^+\-\s]+)\s*(?:([+-]+)\s*(\d+))?\s*\]$", text).groups()
        return Operand(ADDRESS, operand_of(base, scopes), int(f"{(sign or '+')[-1]}{offset or 0}"))
    if text == "_":
        return Operand(SINK, None)
    negated = text.startswith("!")
    register = scopes.find(text.lstrip("!"))
    if register:
        return Operand(REGISTER, register, int(negated))
    if re.match(r"0[fF][0-9a-fA-F]{8}$|0[dD][0-9a-fA-F]{16}$", text):
        return Operand(FLOAT, int(text[2:], 16))
    if re.match(r"-?(0x[0-9a-fA-F]+|\d+)U?$", text):
        return Operand(NUMBER, int(text.rstrip("U"), 0))
    if SPECIALS.match(text):
        return Operand(SPECIAL, text[1:])
    if re.match(r"[A-Za-z_$][\w$]*$", text):
        return Operand(SYMBOL, text)
    raise PtxError(f"operand {text}: not known here")


VARIABLE = re.compile(r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$")
STATEMENT = re.compile(r"(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)


def variables_of(statements):
    """Returns {space: {name: (alignment, bytes)}} of declarations."""
    found = {"shared": {}, "local": {}}
    for text in statements:
        match = VARIABLE.match(text)
        if match:
            space, align, kind, name, count = match.groups()
            size = SIZES[kind] // 8
            found[space][name] = (int(align or size), size * int(count or 1))
    return found


def params_of(text):
    """Returns ({name: (offset, bytes)}, total bytes). Parameters follow one another, each with its
    declared or natural alignment."""
    places, at = {}, 0
    for one in split_list(text):
        align, kind, name, count = re.match(
            r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?([\w$]+)(?:\[(\d+)\])?$",
            one).groups()
        size = SIZES[kind] // 8
        align = int(align or size)
        at = (at + align - 1) // align * align
        places[name] = (at, size * int(count or 1))
        at += places[name][1]
    return places, at


def statement_of(text, scopes):
    negated, predicate, name, operands = STATEMENT.match(text).groups()
    guard = (negated == "!", scopes.find(predicate)) if predicate else None
    # Two predicates, p|q, are two operands.
    operands = [x.strip() for one in split_list(operands) for x in (one.split("|") if "[" not in one else [one])]
    return Instruction(name, guard, [operand_of(x, scopes) for x in operands], " ".join(text.split()))


def parse(text, name, hidden=None):
    """Parses the kernel `name` of a module."""
    text = without_comments(text, hidden)
    head, body = body_of(text, name)
    module = re.sub(r"{.*?}", "", text[:text.find(body)], flags=re.S)
    outer = variables_of(x.strip() for x in re.split(r"[;\n]", module))
    scopes, code, labels, at = Scopes(), [], {}, 0
    declared = []
    tokens = re.compile(r"\s*(?:({)|(})|([A-Za-z_$][\w$]*):(?!:)|([^;{}]*(?:{[^}]*}[^;{}]*)*);)")
    while body[at:].strip():
        found = tokens.match(body, at)
        if not found:
            raise PtxError(f"not understood: {body[at:at + 60].strip()}")
        at = found.end()
        opens, closes, label, statement = found.groups()
        statement = (statement or "").strip()
        if opens:
            scopes.open()
        elif closes:
            scopes.stack.pop()
        elif label:
            labels[label] = len(code)
        elif statement.startswith(".reg"):
            kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)$", statement, re.S).groups()
            scopes.declare(kind, names)
        elif VARIABLE.match(statement):
            declared.append(statement)
        elif statement.startswith(".pragma") or statement.startswith(".loc"):
            pass
        elif STATEMENT.match(statement):
            code.append(statement_of(statement, scopes))
        elif statement:
            raise PtxError(f"not understood: {statement}")
    inner = variables_of(declared)
    params, size = params_of(head)
    return Kernel(name, scopes.registers, params, size, {**outer["shared"], **inner["shared"]}, {**outer["local"], **inner["local"]}, code,
                  labels)
