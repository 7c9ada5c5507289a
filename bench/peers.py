#!/usr/bin/env python3
"""Compare clattn with PyTorch, ONNX Runtime and OpenVINO on this machine's CPU, on the same arrays,
in one run.

    python3 bench/peers.py
    python3 bench/peers.py --quick --json peers.json
    python3 bench/peers.py --cases bf16 GPT-2 --device pthread
    python3 bench/peers.py --cases layer --json all.json --resume    # a part of a long run

The first run creates an environment with the peers (build/peers, some gigabytes from PyPI; --python
uses an existing one) and builds clattn in build/. Every result is verified against float64 before
timing, and every ratio is printed with its quartiles. Exit status: 0 measured, 1 a result was wrong
or a run failed, 2 the request was wrong. A missed target is no failure.
"""
import argparse
import json
import os
import platform
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGES = ("numpy", "torch", "onnx", "onnxruntime", "openvino")
INSIDE = "CLATTN_PEERS_INSIDE"  # set while the environment's own Python runs this file


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", nargs="+", default=[""], metavar="PART", help="only the cases whose name has a PART")
    p.add_argument("--quick", action="store_true", help="fewer cases and rounds: a minute or two")
    p.add_argument("--list", action="store_true", help="print the cases' names")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of everyone; default: the number of cores")
    p.add_argument("--device", help="an OpenCL device by number or part of a name; default: the first CPU")
    p.add_argument("--avx2", action="store_true", help="tell Intel's OpenCL runtime, PyTorch and OpenVINO to use AVX2 and nothing newer; "
                   "other OpenCL devices and ONNX Runtime cannot be told")
    p.add_argument("--sse", action="store_true", help="the same with SSE 4.2: vectors of four floats")
    p.add_argument("--rounds", type=int, help="at least this many rounds a case; default 11, with --quick 5")
    p.add_argument("--seconds", type=float, help="and at least this long a case; default 3, with --quick 1")
    p.add_argument("--json", metavar="FILE", help="write everything measured to FILE")
    p.add_argument("--resume", action="store_true",
        help="keep the rows that --json's FILE has, and write it after each case: a run in pieces")
    p.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR", help="the build folder; default: build/")
    p.add_argument("--python", help="a Python that has the peers, instead of an environment in build/peers")
    o = p.parse_args()
    o.rounds = o.rounds if o.rounds is not None else (5 if o.quick else 11)
    o.seconds = o.seconds if o.seconds is not None else (1 if o.quick else 3)
    if o.resume and not o.json:
        p.error("--resume needs --json")
    if o.avx2 and o.sse:
        p.error("--avx2 or --sse, not both")
    if o.threads < 1 or o.rounds < 1 or o.seconds < 0:
        p.error("--threads and --rounds must be 1 or more, --seconds 0 or more")
    return o


def missing(python, packages):
    """The packages that this Python does not have."""
    code = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if not importlib.util.find_spec(n)))"
    return subprocess.run([python, "-c", code, *packages], check=True, capture_output=True, text=True).stdout.split()


def make_environment(build):
    """Create build/peers with every peer that can be installed. Existing packages stay."""
    folder = os.path.join(build, "peers")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        say(f"making {os.path.relpath(folder)}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    wanted = missing(python, PACKAGES)
    if wanted:
        say(f"installing {' '.join(wanted)}")
        files = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "requirements", "peers.txt")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary",
            ":all:", "-r", files],
                       stdout=sys.stderr)
        for name in missing(python, PACKAGES):
            say(f"{name} could not be installed: it is left out")
    return python


