#!/bin/sh
# `clattn report`: the page has every case, ratio and head of its files, is well formed, escapes all
# names, and loads nothing from a network. An edited file of bench --submit is refused. If a browser
# is available, columns sort, filters work, and the page is readable in dark mode and at 360 pixels.
#
#   check_report.sh BUILD [quick]     quick: only what needs no device and no browser
set -u
clattn=$PWD/$1/clattn data=$PWD/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$OLDPWD/tests/program/refused.sh"
# Submissions of two devices, the second with hostile names, sealed by the rule in docs/program.md.
# Also the result of editing one.
cat >submission.py <<'PYTHON'
import hashlib, json
def plain(x):
    if isinstance(x, dict): return {key: plain(value) for key, value in x.items()}
    return [plain(value) for value in x] if isinstance(x, list) else "%.9g" % x if isinstance(x, float) else x
def sha256(table):
    rest = {key: value for key, value in plain(table).items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
def row(device, case, ns, **more):
    op, dtype = case.split("-")[:2]
    return {"case": case, "op": op, "device": device, "driver": "1", "kernel": "flash_rows", "dtype": dtype, "status": "ok", "why": "",
            "time_ns": ns, "time_ns_spread": ns // 20, "gflops": 3.2e9 / ns, "gbytes_per_s": 1.25e7 / ns, "limit_percent": 61.5,
            "error_nmse": 2.5e-13, "build_ms": 12.5, "samples_ns": [ns - 1, ns, ns + 1], "device_index": 0, **more}
def table(device, kind, times):
    cases = "attend-f32-b1-h12-n1024-d64-full", "attend-bf16-b1-h12-n1024-d64-full", "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full"
    rows = [row(device, case, ns) for case, ns in zip(cases, times)]
    rows[2].update(limit_name="reading 33.6 MB (L3)", limit=61.5, limit_unit="GB/s")
    rows.append(row(device, "backward-f32-b1-h12-n1024-d64-full", 1, status="unsupported", why="no <kernel>", time_ns=None))
    return {"format_version": 1, "clattn": "0.2.0", "submission": {"set": "standard", "set_version": 1, "date": "2026-11-27T08:00:00Z",
            "max_ms": 1000.0}, "devices": [{"device": device, "type": kind, "driver": "1", "platform": "Pl\u00e4tform\u202e", "compute_units": 4,
            "memory_bytes": 1 << 34, "half": True, "double": False, "subgroups": True, "fma_gflops": 1e13 / 7e9, "read_gbytes_per_s": 1e-5 * 4e6,
            "caches": [{"name": "L1", "bytes": 32768, "read_gbytes_per_s": 300.0}], "engine_peaks": [{"name": "AMX <bfloat16>", "gflops": 5000.0}],
            "contended": "Limits of this run contradict each other: FMA & <loads>." if kind == "cpu" else ""}], "rows": rows}
def save(name, table, **how):
    with open(name, "w") as file: json.dump(table, file, **how)
if __name__ == "__main__":
    evil = "</title><script>document.title='owned'</script><img src=x onerror=alert(1)>\" onclick=\"x"
    one, two = table("Plain GPU", "gpu", (2000000, 900000, 300000)), table(evil, "cpu", (30000000, 12000000, 7000000))
    for name, one in ("gpu", one), ("cpu", two):
        one["sha256"] = sha256(one)
        save(name + ".json", one)
    save("pretty.json", dict(reversed(two.items())), indent=4, ensure_ascii=False)
    two["rows"][0]["samples_ns"][0] += 1
    save("edited.json", two)
    two["sha256"] = sha256(two)
    save("sealed.json", {**two, "sha256": 7})
    del two["sha256"]
    save("bare.json", two)
    del two["submission"]
    save("saved.json", two)
PYTHON
python3 -B submission.py || exit 1
"$clattn" report cpu.json gpu.json pretty.json --out devices.html || complain "report of submissions"
"$clattn" report saved.json --out saved.html || complain "report of a file that is no submission"
! grep -i 'hash\|submission' saved.html || complain "a file that claims to be no submission is told to lack a hash"
for name in edited sealed bare; do
    refused 2 "$name.json: its sha256" report gpu.json $name.json --out refused.npy
    refused 2 'changed after' compare gpu.json $name.json
done
refused 2 'no -n with it' bench -n 9 --submit refused.npy.json
refused 2 'no --check with it' bench --submit out.json --check off
refused 2 'in .json' bench --submit out.csv
refused 2 'No such file' bench --submit no/folder.json
refused 2 'lists of one value' bench -n 9 --against '--submit out.json'
[ ! -e refused.npy.json ] && [ ! -e out.json ] || complain "a submission was written"
python3 - <<'PYTHON' || bad=1
import html.parser
text, open_, words, tags = open("devices.html").read(), [], [], []
class Page(html.parser.HTMLParser):
    def handle_starttag(self, tag, attributes):
        tags.append((tag, dict(attributes)))
        if tag not in ("meta", "input"): open_.append(tag)
    def handle_startendtag(self, tag, attributes): tags.append((tag, dict(attributes)))
    def handle_endtag(self, tag): assert open_.pop() == tag, (tag, open_)
    def handle_data(self, data): words.append(data)
page = Page()
page.feed(text), page.close()
names, said = [tag for tag, _ in tags], "".join(words)
assert not open_ and names.count("script") == 1 and "img" not in names and not any("onclick" in a or "onerror" in a for _, a in tags)
assert "<img src=x onerror=alert(1)>\" onclick=\"x" in said and "no <kernel>" in said and "Pl\u00e4tform?" in said
assert text.count("its hash is right") == 3 and "set standard 1 of 2026-11-27T08:00:00Z, at most 1000 ms a case" in said, said[:900]
marks = [a for tag, a in tags if "data-op" in a]
# cases, points, ratios
assert len(marks) == 3 * (4 + 3) + 3 and {a["data-kind"] for a in marks} == {"gpu", "cpu"}, len(marks)
assert said.count(" of FMA") == 6 and said.count(" of reading") == 3 and "16.0 GiB, float16, no float64, sub-groups" in said
assert said.count(" of reading 33.6 MB (L3)") == 3 and said.count("contradict each other: FMA & <loads>.") == 2 * 2 and ", AMX <bfloat16> 5000.0" in said
# The summary and the table come before all pictures, and pictures scale. Each point is a link to
# its row, and has its number and its case as text.
places = [text.index(x) for x in ('id="summary"', 'id="cases"', 'id="ratios"', 'id="devices"', '<svg class="roofline"')]
assert places == sorted(places) and not any("width" in a for tag, a in tags if tag == "svg" and a["class"] != "plain"), places
rows = {a["id"]: a["data-name"] for tag, a in tags if tag == "tr" and "id" in a}
points = [a for tag, a in tags if a.get("class") == "mark"]
assert len(rows) == 12 and len(points) == 9 and text.count('class="tip"') == 9, (rows, points)
for a in points:
    number = a["href"].removeprefix("#case-")
    assert rows["case-" + number] == a["data-name"] and a["aria-label"].startswith(number + ": ") and a["aria-label"].split(": ")[1] in a["data-name"], a
assert all(a.get("aria-label") for tag, a in tags if tag == "svg" or a.get("role") == "region" or tag == "table")
PYTHON
if [ "${2:-}" = quick ]; then
    [ "$bad" = 0 ] && echo "report: submissions held"
    exit "$bad"
fi
"$clattn" devices --quiet 2>/dev/null || { echo "no OpenCL device"; exit 77; }
run() { "$clattn" bench --max-ms 5 --cache-dir kernels --quiet "$@" || complain "bench $*"; }
run -n 9,33 -d 16 --heads 2 --dtype f32,bf16 --save first.json
run -n 9,33 -d 16 --heads 2 --dtype f32,bf16 --save second.json
run --op decode --n-kv 40 -d 16 --heads 2 --save third.json
# A real submission: its cases, all samples, and the hash by the documented rule.
"$clattn" bench --submit real.json --max-ms 5 --cache-dir kernels --json >told.json || complain "bench --submit"
python3 -B - <<'PYTHON' || bad=1
import json, re
from submission import sha256
real, told = json.load(open("real.json")), json.load(open("told.json"))
assert re.fullmatch("[0-9a-f]{64}", real["sha256"]) and real["sha256"] == sha256(real), real["sha256"]
how = real["submission"]
assert (how["set"], how["set_version"], how["max_ms"]) == ("standard", 1, 5) and re.fullmatch(r"\d{4}(-\d\d){2}T\d\d:\d\d:\d\dZ", how["date"]), how
assert {**real, "sha256": 0, "submission": 0} == {**told, "sha256": 0, "submission": 0}, "it is the table"
for d in real["devices"]: assert d["type"] in ("cpu", "gpu", "other") and d["memory_bytes"] > 0 and d["version"] and d["fma_gflops"] > 0, d
cases = {row["case"] for row in real["rows"]}
assert len(real["rows"]) == 16 * len(real["devices"]) and len(cases) == 16 and {c.split("-")[0] for c in cases} == {"attend", "decode", "backward", "layer"}
assert all(row["status"] != "fail" and (row["status"] != "ok" or row["samples_ns"]) for row in real["rows"])
PYTHON
"$clattn" report real.json gpu.json --out real.html || complain "report of real.json"
# A run that is interrupted after its first case.
env --default-signal=INT "$clattn" bench --submit stopped.json --max-ms 5 --cache-dir cold --quiet --verbose 2>stopped.txt &
stopped=$!
while kill -0 $stopped 2>/dev/null && ! grep -qs ' kernel .* built in ' stopped.txt; do sleep 0.2; done
kill -INT $stopped
wait $stopped && complain "a bench that was ended ends well"
[ ! -e stopped.json ] && grep -q 'holds [1-9].* the whole set or nothing' stopped.txt || complain "ended: $(tail -n 1 stopped.txt)"
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
    empty = {"meta", "rect", "input"} # of HTML; SVG shapes close themselves or contain a title
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
# cases; ratios
assert text.count("prefers-color-scheme: dark") == 1 and text.count("<circle") == 9 + 4, text.count("<circle")
assert text.count("<figure>") == 2 and text.count("\u2192") == 2 * (6 + 1), "two heads with their greatest; a NaN and a zero are the panel's grey"
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
    # The pages in frames of 1280, 390 and 360 pixels, examined by a script: light, then dark.
    cat >ask.js <<'JS'
const luminance = c => c.match(/\d+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
window.addEventListener('load', () => {
    const told = {};
    for (const frame of document.querySelectorAll('iframe')) {
        const page = frame.contentDocument, look = (x, what) => frame.contentWindow.getComputedStyle(x)[what];
        const body = page.querySelector('#cases ~ .wide tbody'), t = told[frame.id] = {};
        Object.assign(t, {title: page.title, scripts: page.scripts.length, images: page.images.length});
        const column = name => [...page.querySelectorAll('#cases ~ .wide thead th')].find(h => h.textContent === name);
        const value = cell => cell && cell.colSpan === 1 ? cell.dataset.v ?? cell.textContent : null;
        const values = at => [...body.rows].map(row => value(row.cells[at]));
        t.sorted = ['case', 'ms', 'of limit'].map(name => { const h = column(name), button = h.querySelector('button'); button.focus();
            const focused = page.activeElement === button && button.tabIndex === 0;
            return [name, focused, ...[1, 2].map(() => { button.click(); return [h.getAttribute('aria-sort'), values(h.cellIndex)]; })]; });
        const form = page.forms.filter, seen = s => [...page.querySelectorAll(s)].filter(x => x.getClientRects().length);
        const shown = () => [form.querySelector('output').textContent, ...['#cases ~ .wide tbody tr', '.mark circle', '.devices section'].map(s => seen(s).length)];
        const say = (name, value) => { form.elements[name].value = value; form.dispatchEvent(new Event('input')); };
        const choose = (name, value) => { say(name, value); const n = shown(); say(name, ''); return n; };
        t.all = shown();
        t.filtered = [['kind', 'gpu'], ['dtype', 'bf16'], ['op', 'decode'], ['text', 'PLAIN gpu'], ['text', '<script>'],
            ['text', 'none of it']].map(x => choose(...x));
        t.choices = [...form.elements.kind.options].map(o => o.textContent);
        t.wide = page.documentElement.scrollWidth;
        t.cut = Math.max(...seen('.wide').map(x => x.scrollWidth - x.clientWidth)); // of tables that do not fit
        t.charts = seen('svg.roofline').map(x => x.getBoundingClientRect()).map(r => [r.left, r.right, r.width]);
        t.table_first = body.getBoundingClientRect().top < Math.min(...seen('svg').map(x => x.getBoundingClientRect().top)) || !seen('svg.roofline').length;
        t.tips = [...page.querySelectorAll('.mark')].map(mark => { // what the keyboard, or a finger, makes a point tell
            const before = seen('.tip').length; mark.focus(); const now = seen('.tip'); mark.blur();
            const row = page.querySelector(mark.getAttribute('href')), name = row.querySelector('td').dataset.v;
            return [before, now.length, now.length === 1 && now[0].textContent.includes(name.slice(0, 20)), mark.tabIndex]; });
        page.querySelectorAll('details').forEach(x => x.open = true);
        t.told = seen('#cases ~ .wide dd').length && page.documentElement.scrollWidth;
        page.querySelectorAll('details').forEach(x => x.open = false);
        const drawn = svg => svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        t.letters = Math.min(...seen('svg:not(.plain) text, td, p, li, button, label').filter(x => x.textContent.trim())
            .map(x => parseFloat(look(x, 'fontSize')) * drawn(x.ownerSVGElement)));
        const paper = look(page.body, 'backgroundColor');
        t.contrast = Math.min(...['td', 'th', 'p.soft', 'h1', 'a', '.bad', 'label'].map(s => page.querySelector(s)).filter(x => x)
            .map(x => contrast(look(x, 'color'), paper)));
        t.paper = luminance(paper);
        t.nameless = [...page.querySelectorAll('select, input')].filter(x => !x.labels.length).length;
    }
    document.body.textContent = JSON.stringify(told);
});
JS
    python3 - <<'PYTHON'
import html
with open("frames.html", "w") as to:
    to.write("<!DOCTYPE html><meta charset=utf-8><script>" + open("ask.js").read() + "</script>")
    for name, page, wide in ("wide", "devices", 1280), ("narrow", "devices", 390), ("small", "devices", 360), ("old", "page", 1280), ("phone", "page", 390):
        to.write(f'<iframe id={name} width={wide} height=900 srcdoc="{html.escape(open(page + ".html").read())}"></iframe>')
PYTHON
    see --dump-dom "file://$work/frames.html" >light.txt || complain "the browser: $(tail -n 1 browser.log)"
    see --force-dark-mode --dump-dom "file://$work/frames.html" >dark.txt || complain "the browser: $(tail -n 1 browser.log)"
    python3 - <<'PYTHON' || bad=1
import html, json, re
light, dark = (json.loads(html.unescape(re.search("<body[^>]*>(.*)</body>", open(f"{name}.txt").read(), re.S).group(1))) for name in ("light", "dark"))
for told in light, dark:
    for name, t in told.items():
        assert (t["title"], t["scripts"], t["images"], t["nameless"]) == ("clattn report", 1, 0, 0), (name, t)
        for column, focused, (up, first), (down, second) in t["sorted"]:
            assert focused and (up, down) == ("ascending", "descending"), (name, column, focused, up, down)
            key = str if column == "case" else float
            kept = [[key(x) for x in values if x is not None] for values in (first, second)]
            assert len(kept[0]) == (12 if column == "case" else 9) if name not in ("old", "phone") else 9, (name, column, first)
            assert kept[0] == sorted(kept[0]) and kept[1] == sorted(kept[1], reverse=True), (name, column, first, second)
            assert all(None not in values[:len(kept[0])] for values in (first, second)), (name, column, "what failed is last", first, second)
        assert t["contrast"] >= 4.5, (name, t["contrast"])
        assert t["letters"] >= 11, (name, "small letters", t["letters"])
        width = {"wide": 1280, "old": 1280, "small": 360}.get(name, 390)
        assert t["cut"] == 0 and t["table_first"] and t["wide"] <= width and 0 < t["told"] <= width, (name, t["cut"], t["wide"], t["told"])
        assert t["charts"] and all(0 <= left and right <= width and wide >= min(480, width) * 0.8 for left, right, wide in t["charts"]), (name, t["charts"])
        assert len(t["tips"]) == 9 and all(tip == [0, 1, True, 0] for tip in t["tips"]), (name, t["tips"])
    # three files, two of them equal: cases and ratios; points; devices
    for name in "wide", "narrow", "small":
        t = told[name]
        assert t["all"] == ["12 of 12 cases", 12 + 3, 9, 3] and t["choices"] == ["all", "cpu", "gpu"], (t["all"], t["choices"])
        assert t["filtered"] == [["4 of 12 cases", 4, 3, 1], ["3 of 12 cases", 4, 3, 3], ["3 of 12 cases", 4, 3, 3], ["4 of 12 cases", 4, 3, 1],
                                 ["8 of 12 cases", 11, 6, 2], ["0 of 12 cases", 0, 0, 0]], (name, t["filtered"])
assert all(light[name]["paper"] > 0.9 and dark[name]["paper"] < 0.05 for name in light), "light and dark"
PYTHON
else
    echo "counted: no browser here: the page was not drawn"
fi
[ "$bad" = 0 ] && echo "report: all held"
exit "$bad"
