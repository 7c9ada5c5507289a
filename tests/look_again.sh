#!/bin/sh
# Runs a suite under LeakSanitizer, once more where the checker itself gave up. It stops every thread through ptrace and now
# and then cannot, when a driver's thread ends meanwhile; it then ends the process, in which every check has held. What a
# check, a leak or a sanitizer says is never asked twice.
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
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
