#!/bin/sh
# ThreadSanitizer over the suites in which threads share a context or a group. clattn must have no
# data race and no lock-order inversion.
#
#   check_threads.sh BUILD     creates BUILD; CLATTN_THOROUGH=on adds all partitionings of a group,
#                              and its faults
set -eu
options="suppressions=$PWD/tests/support/tsan.supp ignore_noninstrumented_modules=1 halt_on_error=0 exitcode=66"
suites="opencl_load threads threads_layer behind building pool group_promises"
[ "${CLATTN_THOROUGH:-off}" = off ] || suites="$suites group group_faults"
[ -f "$1/build.ninja" ] || meson setup "$1" --werror -Dtests=enabled -Dtool=enabled -Dmpi=disabled -Db_sanitize=thread -Db_lundef=false
for suite in $suites; do set -- "$@" "tests/test_$suite"; done
folder=$1
shift
# CLBlast's module is loaded at run time, so it must be built explicitly.
ninja -C "$folder" "$@" tests/libclattn_layer.so $(ninja -C "$folder" -t targets all |
    sed -n 's/^\(libclattn-clblast-[0-9.]*\.so\):.*/\1/p')
layer=$(cd "$folder" && pwd)/tests/libclattn_layer.so
for suite in $suites; do
    # Suites with two contexts at once, or with faults from the layer, as in tests/meson.build.
    case $suite in
        group*) export POCL_MAX_PTHREAD_COUNT=1 OPENCL_LAYERS="$layer" ;;
        *) unset POCL_MAX_PTHREAD_COUNT OPENCL_LAYERS ;;
    esac
    TSAN_OPTIONS=$options CLATTN_TEST_DATA=$PWD/tests/data sh tests/retry_flaky.sh "$folder/tests/test_$suite" >"$folder/$suite.log" 2>&1 ||
        { cat "$folder/$suite.log"; exit 1; }
    cat "$folder/$suite.log"
    grep -q '^100%: Checks: [1-9]' "$folder/$suite.log" || { echo "$suite: ran nothing"; exit 1; }
done
