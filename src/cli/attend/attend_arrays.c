// attend_arrays.c: the arrays of `clattn attend`: convert types, load all files except q, k and v,
// upload, and create the outputs.
#include "cli/attend/attend.h"

// The float type (an index into names_types) that K (0) or V (1) is loaded as. Quantised sides load
// as f32.
static int float_type(const attend *a, int which) {
    const int type = which ? a->v_type : a->stores.type;
    return a->stored[which].type != CLATTN_TYPE_F32 ? 0 : type >= 0 ? type : a->dtype;
}

int attend_store(attend *a) {
    int status = tensors_store("q", &a->q_array, a->dtype);
    // With --dtype bf16, a file of NumPy type u2 contains bf16, even if K or V is then stored as
    // another type.
    if (status < 0 && a->dtype == 2 && a->k_array.type == ARRAY_U16) a->k_array.type = ARRAY_BF16;
    if (status < 0 && a->dtype == 2 && a->v_array.type == ARRAY_U16) a->v_array.type = ARRAY_BF16;
    if (status < 0) status = tensors_store("k", &a->k_array, float_type(a, 0));
    if (status < 0) status = tensors_store("v", &a->v_array, float_type(a, 1));
    return status;
}

int attend_options(attend *a, int64_t items, int64_t heads, int64_t k_items) {
    const int types[2] = {float_type(a, 0), float_type(a, 1)};
    const bool quantised = a->stored[0].type != CLATTN_TYPE_F32 || a->stored[1].type != CLATTN_TYPE_F32;
    // A cache is never ragged: its batch is not packed.
    const bool is_cache = a->append.k_new || a->kv.block_table;
    int status = append_options_load(&a->append, a->dtype, quantised);
    if (status < 0) status = ragged_options_load(&a->ragged, is_cache ? -1 : k_items);
    const int64_t batch = ragged_options_batch(&a->ragged, items);
    if (status < 0) status = kv_options_load(&a->kv, batch, types, a->dtype == 2);
    if (status < 0) status = rope_options_check(&a->rope);
    if (status < 0) status = rope_options_load(&a->rope);
    a->score.rope = a->rope.rope.layout != CLATTN_ROPE_NONE;
    a->common.mods_unchecked = a->score.mods_unchecked;
    if (status < 0) status = expect_load(&a->expect, items);
    return status >= 0 ? status : score_options_load(&a->score, batch, heads);
}

int attend_outputs(attend *a, tensors *t) {
    clattn_attention_params *p = &a->params;
    const int64_t *q = p->q.shape;
    int64_t full[4] = {q[0], q[1], q[2], kv_count(&p->kv)};
    const int64_t out[4] = {q[0], a->bshd ? q[2] : q[1], a->bshd ? q[1] : q[2], kv_width(&p->kv.v)};
    int status = tensors_output(t, a->q_array.type, 4, out, &a->out_array, &p->out);
    if (a->bshd) p->out = tensors_swap_heads(p->out);
    if (status < 0 && a->lse) status = tensors_output(t, ARRAY_F32, 3, q, &a->lse_array, &p->lse);
    ragged_options_apply(&a->ragged, p, full);
    if (status < 0 && a->weights)
        status = tensors_output(t, ARRAY_F32, 4, full, &a->weights_array, &p->weights);
    if (status < 0 && a->scores) status = tensors_output(t, ARRAY_F32, 4, full, &a->scores_array, &p->scores);
    a->dropout.dropout = p->score.dropout, a->dropout.dropout_seed = p->score.dropout_seed;
    if (status < 0 && a->dropout_mask)
        status = tensors_output(t, ARRAY_BOOL, 4, full, &a->dropout_array, &a->dropout.mask);
    p->scores_at = a->scores_at < 0 ? CLATTN_TAP_RAW : (clattn_tap)a->scores_at;
    return status;
}

// Swap the heads and rows axes of files with layout [B,N,H,D].
static void swap(const attend *a, clattn_tensor *const views[], int count) {
    for (int i = 0; a->bshd && i < count; i++)
        if (views[i]->rank) *views[i] = tensors_swap_heads(*views[i]);
}

int attend_upload(attend *a, tensors *t) {
    clattn_attention_params *p = &a->params;
    int status = tensors_upload(t, &a->q_array, &p->q);
    clattn_kv *kv = &p->kv;
    kv->k_rotation = a->stored[0].rotation, kv->v_rotation = a->stored[1].rotation;
    clattn_tensor *const k[] = {&kv->k, &kv->k_scale, &kv->k_zero}, *const v[] = {&kv->v, &kv->v_scale,
                                                                                  &kv->v_zero};
    if (status < 0) status = store_upload(t, &a->k_array, &a->stored[0], k);
    if (status < 0) status = store_upload(t, &a->v_array, &a->stored[1], v);
    swap(a, &(clattn_tensor *){&p->q}, 1), swap(a, k, 3), swap(a, v, 3);
    if (status < 0) status = kv_options_upload(&a->kv, t, a->stored, kv);
    swap(a, (clattn_tensor *[]){&kv->past_k, &kv->past_k_scale, &kv->past_k_zero}, 3);
    swap(a, (clattn_tensor *[]){&kv->past_v, &kv->past_v_scale, &kv->past_v_zero}, 3);
    if (status < 0) status = append_options_upload(&a->append, t, &p->kv);
    swap(a, (clattn_tensor *[]){&p->kv.k_new, &p->kv.v_new}, 2);
    if (status < 0) status = score_options_upload(&a->score, t);
    if (status < 0) status = rope_options_upload(&a->rope, t);
    p->rope = a->rope.rope;
    p->score = a->score.score, p->kernel = a->score.kernel, p->splits = a->score.splits;
    return status;
}
