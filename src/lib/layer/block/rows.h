// rows.h: an activation of rows, as clattn_activation_enqueue does it, for projections that end in one.
#ifndef CLATTN_LAYER_BLOCK_ROWS_H
#define CLATTN_LAYER_BLOCK_ROWS_H
#include "attention/call/tensor.h"
#include "launch/chain.h"

// out = how(x) * up + residual, all [B, N, M]; up NULL or absent, residual absent: none.
typedef struct activate_rows {
    const clattn_tensor *x, *up, *residual, *out;
    clattn_activation how;
    bool in_place; // out is the caller's x, up or residual, which then changes
} activate_rows;
clattn_status cla_activate_prepare(clattn_context *context, clattn_type x, clattn_type out);
clattn_status cla_activate_enqueue(chain *steps, const activate_rows *rows);
#endif
