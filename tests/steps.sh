# steps.sh: what tests/run.sh and bench/run.sh are made of: installing, building, counting. Sourced from the top folder.
passed=0 failed=0 skipped=0
export CK_DEFAULT_TIMEOUT=600 # Check's own is 4 s, which a machine with other work may take for a test of a moment

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Install the Debian packages that are missing; a package that this release does not have is told and left out.
install_packages() {
    [ "${CLATTN_INSTALL:-on}" = off ] && return 0
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    echo "installing:$missing"
    as_root apt-get update -qq >/dev/null || return 1
    available=
    for package in $missing; do
        if apt-cache show "$package" >/dev/null 2>&1; then available="$available $package"; else echo "not in this release: $package"; fi
    done
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $available >/dev/null
}

# Debian's numpy is for Debian's Python, before which another may stand.
find_numpy() {
    if ! python3 -c 'import numpy' 2>/dev/null && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
        mkdir -p build/bin
        ln -sf /usr/bin/python3 build/bin/python3
        PATH=$PWD/build/bin:$PATH
        export PATH
    fi
}

# How long a step took, for the list at the end.   $1 seconds, $2 name
timings= begun=$(date +%s)
took() {
    timings=${timings:-$(mktemp)}
    printf '%5d s  %s\n' "$1" "$2" >>"$timings"
}

# What is still to do, on a terminal: the step that begins, how many are behind it, and what the run before says that they take.
# $planned: the names of all, one a line; without them nothing is told.
plan_steps() { planned=$(sed -nE "s/^$2(step|later|suite|steps_of) \"([^\"]*)\".*/\2/p" "$1"); }
planned='' steps_before=build/steps.seconds
progress() {
    [ -n "$planned" ] && [ -t 2 ] || return 0
    tell_progress "$1" $(($(date +%s) - begun)) >&2
}
# The whole run's seconds are the last line of $steps_before; steps that run two at a time have more in all.   $1 name, $2 seconds so far
tell_progress() {
    printf '%s\n' "$planned" | awk -v now="$1" -v elapsed="$2" '
        FILENAME == "-" { names[++all] = $0; next }
        { name = substr($0, 10); seconds = $1 + 0 }
        FILENAME == before && name == "whole" { whole = seconds; next }
        FILENAME == before { took[name] = seconds; sum += seconds; next }
        { if (!(name in done)) behind++; done[name] = 1 }
        END {
            for (i = 1; i <= all; i++) if (!(names[i] in done)) left += took[names[i]]
            if (sum > 0) expects = sprintf("about %d min more", left * whole / sum / 60 + 0.5)
            else expects = "the first time takes about 32 min in all, " int(elapsed / 60) " are behind it"
            printf "[%d of %d] %s: %s\n", behind + 1, all, now, expects
        }' before="$steps_before" - "$( [ -f "$steps_before" ] && echo "$steps_before" || echo /dev/null)" "${timings:-/dev/null}"
}

# Whether a step is to run. $only: those alone whose names match it, where it is set.
chosen() { [ -z "${only:-}" ] || printf '%s\n' "$1" | grep -Eq -e "$only"; }

count() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
skip() { echo "SKIP  $1"; skipped=$((skipped + 1)); }

# What became of a check that is a command: exit status 77 is a skip.   $1 name, $2 status, $3 seconds, $4 log
report() {
    took "$3" "$1"
    if [ "$2" = 77 ]; then
        skip "$1: $(tail -n 1 "$4")"
    elif [ "$2" = 0 ]; then
        echo "ok    $1 ($3 s)"
        sed -n 's/^counted: /      /p' "$4"
        count 0
    else
        echo "FAIL  $1 ($3 s)"
        tail -n 40 "$4"
        count 1
    fi
}

# One check that is a command.
step() {
    chosen "$1" || return 0
    name=$1
    progress "$name"
    shift
    start=$(date +%s)
    log=$(mktemp)
    "$@" >"$log" 2>&1
    report "$name" $? $(($(date +%s) - start)) "$log"
    rm -f "$log"
}

