// gate_backward.cl: gradients of a layer's gate, gated = heads * sigmoid(logit): of the logits, and
// of the heads' result. It also computes the gated result again, for the gradient of the output
// projection.
//
// A work-item owns one gate and the `each` numbers that it multiplies, which it adds in order. Any
// local size works. Global size: (rows * gates of a row, batch).
#include "args/backward_args.h"
#include "base/common.clh"

__kernel void gate_backward(__global const float *forward, __global float *scratch, __global const int *table,
                            const gate_backward_args args) {
    const long b = (long)get_global_id(1), place = (long)get_global_id(0);
    const long n = place / args.columns;
    if (n >= args.rows || b >= args.batch) return;
    const bool back = args.dheads >= 0;
    const bool there = !args.word || n < table[ARGS_ITEM_WORDS * b + args.word];
    const long at = b * args.rows * args.columns + place;
    __global float *dheads = scratch + args.dheads + at * args.each,
                   *gated = scratch + args.gated + at * args.each;
    __global const float *heads = forward + args.heads + at * args.each;
    const float logit = there ? forward[args.gates + at] : 0.0f;
    // The sigmoid and its derivative, without 1 - sigmoid, which would cancel.
    const float e = exp(-fabs(logit)), half_side = 1.0f / (1.0f + e);
    const float open = logit < 0.0f ? e * half_side : half_side, slope = e * half_side * half_side;
    float sum = 0.0f;
    for (int d = 0; d < args.each; d++) {
        const float x = there ? heads[d] : 0.0f, g = there && back ? dheads[d] : 0.0f;
        sum = MULTIPLY_ADD(g, x, sum);
        gated[d] = x * open;
        if (back) dheads[d] = g * open;
    }
    if (args.dgates >= 0) scratch[args.dgates + at] = sum * slope;
}
