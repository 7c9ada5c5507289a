/* tensor.h: views of buffers, the words for storage types. Included by clattn.h, which tells the rules. */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clattn_type {
    CLATTN_TYPE_F32 = 0,  /* IEEE binary32 */
    CLATTN_TYPE_F16 = 1,  /* IEEE binary16; needs no half arithmetic on the device */
    CLATTN_TYPE_BF16 = 2, /* the upper half of a binary32 */
    CLATTN_TYPE_BOOL = 3, /* one byte, nonzero is true */
    CLATTN_TYPE_I8 = 4,   /* a signed byte: k and v alone, with a scale for each row */
    CLATTN_TYPE_I32 = 5,  /* a signed 32-bit integer: clattn_score.mod_buffers and positions of clattn_rope */
    CLATTN_TYPE_COUNT
} clattn_type;

/* Bytes of one element; 0 for a number that is no type. */
CLATTN_API size_t clattn_type_size(clattn_type type);

/* Its word, such as "f32"; "(unknown)" for a number that is no type.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_type_name(clattn_type type);

#define CLATTN_MAX_RANK 4

/* A view of a buffer. Element (x0, x1, ...) is at offset + x0*stride[0] + x1*stride[1] + ..., counted in
 * elements. Strides are not negative; 0 repeats (allowed on inputs). Every element of the view lies inside
 * the buffer, or the call is refused. A view with buffer == NULL is absent, whatever else it says; only the functions
 * that plan or prepare take views without buffers, and there one of rank 0 is absent. Buffers (no images) are made from the
 * context's cl_context and must live until the commands that use them have finished. One that a call reads must not be
 * CL_MEM_WRITE_ONLY, one that it writes not CL_MEM_READ_ONLY; it reads and writes what it merges into, attention
 * weights, a workspace, and the result of a projection or layer unless that is asked for as NATIVE.
 *
 * What a call writes shares no byte with anything else that it reads or writes, or the call is refused: views of one
 * buffer, of sub-buffers of one buffer, and of buffers on one host pointer (CL_MEM_USE_HOST_PTR) are compared by the
 * bytes of their elements, so that they may interleave: q, k, v and out packed as [B, N, 4, H, D], lse in the padding of
 * out. Strides so irregular that the comparison would take thousands of steps are refused, too. Other ways to share
 * memory (external memory, for one) are not seen. Inputs may overlap. */
typedef struct clattn_tensor {
    cl_mem buffer;
    int64_t offset; /* elements */
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    int64_t stride[CLATTN_MAX_RANK]; /* elements */
} clattn_tensor;

/* A dense row-major view of the first `rank` sizes of `shape`. rank is 1 to CLATTN_MAX_RANK. */
CLATTN_API clattn_tensor clattn_tensor_dense(cl_mem buffer, clattn_type type, int rank, const int64_t *shape);

/* Views [B, H, N, D] of a buffer that holds [B, H, N, D], or [B, N, H, D], both dense. */
CLATTN_API clattn_tensor clattn_tensor_bhsd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);
CLATTN_API clattn_tensor clattn_tensor_bshd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);
#ifdef __cplusplus
}
#endif
#endif
