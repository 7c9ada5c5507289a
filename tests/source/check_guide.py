#!/usr/bin/env python3
"""The pages of docs. Every fenced snippet runs, or occurs literally in a file of tests/examples.
The reference has each exported function, and porting.md each argument (check_porting.py). An
additional word selects other checks: "site": the pages in a browser; "start": everything in
start.md, in order.

   check_guide.py BUILD [site | start]

    sh       lines that begin with "clattn", which check_walk.py runs like README's
    python   run with the built module, all of a page in one process
    c, cpp   compiled and run; without a main the snippet must be an excerpt
    console  only in start.md, run by "start"

Fences of other languages are ignored. A fence without a language, and indented code or commands
instead of a fence, are refused. If another check, tests/*/check_PAGE.*, names a page, its snippets
are left to that check.
"""
import glob
import html.parser
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "program"))
# which is now in a folder of its own, with walk.top behind it  # noqa: E402
import check_walk as walk

LINES = {"start": 145, "kernels": 185, "benchmarking": 80}
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


def ended_well(words, what, timeout=300, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **more)
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
    """Returns the number of snippets that were run, and the number of excerpts."""
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
        elif language == "console" and stem != "start":
            faults.append(f"{place}: nothing runs a console that is not start.md's")
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
        # its line numbers are those of the page
        with open(stem + ".py", "w", encoding="utf-8") as file:
            file.write("".join(python))
        ended_well([sys.executable, stem + ".py"], page, env={**walk.environment, **walk.plain, "PYTHONPATH": walk.build})
    return counts


def check_reference():
    """The reference has every exported function, and no other."""
    if not ended_well([sys.executable, of("docs/reference.py"), of("include/clattn"), "reference"], "docs/reference.py"):
        return
    told = []
    for path in glob.glob("reference/*.md"):
        functions = re.search(r"^## Functions\n(.*?)(?=^## |\Z)", text_of(path), re.M | re.S)
        if functions and not path.endswith("index.md"):
            told += re.findall(r"^### (\w+)$", functions.group(1), re.M)
    exported = [name for path in glob.glob(of("src/packaging/debian/*.symbols")) for name in re.findall(r"^ (\w+)@", text_of(path), re.M)]
    faults.extend(f"the reference lacks {name}, which is exported" for name in sorted(set(exported) - set(told)))
    faults.extend(f"the reference has {name}, which is not exported" for name in sorted(set(told) - set(exported)))
    if len(exported) < 90 or len(told) != len(set(told)):
        faults.append(f"{len(exported)} exported functions, {len(told)} in the reference: this check looks in the wrong place")
    print(f"reference: {len(told)} functions, all that are exported")


class Page(html.parser.HTMLParser):
    """The names, links and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.loads, self.path = [], [], [], path
        self.feed(text_of(path))

    def handle_starttag(self, tag, attributes):
        said = dict(attributes)
        self.names += [said["id"]] if said.get("id") else []
        if tag == "img" and not said.get("alt"):
            faults.append(f"{self.path}: a picture without words: {said.get('src')}")
        if tag == "a" and said.get("href"):
            self.links.append(said["href"])
        elif said.get("src") or tag == "link" and said.get("href"):
            self.loads.append(said.get("src") or said["href"])


def places_of(site, names=""):
    """Returns (title, place) of each section that the search index has, or of sections in the
    reference whose title begins with a name."""
    index = json.loads(text_of(site + "/search/search_index.js").partition("=")[2])["docs"]
    places = [(x["title"], x["location"]) for x in index if "#" in x["location"]]
    return [x for x in places if not names or x[0].startswith(names) and x[1].startswith("reference/")]


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
    for _, location in places_of(site):
        file, _, anchor = location.partition("#")
        if anchor not in pages[site + "/" + file].names:
            faults.append(f"the search leads to {location}: no such place")
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


def check_start():
    """docs/start.md from the beginning: its commands run in one shell, in a copy of the sources,
    with only the packages installed."""
    walk.shutil.copytree(walk.top, "sources", ignore=lambda folder, names: [
        x for x in names if folder == walk.top and (x == ".git" or x.startswith(("build", ".venv")))])
    lines, python = ["set -ex"], ""
    for language, snippet in FENCE.findall(text_of(of("docs/start.md"))):
        if language == "python":  # all snippets so far, because later ones depend on earlier ones
            python += snippet
            lines.append("python3 - <<'PYTHON'\n" + python + "PYTHON")
        elif language in ("console", "sh"):
            lines += walk.lines_of(snippet)
    packages = [line for line in lines if line.startswith("sudo apt install ")]
    here = text_of(of("tests/run.sh")).partition("mkdir -p build")[0].split()
    faults.extend(f"docs/start.md: {x} is no package that tests/run.sh installs" for x in packages[0].split()[3:] if x not in here)
    environment = {x: walk.environment[x] for x in ("HOME", "XDG_CACHE_HOME", "OCL_ICD_VENDORS") if x in walk.environment}
    if ended_well(["sh", "-c", "\n".join(x for x in lines if x not in packages)], "docs/start.md", 900, cwd="sources",
                  env={**environment, "PATH": "/usr/local/bin:/usr/bin:/bin"}):
        faults.extend(f"docs/start.md: no {x}" for x in ("heads.png", "foreign", "layer") if not os.path.exists("sources/" + x))
    print(f"start.md: {len(lines) - 1} commands, {len(packages[0].split()) - 3} packages")


# the frames' own page requests this and logs a line, which proves that the log and the console work
CONTROL = "http://control.invalid/"
ASK = """<!DOCTYPE html><meta charset=utf-8><img src=""" + CONTROL + """x.png>%s<script>
const parts = color => color.match(/[\\d.]+/g).map(Number);
const luminance = color => parts(color).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
  .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
