#!/bin/sh
# `meson install` works into a prefix that is then moved. A consumer that only uses the public
# header builds against it and runs, shared and static, through pkg-config and CMake, and as a Meson
# project with clattn as a subproject.
#
#   check_install.sh BUILD
set -eu
root=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/staged meson install -C "$1" --no-rebuild >/dev/null
pc=$(find "$work/staged" -name clattn.pc)
mv "$work/staged$(sed -n 's/^prefix=//p' "$pc")" "$work/prefix"
prefix=$work/prefix
pc=$(find "$prefix" -name clattn.pc)
library=$(dirname "$(find "$prefix" -name libclattn.so)")

# The documents are installed, and the program finds its library after both were moved.
for file in LICENSE NOTICE; do cmp "$file" "$prefix/share/doc/clattn/$file"; done
env -u LD_LIBRARY_PATH "$prefix/bin/clattn" --version
[ "$(find "$prefix" -name 'libclattn-clblast-*.so' | sed 's,/[^/]*$,,')" = "$library" ] ||
    { echo "CLBlast's module is not beside the library"; exit 1; }

# The Python module finds the library by a relative path.
module=$(find "$prefix" -path '*/clattn/_abi.py')
there=$(sed -n "s/^LIBRARY_PATH = '\(.*\)'/\1/p" "$module")/$(sed -n "s/^LIBRARY = '\(.*\)'/\1/p" "$module")
module=${module%/_abi.py}
[ -f "$module/$there" ] || { echo "the package clattn looks for $there"; exit 1; }
for file in src/bindings/python/clattn/*.py; do cmp "$file" "$module/${file##*/}"; done
if python3 -c 'import numpy' 2>/dev/null; then # python3 -m clattn runs the installed program
    env -u LD_LIBRARY_PATH PYTHONPATH="${module%/*}" python3 -B -m clattn --version | grep -q '^clattn [0-9]' ||
        { echo "python3 -m clattn does not run the program"; exit 1; }
fi

# Installed as in README, the module is in the system Python's search path.
if [ -x /usr/bin/python3 ]; then
    for top in /usr /usr/local; do
        PATH=/usr/bin:$PATH meson setup "$work$top/build" "$root" --prefix=$top -Dtool=disabled -Dtests=disabled -Dmpi=disabled >/dev/null
        for file in clattn/__init__ clattn_torch; do
            folder=$(meson introspect "$work$top/build" --installed | sed -n "s,.*: \"\(/[^\"]*\)/$file\.py\".*,\1,p")
            /usr/bin/python3 -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "$folder" ||
                { echo "$file.py goes to $folder, which /usr/bin/python3 does not search"; exit 1; }
            case $folder in $top/lib/*) ;; *) echo "$file.py goes to $folder, not below $top/lib"; exit 1 ;; esac
        done
    done
fi

export PKG_CONFIG_PATH="${pc%/*}"
flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs clattn)
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Werror tests/runtime/test_consumer.c -o "$work/shared" $flags
LD_LIBRARY_PATH=$library "$work/shared"
case $flags in *OpenCL* | *clblast*) echo "pkg-config links a consumer with what the library is not: $flags"; exit 1 ;; esac
mkdir "$work/static_only"
cp "$library/libclattn.a" "$work/static_only/"
flags=$(pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$work/static_only" --cflags --libs --static clattn)
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Werror tests/runtime/test_consumer.c -o "$work/static" $flags
"$work/static"

# CMake must refuse a minor version that does not exist, and a library that was removed.
mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(clattn ${WANTED} REQUIRED)
add_executable(consumer ${SOURCE})
target_link_libraries(consumer clattn::clattn)
END
consume() { # FOLDER OPTION...
    to=$work/cmake/$1
    shift
    cmake -S "$work/cmake" -B "$to" -DCMAKE_PREFIX_PATH="$prefix" -DSOURCE="$root/tests/runtime/test_consumer.c" "$@" >"$work/cmake.log" \
        2>&1
}
version=$("$prefix/bin/clattn" --version | sed -n 's/^clattn \([0-9.]*\).*/\1/p')
consume shared -DWANTED="$version"
cmake --build "$work/cmake/shared" >/dev/null
"$work/cmake/shared/consumer"
consume static -DBUILD_SHARED_LIBS=OFF
cmake --build "$work/cmake/static" >/dev/null
"$work/cmake/static/consumer"
case $(ldd "$work/cmake/shared/consumer") in *libclattn.so*) ;; *) echo "the shared consumer is not"; exit 1 ;; esac
case $(ldd "$work/cmake/static/consumer") in *libclattn.so*) echo "the static consumer is not"; exit 1 ;; esac
if consume minor -DWANTED=0.1; then echo "CMake took another minor"; exit 1; fi
mv "$library/libclattn.a" "$work/"
if consume absent -DBUILD_SHARED_LIBS=OFF; then echo "CMake took a library that is not there"; exit 1; fi
grep -q "libclattn.a is not in" "$work/cmake.log"

for consumer in shared static; do
    case $(ldd "$work/cmake/$consumer/consumer") in *OpenCL* | *clblast*) echo "the $consumer consumer is linked with OpenCL"; exit 1 ;; esac
done

# As a subproject, clattn builds no tests and no program, and follows default_library, also if it is
# linked with OpenCL.
mkdir -p "$work/meson/subprojects"
ln -s "$root" "$work/meson/subprojects/clattn"
cp tests/runtime/test_consumer.c "$work/meson/"
cat >"$work/meson/meson.build" <<'END'
project('consumer', 'c', default_options: ['c_std=c11'])
executable('consumer', 'test_consumer.c', dependencies: dependency('clattn', fallback: 'clattn'))
END
# Do not count the library's layers.
targets() { meson introspect "$1" --targets | python3 -c 'import json, sys; print(*sorted(t["name"] for t in json.load(sys.stdin) if not t["name"].startswith("clattn_")))'; }
meson setup "$work/meson/load" "$work/meson" --wrap-mode=forcefallback -Ddefault_library=static >/dev/null
[ "$(targets "$work/meson/load")" = "clattn clattn-clblast-${version%.*} consumer kernels.c" ] ||
    { echo "a subproject has the targets $(targets "$work/meson/load")"; exit 1; }
meson setup "$work/meson/build" "$work/meson" --wrap-mode=forcefallback -Ddefault_library=static -Dclattn:opencl=link >/dev/null
meson compile -C "$work/meson/build" >/dev/null 2>&1
"$work/meson/build/consumer"
case $(ldd "$work/meson/build/consumer") in *OpenCL*) ;; *) echo "-Dopencl=link does not link OpenCL"; exit 1 ;; esac
nm "$work/meson/build/subprojects/clattn/libclattn.a" 2>/dev/null | grep -q 'U CLBlastSgemm$' ||
    { echo "-Dopencl=link does not link CLBlast"; exit 1; }
[ "$(targets "$work/meson/build")" = "clattn consumer kernels.c" ] ||
    { echo "a linked subproject has the targets $(targets "$work/meson/build")"; exit 1; }
[ "$(meson introspect "$work/meson/build" --tests)" = "[]" ] || { echo "a subproject has tests"; exit 1; }
