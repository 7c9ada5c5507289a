#!/bin/sh
# Options: what is not wholly understood, would be without effect, or would become another request is refused with one
# line; checks fail where they checked nothing; results arrive whole or the exit status says so; a model's own config.json
# stands for the options that names of tensors do not tell.   $1 build folder
set -u
clattn=$PWD/$1/clattn data=$PWD/tests/data
. "$PWD/tests/refused.sh"
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
no() { refused 2 "$1" attend --q x.npy --k x.npy --v x.npy --out refused.npy "$2" "$3"; }

attend --out o.npy || complain "attend"
for text in '' ' 1' '1 ' +1 1x 0x10 1e400 1e-400 1e-50 1e39 nan inf , 1,5; do
    for option in scale softcap; do no "--$option" --$option "$text"; done
done
for text in '' ' 5' 5x 0x5 5.0 99999999999999999999 -1; do no --splits --splits "$text"; done
for text in 4294967296,0 0,4294967296 -2,0 '1, 2' ' 1,2' 1,2x 1 1, ,1 0x1,0 +1,0 99999999999999999999,0; do no --window --window "$text"; done
for text in -1 nan 1e-400 '' x; do no tolerance --tolerance "$text"; done
refused 2 'needs --expect' attend --q x.npy --k x.npy --v x.npy --out refused.npy --tolerance 0
refused 2 offset attend --q x.npy --k x.npy --v x.npy --out refused.npy --causal offset --offset 2147483648
refused 2 'milliseconds' bench --case plain --max-ms 1e-400
refused 2 'has its own cases' verify --pairs --case plain
refused 2 'has its own cases' verify --pairs --only unfused/plain
refused 2 'whole number' bench --case plain --repeat 5x
refused 2 'list such as' bench -n 99999999999999999999

# RoPE: positions that say what is counted anyway change no bit, nor do three axes of them; others do.
python3 numpy.py counted.npy '<i8' '(1, 4)' 0 1 2 3
python3 numpy.py axes.npy '<i4' '(3, 1, 4)' 0 1 2 3 0 1 2 3 0 1 2 3
python3 numpy.py moved.npy '<i4' '(1, 4)' 5 1 -3 1000000
rope() { attend --rope half --out a.npy --expect r.npy --tolerance 0 "$@"; }
attend --rope half --out r.npy || complain "attend --rope"
rope --positions counted.npy || complain "--positions of what is counted"
rope --positions counted.npy --k-positions counted.npy || complain "--k-positions of what is counted"
for sections in 1,2,1 1,2,1,interleaved; do rope --positions axes.npy --rope-sections $sections || complain "--rope-sections $sections"; done
rope 2>stderr || complain "attend --rope twice"
rope --positions moved.npy 2>stderr && complain "--positions: are not read"
rope --positions counted.npy --k-positions moved.npy 2>stderr && complain "--k-positions: are not read"
no 'no effect' --positions counted.npy
no 'no effect' --rope-sections 1,2,1
no_rope() { word=$1; shift; refused 2 "$word" attend --q x.npy --k x.npy --v x.npy --out refused.npy --rope half "$@"; }
no_rope 'needs --positions' --rope-sections 1,2,1
no_rope 'needs --positions' --k-positions counted.npy
no_rope 'rank 2' --positions axes.npy
no_rope 'i32 or i64' --positions slopes2.npy
for text in 1,2 1,2,x 1,2,3,4 1,2,-1 1,2,1,; do no_rope 'three numbers' --positions axes.npy --rope-sections "$text"; done
no_rope 'their sum must be' --positions axes.npy --rope-sections 1,2,3

# Without effect, or of two one.
refused 2 'too many' --version attend
refused 2 'no command' help nonesuch
[ "$("$clattn" help attend)" = "$("$clattn" attend --help)" ] || complain "help attend"
no 'given twice' --q x.npy
no 'without --scores' --scores-at raw
no 'without --dropout' --seed 5
no 'without --dropout' --dropout-mask keep.npy
no 'no effect here' --align bottom-right
refused 2 'given twice' attend --q x.npy --k x.npy --v x.npy --out refused.npy --scale 1 --scale 2
refused 2 'given twice' bench -d 64 -d 128
refused 2 'its value is empty' devices --device ''
no 'is no folder' --cache-dir x.npy
no 'cannot be written' --cache-dir no/folder
refused 2 'none of the' devices --device nonesuch
refused 2 'jsonl' bench --case plain --save refused.txt
refused 2 'one is accepted' bench --case plain --json -o csv
refused 2 'one is accepted' verify --only flash/plain --case plain
refused 2 'took no case: of decode_portable' verify --only decode --family flash
refused 2 'took no case' verify --family nonesuch --case plain
refused 2 'no effect' tune --json
refused 2 'linear case' tune --projection --case plain
"$clattn" devices --device 0 | grep -q '^0  ' || complain "devices --device 0"
attend --out a.npy --align bottom-right --window 1,1 || complain "--align with a window"

