#!/bin/sh
# The program for users and scripts: layers of two real models, heatmaps, JSON, and refusals of
# every kind. Their exit status is 2 (wrong request) or 1 (the run failed), with one line on stderr,
# nothing on stdout and no output file.
#
#   check_program.sh BUILD
set -u
clattn=$PWD/$1/clattn data=$PWD/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$OLDPWD/tests/program/refused.sh"
export XDG_CACHE_HOME="$work/cache"

minilm() {
    "$clattn" layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 12 \
        --x "$data/minilm_layer0_x.npy" --kv-lengths "$data/minilm_layer0_lengths.npy" --out y.npy \
        --expect "$data/minilm_layer0_out.npy" --expect-rows "$data/minilm_layer0_lengths.npy" "$@"
}
smollm2() {
    base=$1
    shift
    "$clattn" layer --weights "$data/smollm2_layer0.safetensors" --names llama:model.layers.0.self_attn --heads 9 --kv-heads 3 \
        --rope half --rope-base "$base" --causal top-left --x "$data/smollm2_layer0_x.npy" --out z.npy \
        --expect "$data/smollm2_layer0_out.npy" "$@"
}
minilm --attention-weights w.npy || complain "MiniLM"
minilm --projection native --quiet || complain "MiniLM, native projections"
minilm --precision split --quiet || complain "MiniLM, float32 that may be split"
minilm --precision double --quiet 2>/dev/null && complain "a precision that is none"
minilm --projection clblast --quiet || complain "MiniLM, CLBlast"
minilm --json | python3 -c 'import json,sys; r = json.load(sys.stdin); assert r["max_error"] <= 1e-5 and r["time_ns"] > 0, r' ||
    complain "JSON"
smollm2 100000 || complain "SmolLM2"
smollm2 100000 --kernel unfused --quiet || complain "SmolLM2, unfused"
smollm2 10000 --quiet 2>stderr && complain "a wrong RoPE base passed the check"
grep -q 'largest difference' stderr || complain "a wrong RoPE base: $(cat stderr)"
"$clattn" heatmap w.npy --tokens "$data/minilm_tokens.txt" --out heads.png || complain "heatmap to PNG"
[ "$(head -c 4 heads.png | tail -c 3)" = PNG ] || complain "heads.png is no PNG"
"$clattn" heatmap w.npy --tokens "$data/minilm_tokens.txt" --out heads.svg && grep -q '<svg' heads.svg || complain "heatmap to SVG"
"$clattn" heatmap w.npy --tokens "$data/minilm_tokens.txt" | grep -q 'head' || complain "heatmap on the terminal"
"$clattn" devices --json |
    python3 -c 'import json,sys; d = json.load(sys.stdin)["devices"]; assert d and d[0]["prefill"]["kernel"] and d[0]["engines"] and all((e["gflops"] > 0) == e["works"] for x in d for e in x["engines"]), d' || complain "devices"
