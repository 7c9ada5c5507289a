// score.h: the options of clattn_score: those without code, their values, the host arrays, which are copied first where the call
// will run; then what kernels see of them. dropout.c has dropout, and which weights it drops is cl/call/softmax.clh's.
#ifndef CLATTN_ATTENTION_SCORE_SCORE_H
#define CLATTN_ATTENTION_SCORE_SCORE_H
#include "attention/call/call.h"
#include "launch/chain.h"

clattn_status cla_score_check(clattn_context *context, const clattn_score *score);
clattn_status cla_score_check_tensors(call *c, bool planning); // once the call's sizes are known
clattn_status cla_score_take_arrays(call *c, bool copy);
void cla_score_fill(const call *c, attention_args *a);
// The buffers of those of the options `ops`, bits of SCORE_OPS, that have some, as a kernel's arguments: SCORE_ARGUMENTS of score.clh.
void cla_score_arguments(const clattn_score *score, int ops, const mod_args *mods, launch *l);

clattn_status cla_dropout_check(clattn_context *context, float probability);
dropout_args cla_dropout_arguments(float probability, uint64_t seed);
#endif
