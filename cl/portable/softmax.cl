// softmax.cl: row softmax of the unfused path: weights = exp(s - lse), lse = m + ln l.
//
// One work-group of WORK_GROUP items (a power of two) per row. Each work-item runs the online
// softmax over every WORK_GROUP-th score. The states in local memory are then merged in a tree,
// always in the same order, so the same call returns the same bits.
#include "call/items.clh"
#include "call/softmax.clh"
#if RAGGED
#define RAGGED_START(table, b) (table)[TABLE_ITEM_WORDS * (long)(b) + RAGGED_START_Q]
#else
#define RAGGED_START(table, b) 0
#endif

#if WORK_GROUP < 1 || (WORK_GROUP & (WORK_GROUP - 1)) != 0
#error "WORK_GROUP is a power of two"
#endif

// With DROPOUT, the stored weights are the ones that multiply V: 0 if dropped, else scaled by
// 1/(1-p).
#if DROPOUT
// The factor of key j: 0 if the key is dropped. *quad and *drops cache the result for keys 4 * quad
// to 4 * quad + 3.
float dropout_factor(const dropout_args *a, int b, int h, int i, int j, int *quad, uint *drops) {
    if (*quad != j / 4) *drops = dropout_drops(a, b, h, i, j / 4);
    *quad = j / 4;
    return *drops >> j % 4 & 1u ? 0.0f : a->factor;
}
#endif

// scores and weights may be the same buffer: a work-item writes only elements that no other reads.
// Global size: (WORK_GROUP, rows of the chunk, items of the chunk). Local size: (WORK_GROUP, 1, 1).
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
softmax(__global const float *scores, __global ELEMENT(TYPE_WEIGHTS) * weights, __global float *lse,
        __global const int *table, const softmax_args args, const chunk_args chunk DROPOUT_ARGUMENT) {
    __local softmax_state part[WORK_GROUP];
    const int lane = (int)get_local_id(0);
    const int item = chunk.first_item + (int)get_global_id(2);
    const int b = item / args.heads, h = item % args.heads;
    const int i = chunk.first_row + (int)get_global_id(1);
    const table_item all = {args.shift, args.n_q, args.n_kv};
    const mask_rows rows = {table_item_of(args.flags, table, b, all), args.window_left, args.window_right};
    const int first = mask_first_key(&rows, i), last = mask_last_key(&rows, i), q_length = rows.item.q_length;

    softmax_state x = {-INFINITY, 0.0f};
    for (int j = first + lane; j < last; j += WORK_GROUP)
        x = softmax_add(x, scores[view_at(&args.scores, b, h, i, j)]);
    part[lane] = x;
    for (int half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the upper half's states are written
        if (lane < half_size) part[lane] = softmax_merge(part[lane], part[lane + half_size]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    x = part[0];
    if (args.flags & ARGS_SINK) x = softmax_add(x, table_head(args.flags, args.batch, table, h)[1]);
    // 0 columns, not a return after a barrier: see flash.cl
    const int columns = i < q_length ? args.n_kv : 0;

    if ((args.flags & ARGS_LSE) && lane == 0 && i < q_length)
        lse[view_row(&args.lse, b, h, i + RAGGED_START(table, b))] = softmax_lse(x);
#if DROPOUT
    int quad = -1;
    uint drops = 0;
#endif
    for (int j = lane; j < columns; j += WORK_GROUP) {
        const bool seen = j >= first && j < last;
        float p = seen ? softmax_weight(x, scores[view_at(&args.scores, b, h, i, j)]) : 0.0f;
#if DROPOUT
        p *= dropout_factor(&dropout, b, h, i, j, &quad, &drops);
#endif
        STORE(TYPE_WEIGHTS, weights, view_at(&args.weights, b, h, i, j), p);
    }
}
