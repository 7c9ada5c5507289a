# options_files.sh: what tests/program/check_options.sh and tests/program/check_refusals.sh work on: a folder of their
# own, small files in it, and the
# program. Sourced with $1, the build folder.
clattn=$PWD/$1/clattn data=$PWD/tests/data
. "$PWD/tests/program/refused.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CACHE_HOME="$work/cache"
"$clattn" devices --quiet 2>/dev/null || { echo "no OpenCL device"; exit 77; }

# Small files: numpy.py NAME DESCR SHAPE VALUES...
cat >numpy.py <<'PYTHON'
import struct, sys
name, descr, shape, values = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4:]
count = 1
for n in shape:
    count *= n
letter = {"<f4": "f", "<i4": "i", "<i8": "q"}[descr]
values = [(float if letter == "f" else int)(v) for v in values] or [(i % 7 - 3) / 4 for i in range(count)]
head = repr({"descr": descr, "fortran_order": False, "shape": shape})
head += " " * (63 - (len(head) + 10) % 64) + "\n"
open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{count}{letter}", *values))
PYTHON
python3 numpy.py x.npy '<f4' '(1, 2, 4, 8)'
python3 numpy.py none.npy '<f4' '(0, 2, 4, 8)'
python3 numpy.py slopes.npy '<f4' '(2,)' 1 0.5
python3 numpy.py slopes2.npy '<f4' '(1, 4)'
python3 numpy.py minus.npy '<i4' '(1,)' -1
python3 numpy.py zero.npy '<i4' '(1,)' 0
python3 numpy.py five.npy '<i8' '(1,)' 5
python3 numpy.py three.npy '<i4' '(1,)' 3
attend() { "$clattn" attend --q x.npy --k x.npy --v x.npy --quiet "$@"; }
# An option that is refused with that word.
no() { refused 2 "$1" attend --q x.npy --k x.npy --v x.npy --out refused.npy "$2" "$3"; }
# Positions.
python3 numpy.py counted.npy '<i8' '(1, 4)' 0 1 2 3
python3 numpy.py axes.npy '<i4' '(3, 1, 4)' 0 1 2 3 0 1 2 3 0 1 2 3
python3 numpy.py moved.npy '<i4' '(1, 4)' 5 1 -3 1000000
# Past rows, new rows, and pages of two rows in another order.
python3 - <<'PYTHON'
import subprocess, sys
x = lambda h, n, d: ((h * 4 + n) * 8 + d) % 7 / 4 - 0.75
def save(name, shape, values, descr="<f4"):
    subprocess.run([sys.executable, "numpy.py", name, descr, repr(shape), *map(str, values)], check=True)
def rows(heads): return [x(h, n, d) for h, ns in heads for n in ns for d in range(8)]
save("past.npy", (1, 2, 3, 8), rows([(0, (0, 1, 2)), (1, (0, 1, 2))]))
save("new.npy", (1, 2, 1, 8), rows([(0, (3,)), (1, (3,))]))
save("items.npy", (2, 2, 4, 8), 2 * rows([(0, range(4)), (1, range(4))]))
save("items_new.npy", (2, 2, 1, 8), 2 * rows([(0, (3,)), (1, (3,))]))
save("pool.npy", (2, 2, 2, 8), rows([(0, (2, 3)), (1, (2, 3)), (0, (0, 1)), (1, (0, 1))]))
save("table.npy", (1, 2), [1, 0], "<i8")
save("far.npy", (1, 2), [1, 1 << 40], "<i8")
PYTHON
# Two sequences in one file.
python3 numpy.py cu.npy '<i8' '(3,)' 0 1 4
python3 numpy.py cu_falls.npy '<i4' '(3,)' 0 4 1
ln -s later.npy link.npy
# A real layer; tensors of other schemes, small: [3E, E] with E = 4, and what a scheme does not know; models' folders.
smollm2=$data/smollm2_layer0.safetensors prefix=model.layers.0.self_attn
python3 - "$smollm2" <<'PYTHON'
import json, os, struct, sys
def write(name, tensors):
    head, at = {}, 0
    for key, (shape, data) in tensors.items():
        head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))
