// append.h: rows of keys and values into a cache, as clattn_append_enqueue and attention do it: the launch. What is checked
// is who asks (append.c, kv_append.c).
#ifndef CLATTN_ATTENTION_KV_APPEND_H
#define CLATTN_ATTENTION_KV_APPEND_H
#include "attention/rope/rope.h"

// Checked. A side whose `rows` are NULL is absent.
typedef struct append_side {
    const clattn_tensor *rows, *cache, *scale,
        *zero; // scale: with types that have some; zero: NULL where none are made
} append_side;
typedef struct append {
    append_side k, v;
    const clattn_rope *rope; // NULL: none
    rope_rows turned;        // of it; its position is that of row 0 of the cache
    const cl_mem *table;     // APPEND_ITEM_WORDS words a batch item: start and rows; NULL: `start` and all
    int32_t start;
    bool circular;
    bool packed;   // rows are a ragged batch's, one sequence behind the other; `table` is the call's then
    int sequences; // so many
    const page_args *pages; // of caches in pages; NULL: they are not
    const cl_mem *block_table;
    bool behind_past; // the caches are, which `past` then counts; `table` is there where it has a word
    append_past_args past;
    int capacity;    // rows of an item's cache; 0: those of the view
    int rotation[2]; // of keys and of values: rows are rotated in blocks of so many columns; 0: they are not
} append;

clattn_status cla_append_prepare(clattn_context *c, const append *a);
clattn_status cla_append_enqueue(chain *steps, const append *a);
double cla_append_flops(const append *a);

// Kernels count rows of a cache in 32 bits.
#define APPEND_MOST_ROWS (INT32_MAX - 65536)

// The shapes and types of both sides against one another: new rows [B, Hkv, n, D], caches [B, Hkv, capacity, D], scales.
clattn_status cla_append_check_tensors(clattn_context *c, const append *a, bool planning);
// n rows from `start` on within the capacity, in item b; more than none.
clattn_status cla_append_check_start(clattn_context *c, const append *a, int64_t b, int64_t start,
                                     int64_t rows);
#endif