# Past rows and pages: rows 0 to 2 of x and row 3, and pages of two rows in another order, are the same keys.
python3 - <<'PYTHON'
import subprocess, sys
x = lambda h, n, d: ((h * 4 + n) * 8 + d) % 7 / 4 - 0.75
def save(name, shape, values, descr="<f4"):
    subprocess.run([sys.executable, "numpy.py", name, descr, repr(shape), *map(str, values)], check=True)
def rows(heads): return [x(h, n, d) for h, ns in heads for n in ns for d in range(8)]
save("past.npy", (1, 2, 3, 8), rows([(0, (0, 1, 2)), (1, (0, 1, 2))]))
save("new.npy", (1, 2, 1, 8), rows([(0, (3,)), (1, (3,))]))
save("pool.npy", (2, 2, 2, 8), rows([(0, (2, 3)), (1, (2, 3)), (0, (0, 1)), (1, (0, 1))]))
save("table.npy", (1, 2), [1, 0], "<i8")
save("far.npy", (1, 2), [1, 1 << 40], "<i8")
PYTHON
past() { "$clattn" attend --q x.npy --k new.npy --v new.npy --past-k past.npy --past-v past.npy --quiet "$@"; }
past --out p.npy --expect o.npy --tolerance 1e-6 || complain "past rows"
past --out p.npy --past-lengths three.npy --expect o.npy --tolerance 1e-6 || complain "--past-lengths"
attend --out q8.npy --kv-type q8 && past --kv-type q8 --out p.npy --expect q8.npy --tolerance 1e-6 || complain "past rows as q8"
paged() { "$clattn" attend --q x.npy --k pool.npy --v pool.npy --quiet "$@"; }
paged --block-table table.npy --out p.npy --expect o.npy --tolerance 1e-6 || complain "pages"
paged --block-table table.npy --page-size 2 --kv-lengths three.npy --out p.npy || complain "--page-size"
no 'past-k: needs --past-v' --past-k past.npy
no 'past-lengths: has no effect' --past-lengths three.npy
no 'page-size: has no effect' --page-size 2
no 'must fit 32 bits' --block-table far.npy
refused 2 'must be 0 to 3' attend --q x.npy --k new.npy --v new.npy --out refused.npy --past-k past.npy --past-v past.npy --past-lengths five.npy
refused 2 'page_size: 3' attend --q x.npy --k pool.npy --v pool.npy --out refused.npy --block-table table.npy --page-size 3

# Two sequences in one file are what a mask makes of them.
python3 numpy.py cu.npy '<i8' '(3,)' 0 1 4
python3 numpy.py cu_falls.npy '<i4' '(3,)' 0 4 1
attend --out apart.npy --mask-mod '(i < 1) == (j < 1)' || complain "--mask-mod"
attend --out ragged.npy --cu-seqlens cu.npy --expect apart.npy || complain "--cu-seqlens"
attend --out ragged.npy --cu-seqlens cu.npy --cu-seqlens-kv cu.npy --expect apart.npy || complain "--cu-seqlens-kv"
no 'item 2 is 1 after 4' --cu-seqlens cu_falls.npy
no 'needs --cu-seqlens' --cu-seqlens-kv cu.npy

