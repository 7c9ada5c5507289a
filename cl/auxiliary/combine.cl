// combine.cl: merge the results of one call over `splits` disjoint ranges of keys.
//   m = max_s m_s,   l = sum_s l_s exp(m_s - m),   lse = m + ln l
//   out = sum_s l_s exp(m_s - m) / l out_s
//
// Partial results are float32 rows and the state (m_s, l_s) of each row and range, stored by
// softmax_store of softmax.clh. (merge.cl merges two results of a caller.)
//
// A work-item owns COMBINE_COLUMNS columns of a row. Global size: (ceil(Dv / COMBINE_COLUMNS) or
// more, Nq, B*H); in a ragged batch (..., all packed rows, H). There is no local memory, and any
// local size works.
#include "call/softmax.clh"
#include "call/items.clh"

// The maximum and the sum over all ranges. A range without visible keys has -infinity and 0. A NaN
// remains in the result.
softmax_state combined(const combine_args *a, __global const float *lse) {
    softmax_state x = {-INFINITY, 0.0f};
    for (int s = 0; s < a->splits; s++) x.m = fmax(x.m, lse[s * a->split_lse]);
    const float base = softmax_base(x.m);
    for (int s = 0; s < a->splits; s++) x.l += lse[s * a->split_lse + 1] * exp(lse[s * a->split_lse] - base);
    return x;
}

// partial_out [splits][B, H, Nq, Dv], partial_lse [splits][B, H, Nq, 2].
__kernel void combine(__global const float *partial_out, __global const float *partial_lse,
                      __global ELEMENT(TYPE_OUT) * out, __global float *lse, __global const int *table,
                      const combine_args args) {
    const int first = (int)get_global_id(0) * COMBINE_COLUMNS, i = (int)get_global_id(1);
    const int b = (int)get_global_id(2) / args.heads, h = (int)get_global_id(2) % args.heads;
    const table_item all = {0, args.n_q, 0};
#if RAGGED
    if (first >= args.head_dim_v || i >= args.n_q || b > 0 || args.batch == 0) return;
    const ragged_row at_row = ragged_row_of(table, args.batch, RAGGED_START_Q, i);
    if (at_row.i >= table_item_of(args.flags, table, at_row.b, all).q_length) return;
#else
    if (first >= args.head_dim_v || i >= args.n_q || b >= args.batch) return;
    if (i >= table_item_of(args.flags, table, b, all).q_length) return;
#endif

    __global const float *range_lse = partial_lse + view_row(&args.partial_lse, b, h, i);
    __global const float *range_out = partial_out + view_row(&args.partial_out, b, h, i) + first;
    const int columns = min(COMBINE_COLUMNS, args.head_dim_v - first);
    const softmax_state whole = combined(&args, range_lse);
    const float base = softmax_base(whole.m), factor = 1.0f / whole.l;
    float sum[COMBINE_COLUMNS];
    for (int c = 0; c < COMBINE_COLUMNS; c++) sum[c] = 0.0f;
    for (int s = 0; s < args.splits; s++) {
        const float l = range_lse[s * args.split_lse + 1];
        if (l == 0.0f) continue;
        const float weight = l * exp(range_lse[s * args.split_lse] - base) * factor;
        for (int c = 0; c < COMBINE_COLUMNS; c++)
            if (c < columns) sum[c] = MULTIPLY_ADD(weight, range_out[s * args.split_out + c], sum[c]);
    }
    const long at = view_row(&args.out, b, h, i) + first;
    for (int c = 0; c < columns; c++) STORE(TYPE_OUT, out, at + c, sum[c]);
    if (first == 0 && (args.flags & ARGS_LSE)) lse[view_row(&args.lse, b, h, i)] = softmax_lse(whole);
}
