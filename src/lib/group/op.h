// op.h: the kinds of calls that a group does, attention and its gradients: what differs between them, as a table of functions. A call of
// either is kept as one of gradients, whose `forward` is all there is of an attention call; fields count from its start.
#ifndef CLATTN_GROUP_OP_H
#define CLATTN_GROUP_OP_H
#include "attention/call/call.h"
#include "attention/call/views.h"

typedef clattn_attention_backward_params group_params;

struct group_call;

typedef struct group_op {
    const view_rule *rules; // its tensors
    int rule_count;
    bool sums; // what pieces share is added, whichever boxes they are; else merged, of the same rows
    // Check and plan it without memory; the call is to be released whether it was refused or not.
    clattn_status (*check)(clattn_context *context, const group_params *p, call *whole);
    void (*add_views)(call_views *v, const group_params *p);
    clattn_status (*workspace)(clattn_context *context, const group_params *p, size_t *bytes);
    clattn_status (*prepare)(clattn_context *context, const group_params *p);
    clattn_status (*enqueue)(clattn_context *context, cl_command_queue queue, const group_params *p,
                             cl_event *event);
    // Results that pieces share become whole, in memory of the call's; and, when nothing can fail any more, the caller's.
    clattn_status (*join)(struct group_call *c);
    void (*store)(const struct group_call *c);
} group_op;

extern const group_op cla_group_forward, cla_group_backward;

#define GROUP_RULES (VIEW_RULES + 16) // at most, of an op
#define GROUP_RESULTS 8               // tensors that an op writes, at most
static inline clattn_tensor *cla_group_view(group_params *p, const view_rule *rule) {
    return (clattn_tensor *)((char *)p + rule->field);
}
#endif
