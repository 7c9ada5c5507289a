#!/bin/sh
# Windows: the library built with mingw-w64, whose DLL exports only clattn_* and imports no OpenCL.
# The headers follow MSVC's rules, as C and as C++. The program and the host suites are built if the
# sources of Check and jansson are available (windows_libraries.sh). If Wine is installed, whose
# OpenCL is the host's, everything also runs, with a consumer, cases and device suites. ONNX
# Runtime's library is built and run too, in PyPI's onnxruntime.dll, and so is ggml's backend, if
# check_ggml.sh has fetched ggml into build/ggml (CLATTN_GGML: as in check_ggml.sh).
set -eu
command -v x86_64-w64-mingw32-gcc >/dev/null || { echo "no mingw-w64"; exit 77; }
work=$PWD/build/windows
mkdir -p "$work/headers"
[ -d "$work/headers/CL" ] || cp -r /usr/include/CL "$work/headers/"
cat >"$work/cross.ini" <<END
[binaries]
c = 'x86_64-w64-mingw32-gcc'
ar = 'x86_64-w64-mingw32-ar'
[built-in options]
c_args = ['-isystem', '$work/headers']
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
END
folder=$work/meson
[ -f "$folder/build.ninja" ] || meson setup "$folder" --cross-file "$work/cross.ini" --werror -Ddefault_library=both -Dclblast=disabled \
    -Dmpi=disabled -Dtool=disabled -Dtests=disabled -Dpng=disabled >"$work/setup.log" || { cat "$work/setup.log"; exit 1; }
version=$(sed -n 's/^#define CLATTN_VERSION_STRING "\(.*\)"/\1/p' include/clattn/version.h)
dll=$folder/libclattn-${version%.*}.dll
ninja -C "$folder" "${dll##*/}" libclattn.a libverification.a libclattn-onnxruntime.dll >"$work/build.log" || { tail -n 40 "$work/build.log"; exit 1; }
# exports_and_needs DLL FUNCTIONS DLLS: the DLL exports exactly these functions, and needs only the
# system and these DLLs.
exports_and_needs() {
    exported=$(x86_64-w64-mingw32-objdump -p "$1" |
        sed -n 's/^\t\[ *[0-9]*\] .* \([A-Za-z_][A-Za-z_0-9]*\)$/\1/p; s/^\t\[ *[0-9]*\] \([A-Za-z_][A-Za-z_0-9]*\)$/\1/p' |
        grep -v '^RVA$' | sort -u)
    [ "$exported" = "$2" ] ||
        { echo "${1##*/}: exported or wanted alone: $(printf '%s\n%s\n' "$exported" "$2" | sort | uniq -u | tr '\n' ' ')"; exit 1; }
    imported=$(x86_64-w64-mingw32-objdump -p "$1" | sed -n 's/.*DLL Name: //p' |
        grep -ivE '^(kernel32|msvcrt).dll$' | sort | paste -sd' ' - || true)
    [ "$imported" = "$3" ] || { echo "${1##*/} needs $imported, not $3"; exit 1; }
}
# Functions of clattn-mpi are in no DLL.
wanted=$(find include/clattn -name '*.h' ! -name mpi.h -exec cat {} + | grep -oE '^CLATTN_API [^;(]*\(' |
    sed 's/.*\(clattn_[a-z_]*\)($/\1/' | sort -u)
[ "$(echo "$wanted" | wc -l)" -ge 40 ] || { echo "found too few functions in the headers"; exit 1; }
exports_and_needs "$dll" "$wanted" ""
exports_and_needs "$folder/libclattn-onnxruntime.dll" "$(printf '%s\n' CreateEpFactories RegisterCustomOps ReleaseEpFactory)" "${dll##*/}"
[ "$(x86_64-w64-mingw32-nm "$folder/libclattn.a" 2>/dev/null | grep -c ' T clattn_')" -ge 40 ] ||
    { echo "too few functions in the static library"; exit 1; }

