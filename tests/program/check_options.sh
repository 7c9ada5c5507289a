#!/bin/sh
# Options: each has its documented effect. A comparison of nothing fails. Results are written
# completely, or the exit status says so. A model's config.json replaces the options that tensor
# names do not determine. Refused options are in check_refusals.sh.
#
#   check_options.sh BUILD
set -u
. "$PWD/tests/program/options_files.sh"

attend --out o.npy || complain "attend"

# RoPE: explicit positions equal to the default ones change no bit, and neither do three axes of
# them. Other positions change the result.
rope() { attend --rope half --out a.npy --expect r.npy --tolerance 0 "$@"; }
attend --rope half --out r.npy || complain "attend --rope"
rope --positions counted.npy || complain "--positions of what is counted"
rope --positions counted.npy --k-positions counted.npy || complain "--k-positions of what is counted"
for sections in 1,2,1 1,2,1,interleaved; do rope --positions axes.npy --rope-sections $sections ||
    complain "--rope-sections $sections"; done
rope 2>stderr || complain "attend --rope twice"
rope --positions moved.npy 2>stderr && complain "--positions: are not read"
rope --positions counted.npy --k-positions moved.npy 2>stderr && complain "--k-positions: are not read"

[ "$("$clattn" help attend)" = "$("$clattn" attend --help)" ] || complain "help attend"
"$clattn" devices --device 0 >page && grep -q '^0  ' page || complain "devices --device 0"
[ "$(wc -l <page)" -le 24 ] && [ "$(LC_ALL=C.UTF-8 awk 'length > 100' page | wc -l)" = 0 ] || complain "devices: no page: $(cat page)"
for word in type platform driver memory types rates prefill bf16 decode off more; do
    grep -q "^   $word " page || complain "devices has no line $word: $(cat page)"
done
"$clattn" devices --device 0 --verbose 2>/dev/null >page && [ "$(grep -c '^ *not ' page)" -ge 20 ] && grep -q '^ *not: ' page ||
    complain "devices --verbose: $(cat page)"
CLATTN_DEVICE=foo "$clattn" devices >page 2>stderr && grep -q 'CLATTN_DEVICE foo: matches none' stderr && [ "$(wc -l <stderr)" = 1 ] ||
    complain "devices with a CLATTN_DEVICE that names none: $(cat stderr)"
