#!/bin/sh
# clattn under mpirun: attend and layer write the results of one device, and each rank reads only
# its own rows or heads. Layers of two real models have their stored results. A wrong request is
# reported once. A wrong request, a killed rank and a folder without write access leave no partial
# output. CLATTN_THOROUGH=on has more combinations.
#
#   check_mpi_program.sh PROGRAM FOLDER     FOLDER: the models' data
set -u
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
data=$(cd "$2" && pwd)
command -v mpirun >/dev/null || { echo "no mpirun: install openmpi-bin"; exit 77; }
python3 -c 'import numpy' 2>/dev/null || { echo "no numpy: install python3-numpy"; exit 77; }
export POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
# Without TCP, because Open MPI 5 prints a warning into the program's output if an interface cannot
# reach another.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl=^tcp OPENCL_LAYERS=
# otherwise a failed job waits a second or two before it ends
export OMPI_MCA_odls_base_sigkill_timeout=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
# No cache folder, so that ranks and commands are independent. Python finds its modules through
# HOME.
PYTHONUSERBASE=$(python3 -m site --user-base)
export PYTHONUSERBASE XDG_CACHE_HOME=none HOME=none
# As in retry_flaky.sh: unoptimised kernels compile in a third of the time.
[ "${CLATTN_TEST_OPTIMISED:-all}" != few ] || export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
bad=0 checks=0 turn=0
# Run every n-th of the following checks, by default all.
taken() {
    turn=$((turn + 1))
    [ $((turn % ${CLATTN_TEST_EVERY:-1})) = 0 ]
}
complain() { echo "check_mpi_program.sh:1:F: $1"; bad=$((bad + 1)); }
python3 - <<'PYTHON'
import numpy as np
r = np.random.default_rng(5)
def save(name, *shape): np.save(name, r.standard_normal(shape, dtype=np.float32) * (0.2 if name[0] == "w" else 1))
def numbers(name, *values): np.save(name, np.array(values, np.int32))
save("q.npy", 2, 4, 97, 32); save("k.npy", 2, 2, 97, 32); save("v.npy", 2, 2, 97, 32)
save("qs.npy", 2, 97, 4, 32); save("ks.npy", 2, 97, 2, 32); save("vs.npy", 2, 97, 2, 32)
np.save("mask.npy", r.random((97, 97)) < 0.7)
save("x.npy", 2, 61, 48); save("wq.npy", 64, 48); save("wk.npy", 32, 48); save("wv.npy", 32, 48); save("wo.npy", 48, 64)
# A past with different lengths for the items; a prefix; pages.
save("pk.npy", 2, 2, 40, 32); save("pv.npy", 2, 2, 40, 32); numbers("pl.npy", 40, 13); save("ck.npy", 1, 2, 40, 32); save("cv.npy", 1, 2, 40, 32)
np.save("past_mask.npy", r.random((2, 1, 97, 137)) < 0.7)
save("few.npy", 2, 4, 5, 32); save("pool_k.npy", 20, 2, 16, 32); save("pool_v.npy", 20, 2, 16, 24); numbers("lengths.npy", 97, 50)
np.save("table.npy", r.permutation(20)[:14].reshape(2, 7).astype(np.int32))
# Three packed sequences, one of them without rows, and rows of no sequence. Their keys are packed,
# or a batch.
save("qr.npy", 1, 4, 100, 32); save("kr.npy", 1, 2, 100, 32); save("vr.npy", 1, 2, 100, 32); save("bias.npy", 3, 1, 67, 67)
save("qrs.npy", 1, 100, 4, 32); save("krs.npy", 1, 100, 2, 32); save("vrs.npy", 1, 100, 2, 32)
numbers("cu.npy", 0, 30, 30, 97); numbers("cu_kv.npy", 0, 20, 50, 100); numbers("cu_bad.npy", 0, 30, 20, 97); numbers("offsets.npy", 3, -2, 10)
save("kb.npy", 3, 2, 70, 32); save("vb.npy", 3, 2, 70, 32); numbers("lengths_b.npy", 70, 5, 33); np.save("mask_b.npy", r.random((4, 67, 70)) < 0.7)
np.save("places.npy", r.permutation(200)[:97].reshape(1, 97).astype(np.int32)); np.save("k_places.npy", r.permutation(400)[:194].reshape(2, 97).astype(np.int32))
# Per-head tensors of a layer.
save("bq.npy", 64); save("bo.npy", 48); save("gate.npy", 4, 48); save("norm.npy", 16); save("head_bias.npy", 4, 61, 61); save("y.npy", 2, 30, 48)
save("w1k.npy", 16, 48); save("w1v.npy", 16, 48); np.save("slopes.npy", np.array([.1, .2, .3, .4], np.float32))
# q, k and v in one tensor, as rows and as columns.
import json, struct
tensors = {"p.in_proj_weight": (192, 48), "p.in_proj_bias": (192,), "p.out_proj.weight": (48, 64), "p.out_proj.bias": (48,),
           "g.c_attn.weight": (48, 192), "g.c_attn.bias": (192,), "g.c_proj.weight": (64, 48), "g.c_proj.bias": (48,)}
