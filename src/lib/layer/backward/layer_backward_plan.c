// layer_backward_plan.c: memory and kernels for a layer's gradients. The workspace has three areas:
//    memory of attention and of its gradients, which run one after the other and share it
//    the parts that are not kept
//    scratch memory that all products share
#include "base/host.h"
#include "launch/workspace.h"
#include "layer/backward/layer_backward.h"
#include "layer/projection/projector.h"

static bool given(const clattn_tensor *a, const clattn_tensor *b, const clattn_tensor *c,
                  const clattn_tensor *d) {
    return cla_tensor_given(a) || cla_tensor_given(b) || cla_tensor_given(c) || (d && cla_tensor_given(d));
}

static void find_wants(layer_gradients *g) {
    const clattn_layer_backward_params *p = &g->params;
    const clattn_tensor *keys = g->forward.self ? &p->dx : &p->dy;
    g->wants[PROJECT_Q] = given(&p->dx, &p->dwq, &p->dbq, &p->dq_norm);
    g->wants[PROJECT_K] = given(keys, &p->dwk, &p->dbk, &p->dk_norm);
    g->wants[PROJECT_V] = given(keys, &p->dwv, &p->dbv, NULL);
    g->wants[PROJECT_GATE] = g->forward.gated && given(&p->dx, &p->dw_gate, &p->db_gate, NULL);
    g->attends = g->wants[PROJECT_Q] || g->wants[PROJECT_K] || g->wants[PROJECT_V] ||
                 given(&p->dbias, &p->dsinks, &p->dalibi_slopes, &p->dhead_scales);
    g->wants[GRADIENT_HEADS] = g->attends || g->wants[PROJECT_GATE];
    g->wants[GRADIENT_OUT] = cla_tensor_given(&p->dwo) || cla_tensor_given(&p->dbo);
}

static bool is_kept(const layer_gradients *g, layer_part which) {
    return g->keeps && (which < PARTS_FORWARD || (which == PART_GATED && !g->forward.gated));
}

static void take_part(layer_gradients *g, layer_part which, int64_t heads, int64_t n, int64_t size) {
    const bool kept = is_kept(g, which);
    uint64_t *end = kept ? &g->kept_bytes : &g->workspace_bytes;
    clattn_tensor *t = &g->part[which];
    *t = clattn_tensor_bshd(kept ? g->params.kept.buffer : NULL, CLATTN_TYPE_F32,
                            g->forward.params.x.shape[0], heads, n, size);
    t->offset = (int64_t)(*end / sizeof(float)) + (kept ? g->params.kept.offset : 0);
    *end = cla_workspace_add(*end, (uint64_t)cla_tensor_count(t), sizeof(float));
}

// The shares of a gradient follow one another. A single share is written to the caller's tensor
// directly.
static void take_shares(layer_gradients *g, int which, layer_part part, const clattn_tensor *to, int count) {
    input_shares *s = &g->shares[which];
    *s = (input_shares){.to = to, .count = cla_tensor_given(to) ? count : 0};
    if (s->count < 2) return;
    const int64_t batch = to->shape[0], rows = to->shape[1], width = to->shape[2];
    s->stride = (batch * rows * width + 63) / 64 * 64;
    take_part(g, part, 1, rows, width);
    g->workspace_bytes =
        cla_workspace_add(g->workspace_bytes, (uint64_t)s->stride, sizeof(float) * (size_t)(s->count - 1));
}

