// given.c: the addresses (core/pointer.h) among the views of a call's own copy of what the caller gave.
#include "attention/given.h"

#include "core/pointer.h"

#define TAKE(context, inner, ...)                                                                            \
    do {                                                                                                     \
        clattn_tensor *const views[] = {__VA_ARGS__};                                                        \
        cla_pointers_take(context, views, (int)(sizeof views / sizeof views[0]), inner);                     \
    } while (0)

void cla_given_kv(const clattn_context *context, clattn_kv *kv, bool inner) {
    TAKE(context, inner, &kv->k, &kv->v, &kv->k_scale, &kv->v_scale, &kv->k_new, &kv->v_new, &kv->past_k,
         &kv->past_v, &kv->past_k_scale, &kv->past_v_scale, &kv->block_table, &kv->cu_seqlens_kv_device,
         &kv->kv_lengths_device);
}

void cla_given_score(const clattn_context *context, clattn_score *s, bool inner) {
    TAKE(context, inner, &s->mask, &s->bias, &s->mod_buffers[0], &s->mod_buffers[1], &s->mod_buffers[2],
         &s->mod_buffers[3], &s->block_mask, &s->sinks_device);
}
_Static_assert(CLATTN_MOD_BUFFERS == 4, "all mod_buffers are listed");

void cla_given_rope(const clattn_context *context, clattn_rope *r, bool inner) {
    TAKE(context, inner, &r->positions, &r->k_positions);
}

void cla_given_attention(const clattn_context *context, clattn_attention_params *p, bool inner) {
    TAKE(context, inner, &p->q, &p->out, &p->lse, &p->weights, &p->scores, &p->cu_seqlens_q_device);
    cla_given_kv(context, &p->kv, inner);
    cla_given_score(context, &p->score, inner);
    cla_given_rope(context, &p->rope, inner);
}
