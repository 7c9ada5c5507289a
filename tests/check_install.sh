#!/bin/sh
# meson install works into a prefix, and a consumer builds against it with pkg-config, shared and static.   $1 build folder
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
DESTDIR=$prefix meson install -C "$1" --no-rebuild >/dev/null
pc=$(find "$prefix" -name clattn.pc)
root=$prefix$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH="${pc%/*}"
flags=$(pkg-config --define-variable=prefix="$root" --cflags --libs clattn)
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Werror tests/test_consumer.c -o "$prefix/consumer" $flags
library=$(dirname "$(find "$prefix" -name libclattn.so)")
LD_LIBRARY_PATH=$library "$prefix/consumer"
LD_LIBRARY_PATH=$library "$(find "$prefix" -type f -name clattn -perm -100)" --version
# shellcheck disable=SC2046
cc -std=c11 tests/test_consumer.c -o "$prefix/static" -I"$root/include" "$library/libclattn.a" \
    $(pkg-config --define-variable=prefix="$root" --libs-only-l --static clattn | sed 's/-lclattn//') -lclblast -lOpenCL -lm -lpthread
"$prefix/static"
