#!/bin/sh
# Every C file of ours is formatted by .clang-format, with version 14, because other versions break
# lines differently.
#
#   check_format.sh BUILD
set -eu
folder=$1/format
format=clang-format-14
if ! command -v $format >/dev/null 2>&1; then
    format=$folder/bin/clang-format
    if [ ! -x "$format" ]; then
        python3 -m venv "$folder"
        "$folder/bin/pip" install -q --require-hashes --only-binary :all: -r tests/requirements/clang-format.txt
    fi
fi
files=$(find src include tests bench cl -name '*.[ch]' -o -name '*.cl' -o -name '*.clh')
[ "$(echo "$files" | wc -l)" -ge 100 ] || { echo "found too few files to check"; exit 1; }
# shellcheck disable=SC2086
"$format" --style=file --dry-run --Werror $files
