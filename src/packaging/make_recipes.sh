#!/bin/sh
# Make a tarball of the last commit, and recipes that build it: for Conan, vcpkg, conda, Homebrew
# and Meson (a wrap). The folder recipes beside this file has the templates. @VERSION@ becomes
# meson.build's version, @URL@ the tarball's address, @SHA256@ and @SHA512@ its sums.
#   sh src/packaging/make_recipes.sh [FOLDER [URL]]
#       FOLDER   receives the files; default build/recipes
#       URL      address of the tarball; default file:///... in FOLDER
# Nothing is published. The same commit leads to the same bytes.
set -eu
cd "$(dirname "$0")/../.."
umask 022
complain() {
    echo "make_recipes.sh: $*" >&2
    exit 2
}

[ $# -le 2 ] || complain "a folder and a URL are all that is taken"
git rev-parse --verify -q HEAD >/dev/null || complain "this is no checkout of git's, whose last commit is packed"
version=$(sed -n "1,/version:/s/^ *version: '\([0-9.]*\)',\$/\1/p" meson.build)
out=${1:-build/recipes}
mkdir -p "$out"
out=$(cd "$out" && pwd)
tarball=$out/clattn-$version.tar.xz
url=${2:-file://$tarball}
case $url in *[\|\&\\[:space:]]*) complain "$url: has a character that a URL must escape" ;; esac

git archive --prefix="clattn-$version/" HEAD | xz -T1 >"$tarball"
sum() { "$1" "$tarball" | cut -d' ' -f1; }
rm -rf "$out/conan" "$out/vcpkg" "$out/conda" "$out/homebrew" "$out/meson"
cp -R src/packaging/recipes/. "$out/"
find "$out"/conan "$out"/vcpkg "$out"/conda "$out"/homebrew "$out"/meson -type f -exec sed -i -e "s|@VERSION@|$version|g" -e "s|@URL@|$url|g" \
    -e "s|@SHA256@|$(sum sha256sum)|g" -e "s|@SHA512@|$(sum sha512sum)|g" {} +
(cd "$out" && find conan vcpkg conda homebrew meson "${tarball##*/}" -type f | sort)
