// attention.c: the entry points of one attention call: plan, families, workspace, prepare, enqueue.
#include "attention/call/attention.h"

#include <stdio.h>
#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/table.h"
#include "attention/call/views.h"
#include "attention/kv/kv.h"
#include "attention/run/cascade.h"
#include "attention/run/run.h"
#include "launch/workspace.h"
#include "plan/families/family.h"
#include "plan/planner.h"

clattn_status cla_attention_fill_plan(const call *c, uint64_t workspace_bytes, clattn_plan *plan) {
    const variant *v = &c->variant;
    const plan_input in = cla_planner_input(c->context, &c->problem);
    *plan =
        (clattn_plan){.kernel = v->family->path,
                      .tile_q = v->rows_per_group,
                      .tile_kv = v->knobs.tile_kv,
                      .work_group = v->work_group,
                      .splits = v->splits,
                      .matrix_instructions = v->knobs.dot_bf16 != 0 || v->knobs.dot_i8 > DOT_I8_EMULATION ||
                                             v->knobs.matrix_engine > MATRIX_ENGINE_EMULATION,
                      .local_bytes = v->local_bytes,
                      .workspace_bytes = (size_t)workspace_bytes};
    const char *name =
        plan->kernel == CLATTN_KERNEL_UNFUSED ? "unfused" : clattn_kernel_sources[v->family->id].name;
    snprintf(plan->kernel_name, sizeof plan->kernel_name, "%s", name);
    cla_variant_explain(&in, &c->problem, v, plan->why);
    if (c->cascade.on) plan->prefix_keys = c->cascade.prefix;
    cla_cascade_explain(&c->cascade, plan->why, sizeof plan->why);
    const size_t used = strlen(plan->why);
    if (c->few_rows)
        snprintf(plan->why + used, sizeof plan->why - used, "; sequences of up to %d rows by %s", c->few_rows,
                 c->few_variant.family->name);
    return CLATTN_OK;
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    call *c = job;
    call_views v;
    TRY(cla_call_check(context, params, purpose, 0, c));
    cla_views_begin(&v, context);
    cla_views_add_attention(&v, &c->params);
    TRY(cla_views_check(&v));
    if (purpose == ENTRY_ENQUEUE)
        TRY(cla_views_check_workspace(&v, &c->params.workspace, c->workspace_bytes));
    return cla_workspace_fits(context, c->params.workspace, c->workspace_bytes);
}

static clattn_status prepare(void *job) {
    return cla_attention_prepare_call(job);
}

clattn_status cla_attention_prepare_call(call *c) {
    TRY(cla_kv_append_prepare(c));
    TRY(cla_sinks_prepare(c));
    if (c->applies_rope) TRY(cla_rope_prepare(c));
    TRY(cla_hadamard_undo_on_out_prepare(c));
    TRY(cla_mixed_prepare(c));
    if (c->cascade.on) return cla_cascade_prepare(c);
    return c->variant.family->path == CLATTN_KERNEL_UNFUSED ? cla_unfused_prepare(c) : cla_flash_prepare(c);
}

double cla_attention_flops(const call *c) {
    const bool fused = c->variant.family->path != CLATTN_KERNEL_UNFUSED;
    return cla_kv_append_flops(c) + (c->applies_rope ? cla_rope_flops(c) : 0.0) +
           cla_hadamard_undo_on_out_flops(c) +
           (c->cascade.on ? cla_cascade_flops(c)
            : fused       ? cla_flash_flops(c)
                          : cla_unfused_flops(c));
}

// Append new rows of a call without query rows. Skipped for ragged batches: there the new rows
// belong to no sequence.
static clattn_status append_alone(call *c, chain *steps) {
    if (!cla_kv_appends(&c->params.kv) || c->ragged.given || cla_tensor_count(&c->params.kv.k_new) == 0)
        return CLATTN_OK;
    TRY(cla_kv_append_prepare(c));
    TRY(cla_kv_append_table(c, steps));
    if (c->applies_rope) TRY(cla_rope_frequencies(c, steps));
    cla_chain_set_progress(steps, c->params.progress, cla_kv_append_flops(c));
    return cla_kv_append_enqueue(c, steps);
}

