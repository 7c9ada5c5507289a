// layer.c: a multi-head attention layer: three projections, attention, one projection.
// q, k, v and the heads' result live in one workspace as [B, N, heads * size], which is what a projection
// writes; attention reads them as strided views, so no pass over memory only moves heads.
#include "layer/layer.h"

// The head sizes follow from the rows of wq and wv.
static clattn_status find_sizes(layer *l, const clattn_layer_params *p) {
    clattn_context *c = l->context;
    l->heads = p->heads;
    l->kv_heads = p->kv_heads ? p->kv_heads : p->heads;
    if (l->heads < 1 || l->kv_heads < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "heads: %d, kv_heads: %d: must be 1 or more",
                                l->heads, l->kv_heads);
    if (p->wq.rank != 2 || p->wv.rank != 2 || p->wo.rank != 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: is absent or not [out, in]: a matrix of rank 2 is needed",
                                p->wq.rank != 2   ? "wq"
                                : p->wv.rank != 2 ? "wv"
                                                  : "wo");
    if (p->wq.shape[0] < 1 || p->wq.shape[0] % l->heads)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "wq: %lld rows are not a multiple of H = %d",
                                (long long)p->wq.shape[0], l->heads);
    if (l->heads % l->kv_heads)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "heads: H = %d must be a multiple of Hkv = kv_heads = %d", l->heads,
                                l->kv_heads);
    if (p->wv.shape[0] < 1 || p->wv.shape[0] % l->kv_heads)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "wv: %lld rows are not a multiple of Hkv = %d",
                                (long long)p->wv.shape[0], l->kv_heads);
    l->head_dim = p->wq.shape[0] / l->heads;
    l->head_dim_v = p->wv.shape[0] / l->kv_heads;
    return CLATTN_OK;
}

// x, y and out are stored alike, and so are the weight matrices.
static clattn_status check_types(clattn_context *c, const clattn_layer_params *p) {
    const struct {
        const char *name, *like;
        clattn_type type, wanted;
    } pairs[] = {{"y", "x", cla_tensor_given(&p->y) ? p->y.type : p->x.type, p->x.type},
                 {"out", "x", p->out.type, p->x.type},
                 {"wk", "wq", p->wk.type, p->wq.type},
                 {"wv", "wq", p->wv.type, p->wq.type},
                 {"wo", "wq", p->wo.type, p->wq.type}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].type != pairs[i].wanted)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                    "%s: its type differs from %s's: both must be stored alike",
                                    pairs[i].name, pairs[i].like);
    return CLATTN_OK;
}

static clattn_status check_layer(layer *l, const clattn_layer_params *p, bool planning) {
    clattn_context *c = l->context;
    const tensor_rule x = {"x", "[B, Nq, M]", TYPES_FLOAT, false, planning};
    const tensor_rule y = {"y", "[B, Nkv, My]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, Nq, Mo = rows of wo]", TYPES_FLOAT, true, planning};
    clattn_status status = find_sizes(l, p);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->x, 3, &x);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, &p->x, p->x.shape, &x);
    if (status == CLATTN_OK && cla_tensor_given(&p->y)) status = cla_tensor_check(c, &p->y, 3, &y);
    if (status != CLATTN_OK) return status;
    l->self = !cla_tensor_given(&p->y);
    l->y = l->self ? p->x : p->y;
    const int64_t y_shape[3] = {p->x.shape[0], -1, -1},
                  out_shape[3] = {p->x.shape[0], p->x.shape[1], p->wo.shape[0]};
    status = cla_tensor_check_shape(c, &l->y, y_shape, &y);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->out, 3, &out);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, &p->out, out_shape, &out);
    if (status != CLATTN_OK) return status;
    if (p->x.shape[2] == 0 || l->y.shape[2] == 0 || p->wo.shape[0] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "layer: a model width is 0: must be 1 or more");
    const int64_t m = p->x.shape[2], my = l->y.shape[2];
    const int64_t q[2] = {l->heads * l->head_dim, m}, k[2] = {l->kv_heads * l->head_dim, my};
    const int64_t v[2] = {l->kv_heads * l->head_dim_v, my}, o[2] = {p->wo.shape[0], l->heads * l->head_dim_v};
    status = cla_linear_check_matrix(c, &p->wq, &p->bq, q, (const char *const[]){"wq", "bq"}, planning);
    if (status == CLATTN_OK)
        status = cla_linear_check_matrix(c, &p->wk, &p->bk, k, (const char *const[]){"wk", "bk"}, planning);
    if (status == CLATTN_OK)
        status = cla_linear_check_matrix(c, &p->wv, &p->bv, v, (const char *const[]){"wv", "bv"}, planning);
    if (status == CLATTN_OK)
        status = cla_linear_check_matrix(c, &p->wo, &p->bo, o, (const char *const[]){"wo", "bo"}, planning);
    return status == CLATTN_OK ? check_types(c, p) : status;
}

