// backward_rows.cl: per query row, a pair for the gradients: the forward log-sum-exp, and
//   delta = sum_c dout[c] out[c] - dlse     [Dao 2023, FlashAttention-2, algorithm 2]
// A row without visible keys, or past its item's length, gets +infinity and 0. All its weights are
// then 0, whatever its memory holds. It runs before all other kernels of gradients. A work-item has
// one row; any local size works. Global size: (Nq, H, B).
#include "args/backward_args.h"
#include "call/items.clh"

// TYPE_Q is the type of out, TYPE_OUT that of dout.
__kernel void backward_rows(__global const ELEMENT(TYPE_Q) * out, __global const ELEMENT(TYPE_OUT) * dout,
                            __global const float *lse, __global const float *dlse, __global const int *table,
                            __global float2 *rows, const backward_rows_args args) {
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    if (i >= args.n_q || h >= args.heads || b >= args.batch) return;
    const table_item all = {0, args.n_q, 0}, item = table_item_of(args.flags, table, b, all);
    long row = i;
#if RAGGED
    if (i >= item.q_length) return;
    row += table[TABLE_ITEM_WORDS * (long)b + RAGGED_START_Q];
#endif
    float2 pair = (float2)(INFINITY, 0.0f);
    if (i < item.q_length) {
        const float sum = lse[args.lse.offset + b * args.lse.batch + h * args.lse.head + row * args.lse.row];
        __global const ELEMENT(TYPE_Q) *x =
            out + args.out.offset + b * args.out.batch + h * args.out.head + row * args.out.row;
        __global const ELEMENT(TYPE_OUT) *y =
            dout + args.dout.offset + b * args.dout.batch + h * args.dout.head + row * args.dout.row;
        float delta = 0.0f;
        for (int d = 0; d < args.head_dim_v; d++)
            delta = MULTIPLY_ADD(LOAD(TYPE_Q, x, d), LOAD(TYPE_OUT, y, d), delta);
        if (args.gives & ARGS_DLSE)
            delta -= dlse[args.dlse.offset + b * args.dlse.batch + h * args.dlse.head + row * args.dlse.row];
        if (sum != -INFINITY) pair = (float2)(sum, delta);
    }
    rows[args.pairs + b * args.rows_batch + h * args.rows_head + row] = pair;
}
