// call.c: checks one attention call against the contract in the header, and fills the kernel
// arguments. Nothing is enqueued here. Every error names the option, the value found and the values
// accepted. score.c checks the score options.
#include "attention/call/call.h"

#include <stddef.h>
#include <stdio.h>

#include "attention/call/call_kind.h"
#include "attention/call/views.h"
#include "attention/kv/kv.h"
#include "attention/mods/mods.h"
#include "attention/run/cascade.h"
#include "attention/run/run.h"
#include "attention/score/score.h"
#include "base/host.h"
#include "launch/workspace.h"
#include "plan/families/family.h"
#include "plan/planner.h"

static clattn_status check_enums(clattn_context *c, const clattn_attention_params *p) {
    if ((unsigned)p->scores_at >= CLATTN_TAP_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "scores_at: %d is none of CLATTN_TAP_*",
                                (int)p->scores_at);
    if ((unsigned)p->cascade >= CLATTN_CASCADE_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "cascade: %d is none of CLATTN_CASCADE_*",
                                (int)p->cascade);
    if ((unsigned)p->kernel >= CLATTN_KERNEL_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "kernel: %d is none of CLATTN_KERNEL_*",
                                (int)p->kernel);
    if (p->splits < 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "splits: %d: must be 0 (the planner's choice) or more", (int)p->splits);
    return CLATTN_OK;
}

// Check each of q, k, v and out, then compare their shapes.
static clattn_status check_tensors(clattn_context *x, const clattn_attention_params *p, bool planning) {
    const tensor_rule q = {"q", "[B, H, Nq, D]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, H, Nq, Dv]", TYPES_FLOAT, true, planning};
    TRY(cla_tensor_check(x, &p->q, 4, &q));
    const bool packed_keys = cla_ragged_packs_keys(p);
    const int64_t items = cla_ragged_sequences(p), of_keys[4] = {packed_keys ? p->q.shape[0] : items,
                                                                 p->q.shape[1], p->q.shape[2], p->q.shape[3]};
    TRY(cla_kv_check(x, &p->kv, of_keys, items, planning));
    TRY(cla_tensor_check(x, &p->out, 4, &out));
    const int64_t *sq = p->q.shape;
    const int64_t out_shape[4] = {sq[0], sq[1], sq[2], cla_tensor_width(&p->kv.v)};
    return cla_tensor_check_shape(x, &p->out, out_shape, &out);
}

static clattn_status check_sizes(clattn_context *x, const clattn_attention_params *p) {
    const int64_t *sq = p->q.shape, *sk = p->kv.k.shape, *sv = p->kv.v.shape;
    if (sq[3] == 0 || sv[3] == 0)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: head size 0: must be 1 or more",
                                sq[3] ? "v" : "q");
    const int64_t keys = cla_kv_count(&p->kv), longest = sq[2] > keys ? sq[2] : keys;
    if (longest > ARGS_MOST_ROWS)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: %lld rows: at most %d are possible",
                                sq[2] > keys ? "q" : "k", (long long)longest, ARGS_MOST_ROWS);
    if (sk[1] == 0 ? sq[1] != 0 : sq[1] % sk[1] != 0)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "heads: H = %lld must be a multiple of Hkv = %lld: axes are q [B, H, Nq, D] "
                                "and k [B, Hkv, Nkv, D], clattn_tensor_bshd views [B, N, H, D] so",
                                (long long)sq[1], (long long)sk[1]);
    const int64_t batch = cla_ragged_sequences(p);
    if (batch * sq[1] > INT32_MAX)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "q: B * H = %lld: must be below 2^31",
                                (long long)(batch * sq[1]));
    return CLATTN_OK;
}

