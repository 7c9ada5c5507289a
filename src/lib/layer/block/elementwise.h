// elementwise.h: clattn_activation_enqueue's operation on rows, for projections that end in an
// activation.
#ifndef CLATTN_LAYER_BLOCK_ELEMENTWISE_H
#define CLATTN_LAYER_BLOCK_ELEMENTWISE_H
#include "attention/call/tensor.h"
#include "launch/chain.h"

// out = how(x) * up + residual, all [B, N, M]. `up` may be NULL or absent, and residual may be
// absent.
typedef struct activate_rows {
    const clattn_tensor *x, *up, *residual, *out;
    clattn_activation how;
    bool in_place; // out is the caller's x, up or residual, and so overwrites it
} activate_rows;
clattn_status cla_activate_prepare(clattn_context *context, clattn_type x, clattn_type out);
clattn_status cla_activate_enqueue(chain *steps, const activate_rows *rows);
#endif
