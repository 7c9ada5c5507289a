// layer_backward.h: the gradients of one layer call, and the forward call that keeps what they need: layer_backward.c checks and runs
// them, layer_backward_plan.c lays out their memory and decides who multiplies.
#ifndef CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#define CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#include "attention/backward/backward.h"
#include "layer/backward/heads_backward.h"
#include "layer/block/layer.h"

// Parts, float32. Of the forward call, in the workspace or in memory that is kept: what the projections make; q and k after their norm,
// else those themselves; the heads' result; lse. In the workspace: the result behind the gate, else itself; gradients; what numbers of
// q and k add to those of their norms' weights.
typedef enum layer_part {
    PART_Q0,
    PART_K0,
    PART_V,
    PART_GATES,
    PART_Q,
    PART_K,
    PART_HEADS,
    PART_LSE,
    PARTS_FORWARD,
    PART_GATED = PARTS_FORWARD,
    PART_DGATES,
    PART_Q_SHARES,
    PART_K_SHARES,
    PART_DHEADS,
    PART_DQ,
    PART_DK,
    PART_DV,
    PART_DX,
    PART_DY,
    PARTS
} layer_part;

// Products of gradients: of the input projections, in layer.h's order, then of the output projection: of its weights, and of the heads.
enum { GRADIENT_OUT = PROJECT_OUT, GRADIENT_HEADS, GRADIENTS };

// What a gradient of x or y is the sum of: one share a projection that reads it, `count` of them, in float32 where they are several.
typedef struct input_shares {
    const clattn_tensor *to; // the caller's
    int count, taken;
    int64_t stride; // elements between two
} input_shares;

typedef struct layer_gradients {
    layer forward;          // its sizes, the projections, norms, and attention on the parts
    bool keeps;             // the parts of the forward call lie in params.kept
    bool forward_only;      // they are made, and the layer's result
    bool wants[GRADIENTS];  // gradients of these are asked for, or lead to some
    bool attends;           // those of attention
    bool native;            // nothing is CLBlast's
    backward_job attention; // where it attends
    linear_gradients of[GRADIENTS];
    norm_backward norm[2]; // of q and k
    gate_backward gate;
    input_shares shares[2]; // of x and y
    clattn_tensor part[PARTS];
    cl_mem workspace, kept;              // kept: the workspace, where nothing is
    uint64_t workspace_bytes, scratch;   // all of it; where the scratch of products starts
    uint64_t kept_bytes;                 // of the parts in params.kept
    clattn_layer_backward_params params; // a copy; forward's is forward.params
} layer_gradients;

// After forward's check: memory, who multiplies.
clattn_status cla_layer_gradients_plan(layer_gradients *g);
// The parts are in this buffer.
void cla_layer_gradients_bind(layer_gradients *g, cl_mem workspace);
#endif
