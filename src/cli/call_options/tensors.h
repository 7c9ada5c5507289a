// tensors.h: copy host arrays to the device, allocate outputs and read results back. Used by attend
// and layer.
#ifndef CLATTN_CLI_CALL_OPTIONS_TENSORS_H
#define CLATTN_CLI_CALL_OPTIONS_TENSORS_H
#include "cli/common/session.h"

#define TENSORS_MAX 64

// The buffers of one run, released together. `host`: the buffers are host memory, for a group of
// devices.
typedef struct tensors {
    session *session;
    bool host;
    cl_mem buffers[TENSORS_MAX];
    int count;
} tensors;

void tensors_release(tensors *t);

// Check the rank of an array; rank -1 accepts any. On a mismatch print a line that names the
// expected axes and return EXIT_WRONG; otherwise return -1.
int tensors_rank(const char *option, const char *spec, const array *a, int rank);

// Load a .npy file or FILE.safetensors#TENSOR and check its rank (-1: any). Returns -1, or
// EXIT_WRONG after printing a line.
int tensors_load(const char *option, const char *spec, int rank, array *a);

// Convert an option's array in place to the float type names_types[dtype]. With dtype bf16, an
// array of NumPy type u2 contains bf16. dtype -1 keeps the array's type, and u2 becomes f32.
// Returns -1, or EXIT_WRONG after printing a line.
int tensors_store(const char *option, array *a, int dtype);

// Narrow 64-bit integers to 32 bits. Other types stay, or are an error if `integers` is set.
// Returns -1, else the exit status.
int tensors_narrow(const char *option, array *a, bool integers);

// Upload an array and set its dense view. Returns -1, else the exit status.
int tensors_upload(tensors *t, const array *a, clattn_tensor *view);

// Allocate a zeroed array of this type and shape on the host and on the device.
int tensors_output(tensors *t, array_type type, int rank, const int64_t *shape, array *a,
                   clattn_tensor *view);

// Copy a result to the host and write it as .npy.
int tensors_save(tensors *t, const clattn_tensor *view, array *a, const char *path);

// Change the dense view [B, N, H, D] to [B, H, N, D].
clattn_tensor tensors_swap_heads(clattn_tensor t);
#endif
