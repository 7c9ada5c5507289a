#!/bin/sh
# The static library cross-compiles for Windows with mingw-w64. Nothing is run: Windows has its own OpenCL.dll.
set -eu
command -v x86_64-w64-mingw32-gcc >/dev/null || { echo "no mingw-w64"; exit 77; }
work=build/windows
mkdir -p "$work"
python3 cl/embed.py "$work/kernels.c" "$work/kernel_list.h" cl/*.cl
rm -f "$work"/*.o "$work/libclattn.a"
headers=$work/headers
mkdir -p "$headers" && rm -rf "$headers/CL" && cp -r /usr/include/CL "$headers/"
for file in "$work/kernels.c" src/*.c src/core/*.c src/plan/*.c src/attention/*.c src/layer/*.c; do
    case $file in */os_posix.c) continue ;; esac
    x86_64-w64-mingw32-gcc -std=c11 -O2 -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=120 -DCLATTN_BUILDING -Iinclude -Isrc -Icl -I"$work" \
        -isystem "$headers" -c "$file" -o "$work/$(basename "$file" .c)_$(basename "$(dirname "$file")").o"
done
x86_64-w64-mingw32-ar rcs "$work/libclattn.a" "$work"/*.o
x86_64-w64-mingw32-nm "$work/libclattn.a" 2>/dev/null | grep -q 'T clattn_attention_enqueue'
