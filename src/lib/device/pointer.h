// pointer.h: tensors that are addresses (clattn_tensor.svm, .usm) and no cl_mem. Once a call has taken its views, such a view's
// `buffer` holds the address, a multiple of four, with its kind in the two lowest bits. These are 0 in every cl_mem, since a driver's
// object begins with a pointer (cl_khr_icd); a handle that has one is refused. So all that carries a cl_mem carries both, and who
// hands it to OpenCL asks here.
#ifndef CLATTN_DEVICE_POINTER_H
#define CLATTN_DEVICE_POINTER_H
#include "device/context.h"

typedef enum pointer_kind { POINTER_NONE = 0, POINTER_SVM = 1, POINTER_USM = 2 } pointer_kind;

static inline pointer_kind cla_pointer_kind(cl_mem buffer) {
    return (pointer_kind)((uintptr_t)buffer & 3u);
}
static inline const void *cla_pointer_address(cl_mem buffer) {
    return (const void *)((uintptr_t)buffer & ~(uintptr_t)3u);
}

// Find out what the context's device and the OpenCL that was found have: c->pointers.
void cla_pointers_find(clattn_context *c);

// Take the addresses of a call's own copies of its views. What cannot be taken stays as it is, and cla_pointer_refuse says why when
// the view is checked. `inner`: some were taken before, by the call that this one is part of.
void cla_pointers_take(const clattn_context *c, clattn_tensor *const views[], int count, bool inner);
// Whether a view still has an address that nobody took; then the line.
static inline bool cla_pointer_is_left(const clattn_tensor *t) {
    return t->svm || t->usm;
}
clattn_status cla_pointer_refuse(clattn_context *c, const clattn_tensor *t, const char *name);

// Bytes from an address to the end of its memory, as far as OpenCL tells: of USM; else UINT64_MAX.
clattn_status cla_pointer_bytes(clattn_context *c, const char *name, cl_mem buffer, uint64_t *bytes);

// An argument of a kernel. Where that fails, *call is OpenCL's function.
cl_int cla_pointer_set(const clattn_context *c, cl_kernel kernel, cl_uint index, cl_mem buffer,
                       const char **call);
#endif
