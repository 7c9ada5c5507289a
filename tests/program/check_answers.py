#!/usr/bin/env python3
"""The output of every command, for scripts and for people. With --json, results and errors are
JSON. On a full disk the exit status is 1 and no partial file remains. Progress with the remaining
time is printed on a terminal, and only there.

   check_answers.py BUILD
"""
import json, os, pty, re, resource, select, shutil, signal, struct, subprocess, sys, tempfile

clattn = os.path.abspath(sys.argv[1] + "/clattn")
data = os.path.abspath("tests/data")
work = tempfile.mkdtemp()
os.chdir(work)
environment = {**os.environ, "XDG_CACHE_HOME": work + "/cache", "TERM": "xterm"}
failed = []
# A shell that runs this in the background ignores SIGINT. Restore it, also for child processes.
signal.signal(signal.SIGINT, signal.default_int_handler)


def check(good, *what):
    if not good:
        print("FAIL", *what)
        failed.append(what)


# Notes that a bench prints on a busy machine, as here when several checks run at once.
OF_LIMITS = re.compile(r"(\r\033\[K)?clattn bench: [^\r\n]*(The machine is contended|Limits of this run contradict)[^\r\n]*\r?\n")
OF_LIMITS_JSON = re.compile(r'\{"notes":\["[^"]*(The machine is contended|Limits of this run contradict)[^"]*"\]\}\n')


def run(line, env=environment, **more):
    done = subprocess.run([clattn, *line.split()], capture_output=True, text=True, env=env, timeout=600, **more)
    done.stderr = OF_LIMITS_JSON.sub("", OF_LIMITS.sub("", done.stderr))
    return done


def npy(name, shape):
    head = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    count = 1
    for n in shape:
        count *= n
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{count}f",
        *((i % 7 - 3) / 4 for i in range(count))))


npy("x.npy", (1, 2, 16, 8))
npy("w.npy", (2, 16, 16))
attend = "attend --q x.npy --k x.npy --v x.npy"
layer = f"layer --weights {data}/minilm_layer0.safetensors --names bert:encoder.layer.0.attention --heads 12 --x {data}/minilm_layer0_x.npy"
bench = "bench -n 16 -d 8 --heads 2 --max-ms 1 --limits off"
case = "attend-f32-b1-h2-n9-d64-full"
check(run(bench.replace("off", "on") + " --quiet --save a.json").returncode == 0, "a bench to go on with")
rows = json.load(open("a.json"))
many = {**rows, "rows": [{**rows["rows"][0], "case": f"attend-f32-b1-h2-n{n}-d8-full", "samples_ns": [1000 + i for i in range(64)]}
    for n in range(1, 150)]}
json.dump(many, open("many.json", "w"))
json.dump({**many, "rows": [{**row, "samples_ns": [ns + 1 for ns in row["samples_ns"]]} for row in many["rows"]]}, open("others.json", "w"))

# JSON of every command, and one of its fields.
for line, key in {"devices --json": "devices", f"{attend} --out o.npy --json": "time_ns", f"{layer} --out o.npy --json": "kernel",
                  "layer --list-presets --json": "presets", "heatmap w.npy --out w.svg --json": "keys",
                      "heatmap --causal top-left --n 4 --out m.svg --json": "seen",
                  f"verify --only flash --case {case} --json": "results", f"{bench} --json": "rows", "compare a.json a.json --json": "same",
                  "report a.json --out r.html --json": "bytes", "completion fish --json": "script", "manual bench --json": "commands",
                  "--version --json": "clattn", "--help --json": "commands"}.items():
    done = run(line)
    try:
        check(key in json.loads(done.stdout) and not done.stderr and done.returncode == 0, line, done)
    except ValueError:
        check(False, line, "no JSON:", done)
tables = {t["command"]: {o["name"] for o in t["options"]} for t in json.loads(run("manual --json").stdout)["commands"]}
for command, options in tables.items():
    check("--json" in options, command, "has no --json")
check({"--mask-mod", "--vmax", "--n"} <= tables["heatmap"], "options of heatmap:", tables["heatmap"])

