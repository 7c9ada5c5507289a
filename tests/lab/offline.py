#!/usr/bin/env python3
"""Compile every kernel for absent devices, with the knobs that the planner chooses for them.

    offline.py TOOLS PLANS [--record] [TARGET ...]

TOOLS is the folder that check_offline.sh filled, and PLANS the program that prints plans,
tests/plan/plans.c. Prints a line that begins with "ok", "FAIL" or "SKIP" for each target. A kernel
fails in these cases:

    it does not compile
    it has more bytes of spills or private arrays in memory than offline_record.tsv allows
    it uses more local memory than its plan
    the share of multiply-adds in its products has dropped by more than one percentage point
    it is a decode kernel, and reads K or V more or less than once

AMD's kernels with a matrix engine are executed by the chip's rules (offline_execute.py), and their
results must be right. --record rewrites the record and bench/results/offline.md. The last part is
the model of offline_model.py.
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple

TESTS = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(TESTS))
sys.path[:0] = [TESTS, f"{TOP}/cl"]
import embed  # noqa: E402
import offline_model  # noqa: E402
from offline_compilers import TARGETS, Failed, Missing, Tools  # noqa: E402
from offline_loops import ENGINES  # noqa: E402
from offline_reads import reads_of  # noqa: E402

RECORD, TABLE = f"{TESTS}/offline_record.tsv", f"{TOP}/bench/results/offline.md"
# The devices whose plans a target compiles: those with its chip, or the most similar.
DEVICES = {"sm_80": ["a100"], "sm_90": ["h100"], "sm_90a": ["h100"], "sm_120": ["rtx4060"], "gfx90a": ["mi300x"], "gfx942": ["mi300x"],
           "gfx1100": ["rx7900xtx"], "gfx1201": ["rx7900xtx"], "dg2": ["arc-a770"], "pvc": ["max-1100"],
           "spirv": ["adreno830", "mali-g720", "apple-m2", "iris-xe", "small", "embedded"]}
# Targets that compile all plans. The others compile only the plans of these problems and
# projections, and all targets compile these gradients.
ALL = ("sm_90", "sm_90a", "gfx942", "spirv")
SOME = set("""prefill-d64 prefill-d128 prefill-d64-f16 prefill-d128-f16 prefill-d64-bf16 prefill-d128-bf16 prefill-d128-i8 every-op
decode-d64 decode-d128 decode-d128-f16 decode-d128-bf16 decode-d128-i8 decode-mqa weights-f16 token token-f16 token-bf16 few-f16 bert
bert-f16 llama llama-bf16 llama-split llama-split-bf16 rope append shift hadamard merge convert block""".split())
GRADIENTS = {"prefill-d64", "prefill-d128", "prefill-d64-bf16", "prefill-d128-f16", "every-op"}
# loops whose shares are recorded; each has at least half the multiply-adds of the first
PRODUCTS = 3
POINT = 1.0    # percentage point by which a share may drop
LOCAL_SLACK = 256  # bytes that a compiler may add for alignment

Plan = namedtuple("Plan", "device problem kernel options group local most family")
Row = namedtuple("Row", "scratch shares")


def plans_of(program, device):
    told = subprocess.run([program, device], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in told.splitlines():
        device, problem, kernel, options, group, local, most, family = line.split("\t")
        yield Plan(device, problem, kernel, options.strip(), int(group), int(local), int(most), family)


def chosen_plans(program, target):
    """Each kernel and its options once."""
    found = {}
    for device in DEVICES[target]:
        for plan in plans_of(program, device):
            if ("-DMATRIX_ENGINE=4" in plan.options) != (target == "sm_90a"):
                continue  # wgmma is only for the target that has it, which gets nothing else
            if target == "spirv" and re.search("-D(SUBGROUP|DOT_I8)=", plan.options):
                continue  # vendor-specific spellings
            if target == "spirv":  # requesting a size is also vendor-specific
                plan = plan._replace(options=re.sub(r" -DSUBGROUP_ASKED=\d+", "", plan.options))
            gradients = plan.kernel.startswith("backward")
            if plan.problem in GRADIENTS if gradients else target in ALL or plan.problem in SOME:
                found.setdefault((plan.kernel, plan.options), plan)
    return list(found.values())


def products_of(result):
    return [x for x in result.loops[:PRODUCTS] if 2 * x.products >= result.loops[0].products]


def share_of(loop):
    """Share of the instructions that a unit executes. NVIDIA has no wait instructions, and on AMD
    they occupy no unit."""
    return 100.0 * loop.fma / (loop.instructions - loop.waits)


def shares(result):
    return [share_of(x) for x in products_of(result)]


def reads_words(compiler, plan, result):
    """Returns (bytes read from global memory: counted, by the formula) if both are known."""
    return reads_of(plan.kernel, result.code, compiler.LANGUAGE, plan.options) if compiler.LANGUAGE else None


def what_reads(plan):
    words = {"decode_groups": "a key and its value", "backward_tiles": "a chunk of both products and a slice by a work-item"}
    return words.get(plan.kernel, "a chunk and a slice by a work-item")


def key_of(target, plan):
    return target, plan.kernel, plan.options


def read_record():
    """Returns {target: compiler}, {key: Row}."""
    compilers, rows = {}, {}
    if os.path.exists(RECORD):
        for line in open(RECORD, encoding="utf-8"):
            words = line.rstrip("\n").split("\t")
            if words[0] == "# compiler":
                compilers[words[1]] = words[2]
            elif not line.startswith("#"):
                rows[tuple(words[:3])] = Row(int(words[3]), [float(x) for x in words[4].split()])
    return compilers, rows


def faults_of(compiler, plan, result, row, comparable):
    """Yields the faults of one compiled kernel."""
    if result.local > plan.local + LOCAL_SLACK and plan.local:
        yield f"{result.local} bytes of local memory, planned {plan.local}"
    if result.local > plan.most:
        yield f"{result.local} bytes of local memory, and {plan.device} has {plan.most}"
    if re.search("-DMATRIX_ENGINE=[3-9]", plan.options) and not any(re.match(ENGINES, i.name) for i in result.code) and result.code:
        yield "has no instruction of a matrix engine"
    reads = reads_words(compiler, plan, result)
    if reads and reads[0] != reads[1]:
        yield f"{reads[0]:.0f} bytes are read of {what_reads(plan)}, by the formula {reads[1]}"
    if not comparable:
        return
    if row is None:
        yield "is not in the record: look at it, and write it with --record"
        return
    if result.scratch > row.scratch:
        yield f"{result.scratch} bytes in scratch memory, {row.scratch} recorded"
    for n, (now, before) in enumerate(zip(shares(result) + [0.0] * PRODUCTS, row.shares)):
        if now < before - POINT:
            yield f"{now:.1f} % of its product {n + 1} are multiply-adds, {before:.1f} % recorded"


def compile_plan(compiler, folder, plan):
    text = embed.flatten(glob.glob(f"{TOP}/cl/*/{plan.kernel}.cl")[0], set())
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return compiler.compile(own, plan.kernel, text, plan.options, plan.group)


def check_counts(compiler, folder):
    """Checks that the counts notice a private array in memory and a loop of multiply-adds."""
    text = open(f"{TOP}/tests/data/offline_probe.cl", encoding="utf-8").read()
    for word in "-cl-std=CL1.2 -DPROBE_SCRATCH", "-cl-std=CL1.2":
        with tempfile.TemporaryDirectory(dir=folder) as own:
            result = compiler.compile(own, "offline_probe", text, word, 64)
        if "SCRATCH" in word and result.scratch == 0:
            raise Failed("a private array in memory is not seen")
        if "SCRATCH" not in word and (not result.loops or not 60 <= shares(result)[0] <= 100):
            raise Failed(f"a loop of multiply-adds is not seen: {result.loops}")


def executed(compiler, folder, target):
    """Returns {kernel and type: its largest error} for AMD's targets."""
    try:
        from offline_execute import ENGINES as targets
        from offline_execute import PtxError, Wrong, execute
    except ImportError:
        print("      no numpy: kernels with AMD's matrix engines are not executed", flush=True)
        return {}
    if target not in targets:
        return {}
    try:
        errors, cases, broken = execute(compiler, target, folder)
    except (Wrong, PtxError) as e:
        raise Failed(str(e)) from e
    told = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    print(f"ok    {target} executed: {cases} cases, {broken} things broken and seen; errors: {told}", flush=True)
    return errors


