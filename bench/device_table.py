"""Format the report of device.py as a Markdown page."""


def time_text(ns):
    if ns is None:
        return ""
    return f"{ns / 1e6:.3f} ms" if ns >= 1e5 else f"{ns / 1e3:.1f} us"


def rate_text(row):
    bound = row["gbytes_per_s"] if row["list"] == "decode" or (row["list"] == "projections" and row["n"] <= 16) else None
    return f"{bound:.0f} GB/s" if bound else f"{row['gflops']:.0f} GFLOP/s"


def peers_of(found):
    """{case: {way: its time divided by clattn's time}}"""
    result = {}
    for row in found["rows"]:
        if row["status"] == "ok":
            result.setdefault(row["case"], {})[row["way"]] = row["ratio"]
    return result


def peer_text(ways):
    """The time of each PyTorch way divided by clattn's; above 1, clattn is faster."""
    return ", ".join(f"{name.removesuffix('_attention')} {ratio:.2f}" for name, ratio in sorted(ways.items(), key=lambda x: x[1]))


def verify_lines(found):
    yield f"- verify: **{found['status']}**, {found['pass']} pass, {found['fail']} fail, {found['unsupported']} unsupported ({found['seconds']} s)"
    if found["why"]:
        yield f"  - {found['why']}"
    if len(found["families"]) > 1:
        yield "  - " + "; ".join(f"{name}: {text}" for name, text in found["families"].items())
    for line in found["failures"][:40]:
        yield f"  - failed: {line}"


def suite_lines(found):
    words = ", ".join(f"{s['name']} {s['checks'] - s['failures']}/{s['checks']}" if s["checks"] else f"{s['name']} {s['status']}"
                      for s in found["suites"])
    yield f"- suites: **{found['status']}** {found['why']}{words}"


def bench_lines(device):
    found, limits = device["bench"], device["bench"]["limits"]
    yield f"- bench: **{found['status']}** {found['why']}"
    if limits:
        yield f"- limits measured: {limits['fma_gflops']:.0f} GFLOP/s of float32 multiply-adds, {limits['read_gbytes_per_s']:.0f} GB/s read"
    torch = device["torch"]
    yield f"- PyTorch: **{torch['status']}** {torch.get('version', '')} {torch.get('device', '')} {torch['why']}".rstrip()
    if not found["rows"]:
        return
    peers = peers_of(torch)
    yield ""
    yield "| case | kernel | time | spread | rate | of limit | error (NMSE) | PyTorch's time / clattn's |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    for row in found["rows"]:
        if row["status"] != "ok":
            yield f"| {row['case']} | {row['kernel']} | {row['status']}: {row['why']} | | | | | |"
            continue
        # time_ns_spread is in nanoseconds; show it as a share of the median
        yield (f"| {row['case']} | {row['kernel']} | {time_text(row['time_ns'])} | {spread_text(row)} | {rate_text(row)} | "
               f"{row['limit_percent']:.0f} % | {row['error_nmse']:.1e} | {peer_text(peers.get(row['case'], {}))} |")


def spread_text(row):
    return f"{100 * row['time_ns_spread'] / row['time_ns']:.0f} %" if row["time_ns"] else ""


def markdown(report):
    lines = ["# Devices measured" + (", small cases" if report["quick"] else ""), "",
             f"`sh bench/device.sh`, clattn {report['clattn']}, {report['date']}, {report['seconds']} s: **{report['status']}**"]
    for d in report["devices"]:
        lines += ["", f"## {d['device']}", "",
                  f"- {d['type']}, {d['vendor']}, driver {d['driver']}, {d['version']}; {d['platform']}",
                  f"- {d['compute_units']} compute units, {d['local_bytes']} bytes of local memory, work-groups of {d['max_work_group']}, "
                  f"{d['memory_bytes'] / 2**30:.1f} GiB", *verify_lines(d["verify"]), *suite_lines(d["suites"]), *bench_lines(d)]
    return "\n".join(lines) + "\n"
