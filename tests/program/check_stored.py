#!/usr/bin/env python3
"""`clattn layer` with matrices of 8 and 4 bits. Files with separate scales, as compressed-tensors
and transformers write them, are compared with the same layer of floats, converted by numpy.
--weight-type is compared with numpy's rounding. Also refused files.

   check_stored.py BUILD
"""
import json, math, os, subprocess, sys, tempfile

import files

try:
    import numpy as np
except ImportError:
    print("no numpy")
    sys.exit(77)

CLATTN = os.path.abspath(os.path.join(sys.argv[1], "clattn"))
WIDTH, HIDDEN, ROWS, PATH = 64, 96, 9, "model.layers.0."
TYPES = {"<f4": "F32", "<f2": "F16", "<i4": "I32", "<i8": "I64", "|i1": "I8"}
random = np.random.default_rng(11)
counted = 0
os.chdir(tempfile.mkdtemp())
# no cache folder, so that commands are independent
os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = "none"


class Typed:
    """Numbers of a type that numpy lacks: their bits, and the file's name of the type."""
    def __init__(self, bits, dtype):
        self.bits, self.dtype, self.shape = bits, dtype, bits.shape


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return Typed(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2"), "BF16")


def folder_of(name, config, tensors):
    os.makedirs(name, exist_ok=True)
    json.dump(config, open(name + "/config.json", "w"))
    typed = {key: value if isinstance(value, Typed) else Typed(value, TYPES[value.dtype.str]) for key, value in tensors.items()}
    files.safetensors(name + "/model.safetensors", {key: (list(x.shape), x.bits.tobytes(), x.dtype) for key, x in typed.items()})
    return name


def run(folder, *options):
    done = subprocess.run([CLATTN, "layer", "--model", folder, "--layer", "0", "--block", "--x", "x.npy", "--out", "out.npy", "--projection", "native",
                           "--quiet", *options], capture_output=True, text=True)
    return done.stderr if done.returncode else np.load("out.npy").astype(np.float64)[0]


def near(what, got, want, most=1e-11):
    global counted
    assert not isinstance(got, str), f"{what}: {got}"
    error = ((got - want) ** 2).sum() / (want ** 2).sum()
    assert error < most, f"{what}: NMSE {error:.2g}"
    print(f"{what}: NMSE {error:.1e}")
    counted += 1


def refused(what, word, folder, *options):
    global counted
    got = run(folder, *options)
    assert isinstance(got, str) and word in got and got.count("\n") == 1, f"{what}: {got}"
    counted += 1


np.save("x.npy", random.standard_normal((1, ROWS, WIDTH)).astype(np.float32))
shared = dict(hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=1, rope_theta=10000.0, rms_norm_eps=1e-5,
              intermediate_size=HIDDEN, hidden_act="silu")
matrix = lambda rows, columns: (random.standard_normal((rows, columns)) / math.sqrt(columns)).astype(np.float32)
norms = {PATH + name + "_layernorm.weight": np.ones(WIDTH, np.float32) for name in ("input", "post_attention")}
attention = {"self_attn.q_proj": matrix(64, WIDTH), "self_attn.k_proj": matrix(32, WIDTH), "self_attn.v_proj": matrix(32, WIDTH)}
kinds = {
    "llama": {**attention, "self_attn.o_proj": matrix(WIDTH, 64), "mlp.gate_proj": matrix(HIDDEN, WIDTH), "mlp.up_proj": matrix(HIDDEN, WIDTH),
              "mlp.down_proj": matrix(WIDTH, HIDDEN)},
    "phi3": {"self_attn.qkv_proj": np.concatenate(list(attention.values())), "self_attn.o_proj": matrix(WIDTH, 64),
             "mlp.gate_up_proj": matrix(2 * HIDDEN, WIDTH), "mlp.down_proj": matrix(WIDTH, HIDDEN)}}


def in_groups(w, scale):
    """Expand scales or zero points to one for each number."""
    return np.repeat(scale, w.shape[1] // scale.shape[1], 1)


def pack(codes, bits, axis):
    """Pack non-negative numbers into 32-bit words, the first in the lowest bits, like
    compressed-tensors' pack_to_int32."""
    codes = codes.T if axis == 0 else codes
    each = 32 // bits
    codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % each))).reshape(len(codes), -1, each).astype(np.uint32)
    words = (codes << np.arange(0, 32, bits, dtype=np.uint32)).sum(-1, dtype=np.uint32).view("<i4")
    return words.T if axis == 0 else words


