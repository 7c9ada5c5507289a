#!/bin/sh
# A machine without OpenCL's loader, and a machine without CLBlast. A program linked with clattn
# starts, gets a one-line message, and continues with everything that needs neither. Invalid files
# with the loader's names hide the loader.
#
#   check_no_loader.sh BUILD
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "$1"; exit 1; }
for file in libclattn.so clattn; do
    needed=$(readelf -d "$build/$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || wrong "readelf says nothing of $file"
    if echo "$needed" | grep -qiE 'opencl|clblast'; then wrong "$file is linked with $(echo "$needed" | tr '\n' ' ')"; fi
done
undefined=$(nm -g "$build/libclattn.a" 2>/dev/null | sed -n 's/^ *U \(cl[A-Z].*\|CLBlast.*\)/\1/p' | sort -u)
[ -z "$undefined" ] || wrong "the static library wants $undefined"

mkdir "$work/hidden"
for name in libOpenCL.so.1 libOpenCL.so; do echo "no library" >"$work/hidden/$name"; done
without() { env -u OPENCL_LAYERS LD_LIBRARY_PATH="$work/hidden:$build" "$@"; }
says() { # WORDS FILE: one line, which names what was looked for
    grep -q "$1" "$2" || { cat "$2"; wrong "it does not say: $1"; }
    [ "$(wc -l <"$2")" = 1 ] || { cat "$2"; wrong "that is not one line"; }
}
cat >"$work/context.c" <<'END'
#include <clattn/clattn.h>
#include <stdio.h>
static void say(void *user, clattn_log_level level, const char *line) { (void)user, (void)level, puts(line); }
int main(void) {
    int device = 0;
    clattn_capabilities facts;
    clattn_context *context = (clattn_context *)&device;
    const clattn_context_params params = {.device = (cl_device_id)(void *)&device, .log = {.fn = say}};
    const clattn_status status = clattn_context_create(&params, &context);
    if (clattn_opencl_function("clCreateBuffer") || context) return 1;
    if (clattn_device_describe(params.device, &facts) != CLATTN_UNSUPPORTED || facts.name[0]) return 1;
    return status != CLATTN_UNSUPPORTED;
}
END
for kind in shared static; do
    if [ $kind = shared ]; then library="-L$build -lclattn"; else library="$build/libclattn.a -lm -lpthread -ldl"; fi
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Werror -Iinclude tests/runtime/test_consumer.c -o "$work/consumer" $library
    without "$work/consumer" >"$work/out" || wrong "the $kind consumer: exit status $?"
    grep -q 'UNSUPPORTED' "$work/out" || { cat "$work/out"; wrong "the $kind consumer is not told UNSUPPORTED"; }
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Werror -Iinclude "$work/context.c" -o "$work/context" $library
    without "$work/context" >"$work/out" || { cat "$work/out"; wrong "a context, $kind: exit status $?"; }
    says 'no OpenCL: looked for libOpenCL.so.1 (not there), libOpenCL.so (not there)' "$work/out"
done

program() { # STATUS ARGUMENT...
    want=$1 status=0
    shift
    without "$build/clattn" "$@" >"$work/out" 2>"$work/error" || status=$?
    [ $status = "$want" ] || { cat "$work/error"; wrong "clattn $1: exit status $status instead of $want"; }
}
program 1 devices
says 'no OpenCL: looked for' "$work/error"
[ ! -s "$work/out" ] || wrong "clattn devices prints a report"
program 0 --version
program 0 bench --help
printf '{"x":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[0,16]}}' >"$work/header"
python3 -c 'import struct, sys
head = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", 1, 0, 0.5, 0.5))' "$work/header" "$work/x.safetensors"
x=$work/x.safetensors#x
program 1 attend --q "$x" --k "$x" --v "$x" --out "$work/y.npy"
says 'no OpenCL' "$work/error"
[ ! -e "$work/y.npy" ] || wrong "attend wrote a file"
program 0 heatmap "$x" --out "$work/heads.svg" # needs no device
if python3 -c 'import numpy' 2>/dev/null; then
    without env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$build" python3 -c '
import clattn
assert clattn.devices() == []
try: clattn.Context()
except clattn.Error as error: assert "UNSUPPORTED: no OpenCL: looked for" in str(error), error
else: raise SystemExit("a context without OpenCL")' || wrong "Python is not told so"
fi

# CLBlast's module: beside the library, or missing.
"$build/clattn" devices --quiet --cache-dir off 2>/dev/null || { echo "no OpenCL device: CLBlast's module was not looked at"; exit 0; }
module=$(cd "$build" && ls libclattn-clblast-*.so 2>/dev/null) || exit 0
mkdir "$work/alone"
cp "$build/clattn" "$build/libclattn.so" "$work/alone/"
mv "$work/alone/libclattn.so" "$work/alone/$(readelf -d "$build/libclattn.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
projects() { "$work/alone/clattn" bench --op linear -n 4 -d 8 --heads 2 --cache-dir "$work/cache" --repeat 1 --limits off "$@" >"$work/out" \
    2>"$work/error"; }
projects --projection auto || { cat "$work/error"; wrong "without CLBlast's module nothing projects"; }
if projects --projection clblast; then wrong "CLBlast projects without its module"; fi
grep -q "CLBlast's module is not there" "$work/error" "$work/out" ||
    { cat "$work/error" "$work/out"; wrong "it does not say that the module is missing"; }
cp "$build/$module" "$work/alone/"
projects --projection clblast --verbose || { cat "$work/error"; wrong "CLBlast's module, beside the library, is not taken"; }
grep -q "CLBlast: $work/alone/$module: loaded" "$work/error" || { cat "$work/error"; wrong "the module is not that beside the library"; }
