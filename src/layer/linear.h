// linear.h: the seam of the projections: y = x W^T + b. CLBlast stands behind it; what beats it on a device
// goes here.
#ifndef CLATTN_LAYER_LINEAR_H
#define CLATTN_LAYER_LINEAR_H
#include "attention/tensor.h"
#include "layer/clblast.h"

typedef struct linear {
    clattn_tensor x; // [B, N, K], last stride 1
    clattn_tensor w; // [M, K], last stride 1
    clattn_tensor b; // optional [M]
    clattn_tensor y; // [B, N, M], last stride 1
} linear;

// Scratch bytes of one call, for conversions that CLBlast needs.
size_t linear_scratch(const linear *l);

// Compile what a call needs besides CLBlast's own kernels.
clattn_status linear_prepare(clattn_context *context, const linear *l);

// Enqueue; `scratch` holds linear_scratch bytes from byte `at` on.
clattn_status linear_enqueue(chain *c, const linear *l, cl_mem scratch, size_t at);
#endif