# Sequences whose keys lie in pages, behind a past, and in a cache that takes the last row; a layer of two sentences is that of each.
python3 numpy.py cu_one.npy '<i4' '(2,)' 0 4
python3 numpy.py cu_new.npy '<i4' '(2,)' 0 1
paged --block-table table.npy --cu-seqlens cu_one.npy --out p.npy --expect o.npy --tolerance 1e-6 || complain "pages of sequences"
past --cu-seqlens cu_one.npy --cu-seqlens-kv cu_new.npy --past-lengths three.npy --out p.npy --expect o.npy --tolerance 1e-6 || complain "a past of sequences"
python3 - <<'PYTHON'
import subprocess, sys
x = lambda h, n, d: ((h * 4 + n) * 8 + d) % 7 / 4 - 0.75 if n < 3 else 9
values = [x(h, n, d) for h in range(2) for n in range(4) for d in range(8)]
subprocess.run([sys.executable, "numpy.py", "cache.npy", "<f4", "(1, 2, 4, 8)", *map(str, values)], check=True)
PYTHON
grown() { "$clattn" attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --quiet "$@"; }
grown --v-new new.npy --out p.npy --out-k grown_k.npy --out-v grown_v.npy --expect o.npy --tolerance 1e-6 || complain "--k-new"
"$clattn" attend --q x.npy --k grown_k.npy --v grown_v.npy --quiet --out p.npy --expect o.npy --tolerance 1e-6 || complain "--out-k"
refused 2 'k-new: needs --v-new' attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --out refused.npy
refused 2 'no file' attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --v-new new.npy --kv-type q8 --out refused.npy --out-k refused_k.npy
no 'out-v: has no effect' --out-v refused_too.npy

# A mask as a picture: of 6 rows and 8 keys 21 pairs are causal, of which a window leaves 11.
"$clattn" heatmap --mask-mod 'j <= i' --n 6 --n-kv 8 --heads 2 --out mask.svg | grep -q ': 2 heads, 6 queries x 8 keys, 42 of 96 pairs seen' ||
    complain "heatmap --mask-mod"
"$clattn" heatmap --mask-mod='j <= i' --window 1,-1 --n 6 --n-kv 8 --out mask.png | grep -q ': 1 heads, 6 queries x 8 keys, 11 of 48 pairs seen' ||
    complain "heatmap --mask-mod and --window"
"$clattn" heatmap --mask-mod 'j <= i' --n 3 --quiet >mask.txt && [ -s mask.txt ] || complain "heatmap --mask-mod on the terminal"
refused 2 'n N is needed' heatmap --mask-mod 'j <= i' --out refused.svg
refused 2 'a name in .png' heatmap --mask-mod 'j <= i' --n 4 --out refused.npy
"$clattn" heatmap --mask-mod 'j <= k' --n 4 --out wrong.svg 2>stderr && complain "heatmap of a mask_mod that does not compile"
grep -q 'mask_mod:1:6' stderr || complain "heatmap: $(cat stderr)"

# --expect: exact where 0 is said, and never of nothing.
attend --out again.npy --expect o.npy --tolerance 0 || complain "the same numbers are not the same"
python3 -c 'b = bytearray(open("o.npy", "rb").read()); b[-4] ^= 1; open("other.npy", "wb").write(b)'
attend --out again.npy --expect other.npy || complain "one bit is more than 1e-5"
attend --out again.npy --expect other.npy --tolerance 0 2>stderr && complain "--tolerance 0 takes one bit"
"$clattn" attend --q x.npy --k x.npy --v x.npy --out again.npy --json --expect other.npy --tolerance 0 2>stderr |
    python3 -c 'import json, sys; assert json.load(sys.stdin)["max_error"] > 0' || complain "no JSON of a mismatch"
attend --out again.npy --expect other.npy --expect-rows three.npy --tolerance 0 || complain "--expect-rows 3"
for rows in minus zero five; do
    refused 2 expect-rows attend --q x.npy --k x.npy --v x.npy --out refused.npy --expect o.npy --expect-rows $rows.npy
done
refused 2 'nothing would be compared' attend --q none.npy --k none.npy --v none.npy --out refused.npy --expect none.npy
refused 2 'expect: has shape' attend --q x.npy --k x.npy --v x.npy --out refused.npy --expect slopes.npy

cat >same.json <<'JSON'
{"format_version": 1, "clattn": "0.2.0", "devices": [], "rows": [{"case": "attend-f32-b1-h2-n64-d16-full", "device": "some device",
 "dtype": "f32", "status": "ok", "why": "", "time_ns": 1000000, "time_ns_spread": 10000}]}
JSON

# Outputs are asked after before any work, each needs its own file, and stdout must take what it is given.
for path in no/o.npy . x.npy/o.npy ''; do
    refused 2 out attend --q missing.npy --k x.npy --v x.npy --out "$path"
    refused 2 save bench --save "$path"
    refused 2 out tune --out "$path"