def signed(name, w, group, bits=8, scale_of=lambda s: (s, s)):
    """Codes and scales of w without zero points. Returns the numbers as floats, and the file's
    tensors."""
    most = 2 ** (bits - 1) - 1
    exact = np.abs(w.reshape(len(w), -1, group)).max(-1) / most
    scale, stored = scale_of(exact.astype(np.float32))
    codes = np.clip(np.round(w / in_groups(w, scale)), -most - 1, most).astype(np.int8)
    return codes, (codes * in_groups(w, scale)).astype(np.float32), {name + ".weight_scale": stored}


def ranged(name, w, group, bits):
    """The same with zero points."""
    parts = w.reshape(len(w), -1, group)
    low, high = parts.min(-1), parts.max(-1)
    scale = ((high - low) / (2 ** bits - 1)).astype(np.float16).astype(np.float32)
    zero = np.clip(np.round(-low / scale), 0, 2 ** bits - 1)
    codes = np.clip(np.round(w / in_groups(w, scale)) + in_groups(w, zero), 0, 2 ** bits - 1)
    floats = ((codes - in_groups(w, zero)) * in_groups(w, scale)).astype(np.float32)
    return codes.astype(np.uint8), zero.astype(np.uint8), floats, {name + ".weight_scale": scale.astype(np.float16)}


def halves(s):
    return s.astype(np.float16).astype(np.float32), s.astype(np.float16)


def brains(s):
    typed = bf16(s)
    return (typed.bits.astype(np.uint32) << 16).view(np.float32), typed


def i8_rows(name, w):
    codes, floats, file = signed(name, w, w.shape[1])
    return floats, {**file, name + ".weight": codes}


def i8_one(name, w):
    scale = np.float32(np.abs(w).max() / 127)
    codes = np.round(w / scale).astype(np.int8)
    return (codes * scale).astype(np.float32), {name + ".weight": codes, name + ".weight_scale": np.array(scale)}


def i8_one_zero(name, w):
    scale, zero = np.float32((w.max() - w.min()) / 255), np.int8(-7)
    codes = np.clip(np.round(w / scale) + zero, -128, 127).astype(np.int8)
    return ((codes.astype(int) - zero) * scale).astype(np.float32), {
        name + ".weight": codes, name + ".weight_scale": np.array([scale]), name + ".weight_zero_point": np.array([zero])}


def i8_zeros(name, w):
    codes, zero, floats, file = ranged(name, w, 32, 8)
    return floats, {**file, name + ".weight": (codes.astype(int) - 128).astype(np.int8), name + ".weight_zero_point": (zero.astype(int) - 128).astype(np.int8)}


def packed(bits, axis_groups, scale_of):
    def make(name, w):
        codes, floats, file = signed(name, w, axis_groups, bits, scale_of)
        return floats, {**file, name + ".weight_packed": pack(codes.astype(int) + 2 ** (bits - 1), bits, 1),
                        name + ".weight_shape": np.array(w.shape, "<i8")}
    return make


def packed_zeros(bits):
    def make(name, w):
        codes, zero, floats, file = ranged(name, w, 32, bits)
        return floats, {**file, name + ".weight_packed": pack(codes, bits, 1), name + ".weight_zero_point": pack(zero, bits, 0),
                        name + ".weight_shape": np.array(w.shape, "<i8")}
    return make


