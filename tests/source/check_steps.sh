#!/bin/sh
# The counting of tests/run.sh: a suite, or a program in it, fails if it ran no check, left no log,
# or left the log of another. A folder that was configured without tests, as by bench/run.sh, is
# configured again.
set -u
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() { echo "$*"; bad=1; }

# counted STATUS LOG RESULT: one suite in its own shell, with a meson that exits with STATUS and
# leaves LOG.
counted() {
    mkdir -p "$work/meson-logs"
    got=$(
        . "$top/tests/runner.sh"
        meson() { [ -z "$log_text" ] || printf '%s\n' "$log_text" >"$work/meson-logs/testlog.txt"; return $meson_status; }
        meson_status=$1 log_text=$2 all=on
        suite "name" "$work" host >/dev/null 2>&1
        # tests/run.sh reads after its suites whether --all was passed.
        [ "$all" = on ] || echo "--all is forgotten:"
        finish | tail -n 1
    )
    case $got in "$3"*) ;; *) complain "a suite with '$2', exit status $1: $got, not $3" ;; esac
}
# env, through which suite runs meson, cannot call shell functions.
env() { while [ "$1" != meson ]; do shift; done; "$@"; }

counted 0 '100%: Checks: 3, Failures: 0, Errors: 0' '3 passed, 0 failed, 0 skipped'
counted 1 '66%: Checks: 3, Failures: 1, Errors: 0' '2 passed, 1 failed, 0 skipped'
counted 1 '100%: Checks: 3, Failures: 0, Errors: 0' '3 passed, 1 failed, 0 skipped'
counted 0 'No suitable tests defined.' '0 passed, 1 failed, 0 skipped'
counted 0 '100%: Checks: 0, Failures: 0, Errors: 0' '0 passed, 1 failed, 0 skipped'
counted 0 '(exit status 77 or signal 0)' '0 passed, 1 failed, 1 skipped'
counted 0 '' '0 passed, 1 failed, 0 skipped'
# A failed check is printed once. For a program that crashed, its last lines are printed. Passed
# checks and the environment are not printed.
cat >"$work/log" <<'END'
Inherited environment: SECRET_TIMEOUT=7
=================================== 1/3 ===================================
test:         clattn:device / good
result:       exit status 0
Running suite(s): good
=================================== 2/3 ===================================
test:         clattn:device / bad
result:       exit status 1
t.c:7:F:core:name:0: Assertion failed
=================================== 3/3 ===================================
test:         clattn:device / gone
result:       killed by signal 6 SIGABRT
command:      A=1 ./gone
Running suite(s): gone
driver.c:99: what the driver said
END
told=$(. "$top/tests/runner.sh" && why_failed "$work/log" | tr '\n' '|')
wanted='t.c:7:F:core:name:0: Assertion failed|clattn:device / bad: exit status 1|'
wanted="${wanted}clattn:device / gone: killed by signal 6 SIGABRT|    Running suite(s): gone|    driver.c:99: what the driver said|"
[ "$told" = "$wanted" ] || complain "why a suite failed: $told"
# Queued steps are counted like others. A step that left no status has failed.
queued=$(
    . "$top/tests/runner.sh"
    later "good, with words" sh -c 'exit 0'
    later bad false
    later gone sh -c 'kill -9 $PPID'
    later skipped sh -c 'exit 77'
    run_queued >/dev/null 2>&1
    finish | tail -n 1
)
[ "$queued" = '1 passed, 2 failed, 1 skipped' ] || complain "queued steps: $queued"
# Steps of every kind run if their names are selected. A name that matches no step is refused.
chosen=$(
    . "$top/tests/runner.sh"
    only='^wanted|^build$'
    for kind in step later steps_of suite; do $kind "unwanted, $kind" false x x >/dev/null; done
    step wanted true >/dev/null
    later "wanted, too" true
    run_queued >/dev/null 2>&1
    finish | tail -n 1
)
[ "$chosen" = '2 passed, 0 failed, 0 skipped' ] || complain "chosen steps: $chosen"
CLATTN_INSTALL=off sh tests/run.sh --only 'no such step' >/dev/null 2>&1
[ $? = 2 ] || complain "tests/run.sh takes a name that no step has"
# scripted SCRIPT RESULT: a script that counts its own checks. Its lines are counted, and a script
# without any fails.
scripted() {
    got=$(
        . "$top/tests/runner.sh"
        steps_of "name" sh -c "$1" >/dev/null 2>&1
        finish | tail -n 1
    )
    [ "$got" = "$2" ] || complain "a script '$1': $got, not $2"
}
scripted 'echo ok    a; echo ok    b' '2 passed, 0 failed, 0 skipped'
scripted 'echo ok    a; echo FAIL  b; exit 123' '1 passed, 1 failed, 0 skipped'
scripted 'echo ok    a; echo SKIP  b: no compiler' '1 passed, 0 failed, 1 skipped'
scripted 'echo ok    a; exit 1' '1 passed, 1 failed, 0 skipped'
scripted 'true' '0 passed, 1 failed, 0 skipped'
scripted 'echo no clang; exit 77' '0 passed, 0 failed, 1 skipped'
# looked OUTPUT RESULT: a suite runs again if its leak checker or driver failed, and not after any
# other output. RESULT: "runs status".
gave_up='==7==LeakSanitizer has encountered a fatal error.'
cat >"$work/program" <<'END'
echo run >>"$RUNS"
[ "$(wc -l <"$RUNS")" = 2 ] && echo '100%: Checks: 3, Failures: 0, Errors: 0' && exit 0
echo "$SAYS"
exit 1
END
looked() {
    rm -f "$work/runs"
    SAYS=$1 RUNS=$work/runs sh "$top/tests/retry_flaky.sh" sh "$work/program" >"$work/said"
    status=$?
    got="$(wc -l <"$work/runs") $status"
    [ "$got" = "$2" ] || complain "look_again of '$1': $got, not $2"
}
looked "$gave_up" '2 0'
[ "$(grep -c Checks: "$work/said")" = 1 ] || complain "look_again counts checks twice, or never"
looked "100%: Checks: 3, Failures: 0, Errors: 0
$gave_up" '2 0'
[ "$(grep -c Checks: "$work/said")" = 1 ] || complain "look_again counts checks twice"
asserted="test: common.c:909: pocl_release_dlhandle_cache: Assertion \`found->ref_count > 0' failed."
looked "$asserted" '2 0'
looked "$asserted
t.c:7:F:core:name:0: Assertion failed" '1 1'
looked "WARNING: ThreadSanitizer: data race (pid=7)
$asserted" '1 1'
looked "$gave_up
t.c:7:F:core:name:0: Assertion failed" '1 1'
looked "$gave_up
==8==ERROR: AddressSanitizer: heap-use-after-free" '1 1'
looked 'killed by signal 11' '1 1'
# If a compiler fails, the suite counts as skipped, unless a check failed before.
fixpoint='LLVM ERROR: Instruction Combining did not reach a fixpoint after 1 iterations'
looked "$fixpoint" '1 77'
looked "t.c:7:F:core:name:0: Assertion failed
$fixpoint" '1 1'
sed -i 's/= 2 \]/= 9 ]/' "$work/program"
looked "$asserted" '4 1'

