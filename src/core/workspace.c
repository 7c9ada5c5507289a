// workspace.c: see workspace.h.
#include "core/workspace.h"

size_t cla_workspace_round(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static clattn_status check_given(clattn_context *context, cl_mem given, size_t bytes) {
    size_t have = 0;
    cl_context of = NULL;
    cl_int code = clGetMemObjectInfo(given, CL_MEM_SIZE, sizeof have, &have, NULL);
    if (code == CL_SUCCESS) code = clGetMemObjectInfo(given, CL_MEM_CONTEXT, sizeof of, &of, NULL);
    if (code == CL_SUCCESS && of != context->opencl) code = CL_INVALID_MEM_OBJECT;
    if (code != CL_SUCCESS)
        return cla_context_fail_handle(context, code, "clGetMemObjectInfo", "workspace",
                                       "is not a buffer of the context's cl_context");
    if (have < bytes)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT,
                                "workspace: has %llu bytes, %llu are needed", (unsigned long long)have,
                                (unsigned long long)bytes);
    return CLATTN_OK;
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
    if (given) TRY(check_given(context, given, bytes));
    if (bytes == 0) return CLATTN_OK;
    cl_int code = CL_SUCCESS;
    if (given) {
        code = clRetainMemObject(given);
        if (code != CL_SUCCESS)
            return cla_context_fail_opencl(context, code, "clRetainMemObject (workspace)");
        *workspace = given;
        return CLATTN_OK;
    }
    TRY(cla_workspace_fits(context, given, bytes));
    *workspace = clCreateBuffer(context->opencl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return *workspace ? CLATTN_OK : cla_context_fail_opencl(context, code, "clCreateBuffer (workspace)");
}
