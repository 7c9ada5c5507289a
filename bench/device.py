#!/usr/bin/env python3
"""See device.sh. Needs only Python; PyTorch runs in a process of its own."""
import argparse
import concurrent.futures
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, HERE)
from device_table import markdown  # noqa: E402

STEPS = ("verify", "suites", "bench", "torch")
# Suites that test a device, its driver and its compiler, the most informative first. --quick runs
# the short ones.
SUITES = ("case_portable", "linear", "attention_portable", "hostile_portable", "limits_portable", "views_portable", "merge", "rope",
          "queue", "memory", "attention", "case", "layer_rope", "models")
QUICK_SUITES = ("merge", "rope")
# Runs of `clattn bench`: name, options, and the options with --quick.
BENCHES = (
    ("prefill", "--op attend -b 1 --heads 16 -n 1k,4k -d 64,128 --causal both --dtype f16,bf16,f32",
     "--op attend -b 1 --heads 2 -n 128 -d 64,128 --causal yes --dtype f32,f16"),
    ("decode", "--op decode -b 1,8 --heads 32 --kv-heads 8 -n 1 --n-kv 1k,16k -d 128 --dtype f16,bf16,f32",
     "--op decode -b 1 --heads 4 --kv-heads 2 -n 1 --n-kv 512 -d 64 --dtype f32,f16"),
    ("projections", "--op linear --heads 32 -d 128 --d-model 4096 -n 1,8,512,2k --dtype f16,bf16,f32",
     "--op linear --heads 4 -d 64 --d-model 256 -n 1,64 --dtype f32,f16"),
)
# The largest share of the remaining time that a step may use.
SHARES = {"verify": 0.45, "suites": 0.35, "bench": 0.6, "torch": 0.9}


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse():
    p = argparse.ArgumentParser(prog="device.sh", description="Verify and measure this machine's OpenCL devices.")
    p.add_argument("--build", default=f"{TOP}/build", help="the build folder; default build/")
    p.add_argument("--driver", action="append", default=[], metavar="LIBRARY",
        help="a driver's library that has no .icd file; again for another")
    p.add_argument("--libraries", action="append", default=[], metavar="FOLDER",
                   help="where libraries are that the machine has not: OpenCL's loader, CLBlast; again for another")
    p.add_argument("--device", help="only devices whose number is this, or whose name or type has it")
    p.add_argument("--out", metavar="PREFIX", help="PREFIX.json and PREFIX.md; default bench/results/DATE-NAME-device")
    p.add_argument("--quick", action="store_true", help="small cases: under a minute on two cores")
    p.add_argument("--steps", default=",".join(STEPS), help="some of verify,suites,bench,torch; default all")
    p.add_argument("--minutes", type=float, default=9.0, help="the time for everything; default 9")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch; default this one")
    o = p.parse_args()
    o.build = os.path.abspath(o.build)
    if not os.access(f"{o.build}/clattn", os.X_OK):
        p.error(f"{o.build} has no clattn: meson setup build -Dtests=enabled -Dtool=enabled && ninja -C build")
    for library in o.driver:
        if not os.path.isfile(library):
            p.error(f"no such driver: {library}")
    for libraries in o.libraries:
        if not os.path.isdir(libraries):
            p.error(f"no such folder: {libraries}")
    if not o.minutes > 0:
        p.error("--minutes must be above 0")
    o.steps = o.steps.split(",")
    if set(o.steps) - set(STEPS):
        p.error(f"--steps takes some of {','.join(STEPS)}")
    folder = os.path.dirname(os.path.abspath(o.out or f"{HERE}/results/x"))
    if not os.access(folder, os.W_OK):
        p.error(f"no folder to write to: {folder}")
    return o