# When and how rates were measured. Cached rates are the measured ones, and --measure measures
# again. Also finds an engine that works and is not used.
for way in first '' --measure; do "$clattn" devices --json ${way#first} >"rates$way.json" || complain "devices --json $way"; done
echo 'flash_lanes : LANES=8 ROW_VECTORS=3 KEY_BLOCK=4 TILE_KV=64' >eight.txt
"$clattn" devices --tuned eight.txt >eight.out || complain "devices --tuned"
python3 - <<'PYTHON' || complain "devices: when and how rates were measured: $(cat eight.out)"
import datetime, json
first, second, third = ([e for d in json.load(open(f"rates{way}.json"))["devices"] for e in d["engines"]] for way in ("first", "", "--measure"))
for a, b, c in zip(first, second, third):
    for e in a, b, c:
        assert not e["works"] or datetime.datetime.strptime(e["measured"], "%Y-%m-%dT%H:%M:%SZ").year > 2000, e
        assert e["runs"] >= 3 and 0 <= e["spread"] <= 1 if e["works"] else e["gflops"] == 0, e
        assert not e["kept"] or e["sure"], e
    assert not b["kept"] or all(a[key] == b[key] for key in ("gflops", "measured", "runs", "spread")), (a, b)
    assert not c["kept"] and (not c["works"] or c["measured"] >= b["measured"]), (b, c)
if any(e["works"] and e["name"].startswith("bfloat16") for e in first):
    assert "matrix instructions none found" not in open("eight.out").read()
    assert "(self-tested; not used below)" in open("eight.out").read()
PYTHON
# PoCL links each kernel with ld, and ends the process if PATH has none. A command must say so in
# one line, and run no kernel.
if grep -q 'PoCL' ratesfirst.json; then
    for command in 'bench --case attend-f32-b1-h1-n8-d16-full' 'verify --case attend-f32-b1-h1-n8-d16-full' 'devices --quiet'; do
        env PATH="$work/nothing" POCL_CACHE_DIR="$work/pocl" "$clattn" $command --device cpu --cache-dir off >stdout 2>stderr
        status=$?
        case $command in devices*) want=0 ;; *) want=1 ;; esac
        [ $status = $want ] && [ "$(wc -l <stderr)" = 1 ] && grep -q 'kernel with ld' stderr ||
            complain "$command without ld: exit status $status: $(cat stderr)"
    done
fi
# Characters of two columns on a terminal: no line exceeds its width, and the rows are aligned.
printf '<s>\n\344\275\240\345\245\275\n\346\235\261\344\272\254\343\202\277\343\203\257\343\203\274\n\355\225\234\352\265\255\354\226\264\n' >wide.txt
"$clattn" heatmap --causal top-left --n 4 --tokens wide.txt --out wide.svg &&
    "$clattn" heatmap --causal top-left --n 4 --tokens wide.txt >wide.out || complain "letters of two columns"
PYTHONIOENCODING=utf-8 python3 - <<'PYTHON' || complain "letters of two columns: $(cat wide.out)"
import unicodedata
tokens, picture = open("wide.txt", encoding="utf-8").read().split(), open("wide.svg", encoding="utf-8").read()
width = lambda text: sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
lines = open("wide.out", encoding="utf-8").read().splitlines()
rows = [line.split("\u2502")[0] for line in lines if "\u2502" in line]
assert all(f">{token.replace('<', '&lt;').replace('>', '&gt;')}</text>" in picture for token in tokens), picture
assert [row.strip() for row in rows] == tokens and len({width(row) for row in rows}) == 1 and max(map(width, lines)) <= 80, rows
PYTHON
for command in devices attend layer heatmap verify bench tune compare; do
    "$clattn" $command --help | grep -q '^example:\|[Ee]xample' || complain "$command --help has no example"
done

