#!/bin/sh
# Every device suite with each kernel for devices that are no CPU, on the driver that the
# environment selects (OCL_ICD_VENDORS, CLATTN_TEST_DEVICE). Tuned rows force the kernel, with every
# sub-group size that the device's probes found.
#
#   sh tests/families.sh FOLDER [FAMILY[/SUITE]...]   all, or these
#
# Started by hand, because a slow compiler needs hours. A suite ends after CLATTN_SECONDS, by
# default 600. Prints a line that begins with "ok", "FAIL" or "SKIP" for each suite, and the same
# last line as tests/run.sh. The exit status is 1 if a suite failed.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/runner.sh
build=$(cd "${1:?FOLDER}" && pwd) || exit 2
shift
only=$*
seconds=${CLATTN_SECONDS:-600}
export CLATTN_TEST_DATA="$PWD/tests/data" CLATTN_TEST_CACHE="$build/tests/kernels" OPENCL_LAYERS="$build/tests/libclattn_layer.so"
said=$(mktemp) || exit 2
trap 'rm -f "$said"' EXIT
"$build/clattn" devices ${CLATTN_TEST_DEVICE:+--device "$CLATTN_TEST_DEVICE"} --verbose >"$said" 2>&1 || { cat "$said"; exit 77; }
sed -n 's/^[0-9][0-9]*  \(.*\)/      on \1/p; s/^   driver  */      driver /p' "$said" | head -n 2
subgroups=$(sed -n '/^clattn devices:/d; /^ *not:/d; s/.*sub-groups of \([0-9]*\),.*/\1/p' "$said")

wanted() {
    [ -z "$only" ] && return 0
    for name in $only; do case $1/$2 in "$name" | "$name"/*) return 0 ;; esac; done
    return 1
}

# run FAMILY SUITE ROW LEAST: run a suite and report it. LEAST: the minimum for CLATTN_TEST_TAKEN,
# or empty.
run() {
    wanted "$1" "$2" || return 0
    start=$(date +%s)
    CLATTN_TEST_ROWS=$3 timeout "$seconds" env ${4:+CLATTN_TEST_TAKEN="$4"} "$build/tests/test_$2" </dev/null >"$said" 2>&1
    status=$?
    checks=$(sed -n 's/^[0-9]*%: \(Checks: .*\)$/\1/p' "$said") taken=$(sed -n 's/^taken: \([0-9]* of [0-9]*\) .*/, \1 cases taken/p' \
        "$said")
    name="$1 $2: ${checks:-no check ended}$taken ($(($(date +%s) - start)) s)"
    case $status in
    0) echo "ok    $name" ;;
    124) echo "FAIL  $name: not done in $seconds s" ;;
    *) echo "FAIL  $name: exit status $status"
        grep -E ':[0-9]+:[FE]:|OpenCL objects: (left|misused)' "$said" | cut -c1-300 ;;
    esac
    count $status
}

# The first suites run cases and count the launches of the kernel. The others do not count them.
attention() {
    for suite in attention block_mask case hostile masks mods views; do run "$1" $suite "$2" "$3 1"; done
    for suite in examples limits; do run "$1" $suite "$2" ""; done
}
projections() {
    for suite in errors_linear layer layer_rope linear; do run "$1" $suite "$2" ""; done
}

# The rows of tests/families.def.
while IFS='"' read -r _ name _ row _; do
    case $row in
    linear_*) projections "$name" "$row" ;;
    backward*) run "$name" backward "$row" "${row%% *} 1" ;;
    *) attention "$name" "$row" "${row%% *}" ;;
    esac
done <<END
$(grep '^BY_HAND("' tests/families.def)
END
for size in 8 16 32 64; do
    columns=16
    [ $size != 8 ] || columns=8
    if ! echo "$subgroups" | grep -qx $size; then
        [ -n "$only" ] || skip "sub-groups of $size: the device has none"
        continue
    fi
    attention flash_subgroups_$size "flash_tiles : SUBGROUP=$size GROUP_COLUMNS=$columns" flash_tiles
    attention decode_subgroups_$size "decode_groups : SUBGROUP=$size" decode_groups
done
finish
