#!/bin/sh
# A zoo of drivers: programs and suites run on the layer as each driver of tests/cl_layer/drivers
# (cl_layer_driver.h). Every result is right, or there is a status with a line of reason. Nothing
# exceeds a limit that the driver named, and each line of its file occurred. A report of a driver
# with another fault becomes a line of such a file.
#   check_drivers.sh BUILD          those of `few`, on a share of the cases
#   check_drivers.sh BUILD all      all of them
#   check_drivers.sh BUILD NAME     one, as with all
# The lines "run NAME" of a file are functions run_NAME of this script.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "$1" && pwd) || exit 2
what=${2:-few} few="embedded mali"
zoo=tests/cl_layer/drivers
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export OPENCL_LAYERS="$build/tests/libclattn_layer.so" CLATTN_LAYER_OPTIONS=-cl-opt-disable CK_DEFAULT_TIMEOUT=0
unset CLATTN_TEST_CACHE CLATTN_TEST_ROWS CLATTN_DEVICE CLATTN_TEST_DEVICE

cases="everything attend-f16-b1-h2-n13-nkv67-d41-dv23-full-lse layer-bf16-b2-h4-hkv2-n9-d16-m48-causal-native-ropehalf"
all_cases="plain causal grouped hidden-nan empty-rows append append-i8 append-past mods dropout long-bf16
    attend-f32-b2-h4-hkv2-n33-nkv64-d32-causal-kvq8_0-lse-pages16
    layer-f16-b1-h4-n40-d32-m64-causal-native linear-bf16-b2-h4-n40-d16-m64-full"
plain=attend-f32-b1-h1-n3-nkv5-d8-full
# A decoder's step: a row is appended to a quantised cache, and the call is recorded and replayed.
decode=decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvi8-lse-kvlen300:17-append1-hiddennan

said() { # $1 what: the command's status is 0
    shift_name=$1
    shift
    timeout 900 "$@" >"$work/said" 2>&1 && return 0
    echo "FAIL $name: $shift_name: status $?"
    tail -25 "$work/said"
    failed=yes
}
verify() { said "verify $1" "$build/clattn" verify --only planner --case "$1" --cache-dir off; }
run_cases() {
    run_unrecorded
    said "decode, recorded" env CLATTN_TEST_RECORDED=1 "$build/tests/test_case" "$decode"
}
# A recorded launch that fails in its replay returns a status. It is no call that could be planned
# again.
run_unrecorded() {
    for case in $cases; do verify "$case"; done
    [ "$what" = few ] || for case in $all_cases; do verify "$case"; done
    [ "$what" = few ] || said gradients "$build/tests/test_case" backward-f32-b1-h2-n9-nkv33-d32-causal
    said decode "$build/tests/test_case" "$decode"
}
run_some() { for case in $cases; do verify "$case"; done; }
run_promises() { said promises "$build/tests/test_promises"; }
run_errors() { said errors "$build/tests/test_errors"; }
run_slices() { said slices env CLATTN_TEST_EVERY="$([ "$what" = few ] && echo 8 || echo 1)" "$build/tests/test_slices"; }
run_codes() { said codes "$build/tests/test_codes"; }
run_binaries() {
    for time in first second; do
        said "binaries, the $time time" "$build/clattn" verify --only planner --case causal --cache-dir "$work/binaries"
    done
}
# The command fails, with one line of reason.
refused() { # $1 a part of the line, then the command
    wanted=$1
    shift
    if timeout 900 "$@" >"$work/said" 2>&1 || [ $? -gt 2 ] || ! grep -q "$wanted" "$work/said"; then
        echo "FAIL $name: no refusal with \"$wanted\""
        tail -25 "$work/said"
        failed=yes
    fi
}
# Calls use other kernels, and the context waits for its builds at the end.
run_late() {
    for case in attend-f32-b1-h2-n20-d16-causal-lse "$decode"; do
        said "late, $case" env CLATTN_TEST_LIMIT=100 "$build/tests/test_case" "$case"
    done
}
run_refused() { refused "the device is gone" "$build/clattn" verify --only planner --cache-dir off; }
run_structs() { refused "passes structs of 528 bytes" "$build/clattn" verify --only planner --cache-dir off; }
# The command's log has these words.
logged() { # $1 words, then the command
    wanted=$1
    shift
    said "$wanted" "$@"
    grep -q "$wanted" "$work/said" && return 0
    echo "FAIL $name: no line with \"$wanted\""
    tail -25 "$work/said"
    failed=yes
}
run_learned() {
    logged "bytes of local memory, 1024 more than planned" "$build/clattn" verify --only flash --case plain --cache-dir off --verbose
}
run_slow() {
    for of in scores:unfused flash:flash; do
        logged "kernel ${of%:*}: the driver's compiler has worked for 10 seconds" \
            "$build/clattn" verify --only "${of#*:}" --case "$plain" --cache-dir off --verbose
    done
}
run_contexts() { refused "clCreateContext" "$build/clattn" verify --cache-dir off --devices 0,0 --case causal; }

failed=no
for file in "$zoo"/*.driver; do
    name=$(basename "$file" .driver)
    case " $what " in *" all "* | *" $name "*) ;; *" few "*) case " $few " in *" $name "*) ;; *) continue ;; esac ;; *) continue ;; esac
    export CLATTN_LAYER_DRIVER="$PWD/$file" CLATTN_LAYER_PLAYED="$work/$name"
    rm -f "$CLATTN_LAYER_PLAYED"
    runs=$(sed -n 's/^run //p' "$file")
    [ -n "$runs" ] || { echo "FAIL $name: no line says what is run"; failed=yes; }
    for run in $runs; do "run_$run"; done
    # Each line counts its occurrences, in every process.
    awk '{ played[$1] += $2 } END { for (line in played) if (!played[line]) print line }' "$CLATTN_LAYER_PLAYED" 2>/dev/null |
        sort -n >"$work/idle"
    [ -s "$CLATTN_LAYER_PLAYED" ] || { echo "FAIL $name: played nothing"; failed=yes; }
    while read -r line; do
        text=$(sed -n "${line}p" "$file")
        # Queries that only some bindings of the library make.
        case "$text" in "answer profile "* | "answer alignment-bits "* | "answer unified-memory "*) continue ;; esac
        echo "FAIL $file:$line: was never played: $text"
        failed=yes
    done <"$work/idle"
    echo "$name: $(awk '{ n += $2 } END { print n }' "$CLATTN_LAYER_PLAYED") answers and faults played, runs: $(echo $runs)"
done
[ $failed = no ]
