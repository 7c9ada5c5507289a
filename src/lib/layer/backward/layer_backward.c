// layer_backward.c: the gradients of a layer. Options without a gradient are rejected by name. One
// chain of commands computes the layer's heads again, unless a forward call has kept them, and then
// goes backward through the layer. Apart from those for norms and gates, the steps are operations
// that the library also has as calls of their own.
#include "layer/backward/layer_backward.h"

#include <stddef.h>

#include "attention/call/attention.h"
#include "attention/call/call_kind.h"
#include "attention/call/table.h"
#include "base/host.h"
#include "launch/workspace.h"
#include "layer/projection/projector.h"
#include "plan/planner.h"

static clattn_status refuse_unbuilt(clattn_context *c, const clattn_layer_params *p) {
    const clattn_kv *kv = &p->kv;
    const struct {
        bool given;
        const char *name;
    } unbuilt[] = {{p->append, "append"},
                   {cla_tensor_given(&kv->block_table), "block_table"},
                   {cla_tensor_given(&kv->past_k) || cla_tensor_given(&kv->past_v), "past_k"},
                   {cla_tensor_given(&kv->k) || cla_tensor_given(&kv->v), "kv"},
                   {kv->k_rotation != 0, "k_rotation"},
                   {kv->v_rotation != 0, "v_rotation"},
                   {p->cu_seqlens_q || cla_tensor_given(&p->cu_seqlens_q_device), "cu_seqlens_q"},
                   {kv->cu_seqlens_kv || cla_tensor_given(&kv->cu_seqlens_kv_device), "cu_seqlens_kv"},
                   {cla_tensor_given(&kv->kv_lengths_device), "kv_lengths_device"},
                   {p->sequences != 0, "sequences"},
                   {p->max_q != 0, "max_q"},
                   {p->max_kv != 0, "max_kv"},
                   {cla_tensor_given(&p->lse), "lse"},
                   {cla_tensor_given(&p->weights), "weights"},
                   {cla_tensor_given(&p->scores), "scores"},
                   {p->kernel != CLATTN_KERNEL_AUTO, "kernel"},
                   {p->splits != 0, "splits"}};
    const struct {
        const clattn_tensor *w;
        const char *name;
    } matrices[] = {{&p->wq, "wq"}, {&p->wk, "wk"}, {&p->wv, "wv"}, {&p->wo, "wo"}, {&p->w_gate, "w_gate"}};
    for (size_t i = 0; i < sizeof unbuilt / sizeof unbuilt[0]; i++)
        if (unbuilt[i].given)
            return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                    "%s: has no gradient in a layer: it must be absent", unbuilt[i].name);
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        if (clattn_type_numbers(matrices[i].w->type) > 1 || CLATTN_TYPE_IS_SCALED(matrices[i].w->type))
            return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                    "%s: its type %s has no gradient in a layer: it must be f32, f16 or bf16",
                                    matrices[i].name, clattn_type_name(matrices[i].w->type));
    return CLATTN_OK;
}

// The gradients of the layer's own tensors, and the forward tensor that has the same shape.
// Attention checks the gradients of score options.
#define RESULT(field, of, axes, types)                                                                       \
    {                                                                                                        \
        offsetof(clattn_layer_backward_params, field), offsetof(clattn_layer_params, of), #field, #of, axes, \
            types                                                                                            \
    }
