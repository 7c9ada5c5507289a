#!/bin/sh
# The layer of the device suites. It wraps every OpenCL entry point that the library, CLBlast or a
# suite imports, because an unknown call could neither fail nor be counted. A program that leaks an
# object, or releases one twice, fails with it. The layer's build options reach the compiler.
#   check_layer.sh BUILD
set -eu
build=$(cd "$1" && pwd)
wrapped=$(sed -n 's/^WRAPPED(\(.*\))$/\1/p; s/^ *EXTENSION(\(cl[A-Z].*\))$/\1/p' "$(dirname "$0")/cl_layer_calls.def" \
    "$(dirname "$0")/cl_layer_extensions.c" | sort -u)
clblast=$(ldd "$build"/libclattn-clblast-*.so | sed -n 's/.*libclblast[^ ]* => \([^ ]*\).*/\1/p')
imported=$({
    find "$build/tests" -maxdepth 1 -type f -name 'test_*'
    echo "$clblast"
} | xargs nm -D --undefined-only | sed -n 's/^ *U \(cl[A-Z][A-Za-z0-9]*\)\(@.*\)*$/\1/p' | sort -u)
# The functions that library and program look up by name, also those of extensions.
listed=$(sed -n 's/^OPENCL_CALL(\(.*\))$/\1/p' src/lib/tables/opencl_calls.def src/verification/device/opencl_calls.def \
    src/bindings/mpi/opencl_calls.def)
named=$(grep -rhoE '(clattn_opencl_function|find)\((platform, )?"cl[A-Z][A-Za-z0-9]*"\)' src | sed 's/.*"\(.*\)".*/\1/')
imported=$(printf '%s\n%s\n%s\n' "$imported" "$listed" "$named" | sort -u)
count=$(echo "$imported" | wc -l)
[ "$count" -ge 35 ] || { echo "saw only $count entry points: this check looks in the wrong place"; exit 1; }
for call in $imported; do
    echo "$wrapped" | grep -qx "$call" || { echo "the layer does not wrap $call"; exit 1; }
done

export OPENCL_LAYERS="$build/tests/libclattn_layer.so"
ends() {
    status=0
    "$build/tests/test_objects" "$1" >/dev/null 2>&1 || status=$?
    [ $status = 77 ] && { echo "no OpenCL device"; exit 77; }
    [ $status = "$2" ] || { echo "a program that ends with $1: exit status $status instead of $2"; exit 1; }
}
ends nothing-left 0
for kind in context queue buffer program kernel event; do ends "$kind" 70; done
ends released-twice 70
ends used-after-release 70
# The layer's options reach a program, and no probe.
CLATTN_LAYER_OPTIONS=-no-such-option ends nothing-left 70
CLATTN_LAYER_OPTIONS=-no-such-option "$build/clattn" devices --verbose --cache-dir off 2>&1 | grep -q 'multiply-add in vectors: works' ||
    { echo "the layer builds probes with other options"; exit 1; }
echo "$count entry points are imported and wrapped"
