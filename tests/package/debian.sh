#!/bin/sh
# README's instructions on a fresh machine, with another Debian release than this machine's. In a
# tree of that release bench/run.sh and tests/run.sh install, build and run as for a newcomer.
# Started by hand, half an hour on a quiet machine.
#
#   sh tests/package/debian.sh FOLDER [RELEASE] [COMMAND]
#
# Creates the tree in FOLDER if missing (as root; default RELEASE: trixie; log: FOLDER.log), and
# runs COMMAND in its copy of the sources. The default is "sh bench/run.sh && sh tests/run.sh".
# COMMAND "doors" runs the steps of tests/run.sh that concern users (see `doors` below), with the
# release's own compiler, Python and OpenCL, in half an hour. $CLATTN_DEBIAN selects another mirror.
# CLATTN_* variables of tests/run.sh and the settings of apt and pip (proxies, certificates, dates)
# also apply in the tree. The exit status is the command's.
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
    # The tree verifies signatures as usual. These settings only provide the connection.
    cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/machine.crt" &&
        {
            echo 'Acquire::https::CaInfo "/etc/ssl/machine.crt";'
            apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-(Date|Valid-Until)|Retries) '
        } >"$tree/etc/apt/apt.conf.d/99machine" && touch "$tree/complete"
}

[ "$(id -u)" = 0 ] || complain "only root can enter a tree"
[ -f "$tree/complete" ] || make_tree || complain "no tree: $tree.log says why"
tree=$(cd "$tree" && pwd)

# Mounted in a namespace of this run, so that no mount remains. The copy keeps built files, but no
# source that was removed.
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
