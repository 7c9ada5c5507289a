# runner.sh: functions of tests/run.sh and bench/run.sh, which install, build and count. Source it
# in the top folder.
passed=0 failed=0 skipped=0
# Check's default of 4 s is too short for a fast test on a busy machine.
export CK_DEFAULT_TIMEOUT=600

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Install the missing Debian packages. Print packages that this release lacks, and skip them.
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

# Debian's numpy needs Debian's Python, and PATH may have another one first.
find_numpy() {
    if ! python3 -c 'import numpy' 2>/dev/null && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
        mkdir -p build/bin
        ln -sf /usr/bin/python3 build/bin/python3
        PATH=$PWD/build/bin:$PATH
        export PATH
    fi
}

# Record a step's duration for the list at the end.   $1 seconds, $2 name
timings= begun=$(date +%s)
took() {
    timings=${timings:-$(mktemp)}
    printf '%5d s  %s\n' "$1" "$2" >>"$timings"
}

# Show progress on a terminal: the next step, the number of steps, and the remaining time by the
# previous run. $planned has the names of all steps, one per line. Without them nothing is shown.
plan_steps() { planned=$(sed -nE "s/^$2(step|later|suite|steps_of) \"([^\"]*)\".*/\2/p" "$1"); }
planned='' steps_before=build/steps.seconds
progress() {
    [ -n "$planned" ] && [ -t 2 ] || return 0
    tell_progress "$1" $(($(date +%s) - begun)) >&2
}
# The last line of $steps_before has the duration of the whole run. The sum of its steps is longer,
# because some run two at a time.   $1 name, $2 seconds so far
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
            else expects = "the first time needs about 30 min in all, " int(elapsed / 60) " are behind it"
            printf "[%d of %d] %s: %s\n", behind + 1, all, now, expects
        }' before="$steps_before" - "$( [ -f "$steps_before" ] && echo "$steps_before" || echo /dev/null)" "${timings:-/dev/null}"
}

# True if a step must run: if $only is set, its name must match.
chosen() { [ -z "${only:-}" ] || printf '%s\n' "$1" | grep -Eq -e "$only"; }

count() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
skip() { echo "SKIP  $1"; skipped=$((skipped + 1)); }

# Report the result of a command. Exit status 77 is a skip.   $1 name, $2 status, $3 seconds, $4 log
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

# Run one command as a check.
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

# Queue a check that uses one core. run_queued runs them two at a time. Arguments have no newline.
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
    # The outer shell survives a killed check. Otherwise xargs would stop.
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

# Run a script that counts its own checks: one line per check, which begins with "ok", "FAIL" or
# "SKIP". No such line is a failure.
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

# Configure and build a folder, with warnings as errors. A folder with other options, such as from
# bench/run.sh, is configured again, because it may have no tests. $build_targets: build only these.
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

# Print the targets that suites need: programs, the layer and the CLBlast module.   $1 a built
# folder, then suites
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

# Run the Check programs of a Meson suite and add up their checks. $1 name, $2 folder, $3 suite, $4
# runtime.
suite() {
    chosen "$1" || return 0
    name=$1 folder=$2 kind=$3 runtime=${4:-}
    progress "$name"
    start=$(date +%s)
    log=$folder/meson-logs/testlog.txt
    wrapped=${log%.txt}-retry_flaky.sh.txt # Meson names the log by what runs the programs
    rm -f "$log" "$wrapped"               # those of another suite
    case $kind in
    layer-only) set -- layer errors_layer linear errors_linear layer_linear_tiles ;;
    # The variants have no host code of their own.
    once) set -- --suite host --suite device --no-suite variants --no-suite kernels ;;
    device)
        set -- --suite device --suite pages
        [ "${CLATTN_THOROUGH:-off}" = on ] || set -- "$@" --no-suite sanitized
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
            meson test -C "$folder" --no-rebuild --num-processes 2 --timeout-multiplier 3 --wrapper "$PWD/tests/retry_flaky.sh" -q "$@" \
                >/dev/null 2>&1
    fi
    status=$?
    [ ! -f "$wrapped" ] || mv "$wrapped" "$log"
    [ -f "$log" ] || { mkdir -p "${log%/*}" && echo "meson test wrote no log" >"$log"; }
    # Check prints "100%: Checks: 17, Failures: 0, Errors: 0" for each program. A program without a
    # check has failed.
    checks=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" |
        awk '{n += $1 + ($1 == 0); bad += $2 + $3 + ($1 == 0)} END {print n + 0, bad + 0}')
    bad=${checks#* } made=${checks% *}
    quiet=$(grep -c 'exit status 77' "$log")
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1 made=$((made + 1)); fi
    if [ "$made" = 0 ]; then bad=1 made=1 && echo "FAIL  $name: no check ran"; fi
    passed=$((passed + made - bad)) failed=$((failed + bad)) skipped=$((skipped + quiet))
    seconds=$(($(date +%s) - start))
    took $seconds "$name"
    if [ "$bad" = 0 ]; then word='ok   '; else word='FAIL '; fi
    # The layer prints "OpenCL objects: ... 812 counted, 0 left, 0 misused" for each program.
    objects=$(sed -n 's/^OpenCL objects: .* \([0-9]*\) counted, .*$/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
    if [ "$objects" != 0 ]; then objects=", $objects OpenCL objects counted"; else objects=; fi
    echo "$word $name: $made checks, $bad failed$objects ($seconds s)"
    sed -n 's/^\([0-9]* faults injected.*\)$/      \1/p' "$log"
    [ "$bad" = 0 ] || why_failed "$log" | cut -c1-300 | head -n 60
}

# Print messages of checks and sanitizers from Meson's log. For a program that crashed, print its
# last lines.   $1 log
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

# Install Intel's CPU runtime for OpenCL from PyPI, into a folder of its own. False if it is not
# wanted or unavailable.
intel_runtime() {
    folder=$PWD/$1
    [ "${CLATTN_INTEL:-on}" = off ] && return 1
    if [ ! -f "$folder/intel.icd" ]; then
        echo "installing Intel's CPU runtime for OpenCL from PyPI into $1: about 830 MB (CLATTN_INTEL=off leaves it out)"
        python3 -m venv "$folder/python" &&
            "$folder/python/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/intel.txt >/dev/null 2>&1 ||
            return 1
        # The package's OpenCL loader must not replace the system's.
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