# A mask has two colours and no scale, drawn or read from a file, also if it hides nothing.
"$clattn" heatmap --causal top-left --n 4 --out m.svg >stdout && grep -q '>seen<' m.svg && grep -q '>hidden<' m.svg || complain "a mask's two colours"
grep -q '>0.5<' m.svg && complain "a mask has a scale of colours"
"$clattn" heatmap --causal none --n 4 --out m.svg >stdout && [ "$(grep -c 'fill="#fde725"' m.svg)" -gt 1 ] || complain "a mask that hides nothing"
"$clattn" heatmap --causal top-left --n 4 | grep -q 'is seen, blank is hidden' || complain "a mask on the terminal"
attend --dropout 0.5 --seed 1 --dropout-mask keep.npy --out d.npy && "$clattn" heatmap keep.npy --out m.svg >stdout && grep -q '>true<' m.svg &&
    grep -q '>false<' m.svg || complain "a mask of a file"
attend --out a.npy --align bottom-right --window 1,1 || complain "--align with a window"

# Past rows and pages: rows 0 to 2 of x and row 3, and pages of two rows in another order, are the
# same keys.
past() { "$clattn" attend --q x.npy --k new.npy --v new.npy --past-k past.npy --past-v past.npy --quiet "$@"; }
past --out p.npy --expect o.npy --tolerance 1e-6 || complain "past rows"
past --out p.npy --past-lengths three.npy --expect o.npy --tolerance 1e-6 || complain "--past-lengths"
attend --out q8.npy --kv-type q8 && past --kv-type q8 --out p.npy --expect q8.npy --tolerance 1e-6 || complain "past rows as q8"
for type in f8e4m3 f8e5m2; do
    attend --out $type.npy --kv-type $type && past --kv-type $type --out p.npy --expect $type.npy --tolerance 1e-6 ||
        complain "past rows as $type"
    cmp -s $type.npy q8.npy && complain "--kv-type $type is q8"
done
wide() { "$clattn" attend --q wide.npy --k wide.npy --v wide.npy --quiet "$@"; }
wide --out wide_o.npy || complain "rows of 32"
for type in q8_0 q4_0 q4_1; do
    wide --out $type.npy --kv-type $type --expect wide_o.npy --tolerance 0.1 || complain "--kv-type $type"
    cmp -s $type.npy wide_o.npy && complain "--kv-type $type rounds nothing"
done
wide --out two.npy --kv-type q8_0 --v-type q4_0 --expect wide_o.npy --tolerance 0.1 || complain "--v-type"
cmp -s two.npy q8_0.npy && complain "--v-type changes nothing"
wide --out two.npy --v-type q8 --expect wide_o.npy --tolerance 0.1 && ! cmp -s two.npy wide_o.npy || complain "--v-type alone"
for type in q8 q4_0; do
    wide --out plain.npy --kv-type $type && wide --out two.npy --kv-type $type --kv-rotation 32 --expect wide_o.npy --tolerance 0.2 ||
        complain "--kv-rotation of $type"
    cmp -s two.npy plain.npy && complain "--kv-rotation changes nothing of $type"
done
refused 2 'has no effect' attend --q wide.npy --k wide.npy --v wide.npy --out refused.npy --kv-type f16 --kv-rotation 32
refused 2 'power of two that divides' attend --q wide.npy --k wide.npy --v wide.npy --out refused.npy --kv-type q8 --kv-rotation 12
# Half rows with their own scales, where one scale for the row would lose the smaller half. Zero
# points for numbers far from 0.
for name in halves offset; do
    "$clattn" attend --q halves_q.npy --k $name.npy --v $name.npy --quiet --out $name.o.npy || complain "rows of 64"
done
halves() { "$clattn" attend --q halves_q.npy --k halves.npy --v halves.npy --quiet --expect halves.o.npy --tolerance 0.1 "$@"; }
offset() { "$clattn" attend --q halves_q.npy --k offset.npy --v offset.npy --quiet --expect offset.o.npy --tolerance 0.1 --out a.npy "$@"; }
for type in q8 f8e4m3 i4; do
    halves --out a.npy --kv-type $type --kv-group 32 && halves --out b.npy --kv-type $type --kv-group 32 --kv-scales f16 ||
        complain "--kv-type $type --kv-group"
    cmp -s a.npy b.npy && complain "--kv-scales of $type changes nothing"
done
halves --out a.npy --kv-type i4 2>stderr && complain "--kv-type i4 loses nothing without --kv-group"
for type in i4 u4; do offset --kv-type $type --kv-group 32 --kv-zeros || complain "--kv-type $type --kv-zeros"; done
offset --kv-type i4 --kv-group 32 2>stderr && complain "--kv-type i4 loses nothing without --kv-zeros"
past --kv-type q8 --v-type f16 --out p.npy && past --kv-type q8 --v-type f32 --out p32.npy --expect p.npy --tolerance 1e-3 ||
    complain "past rows of two types"
wide --out q4.npy --kv-type q4 --expect q4_0.npy --tolerance 0 || complain "--kv-type q4"
"$clattn" attend --q items.npy --k items.npy --v items.npy --out items_o.npy --quiet || complain "two items"
prefix() { "$clattn" attend --q items.npy --k items_new.npy --v items_new.npy --out p.npy --quiet "$@"; }
prefix --prefix-k past.npy --prefix-v past.npy --expect items_o.npy --tolerance 1e-6 || complain "--prefix-k of two items"
paged() { "$clattn" attend --q x.npy --k pool.npy --v pool.npy --quiet "$@"; }
paged --block-table table.npy --out p.npy --expect o.npy --tolerance 1e-6 || complain "pages"
paged --block-table table.npy --page-size 2 --kv-lengths three.npy --out p.npy || complain "--page-size"

# Two sequences in one file equal one sequence with a mask.
attend --out apart.npy --mask-mod '(i < 1) == (j < 1)' || complain "--mask-mod"
attend --out ragged.npy --cu-seqlens cu.npy --expect apart.npy || complain "--cu-seqlens"
attend --out ragged.npy --cu-seqlens cu.npy --cu-seqlens-kv cu.npy --expect apart.npy || complain "--cu-seqlens-kv"

# Several devices, here several contexts on one device: the same results with every partitioning.
# PoCL 3.1 runs with one thread (see src/lib/group/run.c).
threads=${POCL_MAX_PTHREAD_COUNT:-}
export POCL_MAX_PTHREAD_COUNT=1
attend --devices 0,0 --deal keys --out d.npy --expect o.npy --tolerance 1e-6 || complain "--devices 0,0 --deal keys"
attend --devices 0,0 --layout bshd --lse l.npy --out d.npy &&
    attend --layout bshd --lse l2.npy --out a.npy --expect d.npy --tolerance 1e-6 || complain "--devices with --layout bshd"
cmp -s l.npy l2.npy || python3 -c 'import struct
a, b = (struct.unpack("<16f", open(f, "rb").read()[-64:]) for f in ("l.npy", "l2.npy"))
assert all(abs(x - y) < 1e-6 for x, y in zip(a, b)), (a, b)' || complain "--devices: another log-sum-exp"
"$clattn" attend --q x.npy --k x.npy --v x.npy --devices 0,0 --out d.npy --json | python3 -c 'import json, sys
r = json.load(sys.stdin); assert len(r["devices"]) == 2 and abs(sum(d["share"] for d in r["devices"]) - 1) < 1e-9 and r["handed"] == 0, r' || complain "--devices --json"
attend --out a.npy --grad-out o.npy --grad-q dq.npy --grad-k dk.npy || complain "--grad-out"
attend --devices 0,0 --deal rows --out d.npy --grad-out o.npy --grad-q dq2.npy --grad-k dk2.npy || complain "--devices with --grad-out"
for of in dq dk; do
    python3 -c 'import struct, sys
a, b = (struct.unpack("<16f", open(f, "rb").read()[-64:]) for f in sys.argv[1:])
assert any(a) and all(abs(x - y) < 1e-6 for x, y in zip(a, b)), (a, b)' $of.npy ${of}2.npy || complain "--devices: another $of"
done
"$clattn" verify --backward --case backward-f32-b1-h1-n5-d8-full | grep -q '^1 pass' || complain "verify --backward"
"$clattn" verify --devices 0,0 --deal rows --case backward-f32-b1-h2-n40-d8-full | grep -q '^1 pass' || complain "verify --devices of gradients"
"$clattn" verify --devices 0,0 --deal keys --case attend-f32-b1-h2-n4-nkv200-d8-full | grep -q '^1 pass' || complain "verify --devices"
"$clattn" bench --devices 0,0 --case attend-f32-b1-h2-n4-nkv200-d8-full --repeat 2 --max-ms 20 --json | python3 -c 'import json, sys
r = json.load(sys.stdin)["rows"][0]; assert r["status"] == "ok" and r["ratio"] > 0 and r["error_nmse"] < 1e-9, r' || complain "bench --devices"
no 'no effect without --devices' --deal rows
no 'no such device' --devices 0,7
refused 2 'one of both' attend --q x.npy --k x.npy --v x.npy --out refused.npy --device 0 --devices 0,0
refused 2 'is empty' attend --q x.npy --k x.npy --v x.npy --out refused.npy --devices 0,
refused 2 'on one device only' attend --q x.npy --k x.npy --v x.npy --out refused.npy --devices 0,0 --dropout 0.5 --dropout-mask refused_too.npy
refused 2 'cannot be dealt by rows' attend --q x.npy --k x.npy --v x.npy --out refused.npy --devices 0,0 --deal rows --dropout 0.5
refused 2 'pairs of its own' bench --devices 0,0 --options
refused 2 'mpi: must be written in full' bench -n 8 --mp
refused 2 'mpi: must be written in full' bench -n 8 --against --mp
refused 2 'no --only or --family' verify --devices 0,0 --only flash

if [ -n "$threads" ]; then POCL_MAX_PTHREAD_COUNT=$threads; else unset POCL_MAX_PTHREAD_COUNT; fi

# Sequences with keys in pages, after a past, and in a cache that receives the last row. A layer of
# two sentences equals the layers of each.
paged --block-table table.npy --cu-seqlens cu_one.npy --out p.npy --expect o.npy --tolerance 1e-6 || complain "pages of sequences"
past --cu-seqlens cu_one.npy --cu-seqlens-kv cu_new.npy --past-lengths three.npy --out p.npy --expect o.npy --tolerance 1e-6 ||
    complain "a past of sequences"
# A layer with identity matrices: its last row attends to past rows and itself, which equals all
# four rows of a key side. With one item and with two.
eye() { "$clattn" layer --wq eye.npy --wk eye.npy --wv eye.npy --wo eye.npy --heads 2 --quiet "$@"; }
eye --x last.npy --y all.npy --attention-weights w_all.npy --out one.npy || complain "layer --y"
eye --x last_two.npy --y all.npy --out two.npy 2>stderr && complain "layer: two items of one key side"
eye --x last.npy --past-k past.npy --past-v past.npy --attention-weights w_past.npy --out l.npy --expect one.npy --tolerance 1e-6 ||
    complain "layer --past-k"
python3 - <<'PYTHON' || complain "layer --past-k: other attention weights"
import struct
a, b = (struct.unpack("<8f", open(f, "rb").read()[-32:]) for f in ("w_all.npy", "w_past.npy"))
assert all(abs(x - y) < 1e-6 for x, y in zip(a, b)), (a, b)
PYTHON
eye --x last.npy --past-k past.npy --past-v past.npy --past-lengths two_past.npy --out l.npy --expect one.npy --tolerance 1e-6 2>stderr &&
    complain "layer --past-lengths: is not read"
eye --x last.npy --prefix-k past.npy --prefix-v past.npy --out l.npy --expect one.npy --tolerance 1e-6 || complain "layer --prefix-k"
eye --x last_two.npy --prefix-k past.npy --prefix-v past.npy --out two.npy || complain "layer --prefix-k of two items"
python3 - <<'PYTHON' || complain "layer --prefix-k: items differ"
one, two = (open(f, "rb").read() for f in ("l.npy", "two.npy"))
assert two[-128:] == 2 * one[-64:]
PYTHON
refused 2 'needs --past-v' layer --wq eye.npy --wk eye.npy --wv eye.npy --wo eye.npy --heads 2 --x last.npy --past-k past.npy --out \
    refused.npy
refused 2 'given twice' layer --wq eye.npy --wk eye.npy --wv eye.npy --wo eye.npy --heads 2 --x last.npy --norm heads --qk-norm heads \
    --out refused.npy
grown() { "$clattn" attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --quiet "$@"; }
grown --v-new new.npy --out p.npy --out-k grown_k.npy --out-v grown_v.npy --expect o.npy --tolerance 1e-6 || complain "--k-new"
"$clattn" attend --q x.npy --k grown_k.npy --v grown_v.npy --quiet --out p.npy --expect o.npy --tolerance 1e-6 || complain "--out-k"
refused 2 'k-new: needs --v-new' attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --out refused.npy
refused 2 'no file' attend --q x.npy --k cache.npy --v cache.npy --k-new new.npy --v-new new.npy --kv-type q8 --out refused.npy --out-k \
    refused_k.npy
refused 2 'out-v: has no effect' attend --q x.npy --k x.npy --v x.npy --out refused.npy --out-v refused_too.npy

# A mask as a picture: of 6 rows and 8 keys 21 pairs are causal, and a window leaves 11.
"$clattn" heatmap --mask-mod 'j <= i' --n 6 --n-kv 8 --heads 2 --out mask.svg |
    grep -q ': 2 heads, 6 queries x 8 keys, 42 of 96 pairs seen' ||
    complain "heatmap --mask-mod"
"$clattn" heatmap --mask-mod='j <= i' --window 1,-1 --n 6 --n-kv 8 --out mask.png |
    grep -q ': 1 heads, 6 queries x 8 keys, 11 of 48 pairs seen' ||
    complain "heatmap --mask-mod and --window"
"$clattn" heatmap --mask-mod 'j <= i' --n 3 --quiet >mask.txt && [ -s mask.txt ] || complain "heatmap --mask-mod on the terminal"
"$clattn" heatmap --causal bottom-right --n 3 --n-kv 4 --out mask.svg --json |
    python3 -c 'import json, sys; r = json.load(sys.stdin); assert (r["seen"], r["pairs"]) == (9, 12), r' ||
    complain "heatmap of causality as JSON"
refused 2 'n N is needed' heatmap --mask-mod 'j <= i' --out refused.svg
refused 2 'a name in .png' heatmap --mask-mod 'j <= i' --n 4 --out refused.npy
"$clattn" heatmap --mask-mod 'j <= k' --n 4 --out wrong.svg 2>stderr && complain "heatmap of a mask_mod that does not compile"
grep -q "mask_mod: line 1, column 6, 'k'" stderr || complain "heatmap: $(cat stderr)"

# --expect: exact with tolerance 0, and an error if nothing is compared.
attend --out again.npy --expect o.npy --tolerance 0 || complain "the same numbers are not the same"
python3 -c 'b = bytearray(open("o.npy", "rb").read()); b[-4] ^= 1; open("other.npy", "wb").write(b)'
attend --out again.npy --expect other.npy || complain "one bit is more than 1e-5"
attend --out again.npy --expect other.npy --tolerance 0 2>stderr && complain "--tolerance 0 takes one bit"
"$clattn" attend --q x.npy --k x.npy --v x.npy --out again.npy --json --expect other.npy --tolerance 0 2>stderr |
    python3 -c 'import json, sys; assert json.load(sys.stdin)["max_error"] > 0' || complain "no JSON of a mismatch"
attend --out again.npy --expect other.npy --expect-rows three.npy --tolerance 0 || complain "--expect-rows 3"

cat >same.json <<'JSON'
{"format_version": 1, "clattn": "0.2.0", "devices": [], "rows": [{"case": "attend-f32-b1-h2-n64-d16-full", "device": "some device",
 "dtype": "f32", "status": "ok", "why": "", "time_ns": 1000000, "time_ns_spread": 10000}]}
JSON

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

# A check that compared nothing must fail.
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
refused_some 'nothing was measured' bench --device 0 --case attend-f32-b1-h2-n64-d16-full-decode --max-ms 1 --limits off
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

# --model reads these options from config.json.
model() { # $1 folder, then options
    folder=$1
    shift
    "$clattn" layer --model "$folder" --layer 0 --projection native --x "$data/smollm2_layer0_x.npy" --out z.npy --quiet --expect \
        "$data/smollm2_layer0_out.npy" "$@" 2>stderr
}
for folder in whole sharded parameters linear window no_window capped; do model $folder || complain "--model $folder: $(cat stderr)"; done
for folder in base linear4 window2; do model $folder && complain "--model $folder: config.json is not read"; done
# Scaled RoPE: other results than without, and those of the option.
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
# A sliding window of 2 keys: the row's own key and the one before.
model window2 && complain "a window hides nothing"
"$clattn" layer --weights "$smollm2" --names llama:$prefix --heads 9 --kv-heads 3 --causal top-left --rope half --rope-base 100000 \
    --window 1,-1 \
    --x "$data/smollm2_layer0_x.npy" --out a.npy --projection native --quiet --expect z.npy --tolerance 0 ||
        complain "the window of config.json"
model layer_types || complain "--model layer_types: $(cat stderr)"

[ $bad = 0 ] && echo "0 failed"
exit $bad