# An error is one JSON object on stderr, with the exit status.
for line, status, word in (("nonesuch", 2, "no command"), ("attend", 2, "--q FILE"), (f"{attend} --out no/o.npy", 2, "no/o.npy"),
    (f"{attend} --out o.npy --causal bad", 2, "causal"),
                           (f"{attend} --out o.npy --unknown", 2, "no such option"),
                               (f"{attend} --out o.npy --score-mod missing", 2, "score_mod: line 1, column 1"),
                           ("layer --x x.npy", 2, "--out"), ("heatmap absent.npy --out h.svg", 2, "No such file"),
                               ("heatmap w.npy", 2, "--out FILE"),
                           ("verify --case nonsense", 2, "starts with"), ("bench --max-ms no", 2, "max-ms"),
                               ("tune --tuned off", 2, "no effect"),
                           ("compare a.json", 2, "two files"), ("compare a.json absent.json", 2, "absent.json"), ("report", 2, "a file"),
                               ("manual nonesuch", 2, "no command"),
                           ("completion tcsh", 2, "must be one of"), ("devices --device nonesuch", 2, "none of"),
                               (f"{attend} --out /dev/full", 1, "No space left"),
                           (f"{bench} --save /dev/full", 1, "No space left"),
                               ("bench --case attend-f32-b1-h2-n64-d16-full-decode --max-ms 1", 1, "nothing was measured")):
    done = run(line + " --json")
    try:
        # A compiler may print its own lines before.
        told = json.loads(done.stderr.splitlines()[-1])["error"]
        check(told["status"] == done.returncode == status and word in told["message"], line, done)
        check(told.get("command") == (None if word == "no command" and line == "nonesuch" else line.split()[0]), line, told)
        check(len(done.stderr.splitlines()) == 1 or "score-mod" in line, line, "more than an object:", done.stderr)
        check(status == 1 or not done.stdout, line, "printed", done.stdout)
    except (ValueError, IndexError, KeyError):
        check(False, line, "no JSON error:", done)

# Contents and names of files must not control the terminal: no control characters, including those
# from U+0080 on, no direction marks, no invalid UTF-8. JSON escapes them and has the same text.
steers = re.compile(b"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf")
foreign = "\x1b[2J\x9b2J\u202e\u2066\u200f\ufeff"


def plain(words, status=0):
    done = subprocess.run([os.fsencode(clattn), *(os.fsencode(w) for w in words)], capture_output=True, env=environment, timeout=600)
    for text in done.stdout, done.stderr:
        found = steers.search(text)
        check(not found, words, "prints what steers:", text[-400:])
        try:
            text.decode()
        except UnicodeDecodeError:
            check(False, words, "prints what is no UTF-8:", text[-400:])
    check(done.returncode == status, words, done)
    return done


strange = {**many["rows"][0], "case": "a" + foreign, "device": "d" + foreign, "driver": "v" + foreign, "kernel": "k" + foreign,
    "why": "w" + foreign}
json.dump({**rows, "rows": [strange]}, open("strange.json", "w"))
json.dump({**rows, "rows": [{**strange, "status": "fail" + foreign}]}, open("broken.json", "w"))
check(b"?[2J?" in plain(["compare", "strange.json", "strange.json"]).stdout, "compare shows what can be shown")
plain(["compare", "strange.json", "broken.json"], 1)
plain(["compare", "strange.json", "--by", "kernel"], 1)
json.dump({**rows, "rows": [strange, {**strange, "kernel": "other" + foreign}]}, open("two.json", "w"))
plain(["compare", "two.json", "--by", "kernel"])
done = plain(["compare", "strange.json", "strange.json", "--json"])
check(json.loads(done.stdout)["rows"][0]["case"] == "a" + foreign, "compare --json says another case:", done)
plain(["report", "strange.json", "--out", "r.html"])
check(not steers.search(open("r.html", "rb").read().replace(b"\t", b"")), "report's page holds what steers")
for name in "n" + foreign + ".npy", os.fsdecode(b"n\xe9.npy"):
    plain(["attend", "--q", name, "--k", "x.npy", "--v", "x.npy", "--out", "o.npy"], 2)
    plain(["compare", "a.json", name], 2)
    plain(["attend", "--q", "x.npy", "--k", "x.npy", "--v", "x.npy", "--out", name])
    done = plain(["attend", "--q", "x.npy", "--k", "x.npy", "--v", "x.npy", "--out", name, "--json"])
    check(b'"time_ns"' in done.stdout, name, "JSON is not there:", done)
    plain(["attend", "--q", "x.npy", "--k", "x.npy", "--v", "x.npy", "--out", "o.npy", "--expect", name])
    plain(["heatmap", "w.npy", "--out", name[:-4] + ".svg"])
    plain(["attend", "--q", "x.npy", "--k", "x.npy", "--v", name + "/no", "--out", "o.npy", "--json"], 2)

