#!/usr/bin/env python3
"""bench/scale.py: its formulas against results by hand. Its fit must find the constants of
synthetic runs, also with more ranks than cores."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile

top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(top, "bench"))
sys.dont_write_bytecode = True
import scale  # noqa: E402

failed = 0


def check(name, good, why=""):
    global failed
    failed += not good
    print(f"{'ok   ' if good else 'FAIL '} {name} {'' if good else why}")


def runs_of(machine, cores, noise):
    numbers, runs = random.Random(1), []
    for way in ("ring", "all_to_all"):
        for n in (256, 1024, 4096):
            for ranks in (1, 2, 4, 8):
                r = {"op": "attend", "way": way, "ranks": ranks, "n": n, "d": 64, "heads": 8, "kv_heads": 8, "causal": ranks != 4,
                    "dtype": "f32"}
                r["time_ns"] = 1e9 * scale.predict(machine, r, cores) * math.exp(numbers.uniform(-noise, noise))
                runs.append(r)
    return runs


slow = {"flops": 1e12, "call": 0.0, "latency": 0.0, "link": 1e6}
fast = dict(slow, link=1e15)
work = 1024 * 1024 / 2 * 8 * 4 * 64 / 1e12
piece = 1024 / 4 * 2 * 2 * 64 * 4
check("a ring that computes takes its share of the work", math.isclose(scale.ring(fast, 4, 1024, 8, 2, 64, True, 4)[0], work / 4))
seconds, hidden = scale.ring(slow, 4, 1024, 8, 2, 64, True, 4)
check("a ring that sends takes three transfers", math.isclose(seconds, work / 16 + 3 * piece / 1e6), seconds)
check("and hides little", math.isclose(hidden, work / 16 / (piece / 1e6)), hidden)
check("bytes a device: its rows and two pieces", scale.memory(4, 1024, 8, 2, 64, 4) == 256 * 20 * 64 * 4 + 256 * 8 * 66 * 4 + 2 * piece)

machine = {"flops": 1.3e11, "call": 6e-5, "copy": 3e9, "step": 4e-5}
crowd = dict(runs_of(machine, 2, 0)[3])
check("eight ranks on two cores take what all of them do", scale.predict(machine, crowd, 2) > 3.9 * scale.predict(machine, crowd, 8))
exact = scale.fit(runs_of(machine, 2, 0), 2)
check("the fit finds the constants", all(abs(math.log(exact[k] / machine[k])) < 0.02 for k in machine), exact)
check("and not of another number of cores", scale.errors_of(scale.fit(runs_of(machine, 2, 0), 8), runs_of(machine, 2, 0), 8)[-1] > 0.2)
noisy = runs_of(machine, 2, 0.1)
check("runs left out are off by about the noise", 0.01 < scale.unseen(noisy, 2)[len(noisy) // 2] < 0.12)
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    file.write("\n".join(json.dumps(r, indent=1) for r in noisy))
    file.flush()
    said = subprocess.run([sys.executable, os.path.join(top, "bench", "scale.py"), file.name], capture_output=True, text=True, check=False)
check("the program prints its error", said.returncode == 0 and "\nerror: median " in said.stdout
    and "of runs left out: median " in said.stdout, said.stderr)
sys.exit(failed > 0)
