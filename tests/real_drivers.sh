#!/bin/sh
# Hard cases, layers, a decoder's step and its recording on other real drivers. No driver is
# installed: packages are unpacked in FOLDER/real_drivers, 60 MB from PyPI and 200 MB from each
# Debian release. Debian's drivers need root.
#
#   sh tests/real_drivers.sh FOLDER              all drivers
#   sh tests/real_drivers.sh FOLDER NAME         one driver
#   sh tests/real_drivers.sh FOLDER NAME full    each hard case; for an installed driver also
#                                                tests/families.sh: hours
#     rusticl             Mesa's driver, if installed, with a GPU's limits (32 KiB of local memory).
#                         Since Mesa 25.0 it has sub-groups. Mesa 22.3 compiles a kernel of tiles
#                         for 13 s, and linear_tiles for more than a minute
#     pocl-pypi           PoCL 3.0 from PyPI
#     trixie, sid         PoCL 6.0 and 7.1 of Debian's releases
#     rusticl-trixie, rusticl-sid   Mesa 25.0 and 26.2
#
# FOLDER is built with tests. Each check prints a line that begins with "ok", "FAIL" or "SKIP". The
# exit status is 77 if there is no driver.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/runner.sh
. tests/package/debian_packages.sh
build=$(cd "${1:?FOLDER}" && pwd) || exit 2
wanted=${2:-} full=${3:-}
[ "$wanted" != full ] || wanted=rusticl full=full
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/drivers" "$work/mesa"
# Caches of earlier runs would hide a compiler's failure.
export OCL_ICD_VENDORS="$work/drivers/" RUSTICL_ENABLE=llvmpipe MESA_SHADER_CACHE_DIR="$work/mesa" CK_DEFAULT_TIMEOUT=0
unset OPENCL_LAYERS CLATTN_TEST_CACHE CLATTN_TEST_ROWS CLATTN_DEVICE CLATTN_TEST_DEVICE
around= # a wrapper of each command, or nothing

chosen_driver() { [ -z "$wanted" ] || [ "$wanted" = "$1" ]; }
# Select a driver and check that it has a device.   $1 name, $2 library, $3 a word of its platform
begins() {
    driver=$1
    rm -f "$work/drivers"/*
    echo "$2" >"$work/drivers/$driver.icd"
    export POCL_CACHE_DIR="$work/kernels-$driver"
    mkdir -p "$POCL_CACHE_DIR"
    if ! $around "$build/clattn" devices --cache-dir "$work/$driver" >"$work/devices" 2>&1 || ! grep -q "$3" "$work/devices"; then
        skip "$driver: $(tail -n 1 "$work/devices")"
        return 1
    fi
    sed -n 's/^   driver  */      driver /p' "$work/devices"
}
# Run one case and check that a kernel ran it.   $1 variant of clattn verify, $2 case
verify() {
    timeout 600 $around "$build/clattn" verify --cache-dir "$work/$driver" --only "$1" --case "$2" >"$work/said" 2>&1
    status=$?
    grep -v '^MESA: ' "$work/said"
    [ $status = 0 ] && grep -q '^1 pass, 0 fail' "$work/said"
}
hard_cases() { timeout 7200 $around "$build/clattn" verify --cache-dir "$work/$driver" --only planner; }
decode=decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvi8-lse-kvlen300:17-append1-hiddennan
pocl() {
    for case in causal everything softcap-huge append-i8 i8-decode pages-odd past-everything latent ragged layer-gate linear-rows; do
        [ -n "$full" ] || step "$driver: $case" verify planner $case
    done
    step "$driver: backward-everything" verify backward backward-everything
    [ -z "$full" ] || step "$driver: every hard case" hard_cases
    step "$driver: a decoder's step" $around "$build/tests/test_case" $decode
    step "$driver: a decoder's step, recorded" env CLATTN_TEST_RECORDED=1 $around "$build/tests/test_case" $decode
}
rusticl() {
    for type in "" -kvi8; do # rows of K in a private array: kv.clh
        step "$driver: unfused$type" verify unfused "attend-f32-b2-h4-hkv2-n33-nkv65-d64-full$type-lse"
    done
    step "$driver: flash" verify flash causal
    step "$driver: flash_tiles" verify flash-tiles-4 causal
    step "$driver: decode_groups" verify decode-groups attend-f32-b1-h2-n1-nkv150-d64-full-lse
    step "$driver: decode_groups, four rows, scores far below 0" verify decode-groups attend-f32-b1-h1-n4-nkv33-d32-full-lse-hugeneg
    step "$driver: linear_rows" verify linear-rows linear-f32-b1-h1-n3-d64-m48-full
}

# Drivers open clang's headers and built-in libraries by paths below /usr. The packages are
# mounted over /usr in a mount namespace of the command. This machine's programs also run on the
# newer C library.   $1 packages
over_usr() {
    cat >"$work/around" <<END
#!/bin/sh
export GALLIUM_PIPE_SEARCH_DIR="$1/usr/lib/x86_64-linux-gnu/gallium-pipe"
exec unshare -m sh -c 'mount -t overlay overlay -o "lowerdir=$1/usr:/usr" /usr && exec "\$@"' run "\$@"
END
    chmod +x "$work/around"
    around=$work/around
    $around true 2>/dev/null
}

if chosen_driver rusticl && begins rusticl libRusticlOpenCL.so.1 rusticl; then
    rusticl
    [ -z "$full" ] || steps_of "rusticl: suites over each kernel" env CLATTN_SECONDS="${CLATTN_SECONDS:-3600}" sh tests/families.sh "$build"
fi
packages=$build/real_drivers
mkdir -p "$packages"
if chosen_driver pocl-pypi; then
    [ -d "$packages/pypi/pyopencl" ] || python3 -m pip install -q --require-hashes --only-binary :all: --no-deps --target "$packages/pypi" \
        -r tests/requirements/pocl.txt >"$packages/pypi.log" 2>&1
    library=$(find "$packages/pypi/pyopencl" -name 'libpocl-*.so' 2>/dev/null | head -n 1)
    if [ -z "$library" ]; then
        skip "pocl-pypi: $(tail -n 1 "$packages/pypi.log")"
    elif begins pocl-pypi "$library" "PoCL 3.0"; then
        pocl
    fi
fi
for release in trixie sid; do
    chosen_driver $release || chosen_driver rusticl-$release || continue
    [ "$(uname -m)" = x86_64 ] || { skip "$release: not on this processor"; continue; }
    if ! debian_packages "$packages/$release" $release amd64 pocl-opencl-icd mesa-opencl-icd ocl-icd-libopencl1; then
        skip "$release: $(tail -n 1 "$packages/$release/log")"
        continue
    fi
    libraries=$packages/$release/usr/lib/x86_64-linux-gnu
    if ! over_usr "$packages/$release"; then
        skip "$release: only root can lay packages over /usr"
    else
        ! chosen_driver $release || ! begins $release "$libraries/libpocl.so.2" PoCL || pocl
        ! chosen_driver rusticl-$release || ! begins rusticl-$release "$libraries/libRusticlOpenCL.so.1" rusticl || rusticl
    fi
    around=
done
[ $((passed + failed)) != 0 ] || { echo "no other driver is to be had"; exit 77; }
finish
