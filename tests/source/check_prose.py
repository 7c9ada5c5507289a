#!/usr/bin/env python3
"""The rules of plain English that a program can check, in comments and in pages of documentation.

    check_prose.py [PATH...]      in the top folder: all files, or the files in PATH

It prints one line a fault; the exit status is then 1.

A sentence starts with its subject: not with Of, What, Who, Whether, Where, Those, Likewise, or Both
without a noun. It has at most 30 words. A comment has at most 60 words, except a file's first
comment; each paragraph of a public header counts alone. No comment and no line of documentation is
wider than 100 columns. Words of VAGUE have plainer ones. An indented line of a comment is a table
or a formula, and is not read.
"""
import ast
import os
import re
import subprocess
import sys

COLUMNS, SENTENCE, COMMENT = 100, 30, 60
OPENING = re.compile(r"(Of|What|Who|Whether|Where|Those|Likewise)\b|Both (?!of\b|the\b|[\w-]+s\b|[\w-]+ [\w-]+s\b)")
VAGUE = re.compile(
    r"(?i)\b(turn(?:s|ed|ing)?|tell(?:s|ing)?|told|hears?|heard|lies|lay|lying|stands?|stood|standing|gives?|gave|giving|takes?|"
    r"took|taken|taking|deals?|dealt|dealing|mend(?:s|ed|ing)?|bears?|bore|ask(?:s|ed|ing)? for)\b")
USUAL = re.compile(r"(?i)\b(stand[- ]?(?:alone|in|ins|ard)|takes? (?:place|part)|turn(?:ed|s)? (?:on|off)|in turn|a great deal|"
                   r"takes? \S+ (?:seconds?|minutes?|hours?|ms|us|%)|(?:takes?|took|taken) (?:about |at most )?[\d,.]+)\b")
BEFORE = {"#": r"(?:(?<=[ \t])|^)"}  # a shell's word may have a #
SKIPPED = re.compile(r"^(bench/results/|tests/data/|tests/fuzz/seeds/|CHANGELOG|LICENSE|NOTICE|build)")
LANGUAGE = {"c": "//", "h": "//", "cl": "//", "clh": "//", "def": "//", "py": "#", "sh": "#", "build": "#", "md": ""}
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
faults = []


def plain(text):
    """Prose without code: each quoted or marked text becomes one word."""
    text = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^' ]*'", " x ", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def check_text(where, text, most):
    text = plain(re.sub(r"\s+", " ", text)).strip()
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z(x])|(?<=:) (?=[A-Z])", text):
        words = [w for w in sentence.split() if re.search(r"\w", w)]
        if len(words) > SENTENCE:
            faults.append(f"{where}: a sentence of {len(words)} words: {sentence[:70]}")
        if len(words) > 1 and OPENING.match(sentence):
            faults.append(f"{where}: opens with {sentence.split()[0]}: {sentence[:70]}")
    for word in sorted(set(VAGUE.findall(USUAL.sub("", text.lower())))):
        faults.append(f"{where}: has '{word}': {text[:70]}")
    count = len([w for w in text.split() if re.search(r"\w", w)])
    if most and count > most:
        faults.append(f"{where}: a comment of {count} words: {text[:70]}")


def comments_of(lines, mark):
    """(line number, text lines) of each comment: whole lines together, and the end of a line of
    code with those that go on with it."""
    found, column = [], None
    code = r"(?P<code>(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^\"'])*?)"
    inside = re.compile("^" + code + "(?<!:)" + BEFORE.get(mark, "") + re.escape(mark) + "(?P<text>.*)$")
    for number, line in enumerate(lines, 1):
        match = inside.match(line) if mark in line else None
        if mark == "#" and match and (match["text"].startswith("!") or match["code"].strip()[-1:] in ("$", "{", "[")):
            match = None
        if not match:
            column = None
            continue
        here = len(match["code"]) if match["code"].strip() else -1
        if column is not None and here == -1 and (column == -1 or len(match["code"]) == column):
            found[-1][1].append(match["text"])
        else:
            found.append((number, [match["text"]]))
            column = here
    return found


def paragraphs(lines):
    """The prose of a comment or page: a blank line parts paragraphs; indented lines, tables and
    rules are not prose."""
    text, all_of_it = [], []
    for line in lines + [""]:
        if re.match(r"^\s{3,}\S|^\s*$|^\s*[-=]{3}", line):
            all_of_it += [" ".join(text)] if text else []
            text = []
        else:
            text.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line.strip()))
    return all_of_it


def check_markdown(path, lines):
    fenced, text = False, []
    for number, line in enumerate(lines + [""], 1):
        fence = line.lstrip().startswith("```")
        if fenced or fence or not line.strip() or re.match(r" {4}|\t|[|#<>]|\s*([-*]|\d+\.) ", line):
            if text:
                check_text(f"{path}:{number - len(text)}", " ".join(text), 0)
            text = []
        fenced ^= fence
        if not fenced and not fence and line.strip():
            if line.startswith("|"):
                for cell in line.strip("| ").split("|"):
                    check_text(f"{path}:{number}", cell, 0)
            elif not re.match(r" {4}|\t|[#<>]", line):
                text.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line))
                if len(line) > COLUMNS:
                    faults.append(f"{path}:{number}: {len(line)} columns")


def check_file(path):
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    lines, mark = whole.split("\n"), LANGUAGE[path.rsplit(".", 1)[-1]]
    if not mark:
        return check_markdown(path, lines)
    if mark == "//":  # strings may have the marks of comments
        whole = TOKEN.sub(lambda m: m[0] if m[0].startswith("/") else '"' + "_" * (len(m[0]) - 2) + '"', whole)
    found = comments_of(whole.split("\n"), mark)
    if mark == "//":
        found += [(whole.count("\n", 0, m.start()) + 1, re.sub(r"(?m)^\s*\*+ ?", "", m.group(1)).split("\n"))
                  for m in re.finditer(r"/\*(.*?)\*/", whole, re.S)]
    elif path.endswith(".py"):
        found += [(n.body[0].lineno, ast.get_docstring(n).split("\n")) for n in ast.walk(ast.parse(whole))
                  if isinstance(n, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(n)]
    for number, text in found:
        first = number <= 3
        every = paragraphs(text)
        if not path.startswith("include/"):
            every = [" ".join(every)]
        for part in every:
            check_text(f"{path}:{number}", part, 0 if first else COMMENT)
        for at in range(number, number + len(text)):
            if at <= len(lines) and len(lines[at - 1]) > COLUMNS:
                faults.append(f"{path}:{at}: {len(lines[at - 1])} columns")
    return None


names = subprocess.run(["git", "ls-files", "--"] + sys.argv[1:], capture_output=True, text=True, check=True).stdout.split("\n")
names = [n for n in names if n and os.path.isfile(n) and not SKIPPED.match(n) and n.rsplit(".", 1)[-1] in LANGUAGE]
for name in names:
    check_file(name)
print("\n".join(faults))
print(f"prose of {len(names)} files: {len(faults)} faults")
sys.exit(1 if faults or not names else 0)
