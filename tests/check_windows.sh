#!/bin/sh
# Windows: libraries by mingw-w64 whose DLL exports clattn_* alone and imports no OpenCL; headers that MSVC's rules take, as C and as
# C++; and where Wine is installed, whose OpenCL is the host's, a consumer and cases run. Debian has no Check and no jansson for
# mingw-w64, so that the suites and the program are not built for it.
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
ninja -C "$folder" "${dll##*/}" libclattn.a libevidence.a >"$work/build.log" || { tail -n 40 "$work/build.log"; exit 1; }
exported=$(x86_64-w64-mingw32-objdump -p "$dll" | sed -n 's/^\t\[ *[0-9]*\] .* \([A-Za-z_][A-Za-z_0-9]*\)$/\1/p; s/^\t\[ *[0-9]*\] \([A-Za-z_][A-Za-z_0-9]*\)$/\1/p' | grep '_' | sort -u)
# What is of clattn-mpi is in no DLL.
wanted=$(find include/clattn -name '*.h' ! -name mpi.h -exec cat {} + | grep -oE '^CLATTN_API [^;(]*\(' | sed 's/.*\(clattn_[a-z_]*\)($/\1/' | sort -u)
[ "$(echo "$wanted" | wc -l)" -ge 40 ] || { echo "found too few functions in the headers"; exit 1; }
[ "$exported" = "$wanted" ] || { echo "exported or wanted alone: $(printf '%s\n%s\n' "$exported" "$wanted" | sort | uniq -u | tr '\n' ' ')"; exit 1; }
imported=$(x86_64-w64-mingw32-objdump -p "$dll" | sed -n 's/.*DLL Name: //p' | grep -ivE '^(kernel32|msvcrt|libgcc_s_seh-1|libwinpthread-1).dll$' || true)
[ -z "$imported" ] || { echo "the DLL needs $imported"; exit 1; }
[ "$(x86_64-w64-mingw32-nm "$folder/libclattn.a" 2>/dev/null | grep -c ' T clattn_')" -ge 40 ] || { echo "too few functions in the static library"; exit 1; }

clang=$(command -v clang || command -v clang-14 || true)
printf '#include <clattn/clattn.h>\nint main(void) { return clattn_version_number() != CLATTN_VERSION_NUMBER; }\n' >"$work/header.c"
for language in c c++; do
    for shared in '' -DCLATTN_SHARED; do
        # shellcheck disable=SC2086
        [ -z "$clang" ] || "$clang" --target=x86_64-pc-windows-msvc -x $language -ffreestanding -fsyntax-only -Wall -Wextra -Werror $shared \
            -Iinclude -isystem "$work/headers" "$work/header.c"
    done
done

cc="x86_64-w64-mingw32-gcc -std=c11 -O2 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -isystem $work/headers -DCLATTN_SHARED"
$cc tests/test_consumer.c -o "$folder/consumer.exe" -L"$folder" -lclattn
$cc tests/windows_cases.c -o "$folder/windows_cases.exe" "$folder/libevidence.a" -L"$folder" -lclattn -lm -lpthread -static-libgcc
command -v wine >/dev/null || { echo "built; no Wine to run it in"; exit 0; }
export WINEPREFIX="$work/wine" WINEDEBUG=-all
run() { (cd "$folder" && timeout 300 wine "$@") 2>/dev/null; }
run ./consumer.exe >"$work/out" || { cat "$work/out"; echo "the consumer under Wine"; exit 1; }
grep -q 'header .*, OK: ' "$work/out" || { cat "$work/out"; echo "Wine's OpenCL has no device: nothing was computed"; exit 0; }
# A folder whose entries have paths beyond Windows' 260 characters: Wine has no such limit, so that this shows only that the form
# of path without one is right.
long=$work/$(printf '%080d' 1)/$(printf '%080d' 2)/$(printf '%080d' 3)
rm -rf "${work:?}/$(printf '%080d' 1)"
mkdir -p "${long%/*}"
cases() {
    run ./windows_cases.exe "$(echo "Z:$long" | tr / '\\')" attend-f32-b1-h2-n33-nkv40-d16-causal attend-f32-b1-h2-n9-nkv33-d16-full-unfused \
        attend-bf16-b1-h2-n9-nkv33-d16-full attend-f32-b1-h4-hkv2-n1-nkv70-d16-full layer-f32-b1-h2-n5-d16-m32-causal-native >"$work/out" || { cat "$work/out"; echo "cases under Wine"; exit 1; }
    grep -q '^5 of 5 cases are right' "$work/out"
}
cases
grep -qE '^[1-9][0-9]* compiled, 0 from the folder' "$work/out" || { cat "$work/out"; exit 1; }
cases
grep -qE '^0 compiled, [1-9][0-9]* from the folder' "$work/out" || { cat "$work/out"; echo "the cache folder of a long path was not used"; exit 1; }
cat "$work/out"
