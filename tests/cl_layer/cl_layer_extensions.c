// cl_layer_extensions.c: extension functions that the library looks up by name: their calls are
// counted and can fail, too. Supports one driver at a time, as the suites have.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "cl_layer/cl_layer_inside.h"

#include <string.h>

static cl_int(CL_API_CALL *next_clSetKernelArgMemPointerINTEL)(cl_kernel, cl_uint, const void *);
static cl_int(CL_API_CALL *next_clGetMemAllocInfoINTEL)(cl_context, const void *, cl_uint, size_t, void *,
                                                        size_t *);

static cl_int CL_API_CALL layer_clSetKernelArgMemPointerINTEL(cl_kernel k, cl_uint i, const void *address) {
    const int code = layer_fault("clSetKernelArgMemPointerINTEL", false);
    if (!layer_object_used(LAYER_KERNEL, k, "clSetKernelArgMemPointerINTEL")) return CL_INVALID_KERNEL;
    return code != 0 ? code : next_clSetKernelArgMemPointerINTEL(k, i, address);
}

static cl_int CL_API_CALL layer_clGetMemAllocInfoINTEL(cl_context c, const void *address, cl_uint what,
                                                       size_t size, void *to, size_t *bytes) {
    const int code = layer_fault("clGetMemAllocInfoINTEL", false);
    if (!layer_object_used(LAYER_CONTEXT, c, "clGetMemAllocInfoINTEL")) return CL_INVALID_CONTEXT;
    return code != 0 ? code : next_clGetMemAllocInfoINTEL(c, address, what, size, to, bytes);
}

#define EXTENSION(function)                                                                                  \
    if (found != NULL && strcmp(name, #function) == 0) {                                                     \
        memcpy(&next_##function, &found, sizeof found);                                                      \
        own = (void(CL_API_CALL *)(void))layer_##function;                                                   \
    }

void *layer_extension(void *found, const char *name) {
    void(CL_API_CALL * own)(void) = NULL;
    EXTENSION(clSetKernelArgMemPointerINTEL)
    EXTENSION(clGetMemAllocInfoINTEL)
    if (own != NULL) memcpy(&found, &own, sizeof found);
    return found;
}
