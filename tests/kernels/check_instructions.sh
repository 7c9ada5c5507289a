#!/bin/sh
# Kernels compile to the instructions that they are made for: products of AMX and of NVIDIA's
# tensor cores, fused multiply-adds, and calls of defined functions alone. No such device is needed.
#
#   check_instructions.sh
set -eu
clang=$(command -v clang || command -v clang-14) || { echo "no clang"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/base"
python3 cl/embed.py --knobs "$work/base/knobs.clh"
complain() {
    echo "$*"
    exit 1
}
# code TARGET ARGUMENT...: print the code of a kernel. ARGUMENT is an option or a kernel.
code() {
    target=$1
    shift
    "$clang" -x cl -cl-std=CL1.2 -target "$target" -Xclang -finclude-default-header -Wno-everything -S -o - -Icl -I"$work" "$@"
}
amx() { code x86_64-linux-gnu -march=sapphirerapids -O2 "$@"; }
ptx() {
    code nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -cl-ext=+cl_khr_fp16 -O2 \
        -DMATRIX_ENGINE=3 -DALIGNED_VECTORS=2 "$@"
}
# lines_with WORD TEXT: print the number of lines with the word.
lines_with() { printf '%s\n' "$2" | grep -c "$1" || true; }

# Without optimisation every helper function is called by its name, so a function that is only
# `inline` would be undefined. OpenCL's own functions have mangled names, and LLVM's have a prefix.
link() {
    text=$(code "$1" -Xclang -cl-ext=+cl_khr_fp16 -O0 -emit-llvm "$2") || exit 1
    undefined=$(echo "$text" | sed -n 's/^declare .*@\([A-Za-z0-9_.]*\)(.*/\1/p' | grep -v -e '^_Z' -e '^llvm[.]' || true)
    [ -z "$undefined" ] || complain "$2 for $1: no definition of" $undefined
    # A CPU without the instruction has a function for each lane (lanes.clh). decode_groups is for
    # devices that are no CPU.
    case $1:$2 in
    *:cl/tiles/decode_groups.cl | nvptx*) ;;
    *) [ "$(lines_with '^declare .*@_Z3fma' "$text")" = 0 ] || complain "$2 for $1: calls fma, where a product and a sum are written out" ;;
    esac
}
linked=0
for kernel in $(ls cl/*/*.cl | grep -v probe_); do
    linked=$((linked + 1))
    for target in nvptx64-nvidia-cuda spir64; do link $target "$kernel"; done
done
[ $linked -ge 30 ] || complain "found too few kernels: $linked"

# AMX tiles do not run here. Their text must compile to the instructions of a CPU with AMX, without
# a vector as an operand.
for kernel in probe_amx flash_matrix backward_matrix; do
    tiles=$(amx -DMATRIX_ENGINE=2 cl/*/$kernel.cl)
    for instruction in tdpbf16ps tileloadd tilestored tilezero ldtilecfg tilerelease; do
        [ "$(lines_with $instruction "$tiles")" != 0 ] || complain "$kernel: no $instruction"
    done
    [ "$(lines_with tdpbf16ps "$tiles")" -ge 4 ] || complain "$kernel: fewer than four products of tiles"
