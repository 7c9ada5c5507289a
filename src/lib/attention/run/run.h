// run.h: the kernels of a call, for prepare and for the enqueue: the fused paths (flash.c), the unfused one (unfused.c), and the
// sequences of few rows among others of a ragged batch (mixed.c).
#ifndef CLATTN_ATTENTION_RUN_RUN_H
#define CLATTN_ATTENTION_RUN_RUN_H
#include "attention/call/call.h"

clattn_status cla_flash_prepare(call *c);
clattn_status cla_flash_enqueue(call *c, chain *chain);
double cla_flash_flops(const call *c); // of all launches that count theirs
// The arguments of a fused kernel, for one that does more besides; the values must outlive the launch.
void cla_flash_arguments(const call *c, const attention_args *a, const dropout_args *dropout, launch *l);
// So many partial results become the call's.
clattn_status cla_flash_prepare_combine(const call *c);
double cla_flash_combine_flops(const call *c, int splits);
clattn_status cla_flash_combine(const call *c, chain *chain, int splits);

clattn_status cla_unfused_prepare(call *c);
clattn_status cla_unfused_enqueue(call *c, chain *chain);
double cla_unfused_flops(const call *c);

// Planned after the call itself; and, once the call has its table, a call of theirs, which is enqueued behind it and released with
// it.
void cla_mixed_plan(call *c, const plan_input *in);
clattn_status cla_mixed_prepare(const call *c);
clattn_status cla_mixed_begin(const call *c, call *few, chain *steps);
clattn_status cla_mixed_enqueue(const call *c, call *few, chain *steps);
#endif