static void fill_problem(call *c) {
    const clattn_attention_params *p = &c->params;
    const ragged_batch *r = &c->ragged;
    c->problem = (problem){
        .batch = (int)cla_ragged_sequences(p),
        .heads = (int)p->q.shape[1],
        .kv_heads = (int)p->kv.k.shape[1],
        .n_q = r->given ? r->most_q : (int)p->q.shape[2],
        .n_kv = r->given ? r->most_kv : (int)cla_kv_count(&p->kv),
        .ragged = r->given,
        .packed_rows = r->total_q,
        .head_dim = (int)p->q.shape[3],
        .head_dim_v = (int)cla_tensor_width(&p->kv.v),
        .type_q = p->q.type,
        .type_kv = p->kv.k.type,
        .type_v = cla_type_v_knob(p->kv.k.type, p->kv.v.type),
        .type_out = p->out.type,
        .type_bias = cla_tensor_given(&p->score.bias) ? p->score.bias.type : CLATTN_TYPE_F32,
        .type_weights = cla_tensor_given(&p->weights) ? p->weights.type : CLATTN_TYPE_F32,
        .past = cla_kv_has_past(&p->kv),
        .paged = cla_kv_is_paged(&p->kv),
        .shared_kv = p->rope.layout == CLATTN_ROPE_NONE && cla_kv_is_shared(&p->kv),
        .score_ops = cla_score_flags(&p->score) & ARGS_SCORE_OPS,
        .band = cla_score_band(&p->score),
        .dropout = p->score.dropout > 0.0f,
        .wants_weights = cla_tensor_given(&p->weights),
        .wants_scores = cla_tensor_given(&p->scores),
        .kernel = p->kernel,
        .splits = p->splits,
    };
    cla_kv_fill_groups(&p->kv, &c->problem);
    const clattn_tensor *weights = &p->weights;
    c->problem.sums_weights =
        cla_tensor_given(weights) && weights->rank == 4 && weights->shape[2] == 1 && c->problem.n_q > 1;
    c->empty = c->problem.batch == 0 || c->problem.heads == 0 || c->problem.n_q == 0 ||
               (r->given && r->total_q == 0);
}

static clattn_status check_lse(const call *c, bool planning) {
    const tensor_rule lse = {"lse", "[B, H, Nq]", TYPES_F32 | ANY_LAST_STRIDE, true, planning};
    const clattn_tensor *t = &c->params.lse;
    const int64_t *const shape = c->params.q.shape;
    TRY(cla_tensor_check(c->context, t, 3, &lse));
    for (int i = 0; i < 3; i++)
        if (t->shape[i] != shape[i])
            return cla_context_fail(
                c->context, CLATTN_INVALID_ARGUMENT,
                "lse: size %lld of axis %d does not fit: [B, H, Nq] must be [%lld,%lld,%lld]",
                (long long)t->shape[i], i, (long long)shape[0], (long long)shape[1], (long long)shape[2]);
    return CLATTN_OK;
}

static clattn_status check_optional_tensors(call *c, bool planning) {
    const clattn_attention_params *p = &c->params;
    clattn_context *x = c->context;
    const problem *m = &c->problem;
    const int64_t full[4] = {m->batch, m->heads, m->n_q, m->n_kv};
    const int64_t of_keys[4] = {m->batch, m->heads, 1, m->n_kv};
    const tensor_rule weights = {"weights", "[B, H, Nq, Nkv]", TYPES_FLOAT, true, planning};
    const tensor_rule scores = {"scores", "[B, H, Nq, Nkv]", TYPES_F32, true, planning};
    if (cla_tensor_given(&p->lse)) TRY(check_lse(c, planning));
    if (m->wants_weights) {
        const tensor_rule sums = {"weights", "[B, H, 1, Nkv], their sums over rows,", TYPES_F32, true,
                                  planning};
        const tensor_rule *rule = m->sums_weights ? &sums : &weights;
        TRY(cla_tensor_check(x, &p->weights, 4, rule));
        TRY(cla_tensor_check_shape(x, &p->weights, m->sums_weights ? of_keys : full, rule));
    }
    if (m->wants_scores) {
        TRY(cla_tensor_check(x, &p->scores, 4, &scores));
        TRY(cla_tensor_check_shape(x, &p->scores, full, &scores));
    }
    return CLATTN_OK;
}

