// backward_marks.cl: for each query row, the sums over its keys of the gradients of the head's
// ALiBi slope and of the head's scale. backward_heads.cl adds them per head.
//
// A work-item owns a row; any local size works. Global size: (Nq, H, B). `marks` is the same
// scratch memory as `rows`.
#define BACKWARD_ONE
#include "backward/backward.clh"

__kernel void backward_marks(BACKWARD_INPUTS, __global float2 *marks, BACKWARD_CALL) {
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    FUSED_DECLARE_ARGS;
    BACKWARD_ITEM(b);
    const mask_rows bounds = mask_rows_of(&item_args, table, b);
    const int rows_end = min(args.n_q, bounds.item.q_length);
    const bool there = i < rows_end;
    if (i >= (RAGGED ? rows_end : args.n_q)) return;
    const kv_buffers kv = KV_BUFFERS;
    score_call call = SCORE_CALL;
    call.args = &item_args;
    const kv_head keys = kv_keys(&item_args, &kv, b, h / args.group),
                  values = kv_values(&item_args, &kv, b, h / args.group);
    const long at = b * grads.rows_batch + h * grads.rows_head + i; // index among the item's rows
    const int end = there ? mask_last_key(&bounds, i) : 0;
    float2 sum = (float2)(0.0f);
    for (int j = there ? mask_first_key(&bounds, i) : 0; j < end; j++) {
        const score_place place = {b, h, j, bounds.item.shift, i};
        float dot;
        const backward_score s = backward_one(&call, &bounds, &place, q, &keys, &values, dout,
                                              item_rows[grads.pairs + at], &dot DROPOUT_VALUE);
        if (!s.seen) continue;
        sum.x -= s.added * (float)abs_diff(i + bounds.item.shift, j);
        sum.y += s.scaled * dot;
    }
    marks[item_rows - rows + grads.marks + at] = sum;
}