done
refused 2 'no/w.npy' layer --x missing.npy --heads 1 --out refused.npy --attention-weights no/w.npy
refused 2 'file of --out' attend --q x.npy --k x.npy --v x.npy --out refused.npy --lse ./refused.npy
ln -s later.npy link.npy
refused 2 'file of --weights' attend --q x.npy --k x.npy --v x.npy --out refused.npy --weights later.npy --scores link.npy
attend --out link.npy && [ -L link.npy ] && cmp -s later.npy o.npy || complain "a link to no file yet is not followed"
attend --out /dev/null --lse /dev/null || complain "/dev/null as two outputs"
ls -A | grep -q '^\.clattn' && complain "a temporary file stays"
for command in devices 'devices --json' --help --version 'attend --help' 'heatmap --help' 'heatmap x.npy' \
    'attend --q x.npy --k x.npy --v x.npy --out again.npy' 'compare same.json same.json'; do
    # shellcheck disable=SC2086
    "$clattn" $command >/dev/full 2>stderr && complain "clattn $command into a full device exits 0"
    [ "$(wc -l <stderr)" = 1 ] && grep -q 'standard output' stderr || complain "clattn $command into a full device: $(cat stderr)"
done
"$clattn" attend --q x.npy --k x.npy --v x.npy --out again.npy --quiet >&- || complain "nothing to print needs no stdout"

# What checked nothing has failed.
refused_some() { # $1 word, then the arguments: exit status 1, whatever was printed
    word=$1
    shift
    refusals=$((refusals + 1))
    "$clattn" "$@" >stdout 2>stderr
    [ $? = 1 ] || complain "clattn $*: exit status is not 1"
    grep -q -- "$word" stderr || complain "clattn $*: no '$word' in: $(cat stderr)"
}
taps=attend-f32-b1-h2-n9-d8-full-scoresraw
refused_some 'nothing was verified' verify --only flash --case $taps
refused_some 'nothing was measured' bench --device 0 --case attend-f32-b1-h2-n64-d16-full-decode --max-ms 1
python3 - <<'PYTHON'
import json
t = json.load(open("same.json"))
rows = t["rows"]
def save(name, rows):
    json.dump({**t, "rows": rows}, open(name, "w"))
def row(**change):
    return {**rows[0], **change}
save("empty.json", [])
save("two.json", [rows[0], row(case="another")])
save("bf16.json", [row(case=rows[0]["case"].replace("f32", "bf16"), dtype="bf16")])
save("unsupported.json", [row(status="unsupported", time_ns=None)])
save("broken.json", [row(status="fail", time_ns=None)])
save("spread.json", [row(time_ns_spread=-1e30)])
save("escape.json", [row(case="\x1b[2Jcase")])
open("escape_bad.json", "w").write("{\x1b[2J")
PYTHON
compare() { # $1 exit status, then the arguments
    want=$1
    shift
    "$clattn" compare --quiet "$@" >stdout 2>stderr
    [ $? = "$want" ] || complain "clattn compare $*: exit status is not $want: $(cat stderr)"
}
compare 0 same.json same.json --fail-above 0%
compare 0 same.json two.json --fail-above 0%
compare 1 two.json same.json --fail-above 0%
compare 0 two.json same.json --fail-above 0% --allow-missing
compare 0 two.json same.json
compare 1 same.json bf16.json --fail-above 0%
compare 1 same.json bf16.json --fail-above 0% --allow-missing
compare 1 same.json bf16.json
compare 1 empty.json empty.json --fail-above 0%
compare 1 empty.json empty.json
compare 1 unsupported.json unsupported.json
compare 1 broken.json broken.json --fail-above 0%
compare 2 same.json spread.json
compare 2 same.json same.json --fail-above 0%%
compare 2 same.json same.json --fail-above 1e-400
compare 2 same.json same.json --allow-missing
escape=$(printf '\033')
"$clattn" compare escape.json escape.json | grep -q "$escape" && complain "compare prints what steers a terminal"
"$clattn" compare escape_bad.json escape.json 2>&1 | grep -q "$escape" && complain "an error line holds what steers a terminal"
refused_some 'not in the second' compare two.json same.json --fail-above 5%

