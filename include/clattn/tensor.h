/* tensor.h: views of buffers, and the storage types. Included by clattn.h (rules, contracts). */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How numbers are stored. docs/keys.md compares the quantised types. */
typedef enum clattn_type {
    CLATTN_TYPE_F32 = 0,  /* IEEE binary32 */
    CLATTN_TYPE_F16 = 1,  /* IEEE binary16; the device needs no half arithmetic */
    CLATTN_TYPE_BF16 = 2, /* the upper half of a binary32 */
    CLATTN_TYPE_BOOL = 3, /* one byte, nonzero is true */
    /* A signed byte, for k, v and weights of projections. Scales are in a tensor of their own. */
    CLATTN_TYPE_I8 = 4,
    CLATTN_TYPE_I32 = 5, /* a signed 32-bit integer, for mod_buffers, positions and lengths */
    /* Float8 with scales, like I8 [OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023]. */
    CLATTN_TYPE_F8E4M3 = 6, /* 4 bits of exponent, 3 of mantissa, to 448, NaN but no infinity */
    CLATTN_TYPE_F8E5M2 = 7, /* a byte: the upper half of a binary16, up to 57344 */
    /* ggml's blocks, for k, v, weights of projections and embedding tables. An element is a block
     * of 32 numbers. Shapes, strides and offsets count blocks: a matrix [M, K] is [M, K / 32]. A
     * block stores d (f16), in Q4_1 m (f16), then n. 4-bit byte i has numbers i (lower half) and i
     * + 16. */
    CLATTN_TYPE_Q8_0 = 8,  /* 34 bytes; a number is d * n, n a signed byte */
    CLATTN_TYPE_Q4_0 = 9,  /* 18 bytes; d * (n - 8), n of 4 bits */
    CLATTN_TYPE_Q4_1 = 10, /* 20 bytes; d * n + m */
    /* 4-bit integers with scales, like I8. An element is a byte of two numbers, the first in its
     * lower half. Shapes, strides and offsets count bytes: a matrix [M, K] is [M, K / 2].
     * [ONNX INT4, UINT4] */
    CLATTN_TYPE_I4 = 11, /* two's complement, -8 to 7 */
    CLATTN_TYPE_U4 = 12, /* 0 to 15 */
    CLATTN_TYPE_COUNT
} clattn_type;

/* True if k, v and weights of the type have scales in a tensor of their own. */
#define CLATTN_TYPE_IS_SCALED(type)                                                                          \
    ((type) == CLATTN_TYPE_I8 || (type) == CLATTN_TYPE_F8E4M3 || (type) == CLATTN_TYPE_F8E5M2 ||             \
     (type) == CLATTN_TYPE_I4 || (type) == CLATTN_TYPE_U4)

/* Return the bytes of one element, and the count of numbers in it: 32 for a block, 2 for I4 and U4,
 * else 1. The result is 0 for an unknown type.   Threads: any. */
CLATTN_API size_t clattn_type_size(clattn_type type);
CLATTN_API int clattn_type_numbers(clattn_type type);

/* The type's word, such as "f32". The name contract applies. */
CLATTN_API const char *clattn_type_name(clattn_type type);

#define CLATTN_MAX_RANK 4

/* A view of a buffer. Element (x0, x1, ...) is at offset + x0*stride[0] + x1*stride[1] + ...,
 * counted in elements, and inside the buffer.
 *
 * Strides must not be negative. A stride of 0 repeats an axis of an input. The stride of an axis of
 * one element is ignored. The last axis is contiguous (stride 1), except for these tensors, which
 * accept any last stride:
 *    boolean masks, block_mask, bias, mod_buffers, sinks_device, lse, dlse, cos, sin, i32 tensors,
 *    gradients of bias and of one axis, scales without an axis of groups
 *
 * A view with neither buffer nor address is absent. Functions that plan or prepare accept views
 * without buffers; there, a view of rank 0 is absent.
 *
 * Buffers come from the context's cl_context and must live until the commands have completed. An
 * input must not be CL_MEM_WRITE_ONLY, an output not CL_MEM_READ_ONLY. The call both reads and
 * writes the result of a merge, attention weights, workspaces, and the result of a projection or
 * layer unless NATIVE is requested.
 *
 * An output must not share a byte with any other tensor of the call. The library compares views of
 * one buffer, of its sub-buffers, and of CL_MEM_USE_HOST_PTR memory. Views may interleave, such as
 * q, k, v and out in [B, N, 4, H, D]. Inputs may overlap. Strides that need thousands of
 * comparisons are INVALID_ARGUMENT.
 *
 * A view may have an address in place of a buffer, if clattn_features.svm or usm is true: shared
 * virtual memory (SVM) or Intel's unified shared memory (USM). See docs/context.md, "Addresses in
 * place of buffers".
 *    Returns   UNSUPPORTED       no such memory here
 *              INVALID_ARGUMENT  two of buffer, svm, usm; an address that is no multiple of the
 *                                element (of 4 for blocks); usm of another context, or too small
 *    Source    OpenCL 2.0 specification, section 5.6; cl_intel_unified_shared_memory 1.0 */
typedef struct clattn_tensor {
    cl_mem buffer;  /* NULL with svm or usm */
    int64_t offset; /* elements, from the buffer's start or the address */
    clattn_type type;
    int rank;                        /* 1 to CLATTN_MAX_RANK; 0: absent */
    int64_t shape[CLATTN_MAX_RANK];  /* each 0 to 2^31 - 1 */
    int64_t stride[CLATTN_MAX_RANK]; /* elements */
    void *svm, *usm;                 /* an address in place of the buffer; NULL: none */
} clattn_tensor;

/* Return a dense row-major view of the first `rank` sizes of `shape`. rank is 1 to CLATTN_MAX_RANK.
 * Threads: any. */
CLATTN_API clattn_tensor clattn_tensor_dense(cl_mem buffer, clattn_type type, int rank, const int64_t *shape);

/* Return a view [B, H, N, D] of a dense buffer that stores [B, H, N, D], or [B, N, H, D].
 * Threads: any. */
CLATTN_API clattn_tensor clattn_tensor_bhsd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);
CLATTN_API clattn_tensor clattn_tensor_bshd(cl_mem buffer, clattn_type type, int64_t b, int64_t h, int64_t n,
                                            int64_t d);
#ifdef __cplusplus
}
#endif
#endif
