// linear_backward.h: gradients of one projection, for the public call and for layers.
#ifndef CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#define CLATTN_LAYER_PROJECTION_LINEAR_BACKWARD_H
#include "layer/projection/linear.h"

// Gradients of y = x w^T + b. Absent views have no buffer and rank 0. dx needs w, and dw needs x.
// x, dout and dx are [B, N, size].
typedef struct linear_gradients {
    clattn_tensor x, w, dout, dx, dw, db;
    bool split; // float32 may be split into bf16 terms
    // Not 0: index of the word in an item's entry of `lengths` (args.h) that counts the item's rows
    // of x and dout. Later rows do not contribute to dw and db.
    int word;
    cl_mem lengths;
    // Set by cla_linear_gradients_plan:
    linear of_x, of_w; // dx = dout (w^T)^T, dw = dout^T (x^T)^T
    // Transposed copies in scratch memory, without a buffer yet. Unused if the kernel needs no
    // copies.
    clattn_tensor w_transposed, x_transposed, dout_transposed;
    // The offset of the products' own scratch memory behind the copies, and the bytes of all.
    uint64_t scratch, scratch_bytes;
} linear_gradients;

// Choose kernels and assign scratch memory from byte `at` on. Its buffer may be unknown: NULL.
clattn_status cla_linear_gradients_plan(clattn_context *context, linear_gradients *g,
                                        clattn_projection wanted, cl_mem scratch, uint64_t at);
// Set the scratch buffer of views that had no buffer in the plan.
void cla_linear_gradients_bind(linear_gradients *g, cl_mem scratch);
clattn_status cla_linear_gradients_prepare(clattn_context *context, const linear_gradients *g);
clattn_status cla_linear_gradients_enqueue(chain *steps, linear_gradients *g, cl_mem scratch);
double cla_linear_gradients_flops(const linear_gradients *g);
// True if clattn's own kernels compute all of its products.
bool cla_linear_gradients_native(const linear_gradients *g);

// Sums over all rows of x = [B, N, M] into y = [M]. Or into y = [parts, M]: part p sums part_rows
// rows of every item.
typedef struct linear_sums {
    clattn_tensor x, y;
    int part_rows;
    int word; // as linear_gradients.word
    cl_mem lengths;
} linear_sums;
clattn_status cla_linear_sums_prepare(clattn_context *context, const linear_sums *s);
clattn_status cla_linear_sums_enqueue(chain *steps, const linear_sums *s);
#endif