# On a full disk every command that writes fails with exit status 1, one line and no new file. The
# old file stays.
outputs = {f"{attend} --out": "npy", f"{attend} --out /dev/null --lse": "npy", f"{attend} --out /dev/null --weights": "npy",
    f"{attend} --out /dev/null --scores": "npy",
           f"{attend} --out /dev/null --dropout 0.1 --dropout-mask": "npy", f"{layer} --out": "npy",
               f"{layer} --out /dev/null --attention-weights": "npy",
           "heatmap w.npy --out": "svg", "heatmap --causal top-left --n 4 --out": "svg", "report a.json --out": "html",
               f"{bench} --quiet --save": "json"}
if run("heatmap w.npy --out h.png").returncode == 0:
    outputs["heatmap w.npy --out "] = "png"


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))


for line, ending in outputs.items():
    os.symlink("/dev/full", "full." + ending)
    done = run(f"{line} full.{ending}")
    done.stderr = OF_LIMITS.sub("", done.stderr)
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left" in done.stderr, line, "/dev/full", done)
    os.remove("full." + ending)
    open("old." + ending, "w").write("what was there")
    before = set(os.listdir("."))
    if line.split()[0] not in ("heatmap", "report") or "--n " in line:
        continue  # a driver's compiler needs disk space as well, and all outputs use one function
    done = run(f"{line} old.{ending}", preexec_fn=small_files)
    check(done.returncode == 1 and "File too large" in done.stderr, line, "no room", done)
    check(open("old." + ending).read() == "what was there" and set(os.listdir(".")) <= before, line, "left", set(os.listdir(".")) - before)
for line in (f"verify --only flash --case {case}", bench, f"{layer} --out o.npy", "manual attend", "completion bash",
    "report a.json --out r.html --json", "layer --list-presets",
             "--version --json", f"verify --only flash --case {case} --json"):
    with open("/dev/full", "w") as full:
        done = subprocess.run([clattn, *line.split()], stdout=full, stderr=subprocess.PIPE, text=True, env=environment, timeout=600)
    done.stderr = OF_LIMITS.sub("", done.stderr)
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "standard output" in done.stderr, line, "into a full device", done)


# A case that is too slow for the time limit is not started if the limits predict so, or else it is
# interrupted, and later cases still run. The machine may be busy, so the predicted and the measured
# times may differ.
fma = max(rows["devices"][0]["fma_gflops"], rows["devices"][0]["native_fma_gflops"] or 0)
open("slow.txt", "w").write("flash :\n")
for seconds in 0.3, 0.6, 1.2, 0.15:
    n = int((1e9 * seconds * fma / (4 * 8 * 128)) ** 0.5) // 64 * 64
    done = run(f"bench --case attend-f32-b1-h1-n1048576-d128-full,attend-f32-b1-h8-n{n}-d128-full,attend-f32-b1-h2-n16-d8-full --tuned slow.txt --max-ms 1 --check off --json --device 0")
    if "stopped after" in done.stdout:
        break
try:
    got = json.loads(done.stdout)["rows"]
    check([row["status"] for row in got] == ["unsupported", "unsupported", "ok"] and done.returncode == 0, "too long:", done)
    check("not begun" in got[0]["why"] and "stopped after" in got[1]["why"], "too long:", got)
except ValueError:
    check(False, "too long:", done)