clang=$(command -v clang || command -v clang-14 || true)
printf '#include <clattn/clattn.h>\nint main(void) { return clattn_version_number() != CLATTN_VERSION_NUMBER; }\n' >"$work/header.c"
for language in c c++; do
    for shared in '' -DCLATTN_SHARED; do
        # shellcheck disable=SC2086
        [ -z "$clang" ] ||
            "$clang" --target=x86_64-pc-windows-msvc -x $language -ffreestanding -fsyntax-only -Wall -Wextra -Werror $shared \
            -Iinclude -isystem "$work/headers" "$work/header.c"
    done
done

cc="x86_64-w64-mingw32-gcc -std=c11 -O2 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Isrc/lib -Isrc/bindings -isystem $work/headers -DCLATTN_SHARED"
$cc tests/runtime/test_consumer.c -o "$folder/consumer.exe" -L"$folder" -lclattn
$cc tests/package/windows_cases.c -o "$folder/windows_cases.exe" "$folder/libverification.a" -L"$folder" -lclattn -lm -lpthread -static-libgcc

# ggml and clattn's backend for it. Debian's Windows headers lack declarations that ggml needs from
# Windows 8 and later.
ggml=${CLATTN_GGML:-$PWD/build/ggml/sources/vendor/llama.cpp/ggml} host=$work/ggml
if [ -d "$ggml/src" ] && command -v x86_64-w64-mingw32-g++-posix >/dev/null && command -v cmake >/dev/null; then
    mkdir -p "$host"
    cat >"$host/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(host C CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "$host")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "$host")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "$host")
add_subdirectory("$ggml" ggml)
END
    link='-static -Wl,--exclude-libs,ALL' # hide all symbols except ggml's
    cmake -S "$host" -B "$host/made" -G Ninja -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=x86_64 -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix -DBUILD_SHARED_LIBS=ON \
        -DCMAKE_C_FLAGS=-D_WIN32_WINNT=0x0601 -DCMAKE_CXX_FLAGS=-D_WIN32_WINNT=0x0601 "-DCMAKE_SHARED_LINKER_FLAGS=$link" \
        "-DCMAKE_MODULE_LINKER_FLAGS=$link" -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF >"$work/setup.log" &&
        ninja -C "$host/made" -j1 ggml ggml-cpu >"$work/build.log" || { tail -n 20 "$work/build.log"; echo "ggml is not built"; exit 1; }
    [ -f "$host/clattn/build.ninja" ] || meson setup "$host/clattn" --cross-file "$work/cross.ini" --werror -Dclblast=disabled -Dmpi=disabled \
        -Dtool=disabled -Dtests=disabled -Dpng=disabled -Dggml="$ggml,$host" >"$work/setup.log" || { cat "$work/setup.log"; exit 1; }
    ninja -C "$host/clattn" src/bindings/ggml/ggml-clattn.dll >"$work/build.log" || { tail -n 40 "$work/build.log"; exit 1; }
    cp "$host/clattn/src/bindings/ggml/ggml-clattn.dll" "$host/clattn/${dll##*/}" "$host"
    exports_and_needs "$host/ggml-clattn.dll" ggml_backend_init "ggml-base.dll ${dll##*/}"
    $cc -Wno-missing-field-initializers -isystem "$ggml/include" tests/package/ggml_host.c -o "$host/ggml_host.exe" \
        "$host/libggml.dll.a" "$host/libggml-base.dll.a" -lm -lpthread -static
else
    host=
    echo "no ggml, or no g++ of mingw-w64: ggml's backend is not built"
fi
$cc -O1 tests/onnx/windows_session.c -o "$folder/windows_session.exe"
# Program and suites are linked with the static library, because suites use its internals.
suites=$work/suites
programs='covering names numbers overlap philox plan plan_cascade plan_groups plan_linear plan_matrix plan_rows plan_tiles plan_widths reference'
of_device='examples errors' # with Wine
command -v wine >/dev/null || of_device=
if sh tests/package/windows_libraries.sh "$work/libraries" >"$work/libraries.log" 2>&1; then
    sed "s|^c_args.*|&\nc_link_args = ['-static']|; s|^\[host_machine|[properties]\npkg_config_libdir = '$work/libraries/lib/pkgconfig'\n&|; s|^ar = .*|&\npkgconfig = 'pkg-config'|" \
        "$work/cross.ini" >"$work/suites.ini"
    [ -f "$suites/build.ninja" ] ||
        meson setup "$suites" --cross-file "$work/suites.ini" --werror -Ddefault_library=static -Dclblast=disabled \
        -Dtool=enabled -Dtests=enabled -Dpng=disabled -Doptimization=0 >"$work/setup.log" || { cat "$work/setup.log"; exit 1; }
    # shellcheck disable=SC2046
    ninja -C "$suites" clattn.exe $(printf 'tests/test_%s.exe ' $programs $of_device) >"$work/build.log" ||
        { tail -n 40 "$work/build.log"; exit 1; }
