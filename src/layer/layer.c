// layer.c: a multi-head attention layer: three projections, attention, one projection.
// q, k, v and the heads' result live in one workspace as [B, N, heads * size], which is what a projection
// writes; attention reads them as strided views, so no pass over memory only moves heads.
#include "layer/layer.h"

#include <stddef.h>

#include "core/bytes.h"
#include "core/workspace.h"
#include "layer/packed.h"
#include "layer/projector.h"

static const char *const packed_names[] = {"packed_wq", "packed_wk", "packed_wv", "packed_wo"};

// A [B, heads, N, size] part of the workspace, the rows of a head after one another or the heads of a row.
static clattn_tensor part(layer *l, bool heads_apart, int64_t heads, int64_t n, int64_t size) {
    const clattn_type type = l->native ? l->type : CLATTN_TYPE_F32;
    clattn_tensor t = heads_apart ? clattn_tensor_bhsd(NULL, type, l->y.shape[0], heads, n, size)
                                  : clattn_tensor_bshd(NULL, type, l->y.shape[0], heads, n, size);
    t.offset = (int64_t)(l->workspace_bytes / clattn_type_size(type));
    l->workspace_bytes =
        cla_workspace_add(l->workspace_bytes, (uint64_t)cla_tensor_count(&t), clattn_type_size(type));
    return t;
}

// The attention call between the projections, on the parts of the workspace, checked: RoPE with it, whoever
// applies it.
static clattn_status check_attention(layer *l) {
    const clattn_layer_params *p = &l->params;
    cla_call_release(&l->call);
    clattn_attention_params *a = &l->call.params;
    cla_bytes_zero(a, sizeof *a);
    a->q = l->q.y, a->out = l->o.x;
    a->kv = p->kv, a->kv.k = l->k.y, a->kv.v = l->v.y;
    a->lse = p->lse, a->weights = p->weights;
    a->scores = p->scores, a->scores_at = p->scores_at;
    a->score = p->score, a->rope = p->rope;
    a->kernel = p->kernel, a->splits = p->splits;
    a->workspace = p->workspace; // where the parts will be
    return cla_call_check(l->context, &l->call.params, l->purpose, true, &l->call);
}

// RoPE moves into the projections of q and k where both can do it: it then costs no pass over memory.
static void choose_rope(layer *l) {
    linear q = l->q, k = l->k;
    if (!l->native || !l->call.turns || cla_rope_amplitude(&l->params.rope) != 1.0) return;
    q.rope = cla_rope_rows_of(&l->call, true);
    k.rope = cla_rope_rows_of(&l->call, false);
    cla_linear_choose(l->context, &q);
    cla_linear_choose(l->context, &k);
    l->turns = q.choice.knobs.rope && k.choice.knobs.rope;
    if (!l->turns) return;
    l->q = q, l->k = k;
    cla_call_leave_rope(&l->call);
}

// What the projections have besides their tensors: packed weights, and how float32 may be multiplied.
static clattn_status take_packed(layer *l) {
    const clattn_layer_params *p = &l->params;
    linear *const all[] = {&l->q, &l->k, &l->v, &l->o};
    const clattn_packed *const packed[] = {&p->packed_wq, &p->packed_wk, &p->packed_wv, &p->packed_wo};
    for (int i = 0; i < 4; i++) {
        all[i]->split = p->precision == CLATTN_PRECISION_SPLIT;
        TRY(cla_packed_check(l->context, packed_names[i], packed[i], &all[i]->w, &all[i]->packed));
    }
    return CLATTN_OK;
}

