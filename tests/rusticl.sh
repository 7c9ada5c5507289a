#!/bin/sh
# The kernels of GPUs on Mesa's rusticl over llvmpipe. Its limits are like a GPU's (32 KiB of local
# memory), its compiler is another one, and since Mesa 25.0 it has sub-groups of a CPU vector's
# lanes.
#   sh tests/rusticl.sh FOLDER        a case of each kernel that Mesa 22.3 compiles in seconds
#   sh tests/rusticl.sh FOLDER full   also tests/families.sh: hours with Mesa 22.3, which needs 13 s
#                                     for a kernel of tiles or groups and minutes for linear_tiles;
#                                     Mesa 25.0 probes all engines in 4 s
# FOLDER is built with tests. Prints a line that begins with "ok" or "FAIL" for each check. Exits
# with 77 without the driver.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/steps.sh
build=$(cd "${1:?FOLDER}" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/drivers" "$work/mesa"
echo libRusticlOpenCL.so.1 >"$work/drivers/rusticl.icd"
# Otherwise Mesa's cache of another run would replace compilation.
export OCL_ICD_VENDORS="$work/drivers/" RUSTICL_ENABLE=llvmpipe MESA_SHADER_CACHE_DIR="$work/mesa"
if ! "$build/clattn" devices >"$work/devices" 2>&1 || ! grep -q rusticl "$work/devices"; then
    echo "Mesa's rusticl is not here (Debian: mesa-opencl-icd)"
    exit 77
fi
sed -n 's/^   driver  */      driver /p' "$work/devices"

# $1 variant of clattn verify, $2 case: must pass, and must not be skipped
verify() {
    timeout 300 "$build/clattn" verify --cache-dir "$work" --only "$1" --case "$2" >"$work/said" 2>&1
    status=$?
    grep -v '^MESA: ' "$work/said"
    [ $status = 0 ] && grep -q '^1 pass, 0 fail' "$work/said"
}
for type in "" -kvi8; do # rows of K in a private array: kv.clh
    step "rusticl: unfused$type" verify unfused "attend-f32-b2-h4-hkv2-n33-nkv65-d64-full$type-lse"
done
step "rusticl: flash" verify flash causal
step "rusticl: flash_tiles" verify flash-tiles-4 causal
step "rusticl: decode_groups" verify decode-groups attend-f32-b1-h2-n1-nkv150-d64-full-lse
step "rusticl: decode_groups, four rows, scores far below 0" verify decode-groups attend-f32-b1-h1-n4-nkv33-d32-full-lse-hugeneg
step "rusticl: linear_rows" verify linear-rows linear-f32-b1-h1-n3-d64-m48-full
if [ "${2:-}" = full ]; then
    steps_of "rusticl: suites over each kernel" env CLATTN_SECONDS="${CLATTN_SECONDS:-3600}" sh tests/families.sh "$build"
fi
finish
