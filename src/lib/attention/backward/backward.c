// backward.c: the entry points of the gradients of an attention call. It rejects options without a
// gradient by name, checks the views against those of the forward call, and plans. backward_run.c
// has the launches.
#include "attention/backward/backward.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/call/call_kind.h"
#include "attention/call/views.h"
#include "attention/mods/mods.h"
#include "base/host.h"
#include "launch/workspace.h"
#include "plan/families/family.h"
#include "plan/planner.h"

// Reject options of the forward call that have no gradients.
static clattn_status refuse_unbuilt(clattn_context *c, const clattn_attention_params *p) {
    const struct {
        bool given;
        const char *name;
    } unbuilt[] = {{cla_kv_is_paged(&p->kv), "block_table"},
                   {cla_kv_has_past(&p->kv), "past_k"},
                   {cla_kv_appends(&p->kv), "k_new"},
                   {p->kv.k_rotation != 0, "k_rotation"},
                   {p->kv.v_rotation != 0, "v_rotation"},
                   {cla_tensor_given(&p->weights), "weights"},
                   {cla_tensor_given(&p->scores), "scores"},
                   {p->kernel != CLATTN_KERNEL_AUTO, "kernel"},
                   {p->splits != 0, "splits"}};
    for (size_t i = 0; i < sizeof unbuilt / sizeof unbuilt[0]; i++)
        if (unbuilt[i].given)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: has no gradient: it must be absent",
                                    unbuilt[i].name);
    if (TYPE_IS_QUANTISED(p->kv.k.type))
        return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                "k: its type %s has no gradient: it must be f32, f16 or bf16",
                                clattn_type_name(p->kv.k.type));
    if (p->kv.v.type != p->kv.k.type)
        return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                "v: its type %s differs from k's, %s: with gradients they are one",
                                clattn_type_name(p->kv.v.type), clattn_type_name(p->kv.k.type));
    return CLATTN_OK;
}

// The gradient tensors: rows of "tables/views.def". dout is the first.
#define FORWARD(field) offsetof(clattn_attention_params, field)
#define HEADS "[H]" // axes of a gradient whose forward option is a host array
static const struct gradient_rule {
    size_t field, like;
    const char *name, *of, *axes;
    unsigned types;
    view_use use; // VIEW_WRITE: a result
} gradient_rules[] = {
#define GRADIENT(field, like, of, shape, types, axes, use)                                                   \
    {offsetof(clattn_attention_backward_params, field), FORWARD(like), #field, of, shape, types, VIEW_##use},
#include "tables/views.def"
};
#define GRADIENT_RULES (sizeof gradient_rules / sizeof gradient_rules[0])

static clattn_tensor *gradient_of(backward_job *job, const struct gradient_rule *g) {
    return (clattn_tensor *)((char *)&job->params + g->field);
}

static clattn_status check_gradient(backward_job *job, const struct gradient_rule *g, bool planning) {
    clattn_context *c = job->call.context;
    const clattn_tensor *t = gradient_of(job, g);
    const char *forward = (const char *)&job->call.params + g->like;
    const bool of_heads = !strcmp(g->axes, HEADS);
    clattn_tensor like = {.rank = 1, .shape = {job->call.problem.heads}};
    bool with = of_heads && *(const float *const *)forward;
    if (!of_heads) like = *(const clattn_tensor *)forward, with = cla_tensor_given(&like);
    if (g->like == FORWARD(score.sinks)) with |= cla_tensor_given(&job->call.params.score.sinks_device);
    if (!cla_tensor_given(t)) return CLATTN_OK;
    if (!with)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is asked for without %s", g->name, g->of);
    const tensor_rule rule = {g->name, g->axes, g->types, g->use == VIEW_WRITE, planning};
    TRY(cla_tensor_check(c, t, like.rank, &rule));
    for (int i = 0; i < like.rank; i++)
        if (t->shape[i] != like.shape[i])
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld of axis %d does not fit: %s has %lld there", g->name,
                                    (long long)t->shape[i], i, g->of, (long long)like.shape[i]);
    return CLATTN_OK;
}

static clattn_status check_gradients(backward_job *job, bool planning) {
    const clattn_attention_backward_params *p = &job->params;
    bool wanted = false;
    if (!cla_tensor_given(&p->dout))
        return cla_context_fail(job->call.context, CLATTN_INVALID_ARGUMENT,
                                "dout: is absent: [B, H, Nq, Dv] is needed");
    for (const struct gradient_rule *g = gradient_rules; g < gradient_rules + GRADIENT_RULES; g++) {
        TRY(check_gradient(job, g, planning));
        wanted |= g->use == VIEW_WRITE && cla_tensor_given(gradient_of(job, g));
    }
    if (!wanted)
        return cla_context_fail(job->call.context, CLATTN_INVALID_ARGUMENT,
                                "dq: no gradient is asked for: one of dq, dk, dv, dbias, dsinks, "
                                "dalibi_slopes, dhead_scales is needed");
    if (cla_tensor_given(&p->dk) && cla_tensor_given(&p->dv) && p->dk.type != p->dv.type)
        return cla_context_fail(job->call.context, CLATTN_INVALID_ARGUMENT,
                                "dv: its type %s is not dk's, %s: both must be stored alike",
                                clattn_type_name(p->dv.type), clattn_type_name(p->dk.type));
    return CLATTN_OK;
}