// Check the buffers of score_mod and mask_mod, and generate OpenCL C from the expressions.
static clattn_status check_mods(call *c, bool planning, unsigned how) {
    const clattn_score *s = &c->params.score;
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) {
        const clattn_tensor *t = &s->mod_buffers[n];
        char name[16];
        const tensor_rule rule = {name, "1 to 4 axes", MOD_TYPES | ANY_LAST_STRIDE, false, planning};
        if (!cla_tensor_given(t)) continue;
        snprintf(name, sizeof name, "mod_buffers[%d]", n);
        if (!s->score_mod && !s->mask_mod)
            return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: is there for score_mod and mask_mod, and neither is given", name);
        TRY(cla_tensor_check(c->context, t, t->rank < 1 || t->rank > CLATTN_MAX_RANK ? 1 : t->rank, &rule));
        if (cla_tensor_count(t) == 0)
            return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: has no elements: each axis must have 1 or more", name);
    }
    if (how & CALL_UNPLANNED) return CLATTN_OK;
    TRY(cla_mods_find(c->context, s, &c->mods));
    for (int n = 0; n < 2; n++)
        c->problem.lane_by_lane[n] = c->mods.lane_by_lane[n][0] ? c->mods.lane_by_lane[n] : NULL;
    c->problem.inserted = c->mods.inserted;
    return CLATTN_OK;
}

// The block mask is [B or 1, H or 1, row blocks, key blocks], with any strides.
static clattn_status check_blocks(call *c, bool planning) {
    const clattn_score *s = &c->params.score;
    const clattn_tensor *t = &s->block_mask;
    const problem *m = &c->problem;
    const tensor_rule rule = {"block_mask", "[B or 1, H or 1, row blocks, key blocks]",
                              TYPES_BOOL | ANY_LAST_STRIDE, false, planning};
    if (!cla_tensor_given(t)) return CLATTN_OK;
    if (!s->mask_mod && !cla_tensor_given(&s->mask))
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "block_mask: is there for mask and mask_mod, and neither is given");
    TRY(cla_tensor_check(c->context, t, 4, &rule));
    const int64_t shape[4] = {t->shape[0] == 1 ? 1 : m->batch, t->shape[1] == 1 ? 1 : m->heads,
                              (m->n_q + ARGS_BLOCK_ROWS - 1) / ARGS_BLOCK_ROWS,
                              (m->n_kv + ARGS_BLOCK_KEYS - 1) / ARGS_BLOCK_KEYS};
    TRY(cla_tensor_check_shape(c->context, t, shape, &rule));
    args_view *v = &c->args.blocks;
    *v = cla_tensor_view(t);
    v->batch = t->shape[0] == 1 ? 0 : v->batch;
    v->head = t->shape[1] == 1 ? 0 : v->head;
    v->column = t->stride[3];
    return CLATTN_OK;
}

static void fill_args(call *c) {
    const clattn_attention_params *p = &c->params;
    const problem *m = &c->problem;
    attention_args *a = &c->args;
    a->q = cla_tensor_view(&p->q);
    a->out = cla_tensor_view(&p->out);
    if (cla_tensor_given(&p->lse)) a->lse = cla_tensor_view(&p->lse), a->flags |= ARGS_LSE;
    if (m->wants_weights) a->weights = cla_tensor_view(&p->weights);
    a->batch = m->batch, a->heads = m->heads, a->kv_heads = m->kv_heads;
    a->group = m->kv_heads ? m->heads / m->kv_heads : 1;
    a->n_q = m->n_q, a->n_kv = m->n_kv;
    a->head_dim = m->head_dim, a->head_dim_v = m->head_dim_v;
    a->splits = 1, a->split_keys = m->n_kv;
    a->call_rows = m->n_q;
    cla_score_fill(c, a);
    if (c->ragged.given) a->flags |= ARGS_BATCH_ROWS, a->q.batch = a->out.batch = a->lse.batch = 0;
    c->q = p->q.buffer;
    cla_kv_fill(c);
}

