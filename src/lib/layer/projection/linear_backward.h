// linear_backward.h: gradients of one projection, for the public call and for a layer's.
#ifndef CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#define CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#include "layer/projection/linear.h"

// Of y = x w^T + b. Views without a buffer and rank are absent: dx needs w, dw needs x. x, dout and dx are [B, N, size].
typedef struct linear_gradients {
    clattn_tensor x, w, dout, dx, dw, db;
    bool split; // float32 may be split into terms
    int word; // not 0: the word of an item in the table `lengths` (args.h) that says how many rows of x and dout it has:
    cl_mem lengths; // those behind have no part in dw and db, whatever they hold
    // What follows is made by cla_linear_gradients_plan.
    linear of_x, of_w; // dx = dout (w^T)^T, dw = dout^T (x^T)^T
    clattn_tensor w_turned, x_turned,
        dout_turned; // copies in scratch memory, without its buffer, where the kernel reads no others
    uint64_t scratch, scratch_bytes; // of the products, behind the copies; all of it
} linear_gradients;

// Choose kernels and lay out scratch memory from byte `at` on, of a buffer that is known later or never.
clattn_status cla_linear_gradients_plan(clattn_context *context, linear_gradients *g,
                                        clattn_projection wanted, cl_mem scratch, uint64_t at);
// Views that had no buffer when it was planned are parts of the scratch memory: now it is known.
void cla_linear_gradients_bind(linear_gradients *g, cl_mem scratch);
clattn_status cla_linear_gradients_prepare(clattn_context *context, const linear_gradients *g);
clattn_status cla_linear_gradients_enqueue(chain *steps, linear_gradients *g, cl_mem scratch);
double cla_linear_gradients_flops(const linear_gradients *g);
// Whether clattn's own kernels make all of its products.
bool cla_linear_gradients_native(const linear_gradients *g);
// Rows that a projection can sum over, which counts its reduction in 32 bits.
#define LINEAR_MOST_REDUCED (INT32_MAX - 65536)

// The sums over all rows of x = [B, N, M], into y = [M]; or into y = [parts, M], each over part_rows rows of every item.
typedef struct linear_sums {
    clattn_tensor x, y;
    int part_rows;
    int word; // as above
    cl_mem lengths;
} linear_sums;
clattn_status cla_linear_sums_prepare(clattn_context *context, const linear_sums *s);
clattn_status cla_linear_sums_enqueue(chain *steps, const linear_sums *s);
#endif