head, blob = {}, b""
for name, shape in tensors.items():
    data = (r.standard_normal(shape, dtype=np.float32) * 0.2).tobytes()
    head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
    blob += data
head = json.dumps(head).encode()
open("packed.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + blob)
PYTHON
same() {
    checks=$((checks + 1))
    python3 - "$1" "$2" <<'PYTHON' || complain "$3: differs from one device"
import sys, numpy as np
a, b = (np.load(f).astype(np.float64) for f in sys.argv[1:3])
sys.exit(not (a.shape == b.shape and np.nanmax(np.abs(a - b)) <= 1e-5 and np.abs(a).max() > 0.1))
PYTHON
}
# Run a command on one rank, and distributed by this strategy, and compare the results. Returns
# false if the check is skipped.
compare() {
    taken || return 1
    name=$1 ranks=$2 strategy=$3
    shift 3
    rm -f one.npy all.npy
    "$program" "$@" --out one.npy --quiet >one.log 2>&1 || complain "$name alone: $(cat one.log)"
    mpirun --oversubscribe -n "$ranks" "$program" "$@" --mpi --mpi-way "$strategy" --out all.npy --expect one.npy >all.log 2>&1 ||
        complain "$name over $ranks: $(tail -n 5 all.log)"
    same one.npy all.npy "$name over $ranks ranks"
    return 0
}
# Check the bytes that all ranks of the last `compare` with --json read together. Each argument is
# FILE*N, a file that N ranks read.
has_read() {
    name=$1
    shift
    checks=$((checks + 1))
    python3 - "$@" <<'PYTHON' || complain "$name: $(cat all.log)"
import json, sys, numpy as np
files = [f.split("*") for f in sys.argv[1:]]
sys.exit(json.load(open("all.log"))["read_bytes"] != sum(np.load(f + ".npy").nbytes * int(times) for f, times in files))
PYTHON
}
# All ranks refuse a request with one line, and nothing is written.
refused() {
    taken || return 0
    text=$1 ranks=$2
    shift 2
    checks=$((checks + 1))
    mpirun --oversubscribe -n "$ranks" "$program" "$@" --mpi --out no.npy >log 2>&1
    [ $? = 2 ] && grep -q "$text" log && [ "$(grep -c '^clattn' log)" = 1 ] && [ ! -e no.npy ] ||
        complain "refused with \"$text\": $(cat log)"
}
# Two ranks with different requests report that with one line, and none waits. Arguments: words of
# the line; the common command; the arguments of the first and of the second rank (a whole command
# if the common one is ""). One mpirun command that selects by rank, because Open MPI 5.0.7's mpirun
# crashes with two commands.
ranks_of_two() {
    # shellcheck disable=SC2016
    timeout 120 mpirun --oversubscribe -n 2 sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec "$0" $1 --mpi; fi; exec "$0" $2 --mpi' \
        "$program" "$1" "$2" >log 2>&1
}
unlike() {
    taken || return 0
    checks=$((checks + 1))
    ranks_of_two "$2 $3" "$2 $4"
    [ $? = 2 ] && grep -q -e "$1" log && [ "$(grep -c '^clattn' log)" = 1 ] && [ ! -e no.npy ] ||
        complain "ranks that differ, \"$1\": $(cat log)"
    rm -f no.npy
}
both_ways() {
    unlike "$1" "$2" "$3" "$4"
    [ "${CLATTN_THOROUGH:-off}" = on ] || return 0
    unlike "$1" "$2" "$4" "$3"
}
files="--q q.npy --k k.npy --v v.npy" ragged="--q qr.npy --k kr.npy --v vr.npy --cu-seqlens cu.npy"
weights="--wq wq.npy --wk wk.npy --wv wv.npy --wo wo.npy --heads 4 --kv-heads 2"
past="--past-k pk.npy --past-v pv.npy"
# shellcheck disable=SC2086
{
    compare attend 3 auto attend $files --causal bottom-right
    compare "attend with a mask" 2 all_gather attend $files --mask mask.npy --json &&
        has_read "rows of a mask that were read" 'q*1' 'k*1' 'v*1' 'mask*1' 'one*1'
    compare "attend of [B,N,H,D]" 3 ring attend --layout bshd --q qs.npy --k ks.npy --v vs.npy --causal bottom-right
    compare "a past" 3 ring attend $files $past --past-lengths pl.npy --causal bottom-right --rope half --mask past_mask.npy
    compare "few rows over pages" 3 auto attend --q few.npy --k pool_k.npy --v pool_v.npy --block-table table.npy --kv-lengths \
        lengths.npy --causal bottom-right
    compare sequences 3 ring attend $ragged --causal bottom-right --bias bias.npy --rope half
    compare layer 3 auto layer --x x.npy $weights --causal bottom-right --rope half
    compare "a layer's heads" 2 heads layer --x x.npy $weights --bq bq.npy --bo bo.npy --gate gate.npy --norm heads --q-norm norm.npy \
        --k-norm norm.npy \
        --causal bottom-right --rope half --bias head_bias.npy --alibi slopes.npy --json &&
        has_read "weights of heads that were read" 'x*2' 'wq*1' 'wk*1' 'wv*1' 'wo*1' 'bq*1' 'bo*2' 'gate*1' 'norm*4' 'head_bias*1' 'one*1'
    mpirun --oversubscribe -n 2 "$program" attend $files --causal none --mpi --mpi-way all_to_all --out a.npy --lse l.npy >log 2>&1 ||
        complain "all_to_all: $(cat log)"
    "$program" attend $files --out b.npy --lse m.npy --quiet >log 2>&1
    same l.npy m.npy "lse of all_to_all"
    mpirun --oversubscribe -n 2 "$program" attend $files --causal top-left --mpi --out c.npy --expect b.npy >log 2>&1
    [ $? = 1 ] && [ "$(grep -c '^clattn attend: --expect: the largest difference' log)" = 1 ] ||
        complain "another result than was expected: $(cat log)"
    rm -f ./[abclm].npy
    compare "a comment that names a buffer" 2 ring attend $files --mask-mod 'j <= i /* buffer0(j) */'
    refused "buffer0: is not given" 2 attend $files --mask-mod 'j <= i + buffer0(b)'
    refused "not multiples" 3 attend $files --mpi-way all_to_all
    refused "is unsupported with --mpi" 2 attend $files --weights w.npy
    refused "number 2 is 20" 2 attend $ragged --cu-seqlens-kv cu_bad.npy
    attend="attend $files --out no.npy"
    unlike "expect: is given on rank 0 and not on rank 1" "$attend" "--expect q.npy" ""
    unlike "expect: is given on rank 1 and not on rank 0" "$attend" "" "--expect q.npy"
    both_ways "lse: is given on rank" "$attend" "--lse l.npy" ""
    both_ways "mpi-way: rank 0 and rank 1 have other values" "$attend" "--mpi-way ring" "--mpi-way decode"
    both_ways "cu-seqlens: rank 1 has other numbers than rank 0" "attend --q qr.npy --k kr.npy --v vr.npy --out no.npy" \
        "--cu-seqlens cu.npy" \
        "--cu-seqlens cu_kv.npy"
    both_ways "attention-weights: is given on rank" "layer --x x.npy $weights --mpi-way heads --out no.npy" "--attention-weights l.npy" ""
    both_ways "rank 0 runs [a-z]* of clattn [0-9.]*, rank 1 [a-z]* of" "" "$attend" "bench -n 64 --heads 2 -d 16"
    both_ways "repeat: rank 0 and rank 1 have other values" "bench -n 64 --heads 2 -d 16" "--repeat 1" "--repeat 2"
    compare "one rank" 1 ring attend $files
    checks=$((checks + 1)) # for the rank's own files
    cp q.npy elsewhere.npy
    "$program" attend $files --out one.npy --quiet >one.log 2>&1 || complain "a rank's own, alone: $(cat one.log)"
    ranks_of_two "attend --q elsewhere.npy --k k.npy --v v.npy --out all.npy --json --device cpu" \
        "attend $files --out all.npy --quiet" ||
        complain "a rank's own device, report and places of files: $(cat log)"
    same one.npy all.npy "a rank's own device, report and places of files"
    rm -f l.npy
    refused "block: is run on one device" 2 layer --x x.npy --model none --layer 0 --block
    refused "3 ranks are too many to partition 2 heads" 3 layer --x x.npy --wq wk.npy --wk wk.npy --wv wv.npy --wo wo.npy --heads 2 --mpi-way heads
}
minilm="layer --weights $data/minilm_layer0.safetensors --names bert:encoder.layer.0.attention --heads 12 --x $data/minilm_layer0_x.npy
    --kv-lengths $data/minilm_layer0_lengths.npy --expect $data/minilm_layer0_out.npy --expect-rows $data/minilm_layer0_lengths.npy"
smollm2="layer --weights $data/smollm2_layer0.safetensors --names llama:model.layers.0.self_attn --heads 9 --kv-heads 3 --causal top-left
    --rope half --rope-base 100000 --x $data/smollm2_layer0_x.npy --expect $data/smollm2_layer0_out.npy"
for model in "$minilm" "$smollm2"; do
    case ${CLATTN_THOROUGH:-off}$model in on*) ways="auto heads" ;; *minilm*) ways=auto ;; *) ways=heads ;; esac
    for strategy in $ways; do
        checks=$((checks + 1))
        # shellcheck disable=SC2086
        mpirun --oversubscribe -n 3 "$program" $model --mpi --mpi-way $strategy --out model.npy >log 2>&1 ||
            complain "a model's layer, $strategy: $(cat log)"
    done