def run_target(target, tools, folder, program, record, recording):
    """Returns (plans and results, faults, compiler, whether the record is for the same compiler,
    errors of executed kernels)."""
    compiler = TARGETS[target](tools, target)
    try:
        version = compiler.version()
    except (Failed, OSError) as e:
        raise Missing(f"its compiler does not run: {e}") from e
    if target != "spirv":
        check_counts(compiler, folder)
    errors = executed(compiler, folder, target)
    compilers, rows = record
    comparable = compilers.get(target) == version and not recording
    plans, faults, results = chosen_plans(program, target), [], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [pool.submit(compile_plan, compiler, folder, p) for p in plans]
        for plan, future in zip(plans, futures):
            try:
                result = future.result()
            except Failed as e:
                faults.append((plan, str(e)))
                continue
            results.append((plan, result))
            faults += [(plan, f) for f in faults_of(compiler, plan, result, rows.get(key_of(target, plan)), comparable)]
    if len(results) + len(faults) < 10:
        faults.append((plans[0], f"{len(plans)} plans: too few to check"))
    return results, faults, version, comparable, errors


def write_record(done, old):
    compilers, rows = old
    for target, (results, _, version, *_) in done.items():
        compilers[target] = version
        rows = {k: v for k, v in rows.items() if k[0] != target}
        rows.update({key_of(target, p): Row(r.scratch, shares(r)) for p, r in results})
    with open(RECORD, "w", encoding="utf-8") as f:
        f.write("# What check_offline.sh holds compiled kernels to; written by its --record.\n"
                "# target, kernel, options, bytes in scratch memory, share of multiply-adds in the loops with the most\n")
        f.writelines(f"# compiler\t{t}\t{v}\n" for t, v in sorted(compilers.items()))
        f.writelines("\t".join([*k, str(v.scratch), " ".join(f"{x:.1f}" for x in v.shares)]) + "\n" for k, v in sorted(rows.items()))