def vendors_folder(drivers, folder):
    """Collect the installed .icd files, and write one for each driver of --driver."""
    known = os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    texts = []
    if os.path.isdir(known):
        for name in sorted(os.listdir(known)):
            if name.endswith(".icd"):
                with open(os.path.join(known, name), encoding="utf-8") as f:
                    texts.append(f.read().strip())
    elif os.path.isfile(known):
        with open(known, encoding="utf-8") as f:
            texts.append(f.read().strip())
    texts += [os.path.abspath(x) for x in drivers if os.path.abspath(x) not in texts]
    for number, text in enumerate(texts):
        with open(f"{folder}/{number}.icd", "w", encoding="utf-8") as f:
            f.write(text + "\n")
    return folder + "/"


class Run:
    """The state that all steps share: the options, a folder, the remaining time."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.end = time.monotonic() + 60 * options.minutes
        self.environment = dict(os.environ)
        # Libraries from --libraries, and the folders of the drivers.
        self.libraries = [os.path.abspath(x) for x in options.libraries] + [os.path.dirname(os.path.abspath(x)) for x in options.driver]
        self.add_libraries(self.environment)
        if options.driver:
            os.mkdir(f"{folder}/vendors")
            self.environment["OCL_ICD_VENDORS"] = vendors_folder(options.driver, f"{folder}/vendors")

    def add_libraries(self, environment):
        paths = [*self.libraries, *filter(None, [environment.get("LD_LIBRARY_PATH"), os.environ.get("LD_LIBRARY_PATH")])]
        if paths:
            environment["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(":".join(paths).split(":")))

    def left(self):
        return max(self.end - time.monotonic(), 1.0)

    def clattn(self, words, seconds=None):
        """Returns (status, output, last line of stderr). The status is None if time ran out."""
        return self.command([f"{self.options.build}/clattn", *words, "--cache-dir", f"{self.folder}/kernels"], seconds)

    def command(self, words, seconds=None, environment=None):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=TOP,
                                  timeout=seconds or self.left(), env=dict(self.environment, **(environment or {})))
        except subprocess.TimeoutExpired:
            return None, "", "the time was not enough"
        lines = done.stderr.strip().splitlines()
        return done.returncode, done.stdout, lines[-1] if lines else ""


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def families_of(device):
    """The families to run one by one: those that a device without vector lanes can run. None: run
    all of them at once.
    """
    if device["type"] == "cpu":
        return None
    names = [f["name"] for f in device["prefill"]["families"]] + ["linear_rows", "linear_tiles", "linear_fragments"]
    return [n for n in dict.fromkeys(names) if not re.search(r"_lanes(_|$)", n)]


def side_by_side(device, work, items):
    """The results of `work` for each item, in order. On a CPU items run one by one, otherwise
    together, because the host's cores compile.
    """
    with concurrent.futures.ThreadPoolExecutor(1 if device["type"] == "cpu" else max((os.cpu_count() or 2) // 2, 1)) as pool:
        return list(pool.map(work, items))


def verify(run, device, seconds):
    """Verify kernels against float64: the number that passed, and the names of the others."""
    started, result = time.monotonic(), {"pass": 0, "fail": 0, "unsupported": 0, "failures": [], "families": {}, "status": "ok", "why": ""}
    families, small = families_of(device) or [""], ["--case", "plain"] if run.options.quick else []

    def one(family):
        words = ["verify", "--device", str(device["index"]), "--json", *small, *(["--family", family] if family else [])]
        return run.clattn(words, max(seconds - (time.monotonic() - started), 1.0))

    for family, (status, text, why) in zip(families, side_by_side(device, one, families)):
        found = parsed(text)
        if found is None and family and status in (1, 2) and "no case" in why:
            result["families"][family] = "no case"
            continue
        if found is None:
            result["families"][family or "all"] = why or "no word"
            if result["status"] != "fail":
                result.update(status="fail" if status is not None else "unfinished", why=why or "no word")
            continue
        for key in "pass", "fail", "unsupported":
            result[key] += found[key]
        result["families"][family or "all"] = f"{found['pass']} pass, {found['fail']} fail"
        result["failures"] += [f"{r['variant']}/{r['name']}: {r['why']}" for r in found["results"] if r["status"] == "fail"]
        if found["fail"] or status != 0:
            result.update(status="fail", why=result["why"] or why)
    if result["status"] == "ok" and result["pass"] == 0:
        result.update(status="fail", why="nothing was verified")
    return dict(result, seconds=round(time.monotonic() - started, 1))


def known_tests(run, listed):
    """Meson's list of tests by name, with paths adjusted if build or sources have moved."""
    text = open(listed, encoding="utf-8").read()
    try:
        with open(f"{run.options.build}/meson-info/meson-info.json", encoding="utf-8") as f:
            directories = json.load(f)["directories"]
    except (OSError, KeyError, ValueError):
        directories = {}
    moves = {directories[x]: to for x, to in (("build", run.options.build), ("source", TOP)) if directories.get(x)}
    if moves:
        old = "|".join(re.escape(x) for x in sorted(moves, key=len, reverse=True))
        text = re.sub(rf'(?:{old})(?=[/:"])', lambda found: moves[found.group(0)], text)
    known = {t["name"]: t for t in json.loads(text)}
    for test in known.values():
        run.add_libraries(test["env"])
    return known