# A layer by its tensors' names alone is another model's where names do not tell how it attends.
smollm2=$data/smollm2_layer0.safetensors prefix=model.layers.0.self_attn
by_names() { # $1 word, then options
    word=$1
    shift
    refused 2 "$word" layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --x "$data/smollm2_layer0_x.npy" --out refused.npy "$@"
}
by_names 'needs --causal'
by_names 'needs --rope,' --causal top-left
by_names 'needs --rope-base' --causal top-left --rope half
by_names 'no effect' --causal top-left --rope none --rope-base 100000
by_names 'from 1' --causal top-left --rope half --rope-base 0
by_names 'for --model' --causal none --rope none --layer 0
refused 2 missing.npy layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --x missing.npy --out refused.npy --causal none --rope none
# Tensors of other schemes, small: [3E, E] with E = 4, and what a scheme does not know.
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
json.dump({"weight_map": {key: f"{1 + (i >= 2)}.safetensors" for i, key in enumerate(keys)}}, open("sharded/model.safetensors.index.json", "w"))
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
model("type", model_type="gemma")
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
torch() { # $1 word, then options
    word=$1
    shift
    refused 2 "$word" layer --weights torch.safetensors --names torch:a --heads 2 --x t.npy --out refused.npy "$@"
}
python3 numpy.py t.npy '<f4' '(1, 3, 4)'
refused 2 missing.npy layer --weights torch.safetensors --names torch:a --heads 2 --x missing.npy --out refused.npy
torch 'wk: has no effect' --wk k
torch 'bk: has no effect' --bk kb
torch 'wq: has no effect' --wq k
refused 2 'a.bias_k' layer --weights torch_bias.safetensors --names torch:a --heads 2 --x t.npy --out refused.npy
refused 2 'q_norm' layer --weights norm.safetensors --names llama:$prefix --heads 9 --kv-heads 3 --x "$data/smollm2_layer0_x.npy" \
    --out refused.npy --causal top-left --rope half --rope-base 100000
shape=$(python3 -c "import sys; print(open(sys.argv[1], 'rb').read(128))" "$data/minilm_layer0_x.npy")
case $shape in *"(3, "*) ;; *) complain "minilm_layer0_x.npy has another shape: $shape" ;; esac
python3 - "$data/minilm_layer0_x.npy" <<'PYTHON'
import re, sys
data = open(sys.argv[1], "rb").read()
head = data[10:128].decode()
b, n, m = map(int, re.search(r"\((\d+), (\d+), (\d+)\)", head).groups())
text = re.sub(r"\(\d+, \d+, \d+\)", f"(1, {b * n}, {m})", head).rstrip()
open("sentences.npy", "wb").write(data[:10] + (text + " " * (117 - len(text)) + "\n").encode() + data[128:])
import subprocess
subprocess.run([sys.executable, "numpy.py", "cu_sentences.npy", "<i4", f"({b + 1},)", *[str(n * i) for i in range(b + 1)]], check=True)
PYTHON
minilm() { "$clattn" layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 12 --quiet "$@"; }
minilm --x "$data/minilm_layer0_x.npy" --out apart.npy || complain "layer"
minilm --x sentences.npy --cu-seqlens cu_sentences.npy --out packed.npy || complain "layer --cu-seqlens"
tail -c +129 apart.npy >apart.bytes && tail -c +129 packed.npy >packed.bytes
python3 - <<'PYTHON' || complain "a layer of sequences is another"
import struct
a, b = (struct.unpack(f"<{len(x) // 4}f", x) for x in (open(n, "rb").read() for n in ("apart.bytes", "packed.bytes")))
assert len(a) == len(b) > 0 and max(abs(x - y) for x, y in zip(a, b)) < 1e-5
PYTHON
refused 2 'cu-seqlens-kv: is of y' layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 12 \
    --x sentences.npy --cu-seqlens cu_sentences.npy --cu-seqlens-kv cu_sentences.npy --out refused.npy
