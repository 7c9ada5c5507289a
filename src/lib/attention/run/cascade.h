// cascade.h: a past that all batch items share, read once for all of them: what of a call allows that, and its launches. When it
// is done is src/lib/plan/cascade.c's.
#ifndef CLATTN_ATTENTION_RUN_CASCADE_H
#define CLATTN_ATTENTION_RUN_CASCADE_H
#include "attention/call/call.h"

// The call's own variant is there; where the past is read once c->variant becomes that of the items' own keys.
clattn_status cla_cascade_plan(call *c, const plan_input *in);

clattn_status cla_cascade_prepare(const call *c);
double cla_cascade_flops(const call *c);
// Before the first command of the call: what the second launch needs, which is released with the call.
clattn_status cla_cascade_begin(const call *c, call *own, chain *steps);
clattn_status cla_cascade_enqueue(const call *c, call *own, chain *steps);
#endif
