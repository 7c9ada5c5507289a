# options_files.sh: common part of check_options.sh and check_refusals.sh: their working folder,
# small files, and the program. Sourced with $1, the build folder.
clattn=$PWD/$1/clattn data=$PWD/tests/data
. "$PWD/tests/program/refused.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CACHE_HOME=none HOME=none # no cache folder, so that commands are independent
"$clattn" devices --quiet 2>/dev/null || { echo "no OpenCL device"; exit 77; }

attend() { "$clattn" attend --q x.npy --k x.npy --v x.npy --quiet "$@"; }
# Check that an option is refused with this word.
no() { refused 2 "$1" attend --q x.npy --k x.npy --v x.npy --out refused.npy "$2" "$3"; }
ln -s later.npy link.npy
# Small files; a real layer; tensors of other naming schemes and unsupported ones; model folders.
smollm2=$data/smollm2_layer0.safetensors prefix=model.layers.0.self_attn
export PYTHONPATH="$OLDPWD/tests/program" PYTHONDONTWRITEBYTECODE=1
python3 - "$smollm2" <<'PYTHON' || exit 1
import json, os, sys
from files import npy, read_safetensors, safetensors
npy("x.npy", (1, 2, 4, 8))
npy("none.npy", (0, 2, 4, 8))
npy("wide.npy", (1, 2, 4, 32))  # complete blocks
npy("t.npy", (1, 3, 4))
npy("slopes.npy", (2,), (1, 0.5))
npy("slopes2.npy", (1, 4))
for name, value in {"minus": -1, "zero": 0, "three": 3, "two_past": 2}.items():
    npy(name + ".npy", (1,), [value], "<i4")
npy("five.npy", (1,), [5], "<i8")
# Positions; sequences in one file; a page number that exceeds 32 bits.
npy("counted.npy", (1, 4), range(4), "<i8")
npy("axes.npy", (3, 1, 4), 3 * list(range(4)), "<i4")
npy("moved.npy", (1, 4), (5, 1, -3, 1000000), "<i4")
npy("cu.npy", (3,), (0, 1, 4), "<i8")
npy("cu_falls.npy", (3,), (0, 4, 1), "<i4")
npy("cu_one.npy", (2,), (0, 4), "<i4")
npy("cu_new.npy", (2,), (0, 1), "<i4")
npy("table.npy", (1, 2), (1, 0), "<i8")
npy("far.npy", (1, 2), (1, 1 << 40), "<i8")
# Rows of x as past rows and new rows, as pages of two rows in another order, and in a cache whose
# last row is free.
x = lambda h, n, d: ((h * 4 + n) * 8 + d) % 7 / 4 - 0.75
def rows(heads): return [x(h, n, d) for h, ns in heads for n in ns for d in range(8)]
npy("past.npy", (1, 2, 3, 8), rows([(0, (0, 1, 2)), (1, (0, 1, 2))]))
npy("new.npy", (1, 2, 1, 8), rows([(0, (3,)), (1, (3,))]))
npy("items.npy", (2, 2, 4, 8), 2 * rows([(0, range(4)), (1, range(4))]))
npy("items_new.npy", (2, 2, 1, 8), 2 * rows([(0, (3,)), (1, (3,))]))
npy("pool.npy", (2, 2, 2, 8), rows([(0, (2, 3)), (1, (2, 3)), (0, (0, 1)), (1, (0, 1))]))
npy("cache.npy", (1, 2, 4, 8), [x(h, n, d) if n < 3 else 9 for h in range(2) for n in range(4) for d in range(8)])
# Rows of 64 whose first half is far larger, queries that ignore that half, and rows far from 0.
halves = lambda large, more: [large * (-1) ** d if d < 32 else more + x(h, n, d) for h in range(2) for n in range(4) for d in range(64)]
npy("halves_q.npy", (1, 2, 4, 64), halves(0, 0))
npy("halves.npy", (1, 2, 4, 64), halves(64, 0))
npy("offset.npy", (1, 2, 4, 64), [10 + v for v in halves(0, 0)])
# For a layer with identity matrices: all rows, and the last row once and twice.
whole = lambda n: [x(h, n, d) for h in range(2) for d in range(8)]
npy("eye.npy", (16, 16), [float(i == j) for i in range(16) for j in range(16)])
npy("all.npy", (1, 4, 16), [v for n in range(4) for v in whole(n)])
npy("last.npy", (1, 1, 16), whole(3))
npy("last_two.npy", (2, 1, 16), 2 * whole(3))
# Tensors of other naming schemes: [3E, E] with E = 4.
torch = {"a.in_proj_weight": [12, 4], "a.out_proj.weight": [4, 4], "k": [4, 4], "kb": [4]}
safetensors("torch.safetensors", torch)
safetensors("torch_bias.safetensors", {**torch, "a.bias_k": [1, 1, 4]})
real = read_safetensors(sys.argv[1])
safetensors("norm.safetensors", {**real, "model.layers.0.self_attn.q_norm.weight": [64]})
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
safetensors("sharded/1.safetensors", {key: real[key] for key in keys[:2]})
safetensors("sharded/2.safetensors", {key: real[key] for key in keys[2:]})
def shards(folder, names):
    json.dump({"weight_map": {key: names[i >= 2] for i, key in enumerate(keys)}}, open(folder + "/model.safetensors.index.json", "w"))
shards("sharded", ("1.safetensors", "2.safetensors"))
# Invalid names of shards. Each has a file that would be found.
for i, name in enumerate(("../sharded/1.safetensors", "a\\1.safetensors", "C:1.safetensors", "1.safetensors:s", "1\x9b.safetensors", "1\n.safetensors", "1\u202e.safetensors", ".", "..", "")):
    model(f"shard{i}", False)
    shards(f"shard{i}", (name, name))
    if "/" not in name and name.strip("."):
        os.symlink(sys.argv[1], f"shard{i}/{name}")
model("parameters", rope_theta="absent", rope_parameters={"rope_type": "default", "rope_theta": 100000})
model("linear", rope_scaling={"type": "linear", "factor": 1})
model("window", model_type="mistral", sliding_window=1000000)
model("no_window", sliding_window=2, use_sliding_window=False)
model("layer_types", sliding_window=2, layer_types=["full_attention"] + ["sliding_attention"] * 29)
model("base", rope_theta=10000)
model("linear4", rope_scaling={"rope_type": "linear", "factor": 4.0})
model("window2", model_type="mistral", sliding_window=2)
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
# keys that llama does not have
model("capped", attn_logit_softcapping=50.0, clip_qkv=8, sliding_window=2)
model("sinks", model_type="gpt_oss")
model("llama3", rope_scaling={"rope_type": "llama3", "factor": 8.0})
model("stranger", model_type="gemma", use_bidirectional_attention=True)
model("bias", attention_bias=True)
model("text", num_attention_heads="9")
model("no_heads", num_attention_heads="absent")
model("no_weights", False)
os.mkdir("no_config")
PYTHON
