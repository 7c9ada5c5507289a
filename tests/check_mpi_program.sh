#!/bin/sh
# clattn under mpirun: attend and layer write what one device writes, each rank reading its rows alone; a wrong request, a rank that is
# killed and a folder that takes no file leave no half of an output.   $1 the program
set -u
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
command -v mpirun >/dev/null || { echo "no mpirun: install openmpi-bin"; exit 77; }
python3 -c 'import numpy' 2>/dev/null || { echo "no numpy: install python3-numpy"; exit 77; }
export POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OPENCL_LAYERS=
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0 checks=0
complain() { echo "check_mpi_program.sh:1:F: $1"; bad=$((bad + 1)); }
python3 - <<'PYTHON'
import numpy as np
r = np.random.default_rng(5)
def save(name, *shape): np.save(name, r.standard_normal(shape, dtype=np.float32) * (0.2 if name[0] == "w" else 1))
save("q.npy", 2, 4, 97, 32); save("k.npy", 2, 2, 97, 32); save("v.npy", 2, 2, 97, 32)
save("qs.npy", 2, 97, 4, 32); save("ks.npy", 2, 97, 2, 32); save("vs.npy", 2, 97, 2, 32)
np.save("mask.npy", r.random((97, 97)) < 0.7)
save("x.npy", 2, 61, 48); save("wq.npy", 64, 48); save("wk.npy", 32, 48); save("wv.npy", 32, 48); save("wo.npy", 48, 64)
PYTHON
same() {
    checks=$((checks + 1))
    python3 - "$1" "$2" <<'PYTHON' || complain "$3: differs from one device"
import sys, numpy as np
a, b = (np.load(f).astype(np.float64) for f in sys.argv[1:3])
sys.exit(not (a.shape == b.shape and np.nanmax(np.abs(a - b)) <= 1e-5 and np.abs(a).max() > 0.1))
PYTHON
}
# Alone, then shared in that way.
compare() {
    name=$1 ranks=$2 way=$3
    shift 3
    "$program" "$@" --out one.npy --quiet >one.log 2>&1 || complain "$name alone: $(cat one.log)"
    mpirun --oversubscribe -n "$ranks" "$program" "$@" --mpi --mpi-way "$way" --out all.npy >all.log 2>&1 || complain "$name over $ranks: $(tail -n 5 all.log)"
    same one.npy all.npy "$name over $ranks ranks"
    rm -f one.npy all.npy
}
files="--q q.npy --k k.npy --v v.npy"
# shellcheck disable=SC2086
{
    compare attend 3 auto attend $files --causal bottom-right
    compare "attend with a mask" 2 all_gather attend $files --mask mask.npy
    compare "attend of [B,N,H,D]" 3 ring attend --layout bshd --q qs.npy --k ks.npy --v vs.npy --causal bottom-right
    compare layer 3 auto layer --x x.npy --wq wq.npy --wk wk.npy --wv wv.npy --wo wo.npy --heads 4 --kv-heads 2 --causal bottom-right --rope half
    mpirun --oversubscribe -n 2 "$program" attend $files --causal none --mpi --mpi-way all_to_all --out a.npy --lse l.npy >log 2>&1 || complain "all_to_all: $(cat log)"
    "$program" attend $files --out b.npy --lse m.npy --quiet >log 2>&1
    same l.npy m.npy "lse of all_to_all"
    rm -f ./[ablm].npy
    # Refused on all ranks.
    mpirun --oversubscribe -n 3 "$program" attend $files --mpi --mpi-way all_to_all --out no.npy >log 2>&1
    [ $? = 2 ] && grep -q "not multiples" log || complain "a way that cannot be: $(cat log)"
    mpirun --oversubscribe -n 2 "$program" attend $files --mpi --weights w.npy --out no.npy >log 2>&1
    [ $? = 2 ] && grep -q "is not built for --mpi" log || complain "an output that is not shared: $(cat log)"
}
# A rank that is killed in the middle ends the job. The call takes longer than the wait by far.
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
checks=$((checks + 5)) # two refusals, a killed rank, no output and no temporary file
echo "$((100 * (checks > bad ? checks - bad : 0) / checks))%: Checks: $checks, Failures: $bad, Errors: 0"
[ $bad = 0 ]
