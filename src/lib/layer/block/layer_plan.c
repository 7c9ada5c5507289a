// layer_plan.c: plans a layer's memory and the kernels of its projections, and decides where RoPE
// is applied. The parts q, k, v, the gates and the heads' result are stored in one workspace, as
// the projections write them. Attention reads these parts through strides, so no pass is needed to
// move heads.
#include "attention/kv/kv.h"
#include "base/host.h"
#include "launch/workspace.h"
#include "layer/block/layer.h"
#include "layer/projection/packed.h"
#include "layer/projection/projector.h"

// Fields of clattn_layer_params that each projection has besides matrix and bias.
#define EACH_PROJECTION(X)                                                                                   \
    X(wq, packed_wq), X(wk, packed_wk), X(wv, packed_wv), X(w_gate, packed_gate), X(wo, packed_wo)
#define PACKED_NAME(w, packed) #packed
#define SCALE_NAME(w, packed) #w "_scale"
#define ZERO_NAME(w, packed) #w "_zero"
static const char *const packed_names[PROJECTIONS] = {EACH_PROJECTION(PACKED_NAME)};

bool cla_layer_projects(const layer *l, int projection) {
    if (projection == PROJECT_GATE) return l->gated;
    return !l->ready || (projection != PROJECT_K && projection != PROJECT_V);
}

// Reserve a [B, heads, N, size] part of the workspace. With heads_apart each head's rows are
// contiguous; otherwise each row's heads are.
static clattn_tensor part(layer *l, bool heads_apart, int64_t batch, int64_t heads, int64_t n, int64_t size) {
    const clattn_type type = l->native ? l->type : CLATTN_TYPE_F32;
    clattn_tensor t = heads_apart ? clattn_tensor_bhsd(NULL, type, batch, heads, n, size)
                                  : clattn_tensor_bshd(NULL, type, batch, heads, n, size);
    t.offset = (int64_t)(l->workspace_bytes / clattn_type_size(type));
    l->workspace_bytes =
        cla_workspace_add(l->workspace_bytes, (uint64_t)cla_tensor_count(&t), clattn_type_size(type));
    return t;
}

// True if RoPE needs positions inside packed sequences, which only attention knows.
static bool counts_sequences(const layer *l) {
    return l->ragged && l->params.rope.layout != CLATTN_ROPE_NONE &&
           !cla_tensor_given(&l->params.rope.positions);
}

// Keys that are made from x are packed like x.
static void take_sequences(const layer *l, clattn_attention_params *a) {
    const clattn_layer_params *p = &l->params;
    a->sequences = p->sequences;
    a->cu_seqlens_q = p->cu_seqlens_q, a->cu_seqlens_q_device = p->cu_seqlens_q_device;
    a->max_q = p->max_q, a->max_kv = p->max_kv;
    if (!l->ragged || !l->self || l->appends) return;
    a->kv.cu_seqlens_kv = p->cu_seqlens_q, a->kv.cu_seqlens_kv_device = p->cu_seqlens_q_device;
    a->max_kv = p->max_q;
}

// Check RoPE for q alone. The caller's keys already have RoPE applied.
static clattn_status check_rope_of_q(const layer *l) {
    clattn_attention_params p;
    cla_bytes_zero(&p, sizeof p);
    p.q = p.kv.k = l->of[PROJECT_Q].y, p.rope = l->params.rope;
    if (cla_tensor_given(&p.rope.k_positions))
        return cla_context_fail(
            l->context, CLATTN_INVALID_ARGUMENT,
            "rope.k_positions: have no effect on keys that kv has, which were turned before");
    return cla_rope_check(l->context, &p, (int)l->head_dim, l->purpose != ENTRY_ENQUEUE);
}

// Make and check the attention call on the parts of the workspace. The check includes RoPE,
// wherever it will be applied. With the caller's keys RoPE is checked for q alone.
static clattn_status check_attention(layer *l) {
    const clattn_layer_params *p = &l->params;
    cla_call_release(&l->call);
    clattn_attention_params *a = &l->call.params;
    cla_bytes_zero(a, sizeof *a);
    a->q = l->of[PROJECT_Q].y, a->out = l->of[PROJECT_OUT].x;
    a->kv = p->kv;
    if (l->appends)
        a->kv.k_new = l->of[PROJECT_K].y, a->kv.v_new = l->of[PROJECT_V].y;
    else if (!l->ready)
        a->kv.k = l->of[PROJECT_K].y, a->kv.v = l->of[PROJECT_V].y;
    take_sequences(l, a);
    a->lse = p->lse, a->weights = p->weights;
    a->scores = p->scores, a->scores_at = p->scores_at;
    a->score = p->score;
    if (!l->ready || counts_sequences(l)) a->rope = p->rope;
    a->kernel = p->kernel, a->splits = p->splits;
    a->workspace = p->workspace; // attention's parts will be in this buffer
    TRY(cla_call_check(l->context, &l->call.params, l->purpose, CALL_PARTS | (l->ready ? CALL_KEYS_ROPED : 0),
                       &l->call));
    a->rope = p->rope;
    return l->ready && !counts_sequences(l) ? check_rope_of_q(l) : CLATTN_OK;
}

