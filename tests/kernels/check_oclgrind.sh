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
decode_rows share=16.. : LANES=4 ROW_VECTORS=2 KEY_BLOCK=4 TILE_KV=8 TILE_Q=8
linear_few_lanes : LANES=4'
portable='flash :
linear_lanes : LANES=4'
# Attention in register tiles of few work-items.
tiles='flash_tiles : MICRO_ROWS=4 GROUP_ROWS=4 GROUP_COLUMNS=8 CHUNK=16'
tiles8='flash_tiles : MICRO_ROWS=8 GROUP_ROWS=1 GROUP_COLUMNS=8 CHUNK=8'
# Projections of devices without lanes: work-items that share the reduction, and tiles of few work-items.
few='linear_rows : WORK_GROUP=8 ROW_ITEMS=4 ROW_BLOCK=8'
many='linear_tiles : MICRO_ROWS=4 GROUP_ROWS=2 GROUP_COLUMNS=4 CHUNK=8'
# Decode by groups: of the suite, what a decode call can be.
groups='decode_groups : WORK_GROUP=16'
# $1 program, $2 rows, $3 what of it
grind() {
    CLATTN_TEST_ROWS=$2 OCLGRIND_DATA_RACES=1 OCLGRIND_LOG=$log oclgrind "$1/tests/test_oclgrind" $3 || status=$?
    if [ -s "$log" ]; then
        head -c 4000 "$log"
        status=1
    fi
}
for rows in "$lanes" "$portable" "$tiles" "$tiles8"; do grind "$1" "$rows" ""; done
CK_RUN_CASE=decode
export CK_RUN_CASE
grind "$1" "$groups" ""
grind "$1" 'decode_tiles : MICRO_ROWS=4 GROUP_ROWS=2 GROUP_COLUMNS=8 CHUNK=8' ""
unset CK_RUN_CASE
for rows in "$few" "$many"; do grind "$1" "$rows" projections; done
grind "$1" 'linear_matrix :' tiles
# Tiles of a matrix engine take bfloat16, so that the cases are run as that.
export CLATTN_TEST_TYPE=bf16 CLATTN_TEST_TAKEN='flash_matrix 8'
grind "$1" 'flash_matrix :' ""
rm -f "$log"
exit $status
