#!/usr/bin/env python3
"""`clattn layer --model` on every kind of config.json, compared with transformers' results for the
same file. tests/data/model_kinds.json has the files and some numbers of each result. make_kinds.py
creates it. Needs only the standard library.

   check_kinds.py BUILD [all | WORD]     all: every case; WORD: the cases whose name has it;
                                         default: refusals and a fifth of the others
"""
import array, concurrent.futures, functools, json, os, subprocess, sys, tempfile, zlib

import files

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "model_kinds.json")
# TOLERANCE is relative to the largest number. FAR applies far from position 0, where transformers
# computes angles in float32.
TOLERANCE, FAR = 1e-5, 1e-4
PREFIX = {"bert": "encoder.layer.", "roberta": "encoder.layer.", "xlm-roberta": "encoder.layer.", "gpt2": "h."}


def numbers(name, count):
    """Numbers from -1 to 1 from a counter and a hash: the same on every machine."""
    state, out = zlib.crc32(name.encode()) + 1, array.array("f")
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        out.append(((state >> 40) - 2 ** 23) / 2 ** 23)
    return out


@functools.cache
def tensor(name, shape, small):
    """A tensor of the layer. With `small` the matrices of q and k are small, so that a norm's
    epsilon matters."""
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    if len(shape) == 1:
        near = 1.0 if "norm" in name.lower() or ".ln_" in name else 0.0
        return array.array("f", (near * (name[-4:] != "bias") + x / 2 for x in numbers(name, count)))
    scale = (3 / min(shape)) ** 0.5 * (2e-3 if small and (".q_proj" in name or ".k_proj" in name) else 1.5)
    return array.array("f", (scale * x for x in numbers(name, count)))


def input_of(rows, width, block):
    return array.array("f", (x * (0.01 if block else 1.7) for x in numbers("x", rows * width)))


def places(rows, width):
    """Indices of the stored numbers of a result: some of the last row, and one of each of some
    earlier rows."""
    last = [(rows - 1) * width + (7 * n + 3) % width for n in range(8)]
    return last + [(rows - 1 - rows * n // 9) * width + (11 * n + 5) % width for n in range(1, 9)]


def write_npy(path, shape, data):
    head = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)})
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data.tobytes())


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    out = array.array("f")
    out.frombytes(data[10 + int.from_bytes(data[8:10], "little"):])
    return out


def run(program, folder, case):
    """Run a case. Returns an error line, or None."""
    place = os.path.join(folder, str(case["at"]))
    os.makedirs(place)
    with open(place + "/config.json", "w", encoding="utf-8") as file:
        json.dump(case["config"], file)
    os.symlink(case["weights"], place + "/model.safetensors")
    command = [program, "layer", "--model", place, "--layer", str(case["layer"]), "--x", case["x"], "--out", place + "/y.npy", "--quiet",
               "--projection", "native"] + ["--block"] * case["block"] + case["options"]
    done = subprocess.run(command, capture_output=True, text=True)
    want = case["want"]
    if done.returncode == 2 and (case["free"] or isinstance(want, str)):
        said = done.stderr.strip()
        if "\n" in said or not said.startswith("clattn layer: --model: ") or (isinstance(want, str) and want != "refused"
                and want not in said):
            return f"refused with {done.stderr!r}, {want!r} is expected in one line"
        return None
    if done.returncode:
        return f"exit status {done.returncode}: {done.stderr.strip()}"
    if isinstance(want, str):
        return f"is done, and must be refused: {want}"
    if want is None:
        return None
    got = read_npy(place + "/y.npy")
    got = [got[at] for at in places(len(got) // case["width"], case["width"])]
    apart = max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
    return None if apart < (FAR if case["rows"] > 1000 else TOLERANCE) else f"{apart:.2g} apart"


def load(folder, only):
    """Load the cases and write the files of each."""
    with open(DATA, encoding="utf-8") as file:
        data = json.load(file)
    cases = []
    for at, entry in enumerate(data["cases"]):
        kind, name, change, layer, tensors, want = entry[:6]
        more = entry[6] if len(entry) > 6 else {}
        config = {"model_type": kind, **data["base"][kind], **change}
        for key in more.get("without", []):
            config.pop(key)
        if only == "all" or (only and only in f"{kind} {name}") or (not only and not more.get("later") and (isinstance(want, str)
                or zlib.crc32(f"{kind} {name}".encode()) % 5 == 0)):
            cases.append(dict(at=at, name=f"{kind}: {name}", kind=kind, config=config, layer=layer, tensors=tensors,
                              want=data["results"][want] if isinstance(want, int) else want, block=more.get("block", 0),
                              rows=more.get("rows", data["rows"]), options=more.get("options", []), free=more.get("free")))
    for case in cases:
        shapes, width = data["tensors"][case["tensors"]], data["width"]
        case["width"] = width
        case["weights"] = os.path.join(folder, f"{case['kind']}-{case['tensors']}-{case['layer']}.safetensors")
        case["x"] = os.path.join(folder, f"x-{case['rows']}-{case['block']}.npy")
        if not os.path.exists(case["x"]):
            write_npy(case["x"], [1, case["rows"], width], input_of(case["rows"], width, case["block"]))
        if not os.path.exists(case["weights"]):
            prefix = PREFIX.get(case["kind"], "model.layers.") + f"{case['layer']}."
            small = any(name.endswith("q_norm.weight") for name in shapes)
            files.safetensors(case["weights"], {prefix + name: (shape, tensor(name, tuple(shape), small).tobytes())
                                                for name, shape in shapes.items()})
    return cases


def main():
    program, only = os.path.abspath(sys.argv[1] + "/clattn"), sys.argv[2] if len(sys.argv) > 2 else ""
    # no cache folder: PoCL would compile each cached kernel twice
    os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = "none"
    with tempfile.TemporaryDirectory() as folder:
        cases = load(folder, only)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda case: run(program, folder, case), cases))
    wrong = [f"{case['name']}: {what}" for case, what in zip(cases, found) if what]
    print("\n".join(wrong) if wrong else f"{len(cases)} files of {len({case['kind'] for case in cases})} kinds of models: all held")
    sys.exit(bool(wrong) or not cases)


if __name__ == "__main__":
    main()
