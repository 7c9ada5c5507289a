// linear_attention_lanes.cl: linear attention with a recurrent state [Dk, Dv], for CPUs, with
// columns of the state in vector lanes. See linear_attention.cl for the recurrence.
//
// A work-item has ROW_VECTORS vectors of columns of one head of one sequence. Its part of the state
// stays in private memory, and so in the first-level cache. A token needs two passes over it.
//
//    1  a = S^T (e^g k),  b = S^T (e^g q)
//    2  u = beta (v - a) or v,  S = e^g S + k u^T
//
// The result is b + (q . k) u, which equals S^T q after the second pass. Each further query head of
// the same state needs one more pass.
//
// Local size 1; global size (blocks of columns, Hs, sequences).
#ifndef ROW_VECTORS
#define ROW_VECTORS 4
#endif
#include "lanes/lanes.clh"
#include "recurrent/linear_attention.clh"

#define BLOCK (ROW_VECTORS * LANES)
#define PADDED ((HEAD_DIM + LANES - 1) / LANES * LANES)
// Repeat a statement for each vector r of a block.
#define EACH_VECTOR _Pragma("unroll") for (int r = 0; r < ROW_VECTORS; r++)

// Load or store the vectors of a block, whose first column is at p[at]. The row has `left` more
// columns from there. Columns past its end are loaded as 0, and not stored.
#define LOAD_BLOCK(type, p, at, to, left)                                                                    \
    EACH_VECTOR(to)                                                                                          \
    [r] = (left) >= BLOCK       ? LOAD_LANES(type, p, (at) + r * LANES)                                      \
          : r * LANES >= (left) ? (VEC)(0.0f)                                                                \
                                : LOAD_LANES_UP_TO(type, p, (at) + r * LANES, (left)-r * LANES)
#define STORE_BLOCK(type, p, at, from, left)                                                                 \
    EACH_VECTOR if ((left) >= BLOCK) STORE_LANES(type, p, (at) + r * LANES, (from)[r]);                      \
    else if (r * LANES < (left)) STORE_LANES_UP_TO(type, p, (at) + r * LANES, (from)[r], (left)-r * LANES)

// A row of q or k as float32. Returns the sum of its squares; the numbers past HEAD_DIM are 0.
REGISTER_INLINE float load_row(__global const ELEMENT(TYPE_Q) * p, long at, float *row) {
    VEC squares = (VEC)(0.0f);
    for (int d = 0; d < HEAD_DIM; d += LANES) {
        const VEC x = LOAD_LANES_UP_TO(TYPE_Q, p, at + d, HEAD_DIM - d);
        *(VEC *)(row + d) = x;
        squares += x * x;
    }
    return sum_lanes(squares);
}

REGISTER_INLINE float dot_rows(const float *x, const float *y) {
    VEC sums = (VEC)(0.0f);
    for (int d = 0; d < PADDED; d += LANES) sums = fma(*(const VEC *)(x + d), *(const VEC *)(y + d), sums);
    return sum_lanes(sums);
}