def build_shim(build):
    """Build the shared module if it is out of date."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, ROOT], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", build, "libclattn_peers.so"], check=True, stdout=sys.stderr)
    return os.path.join(os.path.abspath(build), "libclattn_peers.so")


def enter_environment(options):
    """Run this file again with the environment's Python. Sets each runtime's thread count before
    the runtime is loaded.
    """
    python = options.python or make_environment(options.build)
    count = str(options.threads)
    threads = {name: count for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT",
                                        "CL_CONFIG_CPU_TBB_NUM_WORKERS")}
    # Pin PoCL's workers to cores. PoCL aborts if the system refuses this.
    if owns_every_cpu():
        threads.setdefault("POCL_AFFINITY", "1")
    if options.avx2:  # for Intel's OpenCL runtime, PyTorch, oneDNN in PyTorch, and OpenVINO
        threads |= {"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
                    "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    if options.sse:
        threads |= {"CL_CONFIG_CPU_TARGET_ARCH": "corei7", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
                    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    environment = {**threads, **os.environ, **{k: v for k, v in threads.items() if k != "POCL_AFFINITY"}, INSIDE: build_shim(options.build)}
    return subprocess.run([python, os.path.abspath(__file__), *sys.argv[1:]], env=environment).returncode


def owns_every_cpu():
    return os.sched_getaffinity(0) == set(range(os.cpu_count()))


# Flags in /proc/cpuinfo of instructions that a vector or matrix kernel may use.
VECTOR_FLAGS = ("sse4_2", "f16c", "fma", "avx", "amx", "asimd", "fphp", "bf16", "i8mm", "sve")


def machine():
    """The processor as the system names it, and its vector instructions."""
    found = {}
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    flags = (found.get("flags") or found.get("Features", "")).split()
    return {"cpu": found.get("model name") or found.get("CPU part", "unknown"),
        "family": found.get("cpu family", found.get("CPU implementer", "-")),
            "model": found.get("model", found.get("CPU part", "-")), "cpus": os.cpu_count(), "system": platform.release(),
            "flags": [f for f in flags if f.startswith(VECTOR_FLAGS)]}


def chosen(options):
    from peers_cases import CASES
    return [c for c in CASES if (c.quick or not options.quick) and any(part in c.title for part in options.cases)]


def write_whole(path, document):
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    os.replace(part, path)


def run_cases(options, clattn, peers, document):
    """Fill document["rows"] in the order of the cases."""
    import peers_measure
    import peers_table
    kept = {row["case"]: row for row in document["rows"]}
    for case in chosen(options):
        if case.name in kept:
            continue
        say(case.name)
        try:
            kept[case.name] = peers_measure.measure(case, clattn, peers, options, say)
        except RuntimeError as why:
            kept[case.name] = {"case": case.name, "status": "fail", "wrong": ["clattn"], "message": str(why)}
        say("  " + peers_table.short(kept[case.name]))
        document["rows"] = in_order(kept)
        if options.resume:
            write_whole(options.json, document)


def in_order(rows):
    from peers_cases import CASES
    return [rows[c.name] for c in CASES if c.name in rows]


def earlier_rows(options, document):
    """The rows of an earlier part of the same run on the same machine."""
    if not options.resume or not os.path.exists(options.json):
        return []
    with open(options.json, encoding="utf-8") as f:
        old = json.load(f)
    differs = [key for key in ("device", "driver", "machine", "threads", "peers", "avx2") if old[key] != document[key]]
    if old.get("sse", False) != document["sse"]:
        differs.append("sse")
    if differs:
        raise SystemExit(f"peers.py: {options.json}: is another run's: its {', '.join(differs)} differ")
    return old["rows"]


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
    # Load the device first: Intel's CPU runtime needs the newest TBB in the process, and OpenVINO
    # uses the one that is loaded.
    shim = os.environ[INSIDE]
    # OpenCL does not report the instruction set of compiled code, so each set has a cache of its
    # own.
    told = "-avx2" if options.avx2 else "-sse" if options.sse else ""
    clattn = Clattn(shim, options.device, os.path.join(os.path.dirname(shim), "peers-kernels" + told))
    peers = load(options.threads, say)
    document = {"format_version": 2, "clattn": clattn.version, "device": clattn.device_name, "driver": clattn.driver,
                "platform": clattn.platform, "machine": machine(), "engines": clattn.engines, "kind": clattn.kind, "avx2": options.avx2,
                    "sse": options.sse,
                "threads": options.threads, "load_before": load_before, "peers": {p.name: p.version for p in peers}, "rows": []}
    document["rows"] = earlier_rows(options, document)
    run_cases(options, clattn, peers, document)
    print(peers_table.markdown(document))
    if options.json:
        write_whole(options.json, document)
    return 1 if any(row["status"] != "ok" for row in document["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