(. "$top/tests/runner.sh" && finish >/dev/null) && complain "a run of nothing has passed"

# The plan has every step of the run, and the durations of the previous run are printed.
told=$(
    . "$top/tests/runner.sh"
    steps_before=$work/before
    printf '%5d s  %s\n' 60 host 600 'device, default, and guard pages around every buffer' 330 whole >"$steps_before"
    plan_steps "$top/tests/run.sh" ''
    took 60 driver
    took 70 host
    tell_progress build 200
    plan_steps "$top/tests/run.sh" ' *'
    tell_progress build 200
)
steps=$(grep -cE '^(step|later|suite|steps_of) ' tests/run.sh) all=$(grep -cE '^ *(step|later|suite|steps_of) ' tests/run.sh)
case $told in "[3 of $steps] build: about 5 min more"*"[3 of $all] build: "*) ;; *) complain "progress: $told" ;; esac

# A build folder without tests and program.
meson setup "$work/build" -Dtests=disabled -Dtool=disabled >/dev/null 2>&1 || complain "meson setup"
(
    . "$top/tests/runner.sh"
    ninja() { :; }
    build_folder "$work/build" >/dev/null 2>&1
) || complain "build_folder of a folder that is configured already"
[ "$(meson introspect "$work/build" --tests | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" -ge 20 ] ||
    complain "a folder that was configured without tests has none"
[ $bad = 0 ] && echo "steps: all held"
exit $bad
