// values.cl: out = P V, the last step of the unfused path.
//
// Each work-item computes BLOCK_ROWS rows of one output column, so neighbouring work-items read
// neighbouring elements of V. There is no local memory, and any local size works. A hidden key is
// skipped, not multiplied by its weight of 0: 0 * NaN would be NaN.
#include "call/score.clh"

#define BLOCK_ROWS 4

// Global size: (columns, row blocks of the chunk, items of the chunk). args.weights is the view of
// p. SCORE_OPS matters only for the options that hide keys.
__kernel void values(__global const float *p, KV_VALUE_ARGUMENTS KV_PLACE_ARGUMENTS,
                     __global ELEMENT(TYPE_OUT) * out, __global const int *table SCORE_ARGUMENTS, FUSED_ARGS,
                     const chunk_args chunk) {
    FUSED_DECLARE_ARGS;
    const int item = chunk.first_item + (int)get_global_id(2);
    const int b = item / args.heads, h = item % args.heads;
    const int column = (int)get_global_id(0);
    const int i0 = chunk.first_row + (int)get_global_id(1) * BLOCK_ROWS;
    const mask_rows rows = mask_rows_of(&args, table, b);
    const int i_end = min(min(args.n_q, rows.item.q_length), chunk.first_row + chunk.rows);
    if (column >= args.head_dim_v || i0 >= i_end) return;
#if RAGGED
    ragged_move_call(&args, table, b);
#endif

    int first[BLOCK_ROWS], last[BLOCK_ROWS];
    float sum[BLOCK_ROWS];
    int lowest = args.n_kv, highest = 0;
    for (int r = 0; r < BLOCK_ROWS; r++) {
        const int i = i0 + r;
        first[r] = mask_first_key(&rows, i);
        last[r] = i < i_end ? mask_last_key(&rows, i) : 0;
        sum[r] = 0.0f;
        if (first[r] < last[r]) {
            lowest = min(lowest, first[r]);
            highest = max(highest, last[r]);
        }
    }
    const kv_buffers kv = KV_VALUES_ONLY;
    const kv_head all = kv_values(&args, &kv, b, h / args.group);
    const score_call call = SCORE_CALL;
    for (int j = lowest; j < highest; j++) {
        const float x = kv_at(kv_row_at(&all, j), column, KV_VALUE);
        for (int r = 0; r < BLOCK_ROWS; r++) {
            const score_place at = {b, h, j, rows.item.shift, i0 + r};
            const bool seen = j >= first[r] && j < last[r] && score_kept(&call, &at);
            if (seen) sum[r] = MULTIPLY_ADD(p[view_at(&args.weights, b, h, i0 + r, j)], x, sum[r]);
        }
    }
    for (int r = 0; r < BLOCK_ROWS && i0 + r < i_end; r++)
        STORE(TYPE_OUT, out, view_row(&args.out, b, h, i0 + r) + column, sum[r]);
}
