#!/bin/sh
# Every kernel on small cases under Oclgrind, which sees reads and writes out of bounds, data races and barriers that
# not all work-items reach. Its exit status is 0 even then: the log must be empty.   $1 build folder
set -eu
command -v oclgrind >/dev/null || { echo "no oclgrind"; exit 77; }
# Unoptimised: it then sees every access as written, and does not meet a hint that clang's inliner leaves where a function
# returned a struct (llvm.experimental.noalias.scope.decl), which Oclgrind 21.10 does not know.
export OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
log=$(mktemp)
status=0
# The lanes kernels, with projections of few rows, then the portable one, with those of many: Oclgrind calls itself a
# CPU, too.
lanes='flash_lanes cpu=1 : LANES=4 ROW_VECTORS=1 KEY_BLOCK=4 TILE_KV=32
linear_few_lanes : LANES=4'
portable='flash :
linear_lanes : LANES=4'
# Tiles take bfloat16, so that the cases are run as that.
matrix='flash_matrix :'
for rows in "$lanes" "$portable" "$matrix"; do
    unset CLATTN_TEST_TYPE CLATTN_TEST_TAKEN
    [ "$rows" != "$matrix" ] || export CLATTN_TEST_TYPE=bf16 CLATTN_TEST_TAKEN='flash_matrix 8'
    CLATTN_TEST_ROWS=$rows OCLGRIND_DATA_RACES=1 OCLGRIND_LOG=$log oclgrind "$1/tests/test_oclgrind" || status=$?
    if [ -s "$log" ]; then
        head -c 4000 "$log"
        status=1
    fi
done
rm -f "$log"
exit $status
