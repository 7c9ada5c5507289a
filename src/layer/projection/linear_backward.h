// linear_backward.h: gradients of one projection, for the public call and for a layer's.
#ifndef CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#define CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#include "layer/projection/linear.h"

// Of y = x w^T + b. Views without a buffer and rank are absent: dx needs w, dw needs x. x, dout and dx are [B, N, size].
typedef struct linear_gradients {
    clattn_tensor x, w, dout, dx, dw, db;
    bool split; // float32 may be split into terms
    // What follows is made by cla_linear_gradients_plan.
    linear of_x, of_w;                             // dx = dout (w^T)^T, dw = dout^T (x^T)^T
    clattn_tensor w_turned, x_turned, dout_turned; // copies in scratch memory, without its buffer
    uint64_t scratch, scratch_bytes;               // of the products, behind the copies; all of it
} linear_gradients;

// Choose kernels and lay out scratch memory from byte `at` on, of a buffer that is known later or never.
clattn_status cla_linear_gradients_plan(clattn_context *context, linear_gradients *g,
                                        clattn_projection wanted, cl_mem scratch, uint64_t at);
clattn_status cla_linear_gradients_prepare(clattn_context *context, const linear_gradients *g);
clattn_status cla_linear_gradients_enqueue(chain *steps, linear_gradients *g, cl_mem scratch);
double cla_linear_gradients_flops(const linear_gradients *g);
#endif
