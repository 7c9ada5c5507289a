"""A model of the run time of flash_fragments on absent devices, from its compiled code and the
vendors' published figures. Nothing here was run except the entries of MEASURED.

The code is searched for a warp's work for a tile of keys: multiply-adds of the engine,
exponentials, other instructions, local memory, bank conflicts, and bytes from the cache.
Each kind of work costs cycles of its own unit. A warp waits for its units one after another, while
the other warps of its scheduler use other units. With n warps a tile costs

    the busiest unit's cycles + those of all others / n

No rate is fitted to a measured time, but the form of the sum was chosen with these times known.
FlashAttention-3, whose warps multiply one tile during the softmax of another, counts n twice. The
function faults() compares the model with measured times, and offline.py prints the error with the
results.
"""
import math
import os
import re
from collections import Counter, namedtuple

from offline_loops import AMD, INTEL, SASS, all_spans

# Rates are per clock. A unit is a multiprocessor, a CU or a Xe core.
#
#     flops        of a unit's engine; a multiply-add is two
#     of_sync      share of flops that instructions reach if a warp waits for each
#     cycles       of a warp's instruction on its pipe, by class; None: the common pipe
#     registers    32-bit registers per lane of a scheduler, allocated in steps
#     local_bytes  of a unit; extra: additional bytes of each group
Device = namedtuple("Device", "name units clock schedulers lanes flops of_sync cycles local cache memory registers step local_bytes extra "
                    "warps source")
NVIDIA_8_0 = {"exp": ("exp", 8), "float": ("float", 2), "alu": ("alu", 2), "issue": 1}
NVIDIA_9_0 = {"exp": ("exp", 8), "float": ("float", 1), "alu": ("alu", 2), "issue": 1}
CDNA = {"exp": ("vector", 16), "float": ("vector", 4), "alu": ("vector", 4), "issue": 1}
RDNA = {"exp": ("exp", 4), "float": ("vector", 1), "alu": ("vector", 1), "issue": 1}
XE = {"exp": ("exp", 4), "float": ("vector", 1), "alu": ("vector", 1), "issue": 1}
GUIDE = "CUDA C++ Programming Guide, throughput of native arithmetic instructions, and 32 banks of 4 bytes"
H100 = ("NVIDIA H100 Tensor Core GPU Architecture: 132 multiprocessors, 989.4 TFLOP/s of f16, 228 KiB of shared memory, 3.35 TB/s; the "
        "clock is what gives 4096 FLOP a multiprocessor; cache as the A100's; " + GUIDE)
