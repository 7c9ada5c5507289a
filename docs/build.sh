#!/bin/sh
# Build the documents and the reference of the C API as pages for a browser: OUT/index.html. The
# first run installs mkdocs into build/docs; later runs need no network.
#   sh docs/build.sh OUT    OUT: a folder, created if missing, empty or with pages of an earlier run
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
# one name for each list of versions
wanted=$tools/$(sha256sum tests/requirements/docs.txt | cut -c1-16).ready
if [ ! -e "$wanted" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: -r tests/requirements/docs.txt
    : >"$wanted"
fi

# The pages, and the files that they link to, have the same relative paths as in the project, so
# that links work.
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
# The menu: the top pages, the pages of docs/README.md in its order, then the reference with one
# page a header.
{
    cat docs/mkdocs.yml
    printf 'nav:\n- README.md\n- docs/README.md\n'
    sed -n '/^## /q; s/^| \(\[.*\)/\1/p' docs/README.md | grep -o '([a-z./A-Z]*\.md)' | sed 's|^(|docs/|; s|)$||; s|^docs/\.\./||; s|^|- |'
    printf -- '- %s\n' CONTRIBUTING.md CHANGELOG.md
    (cd "$work/pages" && printf -- '- reference/index.md\n' && ls reference/*.md | sed '/index\.md/d; s|^|- |')
} >"$work/mkdocs.yml"
# Without --quiet, because --quiet also suppresses the failure for a broken link.
"$tools/bin/mkdocs" build --strict --clean -f "$work/mkdocs.yml" -d "$out" >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
# Pages opened from a folder (file://) can load a script, but no JSON.
index=$out/search/search_index
{ printf 'window.search_index = ' && cat "$index.json"; } >"$index.js"
rm "$index.json"
# Pages for servers: their links do not work from a folder.
rm -f "$out/404.html" "$out"/sitemap.xml*
