#!/bin/sh
# Each kernel compiles alone, as OpenCL C 1.2 with clang, with its default knobs and with others,
# without a warning.
#
#   check_kernels.sh [N]      checks every N-th text; default: 1, all
#
# check_instructions.sh compiles kernels to machine code.
set -eu
clang=$(command -v clang || command -v clang-14) || { echo "no clang"; exit 77; }
knobs=$(mktemp -d)
trap 'rm -rf "$knobs"' EXIT
mkdir "$knobs/base"
python3 cl/embed.py --knobs "$knobs/base/knobs.clh"
# put lint|refuse OPTIONS ARGUMENT...: write texts for parsing at the end, because clang starts more
# slowly than it parses a kernel. Knobs become macros before the kernel. `refuse` has knobs that a
# kernel does not support, which must fail to build. ARGUMENT is a knob, an option or a kernel.
texts=0 share=${1:-1}
put() {
    put_place=$knobs/$1 put_options=$2 put_macros="// $*
" put_kernels=
    shift 2
    for put_word in "$@"; do
        case $put_word in
        -D*=*) put_word=${put_word#-D} && put_macros="$put_macros#define ${put_word%%=*} ${put_word#*=}
" ;;
        -D*) put_macros="$put_macros#define ${put_word#-D} 1
" ;;
        *.cl) put_kernels="$put_kernels $put_word" ;;
        *) put_options="$put_options $put_word" ;;
        esac
    done
    for put_kernel in $put_kernels; do
        texts=$((texts + 1))
        [ $((texts % share)) = 0 ] || continue
        [ -d "$put_place/$put_options" ] || mkdir -p "$put_place/$put_options"
        printf '%s#include "%s"\n' "$put_macros" "$PWD/$put_kernel" >"$put_place/$put_options/$texts.cl"
    done
}
spir="-cl-std=CL1.2 -target spir64"
lint() { put lint "$spir" "$@"; }
# Lint x86 inline assembly for x86.
lint_x86() { put lint "-cl-std=CL1.2 -target x86_64-linux-gnu -mavx512f -mavx512bw -Wno-psabi" "$@"; }
refuse() { put refuse "$spir" "$@"; }
# parse FOLDER: parse all texts of a folder, whose name has the options. Calls clang's frontend with
# the driver's arguments, one process for a hundred texts.
parse() {
    # shellcheck disable=SC2086
    eval "set -- \"\$1\" $("$clang" -### -x cl ${1##*/} -Xclang -finclude-default-header -fsyntax-only -Wall -Wno-unused-function -Werror -Icl -I"$knobs" \
        "$(find "$1" -name '*.cl' | head -n 1)" 2>&1 | sed -n '$s/"[^"]*"$//p')"
    folder=$1
    shift
    find "$folder" -name '[0-9]*.cl' | sort | tr '\n' '\0' | xargs -0 -n 100 "$@" -ferror-limit 0
}
# Linted texts must have no message, and each refused text an error.
parse_all() {
    for folder in "$knobs"/lint/*; do parse "$folder" || exit 1; done
    for folder in "$knobs"/refuse/*; do
        parse "$folder" >"$knobs/said" 2>&1 || true
        grep -oE '/[0-9]+\.cl:' "$knobs/said" | tr -d '/:' | sort -u >"$knobs/refused"
        for text in "$folder"/*.cl; do
            grep -qx "${text##*/}" "$knobs/refused" || { echo "builds, and should not: $(head -n 1 "$text")"; exit 1; }
        done
    done
}
# For the reason see kv_row_put.
! grep -nE '\] *= *kv_row_at\([^;]*\);' cl/*/*.cl cl/*/*.clh || { echo "a row is put into an array by kv_row_put"; exit 1; }
lint_x86 cl/probes/probe_dot_bf16.cl
for how in 1 2; do lint_x86 -DDOT_I8=$how -DLANES=8 cl/probes/probe_dot_i8.cl; done
lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DTILE_KV=128 -DSCORE_OPS=15 cl/lanes/flash_lanes.cl
lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DSCORE_OPS=15 cl/lanes/decode_lanes.cl
for type in 4 8 9 10; do
    for how in "-DDOT_I8=1 -DROWS=1" "-DDOT_I8=1 -DLANES=8 -DROWS=8 -DPAGED=1" "-DDOT_I8=2 -DROWS=3 -DPAST=1" "-DDOT_I8=2 -DLANES=8"; do
        lint_x86 -DTYPE_Q=1 -DTYPE_OUT=2 -DTYPE_KV=$type $how -DSCORE_OPS=15 cl/lanes/decode_lanes.cl
        lint_x86 -DTYPE_Q=1 -DTYPE_OUT=2 -DTYPE_KV=$type -DTYPE_V=$((type == 4 ? 9 : 4)) $how cl/lanes/decode_lanes.cl
    done
    for how in -DDOT_I8=1 "-DDOT_I8=1 -DLANES=8 -DPAGED=1 -DKEY_BLOCK=2" "-DDOT_I8=2 -DPAST=1 -DDROPOUT=1" \
        "-DDOT_I8=2 -DLANES=8 -DWEIGHTS=1"; do
        lint_x86 -DTYPE_Q=$((type % 3)) -DTYPE_OUT=$((type % 3)) -DTYPE_KV=$type $how -DSCORE_OPS=15 cl/lanes/flash_lanes.cl
        lint_x86 -DTYPE_Q=2 -DTYPE_OUT=2 -DTYPE_KV=$type -DTYPE_V=$((type == 4 ? 9 : 4)) $how -DHEAD_DIM=320 cl/lanes/flash_lanes.cl
    done
