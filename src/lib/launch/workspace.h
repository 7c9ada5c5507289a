// workspace.h: scratch memory of a call: the caller's, or the context's.
#ifndef CLATTN_LAUNCH_WORKSPACE_H
#define CLATTN_LAUNCH_WORKSPACE_H
#include "launch/chain.h"

// Far more than any memory, and so little that parts of it add up in 64 bits.
#define WORKSPACE_MOST ((uint64_t)1 << 58)

// Where a part of `count` elements that starts at byte `at` ends, rounded up so that the next part is aligned for any type.
// WORKSPACE_MOST where that is more; it stays that.
uint64_t cla_workspace_add(uint64_t at, uint64_t count, size_t element);

// Refuse, before anything is planned on it, what no buffer holds, or none of the device where the caller gave none.
clattn_status cla_workspace_fits(clattn_context *context, cl_mem given, uint64_t bytes);

// The caller's workspace, which was checked with the call's views, or one of the context's until the chain ends; NULL where
// none is needed.
clattn_status cla_workspace_take(chain *steps, cl_mem given, uint64_t bytes, cl_mem *workspace);
#endif
