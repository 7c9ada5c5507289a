// backward_heads.cl: gradients of numbers per head: of sinks, from the rows' pairs alone, and of
// ALiBi slopes and head scales, from the sums of backward_marks.cl.
//
// A work-group of WORK_GROUP items, a power of two, owns a head. Over the rows of all items it
// makes ARGS_HEAD_SUMS sums in local memory and then adds them in one order, whatever WORK_GROUP
// is. Global size: (WORK_GROUP, H).
#include "args/backward_args.h"
#include "call/items.clh"

// `scratch` has the pairs of rows and of marks: backward_args.h.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
backward_heads(__global const float2 *scratch, __global const int *table, __global float *dsinks,
               __global float *dslopes, __global float *dscales, const attention_args args,
               const backward_args grads, const backward_heads_args heads) {
    __local float sums[ARGS_HEAD_RESULTS][ARGS_HEAD_SUMS];
    const int item = (int)get_local_id(0), h = (int)get_global_id(1);
    const float sink = table_sink(&args, table, h);
    const bool marked = (heads.wants & (1 << ARGS_DSLOPES | 1 << ARGS_DSCALES)) != 0;
    for (int n = item; n < ARGS_HEAD_SUMS; n += WORK_GROUP) {
        float sum[ARGS_HEAD_RESULTS] = {0.0f, 0.0f, 0.0f};
        for (int b = 0; b < args.batch; b++) {
            const mask_rows bounds = mask_rows_of(&args, table, b);
            const int end = min(args.n_q, bounds.item.q_length);
            long at = b * grads.rows_batch + h * grads.rows_head;
#if RAGGED
            at += table[TABLE_ITEM_WORDS * (long)b + RAGGED_START_Q];
#endif
            for (int i = n; i < end; i += ARGS_HEAD_SUMS) {
                const float2 row = scratch[grads.pairs + at + i];
                // exp(sink - lse) is the sink's weight in its row.
                if (sink != -INFINITY) sum[ARGS_DSINKS] -= exp(sink - row.x) * row.y;
                const float2 mark = marked ? scratch[grads.marks + at + i] : (float2)(0.0f);
                sum[ARGS_DSLOPES] += mark.x, sum[ARGS_DSCALES] += mark.y;
            }
        }
        for (int x = 0; x < ARGS_HEAD_RESULTS; x++) sums[x][n] = sum[x];
    }
    for (int left = ARGS_HEAD_SUMS / 2; left > 0; left /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int n = item; n < left; n += WORK_GROUP)
            for (int x = 0; x < ARGS_HEAD_RESULTS; x++) sums[x][n] += sums[x][n + left];
    }
    if (item > 0) return;
    if (heads.wants & 1 << ARGS_DSINKS)
        dsinks[heads.offset[ARGS_DSINKS] + h * heads.stride[ARGS_DSINKS]] = sums[ARGS_DSINKS][0];
    if (heads.wants & 1 << ARGS_DSLOPES)
        dslopes[heads.offset[ARGS_DSLOPES] + h * heads.stride[ARGS_DSLOPES]] = sums[ARGS_DSLOPES][0];
    if (heads.wants & 1 << ARGS_DSCALES)
        dscales[heads.offset[ARGS_DSCALES] + h * heads.stride[ARGS_DSCALES]] = sums[ARGS_DSCALES][0];
}
