#!/usr/bin/env python3
"""Write the reference of the C API: one page of Markdown for each header.

    reference.py INCLUDE OUT    INCLUDE: the folder of the headers; OUT: a folder for the pages

A page has every macro, enum, struct and function with its comment. Each name is a link to its
description. A declaration without a blank line above it shares the comment of the previous one. The
exit status is 1, with one line for each fault. Faults are a function or struct without a comment, a
comment at the end of a body, and text that cannot be parsed.
"""
import glob
import html
import os
import re
import sys

# Items that begin in a header's first column. Their order matters: the text of a comment is not
# parsed.
ITEM = re.compile(r"""
    (?P<section>^/\*[ ]-{10,}[ ].*?[ ]-{3,}[ ]\*/\n)
  | (?P<comment>^/\*.*?\*/[ ]*\n)
  | (?P<line>^//[^\n]*\n)
  | (?P<macro>^\#define[ ]+(?P<macro_name>\w+)(?:\\\n|[^\n])*\n)
  | (?P<directive>^[ ]*\#[^\n]*\n)
  | (?P<body>^typedef[ ](?P<kind>struct|enum)[ ]\w+[ ]\{\n(?P<inside>.*?)^\}[ ](?P<body_name>\w+);\n)
  | (?P<opaque>^typedef[ ]struct[ ]\w+[ ](?P<opaque_name>\w+);\n)
  | (?P<callback>^typedef[ ][^;{]*?\(\*(?P<callback_name>\w+)\)[^;{]*;\n)
  | (?P<function>^CLATTN_API[ ][^;{]*?\b(?P<function_name>clattn_\w+)\([^;{]*\);\n)
  | (?P<brackets>^(?:extern[ ]"C"[ ]\{|\})\n)
  | (?P<gap>^[ ]*\n)""", re.M | re.S | re.X)
KINDS = ("Functions", "Structs", "Enums", "Callbacks", "Macros")
NO_API = re.compile(r"CLATTN_(API|X|\w+_H)$|CL_")
faults = []


class Thing:
    def __init__(self, page, kind, name, text, comment):
        self.page, self.kind, self.name, self.text, self.comment = page, kind, name, text.rstrip(), comment
        self.parts = []  # (code, comment)


def words_of(comment):
    """A comment without its marks. The indentation of its lines stays."""
    lines = re.sub(r"^/\*\s?|\s*\*/\s*$", "", comment.strip()).split("\n")
    return "\n".join(re.sub(r"^\s*\*( |$)", "", line) if re.match(r"\s*\*( |$)", line) else line.strip() for line in lines)


def squeezed(code):
    return re.sub(r"[\s;,]", "", code)


def enumerators(inside, macros):
    """The enumerators of a body: those of a list of X(NAME, value, "text"), or the written ones."""
    lists = re.search(r"^ +(\w+_LIST)\(", inside, re.M)
    if lists:
        rows = re.findall(r'X\((\w+), (\d+),\s*"(.*?)"\)', macros[lists.group(1)])
        return [(f"CLATTN_{name} = {value}", text) for name, value, text in rows] + fields(inside[inside.rindex("#undef"):], ",")
    return fields(inside, ",")


def fields(inside, end):
    """(code, comment) of each field. A comment on its own line belongs to the next field, another
    comment to the field before it."""
    found, before, seen = [], [], 0
    inside = re.sub(r"^[ ]*#.*\n", "", inside, flags=re.M)
    shape = r"[^\s/;][^;/]*;" if end == ";" else r"[^\s/,][^,/]*,?"
    for part in re.finditer(rf"(/\*.*?\*/)|({shape})", inside, re.S):
        comment, code = part.groups()
        if code:
            found.append([" ".join(code.rstrip(" \n" + end).split()), before])
            before, seen = [], part.end()
        elif found and "\n" not in inside[seen:part.start()]:
            found[-1][1] = found[-1][1] + [words_of(comment)]
        else:
            before = before + [words_of(comment)]
    if before:
        faults.append(f"a comment at the end of a body that nothing follows: {before[0][:60]}")
    return [(code, "\n".join(said)) for code, said in found]


