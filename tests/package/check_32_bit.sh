#!/bin/sh
# The library, the program and the tests for 32-bit x86, without a warning, so that no size is
# truncated by accident. The host suites run. Hard cases run on the i386 PoCL of Debian 12, whose
# kernels compute in x87 registers, which do not round a sum to float32.
#
#   check_32_bit.sh BUILD [all]     creates BUILD/32_bit. Debian: gcc-multilib. all: each hard
#                                   case, ten minutes
#
# Exit status 77: no compiler for 32 bits, or the i386 packages cannot be installed.
set -eu
cd "$(dirname "$0")/../.."
. tests/package/debian_packages.sh
build=$1/32_bit what=${2:-some}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int main(void) { return sizeof(void *) - 4; }' >"$work/small.c"
cc -m32 "$work/small.c" -o "$work/small" 2>/dev/null && "$work/small" || { echo "no compiler for 32 bits (Debian: gcc-multilib)"; exit 77; }
mkdir -p "$build"
build=$(cd "$build" && pwd)
packages=$build/packages
debian_packages "$packages" bookworm i386 pocl-opencl-icd ocl-icd-opencl-dev check libsubunit-dev libjansson-dev ||
    { tail -n 3 "$packages/log"; echo "Debian's packages for i386 cannot be loaded"; exit 77; }
cat >"$packages/cross" <<END
[binaries]
c = ['cc', '-m32']
ar = 'ar'
strip = 'strip'
pkgconfig = 'pkg-config'
[properties]
needs_exe_wrapper = false
sys_root = '$packages'
pkg_config_libdir = '$packages/usr/lib/i386-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
END
[ -f "$build/build.ninja" ] || meson setup "$build" --cross-file "$packages/cross" -Dwerror=true -Dtests=enabled -Dtool=enabled \
    -Dclblast=disabled -Dmpi=disabled -Dpng=disabled -Dfonts=disabled >"$work/said" 2>&1 || { tail -5 "$work/said"; exit 1; }
ninja -C "$build" >"$work/said" 2>&1 || { grep -E 'error:|warning:' "$work/said" | head -20; exit 1; }

mkdir -p "$packages/drivers" "$packages/kernels"
echo "$packages/usr/lib/i386-linux-gnu/libpocl.so.2" >"$packages/drivers/pocl.icd"
export OCL_ICD_VENDORS="$packages/drivers/" POCL_CACHE_DIR="$packages/kernels" CK_DEFAULT_TIMEOUT=600
export LD_LIBRARY_PATH="$packages/usr/lib/i386-linux-gnu:$packages/lib/i386-linux-gnu"
meson test -C "$build" --no-rebuild --num-processes 2 -q --suite host >"$work/said" 2>&1 || {
    grep -E ' (FAIL|TIMEOUT) ' "$work/said"
    grep -E ':[0-9]+:[FE]:' "$build/meson-logs/testlog.txt"
    exit 1
}
checks=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), .*/\1/p' "$build/meson-logs/testlog.txt" | awk '{ n += $1 } END { print n }')
verify() {
    "$build/clattn" verify --cache-dir off --only "$1" >"$work/said" 2>&1 || { grep -v '^  pass' "$work/said"; exit 1; }
    grep -q '^[1-9][0-9]* pass' "$work/said" || { echo "$1: was not run"; exit 1; }
}
# A softmax, its options, a softcap's tangent, a layer's activation, ragged rows, and gradients.
if [ "$what" = all ]; then
    set -- planner backward
else
    set -- planner/causal planner/everything planner/softcap-huge planner/append-i8 planner/ragged planner/layer-gate \
        backward/backward-causal
fi
for one; do verify "$one"; done
echo "counted: 32 bits: $checks checks of the host suites; hard cases on an i386 PoCL are right"
