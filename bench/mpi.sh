#!/bin/sh
# Measure libclattn-mpi on a machine of two cores: two ranks of one thread each against one device
# with two threads, interleaved; the overlap of the ring; decode over two ranks. The bench/scale.py
# model is fitted to these runs.
#
#    $1 build folder   $2 folder for results
set -eu
program=$PWD/$1/clattn results=$2
mkdir -p "$results"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 \
    OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_hwloc_base_binding_policy=none
run() { # ranks, threads, file, options
    ranks=$1 threads=$2 file=$3
    shift 3
    POCL_MAX_PTHREAD_COUNT=$threads mpirun --oversubscribe -n "$ranks" "$program" bench --mpi --json "$@" >>"$results/$file.json"
}
rm -f "$results"/*.json
for d in 64 128; do
    for causal in yes no; do
        for _ in 1 2 3; do
            run 1 2 "one-d$d-$causal" --all-ranks -n 16384 -d "$d" --causal "$causal" --heads 2 --repeat 3
            run 2 1 "two-d$d-$causal" --all-ranks -n 16384 -d "$d" --causal "$causal" --heads 2 --repeat 3 --mpi-way ring
        done
    done
done
for _ in 1 2 3; do
    run 1 2 one-decode --all-ranks --decode -n 65536 -d 128 --heads 8 --kv-heads 8 --repeat 31
    run 2 1 two-decode --all-ranks --decode -n 65536 -d 128 --heads 8 --kv-heads 8 --repeat 31
done
for way in ring all_to_all; do
    for n in 1024 4096; do run 8 1 scaling -n $n -d 64 --heads 8 --causal yes --mpi-way $way --repeat 5; done
done
python3 - "$results" <<'PYTHON'
import glob, json, statistics, sys
def read(name):
    text, rows, decoder = open(f"{sys.argv[1]}/{name}.json").read().strip(), [], json.JSONDecoder()
    while text:
        row, end = decoder.raw_decode(text)
        rows.append(row)
        text = text[end:].strip()
    return rows
print("| case | one device, 2 threads | 2 ranks, 1 thread each | ratio | hidden | sent |\n|---|---:|---:|---:|---:|---:|")
for one in sorted(glob.glob(f"{sys.argv[1]}/one-*.json")):
    name = one.split("/one-")[-1][:-5]
    a, b = read("one-" + name), read("two-" + name)
    x, y = (statistics.median(r["time_ns"] for r in rows) / 1e6 for rows in (a, b))
    print(f"| {name} | {x:.3f} ms | {y:.3f} ms | {100 * x / y:.1f} % | {100 * statistics.median(r['hidden'] for r in b):.0f} % | {b[0]['sent_bytes'] / 1e6:.2f} MB |")
PYTHON
python3 bench/scale.py "$results/scaling.json" >"$results/scale.md"
grep '^error' "$results/scale.md"
