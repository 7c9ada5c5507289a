#!/usr/bin/env python3
"""The pages of docs: every snippet in a fence runs, or stands word for word in a file of tests/examples; the reference has each exported
function; with a further word, "site", the pages that a browser reads.   $1 build folder

    sh       lines that begin with "clattn", which check_walk.py runs as it runs README's
    python   run with the built module, all of a page in one process
    c, cpp   compiled and run; without a main it must be an excerpt
A fence of another language is nobody's here, and one without a word is refused. So is a command or code that is indented in place of a
fence. A page whose snippets another check runs, tests/*/check_PAGE.* that names it, is left to that.
"""
import glob
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "program"))
import check_walk as walk  # which is now in a folder of its own, with walk.top behind it  # noqa: E402

LINES = {"start": 90, "kernels": 150, "benchmarking": 70}
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ ]*$", re.M | re.S)
CODE = re.compile(r"^    (?:clattn [a-z]|[$] |#include|import |from \w+ import|>>>).*", re.M)
faults = []


def of(*path):
    return os.path.join(walk.top, *path)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


examples = {path: text_of(path) for path in glob.glob(of("tests/examples/*.*")) if not path.endswith(".pyc")}


def is_excerpt(snippet):
    return bool(snippet.strip()) and any("\n" + snippet in "\n" + text for text in examples.values())