def read(path):
    """Return the header's first comment, and its declarations in order."""
    page, text = os.path.basename(path)[:-2], open(path, encoding="utf-8").read()
    things, comment, lead, macros, at = [], None, None, {}, 0
    # The definitions of CLATTN_API for each system are not part of the reference.
    guarded = re.sub(r"^#if.*?CLATTN_BUILDING.*?^#endif\n\n", lambda m: "\n" * m.group().count("\n"), text, flags=re.M | re.S)
    while at < len(guarded):
        item = ITEM.match(guarded, at)
        if not item:
            line = guarded.count("\n", 0, at) + 1
            sys.exit(f"{path}:{line}: not understood: {guarded[at:at + 60]!r}")
        at = item.end()
        group = next(name for name in ITEM.groupindex if item.group(name) is not None)
        if group == "comment":
            if lead is None:
                lead = words_of(item.group())
            else:
                comment = words_of(item.group())
        elif group in ("gap", "section", "line"):
            comment = None
        elif group in ("macro", "body", "opaque", "callback", "function"):
            name = item.group(group + "_name")
            kind = {"macro": "Macros", "opaque": "Structs", "callback": "Callbacks", "function": "Functions"}.get(group)
            kind = kind or {"struct": "Structs", "enum": "Enums"}[item.group("kind")]
            whole = item.group()
            if group == "macro":
                macros[name] = whole
                behind = re.search(r"/\*.*?\*/\s*$", whole)
                if behind:
                    comment, whole = words_of(behind.group()), whole[:behind.start()]
                if NO_API.match(name):
                    continue
            thing = Thing(page, kind, name, whole.replace("CLATTN_API ", ""), comment)
            if group == "body":
                thing.parts = fields(item.group("inside"), ";") if kind == "Structs" else enumerators(item.group("inside"), macros)
            bare = re.sub(r"/\*.*?\*/", "", item.group("inside") or "", flags=re.S)
            if "_LIST(" not in bare and squeezed(bare) != squeezed("".join(code for code, _ in thing.parts)):
                faults.append(f"{path}: {name}: not all of it was understood")
            if comment is None and kind in ("Functions", "Structs"):
                faults.append(f"{path}:{guarded.count(chr(10), 0, item.start()) + 1}: {name} has no comment")
            things.append(thing)
    return lead, things


def linked(text, places, own=None):
    """The text as HTML. Its names are links to their descriptions."""
    def link(match):
        where = places.get(match.group())
        return match.group() if not where or match.group() == own else f'<a href="{where}">{match.group()}</a>'
    return re.sub(r"\b(?:clattn|CLATTN)_\w+", link, html.escape(text, quote=False))


def prose(comment, places, own=None):
    """Sentences become paragraphs. Text in columns keeps its columns."""
    blocks, shape = [], None
    for line in re.sub(r"(?<=[.)]) {3,}(?=[A-Z])", " ", comment).split("\n"):
        new = "" if not line.strip() else "pre" if re.match(r"\s", line) or re.search(r"\S {2,}\S", line) else "p"
        if new and new == shape:
            blocks[-1][1].append(line)
        elif new:
            blocks.append((new, [line]))
        shape = new
    return "\n".join(f"<{tag}>" + linked("\n".join(lines), places, own) + f"</{tag}>" for tag, lines in blocks)


def page_of(header, lead, things, places):
    out = [f"# {header}.h\n", prose(re.sub(r"^\w+\.h: ", "", lead or ""), places), ""]
    for kind in KINDS:
        some = [thing for thing in things if thing.kind == kind]
        if some:
            out += [f"## {kind}", ""]
        for thing in some:
            out += [f"### {thing.name}", ""]
            # one argument a line, for narrow screens
            if kind == "Functions" and len(thing.text) > 80:
                head, _, rest = " ".join(thing.text.split()).partition("(")
                thing.text = head + "(\n    " + rest.replace(", ", ",\n    ")
            if kind not in ("Enums", "Structs"):
                out += ["<pre><code>" + linked(re.sub(r" +\\\n", "\n", thing.text), places, thing.name) + "</code></pre>", ""]
            out += [prose(thing.comment or "", places, thing.name), ""]
            if thing.parts:
                out.append("<table><thead><tr><th>name</th><th>what it is</th></tr></thead><tbody>")
                for code, said in thing.parts:
                    code = linked(code, places) if kind == "Structs" else html.escape(code)
                    out.append(f"<tr><td><code>{code}</code></td><td>{prose(said, places)}</td></tr>")
                out += ["</tbody></table>", ""]
    return "\n".join(out)


def main(include, out):
    headers = {os.path.basename(path)[:-2]: read(path) for path in sorted(glob.glob(include + "/*.h"))}
    places = {thing.name: f"{page}.html#{thing.name.lower()}" for page, (_, things) in headers.items() for thing in things}
    for page, (_, things) in headers.items():
        for thing in things:
            for code, _ in thing.parts if thing.kind == "Enums" else ():
                places.setdefault(code.split()[0], f"{page}.html#{thing.name}")
    os.makedirs(out, exist_ok=True)
    for page, (lead, things) in headers.items():
        with open(f"{out}/{page}.md", "w", encoding="utf-8") as file:
            file.write(page_of(page, lead, things, places))
    every = [thing for _, things in headers.values() for thing in things]
    names = sorted(every, key=lambda thing: thing.name.lower())
    with open(f"{out}/index.md", "w", encoding="utf-8") as file:
        file.write("# Reference of the C API\n\nMade from the headers in `include/clattn`, a page each. Every name:\n")
        for kind in KINDS:
            file.write(f"\n## {kind}\n\n" + "".join(f"* [{t.name}]({t.page}.md#{t.name.lower()})\n" for t in names if t.kind == kind))
    print(", ".join(f"{sum(t.kind == kind for t in every)} {kind.lower()}" for kind in KINDS) + f" in {len(headers)} headers")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults or not every else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