def suites(run, device, seconds):
    """Run the Check programs in the build folder on this device, as Meson would."""
    listed = f"{run.options.build}/meson-info/intro-tests.json"
    if not os.path.exists(listed):
        return {"status": "absent", "why": "the build has no tests", "suites": []}
    known = known_tests(run, listed)
    end = time.monotonic() + seconds
    names = [n for n in (QUICK_SUITES if run.options.quick else SUITES) if n in known and os.access(known[n]["cmd"][0], os.X_OK)]

    def one(name):
        started = time.monotonic()
        status, text, why = (None, "", "the time was not enough") if started > end else run.command(
            known[name]["cmd"], end - started + 1, dict(known[name]["env"], CLATTN_TEST_DEVICE=str(device["index"])))
        count = re.search(r"Checks: (\d+), Failures: (\d+), Errors: (\d+)", text)
        word = "unfinished" if status is None else "skipped" if status == 77 else "ok" if status == 0 and count and int(count.group(1)) else "fail"
        return {"name": name, "status": word, "checks": int(count.group(1)) if count else 0,
                "failures": int(count.group(2)) + int(count.group(3)) if count else 0, "why": "" if word == "ok" else why,
                "seconds": round(time.monotonic() - started, 1)}

    rows = side_by_side(device, one, names)
    words = {r["status"] for r in rows}
    return {"status": "fail" if "fail" in words else "unfinished" if "unfinished" in words else "ok" if "ok" in words else "absent",
            "why": "" if rows else "none is built", "suites": rows}


def bench(run, device, seconds):
    """Rows of `clattn bench`, each verified before timing."""
    result, end = {"status": "ok", "why": "", "rows": [], "limits": {}}, time.monotonic() + seconds
    for name, words, quick in BENCHES:
        more = ["--max-ms", "30" if run.options.quick else "200", "--device", str(device["index"]), "-o", "json"]
        status, text, why = run.clattn(["bench", *(quick if run.options.quick else words).split(), *more], max(end - time.monotonic(), 1.0))
        found = parsed(text)
        if found is None:
            result.update(status="unfinished" if status is None else "fail", why=f"{name}: {why}")
            continue
        result["limits"] = found["devices"][0]
        result["rows"] += [dict(row, list=name) for row in found["rows"]]
        if status != 0:
            result.update(status="fail", why=f"{name}: {why}")
    return result


