// ragged.cl: the table of a ragged batch (args.h) whose cu_seqlens lie on the device, before the kernels that read it. The
// host has not seen those numbers, and they may be anything: whatever they are, what comes out names rows of the packed
// tensors alone, of no sequence more than the caller's bound, so that no kernel reads or writes past one.
// A work-item has one sequence; with `ordered` it counts those that come before its own, which is quadratic and for few of
// them: else the order is theirs, and the units before one are what they can be at most, a part of a unit for each.
// Global size: sequences or words behind theirs, whichever are more.
#ifndef RAGGED
#define RAGGED 1
#endif
#include "call/items.clh"

#if !RAGGED
#error "it makes tables of ragged batches"
#endif

// First row and rows of sequence b.
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
// An item of a cache has all keys that the caller's lengths leave, or an array's number of them; packed ones follow the item's past.
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
