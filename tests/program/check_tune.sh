#!/bin/sh
# Tuned rows from `clattn tune` to a session: what is printed, what is stored and for which device,
# --tuned, cases from a file, and two settings measured interleaved.
#
#   check_tune.sh BUILD
set -eu
clattn=$PWD/$1/clattn
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$clattn" devices >/dev/null 2>&1 || { echo "no OpenCL device"; exit 77; }
mkdir kept other
case=attend-f32-b1-h2-n70-d64-full
fail() { echo "$*"; exit 1; }
refused() { # WORD ARGUMENTS...
    word=$1 code=0
    shift
    "$clattn" "$@" >stdout 2>stderr || code=$?
    [ $code = 2 ] && [ "$(wc -l <stderr)" = 1 ] && [ ! -s stdout ] && grep -q -- "$word" stderr ||
        fail "clattn $*: exit status $code, $(cat stderr stdout)"
}
kernel() { "$clattn" bench --case $case --max-ms 1 --limits off --cache-dir kept -o csv "$@" >table 2>stderr ||
    fail "bench $*: $(cat stderr)"; sed -n 2p table | cut -d , -f 5 | tr -d '"'; }

# A hand-written row, as in clattn.h and tune --help, runs its kernel on any device.
"$clattn" tune --help | grep -q '"flash_tiles :"' || fail "tune --help names no row by hand"
printf '# by hand\nflash_tiles d=1..128 type=f32 nq=.. : # no knobs\n' >by_hand.txt
[ "$(kernel --tuned by_hand.txt)" = flash_tiles ] || fail "a row by hand is not taken: $(cat table)"

# A found row is compared with the shipped rows. The stored file names device, driver and version.
"$clattn" tune --case $case --quick --keep on --cache-dir kept --out rows.txt >printed 2>said || fail "tune: $(cat said)"
cmp -s printed rows.txt || fail "tune --out differs from what was printed"
grep -q "^[a-z_]* .*type=f32 nq=70..70 : .*  # [0-9]* GFLOP/s, .*what is shipped" rows.txt || fail "tune printed: $(cat rows.txt)"
if grep -q 'rows are kept' said; then
    [ "$(head -n 1 kept/tuned-*.txt)" = "$(head -n 1 rows.txt)" ] || fail "kept for another device: $(cat kept/tuned-*.txt)"
else
    grep -q 'none is kept' said || fail "tune said: $(cat said)"
    ls kept/tuned-* 2>/dev/null && fail "kept what it says it did not"
fi
rm -f kept/tuned-*
"$clattn" tune --case $case --quick --quiet --cache-dir kept >printed && [ -s printed ] || fail "tune --quiet prints no row"
if ls kept/tuned-* 2>/dev/null; then fail "tune --case keeps rows unasked"; fi

# Stored rows are used only with the same device, driver and version. Damaged files are ignored.
shipped=$(kernel)
[ "$shipped" != flash ] || fail "the shipped kernel is the one that the rows ask for"
head=$(head -n 1 rows.txt)
name=$(printf %s "$head" | sed 's/^# \(.*\), [^,]*, clattn [^,]*$/\1/; s/[^A-Za-z0-9][^A-Za-z0-9]*/-/g')
keep() { printf '%s\n' "$@" >"kept/tuned-$name.txt"; }
keep "$head" 'flash :'
[ "$(kernel)" = flash ] || fail "kept rows are not taken: $(kernel --verbose), $(ls kept)"
[ "$(kernel --tuned off)" = "$shipped" ] || fail "--tuned off takes them"
"$clattn" verify --only planner --case $case --cache-dir kept >out && grep -q 'NMSE [0-9]' out || fail "verify with kept rows: $(cat out)"
keep "$head too" 'flash :'
[ "$(kernel)" = "$shipped" ] || fail "rows of another version are taken"
kernel --verbose >/dev/null
grep -q 'another driver or version' stderr || fail "--verbose says nothing of rows that are not used: $(cat stderr)"
keep "$head" 'nonsense'
[ "$(kernel)" = "$shipped" ] || fail "broken rows that were kept end a bench"
rm kept/tuned-*
printf 'flash :\n' >mine.txt
[ "$(kernel --tuned mine.txt)" = flash ] || fail "--tuned is not taken"
printf 'nonsense\n' >broken.txt
refused 'is not a row' bench --case $case --tuned broken.txt --cache-dir off
refused 'No such file' bench --case $case --tuned absent.txt --cache-dir off
refused 'no effect' tune --tuned mine.txt
refused 'no effect' verify --tuned mine.txt

# Cases from a file, and more warm-up runs.
printf '# two of them\n%s\n\n  %s # and this\n' $case attend-f32-b1-h2-n9-d64-causal >cases.txt
"$clattn" bench --batch cases.txt --warmup 3 --max-ms 1 --limits off --cache-dir kept -o csv >table
[ "$(wc -l <table)" = 3 ] && grep -q n9-d64-causal table || fail "--batch: $(cat table)"
printf '# none\n' >empty.txt
refused 'names no case' bench --batch empty.txt
refused 'one is accepted' bench --batch cases.txt --case $case
refused 'whole number' bench --warmup 0

# Interleaved: the ratio is the other setting's time divided by this one's.
"$clattn" bench --case $case --against '--tuned mine.txt' --max-ms 500 --limits off --cache-dir kept --save pair.json >pair.md
grep -q "| $case | $shipped | .* | the same | flash | " pair.md || fail "--against: $(cat pair.md)"
python3 - <<'PYTHON'
import json
row = json.load(open("pair.json"))["rows"][0]
assert row["against"] == "--tuned mine.txt" and row["against_kernel"] == "flash" and row["against_ns"] > 0, row
assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"], row
assert row["verdict"] in ("same", "faster", "slower", "inconclusive") and row["error_nmse"] < 1e-9, row
# The portable tile is several times slower than a lanes kernel, so an inverted ratio would be far
# from that of the medians.
assert 1 / 3 < row["ratio"] / (row["against_ns"] / row["time_ns"]) < 3, row
PYTHON
"$clattn" bench -n 9 -d 16 --heads 2 --dtype f32,f16 --against '--causal yes' --max-ms 10 --limits off --cache-dir kept -o csv >table
[ "$(grep -c full.*causal table)" = 2 ] || fail "--against a list: $(cat table)"
"$clattn" compare pair.json pair.json >/dev/null || fail "compare does not read it"
refused 'one value' bench -n 9 --against '--dtype f32,f16'
refused 'are accepted' bench -n 9 --against '--save x'
refused 'are accepted' bench -n 9 --against '--device 0'
refused 'no such option' bench -n 9 --against '--colour'
refused 'no --options' bench --options --against '--dtype f16'
echo "tuned rows, batches and turns: all held"
