// given.c: see given.h.
#include "attention/call/given.h"

#include "attention/call/tensor.h"
#include "device/pointer.h"

void cla_given_views(const given_views *g, bool optional, clattn_tensor *const views[], int count) {
    cla_pointers_take(g->context, views, count, g->inner);
    if (optional && !g->planning) cla_tensor_drop_absent(views, count);
}

void cla_given_new(const given_views *g, clattn_tensor *k_new, clattn_tensor *v_new) {
    CLA_GIVEN(g, !g->inner && !cla_tensor_is_empty(k_new), k_new);
    CLA_GIVEN(g, !g->inner && !cla_tensor_is_empty(v_new), v_new);
}

void cla_given_kv(const given_views *g, clattn_kv *kv) {
    CLA_GIVEN(g, false, &kv->k, &kv->v);
    CLA_GIVEN(g, true, &kv->k_scale, &kv->v_scale, &kv->past_k_scale, &kv->past_v_scale,
              &kv->cu_seqlens_kv_device, &kv->kv_lengths_device);
    CLA_GIVEN(g, !g->sizes, &kv->past_k, &kv->past_v);
    CLA_GIVEN(g, !g->sizes && !cla_tensor_is_empty(&kv->block_table), &kv->block_table);
    cla_given_new(g, &kv->k_new, &kv->v_new);
}

void cla_given_score(const given_views *g, clattn_score *s) {
    CLA_GIVEN(g, true, &s->mask, &s->bias, &s->mod_buffers[0], &s->mod_buffers[1], &s->mod_buffers[2],
              &s->mod_buffers[3], &s->block_mask, &s->sinks_device);
}
_Static_assert(CLATTN_MOD_BUFFERS == 4, "all mod_buffers are listed");

void cla_given_rope(const given_views *g, clattn_rope *r) {
    CLA_GIVEN(g, true, &r->positions, &r->k_positions);
}

void cla_given_attention(const given_views *g, clattn_attention_params *p) {
    CLA_GIVEN(g, false, &p->q, &p->out);
    CLA_GIVEN(g, true, &p->lse, &p->weights, &p->scores, &p->cu_seqlens_q_device);
    cla_given_kv(g, &p->kv);
    cla_given_score(g, &p->score);
    cla_given_rope(g, &p->rope);
}
