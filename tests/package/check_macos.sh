#!/bin/sh
# macOS without a Mac, as far as possible. Everything that needs no other library is compiled for
# both of its processors with the clang of PyPI's ziglang, without a warning. The OpenCL framework
# is made here: Khronos' headers limited to OpenCL 1.2, every function deprecated as in Apple's
# headers, and a list of the functions of 1.2 instead of a library. The linked library needs only
# the system and the framework. Built the default way, it starts without OpenCL and loads Apple's
# framework by its path.
#
#   check_macos.sh BUILD
set -eu
tools=$PWD/$1/wheel/tools # the tools of check_wheel.sh
mkdir -p "$1/macos"
work=$(cd "$1/macos" && pwd)
wrong() { echo "$1"; exit 1; }
command -v llvm-objdump >/dev/null || { echo "no llvm-objdump"; exit 77; }
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/wheel.txt \
    >"$work/pip.log" 2>&1 || { tail -n 1 "$work/pip.log"; echo "PyPI is not reachable"; exit 77; }
export ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig"

# The framework. CL_SILENCE_DEPRECATION removes the marks, as in Apple's headers.
framework=$work/OpenCL.framework
rm -rf "$framework"
mkdir -p "$framework/Headers"
for header in cl cl_platform cl_version; do
    sed 's,#include <CL/,#include <OpenCL/,; s/^\(#define CL_API_SUFFIX__VERSION_1_[0-2]\) .*/\1 MARKED/' /usr/include/CL/$header.h \
        >"$framework/Headers/$header.h"
done
cat >"$framework/Headers/opencl.h" <<END
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#ifdef CL_SILENCE_DEPRECATION
#define MARKED
#else
#define MARKED __attribute__((deprecated))
#endif
#include <OpenCL/cl.h>
END
functions=$(cc -E -DCL_TARGET_OPENCL_VERSION=120 /usr/include/CL/cl.h | grep -oE '\bcl[A-Z][A-Za-z]*\(' | tr -d '(' | sort -u)
path=/System/Library/Frameworks/OpenCL.framework
cat >"$framework/OpenCL.tbd" <<END
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '$path/Versions/A/OpenCL'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ $(echo "$functions" | sed 's/.*/_&/' | paste -sd, -) ]
...
END

# needs LIBRARY WANTED OPENCL: compare the libraries that LIBRARY is linked with, and the functions
# that it imports from OpenCL.
needs() {
    got=$(llvm-objdump --macho --dylibs-used "$1" | sed -n 's/^\t\([^ ]*\) (.*/\1/p' | grep -v "${1##*/}\$" | sort | paste -sd' ' -)
    [ "$got" = "$2" ] || wrong "${1##*/} needs $got, not $2"
    taken=$(llvm-objdump --macho --bind --lazy-bind "$1" | grep -oE '\b_cl[A-Z][A-Za-z]*$' | sort -u | tr -d _ | paste -sd' ' -)
    [ "$taken" = "$3" ] || wrong "${1##*/} takes of OpenCL: $taken, not $3"
}

called=$(sed -n 's/^OPENCL_CALL(\(.*\))$/\1/p' src/lib/tables/opencl_calls.def | sort | paste -sd' ' -)
system=/usr/lib/libSystem.B.dylib
version=$(sed -n 's/^#define CLATTN_VERSION_STRING "\(.*\)"/\1/p' include/clattn/version.h)
library=libclattn.${version%.*}.dylib
for processor in aarch64 x86_64; do
    cat >"$work/$processor.ini" <<END
[binaries]
c = ['$tools/bin/python', '-m', 'ziglang', 'cc', '-target', '$processor-macos']
ar = ['$tools/bin/python', '-m', 'ziglang', 'ar']
strip = 'true'
[built-in options]
c_args = ['-F$work']
c_link_args = ['-F$work']
[host_machine]
system = 'darwin'
cpu_family = '$processor'
cpu = '$processor'
endian = 'little'
END
    for opencl in load link; do
        folder=$work/$processor-$opencl target=
        [ $opencl = load ] || target=$library
        [ -f "$folder/build.ninja" ] || "$tools/bin/meson" setup "$folder" --cross-file "$work/$processor.ini" --werror -Doptimization=1 \
            -Dopencl=$opencl -Dclblast=disabled -Dmpi=disabled -Dtool=disabled -Dtests=disabled >"$work/setup.log" 2>&1 ||
            { tail -n 20 "$work/setup.log"; wrong "$processor, $opencl: not configured"; }
        # shellcheck disable=SC2086
        ninja -C "$folder" -j1 $target >"$work/build.log" 2>&1 ||
            { grep -E 'error|undefined' "$work/build.log" | head -n 20; wrong "$processor, $opencl: not built"; }
    done
    needs "$work/$processor-load/$library" "$system" ""
    needs "$work/$processor-load/libclattn-onnxruntime.dylib" "$system $library" ""
    needs "$work/$processor-link/$library" "$path/Versions/A/OpenCL $system" "$called"
    grep -q "^LIBRARY = '$library'$" "$work/$processor-load/src/bindings/python/clattn/_abi.py" || wrong "the Python module does not look for $library"
    grep -aq "$path/OpenCL" "$work/$processor-load/$library" || wrong "$processor: it does not look for $path/OpenCL"
done
echo "counted: the library for two processors of macOS, by $(echo "$functions" | wc -l) functions of OpenCL 1.2, of which it calls $(echo "$called" | wc -w)"
