// layer.h: one layer call. layer_check.c checks it. layer_plan.c assigns its memory, and chooses
// the projections' kernels and where RoPE is applied. layer.c runs it.
#ifndef CLATTN_LAYER_BLOCK_LAYER_H
#define CLATTN_LAYER_BLOCK_LAYER_H
#include "attention/call/attention.h"
#include "layer/block/heads.h"
#include "layer/projection/linear.h"

// Projections of a layer, in the order in which they run.
enum { PROJECT_Q, PROJECT_K, PROJECT_V, PROJECT_GATE, PROJECT_OUT, PROJECTIONS };

typedef struct layer {
    clattn_context *context;
    entry_purpose purpose;
    int heads, kv_heads;
    bool native;      // projections by clattn's own kernels, not CLBlast
    bool self;        // self-attention: keys and values are made from x
    bool ready;       // the caller passes keys and values
    bool appends;     // new keys and values are appended to the caller's
    bool straight;    // the projections write them to the caches directly
    bool ragged;      // packed sequences
    bool gated;       // there is a gate
    clattn_type type; // type of q, k and v in the workspace, if native
    int64_t head_dim, head_dim_v, n_kv;
    clattn_tensor y;   // what keys and values are made from: the caller's y, or x
    bool applies_rope; // the projections of q and k, or their norms, apply RoPE
    cl_mem workspace;
    // The size of the workspace, and the offset of the projections' scratch memory in it.
    uint64_t workspace_bytes, scratch;
    norm_options norm;
    // The fields above start as zero.
    linear of[PROJECTIONS]; // the input x of of[PROJECT_OUT] is the heads' result
    head_norm q_norm, k_norm;
    call call;                  // the checked attention call on parts of the workspace
    clattn_layer_params params; // a copy; only the attention call reads host arrays
} layer;

// True if the layer has that projection.
bool cla_layer_projects(const layer *l, int projection);

// Prepare the views of the copied parameters: read addresses, and, when buffers are needed, treat
// optional views without one as absent.
void cla_layer_take_given(const layer *l, clattn_layer_params *p);
// Check the layer's own sizes, tensors, matrices and types.
clattn_status cla_layer_check(layer *l, bool planning);

// Set *size to a weight matrix's rows for each of `heads` heads. Fails if the number of rows is not
// a multiple of `heads`.
clattn_status cla_layer_check_rows(clattn_context *context, const clattn_tensor *w, const char *name,
                                   const char *letter, int heads, int64_t *size);

// Check attention's part, assign memory, and choose the kernels and where RoPE is applied.
clattn_status cla_layer_plan(layer *l);

// The whole layer in one launch, if it is small enough (layer_small.c). The last two are only for a
// layer that is.
bool cla_layer_is_small(const layer *l);
clattn_status cla_layer_small_prepare(const layer *l);
clattn_status cla_layer_small_enqueue(layer *l, chain *steps);
#endif
