// backward_bias.cl: dbias = the gradient of the scores with a bias. It is summed over the axes
// along which the bias broadcasts, in the order of items, heads, rows and keys.
//
// A work-item owns one element of dbias and computes the scores that it sums, one by one. So each
// score of the call is computed once. There is no local memory, and any local size works. Global
// size: (rows * columns of dbias, its heads, its items).
#define BACKWARD_ONE
#include "backward/backward.clh"

__kernel void backward_bias(BACKWARD_INPUTS, __global float *dbias, BACKWARD_CALL,
                            const backward_bias_args sizes) {
    const long at = (long)get_global_id(0), columns = sizes.columns;
    if (at >= sizes.rows * columns) return;
    const int h0 = (int)get_global_id(1), b0 = (int)get_global_id(2), i0 = (int)(at / columns),
              j0 = (int)(at % columns);
    FUSED_DECLARE_ARGS;
    float sum = 0.0f;
    for (int b = b0; b < args.batch; b += sizes.batch) {
        BACKWARD_ITEM(b);
        const mask_rows bounds = mask_rows_of(&item_args, table, b);
        const int rows_end = min(item_args.n_q, bounds.item.q_length),
                  keys_end = min(item_args.n_kv, bounds.item.kv_length);
        const kv_buffers kv = KV_BUFFERS;
        score_call call = SCORE_CALL;
        call.args = &item_args;
        for (int h = h0; h < args.heads; h += sizes.heads) {
            const kv_head keys = kv_keys(&item_args, &kv, b, h / args.group),
                          values = kv_values(&item_args, &kv, b, h / args.group);
            __global const float2 *pairs = backward_rows_of(&grads, item_rows, b, h);
            for (int i = i0; i < rows_end; i += sizes.rows)
                for (int j = j0; j < keys_end; j += sizes.columns) {
                    const score_place place = {b, h, j, bounds.item.shift, i};
                    float dot;
                    sum += backward_one(&call, &bounds, &place, q, &keys, &values, dout, pairs[i],
                                        &dot DROPOUT_VALUE)
                               .added;
                }
        }
    }
    dbias[view_at(&args.VIEW_DBIAS, b0, h0, i0, j0)] = sum;
}