DEVICES = {
    "sm_80": Device("A100 SXM 80 GB", 108, 1.41e9, 4, 32, 2048, 1.0, NVIDIA_8_0, 128, 47, 2039e9, 512, 8, 164 << 10, 1 << 10, 16,
                    "NVIDIA A100 Tensor Core GPU Architecture: 108 multiprocessors, 1410 MHz, 312 TFLOP/s of f16, 164 KiB of shared memory, "
                    "5120 bytes a clock of the L2 cache; " + GUIDE),
    "sm_90": Device("H100 SXM", 132, 1.83e9, 4, 32, 4096, 0.63, NVIDIA_9_0, 128, 39, 3350e9, 512, 8, 228 << 10, 1 << 10, 16,
                    H100 + "; mma.sync reaches 616 to 634 TFLOP/s: 2026-11-26-nvidia-h100.md"),
    "sm_90a": Device("H100 SXM", 132, 1.83e9, 4, 32, 4096, 1.0, NVIDIA_9_0, 128, 39, 3350e9, 512, 8, 228 << 10, 1 << 10, 16, H100),
    "sm_120": Device("RTX 5090", 170, 2.407e9, 4, 32, 512, 1.0, NVIDIA_9_0, 128, 30, 1792e9, 512, 8, 100 << 10, 1 << 10, 12,
                     "NVIDIA RTX Blackwell GPU Architecture: 170 multiprocessors, 2407 MHz, 209.5 TFLOP/s of f16 with sums of f32, 1792 GB/s; "
                     "cache assumed; " + GUIDE),
    "gfx90a": Device("MI250X, one of two", 110, 1.7e9, 4, 64, 1024, 1.0, CDNA, 128, 64, 1638e9, 512, 8, 64 << 10, 0, 8,
                     "AMD CDNA 2 white paper: 220 CUs, 1700 MHz, 383 TFLOP/s of f16, 3.2 TB/s; L2 128 bytes a clock a channel"),
    "gfx942": Device("MI300X", 304, 2.1e9, 4, 64, 2048, 1.0, CDNA, 128, 64, 5300e9, 512, 8, 64 << 10, 0, 8,
                     "AMD CDNA 3 white paper: 304 CUs, 2100 MHz, 1307.4 TFLOP/s of f16, 64 KiB and 128 bytes a clock of LDS, 64 bytes a "
                     "clock a CU of the vector cache, 5.3 TB/s; CDNA 3 ISA: a wave's vector instruction takes 4 clocks, an exponential 16"),
    "gfx1100": Device("RX 7900 XTX", 96, 2.5e9, 2, 32, 512, 1.0, RDNA, 128, 64, 960e9, 1536, 24, 64 << 10, 0, 16,
                      "AMD RDNA 3: 96 CUs, 2500 MHz, 122.8 TFLOP/s of f16, 960 GB/s; RDNA 3 ISA: 1536 registers of a SIMD, a quarter of the "
                      "rate for exponentials, 128 KiB of LDS for two CUs"),
    "gfx1201": Device("RX 9070 XT", 64, 2.97e9, 2, 32, 1024, 1.0, RDNA, 128, 64, 640e9, 1536, 24, 64 << 10, 0, 16,
                      "AMD RDNA 4: 64 CUs, 2970 MHz, 195 TFLOP/s of f16, 640 GB/s; the rest as RDNA 3"),
    "dg2": Device("Arc A770", 32, 2.1e9, 16, 8, 2048, 1.0, XE, 128, 64, 560e9, 1024, 256, 64 << 10, 0, 4,
                  "Intel Arc A770: 32 Xe cores of 16 vector engines, 2100 MHz, 137.6 TFLOP/s of f16, 560 GB/s; oneAPI GPU Optimization "
                  "Guide, Xe-HPG: 4 threads of 256 registers, 64 KiB and 128 bytes a clock of local memory"),
    "pvc": Device("Max 1100", 56, 1.55e9, 8, 16, 4096, 1.0, XE, 512, 64, 1229e9, 1024, 256, 128 << 10, 0, 4,
                  "Intel Data Center GPU Max 1100: 56 Xe cores of 8 vector engines, 1550 MHz; oneAPI GPU Optimization Guide, Xe-HPC: "
                  "4096 operations of f16 a clock a Xe core, 4 threads of 256 registers, 128 KiB and 512 bytes a clock of local memory"),
}
# assumed clocks from a group's start to its first tile, and from its last tile to its end, in which
# the group does nothing else
LATENCY = 2000
HEADS, ROWS = 128, 4096  # four times 32 heads

# --- Counting. Classes of instructions, by name. The pattern "" matches all others.
CLASSES = "engine exp float extreme convert alu shuffle local copy rest".split()
NAMES = {
    SASS: [("engine", "HG?MMA"), ("exp", "MUFU"), ("float", r"F(FMA|MUL|ADD)\b"), ("extreme", r"FMNMX"), ("convert", "F2F"),
           ("shuffle", "SHFL"), ("copy", "LDGSTS|LDG|UTMALDG"), ("local", "LDS|STS"),
           ("alu", "I(SETP|ADD|MNMX|ABS)|FS(ETP|EL)|SEL|LOP|SHF|LEA|PRMT|VIADD|VIMNMX|PLOP|P2R|R2P")],
    AMD: [("engine", "v_wmma|v_mfma"), ("exp", "v_(exp|log|rcp|rsq|sqrt)_"), ("shuffle", "v_permlane|ds_(swizzle|b?permute)"),
          ("local", "ds_"), ("copy", "(global|buffer|flat)_load"), ("extreme", r"v_(dual_)?max\d?_(num_)?f32"),
          ("convert", "v_cvt|v_pack"), ("float", r"v_(dual_|pk_)?(mul|add|sub|fma|fmac|mac)\w*_f32"), ("alu", "v_")],
    INTEL: [("engine", "dpasw?"), ("exp", "math"), ("copy", r"load\.ugm"), ("local", r"load\.slm|store\.slm|send\.dc"),
            ("float", "FLOAT"), ("extreme", "sel"), ("alu", "(?!sync|send|goto|join|jmpi|while)")],
}
# for a warp and an iteration of a loop
Work = namedtuple("Work", "flops local_bytes copy_bytes " + " ".join(CLASSES))


