// linear_attention.cl: linear attention with a recurrent state [Dk, Dv] on any device. Token by
// token: S = e^g S, u = beta (v - S^T k) or v, S += k u^T, out = scale S^T q.
//
// The columns of S are independent. ROW_ITEMS work-items share a column and have its rows in
// private memory. They add their sums through local memory. A work-group has WORK_GROUP / ROW_ITEMS
// columns of one head of one sequence. All of its work-items have the same tokens, so barriers are
// uniform.
//
// Global size: (blocks of columns * WORK_GROUP, Hs, sequences). TYPE_Q is the type of q, k and v,
// TYPE_BIAS that of decay and beta.
#ifndef ROW_ITEMS
#define ROW_ITEMS 1
#endif
#include "base/common.clh"
#include "recurrent/linear_attention.clh"

#if WORK_GROUP < ROW_ITEMS
#undef ROW_ITEMS
#define ROW_ITEMS WORK_GROUP
#endif
#if (ROW_ITEMS & (ROW_ITEMS - 1)) != 0 || WORK_GROUP % ROW_ITEMS
#error "ROW_ITEMS is a power of two that divides WORK_GROUP"
#endif
#define COLUMNS (WORK_GROUP / ROW_ITEMS)
#define ROWS_OF_ITEM ((HEAD_DIM + ROW_ITEMS - 1) / ROW_ITEMS)

// The sums of two numbers over the work-items of a column. Calls use two buffers in turn, so one
// barrier is enough: the next call's barrier separates a buffer's reads from its next writes.
float2 sum_of_column(float2 x, __local float2 *buffers, int *used) {
#if ROW_ITEMS > 1
    __local float2 *part = buffers + *used * WORK_GROUP;
    part[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    x = part[get_local_id(0) % COLUMNS];
    for (int i = 1; i < ROW_ITEMS; i++) x += part[get_local_id(0) % COLUMNS + i * COLUMNS];
    *used ^= 1;
#endif
    return x;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
linear_attention(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_Q) * k,
                 __global const ELEMENT(TYPE_Q) * v, __global const ELEMENT(TYPE_BIAS) * decay,
                 __global const ELEMENT(TYPE_BIAS) * beta, __global ELEMENT(TYPE_OUT) * out,
                 __global const ELEMENT(TYPE_STATE) * state, __global ELEMENT(TYPE_STATE) * new_state,
                 __global const int *from, __global const int *to, __global const int *starts,
                 const linear_attention_args args) {
    __local float2 buffers[ROW_ITEMS > 1 ? 2 * WORK_GROUP : 1];
    float s[ROWS_OF_ITEM];
    int used = 0;
    const int lane = (int)get_local_id(0), n = UNIFORM_ID(2), h = UNIFORM_ID(1);
    const long group = (long)get_group_id(0) + (long)(get_global_offset(0) / WORK_GROUP);
    const long column = group * COLUMNS + lane % COLUMNS;
    const bool inside = column < args.head_dim_v;
    const int c = inside ? (int)column : 0, row = lane / COLUMNS * ROWS_OF_ITEM;
    const int rows = clamp(HEAD_DIM - row, 0, ROWS_OF_ITEM);
    const token_range tokens = tokens_of(&args, starts, n);
    const int slot = first_slot(&args, from, n);
    for (int i = 0; i < ROWS_OF_ITEM; i++) s[i] = 0.0f;
    if (slot >= 0 && inside)
        for (int i = 0; i < rows; i++)
            s[i] = LOAD(TYPE_STATE, state, view_at(&args.state, slot, h, row + i, c));

    for (int t = tokens.count > 0 ? 0 : -1; t < tokens.count; t++) {
        const int b = tokens.item, at = tokens.first + t;
        if (t >= 0) {
            const long k_at = view_row(&args.k, b, h / args.k_group, at) + row;
            const long decay_at = view_at(&args.decay, b, h, at, row);
            float2 sums = (float2)(0.0f); // S^T k, and k's squares
            for (int i = 0; i < rows; i++) {
                const float x = LOAD(TYPE_Q, k, k_at + i);
                if (args.flags & LINEAR_STATE_GATED)
                    s[i] *= exp(LOAD(TYPE_BIAS, decay, decay_at + i * args.decay.column));
                sums += (float2)(x * s[i], x * x);
            }
            sums = sum_of_column(sums, buffers, &used);
            const float by = norm_factor(&args, sums.y);
            float u = inside ? LOAD(TYPE_Q, v, view_at(&args.v, b, h / args.v_group, at, c)) : 0.0f;
            if (args.flags & LINEAR_STATE_DELTA)
                u = LOAD(TYPE_BIAS, beta, view_row(&args.beta, b, h, at)) * (u - sums.x * by);
            u *= by;
            for (int i = 0; i < rows; i++) s[i] = MULTIPLY_ADD(LOAD(TYPE_Q, k, k_at + i), u, s[i]);
            for (int g = 0; g < args.out_group; g++) {
                const int to_head = h * args.out_group + g;
                const long q_at = view_row(&args.q, b, to_head / args.q_group, at) + row;
                sums = (float2)(0.0f); // S^T q, and q's squares
                for (int i = 0; i < rows; i++) {
                    const float x = LOAD(TYPE_Q, q, q_at + i);
                    sums += (float2)(x * s[i], x * x);
                }
                sums = sum_of_column(sums, buffers, &used);
                if (inside && row == 0)
                    STORE(TYPE_OUT, out, view_at(&args.out, b, to_head, at, c),
                          args.scale * norm_factor(&args, sums.y) * sums.x);
            }
        }
        const int stored = slot_after(&args, from, to, n, t, tokens.count);
        if (stored >= 0 && inside)
            for (int i = 0; i < rows; i++)
                STORE(TYPE_STATE, new_state, view_at(&args.new_state, stored, h, row + i, c), s[i]);
    }
}