static clattn_status check_options(clattn_context *c, const clattn_layer_params *p) {
    if (cla_tensor_given(&p->kv.k) || cla_tensor_given(&p->kv.v))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "kv: its k and v must be absent: the layer makes them");
    if (cla_tensor_given(&p->q_norm) || cla_tensor_given(&p->k_norm))
        return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                cla_tensor_given(&p->q_norm) ? "q_norm" : "k_norm");
    return cla_linear_check_projection(c, p->projection);
}

// A [B, heads, N, size] part of the workspace, the rows of a head after one another or the heads of a row.
static clattn_tensor part(layer *l, bool heads_apart, int64_t heads, int64_t n, int64_t size) {
    const clattn_type type = l->native ? l->type : CLATTN_TYPE_F32;
    clattn_tensor t = heads_apart ? clattn_tensor_bhsd(NULL, type, l->y.shape[0], heads, n, size)
                                  : clattn_tensor_bshd(NULL, type, l->y.shape[0], heads, n, size);
    t.offset = (int64_t)(l->workspace_bytes / clattn_type_size(type));
    l->workspace_bytes += cla_workspace_round((size_t)cla_tensor_count(&t) * clattn_type_size(type));
    return t;
}

// The attention call between the projections, on the parts of the workspace, checked: RoPE with it, whoever
// applies it.
static clattn_status check_attention(layer *l, const clattn_layer_params *p, bool planning) {
    l->attention = (clattn_attention_params){.lse = p->lse,
                                             .weights = p->weights,
                                             .scores = p->scores,
                                             .scores_at = p->scores_at,
                                             .score = p->score,
                                             .rope = p->rope,
                                             .kv = p->kv,
                                             .kernel = p->kernel,
                                             .splits = p->splits,
                                             .cu_seqlens_q = p->cu_seqlens_q};
    l->attention.q = l->q.y;
    l->attention.kv.k = l->k.y;
    l->attention.kv.v = l->v.y;
    l->attention.out = l->o.x;
    l->attention.workspace = l->workspace;
    const clattn_status status = cla_call_check(l->context, &l->attention, planning, &l->call);
    if (status == CLATTN_OK && l->turns) cla_call_leave_rope(&l->call);
    return status;
}

// RoPE moves into the projections of q and k where both can do it: it then costs no pass over memory.
static void choose_rope(layer *l) {
    linear q = l->q, k = l->k;
    if (!l->native || !l->call.turns) return;
    q.rope = cla_rope_rows_of(&l->call, true);
    k.rope = cla_rope_rows_of(&l->call, false);
    cla_linear_choose(l->context, &q);
    cla_linear_choose(l->context, &k);
    l->turns = q.choice.knobs.rope && k.choice.knobs.rope;
    if (!l->turns) return;
    l->q = q, l->k = k;
    cla_call_leave_rope(&l->call);
}

// The four projections and the parts of the workspace between them, for l->native; attention's call on those parts.
static clattn_status lay_out_parts(layer *l, const clattn_layer_params *p) {
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
    for (int i = 0; i < 4; i++) all[i]->native = native, cla_linear_choose(l->context, all[i]);
    // Few rows: a part of the reduction is a loop of its own, which a short head does not pay for.
    const bool heads_apart = native && l->o.choice.id != KERNEL_LINEAR_FEW_LANES;
    l->o.x = part(l, heads_apart, l->heads, nq, l->head_dim_v);
    return check_attention(l, p, true);
}

// CLBlast or native, for all four projections alike: the layout between them follows from it. What can be refused is
// refused before anything is measured.
static clattn_status choose_projection(layer *l, const clattn_layer_params *p) {
    l->native = p->projection != CLATTN_PROJECTION_CLBLAST;
    clattn_status status = lay_out_parts(l, p);
    if (status == CLATTN_OK) status = cla_linear_decide(l->context, &l->q, p->projection, l->call.empty);
    if (status != CLATTN_OK || l->q.native == l->native) return status;
    l->native = l->q.native;
    return lay_out_parts(l, p);
}

// Lay out the workspace: attention's own part first, then q, k, v and the heads' result, then conversions.
static clattn_status plan_layer(layer *l, const clattn_layer_params *p) {
    clattn_status status = choose_projection(l, p);
    if (status != CLATTN_OK) return status;
    choose_rope(l);

    const size_t own = cla_workspace_round(l->call.workspace_bytes);
    clattn_tensor *const parts[] = {&l->q.y, &l->k.y, &l->v.y, &l->o.x};
    for (int i = 0; i < 4; i++) parts[i]->offset += (int64_t)(own / clattn_type_size(parts[i]->type));
    l->scratch = own + l->workspace_bytes;
    const linear *const all[] = {&l->q, &l->k, &l->v, &l->o};
    size_t most = 0; // the projections run one after another and share the scratch memory
    for (int i = 0; i < 4; i++) most = cla_linear_scratch(all[i]) > most ? cla_linear_scratch(all[i]) : most;
    l->workspace_bytes = l->scratch + most;
    for (int i = 0; status == CLATTN_OK && i < 4; i++)
        status = cla_linear_check_reach(l->context, all[i], l->workspace_bytes);
    return status;
}

