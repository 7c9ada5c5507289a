#!/bin/sh
# clattn report: every case, ratio and head of its files is on the page, which is well formed, takes no name for markup and asks
# for nothing from a network; in a browser, where there is one, it is drawn and a click sorts it.   $1 build folder
set -u
clattn=$PWD/$1/clattn data=$PWD/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$OLDPWD/tests/program/refused.sh"
"$clattn" devices --quiet 2>/dev/null || { echo "no OpenCL device"; exit 77; }
run() { "$clattn" bench --max-ms 5 --cache-dir kernels --quiet "$@" || complain "bench $*"; }
run -n 9,33 -d 16 --heads 2 --dtype f32,bf16 --save first.json
run -n 9,33 -d 16 --heads 2 --dtype f32,bf16 --save second.json
run --op decode --n-kv 40 -d 16 --heads 2 --save third.json
PYTHONPATH=$OLDPWD/tests/program python3 -B - <<'PYTHON'
import json
from files import npy
table = json.load(open("first.json"))
row = dict(table["rows"][0], case="<script>alert(1)</script>&\"'", kernel="</td><b>", why="<i>\u0007\n")
bad = dict(row, status="fail", time_ns=None)
table["devices"][0]["device"] = row["device"] = bad["device"] = "<img src=x onerror=alert(1)>"
table["devices"][0]["caches"] = [{"name": "<b>", "bytes": 1, "read_gbytes_per_s": 1e300}, {"name": 3}, {}]
table["rows"] = [row, bad]
json.dump(table, open("hostile.json", "w"))
weights = [0.5, 0.25, 0.25, 0.0, 1e-3, 0.999, float("nan"), 1.0] * 2
npy("weights.npy", (2, 2, 4), weights)
open("tokens.txt", "w").write("<s>\nword &\n")
PYTHON
"$clattn" report first.json second.json third.json --weights weights.npy --out page.html || complain "report"
"$clattn" report hostile.json --weights weights.npy --tokens tokens.txt --title 'A <b> & "c"' --out hostile.html || complain "hostile names"
python3 - <<'PYTHON' || bad=1
import html.parser, json, re
class Page(html.parser.HTMLParser):
    empty = {"meta", "rect"} # of HTML; SVG's shapes close themselves or hold a title
    def __init__(self, name):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.name = [], [], [], name
        self.feed(open(name).read())
        self.close()
        assert not self.open, (name, self.open)
    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.empty: self.open.append(tag)
    def handle_startendtag(self, tag, attributes): self.tags.append((tag, dict(attributes)))
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (self.name, tag, self.open)
        self.open.pop()
    def handle_data(self, data): self.words.append(data)
def shapes(text): return text.count('class="point')
for name, files in ("page.html", ["first.json", "second.json", "third.json"]), ("hostile.html", ["hostile.json"]):
    text, page = open(name).read(), Page(name)
    rows = [row for f in files for row in json.load(open(f))["rows"]]
    words = "\n".join(page.words)
    for device in json.load(open(files[0]))["devices"]:
        for cache in device["caches"][:1]: assert "from " + cache["name"] + " (" in "".join(page.words) and cache["name"] + ": reading" in "".join(page.words), cache
    assert not re.search(r'(src|href)="?(https?:)?//|@import|url\(', text), name + " asks a network"
    for row in rows: assert row["case"] in words and row["kernel"] in words, row["case"]
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1 and "img" not in tags and "b" not in tags and "i" in tags, name
    assert tags.count("tr") >= len(rows) + 1, name
page, text = Page("page.html"), open("page.html").read()
assert "\n".join(page.words).count("second") >= 4 + 1, "a ratio of each case that both files hold"
assert text.count("prefers-color-scheme: dark") == 1 and text.count("<circle") == 9 + 4, text.count("<circle") # cases; ratios
assert text.count("<figure>") == 2 and text.count("\u2192") == 2 * 6, "two heads; a NaN and a zero are the panel's grey"
words = "\n".join(Page("hostile.html").words)
assert 'A <b> & "c"' in words and "<s> \u2192 word &: 0.25" in words and "fail: " in words, "names"
PYTHON
refused 2 'is needed' report --out page.html
refused 2 'is needed' report first.json
refused 2 'no JSON' report tokens.txt --out refused.npy
refused 2 'no effect' report first.json --tokens tokens.txt --out refused.npy
refused 2 '2 to\|holds 0 to 0' report first.json --weights weights.npy --batch 1 --out refused.npy
refused 2 'tokens' report first.json --weights weights.npy --tokens "$data/minilm_tokens.txt" --out refused.npy
refused 2 'No such file' report absent.json --out refused.npy
refused 2 'cannot be written' report first.json --out no/folder.html
for browser in chromium chromium-browser google-chrome; do command -v $browser >/dev/null && break; done
if command -v "$browser" >/dev/null; then
    see() { HOME=$work timeout 300 "$browser" --headless --no-sandbox --disable-gpu --window-size=1200,1600 "$@" 2>browser.log; }
    see --screenshot="$work/page.png" "file://$work/page.html" >/dev/null || complain "the browser ends with $(tail -n 1 browser.log)"
    python3 - <<'PYTHON' || bad=1
import struct, zlib
data, at, pixels = open("page.png", "rb").read(), 8, b""
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    if kind == b"IDAT": pixels += data[at + 8:at + 8 + size]
    at += size + 12
assert len(set(zlib.decompress(pixels))) > 50, "an empty picture"
PYTHON
    { cat page.html; echo '<script>for (const h of document.querySelectorAll("#cases ~ .wide th[data-sort]")) if (h.textContent === "ms" && !window.once) { window.once = 1; h.click(); h.click(); }</script>'; } >clicked.html
    see --dump-dom "file://$work/clicked.html" >clicked.txt || complain "the browser: $(tail -n 1 browser.log)"
    python3 - <<'PYTHON' || bad=1
import re
table = re.search(r'id="cases".*?<tbody>(.*?)</tbody>', open("clicked.txt").read(), re.S).group(1)
times = [float(re.findall(r'data-v="([^"]*)"', row)[0]) for row in table.split("<tr>")[1:]]
assert len(times) == 9 and times == sorted(times, reverse=True), times
PYTHON
else
    echo "counted: no browser here: the page was not drawn"
fi
[ "$bad" = 0 ] && echo "report: all held"
exit "$bad"
