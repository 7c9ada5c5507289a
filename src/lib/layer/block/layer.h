// layer.h: one layer call after its checks; layer_check.c checks it, layer_plan.c lays out its memory and decides who
// projects and who turns heads, layer.c runs it.
#ifndef CLATTN_LAYER_BLOCK_LAYER_H
#define CLATTN_LAYER_BLOCK_LAYER_H
#include "attention/call/attention.h"
#include "layer/block/heads.h"
#include "layer/projection/linear.h"

// Projections of a layer, in the order of their running.
enum { PROJECT_Q, PROJECT_K, PROJECT_V, PROJECT_GATE, PROJECT_OUT, PROJECTIONS };

typedef struct layer {
    clattn_context *context;
    entry_purpose purpose;
    int heads, kv_heads;
    bool native;      // projections by clattn's own kernels
    bool self;        // self-attention: x is the key/value side, too
    bool ready;       // keys and values are the caller's
    bool appends;     // those that are made go to the caller's
    bool straight;    // by the projections themselves, with no pass between
    bool ragged;      // sequences are packed
    bool gated;       // there is a gate
    clattn_type type; // of q, k, v between them, where native
    int64_t head_dim, head_dim_v, n_kv;
    clattn_tensor y; // the key/value side: the caller's y, or x
    bool turns;      // the projections of q and k, or the pass of their norm, turn the heads (RoPE)
    cl_mem workspace;
    uint64_t workspace_bytes, scratch; // all of it; where the projections' scratch starts
    norm_options norm;
    // All fields before these start as zero.
    linear of[PROJECTIONS]; // of[PROJECT_OUT].x is the heads' result
    head_norm q_norm, k_norm;
    call call;                  // attention on parts of the workspace, checked
    clattn_layer_params params; // a copy; host arrays are read once, by the attention call
} layer;

// Whether the layer makes that projection.
bool cla_layer_projects(const layer *l, int projection);

// Views of the layer's copy of the parameters: addresses are taken, and where buffers are needed, optional ones without are absent.
void cla_layer_take_given(const layer *l, clattn_layer_params *p);
// Check what is the layer's own: sizes, tensors, matrices, types.
clattn_status cla_layer_check(layer *l, bool planning);

// How many rows of a weight matrix a head has, of so many heads.
clattn_status cla_layer_check_rows(clattn_context *context, const clattn_tensor *w, const char *name,
                                   const char *letter, int heads, int64_t *size);

// Then the rest: attention's part of the check, memory, who projects, who turns.
clattn_status cla_layer_plan(layer *l);

// All of it in one launch, where its work is small and of one kind (layer_small.c): whether it is; then for a layer that is.
bool cla_layer_is_small(const layer *l);
clattn_status cla_layer_small_prepare(const layer *l);
clattn_status cla_layer_small_enqueue(layer *l, chain *steps);
#endif
