"""Format the rows of bench/peers.py as a Markdown table, one row for each case."""

PEERS = ("PyTorch", "ONNX Runtime", "OpenVINO")
HEAD = ("case", "clattn ms", "rate", "of limit", "of FMA with loads", *(f"x {name}" for name in PEERS), "target", "met", "error (NMSE)")


def spread(s, digits=2):
    return f"{s['median']:.{digits}f} ({s['q1']:.{digits}f}-{s['q3']:.{digits}f})"


def millis(s):
    return spread({key: value / 1e6 for key, value in s.items()}, 3 if s["median"] < 1e7 else 1)


def failure(row):
    limit = row.get("message") or "; ".join(f"{name} {row['error_nmse'][name]:.1e}" for name in row["wrong"])
    return f"FAIL: {limit}"


def ratio(row, name):
    if name not in row["ratio"]:
        return "-"
    text = f"{spread(row['ratio'][name])} of {row['ratio_at_limit'][name]['median']:.2f}"
    variants = [other for other in row["ratio"] if other.startswith(name + ", ")]
    return "; ".join([text] + [f"{other[len(name) + 2:]} {ratio(row, other)}" for other in variants])


def title(row):
    return f"{row['case']} ({row['model']})" if row.get("model") else row["case"]


def cells(row):
    if row["status"] != "ok":
        return [title(row), failure(row)] + [""] * (len(HEAD) - 2)
    ratios = [ratio(row, name) for name in PEERS]
    return [title(row), millis(row["time_ns"]["clattn"]), f"{row['rate']['clattn']['median']:.0f} {row['unit']}",
            f"{spread(row['limit_percent'], 0)} % of {row['limit']}",
            f"{spread(row['loads_percent'], 0)} %" if row.get("loads_percent") else "-", *ratios, row["target"],
            {True: "yes", False: "no", None: "-"}[row["met"]], f"{row['error_nmse']['clattn']:.1e}"]


def short(row):
    """One line of progress for a finished row."""
    if row["status"] != "ok":
        return failure(row)
    ratios = ", ".join(f"{r['median']:.2f}x {name} ({row['how'][name]})" for name, r in row["ratio"].items())
    return f"{row['kernel']}: {ratios}; {row['limit_percent']['median']:.0f} % of {row['limit']}; {row['rounds']} rounds"


def limits(rows):
    """Median and range of each limit over the rows that measured it."""
    found = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault((row["limit"], row["unit"]), []).append(row["limit_rate"]["median"])
            if row.get("loads_rate"):
                found.setdefault(("FMA with its loads", "GFLOP/s"), []).append(row["loads_rate"]["median"])
    return "; ".join(f"{name} {min(v):.0f}-{max(v):.0f} {unit}" for (name, unit), v in found.items())


def machine(document):
    """Two sentences: the machine, and the rates of its engines."""
    m, engines = document["machine"], document["engines"]
    rates = "; ".join(f"{name} {rate:.0f} GFLOP/s" if rate else f"no {name}" for name,
        rate in engines.items() if not name.startswith(("sub-groups", "kernels", "tiles")))
    return [f"Machine: {m['cpu']}, family {m['family']}, model {m['model']}; {m['cpus']} CPUs; {' '.join(m['flags'])}.",
            f"Engines of one work-item, by clattn's probes in this run: {rates}. Targets are those of a CPU of kind {document['kind']}."]


def markdown(document):
    peers = ", ".join(f"{name} {version}" for name, version in document["peers"].items() if "," not in name)
    lines = [f"clattn {document['clattn']} on {document['device']} ({document['platform']}, {document['driver']}), "
             f"{document['threads']} threads each; {peers}.",
             *machine(document), f"Limits measured between the calls: {limits(document['rows'])}.",
             "Ratios are peer's time / clattn's, per round: median (quartiles), of what a program at 100 % of the limit would reach.", "",
             "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in document["rows"]]
    return "\n".join(lines)
