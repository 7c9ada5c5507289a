// norm.cl: RMSNorm (Zhang and Sennrich 2019) of the rows of q or k after their projection, in
// place, over each head or over all heads of a row together; then RoPE. Each step is optional, and
// both use one pass over memory.
//
// A work-group of WORK_GROUP items, a power of two, has the heads of a row that share a mean. With
// ROPE, one work-item has both numbers of a pair. Local memory: WORK_GROUP partial sums. TYPE_Q is
// the type of the rows, TYPE_KV that of the weights.
#include "call/rope.clh"

#if WORK_GROUP < 1 || (WORK_GROUP & (WORK_GROUP - 1)) != 0
#error "WORK_GROUP is a power of two"
#endif
#if !STORE_IS_FLOAT(TYPE_KV)
#error "weights are float32, float16 or bfloat16"
#endif

// The sum of squares of every WORK_GROUP-th number of a head, in four independent sums.
float head_squares(const norm_args *a, __global const ELEMENT(TYPE_Q) * x, long row, int lane) {
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    int d = lane;
    for (; d + 3 * WORK_GROUP < a->head_dim; d += 4 * WORK_GROUP) {
        const float x0 = LOAD(TYPE_Q, x, row + d), x1 = LOAD(TYPE_Q, x, row + d + WORK_GROUP),
                    x2 = LOAD(TYPE_Q, x, row + d + 2 * WORK_GROUP),
                    x3 = LOAD(TYPE_Q, x, row + d + 3 * WORK_GROUP);
        s0 = MULTIPLY_ADD(x0, x0, s0), s1 = MULTIPLY_ADD(x1, x1, s1);
        s2 = MULTIPLY_ADD(x2, x2, s2), s3 = MULTIPLY_ADD(x3, x3, s3);
    }
    for (; d < a->head_dim; d += WORK_GROUP) {
        const float x0 = LOAD(TYPE_Q, x, row + d);
        s0 = MULTIPLY_ADD(x0, x0, s0);
    }
    return (s0 + s1) + (s2 + s3);
}

// Number d of a head after the norm; the head's weights begin at w_at.
float scaled(const norm_args *a, __global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
             long row, long w_at, int d, float by) {
    float value = LOAD(TYPE_Q, x, row + d);
    if (a->flags & NORM_SCALES) value *= by;
    if (a->flags & NORM_WEIGHTS) value *= LOAD(TYPE_KV, w, w_at + d) + a->more;
    return value;
}

// The position of a row: counted, or from the caller's tensor.
typedef struct norm_place {
#if POSITIONS
    __global const int *positions;
    const rope_source_args *source;
    int b, n;
#endif
    long position;
} norm_place;

long position_of(const norm_place *at, int pair) {
#if POSITIONS
    return at->positions[view_row(&at->source->positions, at->b, rope_axis(at->source, pair), at->n)];
#else
    return at->position;
#endif
}

// Store a head. All work-items of the group share it.
void write_head(const norm_args *a, __global ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
                __global const ulong *frequencies, const norm_place *at, long row, long w_at, float by,
                int lane) {
    int first = lane;
#if ROPE
    const int pairs = a->rotary_dim / 2;
    for (int pair = lane; pair < pairs; pair += WORK_GROUP) {
        const int d0 = ROPE == 2 ? 2 * pair : pair, d1 = ROPE == 2 ? d0 + 1 : pair + pairs;
        const float angle_over_pi = rope_angle_over_pi(position_of(at, pair), frequencies[pair]);
        const float c = cospi(angle_over_pi) * a->amplitude, s = sinpi(angle_over_pi) * a->amplitude;
        const float x0 = scaled(a, x, w, row, w_at, d0, by), x1 = scaled(a, x, w, row, w_at, d1, by);
        STORE(TYPE_Q, x, row + d0, x0 * c - x1 * s);
        STORE(TYPE_Q, x, row + d1, x1 * c + x0 * s);
    }
    first += a->rotary_dim;
#endif
    for (int d = first; d < a->head_dim; d += WORK_GROUP)
        STORE(TYPE_Q, x, row + d, scaled(a, x, w, row, w_at, d, by));
}

// Global size: (WORK_GROUP * rows * heads / shared, batch). Local size: (WORK_GROUP, 1).
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
norm(__global ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w, __global const ulong *frequencies,
     __global const int *table,
#if POSITIONS
     __global const int *positions,
#endif
     const norm_args args
#if POSITIONS
     ,
     const rope_source_args source
#endif
) {
    __local float part[WORK_GROUP];
    const int lane = (int)get_local_id(0), groups = args.heads / args.shared;
    const long place = (long)get_global_id(0) / WORK_GROUP;
    const int n = (int)(place / groups), head = (int)(place % groups) * args.shared;
    const int b = (int)get_global_id(1);
    float squares = 0.0f;
    if (args.flags & NORM_SCALES) {
        for (int h = head; h < head + args.shared; h++)
            squares += head_squares(&args, x, view_row(&args.x, b, h, n), lane);
    }
    part[lane] = squares;
    for (int half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the upper half is written
        if (lane < half_size) part[lane] += part[lane + half_size];
    }
    // all have read x before anyone overwrites it
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const float mean = part[0] / ((float)args.head_dim * (float)args.shared);
    const float by = 1.0f / sqrt(mean + args.epsilon);
    const int shift = (args.flags & ARGS_BATCH_ROWS) ? table[ARGS_ITEM_WORDS * (long)b] : 0;
#if POSITIONS
    const norm_place at = {positions, &source, b, n, 0};
#else
    const norm_place at = {args.position + n + shift};
#endif
    for (int h = head; h < head + args.shared; h++)
        write_head(&args, x, w, frequencies, &at, view_row(&args.x, b, h, n),
                   args.w_offset + (long)(args.shared > 1 ? h : 0) * args.head_dim, by, lane);
}
