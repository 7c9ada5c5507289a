// append.h: append rows of keys and values to a cache, for clattn_append_enqueue and for attention.
// append.c and kv_append.c check the arguments.
#ifndef CLATTN_ATTENTION_KV_APPEND_H
#define CLATTN_ATTENTION_KV_APPEND_H
#include "attention/rope/rope.h"

// Keys or values: new rows and their cache, already checked. `rows` is NULL for an absent side.
// `scale` is for types with scales. `zero` is NULL without zero points.
typedef struct append_side {
    const clattn_tensor *rows, *cache, *scale, *zero;
} append_side;
typedef struct append {
    append_side k, v;
    const clattn_rope *rope; // RoPE of the keys; NULL: none
    rope_rows roped;         // RoPE of the new rows; `position` belongs to row 0 of the cache
    // APPEND_ITEM_WORDS words per batch item: start and row count. NULL: `start` and all rows.
    const cl_mem *table;
    int32_t start;
    bool circular;
    bool packed;            // rows are packed, and `table` is the call's table
    int sequences;          // number of sequences if packed
    const page_args *pages; // pages of a paged cache; NULL: not paged
    const cl_mem *block_table;
    // Past keys precede the cache, and `past` counts them. If `past` names a table word, `table` is
    // set.
    bool behind_past;
    append_past_args past;
    int capacity; // rows of an item's cache; 0: those of the view
    // Hadamard-transform block size, in columns, of keys and of values. 0: none.
    int rotation[2];
} append;

clattn_status cla_append_prepare(clattn_context *c, const append *a);
clattn_status cla_append_enqueue(chain *steps, const append *a);
double cla_append_flops(const append *a);

// Check shapes and types of both sides: new rows [B, Hkv, n, D], caches [B, Hkv, capacity, D], and
// their scales.
clattn_status cla_append_check_tensors(clattn_context *c, const append *a, bool planning);
// Check that `rows` rows from `start` on fit the capacity of item b.
clattn_status cla_append_check_start(clattn_context *c, const append *a, int64_t b, int64_t start,
                                     int64_t rows);
#endif
