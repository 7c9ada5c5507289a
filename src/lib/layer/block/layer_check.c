// layer_check.c: checks a layer's own tensors and matrices against the public header. Attention's
// options are checked later, with the attention call that layer_plan.c makes.
#include "layer/block/layer.h"

void cla_layer_take_given(const layer *l, clattn_layer_params *p) {
    const given_views all = {l->context, .planning = l->purpose != ENTRY_ENQUEUE, .inner = false};
    CLA_GIVEN(&all, false, &p->x, &p->out, &p->wq, &p->wk, &p->wv, &p->wo, &p->lse, &p->weights, &p->scores);
    cla_given_kv(&all, &p->kv);
    if (!all.planning) cla_tensor_drop_absent((clattn_tensor *const[]){&p->kv.k, &p->kv.v}, 2);
    CLA_GIVEN(&all, true, &p->wq_scale, &p->wk_scale, &p->wv_scale, &p->wo_scale, &p->w_gate_scale,
              &p->wq_zero, &p->wk_zero, &p->wv_zero, &p->wo_zero, &p->w_gate_zero);
    CLA_GIVEN(&all, true, &p->y, &p->bq, &p->bk, &p->bv, &p->bo, &p->q_norm, &p->k_norm, &p->w_gate,
              &p->b_gate, &p->cu_seqlens_q_device);
    cla_given_score(&all, &p->score);
    cla_given_rope(&all, &p->rope);
}

// The head sizes are the rows of wq and wv, divided by the heads.
static clattn_status find_sizes(layer *l) {
    clattn_context *c = l->context;
    const clattn_layer_params *p = &l->params;
    l->heads = p->heads;
    l->kv_heads = p->kv_heads ? p->kv_heads : p->heads;
    if (l->heads < 1 || l->kv_heads < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "heads: %d, kv_heads: %d: must be 1 or more",
                                l->heads, l->kv_heads);
    if (p->wo.rank != 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "wo: is absent or not [out, in]: a matrix of rank 2 is needed");
    TRY(cla_layer_check_rows(c, &p->wq, "wq", "H", l->heads, &l->head_dim));
    if (l->heads % l->kv_heads)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "heads: H = %d must be a multiple of Hkv = kv_heads = %d", l->heads,
                                l->kv_heads);
    if (!l->ready) return cla_layer_check_rows(c, &p->wv, "wv", "Hkv", l->kv_heads, &l->head_dim_v);
    l->head_dim_v = cla_tensor_width(&p->kv.v);
    return CLATTN_OK;
}

clattn_status cla_layer_check_rows(clattn_context *c, const clattn_tensor *w, const char *name,
                                   const char *letter, int heads, int64_t *size) {
    if (w->rank != 2)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: is absent or not [out, in]: a matrix of rank 2 is needed", name);
    if (w->shape[0] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %lld rows: at most 2^31-1 are possible",
                                name, (long long)w->shape[0]);
    if (w->shape[0] < 1 || w->shape[0] % heads)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %lld rows are not a multiple of %s = %d",
                                name, (long long)w->shape[0], letter, heads);
    *size = w->shape[0] / heads;
    return CLATTN_OK;
}

// x, y and out must have one type, and so must the weight matrices.
static clattn_status check_types(clattn_context *c, const clattn_layer_params *p) {
    TRY(cla_tensor_check_alike(c, "y", &p->y, "x", &p->x));
    TRY(cla_tensor_check_alike(c, "out", &p->out, "x", &p->x));
    TRY(cla_tensor_check_alike(c, "wk", &p->wk, "wq", &p->wq));
    TRY(cla_tensor_check_alike(c, "wv", &p->wv, "wq", &p->wq));
    TRY(cla_tensor_check_alike(c, "w_gate", &p->w_gate, "wq", &p->wq));
    return cla_tensor_check_alike(c, "wo", &p->wo, "wq", &p->wq);
}

static clattn_status check_matrices(layer *l, bool planning) {
    const clattn_layer_params *p = &l->params;
    const int64_t m = p->x.shape[2], my = l->y.shape[2];
#define MATRIX(w, b, rows, columns)                                                                          \
    { &p->w, &p->b, &p->w##_scale, &p->w##_zero, {rows, columns}, LINEAR_NAMES(#w, #b) }
    const linear_given all[PROJECTIONS] = {
        MATRIX(wq, bq, l->heads * l->head_dim, m), MATRIX(wk, bk, l->kv_heads * l->head_dim, my),
        MATRIX(wv, bv, l->kv_heads * l->head_dim_v, my), MATRIX(w_gate, b_gate, p->w_gate.shape[0], m),
        MATRIX(wo, bo, p->wo.shape[0], l->heads * l->head_dim_v)};
#undef MATRIX
    for (int i = 0; i < PROJECTIONS; i++) {
        if (cla_layer_projects(l, i))
            TRY(cla_linear_check_matrix(l->context, &all[i], planning));
        else if (cla_tensor_given(all[i].scale) || cla_tensor_given(all[i].zero))
            return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: is there for %s, which is absent",
                                    all[i].names[cla_tensor_given(all[i].scale) ? 2 : 3], all[i].names[0]);
    }
    return CLATTN_OK;
}

