// attention.c: the entry points of one attention call: plan, workspace, prepare, enqueue.
#include "attention/attention.h"

#include <string.h>

clattn_status attention_fill_plan(const call *c, size_t workspace_bytes, clattn_plan *plan) {
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
    variant_explain(&c->context->planner, &c->problem, v, plan->why);
    return CLATTN_OK;
}

clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                    clattn_plan *plan) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!plan) return context_fail(context, CLATTN_INVALID_ARGUMENT, "plan: is NULL");
    const clattn_status status = call_check(context, params, true, &c);
    return status == CLATTN_OK ? attention_fill_plan(&c, c.workspace_bytes, plan) : status;
}

clattn_status clattn_attention_workspace(clattn_context *context, const clattn_attention_params *params,
                                         size_t *bytes) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!bytes) return context_fail(context, CLATTN_INVALID_ARGUMENT, "bytes: is NULL");
    const clattn_status status = call_check(context, params, true, &c);
    if (status == CLATTN_OK) *bytes = c.workspace_bytes;
    return status;
}

clattn_status attention_prepare_call(call *c) {
    clattn_status status = CLATTN_OK;
    if (c->turns) status = rope_prepare(c);
    if (status != CLATTN_OK) return status;
    return c->variant.kernel == CLATTN_KERNEL_UNFUSED ? unfused_prepare(c) : flash_prepare(c);
}

clattn_status clattn_attention_prepare(clattn_context *context, const clattn_attention_params *params) {
    call c;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    const clattn_status status = call_check(context, params, true, &c);
    return status == CLATTN_OK ? attention_prepare_call(&c) : status;
}

clattn_status attention_enqueue_call(call *c, chain *steps) {
    if (c->empty) return CLATTN_OK;
    clattn_status status =
        attention_prepare_call(c); // a kernel that does not build fails before anything is enqueued
    if (status == CLATTN_OK) status = call_table(c);
    if (status == CLATTN_OK)
        status = workspace_take(c->context, c->params->workspace, c->workspace_bytes, &c->workspace);
    if (status == CLATTN_OK && c->turns) status = rope_enqueue(c, steps);
    if (status == CLATTN_OK)
        status =
            c->variant.kernel == CLATTN_KERNEL_UNFUSED ? unfused_enqueue(c, steps) : flash_enqueue(c, steps);
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
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) status = chain_check(context, queue, wait_count, wait_list);
    if (status == CLATTN_OK) status = call_check(context, params, false, &c);
    if (status != CLATTN_OK) return status;
    chain_begin(&steps, context, queue, wait_count, wait_list);
    status = attention_enqueue_call(&c, &steps);
    return chain_end(&steps, status, event);
}