// Let linear_few_lanes.cl find the rows of packed sequences. False if another kernel was chosen.
static bool follow_sequences(const layer *l, linear *const made[3], bool into_cache) {
    for (int i = 0; i < 3; i++) {
        if (made[i]->choice.id != KERNEL_LINEAR_FEW_LANES) return false;
        made[i]->choice.knobs.ragged = 1;
        made[i]->sequences = l->call.ragged.sequences;
        made[i]->cache_rows = i > 0 && into_cache ? (int)l->params.kv.k.shape[2] : 0;
    }
    return true;
}

// Make q, k and v the projections that apply RoPE to new rows themselves. into_cache: the caches
// have x's type, and the projections write to them. Otherwise the call quantises and appends k and
// v. Returns false if that is impossible.
static bool makes_new_rows(const layer *l, linear *q, linear *k, linear *v, bool into_cache) {
    const bool roped = l->params.rope.layout != CLATTN_ROPE_NONE;
    clattn_tensor to_k, to_v;
    if (!l->appends || !l->native || l->norm.how != CLATTN_NORM_NONE ||
        !cla_kv_new_views(&l->call, &to_k, &to_v, &k->rope))
        return false;
    if (into_cache) k->y = to_k, v->y = to_v;
    if (roped) q->rope = cla_rope_rows_of(&l->call, true);
    cla_linear_choose(l->context, q);
    cla_linear_choose(l->context, k);
    if (l->ragged && !follow_sequences(l, (linear *const[3]){q, k, v}, into_cache)) return false;
    return !roped ||
           (cla_linear_applies_rope(&l->params.rope, q) && cla_linear_applies_rope(&l->params.rope, k));
}

static bool choose_new_rows(layer *l) {
    linear q = l->of[PROJECT_Q], k = l->of[PROJECT_K], v = l->of[PROJECT_V];
    const clattn_kv *kv = &l->params.kv;
    const bool straight = kv->k.type == l->type && kv->v.type == l->type;
    l->straight = false; // planning may be repeated
    if ((!straight && l->params.rope.layout == CLATTN_ROPE_NONE) || !makes_new_rows(l, &q, &k, &v, straight))
        return false;
    l->of[PROJECT_Q] = q, l->of[PROJECT_K] = k, l->of[PROJECT_V] = v;
    l->straight = l->call.appended = straight;
    l->applies_rope = l->params.rope.layout != CLATTN_ROPE_NONE;
    l->call.append.rope = NULL;
    cla_call_skip_rope(&l->call);
    return true;
}

// Choose where RoPE is applied. In the projections of q and k if both can, because that needs no
// pass over memory. Otherwise in the pass of their norm; a q for the caller's keys always has that
// pass. Otherwise in attention.
static void choose_rope(layer *l) {
    linear q = l->of[PROJECT_Q], k = l->of[PROJECT_K];
    const bool norms = l->norm.how != CLATTN_NORM_NONE;
    const float amplitude = (float)cla_rope_amplitude(&l->params.rope);
    l->q_norm = cla_norm_of(&l->norm, 0, &q), l->k_norm = cla_norm_of(&l->norm, 1, &k);
    // In the other cases attention applies RoPE: to keys while it appends them, and to q before its
    // Hadamard transform.
    if (choose_new_rows(l) || l->params.rope.layout == CLATTN_ROPE_NONE || l->appends ||
        counts_sequences(l) || l->params.kv.k_rotation)
        return;
    q.rope = cla_rope_rows_of(&l->call, true);
    k.rope = cla_rope_rows_of(&l->call, false);
    cla_linear_choose(l->context, &q);
    if (!l->ready) cla_linear_choose(l->context, &k);
    // One launch with one table may make q and k. past_lengths rule that out: keys then have other
    // positions than rows.
    const bool in_products = l->native && !norms && !l->params.kv.past_lengths &&
                             cla_linear_applies_rope(&l->params.rope, &q) &&
                             (l->ready || cla_linear_applies_rope(&l->params.rope, &k));
    l->applies_rope = in_products || norms || l->ready;
    if (!l->applies_rope) return;
    if (in_products)
        l->of[PROJECT_Q] = q, l->of[PROJECT_K] = k;
    else
        l->q_norm.rope = q.rope, l->k_norm.rope = k.rope,
        l->q_norm.rope_params = l->k_norm.rope_params = &l->call.params.rope,
        l->q_norm.amplitude = l->k_norm.amplitude = amplitude;
    cla_call_skip_rope(&l->call);
}

