#!/bin/sh
# decode_groups reads each number of K and V once. Oclgrind counts the bytes that its compiled code
# loads from global memory. They must equal the formula in decode_groups.cl, with the widest
# possible loads. decode_rows reads each number once for as many rows as a work-item has. A latent,
# whose values are part of its keys, is read once for both.
#
#   check_decode_loads.sh BUILD
set -eu
command -v oclgrind >/dev/null || { echo "no oclgrind"; exit 77; }
export OCLGRIND_BUILD_OPTIONS=-cl-opt-disable # see check_oclgrind.sh
status=0
checked=0
# reads CASE BYTES LOADS: the case agrees with the reference, and its kernel loads this many bytes
# with this many loads.
reads() {
    out=$(CLATTN_TEST_ROWS='decode_groups : WORK_GROUP=64' oclgrind --inst-counts "$1/tests/test_case" "$2")
    got=$(echo "$out" | sed -n "/kernel 'decode_groups'/,/^\$/s/^ *\([0-9]*\) - load global (\([0-9]*\) bytes)\$/\1 \2/p" |
        awk '{ loads += $1; bytes += $2 } END { print bytes " bytes in " loads " loads" }')
    [ "$got" = "$3 bytes in $4 loads" ] || { echo "$2: $got and not $3 bytes in $4 loads"; status=1; }
    checked=$((checked + 1))
}
# kv HEADS KEYS HEAD-SIZE ELEMENT-BYTES PASSES: the bytes of K and V that all passes read. The
# bytes of q are added, and for int8 those of the scales.
kv() { echo $(($1 * $2 * $3 * $4 * 2 * $5)); }

# Two key/value heads of four query heads each: one pass of four rows.
reads "$1" decode-bf16-b1-h8-hkv2-n1-nkv100-d64-full-decode-lse $(($(kv 2 100 64 2 1) + 2 * 4 * 64 * 2)) \
    $(($(kv 2 100 64 2 1) / 16 + 2 * 4 * 64))
# Twelve rows of one head: three passes, and each reads K and V.
reads "$1" decode-bf16-b1-h4-hkv1-n3-nkv70-d32-full-decode-lse $(($(kv 1 70 32 2 3) + 12 * 32 * 2)) $(($(kv 1 70 32 2 3) / 16 + 12 * 32))
# Three ranges of keys: q is read for each range, and K and V once in all.
reads "$1" decode-f32-b2-h2-hkv1-n1-nkv90-d64-full-decode-lse-splits3 $(($(kv 2 90 64 4 1) + 3 * 2 * 2 * 64 * 4)) \
    $(($(kv 2 90 64 4 1) / 16 + 3 * 2 * 2 * 64))
# A window of ten keys: other keys are not read.
reads "$1" attend-f32-b1-h1-n1-nkv100-d64-causal-decode-lse-window9:m1 $(($(kv 1 10 64 4 1) + 64 * 4)) $(($(kv 1 10 64 4 1) / 16 + 64))
# Unaligned rows: the same bytes, but one load per number.
reads "$1" decode-f32-b1-h2-hkv1-n1-nkv40-d41-full-decode-padded-lse $(($(kv 1 40 41 4 1) + 2 * 41 * 4)) $(($(kv 1 40 41 4 1) / 4 + 2 * 41))
# int8: eight bytes per load, each with a scale of four bytes.
reads "$1" decode-f32-b1-h4-hkv1-n1-nkv50-d64-full-decode-kvi8-lse $(($(kv 1 50 64 1 1) + $(kv 1 50 64 1 1) / 8 * 4 + 4 * 64 * 4)) \
    $(($(kv 1 50 64 1 1) / 8 * 2 + 4 * 64))
# A past that four items share: their rows are one pass, which reads the past once. Each item also
# reads its own keys, so the counts of two launches are added.
shared=decode-f32-b4-h2-n1-nkv100-d64-full-decode-lse-past100-sharedpast-cascadealways
reads "$1" $shared $(($(kv 2 100 64 4 1) + 4 * 2 * 64 * 4)) $(($(kv 2 100 64 4 1) / 16 + 4 * 2 * 64))
own=$(kv 8 10 64 4 1)
reads "$1" decode-f32-b4-h2-n1-nkv110-d64-full-decode-lse-past100-sharedpast-cascadealways \
    $(($(kv 2 100 64 4 1) + own + 2 * 4 * 2 * 64 * 4)) $((($(kv 2 100 64 4 1) + own) / 16 + 2 * 4 * 2 * 64))

# vectors KNOBS CASE COUNT: like `reads`, for decode_rows. Its kernel only loads vectors of four
# float32 numbers, COUNT in all.
vectors() {
    out=$(CLATTN_TEST_ROWS="decode_rows : LANES=4 ROW_VECTORS=4 KEY_BLOCK=4 TILE_KV=16 $2" oclgrind --inst-counts "$1/tests/test_case" \
        "$3" |
        sed -n "/kernel 'decode_rows'/,/^\$/p")
    got=$(echo "$out" | sed -n 's/^ *\([0-9]*\) - load global (\([0-9]*\) bytes)$/\1 loads of \2 bytes/p')
    others=$(echo "$out" | grep -c 'call .*vload' || true)
    [ "$got" = "$4 loads of $(($4 * 16)) bytes" ] && [ "$others" = 0 ] || { echo "$3: $got and not $4 vectors, $others other loads"; status=1; }
    checked=$((checked + 1))
}
# Forty heads on one latent of 24 + 8 numbers, with q in tiles of sixteen rows. Each latent is read
# once for all rows, or with TILE_Q=16 once per sixteen rows. In the third case, keys and values are
# separate.
latent=decode-f32-b1-h40-hkv1-n1-nkv50-d32-dv24-full-decode
vectors "$1" "" $latent-latent-lse $(((50 * 32 + 48 * 32) / 4))
vectors "$1" TILE_Q=16 $latent-latent-lse $(((3 * 50 * 32 + 48 * 32) / 4))
vectors "$1" "" $latent-lse $(((50 * (32 + 24) + 48 * 32) / 4))
# Twelve items with four heads on two key/value heads: 24 rows each, with q in tiles of sixteen.
vectors "$1" "" decode-f32-b12-h4-hkv2-n1-nkv50-d32-dv24-full-decode-lse-past50-sharedpast-cascadealways \
    $((2 * (50 * (32 + 24) + 32 * 32) / 4))
[ $checked = 12 ] || status=1
[ $status = 0 ] && echo "$checked calls load what the formula says"
exit $status
