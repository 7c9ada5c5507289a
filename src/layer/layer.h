// layer.h: one layer call after its checks; layer.c plans and runs it, layer_check.c checks it.
#ifndef CLATTN_LAYER_LAYER_H
#define CLATTN_LAYER_LAYER_H
#include "attention/attention.h"
#include "layer/linear.h"

typedef struct layer {
    clattn_context *context;
    entry_purpose purpose;
    int heads, kv_heads;
    bool native;      // projections by clattn's own kernels
    bool self;        // self-attention: x is the key/value side, too
    clattn_type type; // of q, k, v between them, where native
    int64_t head_dim, head_dim_v;
    clattn_tensor y; // the key/value side: the caller's y, or x
    bool turns;      // the projections of q and k turn the heads that they make (RoPE)
    cl_mem workspace;
    uint64_t workspace_bytes, scratch; // all of it; where the projections' scratch starts
    // What is before these starts as zero.
    linear q, k, v, o;          // the four projections
    call call;                  // attention on parts of the workspace, checked
    clattn_layer_params params; // a copy; host arrays are read once, by the attention call
} layer;

// Check what is the layer's own: sizes, tensors, matrices, types.
clattn_status cla_layer_check(layer *l, bool planning);
#endif
