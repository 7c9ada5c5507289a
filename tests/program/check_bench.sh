#!/bin/sh
# `bench` runs in every format, and its JSON has the documented fields. Baselines run for the cases
# that they support. `compare` distinguishes a slowdown from noise. Wrong requests end with one
# line.
#
#   check_bench.sh BUILD
set -eu
clattn=$1/clattn
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$clattn" devices >/dev/null 2>&1 || { echo "no OpenCL device"; exit 77; }
# Run a bench, with small sizes unless the arguments have others.
bench() {
    for option in "-n 64" "-d 16" "--heads 2"; do
        # shellcheck disable=SC2086
        case " $* " in *" ${option% *} "*) ;; *) set -- $option "$@" ;; esac
    done
    run bench --max-ms $time --limits "$limits" --cache-dir "$cache" "$@"
}
limits=on time=10
# $plainly compiles kernels unoptimised (driver.sh). Projections are always optimised, because the
# library measures their rates.
how=${plainly:-}
# shellcheck disable=SC2086
run() { env $how "$clattn" "$@"; }
# Kernels are cached if the same case runs again. Otherwise caching would only compile them twice.
cache=$work/kernels

bench --save "$work/a.json" >"$work/a.md"
grep -q 'attend-f32-b1-h2-n64-d16-full' "$work/a.md"
limits=off
for format in csv json jsonl sql; do bench -o $format >"$work/out.$format"; done
bench --quiet --save "$work/b.csv" >"$work/nothing"
[ ! -s "$work/nothing" ] || { echo "--quiet printed"; exit 1; }
cache=off
bench --op decode,attend-backward --causal both -o json >"$work/more.json"
how= # the following commands measure CLBlast, which is too slow with unoptimised kernels
time=100 # on a busy machine, too, no run may need more than ten times this
bench --op linear,layer --projection auto,clblast,native -o json >"$work/projections.json"
time=10
bench --op linear --d-model 40 -n 1,33 -b 3 -o json >"$work/linear.json"
bench --op linear --precision exact,split --packed both -o json >"$work/packed.json"
how=${plainly:-}
bench --causal both --kernel auto,flash --baselines none,unfused,clblast -o json >"$work/baselines.json"
bench -b 3 -n 37,5 --n-kv 19 --dv 24 --causal both --baselines clblast -o json >"$work/uneven.json"
bench --op decode -n 1 --heads 3 --n-kv 130 --baselines clblast -o json >"$work/decode.json"
bench --dtype f16 --baselines clblast -o json >"$work/half.json"
bench --heads 4 --kv-heads 2 --baselines unfused,clblast -o json >"$work/grouped.json"
name=attend-f16-b2-h4-hkv2-n37-nkv50-d16-causal-lse-window9:m1-sinks-kvlen50:17-ropehalf-seed3
run bench --case "$name,empty-rows" --max-ms 50 --cache-dir off -o json >"$work/named.json"
run bench --options --case attend-f32-b1-h2-n70-d16-full --max-ms 1 --limits off --cache-dir off --save "$work/options.md" -o json \
    >"$work/options.json"
grep -q '| documents by mask_mod, block mask | ' "$work/options.md"
grep -q '| pages of 128 keys | ' "$work/options.md"

