#!/bin/sh
# The examples of tests/examples compile without a warning by their first lines, and run: each
# checks its own result. Examples in Python are in check_python.sh.
#   check_examples.sh BUILD [some]     some: a whole decoder only with weights of float32, bfloat16
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
    # A whole decoder is checked with made-up weights of several types.
    words=tests/data
    case $file in
    */llama.c)
        python3 tests/python/whole_llama.py "$work/llama"
        words="--check $work/llama,--check $work/llama-bf16"
        [ "$some" = some ] || words="$words,--check $work/llama-f16"
        ;;
    esac
    # PoCL 3.1 with one thread for examples with two contexts: src/lib/group/run.c explains why. The
    # decoder of a real model needs a minute with unoptimised kernels (driver.sh).
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