// Gradients only read the tensors of the forward call, including its results.
void cla_backward_add_views(call_views *v, const clattn_attention_backward_params *params,
                            const clattn_attention_params *forward) {
    for (const view_rule *rule = cla_view_rules; rule < cla_view_rules + VIEW_RULES; rule++)
        cla_views_add(v, rule->name, cla_view_of((clattn_attention_params *)forward, rule->field), VIEW_READ);
    for (const struct gradient_rule *g = gradient_rules; g < gradient_rules + GRADIENT_RULES; g++)
        cla_views_add(v, g->name, (const clattn_tensor *)((const char *)params + g->field), g->use);
}

static clattn_status check_memory(backward_job *job) {
    call_views v;
    cla_views_begin(&v, job->call.context);
    cla_backward_add_views(&v, &job->params, &job->call.params);
    TRY(cla_views_check(&v));
    return cla_views_check_workspace(&v, &job->params.workspace, job->workspace_bytes);
}

static uint64_t part_of(uint64_t *at, uint64_t count, size_t element) {
    const uint64_t here = *at;
    *at = cla_workspace_add(here, count, element);
    return here;
}

// Decide which results are float32 sums first. One kernel writes dk and dv, so both have the same
// type there.
static void find_results(backward_job *job) {
    const clattn_attention_backward_params *p = &job->params;
    const clattn_attention_params *f = &job->call.params;
    const bool applies_rope = job->call.applies_rope, one_pass = job->variant.one_pass,
               ragged = job->call.problem.ragged, dk = cla_tensor_given(&p->dk),
               dv = cla_tensor_given(&p->dv), keys_packed = job->call.ragged.packed_keys;
    job->result[DQ] = (backward_result){.t = &p->dq,
                                        .like = &f->q,
                                        .packed = ragged,
                                        .sums = one_pass || (applies_rope && cla_tensor_given(&p->dq)),
                                        .parts = job->variant.parts,
                                        .applies_rope = applies_rope};
    job->result[DK] = (backward_result){.t = &p->dk,
                                        .like = &f->kv.k,
                                        .packed = keys_packed,
                                        .sums = applies_rope && dk,
                                        .parts = 1,
                                        .applies_rope = applies_rope};
    job->result[DV] = (backward_result){.t = &p->dv,
                                        .like = &f->kv.v,
                                        .packed = keys_packed,
                                        .sums = applies_rope && dk && dv && p->dv.type != CLATTN_TYPE_F32,
                                        .parts = 1};
}

// The workspace continues behind the RoPE'd copies.
static void lay_out_workspace(backward_job *job) {
    const clattn_attention_backward_params *p = &job->params;
    const uint64_t rows = (uint64_t)job->rows;
    uint64_t at = job->call.workspace_bytes;
    job->marks_rows = cla_tensor_given(&p->dalibi_slopes) || cla_tensor_given(&p->dhead_scales);
    job->pairs = part_of(&at, rows, 2 * sizeof(float));
    if (job->marks_rows) job->marks = part_of(&at, rows, 2 * sizeof(float));
    for (backward_result *r = job->result; r < job->result + MAIN_RESULTS; r++)
        if (r->sums)
            r->at = part_of(&at, (uint64_t)cla_tensor_count(r->like), sizeof(float) * (size_t)r->parts);
    job->workspace_bytes = at;
}

// Kernels read v and dout in the same way, so the alignment must hold for both.
static clattn_status find_alignment(backward_job *job) {
    call *c = &job->call;
    int dout = 1;
    c->params.workspace = job->params.workspace; // holds the RoPE'd copies
    TRY(cla_call_fill_alignments(c));
    if (c->problem.align_v > 1) TRY(cla_call_alignment(c, "dout", &job->params.dout, false, &dout));
    c->params.workspace = NULL;
    if (dout < c->problem.align_v) c->problem.align_v = dout;
    return CLATTN_OK;
}

static clattn_status plan(backward_job *job) {
    call *c = &job->call;
    const clattn_attention_backward_params *p = &job->params;
    c->problem.type_out = p->dout.type;
    TRY(find_alignment(job));
    const plan_input in = cla_planner_input(c->context, &c->problem);
    const char *why = cla_backward_choose(&in, &c->problem, &job->variant);
    if (why) return cla_context_fail(c->context, CLATTN_UNSUPPORTED, "backward: %s", why);
    c->variant = (variant){.family = job->variant.family, .rows_per_group = 1, .splits = 1};
    const int64_t n = c->problem.ragged ? c->problem.packed_rows : c->problem.n_q;
    job->rows = (c->problem.ragged ? 1 : c->problem.batch) * c->problem.heads * n;
    find_results(job);
    lay_out_workspace(job);
    job->args = (backward_args){.rows_batch = c->problem.ragged ? 0 : c->problem.heads * n,
                                .rows_head = n,
                                .pairs = (int64_t)(job->pairs / (2 * sizeof(float))),
                                .marks = (int64_t)(job->marks / (2 * sizeof(float))),
                                .part_dq = job->rows * c->problem.head_dim,
                                .part_keys = job->variant.part_keys,
                                .packed_keys = c->ragged.packed_keys,
                                .wants = (cla_tensor_given(&p->dq) ? ARGS_WANTS_DQ : 0) |
                                         (cla_tensor_given(&p->dk) ? ARGS_WANTS_DK : 0) |
                                         (cla_tensor_given(&p->dv) ? ARGS_WANTS_DV : 0)};
    return cla_workspace_fits(c->context, p->workspace, job->workspace_bytes);
}

