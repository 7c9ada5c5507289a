// op.h: the differences between a group's two operations, attention and its gradients, as a table
// of functions. The parameters are those of gradients; attention uses only their `forward`. Offsets
// of fields count from the start of these parameters.
#ifndef CLATTN_GROUP_OP_H
#define CLATTN_GROUP_OP_H
#include "attention/call/call.h"
#include "attention/call/views.h"

typedef clattn_attention_backward_params group_params;

struct group_call;

typedef struct group_op {
    const view_rule *rules; // the tensors of the operation
    int rule_count;
    // True: shared results are summed over all pieces. False: results of pieces of the same rows
    // are merged.
    bool sums;
    // Check and plan the call without memory. `whole` must be released, also after an error.
    clattn_status (*check)(clattn_context *context, const group_params *p, call *whole);
    void (*add_views)(call_views *v, const group_params *p);
    clattn_status (*workspace)(clattn_context *context, const group_params *p, size_t *bytes);
    clattn_status (*prepare)(clattn_context *context, const group_params *p);
    clattn_status (*enqueue)(clattn_context *context, cl_command_queue queue, const group_params *p,
                             cl_event *event);
    // join: combine shared results in the call's memory. store: write them to the caller's memory,
    // when nothing can fail any more.
    clattn_status (*join)(struct group_call *c);
    void (*store)(const struct group_call *c);
} group_op;

extern const group_op cla_group_forward, cla_group_backward;

#define GROUP_RULES (VIEW_RULES + 16) // most rules of an operation
#define GROUP_RESULTS 8               // most tensors that an operation writes
static inline clattn_tensor *cla_group_view(group_params *p, const view_rule *rule) {
    return (clattn_tensor *)((char *)p + rule->field);
}
#endif
