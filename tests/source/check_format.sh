#!/bin/sh
# Every file has the format of .clang-format, by version 14: other versions break lines elsewhere.
# $1 build folder
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
