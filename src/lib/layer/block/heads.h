// heads.h: what a layer does to heads between its projections and attention, in place: QK-norm with RoPE (norm.cl), and to
// the heads' result before the output projection: the gate (gate.cl).
#ifndef CLATTN_LAYER_BLOCK_HEADS_H
#define CLATTN_LAYER_BLOCK_HEADS_H
#include "layer/projection/linear.h"

// One tensor's norm, and RoPE where it is done with it.
typedef struct head_norm {
    clattn_norm how;
    clattn_tensor w; // optional: [D], or of all heads
    float epsilon;
    bool plus_one;
    bool shared;    // work-items share a row, as those of kernels for devices whose work-items are lanes do
    rope_rows rope; // rotary_dim 0: none
    const clattn_rope *turns; // what it says of sections, where rope has positions
    float amplitude;
} head_norm;

// Check what the caller says of a norm: its fields, and the weights of q and k where their names are not NULL, of which
// each has so many heads of so many numbers.
typedef struct norm_options {
    clattn_norm how;
    float epsilon;
    bool plus_one;
    const char *names[2];
    const clattn_tensor *w[2];
    int64_t heads[2], head_dim;
} norm_options;
clattn_status cla_norm_check(clattn_context *context, const norm_options *o, bool planning);
// The norm of tensor 0 or 1, which this projection makes, without RoPE.
head_norm cla_norm_of(const norm_options *o, int which, const linear *made);

// Whether there is anything to do; then for x = [B, heads, N, D].
bool cla_norm_does(const head_norm *n);
double cla_norm_flops(const head_norm *n, const clattn_tensor *x);
clattn_status cla_norm_prepare(clattn_context *context, const head_norm *n, clattn_type type);
clattn_status cla_norm_enqueue(chain *c, const head_norm *n, const clattn_tensor *x);

// Work-items that share a row in that kernel: a power of two not above the device's limit; one where a core walks a row alone.
int cla_norm_group(clattn_context *context, const head_norm *n, enum kernel_id kernel);

// x = [B, H, N, Dv] times the sigmoid of gates = [B, 1, N, H or H * Dv], of one type.
double cla_gate_flops(const clattn_tensor *x);
clattn_status cla_gate_prepare(clattn_context *context, clattn_type type);
clattn_status cla_gate_enqueue(chain *c, const clattn_tensor *x, const clattn_tensor *gates);
#endif
