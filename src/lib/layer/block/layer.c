// layer.c: a multi-head attention layer. It consists of projections, norm and RoPE of heads,
// attention, the gate, and the output projection.
#include "layer/block/layer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/call/table.h"
#include "base/host.h"
#include "launch/workspace.h"
#include "layer/projection/projector.h"

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    layer *l = job;
    cla_bytes_zero(l, offsetof(layer, of));
    l->context = context;
    l->purpose = purpose;
    l->call.arrays = l->call.ragged.words = NULL; // cla_call_release reads these
    cla_bytes_copy(&l->params, params, sizeof l->params);
    cla_layer_take_given(l, &l->params);
    TRY(cla_layer_check(l, purpose != ENTRY_ENQUEUE));
    return cla_layer_plan(l);
}

// True if one launch computes q, k and v: self-attention of few rows.
static bool shares_launch(const layer *l) {
    const linear *of = l->of;
    return l->native && l->self &&
           cla_linear_native_shares_launch(
               (const linear *const[3]){&of[PROJECT_Q], &of[PROJECT_K], &of[PROJECT_V]});
}

static clattn_status prepare_heads(layer *l) {
    const linear *of = l->of;
    TRY(cla_norm_prepare(l->context, &l->q_norm, of[PROJECT_Q].y.type));
    if (!l->ready) TRY(cla_norm_prepare(l->context, &l->k_norm, of[PROJECT_K].y.type));
    return l->gated ? cla_gate_prepare(l->context, of[PROJECT_OUT].x.type) : CLATTN_OK;
}

static clattn_status prepare(void *job) {
    layer *l = job;
    if (cla_layer_is_small(l)) return cla_layer_small_prepare(l);
    const bool shared = shares_launch(l); // then k and v need no kernels of their own
    TRY(cla_attention_prepare_call(&l->call));
    TRY(prepare_heads(l));
    for (int i = 0; i < PROJECTIONS; i++)
        if (cla_layer_projects(l, i) && !(shared && (i == PROJECT_K || i == PROJECT_V)))
            TRY(cla_linear_prepare(l->context, &l->of[i]));
    return CLATTN_OK;
}

static clattn_status enqueue_inputs(layer *l, chain *steps) {
    linear *of = l->of;
    const linear *const all[3] = {&of[PROJECT_Q], &of[PROJECT_K], &of[PROJECT_V]};
    const bool shared = shares_launch(l);
    if (of[PROJECT_Q].sequences > 0) TRY(cla_ragged_enqueue(&l->call, steps));
    for (int i = PROJECT_Q; i <= PROJECT_V; i++)
        if (of[i].sequences > 0) of[i].rope.table = l->call.table;
    if (shared) TRY(cla_linear_native_enqueue_three(steps, all));
    for (int i = shared ? PROJECT_GATE : PROJECT_Q; i < PROJECT_OUT; i++)
        if (cla_layer_projects(l, i)) TRY(cla_linear_enqueue(steps, &of[i], l->workspace, l->scratch));
    TRY(cla_norm_enqueue(steps, &l->q_norm, &of[PROJECT_Q].y));
    return l->ready ? CLATTN_OK : cla_norm_enqueue(steps, &l->k_norm, &of[PROJECT_K].y);
}

static clattn_status enqueue_output(layer *l, chain *steps) {
    const linear *o = &l->of[PROJECT_OUT];
    if (l->gated) TRY(cla_gate_enqueue(steps, &o->x, &l->of[PROJECT_GATE].y));
    return cla_linear_enqueue(steps, o, l->workspace, l->scratch);
}

// Set the buffers that kernels with RoPE read.
static void bind_rope(layer *l, bool is_query, rope_rows *r) {
    r->table = !r->flags ? NULL : is_query ? l->call.table : l->call.past_table;
    r->frequencies = l->applies_rope ? l->call.frequencies : NULL;
}

