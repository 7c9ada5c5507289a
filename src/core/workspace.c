// workspace.c: see workspace.h.
#include "core/workspace.h"

size_t cla_workspace_round(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// Drivers promise memory that they do not have: hold to the limits they state.
clattn_status cla_workspace_fits(clattn_context *context, cl_mem given, size_t bytes) {
    if (given || bytes <= context->capabilities.max_allocation_bytes) return CLATTN_OK;
    return cla_context_fail(context, CLATTN_OUT_OF_MEMORY,
                            "workspace: %llu bytes are more than the device's largest buffer of %llu bytes",
                            (unsigned long long)bytes,
                            (unsigned long long)context->capabilities.max_allocation_bytes);
}

clattn_status cla_workspace_take(clattn_context *context, cl_mem given, size_t bytes, cl_mem *workspace) {
    *workspace = NULL;
    if (bytes == 0) return CLATTN_OK;
    if (given) {
        clRetainMemObject(given);
        *workspace = given;
        return CLATTN_OK;
    }
    TRY(cla_workspace_fits(context, given, bytes));
    cl_int code = CL_SUCCESS;
    *workspace = clCreateBuffer(context->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return *workspace ? CLATTN_OK : cla_context_fail_opencl(context, code, "clCreateBuffer (workspace)");
}
