#!/bin/sh
# Every kernel through the compilers of devices that this machine does not have, with the knobs that
# the planner chooses for them: one line a target. See offline.py. The compilers come from Debian
# and PyPI into the build folder (about 80 MB), and change nothing of the system, which may have
# other drivers and another libclc. CLATTN_INSTALL=off downloads nothing. Missing compilers are
# skipped.
#   $1 build folder; --record writes the record and the table again; names of targets: only these
set -u
build=$(cd "$1" && pwd) || exit 2
shift
tools=$build/offline
mkdir -p "$tools/root" "$tools/debs"
[ -x "$build/tests/plans" ] || { echo "FAIL  no tests/plans in the build folder"; exit 1; }

# The files that each compiler needs; clang 14 and its libraries are those of tests/run.sh.
amd="clang-19 libclang-common-19-dev libclang-cpp19 libllvm19 rocm-device-libs"
intel="intel-opencl-icd libigc1 libigdfcl1 libigdgmm12 libllvmspirvlib14 libopencl-clang14"
spirv="llvm-spirv-14 spirv-tools"
nvidia=libclc-14

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# One package, unpacked beside the system's; for libclc only the required files.
unpack() {
    [ -f "$tools/root/.$1" ] && return 0
    (cd "$tools/debs" && rm -f ./*.deb && apt-get download -q "$1" >/dev/null 2>&1) || return 1
    case $1 in
    libclc-*) dpkg --fsys-tarfile "$tools"/debs/*.deb | tar -x -C "$tools/root" ./usr/lib/clc/nvptx64--nvidiacl.bc ;;
    *) dpkg -x "$tools"/debs/*.deb "$tools/root" ;;
    esac && touch "$tools/root/.$1"
    rm -f "$tools"/debs/*.deb
}

load() {
    apt-cache show clang-19 >/dev/null 2>&1 || as_root apt-get update -qq >/dev/null 2>&1
    for package in $nvidia $amd $intel $spirv; do
        unpack "$package" || echo "      not to be had: $package"
    done
    [ -f "$tools/python/.loaded" ] && return
    python3 -m venv "$tools/python" &&
        "$tools/python/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/cuda.txt >/dev/null 2>&1 &&
        touch "$tools/python/.loaded" || echo "      not to be had: ptxas from PyPI"
}

[ "${CLATTN_INSTALL:-on}" = off ] || load
exec python3 tests/lab/offline.py "$tools" "$build/tests/plans" "$@"
