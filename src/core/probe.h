// probe.h: what a device's compiler can do beyond what it reports: built and run once per context, and kept
// in the cache, because no name tells.
#ifndef CLATTN_CORE_PROBE_H
#define CLATTN_CORE_PROBE_H
#include "core/context.h"

// x86's bfloat16 dot product in kernels, by inline assembly. The first call of a context compiles a small
// kernel, unless the cache knows. False is no error.
bool cla_probe_dot_bf16(clattn_context *context);
#endif
