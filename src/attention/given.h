// given.h: the views of a call's own copy of what the caller gave, whose addresses are taken (core/pointer.h). `inner`: the call is
// part of another, which has taken some.
#ifndef CLATTN_ATTENTION_GIVEN_H
#define CLATTN_ATTENTION_GIVEN_H
#include "core/context.h"

void cla_given_attention(const clattn_context *context, clattn_attention_params *p, bool inner);
void cla_given_kv(const clattn_context *context, clattn_kv *kv, bool inner);
void cla_given_score(const clattn_context *context, clattn_score *s, bool inner);
void cla_given_rope(const clattn_context *context, clattn_rope *r, bool inner);
#endif