done
# Tiles of bytes must compile to their instructions too. In flash_matrix only the products of
# keys use bytes, in the probe all products.
for kernel in "probe_amx 0" "flash_matrix 4"; do
    floats=${kernel#* } kernel=${kernel% *}
    tiles=$(amx -DMATRIX_ENGINE=2 -DTYPE_KV=4 -DTYPE_Q=1 -DTYPE_OUT=1 cl/*/"$kernel".cl)
    [ "$(lines_with tdpbssd "$tiles")" -ge 4 ] && [ "$(lines_with tdpbf16ps "$tiles")" -ge "$floats" ] ||
        complain "$kernel over int8: fewer products of tiles"
    [ "$floats" != 0 ] || [ "$(lines_with tdpbf16ps "$tiles")" = 0 ] || complain "$kernel: products of bfloat16 in a probe of bytes"
done
# Projections with one, three and six products of terms.
for terms in "4 -DTYPE_Q=2 -DTYPE_KV=2 -DROPE=1" "12 -DTYPE_Q=2 -DROPE=1" "12 -DTYPE_KV=2 -DROPE=1" "24 -DROPE=2"; do
    # shellcheck disable=SC2086
    found=$(lines_with tdpbf16ps "$(amx -DMATRIX_ENGINE=2 ${terms#* } cl/linear/linear_matrix.cl)")
    # The function's code also occurs inlined in the kernel.
    [ "$found" -ge "${terms%% *}" ] && [ $((found % ${terms%% *})) -eq 0 ] ||
        complain "linear_matrix ${terms#* }: $found products of tiles"
done
# backward_matrix multiplies two by two tiles, for scores, for dV and dK, and for dQ. The machine
# code has as many loads of operands as products. Sums are loaded and stored outside of the loop
# over steps.
tiles=$(amx -DMATRIX_ENGINE=2 -DDOT_BF16=1 -DROW_VECTORS=4 -DKEY_BLOCK=4 -DTILE_KV=256 cl/matrix/backward_matrix.cl)
products=$(lines_with tdpbf16ps "$tiles")
[ "$products" -ge 12 ] && [ "$(lines_with 'tileloadd.*tmm[4-7]' "$tiles")" = "$products" ] &&
    [ "$(lines_with tilestored "$tiles")" -le "$products" ] ||
    complain "backward_matrix: $products products of tiles, and other loads and stores"
# Without the engine there is no such instruction, whatever the CPU.
[ "$(lines_with tdpbf16ps "$(amx cl/matrix/flash_matrix.cl)")" = 0 ] || complain "flash_matrix: products of tiles without the engine"

# SSE has no fused multiply-add, and AVX2 has one. The machine code must use the instruction if it
# exists, and must never call a function for it.
for level in "v2 mulps" "v3 vfmadd"; do
    found=$(code x86_64-linux-gnu -march=x86-64-${level% *} -O2 -DLANES=4 -U__FMA__ cl/lanes/decode_lanes.cl)
    [ "$(lines_with "${level#* }" "$found")" -ge 32 ] && [ "$(lines_with _Z3fma "$found")" = 0 ] ||
        complain "decode_lanes: no ${level#* } of x86-64-${level% *}"
done
# For a compiler that is not known to support inline assembly, texts must have none, whatever the
# CPU (src/lib/device/driver_quirks.c).
for kernel in lanes/decode_lanes lanes/flash_lanes linear/linear_few_lanes matrix/flash_matrix; do
    for told in "-DNO_ASSEMBLY 0" "-DLANES=16 1"; do
        "$clang" -E -x cl -cl-std=CL1.2 -target x86_64-linux-gnu -march=sapphirerapids ${told% *} -DLANES=16 -DTYPE_Q=1 -DTYPE_KV=1 \
            -Icl -I"$work" cl/$kernel.cl >"$work/text" 2>/dev/null || [ $kernel = matrix/flash_matrix ]
        [ "$(grep -c __asm__ "$work/text" | sed 's/[1-9].*/1/')" = "${told#* }" ] ||
            complain "$kernel, ${told% *}: inline assembly is not as it should be"
    done
done

# Fragments. For a tile of 64 keys and heads of 64 or 128 numbers, a warp of 16 rows must have 64
# or 128 products. A projection's warp has 64 for a chunk of 32 numbers, both in the loop over
# complete chunks and in that over others.
flash=cl/fragments/flash_fragments.cl linear=cl/linear/linear_fragments.cl
for type in "1 f16" "2 bf16"; do
    product="mma.sync.*\.${type#* }\." types="-DTYPE_Q=${type% *} -DTYPE_KV=${type% *}"
    for dim in 64 128; do
        # shellcheck disable=SC2086
        found=$(ptx $types -DHEAD_DIM=$dim -DHEAD_DIM_V=$dim $flash | sed -n '/\.entry/,$p')
        [ "$(lines_with "$product" "$found")" = $dim ] || complain "$flash: products of heads of $dim"
    done
    # shellcheck disable=SC2086
    found=$(lines_with "$product" "$(ptx $types -DROW_VECTORS=4 -DCOLUMN_TILE=64 $linear)")
    [ "$found" = 128 ] || complain "$linear: $found products"
done
# Terms: three or six products for each of a warp's 16 fragments.
found=$(ptx -DTYPE_Q=0 -DTYPE_KV=0 -DBF16_TERMS=3 -DTILE_KV=32 -DROW_VECTORS=1 $flash | sed -n '/\.entry/,$p')
[ "$(lines_with 'mma.sync.*\.bf16\.' "$found")" = 192 ] || complain "$flash: products of terms"
for products in "6 -DTYPE_Q=0 -DTYPE_KV=0" "3 -DTYPE_Q=0 -DTYPE_KV=2" "3 -DTYPE_Q=2 -DTYPE_KV=0"; do
    # shellcheck disable=SC2086
    found=$(lines_with 'mma.sync.*\.bf16\.' "$(ptx -DBF16_TERMS=3 ${products#* } $linear)")
    [ "$found" = $((${products%% *} * 32)) ] || complain "$linear: $found products of terms"
done
