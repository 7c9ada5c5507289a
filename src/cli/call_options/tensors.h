// tensors.h: host arrays on the device, for attend and layer: upload, outputs, and reading results back.
#ifndef CLATTN_TOOL_CALL_OPTIONS_TENSORS_H
#define CLATTN_TOOL_CALL_OPTIONS_TENSORS_H
#include "cli/common/session.h"

#define TENSORS_MAX 64

// Buffers of one run; released together. `host`: they are host memory, for a group of devices.
typedef struct tensors {
    session *session;
    bool host;
    cl_mem buffers[TENSORS_MAX];
    int count;
} tensors;

void tensors_release(tensors *t);

// EXIT_WRONG with a line that names the axes where the array has another rank, else -1. rank -1: any.
int tensors_rank(const char *option, const char *spec, const array *a, int rank);

// Load a file or FILE.safetensors#TENSOR, and check its rank (-1: any). Prints a line and returns EXIT_WRONG,
// else -1.
int tensors_load(const char *option, const char *spec, int rank, array *a);

// Convert the option's array in place to an index of names_types; a u2 array is taken as bf16 when that is the dtype. -1: the array's
// own, f32 for u2. Returns -1, else EXIT_WRONG with a line.
int tensors_store(const char *option, array *a, int dtype);

// 64-bit integers become those of 32 bits that they must be; others stay, or are refused where integers are needed. Returns -1, else
// the exit status.
int tensors_narrow(const char *option, array *a, bool integers);

// An array on the device as a dense view of its own shape. Returns -1, else the exit status.
int tensors_upload(tensors *t, const array *a, clattn_tensor *view);

// A zeroed array of this type and shape, on the device too.
int tensors_output(tensors *t, array_type type, int rank, const int64_t *shape, array *a,
                   clattn_tensor *view);

// Copy a result back and write it as .npy.
int tensors_save(tensors *t, const clattn_tensor *view, array *a, const char *path);

// The [B, H, N, D] view of a dense [B, N, H, D] one.
clattn_tensor tensors_swap_heads(clattn_tensor t);
#endif