// e^g for each row of the state.
REGISTER_INLINE void load_factors(const linear_attention_args *args,
                                  __global const ELEMENT(TYPE_BIAS) * decay, long at, float *factors) {
    if (args->flags & LINEAR_STATE_COLUMNS) {
        for (int d = 0; d < HEAD_DIM; d += LANES)
            *(VEC *)(factors + d) = exp(LOAD_LANES_UP_TO(TYPE_BIAS, decay, at + d, HEAD_DIM - d));
        return;
    }
    const float factor = args->flags & LINEAR_STATE_GATED ? exp(LOAD(TYPE_BIAS, decay, at)) : 1.0f;
    for (int d = 0; d < PADDED; d += LANES) *(VEC *)(factors + d) = (VEC)(factor);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
linear_attention_lanes(__global const ELEMENT(TYPE_Q) * q, __global const ELEMENT(TYPE_Q) * k,
                       __global const ELEMENT(TYPE_Q) * v, __global const ELEMENT(TYPE_BIAS) * decay,
                       __global const ELEMENT(TYPE_BIAS) * beta, __global ELEMENT(TYPE_OUT) * out,
                       __global const ELEMENT(TYPE_STATE) * state, __global ELEMENT(TYPE_STATE) * new_state,
                       __global const int *from, __global const int *to, __global const int *starts,
                       const linear_attention_args args) {
    VEC s[HEAD_DIM * ROW_VECTORS];
    float of_k[PADDED] LANES_ALIGNED, of_q[PADDED] LANES_ALIGNED, factors[PADDED] LANES_ALIGNED;
    const int h = UNIFORM_ID(1), n = UNIFORM_ID(2), first = UNIFORM_ID(0) * BLOCK;
    const int left = args.head_dim_v - first;
    const token_range tokens = tokens_of(&args, starts, n);
    const int b = tokens.item, slot = first_slot(&args, from, n);
    if (slot >= 0) {
        const long at = view_at(&args.state, slot, h, 0, first);
        for (int d = 0; d < HEAD_DIM; d++)
            LOAD_BLOCK(TYPE_STATE, state, at + d * args.state.row, s + d * ROW_VECTORS, left);
    } else
        for (int d = 0; d < HEAD_DIM * ROW_VECTORS; d++) s[d] = (VEC)(0.0f);

    for (int t = tokens.count > 0 ? 0 : -1; t < tokens.count; t++) {
        const int at = tokens.first + t, head = h * args.out_group;
        if (t >= 0) {
            VEC sum_k[ROW_VECTORS], sum_q[ROW_VECTORS], u[ROW_VECTORS];
            const float by_k =
                            norm_factor(&args, load_row(k, view_row(&args.k, b, h / args.k_group, at), of_k)),
                        by_q = norm_factor(&args,
                                           load_row(q, view_row(&args.q, b, head / args.q_group, at), of_q));
            load_factors(&args, decay, view_row(&args.decay, b, h, at), factors);
            EACH_VECTOR sum_k[r] = sum_q[r] = (VEC)(0.0f);
            for (int d = 0; d < HEAD_DIM; d++) {
                const VEC x = (VEC)(of_k[d] * factors[d]), y = (VEC)(of_q[d] * factors[d]);
                EACH_VECTOR {
                    sum_k[r] = fma(x, s[d * ROW_VECTORS + r], sum_k[r]);
                    sum_q[r] = fma(y, s[d * ROW_VECTORS + r], sum_q[r]);
                }
            }
            LOAD_BLOCK(TYPE_Q, v, view_at(&args.v, b, h / args.v_group, at, first), u, left);
            if (args.flags & LINEAR_STATE_DELTA) {
                const float share = LOAD(TYPE_BIAS, beta, view_row(&args.beta, b, h, at));
                EACH_VECTOR u[r] = share * (u[r] - by_k * sum_k[r]);
            }
            const float both = dot_rows(of_q, of_k);
            EACH_VECTOR {
                u[r] *= by_k;
                sum_q[r] = args.scale * by_q * fma((VEC)(both), u[r], sum_q[r]);
            }
            STORE_BLOCK(TYPE_OUT, out, view_at(&args.out, b, head, at, first), sum_q, left);
            for (int d = 0; d < HEAD_DIM; d++) {
                const VEC x = (VEC)(of_k[d]), factor = (VEC)(factors[d]);
                EACH_VECTOR s[d * ROW_VECTORS + r] = fma(x, u[r], factor * s[d * ROW_VECTORS + r]);
            }
            for (int g = 1; g < args.out_group; g++) {
                const float by =
                    args.scale *
                    norm_factor(&args,
                                load_row(q, view_row(&args.q, b, (head + g) / args.q_group, at), of_q));
                EACH_VECTOR sum_q[r] = (VEC)(0.0f);
                for (int d = 0; d < HEAD_DIM; d++)
                    EACH_VECTOR sum_q[r] = fma((VEC)(of_q[d]), s[d * ROW_VECTORS + r], sum_q[r]);
                EACH_VECTOR sum_q[r] *= by;
                STORE_BLOCK(TYPE_OUT, out, view_at(&args.out, b, head + g, at, first), sum_q, left);
            }
        }
        const int stored = slot_after(&args, from, to, n, t, tokens.count);
        if (stored >= 0) {
            const long to_row = view_at(&args.new_state, stored, h, 0, first);
            for (int d = 0; d < HEAD_DIM; d++)
                STORE_BLOCK(TYPE_STATE, new_state, to_row + d * args.new_state.row, s + d * ROW_VECTORS,
                            left);
        }
    }
}
