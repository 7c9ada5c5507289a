#!/bin/sh
# Every kernel through the compilers of absent devices, with the knobs that the planner chooses for
# them. Prints one line per target. See offline.py.
#
#   check_offline.sh BUILD [--record] [TARGET...]     --record rewrites the record and the table;
#                                                     TARGET: only these targets
#
# The compilers come from Debian and PyPI into the build folder (download: about 80 MB). The system
# is not changed, and may have other drivers and another libclc. CLATTN_INSTALL=off downloads
# nothing. Targets without a compiler are skipped.
set -u
build=$(cd "$1" && pwd) || exit 2
shift
tools=$build/offline
mkdir -p "$tools/root" "$tools/debs"
[ -x "$build/tests/plans" ] || { echo "FAIL  no tests/plans in the build folder"; exit 1; }

# The minimum for each compiler. clang 14 and its libraries are those of tests/run.sh.
amd="clang-19 libclang-common-19-dev libclang-cpp19 libllvm19 rocm-device-libs"
intel="intel-opencl-icd libigc1 libigdfcl1 libigdgmm12 libllvmspirvlib14 libopencl-clang14"
spirv="llvm-spirv-14 spirv-tools"
nvidia=libclc-14

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# Unpack one package beside the system's. From libclc only the needed files.
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
