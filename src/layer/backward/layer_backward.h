// layer_backward.h: the gradients of one layer call: layer_backward.c checks and runs it, layer_backward_plan.c lays out its memory and
// decides who multiplies.
#ifndef CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#define CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#include "attention/backward/backward.h"
#include "layer/backward/heads_backward.h"
#include "layer/block/layer.h"

// Parts of the workspace, float32: what the projections make; q and k after their norm, else those themselves; the heads' result, and
// behind the gate, else itself; gradients. Those of the gates take the gates' place.
typedef enum layer_part {
    PART_Q0,
    PART_K0,
    PART_V,
    PART_GATES,
    PART_Q,
    PART_K,
    PART_HEADS,
    PART_GATED,
    PART_LSE,
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
    layer forward;          // its sizes, the input projections, norms, and attention on the parts
    bool wants[GRADIENTS];  // gradients of these are asked for, or lead to some
    bool attends;           // those of attention
    bool native;            // nothing is CLBlast's
    backward_job attention; // where it attends
    linear_gradients of[GRADIENTS];
    norm_backward norm[2]; // of q and k
    gate_backward gate;
    input_shares shares[2]; // of x and y
    clattn_tensor part[PARTS];
    cl_mem workspace;
    uint64_t workspace_bytes, scratch;   // all of it; where the scratch of products starts
    clattn_layer_backward_params params; // a copy; forward's is forward.params
} layer_gradients;

// After forward's check: memory, who multiplies.
clattn_status cla_layer_gradients_plan(layer_gradients *g);
// The parts are in this buffer.
void cla_layer_gradients_bind(layer_gradients *g, cl_mem workspace);
#endif
