// values.cl: out = P V, the last step of the unfused path.
// Each work-item owns BLOCK_ROWS rows of one output column, so neighbours read neighbouring elements of V.
// A hidden key is skipped, not multiplied by its weight of 0: 0 * NaN would be NaN.
#include "mask.clh"

#define BLOCK_ROWS 4

// Global size: (columns, row blocks of the chunk, items of the chunk). args.weights views p.
__kernel void values(__global const float *p, __global const ELEMENT(TYPE_KV) * v,
                     __global ELEMENT(TYPE_OUT) * out, __global const uchar *mask, __global const int *table,
                     const attention_args args) {
    const int item = args.first_item + (int)get_global_id(2);
    const int b = item / args.heads, h = item % args.heads;
    const int column = (int)get_global_id(0);
    const int i0 = args.first_row + (int)get_global_id(1) * BLOCK_ROWS;
    const batch_row rows = batch_row_of(&args, table, b);
    const int i_end = min(min(args.n_q, rows.q_length), args.first_row + args.chunk_rows);
    if (column >= args.head_dim_v || i0 >= i_end) return;

    int first[BLOCK_ROWS], last[BLOCK_ROWS];
    float sum[BLOCK_ROWS];
    int lowest = args.n_kv, highest = 0;
    for (int r = 0; r < BLOCK_ROWS; r++) {
        const int i = i0 + r;
        first[r] = first_key(&args, &rows, i);
        last[r] = i < i_end ? last_key(&args, &rows, i) : 0;
        sum[r] = 0.0f;
        if (first[r] < last[r]) {
            lowest = min(lowest, first[r]);
            highest = max(highest, last[r]);
        }
    }
    for (int j = lowest; j < highest; j++) {
        const float x = LOAD(TYPE_KV, v, view_row(&args.v, b, h / args.group, j) + column);
        for (int r = 0; r < BLOCK_ROWS; r++) {
            const bool seen = j >= first[r] && j < last[r] && mask_keeps(&args, mask, b, h, i0 + r, j);
            if (seen) sum[r] = fma(p[view_at(&args.weights, b, h, i0 + r, j)], x, sum[r]);
        }
    }
    for (int r = 0; r < BLOCK_ROWS && i0 + r < i_end; r++)
        STORE(TYPE_OUT, out, view_row(&args.out, b, h, i0 + r) + column, sum[r]);
}
