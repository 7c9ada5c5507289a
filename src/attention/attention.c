// attention.c: the entry points of one attention call: plan, workspace, prepare, enqueue.
#include "attention/attention.h"

#include <string.h>

clattn_status cla_attention_fill_plan(const call *c, size_t workspace_bytes, clattn_plan *plan) {
    const variant *v = &c->variant;
    *plan = (clattn_plan){.kernel = v->kernel,
                          .tile_q = v->rows_per_group,
                          .tile_kv = v->knobs.tile_kv,
                          .work_group = v->work_group,
                          .splits = v->splits,
                          .matrix_instructions = v->knobs.dot_bf16 != 0,
                          .local_bytes = v->local_bytes,
                          .workspace_bytes = workspace_bytes};
    const char *name = v->kernel == CLATTN_KERNEL_UNFUSED ? "unfused" : clattn_kernel_sources[v->id].name;
    strncpy(plan->kernel_name, name, sizeof plan->kernel_name - 1);
    cla_variant_explain(&c->context->planner, &c->problem, v, plan->why);
    return CLATTN_OK;
}

clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                    clattn_plan *plan) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!plan) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "plan: is NULL");
    const clattn_status status = cla_call_check(context, params, true, &c);
    return status == CLATTN_OK ? cla_attention_fill_plan(&c, c.workspace_bytes, plan) : status;
}

clattn_status clattn_attention_workspace(clattn_context *context, const clattn_attention_params *params,
                                         size_t *bytes) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!bytes) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "bytes: is NULL");
    const clattn_status status = cla_call_check(context, params, true, &c);
    if (status == CLATTN_OK) *bytes = c.workspace_bytes;
    return status;
}

clattn_status cla_attention_prepare_call(call *c) {
    clattn_status status = CLATTN_OK;
    if (c->turns) status = cla_rope_prepare(c);
    if (status != CLATTN_OK) return status;
    return c->variant.kernel == CLATTN_KERNEL_UNFUSED ? cla_unfused_prepare(c) : cla_flash_prepare(c);
}

clattn_status clattn_attention_prepare(clattn_context *context, const clattn_attention_params *params) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    const clattn_status status = cla_call_check(context, params, true, &c);
    return status == CLATTN_OK ? cla_attention_prepare_call(&c) : status;
}

clattn_status cla_attention_enqueue_call(call *c, chain *steps) {
    if (c->empty) return CLATTN_OK;
    clattn_status status =
        cla_attention_prepare_call(c); // a kernel that does not build fails before anything is enqueued
    if (status == CLATTN_OK) status = cla_call_table(c);
    if (status == CLATTN_OK)
        status = cla_workspace_take(c->context, c->params->workspace, c->workspace_bytes, &c->workspace);
    if (status == CLATTN_OK && c->turns) status = cla_rope_enqueue(c, steps);
    if (status == CLATTN_OK)
        status = c->variant.kernel == CLATTN_KERNEL_UNFUSED ? cla_unfused_enqueue(c, steps)
                                                            : cla_flash_enqueue(c, steps);
    if (c->table) clReleaseMemObject(c->table);
    if (c->workspace) clReleaseMemObject(c->workspace);
    return status;
}

clattn_status clattn_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                       const clattn_attention_params *params, cl_uint wait_count,
                                       const cl_event *wait_list, cl_event *event) {
    if (event) *event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    chain steps;
    call c;
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = cla_chain_check(context, queue, wait_count, wait_list);
    if (status == CLATTN_OK) status = cla_call_check(context, params, false, &c);
    if (status != CLATTN_OK) return status;
    cla_chain_begin(&steps, context, queue, wait_count, wait_list);
    status = cla_attention_enqueue_call(&c, &steps);
    return cla_chain_end(&steps, status, event);
}
