#!/usr/bin/env python3
"""The cost model of libclattn-mpi as a simulator: fit it to runs of `clattn bench --mpi --json`,
then predict other machines.

    mpirun -n 8 clattn bench --mpi --json ... >runs.json; bench/scale.py runs.json [more.json ...]
    bench/scale.py --flops 50e12                     without runs: a device of this flop/s

A ring step needs the longer of the times to compute and to send a piece. An all-to-all sends,
computes and sends back. A tree is the allreduce of decode. The constants are flop/s of attention,
bytes/s and latency of a link, and seconds per launch.

The ranks of the runs share one machine's cores, so transfers are copies by the same cores and hide
nothing. A call then needs the work of all ranks divided by the cores. Four constants of a core are
fitted by least squares of the relative error: flop/s, seconds per launch, bytes/s of a copy, and
seconds of waiting per step. The second printed error is for runs outside the fit: each run is left
out once.
"""
import argparse
import json
import math


def pairs(n, causal):
    return n * n / 2 if causal else n * n


def launches(ranks, causal):
    """Launches of a rank whose rows are two chunks, merges included. Three pairs of chunks are
    visible in its own piece, two in any other.
    """
    return 4 * ranks if causal else 4 * ranks - 1


def ring(m, ranks, n, heads, kv_heads, d, causal, size):
    """(seconds, share of the transfers that computing hides) with balanced rows and one piece for
    each rank.
    """
    compute = pairs(n, causal) * heads * 4 * d / m["flops"] / ranks
    step = compute / ranks + launches(ranks, causal) / ranks * m["call"]
    move = n / ranks * kv_heads * 2 * d * size / m["link"] + m["latency"] if ranks > 1 else 0
    seconds = step + sum(max(step, move) for _ in range(ranks - 1))
    return seconds, min(1, step / move) if move else 1


def all_to_all(m, ranks, n, heads, kv_heads, d, causal, size):
    compute = pairs(n, causal) * heads * 4 * d / m["flops"] / ranks + m["call"]
    rows = n / ranks * (2 * heads + 2 * kv_heads) * d * size * (ranks - 1) / ranks
    return compute + rows / m["link"] + 4 * (ranks - 1) * m["latency"], 0


def tree(m, ranks, n, heads, kv_heads, d, _causal, size):
    """Seconds of decode: reading the cache at m['read'] bytes/s, then 2 log2 P messages of out and
    lse.
    """
    read = n / ranks * kv_heads * 2 * d * size / m["read"] + m["call"]
    hops = 2 * math.ceil(math.log2(ranks)) if ranks > 1 else 0
    return read + hops * (m["latency"] + heads * (d + 1) * 4 / m["link"]), 0


def memory(ranks, n, heads, kv_heads, d, size, piece=32 << 20):
    """Bytes on a device: rows of q, k, v and out; lse and a part of the result in float32; two
    pieces.
    """
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


# of each byte sent: from the device, to the device; all_to_all also copies to and from its place
COPIES = {"ring": 3, "all_to_all": 6}


def predict(m, r, cores):
    """Seconds of all ranks on one machine: the sum of their work, divided by the cores."""
    ranks, size = r["ranks"], 4 if r["dtype"] == "f32" else 2
    rows, width = r["n"] / ranks, r["d"] * size
    ring_bytes = rows * r["kv_heads"] * 2 * width * (ranks - 1)
    turned = rows * (2 * r["heads"] + 2 * r["kv_heads"]) * width * (ranks > 1)
    is_ring = r["way"] == "ring" or ranks == 1
    calls, steps = (launches(ranks, r["causal"]), ranks) if is_ring else (2, 2 * ranks)
    moved = COPIES["ring"] * ring_bytes if is_ring else COPIES["all_to_all"] * turned
    compute = pairs(r["n"], r["causal"]) * r["heads"] * 4 * r["d"] / m["flops"]
    each = calls * m["call"] + moved / m["copy"] + (steps * m["step"] if ranks > 1 else 0)
    return (compute + ranks * each) / min(ranks, cores)


def seconds_of(r):
    return r["time_ns"] / 1e9


def miss(m, runs, cores):
    return sum(math.log(predict(m, r, cores) / seconds_of(r)) ** 2 for r in runs)


def fit(runs, cores):
    """Fit the constants by coordinate descent. The steps are halved when none improves the error.
    """
    large = max(runs, key=lambda r: r["n"])
    rate = pairs(large["n"], large["causal"]) * large["heads"] * 4 * large["d"] / seconds_of(large) / min(large["ranks"], cores)
    m, step = {"flops": rate, "call": 5e-5, "copy": 4e9, "step": 2e-5}, 2.0
    least = miss(m, runs, cores)
    while step > 1e-3:
        better = False
        for name in m:
            for by in (math.exp(step), math.exp(-step)):
                trial = dict(m, **{name: min(max(m[name] * by, 1e-9), 1e15)})
                error = miss(trial, runs, cores)
                if error < least:
                    least, m, better = error, trial, True
        step = step if better else step / 2
    return m


def errors_of(m, runs, cores):
    return sorted(abs(predict(m, r, cores) / seconds_of(r) - 1) for r in runs)


def unseen(runs, cores):
    return sorted(errors_of(fit(runs[:n] + runs[n + 1 :], cores), [runs[n]], cores)[0] for n in range(len(runs)))


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
        # per step of R rows: causal compute R^2 H 4 D / 2 / flops; transfer R Hkv 2 D 2 / link
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
        print(f"fitted to {len(runs)} runs on {a.cores} cores, of one: {m['flops'] / 1e9:.1f} GFLOP/s, {1e6 * m['call']:.0f} us a launch, "
              f"copies at {m['copy'] / 1e9:.2f} GB/s, {1e6 * m['step']:.0f} us a step\n")
        print("| way | ranks | N | D | causal | measured ms | model ms | error |\n|---|---:|---:|---:|---|---:|---:|---:|")
        for r in runs:
            ms, by = 1e3 * seconds_of(r), 1e3 * predict(m, r, a.cores)
            print(f"| {r['way']} | {r['ranks']} | {r['n']} | {r['d']} | {'yes' if r['causal'] else 'no'} | {ms:.1f} | {by:.1f} | {100 * (by / ms - 1):+.0f} % |")
        seen, left = errors_of(m, runs, a.cores), unseen(runs, a.cores)
        print(f"\nerror: median {100 * seen[len(seen) // 2]:.0f} %, largest {100 * seen[-1]:.0f} %; "
              f"of runs left out: median {100 * left[len(left) // 2]:.0f} %, largest {100 * left[-1]:.0f} %")
    table({"flops": a.flops, "call": a.call, "latency": a.latency}, a.heads, a.kv_heads, a.d)


if __name__ == "__main__":
    main()
