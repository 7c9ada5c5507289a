// workspace.c: see workspace.h.
#include "launch/workspace.h"

uint64_t cla_workspace_add(uint64_t at, uint64_t count, size_t element) {
    if (count > WORKSPACE_MOST / element || at > WORKSPACE_MOST) return WORKSPACE_MOST;
    const uint64_t end = at + (count * element + 255) / 256 * 256;
    return end < WORKSPACE_MOST ? end : WORKSPACE_MOST;
}

// Drivers may accept sizes that the device does not have, so compare with the limits that they
// report.
clattn_status cla_workspace_fits(clattn_context *context, cl_mem given, uint64_t bytes) {
    const uint64_t most = SIZE_MAX;
    if (bytes >= WORKSPACE_MOST || bytes > most)
        return cla_context_fail(context, CLATTN_OUT_OF_MEMORY,
                                "workspace: its bytes are more than any buffer of this host has");
    if (given || bytes <= context->capabilities.max_allocation_bytes) return CLATTN_OK;
    return cla_context_fail(context, CLATTN_OUT_OF_MEMORY,
                            "workspace: %llu bytes are more than the device's largest buffer of %llu bytes",
                            (unsigned long long)bytes,
                            (unsigned long long)context->capabilities.max_allocation_bytes);
}

clattn_status cla_workspace_take(chain *steps, cl_mem given, uint64_t bytes, cl_mem *workspace) {
    *workspace = bytes ? given : NULL;
    if (given || bytes == 0) return CLATTN_OK;
    TRY(cla_workspace_fits(steps->context, given, bytes));
    return cla_chain_scratch(steps, bytes, workspace);
}
