#!/bin/sh
# Test the README on another release of Debian: a tree of that release, in which bench/run.sh and
# tests/run.sh install, build and run as for a newcomer. By hand: half an hour on a quiet machine.
#
#   sh tests/package/debian.sh FOLDER [RELEASE] [COMMAND]
#
# It creates the tree in FOLDER if necessary (as root; RELEASE: trixie; its log is FOLDER.log). Then
# it runs COMMAND in its copy of the sources: "sh bench/run.sh && sh tests/run.sh". COMMAND "doors"
# tests bindings and packages with the release's own compiler, Python and OpenCL. That needs half an
# hour. $CLATTN_DEBIAN is another mirror, and CLATTN_* of tests/run.sh are passed on. The tree uses
# this machine's settings of apt and pip (proxies, certificates, dates). The exit status is the
# command's.
set -u
cd "$(dirname "$0")/../.." || exit 2
tree=${1:?FOLDER} release=${2:-trixie} command=${3:-sh bench/run.sh && sh tests/run.sh}
doors="^(host|install;|Python module|a wheel|Debian packages|ONNX Runtime|ggml|recipes|docs: snippets|header alone|exported)"
[ "$command" != doors ] || command="sh tests/run.sh --all --only '$doors'"

complain() {
    echo "debian.sh: $*" >&2
    exit 2
}

make_tree() {
    command -v debootstrap >/dev/null || complain "debootstrap is needed"
    debootstrap --force-check-gpg --variant=minbase --include=ca-certificates "$release" "$tree" \
        "${CLATTN_DEBIAN:-https://deb.debian.org/debian}" >"$tree.log" 2>&1 || return 1
    # The tree checks signatures as usual. These certificates are for the connection.
    cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/machine.crt" &&
        {
            echo 'Acquire::https::CaInfo "/etc/ssl/machine.crt";'
            apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-(Date|Valid-Until)|Retries) '
        } >"$tree/etc/apt/apt.conf.d/99machine" && touch "$tree/complete"
}

[ "$(id -u)" = 0 ] || complain "only root can enter a tree"
[ -f "$tree/complete" ] || make_tree || complain "no tree: $tree.log says why"
tree=$(cd "$tree" && pwd)

# Mounted in a namespace of this run, so that no mount remains. The copy keeps what was built from
# it, and loses sources that were deleted.
mkdir -p "$tree/clattn"
find "$tree/clattn" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tar -c --exclude=./build . | tar -x -C "$tree/clattn" || complain "no copy of the sources"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
handed=$(env | grep -E '^CLATTN_[A-Z]+=' | grep -v '^CLATTN_DEBIAN=')
# shellcheck disable=SC2086
exec unshare -m sh -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" &&
        mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" || exit 2
    tree=$1 command=$2
    shift 2
    exec chroot "$tree" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        PIP_CERT=/etc/ssl/machine.crt "$@" /bin/sh -c "cd /clattn && $command"' run "$tree" "$command" $handed