def on_terminal(line, stop=None, **change):
    """Returns the output on a terminal and the exit status. Sends Ctrl-C after the output `stop`.
    """
    terminal, its_side = pty.openpty()
    process = subprocess.Popen([clattn, *line.split()], stdout=subprocess.DEVNULL, stderr=its_side, env={**environment, **change})
    os.close(its_side)
    said = ""
    while select.select([terminal], [], [], 300)[0]:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the process closed its side
            break
        if not part:
            break
        said += part.decode(errors="replace")
        if stop and stop in said:
            process.send_signal(signal.SIGINT)
            stop = None
    os.close(terminal)
    return OF_LIMITS.sub("", said), process.wait()


# Finding a row lasts half a minute.
thorough = environment.get("CLATTN_THOROUGH", "off") != "off"
FOUND = "beside what is shipped" if thorough else " left"
tune = f"tune --case attend-f32-b1-h8-n512-d64-full {'--quick ' if thorough else ''}--keep off --out part.txt"
for line, stop, least in (("bench -n 16,24 -d 8 --heads 2 --max-ms 50", None, 6), ("verify --only flash", " left", 2), (tune, FOUND, 2),
    ("compare many.json others.json", None, 2),
                          ("report many.json others.json --out r.html", None, 2), ("devices", None, 1)):
    said, status = on_terminal(line, stop)
    told = [int(x) for x in re.findall(r"clattn \w+: (\d+) %", said)]
    check(len(told) >= least and told == sorted(told) and told[-1] <= 100, line, "percent:", told)
    check(" left" in said or line == "devices", line, "tells no time:", said[-300:])
    check(stop or (status == 0 and said.endswith("\r\033[K")), line, "stays on the screen:", said[-200:], status)
    check(max(len(x) for x in re.split("\r\033\\[K|\n", said)) < 80, line, "breaks a line")
    if line.startswith("tune"):  # rows found before Ctrl-C are stored
        found = "rows were found before" in said
        check(status == -signal.SIGINT and (found or (not thorough and "before the first row" in said)), line, "interrupted:", status, said[-300:])
        check(found == os.path.exists("part.txt") and (not found or "what is shipped" in open("part.txt").read()), line, "part.txt")
# Half a minute of cases. Ctrl-C follows when the second case starts.
said, status = on_terminal(f"bench -n {','.join(str(n) for n in range(16, 528, 8))} -d 8 --heads 2 --max-ms 300 --save part.json --device 0", "-n24-")
got = len(json.load(open("part.json"))["rows"]) if os.path.exists("part.json") else 0
check(1 <= got < 64 and status == -signal.SIGINT, "bench, interrupted:", got, status, said[-300:])
# A driver whose first build and first launch need two seconds each. A message says so, and the
# reported time contains neither.
slow = {"OPENCL_LAYERS": os.path.join(os.path.dirname(clattn), "tests/libclattn_layer.so"), "CLATTN_LAYER_SLOW": "on", "HOME": work,
        "POCL_CACHE_DIR": environment.get("POCL_CACHE_DIR", work + "/pocl")}
where = slow["POCL_CACHE_DIR"] if "PoCL " in run("devices --json").stdout else work + "/cache/clattn"
for command, line in ("attend", attend), ("layer", layer):
    said, status = on_terminal(line + " --out cold.npy", **slow)
    check(status == 0 and said.count(f"clattn {command}: compiling (once; cached in {where})") == 1, command, "cold:", said)
    check("compiling" not in on_terminal(line + " --out cold.npy --quiet", **slow)[0], command, "--quiet tells of compiling")
    done = run(line + " --out cold.npy --json", env={**environment, **slow})
    check("compiling" not in done.stderr and json.loads(done.stdout)["time_ns"] < 1e9, command, "the first launch is timed:", done)
said, status = on_terminal(bench + " --quiet")
check(status == 0 and not said, "--quiet shows", said)
said, status = on_terminal(bench, TERM="dumb")
check(status == 0 and not said, "a dumb terminal is shown", said)
check(not run(bench).stderr, "no terminal, and something on stderr")
shutil.rmtree(work)
print("answers:", "all held" if not failed else f"{len(failed)} did not hold")
sys.exit(bool(failed))