// Set scales, zero points, packed weights and precision of the projections.
static clattn_status take_weights(layer *l) {
    const clattn_layer_params *p = &l->params;
#define PACKED_OF(w, packed) &p->packed
#define SCALE_OF(w, packed) &p->w##_scale
#define ZERO_OF(w, packed) &p->w##_zero
    const clattn_packed *const packed[] = {EACH_PROJECTION(PACKED_OF)};
    const clattn_tensor *const scales[] = {EACH_PROJECTION(SCALE_OF)}, *const zeros[] = {
                                                                           EACH_PROJECTION(ZERO_OF)};
    for (int i = 0; i < PROJECTIONS; i++) {
        l->of[i].scale = *scales[i], l->of[i].zero = *zeros[i];
        l->of[i].split = p->precision == CLATTN_PRECISION_SPLIT;
        if (cla_layer_projects(l, i))
            TRY(cla_packed_check(l->context, packed_names[i], packed[i], &l->of[i].w, &l->of[i].packed));
        else if (packed[i]->buffer)
            return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: is there, and its weights are not", packed_names[i]);
    }
    return CLATTN_OK;
}

// Set up the projections of x and y, and the parts that they write. CLBlast writes all heads of a
// row together. The native kernel writes one head after the other, so that a head's rows stay close
// together in the CPU's caches.
static void lay_out_inputs(layer *l) {
    const clattn_layer_params *p = &l->params;
    const bool native = l->native;
    const int64_t batch = p->x.shape[0], nq = p->x.shape[1];
    const clattn_tensor x = cla_linear_one_head(&p->x), y = cla_linear_one_head(&l->y);
    linear *of = l->of;
    of[PROJECT_Q] = (linear){.x = x, .w = p->wq, .b = p->bq};
    of[PROJECT_Q].y = part(l, native, batch, l->heads, nq, l->head_dim);
    of[PROJECT_K] = (linear){.x = y, .w = p->wk, .b = p->bk};
    of[PROJECT_V] = (linear){.x = y, .w = p->wv, .b = p->bv};
    if (!l->ready) {
        of[PROJECT_K].y = part(l, native, l->y.shape[0], l->kv_heads, l->n_kv, l->head_dim);
        of[PROJECT_V].y = part(l, native, l->y.shape[0], l->kv_heads, l->n_kv, l->head_dim_v);
    }
    of[PROJECT_GATE] = (linear){.x = x, .w = p->w_gate, .b = p->b_gate};
    if (l->gated) of[PROJECT_GATE].y = part(l, false, batch, 1, nq, p->w_gate.shape[0]);
}

// Set up the projections and parts for l->native, and check the attention call on these parts.
static clattn_status lay_out_parts(layer *l) {
    const clattn_layer_params *p = &l->params;
    linear *o = &l->of[PROJECT_OUT];
    l->workspace_bytes = 0;
    l->type = p->x.type;
    lay_out_inputs(l);
    *o = (linear){.x = cla_linear_one_head(&p->x),
                  .w = p->wo,
                  .b = p->bo,
                  .y = cla_linear_one_head(&p->out),
                  .has_lengths = p->score.q_lengths != NULL && !l->ragged};
    TRY(take_weights(l));
    for (int i = 0; i < PROJECTIONS; i++) {
        l->of[i].native = l->native;
        if (cla_layer_projects(l, i)) cla_linear_choose(l->context, &l->of[i]);
    }
    // Contiguous heads pay only with linear_lanes. For few rows the reduction has a separate loop
    // for each head, which is slow for a short head. Without lanes, neighbouring work-items read
    // whole rows.
    const bool heads_apart = l->native && o->choice.id == KERNEL_LINEAR_LANES;
    o->x = part(l, heads_apart, p->x.shape[0], l->heads, p->x.shape[1], l->head_dim_v);
    o->x.buffer = p->workspace; // choose again: the caller's workspace may start at any address
    cla_linear_choose(l->context, o);
    o->x.buffer = NULL;
    if (l->workspace_bytes == WORKSPACE_MOST) return cla_workspace_fits(l->context, NULL, l->workspace_bytes);
    return check_attention(l);
}