static bool packs_keys(const clattn_layer_params *p) {
    return p->kv.cu_seqlens_kv || cla_tensor_given(&p->kv.cu_seqlens_kv_device);
}

// Check what only a ragged layer has. Attention checks the rest.
static clattn_status check_ragged(const layer *l) {
    const clattn_layer_params *p = &l->params;
    if (!l->ragged) return CLATTN_OK;
    if (p->x.rank == 3 && p->x.shape[0] != 1)
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "x: %lld batch items: of a ragged batch it is packed, [1, T, M]",
                                (long long)p->x.shape[0]);
    if (l->ready || cla_tensor_given(&p->y) || (!packs_keys(p) && !p->max_kv))
        return cla_ragged_check_count(l->context, p->cu_seqlens_q, p->sequences,
                                      p->x.rank == 3 ? p->x.shape[1] : 0);
    return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                            "%s: keys are made of x, and packed as cu_seqlens_q and max_q say",
                            packs_keys(p) ? "cu_seqlens_kv" : "max_kv");
}

static clattn_status check_tensors(layer *l, bool planning) {
    clattn_context *c = l->context;
    const clattn_layer_params *p = &l->params;
    const tensor_rule x = {"x", "[B, Nq, M]", TYPES_FLOAT, false, planning};
    const tensor_rule y = {"y", "[B, Nkv, My]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, Nq, Mo = rows of wo]", TYPES_FLOAT, true, planning};
    TRY(cla_tensor_check(c, &p->x, 3, &x));
    if (cla_tensor_given(&p->y)) TRY(cla_tensor_check(c, &p->y, 3, &y));
    l->self = !cla_tensor_given(&p->y) && !l->ready;
    l->y = cla_tensor_given(&p->y) ? p->y : p->x;
    l->n_kv = l->ready ? p->kv.k.shape[2] : l->y.shape[1];
    const bool dense_y = l->ragged && cla_tensor_given(&p->y) && !packs_keys(p);
    const int64_t y_shape[3] = {dense_y ? p->sequences : p->x.shape[0], -1, -1},
                  out_shape[3] = {p->x.shape[0], p->x.shape[1], p->wo.shape[0]};
    TRY(cla_tensor_check_shape(c, &l->y, y_shape, &y));
    TRY(cla_tensor_check(c, &p->out, 3, &out));
    TRY(cla_tensor_check_shape(c, &p->out, out_shape, &out));
    if (p->x.shape[2] == 0 || l->y.shape[2] == 0 || p->wo.shape[0] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "layer: a model width is 0: must be 1 or more");
    return CLATTN_OK;
}

// The sizes of q, k, v, the gates and the heads' result: they are computed before attention checks
// anything.
static clattn_status check_parts(const layer *l) {
    const int64_t batch = l->params.x.shape[0], nq = l->params.x.shape[1],
                  nkv = l->ready ? 0 : l->y.shape[0] * l->n_kv;
    const struct {
        int64_t rows, columns;
        const char *name;
    } parts[] = {{batch * nq, l->heads * l->head_dim, "q"},
                 {nkv, l->kv_heads * l->head_dim, "k"},
                 {nkv, l->kv_heads * l->head_dim_v, "v"},
                 {batch * nq, l->gated ? l->params.w_gate.shape[0] : 1, "the gates"},
                 {batch * nq, l->heads * l->head_dim_v, "the heads' result"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        // A division is slow, so sizes that are small enough are accepted first.
        if ((parts[i].rows >> 28 || parts[i].columns >> 28) &&
            parts[i].rows > INT64_MAX / 16 / parts[i].columns)
            return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                    "layer: %s would have more elements than 64 bits count", parts[i].name);
    return CLATTN_OK;
}

// One gate for each head, or for each element of the heads' result.
static clattn_status check_gate(const layer *l) {
    const clattn_layer_params *p = &l->params;
    const int64_t heads = l->heads, all = heads * l->head_dim_v, rows = p->w_gate.shape[0];
    if (!l->gated && (cla_tensor_given(&p->b_gate) || p->packed_gate.buffer))
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "%s: is there for w_gate, which is absent",
                                cla_tensor_given(&p->b_gate) ? "b_gate" : "packed_gate");
    if (!l->gated || (p->w_gate.rank == 2 && (rows == heads || rows == all))) return CLATTN_OK;
    return cla_context_fail(
        l->context, CLATTN_INVALID_ARGUMENT,
        "w_gate: %lld rows in %d axes: [H, M] = [%lld, M] or [H*Dv, M] = [%lld, M] is needed",
        (long long)rows, p->w_gate.rank, (long long)heads, (long long)all);
}

