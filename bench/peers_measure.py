"""One case: verify all systems, then time them interleaved in rounds, and compare within a round.

A ratio is computed for each round, so that slowdowns of the whole machine cancel. The report has
median and quartiles over the rounds. A wrong result of any system fails the case.
"""
import gc
import time

import numpy as np

import peers_data
from peers_cases import Target

SETTLE_S = 0.01  # workers of libgomp and ONNX Runtime spin for milliseconds after a call
LONG_S, TURN_S = 0.05, 0.02
NMSE_LIMIT = {"f32": 1e-9, "f16": 1e-5, "bf16": 1e-4}


def once(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def turn(run):
    """The time of one call: of a single long call, or the median of several short ones after one
    that wakes the workers.
    """
    time.sleep(SETTLE_S)
    first = once(run)
    if first >= LONG_S:
        return first
    times, end = [], time.perf_counter() + TURN_S
    while len(times) < 3 or time.perf_counter() < end:
        times.append(once(run))
    return float(np.median(times))


def summary(values):
    low, median, high = (float(x) for x in np.percentile(values, (25, 50, 75)))
    return {"median": median, "q1": low, "q3": high}


def fastest(peer, case, data, say):
    """The peer's fastest way to run the case, or None."""
    best, best_time = None, 0
    for make in peer.ways(case, data):
        try:
            way = make()
            way.run()
            elapsed = min(once(way.run) for _ in range(2))
        except Exception as why:  # the version lacks the operator, the type or the shape
            say(f"  {peer.name}: {str(why).splitlines()[0][:150]}")
            continue
        if best is None or elapsed < best_time:
            best, best_time = way, elapsed
    return best


def errors(case, ways, expected):
    """{name: normalised mean squared error}, the larger of output and attention weights."""
    result = {}
    for name, way in ways.items():
        got = way.result()
        result[name] = max(peers_data.nmse(g, e) for g, e in zip(got, expected)) if len(got) == len(expected) else float("inf")
    return result


def rounds(ways, least_rounds, least_s):
    times, start = {name: [] for name in ways}, time.perf_counter()
    count = 0
    while count < least_rounds or time.perf_counter() - start < least_s:
        for name, way in ways.items():
            times[name].append(turn(way.run))
        count += 1
    return {name: np.array(t) for name, t in times.items()}


def verified(case, clattn, peers, data, ours, say):
    """(the row so far, the way of each system): each peer's fastest way, verified."""
    found = {peer.name: fastest(peer, case, data, say) for peer in peers}
    ways = {"clattn": ours, **{name: way for name, way in found.items() if way}}
    for _ in range(2):
        ours.run()
    expected = [x for x in peers_data.reference(case, data) if x is not None]
    nmse = errors(case, ways, expected)
    wrong = [name for name, e in nmse.items() if not e <= NMSE_LIMIT[case.dtype]]
    return describe(case, ways, nmse, wrong) | {"target": case.targets.get(clattn.kind, Target()).text()}, ways


def measure(case, clattn, peers, options, say):
    """The row of one case, as --json writes it."""
    data = peers_data.make(case)
    ours, limit, loads = clattn.way(case, data), clattn.limit(case), clattn.loads_limit(case)
    timed = {name: way for name, way in (("limit", limit[2]), ("loads", loads and loads[0])) if way}
    try:
        row, ways = verified(case, clattn, peers, data, ours, say)
        if not row["wrong"]:
            times = rounds({**ways, **timed}, options.rounds, options.seconds)
            row |= compare(case, times, limit, loads, case.targets.get(clattn.kind, Target()))
    finally:
        for way in (ours, *timed.values()):
            way.close()
        gc.collect()
    return row


def describe(case, ways, nmse, wrong):
    return {"case": case.name, "model": case.model, "op": case.op, "dtype": case.dtype, "b": case.b, "heads": case.heads,
        "kv_heads": case.kv_heads,
            "n": case.n, "n_kv": case.n_kv, "d": case.d, "causal": case.causal, "weights": case.weights,
            "status": "fail" if wrong else "ok", "wrong": wrong, "kernel": ways["clattn"].how,
            "how": {name: way.how for name, way in ways.items()}, "error_nmse": nmse}


def compare(case, times, limit, loads, target):
    """Compare all systems. `limit` is clattn.limit's result; `loads` is clattn.loads_limit's, or
    None.
    """
    ours, peers = times["clattn"], [name for name in times if name not in ("clattn", "limit", "loads")]
    limit_name, unit, limit_way, limit_work = limit
    work = case.kv_bytes if case.op == "decode" else case.flops
    ratios = {name: summary(times[name] / ours) for name in peers}
    best = min(peers, key=lambda name: float(np.median(times[name])), default=None)
    rate = limit_work / times["limit"] if limit_way else np.full(len(ours), limit_work)
    at_limit = work / rate
    percent = {"limit": summary(100 * at_limit / ours)}
    if loads:
        percent["loads"] = summary(100 * work * times["loads"] / loads[1] / ours)
    return {"rounds": len(ours), "unit": unit, "work": work,
            "time_ns": {name: summary(1e9 * times[name]) for name in ["clattn", *peers]},
            "rate": {name: summary(work / 1e9 / times[name]) for name in ["clattn", *peers]},
            "ratio": ratios, "ratio_at_limit": {name: summary(times[name] / at_limit) for name in peers},
            "best_peer": best, "limit": limit_name, "limit_rate": summary(rate / 1e9), "limit_percent": percent["limit"],
            "loads_rate": summary(loads[1] / 1e9 / times["loads"]) if loads else None, "loads_percent": percent.get("loads"),
            "met": met(target, ratios, best, percent)}


def met(target, ratios, best, percent):
    """True if the medians reach the target. None without a target, or if a necessary number was not
    measured.
    """
    checks = []
    for name, least in (("PyTorch", target.torch), ("OpenVINO", target.openvino), (best, target.best)):
        if least:
            checks.append(ratios[name]["median"] >= least if name in ratios else None)
    if target.limit:
        checks.append(percent[target.limit_of]["median"] >= target.limit if target.limit_of in percent else None)
    return False if False in checks else None if None in checks or not checks else True
