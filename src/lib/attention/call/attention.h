// attention.h: attention as a step of a larger chain of commands, such as a layer.
#ifndef CLATTN_ATTENTION_CALL_ATTENTION_H
#define CLATTN_ATTENTION_CALL_ATTENTION_H
#include "attention/call/call.h"

// Compile the kernels of a checked call, and enqueue the call onto `steps`. The call keeps its
// workspace and table.
clattn_status cla_attention_prepare_call(call *c);
clattn_status cla_attention_enqueue_call(call *c, chain *steps);
double cla_attention_flops(const call *c); // floating-point operations of all launches

clattn_status cla_attention_fill_plan(const call *c, uint64_t workspace_bytes, clattn_plan *plan);
#endif
