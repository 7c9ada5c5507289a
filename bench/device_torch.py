#!/usr/bin/env python3
"""Run the cases of device.py on PyTorch's own kernels on the same device, and print one JSON
object.

    device_torch.py ASKED.json

scaled_dot_product_attention runs with each backend that torch.nn.attention.sdpa_kernel can force.
Projections run as torch.nn.functional.linear. A backend that does not support a case reports why,
which is no failure. Both libraries have the same sizes and types but different numbers: device.py
verifies clattn's results, and PyTorch's are only timed.
"""
import json
import statistics
import sys
import time

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def say(result):
    print(json.dumps(result))
    sys.exit(0)


def likeness(name, architecture, asked):
    """How well a device of PyTorch matches the requested one; 0: no match. Words with a digit
    distinguish chips of one maker.
    """
    if name == asked or (architecture and architecture == asked.split(":")[0]):
        return 100
    return len({w for w in set(name.lower().split()) & set(asked.lower().split()) if any(c.isdigit() for c in w)})


def find_device(torch, asked):
    """PyTorch's device of that name as (device, its name), or None for a graphics card that PyTorch
    does not support.
    """
    if asked["type"] == "cpu":
        return torch.device("cpu"), "the host's CPU"
    best = (0, None, "")
    for kind in "cuda", "xpu":
        part = getattr(torch, kind, None)
        if not part or not part.is_available():
            continue
        for i in range(part.device_count()):
            name = part.get_device_name(i)
            architecture = getattr(part.get_device_properties(i), "gcnArchName", "").split(":")[0]
            like = likeness(name, architecture, asked["device"])
            if like > best[0]:
                best = (like, torch.device(kind, i), name)
    return best[1:] if best[0] else None


class Timer:
    """Times of a call in nanoseconds, by device events or by the clock on a CPU."""

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        self.part = None if device.type == "cpu" else getattr(torch, device.type)

    def once(self, call):
        if not self.part:
            start = time.perf_counter_ns()
            call()
            return time.perf_counter_ns() - start
        a, b = self.part.Event(enable_timing=True), self.part.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        self.part.synchronize()
        return a.elapsed_time(b) * 1e6

    def many(self, call, most_ms):
        """At least five runs, after two that are not counted."""
        for _ in range(2):
            self.once(call)
        times, end = [], time.perf_counter() + most_ms / 1e3
        while len(times) < 5 or time.perf_counter() < end:
            times.append(self.once(call))
        return {"time_ns": statistics.median(times), "time_ns_min": min(times), "rounds": len(times)}


def attention_call(torch, row, dtype, device):
    """The call of a case. PyTorch's causal mask is top-left and clattn's bottom-right: equal for as
    many rows as keys.
    """
    def make(heads, n, d):
        return torch.randn(row["b"], heads, n, d, dtype=dtype, device=device)

    q, k = make(row["heads"], row["n"], row["d"]), make(row["kv_heads"], row["n_kv"], row["d"])
    v = make(row["kv_heads"], row["n_kv"], row["dv"])
    causal = row["causal"] and row["n"] > 1
    grouped = {"enable_gqa": True} if row["heads"] != row["kv_heads"] else {}
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)


def ways_of(torch, row, dtype, device):
    """Tuples (name, context, call) of the ways to run a row."""
    import contextlib

    if row["op"] == "linear":
        width = row.get("d_model") or row["heads"] * row["d"]
        x = torch.randn(row["b"] * row["n"], width, dtype=dtype, device=device)
        w = torch.randn(row["heads"] * row["d"], width, dtype=dtype, device=device)
        yield "linear", contextlib.nullcontext(), lambda: torch.nn.functional.linear(x, w)
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    call = attention_call(torch, row, dtype, device)
    yield "default", contextlib.nullcontext(), call
    for name in BACKENDS:
        if hasattr(SDPBackend, name):
            yield name.lower(), sdpa_kernel(getattr(SDPBackend, name)), call


def measure(torch, row, device, timer, most_ms):
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[row["dtype"]]
    for name, context, call in ways_of(torch, row, dtype, device):
        result = {"case": row["case"], "way": name, "status": "ok", "why": ""}
        try:
            with torch.inference_mode(), context:
                result.update(timer.many(call, most_ms))
            result["ratio"] = result["time_ns"] / row["time_ns"]
        except Exception as why:  # the backend does not support this case, type or device
            result.update(status="unsupported", why=str(why).splitlines()[0][:200] if str(why) else type(why).__name__)
        yield result


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        asked = json.load(f)
    try:
        import warnings

        import torch
    except ImportError as why:
        say({"status": "absent", "why": f"no PyTorch: {why}", "rows": []})
    warnings.filterwarnings("ignore")
    found = find_device(torch, asked)
    if not found:
        say({"status": "absent", "why": f"PyTorch {torch.__version__} has no such device", "rows": []})
    device, name = found
    # Full float32 products, as in clattn.
    torch.backends.cuda.matmul.allow_tf32 = False
    timer, rows, end = Timer(torch, device), [], time.monotonic() + asked["seconds"]
    status, why = "ok", ""
    for row in asked["rows"]:
        if row["status"] != "ok" or row.get("baseline"):
            continue
        if time.monotonic() > end:
            status, why = "unfinished", "the time was not enough"
            break
        rows += measure(torch, row, device, timer, asked["max_ms"])
    say({"status": status, "why": why, "version": torch.__version__, "device": name, "rows": rows})


if __name__ == "__main__":
    main()
