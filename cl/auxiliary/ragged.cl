// ragged.cl: makes the table of a ragged batch (args.h) on the device, for cu_seqlens in device
// memory. It runs before the kernels that read the table. The host has not checked cu_seqlens, so
// all values are clamped: the table names only rows of the packed tensors, and at most the caller's
// maximum of rows per sequence. So no kernel reads or writes out of bounds.
//
// A work-item has one sequence. With `ordered`, long sequences come first: each work-item counts
// the sequences before its own, which is quadratic and used for small batches only. Otherwise
// sequences keep their order, and the units before one are an upper bound, with one partial unit
// per sequence. Global size: the larger of the number of sequences and the words behind the items'
// words.
#ifndef RAGGED
#define RAGGED 1
#endif
#include "call/items.clh"

#if !RAGGED
#error "it makes tables of ragged batches"
#endif

// The first row and the number of rows of a sequence.
typedef struct sequence_rows {
    int first, count;
} sequence_rows;

sequence_rows rows_of(__global const int *cu, long offset, long stride, int b, int total, int most) {
    const int first = clamp(cu[offset + b * stride], 0, total);
    const int end = clamp(cu[offset + (b + 1) * stride], first, total);
    const sequence_rows r = {first, min(end - first, max(most, 0))};
    return r;
}

sequence_rows queries_of(__global const int *cu, __global const int *limits, const ragged_args *a, int b) {
    return rows_of(cu, a->q_offset, a->q_stride, b, a->total_q, limits[TABLE_ITEM_WORDS * (long)b + 1]);
}
// Keys of item b. In a dense cache: the caller's length, or an array's value up to this length.
// Packed keys follow the item's past keys.
sequence_rows keys_of(__global const int *cu, __global const int *limits, const ragged_args *a, int b) {
    const int most = max(limits[TABLE_ITEM_WORDS * (long)b + 2], 0);
    const int past = clamp(a->past_word < 0 ? a->past_rows : limits[a->past_word + b], 0, most);
    sequence_rows r = {0, most};
    if (a->keys == RAGGED_KEYS_COUNTED) r.count = clamp(cu[a->kv_offset + b * a->kv_stride], 0, most);
    if (a->keys != RAGGED_KEYS_PACKED) return r;
    r = rows_of(cu, a->kv_offset, a->kv_stride, b, a->total_kv, most - past);
    r.count += past;
    return r;
}

int units_of(const ragged_args *a, int rows) {
    return (int)(((long)rows * a->unit_heads + a->unit_rows - 1) / a->unit_rows);
}

__kernel void ragged(__global const int *cu_q, __global const int *cu_kv, __global const int *limits,
                     __global int *table, const ragged_args args) {
    const int b = (int)get_global_id(0);
    const long items = TABLE_ITEM_WORDS * (long)args.batch;
    if (b < args.more_words) table[items + b] = limits[items + b];
    if (b >= args.batch) return;
    const sequence_rows q = queries_of(cu_q, limits, &args, b), kv = keys_of(cu_kv, limits, &args, b);
    __global int *item = table + TABLE_ITEM_WORDS * (long)b;
    item[0] = args.bottom_right ? kv.count - q.count : limits[TABLE_ITEM_WORDS * (long)b];
    item[1] = item[3] = q.count, item[2] = kv.count;
    item[4] = q.first, item[5] = kv.first;

    int before = units_of(&args, q.first) + b, place = b;
    if (args.ordered) {
        before = place = 0;
        for (int other = 0; other < args.batch; other++) {
            const int keys = keys_of(cu_kv, limits, &args, other).count;
            if (keys < kv.count || (keys == kv.count && other >= b)) continue;
            before += units_of(&args, queries_of(cu_q, limits, &args, other).count);
            place++;
        }
    }
    __global int *order = table + TABLE_ITEM_WORDS * (long)place;
    order[6] = before, order[7] = b;
}
