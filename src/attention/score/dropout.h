// dropout.h: dropout of a call: its check, and what the kernels see of it. Which weights it drops is cl/call/dropout.clh's.
#ifndef CLATTN_ATTENTION_SCORE_DROPOUT_H
#define CLATTN_ATTENTION_SCORE_DROPOUT_H
#include "args/args.h"
#include "device/context.h"

clattn_status cla_dropout_check(clattn_context *context, float probability);
dropout_args cla_dropout_arguments(float probability, uint64_t seed);
#endif
