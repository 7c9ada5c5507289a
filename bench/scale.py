#!/usr/bin/env python3
"""The cost model of libclattn-mpi as a simulator: fitted to what `clattn bench --mpi --json` measured, then asked about machines that
are not here.

    mpirun -n 8 clattn bench --mpi --json ... >runs.json; bench/scale.py runs.json [more.json ...]
    bench/scale.py --flops 50e12                     without runs: a device of so many flop/s

A ring step takes the longer of computing a piece and of sending it; an all-to-all sends, computes, and sends back; a tree is the
allreduce of decode. Constants: flop/s of attention, bytes/s and latency of a link, seconds a call. Fitted are the first and the last by
least squares of the relative error, over a grid in powers; the link's are those that the runs measured.
"""
import argparse
import json
import math


def pairs(n, causal):
    return n * n / 2 if causal else n * n


def ring(m, ranks, n, heads, kv_heads, d, causal, size):
    """(seconds, share of the transfers that computing hides): rows balanced, one piece a rank."""
    compute = pairs(n, causal) * heads * 4 * d / m["flops"] / ranks
    calls = (1 if ranks == 1 else 2 * ranks) * (2 if causal and ranks > 1 else 1)
    step = compute / ranks + calls / ranks * m["call"]
    move = n / ranks * kv_heads * 2 * d * size / m["link"] + m["latency"] if ranks > 1 else 0
    seconds = step + sum(max(step, move) for _ in range(ranks - 1))
    return seconds, min(1, step / move) if move else 1


def all_to_all(m, ranks, n, heads, kv_heads, d, causal, size):
    compute = pairs(n, causal) * heads * 4 * d / m["flops"] / ranks + m["call"]
    rows = n / ranks * (2 * heads + 2 * kv_heads) * d * size * (ranks - 1) / ranks
    return compute + rows / m["link"] + 4 * (ranks - 1) * m["latency"], 0


def tree(m, ranks, n, heads, kv_heads, d, _causal, size):
    """Decode: reading the cache is the time, at m['read'] bytes/s, then 2 log2 P messages of out and lse."""
    read = n / ranks * kv_heads * 2 * d * size / m["read"] + m["call"]
    hops = 2 * math.ceil(math.log2(ranks)) if ranks > 1 else 0
    return read + hops * (m["latency"] + heads * (d + 1) * 4 / m["link"]), 0


def memory(ranks, n, heads, kv_heads, d, size, piece=32 << 20):
    """Bytes a device: rows of q, k, v, out; lse and a part of the result in float32; two pieces."""
    rows = n / ranks
    own = rows * (2 * heads + 2 * kv_heads) * d * size + rows * heads * (d + 2) * 4
    return own + 2 * min(piece, rows * kv_heads * 2 * d * size) * (ranks > 1)


def read_runs(paths):
    runs, decoder = [], json.JSONDecoder()
    for path in paths:
        text = open(path, encoding="utf-8").read().strip()
        while text:
            run, end = decoder.raw_decode(text)
            runs.append(run)
            text = text[end:].strip()
    return [r for r in runs if r["op"] == "attend" and r["way"] in ("ring", "all_to_all")]


def predict(m, r, cores):
    """Ranks that share cores compute at their share of them."""
    way = ring if r["way"] == "ring" else all_to_all
    shared = dict(m, flops=m["flops"] * min(1, cores / r["ranks"]), call=m["call"] * max(1, r["ranks"] / cores))
    size = 4 if r["dtype"] == "f32" else 2
    return way(shared, r["ranks"], r["n"], r["heads"], r["kv_heads"], r["d"], r["causal"], size)[0]


