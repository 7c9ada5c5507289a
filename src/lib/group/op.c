// op.c: see op.h.
#include "group/op.h"

#include "attention/backward/backward.h"
#include "group/merge.h"

// ----------------------------------------------------------------------------------- attention ---

static clattn_status check_forward(clattn_context *context, const group_params *p, call *whole) {
    return cla_call_check(context, &p->forward, ENTRY_PLAN, 0, whole);
}

static void forward_views(call_views *v, const group_params *p) {
    cla_views_add_attention(v, &p->forward);
}

static clattn_status forward_workspace(clattn_context *context, const group_params *p, size_t *bytes) {
    return clattn_attention_workspace(context, &p->forward, bytes);
}

static clattn_status prepare_forward(clattn_context *context, const group_params *p) {
    return clattn_attention_prepare(context, &p->forward);
}

static clattn_status enqueue_forward(clattn_context *context, cl_command_queue queue, const group_params *p,
                                     cl_event *event) {
    return clattn_attention_enqueue(context, queue, &p->forward, 0, NULL, event);
}

const group_op cla_group_forward = {.rules = cla_view_rules,
                                    .rule_count = VIEW_RULES,
                                    .check = check_forward,
                                    .add_views = forward_views,
                                    .workspace = forward_workspace,
                                    .prepare = prepare_forward,
                                    .enqueue = enqueue_forward,
                                    .join = cla_merge_pieces,
                                    .store = cla_merge_store};

// ----------------------------------------------------------------------------------- gradients ---

// All of `forward` is read, including its results.
static const view_rule backward_rules[] = {
#define VIEW(field, name, axes, use, given, mask)                                                            \
    {name, offsetof(group_params, forward.field), axes, VIEW_READ, GIVEN_##given, MASK_##mask},
#include "tables/views.def"
#define GRADIENT(field, like, of, shape, types, axes, use)                                                   \
    {#field, offsetof(group_params, field), axes, VIEW_##use, GIVEN_OPTIONAL, MASK_NOTHING},
#include "tables/views.def"
};
#define BACKWARD_RULES ((int)(sizeof backward_rules / sizeof backward_rules[0]))
_Static_assert(BACKWARD_RULES <= GROUP_RULES, "a piece has room for every tensor");

static clattn_status check_backward(clattn_context *context, const group_params *p, call *whole) {
    backward_job job;
    const clattn_status status = cla_backward_check(context, p, ENTRY_PLAN, 0, &job);
    *whole = job.call;
    return status;
}

static void backward_views(call_views *v, const group_params *p) {
    cla_backward_add_views(v, p, &p->forward);
}

static clattn_status enqueue_backward(clattn_context *context, cl_command_queue queue, const group_params *p,
                                      cl_event *event) {
    return clattn_attention_backward_enqueue(context, queue, p, 0, NULL, event);
}

const group_op cla_group_backward = {.rules = backward_rules,
                                     .rule_count = BACKWARD_RULES,
                                     .sums = true,
                                     .check = check_backward,
                                     .add_views = backward_views,
                                     .workspace = clattn_attention_backward_workspace,
                                     .prepare = clattn_attention_backward_prepare,
                                     .enqueue = enqueue_backward,
                                     .join = cla_sum_pieces,
                                     .store = cla_sum_store};
