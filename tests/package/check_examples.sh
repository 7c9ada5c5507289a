#!/bin/sh
# The examples of tests/examples compile without a warning, as their first lines say, and run. Each
# compares its own result. The Python examples are run by check_python.sh.
#
#   check_examples.sh BUILD [some]     some: the whole decoder only with float32 weights
set -eu
build=$(cd "$1" && pwd) some=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_LIBRARY_PATH=$build
export LD_LIBRARY_PATH
count=0
for file in tests/examples/*.c tests/examples/*.cpp; do
    grep -q 'pkg-config --cflags --libs clattn OpenCL' "$file" || { echo "$file does not say how it is built"; exit 1; }
    case $file in *.cpp) compiler='c++ -std=c++17' ;; *) compiler='cc -std=c11' ;; esac
    $compiler -Wall -Wextra -Wpedantic -Werror -Iinclude "$file" -o "$work/example" -L"$build" -lclattn -lOpenCL -lm -lpthread
    status=0
    # The whole decoder runs with synthetic weights of several types.
    words=tests/data
    case $file in
    */llama.c)
        python3 tests/python/whole_llama.py "$work/llama"
        words="--check $work/llama"
        [ "$some" = some ] || words="$words,--check $work/llama-bf16,--check $work/llama-f16"
        ;;
    esac
    # PoCL 3.1 needs a single thread if two contexts run at once (see src/lib/group/run.c). The
    # decoder with real weights would compute for a minute with unoptimised kernels (driver.sh).
    case $file in
    */group.c) set -- POCL_MAX_PTHREAD_COUNT=1 ;;
    */decoder.c) set -- -u POCL_EXTRA_BUILD_FLAGS ;;
    *) set -- ;;
    esac
    while [ -n "$words" ]; do
        # shellcheck disable=SC2086
        env "$@" "$work/example" ${words%%,*} >"$work/out" 2>&1 || status=$?
        [ $status = 77 ] && { echo "no OpenCL device"; exit 77; }
        [ $status = 0 ] || { cat "$work/out"; echo "$file: exit status $status"; exit 1; }
        grep -q 'largest difference' "$work/out" || { echo "$file says nothing"; exit 1; }
        cat "$work/out"
        case $words in *,*) words=${words#*,} ;; *) words= ;; esac
    done
    count=$((count + 1))
done
[ $count = "$(find tests/examples -type f ! -name '*.py' ! -name '*.pyc' | wc -l)" ] ||
    { echo "a file of tests/examples is no example"; exit 1; }
