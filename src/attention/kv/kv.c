// kv.c: where keys and values lie, as clattn_kv says: its views against the contract, and as kernel arguments. The device's
// half is cl/call/kv.clh.
#include "attention/call/call.h"

// Options that have a place in the header and no code yet.
clattn_status cla_kv_check_unbuilt(clattn_context *c, const clattn_attention_params *p, bool turned) {
    const clattn_kv *kv = &p->kv;
    const struct {
        bool set;
        const char *name;
    } options[] = {
        {kv->k.type == CLATTN_TYPE_I8 && p->rope.layout != CLATTN_ROPE_NONE && !cla_kv_is_paged(kv) &&
             !cla_kv_appends(kv) && !turned,
         "rope of i8 keys"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                    options[i].name);
    return CLATTN_OK;
}

// Both scales with i8, neither without: one of each row of `of`.
clattn_status cla_kv_check_scale(clattn_context *x, const clattn_tensor *t, const clattn_tensor *of,
                                 const tensor_rule *rule) {
    if (of->type != CLATTN_TYPE_I8 && !cla_tensor_given(t)) return CLATTN_OK;
    if (of->type != CLATTN_TYPE_I8)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: is for i8 keys and values, these are %s",
                                rule->name, clattn_type_name(of->type));
    TRY(cla_tensor_check(x, t, 3, rule));
    for (int i = 0; i < 3; i++)
        if (t->shape[i] != of->shape[i])
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld of axis %d does not fit: %s has %lld", rule->name,
                                    (long long)t->shape[i], i, rule->axes, (long long)of->shape[i]);
    return CLATTN_OK;
}

// The shapes follow from q's [B, H, Nq, D] but for Hkv, Nkv and Dv. `items`: B of what is never packed.
clattn_status cla_kv_check(clattn_context *x, const clattn_kv *kv, const int64_t q[4], int64_t items,
                           bool planning) {
    const bool paged = cla_kv_is_paged(kv);
    const tensor_rule k = {"k", paged ? "[pages, Hkv, page_size, D]" : "[B, Hkv, Nkv, D]", TYPES_KV, false,
                           planning},
                      v = {"v", paged ? "[pages, Hkv, page_size, Dv]" : "[B, Hkv, Nkv, Dv]", TYPES_KV, false,
                           planning};
    TRY(cla_tensor_check(x, &kv->k, 4, &k));
    TRY(cla_tensor_check(x, &kv->v, 4, &v));
    const int64_t *sk = kv->k.shape, *sv = kv->v.shape;
    const int64_t first = paged ? sk[0] : q[0], k_shape[4] = {first, sk[1], sk[2], q[3]},
                  v_shape[4] = {first, sk[1], sk[2], sv[3]};
    TRY(cla_tensor_check_shape(x, &kv->k, k_shape, &k));
    TRY(cla_tensor_check_shape(x, &kv->v, v_shape, &v));
    if (kv->v.type != kv->k.type)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "v: its type differs from k's: both must be stored alike");
    const tensor_rule k_scale = {"k_scale", "[B, Hkv, Nkv]", TYPES_F32 | ANY_LAST_STRIDE, false, planning},
                      v_scale = {"v_scale", "[B, Hkv, Nkv]", TYPES_F32 | ANY_LAST_STRIDE, false, planning};
    TRY(cla_kv_check_scale(x, &kv->k_scale, &kv->k, &k_scale));
    TRY(cla_kv_check_scale(x, &kv->v_scale, &kv->v, &v_scale));
    return cla_kv_check_places(x, kv, items, planning);
}

static bool same_place(const clattn_tensor *a, const clattn_tensor *b, int axes) {
    bool same = a->buffer == b->buffer && a->offset == b->offset;
    for (int i = 0; i < axes; i++) same = same && (a->stride[i] == b->stride[i] || a->shape[i] <= 1);
    return same;
}

// Where buffers are not known yet, sizes that differ say that the strides are one tensor's.
bool cla_kv_is_view(const clattn_tensor *k, const clattn_tensor *v) {
    const int64_t d = k->shape[3], dv = v->shape[3];
    return dv <= d && (k->buffer || dv < d) && same_place(k, v, 3);
}