done
for kernel in decode_lanes flash_lanes; do
    lint_x86 -DTYPE_Q=1 -DTYPE_OUT=1 -DTYPE_KV=11 -DDOT_I8=2 -DSCALE_GROUP=32 -DSCALE_GROUP_V=64 -DTYPE_SCALE=1 cl/lanes/$kernel.cl
    lint_x86 -DTYPE_Q=1 -DTYPE_OUT=1 -DTYPE_KV=12 -DDOT_I8=2 -DLANES=8 -DSCALE_GROUP=1 -DSCALE_GROUP_V=1 -DZERO_POINTS=3 -DPAST=1 \
        cl/lanes/$kernel.cl
    lint_x86 -DTYPE_Q=1 -DTYPE_OUT=1 -DTYPE_KV=4 -DTYPE_V=12 -DDOT_I8=1 -DSCALE_GROUP=64 -DSCALE_GROUP_V=32 -DTYPE_SCALE=2 -DZERO_POINTS=2 \
        -DPAGED=1 cl/lanes/$kernel.cl
    lint_x86 -DTYPE_Q=1 -DTYPE_OUT=1 -DTYPE_KV=10 -DTYPE_V=11 -DDOT_I8=1 -DLANES=8 -DSCALE_GROUP_V=32 cl/lanes/$kernel.cl
    refuse -DTYPE_KV=6 -DTYPE_Q=1 -DDOT_I8=1 -DSCALE_GROUP=32 cl/lanes/$kernel.cl
done
for type in 8 9 10; do
    for how in -DDOT_I8=1 "-DDOT_I8=1 -DLANES=8 -DROPE=1" -DDOT_I8=2 "-DDOT_I8=2 -DLANES=8"; do
        lint_x86 -DTYPE_Q=$((type % 3)) -DTYPE_OUT=$((type % 3)) -DTYPE_KV=$type $how cl/linear/linear_lanes.cl
    done
done
for how in "-DTYPE_KV=4 -DSCALE_GROUP=1" "-DTYPE_KV=11 -DSCALE_GROUP=32 -DTYPE_SCALE=1 -DLANES=8" \
    "-DTYPE_KV=12 -DSCALE_GROUP=128 -DTYPE_SCALE=2 -DZERO_POINTS=1 -DTYPE_Q=2"; do
    # shellcheck disable=SC2086
    for way in 1 2; do lint_x86 $how -DDOT_I8=$way cl/linear/linear_lanes.cl; done
done
# Tiles of AMX, of bfloat16 and of bytes.
for kernel in probe_amx flash_matrix backward_matrix; do
    lint_x86 -march=sapphirerapids -DMATRIX_ENGINE=2 -DSCORE_OPS=15 -DHEAD_DIM=77 cl/*/$kernel.cl
done
for kernel in probe_amx flash_matrix; do
    lint_x86 -march=sapphirerapids -DMATRIX_ENGINE=2 -DTYPE_KV=4 -DTYPE_Q=2 -DSCORE_OPS=15 -DHEAD_DIM=77 cl/*/$kernel.cl
done
# RoPE with explicit positions that have one axis or three, with the caller's cosines and sines, and
# on int8 keys.
for positions in 1 2 3; do
    lint -DPOSITIONS=$positions cl/auxiliary/rope.cl
    lint -DPOSITIONS=$positions -DROPE_TABLES=1 -DTYPE_BIAS=1 cl/auxiliary/rope.cl
    lint -DPOSITIONS=$positions -DROPE=1 -DTYPE_KV=4 -DWORK_GROUP=32 cl/auxiliary/append.cl
done
for rope in 0 2; do lint -DROPE=$rope -DTYPE_Q=1 -DTYPE_KV=2 cl/auxiliary/append.cl; done
for type in 1 4 6 7 8 9 10; do lint -DROPE=2 -DTYPE_KV=$type -DWORK_GROUP=32 cl/auxiliary/shift.cl; done
refuse -DROPE=0 cl/auxiliary/shift.cl
refuse -DPOSITIONS=4 cl/auxiliary/rope.cl
refuse -DWORK_GROUP=3 cl/auxiliary/append.cl
# Projections with one, three and six products of terms.
for options in "-DTYPE_Q=2 -DTYPE_KV=2 -DROPE=1" "-DTYPE_Q=2 -DROPE=1" "-DTYPE_KV=2 -DROPE=1" -DROPE=2; do
    # shellcheck disable=SC2086
    lint_x86 -march=sapphirerapids -DMATRIX_ENGINE=2 $options cl/linear/linear_matrix.cl
done
# Sub-groups in Khronos' spelling. clang does not declare Intel's.
for ways in 1 5 17 21; do
    for std in CL2.0 CL3.0; do lint -cl-std=$std -Wno-ignored-pragmas -DSUBGROUP=32 -DSUBGROUP_WAYS=$ways cl/probes/probe_subgroups.cl; done
