#!/bin/sh
# Every kernel with small cases under Oclgrind, which detects accesses out of bounds, data races and
# barriers that not all work-items reach. Oclgrind's exit status is always 0, so its log must be
# empty.
#
#   check_oclgrind.sh BUILD [some]     some: one case in 96 per family, alternating; one in 6 for
#                                      projections, one in 8 for matrix engines and gradients; one
#                                      kind of integers and of tiles per kernel
set -eu
command -v oclgrind >/dev/null || { echo "no oclgrind"; exit 77; }
# Without optimisation Oclgrind sees every access as written. It also avoids a hint of clang's
# inliner (llvm.experimental.noalias.scope.decl), which Oclgrind 21.10 does not support.
export OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
log=$(mktemp)
status=0
small=$1/tests/test_oclgrind
# grind PROGRAM ARGUMENTS VARIABLE=VALUE...: run a program under Oclgrind.
grind() {
    program=$1 what=$2
    shift 2
    env "$@" OCLGRIND_DATA_RACES=1 OCLGRIND_LOG="$log" oclgrind "$program" $what </dev/null || status=$?
    if [ -s "$log" ]; then
        head -c 4000 "$log"
        status=1
    fi
}
# The rows of tests/families.def. Rows of one run are used together. Oclgrind reports a CPU, so
# lanes kernels run as well.
table=tests/families.def
runs=$(sed -n 's/^OCLGRIND("\([^"][^"]*\)", "\([^"]*\)".*/\1 \2/p' $table | sort -u)
[ "$(echo "$runs" | wc -l)" -ge 10 ] || { echo "found too few runs"; exit 1; }
run_number=0
while read -r run cases; do
    run_number=$((run_number + 1)) engine_least=8 gradients_least=3
    case ${2:-}:$run in
    # Other runs have the same kernels.
    some:*_integers | some:tiles_8 | some:gradients_tiles_8 | some:tiles_decode) continue ;;
    esac
    case ${2:-}:$cases in
    some:gradients*) export CLATTN_TEST_EVERY="8/$((run_number % 8))" && gradients_least=1 ;;
    some:all | some:decode) export CLATTN_TEST_EVERY="96/$((run_number % 96))" ;;
    some:bf16 | some:i8) export CLATTN_TEST_EVERY="8/$(((run_number + 3) % 8))" && engine_least=1 ;;
    some:*) export CLATTN_TEST_EVERY="6/$((run_number % 6))" ;; # these have few cases, or run few
    esac
    rows=$(sed -n "s/^OCLGRIND(\"$run\", \"[^\"]*\", \"\(.*\)\")\$/\1/p" $table)
    case $cases in
    all) grind "$small" "" CLATTN_TEST_ROWS="$rows" ;;
    decode) grind "$small" "" CLATTN_TEST_ROWS="$rows" CK_RUN_CASE=decode ;;
    projections | tiles | fragments | integers | blocks) grind "$small" "$cases" CLATTN_TEST_ROWS="$rows" ;;
    gradients) grind "$small" "$cases" CLATTN_TEST_ROWS="$rows" CLATTN_TEST_TAKEN="${rows%% *} $gradients_least" ;;
    # Tiles of a matrix engine need bfloat16, so the cases run with that type.
    gradients-bf16) grind "$small" gradients CLATTN_TEST_ROWS="$rows" CLATTN_TEST_TYPE=bf16 CLATTN_TEST_TAKEN="${rows%% *} $gradients_least" ;;
    bf16 | i8) grind "$small" "" CLATTN_TEST_ROWS="$rows" CLATTN_TEST_TYPE=$cases CLATTN_TEST_TAKEN="${rows%% *} $engine_least" ;;
    *) echo "$run: no cases are $cases" && status=1 ;;
    esac
done <<END
$runs
END
grind "$1/tests/test_block" "" CLATTN_TEST_EVERY=48
# Pretend a CPU with AMX. Oclgrind crashes when it compiles inline assembly.
grind "$1/tests/test_probe" "" CK_RUN_CASE=assembly
# Oclgrind reports a CPU, so lists of keys in work-groups need a suite that pretends another device.
[ -n "${2:-}" ] || grind "$1/tests/test_topk" "" CLATTN_TEST_EVERY=24 CK_RUN_CASE="as no CPU"
grind "$1/tests/test_shift" "" CLATTN_TEST_EVERY=3 CK_RUN_CASE="as no CPU"
rm -f "$log"
exit $status