static const struct {
    size_t field, like;
    const char *name, *of, *axes;
    unsigned types;
} results[] = {
    RESULT(dx, x, "[B, Nq, M]", TYPES_FLOAT),
    RESULT(dy, y, "[B, Nkv, My]", TYPES_FLOAT),
    RESULT(dwq, wq, "[H*D, M]", TYPES_FLOAT),
    RESULT(dwk, wk, "[Hkv*D, My]", TYPES_FLOAT),
    RESULT(dwv, wv, "[Hkv*Dv, My]", TYPES_FLOAT),
    RESULT(dwo, wo, "[Mo, H*Dv]", TYPES_FLOAT),
    RESULT(dw_gate, w_gate, "as w_gate", TYPES_FLOAT),
    RESULT(dbq, bq, "[H*D]", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(dbk, bk, "[Hkv*D]", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(dbv, bv, "[Hkv*Dv]", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(dbo, bo, "[Mo]", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(db_gate, b_gate, "as b_gate", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(dq_norm, q_norm, "as q_norm", TYPES_FLOAT | ANY_LAST_STRIDE),
    RESULT(dk_norm, k_norm, "as k_norm", TYPES_FLOAT | ANY_LAST_STRIDE),
};
#define RESULTS (sizeof results / sizeof results[0])

static const clattn_tensor *result_of(const layer_gradients *g, size_t i) {
    return (const clattn_tensor *)((const char *)&g->params + results[i].field);
}

static void take_given(layer_gradients *g) {
    layer *l = &g->forward;
    clattn_layer_backward_params *p = &g->params;
    const given_views all = {l->context, .planning = l->purpose != ENTRY_ENQUEUE, .inner = false};
    cla_layer_take_given(l, &l->params);
    CLA_GIVEN(&all, false, &p->dout);
    for (size_t i = 0; i < RESULTS; i++) CLA_GIVEN(&all, true, (clattn_tensor *)result_of(g, i));
    CLA_GIVEN(&all, true, &p->dbias, &p->dsinks, &p->dalibi_slopes, &p->dhead_scales);
}

static clattn_status check_results(const layer_gradients *g, bool planning) {
    clattn_context *c = g->forward.context;
    const clattn_layer_backward_params *p = &g->params;
    const tensor_rule dout = {"dout", "[B, Nq, Mo]", TYPES_FLOAT, false, planning};
    if (g->forward_only) return CLATTN_OK;
    bool wanted = cla_tensor_given(&p->dbias) || cla_tensor_given(&p->dsinks) ||
                  cla_tensor_given(&p->dalibi_slopes) || cla_tensor_given(&p->dhead_scales);
    TRY(cla_tensor_check(c, &p->dout, 3, &dout));
    TRY(cla_tensor_check_shape(c, &p->dout, g->forward.params.out.shape, &dout));
    for (size_t i = 0; i < RESULTS; i++) {
        const clattn_tensor *t = result_of(g, i),
                            *like =
                                (const clattn_tensor *)((const char *)&g->forward.params + results[i].like);
        const tensor_rule rule = {results[i].name, results[i].axes, results[i].types, true, planning};
        if (!cla_tensor_given(t)) continue;
        wanted = true;
        if (!cla_tensor_given(like))
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is asked for without %s",
                                    results[i].name, results[i].of);
        TRY(cla_tensor_check(c, t, like->rank, &rule));
        TRY(cla_tensor_check_shape(c, t, like->shape, &rule));
    }
    if (wanted) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "dx: no gradient is asked for: one of dx, dy, dwq and so on is needed");
}

// Sums over rows count them in 32 bits.
static clattn_status check_rows(const layer_gradients *g) {
    const layer *l = &g->forward;
    const int64_t batch = l->params.x.shape[0],
                  n = l->params.x.shape[1] > l->n_kv ? l->params.x.shape[1] : l->n_kv;
    const int64_t heads = l->heads > l->kv_heads ? l->heads : l->kv_heads;
    if (batch * n <= ARGS_MOST_ROWS && n * heads <= ARGS_MOST_ROWS) return CLATTN_OK;
    return cla_context_fail(
        l->context, CLATTN_INVALID_ARGUMENT,
        "x: %lld items of %lld rows of %lld heads: products of gradients count up to %d rows",
        (long long)batch, (long long)n, (long long)heads, ARGS_MOST_ROWS);
}

static clattn_status check_kept(const layer_gradients *g, bool planning) {
    const tensor_rule kept = {"kept", "[S]", 1u << CLATTN_TYPE_F32, g->forward_only, planning};
    const clattn_tensor *t = &g->params.kept;
    clattn_context *c = g->forward.context;
    TRY(cla_tensor_check(c, t, 1, &kept));
    if (t->shape[0] >= (int64_t)(g->kept_bytes / sizeof(float))) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "kept: has %lld numbers, %lld are needed",
                            (long long)t->shape[0], (long long)(g->kept_bytes / sizeof(float)));
}

static clattn_status check_memory(layer_gradients *g) {
    const clattn_layer_params *f = &g->forward.params;
    clattn_layer_backward_params *p = &g->params;
    const struct {
        const char *name;
        const clattn_tensor *tensor;
    } read[] = {{"x", &f->x},           {"y", &f->y},      {"wq", &f->wq},         {"wk", &f->wk},
                {"wv", &f->wv},         {"wo", &f->wo},    {"w_gate", &f->w_gate}, {"bq", &f->bq},
                {"bk", &f->bk},         {"bv", &f->bv},    {"b_gate", &f->b_gate}, {"q_norm", &f->q_norm},
                {"k_norm", &f->k_norm}, {"dout", &p->dout}};
    const view_use use = cla_linear_output_use(f->projection);
    call_views v;
    cla_views_begin(&v, g->forward.context);
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        cla_views_add(&v, read[i].name, read[i].tensor, VIEW_READ);
    for (size_t i = 0; i < RESULTS; i++) cla_views_add(&v, results[i].name, result_of(g, i), use);
    cla_views_add(&v, "dbias", &p->dbias, VIEW_WRITE);
    cla_views_add(&v, "dsinks", &p->dsinks, VIEW_WRITE);
    cla_views_add(&v, "dalibi_slopes", &p->dalibi_slopes, VIEW_WRITE);
    cla_views_add(&v, "dhead_scales", &p->dhead_scales, VIEW_WRITE);
    cla_views_add(&v, "kept", &p->kept, g->forward_only ? VIEW_WRITE : VIEW_READ);
    if (g->forward_only) cla_views_add(&v, "bo", &f->bo, VIEW_READ);
    if (g->forward_only) cla_views_add(&v, "out", &f->out, use);
    cla_views_add_attention(&v, &g->forward.call.params);
    TRY(cla_views_check(&v));
    return cla_views_check_workspace(&v, &p->workspace, g->workspace_bytes);
}

// Copy the forward parameters. The gradients do not read the forward call's results, so a view of
// x's buffer replaces `out` in the checks.
static void take_forward(layer_gradients *g) {
    clattn_layer_params *f = &g->forward.params;
    cla_bytes_copy(f, &g->params.forward, sizeof *f);
    f->packed_wq = f->packed_wk = f->packed_wv = f->packed_wo = f->packed_gate = (clattn_packed){0};
    f->workspace = NULL, f->progress = NULL;
    // The parameters of clattn_layer_kept have no `kept`.
    const bool looks = g->forward_only ? cla_tensor_given(&g->params.kept)
                                       : g->keeps && g->forward.purpose != ENTRY_ENQUEUE && f->out.rank;
    if (!looks) f->out = (clattn_tensor){0};
    take_given(g);
    if (looks) return;
    const int64_t out[3] = {f->x.shape[0], f->x.shape[1], f->wo.shape[0]};
    f->out = clattn_tensor_dense(f->x.buffer, f->x.type, 3, out);
}

static clattn_status check_as(layer_gradients *g, clattn_context *context, entry_purpose purpose) {
    layer *l = &g->forward;
    const bool planning = purpose != ENTRY_ENQUEUE;
    const given_views all = {context, .planning = planning, .inner = false};
    l->context = context;
    l->purpose = purpose;
    CLA_GIVEN(&all, !g->forward_only, &g->params.kept);
    g->keeps = g->keeps || cla_tensor_given(&g->params.kept);
    take_forward(g);
    TRY(refuse_unbuilt(context, &l->params));
    TRY(cla_layer_check(l, planning));
    TRY(check_results(g, planning));
    TRY(check_rows(g));
    TRY(cla_layer_gradients_plan(g));
    if (cla_tensor_given(&g->params.kept)) TRY(check_kept(g, planning));
    return planning ? CLATTN_OK : check_memory(g);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    layer_gradients *g = job;
    cla_bytes_zero(g, sizeof *g);
    cla_bytes_copy(&g->params, params, sizeof g->params);
    return check_as(g, context, purpose);
}

// Ignore the gradients in the parameters of a forward call.
static void take_forward_only(layer_gradients *g, const clattn_layer_backward_params *p) {
    cla_bytes_zero(g, sizeof *g);
    g->params = (clattn_layer_backward_params){
        .forward = p->forward, .kept = p->kept, .workspace = p->workspace, .progress = p->progress};
    g->forward_only = g->keeps = true;
}

static clattn_status check_forward(clattn_context *context, const void *params, entry_purpose purpose,
                                   void *job) {
    const clattn_layer_backward_params *p = params;
    take_forward_only(job, p);
    if (!cla_tensor_given(&p->kept))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "kept: is absent: memory of clattn_layer_kept() numbers is needed");
    return check_as(job, context, purpose);
}

// Plan a forward call to find the size of `kept`, which need not exist.
static clattn_status check_size(clattn_context *context, const void *params, entry_purpose purpose,
                                void *job) {
    layer_gradients *g = job;
    take_forward_only(g, params);
    g->params.kept = (clattn_tensor){0};
    return check_as(g, context, purpose);
}

static clattn_status store_program(const layer_gradients *g, const input_shares *s, program **p) {
    const knobs k = {.type_gradient = (int)s->to->type, .lanes = cla_planner_lanes(g->forward.context)};
    return cla_program_get(g->forward.context, KERNEL_BACKWARD_STORE, &k, p);
}

// True if this call includes the forward pass: its results were not kept, or this is the forward
// call. A call that only plans or compiles always includes it.
static bool makes_forward(const layer_gradients *g) {
    return !g->keeps || g->forward_only || g->forward.purpose != ENTRY_ENQUEUE;
}

static clattn_status prepare_forward(layer_gradients *g) {
    layer *l = &g->forward;
    const bool norms = l->norm.how != CLATTN_NORM_NONE, gate = l->gated && g->keeps;
    for (int i = 0; i < (g->keeps ? PROJECTIONS : PROJECT_OUT); i++)
        if (cla_layer_projects(l, i)) TRY(cla_linear_prepare(l->context, &l->of[i]));
    if (norms || gate) TRY(cla_linear_convert_prepare(l->context, CLATTN_TYPE_F32, CLATTN_TYPE_F32));
    if (norms) TRY(cla_norm_prepare(l->context, &l->q_norm, CLATTN_TYPE_F32));
    if (norms) TRY(cla_norm_prepare(l->context, &l->k_norm, CLATTN_TYPE_F32));
    if (gate) TRY(cla_gate_prepare(l->context, CLATTN_TYPE_F32));
    return cla_attention_prepare_call(&l->call);
}

static clattn_status prepare(void *job) {
    layer_gradients *g = job;
    layer *l = &g->forward;
    program *p = NULL;
    if (makes_forward(g)) TRY(prepare_forward(g));
    if (g->forward_only) return CLATTN_OK;
    if (l->gated) TRY(cla_gate_backward_prepare(l->context));
    for (int i = 0; i < 2 && l->norm.how != CLATTN_NORM_NONE; i++)
        if (g->wants[PROJECT_Q + i]) TRY(cla_norm_backward_prepare(l->context, &g->norm[i]));
    if (g->attends) TRY(cla_backward_prepare(&g->attention));
    for (int i = 0; i < GRADIENTS; i++)
        if (g->wants[i]) TRY(cla_linear_gradients_prepare(l->context, &g->of[i]));
    for (int i = 0; i < 2; i++)
        if (g->shares[i].count > 1) TRY(store_program(g, &g->shares[i], &p));
    return CLATTN_OK;
}

// All steps that can fail come here, before the first command.
static clattn_status ready(layer_gradients *g, chain *steps) {
    layer *l = &g->forward;
    call *c = &l->call, *back = &g->attention.call;
    cl_mem workspace = NULL;
    TRY(prepare(g));
    TRY(cla_workspace_take(steps, g->params.workspace, g->workspace_bytes, &workspace));
    cla_layer_gradients_bind(g, workspace);
    TRY(cla_call_table(c, steps));
    for (int i = 0; i < GRADIENTS; i++) g->of[i].lengths = c->table;
    if (l->of[PROJECT_OUT].has_lengths) l->of[PROJECT_OUT].lengths = c->table;
    g->norm[0].rows.lengths = g->norm[1].rows.lengths = g->gate.rows.lengths = c->table;
    if (c->applies_rope) TRY(cla_rope_frequencies(c, steps));
    if (!g->attends) return CLATTN_OK;
    back->frequencies = c->frequencies;
    return cla_call_table(back, steps);
}

static double flops_of(const layer_gradients *g) {
    const layer *l = &g->forward;
    const int projections = !makes_forward(g) ? 0 : g->forward_only ? PROJECTIONS : PROJECT_OUT;
    double flops = g->attends ? cla_backward_flops(&g->attention) : 0.0;
    if (makes_forward(g)) flops += cla_attention_flops(&l->call);
    for (int i = 0; i < projections; i++)
        if (cla_layer_projects(l, i)) flops += cla_linear_flops(&l->of[i]);
    for (int i = 0; i < GRADIENTS; i++)
        if (g->wants[i]) flops += cla_linear_gradients_flops(&g->of[i]);
    return flops;
}

// The forward pass, up to the heads' result.
static clattn_status enqueue_forward(layer_gradients *g, chain *steps) {
    layer *l = &g->forward;
    for (int i = 0; i < PROJECT_OUT; i++)
        if (cla_layer_projects(l, i)) TRY(cla_linear_enqueue(steps, &l->of[i], g->workspace, g->scratch));
    if (l->norm.how != CLATTN_NORM_NONE) {
        TRY(cla_linear_convert(steps, &g->part[PART_Q0], &g->part[PART_Q]));
        TRY(cla_linear_convert(steps, &g->part[PART_K0], &g->part[PART_K]));
        TRY(cla_norm_enqueue(steps, &l->q_norm, &g->part[PART_Q]));
        TRY(cla_norm_enqueue(steps, &l->k_norm, &g->part[PART_K]));
    }
    return cla_attention_enqueue_call(&l->call, steps);
}

// The rest of the forward pass: the gate and the output projection.
static clattn_status enqueue_output(layer_gradients *g, chain *steps) {
    const layer *l = &g->forward;
    const clattn_tensor *gated = &g->part[PART_GATED];
    if (l->gated) TRY(cla_linear_convert(steps, &g->part[PART_HEADS], gated));
    if (l->gated) TRY(cla_gate_enqueue(steps, gated, &g->part[PART_GATES]));
    return cla_linear_enqueue(steps, &l->of[PROJECT_OUT], g->workspace, g->scratch);
}

static clattn_status enqueue_product(layer_gradients *g, int which, chain *steps) {
    return g->wants[which] ? cla_linear_gradients_enqueue(steps, &g->of[which], g->workspace) : CLATTN_OK;
}

// Go backward from the output to q, k, v and the gates.
static clattn_status enqueue_heads(layer_gradients *g, chain *steps) {
    const layer *l = &g->forward;
    TRY(enqueue_product(g, GRADIENT_HEADS, steps));
    if (l->gated) TRY(cla_gate_backward_enqueue(steps, &g->gate));
    TRY(enqueue_product(g, GRADIENT_OUT, steps));
    if (g->attends) TRY(cla_backward_run(&g->attention, steps));
    for (int i = 0; i < 2 && l->norm.how != CLATTN_NORM_NONE; i++)
        if (g->wants[PROJECT_Q + i]) TRY(cla_norm_backward_enqueue(steps, &g->norm[i]));
    return CLATTN_OK;
}

// Add the shares of dx or dy, in the order of the projections.
static clattn_status enqueue_sum(layer_gradients *g, int input, chain *steps) {
    const input_shares *s = &g->shares[input];
    if (s->count < 2 || cla_tensor_count(s->to) == 0) return CLATTN_OK;
    const clattn_tensor to = cla_linear_one_head(s->to);
    const backward_store_args a = {.x = cla_tensor_view(&g->part[PART_DX + input]),
                                   .y = cla_tensor_view(&to),
                                   .part = s->stride,
                                   .parts = s->count,
                                   .n = (int)to.shape[2],
                                   .head_dim = (int)to.shape[3]};
    const int64_t lanes = cla_planner_lanes(steps->context), moved = (to.shape[3] + lanes - 1) / lanes;
    const size_t items[3] = {(size_t)(to.shape[2] * moved), 1, (size_t)to.shape[0]};
    launch l = {.flops = PACE_MOVE_FLOPS * s->count * (double)cla_tensor_count(&to), .cuts_first = true};
    const cl_mem none = NULL;
    TRY(store_program(g, s, &l.program));
    cla_launch_items(&l, steps->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &g->workspace);
    cla_launch_buffer(&l, &to.buffer);
    cla_launch_buffer(&l, &none);
    cla_launch_buffer(&l, &none);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

static clattn_status run_once(layer_gradients *g, chain *steps) {
    TRY(ready(g, steps));
    cla_chain_set_progress(steps, g->params.progress, flops_of(g));
    if (makes_forward(g)) TRY(enqueue_forward(g, steps));
    if (g->forward_only) return enqueue_output(g, steps);
    TRY(enqueue_heads(g, steps));
    for (int i = 0; i < PROJECT_OUT; i++) TRY(enqueue_product(g, i, steps));
    TRY(enqueue_sum(g, 0, steps));
    return enqueue_sum(g, 1, steps);
}

static void release(void *job) {
    layer_gradients *g = job;
    if (g->forward.context) cla_call_release(&g->forward.call);
    if (g->attention.call.context) cla_call_release(&g->attention.call);
}

// If CLBlast fails and the caller left the choice open, repeat the whole call without CLBlast.
static clattn_status run(void *job, chain *steps) {
    layer_gradients *g = job;
    const clattn_projection wanted = g->forward.params.projection;
    const clattn_status status = run_once(g, steps);
    if (status == CLATTN_OK || status == CLATTN_CANCELLED ||
        !cla_projector_falls_back(g->forward.context, wanted, g->native))
        return status;
    release(g);
    TRY(cla_layer_gradients_plan(g));
    return run_once(g, steps);
}

static const entry gradients_entry = {check, prepare, run, release},
                   forward_entry = {check_forward, prepare, run, release},
                   size_entry = {check_size, prepare, run, release};

clattn_status clattn_layer_backward_workspace(clattn_context *context,
                                              const clattn_layer_backward_params *params, size_t *bytes) {
    layer_gradients g;
    TRY(cla_entry_plan(&gradients_entry, context, params, bytes, "bytes", &g));
    *bytes = (size_t)g.workspace_bytes;
    return CLATTN_OK;
}

clattn_status clattn_layer_kept(clattn_context *context, const clattn_layer_backward_params *params,
                                int64_t *numbers) {
    layer_gradients g;
    TRY(cla_entry_plan(&size_entry, context, params, numbers, "numbers", &g));
    *numbers = (int64_t)(g.kept_bytes / sizeof(float));
    return CLATTN_OK;
}

clattn_status clattn_layer_forward_enqueue(clattn_context *context, cl_command_queue queue,
                                           const clattn_layer_backward_params *params, cl_uint wait_count,
                                           const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    layer_gradients g;
    return cla_entry_enqueue(&forward_entry, context, params, &at, &g);
}

clattn_status clattn_layer_backward_prepare(clattn_context *context,
                                            const clattn_layer_backward_params *params) {
    layer_gradients g;
    return cla_entry_prepare(&gradients_entry, context, params, &g);
}

clattn_status clattn_layer_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                            const clattn_layer_backward_params *params, cl_uint wait_count,
                                            const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    layer_gradients g;
    return cla_entry_enqueue(&gradients_entry, context, params, &at, &g);
}