# Checks that keep one core busy are kept for later, and then run two at a time. Their words have no newline.
queue= queued=100
later() {
    chosen "$1" || return 0
    queue=${queue:-$(mktemp -d)}
    queued=$((queued + 1))
    printf '%s\n' "$@" >"$queue/$queued.words"
}
run_queued() {
    [ -n "$queue" ] || return 0
    progress "$(find "$queue" -name '*.words' | wc -l) checks, two at a time"
    # The outer shell outlives one that is killed: xargs would then start no more.
    find "$queue" -name '*.words' | sort | xargs -P 2 -I '{}' sh -c 'sh -c "$1" run "$2"; exit 0' run '
        place=${1%.words} start=$(date +%s)
        set --
        while read -r word; do set -- "$@" "$word"; done <"$place.words"
        echo "      begins: $1"
        shift
        "$@" >"$place.log" 2>&1
        echo "$? $(($(date +%s) - start))" >"$place.status"' '{}'
    for words in "$queue"/*.words; do
        place=${words%.words}
        read -r status seconds <"$place.status" || status=1 seconds=0
        report "$(head -n 1 "$words")" "$status" "$seconds" "$place.log"
    done
    rm -f "$queue"/*
}

# A script that counts its own checks, a line that begins with "ok", "FAIL" or "SKIP" for each; none is a failure.
steps_of() {
    chosen "$1" || return 0
    name=$1
    progress "$name"
    shift
    start=$(date +%s)
    log=$(mktemp)
    "$@" >"$log" 2>&1
    status=$?
    good=$(grep -c '^ok ' "$log")
    bad=$(grep -c '^FAIL ' "$log")
    if [ $status = 77 ]; then
        skip "$name: $(tail -n 1 "$log")"
    else
        cat "$log"
        if [ "$bad" = 0 ] && { [ $status != 0 ] || [ "$good" = 0 ]; }; then
            bad=1
            echo "FAIL  $name: exit status $status after $good checks"
        fi
        passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + $(grep -c '^SKIP ' "$log")))
        echo "      $name: $good checks, $bad failed ($(($(date +%s) - start)) s)"
    fi
    took $(($(date +%s) - start)) "$name"
    rm -f "$log"
}

# Configure (once) and build a folder with warnings as errors.
# One that was configured otherwise, such as by bench/run.sh or by hand, is configured again: it might have no tests, and
# who looks for failures there finds none. $build_targets: those alone, where it is set.
build_folder() {
    folder=$1
    shift
    set -- -Dwerror=true -Ddefault_library=both -Dtests=enabled -Dtool=enabled "$@"
    if [ ! -f "$folder/build.ninja" ]; then
        meson setup "$folder" "$@" || return 1
    elif [ "$(cat "$folder/steps.options" 2>/dev/null)" != "$*" ]; then
        meson setup --reconfigure "$folder" "$@" || return 1
    fi
    echo "$*" >"$folder/steps.options"
    # shellcheck disable=SC2086
    ninja -C "$folder" ${build_targets:-}
}

# The programs of suites, what counts their objects and what they load, by a folder that is built.   $1 folder, then suites
programs_of() {
    python3 - "$@" <<'PYTHON'
import glob, json, os, sys
folder, wanted = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
programs = {"tests/libclattn_layer.so"} | {os.path.basename(name) for name in glob.glob(folder + "/libclattn-clblast-*.so")}
for test in json.load(open(folder + "/meson-info/intro-tests.json")):
    if wanted & {name.split(":")[-1] for name in test["suite"]} and test["cmd"][0].startswith(folder + "/tests/"):
        programs.add(os.path.relpath(test["cmd"][0], folder))
print(" ".join(sorted(programs)))
PYTHON
}

# Run the Check programs of a Meson suite and add up their checks. $1 name, $2 folder, $3 suite, $4 runtime.
suite() {
    chosen "$1" || return 0
    name=$1 folder=$2 kind=$3 runtime=${4:-}
    progress "$name"
    start=$(date +%s)
    log=$folder/meson-logs/testlog.txt
    wrapped=${log%.txt}-look_again.sh.txt # Meson names the log by what runs the programs
    rm -f "$log" "$wrapped"               # those of another suite
    case $kind in
    layer-only) set -- layer errors_layer linear errors_linear layer_linear_tiles ;;
    # What the variants have of host code is there already.
    once) set -- --suite host --suite device --no-suite variants --no-suite kernels ;;
    device)
        set -- --suite device --suite pages # side by side: these are few and long
        [ "${CLATTN_THOROUGH:-off}" = on ] || set -- "$@" --no-suite sanitized # which runs with sanitizers alone
        [ "${all:-on}" = on ] || set -- "$@" --no-suite whole
        ;;
    sanitized) set -- --suite host --suite sanitized --no-suite whole ;;
    everything) set -- --suite device --suite compiler --suite subgroups --suite thorough ;;
    *) set -- --suite "$kind" ;;
    esac
    if [ "$runtime" = intel ]; then
        env OCL_ICD_VENDORS="$PWD/build/intel/intel.icd" LD_LIBRARY_PATH="$PWD/build/intel/libraries" \
            meson test -C "$folder" --no-rebuild --num-processes 2 --timeout-multiplier 3 -q "$@" >/dev/null 2>&1
    else
        UBSAN_OPTIONS=halt_on_error=1 ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:verify_asan_link_order=0 \
            LSAN_OPTIONS="suppressions=$PWD/tests/support/leaks.supp:print_suppressions=0" \
            meson test -C "$folder" --no-rebuild --num-processes 2 --timeout-multiplier 3 --wrapper "$PWD/tests/look_again.sh" -q "$@" \
                >/dev/null 2>&1
    fi
    status=$?
    [ ! -f "$wrapped" ] || mv "$wrapped" "$log"
    [ -f "$log" ] || { mkdir -p "${log%/*}" && echo "meson test wrote no log" >"$log"; }
    # Check prints "100%: Checks: 17, Failures: 0, Errors: 0" for each program; one that held no check has failed.
    checks=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" |
        awk '{n += $1 + ($1 == 0); bad += $2 + $3 + ($1 == 0)} END {print n + 0, bad + 0}')
    bad=${checks#* } made=${checks% *}
    quiet=$(grep -c 'exit status 77' "$log")
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1 made=$((made + 1)); fi # a program that died printed no line
    if [ "$made" = 0 ]; then bad=1 made=1 && echo "FAIL  $name: no check ran"; fi
    passed=$((passed + made - bad)) failed=$((failed + bad)) skipped=$((skipped + quiet))
    seconds=$(($(date +%s) - start))
    took $seconds "$name"
    if [ "$bad" = 0 ]; then word='ok   '; else word='FAIL '; fi
    # The layer of device suites prints "OpenCL objects: ... 812 counted, 0 left, 0 misused" for each program.
    objects=$(sed -n 's/^OpenCL objects: .* \([0-9]*\) counted, .*$/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
    if [ "$objects" != 0 ]; then objects=", $objects OpenCL objects counted"; else objects=; fi
    echo "$word $name: $made checks, $bad failed$objects ($seconds s)"
    sed -n 's/^\([0-9]* faults injected.*\)$/      \1/p' "$log"
    [ "$bad" = 0 ] || why_failed "$log" | cut -c1-300 | head -n 60
}

# What checks and sanitizers said, by Meson's log; of a program that ended otherwise, its last words.   $1 log
why_failed() {
    awk '
        function tell(i) {
            if (result != "" && result !~ /^exit status (0|77)$/) {
                print name ": " result
                for (i = said > last ? said - last : 0; i < said; i++)
                    if (line[i] !~ telling) print "    " line[i]
            }
            result = ""
            said = 0
        }
        BEGIN {
            last = 12
            telling = ":[0-9]+:[FE]:|OpenCL objects: (left|misused)|AddressSanitizer|LeakSanitizer|runtime error|SUMMARY|TIMEOUT|killed by"
        }
        /^Inherited environment/ { next }
        /^=+ [0-9]+\/[0-9]+ =+$/ { tell() }
        sub(/^test: */, "") { name = $0; next }
        sub(/^result: */, "") { result = $0; said = 0; next }
        /^(command|start time|duration): / { next }
        $0 ~ telling
        { line[said++] = $0 }
        END { tell() }' "$1"
}