def torch(run, device, rows, seconds):
    """The same cases on PyTorch's kernels, in a process of its own."""
    if not rows:
        return {"status": "absent", "why": "no case was measured", "rows": []}
    asked = f"{run.folder}/torch.json"
    with open(asked, "w", encoding="utf-8") as f:
        json.dump({"device": device["device"], "type": device["type"], "rows": rows, "seconds": seconds,
                   "max_ms": 30 if run.options.quick else 200}, f)
    status, text, why = run.command([run.options.python, f"{HERE}/device_torch.py", asked], seconds + 20,
                                    # without --libraries
                                    {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})
    found = parsed(text)
    if found is None:
        return {"status": "unfinished" if status is None else "fail", "why": why, "rows": []}
    return found


LEFT_OUT = {"verify": {"status": "left out", "why": "", "pass": 0, "fail": 0, "unsupported": 0, "failures": [], "families": {},
    "seconds": 0},
            "suites": {"status": "left out", "why": "", "suites": []},
            "bench": {"status": "left out", "why": "", "rows": [], "limits": {}},
            "torch": {"status": "left out", "why": "", "rows": []}}


def measure(run, device, seconds):
    """Run all requested steps on one device. A failed step, or a verify that did not finish, makes
    the device bad.
    """
    end, found = time.monotonic() + seconds, dict(LEFT_OUT)
    steps = {"verify": verify, "suites": suites, "bench": bench, "torch": lambda r, d, s: torch(r, d, found["bench"]["rows"], s)}
    for name in STEPS:
        if name not in run.options.steps:
            continue
        started = time.monotonic()
        found[name] = steps[name](run, device, max((end - started) * SHARES[name], 1.0))
        say(f"{device['device']}: {name} {found[name]['status']} {found[name]['why']} ({time.monotonic() - started:.0f} s)")
    kept = ("index", "device", "type", "vendor", "driver", "platform", "version", "compute_units", "local_bytes", "max_work_group",
            "memory_bytes", "half", "subgroups")
    bad = [step for step in STEPS if found[step]["status"] == "fail" or (step == "verify" and found[step]["status"] == "unfinished")]
    return dict({key: device.get(key) for key in kept}, status="fail" if bad else "ok", bad=bad, **found)


def wanted(device, spec):
    return spec is None or spec == str(device["index"]) or spec.lower() in (device["device"] + " " + device["type"]).lower()


def write(report, prefix):
    """Write both files or none: both are complete before the first is renamed."""
    texts = {".json": json.dumps(report, indent=1) + "\n", ".md": markdown(report)}
    for ending, text in texts.items():
        with open(f"{prefix}{ending}.part", "w", encoding="utf-8") as f:
            f.write(text)
    for ending in texts:
        os.replace(f"{prefix}{ending}.part", prefix + ending)
    say(f"written: {prefix}.json {prefix}.md")


def default_prefix(report):
    name = re.sub(r"[^a-z0-9]+", "-", report["devices"][0]["device"].lower()).strip("-")[:40]
    return f"{HERE}/results/{report['date'][:10]}-{name}-device"


def main():
    options, started = parse(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that child processes end, too
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options, folder)
        status, text, why = run.clattn(["devices", "--json"], 60)
        found = parsed(text)
        devices = [d for d in (found or {"devices": []})["devices"] if wanted(d, options.device)]
        if not devices:
            say(f"no OpenCL device{' like ' + options.device if options.device else ''}: {why}")
            return 2 if found else 1
        report = {"format_version": 1, "clattn": found["clattn"],
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  "quick": options.quick, "devices": []}
        for n, device in enumerate(devices):
            report["devices"].append(measure(run, device, run.left() / (len(devices) - n)))
    report["seconds"] = round(time.monotonic() - started, 1)
    report["status"] = "fail" if any(d["status"] != "ok" for d in report["devices"]) else "ok"
    write(report, options.out or default_prefix(report))
    for d in report["devices"]:
        say(f"{d['device']}: {d['status']}{' (' + ', '.join(d['bad']) + ')' if d['bad'] else ''}")
    return 0 if report["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
