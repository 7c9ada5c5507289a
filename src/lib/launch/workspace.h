// workspace.h: scratch memory of a call, from the caller or from the context.
#ifndef CLATTN_LAUNCH_WORKSPACE_H
#define CLATTN_LAUNCH_WORKSPACE_H
#include "launch/chain.h"

// Larger than any memory, and small enough that sums of parts do not overflow 64 bits.
#define WORKSPACE_MOST ((uint64_t)1 << 58)

// End of a part of `count` elements that starts at byte `at`, rounded up so that any type may
// follow. Returns WORKSPACE_MOST if the end is larger.
uint64_t cla_workspace_add(uint64_t at, uint64_t count, size_t element);

// Reject a size that no buffer can have, or, without a buffer from the caller, that exceeds the
// device's largest buffer.
clattn_status cla_workspace_fits(clattn_context *context, cl_mem given, uint64_t bytes);

// Set *workspace to the caller's buffer, which was checked with the call's views, or to memory of
// the context until the chain ends. NULL if `bytes` is 0.
clattn_status cla_workspace_take(chain *steps, cl_mem given, uint64_t bytes, cl_mem *workspace);
#endif
