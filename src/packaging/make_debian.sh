#!/bin/sh
# Build Debian packages of the last commit: the source package, the library, its development files,
# the programs, the Python module, and the same for MPI. The folder debian beside this file has the
# templates. In their texts and file names, @VERSION@ and @SOVERSION@ become meson.build's numbers,
# and @DATE@ the commit's date.
#   sh src/packaging/make_debian.sh [FOLDER]
#       FOLDER   receives the packages and the log; default build/debian
# Installs the build's dependencies, as root or through sudo, unless CLATTN_INSTALL=off. The same
# commit leads to the same bytes anywhere.
set -eu
cd "$(dirname "$0")/../.."
PATH=/usr/sbin:/usr/bin:/sbin:/bin # use the system's compiler, Meson and Python
export PATH
umask 022
. tests/runner.sh

complain() {
    echo "make_debian.sh: $*" >&2
    exit 2
}

[ $# -le 1 ] || complain "one folder is all that is taken"
git rev-parse --verify -q HEAD >/dev/null || complain "this is no checkout of git's, whose last commit is packed"
out=${1:-build/debian}
mkdir -p "$out"
out=$(cd "$out" && pwd)
case $out in *[[:space:]]*) complain "$out: debhelper builds in no folder with a space in its path" ;; esac

version=$(sed -n "1,/version:/s/^ *version: '\([0-9.]*\)',\$/\1/p" meson.build)
case $version in
    # As in meson.build: while the version is 0.x, each minor version has its own soname.
    0.*.*) soversion=${version%.*} ;;
    [1-9]*.*.*) soversion=${version%%.*} ;;
    *) complain "meson.build has no version of three numbers" ;;
esac

# Make upstream's tarball from the sources, and debian/ from its template.
tree=$out/clattn-$version
rm -rf "$tree"
git archive --prefix="clattn-$version/" HEAD | xz -T1 >"$out/clattn_$version.orig.tar.xz"
tar -xJf "$out/clattn_$version.orig.tar.xz" -C "$out"
cp -R "$tree/src/packaging/debian" "$tree/debian"
date=$(git log -1 --format=%aD)
find "$tree/debian" -type f -exec sed -i -e "s/@VERSION@/$version/g" -e "s/@SOVERSION@/$soversion/g" -e "s/@DATE@/$date/" {} +
for file in "$tree"/debian/*@SOVERSION@*; do mv "$file" "$(echo "$file" | sed "s/@SOVERSION@/$soversion/")"; done

install_packages dpkg-dev build-essential
cd "$tree"
if [ "${CLATTN_INSTALL:-on}" != off ] && ! dpkg-checkbuilddeps 2>/dev/null; then
    as_root apt-get update -qq >/dev/null
    as_root env DEBIAN_FRONTEND=noninteractive apt-get build-dep -y -qq --no-install-recommends ./ >/dev/null
fi
dpkg-buildpackage -us -uc >"$out/build.log" 2>&1 || { tail -n 20 "$out/build.log"; complain "the build failed: $out/build.log"; }
rm -rf "$tree"
sed -n '/^Files:/,/^[^ ]/s/^ .* //p' "$out/clattn_$version-0upstream1_$(dpkg --print-architecture).changes"