done
refuse -DSUBGROUP=12 -DSUBGROUP_WAYS=18 cl/probes/probe_subgroups.cl
refuse -DSUBGROUP=16 -DSUBGROUP_WAYS=4 cl/probes/probe_subgroups.cl
lint cl/probes/probe_tiles.cl
for lanes in 4 8 16; do lint -DLANES=$lanes cl/probes/probe_lanes.cl; done
refuse -DKEY_BLOCK=3 cl/probes/probe_lanes.cl
refuse -DLANES=8 -DHEAD_DIM_V=7 cl/probes/probe_lanes.cl
# Groups of kernels: all kernels; those of attention, which have options of keys and scores; and
# those of attention that support any type.
found() { [ "$(echo "$2" | wc -w)" -ge "$1" ] || { echo "found too few kernels to check: $2"; exit 1; }; }
kernels=$(ls cl/*/*.cl | grep -v probe_)
attention=$(grep -lE '(FUSED|SCORE|KV_KEY)_ARGUMENTS' cl/*/*.cl | grep -v -e /layer_ -e /block_mask -e /matrix_pack)
any_type=$(echo "$attention" | grep -v -e /flash_matrix -e _fragments)
found 30 "$kernels"
found 9 "$attention"
for kernel in $kernels; do
    lint "$kernel"
    ops=15
    case $kernel in cl/tiles/decode_tiles.cl | cl/fragments/decode_fragments.cl) ops=1 ;; esac
    case $kernel in cl/*matrix* | cl/linear/linear_pack*) ;; *)
    lint -DSCORE_OPS=$ops -DTYPE_Q=1 -DTYPE_KV=1 -DTYPE_OUT=1 -DTYPE_BIAS=2 -DTYPE_WEIGHTS=1 "$kernel" ;;
    esac
    lint -DSCORE_OPS=$ops -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DTYPE_BIAS=1 -DTYPE_WEIGHTS=2 -DHEAD_DIM=77 -DHEAD_DIM_V=33 "$kernel"
done
# Each option alone. An option that is off has no buffer and no code.
for ops in 1 2 4 8; do
    for kernel in $attention; do lint -DSCORE_OPS=$ops "$kernel"; done
done
# Rows with one scale.
for kernel in cl/portable/scores.cl $any_type; do
    for type in 4 6 7; do lint -DTYPE_KV=$type -DHEAD_DIM=77 -DHEAD_DIM_V=33 "$kernel"; done
done
# 16-bit scales of groups, with zero points, and 4-bit numbers, in groups of at least 32 numbers and
# of one row.
for kernel in $any_type; do
    lint -DTYPE_KV=11 -DSCALE_GROUP=32 -DSCALE_GROUP_V=64 -DTYPE_SCALE=1 "$kernel"
    lint -DTYPE_KV=4 -DTYPE_V=12 -DSCALE_GROUP=1 -DSCALE_GROUP_V=32 -DTYPE_SCALE=2 -DZERO_POINTS=2 -DPAST=1 "$kernel"
    lint -DTYPE_KV=12 -DSCALE_GROUP=1 -DSCALE_GROUP_V=1 -DZERO_POINTS=3 -DPAGED=1 -DHEAD_DIM=78 -DHEAD_DIM_V=34 "$kernel"
    refuse -DTYPE_KV=4 -DSCALE_GROUP=48 "$kernel"
    refuse -DTYPE_KV=1 -DSCALE_GROUP=32 "$kernel"
    refuse -DTYPE_KV=4 -DZERO_POINTS=1 "$kernel"
done
refuse -DTYPE_KV=4 -DTYPE_Q=1 -DSCALE_GROUP=32 cl/fragments/flash_fragments.cl
for step in append shift; do
    lint -DTYPE_KV=4 -DSCALE_GROUP=32 -DTYPE_SCALE=1 cl/auxiliary/$step.cl
    lint -DROPE=2 -DTYPE_KV=11 -DSCALE_GROUP=1 -DZERO_POINTS=1 -DWORK_GROUP=32 cl/auxiliary/$step.cl
    lint -DTYPE_KV=6 -DSCALE_GROUP=64 -DTYPE_SCALE=2 -DZERO_POINTS=1 cl/auxiliary/$step.cl
done
# Without dropout there is no code for it.
for kernel in cl/portable/softmax.cl $any_type; do
    lint -DDROPOUT=1 -DTYPE_Q=1 -DTYPE_KV=1 -DHEAD_DIM=77 -DHEAD_DIM_V=33 "$kernel"
done
lint -DDROPOUT=1 -DWEIGHTS=1 cl/matrix/flash_matrix.cl
lint_x86 -DDROPOUT=1 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 cl/lanes/flash_lanes.cl
lint_x86 -DDROPOUT=1 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 cl/lanes/decode_lanes.cl
# Gradients: each option, and two keys or rows in one word.
for ops in 1 2 4 8 15; do lint -DSCORE_OPS=$ops -DDROPOUT=1 -DRAGGED=1 -DHEAD_DIM=77 -DHEAD_DIM_V=33 cl/lanes/backward_lanes.cl; done
for keys in 0 1; do
    for ops in 0 1 2 4 8 15; do lint -DGRADIENT_OF_KV=$keys -DSCORE_OPS=$ops -DHEAD_DIM=77 -DHEAD_DIM_V=33 cl/tiles/backward_tiles.cl; done
    for rows in 4 8; do
        lint -DGRADIENT_OF_KV=$keys -DMICRO_ROWS=$rows -DGROUP_COLUMNS=8 -DTYPE_Q=1 -DTYPE_KV=2 -DTYPE_OUT=1 -DTYPE_GRADIENT=1 \
            -DALIGNED_VECTORS=2 \
            -DDROPOUT=1 -DRAGGED=1 -DHEAD_DIM=256 -DHEAD_DIM_V=$((8 * rows)) cl/tiles/backward_tiles.cl
    done
done
refuse -DTYPE_KV=4 cl/tiles/backward_tiles.cl
refuse -DPAGED=1 cl/tiles/backward_tiles.cl
refuse -DGROUP_COLUMNS=8 -DHEAD_DIM=257 cl/tiles/backward_tiles.cl
for vectors in 1 2 3; do
    lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DROW_VECTORS=$vectors -DSCORE_OPS=15 -DDROPOUT=1 -DHEAD_DIM=77 \
        cl/lanes/backward_lanes.cl
done
for vectors in 2 4 8; do
    for ops in 1 2 4 8 15; do
        lint -DROW_VECTORS=$vectors -DKEY_BLOCK=$((16 / vectors)) -DSCORE_OPS=$ops -DDROPOUT=1 -DRAGGED=1 -DHEAD_DIM=77 -DHEAD_DIM_V=33 \
            -DTYPE_GRADIENT=$((vectors / 4)) cl/matrix/backward_matrix.cl
    done
    lint_x86 -DDOT_BF16=1 -DMATRIX_ENGINE=2 -DROW_VECTORS=$vectors -DSCORE_OPS=15 -DHEAD_DIM=77 cl/matrix/backward_matrix.cl
done
for refused in -DTYPE_Q=1 -DTYPE_KV=0 -DTYPE_OUT=1 -DLANES=8 -DROW_VECTORS=3 -DTILE_KV=48 -DKEY_BLOCK=1 -DHEAD_DIM_V=257 -DMATRIX_ENGINE=3 \
    -DPAGED=1 -DWEIGHTS=1; do
    refuse $refused cl/matrix/backward_matrix.cl
done
refuse -DKEY_BLOCK=4 -DTILE_KV=30 cl/lanes/backward_lanes.cl
refuse -DTYPE_KV=4 cl/lanes/backward_lanes.cl
refuse -DDROPOUT=2 cl/portable/flash.cl
# Every way to add partial sums of a score, with sub-groups and without.
for head in 8 64 80 96 128 256 576; do
    for rows in 1 2 4; do
        lint -DLOADS_OF_8=1 -DHEAD_DIM=$head -DHEAD_DIM_V=$head -DROWS=$rows -DTYPE_KV=4 -DSCORE_OPS=15 cl/tiles/decode_groups.cl
        for size in 8 32 64; do
            lint -cl-std=CL3.0 -Wno-ignored-pragmas -DHEAD_DIM=$head -DROWS=$rows -DSUBGROUP=$size -DSUBGROUP_WAYS=5 \
                cl/tiles/decode_groups.cl
        done
    done
done
for how in "-DTYPE_KV=4 -DROWS=1" "-DTYPE_KV=8 -DROWS=2" "-DTYPE_KV=4 -DSCALE_GROUP=32 -DTYPE_SCALE=1 -DZERO_POINTS=1" \
    "-DTYPE_KV=4 -DPAGED=1 -DTYPE_V=9" "-DTYPE_KV=8 -DPAST=1 -DTYPE_V=3" "-DTYPE_KV=9 -DPAGED=1" "-DTYPE_KV=10 -DROWS=2" \
    "-DTYPE_KV=11 -DSCALE_GROUP=32 -DTYPE_SCALE=2 -DPAST=1" "-DTYPE_KV=12 -DSCALE_GROUP=64 -DZERO_POINTS=1" \
    "-DTYPE_KV=12 -DSCALE_GROUP=1"; do
    lint -DLOADS_OF_8=1 -DDOT_I8=1 -DTYPE_Q=2 $how -DSCORE_OPS=15 cl/tiles/decode_groups.cl
    lint -cl-std=CL3.0 -Wno-ignored-pragmas -DLOADS_OF_8=1 -DDOT_I8=3 -DTYPE_Q=1 $how -DHEAD_DIM=96 cl/tiles/decode_groups.cl
done
for how in 0 1 3; do lint -cl-std=CL3.0 -DDOT_I8=$how cl/probes/probe_eights.cl; done
for refused in "-DTYPE_KV=6 -DLOADS_OF_8=1" -DTYPE_KV=4 "-DTYPE_KV=4 -DLOADS_OF_8=1 -DHEAD_DIM=20"; do
    refuse -DDOT_I8=1 $refused cl/tiles/decode_groups.cl
done
refuse -DROWS=3 cl/tiles/decode_groups.cl
refuse -DWORK_GROUP=24 cl/tiles/decode_groups.cl
refuse -DWORK_GROUP=64 -DHEAD_DIM=520 cl/tiles/decode_groups.cl
refuse -DLOADS_OF_8=1 -DHEAD_DIM=20 cl/tiles/decode_groups.cl
refuse -cl-std=CL3.0 -DWORK_GROUP=16 -DSUBGROUP=32 -DSUBGROUP_WAYS=5 cl/tiles/decode_groups.cl
for lanes in 4 8 16; do
    for shared in 0 1; do
        for type in 0 1 2 4; do lint -DLANES=$lanes -DSHARED_KV=$shared -DTYPE_KV=$type -DHEAD_DIM=77 -DHEAD_DIM_V=33 \
            cl/lanes/decode_rows.cl; done
    done
done
for shared in 0 1; do lint_x86 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DSHARED_KV=$shared -DDROPOUT=1 -DSCORE_OPS=143 \
    cl/lanes/decode_rows.cl; done
for ops in 15 128 143; do lint -DSCORE_OPS=$ops cl/lanes/decode_rows.cl; done
refuse -DSCORE_OPS=1024 cl/lanes/decode_rows.cl
refuse -DTILE_Q=40 cl/lanes/decode_rows.cl
refuse -DSHARED_KV=1 -DHEAD_DIM=64 -DHEAD_DIM_V=72 cl/lanes/decode_rows.cl
refuse -DTILE_Q=8192 cl/lanes/decode_rows.cl
refuse -DKEY_BLOCK=3 cl/lanes/decode_lanes.cl
refuse -DROWS=9 cl/lanes/decode_lanes.cl
refuse -DKEY_TILE=128 cl/lanes/decode_lanes.cl
refuse -DTILE_KV=60 -DROW_ITEMS=8 cl/portable/flash.cl
refuse -DTILE_KV=60 -DKEY_BLOCK=8 cl/lanes/flash_lanes.cl
refuse -DROW_VECTORS=8 -DTILE_KV=65536 cl/lanes/flash_lanes.cl
refuse -DDOT_BF16=1 cl/lanes/flash_lanes.cl
lint -DDOT_I8=1 -DTYPE_KV=4 cl/lanes/flash_lanes.cl
for refused in -DTYPE_KV=2 "-DTYPE_KV=8 -DLANES=4" "-DTYPE_KV=8 -DREDUCTION_TILE=48"; do
    refuse -DDOT_I8=1 $refused cl/linear/linear_lanes.cl
done
for refused in -DTYPE_KV=1 "-DTYPE_KV=4 -DHEAD_DIM=80" "-DTYPE_KV=4 -DLANES=4" "-DTYPE_KV=4 -DTILE_KV=66 -DKEY_BLOCK=2" \
    "-DTYPE_KV=4 -DTILE_KV=320" "-DTYPE_KV=4 -DTILE_KV=60 -DKEY_BLOCK=6"; do
    # shellcheck disable=SC2086
    refuse -DDOT_I8=1 $refused cl/lanes/flash_lanes.cl
done
# Past rows and pages, with rows with and without scales. A kernel with both is refused.
for place in PAST PAGED; do
    for kernel in $any_type; do
        lint -D$place=1 -DSCORE_OPS=15 "$kernel"
        lint -D$place=1 -DTYPE_KV=4 -DDROPOUT=1 "$kernel"
    done
    for kernel in flash_matrix matrix_pack; do lint -D$place=1 cl/*/$kernel.cl; done
    lint -D$place=1 -DWEIGHTS=1 cl/lanes/flash_lanes.cl
    lint_x86 -D$place=1 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DTILE_KV=128 -DSCORE_OPS=15 cl/lanes/flash_lanes.cl
    lint_x86 -D$place=1 -DDOT_BF16=1 -DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=2 -DSCORE_OPS=15 cl/lanes/decode_lanes.cl
