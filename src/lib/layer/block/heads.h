// heads.h: operations on heads, in place: QK-norm with RoPE after the projections (norm.cl), and
// the gate before the output projection (gate.cl).
#ifndef CLATTN_LAYER_BLOCK_HEADS_H
#define CLATTN_LAYER_BLOCK_HEADS_H
#include "layer/projection/linear.h"

// The norm of q or k, with RoPE if the same pass applies it.
typedef struct head_norm {
    clattn_norm how;
    clattn_tensor w; // optional: [D], or [heads * D] for CLATTN_NORM_WIDTH
    float epsilon;
    bool plus_one;
    // Several work-items share a row, as in kernels for devices whose work-items are lanes.
    bool shared;
    rope_rows rope;                 // rotary_dim 0: none
    const clattn_rope *rope_params; // the caller's, for its sections; only if `rope` has positions
    float amplitude;
} head_norm;

// Check the caller's parameters of a norm: its fields, and the weights of q and k. A NULL name
// skips a weight. heads and head_dim are the sizes of q and k.
typedef struct norm_options {
    clattn_norm how;
    float epsilon;
    bool plus_one;
    const char *names[2];
    const clattn_tensor *w[2];
    int64_t heads[2], head_dim;
} norm_options;
clattn_status cla_norm_check(clattn_context *context, const norm_options *o, bool planning);
// The norm, without RoPE, of q (which = 0) or k (1), which the projection `made` computes.
head_norm cla_norm_of(const norm_options *o, int which, const linear *made);

// cla_norm_is_needed: true if there is a norm or RoPE to apply. The other functions apply both to x
// [B, heads, N, D].
bool cla_norm_is_needed(const head_norm *n);
double cla_norm_flops(const head_norm *n, const clattn_tensor *x);
clattn_status cla_norm_prepare(clattn_context *context, const head_norm *n, clattn_type type);
clattn_status cla_norm_enqueue(chain *c, const head_norm *n, const clattn_tensor *x);

// Work-items that share a row in that kernel: a power of two up to the device's limit. 1 on devices
// where one work-item does a whole row.
int cla_norm_group(clattn_context *context, const head_norm *n, enum kernel_id kernel);

// x = [B, H, N, Dv] times sigmoid(gates), gates = [B, 1, N, H or H * Dv] of the same type.
double cla_gate_flops(const clattn_tensor *x);
clattn_status cla_gate_prepare(clattn_context *context, clattn_type type);
clattn_status cla_gate_enqueue(chain *c, const clattn_tensor *x, const clattn_tensor *gates);
#endif