// The RoPE'd copies come first, then the kernel's own scratch.
static void lay_out_workspace(call *c) {
    const problem *m = &c->problem;
    uint64_t at = 0;
    if (c->applies_rope) {
        c->q_roped = at;
        at = cla_workspace_add(at, (uint64_t)cla_tensor_count(&c->params.q), clattn_type_size(m->type_q));
        c->k_roped = at;
        if (!c->keeps_keys)
            at = cla_workspace_add(at, (uint64_t)cla_tensor_count(&c->params.kv.k),
                                   clattn_type_size(m->type_kv));
    }
    c->variant_workspace = at;
    uint64_t most = c->cascade.on ? c->cascade.workspace_bytes : c->variant.workspace_bytes;
    if (c->few_rows && c->few_variant.workspace_bytes > most) most = c->few_variant.workspace_bytes;
    c->workspace_bytes = at + most;
    if (c->workspace_bytes > WORKSPACE_MOST) c->workspace_bytes = WORKSPACE_MOST;
}

void cla_call_skip_rope(call *c) {
    c->applies_rope = false;
    lay_out_workspace(c);
}

// Also accepts a call whose check failed early: its context may still be NULL.
void cla_call_release(call *c) {
    if (c->arrays) cla_host_release(&c->context->host, c->arrays);
    if (c->ragged.words) cla_host_release(&c->context->host, c->ragged.words);
    c->ragged.words = NULL, c->ragged.limits = NULL;
    c->table = c->with_sinks = c->frequencies = c->past_table = c->append_table = c->workspace = NULL;
    c->arrays = NULL;
}

// RoPE'd copies are dense. They and a layer's parts start at multiples of 256 bytes in the
// workspace.
clattn_status cla_call_alignment(const call *c, const char *name, const clattn_tensor *t, bool copied,
                                 int *rows) {
    const int dense = (int)t->shape[3] | 16, own = copied ? dense & -dense : cla_tensor_row_alignment(t);
    cl_mem buffer = copied || !t->buffer ? c->params.workspace : t->buffer;
    int first;
    if (clattn_type_numbers(t->type) > 1) { // kernels read blocks byte by byte
        *rows = 16;
        return CLATTN_OK;
    }
    TRY(cla_views_alignment(c->context, name, buffer, clattn_type_size(t->type), &first));
    *rows = first < own ? first : own;
    return CLATTN_OK;
}

// Queries the buffers only if some kernel on this device depends on alignment. Otherwise the
// alignment is 1, which always holds.
clattn_status cla_call_fill_alignments(call *c) {
    const clattn_attention_params *p = &c->params;
    problem *m = &c->problem;
    m->align_q = m->align_k = m->align_v = 1;
    if (!cla_planner_asks_alignment(c->context)) return CLATTN_OK;
    TRY(cla_call_alignment(c, "q", &p->q, c->applies_rope, &m->align_q));
    TRY(cla_call_alignment(c, "k", &p->kv.k, c->applies_rope && !c->keeps_keys, &m->align_k));
    TRY(cla_call_alignment(c, "v", &p->kv.v, false, &m->align_v));
    if (!m->past) return CLATTN_OK;
    int past_k, past_v;
    TRY(cla_call_alignment(c, "past_k", &p->kv.past_k, false, &past_k));
    TRY(cla_call_alignment(c, "past_v", &p->kv.past_v, false, &past_v));
    m->align_k = past_k < m->align_k ? past_k : m->align_k;
    m->align_v = past_v < m->align_v ? past_v : m->align_v;
    return CLATTN_OK;
}