python3 - "$work" <<'PYTHON'
import csv, json, sqlite3, sys
folder = sys.argv[1]
fields = """case op device driver kernel dtype b heads kv_heads n n_kv d dv causal status time_ns time_ns_min time_ns_spread
wall_ns gflops gbytes_per_s limit_percent limit_name limit limit_unit error_nmse build_ms cache peak_bytes""".split()
for name in "packed.json", "a.json", "out.json", "more.json", "projections.json", "linear.json", "baselines.json", "uneven.json", "decode.json", "named.json":
    table = json.load(open(f"{folder}/{name}"))
    assert table["format_version"] == 1 and table["clattn"] and table["rows"], name
    # the other commands ran with --limits off
    limited = name in ("a.json", "named.json")
    for device in table["devices"]:
        assert limited or device["fma_gflops"] is device["read_gbytes_per_s"] is None and device["caches"] == [] == device["engine_peaks"], device
        if not limited:
            continue
        assert device["fma_gflops"] > 0 and device["read_gbytes_per_s"] > 0 and "native_fma_gflops" in device
        assert device["fma_loads_gflops"] > 0 and "instructions_per_cycle" in device and "contended" in device and "engine_peaks" in device
        caches = device["caches"]  # OpenCL reports one cache, and the system all of them
        assert caches and all(c["name"] and c["bytes"] > 0 and c["read_gbytes_per_s"] > 0 for c in caches), caches
        assert len({c["name"] for c in caches}) == len(caches) and caches == sorted(caches, key=lambda c: c["bytes"]), caches
    for row in table["rows"]:
        assert not set(fields) - set(row), set(fields) - set(row)
        assert row["status"] == "ok" and row["why"] == "", row
        assert 0 < row["time_ns_min"] <= row["time_ns"] and row["time_ns_spread"] >= 0 and row["wall_ns"] > 0
        assert 0 <= row["error_nmse"] < 5e-5 and row["gflops"] > 0 and row["peak_bytes"] > 0
        assert row["noisy"] == (row["time_ns_spread"] > 0.1 * row["time_ns"])
        assert row["cache"] in ("cold", "warm") and row["build_ms"] > 0
        if not limited:
            assert row["limit_percent"] is row["limit"] is row["limit_unit"] is None and row["limit_name"] == "", row
            continue
        assert row["limit_percent"] > 0
        # the limit of the case, and the share of it
        reads = row["limit_name"].startswith("reading ")
        peaks = {"float32 FMA", "float32 FMA (the engine's peak is not measured)", *(e["name"] for d in table["devices"] for e in d["engine_peaks"])}
        assert row["limit_unit"] == ("GB/s" if reads else "GFLOP/s") and (reads or row["limit_name"] in peaks), row
        assert abs(row["gbytes_per_s" if reads else "gflops"] / row["limit"] / row["limit_percent"] * 100 - 1) < 1e-3, row


def load(name, count):
    table = json.load(open(f"{folder}/{name}"))
    assert len(table["rows"]) == count * len(table["devices"]), (name, len(table["rows"]))
    assert len({row["case"] for row in table["rows"]}) == count, name
    return table["rows"]

load("packed.json", 4)
assert {row["op"] for row in load("more.json", 4)} == {"decode", "backward"}
for row in load("projections.json", 6):
    wanted = row["projection"]
    assert row["case"].endswith("-full" if wanted == "auto" else "-full-" + wanted) and not row["baseline"]
    if row["op"] == "linear" and wanted != "auto":
        assert row["kernel"] == "clblast" if wanted == "clblast" else row["kernel"].startswith("linear_"), row
for row in load("linear.json", 2):
    assert (row["op"], row["d_model"]) == ("linear", 40) and row["case"].startswith("linear-f32-b3-h2-n")
    assert abs(row["gflops"] * row["time_ns"] / (2 * 3 * row["n"] * 40 * 32) - 1) < 1e-3, row
rows = load("baselines.json", 8)
for causal in False, True:
    here = [row for row in rows if row["causal"] == causal][: 4]
    assert [row["baseline"] for row in here] == [False, True, True, False], here
    assert [row["kernel"] for row in here][1:3] == ["unfused", "clblast"] and here[2]["case"].endswith("-clblast"), here
load("uneven.json", 8)
rows = load("named.json", 2)
assert [row["case"] for row in rows[:2]] == ["attend-f16-b2-h4-hkv2-n37-nkv50-d16-causal-lse-window9:m1-sinks-kvlen50:17-ropehalf-seed3",
                                            "attend-f32-b1-h2-n16-nkv5-d64-causal-lse"], rows