def ended_well(words, what, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    if done.returncode:
        faults.append(f"{what}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}")
    return done.returncode == 0


def compiled(language, snippet, place):
    words, source = {"c": (["cc", "-std=c11"], "snippet.c"), "cpp": (["c++", "-std=c++17"], "snippet.cpp")}[language]
    with open(source, "w", encoding="utf-8") as file:
        file.write(snippet)
    words += ["-Wall", "-Wextra", "-Werror", "-I" + of("include"), source, "-o", "snippet"]
    words += ["-L" + walk.build, "-lclattn", "-lOpenCL", "-lm"]
    environment = {**walk.environment, **walk.plain, "LD_LIBRARY_PATH": walk.build}
    return ended_well(words, place) and ended_well(["./snippet"], place, env=environment)


def check_page(path):
    """Returns how many snippets were run, and how many are excerpts."""
    text, page = text_of(path), "docs/" + os.path.basename(path)
    stem, counts, python = page[5:-3], [0, 0], []
    if walk.left_to(path):
        print(f"{page}: left to {os.path.relpath(walk.left_to(path), walk.top)}")
        return counts
    if text.count("\n") > LINES.get(stem, 1000):
        faults.append(f"{page}: {text.count(chr(10))} lines, at most {LINES[stem]}")
    if len(re.findall("^```", text, re.M)) != 2 * len(FENCE.findall(text)):
        faults.append(f"{page}: a fence that does not end")
    faults.extend(f"{page}: code without a fence: {line.strip()}" for line in CODE.findall(FENCE.sub("", text)))
    for fence in FENCE.finditer(text):
        language, snippet = fence.group(1).strip(), fence.group(2)
        place = f"{page}:{text.count(chr(10), 0, fence.start()) + 1}"
        if not language:
            faults.append(f"{place}: a fence that names no language")
        elif language not in ("sh", "python", "c", "cpp"):
            print(f"{place}: {language}: not of this check")
        elif is_excerpt(snippet):
            counts[1] += 1
        elif language in ("c", "cpp") and not re.search(r"\bmain\(", snippet):
            faults.append(f"{place}: neither a program nor an excerpt of tests/examples")
        else:
            counts[0] += 1
            if language == "sh":
                faults.extend(f"{place}: nothing runs: {line}" for line in walk.lines_of(snippet) if not line.startswith("clattn "))
            elif language == "python":
                python.append("\n" * (text.count("\n", 0, fence.start()) + 1 - "".join(python).count("\n")) + snippet)
            else:
                compiled(language, snippet, place)
    if python:
        with open(stem + ".py", "w", encoding="utf-8") as file:  # its lines have the page's numbers
            file.write("".join(python))
        ended_well([sys.executable, stem + ".py"], page, env={**walk.environment, **walk.plain, "PYTHONPATH": walk.build})
    return counts


def check_reference():
    """Every exported function has its place in the reference, and nothing else has."""
    if not ended_well([sys.executable, of("docs/reference.py"), of("include/clattn"), "reference"], "docs/reference.py"):
        return
    told = []
    for path in glob.glob("reference/*.md"):
        functions = re.search(r"^## Functions\n(.*?)(?=^## |\Z)", text_of(path), re.M | re.S)
        if functions and not path.endswith("index.md"):
            told += re.findall(r"^### (\w+)$", functions.group(1), re.M)
    exported = [name for path in glob.glob(of("src/packages/debian/*.symbols")) for name in re.findall(r"^ (\w+)@", text_of(path), re.M)]
    faults.extend(f"the reference lacks {name}, which is exported" for name in sorted(set(exported) - set(told)))
    faults.extend(f"the reference has {name}, which is not exported" for name in sorted(set(told) - set(exported)))
    if len(exported) < 90 or len(told) != len(set(told)):
        faults.append(f"{len(exported)} exported functions, {len(told)} in the reference: this check looks in the wrong place")
    print(f"reference: {len(told)} functions, all that are exported")


class Page(html.parser.HTMLParser):
    """What a page is named by, leads to and loads."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.loads = [], [], []
        self.feed(text_of(path))

    def handle_starttag(self, tag, attributes):
        said = dict(attributes)
        self.names += [said["id"]] if said.get("id") else []
        if tag == "a" and said.get("href"):
            self.links.append(said["href"])
        elif said.get("src") or tag == "link" and said.get("href"):
            self.loads.append(said.get("src") or said["href"])


def check_links(site):
    pages = {path: Page(path) for path in glob.glob(site + "/**/*.html", recursive=True)}
    seen = 0
    for path, page in pages.items():
        name = os.path.relpath(path, site)
        faults.extend(f"{name}: the name {x} stands there twice" for x in {x for x in page.names if page.names.count(x) > 1})
        faults.extend(f"{name}: loads {x}" for x in page.loads if re.match(r"(\w+:)?//", x))
        for link in page.links + page.loads:
            if re.match(r"\w+:|//", link):
                continue
            seen += 1
            file, _, anchor = link.partition("#")
            other = os.path.normpath(os.path.join(os.path.dirname(path), file.split("?")[0])) if file else path
            if not os.path.isfile(other):
                faults.append(f"{name}: {link} leads nowhere")
            elif anchor and other in pages and anchor not in pages[other].names:
                faults.append(f"{name}: {link}: no such place on that page")
    for path in glob.glob(site + "/**/*.css", recursive=True):
        faults.extend(f"{os.path.relpath(path, site)}: {x}" for x in re.findall(r"(?:@import|url\()\s*[\"']?(?:\w+:)?//[^)]*", text_of(path)))
    wanted = [os.path.basename(x)[:-3] for x in glob.glob(of("docs/*.md"))]
    for name in ["docs/" + ("index" if x == "README" else x) for x in wanted] + ["reference/attention"]:
        if site + f"/{name}.html" not in pages:
            faults.append(f"the site lacks {name}")
        start = [os.path.normpath(os.path.join(site, x.split("#")[0])) for x in pages[site + "/index.html"].links]
        if site + f"/{name}.html" not in start:
            faults.append(f"no way from the first page to {name}")
    if len(pages) < 25 or seen < 1000:
        faults.append(f"{len(pages)} pages and {seen} links: this check looks in the wrong place")
    print(f"site: {len(pages)} pages, {seen} links")
    return pages


CONTROL = "http://control.invalid/"  # which the frames' own page asks for, so that the log is known to tell
ASK = """<!DOCTYPE html><meta charset=utf-8><img src=""" + CONTROL + """x.png>%s<script>window.addEventListener('load', () => {
const told = [...document.querySelectorAll('iframe')].map(frame => { const page = frame.contentDocument;
  const wide = page.documentElement.scrollWidth;
  return [frame.id, page.title, wide, page.body.innerText.length,
    [...page.querySelectorAll('body *')].filter(x => x.getBoundingClientRect().right > 361 && !x.closest('pre, table'))
      .map(x => x.tagName + ' ' + x.textContent.slice(0, 40)),
    [...page.styleSheets].map(x => x.href)]; });
document.body.textContent = 'TOLD' + JSON.stringify(told) + 'END'; });</script>"""


def check_browser(site, pages):
    """Each page in a frame of 360 pixels: it does not scroll sideways, and neither it nor the browser asks for more than files."""
    browser = next((x for x in ("chromium", "chromium-browser", "google-chrome") if walk.shutil.which(x)), None)
    if not browser:
        print("counted: no browser here: the pages were not drawn")
        return
    with open("frames.html", "w", encoding="utf-8") as file:
        file.write(ASK % "".join(f'<iframe id="{os.path.relpath(x, site)}" width=360 height=800 src="file://{x}"></iframe>'
                                 for x in sorted(pages)))
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--disable-background-networking",
             "--disable-component-update", "--no-first-run",
             "--host-resolver-rules=MAP * ~NOTFOUND", "--log-net-log=" + os.path.abspath("net.json"), "--dump-dom"]
    words.append("file://" + os.path.abspath("frames.html"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=walk.environment)
    told = re.search(r"TOLD(.*)END", html.unescape(done.stdout), re.S)
    if not told:
        faults.append(f"{browser}: {done.stderr[-600:]}")
        return
    told = json.loads(told.group(1))
    for name, title, wide, letters, outside, styles in told:
        if wide > 360:
            faults.append(f"{name}: {wide} pixels wide on a screen of 360: {outside[:3]}")
        if letters < 100 or not title:
            faults.append(f"{name}: an empty page")
        if len(styles) < 2:
            faults.append(f"{name}: style sheets {styles}: this check looks in the wrong place")
    # The browser's own requests are nobody's ("not an origin").
    events = [x.get("params", {}) for x in json.loads(re.sub(r",\s*$", "]}", text_of("net.json")))["events"]]
    asked = {x["url"] for x in events if "url" in x and x.get("initiator", "not an origin") != "not an origin"}
    faults.extend(f"a page asks for {x}" for x in sorted(asked) if not x.startswith(CONTROL))
    if not any(x.startswith(CONTROL) for x in asked):
        faults.append("the browser's log has no request: this check looks in the wrong place")
    if {x[0] for x in told} != {os.path.relpath(x, site) for x in pages}:
        faults.append("not all pages were drawn")
    print(f"browser: {len(told)} pages in 360 pixels")


def main():
    site = sys.argv[2:] == ["site"]
    if site:
        out = os.path.abspath("site")
        if ended_well(["sh", of("docs/build.sh"), out], "docs/build.sh"):
            check_browser(out, check_links(out))
    else:
        if subprocess.run(["clattn", "devices", "--quiet"], capture_output=True, env=walk.environment).returncode:
            print("no OpenCL device")
            sys.exit(77)
        counts = [check_page(path) for path in sorted(glob.glob(of("docs/*.md")))]
        ran, excerpts = (sum(x) for x in zip(*counts))
        if ran < 7 or excerpts < 2:
            faults.append(f"{ran} snippets ran, {excerpts} are excerpts: this check looks in the wrong place")
        print(f"{len(counts)} pages: {ran} snippets ran, {excerpts} are excerpts of tests/examples")
        check_reference()
    os.chdir(walk.top)
    walk.shutil.rmtree(walk.work)
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
