#!/usr/bin/env python3
"""Write clattn.py: the parts in order, with the public header's structs, enums and functions at the
first part's mark.

    generate.py OUT LIBRARY INSTALLED LIBDIR BINDIR PART.py... HEADER...

INSTALLED, LIBDIR and BINDIR are the folders of the installed module, library and program. The
script understands only the C that the header uses, and rejects the rest. The comment of an array in
host memory must begin with its length, such as [B], because the module compares lengths.
tests/python/check_python.py compares the result with a C compiler's view."""
import os
import re
import sys

NAMED, CTYPES = re.compile(r"\b(c_\w+)"), r"c.\1"
SIMPLE = {"bool": "c_bool", "int": "c_int", "unsigned": "c_uint", "float": "c_float", "double": "c_double", "size_t": "c_size_t",
          "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "char": "c_char",
          "cl_uint": "c_uint32", "cl_mem": "c_void_p", "cl_event": "c_void_p", "cl_context": "c_void_p", "cl_device_id": "c_void_p",
          "cl_platform_id": "c_void_p", "cl_command_queue": "c_void_p", "void": "None"}
HOST = ("const int32_t *", "const float *", "const double *")  # arrays in host memory
LENGTH = re.compile(r"/\*\s*\[(\w+(?: ?\+ ?1)?)\]")