static void lay_out_parts(layer_gradients *g) {
    const layer *l = &g->forward;
    const int64_t nq = l->params.x.shape[1], nkv = l->n_kv, d = l->head_dim, dv = l->head_dim_v;
    const int64_t lse[3] = {l->params.x.shape[0], l->heads, nq};
    const bool norms = l->norm.how != CLATTN_NORM_NONE;
    clattn_tensor *part = g->part;
    g->workspace_bytes = g->kept_bytes = 0;
    take_part(g, PART_Q0, l->heads, nq, d);
    take_part(g, PART_K0, l->kv_heads, nkv, d);
    take_part(g, PART_V, l->kv_heads, nkv, dv);
    take_part(g, PART_HEADS, l->heads, nq, dv);
    take_part(g, PART_LSE, 1, 1, l->heads * nq);
    const clattn_tensor rows = part[PART_LSE];
    part[PART_LSE] = clattn_tensor_dense(rows.buffer, CLATTN_TYPE_F32, 3, lse);
    part[PART_LSE].offset = rows.offset;
    if (l->gated) take_part(g, PART_GATES, 1, nq, l->params.w_gate.shape[0]);
    if (norms) take_part(g, PART_Q, l->heads, nq, d);
    if (norms) take_part(g, PART_K, l->kv_heads, nkv, d);
    if (!norms) part[PART_Q] = part[PART_Q0], part[PART_K] = part[PART_K0];
    if (l->gated) take_part(g, PART_GATED, l->heads, nq, dv);
    if (!l->gated) part[PART_GATED] = part[PART_HEADS];
    if (g->wants[PROJECT_GATE]) take_part(g, PART_DGATES, 1, nq, l->params.w_gate.shape[0]);
    if (cla_tensor_given(&g->params.dq_norm)) take_part(g, PART_Q_SHARES, l->heads, nq, d);
    if (cla_tensor_given(&g->params.dk_norm)) take_part(g, PART_K_SHARES, l->kv_heads, nkv, d);
    if (g->wants[GRADIENT_HEADS]) take_part(g, PART_DHEADS, l->heads, nq, dv);
    if (g->wants[PROJECT_Q]) take_part(g, PART_DQ, l->heads, nq, d);
    if (g->wants[PROJECT_K]) take_part(g, PART_DK, l->kv_heads, nkv, d);
    if (g->wants[PROJECT_V]) take_part(g, PART_DV, l->kv_heads, nkv, dv);
    take_shares(g, 0, PART_DX, &g->params.dx, (l->self ? 3 : 1) + l->gated);
    take_shares(g, 1, PART_DY, &g->params.dy, 2);
}

// Check the attention call on the parts, and its gradients. An optional view without a buffer would
// count as absent, so x's buffer is a placeholder for lse's.
static clattn_status check_attention(layer_gradients *g, uint64_t *own) {
    layer *l = &g->forward;
    const clattn_layer_backward_params *p = &g->params;
    clattn_attention_backward_params b;
    cla_bytes_zero(&b, sizeof b);
    clattn_attention_params *a = &b.forward;
    a->q = g->part[PART_Q], a->kv.k = g->part[PART_K], a->kv.v = g->part[PART_V];
    a->out = g->part[PART_HEADS], a->lse = g->part[PART_LSE];
    if (!a->lse.buffer) a->lse.buffer = l->params.x.buffer;
    a->score = l->params.score, a->rope = l->params.rope;
    a->workspace = p->workspace;
    TRY(cla_call_check(l->context, a, l->purpose, CALL_PARTS, &l->call));
    cla_call_bind(&l->call, NULL); // the parts are not the caller's views
    l->call.params.lse.buffer = NULL;
    *own = l->call.workspace_bytes;
    if (!g->attends) return CLATTN_OK;
    // The copy of the forward call, whose host arrays were copied, so that the caller's are read
    // once.
    a->score = l->call.params.score;
    b.score_mod_gradient = p->score_mod_gradient;
    b.dout = g->part[PART_DHEADS];
    if (g->wants[PROJECT_Q]) b.dq = g->part[PART_DQ];
    if (g->wants[PROJECT_K]) b.dk = g->part[PART_DK];
    if (g->wants[PROJECT_V]) b.dv = g->part[PART_DV];
    b.dbias = p->dbias, b.dsinks = p->dsinks;
    b.dalibi_slopes = p->dalibi_slopes, b.dhead_scales = p->dhead_scales;
    b.workspace = p->workspace;
    TRY(cla_backward_check(l->context, &b, l->purpose, CALL_PARTS, &g->attention));
    g->attention.call.params.lse.buffer = NULL;
    if (g->attention.workspace_bytes > *own) *own = g->attention.workspace_bytes;
    return CLATTN_OK;
}

// The parts in the workspace begin after attention's own memory.
static void move_parts(layer_gradients *g, uint64_t own) {
    const int64_t elements = (int64_t)(own / sizeof(float));
    call *c = &g->forward.call;
    clattn_tensor *const parts[4] = {&g->part[PART_Q], &g->part[PART_K], &g->part[PART_V],
                                     &g->part[PART_HEADS]};
    for (int i = 0; i < PARTS; i++)
        if (!is_kept(g, (layer_part)i)) g->part[i].offset += elements;
    cla_call_move(c, parts);
    c->params.lse.offset = c->args.lse.offset = g->part[PART_LSE].offset;
    if (g->attends) cla_backward_move(&g->attention, parts, &g->part[PART_LSE], elements);
    g->workspace_bytes += own;
}