// All steps that can fail come here, before the first command.
static clattn_status ready(layer *l, chain *steps) {
    linear *of = l->of;
    TRY(prepare(l));
    TRY(cla_workspace_take(steps, l->params.workspace, l->workspace_bytes, &l->workspace));
    of[PROJECT_Q].y.buffer = l->workspace;
    if (!l->straight) of[PROJECT_K].y.buffer = of[PROJECT_V].y.buffer = l->workspace;
    of[PROJECT_GATE].y.buffer = of[PROJECT_OUT].x.buffer = l->workspace;
    cla_call_bind(&l->call, l->workspace);
    if (l->ready) cla_call_bind_kv(&l->call, &l->params.kv);
    TRY(cla_call_table(&l->call, steps));
    if (of[PROJECT_OUT].has_lengths) of[PROJECT_OUT].lengths = l->call.table;
    if (l->applies_rope || l->call.applies_rope) TRY(cla_rope_frequencies(&l->call, steps));
    bind_rope(l, true, &of[PROJECT_Q].rope), bind_rope(l, false, &of[PROJECT_K].rope);
    bind_rope(l, true, &l->q_norm.rope), bind_rope(l, false, &l->k_norm.rope);
    return CLATTN_OK;
}

static double flops_of(const layer *l) {
    const linear *of = l->of;
    double flops = cla_attention_flops(&l->call) + cla_norm_flops(&l->q_norm, &of[PROJECT_Q].y);
    for (int i = 0; i < PROJECTIONS; i++)
        if (cla_layer_projects(l, i)) flops += cla_linear_flops(&of[i]);
    if (!l->ready) flops += cla_norm_flops(&l->k_norm, &of[PROJECT_K].y);
    return l->gated ? flops + cla_gate_flops(&of[PROJECT_OUT].x) : flops;
}

static clattn_status run_once(layer *l, chain *steps) {
    TRY(ready(l, steps));
    if (cla_layer_is_small(l)) return cla_layer_small_enqueue(l, steps);
    cla_chain_set_progress(steps, l->params.progress, flops_of(l));
    TRY(enqueue_inputs(l, steps));
    TRY(cla_attention_enqueue_call(&l->call, steps));
    return enqueue_output(l, steps);
}

static void release(void *job) {
    layer *l = job;
    cla_call_release(&l->call);
    l->workspace = NULL;
}

// If CLBlast fails and the caller left the choice open, repeat the whole call without CLBlast. The
// commands enqueued before wrote only what the repetition writes again.
static clattn_status run(void *job, chain *steps) {
    layer *l = job;
    if (l->call.empty) return CLATTN_OK;
    const clattn_status status = run_once(l, steps);
    if (status == CLATTN_OK || status == CLATTN_CANCELLED ||
        !cla_projector_falls_back(l->context, l->params.projection, l->native))
        return status;
    release(l);
    TRY(cla_layer_plan(l));
    return run_once(l, steps);
}

static const entry layer_entry = {check, prepare, run, release};

clattn_status clattn_layer_workspace(clattn_context *context, const clattn_layer_params *params,
                                     size_t *bytes) {
    layer l;
    TRY(cla_entry_plan(&layer_entry, context, params, bytes, "bytes", &l));
    *bytes = (size_t)l.workspace_bytes;
    return CLATTN_OK;
}

// Append to `why` the first projection whose preferred kernel the driver refused.
static void put_gone(const layer *l, clattn_plan *plan) {
    for (int i = 0; i < PROJECTIONS; i++) {
        const size_t used = strlen(plan->why);
        const char *kernel = "", *gone = NULL;
        if (cla_layer_projects(l, i)) gone = cla_linear_gone(l->context, &l->of[i], &kernel);
        if (!gone) continue;
        snprintf(plan->why + used, sizeof plan->why - used, "; %s: %s", kernel, gone);
        return;
    }
}

clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                clattn_plan *plan) {
    layer l;
    TRY(cla_entry_plan(&layer_entry, context, params, plan, "plan", &l));
    TRY(cla_attention_fill_plan(&l.call, l.workspace_bytes, plan));
    const size_t used = strlen(plan->why);
    if (l.straight)
        snprintf(plan->why + used, sizeof plan->why - used, "; keys and values are made in the caches");
    if (cla_layer_is_small(&l))
        snprintf(plan->why + used, sizeof plan->why - used, "; the whole layer in one launch");
    put_gone(&l, plan);
    return CLATTN_OK;
}

clattn_status clattn_layer_prepare(clattn_context *context, const clattn_layer_params *params) {
    layer l;
    return cla_entry_prepare(&layer_entry, context, params, &l);
}

clattn_status clattn_layer_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_layer_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    layer l;
    return cla_entry_enqueue(&layer_entry, context, params, &at, &l);
}