// The four projections and the parts of the workspace between them, for l->native; attention's call on those parts.
static clattn_status lay_out_parts(layer *l) {
    const clattn_layer_params *p = &l->params;
    const bool native = l->native;
    const int64_t nq = p->x.shape[1], nkv = l->y.shape[1];
    const clattn_tensor x = cla_linear_one_head(&p->x), y = cla_linear_one_head(&l->y),
                        out = cla_linear_one_head(&p->out);
    linear *const all[] = {&l->q, &l->k, &l->v, &l->o};
    l->workspace_bytes = 0;
    l->type = p->x.type;
    // CLBlast writes rows of all heads, the native kernel a head after the other, which keeps a head's rows close
    // together in the caches.
    l->q = (linear){.x = x, .w = p->wq, .b = p->bq, .y = part(l, native, l->heads, nq, l->head_dim)};
    l->k = (linear){.x = y, .w = p->wk, .b = p->bk, .y = part(l, native, l->kv_heads, nkv, l->head_dim)};
    l->v = (linear){.x = y, .w = p->wv, .b = p->bv, .y = part(l, native, l->kv_heads, nkv, l->head_dim_v)};
    l->o = (linear){.x = x, .w = p->wo, .b = p->bo, .y = out, .has_lengths = p->score.q_lengths != NULL};
    TRY(take_packed(l));
    for (int i = 0; i < 4; i++) all[i]->native = native, cla_linear_choose(l->context, all[i]);
    // Only linear_lanes gains by heads apart. Few rows: a part of the reduction is a loop of its own, which a short head
    // does not pay for; without lanes, neighbours read whole rows.
    const bool heads_apart = native && l->o.choice.id == KERNEL_LINEAR_LANES;
    l->o.x = part(l, heads_apart, l->heads, nq, l->head_dim_v);
    l->o.x.buffer =
        p->workspace; // its rows may be aligned otherwise, and the caller's memory may begin anywhere
    cla_linear_choose(l->context, &l->o);
    l->o.x.buffer = NULL;
    if (l->workspace_bytes == WORKSPACE_MOST) return cla_workspace_fits(l->context, NULL, l->workspace_bytes);
    return check_attention(l);
}

// The caller's memory: the layer's, and what its attention call reads and writes of it.
static clattn_status check_memory(const layer *l, call_views *v) {
    const clattn_layer_params *p = &l->params;
    cla_views_begin(v, l->context);
    cla_views_add(v, "x", &p->x, VIEW_READ);
    cla_views_add(v, "y", &p->y, VIEW_READ);
    cla_views_add(v, "wq", &p->wq, VIEW_READ);
    cla_views_add(v, "wk", &p->wk, VIEW_READ);
    cla_views_add(v, "wv", &p->wv, VIEW_READ);
    cla_views_add(v, "wo", &p->wo, VIEW_READ);
    const clattn_tensor *const packed[] = {&l->q.packed, &l->k.packed, &l->v.packed, &l->o.packed};
    for (int i = 0; i < 4; i++) cla_views_add(v, packed_names[i], packed[i], VIEW_READ);
    cla_views_add(v, "bq", &p->bq, VIEW_READ);
    cla_views_add(v, "bk", &p->bk, VIEW_READ);
    cla_views_add(v, "bv", &p->bv, VIEW_READ);
    cla_views_add(v, "bo", &p->bo, VIEW_READ);
    cla_views_add(v, "out", &p->out, cla_linear_output_use(p->projection));
    cla_call_views(&l->call, v);
    return cla_views_check(v);
}

// CLBlast or native, for all four projections alike: the layout between them follows from it. What can be refused is
// refused before anything is measured.
static clattn_status choose_projection(layer *l, call_views *v) {
    const char *why;
    l->native = l->params.projection != CLATTN_PROJECTION_CLBLAST;
    TRY(lay_out_parts(l));
    TRY(check_memory(l, v));
    TRY(cla_projector_decide(l->context, &l->q, l->params.projection, l->call.empty, &why));
    if (l->q.native == l->native) return CLATTN_OK;
    l->native = l->q.native;
    return lay_out_parts(l);
}

// Lay out the workspace: attention's own part first, then q, k, v and the heads' result, then conversions.
static clattn_status plan_layer(layer *l) {
    call_views v;
    TRY(choose_projection(l, &v));
    choose_rope(l);
    const uint64_t own = cla_workspace_add(0, l->call.workspace_bytes, 1);
    clattn_tensor *const parts[] = {&l->q.y, &l->k.y, &l->v.y, &l->o.x};
    for (int i = 0; i < 4; i++) parts[i]->offset += (int64_t)(own / clattn_type_size(parts[i]->type));
    cla_call_move(&l->call, parts);
    l->scratch = own + l->workspace_bytes;
    const linear *const all[] = {&l->q, &l->k, &l->v, &l->o};
    uint64_t most = 0; // the projections run one after another and share the scratch memory
    for (int i = 0; i < 4; i++) most = cla_linear_scratch(all[i]) > most ? cla_linear_scratch(all[i]) : most;
    l->workspace_bytes = l->scratch + most;
    for (int i = 0; i < 4; i++) TRY(cla_linear_check_reach(l->context, all[i], l->workspace_bytes));
    if (l->purpose == ENTRY_ENQUEUE)
        TRY(cla_views_check_workspace(&v, l->params.workspace, l->workspace_bytes));
    return cla_workspace_fits(l->context, l->params.workspace, l->workspace_bytes);
}

