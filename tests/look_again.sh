#!/bin/sh
# Runs a suite, and runs it again, three times at most, where it could not be judged. What a check, a leak or a sanitizer says is
# never asked twice.
# - LeakSanitizer stops every thread through ptrace and now and then cannot, when a driver's thread ends meanwhile; it then ends
#   the process, in which every check has held.
# - Debian's PoCL 3.1 now and then ends the process by an assertion of its own, on how often the code of a kernel is in use, where
#   several queues use kernels for the first time at once: 4 of 32 cold runs of suite threads on a busy machine. Its sources find that
#   code by kernel and size of work-groups when it is let go, and by the size of the grid, too, when it is taken; two queues whose
#   grids of one kernel grow did not reproduce it alone.
# A suite whose kernel LLVM gives up on is skipped by name: LLVM 18, as PoCL 6.0 of Debian 13 calls it, ends the process where a pass
# of its own needs a second round (seen in the emulation of matrix engines alone).
# clattn asks PoCL for no binaries: PoCL compiles a kernel once more, without a size of work-groups, for each. CLATTN_LAYER_BINARIES
# hides PoCL's name, so that binaries are stored and loaded all the same. With CLATTN_TEST_KEPT=few only those suites do so that test
# what options, inserted text and threads make of stored kernels, or that look at the folder.
# With CLATTN_TEST_OPTIMISED=few only the suites of every pair of options and of hostile numbers by the planner, and of what a compiler
# makes of a kernel have theirs compiled as an application's are; the others' are what the text says, unoptimised: three times
# as fast to compile, and each read and write of the text is done (cl_layer_options.c).
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
few\ test_hostile) [ -z "${CLATTN_TEST_ROWS:-}" ] || as_written ;; # verify has hard cases in kernels that are forced
few\ test_fallback | few\ test_measure | few\ test_probe* | few\ test_spills | few\ test_timed) ;;
few\ *) as_written ;;
esac
# What gave up before the suite could be judged, if anything did.
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