const look = (x, what) => x.ownerDocument.defaultView.getComputedStyle(x)[what];
const paper = x => { const color = look(x, 'backgroundColor');
  return parts(color)[3] === 0 ? x.parentElement ? paper(x.parentElement) : 'rgb(255, 255, 255)' : color; };
const contrast = (one, other) => { const [a, b] = [one, other].map(luminance).sort((p, q) => q - p); return (a + .05) / (b + .05); };
const legible = x => contrast(look(x, 'color'), paper(x));
const said = x => x.tagName + '.' + x.className + ' ' + x.textContent.trim().slice(0, 40);
window.addEventListener('load', () => {
const told = [...document.querySelectorAll('iframe')].map(frame => { const page = frame.contentDocument, most = frame.width - -1;
  const all = [...page.querySelectorAll('body *')].filter(x => x.getClientRects().length && !x.closest('noscript'));
  return {name: frame.id, width: +frame.width, title: page.title, wide: page.documentElement.scrollWidth,
    letters: page.body.innerText.length,
    outside: all.filter(x => x.getBoundingClientRect().right > most && !x.closest('pre, table')).map(said),
    styles: [...page.styleSheets].map(x => x.href), paper: luminance(paper(page.querySelector('h1, pre'))),
    unseen: [...page.images].filter(x => !x.naturalWidth).map(x => x.src), images: page.images.length,
    faint: all.filter(x => [...x.childNodes].some(y => y.nodeType === 3 && y.textContent.trim()) && legible(x) < 4.5)
      .map(x => legible(x).toFixed(1) + ' ' + said(x))}; });
const sheet = paper(document.getElementById('search').contentDocument.body);
const drawings = [...document.querySelectorAll('object')].map(frame => { const page = frame.contentDocument;
  if (!page || !page.documentElement.viewBox) return {name: frame.id, texts: 0, bad: []};
  const whole = page.documentElement.viewBox.baseVal;
  const texts = [...page.querySelectorAll('text')], boxes = texts.map(x => x.getBBox());
  const under = x => { const at = x.getBoundingClientRect();
    return page.elementsFromPoint(at.x + at.width / 2, at.y + at.height / 2).filter(y => /rect|path/.test(y.tagName))
      .map(y => look(y, 'fill')).find(fill => fill !== 'none') || sheet; };
  const cross = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  return {name: frame.id, texts: texts.length, bad: texts.filter((x, i) => contrast(look(x, 'fill'), under(x)) < 4.5
    || parseFloat(look(x, 'fontSize')) * 328 / whole.width < 11 || boxes[i].x < 0 || boxes[i].x + boxes[i].width > whole.width
    || boxes[i].y < 0 || boxes[i].y + boxes[i].height > whole.height || boxes.some((box, n) => n !== i && cross(box, boxes[i])))
    .map(x => x.textContent)}; });
const field = document.getElementById('search').contentDocument.getElementById('mkdocs-search-query');
const found = %s.map(name => { field.value = name; field.dispatchEvent(new Event('input'));
  const first = field.ownerDocument.querySelector('#mkdocs-search-results a');
  return [name, first && first.getAttribute('href')]; });
const results = (field.value = 'window', field.dispatchEvent(new Event('input')), field.ownerDocument.documentElement.scrollWidth);
console.error('""" + CONTROL + """');
document.body.textContent = 'TOLD' + JSON.stringify([told, found, drawings, results]) + 'END'; });</script>"""


def drawn(browser, page, *more):
    """Returns the browser's result for a page, and its console messages."""
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", *more, "--dump-dom", "file://" + page]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=walk.environment)
    return html.unescape(done.stdout), re.findall(r"CONSOLE[:(].*", done.stderr)