def class_of(i, language):
    name = i.name
    if language is INTEL and re.match(r"(mad|mul|add)$", name) and ":f" in i.rest:
        name = "FLOAT"
    if language is INTEL and name.startswith("send.dc") and not re.search(r"0x[0-9A-F]{6}FE\s", i.rest):
        return "copy"
    return next((c for c, pattern in NAMES[language] if re.match(pattern, name)), "rest")


def flops_of(i, lanes):
    """Multiply-adds of a warp."""
    shape = re.match(r"HGMMA\.(\d+)x(\d+)x(\d+)|v_wmma_f32_(16)x(16)x(16)|v_mfma_f32_(\d+)x(\d+)x(\d+)", i.name + i.rest)
    if shape:
        sides = [int(x) for x in shape.groups() if x]
        return 2 * math.prod(sides) // (4 if i.name.startswith("HGMMA") else 1)
    return 4096 if i.name.startswith("HMMA.16816") else 2 * 8 * 16 * lanes if i.name.startswith("dpas") else 0


def local_bytes_of(i, lanes):
    """Bytes that a warp moves to or from local memory. A 16-bit number occupies 32 bits."""
    found = re.match(r"HGMMA\.(\d+)x(\d+)x(\d+)\S*\s+R\d+, (R\d)?", i.name + i.rest)
    # four warps read the shared operand once, and also their own operand if it is in local memory
    if found:
        m, n, k = (int(found[x]) for x in (1, 2, 3))
        return (n + (0 if found[4] else m)) * k * 2 // 4
    if re.match("(LD|ST)SM", i.name):
        return 128 * int(i.name[-1])
    if re.match("LDS|STS|LDGSTS", i.name):
        return lanes * next((int(x) // 8 for x in i.name.split(".") if x in ("64", "128")), 4)
    if re.match("ds_", i.name):
        return lanes * int((re.search(r"_b(32|64|128)", i.name) or [0, 32])[1]) // 8 * (2 if re.match(r"ds_\w+2", i.name) else 1)
    found = re.match(r"(?:load|store)\.slm\.d(\d+)\w*?x(\d+)(t?)", i.name)
    if found:
        return int(found[1]) // 8 * int(found[2]) * (1 if found[3] else lanes)
    found = re.search(r"wr:\d+[h]?\+(\d+), rd:(\d+)", i.rest)
    return 32 * (int(found[1]) + int(found[2])) if found else 0


def copy_bytes_of(i, language, lanes):
    kind, each = language.kind(i)
    if i.name.startswith("LDGSTS"):
        return 16 * lanes if ".128" in i.name else 4 * lanes
    return each * lanes if kind == 3 else 0  # GLOBAL_READ


def passes(places, size):
    """Slowdown by bank conflicts: lanes read `size` bytes each, as many lanes at once as fill 32
    banks."""
    at_once, worst = 128 // size, 0
    for first in range(0, len(places), at_once):
        banks = Counter(p // 4 % 32 for start in places[first:first + at_once] for p in range(start, start + size, 4))
        worst = max(worst, *banks.values())
    return worst


def conflicts_of(engine, head):
    """A warp's read of keys, by FRAGMENT_PLACE and FRAGMENTS_PITCH, for mma.sync, WMMA and MFMA.
    Other engines read keys as stored."""
    pitch = -(-head // 64) * 128 if engine == 3 else -(-head // 16) * 32 + 16
    if engine == 3:
        return passes([row * pitch + 16 * (row % 8) for row in range(8)], 16)
    return passes([row * pitch for row in range({5: 16, 7: 32}[engine])], {5: 16, 7: 8}[engine]) if engine in (5, 7) else 1


def work_of(code, language, lanes, conflicts=1):
    count = Counter(class_of(i, language) for i in code)
    local = sum(local_bytes_of(i, lanes) * (conflicts if re.match("LDS|ds_(read|load)", i.name) else 1)
                for i in code if class_of(i, language) in ("local", "engine", "copy"))
    copies = sum(copy_bytes_of(i, language, lanes) for i in code if class_of(i, language) == "copy")
    return Work(sum(flops_of(i, lanes) for i in code), local, copies, *(count[c] for c in CLASSES))


def main_loop(code, language):
    """The shortest innermost loop with products and at least half of the largest number of
    exponentials."""
    loops, every = [], all_spans(code, language)
    for first, last in every:
        inner = [x for x in every if x != (first, last) and first <= x[0] and x[1] <= last]
        own = [i for n, i in enumerate(code[first:last + 1], first) if not any(a <= n <= b for a, b in inner)]
        count = Counter(class_of(i, language) for i in own)
        if count["engine"]:
            loops.append((len(own), count["exp"], first, own))
    most = max(x[1] for x in loops)
    return min(x for x in loops if 2 * x[1] >= most)[3]


def ways(code, language):
    """Splits a loop's code into basic blocks: (first, end, possible successors, -1: the next
    iteration)."""
    branch = [bool(re.match(language.branch, i.name)) for i in code]
    starts = [n for n, i in enumerate(code) if n == 0 or i.labels or branch[n - 1]]
    place = {label: b for b, n in enumerate(starts) for label in code[n].labels}
    for b, (first, end) in enumerate(zip(starts, starts[1:] + [len(code)])):
        last = code[end - 1]
        to = [place[w] for w in re.findall(r"[.\w]+", last.rest) if w in place] if branch[end - 1] else []
        always = branch[end - 1] and not (last.condition and re.search("[PUf]", last.condition)) and \
            not re.search(r"\bU?P\d|_cbranch", last.name + last.rest)
        after = [-1 if x == 0 else x for x in to if x == 0 or x > b] + ([] if always or b + 1 == len(starts) else [b + 1])
        yield first, end, after or [-1]


def common_way(code, language):
    """The instructions of an iteration without masked keys: the shortest path with all products,
    exponentials and copies."""
    stretches = list(ways(code, language))
    best = {-1: (0, [])}
    for b in range(len(stretches) - 1, -1, -1):
        first, end, after = stretches[b]
        weight = sum(1000 if class_of(i, language) in ("engine", "exp", "copy") else -1 for i in code[first:end])
        value, rest = max((best[x] for x in after if x in best), key=lambda x: x[0])
        best[b] = value + weight, [*code[first:end], *rest]
    return best[0][1]


# --- The model. A kernel: a warp's work in an iteration, and in one with a mask; query rows of a
# warp and keys of an iteration; warps of a group, registers and local bytes; and the factor by
# which a warp's own work overlaps.
Kernel = namedtuple("Kernel", "name target head work masked rows keys warps registers local overlaps", defaults=[1])


def groups_of(device, kernel):
    """Number of groups that run on a unit at once."""
    registers = -(-kernel.registers // device.step) * device.step
    warps = min(device.warps, device.registers // registers) * device.schedulers
    room = device.local_bytes // (kernel.local + device.extra) if kernel.local else warps
    return max(1, min(warps // kernel.warps, room))


def costs_of(device, kernel, work):
    """Cycles of each unit for one iteration of a warp, by name. A unit's schedulers share local
    memory and the cache. Copies are asynchronous, so no warp waits for the cache unless it is the
    busiest unit."""
    pipes = Counter()
    for c in ("exp", "float", "extreme", "convert", "alu"):
        pipe, cycles = device.cycles[c if c in device.cycles else "alu"]
        pipes[pipe] += cycles * getattr(work, c)
    exp = pipes.pop("exp", 0)
    issued = device.cycles["issue"] * sum(getattr(work, c) for c in CLASSES)
    moved = work.local_bytes + 4 * device.lanes * work.shuffle
    return {"engine": work.flops / (device.flops / device.schedulers * device.of_sync), "exp": exp,
            "instructions": max(issued, *pipes.values()), "local": moved * device.schedulers / device.local,
            "cache": work.copy_bytes * device.schedulers / device.cache}


def round_of(costs, at_once):
    waits = [x for name, x in costs.items() if name != "cache"]
    return max(costs["cache"], max(waits) + (sum(waits) - max(waits)) / at_once)


def seconds_of(device, kernel, causal, heads=HEADS, rows=ROWS):
    """Returns (seconds, TFLOP/s, share of the engine's peak, the busiest unit, groups of a unit).
    """
    groups, group_rows = groups_of(device, kernel), kernel.rows * kernel.warps
    turns = max(1, groups * kernel.warps / device.schedulers)
    plain, masked = (round_of(costs_of(device, kernel, w), turns * kernel.overlaps) for w in (kernel.work, kernel.masked))
    a_group = max(kernel.warps / device.schedulers, 1 / groups)  # iterations of a scheduler
    tiles, total = -(-rows // group_rows), 0.0
    for tile in range(tiles):
        seen = min(rows, (tile + 1) * group_rows) if causal else rows
        rounds = -(-seen // kernel.keys)
        covered = min(rounds, -(-group_rows // kernel.keys)) if causal else 0
        total += ((rounds - covered) * plain + covered * masked) * a_group + LATENCY / groups
    all_groups, at_once = tiles * heads, device.units * groups
    if causal:  # the longest ones start first
        clocks = total * heads / device.units
    else:
        clocks = total / tiles * -(-all_groups // at_once) * groups
    flops = 4 * kernel.head * rows * rows * heads / (2 if causal else 1)
    seconds = max(clocks / device.clock, 4 * kernel.head * rows * heads * 2 / device.memory)
    costs = costs_of(device, kernel, kernel.work)
    peak = device.units * device.flops * device.clock
    return seconds, flops / seconds / 1e12, flops / seconds / peak, max(costs, key=costs.get), groups


# --- Published kernels, whose compiled code offline_published.py counted, and their measured times.
PUBLISHED = f"{os.path.dirname(os.path.abspath(__file__))}/offline_published.tsv"


def write_published(kernels, packages):
    with open(PUBLISHED, "w", encoding="utf-8") as f:
        f.write("# What a warp does in a round of the main loop of published kernels; written by offline_published.py from\n")
        f.writelines(f"# {name}: {package}\n" for name, package in packages.items())
        f.write("# " + "\t".join(["name", "target", "head", *(x for x in Kernel._fields[5:]), *Work._fields]) + "\n")
        f.writelines("\t".join(str(x) for x in (*k[:3], *k[5:], *k.work)) + "\n" for k in kernels)


def published():
    """Returns (kernels, lines about their packages)."""
    kernels, packages = [], []
    for line in open(PUBLISHED, encoding="utf-8"):
        words = line.rstrip("\n").split("\t")
        if line.startswith("#"):
            packages += [line[2:].strip()] if "==" in line else []
            continue
        numbers = [int(x) for x in words[2:]]
        work = Work(*numbers[-len(Work._fields):])
        kernels.append(Kernel(*words[:2], numbers[0], work, work, *numbers[1:-len(Work._fields)]))
    return kernels, packages


# TFLOP/s: kernel, device, head size, whether causal, heads, rows.
OWN, FLASH = "2026-11-26-nvidia-h100.md", "2026-11-26-nvidia-h100.md, PyTorch 2.11's build of it"
README_OF_AITER = "github.com/ROCm/aiter, op_tests/cpp/mha/README.md"
MEASURED = [
    ("flash_fragments", "sm_90", 64, False, 32, 4096, 305, OWN), ("flash_fragments", "sm_90", 64, True, 32, 4096, 225, OWN),
    ("flash_fragments", "sm_90", 128, False, 32, 4096, 294, OWN), ("flash_fragments", "sm_90", 128, True, 32, 4096, 253, OWN),
    ("FlashAttention-2", "sm_90", 64, False, 32, 4096, 278, FLASH), ("FlashAttention-2", "sm_90", 64, True, 32, 4096, 213, FLASH),
    ("FlashAttention-2", "sm_90", 128, False, 32, 4096, 332, FLASH), ("FlashAttention-2", "sm_90", 128, True, 32, 4096, 268, FLASH),
    ("FlashAttention-2", "sm_80", 128, False, 16, 16384, 228, "Dao 2023, arXiv 2307.08691: up to 73 % of 312"),
    ("FlashAttention-3", "sm_90a", 64, False, 512, 1024, 392, "github.com/Dao-AILab/flash-attention/issues/1777"),
    ("FlashAttention-3", "sm_90a", 128, False, 64, 4096, 590, "github.com/pytorch/benchmark/pull/2391"),
    ("FlashAttention-3", "sm_90a", 128, False, 64, 8448, 661, "Shah et al. 2024, arXiv 2407.08608, the study of its parts"),
    ("AITER", "gfx942", 128, False, 128, 4096, 577, README_OF_AITER), ("AITER", "gfx942", 128, True, 128, 4096, 487, README_OF_AITER),
]
FACTOR = 1.4  # the model must be within this factor of each
PROBLEMS = ("prefill-d64-f16", "prefill-d128-f16")
WARP_ROWS = {7: 32, 8: 8}  # engines whose fragments do not have 16 rows


def language_of(target):
    return SASS if target.startswith("sm_") else AMD if target.startswith("gfx") else INTEL


def kernels_of(target, results):
    """clattn's kernels for float16 and head sizes 64 and 128, with their plans."""
    for plan, r in results:
        if plan.kernel == "flash_fragments" and plan.problem in PROBLEMS and target in DEVICES:
            knobs = {x: int(y) for x, y in re.findall(r"-D(\w+)=(\d+)", plan.options)}
            language, lanes = language_of(target), DEVICES[target].lanes
            own = main_loop(r.code, language)
            conflicts = conflicts_of(knobs["MATRIX_ENGINE"], knobs["HEAD_DIM"])
            work, masked = (work_of(code, language, lanes, conflicts) for code in (common_way(own, language), own))
            yield Kernel("flash_fragments", target, knobs["HEAD_DIM"], work, masked, WARP_ROWS.get(knobs["MATRIX_ENGINE"], 16) *
                         knobs["ROW_VECTORS"], knobs["TILE_KV"], knobs["GROUP_ROWS"], r.registers, r.local)


def measured(kernels, devices):
    """Yields (row of MEASURED, TFLOP/s by the model) for the given kernels."""
    for row in MEASURED:
        name, target, head, causal, heads, rows = row[:6]
        names = (name + " causal" if causal else name, name)
        found = [k for n in names for k in kernels if k.name == n and k.head == head and (n != "flash_fragments" or k.target == target)]
        if found:
            yield row, seconds_of(devices[target], found[0], causal, heads, rows)[1]


def away(kernels, devices):
    return [f"{row[0]} on {devices[row[1]].name}, head size {row[2]}{', causal' if row[3] else ''}: {now:.0f} TFLOP/s by the model, "
            f"{row[6]} measured" for row, now in measured(kernels, devices) if not 1 / FACTOR < now / row[6] < FACTOR]


# Rates of a device that may be wrong. Each is made so much slower that a measured time must
# contradict it. Rates that seldom limit need a larger factor.
def slower(what, device):
    cycles = {**device.cycles, what: (device.cycles[what][0], 16 * device.cycles[what][1])} if what in device.cycles else None
    return device._replace(cycles=cycles) if cycles else device._replace(**{what: SLOWER[what](getattr(device, what))})


SLOWER = {"flops": lambda x: x / 4, "clock": lambda x: x / 4, "units": lambda x: x // 4, "local": lambda x: x / 4, "cache": lambda x: x / 40,
          "memory": lambda x: x / 400}


def faults(done):
    """Yields faults of the model and of its input, {target: results}."""
    if [passes([128 * row for row in range(8)], 16), *(conflicts_of(3, x) for x in (64, 128))] != [8, 1, 1]:
        yield "conflicts of banks are not counted right"
    for target, device in DEVICES.items():
        said, peak = re.search(r"([\d.]+) TFLOP/s of f16", device.source), device.units * device.clock * device.flops / 1e12
        if said and abs(peak * (2 if "one of two" in device.name else 1) / float(said[1]) - 1) > 0.01:
            yield f"{target}: its row makes {peak:.0f} TFLOP/s, and its source says {said[1]}"
    known = published()[0]
    kernels = [k for target, results in done.items() for k in kernels_of(target, results)]
    for k in kernels + known:
        if k.work.flops != 4 * k.rows * k.keys * k.head:
            yield f"{k.name} of {k.target}, head size {k.head}: {k.work.flops} FLOP a round, and attention has {4 * k.rows * k.keys * k.head}"
        if not k.work.exp >= k.rows * k.keys / DEVICES[k.target].lanes:
            yield f"{k.name} of {k.target}, head size {k.head}: {k.work.exp} exponentials are fewer than it has scores"
        least = 4 * k.keys * k.head // (4 if k.target == "sm_90a" else 1)
        if k.work.local_bytes < least:
            yield f"{k.name} of {k.target}, head size {k.head}: {k.work.local_bytes} bytes of local memory, and its tiles have {least}"
    yield from away(kernels + known, DEVICES)
    for what in (*SLOWER, "exp", "float", "alu"):
        for target in sorted({x[1] for x in MEASURED}):
            if not away(known, {**DEVICES, target: slower(what, DEVICES[target])}):
                yield f"{what} of {target} is much slower, and no measured time says so"


# --- Sections of offline.md.
def share_lines(target, results):
    for k in kernels_of(target, results):
        device = DEVICES[target]
        full, causal = (seconds_of(device, k, x) for x in (False, True))
        yield (f"| {target} | {device.name} | {k.head} | {k.rows} x {k.warps} x {k.keys} | {full[4]} | {full[3]} | {full[1]:.0f} | "
               f"{100 * full[2]:.0f} % | {causal[1]:.0f} | {100 * causal[2]:.0f} % |\n")


def loop_line(k):
    others = sum(getattr(k.work, c) for c in CLASSES[1:])
    counts = " | ".join(str(getattr(k.work, c)) for c in CLASSES)
    return f"| {k.target} | {k.name} | {k.head} | {k.rows} x {k.keys} | {counts} | {k.work.flops // 2 / others:.0f} |\n"


def lines_kept(old, target):
    return [x for x in old.splitlines(True) if x.startswith(f"| {target} |") and "| flash_fragments |" in x]


def error_lines(done, old):
    own = [k for target, results in done.items() for k in kernels_of(target, results)]
    kept = [x for target in DEVICES if target not in done for x in lines_kept(old, target)]
    for row, now in measured(own + published()[0], DEVICES):
        name, target, head, causal, heads, rows, was, source = row
        kept.append(f"| {target} | {name} | {DEVICES[target].name} | {head} | {'causal' if causal else 'none'} | {heads} x {rows} | {was} | "
                    f"{now:.0f} | {100 * (now / was - 1):+.0f} % | {source} |\n")
    return kept


def sections(done, old):
    """The text of offline.md. {target: results} are new, and other lines are kept from the sections
    `old`."""
    known, packages = published()
    shares = old.get("Expected", "").splitlines(True)
    words = ["\n## Expected shares of the engines' peaks, by a model\n\nflash_fragments of float16, 4 x 32 heads of 4096 rows and keys, by "
             "tests/lab/offline_model.py, which says how; no clock was measured. Tiles: query rows of a warp x warps of a group x keys; "
             "then the groups that a unit runs at once, and the unit that is busiest.\n\n| target | device | head size | tiles | groups | "
             "busiest | TFLOP/s | share | causal | share |\n|---|---|--:|---|--:|---|--:|--:|--:|--:|\n"]
    for target in DEVICES:
        words += share_lines(target, done[target]) if target in done else [x for x in shares if x.startswith(f"| {target} |")]
    words += ["\nFigures of the devices:\n\n", *(f"- {x} ({d.name}): {d.source}\n" for x, d in DEVICES.items())]
    words += ["\n## Model and measurements\n\nTFLOP/s. Of published kernels the model has the compiled code as the next section counts it; a mask "
              "costs nothing in them, and nobody is the last one. No rate was fitted to these times, but the model's form was chosen "
              "with them at hand: of what it was not chosen by, its error may be larger.\n\n| code of | kernel | device | head "
              "size | mask | heads x rows | measured | model | error | source |\n|---|---|---|--:|---|---|--:|--:|--:|---|\n"]
    words += error_lines(done, old.get("Model", ""))
    words += [f"\n## Loops beside published kernels\n\nInstructions of a warp in a round of the main loop without a mask: {', '.join(CLASSES)} "
              "(extreme: maxima; alu: integers, comparisons, choices; copy: to local memory or registers from global memory), and "
              "multiply-adds of the engine per other instruction. FlashAttention-3 and AITER have other warps, or none, that copy. The "
              f"published ones by tests/lab/offline_published.py from {'; '.join(packages)}. Of Intel's no registry has one: oneDNN "
              "makes its kernels as it runs.\n\n| target | kernel | head size | rows x keys | " + " | ".join(CLASSES) + " | multiply-adds each |\n"
              "|---|---|--:|---|" + "--:|" * (len(CLASSES) + 1) + "\n"]
    for target in DEVICES:
        mine = [loop_line(k) for k in kernels_of(target, done[target])] if target in done else lines_kept(old.get("Loops", ""), target)
        words += mine + [loop_line(k) for k in known if k.target == target]
    return words