static clattn_status plan(call *c, unsigned how) {
    const clattn_kv *kv = &c->params.kv;
    c->applies_rope = c->params.rope.layout != CLATTN_ROPE_NONE || kv->k_rotation;
    c->keeps_keys = (how & CALL_KEYS_ROPED) || c->problem.paged || cla_kv_appends(kv) || kv->k_rotation;
    if (how & CALL_UNPLANNED) {
        lay_out_workspace(c);
        return CLATTN_OK;
    }
    TRY(cla_call_fill_alignments(c));
    const plan_input in = cla_planner_input(c->context, &c->problem);
    if (cla_variant_choose(&in, &c->problem, &c->variant) != CLATTN_OK) {
        char why[256];
        cla_variant_refusal(&c->variant, why);
        return cla_context_fail(c->context, CLATTN_UNSUPPORTED, "%s", why);
    }
    cla_mixed_plan(c, &in);
    TRY(cla_cascade_plan(c, &in));
    lay_out_workspace(c);
    return CLATTN_OK;
}

clattn_status cla_call_check(clattn_context *context, const clattn_attention_params *params,
                             entry_purpose purpose, unsigned how, call *c) {
    const bool planning = purpose != ENTRY_ENQUEUE, parts = how & CALL_PARTS,
               keys_roped = how & CALL_KEYS_ROPED;
    cla_bytes_zero(c, offsetof(call, params));
    c->context = context;
    if (params != &c->params) cla_bytes_copy(&c->params, params, sizeof c->params);
    cla_given_attention(&(given_views){context, planning, parts, how & CALL_SIZES}, &c->params);
    const clattn_attention_params *p = &c->params;
    TRY(cla_kv_check_unsupported(context, p, keys_roped));
    TRY(cla_score_check(context, &p->score));
    TRY(check_enums(context, p));
    TRY(cla_ragged_check_given(context, p));
    TRY(check_tensors(context, p, planning || parts));
    TRY(check_sizes(context, p));
    TRY(cla_ragged_check(c, planning));
    fill_problem(c);
    TRY(check_optional_tensors(c, planning));
    TRY(cla_score_check_tensors(c, planning));
    TRY(check_mods(c, planning, how));
    TRY(check_blocks(c, planning));
    TRY(cla_score_take_arrays(c, !planning));
    TRY(cla_kv_check_new(c, planning || parts));
    TRY(cla_ragged_take_lengths(c, planning));
    TRY(cla_rope_check(context, p, c->problem.head_dim, planning));
    fill_args(c);
    cla_kv_fill_new(c);
    return plan(c, how);
}

// The functions below place a call's tensors between a layer's projections.

void cla_call_move(call *c, clattn_tensor *const parts[4]) {
    clattn_kv *kv = &c->params.kv;
    const bool appends = cla_kv_appends(kv); // then k_new and v_new are the parts
    clattn_tensor *const own[] = {&c->params.q, appends ? &kv->k_new : &kv->k, appends ? &kv->v_new : &kv->v,
                                  &c->params.out};
    args_view *const views[] = {&c->args.q, &c->args.k, &c->args.v, &c->args.out};
    for (int i = 0; i < 4; i++) {
        own[i]->offset = parts[i]->offset;
        if (!appends || i == 0 || i == 3) views[i]->offset = parts[i]->offset;
    }
}

void cla_call_bind(call *c, cl_mem workspace) {
    c->q = c->params.q.buffer = workspace;
    if (cla_kv_appends(&c->params.kv)) {
        c->params.kv.k_new.buffer = c->params.kv.v_new.buffer = workspace;
    } else {
        c->k = c->params.kv.k.buffer = workspace;
        c->v = c->params.kv.v.buffer = workspace;
    }
    c->params.out.buffer = workspace;
    c->params.workspace = workspace;
}

void cla_call_bind_kv(call *c, const clattn_kv *kv) {
    c->k = c->params.kv.k.buffer = kv->k.buffer;
    c->v = c->params.kv.v.buffer = kv->v.buffer;
}
