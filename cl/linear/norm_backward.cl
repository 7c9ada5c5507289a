// norm_backward.cl: the gradient of RMSNorm of the heads of q and k (norm.cl). With r = 1 /
// sqrt(mean(x^2) + epsilon), y = x r w and the gradient g of y:
//   dx = r (g w - x r mean(g w x) r)
//   dw = sum of g x r over rows and heads that share w     [Zhang and Sennrich 2019, section 4]
//
// A work-group of WORK_GROUP items has the numbers that share a mean. It stores each number's share
// of dw; column_sums.cl adds the shares. Rows past an item's length become 0. TYPE_KV is the type
// of the weights. Global size: (WORK_GROUP * rows * groups, batch).
#include "args/backward_args.h"
#include "base/common.clh"

#if WORK_GROUP < 1 || (WORK_GROUP & (WORK_GROUP - 1)) != 0
#error "WORK_GROUP is a power of two"
#endif
#if !STORE_IS_FLOAT(TYPE_KV)
#error "weights are float32, float16 or bfloat16"
#endif

float weight_of(const norm_backward_args *a, __global const ELEMENT(TYPE_KV) * w, int i) {
    return (a->flags & NORM_WEIGHTS) ? LOAD(TYPE_KV, w, a->w_offset + i) + a->more : 1.0f;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
norm_backward(__global const float *forward, __global float *scratch, __global const ELEMENT(TYPE_KV) * w,
              __global const int *table, const norm_backward_args args) {
    __local float2 part[WORK_GROUP];
    const int lane = (int)get_local_id(0);
    const long b = (long)get_global_id(1), place = (long)get_global_id(0) / WORK_GROUP;
    // Uniform.
    const bool there = !args.word || place / args.groups < table[ARGS_ITEM_WORDS * b + args.word];
    const long at = (b * args.rows * args.groups + place) * args.width;
    __global const float *x = forward + args.x + at;
    __global float *g = scratch + args.g + at, *shares = scratch + args.shares + at;
    float2 sum = (float2)(0.0f);
    for (int i = lane; there && i < args.width; i += WORK_GROUP) {
        const float by = g[i] * weight_of(&args, w, i);
        sum.x = MULTIPLY_ADD(x[i], x[i], sum.x), sum.y = MULTIPLY_ADD(by, x[i], sum.y);
    }
    part[lane] = sum;
    for (int half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the upper half is written
        if (lane < half_size) part[lane] += part[lane + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float root = 1.0f / sqrt(part[0].x / (float)args.width + args.epsilon);
    const float back = part[0].y * (root / (float)args.width);
    for (int i = lane; i < args.width; i += WORK_GROUP) {
        const float own = there ? g[i] : 0.0f, normed = there ? x[i] * root : 0.0f;
        if (args.flags & NORM_SHARES) shares[i] = own * normed;
        g[i] = there ? root * (own * weight_of(&args, w, i) - normed * back) : 0.0f;
    }
}