def fit(runs, cores):
    link = sorted(r["link_bytes_per_second"] for r in runs if r["link_bytes_per_second"] > 0)
    late = sorted(r["link_seconds"] for r in runs if r["link_bytes_per_second"] > 0)
    m = {"link": link[len(link) // 2] if link else 1e9, "latency": late[len(late) // 2] if late else 1e-5}
    one = max(r["n"] ** 2 for r in runs)
    guess = [pairs(r["n"], r["causal"]) * r["heads"] * 4 * r["d"] / (r["time_ns"] / 1e9) / min(r["ranks"], cores) for r in runs if r["n"] ** 2 == one]
    best = None
    for f in range(-30, 31):
        for c in range(0, 61):
            trial = dict(m, flops=max(guess) * 1.05**f, call=1e-6 * 1.25**c)
            error = sum(math.log(predict(trial, r, cores) / (r["time_ns"] / 1e9)) ** 2 for r in runs)
            if best is None or error < best[0]:
                best = (error, trial)
    return best[1]


def table(m, heads, kv_heads, d):
    print("\n| N | devices | link GB/s | ring s | efficiency | hidden | all-to-all s | GB a device | ring hides |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for n in (128 << 10, 1 << 20, 4 << 20, 16 << 20):
        for ranks in (8, 64, 256, 1024):
            for link in (25e9, 50e9, 400e9):
                here = dict(m, link=link)
                seconds, hidden = ring(here, ranks, n, heads, kv_heads, d, True, 2)
                one = ring(here, 1, n, heads, kv_heads, d, True, 2)[0]
                turned = all_to_all(here, ranks, n, heads, kv_heads, d, True, 2)[0] if kv_heads % ranks == 0 else math.inf
                held = memory(ranks, n, heads, kv_heads, d, 2)
                print(f"| {n >> 10} k | {ranks} | {link / 1e9:.0f} | {seconds:.4g} | {100 * one / ranks / seconds:.0f} % | {100 * hidden:.0f} % "
                      f"| {turned:.4g} | {held / 1e9:.2f} | {'yes' if hidden == 1 else 'no'} |")
    print("\nWhere the ring stops hiding its transfers: the fewest rows of a rank at which computing a piece takes as long as sending it.\n")
    for link in (25e9, 50e9, 400e9):
        # step of rows R: causal R^2 H 4 D / 2 / flops; move: R Hkv 2 D 2 / link
        rows = kv_heads * 2 * d * 2 / link * m["flops"] / (heads * 2 * d)
        print(f"- {link / 1e9:.0f} GB/s: {rows:.0f} rows a device")
    print("\nDecode of 1 M keys over a tree, 3 TB/s of a device's memory:\n")
    for ranks in (1, 8, 64, 1024):
        seconds = tree(dict(m, link=50e9, read=3e12), ranks, 1 << 20, heads, kv_heads, d, True, 2)[0]
        print(f"- {ranks} devices: {1e6 * seconds:.1f} us")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="*")
    p.add_argument("--cores", type=int, default=2, help="that the ranks of the runs share, one each")
    p.add_argument("--flops", type=float, default=200e12, help="of a device of the table, attention's own")
    p.add_argument("--call", type=float, default=10e-6, help="seconds of a small call there")
    p.add_argument("--latency", type=float, default=10e-6, help="seconds of a message there")
    p.add_argument("--heads", type=int, default=32)
    p.add_argument("--kv-heads", type=int, default=8)
    p.add_argument("-d", type=int, default=128)
    a = p.parse_args()
    runs = read_runs(a.runs)
    if runs:
        m = fit(runs, a.cores)
        print(f"fitted to {len(runs)} runs: {m['flops'] / 1e9:.1f} GFLOP/s a core, {1e6 * m['call']:.0f} us a call; "
              f"measured: {m['link'] / 1e9:.2f} GB/s, {1e6 * m['latency']:.0f} us a message\n")
        print("| way | ranks | N | D | causal | measured ms | model ms | error |\n|---|---:|---:|---:|---|---:|---:|---:|")
        errors = []
        for r in runs:
            ms, by = r["time_ns"] / 1e6, 1e3 * predict(m, r, a.cores)
            errors.append(abs(by / ms - 1))
            print(f"| {r['way']} | {r['ranks']} | {r['n']} | {r['d']} | {'yes' if r['causal'] else 'no'} | {ms:.1f} | {by:.1f} | {100 * (by / ms - 1):+.0f} % |")
        errors.sort()
        print(f"\nerror: median {100 * errors[len(errors) // 2]:.0f} %, largest {100 * errors[-1]:.0f} %")
    table({"flops": a.flops, "call": a.call, "latency": a.latency}, a.heads, a.kv_heads, a.d)


if __name__ == "__main__":
    main()