done
# shellcheck disable=SC2086
[ "${CLATTN_THOROUGH:-off}" != on ] || {
    compare "a past of all rows" 2 all_gather attend $files $past --causal bottom-right --rope interleaved
    compare "a prefix" 2 ring attend $files --prefix-k ck.npy --prefix-v cv.npy --causal bottom-right --window 50,0
    compare "sequences of [B,N,H,D]" 2 auto attend --layout bshd --q qrs.npy --k krs.npy --v vrs.npy --cu-seqlens cu.npy --cu-seqlens-kv \
        cu_kv.npy \
        --causal offset --offset offsets.npy
    compare "sequences over a batch of keys" 3 decode attend --q qr.npy --k kb.npy --v vb.npy --cu-seqlens cu.npy --kv-lengths \
        lengths_b.npy \
        --causal bottom-right --mask mask_b.npy --alibi slopes.npy --sinks slopes.npy
    compare "sequences with a past" 2 ring attend $ragged --past-k kb.npy --past-v vb.npy --past-lengths lengths_b.npy --causal \
        bottom-right --rope half
    compare positions 3 ring attend $files --rope half --positions places.npy --k-positions k_places.npy --causal top-left
    compare "q8 with a past" 2 ring attend $files $past --kv-type q8
    compare lengths 3 ring attend $files --q-lengths lengths.npy --kv-lengths lengths.npy --causal bottom-right --rope half --mask mask.npy
    compare "heads of one key/value head" 3 heads layer --x x.npy --y y.npy --wq wq.npy --wk w1k.npy --wv w1v.npy --wo wo.npy --heads 4 \
        --kv-heads 1
    compare "heads of one tensor" 3 heads layer --x x.npy --weights packed.safetensors --names torch:p --heads 4 --causal top-left
    compare "heads of one tensor of columns" 2 heads layer --x x.npy --weights packed.safetensors --names gpt2:g --heads 4 --causal top-left
    "$program" layer --x x.npy $weights --attention-weights a.npy --out b.npy --quiet >log 2>&1
    mpirun --oversubscribe -n 2 "$program" layer --x x.npy $weights --mpi --mpi-way heads --attention-weights c.npy --out d.npy >log 2>&1 \
        || complain "weights of heads: $(cat log)"
    same a.npy c.npy "attention weights of heads"
    rm -f ./[abcd].npy
    refused "works with layer only" 2 attend $files --mpi-way heads
    refused "works with attend only" 2 layer --x x.npy $weights --mpi-way decode
    refused "is unsupported with layer --mpi" 2 layer --x x.npy $weights --past-k x.npy --past-v x.npy
    refused "must fit, in one type" 2 attend $files --past-k few.npy --past-v pv.npy
    refused "v-type" 2 attend $files --kv-type q8 --v-type f16
    refused "bias: has shape" 2 attend $ragged --bias head_bias.npy
    refused "k-positions: has shape" 2 attend $files --rope half --positions k_places.npy --k-positions table.npy
    refused "No such file" 2 attend --q q.npy --k k.npy --v missing.npy
    refused "rotary_dim" 3 attend $files --rope half --rope-dim 7
    refused "norm width: is unsupported" 2 layer --x x.npy $weights --norm width --q-norm bq.npy --k-norm norm.npy --mpi-way heads
}
# A rank that is killed during the call ends the job. The call lasts far longer than the wait.
python3 -c "import numpy as np; np.save('long.npy', np.ones((1, 8, 16384, 64), np.float32))"
mpirun --oversubscribe -n 2 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" attend --q long.npy --k long.npy --v long.npy --mpi --out no.npy' \
    "$program" >log 2>&1 &
job=$!
while [ ! -s pid.1 ]; do sleep 0.1; done
sleep 1
kill -9 "$(cat pid.1)"
wait $job && complain "a killed rank: the job succeeded"
[ ! -e no.npy ] || complain "an output of a run that failed is there"
[ -z "$(ls -A | grep '^\.clattn-')" ] || complain "a temporary file is left: $(ls -A)"
checks=$((checks + 4)) # another result, a killed rank, no output and no temporary file
echo "$((100 * (checks > bad ? checks - bad : 0) / checks))%: Checks: $checks, Failures: $bad, Errors: 0"
[ $bad = 0 ]
