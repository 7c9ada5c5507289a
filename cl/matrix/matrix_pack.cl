// matrix_pack.cl: the values of every key/value head as flash_matrix.cl takes them: V^T in tiles of 16 columns of V by 32
// keys, zero where there is no key (past the item's key length, too: what lies there may be a NaN) and past the head size.
// Global size: (blocks of 32 keys, key/value heads, batch). Enqueued by the attention entry before flash_matrix.
#ifndef TYPE_KV
#define TYPE_KV STORE_BF16
#endif
#include "call/kv.clh"
#include "call/items.clh"

#if TYPE_KV != STORE_BF16
#error "values are bfloat16"
#endif

__kernel void matrix_pack(KV_VALUE_ARGUMENTS KV_PLACE_ARGUMENTS, __global ushort *packed,
                          __global const int *table, const pack_args args) {
    const int block = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    const table_item all = {0, 0, args.n_kv};
    const table_item item = table_item_of(args.flags, table, b, all);
    const int keys = item.kv_length - block * MATRIX_PACK_KEYS;
#if RAGGED // blocks of keys that a sequence does not have are not looked at
    if (keys <= 0) return;
    v += table[TABLE_ITEM_WORDS * (long)b + RAGGED_START_KV] * args.v.row;
#endif
    const kv_buffers kv = KV_VALUES_ONLY;
    const kv_head values = kv_values_of(&args.v, &kv, b, h);
    packed += view_row(&args.packed, b, h, block);
    // Key by key: a pointer to each of them would be an array that some compilers keep in memory.
    for (int j = 0; j < MATRIX_PACK_KEYS; j++) {
        const kv_pointer row = kv_row_at(&values, block * MATRIX_PACK_KEYS + min(j, max(keys - 1, 0))).at;
        for (int d = 0; d < MATRIX_PACK_ROWS(HEAD_DIM_V); d++)
            packed[d * MATRIX_PACK_KEYS + j] = d < HEAD_DIM_V && j < keys ? row[d] : (ushort)0;
    }
}
