// attention.h: attention as the layer uses it: one call in the middle of a chain of commands.
#ifndef CLATTN_ATTENTION_CALL_ATTENTION_H
#define CLATTN_ATTENTION_CALL_ATTENTION_H
#include "attention/call/call.h"

// Compile what a checked call needs; enqueue it onto `steps`. Its workspace, table and copies stay the call's.
clattn_status cla_attention_prepare_call(call *c);
clattn_status cla_attention_enqueue_call(call *c, chain *steps);
double cla_attention_flops(const call *c); // of all launches that count theirs

clattn_status cla_attention_fill_plan(const call *c, uint64_t workspace_bytes, clattn_plan *plan);
#endif
