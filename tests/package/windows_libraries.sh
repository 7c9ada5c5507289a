#!/bin/sh
# Builds Check and jansson with mingw-w64, from Debian's sources since Debian has no such packages,
# and OpenCL's import library, which only refers to opencl.dll. Programs and suites for Windows are
# linked with these.
#
#   windows_libraries.sh FOLDER        creates FOLDER/lib/pkgconfig and what it names
#
# Exit status 77: the sources are not available.
set -eu
folder=$1
cc='x86_64-w64-mingw32-gcc -O1 -w -D__USE_MINGW_ANSI_STDIO=1'
mkdir -p "$folder/sources" "$folder/lists/partial" "$folder/parts" "$folder/lib/pkgconfig" "$folder/include"

# Debian's sources, from the mirror of the machine's packages.
if ! ls "$folder"/sources/check_*.orig.tar.* "$folder"/sources/jansson_*.orig.tar.* >/dev/null 2>&1; then
    [ "${CLATTN_INSTALL:-on}" = off ] && { echo "no sources of Check and jansson"; exit 77; }
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian*; do
        [ -f "$list" ] && sed 's/^deb /deb-src /; s/^Types: deb$/Types: deb-src/' "$list" >"$folder/parts/${list##*/}"
    done
    apt="apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$folder/parts -o Dir::State::lists=$folder/lists"
    { $apt update && (cd "$folder/sources" && $apt source --download-only check jansson); } >"$folder/sources.log" 2>&1 ||
        { tail -n 3 "$folder/sources.log"; echo "no sources of Check and jansson"; exit 77; }
fi

objects() { # NAME FLAG... -- FILE...: a static library
    name=$1 flags=
    shift
    while [ "$1" != -- ]; do flags="$flags $1"; shift; done
    shift
    rm -rf "$folder/objects" && mkdir "$folder/objects"
    # shellcheck disable=SC2086
    (cd "$folder/objects" && printf '%s\n' "$@" | xargs -P 2 -n 4 $cc $flags -c)
    rm -f "$folder/lib/lib$name.a"
    x86_64-w64-mingw32-ar rc "$folder/lib/lib$name.a" "$folder"/objects/*.o
}
describe() { # NAME VERSION LIBRARIES
    printf 'Name: %s\nDescription: %s\nVersion: %s\nLibs: -L%s %s\nCflags: -isystem %s -isystem %s\n' "$1" "$1" "$2" "$folder/lib" "$3" \
        "$folder/include" "$folder/headers" >"$folder/lib/pkgconfig/$1.pc"
}

if ! [ -f "$folder/lib/libjansson.a" ]; then
    tar xf "$folder"/sources/jansson_*.orig.tar.* -C "$folder/sources"
    from=$(echo "$folder"/sources/jansson-*/src)
    sed 's/@json_inline@/inline/; s/@json_have_long_long@/1/; s/@json_have_[a-z_]*@/0/' "$from/jansson_config.h.in" \
        >"$folder/include/jansson_config.h"
    cp "$from/jansson.h" "$folder/include"
    : >"$folder/include/jansson_private_config.h"
    objects jansson "-I$folder/include" "-I$from" -DHAVE_STDINT_H -- "$from"/*.c
fi
describe jansson 2.14 -ljansson

if ! [ -f "$folder/lib/libcheck.a" ]; then
    tar xf "$folder"/sources/check_*.orig.tar.* -C "$folder/sources"
    from=$(echo "$folder"/sources/check-*[0-9])
    echo '#include <stdint.h>' >"$folder/include/check_stdint.h"
    sed 's/ATTRIBUTE_FORMAT(printf/ATTRIBUTE_FORMAT(gnu_printf/' "$from/src/check.h" >"$folder/include/check.h"
    : >"$folder/include/config.h"
    have=
    for each in DECL_STRDUP GETPID GETTIMEOFDAY PTHREAD STDINT_H STDLIB_H STRING_H SIGNAL_H UNISTD_H SYS_TIME_H MALLOC REALLOC \
        INIT_ONCE_BEGIN_INITIALIZE \
        INIT_ONCE_COMPLETE SNPRINTF VSNPRINTF DECL_LOCALTIME_R; do
        have="$have -DHAVE_$each=1"
    done
    # shellcheck disable=SC2086
    objects check "-I$folder/include" "-I$from/src" "-I$from/lib" $have -DHAVE_CONFIG_H -DENABLE_SUBUNIT=0 -DHAVE_FORK=0 -DSIZEOF_INT=4 \
        -DSIZEOF_SHORT=2 \
        -DSIZEOF_LONG=4 -D_POSIX_C_SOURCE=200809L -Dtimer_t=int -- "$from"/src/check*.c "$from/lib/libcompat.c" "$from/lib/fpclassify.c" \
        "$from/lib/getline.c" "$from/lib/strsignal.c" "$from/lib/alarm.c"
fi
describe check 0.15 '-lcheck -lpthread'

if ! [ -f "$folder/lib/libOpenCL.a" ]; then
    { echo 'LIBRARY OpenCL.dll' && echo EXPORTS &&
        sed -n 's/^WRAPPED(\(.*\))$/\1/p' tests/cl_layer/cl_layer_calls.def; } >"$folder/OpenCL.def"
    x86_64-w64-mingw32-dlltool -d "$folder/OpenCL.def" -l "$folder/lib/libOpenCL.a"
fi
describe OpenCL 3.0 -lOpenCL
