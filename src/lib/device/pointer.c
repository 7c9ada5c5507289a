// pointer.c: see pointer.h. OpenCL 1.2's headers declare neither SVM nor USM. Their functions and
// constants are therefore declared here, and found by name if the device supports them.
#include "device/pointer.h"

#include <string.h>

#define DEVICE_SYSTEM_CAPABILITIES 0x4194 // this and the next four: cl_intel_unified_shared_memory
#define ALLOCATION_TYPE 0x419A
#define ALLOCATION_BASE 0x419B
#define ALLOCATION_SIZE 0x419C
#define ALLOCATION_UNKNOWN 0x4196

typedef void *(CL_API_CALL *find_extension)(cl_platform_id platform, const char *name);

static void find_usm(clattn_context *c, pointer_calls *p) {
    cl_platform_id platform = NULL;
    cl_bitfield system = 0;
    find_extension find = NULL;
    const clattn_function found = clattn_opencl_function("clGetExtensionFunctionAddressForPlatform");
    memcpy(&find, &found, sizeof find);
    if (!find ||
        clGetDeviceInfo(c->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS)
        return;
    void *const set = find(platform, "clSetKernelArgMemPointerINTEL");
    void *const ask = find(platform, "clGetMemAllocInfoINTEL");
    if (!set || !ask) return;
    memcpy(&p->set_usm, &set, sizeof set); // ISO C has no cast from object to function pointers
    memcpy(&p->ask_usm, &ask, sizeof ask);
    p->usm_of_system =
        clGetDeviceInfo(c->device, DEVICE_SYSTEM_CAPABILITIES, sizeof system, &system, NULL) == CL_SUCCESS &&
        system;
}

void cla_pointers_find(clattn_context *c) {
    pointer_calls *p = &c->pointers;
    if (c->capabilities.svm) {
        const clattn_function set = clattn_opencl_function("clSetKernelArgSVMPointer");
        memcpy(&p->set_svm, &set, sizeof set);
    }
    if (c->capabilities.usm) find_usm(c, p);
}

// The required alignment of a tensor's address in bytes: the element size, at most 4. The lowest
// two bits hold the pointer's kind, so a block format needs 4.
static size_t alignment_of(clattn_type type) {
    // Block formats have larger sizes.
    return clattn_type_size(type) > 4 ? 4 : clattn_type_size(type);
}

static bool can_take(const clattn_context *c, const clattn_tensor *t) {
    const uintptr_t address = (uintptr_t)(t->svm ? t->svm : t->usm);
    const size_t size = alignment_of(t->type);
    return !t->buffer && !(t->svm && t->usm) && (t->svm ? c->pointers.set_svm : c->pointers.set_usm) &&
           size && address % size == 0 && t->offset >= 0 && t->offset <= INT64_MAX / 16;
}

void cla_pointers_take(const clattn_context *c, clattn_tensor *const views[], int count, bool inner) {
    for (int i = 0; i < count; i++) {
        clattn_tensor *t = views[i];
        if (!inner && cla_pointer_kind(t->buffer)) t->svm = t->buffer;
        if (!cla_tensor_has_raw_pointer(t) || !can_take(c, t)) continue;
        const uintptr_t address = (uintptr_t)(t->svm ? t->svm : t->usm);
        t->buffer = (cl_mem)((address & ~(uintptr_t)3u) | (t->svm ? POINTER_SVM : POINTER_USM));
        t->offset += (int64_t)((address & 3u) / alignment_of(t->type));
        t->svm = t->usm = NULL;
    }
}

clattn_status cla_pointer_refuse(clattn_context *c, const clattn_tensor *t, const char *name) {
    const bool svm = t->svm != NULL;
    const size_t size = alignment_of(t->type);
    if (cla_pointer_kind(t->buffer))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its buffer is not a memory object", name);
    if ((t->buffer != NULL) + (t->svm != NULL) + (t->usm != NULL) > 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: buffer, svm and usm: give one of them",
                                name);
    if (svm ? !c->pointers.set_svm : !c->pointers.set_usm)
        return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: %s: %s", name, svm ? "svm" : "usm",
                                (svm ? c->capabilities.svm != 0 : c->capabilities.usm)
                                    ? "the OpenCL that was found lacks its functions: a buffer is needed"
                                    : "the device has no such memory: a buffer is needed");
    if (size && (uintptr_t)(svm ? t->svm : t->usm) % size)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: %s: its address is no multiple of %llu bytes", name, svm ? "svm" : "usm",
                                (unsigned long long)size);
    return cla_context_fail(c, CLATTN_UNSUPPORTED, "%s: %s: this call takes buffers alone", name,
                            svm ? "svm" : "usm");
}

clattn_status cla_pointer_bytes(clattn_context *c, const char *name, cl_mem buffer, uint64_t *bytes) {
    const void *const address = cla_pointer_address(buffer);
    cl_uint type = ALLOCATION_UNKNOWN;
    const void *base = NULL;
    size_t size = 0;
    *bytes = UINT64_MAX;
    if (cla_pointer_kind(buffer) != POINTER_USM) return CLATTN_OK;
    cl_int code = c->pointers.ask_usm(c->opencl, address, ALLOCATION_TYPE, sizeof type, &type, NULL);
    if (code == CL_SUCCESS && type == ALLOCATION_UNKNOWN && c->pointers.usm_of_system) return CLATTN_OK;
    if (code == CL_SUCCESS && type == ALLOCATION_UNKNOWN)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: usm: its address is not in USM memory of the context's cl_context",
                                name);
    if (code == CL_SUCCESS)
        code = c->pointers.ask_usm(c->opencl, address, ALLOCATION_BASE, sizeof base, &base, NULL);
    if (code == CL_SUCCESS)
        code = c->pointers.ask_usm(c->opencl, address, ALLOCATION_SIZE, sizeof size, &size, NULL);
    if (code != CL_SUCCESS) return cla_context_fail_opencl(c, code, "clGetMemAllocInfoINTEL");
    *bytes = (uint64_t)size - (uint64_t)((uintptr_t)address - (uintptr_t)base);
    return CLATTN_OK;
}

cl_int cla_pointer_set(const clattn_context *c, cl_kernel kernel, cl_uint index, cl_mem buffer,
                       const char **call) {
    const bool svm = cla_pointer_kind(buffer) == POINTER_SVM;
    const cl_int code =
        (svm ? c->pointers.set_svm : c->pointers.set_usm)(kernel, index, cla_pointer_address(buffer));
    if (code != CL_SUCCESS) *call = svm ? "clSetKernelArgSVMPointer" : "clSetKernelArgMemPointerINTEL";
    return code;
}
