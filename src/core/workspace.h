// workspace.h: scratch memory of a call: the caller's, or a buffer of its own.
#ifndef CLATTN_CORE_WORKSPACE_H
#define CLATTN_CORE_WORKSPACE_H
#include "core/context.h"

// Bytes rounded up so that the next part of a workspace is aligned for any type.
size_t cla_workspace_round(size_t bytes);

// Refuse, before anything is planned on it, what no buffer of the device holds; `given` is the caller's, or NULL.
clattn_status cla_workspace_fits(clattn_context *context, cl_mem given, size_t bytes);

// Take the caller's workspace, which was checked with the call's views, or make one; NULL where none is needed. Release it
// with clReleaseMemObject after enqueueing: OpenCL keeps it until the commands are done.
clattn_status cla_workspace_take(clattn_context *context, cl_mem given, size_t bytes, cl_mem *workspace);
#endif