static void drop_absent(clattn_layer_params *p) {
    clattn_tensor *const optional[] = {&p->y,    &p->bq,   &p->bk,     &p->bv,    &p->bo,
                                       &p->kv.k, &p->kv.v, &p->q_norm, &p->k_norm};
    cla_tensor_drop_absent(optional, (int)(sizeof optional / sizeof optional[0]));
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *job) {
    layer *l = job;
    cla_bytes_zero(l, offsetof(layer, q));
    l->context = context;
    l->purpose = purpose;
    l->call.arrays = l->call.ragged.words = NULL; // what a release looks at
    cla_bytes_copy(&l->params, params, sizeof l->params);
    if (purpose == ENTRY_ENQUEUE) drop_absent(&l->params);
    TRY(cla_layer_check(l, purpose != ENTRY_ENQUEUE));
    return plan_layer(l);
}

// Queries, keys and values in one launch: self-attention of few rows.
static bool shares_launch(const layer *l) {
    return l->native && l->self &&
           cla_linear_native_shares_launch((const linear *const[3]){&l->q, &l->k, &l->v});
}

static clattn_status prepare(void *job) {
    layer *l = job;
    const linear *const all[] = {&l->o, &l->q, &l->k, &l->v};
    const int count = shares_launch(l) ? 2 : 4; // k and v then need no kernel of their own
    TRY(cla_attention_prepare_call(&l->call));
    for (int i = 0; i < count; i++) TRY(cla_linear_prepare(l->context, all[i]));
    return CLATTN_OK;
}

static clattn_status enqueue_inputs(layer *l, chain *steps) {
    const linear *const all[3] = {&l->q, &l->k, &l->v};
    if (shares_launch(l)) return cla_linear_native_enqueue_three(steps, all);
    for (int i = 0; i < 3; i++) TRY(cla_linear_enqueue(steps, all[i], l->workspace, l->scratch));
    return CLATTN_OK;
}

// Everything that can refuse happens here, before the first command.
static clattn_status ready(layer *l, chain *steps) {
    TRY(prepare(l));
    TRY(cla_workspace_take(steps, l->params.workspace, l->workspace_bytes, &l->workspace));
    l->q.y.buffer = l->k.y.buffer = l->v.y.buffer = l->o.x.buffer = l->workspace;
    cla_call_bind(&l->call, l->workspace);
    TRY(cla_call_table(&l->call, steps));
    if (l->o.has_lengths) l->o.lengths = l->call.table;
    if (l->turns || l->call.turns) TRY(cla_rope_frequencies(&l->call, steps));
    l->q.rope.table = l->q.rope.flags ? l->call.table : NULL;
    l->q.rope.turns = l->k.rope.turns = l->turns ? l->call.frequencies : NULL;
    return CLATTN_OK;
}

static double flops_of(const layer *l) {
    return cla_linear_flops(&l->q) + cla_linear_flops(&l->k) + cla_linear_flops(&l->v) +
           cla_attention_flops(&l->call) + cla_linear_flops(&l->o);
}

static clattn_status run_once(layer *l, chain *steps) {
    TRY(ready(l, steps));
    cla_chain_hear(steps, l->params.progress, flops_of(l));
    TRY(enqueue_inputs(l, steps));
    TRY(cla_attention_enqueue_call(&l->call, steps));
    return cla_linear_enqueue(steps, &l->o, l->workspace, l->scratch);
}

static void release(void *job) {
    layer *l = job;
    cla_call_release(&l->call);
    l->workspace = NULL;
}

// Where CLBlast fails and the caller left the choice open, all of it is done again without CLBlast: what was enqueued
// before only wrote what is written again.
static clattn_status run(void *job, chain *steps) {
    layer *l = job;
    if (l->call.empty) return CLATTN_OK;
    const clattn_status status = run_once(l, steps);
    if (status == CLATTN_OK || status == CLATTN_CANCELLED ||
        !cla_projector_falls_back(l->context, l->params.projection, l->native))
        return status;
    release(l);
    TRY(plan_layer(l));
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

clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                clattn_plan *plan) {
    layer l;
    TRY(cla_entry_plan(&layer_entry, context, params, plan, "plan", &l));
    return cla_attention_fill_plan(&l.call, l.workspace_bytes, plan);
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
