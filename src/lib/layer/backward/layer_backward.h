// layer_backward.h: the gradients of a layer, and the forward call that keeps the results they
// need. layer_backward.c checks and runs both. layer_backward_plan.c assigns their memory and
// chooses the projections' kernels.
#ifndef CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#define CLATTN_LAYER_BACKWARD_LAYER_BACKWARD_H
#include "attention/backward/backward.h"
#include "layer/backward/heads_backward.h"
#include "layer/block/layer.h"

// Float32 tensors of a call. The forward results are in the workspace, or in `kept`:
//    Q0, K0, V, GATES     results of the projections
//    Q, K                 q and k after their norms; without norms the same tensors as Q0 and K0
//    HEADS, LSE           results of attention
// The others are in the workspace:
//    GATED                the heads' result after the gate; without a gate the same tensor as HEADS
//    Q_SHARES, K_SHARES   each element's contribution to the gradients of the norms' weights
//    D*                   gradients
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

// Products of gradients: those of the input projections, in layer.h's order; then two of the output
// projection, for its weights and for the heads.
enum { GRADIENT_OUT = PROJECT_OUT, GRADIENT_HEADS, GRADIENTS };

// The gradient of x or y is the sum over the `count` projections that read it. If there are
// several, each writes a float32 share.
typedef struct input_shares {
    const clattn_tensor *to; // the caller's dx or dy
    int count, taken;
    int64_t stride; // elements between two shares
} input_shares;

typedef struct layer_gradients {
    layer forward;          // sizes, projections, norms and the attention call on the parts
    bool keeps;             // the forward parts are in params.kept
    bool forward_only;      // only the forward pass runs, which writes `kept` and `out`
    bool wants[GRADIENTS];  // the product is needed, for a requested gradient or an earlier step
    bool attends;           // attention's gradients are needed
    bool native;            // CLBlast is not used
    backward_job attention; // if `attends`
    linear_gradients of[GRADIENTS];
    norm_backward norm[2]; // norms of q and of k
    gate_backward gate;
    input_shares shares[2]; // contributions to dx and to dy
    clattn_tensor part[PARTS];
    cl_mem workspace, kept; // buffers of the workspace and of the kept parts
    // The size of the workspace, and the offset of the products' scratch memory in it.
    uint64_t workspace_bytes, scratch;
    uint64_t kept_bytes; // size of the parts in params.kept
    // A copy of the call's parameters. forward.params has the checked forward call instead.
    clattn_layer_backward_params params;
} layer_gradients;

// After the forward call's check: assign memory and choose kernels.
clattn_status cla_layer_gradients_plan(layer_gradients *g);
// Set the buffer of the parts in the workspace.
void cla_layer_gradients_bind(layer_gradients *g, cl_mem workspace);
#endif
