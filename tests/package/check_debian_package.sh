#!/bin/sh
# The Debian packages of the last commit (src/packaging). They are built twice, in different
# environments, and must have identical bytes. lintian and blhc must report nothing, and
# dependencies must be right. In a plain Debian tree without this folder the packages are installed,
# used (src/packaging/debian/tests) and removed without a trace. The build fails if the symbols file
# lacks a function, or if a file belongs to no package.
#
#   check_debian_package.sh BUILD
#
# Prints a line that begins with "ok", "FAIL" or "SKIP" for each check. The exit status is 1 if a
# check failed. $CLATTN_DEBIAN selects another mirror for the tree, which stays in the build folder.
set -u
. tests/runner.sh
install_packages dpkg-dev debhelper lintian blhc autopkgtest piuparts mmdebstrap
for tool in dpkg-buildpackage:dpkg-dev dh:debhelper lintian:lintian blhc:blhc autopkgtest:autopkgtest piuparts:piuparts \
    mmdebstrap:mmdebstrap; do
    command -v "${tool%:*}" >/dev/null || { echo "no ${tool%:*}, which is in Debian's package ${tool#*:}"; exit 77; }
done
release=$(. /etc/os-release && echo "$ID ${VERSION_CODENAME:-}")
mkdir -p "$1/debian"
made=$(cd "$1/debian" && pwd)
work=$(mktemp -d)
trap 'as_root rm -rf --one-file-system "$work"' EXIT
bad=0

# try NAME COMMAND...: run and report one check.
try() {
    name=$1 start=$(date +%s)
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok    Debian: $name ($(($(date +%s) - start)) s)"
    else
        echo "FAIL  Debian: $name ($(($(date +%s) - start)) s)"
        tail -n 40 "$work/log"
        bad=1
    fi
}

# Build in another folder, language, time zone and order.
build_again() { (umask 027 && LC_ALL=C TZ=Asia/Tokyo DEB_BUILD_OPTIONS=parallel=1 sh src/packaging/make_debian.sh "$work/elsewhere"); }
same_bytes() {
    (cd "$made" && sha256sum ./*.deb ./*.tar.xz ./*.dsc) >"$work/sums"
    [ "$(grep -c 'deb$' "$work/sums")" -ge 7 ] && (cd "$work/elsewhere" && sha256sum --check --quiet "$work/sums")
}

# dpkg-shlibdeps finds what linked programs need. Libraries and files that are opened at run time
# must be declared by hand.
version=$(sed -n "1,/version:/s/^ *version: '\(.*\)',\$/\1/p" meson.build)
library=libclattn${version%.*}
depends() { # PACKAGE WORD...: on each of these, and where a word begins with "no:", on nothing of that name
    has=", $(dpkg-deb -f "$made/$1"_*.deb Depends),"
    package=$1
    shift
    for word in "$@"; do
        case $word in
        no:*) case $has in *"${word#no:}"*) echo "$package depends on ${word#no:}: $has" && return 1 ;; esac ;;
        *) case $has in *", $word"[,\ ]* | *", ${word}t64"[,\ ]*) ;; *) echo "$package does not depend on $word: $has" && return 1 ;; esac ;;
        esac
    done
}
all_depend() {
    own=$(dpkg-deb -f "$made/$library"_*.deb Version)
    case $own in "$version"-*) ;; *) echo "$library has version $own" && return 1 ;; esac
    depends "$library" "ocl-icd-libopencl1 | libopencl1" libclblast1 libc6 no:jansson no:mpi &&
        depends libclattn-dev "$library (= $own)" opencl-headers no:mpi &&
        depends clattn-tools "$library (>= $version)" libjansson4 libpng16-16 libfreetype6 libfontconfig1 no:mpi &&
        depends python3-clattn "$library (>= $own)" python3-numpy python3:any no:mpi &&
        depends "libclattn-mpi${version%.*}" "$library (>= $version)" no:jansson &&
        depends libclattn-mpi-dev "libclattn-mpi${version%.*} (= $own)" "libclattn-dev (= $own)" mpi-default-dev &&
        depends clattn-mpi "clattn-tools (= $own)" "libclattn-mpi${version%.*} (>= $version)" || return 1
    ! dpkg-deb --fsys-tarfile "$made"/python3-clattn_*.deb | tar -xO | grep -q "$(gcc -print-multiarch)" ||
        { echo "python3-clattn, of any architecture, names this one" && return 1; }
}

make_tree() {
    apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-(Date|Valid-Until)|Retries) ' >"$work/apt.conf"
    # shellcheck disable=SC2086
    as_root mmdebstrap --variant=apt --aptopt="$work/apt.conf" "${release#* }" "$made/new.tar.gz" ${CLATTN_DEBIAN:-} &&
        as_root mv "$made/new.tar.gz" "$base"
}
# The tree is mounted in a namespace of this run, so that no mount remains. PoCL reads /proc and
# /sys to describe the CPU. The tree does not have the folders of tests/driver.sh.
use() {
    mkdir "$work/tree"
    as_root tar -xf "$base" -C "$work/tree" && as_root cp -L /etc/resolv.conf "$work/tree/etc/" &&
        as_root chroot "$work/tree" apt-get update -qq &&
        as_root unshare -m sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
            exec env -u OCL_ICD_VENDORS -u POCL_CACHE_DIR autopkgtest "$2"/*.changes -- chroot "$1"' run "$work/tree" "$made"
}
# Other packages that create users leave the lock of /etc/passwd.
remove() { as_root piuparts --ignore=/etc/.pwd.lock --basetgz="$base" --distribution="${release#* }" --keep-sources-list --no-eatmydata "$made"/*.changes; }

rm -f "$made"/*.deb "$made"/*.changes "$made"/*.dsc "$made"/*.tar.xz "$made"/*.buildinfo
try "built" sh src/packaging/make_debian.sh "$made"
[ $bad = 0 ] || exit 1
# Suppress alien-tag: our override is for a check that a newer lintian no longer has.
try "lintian" lintian --allow-root --suppress-tags alien-tag --fail-on=error,warning "$made"/*.changes
# includes position-independent code, which lintian checks
try "blhc: every object hardened" blhc --bindnow "$made/build.log"
try "Depends, versions" all_depend
try "built again" build_again
try "the same bytes" same_bytes
base=$made/${release#* }.tar.gz
if [ "${release% *}" != debian ]; then
    echo "SKIP  Debian: packages installed, used and removed: the tree is made on Debian alone, and this is ${release% *}"
elif [ ! -f "$base" ] && ! make_tree >"$work/log" 2>&1; then
    echo "SKIP  Debian: packages installed, used and removed: mmdebstrap makes no tree: $(tail -n 1 "$work/log")"
else
    try "autopkgtest: installed and used" use
    try "piuparts: installed and removed" remove
fi
exit $bad
