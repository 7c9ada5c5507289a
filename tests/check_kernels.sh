#!/bin/sh
# Each kernel compiles alone, as clang's OpenCL C 1.2, with its default knobs and with others, without a warning.
set -eu
clang=$(command -v clang || command -v clang-14) || { echo "no clang"; exit 77; }
lint() { "$clang" -x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header -fsyntax-only -Wall -Werror -Icl "$@"; }
# Inline assembly of x86 is linted for x86.
lint_x86() {
    "$clang" -x cl -cl-std=CL1.2 -target x86_64-linux-gnu -mavx512f -mavx512bw -Xclang -finclude-default-header -fsyntax-only -Wall -Werror \
        -Wno-psabi -Icl "$@"
}
# Knobs that a kernel cannot do are refused, and not built into a wrong one.
refuse() { if lint "$@" >/dev/null 2>&1; then echo "builds, and should not: $*"; exit 1; fi; }
# Unoptimised, every helper is linked by its name: one that is `inline` alone has no definition to link with. OpenCL's own
# functions have mangled names, LLVM's a prefix.
link() {
    code=$("$clang" -x cl -cl-std=CL1.2 -target "$1" -Xclang -cl-ext=+cl_khr_fp16 -Xclang -finclude-default-header -Wno-everything -O0 -emit-llvm -S -o - \
        -Icl "$2") || exit 1
    undefined=$(echo "$code" | sed -n 's/^declare .*@\([A-Za-z0-9_.]*\)(.*/\1/p' | grep -v -e '^_Z' -e '^llvm[.]' || true)
    [ -z "$undefined" ] || { echo "$2 for $1: no definition of" $undefined; exit 1; }
}
lint_x86 cl/probe_dot_bf16.cl
lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DTILE_KV=128 -DSCORE_OPS=15 cl/flash_lanes.cl
lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DSCORE_OPS=15 cl/decode_lanes.cl
# Sub-groups as Khronos spells them; of Intel's spelling clang has no declarations.
for ways in 1 5 17 21; do
    for std in CL2.0 CL3.0; do lint -cl-std=$std -Wno-ignored-pragmas -DSUBGROUP=32 -DSUBGROUP_WAYS=$ways cl/probe_subgroups.cl; done
done
refuse -DSUBGROUP=12 -DSUBGROUP_WAYS=18 cl/probe_subgroups.cl
refuse -DSUBGROUP=16 -DSUBGROUP_WAYS=4 cl/probe_subgroups.cl
kernels=$(ls cl/*.cl | grep -v probe_)
[ "$(echo "$kernels" | wc -l)" -ge 10 ] || { echo "found too few kernels to check"; exit 1; }
for kernel in $kernels; do
    lint "$kernel"
    for target in nvptx64-nvidia-cuda spir64; do link $target "$kernel"; done
    lint -DSCORE_OPS=15 -DTYPE_Q=1 -DTYPE_KV=1 -DTYPE_OUT=1 -DTYPE_BIAS=2 -DTYPE_WEIGHTS=1 "$kernel"
    lint -DSCORE_OPS=15 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DTYPE_BIAS=1 -DTYPE_WEIGHTS=2 -DHEAD_DIM=77 -DHEAD_DIM_V=33 "$kernel"
done
# Each option alone: one that is off has no buffer and no code.
for ops in 1 2 4 8; do
    for kernel in scores values flash flash_tiles flash_lanes decode_lanes; do lint -DSCORE_OPS=$ops cl/$kernel.cl; done
done
refuse -DKEY_BLOCK=3 cl/decode_lanes.cl
refuse -DROWS=9 cl/decode_lanes.cl
refuse -DKEY_TILE=64 cl/decode_lanes.cl
refuse -DTILE_KV=60 -DROW_ITEMS=8 cl/flash.cl
refuse -DTILE_KV=60 -DKEY_BLOCK=8 cl/flash_lanes.cl
refuse -DROW_VECTORS=8 -DTILE_KV=65536 cl/flash_lanes.cl
refuse -DDOT_BF16=1 cl/flash_lanes.cl
refuse -DWORK_GROUP=3 cl/softmax.cl
refuse -DTYPE_KV=7 cl/scores.cl
refuse -DSCORE_OPS=16 cl/scores.cl
refuse -DLANES=6 cl/linear_lanes.cl
refuse -DREDUCTION_TILE=100 cl/linear_lanes.cl
refuse -DCOLUMN_BLOCK=5 cl/linear_lanes.cl
refuse -DCOLUMN_BLOCK=64 cl/linear_lanes.cl
refuse -DROW_PANELS=3 cl/linear_lanes.cl
refuse -DREDUCTION_TILE=65536 cl/linear_lanes.cl
refuse -DROW_BLOCK=9 cl/linear_few_lanes.cl
refuse -DCOLUMN_BLOCK=32 cl/linear_few_lanes.cl
refuse -DROPE=1 -DCOLUMN_BLOCK=3 -DCOLUMN_TILE=12 cl/linear_few_lanes.cl
refuse -DTILE_Q=4096 cl/flash.cl
refuse -DMICRO_ROWS=2 cl/flash_tiles.cl
refuse -DSUBGROUP=16 -DSUBGROUP_WAYS=0 cl/flash_tiles.cl
refuse -DGROUP_COLUMNS=4 cl/flash_tiles.cl
refuse -DCHUNK=6 cl/flash_tiles.cl
refuse -DWIDE=2 cl/flash_tiles.cl
refuse -DGROUP_COLUMNS=8 -DHEAD_DIM_V=257 cl/flash_tiles.cl
for rows in 4 8; do
    for columns in 8 16 32 64; do
        lint -DMICRO_ROWS=$rows -DGROUP_COLUMNS=$columns -DWIDE=1 -DTYPE_Q=1 -DTYPE_KV=4 -DHEAD_DIM_V=256 -DSCORE_OPS=143 cl/flash_tiles.cl
    done
done
refuse -DHEAD_DIM=577 cl/flash.cl
refuse -DKEY_BLOCK=65 cl/flash_lanes.cl
refuse -DWORK_GROUP=0 cl/softmax.cl
refuse -DCOMBINE_COLUMNS=0 cl/combine.cl
refuse -DTYPE_OUT=4 cl/merge.cl
for lanes in 4 8 16; do
    lint -DLANES=$lanes -DWEIGHTS=1 -DTYPE_Q=1 -DTYPE_KV=1 -DSCORE_OPS=15 cl/flash_lanes.cl
    for kernel in cl/*_lanes.cl; do lint -DLANES=$lanes "$kernel"; done
    for rope in 1 2; do
        for kernel in cl/linear_lanes.cl cl/linear_few_lanes.cl; do lint -DLANES=$lanes -DROPE=$rope "$kernel"; done
    done
done