# Intel's CPU runtime for OpenCL in a folder of its own, from PyPI; false where it is not wanted or not to be had.
intel_runtime() {
    folder=$PWD/$1
    [ "${CLATTN_INTEL:-on}" = off ] && return 1
    if [ ! -f "$folder/intel.icd" ]; then
        echo "installing Intel's CPU runtime for OpenCL from PyPI into $1: about 830 MB (CLATTN_INTEL=off leaves it out)"
        python3 -m venv "$folder/python" &&
            "$folder/python/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/intel.txt >/dev/null 2>&1 ||
            return 1
        # Its own OpenCL loader must not stand before the system's.
        mkdir -p "$folder/libraries"
        for library in "$folder"/python/lib/*; do
            case $library in */libOpenCL*) ;; *) [ -f "$library" ] && ln -sf "$library" "$folder/libraries/" ;; esac
        done
        driver=$(find "$folder/python/lib" -maxdepth 1 -name libintelocl.so | head -n 1)
        [ -n "$driver" ] || return 1
        echo "$driver" >"$folder/intel.icd"
    fi
    [ -s "$folder/intel.icd" ]
}

finish() {
    seconds=$(($(date +%s) - begun))
    echo "$((seconds / 60)) min $((seconds % 60)) s in all; the slowest steps:"
    [ -z "$timings" ] || sort -rn "$timings" | head -n 10
    [ -z "$planned" ] || [ -z "$timings" ] || [ -n "${only:-}" ] ||
        { cat "$timings" && printf '%5d s  whole\n' "$seconds"; } >"$steps_before"
    rm -rf ${timings:+"$timings"} ${queue:+"$queue"}
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