class Header:
    def __init__(self, texts):
        said = "\n".join(texts)
        text = re.sub(r"/\*.*?\*/", " ", said, flags=re.S)
        text = re.sub(r"\\\n", " ", text)
        self.constants = {}
        for name, value in re.findall(r"^#define (CLATTN_\w+) +(\d+)u?\s*$", text, flags=re.M):
            self.constants[name] = int(value)
        listed = re.search(r"#define CLATTN_STATUS_LIST\(X\)(.*)", text).group(1)
        self.enums = {"clattn_status": [("CLATTN_" + n, int(v)) for n, v in re.findall(r"X\((\w+), (\d+),", listed)]}
        text = re.sub(r"^#.*$", "", text, flags=re.M)
        for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", text, flags=re.S):
            if name not in self.enums:
                self.enums[name] = self.enum(body)
        self.callbacks = {name: arguments for name, arguments in re.findall(r"typedef void \(\*(\w+)\)\((.*?)\);", text, flags=re.S)}
        self.structs, self.lengths = {}, {}
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S):
            self.structs[name] = [field for line in body.split(";") if line.strip() for field in self.fields(name, line)]
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)^\} (\w+);", said, flags=re.S | re.M):
            self.lengths[name] = self.host_arrays(name, self.comments(body))
        self.functions = re.findall(r"CLATTN_API ([\w ]+?\**) ?\b(clattn_\w+)\((.*?)\);", text, flags=re.S)

    def enum(self, body):
        values, following = [], 0
        for item in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (part.strip() for part in item.partition("="))
            following = int(value, 0) if value else following
            values.append((name, following))
            following += 1
        return values

    def plain(self, name, where):
        if name in self.structs or name in SIMPLE:
            return SIMPLE.get(name, name)
        if name in self.enums:
            return "c_int"
        if name in self.callbacks:
            return "c_void_p"
        raise SystemExit(f"generate.py: {where}: the type {name} is not known")

    def fields(self, struct, line):
        """Return (name, ctypes type, header's word) of each field in a declaration."""
        line = " ".join(line.split())
        function = re.fullmatch(r"\w+ \*?\(\*(\w+)\)\(.*\)", line)
        if function:
            return [(function.group(1), "c_void_p", "function")]
        base = re.match(r"(const )?(?:struct )?(\w+)\b", line)
        const, name = base.group(1), base.group(2)
        found = []
        for item in line[base.end():].split(","):
            item = item.strip()
            field = re.fullmatch(r"(\**)\s*(const )?(\w+)((?:\[\w+\])*)", item)
            if not field:
                raise SystemExit(f"generate.py: {struct}: {item!r} is no field that it knows")
            stars, _, called, sizes = field.groups()
            if stars:
                kind = "c_char_p" if name == "char" else "c_void_p"
                word = ("const " if const else "") + name + " *"
            else:
                kind, word = self.plain(name, f"{struct}.{called}"), name
            for size in reversed(re.findall(r"\[(\w+)\]", sizes)):
                kind, word = f"{kind} * {self.constants.get(size) or int(size)}", word + "[]"
            found.append((called, kind, word))
        return found

    @staticmethod
    def comments(body):
        """Return the comment of each field: the one after its declaration, or else the one before
        it."""
        found, before = {}, ""
        for comment, line, behind in re.findall(r"(/\*.*?\*/)|([^;/]*;)[ \t]*(/\*.*?\*/)?", body, flags=re.S):
            before = comment or before
            found.update({name: behind or before for name in re.findall(r"(\w+)(?:\[\w+\])*\s*[,;]", line)})
            before = "" if line else before
        return found

    def host_arrays(self, struct, comments):
        """Return the length of each array in host memory, with which its comment begins."""
        found = {}
        for name in (field for field, _, word in self.structs[struct] if word in HOST):
            length = LENGTH.match(comments.get(name, ""))
            if not length:
                raise SystemExit(f"generate.py: {struct}.{name}: its comment does not tell its length, such as [B]")
            found[name] = length.group(1).replace(" ", "")
        return found

    def argument(self, text, where):
        text = " ".join(text.split())
        if "*" in text or text.endswith("]"):
            return "c_char_p" if re.match(r"const char \*", text) else "c_void_p"
        return self.plain(text.replace("const ", "").split(" ")[0], where)

    def python(self):
        out = []
        for name, values in self.enums.items():
            out += [f"{constant} = {value}" for constant, value in values]
        out += [f"{name} = {value}" for name, value in self.constants.items()]
        out.append(f"ENUMS = {self.enums!r}")
        for name, fields in self.structs.items():
            out.append(f"\n\nclass {name}(c.Structure):\n    _fields_ = [")
            for field, kind, _ in fields:
                out.append(f"        ({field!r}, {NAMED.sub(CTYPES, kind)}),")
            out.append("    ]")
            out.append("    words = {%s}" % ", ".join(f"{field!r}: {word!r}" for field, _, word in fields))
            out.append(f"    host_lengths = {self.lengths.get(name, {})!r}")
        out.append("\n\nFUNCTIONS = {")
        for result, name, arguments in self.functions:
            kinds = [] if arguments.strip() == "void" else [self.argument(a, name) for a in arguments.split(",")]
            restype = "c_char_p" if re.match(r"const char ?\*", result) else "c_void_p" if "*" in result else self.plain(result.strip(),
                name)
            prefix = lambda kind: kind if kind == "None" or kind in self.structs else "c." + kind
            out.append(f"    {name!r}: ({prefix(restype)}, [{', '.join(map(prefix, kinds))}]),")
        out.append("}")
        return "\n".join(out)


def main():
    out, library, installed, libdir, bindir, *files = sys.argv[1:]
    path, program = os.path.relpath(libdir, installed), os.path.relpath(bindir, installed)
    read = lambda end: [open(file, encoding="utf-8").read() for file in files if file.endswith(end)]
    parts, mark = read(".py"), "# THE HEADER\n"
    if not parts or parts[0].count(mark) != 1:
        raise SystemExit(f"generate.py: the first part has no line {mark.strip()!r}")
    generated = Header(read(".h")).python() + f"\n\nLIBRARY = {library!r}\nLIBRARY_PATH = {path!r}\nPROGRAM_PATH = {program!r}\n"
    parts[0] = parts[0].replace(mark, generated)
    open(out, "w", encoding="utf-8").write("\n\n".join(part.strip("\n") + "\n" for part in parts))


if __name__ == "__main__":
    main()
