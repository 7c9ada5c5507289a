// call_kind.c: see call_kind.h.
#include "attention/call/call_kind.h"

#include <limits.h>

#include "args/args.h"
#include "attention/call/tensor.h"

bool cla_kv_appends(const clattn_kv *kv) {
    return cla_tensor_given(&kv->k_new);
}

bool cla_kv_is_paged(const clattn_kv *kv) {
    return cla_tensor_given(&kv->block_table);
}

bool cla_kv_has_past(const clattn_kv *kv) {
    return cla_tensor_given(&kv->past_k);
}

int64_t cla_kv_count(const clattn_kv *kv) {
    if (cla_kv_is_paged(kv)) return kv->block_table.shape[1] * kv->page_size;
    return kv->k.shape[2] + (cla_kv_has_past(kv) ? kv->past_k.shape[2] : 0);
}

int cla_kv_past(const clattn_kv *kv, int b) {
    if (!cla_kv_has_past(kv)) return 0;
    return kv->past_lengths ? kv->past_lengths[b] : (int)kv->past_k.shape[2];
}

static bool same_place(const clattn_tensor *a, const clattn_tensor *b, int axes) {
    bool same = a->buffer == b->buffer && a->offset == b->offset;
    for (int i = 0; i < axes; i++) same = same && (a->stride[i] == b->stride[i] || a->shape[i] <= 1);
    return same;
}

// Without buffers (planning), equal strides with Dv < D identify a view: separate tensors would
// have different strides.
bool cla_kv_is_view(const clattn_tensor *k, const clattn_tensor *v) {
    const int64_t d = k->shape[3], dv = v->shape[3];
    return k->type == v->type && dv <= d && (k->buffer || dv < d) && same_place(k, v, 3);
}

// k and v must have the same number of scales per row.
static bool same_scales(const clattn_tensor *a, const clattn_tensor *b, const clattn_tensor *k,
                        const clattn_tensor *v) {
    const bool groups = a->rank == 4;
    return same_place(a, b, 3) && groups == (b->rank == 4) &&
           (!groups || a->shape[3] * v->shape[3] == b->shape[3] * k->shape[3]);
}

static bool is_shared(const clattn_tensor *k, const clattn_tensor *v, const clattn_tensor *k_scale,
                      const clattn_tensor *v_scale, const clattn_tensor *k_zero,
                      const clattn_tensor *v_zero) {
    return cla_kv_is_view(k, v) && (!CLATTN_TYPE_IS_SCALED(k->type) ||
                                    (same_scales(k_scale, v_scale, k, v) && k_zero->rank == v_zero->rank &&
                                     same_place(k_zero, v_zero, k_zero->rank ? 3 : 0)));
}

bool cla_kv_is_latent_cache(const clattn_kv *kv) {
    return cla_kv_appends(kv) && kv->k.buffer &&
           is_shared(&kv->k, &kv->v, &kv->k_scale, &kv->v_scale, &kv->k_zero, &kv->v_zero);
}

bool cla_kv_is_shared(const clattn_kv *kv) {
    return is_shared(&kv->k, &kv->v, &kv->k_scale, &kv->v_scale, &kv->k_zero, &kv->v_zero) &&
           (!cla_kv_has_past(kv) || is_shared(&kv->past_k, &kv->past_v, &kv->past_k_scale, &kv->past_v_scale,
                                              &kv->past_k_zero, &kv->past_v_zero));
}

bool cla_ragged_on_device(const clattn_attention_params *p) {
    return cla_tensor_given(&p->cu_seqlens_q_device) || cla_tensor_given(&p->kv.cu_seqlens_kv_device) ||
           cla_tensor_given(&p->kv.kv_lengths_device);
}

bool cla_ragged_packs_keys(const clattn_attention_params *p) {
    return p->kv.cu_seqlens_kv || cla_tensor_given(&p->kv.cu_seqlens_kv_device);
}

bool cla_ragged_given(const clattn_attention_params *p) {
    return p->cu_seqlens_q || p->kv.cu_seqlens_kv || cla_ragged_on_device(p);
}

int64_t cla_ragged_sequences(const clattn_attention_params *p) {
    return cla_ragged_given(p) ? p->sequences : p->q.shape[0];
}

int cla_score_flags(const clattn_score *s) {
    int flags = 0;
#define OPTION(field, kind, flag, differs, apart) flags |= GIVEN_##kind(s->field) ? (flag) : 0;
#include "tables/score.def"
    return flags;
}

unsigned cla_score_differs(const clattn_score *s) {
    unsigned by = 0;
#define OPTION(field, kind, flag, differs, apart) by |= GIVEN_##kind(s->field) ? (differs) : 0u;
#include "tables/score.def"
    return by;
}

const char *cla_score_cascade_refusal(const clattn_score *s) {
    const char *why = NULL;
#define OPTION(field, kind, flag, differs, apart)                                                            \
    if (!why && GIVEN_##kind(s->field)) why = apart;
#include "tables/score.def"
    return why;
}

int cla_score_band(const clattn_score *s) {
    const int64_t left = ARGS_LEFT(s), right = ARGS_RIGHT(s), band = left + right + 1;
    return left < 0 || right < 0 ? 0 : (int)(band < INT_MAX ? band : INT_MAX);
}