static bool is_shared(const clattn_tensor *k, const clattn_tensor *v, const clattn_tensor *k_scale,
                      const clattn_tensor *v_scale) {
    return cla_kv_is_view(k, v) && (k->type != CLATTN_TYPE_I8 || same_place(k_scale, v_scale, 3));
}

// New rows go to a cache whose values are a view of its keys.
bool cla_kv_is_latent_cache(const clattn_kv *kv) {
    return cla_kv_appends(kv) && kv->k.buffer && is_shared(&kv->k, &kv->v, &kv->k_scale, &kv->v_scale);
}

// The caller's memory that keys and values are read from.
void cla_kv_views(const call *c, call_views *v) {
    const clattn_kv *kv = &c->params.kv;
    const view_use kept = cla_kv_appends(kv) ? VIEW_BOTH : VIEW_READ;
    cla_views_add(v, "k", &kv->k, kept);
    cla_views_add(v, "k_scale", &kv->k_scale, kept);
    if (!cla_kv_is_latent_cache(kv)) { // else they are those of the keys
        cla_views_add(v, "v", &kv->v, kept);
        cla_views_add(v, "v_scale", &kv->v_scale, kept);
    }
    cla_views_add(v, "k_new", &kv->k_new, VIEW_READ);
    cla_views_add(v, "v_new", &kv->v_new, VIEW_READ);
    cla_views_add(v, "past_k", &kv->past_k, VIEW_READ);
    cla_views_add(v, "past_v", &kv->past_v, VIEW_READ);
    cla_views_add(v, "past_k_scale", &kv->past_k_scale, VIEW_READ);
    cla_views_add(v, "past_v_scale", &kv->past_v_scale, VIEW_READ);
    cla_views_add(v, "block_table", &kv->block_table, VIEW_READ);
}

// Whether a value is the first numbers of its key's row, as in latent attention, in the past, too.
bool cla_kv_is_shared(const clattn_kv *kv) {
    return is_shared(&kv->k, &kv->v, &kv->k_scale, &kv->v_scale) &&
           (!cla_kv_has_past(kv) ||
            is_shared(&kv->past_k, &kv->past_v, &kv->past_k_scale, &kv->past_v_scale));
}

void cla_kv_fill(call *c) {
    c->args.k = cla_tensor_view(&c->params.kv.k);
    c->args.v = cla_tensor_view(&c->params.kv.v);
    if (c->ragged.packed_keys) c->args.k.batch = c->args.v.batch = 0;
    if (c->problem.type_kv == CLATTN_TYPE_I8) {
        c->args.k_scale = cla_tensor_view(&c->params.kv.k_scale);
        c->args.v_scale = cla_tensor_view(&c->params.kv.v_scale);
        if (c->ragged.packed_keys) c->args.k_scale.batch = c->args.v_scale.batch = 0;
    }
    c->k = c->params.kv.k.buffer;
    c->v = c->params.kv.v.buffer;
    cla_kv_fill_places(c);
}

// Rows, their scales, and the same of the past.
static void set_rows(const call *c, launch *l, const cl_mem *rows, const clattn_tensor *scale,
                     const clattn_tensor *past, const clattn_tensor *past_scale) {
    const bool scaled = c->problem.type_kv == CLATTN_TYPE_I8;
    cla_launch_buffer(l, rows);
    if (scaled) cla_launch_buffer(l, &scale->buffer);
    if (c->problem.past) cla_launch_buffer(l, &past->buffer);
    if (c->problem.past && scaled) cla_launch_buffer(l, &past_scale->buffer);
}
void cla_kv_key_arguments(const call *c, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    set_rows(c, l, &c->k, &kv->k_scale, &kv->past_k, &kv->past_k_scale);
}
void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l) {
    const clattn_kv *kv = &c->params.kv;
    set_rows(c, l, v, &kv->v_scale, &kv->past_v, &kv->past_v_scale);
}
