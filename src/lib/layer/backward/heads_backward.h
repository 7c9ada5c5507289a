// heads_backward.h: the gradients of what a layer does to heads between its projections and attention: QK-norm (norm_backward.cl) and the
// gate (gate_backward.cl). Their tensors are float32, [B, heads, N, size] with a row's heads side by side: what is read, of one memory,
// and what is written, of another or of the same.
#ifndef CLATTN_LAYER_BACKWARD_HEADS_BACKWARD_H
#define CLATTN_LAYER_BACKWARD_HEADS_BACKWARD_H
#include "layer/block/heads.h"
#include "layer/projection/linear_backward.h"

// The rows of batch items that count: all, or the table's `word` of an item (args.h).
typedef struct heads_rows {
    int word;
    cl_mem lengths;
} heads_rows;

// x before the norm, g: the gradient of what it made, becomes that of x; shares: as large as x, where dw is given. `at`: the byte of the
// memory of g from which on sums of parts of the rows may lie.
typedef struct norm_backward {
    const head_norm *norm;
    clattn_tensor x, g, shares;
    clattn_tensor dw; // the caller's, optional
    heads_rows rows;
    uint64_t at;
} norm_backward;
uint64_t cla_norm_backward_scratch(const norm_backward *n);
double cla_norm_backward_flops(const norm_backward *n);
clattn_status cla_norm_backward_prepare(clattn_context *context, const norm_backward *n);
clattn_status cla_norm_backward_enqueue(chain *steps, const norm_backward *n);

// Of gates [B, 1, N, H or H * Dv] and heads, both read: dgates becomes the gradients of the gates; dheads, those of the gated result, the
// gradients of the heads' result; both where they are given; gated the gated result.
typedef struct gate_backward {
    clattn_tensor gates, heads, dgates, dheads, gated;
    heads_rows rows;
} gate_backward;
double cla_gate_backward_flops(const gate_backward *g);
clattn_status cla_gate_backward_prepare(clattn_context *context);
clattn_status cla_gate_backward_enqueue(chain *steps, const gate_backward *g);
#endif
