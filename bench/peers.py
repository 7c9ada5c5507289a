#!/usr/bin/env python3
"""Compare clattn with PyTorch, ONNX Runtime and OpenVINO on this machine's CPU, on the same arrays, in one run.

    python3 bench/peers.py
    python3 bench/peers.py --quick --json peers.json
    python3 bench/peers.py --cases bf16 GPT-2 --device pthread

The first run makes an environment with the peers (build/peers, some gigabytes from PyPI; --python takes one that is there)
and builds clattn in build/. Every result is checked against float64 before it is timed; every ratio comes with its quartiles.
Exit status: 0 measured, 1 a result was wrong or a run failed, 2 the request was wrong. A missed target is no failure.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGES = ("numpy", "torch", "onnx", "onnxruntime", "openvino")
INSIDE = "CLATTN_PEERS_INSIDE"  # set once the environment's own Python runs this file


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", nargs="+", default=[""], metavar="PART", help="only the cases whose name has a PART")
    p.add_argument("--quick", action="store_true", help="fewer cases and rounds: a minute or two")
    p.add_argument("--list", action="store_true", help="print the cases' names")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of everyone; default: the number of cores")
    p.add_argument("--device", help="an OpenCL device by number or part of a name; default: the first CPU")
    p.add_argument("--rounds", type=int, help="at least this many rounds a case; default 11, with --quick 5")
    p.add_argument("--seconds", type=float, help="and at least this long a case; default 3, with --quick 1")
    p.add_argument("--json", metavar="FILE", help="write everything measured to FILE")
    p.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR", help="the build folder; default: build/")
    p.add_argument("--python", help="a Python that has the peers, instead of an environment in build/peers")
    o = p.parse_args()
    o.rounds = o.rounds if o.rounds is not None else (5 if o.quick else 11)
    o.seconds = o.seconds if o.seconds is not None else (1 if o.quick else 3)
    if o.threads < 1 or o.rounds < 1 or o.seconds < 0:
        p.error("--threads and --rounds must be 1 or more, --seconds 0 or more")
    return o


def missing(python, packages):
    """Which of the packages that Python does not have."""
    code = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if not importlib.util.find_spec(n)))"
    return subprocess.run([python, "-c", code, *packages], check=True, capture_output=True, text=True).stdout.split()


def make_environment(build):
    """build/peers with every peer that can be installed; what is there is kept."""
    folder = os.path.join(build, "peers")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        say(f"making {os.path.relpath(folder)}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for name in missing(python, PACKAGES):
        say(f"installing {name}")
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name], stdout=sys.stderr)
        if done.returncode:
            say(f"{name} could not be installed: it is left out")
    return python


def build_shim(build):
    """The shared module, up to date."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, ROOT], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", build, "libclattn_peers.so"], check=True, stdout=sys.stderr)
    return os.path.join(os.path.abspath(build), "libclattn_peers.so")


def enter_environment(options):
    """Run this file again with the environment's Python, each runtime's thread count set before it is loaded."""
    python = options.python or make_environment(options.build)
    count = str(options.threads)
    threads = {name: count for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT",
                                        "CL_CONFIG_CPU_TBB_NUM_WORKERS")}
    environment = {**os.environ, **threads, INSIDE: build_shim(options.build)}
    return subprocess.run([python, os.path.abspath(__file__), *sys.argv[1:]], env=environment).returncode


def chosen(options):
    from peers_cases import CASES
    return [c for c in CASES if (c.quick or not options.quick) and any(part in c.title for part in options.cases)]


def write_whole(path, document):
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    os.replace(part, path)


def run_cases(options, clattn, peers):
    import peers_measure
    import peers_table
    rows = []
    for case in chosen(options):
        say(case.name)
        try:
            rows.append(peers_measure.measure(case, clattn, peers, options, say))
        except RuntimeError as why:
            rows.append({"case": case.name, "status": "fail", "wrong": ["clattn"], "message": str(why)})
        say("  " + peers_table.short(rows[-1]))
    return rows


def main():
    options = parse()
    if options.list:
        print("\n".join(c.title for c in chosen(options)))
        return 0
    if not chosen(options):
        say(f"peers.py: --cases {' '.join(options.cases)}: no such case: part of a name that --list prints is needed")
        return 2
    if INSIDE not in os.environ:
        return enter_environment(options)
    import peers_table
    from peers_clattn import Clattn
    from peers_runtimes import load
    load_before = os.getloadavg()[0]
    if load_before > 0.5:
        say(f"the machine is busy (load {load_before:.1f}): expect wide quartiles, and short cases with threads that spin to be off")
    # The device first: Intel's CPU runtime needs the newest TBB of the process, and OpenVINO takes the one that is loaded.
    shim = os.environ[INSIDE]
    clattn = Clattn(shim, options.device, os.path.join(os.path.dirname(shim), "peers-kernels"))
    peers = load(options.threads, say)
    rows = run_cases(options, clattn, peers)
    document = {"format_version": 1, "clattn": clattn.version, "device": clattn.device_name, "driver": clattn.driver,
                "platform": clattn.platform, "threads": options.threads, "load_before": load_before,
                "peers": {p.name: p.version for p in peers}, "rows": rows}
    print(peers_table.markdown(document))
    if options.json:
        write_whole(options.json, document)
    return 1 if any(row["status"] != "ok" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