refused 2 'norm-eps' layer --weights "$smollm2" --names llama:$prefix --heads 9 --x t.npy --out refused.npy --norm heads --norm-eps 0
refused 2 'q-norm: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy --q-norm t.npy
refused 2 'norm-plus-one: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy --norm-plus-one
refused 2 'gate-bias: has no effect' layer --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy --gate-bias t.npy
preset() { # $1 word, $2 preset, then options
    word=$1 name=$2
    shift 2
    refused 2 "$word" layer --preset "$name" --weights "$smollm2" --names llama:$prefix --x "$data/smollm2_layer0_x.npy" --out refused.npy "$@"
}
preset 'llama-3.1, qwen3' nonesuch
preset 'wq is .576, 576.' llama-3.1
preset 'heads: is not for --preset' llama-3.1 --heads 9
preset 'norm-eps: is not for --preset' qwen3 --norm-eps 1e-6
preset 'softcap: is not for --preset' gemma-2 --softcap 30
preset 'layer: is for --model' gemma-2 --layer 0
refused 2 'weights: has no effect' layer --weights torch.safetensors --wq t.npy --wk t.npy --wv t.npy --wo t.npy --heads 2 --x t.npy --out refused.npy

# --model reads what the options would say.
model() { # $1 folder, then options
    folder=$1
    shift
    "$clattn" layer --model "$folder" --layer 0 --projection native --x "$data/smollm2_layer0_x.npy" --out z.npy --quiet --expect "$data/smollm2_layer0_out.npy" "$@" 2>stderr
}
for folder in whole sharded parameters linear window no_window; do model $folder || complain "--model $folder: $(cat stderr)"; done
for folder in base linear4 window2; do model $folder && complain "--model $folder: config.json is not read"; done
# Scaled RoPE: other results, and those that the option gives.
as_option() { # $1 folder, $2 of the option
    model $1 && complain "--model $1: its scaling changes nothing"
    "$clattn" layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --causal top-left --rope half --rope-base 100000 \
        --rope-scaling "$2" --x "$data/smollm2_layer0_x.npy" --out a.npy --projection native --quiet --expect z.npy --tolerance 0 ||
        complain "the scaling of $1"
}
as_option linear4 linear,factor=4
as_option yarn yarn,factor=4,original=64,fast=2
as_option deepseek yarn,factor=4,original=64,fast=2,attention=1.0648216253695715
as_option llama31 llama3,factor=8,original=64
as_option dynamic dynamic,factor=2,original=4,length=40
by_names 'rope-scaling' --causal top-left --rope half --rope-base 100000 --rope-scaling yarn,beta=3
by_names 'original_length' --causal top-left --rope half --rope-base 100000 --rope-scaling yarn,factor=3
by_names 'no effect' --causal top-left --rope none --rope-scaling linear,factor=2
# A sliding window of 2 keys is the row's own and the one before it.
model window2 && complain "a window hides nothing"
"$clattn" layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --causal top-left --rope half --rope-base 100000 --window 1,-1 \
    --x "$data/smollm2_layer0_x.npy" --out a.npy --projection native --quiet --expect z.npy --tolerance 0 || complain "the window of config.json"
model layer_types || complain "--model layer_types: $(cat stderr)"
no_model() { # $1 word, $2 folder, then options
    word=$1 folder=$2
    shift 2
    refused 2 "$word" layer --model "$folder" --x "$data/smollm2_layer0_x.npy" --out refused.npy "$@"
}
no_model 'tells of' heads --layer 0
no_model 'tells of' head_dim --layer 0
no_model 'model_type' type --layer 0
no_model 'tells of a q-norm' norm --layer 0
no_model 'rms_norm_eps' no_epsilon --layer 0
no_model 'attn_logit_softcapping' capped --layer 0
no_model 'tells of learned sinks' sinks --layer 0
no_model 'preset: is not for --model' whole --layer 0 --preset qwen3
no_model 'norm: is not for --model' whole --layer 0 --norm heads
no_model 'max_position_embeddings' llama3 --layer 0
no_model 'clip_qkv' stranger --layer 0
no_model 'tells of a bq' bias --layer 0
no_model 'num_attention_heads' text --layer 0
no_model 'num_attention_heads' no_heads --layer 0
no_model 'neither' no_weights --layer 0
no_model 'config.json' no_config --layer 0
no_model 'below it' whole --layer 30
no_model 'needs --layer' whole
no_model 'layers.1.self_attn' whole --layer 1
no_model 'layers.1.self_attn' sharded --layer 1
no_model 'heads: is not for --model' whole --layer 0 --heads 9
no_model 'causal: is not for --model' whole --layer 0 --causal none
no_model 'wq: is not for --model' whole --layer 0 --wq k

[ $refusals -ge 100 ] || complain "$refusals refusals were asked for: too few"
[ $bad = 0 ] && echo "$refusals refusals, 0 failed"
exit $bad