def check_frames(browser, site, pages, look, *more):
    """All pages in frames as wide as a phone and a desktop: none scrolls sideways, loads anything
    but files, or is unreadable."""
    drawings = sorted(glob.glob(site + "/docs/*.svg"))
    functions = [name for name, _ in places_of(site, "clattn_")]
    frames = "".join(f'<iframe id="{os.path.relpath(x, site)}" width={wide} height=800 src="file://{x}"></iframe>'
                     for wide in (360, 1280) for x in sorted(pages))
    frames += "".join(f'<object id="{os.path.relpath(x, site)}" data="file://{x}"></object>' for x in drawings)
    with open("frames.html", "w", encoding="utf-8") as file:
        file.write(ASK % (frames.replace('id="search.html"', "id=search", 1), json.dumps(functions)))
    page, console = drawn(browser, os.path.abspath("frames.html"), "--allow-file-access-from-files",
                          "--log-net-log=" + os.path.abspath("net.json"), *more)
    told = re.search(r"TOLD(\[.*\])END", page, re.S)
    if not told:
        faults.append(f"{browser}: {page[-600:]} {console}")
        return
    told, found, drawings_told, results = json.loads(told.group(1))
    for t in told:
        name = f"{t['name']}, {t['width']} pixels, {look}"
        faults.extend(f"{name}: the picture {x} is not there" for x in t["unseen"])
        faults.extend(f"{name}: hard to read: {x}" for x in t["faint"][:3])
        if t["wide"] > t["width"]:
            faults.append(f"{name}: {t['wide']} pixels wide: {t['outside'][:3]}")
        if t["letters"] < 100 or not t["title"]:
            faults.append(f"{name}: an empty page")
        if len(t["styles"]) < 2:
            faults.append(f"{name}: style sheets {t['styles']}: this check looks in the wrong place")
        if t["paper"] < 0.8 if look == "light" else t["paper"] > 0.05:
            faults.append(f"{name}: its paper has the luminance {t['paper']:.2f}")
    for t in drawings_told:
        faults.extend(f"{t['name']}, {look}: {x}: small, faint, cut off or over another text" for x in t["bad"])
    if [x for x in drawings_told if x["texts"] < 5] or len(drawings_told) != len(drawings) or not drawings:
        faults.append(f"not all drawings have words: {[(x['name'], x['texts']) for x in drawings_told]}")
    lost = [f"the search for {name} leads to {first}" for (name, first), (_, right) in zip(found, places_of(site, "clattn_")) if first != right]
    faults.extend(lost[:3])
    if results > 360:
        faults.append(f"results of the search are {results} pixels wide on a screen of 360")
    # The browser's own requests ("not an origin") are ignored.
    events = [x.get("params", {}) for x in json.loads(re.sub(r",\s*$", "]}", text_of("net.json")))["events"]]
    asked = {x["url"] for x in events if "url" in x and x.get("initiator", "not an origin") != "not an origin"}
    faults.extend(f"a page asks for {x}" for x in sorted(asked) if not x.startswith(CONTROL))
    if not any(x.startswith(CONTROL) for x in asked):
        faults.append("the browser's log has no request: this check looks in the wrong place")
    faults.extend(f"the console: {x}" for x in console if CONTROL not in x)
    if not any(CONTROL in x for x in console):
        faults.append("the console says nothing: this check looks in the wrong place")
    if len(told) != 2 * len(pages):
        faults.append("not all pages were drawn")
    print(f"browser: {len(told)} pages, {look}, {sum(t['images'] for t in told)} pictures, {len(found)} searches")


def check_browser(site, pages):
    browser = next((x for x in ("chromium", "chromium-browser", "google-chrome") if walk.shutil.which(x)), None)
    if not browser:
        print("counted: no browser here: the pages were not drawn")
        return
    check_frames(browser, site, pages, "light")
    check_frames(browser, site, pages, "dark", "--force-dark-mode")
    # Searches from another page, with a browser's rights for local files.
    typed, right = site + "/docs/typed.html", dict(places_of(site, "clattn_"))["clattn_append_enqueue"]
    with open(typed, "w", encoding="utf-8") as file:
        file.write(text_of(site + "/docs/start.html") + """<script>addEventListener('load', () => {
            const form = document.getElementById('rtd-search-form'); form.q.value = 'append_enq'; form.requestSubmit(); });</script>""")
    page, console = drawn(browser, typed, "--virtual-time-budget=10000")
    if not re.search(r'id="mkdocs-search-results"[^>]*><p>[0-9]+ found</p><h3><a href="' + right, page) or console:
        faults.append(f"a name that is typed on a page does not lead to {right}: {console} {page[-300:]}")


def check_menu(site):
    """The menu lists the pages in the order of docs/README.md."""
    wanted = re.findall(r"\(([a-z]+)\.md\)", text_of(of("docs/README.md")).split("\n## ")[0])
    menu = re.findall(r'<li class="toctree-l1[^>]*><a[^>]*href="docs/([a-z]+)\.html"', text_of(site + "/index.html"))
    found = [x for x in menu if x != "index"]
    if len(wanted) < 10 or found != wanted:
        faults.append(f"the menu has {found}, docs/README.md {wanted}")


def main():
    if sys.argv[2:] == ["start"]:
        check_start()
    elif sys.argv[2:] == ["site"]:
        out = os.path.abspath("site")
        if ended_well(["sh", of("docs/build.sh"), out], "docs/build.sh"):
            check_menu(out)
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
        ended_well([sys.executable, of("tests/source/check_porting.py")], "docs/porting.md", cwd=walk.top)
    os.chdir(walk.top)
    walk.shutil.rmtree(walk.work)
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
