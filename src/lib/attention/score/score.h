// score.h: the options of clattn_score: check values and host arrays (which an enqueue copies
// first), and fill kernel arguments. dropout.c has dropout; cl/call/softmax.clh decides which
// weights are dropped.
#ifndef CLATTN_ATTENTION_SCORE_SCORE_H
#define CLATTN_ATTENTION_SCORE_SCORE_H
#include "attention/call/call.h"
#include "launch/chain.h"

// Check where row 0 is: `alignment`, and an offset only with CLATTN_ALIGN_OFFSET.
clattn_status cla_score_check_alignment(clattn_context *context, clattn_alignment alignment, bool shifted);
clattn_status cla_score_check(clattn_context *context, const clattn_score *score);
clattn_status cla_score_check_tensors(call *c, bool planning); // after the call's sizes are known
clattn_status cla_score_take_arrays(call *c, bool copy);
void cla_score_fill(const call *c, attention_args *a);
// Add the buffers of the options in `ops` (bits of SCORE_OPS) as kernel arguments: SCORE_ARGUMENTS
// of score.clh.
void cla_score_arguments(const clattn_score *score, int ops, const mod_args *mods, launch *l);

clattn_status cla_dropout_check(clattn_context *context, float probability);
dropout_args cla_dropout_arguments(float probability, uint64_t seed);
#endif
