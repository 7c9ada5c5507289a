#!/bin/sh
# The host suites and a small part of verify on aarch64: in a Debian tree that qemu runs on any
# Linux machine, or natively on an aarch64 machine. This checks that kernels are right. Times are
# qemu's.
#
#   sh tests/package/aarch64.sh FOLDER          creates the tree in FOLDER if missing (as root;
#                                               6 minutes, 2 GB), builds and tests
#   sh tests/package/aarch64.sh FOLDER present  exits 77 if there is no tree
#
# If PyPI can be reached, the wheel, ONNX Runtime's library and ggml's backend are also used there
# (aarch64_doors.sh). Prints a line that begins with "ok", "FAIL" or "SKIP" for each check. The exit
# status is 1 if a check failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
tree=${1:?FOLDER}
packages=gcc,libc6-dev,meson,pkg-config,python3,pocl-opencl-icd,ocl-icd-opencl-dev,libclblast-dev,libjansson-dev,libpng-dev,check

complain() {
    echo "aarch64.sh: $*" >&2
    exit 2
}

# Programs of the other architecture start through qemu, which the kernel opens once for all trees
# (flag F).
register_qemu() {
    [ "$(uname -m)" = aarch64 ] && return 0
    command -v qemu-aarch64-static >/dev/null || complain "qemu-user-static is needed"
    [ -f /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || return 1
    [ -f /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || update-binfmts --enable qemu-aarch64
    [ -f /proc/sys/fs/binfmt_misc/qemu-aarch64 ]
}

make_tree() {
    command -v debootstrap >/dev/null || complain "debootstrap is needed"
    debootstrap --force-check-gpg --foreign --arch=arm64 --variant=minbase --include="$packages" bookworm "$tree" \
        "${CLATTN_DEBIAN:-https://deb.debian.org/debian}" >"$tree.log" 2>&1 &&
        chroot "$tree" /debootstrap/debootstrap --second-stage >>"$tree.log" 2>&1 && touch "$tree/complete"
}

if [ ! -f "$tree/complete" ]; then
    if [ "${2:-}" = present ]; then
        echo "no aarch64 tree in $tree: sh tests/package/aarch64.sh $tree makes one"
        exit 77
    fi
    [ "$(id -u)" = 0 ] || complain "only root can make a tree"
fi
if ! register_qemu; then
    echo "the system registers no qemu for aarch64"
    exit 77
fi
[ -f "$tree/complete" ] || make_tree || complain "no tree: $tree.log says why"

said=$(sh tests/package/aarch64_doors.sh "$tree" build 2>&1)
case $? in
0) ;;
77) echo "SKIP  aarch64: wheel, ONNX Runtime, ggml: PyPI is not reachable" ;;
*) echo "$said" | tail -n 20 && echo "FAIL  aarch64: wheel, ONNX Runtime, ggml are not built" && exit 1 ;;
esac

# PoCL reads /proc and /sys to describe the CPU. They are mounted in a namespace of this run, so
# that no mount remains. The tree has a copy of the sources, with everything built from them.
mkdir -p "$tree/clattn"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$tree/clattn" || complain "no copy of the sources"
exec unshare -m sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
    exec chroot "$1" /bin/sh /clattn/tests/package/aarch64_inside.sh' run "$tree"
