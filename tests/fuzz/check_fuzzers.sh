#!/bin/sh
# The fuzzers (fuzz_*.c) with libFuzzer, AddressSanitizer and UBSan, two at a time: the program's
# readers and its command line, the cache's entries, and the API on an OpenCL device.
#
#   sh tests/fuzz/check_fuzzers.sh [SECONDS] [TARGET...]     default: 20 seconds each, all targets
#
# A fuzzer first runs its seeds, tests/fuzz/seeds/TARGET. A seed whose name begins with "good" must
# be accepted. Then it runs for SECONDS. One line for each fuzzer has the executions, the accepted
# inputs, and the share of lines under test that were reached, which must exceed a floor. An input
# that ends a fuzzer is kept in build/fuzz/TARGET, and its name is printed. Runs of up to a minute
# always start with the same random seed, so that results are comparable. Longer runs do not.
set -u
top=$(pwd)
. tests/driver.sh
[ -n "${OCL_ICD_VENDORS:-}" ] || choose_driver || { echo "no driver: install pocl-opencl-icd or give CLATTN_DRIVERS"; exit 77; }
work=$top/build/fuzz
seconds=${1:-20}
[ $# -gt 0 ] && shift
clang=$(command -v clang || command -v clang-14) || { echo "no clang"; exit 77; }
profdata=$($clang -print-prog-name=llvm-profdata) cov=$($clang -print-prog-name=llvm-cov)
sanitize=address,undefined,float-cast-overflow

# For each target: the files that count for its floor, the floor in percent of the lines, and the
# longest input.
target_of() {
    case $1 in
    npy) floor=90 length=600 files="src/cli/files/npy.c" ;;
    safetensors) floor=92 length=1500 files="src/cli/files/safetensors.c" ;;
    tuned) floor=80 length=1000 files="src/lib/plan/rows/tuned.c src/lib/plan/families/families.c src/lib/plan/variant.c" ;;
    compare) floor=93 length=2000 files="src/cli/compare/compare.c src/cli/compare/compare_ratio.c src/cli/compare/compare_rows.c" ;;
    tokens) floor=95 length=500 files="src/cli/heatmap/label.c" ;;
    options) floor=80 length=700 files="src/cli/common/options.c src/cli/call_options/score_options.c src/cli/bench/bench_cases.c src/verification/case/case_name.c" ;;
    heatmap) floor=88 length=400 files="src/cli/heatmap/heatmap.c src/cli/heatmap/picture.c src/cli/heatmap/picture_files.c src/cli/heatmap/picture_terminal.c" ;;
    mods) floor=88 length=400 files="src/lib/attention/mods/mods_text.c src/lib/attention/mods/mod_parse.c src/lib/attention/mods/mod_types.c src/lib/attention/mods/mod_token.c src/lib/attention/mods/mod_words.c src/lib/attention/mods/mod_vector.c src/lib/attention/mods/mod_scalar.c src/lib/attention/mods/mod_form.c src/lib/attention/mods/mod_derive.c src/lib/attention/mods/mod_rules.c" ;;
    cache) floor=86 length=1000 files="src/lib/base/cache.c src/lib/base/sha256.c" ;;
    api) floor=68 length=100 files="src/lib/attention/call/attention.c src/lib/attention/backward/backward.c src/lib/attention/call/call.c src/lib/attention/call/tensor.c src/lib/attention/score/score.c src/lib/attention/kv/kv.c src/lib/attention/rope/rope.c src/lib/attention/run/merge.c src/lib/layer/block/layer.c src/lib/layer/block/layer_check.c src/lib/layer/projection/linear.c src/lib/layer/projection/linear_call.c src/lib/attention/kv/append.c src/lib/attention/score/block_mask.c src/lib/attention/score/dropout.c src/lib/attention/kv/kv_append.c src/lib/attention/mods/mods.c src/lib/attention/mods/mods_text.c src/lib/attention/kv/ragged.c src/lib/attention/rope/rope_call.c src/lib/layer/block/layer_kv.c src/lib/layer/backward/layer_backward.c src/lib/layer/backward/layer_backward_plan.c src/lib/layer/backward/heads_backward.c src/lib/layer/projection/linear_backward.c" ;;
    *) echo "no fuzzer $1: $all"; exit 2 ;;
    esac
}
all="api options compare heatmap mods cache tuned npy safetensors tokens" # the slowest start first

