// given.h: the views of a call's own copy of what the caller gave: addresses are taken (device/pointer.h), and where buffers are needed,
// optional views without one are absent, whatever else they say.
#ifndef CLATTN_ATTENTION_CALL_GIVEN_H
#define CLATTN_ATTENTION_CALL_GIVEN_H
#include "device/context.h"

typedef struct given_views {
    const clattn_context *context;
    bool planning; // views need no buffers
    bool inner;    // part of another call, which has taken some, and makes new rows that have no buffer yet
    bool sizes;    // keys are there by their axes: their buffers are not looked at
} given_views;

void cla_given_views(const given_views *g, bool optional, clattn_tensor *const views[], int count);
#define CLA_GIVEN(g, optional, ...)                                                                          \
    cla_given_views(g, optional, (clattn_tensor *const[]){__VA_ARGS__},                                      \
                    (int)(sizeof((clattn_tensor *const[]){__VA_ARGS__}) / sizeof(clattn_tensor *)))

// New rows, of which there may be none: without elements they need no buffer to be there.
void cla_given_new(const given_views *g, clattn_tensor *k_new, clattn_tensor *v_new);
void cla_given_attention(const given_views *g, clattn_attention_params *p);
void cla_given_kv(const given_views *g, clattn_kv *kv);
void cla_given_score(const given_views *g, clattn_score *s);
void cla_given_rope(const given_views *g, clattn_rope *r);
#endif