// `few`: the second call, either of the short sequences or of each item's own keys.
static clattn_status enqueue_kernels(call *c, call *few, chain *steps) {
    const bool fused = c->variant.family->path != CLATTN_KERNEL_UNFUSED;
    if (c->cascade.on) return cla_cascade_enqueue(c, few, steps);
    TRY(fused ? cla_flash_enqueue(c, steps) : cla_unfused_enqueue(c, steps));
    return c->few_rows ? cla_mixed_enqueue(c, few, steps) : CLATTN_OK;
}

clattn_status cla_attention_enqueue_call(call *c, chain *steps) {
    if (c->empty) return append_alone(c, steps);
    TRY(cla_attention_prepare_call(c)); // compile errors must precede the first command
    TRY(cla_workspace_take(steps, c->params.workspace, c->workspace_bytes, &c->workspace));
    TRY(cla_call_table(c, steps));
    TRY(cla_kv_append_table(c, steps));
    call few;
    if (c->few_rows) TRY(cla_mixed_begin(c, &few, steps));
    if (c->cascade.on) TRY(cla_cascade_begin(c, &few, steps));
    if (c->applies_rope) TRY(cla_rope_frequencies(c, steps));
    TRY(cla_ragged_enqueue(c, steps));
    TRY(cla_sinks_enqueue(c, steps, c->with_sinks, &c->table));
    cla_chain_set_progress(steps, c->params.progress, cla_attention_flops(c));
    TRY(cla_kv_append_enqueue(c, steps));
    if (c->applies_rope) TRY(cla_rope_enqueue(c, steps));
    TRY(enqueue_kernels(c, &few, steps));
    return cla_hadamard_undo_on_out(c, steps);
}

static clattn_status run(void *job, chain *steps) {
    return cla_attention_enqueue_call(job, steps);
}
static void release(void *job) {
    cla_call_release(job);
}

static const entry attention_entry = {check, prepare, run, release};

clattn_status clattn_attention_plan(clattn_context *context, const clattn_attention_params *params,
                                    clattn_plan *plan) {
    call c;
    TRY(cla_entry_plan(&attention_entry, context, params, plan, "plan", &c));
    return cla_attention_fill_plan(&c, c.workspace_bytes, plan);
}

clattn_status clattn_attention_families(clattn_context *context, const clattn_attention_params *params,
                                        clattn_family *families, size_t capacity, size_t *count) {
    call c;
    int index = 0;
    const family *f = NULL;
    char why[256];
    if (context && capacity && !families)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "families: is NULL with a capacity");
    TRY(cla_entry_plan(&attention_entry, context, params, count, "count", &c));
    const plan_input in = cla_planner_input(context, &c.problem);
    for (*count = 0; cla_variant_review(&in, &c.problem, &c.variant, &index, &f, why); ++*count) {
        if (*count >= capacity) continue;
        clattn_family *to = &families[*count];
        *to = (clattn_family){.kernel = f->path, .taken = f == c.variant.family};
        snprintf(to->name, sizeof to->name, "%s", f->name);
        snprintf(to->why, sizeof to->why, "%s", why);
    }
    return CLATTN_OK;
}

clattn_status clattn_attention_workspace(clattn_context *context, const clattn_attention_params *params,
                                         size_t *bytes) {
    call c;
    TRY(cla_entry_plan(&attention_entry, context, params, bytes, "bytes", &c));
    *bytes = (size_t)c.workspace_bytes;
    return CLATTN_OK;
}

clattn_status clattn_attention_prepare(clattn_context *context, const clattn_attention_params *params) {
    call c;
    return cla_entry_prepare(&attention_entry, context, params, &c);
}

clattn_status clattn_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                       const clattn_attention_params *params, cl_uint wait_count,
                                       const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    call c;
    return cla_entry_enqueue(&attention_entry, context, params, &at, &c);
}
