#!/usr/bin/env python3
"""The cases of device.py by PyTorch's own kernels, on the same device: prints one JSON object.

    device_torch.py ASKED.json

scaled_dot_product_attention runs by each backend that torch.nn.attention.sdpa_kernel can force; projections are
torch.nn.functional.linear. A backend that a case is not for says why, and is no failure. The two libraries see the same
sizes and types, not the same numbers: device.py's side was verified, this side is only timed.
"""
import json
import statistics
import sys
import time

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def say(result):
    print(json.dumps(result))
    sys.exit(0)


def find_device(torch, asked):
    """PyTorch's device of that name, (device, its name), or None: a graphics card that PyTorch does not have."""
    if asked["type"] == "cpu":
        return torch.device("cpu"), "the host's CPU"
    for kind in "cuda", "xpu":
        part = getattr(torch, kind, None)
        if not part or not part.is_available():
            continue
        for i in range(part.device_count()):
            name = part.get_device_name(i)
            words = set(name.lower().split()) & set(asked["device"].lower().split())
            architecture = getattr(part.get_device_properties(i), "gcnArchName", "").split(":")[0]
            if words - {"nvidia", "amd", "intel(r)", "graphics"} or (architecture and architecture == asked["device"].split(":")[0]):
                return torch.device(kind, i), name
    return None


class Timer:
    """Times of a call in nanoseconds: by the device's events, or by the clock on a CPU."""

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
        """Five runs at least, after two that are not counted."""
        for _ in range(2):
            self.once(call)
        times, end = [], time.perf_counter() + most_ms / 1e3
        while len(times) < 5 or time.perf_counter() < end:
            times.append(self.once(call))
        return {"time_ns": statistics.median(times), "time_ns_min": min(times), "rounds": len(times)}


def attention_call(torch, row, dtype, device):
    """The mask of a causal case is top-left here and bottom-right there: the same for as many rows as keys."""
    def make(heads, n, d):
        return torch.randn(row["b"], heads, n, d, dtype=dtype, device=device)

    q, k = make(row["heads"], row["n"], row["d"]), make(row["kv_heads"], row["n_kv"], row["d"])
    v = make(row["kv_heads"], row["n_kv"], row["dv"])
    causal = row["causal"] and row["n"] > 1
    grouped = {"enable_gqa": True} if row["heads"] != row["kv_heads"] else {}
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)


def ways_of(torch, row, dtype, device):
    """(name, context, call)"""
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
        except Exception as why:  # a backend that is not for this case, type or device
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
    # float32 products in full, as clattn's are.
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
