#!/bin/sh
# The file readers under libFuzzer and AddressSanitizer, 20 seconds each; seeds are the real files' first bytes.
set -eu
clang=$(command -v clang || command -v clang-14) || { echo "no clang"; exit 77; }
work=build/fuzz
mkdir -p "$work/npy" "$work/safetensors"
sources="src/tool/array.c src/tool/file.c src/tool/load.c src/tool/nearest.c src/tool/npy.c src/tool/npy_header.c src/tool/refuse.c
    src/tool/safetensors.c src/tool/safetensors_index.c"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' >"$work/probe.c"
"$clang" -fsanitize=fuzzer,address "$work/probe.c" -o "$work/probe" 2>/dev/null || { echo "clang has no libFuzzer here"; exit 77; }
for file in tests/data/*.npy; do head -c 600 "$file" >"$work/npy/$(basename "$file")"; done
for file in tests/data/*.safetensors; do head -c 2000 "$file" >"$work/safetensors/$(basename "$file")"; done
for target in npy safetensors; do
    # shellcheck disable=SC2086
    "$clang" -std=c11 -g -O1 -D_POSIX_C_SOURCE=200809L -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Iinclude -Isrc \
        tests/fuzz_$target.c $sources -o "$work/fuzz_$target" -ljansson -lm
    "$work/fuzz_$target" -max_total_time=20 -max_len=4096 -artifact_prefix="$work/" "$work/$target" 2>&1 | tail -n 3
done
