#!/bin/sh
# The documents and a reference of the C API as pages for a browser: OUT/index.html. mkdocs lies in an environment of its own, build/docs;
# once it is there, nothing is asked of a network.
#   sh docs/build.sh OUT    OUT: a folder, made where it is missing; one that holds anything but pages of an earlier run is refused
set -eu
out=${1:?sh docs/build.sh OUT}
top=$(cd "$(dirname "$0")/.." && pwd)
if [ -e "$out" ] && [ ! -e "$out/reference/index.html" ] && [ -n "$(ls -A "$out")" ]; then
    echo "docs/build.sh: $out: not empty, and no pages of an earlier run" >&2
    exit 2
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$top"

tools=build/docs
wanted=$tools/$(sha256sum tests/requirements/docs.txt | cut -c1-16).ready # of these versions
if [ ! -e "$wanted" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/docs.txt
    : >"$wanted"
fi

# The pages lie as in the project, so that their links lead where they lead there; with them what they link to.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/pages/tests"
cp -- *.md LICENSE NOTICE "$work/pages"
cp -R docs cl "$work/pages"
cp tests/README.md "$work/pages/tests"
cp -R tests/examples "$work/pages/tests"
rm -f "$work/pages/docs/build.sh" "$work/pages/docs/reference.py" "$work/pages/docs/mkdocs.yml"
find "$work/pages" \( -name meson.build -o -name "*.pyc" \) -exec rm {} +
python3 docs/reference.py include/clattn "$work/pages/reference"
# The list of pages: the project's own, then those of docs/README.md in its order, then the reference, a page a header.
{
    cat docs/mkdocs.yml
    printf 'nav:\n- README.md\n- docs/README.md\n'
    sed -n '/^## /q; s/^| \(\[.*\)/\1/p' docs/README.md | grep -o '([a-z./A-Z]*\.md)' | sed 's|^(|docs/|; s|)$||; s|^docs/\.\./||; s|^|- |'
    printf -- '- %s\n' CONTRIBUTING.md CHANGELOG.md
    (cd "$work/pages" && printf -- '- reference/index.md\n' && ls reference/*.md | sed '/index\.md/d; s|^|- |')
} >"$work/mkdocs.yml"
# Not --quiet, with which a link that leads nowhere is no failure.
"$tools/bin/mkdocs" build --strict --clean -f "$work/mkdocs.yml" -d "$out" >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
# A page of a folder loads a script, and no JSON.
index=$out/search/search_index
{ printf 'window.search_index = ' && cat "$index.json"; } >"$index.js"
rm "$index.json"
# Pages of servers, whose links do not work from a folder.
rm -f "$out/404.html" "$out"/sitemap.xml*