def tensor(*shape):
    count = 1
    for n in shape:
        count *= n
    return list(shape), struct.pack(f"<{count}f", *[(i % 5 - 2) / 8 for i in range(count)])
torch = {"a.in_proj_weight": tensor(12, 4), "a.out_proj.weight": tensor(4, 4), "k": tensor(4, 4), "kb": tensor(4)}
write("torch.safetensors", torch)
write("torch_bias.safetensors", {**torch, "a.bias_k": tensor(1, 1, 4)})
bytes_ = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", bytes_[:8])[0]
real = {}
for key, entry in json.loads(bytes_[8:8 + size]).items():
    if key != "__metadata__":
        real[key] = (entry["shape"], bytes_[8 + size:][slice(*entry["data_offsets"])])
write("norm.safetensors", {**real, "model.layers.0.self_attn.q_norm.weight": tensor(64)})
config = {"model_type": "llama", "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30,
          "rope_theta": 100000, "rope_interleaved": False, "rope_scaling": None, "attention_bias": False}
def model(folder, weights=True, **change):
    os.mkdir(folder)
    json.dump({key: value for key, value in {**config, **change}.items() if value != "absent"}, open(folder + "/config.json", "w"))
    if weights:
        os.symlink(sys.argv[1], folder + "/model.safetensors")
model("whole")
model("sharded", False)
keys = sorted(real)
write("sharded/1.safetensors", {key: real[key] for key in keys[:2]})
write("sharded/2.safetensors", {key: real[key] for key in keys[2:]})
def shards(folder, names):
    json.dump({"weight_map": {key: names[i >= 2] for i, key in enumerate(keys)}}, open(folder + "/model.safetensors.index.json", "w"))
shards("sharded", ("1.safetensors", "2.safetensors"))
# Names of shards that are no names: each with files that would be found.
for i, name in enumerate(("../sharded/1.safetensors", "a\\1.safetensors", "C:1.safetensors", "1.safetensors:s", "1\x9b.safetensors", "1\n.safetensors", "1\u202e.safetensors", ".", "..", "")):
    model(f"shard{i}", False)
    shards(f"shard{i}", (name, name))
    if "/" not in name and name.strip("."):
        os.symlink(sys.argv[1], f"shard{i}/{name}")
model("parameters", rope_theta="absent", rope_parameters={"rope_type": "default", "rope_theta": 100000})
model("linear", rope_scaling={"type": "linear", "factor": 1})
model("window", sliding_window=1000000, use_sliding_window=True)
model("no_window", sliding_window=2, use_sliding_window=False)
model("layer_types", sliding_window=2, layer_types=["full_attention"] + ["sliding_attention"] * 29)
model("base", rope_theta=10000)
model("linear4", rope_scaling={"rope_type": "linear", "factor": 4.0})
model("window2", sliding_window=2)
model("yarn", rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 2})
model("deepseek", rope_scaling={"type": "yarn", "factor": 4.0, "beta_fast": 2, "mscale": 1.0, "mscale_all_dim": 0.5},
      max_position_embeddings=64)
model("llama31", rope_scaling={"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64,
                               "low_freq_factor": 1.0, "high_freq_factor": 4.0})
model("dynamic", rope_scaling={"type": "dynamic", "factor": 2.0}, max_position_embeddings=4)
model("heads", num_attention_heads=12, num_key_value_heads=4, head_dim=64)
model("head_dim", head_dim=32)
model("type", model_type="mamba")
model("norm", model_type="qwen3", rms_norm_eps=1e-6)
model("no_epsilon", model_type="qwen3", rms_norm_eps=-1)
model("capped", attn_logit_softcapping=50.0)
model("sinks", model_type="gpt_oss")
model("llama3", rope_scaling={"rope_type": "llama3", "factor": 8.0})
model("stranger", clip_qkv=8)
model("bias", attention_bias=True)
model("text", num_attention_heads="9")
model("no_heads", num_attention_heads="absent")
model("no_weights", False)
os.mkdir("no_config")
PYTHON
python3 numpy.py t.npy '<f4' '(1, 3, 4)'
