# driver.sh: which OpenCL driver tests run on. Sourced from the top folder.

# Select the driver of the tests. It has a folder of its own, so that other installed drivers are
# not loaded: they may leak or fail. CLATTN_DRIVERS, a folder of .icd files, selects another driver.
choose_driver() {
    drivers=${CLATTN_DRIVERS:-$PWD/build/drivers/pocl}
    mkdir -p build/drivers/pocl
    cp /etc/OpenCL/vendors/pocl.icd build/drivers/pocl/ 2>/dev/null
    ls "$drivers"/*.icd >/dev/null 2>&1 || return 1
    export OCL_ICD_VENDORS="$drivers/"
    # PoCL's cache of kernels. Some checks have a cache folder of their own (XDG_CACHE_HOME), in
    # which PoCL would compile everything again.
    export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/build/drivers/kernels}"
    mkdir -p "$POCL_CACHE_DIR"
    # PoCL compiles each kernel again to return its binary: see retry_flaky.sh.
    [ ! -f "$drivers/pocl.icd" ] || export CLATTN_TEST_KEPT=few
    # PoCL 3.1 optimises for three fifths of its compile time. Without --all it optimises only for
    # the suites that retry_flaky.sh lists. Other checks run their commands with `env $plainly`.
    export plainly=
    if [ "${all:-on}" = off ] && grep -q 'libpocl\.so\.2\.10' "$drivers/pocl.icd" 2>/dev/null; then
        export CLATTN_TEST_OPTIMISED=few
        plainly=POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
    fi
}

# PoCL writes three files per kernel to its cache and waits for the disk each time. With enough
# memory the cache is in memory during the tests, and is copied back afterwards. The caller must
# not set other exit traps.
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
