// layer_check.c: checks one layer call against the header's contract: its own tensors and matrices. Attention checks its
// options when the layer has made the call for it (layer.c).
#include "layer/layer.h"

// The head sizes follow from the rows of wq and wv.
static clattn_status find_sizes(layer *l) {
    clattn_context *c = l->context;
    const clattn_layer_params *p = &l->params;
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
    if (p->wq.shape[0] > INT32_MAX || p->wv.shape[0] > INT32_MAX)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %lld rows: at most 2^31-1 are possible",
                                p->wq.shape[0] > INT32_MAX ? "wq" : "wv",
                                (long long)(p->wq.shape[0] > INT32_MAX ? p->wq.shape[0] : p->wv.shape[0]));
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

static clattn_status check_matrices(layer *l, bool planning) {
    const clattn_layer_params *p = &l->params;
    const int64_t m = p->x.shape[2], my = l->y.shape[2];
    const struct {
        const clattn_tensor *w, *b;
        int64_t shape[2];
        const char *names[2];
    } all[] = {{&p->wq, &p->bq, {l->heads * l->head_dim, m}, {"wq", "bq"}},
               {&p->wk, &p->bk, {l->kv_heads * l->head_dim, my}, {"wk", "bk"}},
               {&p->wv, &p->bv, {l->kv_heads * l->head_dim_v, my}, {"wv", "bv"}},
               {&p->wo, &p->bo, {p->wo.shape[0], l->heads * l->head_dim_v}, {"wo", "bo"}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        TRY(cla_linear_check_matrix(l->context, all[i].w, all[i].b, all[i].shape, all[i].names, planning));
    return CLATTN_OK;
}

static clattn_status check_tensors(layer *l, bool planning) {
    clattn_context *c = l->context;
    const clattn_layer_params *p = &l->params;
    const tensor_rule x = {"x", "[B, Nq, M]", TYPES_FLOAT, false, planning};
    const tensor_rule y = {"y", "[B, Nkv, My]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, Nq, Mo = rows of wo]", TYPES_FLOAT, true, planning};
    TRY(cla_tensor_check(c, &p->x, 3, &x));
    TRY(cla_tensor_check_shape(c, &p->x, p->x.shape, &x));
    if (cla_tensor_given(&p->y)) TRY(cla_tensor_check(c, &p->y, 3, &y));
    l->self = !cla_tensor_given(&p->y);
    l->y = l->self ? p->x : p->y;
    const int64_t y_shape[3] = {p->x.shape[0], -1, -1},
                  out_shape[3] = {p->x.shape[0], p->x.shape[1], p->wo.shape[0]};
    TRY(cla_tensor_check_shape(c, &l->y, y_shape, &y));
    TRY(cla_tensor_check(c, &p->out, 3, &out));
    TRY(cla_tensor_check_shape(c, &p->out, out_shape, &out));
    if (p->x.shape[2] == 0 || l->y.shape[2] == 0 || p->wo.shape[0] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "layer: a model width is 0: must be 1 or more");
    return CLATTN_OK;
}

// q, k, v and the heads' result are the layer's own, made before attention could refuse them.
static clattn_status check_parts(const layer *l) {
    const int64_t batch = l->y.shape[0], nq = l->params.x.shape[1], nkv = l->y.shape[1];
    const struct {
        int64_t rows, columns;
        const char *name;
    } parts[] = {{batch * nq, l->heads * l->head_dim, "q"},
                 {batch * nkv, l->kv_heads * l->head_dim, "k"},
                 {batch * nkv, l->kv_heads * l->head_dim_v, "v"},
                 {batch * nq, l->heads * l->head_dim_v, "the heads' result"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        // A division costs more than the rest: first what is small enough at once.
        if ((parts[i].rows >> 28 || parts[i].columns >> 28) &&
            parts[i].rows > INT64_MAX / 16 / parts[i].columns)
            return cla_context_fail(l->context, CLATTN_INVALID_ARGUMENT,
                                    "layer: %s would have more elements than 64 bits count", parts[i].name);
    return CLATTN_OK;
}

static clattn_status check_options(clattn_context *c, const clattn_layer_params *p) {
    if (p->cu_seqlens_q || p->kv.cu_seqlens_kv || cla_tensor_given(&p->kv.cu_seqlens_kv_device))
        return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                "cu_seqlens_%s: is not built yet in a layer: leave it 0",
                                p->cu_seqlens_q ? "q" : "kv");
    if (cla_tensor_given(&p->kv.k) || cla_tensor_given(&p->kv.v))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "kv: its k and v must be absent: the layer makes them");
    if (cla_tensor_given(&p->q_norm) || cla_tensor_given(&p->k_norm) || p->norm_epsilon != 0.0f)
        return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                cla_tensor_given(&p->q_norm)   ? "q_norm"
                                : cla_tensor_given(&p->k_norm) ? "k_norm"
                                                               : "norm_epsilon");
    TRY(cla_linear_check_precision(c, p->precision));
    return cla_linear_check_projection(c, p->projection);
}

clattn_status cla_layer_check(layer *l, bool planning) {
    TRY(check_options(l->context, &l->params));
    TRY(find_sizes(l));
    TRY(check_tensors(l, planning));
    TRY(check_matrices(l, planning));
    TRY(check_parts(l));
    return check_types(l->context, &l->params);
}