else
    tail -n 1 "$work/libraries.log"
    suites=
fi
command -v wine >/dev/null || { echo "built; no Wine to run it in"; exit 0; }
export WINEPREFIX="$work/wine" WINEDEBUG=-all
mkdir -p "$WINEPREFIX"
# Use separate kernel caches, not those that other steps fill meanwhile. One wineserver stays alive
# between programs.
[ -z "${POCL_CACHE_DIR:-}" ] || { export POCL_CACHE_DIR="$work/kernels" && mkdir -p "$POCL_CACHE_DIR"; }
wineserver=$(command -v wineserver || ls /usr/lib/wine/wineserver* 2>/dev/null | head -n 1)
[ -z "$wineserver" ] || { "$wineserver" -p && trap '"$wineserver" -k' EXIT; }
# run FOLDER PROGRAM ARGUMENT...: run a program under Wine. Its output is in $work/out and
# $work/err.
run() {
    (cd "$1" && shift && timeout 600 wine "$@") >"$work/out" 2>"$work/err"
}
# Like `run`, for a program that computes. About once in hundreds of runs, such a process ended for
# an unknown reason before it wrote any output. Such a run is repeated, with a message. A suite
# that printed a result is never repeated.
compute() {
    run "$@" && return 0 || status=$?
    [ -s "$work/out" ] || [ $status = 124 ] && return $status
    tail -n 30 "$work/err"
    echo "counted: $2 under Wine ended with $status before it said anything, and was run again: $(grep -E -m 1 '^wine: |failed' "$work/err" || echo 'no cause told')"
    run "$@"
}
# refuse WHAT: print the output of a failed program, and exit.
refuse() {
    cat "$work/out"
    tail -n 20 "$work/err"
    echo "under Wine: $1"
    exit 1
}
# run_suites LEAST KIND NAME...: run suites and count their checks, at least LEAST in all.
run_suites() {
    least=$1 kind=$2 checks=0
    shift 2
    for each in "$@"; do
        compute "$suites/tests" "./test_$each.exe" || refuse "suite $each: status $?"
        n=$(sed -n 's/^100%: Checks: \([0-9]*\),.*/\1/p' "$work/out")
        # A process that Wine's debugger ended may return 0.
        [ "${n:-0}" -gt 0 ] || refuse "suite $each: no account of its checks"
        checks=$((checks + n))
    done
    [ "$checks" -ge "$least" ] || { echo "only $checks checks of $kind suites ran under Wine"; exit 1; }
    echo "$checks checks of $kind suites under Wine"
}
# Without a device: arguments, texts, files.
if [ -n "$suites" ]; then
    # shellcheck disable=SC2086
    run_suites 80 host $programs
    run "$suites" ./clattn.exe heatmap --mask-mod 'j <= i' --n 9 --out mask.svg && grep -q '</svg>' "$suites/mask.svg" ||
        refuse "the program drew nothing"
    status=0
    run "$suites" ./clattn.exe heatmap --mask-mod 'j <= i' --n 9 --out missing/mask.svg || status=$?
    [ "$status" != 0 ] && grep -q 'cannot be written' "$work/err" || refuse "a folder that is missing is not refused"
