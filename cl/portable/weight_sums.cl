// weight_sums.cl: sums[j] = the sum of key j's weights over all query rows, in the unfused path. An
// application evicts keys with small sums from its cache.
//
// A work-item owns one key of one head. It sums runs of SUM_ROWS rows and then adds the runs, which
// rounds less than one long chain. A chunk of rows adds to the result of the previous chunk.
#include "call/items.clh"
#include "call/softmax.clh"

#define SUM_ROWS 64

// Global size: (n_kv or more, items of the chunk).
__kernel void weight_sums(__global const float *weights, __global float *sums, __global const int *table,
                          const softmax_args args, const chunk_args chunk) {
    const int j = (int)get_global_id(0), item = chunk.first_item + (int)get_global_id(1);
    const int b = item / args.heads, h = item % args.heads;
    const table_item all = {args.shift, args.n_q, args.n_kv};
    if (j >= args.n_kv) return;
    const int q_length = table_item_of(args.flags, table, b, all).q_length;
    const int end = min(chunk.first_row + chunk.rows, q_length);
    const long at = view_at(&args.weights, b, h, 0, j);
    float sum = chunk.first_row > 0 ? sums[at] : 0.0f;
    for (int first = chunk.first_row; first < end; first += SUM_ROWS) {
        float part = 0.0f;
        for (int i = first; i < min(end, first + SUM_ROWS); i++)
            part += weights[view_at(&args.scores, b, h, i, j)];
        sum += part;
    }
    sums[at] = sum;
}