clattn_status cla_backward_check(clattn_context *context, const clattn_attention_backward_params *params,
                                 entry_purpose purpose, unsigned how, backward_job *job) {
    clattn_attention_backward_params *p = &job->params;
    const bool planning = purpose != ENTRY_ENQUEUE || how & CALL_PARTS;
    cla_bytes_zero(job, sizeof *job);
    cla_bytes_copy(p, params, sizeof *p);
    TRY(refuse_unbuilt(context, &p->forward));
    p->forward.cascade = CLATTN_CASCADE_AUTO;
    p->forward.workspace = NULL, p->forward.progress = NULL;
    TRY(cla_call_check(context, &p->forward, purpose, CALL_UNPLANNED | how, &job->call));
    const given_views all = {context, .planning = planning, .inner = false};
    for (const struct gradient_rule *g = gradient_rules; g < gradient_rules + GRADIENT_RULES; g++)
        CLA_GIVEN(&all, g != gradient_rules, gradient_of(job, g));
    if (!cla_tensor_given(&job->call.params.lse))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "lse: is absent: gradients need what forward wrote there");
    TRY(check_gradients(job, planning));
    TRY(cla_mods_find_gradient(context, &job->call.params.score, p->score_mod_gradient, &job->call.mods));
    return plan(job);
}

void cla_backward_move(backward_job *job, clattn_tensor *const parts[4], const clattn_tensor *lse,
                       int64_t elements) {
    clattn_attention_backward_params *p = &job->params;
    clattn_tensor *const own[] = {&p->dout, &p->dq, &p->dk, &p->dv};
    cla_call_move(&job->call, parts);
    job->call.params.lse.offset = lse->offset;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) own[i]->offset += elements;
}

void cla_backward_bind(backward_job *job, cl_mem forward, cl_mem workspace) {
    clattn_attention_backward_params *p = &job->params;
    cla_call_bind(&job->call, forward);
    job->call.params.lse.buffer = forward;
    job->call.params.workspace = p->workspace = p->dout.buffer = workspace;
    p->dq.buffer = p->dk.buffer = p->dv.buffer = workspace;
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    backward_job *job = to;
    TRY(cla_backward_check(context, params, purpose, 0, job));
    return purpose != ENTRY_ENQUEUE ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *job) {
    return cla_backward_prepare(job);
}
static clattn_status run(void *job, chain *steps) {
    return cla_backward_run(job, steps);
}
static void release(void *job) {
    cla_call_release(&((backward_job *)job)->call);
}

static const entry backward_entry = {check, prepare, run, release};

clattn_status clattn_attention_backward_plan(clattn_context *context,
                                             const clattn_attention_backward_params *params,
                                             clattn_plan *to) {
    backward_job job;
    TRY(cla_entry_plan(&backward_entry, context, params, to, "plan", &job));
    const backward_variant *v = &job.variant;
    *to = (clattn_plan){.kernel = CLATTN_KERNEL_FLASH,
                        .tile_q = v->other_rows ? v->own_rows : v->knobs.tile_q,
                        .tile_kv = v->other_rows ? v->other_rows : v->knobs.tile_kv,
                        .work_group = v->work_group,
                        .splits = v->parts,
                        .matrix_instructions =
                            v->knobs.dot_bf16 != 0 || v->knobs.matrix_engine > MATRIX_ENGINE_EMULATION,
                        .local_bytes = v->local_bytes,
                        .workspace_bytes = (size_t)job.workspace_bytes};
    snprintf(to->kernel_name, sizeof to->kernel_name, "%s", v->family->name);
    snprintf(to->why, sizeof to->why, "%s", v->why);
    return CLATTN_OK;
}

clattn_status clattn_attention_backward_workspace(clattn_context *context,
                                                  const clattn_attention_backward_params *params,
                                                  size_t *bytes) {
    backward_job job;
    TRY(cla_entry_plan(&backward_entry, context, params, bytes, "bytes", &job));
    *bytes = (size_t)job.workspace_bytes;
    return CLATTN_OK;
}

clattn_status clattn_attention_backward_prepare(clattn_context *context,
                                                const clattn_attention_backward_params *params) {
    backward_job job;
    return cla_entry_prepare(&backward_entry, context, params, &job);
}

clattn_status clattn_attention_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                                const clattn_attention_backward_params *params,
                                                cl_uint wait_count, const cl_event *wait_list,
                                                cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    backward_job job;
    return cla_entry_enqueue(&backward_entry, context, params, &at, &job);
}