def f8_of(exponent_bits):
    """The values of all float8 codes. NaN and infinities are NaN."""
    bits, bias, digits = np.arange(256), 2 ** (exponent_bits - 1) - 1, 7 - exponent_bits
    exponent, fraction = bits >> digits & 2 ** exponent_bits - 1, (bits & 2 ** digits - 1) / 2 ** digits
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    special = exponent == 31 if exponent_bits == 5 else bits & 127 == 127
    return np.where(special, np.nan, np.where(bits & 128, -value, value))


def f8(exponent_bits, dtype, squares):
    table = f8_of(exponent_bits)
    order = np.argsort(np.nan_to_num(table, nan=np.inf))[:np.isfinite(table).sum()]

    def make(name, w):
        tall, wide = (32, 32) if squares else (1, w.shape[1])
        blocks = np.pad(w, ((0, -len(w) % tall), (0, 0))).reshape(-(-len(w) // tall), tall, -1, wide)
        scale = (np.abs(blocks).max((1, 3)) / np.nanmax(table)).astype(np.float32)
        each = np.repeat(in_groups(w, scale), tall, 0)[:len(w)]
        at = np.clip(np.searchsorted(table[order], w / each), 0, len(order) - 1)
        bits = order[at].astype(np.uint8)
        return (table[bits] * each).astype(np.float32), {name + ".weight": Typed(bits, dtype), name + (".weight_scale_inv" if squares else ".weight_scale"): scale}
    return make


ways = {"i8, a scale a row": i8_rows, "i8, one scale": i8_one, "i8, one scale and zero point": i8_one_zero, "i8 in groups, zero points": i8_zeros, "4 bits in words": packed(4, 32, halves),
        "4 bits in words, a scale of bf16": packed(4, 32, brains), "4 bits in words, zero points": packed_zeros(4),
        "8 bits in words": packed(8, 32, halves), "8 bits in words, zero points": packed_zeros(8), "f8e4m3": f8(4, "F8_E4M3", False),
        "f8e5m2": f8(5, "F8_E5M2", False), "f8e4m3, a scale a square": f8(4, "F8_E4M3", True)}
folders = {}
# of the second kind, whose matrices share tensors
some = "i8, a scale a row", "4 bits in words, zero points", "f8e4m3, a scale a square"
# not by default: other suites and the calls below have their parts
others = "i8, one scale", "8 bits in words", "f8e5m2"
thorough = os.environ.get("CLATTN_THOROUGH", "off") != "off"
for kind, matrices in kinds.items():
    config = dict(shared, model_type=kind)
    for way, make in ways.items():
        if not thorough and (way in others or (kind == "phi3" and way not in some)):
            continue
        floats, stored = dict(norms), dict(norms)
        for name, w in matrices.items():
            floats[PATH + name + ".weight"], tensors = make(PATH + name, w)
            stored.update(tensors)
        what = f"{kind}, {way}"
        want = run(folder_of("floats", config, floats))
        folders[what] = config, stored
        near(what, run(folder_of("stored", config, stored)), want)
    plain = {**norms, **{PATH + name + ".weight": w for name, w in matrices.items()}}
    folder_of(kind, config, plain)
    for type, bits, options in ("q8", 8, ["--weight-group", "32"]), ("q8", 8, []), ("i4", 4, ["--weight-group", "32", "--weight-scales", "f16"]):
        rounded = dict(norms)
        for name, w in matrices.items():
            rounded[PATH + name + ".weight"] = signed(name, w, 32 if options else w.shape[1], bits, halves if type == "i4" else lambda s: (s, s))[1]
        want = run(folder_of("floats", config, rounded))
        near(f"{kind}, --weight-type {type} {' '.join(options)}", run(kind, "--weight-type", type, *options), want)
    if kind == "phi3" and not thorough:
        break
    exact = run(kind)
    for type, most in ("bf16", 1e-4), ("q8_0", 1e-3), ("q4_0", 0.1), ("u4", 0.05):
        got = run(kind, "--weight-type", type, *(["--weight-group", "32", "--weight-zeros"] if type == "u4" else []))
        near(f"{kind}, --weight-type {type}, of floats", got, exact, most)
        assert (got != exact).any(), f"--weight-type {type} changes nothing"

# A single file whose tensors are named by options.
config, stored = folders["llama, 4 bits in words, zero points"]
folder = folder_of("named", config, stored)
ends = ["--x", "x.npy", "--out", "out.npy", "--quiet", "--projection", "native"]
told = ["--heads", "4", "--kv-heads", "2", "--causal", "top-left", "--rope", "half", "--rope-base", "10000"]
assert subprocess.run([CLATTN, "layer", "--model", folder, "--layer", "0", *ends]).returncode == 0
want = np.load("out.npy")[0]
assert subprocess.run([CLATTN, "layer", "--weights", folder + "/model.safetensors", "--names", "llama:" + PATH + "self_attn", *told, *ends]).returncode == 0
near("by names", np.load("out.npy")[0], want, 1e-30)

# How many numbers share one scale. Four equal matrices, selected by name, with and without a
# config.json beside the file.
F8, INVERSE, SCALE = f8_of(4), "_scale_inv", "_scale"


def four(config, width, matrix, name="{}", options=()):
    """Returns the result of a layer, or its error. `matrix` has the tensors of each matrix, by the
    suffix after its name."""
    names = {one: name.format(one) for one in "qkvo"}
    folder_of("beside", config, {names[one] + key: value for one in names for key, value in matrix.items()})
    if config is None:
        os.remove("beside/config.json")
    np.save("wide.npy", np.random.default_rng(5).standard_normal((1, ROWS, width)).astype(np.float32))
    done = subprocess.run([CLATTN, "layer", "--weights", "beside/model.safetensors", *(options or [f"--w{one}={names[one]}" for one in names]), "--heads", "2",
                           "--x", "wide.npy", "--out", "out.npy", "--projection", "native", "--quiet"], capture_output=True, text=True)
    assert done.returncode in (0, 2) and done.stderr.count("\n") == (done.returncode == 2), done
    return done.stderr if done.returncode else np.load("out.npy").astype(np.float64)[0]


def right(what, codes, ending, scales, square, config=None, zero=0, name="{}", **packed):
    """Compare `codes` minus `zero`, with one scale per `square`, with floats. `packed`: the file's
    tensors instead of the codes."""
    each = np.repeat(np.repeat(scales.astype(np.float64), square[0], 0), square[1], 1)[:codes.shape[0], :codes.shape[1]]
    w = each * (F8[codes.bits] if isinstance(codes, Typed) else codes.astype(np.float64) - zero)
    got = four(config, len(w), {ending: scales, **(packed if "_packed" in packed else {"": codes, **packed})}, name)
    q = (np.load("wide.npy")[0].astype(np.float64) @ w.T).reshape(ROWS, 2, -1).swapaxes(0, 1)
    weights = np.exp(q @ q.swapaxes(1, 2) / math.sqrt(q.shape[2]))
    near(what, got, (weights / weights.sum(2, keepdims=True) @ q).swapaxes(0, 1).reshape(ROWS, -1) @ w.T)


def wrong(what, words, config, matrix, name="{}"):
    global counted
    got = four(config, 64, matrix, name)
    assert isinstance(got, str) and all(word in got for word in words), f"{what}: {got}"
    counted += 1


def scales_of(rows, columns):
    return np.exp(random.uniform(-3, 0, (rows, columns))).astype(np.float32) / 64


def float8(rows, columns):
    return Typed(random.choice(np.flatnonzero(np.abs(F8) <= 16), (rows, columns)).astype(np.uint8), "F8_E4M3")


def int8(rows, columns):
    return random.integers(-24, 24, (rows, columns)).astype(np.int8)


def hollow(dtype, *shape):
    """A tensor without data, also with sizes that numpy refuses."""
    none = Typed(np.zeros(0, np.uint8), dtype)
    none.shape = shape
    return none


def said(**keys):
    return {"quantization_config": keys}


def grouped(*groups):
    return said(config_groups={f"group_{n}": {"targets": ["Linear"], "weights": group} for n, group in enumerate(groups)})


def shape_of(rows, columns):
    return np.array([rows, columns], "<i8")


right("squares of 128, the last of 64", float8(192, 192), INVERSE, scales_of(2, 2), (128, 128))
right("squares of 160, the last of 32", float8(192, 192), INVERSE, scales_of(2, 2), (160, 160), said(weight_block_size=[160, 160]))
right("squares of 120, the last of 72", float8(192, 192), INVERSE, scales_of(2, 2), (120, 120), said(weight_block_size=[120, 120]))
right("squares of 96", float8(192, 192), INVERSE, scales_of(2, 2), (96, 96), said(weight_block_size=[96, 96]))
right("squares of 64 that nobody says", float8(192, 192), INVERSE, scales_of(3, 3), (64, 64))
right("64 x 128 numbers", float8(192, 192), SCALE, scales_of(3, 2), (64, 128), grouped(dict(num_bits=8, type="float", strategy="block", block_structure=[64, 128])))
right("groups of 128, the last of 64", int8(192, 192), SCALE, scales_of(192, 2), (1, 128), said(group_size=128))
right("groups of 128 beside those of 64", int8(192, 192), SCALE, scales_of(192, 2), (1, 128), grouped(dict(group_size=64), dict(group_size=128), dict(group_size=-1)))
right("groups of 96 that nobody says", int8(192, 192), SCALE, scales_of(192, 2), (1, 96))
right("groups of 16", int8(192, 192), SCALE, scales_of(192, 12), (1, 16))
codes = random.integers(0, 16, (90, 90))
right("groups of 64, the last of 26, of 4 bits", codes, SCALE, scales_of(90, 2), (1, 64), grouped(dict(num_bits=4, type="int", strategy="group", group_size=64)), 8,
      _packed=pack(codes, 4, 1), _shape=shape_of(90, 90))
right("4 bits, a zero point with a sign", codes, SCALE, scales_of(1, 1), (90, 90), said(num_bits=4), 3, _packed=pack(codes, 4, 1), _shape=shape_of(90, 90),
      _zero_point=np.array([-5], "|i1"))
codes = random.integers(104, 152, (90, 90))
right("90 numbers of 8 bits", codes, SCALE, scales_of(90, 1), (1, 90), None, 128, _packed=pack(codes, 8, 1), _shape=shape_of(90, 90))
for letters in 502, 3000:
    right(f"a name of {letters} letters", int8(64, 64), SCALE, scales_of(64, 1), (1, 64), zero=9, name="{}" + "n" * (letters - 1), _zero_point=np.full((64, 1), 9, "|i1"))
prefix, bias = "p" * 600, np.full(64, 2, np.float32)
plain = {one + key: value for one in ("q_proj", "k_proj", "v_proj", "o_proj") for key, value in ((".weight", matrix(64, 64)), (".bias", bias))}
options = ["--causal", "top-left", "--rope", "half", "--rope-base", "10000", "--names", "llama:"]
want = four(None, 64, plain, "", options)
near("biases behind a prefix of 600 letters", four(None, 64, {prefix + "." + key: value for key, value in plain.items()}, "", [*options[:-1], "llama:" + prefix]), want, 1e-30)
assert abs(want).max() > 1, "the biases change nothing"

# The same with a model folder of two shards, and with a complete block.
floats, shards = dict(norms), [dict(norms), {}]
for number, (name, w) in enumerate(kinds["llama"].items()):
    codes, scales = float8(*w.shape), scales_of(-(-w.shape[0] // 64), -(-w.shape[1] // 64))
    floats[PATH + name + ".weight"] = (F8[codes.bits] * np.repeat(np.repeat(scales, 64, 0), 64, 1)[:w.shape[0], :w.shape[1]]).astype(np.float32)
    shards[number % 2][PATH + name + ".weight"], shards[1 - number % 2][PATH + name + ".weight_scale_inv"] = codes, scales
config = dict(shared, model_type="llama", **said(quant_method="fp8", weight_block_size=[64, 64]))
for number, shard in enumerate(shards):
    os.rename(folder_of("shards", config, shard) + "/model.safetensors", f"shards/{number}.safetensors")
json.dump({"weight_map": {key: f"{number}.safetensors" for number in (0, 1) for key in shards[number]}}, open("shards/model.safetensors.index.json", "w"))
near("squares of 64, the last of 32, of a block in shards", run("shards"), run(folder_of("floats", dict(shared, model_type="llama"), floats)))

for what, words, config, codes, ending, scales in (
        ("squares", ("[3, 3]", "128 x 128 make [2, 2]"), said(weight_block_size=[128, 128]), float8(192, 192), INVERSE, scales_of(3, 3)),
        ("squares that nobody says", ("[5, 5]", "128 x 128 make [2, 2]"), None, float8(192, 192), INVERSE, scales_of(5, 5)),
        ("no squares", ("[2, 3]", "[192, 192]"), None, float8(192, 192), INVERSE, scales_of(2, 3)),
        ("groups", ("[192, 2]", "1 x 64 make [192, 3]"), said(group_size=64), int8(192, 192), SCALE, scales_of(192, 2)),
        ("groups that nobody says", ("[192, 5]", "[192, 192]"), None, int8(192, 192), SCALE, scales_of(192, 5)),
        ("a scale a row", ("[192, 1]", "1 x 64 make [192, 3]"), said(group_size=64), int8(192, 192), SCALE, scales_of(192, 1)),
        ("groups of two sizes", ("1 x 96 make [192, 2]", "1 x 128 make [192, 2]"), grouped(dict(group_size=96), dict(group_size=128)), int8(192, 192), SCALE, scales_of(192, 2)),
        ("group_size of 0", ("group_size is 0",), said(group_size=0), int8(64, 64), SCALE, scales_of(64, 1)),
        ("group_size below -1", ("group_size is -2",), grouped(dict(group_size=-2)), int8(64, 64), SCALE, scales_of(64, 1)),
        ("group_size as a text", ("group_size is \"64\"",), said(group_size="64"), int8(64, 64), SCALE, scales_of(64, 1)),
        ("one size of a square", ("weight_block_size is [128]",), said(weight_block_size=[128]), float8(64, 64), INVERSE, scales_of(1, 1)),
        ("a square of no columns", ("block_structure is \"128x0\"",), grouped(dict(block_structure="128x0")), float8(64, 64), INVERSE, scales_of(1, 1)),
        ("no bits", ("num_bits is 0",), said(num_bits=0), int8(64, 64), SCALE, scales_of(64, 1)),
        ("no rows", ("has no numbers", "[0, 64]"), None, hollow("I8", 0, 64), SCALE, scales_of(1, 1)),
        ("no columns", ("has no numbers", f"[{2 ** 60}, 0]"), None, hollow("F8_E4M3", 2 ** 60, 0), INVERSE, scales_of(1, 1)),
        ("no scales", (f"[{2 ** 60}, 0]",), None, int8(64, 64), SCALE, hollow("F32", 2 ** 60, 0))):
    wrong(what, words, config, {"": codes, ending: scales})
sixteen = np.ones((64, 16), "<i4")
for what, words, config, there, rows, columns in (
        ("7 bits", ("num_bits is 7",), grouped(dict(num_bits=7, type="int")), sixteen, 64, 64),
        ("7 bits beside 8", ("num_bits is 7",), grouped(dict(num_bits=8), dict(num_bits=7)), sixteen, 64, 64),
        ("7 bits without gaps", ("num_bits is 7",), said(bits=7), np.ones((64, 14), "<i4"), 64, 64),
        ("3 bits", ("num_bits is 3",), said(num_bits=3), np.ones((64, 6), "<i4"), 64, 64),
        ("4 bits in words of 8", ("no 64 numbers of 4 bits", "16 words"), said(num_bits=4), sixteen, 64, 64),
        ("words of other widths", ("no 64 numbers of 4 or 8 bits", "9 words"), None, np.ones((64, 9), "<i4"), 64, 64),
        ("other rows", ("[7, 64]", "[64, 16]"), None, sixteen, 7, 64),
        ("rows below 0", ("[-64, 64]", "[0, 16]"), None, hollow("I32", 0, 16), -64, 64),
        ("columns below 0", ("[64, -3]", "[64, 0]"), None, hollow("I32", 64, 0), 64, -3),
        ("rows of no words", (f"no 64 numbers", "0 words"), None, hollow("I32", 2 ** 60, 0), 2 ** 60, 64),
        ("2^62 columns", (f"no {2 ** 62} numbers", "16 words"), None, sixteen, 64, 2 ** 62)):
    wrong(what, words, config, {SCALE: scales_of(64, 1), "_packed": there, "_shape": shape_of(rows, columns)})
wrong("zero points of no columns", ("shape [64, 0]",), None, {"": int8(64, 64), SCALE: scales_of(64, 1), "_zero_point": hollow("I32", 16, 0)})
wrong("order, by a long name", ("in another order",), None, {"": int8(64, 64), SCALE: scales_of(64, 1), "_g_idx": np.zeros(64, "<i4")}, "{}" + "n" * 508)
open("beside/config.json", "w").write("{")
got = subprocess.run([CLATTN, "layer", "--weights", "beside/model.safetensors", *(f"--w{one}={one}{'n' * 508}" for one in "qkvo"), "--heads", "2", "--x", "wide.npy", "--out", "out.npy"],
                     capture_output=True, text=True)
assert got.returncode == 2 and "beside/config.json: line 1" in got.stderr, got

config, stored = folders["llama, i8, a scale a row"]
gate = PATH + "mlp.gate_proj.weight"


def changed(more, without=()):
    return folder_of("changed", config, {key: value for key, value in {**stored, **more}.items() if key not in without})


refused("no scale", f"{gate}: is of i8, and the file has no {gate}_scale", changed({}, [gate + "_scale"]))
refused("order", "groups of numbers in another order", changed({gate + "_g_idx": np.zeros(WIDTH, "<i4")}))
refused("scales", "shape [5, 1]: float scales are needed, one in all", changed({gate + "_scale": np.ones((5, 1), "<f4")}))
refused("scales of integers", "is of type i32", changed({gate + "_scale": np.ones((HIDDEN, 1), "<i4")}))
refused("zero points", "shape [5, 1]: float scales are needed, one in all", changed({gate + "_zero_point": np.ones((5, 1), "|i1")}))
refused("groups of zero points", "there are 192 for 96 scales", changed({gate + "_zero_point": np.ones((HIDDEN, 2), "|i1")}))
refused("zero points as floats", "holds f32: i8, or words", changed({gate + "_zero_point": np.ones((HIDDEN, 1), "<f4")}))
refused("a norm of i8", "holds i8", changed({PATH + "input_layernorm.weight": np.ones(WIDTH, "|i1")}))
refused("twice", "already is i8 in the file", changed({}), "--weight-type", "q4_0")
config, stored = folders["llama, 4 bits in words"]
refused("no shape", f"{gate}_packed, and no {gate}_shape", changed({}, [gate + "_shape"]))
refused("another shape", "in words of 32 along axis 1", changed({gate + "_shape": np.array([HIDDEN, 72], "<i8")}))
config, stored = folders["llama, f8e4m3"]
refused("float8 with zero points", "numbers of f8e4m3 have no zero points", changed({gate + "_zero_point": np.ones((HIDDEN, 1), "|i1")}))
refused("u4", "--weight-type u4: needs --weight-zeros", "llama", "--weight-type", "u4")
refused("no effect", "--weight-group: has no effect", "llama", "--weight-group", "32")
refused("a group", "a multiple of 32 that divides them", "llama", "--weight-type", "q8", "--weight-group", "33")
assert counted == (100 if thorough else 84), counted
print(f"{counted} checks of stored matrices: all held")
