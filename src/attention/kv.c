// kv.c: where keys and values lie, as clattn_kv says: its views against the contract, and as kernel arguments. The device's
// half is cl/kv.clh.
#include "attention/call.h"

// Options that have a place in the header and no code yet.
clattn_status cla_kv_check_unbuilt(clattn_context *c, const clattn_attention_params *p) {
    const clattn_kv *kv = &p->kv;
    const struct {
        bool set;
        const char *name;
    } options[] = {
        {cla_tensor_given(&kv->block_table), "block_table"},
        {kv->page_size != 0, "page_size"},
        {cla_tensor_given(&kv->k_new), "k_new"},
        {cla_tensor_given(&kv->v_new), "v_new"},
        {kv->k.type == CLATTN_TYPE_I8 && p->rope.layout != CLATTN_ROPE_NONE, "rope of i8 keys"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set)
            return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: is not built yet: leave it 0",
                                    options[i].name);
    return CLATTN_OK;
}

#define TYPES_KV (TYPES_FLOAT | 1u << CLATTN_TYPE_I8)

// Both scales with i8, neither without.
static clattn_status check_scale(clattn_context *x, const clattn_tensor *t, const clattn_tensor *of,
                                 const char *name, bool planning) {
    const tensor_rule rule = {name, "[B, Hkv, Nkv]", TYPES_F32, false, planning};
    if (of->type != CLATTN_TYPE_I8 && !cla_tensor_given(t)) return CLATTN_OK;
    if (of->type != CLATTN_TYPE_I8)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT, "%s: is for i8 keys and values, these are %s",
                                name, clattn_type_name(of->type));
    TRY(cla_tensor_check(x, t, 3, &rule));
    for (int i = 0; i < 3; i++)
        if (t->shape[i] != of->shape[i])
            return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                    "%s: size %lld of axis %d does not fit: [B, Hkv, Nkv] has %lld", name,
                                    (long long)t->shape[i], i, (long long)of->shape[i]);
    return CLATTN_OK;
}

// The shapes follow from q's [B, H, Nq, D] but for Hkv, Nkv and Dv.
clattn_status cla_kv_check(clattn_context *x, const clattn_kv *kv, const int64_t q[4], bool planning) {
    const tensor_rule k = {"k", "[B, Hkv, Nkv, D]", TYPES_KV, false, planning};
    const tensor_rule v = {"v", "[B, Hkv, Nkv, Dv]", TYPES_KV, false, planning};
    TRY(cla_tensor_check(x, &kv->k, 4, &k));
    TRY(cla_tensor_check(x, &kv->v, 4, &v));
    const int64_t *sk = kv->k.shape, *sv = kv->v.shape;
    const int64_t k_shape[4] = {q[0], sk[1], sk[2], q[3]}, v_shape[4] = {q[0], sk[1], sk[2], sv[3]};
    TRY(cla_tensor_check_shape(x, &kv->k, k_shape, &k));
    TRY(cla_tensor_check_shape(x, &kv->v, v_shape, &v));
    if (kv->v.type != kv->k.type)
        return cla_context_fail(x, CLATTN_INVALID_ARGUMENT,
                                "v: its type differs from k's: both must be stored alike");
    TRY(check_scale(x, &kv->k_scale, &kv->k, "k_scale", planning));
    return check_scale(x, &kv->v_scale, &kv->v, "v_scale", planning);
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
}

void cla_kv_key_arguments(const call *c, launch *l) {
    cla_launch_buffer(l, &c->k);
    if (c->problem.type_kv == CLATTN_TYPE_I8) cla_launch_buffer(l, &c->params.kv.k_scale.buffer);
}
void cla_kv_value_arguments(const call *c, launch *l) {
    cla_launch_buffer(l, &c->v);
    if (c->problem.type_kv == CLATTN_TYPE_I8) cla_launch_buffer(l, &c->params.kv.v_scale.buffer);
}