load("decode.json", 2)
for name, count, word in ("half.json", 2, "float32"), ("grouped.json", 3, "heads"):
    row = load(name, count)[count - 1]
    assert row["status"] == "unsupported" and word in row["why"] and row["kernel"] == "clblast" and row["time_ns"] is None, row
devices = len(table["devices"])
row = json.load(open(f"{folder}/a.json"))["rows"][0]
assert (row["b"], row["heads"], row["n"], row["n_kv"], row["d"], row["causal"]) == (1, 2, 64, 64, 16, False)
for name in "out.csv", "b.csv":
    rows = list(csv.DictReader(open(f"{folder}/{name}")))
    assert len(rows) == devices and not set(fields) - set(rows[0]) and float(rows[0]["time_ns"]) > 0
lines = [json.loads(line) for line in open(f"{folder}/out.jsonl")]
assert len(lines) == devices and lines[0]["format_version"] == 1 and lines[0]["fma_gflops"] is None and lines[0]["case"]
rows = json.load(open(f"{folder}/options.json"))["rows"]
rows = {row["option"]: row for row in rows if row["device_index"] == 0}
assert len(rows) >= 26, list(rows)
for row in rows.values():
    assert not set(fields) - set(row) and row["status"] == "ok" and row["error_nmse"] < 5e-5, row
    assert row["time_ns"] > 0 and row["plain_ns"] > 0 and row["ratio"] > 0 and row["ratio_spread"] >= 0, row
    # A ragged batch is compared with a dense batch of four items.
    plain = 4 * 2 * 70 * 70 if row["option"].startswith("ragged") else 2 * 70 * 70
    assert abs(row["ratio_per_key"] / row["ratio"] / (plain / row["visible_keys"]) - 1) < 1e-3, row
