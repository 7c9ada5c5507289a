#!/usr/bin/env python3
"""Write bench/results/index.html, the page of all measured machines, from files in bench/results
that `clattn report` can read.

    python3 bench/results_page.py build/clattn

Files of `clattn bench --save` and `--submit` are used unchanged. From files of bench/device.sh the
bench of each device is used. From files of bench/peers.py clattn's rows are used, with medians of
the limits measured beside them. They lack a layer's bytes, so layers are only in the table.
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


def case_of(r):
    """The case's name. Rows of earlier files have descriptive names; for plain attention the
    current name is built.
    """
    if " " not in r["case"] or r["op"] not in ("attend", "decode") or r["weights"]:
        return r["case"]
    keys = f"-hkv{r['kv_heads']}" if r["kv_heads"] != r["heads"] else ""
    rows = f"-n{r['n']}" + (f"-nkv{r['n_kv']}" if r["n_kv"] != r["n"] else "")
    return f"{r['op']}-{r['dtype']}-b{r['b']}-h{r['heads']}{keys}{rows}-d{r['d']}-{'causal' if r['causal'] else 'full'}"


def of_peers(file):
    """Rows of a peers file. The device's limits are float32 multiply-adds and reading the largest
    buffer; each row has its own limit.
    """
    def limit(word):
        found = [(float("".join(filter(str.isdigit, r["limit"]))), r["limit_rate"]["median"]) for r in file["rows"] if word in r["limit"]]
        largest = max((size for size, _ in found), default=0)
        return statistics.median(rate for size, rate in found if size == largest) if found else None

    fma, read = limit("FMA"), limit("read")
    rows = []
    for r in file["rows"]:
        time, decode = r["time_ns"]["clattn"], r["op"] == "decode"
        pairs = r["b"] * r["heads"] * r["n"] * r["n_kv"]
        gflops = 4 * pairs * r["d"] / time["median"] if decode else r["work"] / time["median"]
        tensors = 2 * r["b"] * r["d"] * (r["heads"] * r["n"] + r["kv_heads"] * r["n_kv"]) * BYTES[r["dtype"]]
        gbytes = r["work"] / time["median"] if decode else tensors / time["median"] if r["op"] == "attend" else None
        rows.append({"case": case_of(r), "op": r["op"], "dtype": r["dtype"], "device": file["device"], "kernel": r["kernel"],
                     "status": r["status"], "why": "", "time_ns": round(time["median"]), "time_ns_spread": round(time["q3"] - time["q1"]),
                     "gflops": gflops, "gbytes_per_s": gbytes, "limit_percent": r["limit_percent"]["median"],
                     "limit_name": r["limit"], "limit": r["limit_rate"]["median"], "limit_unit": r["unit"],
                     "error_nmse": r["error_nmse"]["clattn"], "device_index": 0})
    device = {"device": file["device"], "driver": file["driver"], "platform": file["platform"], "compute_units": file["threads"],
              "type": "cpu", "fma_gflops": fma, "read_gbytes_per_s": read}
    return {"format_version": 1, "clattn": file["clattn"], "devices": [device], "rows": rows}


def of_device(file):
    found = [d for d in file["devices"] if d.get("bench", {}).get("limits")]
    rows = [{**r, "device_index": n} for n, d in enumerate(found) for r in d["bench"]["rows"]]
    devices = [{**{key: x for key, x in d.items() if not isinstance(x, (dict, list))}, **d["bench"]["limits"]} for d in found]
    return {"format_version": 1, "clattn": file["clattn"], "devices": devices, "rows": rows}


def main():
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for path in sorted(glob.glob(os.path.join(HERE, "*.json"))):
            with open(path, encoding="utf-8") as f:
                file = json.load(f)
            table = of_peers(file) if "peers" in file else of_device(file) if "quick" in file else file
            names.append(os.path.basename(path))
            with open(os.path.join(folder, names[-1]), "w", encoding="utf-8") as f:
                json.dump(table, f)
        done = subprocess.run([os.path.abspath(sys.argv[1]), "report", *names, "--title", "clattn on the machines that were met", "--out",
                               os.path.join(HERE, "index.html")], cwd=folder, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