static clattn_status plan_projections(layer_gradients *g, uint64_t *most) {
    layer *l = &g->forward;
    const clattn_layer_params *p = &l->params;
    const clattn_tensor x = cla_linear_one_head(&p->x), y = cla_linear_one_head(&l->y);
    const linear all[PROJECTIONS] = {{.x = x, .w = p->wq, .b = p->bq, .y = g->part[PART_Q0]},
                                     {.x = y, .w = p->wk, .b = p->bk, .y = g->part[PART_K0]},
                                     {.x = y, .w = p->wv, .b = p->bv, .y = g->part[PART_V]},
                                     {.x = x, .w = p->w_gate, .b = p->b_gate, .y = g->part[PART_GATES]},
                                     {.x = g->part[PART_GATED],
                                      .w = p->wo,
                                      .b = p->bo,
                                      .y = cla_linear_one_head(&p->out),
                                      .has_lengths = p->score.q_lengths != NULL}};
    for (int i = 0; i < (g->keeps ? PROJECTIONS : PROJECT_OUT); i++) {
        linear *of = &l->of[i];
        const char *why;
        if (!cla_layer_projects(l, i)) continue;
        *of = all[i];
        if (!of->x.buffer) of->x.buffer = g->params.workspace;
        of->split = p->precision == CLATTN_PRECISION_SPLIT;
        cla_linear_choose(l->context, of);
        TRY(cla_projector_decide(l->context, of, p->projection, cla_tensor_count(&of->y) == 0, &why));
        g->native = g->native && of->native;
        const uint64_t end = cla_workspace_add(g->scratch, cla_linear_scratch(of), 1);
        TRY(cla_linear_check_reach(l->context, of, end));
        if (end > *most) *most = end;
    }
    return CLATTN_OK;
}

// View a part [B, heads, N, size] as rows [B, N, heads * size].
static clattn_tensor rows_of(const clattn_tensor *t) {
    const int64_t shape[3] = {t->shape[0], t->shape[2], t->shape[1] * t->shape[3]};
    clattn_tensor rows = clattn_tensor_dense(t->buffer, t->type, 3, shape);
    rows.offset = t->offset;
    return rows;
}

static clattn_tensor next_share(layer_gradients *g, int input) {
    input_shares *s = &g->shares[input];
    if (s->count < 2) return s->count ? *s->to : (clattn_tensor){0};
    clattn_tensor share = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, s->to->shape);
    share.offset = g->part[PART_DX + input].offset + s->stride * s->taken++;
    return share;
}

static linear_gradients product_of(layer_gradients *g, int which) {
    const clattn_layer_params *f = &g->forward.params;
    const clattn_layer_backward_params *p = &g->params;
    const bool of_keys = which == PROJECT_K || which == PROJECT_V;
    linear_gradients l = {.split = f->precision == CLATTN_PRECISION_SPLIT, .dout = p->dout};
    if (g->forward.call.args.flags & ARGS_BATCH_ROWS) l.word = of_keys ? 2 : 1;
    if (which == GRADIENT_OUT) l.x = rows_of(&g->part[PART_GATED]), l.dw = p->dwo, l.db = p->dbo;
    if (which == GRADIENT_HEADS) l.w = f->wo, l.dx = rows_of(&g->part[PART_DHEADS]);
    if (which >= GRADIENT_OUT) return l;
    static const layer_part parts[] = {PART_DQ, PART_DK, PART_DV, PART_DGATES};
    const clattn_tensor *const w[] = {&f->wq, &f->wk, &f->wv, &f->w_gate},
                               *const dw[] = {&p->dwq, &p->dwk, &p->dwv, &p->dw_gate},
                               *const db[] = {&p->dbq, &p->dbk, &p->dbv, &p->db_gate};
    l.x = of_keys ? g->forward.y : f->x, l.w = *w[which];
    l.dout = rows_of(&g->part[parts[which]]);
    l.dw = *dw[which], l.db = *db[which];
    l.dx = next_share(g, of_keys && !g->forward.self);
    return l;
}

