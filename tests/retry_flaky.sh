#!/bin/sh
# Run a suite, and up to three more times if the run could not be judged. A failed check, a leak or
# a sanitizer's report is never repeated. A run cannot be judged if
#
# - LeakSanitizer cannot stop all threads, because a thread of the driver ends meanwhile. It then
#   ends the process, in which every check has passed.
# - PoCL 3.1 of Debian ends the process with an assertion about the users of a kernel's code. This
#   happens if several queues use kernels for the first time at once: 4 of 32 cold runs of suite
#   threads on a busy machine. PoCL looks that code up by kernel, work-group size and grid size, but
#   releases it by kernel and work-group size.
#
# A suite is skipped if LLVM cannot compile one of its kernels. LLVM 18, as in PoCL 6.0 of Debian
# 13, ends the process if a pass needs a second round. This was seen only with emulated matrix
# engines.
#
# clattn reads no binaries from PoCL, which would compile each kernel again for them.
# CLATTN_LAYER_BINARIES hides PoCL's name, so that binaries are stored and loaded. With
# CLATTN_TEST_KEPT=few only suites about stored kernels, options, inserted text and threads do so.
#
# With CLATTN_TEST_OPTIMISED=few only the suites below have optimised kernels: pairs of options,
# hostile numbers with the planner's kernels, and the effects of a compiler. Others compile
# unoptimised, which is three times as fast. Each access in the text is then made
# (cl_layer_options.c).
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
case "${CLATTN_TEST_KEPT:-all} ${1##*/}" in
few\ test_building | few\ test_case | few\ test_embedding | few\ test_faults) ;;
few\ test_group_faults | few\ test_host_memory | few\ test_keeping) ;;
few\ test_measure | few\ test_mods | few\ test_places | few\ test_program | few\ test_resources | few\ test_threads*) ;;
few\ *) unset CLATTN_TEST_CACHE CLATTN_LAYER_BINARIES ;;
esac
as_written() {
    export CLATTN_LAYER_OPTIONS=-cl-opt-disable
    [ -z "${CLATTN_TEST_CACHE:-}" ] || export CLATTN_TEST_CACHE="$CLATTN_TEST_CACHE-unoptimised"
}
case "${CLATTN_TEST_OPTIMISED:-all} ${1##*/}" in
few\ test_pairs) ;;
few\ test_hostile) [ -z "${CLATTN_TEST_ROWS:-}" ] || as_written ;; # verify tests forced kernels
few\ test_fallback | few\ test_measure | few\ test_probe* | few\ test_spills | few\ test_timed) ;;
few\ *) as_written ;;
esac
# Print why the run could not be judged. False if it could.
judged() {
    grep -Eq ':[0-9]+:[FE]:|ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error|OpenCL objects: (left|misused)|Failures: [1-9]|Errors: [1-9]' "$said"
}
gave_up() {
    judged && return 1
    if grep -q 'LeakSanitizer has encountered a fatal error' "$said"; then
        echo "the leak checker could not stop the threads"
    elif grep -q 'pocl_release_dlhandle_cache: Assertion .* failed' "$said"; then
        echo "PoCL ended the process by an assertion of its own"
    else
        return 1
    fi
}
"$@" >"$said" 2>&1
status=$?
for _ in 1 2 3; do
    [ $status != 0 ] && why=$(gave_up) || break
    # Checks count once.
    grep -Ev '^[0-9]*%: Checks: |^OpenCL objects: ' "$said"
    echo "$why: run again"
    "$@" >"$said" 2>&1
    status=$?
done
if [ $status != 0 ] && ! judged && grep -q 'LLVM ERROR: Instruction Combining did not reach a fixpoint' "$said"; then
    echo "skipped: LLVM ended the process while it compiled a kernel"
    status=77
fi
cat "$said"
exit $status