# PoCL's workers are pinned to one core each if the process may use all cores, and otherwise follow
# the user's choice.
workers() { # of which CPUs each thread is, sorted, while a bench runs; looked for at most $1 times
    most=$1
    shift
    "$@" bench --quiet --check off --max-ms 20000 --case attend-f32-b1-h1-n8-d16-full --cache-dir off >/dev/null 2>&1 &
    job=$! seen='' tries=0
    while [ $tries -lt "$most" ] && kill -0 $job 2>/dev/null; do
        seen=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$job/task/*/status 2>/dev/null | sort -u | paste -sd ' ')
        case " $seen " in *' 0 '*' 1 '*) break ;; esac
        tries=$((tries + 1))
        sleep 0.1
    done
    kill $job 2>/dev/null
    wait $job 2>/dev/null
    echo "$seen"
}
if [ "$(nproc)" -ge 2 ] && [ "$(nproc)" = "$(getconf _NPROCESSORS_CONF)" ] && [ -z "${POCL_AFFINITY:-}${POCL_MAX_PTHREAD_COUNT:-}" ] &&
    "$clattn" devices | grep -qi pocl; then
    case " $(workers 600 "$clattn") " in *' 0 '*' 1 '*) ;; *) complain "workers are not pinned" ;; esac
    [ "$(workers 12 taskset -c 1 "$clattn")" = 1 ] || complain "a process that may use one CPU pins its workers elsewhere"
fi

# One thread and two threads return the same bits, also for partial sums. There are fewer heads than
# work is partitioned into.
PYTHONPATH="$OLDPWD/tests/program" python3 - <<'PYTHON'
from files import npy
for name, shape in {"q": (1, 2, 300, 16), "k": (1, 2, 700, 16), "v": (1, 2, 700, 16), "g": (1, 2, 300, 16), "x": (1, 300, 32)}.items():
    npy(f"few_{name}.npy", shape)
for name in "qkvo":
    npy(f"few_w{name}.npy", (32, 32), [((37 * i + ord(name)) % 101 - 50) / 100 for i in range(32 * 32)])
PYTHON
on_threads() {
    export POCL_MAX_PTHREAD_COUNT="$1"
    "$clattn" attend --q few_q.npy --k few_k.npy --v few_v.npy --out "$1o.npy" --grad-out few_g.npy --grad-q "$1q.npy" --grad-k "$1k.npy" \
        --grad-v "$1v.npy" --quiet &&
        "$clattn" layer --wq few_wq.npy --wk few_wk.npy --wv few_wv.npy --wo few_wo.npy --heads 2 --x few_x.npy --out "$1l.npy" \
            --grad-out few_x.npy --grad-x "$1x.npy" --grad-wq "$1wq.npy" --grad-wk "$1wk.npy" --grad-wv "$1wv.npy" --grad-wo "$1wo.npy" --quiet
}
(on_threads 1 && on_threads 2) || complain "one thread and two"
for result in o q k v l x wq wk wv wo; do cmp -s 1$result.npy 2$result.npy || complain "other bits by two threads: $result"; done

# A long cache folder path is used completely, or not at all. PoCL's own cache does not support such
# a path.
long=$work/$(printf '%0200d/%0200d/%0200d/%0200d/%0200d/%0200d' 1 2 3 4 5 6)
POCL_CACHE_DIR=$work/pocl XDG_CACHE_HOME=$long "$clattn" devices --json >/dev/null && [ -d "$long/clattn" ] ||
    complain "a long cache path: not used"
top=$(printf '%0200d' 1)
[ "$(find "$work/$top" -type d | wc -l)" = 7 ] || complain "a long cache path: cut"

x=$data/minilm_layer0_weights.npy # any [3,12,24,24] tensor
set -- --out refused.npy
"$clattn" attend --q "$x" --k "$x" --v "$x" --out o.npy --lse l.npy --causal bottom-right --window 3,0 --softcap 4 --quiet ||
    complain "attend"
"$clattn" attend --q "$x" --k "$x" --v "$x" --out o2.npy --layout bshd --dtype f16 --quiet || complain "attend, BSHD in f16"
"$clattn" attend --q "$x" --k "$x" --v "$x" --out o3.npy --scores s.npy --scores-at raw --quiet || complain "attend, scores"
# The weights that dropout keeps must follow the rule in the header.
"$clattn" attend --q "$x" --k "$x" --v "$x" --out o4.npy --dropout 0.3 --seed 12345678901 --dropout-mask keep.npy --quiet ||
    complain "attend, dropout"
! cmp -s o3.npy o4.npy || complain "attend, dropout: changes nothing"
python3 - keep.npy <<'PYTHON' || complain "attend, dropout: another mask"
import sys
keep, seed, low = open(sys.argv[1], "rb").read()[-3 * 12 * 24 * 24:], 12345678901, 2**32 - 1
def words(x, y, z, w):
    k0, k1 = seed & low, seed >> 32
    for _ in range(10):
        a, b = x * 0xD2511F53, z * 0xCD9E8D57
        x, y, z, w = b >> 32 ^ y ^ k0, b & low, a >> 32 ^ w ^ k1, a & low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    return x, y, z, w
# 0.3 as float32, rounded down to a multiple of 2^-32
want = bytes(word >= 0x4CCCCD00 for b in range(3) for h in range(12) for i in range(24) for quad in range(6)
             for word in words(quad, i, h, b))
sys.exit(keep != want)
PYTHON
refused 2 '--v' attend --q "$x" --k "$x" "$@"
refused 2 missing.npy attend --q missing.npy --k "$x" --v "$x" "$@"
refused 2 rank attend --q "$data/minilm_layer0_x.npy" --k "$x" --v "$x" "$@"
refused 2 'no such device' attend --q "$x" --k "$x" --v "$x" "$@" --device nonesuch
refused 2 causal attend --q "$x" --k "$x" --v "$x" "$@" --causal sideways
refused 2 'offset' attend --q "$x" --k "$x" --v "$x" "$@" --causal offset
refused 2 'column 10' attend --q "$x" --k "$x" --v "$x" "$@" --score-mod 'score * 2)'
refused 2 "line 1, column 9, 'missing'" attend --q "$x" --k "$x" --v "$x" "$@" --score-mod 'score * missing'
refused 2 'no effect' attend --q "$x" --k "$x" --v "$x" "$@" --mods-unchecked
"$clattn" attend --q "$x" --k "$x" --v "$x" "$@" --score-mod '(get_global_id(0), score)' --mods-unchecked >/dev/null ||
    complain "an expression that is not checked"
refused 2 "'get_global_id'" attend --q "$x" --k "$x" --v "$x" "$@" --score-mod 'get_global_id(0)'
# PoCL's compiler prints its own line on stderr.
"$clattn" attend --q "$x" --k "$x" --v "$x" "$@" --score-mod 'score * missing' --mods-unchecked 2>stderr &&
    complain "an expression that does not compile"
grep -q '^clattn attend: score_mod:1:9: ' stderr || complain "where an expression does not compile: $(cat stderr)"
refused 2 'no effect' attend --q "$x" --k "$x" --v "$x" "$@" --buffer "$x"
refused 2 'dropout' attend --q "$x" --k "$x" --v "$x" "$@" --dropout 1
refused 2 'kv-type' attend --q "$x" --k "$x" --v "$x" "$@" --kv-type q3
refused 2 'decode' attend --q "$x" --k "$x" --v "$x" "$@" --kernel decode
refused 2 'flash' attend --q "$x" --k "$x" --v "$x" "$@" --scores s.npy --kernel flash
refused 2 'no such option' attend --colour red
refused 2 'kv-lengths' attend --q "$x" --k "$x" --v "$x" "$@" --kv-lengths "$x"
python3 -c 'import struct,sys
h = b"{\x27descr\x27: \x27<i4\x27, \x27fortran_order\x27: False, \x27shape\x27: (3,), }"
h += b" " * (64 - (len(h) + 11) % 64) + b"\n"
open("long.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h + struct.pack("<3i", 24, 25, 8))'
refused 2 'kv_lengths' layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 12 \
    --x "$data/minilm_layer0_x.npy" "$@" --kv-lengths long.npy
refused 2 'query.weight' layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.9.attention --heads 12 --x \
    "$data/minilm_layer0_x.npy" "$@"
refused 2 'heads\|wq' layer --weights "$data/minilm_layer0.safetensors" --names bert:encoder.layer.0.attention --heads 7 --x \
    "$data/minilm_layer0_x.npy" "$@"
refused 2 'is written' verify --case attend-f32-b1-h1-n9-d8-seed0
refused 2 'no such case' verify --only flash/nonesuch
refused 2 'starts with' tune --case nonsense
head -c 1000 "$x" >cut.npy
refused 2 cut.npy attend --q cut.npy --k "$x" --v "$x" "$@"
python3 "$OLDPWD/tests/program/check_watch.py" "$clattn" || complain "a call that is watched, and interrupted"
"$clattn" nonesuch 2>/dev/null
[ $? = 2 ] || complain "an unknown command did not exit with 2"
[ $refusals -ge 20 ] || complain "$refusals refusals were asked for: too few"
[ $bad = 0 ] && echo "1 passed, 0 failed"
exit $bad
