// pointers.c: see pointers.h. The functions are looked up by name, because OpenCL 1.2's headers do
// not declare them.
#include "support/pointers.h"

#include <string.h>

#define MEM_SVM_FINE_GRAIN_BUFFER (1 << 10)

typedef void *(CL_API_CALL *svm_alloc)(cl_context, cl_mem_flags, size_t, cl_uint);
typedef void(CL_API_CALL *svm_free)(cl_context, void *);
typedef cl_int(CL_API_CALL *svm_copy)(cl_command_queue, cl_bool, void *, const void *, size_t, cl_uint,
                                      const cl_event *, cl_event *);
typedef void *(CL_API_CALL *usm_alloc)(cl_context, const cl_bitfield *, size_t, cl_uint, cl_int *);
typedef void *(CL_API_CALL *usm_alloc_of)(cl_context, cl_device_id, const cl_bitfield *, size_t, cl_uint,
                                          cl_int *);
typedef cl_int(CL_API_CALL *usm_free)(cl_context, void *);
typedef void *(CL_API_CALL *find_extension)(cl_platform_id, const char *);

static enum pointers_kind chosen;

const char *pointers_name(enum pointers_kind kind) {
    static const char *const names[] = {"SVM", "fine-grained SVM", "USM of the host", "USM of the device",
                                        "shared USM"};
    return names[kind];
}

bool pointers_have(enum pointers_kind kind) {
    const clattn_capabilities *c = clattn_context_capabilities(harness()->context);
    return kind >= POINTERS_USM_HOST ? c->usm : kind == POINTERS_SVM ? c->svm & 1 : (c->svm & 2) != 0;
}

void pointers_choose(enum pointers_kind kind) {
    chosen = kind;
}

// A function of any type: the caller copies it into a pointer of the right type.
static clattn_function find(const char *name) {
    clattn_function found = clattn_opencl_function(name), ask;
    cl_platform_id platform;
    find_extension of;
    if (strstr(name, "INTEL") == NULL) return found;
    ask = clattn_opencl_function("clGetExtensionFunctionAddressForPlatform");
    memcpy(&of, &ask, sizeof of);
    harness_expect(clGetDeviceInfo(harness()->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL),
                   "clGetDeviceInfo");
    void *address = of(platform, name);
    memcpy(&found, &address, sizeof found);
    return found;
}

#define FIND(type, variable, name)                                                                           \
    type variable;                                                                                           \
    const clattn_function variable##_found = find(name);                                                     \
    ck_assert_msg(variable##_found != NULL, "no " name);                                                     \
    memcpy(&variable, &variable##_found, sizeof variable)

static void *of_usm(cl_context context, size_t bytes) {
    cl_int code = CL_SUCCESS;
    void *memory;
    if (chosen == POINTERS_USM_HOST) {
        FIND(usm_alloc, make, "clHostMemAllocINTEL");
        memory = make(context, NULL, bytes, 0, &code);
    } else if (chosen == POINTERS_USM_DEVICE) {
        FIND(usm_alloc_of, make, "clDeviceMemAllocINTEL");
        memory = make(context, harness()->device, NULL, bytes, 0, &code);
    } else {
        FIND(usm_alloc_of, make, "clSharedMemAllocINTEL");
        memory = make(context, harness()->device, NULL, bytes, 0, &code);
    }
    harness_expect(code, "USM");
    return memory;
}

void *pointers_memory_of(cl_context context, size_t bytes) {
    if (chosen >= POINTERS_USM_HOST) return of_usm(context, bytes);
    FIND(svm_alloc, make, "clSVMAlloc");
    return make(context, CL_MEM_READ_WRITE | (chosen == POINTERS_SVM_FINE ? MEM_SVM_FINE_GRAIN_BUFFER : 0),
                bytes, 0);
}

void *pointers_memory(size_t bytes) {
    return pointers_memory_of(harness()->opencl, bytes);
}

void pointers_release_of(cl_context context, void *memory) {
    if (chosen >= POINTERS_USM_HOST) {
        FIND(usm_free, release, "clMemFreeINTEL");
        harness_expect(release(context, memory), "clMemFreeINTEL");
        return;
    }
    FIND(svm_free, release, "clSVMFree");
    release(context, memory);
}

void pointers_release(void *memory) {
    pointers_release_of(harness()->opencl, memory);
}

cl_int pointers_copy(void *to, const void *from, size_t bytes) {
    if (chosen >= POINTERS_USM_HOST) {
        FIND(svm_copy, copy, "clEnqueueMemcpyINTEL");
        return copy(harness()->queue, CL_TRUE, to, from, bytes, 0, NULL, NULL);
    }
    FIND(svm_copy, copy, "clEnqueueSVMMemcpy");
    return copy(harness()->queue, CL_TRUE, to, from, bytes, 0, NULL, NULL);
}