// Check the caller's memory: the layer's tensors, and those of its attention call.
static clattn_status check_memory(const layer *l, call_views *v) {
    const clattn_layer_params *p = &l->params;
    const struct {
        const char *name;
        const clattn_tensor *tensor;
    } read[] = {{"x", &p->x},           {"y", &p->y},          {"wq", &p->wq},         {"wk", &p->wk},
                {"wv", &p->wv},         {"wo", &p->wo},        {"w_gate", &p->w_gate}, {"bq", &p->bq},
                {"bk", &p->bk},         {"bv", &p->bv},        {"bo", &p->bo},         {"b_gate", &p->b_gate},
                {"q_norm", &p->q_norm}, {"k_norm", &p->k_norm}};
    static const char *const scales[] = {EACH_PROJECTION(SCALE_NAME)}, *const zeros[] = {
                                                                           EACH_PROJECTION(ZERO_NAME)};
    _Static_assert(sizeof read / sizeof read[0] + 3 * PROJECTIONS + 1 + VIEW_RULES <= VIEWS_MOST, "they fit");
    cla_views_begin(v, l->context);
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        cla_views_add(v, read[i].name, read[i].tensor, VIEW_READ);
    for (int i = 0; i < PROJECTIONS; i++) {
        cla_views_add(v, packed_names[i], &l->of[i].packed, VIEW_READ);
        cla_views_add(v, scales[i], &l->of[i].scale, VIEW_READ);
        cla_views_add(v, zeros[i], &l->of[i].zero, VIEW_READ);
    }
    cla_views_add(v, "out", &p->out, cla_linear_output_use(p->projection));
    cla_views_add_attention(v, &l->call.params);
    return cla_views_check(v);
}

// Choose CLBlast or native for all projections together, because the layout of the parts depends on
// it. Everything that may be rejected is checked before the measurement's answer is read.
static clattn_status choose_projection(layer *l, call_views *v) {
    const linear *q = &l->of[PROJECT_Q];
    const char *why;
    l->native = l->params.projection != CLATTN_PROJECTION_CLBLAST;
    TRY(lay_out_parts(l));
    TRY(check_memory(l, v));
    TRY(cla_projector_decide(l->context, &l->of[PROJECT_Q], l->params.projection, l->call.empty, &why));
    if (q->native == l->native) return CLATTN_OK;
    l->native = q->native;
    return lay_out_parts(l);
}

// Move q, k, v, the gates and the heads' result behind attention's own memory. Parts in the
// caller's tensors stay where they are.
static void move_parts(layer *l, uint64_t own) {
    clattn_tensor *k = l->ready ? &l->params.kv.k : &l->of[PROJECT_K].y,
                  *v = l->ready ? &l->params.kv.v : &l->of[PROJECT_V].y;
    clattn_tensor *const made[] = {&l->of[PROJECT_Q].y, &l->of[PROJECT_K].y, &l->of[PROJECT_V].y,
                                   &l->of[PROJECT_GATE].y, &l->of[PROJECT_OUT].x};
    for (int i = 0; i < PROJECTIONS; i++)
        if (!l->straight || (i != PROJECT_K && i != PROJECT_V))
            made[i]->offset += (int64_t)(own / clattn_type_size(made[i]->type));
    cla_call_move(&l->call, (clattn_tensor *const[4]){made[0], k, v, made[4]});
}

// Assign the workspace: attention's own memory, the parts, then scratch memory of the projections.
clattn_status cla_layer_plan(layer *l) {
    call_views v;
    TRY(choose_projection(l, &v));
    choose_rope(l);
    const uint64_t own = cla_workspace_add(0, l->call.workspace_bytes, 1);
    move_parts(l, own);
    l->scratch = own + l->workspace_bytes;
    uint64_t most = 0; // the projections run one after another, so they share scratch memory
    for (int i = 0; i < PROJECTIONS; i++) {
        const uint64_t bytes = cla_layer_projects(l, i) ? cla_linear_scratch(&l->of[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    l->workspace_bytes = l->scratch + most;
    for (int i = 0; i < PROJECTIONS; i++)
        if (cla_layer_projects(l, i)) TRY(cla_linear_check_reach(l->context, &l->of[i], l->workspace_bytes));
    if (l->purpose == ENTRY_ENQUEUE)
        TRY(cla_views_check_workspace(&v, &l->params.workspace, l->workspace_bytes));
    return cla_workspace_fits(l->context, l->params.workspace, l->workspace_bytes);
}