seen = {name: row["visible_keys"] / 2 for name, row in rows.items()}
ends = [70 * n // 64 for n in (0, 7, 26, 29, 52, 64)]
assert all(seen[name] == 4900 for name in ("half of the keys past ones", "pages of 16 keys", "pages of 128 keys", "dropout")), seen
lengths = [70 * n // 8 for n in (8, 1, 5, 2)]
assert seen["ragged, beside a dense batch of as many rows"] == 4 * 4900, seen
assert seen["ragged, beside a batch that is half padding"] == sum(n * n for n in lengths), seen
assert seen["plain"] == 4900 and seen["causal"] == 70 * 71 / 2 and seen["key lengths"] == 70 * 52, seen
assert {seen[name] for name in seen if name.startswith("documents")} == {sum((b - a) ** 2 for a, b in zip(ends, ends[1:]))}, seen
base = sqlite3.connect(":memory:")
base.executescript(open(f"{folder}/out.sql").read())
assert base.execute('select count(*) from clattn_bench where status = "ok" and time_ns > 0').fetchone()[0] == devices

table = json.load(open(f"{folder}/a.json"))
for row in table["rows"]:
    for key in "time_ns", "time_ns_min":
        row[key] *= 3
    row["time_ns_spread"] = 1
    samples = row["samples_ns"]
    assert len(samples) == min(row["repeats"], 64) and row["time_ns_min"] // 3 <= samples[0] <= row["time_ns"] // 3 <= samples[-1], row
    row["samples_ns"] = [3 * ns for ns in row["samples_ns"]]
json.dump(table, open(f"{folder}/slow.json", "w"))
# Tables of synthetic samples, evenly spread around their median. quiet: 3 % slower, with little
# noise. noisy: 3 % slower, and 20 % faster, with noise of 50 %. old: without samples.
def made(name, median, noise, samples=True, **more):
    times = [median * (1 + noise * (i - 20) / 20) for i in range(41)]
    row = {"case": "attend-f32-b1-h1-n8-d8-full", "device": "d", "status": "ok", "dtype": "f32", "kernel": "k", "time_ns": times[20],
           "time_ns_spread": times[30] - times[10], **({"samples_ns": times} if samples else {}), **more}
    return row
for name, rows in {"quiet_a": [made("", 1e6, 0.001)], "quiet_b": [made("", 1.03e6, 0.001)], "noisy_a": [made("", 1e6, 0.5)],
                   "noisy_b": [made("", 1.03e6, 0.5)], "noisy_c": [made("", 8e5, 0.5)],
                   "old_a": [made("", 1e6, 0.001, False)], "old_b": [made("", 1.03e6, 0.001, False)],
                   "old_noisy": [made("", 1e6, 0.5, False)],
                   "devices": [made("", 1e6, 0.001), made("", 1.5e6, 0.001, device="e")],
                   "types": [made("", 1e6, 0.01), made("", 5e5, 0.01, dtype="bf16", case="attend-bf16-b1-h1-n8-d8-full"),
                             made("", 9e5, 0.01, case="attend-f32-b1-h1-n8-d8-full-unfused", kernel="unfused")]}.items():
    json.dump({"format_version": 1, "rows": rows}, open(f"{folder}/{name}.json", "w"))
table["rows"] = []
json.dump(table, open(f"{folder}/none.json", "w"))
PYTHON

status_is() {
    wanted=$1 code=0
    shift
    "$@" >"$work/stdout" 2>"$work/stderr" || code=$?
    [ $code -eq "$wanted" ] || { echo "exit status $code, not $wanted: $*"; cat "$work/stderr"; exit 1; }
}
one_line() {
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || { echo "not one line: $*"; cat "$work/stderr"; exit 1; }
    [ ! -s "$work/stdout" ] || { echo "stdout is not empty: $*"; exit 1; }
}
status_is 0 "$clattn" compare "$work/a.json" "$work/a.json" --fail-above 0%
status_is 0 "$clattn" compare "$work/a.json" "$work/slow.json"
status_is 0 "$clattn" compare "$work/slow.json" "$work/a.json" --fail-above 5% --allow-inconclusive
status_is 1 "$clattn" compare "$work/a.json" "$work/slow.json" --fail-above 5% --json
python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["slower"] >= 1 and abs(r["rows"][0]["ratio"] - 3) < 0.1' <"$work/stdout"
verdict_is() { # WORD FAILS A B
    status_is 0 "$clattn" compare "$work/$3.json" "$work/$4.json"
    grep -q "^$1 " "$work/stdout" || { echo "$3 and $4 are not $1:"; cat "$work/stdout"; exit 1; }
    status_is "$2" "$clattn" compare "$work/$3.json" "$work/$4.json" --fail-above 2.5%
}
verdict_is slower 1 quiet_a quiet_b
verdict_is faster 0 quiet_b quiet_a
verdict_is slower 1 old_a old_b
verdict_is same 0 quiet_a quiet_a
# A file compared with itself or with a copy is the same, whatever its noise.
cp "$work/noisy_a.json" "$work/copy.json"
for pair in "a a" "noisy_a noisy_a" "noisy_a copy" "old_noisy old_noisy"; do
    # shellcheck disable=SC2086
    verdict_is same 0 $pair
    status_is 0 "$clattn" compare "$work/${pair% *}.json" "$work/${pair#* }.json"
    grep -q ' 0 faster, 0 slower, [1-9][0-9]* same, 0 inconclusive, 0 broken' "$work/stdout" ||
        { echo "$pair:"; cat "$work/stdout"; exit 1; }
    [ "$(grep -c -v '^same ' "$work/stdout")" = 1 ] || { echo "$pair has other rows:"; cat "$work/stdout"; exit 1; }
done
verdict_is inconclusive 1 noisy_a noisy_b
grep -q 'inconclusive' "$work/stderr"
status_is 0 "$clattn" compare "$work/noisy_a.json" "$work/noisy_b.json" --fail-above 2.5% --allow-inconclusive
verdict_is inconclusive 0 noisy_a noisy_c # perhaps faster, but not slower by that much
status_is 0 "$clattn" compare "$work/types.json" --by dtype
[ "$(grep -c '^faster .*: f32, then bf16: 1.00. ms, then 0.[45]..' "$work/stdout")" -eq 1 ] ||
    { echo "--by dtype:"; cat "$work/stdout"; exit 1; }
status_is 0 "$clattn" compare "$work/types.json" --by kernel
grep -q '^faster .*: k, then unfused' "$work/stdout"
status_is 0 "$clattn" compare "$work/quiet_a.json" "$work/quiet_b.json" "$work/noisy_a.json" --by file --json
python3 -c 'import json, sys; r = json.load(sys.stdin); assert len(r["rows"]) == 2 and r["slower"] == 1, r' <"$work/stdout"
status_is 1 "$clattn" compare "$work/types.json" --by device
status_is 0 "$clattn" compare "$work/devices.json" --by device
grep -q '^slower .*: d, then e' "$work/stdout" || { echo "--by device:"; cat "$work/stdout"; exit 1; }
status_is 2 "$clattn" compare "$work/types.json" --by colour
status_is 2 "$clattn" compare "$work/types.json" --by dtype --fail-above 5%
status_is 2 "$clattn" compare "$work/quiet_a.json" "$work/quiet_b.json" --allow-inconclusive
status_is 1 "$clattn" compare "$work/a.json" "$work/none.json"
grep -q '^missing' "$work/stdout"
grep -q 'nothing was compared' "$work/stderr"
python3 bench/peers.py --list >"$work/list"
sed 's/ (.*//; /^train-/d' "$work/list" >"$work/peers" # a training step is two calls
[ -s "$work/peers" ] || { echo "peers.py lists no case"; exit 1; }
while read -r name; do
    status_is 2 "$clattn" verify --only none --case "$name"
    grep -q 'no such variant' "$work/stderr" || { echo "peers.py names a case as nobody else does:"; cat "$work/stderr"; exit 1; }
done <"$work/peers"
for wrong in "-n 5..2" "-n 1k," "-n 0" "-d 12*2" "-n 1..16*1" "--dtype f64" "--causal maybe" "--preset gpt9" \
    "--op linear --kernel flash" "--op attend,layer --projection native" "--precision split" "--op attend --packed yes" \
        "--projection fast" "--baselines torch" \
    "--heads 4 --kv-heads 3" "--case nonsense" "--case plain,attend-f32-b1-h1-n1-d1" "--case plain -n 5" "--options -n 5" \
        "--options --case layer" "--options --baselines unfused" "-o xml" "--repeat 0" "--max-ms no" "--device nonesuch"; do
    # shellcheck disable=SC2086
    status_is 2 "$clattn" bench $wrong
    one_line "bench $wrong"
done
echo 'not JSON' >"$work/bad.json"
echo '{"format_version": 1, "rows": [{"case": 3}]}' >"$work/odd.json"
echo '{"format_version": 1, "rows": [{"case": "x", "device": "d", "status": "ok", "time_ns": 1e300, "time_ns_spread": 0}]}' \
    >"$work/huge.json"
echo '{"format_version": 1, "rows": [{"case": "x", "device": "d", "status": "ok", "time_ns": 5, "time_ns_spread": 0, "samples_ns": [5, 0]}]}' >"$work/zero.json"
for wrong in "$work/bad.json" "$work/odd.json" "$work/huge.json" "$work/zero.json" "$work/absent.json" ""; do
    # shellcheck disable=SC2086
    status_is 2 "$clattn" compare "$work/a.json" $wrong
    one_line "compare $wrong"
done
status_is 2 "$clattn" compare "$work/a.json" "$work/a.json" --fail-above much
one_line "--fail-above much"
echo "bench and compare: all held"
