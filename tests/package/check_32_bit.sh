#!/bin/sh
# The library for 32-bit x86 compiles without a warning, so no size is cut by accident. A program
# that is linked with it starts, and lists devices.
#   check_32_bit.sh BUILD         creates BUILD/32_bit. Debian: gcc-multilib
set -eu
build=$1/32_bit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/ask.c" <<'C'
#include <clattn/clattn.h>
#include <stdio.h>
int main(void) {
    size_t count = 0;
    const clattn_status status = clattn_device_list(NULL, 0, &count, NULL);
    printf("%u bits, %s\n", (unsigned)(8 * sizeof count), clattn_status_name(status));
    return sizeof count == 4 && (status == CLATTN_OK || status == CLATTN_UNSUPPORTED) ? 0 : 1;
}
C
echo 'int main(void) { return sizeof(void *) - 4; }' >"$work/small.c"
cc -m32 "$work/small.c" -o "$work/small" 2>/dev/null && "$work/small" || { echo "no compiler for 32 bits (Debian: gcc-multilib)"; exit 77; }
cat >"$work/cross" <<'C'
[binaries]
c = ['cc', '-m32']
ar = 'ar'
strip = 'strip'
[properties]
needs_exe_wrapper = false
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
C
[ -f "$build/build.ninja" ] || meson setup "$build" --cross-file "$work/cross" -Dwerror=true -Dtests=disabled \
    -Dtool=disabled -Dclblast=disabled -Dmpi=disabled >"$work/said" 2>&1 || { tail -5 "$work/said"; exit 1; }
ninja -C "$build" >"$work/said" 2>&1 || { grep -E 'error|warning' "$work/said" | head -20; exit 1; }
cc -m32 -Wall -Werror -Iinclude "$work/ask.c" -o "$work/ask" -L"$build" -lclattn
LD_LIBRARY_PATH=$build "$work/ask"
