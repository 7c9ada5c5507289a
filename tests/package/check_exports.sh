#!/bin/sh
# The shared library exports only clattn_*, and has a soname.
#
#   check_exports.sh BUILD
set -eu
library=$1/libclattn.so
others=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^clattn_' || true)
[ -z "$others" ] || { echo "exported without the prefix: $others"; exit 1; }
[ "$(nm -D --defined-only "$library" | grep -c ' clattn_')" -ge 20 ] || { echo "too few exported functions"; exit 1; }
version=$(sed -n 's/^#define CLATTN_VERSION_STRING "\(.*\)"/\1/p' include/clattn/version.h)
objdump -p "$library" | grep -q "SONAME *libclattn.so.${version%.*}\$" || { echo "the soname is not that of version $version"; exit 1; }
[ "$(nm -g --defined-only "$1/libclattn.a" 2>/dev/null | grep -c ' T clattn_')" -ge 20 ] ||
    { echo "too few functions in the static library"; exit 1; }
others=$(nm -g --defined-only "$1/libclattn.a" 2>/dev/null | awk 'NF == 3 {print $3}' |
    grep -vE '^(clattn_|cla_|__(asan|odr_asan|ubsan))' || true)
[ -z "$others" ] || { echo "global in the static library without the prefix: $others"; exit 1; }
# Functions that the library promises never to use: those that end the process, print, read the
# environment, or keep global state.
banned='abort|exit|_exit|_Exit|quick_exit|raise|kill|__assert_fail|system|(secure_)?getenv|setenv|putenv|environ|__environ|stdout|stderr|(v|vf|vd|f|d)?printf|__(v|vf|vd|f|d)?printf_chk|f?puts|f?putc|putchar|perror|psignal|syslog|fwrite|fopen(64)?'
found=$(nm -D --undefined-only "$library" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$banned" || true)
[ -z "$found" ] || { echo "the library calls: $found"; exit 1; }
state=$(objdump -t "$1/libclattn.a" | awk '/ O / {hidden = $(NF - 1) == ".hidden"; print $(NF - 2 - hidden), $NF}' |
    grep -E '^\.t?(data|bss)' | grep -vE '^\.data\.rel\.ro' || true)
[ "$(echo "$state" | sort | tr '\n' ' ')" = '.bss cla_opencl .bss found_in .bss state ' ] || { echo "state that changes: $state"; exit 1; }
# Only base/host.c calls the C library's functions for host memory (clattn_host_memory).
takes=$(nm -A --undefined-only "$1/libclattn.a" 2>/dev/null | sed -n 's/^[^:]*:\([^:]*\):.* U \(.*\)$/\1 \2/p' |
    grep -E ' (malloc|calloc|realloc|reallocarray|free|strn?dup|__strn?dup|aligned_alloc|posix_memalign|v?asprintf|__v?asprintf_chk|getline|getdelim|open_memstream)$' || true)
[ -z "$(echo "$takes" | grep -v 'base_host.c.o ' || true)" ] || { echo "host memory that is not asked of base/host.c: $takes"; exit 1; }
[ "$(echo "$takes" | grep -c 'base_host.c.o ')" = 2 ] || { echo "base/host.c should call malloc and free: $takes"; exit 1; }
# CLBlast's module exports only its table of functions.
module=$(ls "$1"/libclattn-clblast-*.so)
shown=$(nm -D --defined-only "$module" | awk '{print $3}')
[ "$shown" = clattn_clblast_calls ] || { echo "the module exports: $shown"; exit 1; }
# The library that ONNX Runtime loads exports the three functions that ONNX Runtime calls, and keeps
# the library's promises.
operators=$1/libclattn-onnxruntime.so
shown=$(nm -D --defined-only "$operators" | awk '{print $3}' | tr '\n' ' ')
[ "$shown" = 'CreateEpFactories RegisterCustomOps ReleaseEpFactory ' ] || { echo "the library for ONNX Runtime exports: $shown"; exit 1; }
found=$(nm -D --undefined-only "$operators" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$banned" || true)
[ -z "$found" ] || { echo "the library for ONNX Runtime calls: $found"; exit 1; }
# Hardening by compiler and linker (meson.build). Relocations are bound at start and then read-only,
# and no stack is executable. Functions with arrays have stack guards, and copies check the size of
# their target.
sanitized=$(grep -c -e '-fsanitize' "$1/compile_commands.json" || true)
for file in "$library" "$1/clattn" "$module" "$operators"; do
    readelf -dW "$file" | grep -q 'BIND_NOW' || { echo "$file: not bound before it runs"; exit 1; }
    readelf -lW "$file" | grep -q 'GNU_RELRO' || { echo "$file: no part of it becomes read-only"; exit 1; }
    readelf -lW "$file" | grep 'GNU_STACK' | grep -q 'RW ' || { echo "$file: an executable stack"; exit 1; }
    [ "$file" = "$module" ] || nm -D --undefined-only "$file" | grep -q '__stack_chk_fail' || { echo "$file: no stack is guarded"; exit 1; }
    [ "$file" = "$module" ] || [ "$sanitized" != 0 ] || nm -D --undefined-only "$file" | grep -q '_chk@' ||
        { echo "$file: no copy is checked"; exit 1; }
done
if [ "$(uname -m)" = x86_64 ]; then
    [ "$(readelf -nW "$1/libclattn.a" 2>/dev/null | grep -c IBT)" -ge 20 ] || { echo "indirect branches may go anywhere"; exit 1; }
fi
readelf -hW "$1/clattn" | grep -q 'DYN' || { echo "clattn: lies at a fixed address"; exit 1; }
# Every function has a test.
for function in $(nm -D --defined-only "$library" | awk '{print $3}'); do
    grep -rq "$function(" tests --include="test_*.c" || { echo "no test calls $function"; exit 1; }
done
