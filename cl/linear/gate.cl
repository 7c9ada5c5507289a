// gate.cl: x = x * sigmoid(gates), in place: the gate of a layer, whose logits a projection made. A
// work-item has one element.
#include "base/common.clh"

// Global size: (rows * head size, batch * heads), any local size.
__kernel void gate(__global ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_Q) * gates,
                   const gate_args args) {
    const int n = (int)((long)get_global_id(0) / args.head_dim),
              d = (int)((long)get_global_id(0) % args.head_dim);
    const int b = (int)get_global_id(1) / args.heads, h = (int)get_global_id(1) % args.heads;
    if ((long)get_global_id(0) >= (long)args.n * args.head_dim || b >= args.batch) return;
    const float g =
        LOAD(TYPE_Q, gates, view_at(&args.gate, b, 0, n, args.of_heads ? h : h * args.head_dim + d));
    const long at = view_row(&args.x, b, h, n) + d;
    STORE(TYPE_Q, x, at, LOAD(TYPE_Q, x, at) / (1.0f + exp(-g)));
}
