# driver.sh: which OpenCL driver tests run on. Sourced from the top folder.

# The driver that the tests run on, in a folder of its own, so that others that are installed are not loaded beside it: one
# that leaks or fails in a query would fail a suite. CLATTN_DRIVERS, a folder of .icd files, takes another one.
choose_driver() {
    drivers=${CLATTN_DRIVERS:-$PWD/build/drivers/pocl}
    mkdir -p build/drivers/pocl
    cp /etc/OpenCL/vendors/pocl.icd build/drivers/pocl/ 2>/dev/null
    ls "$drivers"/*.icd >/dev/null 2>&1 || return 1
    export OCL_ICD_VENDORS="$drivers/"
    # PoCL keeps what it compiled. Some checks have a cache folder of their own (XDG_CACHE_HOME), in which they would
    # compile all of it anew.
    export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/build/drivers/kernels}"
    mkdir -p "$POCL_CACHE_DIR"
    # It also compiles each kernel once more for a binary of it: see look_again.sh.
    [ ! -f "$drivers/pocl.icd" ] || export CLATTN_TEST_KEPT=few
    # Three fifths of a kernel's time in PoCL 3.1's compiler are optimising. Without --all that is done for what look_again.sh names, and
    # $plainly stands before the command of a check, or of a part of it, that asks nothing of the kernels' code.
    export plainly=
    if [ "${all:-on}" = off ] && grep -q 'libpocl\.so\.2\.10' "$drivers/pocl.icd" 2>/dev/null; then
        export CLATTN_TEST_OPTIMISED=few
        plainly=POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
    fi
}

# PoCL has the disk finish each file that it keeps, three a kernel, and a core waits meanwhile. Where memory is plenty the folder is there
# while the tests run, and on the disk again afterwards. Nothing else that ends the shell may be trapped.
kernels_to_memory() {
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    memory=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo 2>/dev/null)
    { [ "${free:-0}" -gt 4000000 ] && [ "${memory:-0}" -gt 8000000 ] && [ -d "${POCL_CACHE_DIR:-}" ]; } || return 0
    on_disk=$POCL_CACHE_DIR
    POCL_CACHE_DIR=$(mktemp -d /dev/shm/clattn-kernels-XXXXXX) || return 1
    trap kernels_to_disk EXIT
    trap 'exit 1' HUP INT TERM
    cp -r "$on_disk/." "$POCL_CACHE_DIR"
}
kernels_to_disk() {
    cp -r "$POCL_CACHE_DIR/." "$on_disk"
    rm -rf "$POCL_CACHE_DIR"
}