// With the caller's keys and values, all that would make them must be absent.
static clattn_status check_ready(const layer *l) {
    const clattn_layer_params *p = &l->params;
    const struct {
        const char *name;
        const clattn_tensor *tensor;
    } makers[] = {{"y", &p->y},   {"wk", &p->wk}, {"wv", &p->wv},
                  {"bk", &p->bk}, {"bv", &p->bv}, {"k_norm", &p->k_norm}};
    if (cla_tensor_given(&p->kv.k) != cla_tensor_given(&p->kv.v))
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "kv: of k and v there is one: give both, or neither and wk and wv");
    if (cla_tensor_given(&p->kv.k_new) || cla_tensor_given(&p->kv.v_new))
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "%s: a layer makes its new rows itself, with `append`: leave it absent",
                                cla_tensor_given(&p->kv.k_new) ? "k_new" : "v_new");
    if (p->append && !l->appends)
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "append: needs caches, kv.k and kv.v, which are absent");
    if (!l->ready && !l->appends && (p->kv.k_rotation || p->kv.v_rotation))
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "%s: is of rows that kv has, whose k and v are absent",
                                p->kv.k_rotation ? "k_rotation" : "v_rotation");
    if (!l->ready && !l->appends && cla_tensor_given(&p->kv.block_table))
        return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                "block_table: is there for pages of kv, whose k and v are absent");
    if (!l->ready) return CLATTN_OK;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (cla_tensor_given(makers[i].tensor))
            return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                    "%s: is there to make keys and values, and kv has them", makers[i].name);
    if (p->kv.k.rank == 4 && p->kv.v.rank == 4 && p->kv.v.shape[3] > 0 && p->kv.v.shape[3] <= INT32_MAX &&
        cla_tensor_width(&p->kv.v) > 0 && cla_tensor_width(&p->kv.v) <= INT32_MAX)
        return CLATTN_OK;
    return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                            "kv: k and v must be [B, Hkv, Nkv, D] and [B, Hkv, Nkv, Dv]");
}

// Attention checks the other properties of kv.k and kv.v.
static clattn_status check_kv_heads(const layer *l) {
    const int64_t heads = l->params.kv.k.shape[1];
    if (!l->ready || heads == l->kv_heads) return CLATTN_OK;
    return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT, "kv: k has %lld heads, and kv_heads is %d",
                            (long long)heads, l->kv_heads);
}

static clattn_status check_norm(layer *l, bool planning) {
    const clattn_layer_params *p = &l->params;
    l->norm = (norm_options){.how = p->norm, .epsilon = p->norm_epsilon, .plus_one = p->norm_plus_one};
    l->norm.names[0] = "q_norm", l->norm.names[1] = "k_norm";
    l->norm.w[0] = &p->q_norm, l->norm.w[1] = &p->k_norm;
    l->norm.heads[0] = l->heads, l->norm.heads[1] = l->kv_heads;
    l->norm.head_dim = l->head_dim;
    return cla_norm_check(l->context, &l->norm, planning);
}

clattn_status cla_layer_check(layer *l, bool planning) {
    const clattn_layer_params *p = &l->params;
    const bool has_keys = cla_tensor_given(&p->kv.k) || cla_tensor_given(&p->kv.v);
    l->appends = has_keys && p->append, l->ready = has_keys && !p->append;
    l->ragged = p->cu_seqlens_q || cla_tensor_given(&p->cu_seqlens_q_device) || packs_keys(p);
    l->gated = cla_tensor_given(&p->w_gate);
    TRY(check_ready(l));
    TRY(check_ragged(l));
    TRY(cla_linear_check_precision(l->context, p->precision));
    TRY(cla_linear_check_projection(l->context, p->projection));
    TRY(find_sizes(l));
    TRY(check_kv_heads(l));
    TRY(check_gate(l));
    TRY(check_norm(l, planning));
    TRY(check_tensors(l, planning));
    TRY(check_matrices(l, planning));
    TRY(check_parts(l));
    return check_types(l->context, p);
}
