// cascade.h: read a past that all batch items share only once. This file checks whether a call
// permits it, and enqueues the launches. src/lib/plan/cascade.c decides whether it is worthwhile.
#ifndef CLATTN_ATTENTION_RUN_CASCADE_H
#define CLATTN_ATTENTION_RUN_CASCADE_H
#include "attention/call/call.h"

// Call this after c->variant is planned. If the past is read once, c->variant becomes the kernel
// for the items' own keys.
clattn_status cla_cascade_plan(call *c, const plan_input *in);

clattn_status cla_cascade_prepare(const call *c);
double cla_cascade_flops(const call *c);
// Prepare `own`, the second launch, before the call's first command. `own` is released together
// with the call.
clattn_status cla_cascade_begin(const call *c, call *own, chain *steps);
clattn_status cla_cascade_enqueue(const call *c, call *own, chain *steps);
#endif
