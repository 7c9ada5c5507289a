// matrix_pack.cl: packs the values of every key/value head for flash_matrix.cl: V^T in tiles of 16
// columns of V by 32 keys. Missing keys and columns are 0. So are keys past the item's length,
// where memory may hold NaN. Values of int8 become bfloat16 exactly; their scales follow as
// float32, in two more rows of a block.
//
// A work-item packs 32 keys. Global size: (blocks of 32 keys, key/value heads, batch), any local
// size. Enqueued by clattn_attention_enqueue before flash_matrix.
#ifndef TYPE_KV
#define TYPE_KV STORE_BF16
#endif
#include "call/kv.clh"
#include "call/items.clh"

#if (TYPE_KV != STORE_BF16 && TYPE_KV != STORE_I8) || KV_TWO_TYPES || KV_GROUPED
#error "values are bfloat16, or int8 with a float32 scale a row"
#endif

#if VALUE_SCALED
// If the scale is infinite or NaN, the row's values become infinite or NaN. A value is also
// multiplied by weights that dropout has set to 0, which must yield NaN.
ushort bfloat_of(kv_row row, int d) {
    const float x = (float)row.at[d] * (isfinite(row.scale) ? 1.0f : row.scale);
    return (ushort)(as_uint(x) >> 16 | (isnan(x) ? 0x40u : 0u));
}
#define BFLOAT_OF bfloat_of
#define PUT_SCALE(j, x) ((__global float *)(packed + MATRIX_PACK_ROWS(HEAD_DIM_V) * MATRIX_PACK_KEYS))[j] = x
#else
#define BFLOAT_OF(row, d) (row).at[d]
#define PUT_SCALE(j, x) (void)0
#endif

__kernel void matrix_pack(KV_VALUE_ARGUMENTS KV_PLACE_ARGUMENTS, __global ushort *packed,
                          __global const int *table, const pack_args args) {
    const int block = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    const table_item all = {0, 0, args.n_kv};
    const table_item item = table_item_of(args.flags, table, b, all);
    const int keys = item.kv_length - block * MATRIX_PACK_KEYS;
#if RAGGED // a sequence has no blocks past its last key
    if (keys <= 0) return;
    const int start = table[TABLE_ITEM_WORDS * (long)b + RAGGED_START_KV];
    v += start * args.v.row;
#if VALUE_SCALED
    v_scale += start * args.v_scale.row;
#endif
#endif
    const kv_buffers kv = KV_VALUES_ONLY;
    const kv_head values = kv_values_of(&args.v, &args.v_scale, &kv, b, h);
    packed += view_row(&args.packed, b, h, block);
    // One key at a time: pointers to all keys would be an array that some compilers keep in memory.
    for (int j = 0; j < MATRIX_PACK_KEYS; j++) {
        if (j >= keys) {
            for (int d = 0; d < MATRIX_PACK_ROWS(HEAD_DIM_V); d++) packed[d * MATRIX_PACK_KEYS + j] = 0;
            PUT_SCALE(j, 0.0f);
            continue;
        }
        const kv_row row = kv_row_at(&values, block * MATRIX_PACK_KEYS + j);
        for (int d = 0; d < MATRIX_PACK_ROWS(HEAD_DIM_V); d++)
            packed[d * MATRIX_PACK_KEYS + j] = d < HEAD_DIM_V ? BFLOAT_OF(row, d) : (ushort)0;
        PUT_SCALE(j, isfinite(row.scale) ? row.scale : 1.0f);
    }
}
