// run.h: prepare and enqueue the kernels of a call: the fused paths (flash.c), the unfused path
// (unfused.c), and the short sequences of a ragged batch (ragged_decode.c).
#ifndef CLATTN_ATTENTION_RUN_RUN_H
#define CLATTN_ATTENTION_RUN_RUN_H
#include "attention/call/call.h"

clattn_status cla_flash_prepare(call *c);
clattn_status cla_flash_enqueue(call *c, chain *chain);
double cla_flash_flops(const call *c); // floating-point operations of all launches
// Set the arguments of a fused kernel for a launch with more arguments. The values must outlive the
// launch.
void cla_flash_arguments(const call *c, const attention_args *a, const dropout_args *dropout, launch *l);
// Combine `splits` partial results into the call's result.
clattn_status cla_flash_prepare_combine(const call *c);
double cla_flash_combine_flops(const call *c, int splits);
clattn_status cla_flash_combine(const call *c, chain *chain, int splits);

clattn_status cla_unfused_prepare(call *c);
clattn_status cla_unfused_enqueue(call *c, chain *chain);
double cla_unfused_flops(const call *c);

// The short sequences of a ragged batch use a kernel of their own. Plan after the call itself.
// cla_mixed_begin fills `few` once the call has its table. `few` is enqueued after the call and
// released with it.
void cla_mixed_plan(call *c, const plan_input *in);
clattn_status cla_mixed_prepare(const call *c);
clattn_status cla_mixed_begin(const call *c, call *few, chain *steps);
clattn_status cla_mixed_enqueue(const call *c, call *few, chain *steps);
#endif