fi
compute "$folder" ./consumer.exe || refuse "the consumer"
grep -q 'header .*, OK: ' "$work/out" || { cat "$work/out"; echo "Wine's OpenCL has no device: nothing was computed"; exit 0; }
# ONNX Runtime's DLL loads the library of operators. The model has one node, in protocol buffer
# format.
names=$(sed -n '/^onnxruntime==/,/^[a-z-]*==[^ ]* .$/p' tests/requirements/onnxruntime.txt | sed '1!{/==/d}')
if [ ! -f "$folder/onnxruntime.dll" ]; then
    echo "$names" >"$work/onnxruntime.txt"
    python3 -m venv "$work/python" && "$work/python/bin/pip" download -q --no-deps --require-hashes --only-binary :all: --platform win_amd64 \
        --python-version 311 --implementation cp --abi cp311 -d "$work" -r "$work/onnxruntime.txt" >"$work/pip.log" 2>&1 &&
        python3 -c 'import sys, zipfile; open(sys.argv[2], "wb").write(zipfile.ZipFile(sys.argv[1]).read("onnxruntime/capi/onnxruntime.dll"))' \
            "$work"/onnxruntime-*win_amd64.whl "$folder/onnxruntime.dll" || echo "no onnxruntime.dll from PyPI"
fi
if [ -f "$folder/onnxruntime.dll" ]; then
    python3 - "$folder" <<'PYTHON'
import sys
def varint(n): return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
def part(field, value):
    whole = isinstance(value, int)
    return varint(field << 3) + varint(value) if whole else varint(field << 3 | 2) + varint(len(value)) + value
def value(name): return part(1, name) + part(2, part(1, part(1, 1) + part(2, b"".join(part(1, part(1, n)) for n in (1, 2, 3, 8)))))
for file, mode in ("taken", 0), ("refused", 4):
    attribute = part(1, b"qk_matmul_output_mode") + part(3, mode) + part(20, 2)
    node = b"".join(part(1, n) for n in (b"q", b"k", b"v")) + part(2, b"y") + part(4, b"Attention") + part(5, attribute)
    graph = part(1, node) + part(2, b"one") + b"".join(part(11, value(n)) for n in (b"q", b"k", b"v")) + part(12, value(b"y"))
    open(f"{sys.argv[1]}/{file}.onnx", "wb").write(part(1, 10) + part(7, graph) + part(8, part(2, 23)))
PYTHON
    compute "$folder" ./windows_session.exe onnxruntime.dll libclattn-onnxruntime.dll taken.onnx refused.onnx || refuse "ONNX Runtime's library"
    cat "$work/out"
fi
if [ -n "$host" ]; then
    compute "$host" ./ggml_host.exe ggml-cpu.dll ggml-clattn.dll || refuse "ggml's backend"
    cat "$work/out"
fi
# A cache folder with paths longer than Windows' 260 characters. Wine has no such limit, so this
# only checks that the long form of paths is right.
long=$work/$(printf '%080d' 1)/$(printf '%080d' 2)/$(printf '%080d' 3)
rm -rf "${work:?}/$(printf '%080d' 1)"
mkdir -p "${long%/*}"
cases() {
    compute "$folder" ./windows_cases.exe "$(echo "Z:$long" | tr / '\\')" attend-f32-b1-h2-n33-nkv40-d16-causal \
        attend-f32-b1-h2-n9-nkv33-d16-full-unfused \
        attend-bf16-b1-h2-n9-nkv33-d16-full attend-f32-b1-h4-hkv2-n1-nkv70-d16-full layer-f32-b1-h2-n5-d16-m32-causal-native ||
            refuse "cases"
    grep -q '^5 of 5 cases are right' "$work/out"
}
if [ -n "$suites" ]; then
    # Device suites, on the host's OpenCL. The layer that counts objects belongs to the host's
    # loader, and is not built for Windows.
    CLATTN_TEST_DATA=$(echo "Z:$PWD/tests/data" | tr / '\\')
    export CLATTN_TEST_DATA
    # shellcheck disable=SC2086
    run_suites 200 device $of_device
    compute "$suites" ./clattn.exe verify --case attend-f32-b1-h2-n33-nkv40-d16-causal || refuse "clattn verify"
fi
cases
grep -qE '^[1-9][0-9]* compiled, 0 from the folder' "$work/out" || { cat "$work/out"; exit 1; }
cases
grep -qE '^0 compiled, [1-9][0-9]* from the folder' "$work/out" ||
    { cat "$work/out"; echo "the cache folder of a long path was not used"; exit 1; }
cat "$work/out"
