// pointer.h: tensors given as addresses (clattn_tensor.svm, .usm) and not as a cl_mem. After
// cla_pointers_take such a view's `buffer` holds the address rounded down to a multiple of 4, with
// its kind in the two lowest bits. These bits are 0 in every cl_mem, because a driver's object
// starts with a pointer (cl_khr_icd). A handle with one of them set is rejected. So one field
// carries both kinds, and only code that passes `buffer` to OpenCL checks its kind here.
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

// Fill c->pointers with the functions that the context's device and the loaded OpenCL support.
void cla_pointers_find(clattn_context *c);

// Convert the addresses in a call's own copies of its views. An invalid address stays, and the
// check of the view then calls cla_pointer_refuse. `inner`: an outer call has already converted
// some views.
void cla_pointers_take(const clattn_context *c, clattn_tensor *const views[], int count, bool inner);
// True if the view still has an unconverted address. cla_pointer_refuse then fails with the reason.
static inline bool cla_tensor_has_raw_pointer(const clattn_tensor *t) {
    return t->svm || t->usm;
}
clattn_status cla_pointer_refuse(clattn_context *c, const clattn_tensor *t, const char *name);

// Bytes from an address to the end of its allocation if OpenCL reports them (USM only), else
// UINT64_MAX.
clattn_status cla_pointer_bytes(clattn_context *c, const char *name, cl_mem buffer, uint64_t *bytes);

// Set a kernel's argument. On an error, *call names the OpenCL function.
cl_int cla_pointer_set(const clattn_context *c, cl_kernel kernel, cl_uint index, cl_mem buffer,
                       const char **call);
#endif