# Build the library, src/verification and the program with instrumentation, as one archive, and then
# the fuzzers.
build() {
    mkdir -p "$work/objects"
    python3 cl/embed.py "$work/kernels.c" "$work/kernel_list.h" "$work/kernels.d" cl/*/*.cl || return 1
    flags="-std=c11 -Wall -Werror -g -O1 -MMD -MP -D_POSIX_C_SOURCE=200809L -DCL_TARGET_OPENCL_VERSION=120 -DCL_USE_DEPRECATED_OPENCL_1_2_APIS"
    flags="$flags -Iinclude -Isrc -Isrc/lib -Icl -Itests -I$work -fno-omit-frame-pointer -fprofile-instr-generate -fcoverage-mapping"
    libraries="-ljansson -lOpenCL -lm -lpthread -ldl" wraps=
    if echo '#include <png.h>' | $clang -E - >/dev/null 2>&1; then flags="$flags -DCLATTN_HAVE_PNG" libraries="$libraries -lpng"; fi
    if fonts=$(pkg-config --cflags freetype2 fontconfig 2>/dev/null); then
        flags="$flags -DCLATTN_HAVE_FONTS $fonts" libraries="$libraries $(pkg-config --libs freetype2 fontconfig)"
    fi
    for name in session_open session_open_rows session_devices file_write_parts file_write_whole; do
        wraps="$wraps -Wl,--wrap=$name"
    done
    objects='' rules=$work/rules
    : >"$rules"
    # Compile the kernels first. They are megabytes of numbers, which keep one core busy while
    # another compiles the rest.
    for source in "$work/kernels.c" $(find src -name '*.c') tests/fuzz/fuzz.c tests/fuzz/fuzz_tool.c tests/fuzz/fuzz_device.c \
        tests/fuzz/fuzz_values.c tests/fuzz/fuzz_call*.c; do
        case $source in
        *_windows.c | src/bindings/* | src/packaging/* | *ranks_mpi.c | *ranks_bench.c) continue ;;
        src/cli/common/main.c) more='-Dmain=clattn_main -Dfclose=fflush' ;;
        *) more= ;;
        esac
        object=$work/objects/$(echo "${source#"$work"/}" | tr / _ | sed 's/c$/o/')
        objects="$objects $object"
        printf '%s: %s\n\t$(CC) $(FLAGS) -fsanitize=fuzzer-no-link,%s %s -c -o $@ %s\n' "$object" "$source" "$sanitize" "$more" "$source" \
            >>"$rules"
    done
    for target in $targets; do
        # shellcheck disable=SC2086
        printf '%s/fuzz_%s: tests/fuzz/fuzz_%s.c tests/fuzz/fuzz_main.c tests/fuzz/fuzz.h %s/library.a\n\t$(CC) $(FLAGS) -MF %s/objects/fuzz_%s.d -fsanitize=fuzzer,%s -o $@ tests/fuzz/fuzz_%s.c tests/fuzz/fuzz_main.c %s/library.a %s %s\n' \
            "$work" $target $target "$work" "$work" $target "$sanitize" $target "$work" "$wraps" "$libraries" >>"$rules"
    done
    {
        echo "CC = $clang"
        echo "FLAGS = $flags -fno-sanitize-recover=all"
        echo "all:$(for target in $targets; do printf ' %s/fuzz_%s' "$work" "$target"; done)"
        printf '%s/library.a:%s\n\trm -f $@; ar rcs $@ $^\n' "$work" "$objects"
        cat "$rules"
        echo "-include $work/objects/*.d"
    } >"$work/Makefile"
    make -s -j2 -f "$work/Makefile" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; return 1; }
}

# Prints "N M" for a run: the executions, and the accepted inputs. "0 0" if the run did not end
# normally.
counts_of() { cat "$1" 2>/dev/null || echo "0 0"; }

# coverage_of TARGET: the percentage of lines that the target's runs reached.
coverage_of() {
    "$profdata" merge -o "$work/$1/all.profdata" "$work/$1"/*.profraw || return 1
    # shellcheck disable=SC2086
    "$cov" export -summary-only -instr-profile "$work/$1/all.profdata" "$work/fuzz_$1" $files |
        python3 -c 'import json, sys; print(int(json.load(sys.stdin)["data"][0]["totals"]["lines"]["percent"]))'
}

fail() { echo "FAIL  fuzzer $1"; exit 1; }

# tell_crash TARGET LOG: print what ended a run: the stored input, and the place in the code.
tell_crash() {
    found=$(find "$work/$1" -maxdepth 1 \( -name 'crash-*' -o -name 'leak-*' -o -name 'timeout-*' -o -name 'oom-*' \) | head -n 1)
    grep -E 'ERROR|runtime error|SUMMARY|^ +#[0-9] ' "$2" | cut -c1-200 | head -n 20
    fail "$1: stopped on ${found:-an input that was not kept}; its log is $2"
}

# fuzz LOG COMMAND...: one run. If the leak checker itself failed without a finding
# (retry_flaky.sh), run it again.
fuzz() {
    said=$1
    shift
    "$@" >"$said" 2>&1 && return 0
    grep -q 'LeakSanitizer has encountered a fatal error' "$said" || return 1
    grep -Eq 'ERROR: (Address|Leak|libFuzzer)|runtime error|deadly signal' "$said" && return 1
    rm -f "$place"/crash-* && "$@" >"$said" 2>&1
}

# run TARGET: run one target, in a folder in memory if possible.
run() {
    target_of "$1"
    place=$work/$1 seeds=$top/tests/fuzz/seeds/$1
    rm -rf "$place"
    mkdir -p "$place/corpus"
    FUZZ_FOLDER=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")" clattn-fuzz-XXXXXX)
    trap 'rm -rf "$FUZZ_FOLDER"' EXIT
    cp "$top"/tests/fuzz/seeds/files/* "$FUZZ_FOLDER"
    FUZZ_COUNTS=$place/counts FUZZ_CACHE=${FUZZ_CACHE:-$work/kernels}
    export FUZZ_FOLDER FUZZ_COUNTS FUZZ_CACHE
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    UBSAN_OPTIONS=print_stacktrace=1
    LSAN_OPTIONS="suppressions=$top/tests/support/leaks.supp:print_suppressions=0"
    export ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
    set -- "$1" -close_fd_mask=3 -timeout=120 -rss_limit_mb=3000 -use_value_profile=1 -max_len="$length" -artifact_prefix="$place/"
    [ -f "$top/tests/fuzz/seeds/$1.dict" ] && set -- "$@" -dict="$top/tests/fuzz/seeds/$1.dict"
    [ "$1" = mods ] && grep -ohE '"[A-Za-z_0-9]+"' "$top"/src/lib/attention/mods/mod_words.c >"$place/dictionary" &&
        set -- "$@" -dict="$place/dictionary"
    [ "$1" = options ] && make_dictionary >"$place/dictionary" && set -- "$@" -dict="$place/dictionary"
    # For the API: leaks are checked at the end, because drivers keep memory after each run. Calls
    # need long inputs from the start. The order is fixed, so that the seeds' kernels are the same
    # in both runs.
    [ "$1" = api ] && set -- "$@" -detect_leaks=0 -len_control=0 -shuffle=0
    [ "$seconds" -le 60 ] && set -- "$@" -seed=1
    # A long run may compile more kernels.
    [ "$seconds" -ge 120 ] && FUZZ_KERNELS=${FUZZ_KERNELS:-60}
    FUZZ_KERNELS=${FUZZ_KERNELS:-12}
    export FUZZ_KERNELS
    target=$1
    shift
    LLVM_PROFILE_FILE=$place/seeds.profraw fuzz "$place/seeds.log" "$work/fuzz_$target" "$@" -runs=0 "$seeds" ||
        tell_crash "$target" "$place/seeds.log"
    good=$(find "$seeds" -name 'good*' | wc -l)
    read -r _ taken <<COUNTS
$(counts_of "$place/counts")
COUNTS
    { [ "$good" -gt 0 ] && [ "$taken" -ge "$good" ]; } || fail "$target: accepts $taken of the $good seeds that are good"
    rm -f "$place/counts"
    LLVM_PROFILE_FILE=$place/run.profraw fuzz "$place/run.log" "$work/fuzz_$target" "$@" -max_total_time="$seconds" "$place/corpus" \
        "$seeds" ||
        tell_crash "$target" "$place/run.log"
    read -r executions taken <<COUNTS
$(counts_of "$place/counts")
COUNTS
    lines=$(coverage_of "$target") || fail "$target: its coverage is not to be had"
    said="$target: $executions executions, $taken accepted, $lines % of the lines (floor $floor %)"
    { [ "$taken" -gt "$good" ] && [ "$lines" -ge "$floor" ]; } || fail "$said"
    echo "ok    fuzzer $said"
}

# The program's own words as a dictionary.
make_dictionary() {
    grep -ohE '\{"-?[a-z-]+", ' -r "$top"/src/cli | sed -E 's/\{"(-?)([a-z-]+)", /"--\2"/' | sort -u
    grep -ohE '"[a-z0-9-]{2,}"' "$top"/src/verification/words/words.c "$top"/src/cli/bench/bench_cases.c \
        "$top"/src/verification/case/case_fields.[ch] | sort -u
    printf '"%s"\n' '\x0a' '=' '..' '*2' '+1' ',' '-1' '2147483648' '9223372036854775808' '1e-300' 'nan' 'q.npy' 'm.safetensors#wq' 'n.npy'
}

if [ "${1:-}" = --one ]; then
    # Two fuzzers run at a time, and their number is odd, so in a short run the slowest gets the
    # remaining time.
    [ "$2" = api ] && [ "$seconds" -le 60 ] && seconds=$((2 * seconds))
    run "$2"
    exit
fi
targets=${*:-$all}
for target in $targets; do target_of "$target"; done
mkdir -p "$work"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; return n > 1 << 30; }' >"$work/probe.c"
"$clang" -fsanitize=fuzzer,address -fprofile-instr-generate "$work/probe.c" -o "$work/probe" 2>/dev/null ||
    { echo "clang has no libFuzzer here"; exit 77; }
command -v "$profdata" >/dev/null && command -v "$cov" >/dev/null || { echo "no llvm-profdata and llvm-cov for $clang"; exit 77; }
build || { echo "the fuzzers were not built"; exit 1; }
echo "$targets" | tr ' ' '\n' | xargs -P 2 -I '{}' sh "$0" "$seconds" --one '{}'
