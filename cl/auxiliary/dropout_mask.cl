// dropout_mask.cl: the weights that a call's dropout keeps, as a boolean mask: 1 is kept. A
// work-item has four keys of a row.
#ifndef DROPOUT
#define DROPOUT 1
#endif
#include "call/softmax.clh"

// Global size: (ceil(Nkv / 4), Nq, B * H) or more.
__kernel void dropout_mask(__global uchar *mask, const dropout_mask_args args DROPOUT_ARGUMENT) {
    const int quad = (int)get_global_id(0), i = (int)get_global_id(1);
    const int b = (int)get_global_id(2) / args.heads, h = (int)get_global_id(2) % args.heads;
    if (4 * (long)quad >= args.n_kv || i >= args.n_q || b >= args.batch) return;
    const uint drops = dropout_drops(&dropout, b, h, i, quad);
    const int keys = min(4, args.n_kv - 4 * quad);
    for (int n = 0; n < keys; n++) mask[view_at(&args.mask, b, h, i, 4 * quad + n)] = drops >> n & 1u ? 0 : 1;
}
