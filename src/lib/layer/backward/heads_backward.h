// heads_backward.h: gradients of the operations on heads between projections and attention: QK-norm
// (norm_backward.cl) and the gate (gate_backward.cl). All tensors are float32 [B, heads, N, size],
// with a row's heads contiguous. All that a kernel reads is in one buffer; all that it writes is in
// one buffer, too, which may be the same.
#ifndef CLATTN_LAYER_BACKWARD_HEADS_BACKWARD_H
#define CLATTN_LAYER_BACKWARD_HEADS_BACKWARD_H
#include "layer/block/heads.h"
#include "layer/projection/linear_backward.h"

// Rows of a batch item that count: all, or the number in `word` of the item's entry in the table
// `lengths` (args.h).
typedef struct heads_rows {
    int word;
    cl_mem lengths;
} heads_rows;

// Backward pass of a norm. `x`: its input. `g`: the gradient of its result, replaced by the
// gradient of x. `shares`: each element's contribution to dw, as large as x; only with dw. `at`:
// byte in g's buffer where sums of parts of the rows may be stored.
typedef struct norm_backward {
    const head_norm *norm;
    clattn_tensor x, g, shares;
    clattn_tensor dw; // the caller's; optional
    heads_rows rows;
    uint64_t at;
} norm_backward;
uint64_t cla_norm_backward_scratch(const norm_backward *n);
double cla_norm_backward_flops(const norm_backward *n);
clattn_status cla_norm_backward_prepare(clattn_context *context, const norm_backward *n);
clattn_status cla_norm_backward_enqueue(chain *steps, const norm_backward *n);

// Backward pass of the gate. Reads gates [B, 1, N, H or H * Dv] and heads. Writes the gates'
// gradients to dgates, and the gated result to gated. dheads holds the gradient of the gated
// result, and becomes the gradient of heads. Both dgates and dheads are optional.
typedef struct gate_backward {
    clattn_tensor gates, heads, dgates, dheads, gated;
    heads_rows rows;
} gate_backward;
double cla_gate_backward_flops(const gate_backward *g);
clattn_status cla_gate_backward_prepare(clattn_context *context);
clattn_status cla_gate_backward_enqueue(chain *steps, const gate_backward *g);
#endif
