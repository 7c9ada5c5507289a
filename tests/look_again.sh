#!/bin/sh
# Runs a suite under LeakSanitizer, once more where the checker itself gave up. It stops every thread through ptrace and now
# and then cannot, when a driver's thread ends meanwhile; it then ends the process, in which every check has held. What a
# check, a leak or a sanitizer says is never asked twice.
# With CLATTN_TEST_KEPT=few only some suites keep their kernels in a folder. PoCL has a cache of its own, and compiles a kernel once
# more, without a size of work-groups, when it is asked for a binary: for two fifths of a cold run. Those that do store and load what
# options, inserted text and threads make of kernels, or look at the folder.
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
case "${CLATTN_TEST_KEPT:-all} ${1##*/}" in
few\ test_building | few\ test_case | few\ test_embedding | few\ test_faults | few\ test_group_faults | few\ test_host_memory | few\ test_keeping) ;;
few\ test_linear | few\ test_measure | few\ test_mods | few\ test_places | few\ test_resources | few\ test_threads*) ;;
few\ *) unset CLATTN_TEST_CACHE ;;
esac
"$@" >"$said" 2>&1
status=$?
cat "$said"
if [ $status != 0 ] && grep -q 'LeakSanitizer has encountered a fatal error' "$said" &&
    ! grep -Eq ':[0-9]+:[FE]:|ERROR: (Address|Leak)Sanitizer|runtime error|OpenCL objects: (left|misused)|Failures: [1-9]|Errors: [1-9]' "$said"; then
    echo "the leak checker could not stop the threads: run again"
    "$@" >"$said" 2>&1
    status=$?
    # The checks of the first run have been printed.
    grep -Ev '^[0-9]*%: Checks: ' "$said"
    [ $status = 0 ] || grep -E 'Failures: [1-9]|Errors: [1-9]' "$said"
fi
exit $status