static clattn_status layer_check(clattn_context *context, const clattn_layer_params *p, bool planning,
                                 layer *l) {
    *l = (layer){.context = context};
    if (!p) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = check_options(context, p);
    if (status == CLATTN_OK) status = check_layer(l, p, planning);
    return status == CLATTN_OK ? plan_layer(l, p) : status;
}

clattn_status clattn_layer_workspace(clattn_context *context, const clattn_layer_params *params,
                                     size_t *bytes) {
    layer l;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!bytes) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "bytes: is NULL");
    const clattn_status status = layer_check(context, params, true, &l);
    if (status == CLATTN_OK) *bytes = l.workspace_bytes;
    return status;
}

clattn_status clattn_layer_plan(clattn_context *context, const clattn_layer_params *params,
                                clattn_plan *plan) {
    layer l;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!plan) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "plan: is NULL");
    const clattn_status status = layer_check(context, params, true, &l);
    return status == CLATTN_OK ? cla_attention_fill_plan(&l.call, l.workspace_bytes, plan) : status;
}

// Queries, keys and values in one launch: self-attention of few rows.
static bool shares_launch(const layer *l) {
    return l->native && l->self &&
           cla_linear_native_shares_launch((const linear *const[3]){&l->q, &l->k, &l->v});
}

static clattn_status prepare_layer(layer *l) {
    const linear *const all[] = {&l->o, &l->q, &l->k, &l->v};
    const int count = shares_launch(l) ? 2 : 4; // k and v then need no kernel of their own
    clattn_status status = cla_attention_prepare_call(&l->call);
    for (int i = 0; status == CLATTN_OK && i < count; i++) status = cla_linear_prepare(l->context, all[i]);
    return status;
}

clattn_status clattn_layer_prepare(clattn_context *context, const clattn_layer_params *params) {
    layer l;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    const clattn_status status = layer_check(context, params, true, &l);
    return status == CLATTN_OK ? prepare_layer(&l) : status;
}

static clattn_status enqueue_inputs(layer *l, chain *steps) {
    const linear *const all[3] = {&l->q, &l->k, &l->v};
    clattn_status status = CLATTN_OK;
    if (shares_launch(l)) return cla_linear_native_enqueue_three(steps, all);
    for (int i = 0; status == CLATTN_OK && i < 3; i++)
        status = cla_linear_enqueue(steps, all[i], l->workspace, l->scratch);
    return status;
}

static clattn_status enqueue_layer(layer *l, chain *steps) {
    clattn_status status = enqueue_inputs(l, steps);
    if (status == CLATTN_OK) status = cla_attention_enqueue_call(&l->call, steps);
    return status == CLATTN_OK ? cla_linear_enqueue(steps, &l->o, l->workspace, l->scratch) : status;
}

// Everything that can refuse happens here, before the first command.
static clattn_status ready_layer(layer *l, const clattn_layer_params *p) {
    clattn_status status = prepare_layer(l);
    if (status == CLATTN_OK)
        status = cla_workspace_take(l->context, p->workspace, l->workspace_bytes, &l->workspace);
    l->q.y.buffer = l->k.y.buffer = l->v.y.buffer = l->o.x.buffer = l->workspace;
    if (status == CLATTN_OK) status = check_attention(l, p, false);
    if (status == CLATTN_OK && (l->o.has_lengths || l->q.rope.flags)) {
        call own = l->call; // a table of its own, because attention releases the one it makes
        status = cla_call_table(&own);
        l->table = own.table;
        if (l->o.has_lengths) l->o.lengths = l->table;
    }
    if (status == CLATTN_OK && l->turns) status = cla_rope_make_turns(&l->call, &l->turn_words);
    l->q.rope.table = l->table;
    l->q.rope.turns = l->k.rope.turns = l->turn_words;
    return status;
}

static void release_layer(layer *l) {
    cl_mem const all[] = {l->table, l->turn_words, l->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]) clReleaseMemObject(all[i]);
}

clattn_status clattn_layer_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_layer_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    layer l;
    chain steps;
    if (event) *event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = cla_chain_check(context, queue, wait_count, wait_list);
    if (status == CLATTN_OK) status = layer_check(context, params, false, &l);
    if (status != CLATTN_OK) return status;
    cla_chain_begin(&steps, context, queue, wait_count, wait_list);
    if (!l.call.empty) {
        status = ready_layer(&l, params);
        if (status == CLATTN_OK) status = enqueue_layer(&l, &steps);
        release_layer(&l);
    }
    return cla_chain_end(&steps, status, event);
}