def loop_text(loop):
    fma = f"{loop.fma}" if loop.fma == loop.products else f"{loop.fma} ({loop.products})"
    reads = f", {loop.global_bytes} B global" if loop.global_bytes else ""
    waits = f" and {loop.waits} waits" if loop.waits else ""
    return f"{share_of(loop):.0f} %: {fma} of {loop.instructions - loop.waits}{waits}, {loop.local_reads} local{reads}"


def summary_of(target, results):
    """float32 attention, with the first choice for the target, one line each."""
    for size in "64", "128":
        first = next(((p, r) for p, r in results if (p.kernel, p.problem) == ("flash_tiles", f"prefill-d{size}")), None)
        if first and target != "spirv":
            knobs = " ".join(x[2:] for x in first[0].options.split() if re.match("-D(SUBGROUP(_ASKED)?|MICRO_ROWS|GROUP_.*)=", x))
            shares_of = ", ".join(f"{x:.0f} %" for x in shares(first[1]))
            yield f"| {target} | {size} | {knobs} | {first[1].registers} | {first[1].scratch} | {shares_of} |\n"


def section_of(target, results, version):
    if target == "spirv":
        return f"\n## {target} ({version})\n\n{len(results)} kernels are valid modules.\n"
    words = [f"\n## {target} ({version})\n\n| kernel | problem | knobs | registers | scratch B | local B | first product | second | third |\n"
             "|---|---|---|--:|--:|--:|---|---|---|\n"]
    for plan, r in results:
        knobs = " ".join(x[2:] for x in plan.options.split() if x.startswith("-D"))
        note = f", {r.note}" if r.note else ""
        reads = reads_words(TARGETS[target], plan, r)
        note += f"; {what_reads(plan)}: {reads[0]:.0f} bytes read, by the formula {reads[1]}" if reads else ""
        products = ([loop_text(x) for x in products_of(r)] + [""] * PRODUCTS)[:PRODUCTS]
        words.append(f"| {plan.kernel} | {plan.problem} | {knobs}{note} | {r.registers} | {r.scratch} | {r.local} | {' | '.join(products)} |\n")
    return "".join(words)