done
refuse -DPAST=1 -DPAGED=1 cl/portable/flash.cl
lint -DWEIGHTS=1 cl/matrix/flash_matrix.cl
for kernel in $(echo "$attention" | grep -v /decode_rows) cl/portable/softmax.cl cl/auxiliary/block_mask.cl cl/auxiliary/combine.cl \
    cl/auxiliary/rope.cl cl/matrix/matrix_pack.cl cl/auxiliary/ragged.cl; do
    lint -DRAGGED=1 "$kernel"
    lint -DRAGGED=1 -DDROPOUT=1 -DSCORE_OPS=15 "$kernel"
done
refuse -DRAGGED=1 -DPOSITIONS=1 cl/auxiliary/rope.cl
for rope in 0 1 2; do lint -DRAGGED=1 -DROPE=$rope cl/linear/linear_few_lanes.cl; done
for kernel in decode_rows convert linear_rows linear_lanes ragged; do refuse -DRAGGED=$([ $kernel = ragged ] && echo 0 ||
    echo 1) cl/*/$kernel.cl; done
refuse -DTYPE_KV=1 cl/matrix/flash_matrix.cl
refuse -DTYPE_KV=1 cl/matrix/matrix_pack.cl
# int8 keys: every type of queries and results, every way to find a row, and options. Other types,
# and scales of groups, are refused.
for type in 0 1 2; do
    for place in PAST PAGED RAGGED; do
        lint -D$place=1 -DTYPE_KV=4 -DTYPE_Q=$type -DTYPE_OUT=$type -DSCORE_OPS=1167 -DDROPOUT=1 -DHEAD_DIM=77 -DHEAD_DIM_V=33 \
            cl/matrix/flash_matrix.cl
        lint -D$place=1 -DTYPE_KV=4 -DHEAD_DIM_V=33 cl/matrix/matrix_pack.cl
    done
    lint -DTYPE_KV=4 -DTYPE_Q=$type -DWEIGHTS=1 -DHEAD_DIM=256 -DTILE_KV=512 cl/matrix/flash_matrix.cl
done
for kernel in flash_matrix matrix_pack; do
    for refused in -DTYPE_KV=6 "-DTYPE_KV=4 -DTYPE_V=3" "-DTYPE_KV=4 -DSCALE_GROUP=32" "-DTYPE_KV=4 -DSCALE_GROUP_V=1"; do
        # shellcheck disable=SC2086
        refuse $refused cl/matrix/$kernel.cl
    done
done
lint -DTYPE_KV=4 cl/probes/probe_amx.cl
refuse -DLANES=8 cl/matrix/flash_matrix.cl
for kernel in linear_matrix linear_pack; do
    for types in "-DTYPE_Q=2" "-DTYPE_KV=2" "-DTYPE_Q=2 -DTYPE_KV=2 -DTYPE_OUT=1 -DTYPE_BIAS=1"; do
        # shellcheck disable=SC2086
        for rope in 1 2; do lint $types -DROPE=$rope cl/*/$kernel.cl; done
    done
    for types in "-DTYPE_Q=1" "-DTYPE_KV=1" "-DTYPE_KV=4" "-DLANES=8" "-DMATRIX_ENGINE=3"; do refuse "$types" cl/*/$kernel.cl; done
done
refuse -DREDUCTION_TILE=40 cl/linear/linear_matrix.cl
refuse -DREDUCTION_TILE=1056 cl/linear/linear_matrix.cl
refuse -DHEAD_DIM=257 cl/matrix/flash_matrix.cl
refuse -DTILE_KV=48 cl/matrix/flash_matrix.cl
refuse -DMATRIX_ENGINE=3 cl/matrix/flash_matrix.cl
# Fragments on the emulation.
fragments=cl/fragments/flash_fragments.cl
for type in 1 2; do
    for place in DROPOUT PAST PAGED RAGGED; do
        lint -DTYPE_Q=$type -DTYPE_KV=$type -D$place=1 -DSCORE_OPS=1167 -DHEAD_DIM=77 -DHEAD_DIM_V=33 $fragments
        lint -DTYPE_Q=$type -DTYPE_KV=$type -D$place=1 -DROW_VECTORS=2 -DALIGNED_VECTORS=2 -DTILE_KV=48 -DHEAD_DIM=256 -DHEAD_DIM_V=72 \
            $fragments
    done
    for engine in 3 5 6 7 8 9; do
        lint -DTYPE_KV=$type -DEMULATED=$engine cl/probes/probe_fragments.cl
        lint -DTYPE_Q=$type -DTYPE_KV=$type -DEMULATED=$engine -DDROPOUT=1 -DPAGED=1 -DALIGNED_VECTORS=2 -DROW_VECTORS=2 -DTILE_KV=32 \
            -DHEAD_DIM=77 $fragments
    done
    for cache in 4 6 7 8 9; do
        lint -DTYPE_Q=$type -DTYPE_KV=$cache -DPAGED=1 -DSCORE_OPS=1167 -DALIGNED_VECTORS=2 -DHEAD_DIM=96 -DHEAD_DIM_V=64 $fragments
        lint -DTYPE_Q=$type -DTYPE_KV=$type -DTYPE_V=$cache -DPAST=1 -DHEAD_DIM=77 -DHEAD_DIM_V=32 -DEMULATED=7 $fragments
    done
    lint -DTYPE_Q=$type -DTYPE_KV=$((type * 4)) -DPAGED=1 -DSCORE_OPS=1 -DALIGNED_VECTORS=2 -DHEAD_DIM=96 cl/fragments/decode_fragments.cl
done
for engine in 3 5 6 7 8 9; do
    lint -DTYPE_Q=0 -DTYPE_KV=0 -DBF16_TERMS=3 -DEMULATED=$engine -DDROPOUT=1 -DPAGED=1 -DALIGNED_VECTORS=2 -DTILE_KV=32 -DSCORE_OPS=1167 \
        -DHEAD_DIM=77 $fragments
    lint -DTYPE_Q=0 -DTYPE_KV=$((engine == 3 ? 1 : engine + 1)) -DBF16_TERMS=3 -DEMULATED=$engine -DTYPE_V=8 -DTILE_KV=32 \
        -DHEAD_DIM=96 $fragments
done
for refused in "-DTYPE_Q=0" "-DTYPE_Q=0 -DTYPE_KV=0 -DBF16_TERMS=2" "-DTYPE_Q=1 -DTYPE_KV=1 -DBF16_TERMS=3" \
    "-DBF16_TERMS=3 -DEMULATED=4 -DGROUP_ROWS=4" \
    "-DTYPE_KV=10" "-DTYPE_Q=1 -DTYPE_KV=2" "-DTYPE_V=2" "-DTYPE_KV=4 -DEMULATED=4 -DGROUP_ROWS=4" \
    -DHEAD_DIM=257 -DTILE_KV=8 -DTILE_KV=80 -DROW_VECTORS=3 -DGROUP_ROWS=17 -DALIGNED_VECTORS=1 -DMATRIX_ENGINE=2 \
    "-DEMULATED=4 -DTILE_KV=32" \
    "-DEMULATED=7 -DTILE_KV=48" -DMATRIX_ENGINE=5 -DMATRIX_ENGINE=7; do
    # shellcheck disable=SC2086
    refuse $refused $fragments
done
# Projections.
fragments=cl/linear/linear_fragments.cl
for type in 1 2; do
    for engine in 3 5 6 7 8 9; do
        for rope in 0 1 2; do
            lint -DTYPE_Q=$type -DTYPE_KV=$type -DTYPE_OUT=$rope -DEMULATED=$engine -DROPE=$rope $fragments
            lint -DTYPE_Q=$type -DTYPE_KV=$type -DTYPE_BIAS=$rope -DEMULATED=$engine -DROPE=$rope -DALIGNED_VECTORS=2 -DCHUNK=64 \
                -DGROUP_ROWS=1 \
                $fragments
        done
    done
done
# Terms.
for types in "-DTYPE_Q=0 -DTYPE_KV=0" "-DTYPE_Q=0 -DTYPE_KV=2" "-DTYPE_Q=2 -DTYPE_KV=0"; do
    for engine in 3 5 6 7 8 9; do
        # shellcheck disable=SC2086
        lint $types -DBF16_TERMS=3 -DEMULATED=$engine -DROPE=$((engine % 3)) -DALIGNED_VECTORS=$((engine % 2 * 2)) \
            -DTYPE_OUT=$((engine % 3)) \
            $fragments
    done
done
for refused in "-DTYPE_Q=0" "-DTYPE_KV=4" "-DTYPE_Q=1 -DTYPE_KV=2" "-DTYPE_Q=0 -DTYPE_KV=2" -DBF16_TERMS=2 \
    "-DBF16_TERMS=3 -DTYPE_Q=1 -DTYPE_KV=1" "-DBF16_TERMS=3 -DTYPE_Q=2 -DTYPE_KV=2" "-DBF16_TERMS=3 -DTYPE_KV=1" \
    "-DBF16_TERMS=3 -DTYPE_Q=1" \
    "-DBF16_TERMS=3 -DTYPE_KV=8" -DCHUNK=16 -DCHUNK=48 -DROW_VECTORS=5 -DCOLUMN_TILE=24 -DCOLUMN_TILE=128 \
    -DGROUP_ROWS=9 -DALIGNED_VECTORS=1 -DMATRIX_ENGINE=2 -DMATRIX_ENGINE=4 -DEMULATED=4 "-DEMULATED=7 -DCOLUMN_TILE=48" \
    "-DGROUP_ROWS=1 -DROW_VECTORS=1" "-DGROUP_COLUMNS=1 -DCOLUMN_TILE=16"; do
    # shellcheck disable=SC2086
    refuse $refused $fragments
done
refuse -DWORK_GROUP=3 cl/portable/softmax.cl
for type in 3 5 13; do refuse -DTYPE_KV=$type cl/portable/scores.cl; done
refuse -DSCORE_OPS=16 cl/portable/scores.cl
refuse -DLANES=6 cl/linear/linear_lanes.cl
refuse -DREDUCTION_TILE=100 cl/linear/linear_lanes.cl
refuse -DCOLUMN_BLOCK=5 cl/linear/linear_lanes.cl
refuse -DCOLUMN_BLOCK=64 cl/linear/linear_lanes.cl
refuse -DROW_PANELS=3 cl/linear/linear_lanes.cl
refuse -DREDUCTION_TILE=65536 cl/linear/linear_lanes.cl
refuse -DROW_BLOCK=9 cl/linear/linear_few_lanes.cl
refuse -DCOLUMN_BLOCK=32 cl/linear/linear_few_lanes.cl
refuse -DDOT_I8=1 cl/linear/linear_few_lanes.cl
refuse -DDOT_I8=1 -DTYPE_KV=8 -DCOLUMN_TILE=256 cl/linear/linear_few_lanes.cl
for lanes in 4 8 16; do lint_x86 -DEPILOGUE=1 -DLANES=$lanes -DTYPE_OUT=2 cl/linear/linear_few_lanes.cl; done
refuse -DEPILOGUE=1 -DROPE=1 cl/linear/linear_few_lanes.cl
refuse -DROPE=1 -DCOLUMN_BLOCK=3 -DCOLUMN_TILE=12 cl/linear/linear_few_lanes.cl
refuse -DTYPE_KV=1 cl/lanes/layer_few_lanes.cl
refuse -DPAST=1 cl/lanes/layer_few_lanes.cl
refuse -DROW_BLOCK=3 cl/linear/linear_rows.cl
refuse -DWORK_GROUP=96 cl/linear/linear_rows.cl
refuse -DROW_ITEMS=256 -DWORK_GROUP=64 cl/linear/linear_rows.cl
# Weights, keys and values in blocks, on CPUs with instructions for them. Blocks of x are refused.
for type in 8 9 10; do
    lint -DTYPE_Q=$type cl/auxiliary/convert.cl
    lint -DTYPE_KV=$type cl/auxiliary/embed.cl
    for lanes in 4 8 16; do
        lint_x86 -DTYPE_KV=$type -DLANES=$lanes -mf16c cl/linear/linear_few_lanes.cl
        lint_x86 -DTYPE_KV=$type -DLANES=$lanes -DREDUCTION_TILE=64 cl/linear/linear_lanes.cl
        [ $lanes = 4 ] || for how in "-DDOT_I8=1 -DEPILOGUE=1" \
            "-DDOT_I8=2 -DPREFETCH_LEVEL=3 -DROW_BLOCK=1 -DCOLUMN_BLOCK=8 -DCOLUMN_TILE=32"; do
            # shellcheck disable=SC2086
            lint_x86 -DTYPE_KV=$type -DLANES=$lanes $how cl/linear/linear_few_lanes.cl
        done
    done
    for wide in 0 1 2; do lint -DTYPE_KV=$type -DALIGNED_VECTORS=$wide cl/linear/linear_tiles.cl; done
    for wide in 0 1; do lint -DTYPE_KV=$type -DALIGNED_VECTORS=$wide cl/linear/linear_rows.cl; done
    for kernel in linear/linear_few_lanes linear/linear_tiles auxiliary/rope; do refuse -DTYPE_Q=$type cl/$kernel.cl; done
    for kernel in lanes/flash_lanes lanes/decode_lanes lanes/decode_rows; do
        for lanes in 4 8 16; do lint_x86 -DTYPE_KV=$type -DLANES=$lanes -mf16c cl/$kernel.cl; done
    done
    for kernel in portable/flash tiles/flash_tiles tiles/decode_groups; do
        for place in -DPAST=1 -DPAGED=1; do lint -DTYPE_KV=$type $place cl/$kernel.cl; done
    done
    for rope in 0 1 2; do lint -DTYPE_KV=$type -DROPE=$rope cl/auxiliary/append.cl; done
    for kernel in linear/linear_matrix lanes/layer_few_lanes lanes/backward_lanes tiles/backward_tiles; do
        refuse -DTYPE_KV=$type cl/$kernel.cl
    done
    refuse -DTYPE_KV=$type -DHEAD_DIM=40 cl/portable/flash.cl
done
refuse -DTYPE_KV=4 cl/linear/linear_rows.cl
refuse -DTYPE_KV=4 cl/linear/linear_tiles.cl
refuse -DCHUNK=6 cl/linear/linear_tiles.cl
refuse -DCHUNK=4 -DGROUP_ROWS=32 cl/linear/linear_tiles.cl
refuse -DTILE_Q=4096 cl/portable/flash.cl
refuse -DMICRO_ROWS=2 cl/tiles/flash_tiles.cl
refuse -DSUBGROUP=16 -DSUBGROUP_WAYS=0 cl/tiles/flash_tiles.cl
refuse -DGROUP_COLUMNS=4 cl/tiles/flash_tiles.cl
refuse -DCHUNK=6 cl/tiles/flash_tiles.cl
refuse -DALIGNED_VECTORS=3 cl/tiles/flash_tiles.cl
refuse -DALIGNED_VECTORS=2 -DCHUNK=12 cl/tiles/flash_tiles.cl
for kernel in cl/tiles/decode_tiles.cl cl/fragments/decode_fragments.cl; do
    types=
    [ "$kernel" = cl/tiles/decode_tiles.cl ] || types="-DTYPE_Q=1 -DTYPE_KV=1"
    # shellcheck disable=SC2086
    for option in SCORE_OPS=2 SCORE_OPS=4 SCORE_OPS=8 SCORE_OPS=128 SCORE_OPS=256 SCORE_OPS=512 SCORE_OPS=1024 DROPOUT=1 RAGGED=1; do
        refuse $types -D$option "$kernel"
    done
done
refuse -DGROUP_COLUMNS=8 -DHEAD_DIM_V=257 cl/tiles/flash_tiles.cl
for rows in 4 8; do
    for columns in 8 16 32 64; do
        lint -DMICRO_ROWS=$rows -DGROUP_COLUMNS=$columns -DALIGNED_VECTORS=1 -DTYPE_Q=1 -DTYPE_KV=4 -DHEAD_DIM_V=256 -DSCORE_OPS=143 \
            cl/tiles/flash_tiles.cl
        lint -DMICRO_ROWS=$rows -DGROUP_COLUMNS=$columns -DALIGNED_VECTORS=2 -DTYPE_Q=$((rows / 4)) -DTYPE_KV=$((columns / 16)) \
            -DHEAD_DIM=77 \
            -DHEAD_DIM_V=33 cl/tiles/flash_tiles.cl
        lint -DMICRO_ROWS=$rows -DGROUP_COLUMNS=$columns -DALIGNED_VECTORS=2 -DTYPE_Q=1 -DTYPE_KV=2 -DPAST=$((rows / 8)) -DPAGED=$((1 - \
            rows / 8)) \
            -DSCORE_OPS=1 cl/tiles/decode_tiles.cl
    done
done
refuse -DHEAD_DIM=577 cl/portable/flash.cl
refuse -DKEY_BLOCK=65 cl/lanes/flash_lanes.cl
refuse -DWORK_GROUP=0 cl/portable/softmax.cl
refuse -DCOMBINE_COLUMNS=0 cl/auxiliary/combine.cl
refuse -DTYPE_OUT=4 cl/auxiliary/merge.cl
for rope in 0 1 2; do lint -DROPE=$rope -DWORK_GROUP=64 -DTYPE_Q=2 -DTYPE_KV=$rope cl/linear/norm.cl; done
refuse -DWORK_GROUP=24 cl/linear/norm.cl
for kernel in row_norm activate embed argmax sample; do
    for type in 0 1 2; do
        lint -DTYPE_Q=$type -DTYPE_KV=$(((type + 1) % 3)) -DTYPE_OUT=$type -DLANES=4 -DWORK_GROUP=64 cl/auxiliary/$kernel.cl
    done
done
refuse -DWORK_GROUP=24 cl/auxiliary/row_norm.cl
refuse -DWORK_GROUP=24 cl/auxiliary/argmax.cl
for kernel in topk topk_index topk_merge; do
    lint_x86 -DLANES=16 cl/sparse/$kernel.cl
    lint -DWORK_GROUP=256 -DLANES=4 cl/sparse/$kernel.cl
    refuse -DWORK_GROUP=256 -DLANES=8 cl/sparse/$kernel.cl # with assembly of lanes.clh
done
for items in 1 4; do
    lint -DROW_ITEMS=$items -DWORK_GROUP=64 -DHEAD_DIM=77 -DTYPE_STATE=$((items / 4)) cl/recurrent/linear_attention.cl
done
refuse -DROW_ITEMS=3 -DWORK_GROUP=64 cl/recurrent/linear_attention.cl
refuse -DHEAD_DIM=577 cl/recurrent/linear_attention.cl
refuse -DTYPE_KV=4 cl/auxiliary/row_norm.cl
refuse -DTYPE_KV=4 cl/auxiliary/embed.cl
refuse -DTYPE_KV=4 cl/linear/norm.cl
for rope in 0 1 2; do
    for wide in 0 1 2; do
        for type in 0 1 2; do
            options="-DROPE=$rope -DALIGNED_VECTORS=$wide -DTYPE_KV=$type"
            lint $options -DTYPE_Q=$(((type + wide) % 3)) -DROW_BLOCK=$((1 << type)) cl/linear/linear_rows.cl
            lint $options -DROW_BLOCK=16 -DTYPE_OUT=$type cl/linear/linear_rows.cl
            lint $options -DTYPE_Q=$(((type + wide) % 3)) cl/linear/linear_tiles.cl
            lint $options -DMICRO_ROWS=4 -DGROUP_COLUMNS=8 cl/linear/linear_tiles.cl
        done
    done
done
for lanes in 4 8 16; do
    lint -DLANES=$lanes -DWEIGHTS=1 -DDROPOUT=1 -DTYPE_Q=1 -DTYPE_KV=1 -DSCORE_OPS=15 cl/lanes/flash_lanes.cl
    for kernel in cl/*/*_lanes.cl; do lint -DLANES=$lanes "$kernel"; done
    for rope in 1 2; do
        for kernel in cl/linear/linear_lanes.cl cl/linear/linear_few_lanes.cl cl/lanes/layer_few_lanes.cl; do lint -DLANES=$lanes \
            -DROPE=$rope "$kernel"; done
    done
done
parse_all
[ $texts -ge 1200 ] || { echo "found too few texts to parse: $texts"; exit 1; }
