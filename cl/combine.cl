// combine.cl: the results of `splits` disjoint key ranges of one attention call become one.
//   lse = ln(sum_s exp(lse_s)),  out = sum_s exp(lse_s - lse) out_s
// Partial results are float32. Two results that a caller holds are merge.cl's subject. Called after decode
// kernels that split the keys; global size (ceil(Dv / COMBINE_COLUMNS) or more, Nq, B*H), any local size.
// Of a ragged batch rows are those of the packed tensors: global size (..., all of them, H).
#include "table.clh"
#if RAGGED
#include "ragged.clh"
#endif

// The log-sum-exp over all ranges. A range that saw no key (-inf) is skipped; a NaN reaches the result.
float combined_lse(const combine_args *a, __global const float *lse) {
    float most = -INFINITY;
    for (int s = 0; s < a->splits; s++) most = fmax(most, lse[s * a->split_lse]);
    float sum = 0.0f;
    for (int s = 0; s < a->splits; s++) {
        const float x = lse[s * a->split_lse];
        if (x != -INFINITY) sum += exp(x - most);
    }
    return sum == 0.0f ? -INFINITY : most + log(sum);
}

// partial_out [splits][B, H, Nq, Dv], partial_lse [splits][B, H, Nq].
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
    const float total = combined_lse(&args, range_lse);
    float sum[COMBINE_COLUMNS];
    for (int c = 0; c < COMBINE_COLUMNS; c++) sum[c] = 0.0f;
    for (int s = 0; s < args.splits; s++) {
        const float x = range_lse[s * args.split_lse];
        if (x == -INFINITY) continue;
        const float weight = exp(x - total);
        for (int c = 0; c < COMBINE_COLUMNS; c++)
            if (c < columns) sum[c] = fma(weight, range_out[s * args.split_out + c], sum[c]);
    }
    const long at = view_row(&args.out, b, h, i) + first;
    for (int c = 0; c < columns; c++) STORE(TYPE_OUT, out, at + c, sum[c]);
    if (first == 0 && (args.flags & ARGS_LSE)) lse[view_row(&args.lse, b, h, i)] = total;
}