def old_sections():
    """The lines of the existing table, by their first word. Targets that are not compiled now keep
    their lines."""
    if not os.path.exists(TABLE):
        return {}
    with open(TABLE, encoding="utf-8") as f:
        return {x.split()[0]: "\n## " + x.rstrip("\n") + "\n" for x in f.read().split("\n## ")[1:]}


def executed_section(done, old):
    """The largest errors of executed kernels, one line per target."""
    names = next((list(x[4]) for x in done.values() if x[4]), None)
    if not names:
        return old.get("Kernels", "")
    words = ["\n## Kernels executed\n\nBy the rules of the chip (tests/lab/offline_execute.py), small calls beside double precision: the largest "
             "normalised mean squared error; of lse the largest error.\n\n"
             f"| target | {' | '.join(names)} |\n|---|{'--:|' * len(names)}\n"]
    for target in TARGETS:
        if target in done and done[target][4]:
            words.append(f"| {target} | {' | '.join(f'{done[target][4][x]:.1e}' for x in names)} |\n")
        else:
            words += [x for x in old.get("Kernels", "").splitlines(True) if x.startswith(f"| {target} ")]
    return "".join(words)


def write_table(done):
    old = old_sections()
    words = ["\n## Prefill of float32 in short\n\n| target | head size | knobs | registers | scratch B | shares of the products |\n"
             "|---|--:|---|--:|--:|---|\n"]
    for target in TARGETS:
        lines = old.get("Prefill", "").splitlines(True)
        words += summary_of(target, done[target][0]) if target in done else [x for x in lines if x.startswith(f"| {target} ")]
    words.append(executed_section(done, old))
    words += offline_model.sections({target: x[0] for target, x in done.items()}, old)
    words += [section_of(t, done[t][0], done[t][2]) if t in done else old.get(t, "") for t in TARGETS]
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write("# Kernels compiled for devices that are not here\n\n"
                "Written by `sh tests/lab/check_offline.sh BUILD --record`: the kernels and knobs that the planner picks for the devices of "
                "tests/plan/absent_devices.c, through compilers of Debian and PyPI. Nothing here was run on a device.\n\n"
                "Registers of a work-item (on Intel's of a hardware thread); scratch: bytes of spilled registers and of private arrays in "
                "memory. The products are the inner loops with the most multiply-adds, copies that a compiler makes of one among them: their "
                "share of the instructions (in parentheses the multiply-adds where one instruction does two) without waits, which are bits "
                "of other instructions on NVIDIA's chips and take no unit's time on AMD's; reads of local memory; bytes that a work-item "
                "reads of global memory a round. What decode reads of K and V is counted on the ways through the code, see "
                "tests/lab/offline_reads.py.\n")
        f.writelines(words)


def main(arguments):
    recording = "--record" in arguments
    folder, program, *targets = [a for a in arguments if a != "--record"]
    folder, program = os.path.abspath(folder), os.path.abspath(program)
    record, done, bad = read_record(), {}, 0
    for target in targets or TARGETS:
        try:
            done[target] = results, faults, version, comparable, _ = run_target(target, Tools(folder), folder, program, record, recording)
        except Missing as e:
            print(f"SKIP  {target}: {e}", flush=True)
            continue
        except Failed as e:
            print(f"FAIL  {target}: {e}", flush=True)
            bad += 1
            continue
        bad += bool(faults)
        compared = "" if comparable or recording else f": compiled alone, the record is of {record[0].get(target, 'nothing')}"
        print(f"{'FAIL ' if faults else 'ok   '} {target}: {len(results)} kernels, {version}{compared}", flush=True)
        for plan, fault in faults:
            print(f"      {plan.kernel} for {plan.problem} of {plan.device}: {fault}\n        {plan.options}", flush=True)
    wrong = list(offline_model.faults({target: x[0] for target, x in done.items()}))
    bad += bool(wrong)
    print("\n      ".join(["FAIL  model", *wrong] if wrong else ["ok    model"]))
    if recording and done:
        write_record(done, record)
        write_table(done)
    if not done and not bad:
        print("no compiler of any device")
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