static clattn_status plan_products(layer_gradients *g, uint64_t *most) {
    const clattn_layer_params *f = &g->forward.params;
    for (int i = 0; i < GRADIENTS; i++) {
        linear_gradients *l = &g->of[i];
        if (!g->wants[i]) continue;
        *l = product_of(g, i);
        TRY(cla_linear_gradients_plan(g->forward.context, l, f->projection, g->params.workspace, g->scratch));
        g->native = g->native && cla_linear_gradients_native(l);
        if (l->scratch_bytes > *most) *most = l->scratch_bytes;
    }
    return CLATTN_OK;
}

// Plan the backward passes of norms and gate.
static void plan_heads(layer_gradients *g, uint64_t *most) {
    layer *l = &g->forward;
    const clattn_layer_backward_params *p = &g->params;
    const bool lengths = l->call.args.flags & ARGS_BATCH_ROWS;
    l->q_norm = cla_norm_of(&l->norm, 0, &l->of[PROJECT_Q]);
    l->k_norm = cla_norm_of(&l->norm, 1, &l->of[PROJECT_K]);
    const head_norm *const norms[2] = {&l->q_norm, &l->k_norm};
    for (int i = 0; i < 2; i++)
        g->norm[i] = (norm_backward){.norm = norms[i],
                                     .x = g->part[PART_Q0 + i],
                                     .g = g->part[PART_DQ + i],
                                     .shares = g->part[PART_Q_SHARES + i],
                                     .dw = i ? p->dk_norm : p->dq_norm,
                                     .rows.word = lengths ? 1 + i : 0,
                                     .at = g->scratch};
    g->gate = (gate_backward){.gates = g->part[PART_GATES],
                              .heads = g->part[PART_HEADS],
                              .dgates = g->part[PART_DGATES],
                              .dheads = g->part[PART_DHEADS],
                              .gated = g->part[PART_GATED],
                              .rows.word = lengths ? 1 : 0};
    for (int i = 0; i < 2 && l->norm.how != CLATTN_NORM_NONE; i++) {
        const uint64_t end = cla_workspace_add(g->scratch, cla_norm_backward_scratch(&g->norm[i]), 1);
        if (end > *most) *most = end;
    }
}

clattn_status cla_layer_gradients_plan(layer_gradients *g) {
    layer *l = &g->forward;
    uint64_t own = 0;
    g->native = true;
    find_wants(g);
    lay_out_parts(g);
    if (g->workspace_bytes == WORKSPACE_MOST || g->kept_bytes == WORKSPACE_MOST)
        return cla_workspace_fits(l->context, NULL, WORKSPACE_MOST);
    TRY(check_attention(g, &own));
    move_parts(g, cla_workspace_add(0, own, 1));
    g->scratch = g->workspace_bytes;
    uint64_t most = g->scratch;
    TRY(plan_projections(g, &most));
    TRY(plan_products(g, &most));
    plan_heads(g, &most);
    g->workspace_bytes = most;
    return cla_workspace_fits(l->context, g->params.workspace, g->workspace_bytes);
}

void cla_layer_gradients_bind(layer_gradients *g, cl_mem workspace) {
    layer *l = &g->forward;
    const cl_mem kept = g->keeps ? g->params.kept.buffer : workspace;
    g->workspace = workspace;
    for (int i = 0; i < PARTS; i++) g->part[i].buffer = is_kept(g, (layer_part)i) ? kept : workspace;
    for (int i = 0; i < PROJECT_OUT; i++) l->of[i].y.buffer = kept;
    l->of[PROJECT_OUT].x.buffer = g->part[PART_GATED].buffer;
    for (int i = 0; i < GRADIENTS; i++) cla_linear_gradients_bind(&g->of[i], workspace);
    for (int i = 0; i < 2; i++) g->norm[i].x.buffer = kept, g->norm[i].g.buffer = workspace;
    for (int i = 0; i < 2; i++) g->norm[i].shares.buffer = workspace;
    g->gate.heads.buffer = kept, g->gate.dheads.buffer = workspace;
    cla_call_bind(&l->call, kept);
    l->call.params.workspace = workspace, l->call.params.lse.buffer = kept;
    if (g->attends) cla_backward_bind(&g->attention, kept, workspace);
}
