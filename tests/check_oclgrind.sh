#!/bin/sh
# Every kernel on small cases under Oclgrind, which sees reads and writes out of bounds, data races and barriers that
# not all work-items reach. Its exit status is 0 even then: the log must be empty.   $1 build folder
set -eu
command -v oclgrind >/dev/null || { echo "no oclgrind"; exit 77; }
log=$(mktemp)
status=0
CLATTN_TEST_DEVICE=oclgrind OCLGRIND_CHECK_API=1 oclgrind --data-races --log "$log" "$1/tests/test_oclgrind" || status=$?
if [ -s "$log" ]; then
    head -c 4000 "$log"
    status=1
fi
rm -f "$log"
exit $status
