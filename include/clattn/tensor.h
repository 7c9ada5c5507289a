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
    /* A signed byte: k, v and weights of projections, with scales beside them (clattn_kv, clattn_linear_params) */
    CLATTN_TYPE_I8 = 4,
    CLATTN_TYPE_I32 = 5, /* a signed 32-bit integer: clattn_score.mod_buffers and positions of clattn_rope */
    /* With scales beside them, as i8 [OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023] */
    CLATTN_TYPE_F8E4M3 = 6, /* a byte: 4 bits of exponent, 3 of mantissa, up to 448, NaN and no infinity */
    CLATTN_TYPE_F8E5M2 = 7, /* a byte: the upper half of a binary16, up to 57344 */
    /* Weights of projections, tables of embeddings, and k and v. An element is a block of 32 numbers, so that shapes, strides and
     * offsets count blocks: a matrix of M rows and K columns is [M, K / 32], a cache of keys [B, Hkv, Nkv, D / 32].
     * Blocks lie as ggml and GGUF files lay them: d (f16), of q4_1 m (f16), then n. In 4 bits, byte i has n of number i in its lower
     * half and that of i + 16 in its upper one. [ggml] */
    CLATTN_TYPE_Q8_0 = 8,  /* 34 bytes; a number is d * n, n a signed byte */
    CLATTN_TYPE_Q4_0 = 9,  /* 18 bytes; d * (n - 8), n of 4 bits */
    CLATTN_TYPE_Q4_1 = 10, /* 20 bytes; d * n + m */
    /* With scales beside them, as i8. An element is a byte of two numbers, the first in its lower half, so that shapes, strides and
     * offsets count bytes: a cache of keys is [B, Hkv, Nkv, D / 2], a matrix of weights [M, K / 2]. [ONNX, INT4 and UINT4] */
    CLATTN_TYPE_I4 = 11, /* two's complement, -8 to 7 */
    CLATTN_TYPE_U4 = 12, /* 0 to 15 */
    CLATTN_TYPE_COUNT
} clattn_type;

/* Whether k, v and weights of the type have scales in tensors of their own. */
#define CLATTN_TYPE_IS_SCALED(type)                                                                          \
    ((type) == CLATTN_TYPE_I8 || (type) == CLATTN_TYPE_F8E4M3 || (type) == CLATTN_TYPE_F8E5M2 ||             \
     (type) == CLATTN_TYPE_I4 || (type) == CLATTN_TYPE_U4)

/* Bytes of one element, and numbers that it holds: 1, 32 of a block, 2 of i4 and u4; 0 for a number that is no type. */
CLATTN_API size_t clattn_type_size(clattn_type type);
CLATTN_API int clattn_type_numbers(clattn_type type);

/* Its word, such as "f32"; "(unknown)" for a number that is no type.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_type_name(clattn_type type);

#define CLATTN_MAX_RANK 4

/* A view of a buffer. Element (x0, x1, ...) is at offset + x0*stride[0] + x1*stride[1] + ..., counted in
 * elements. Strides are not negative; 0 repeats (allowed on inputs); that of an axis of one element is not looked at. The last
 * axis is contiguous, with a stride of 1, or the call is refused. These alone take any last stride: boolean
 * masks (mask, block_mask, that of dropout), bias, mod_buffers, sinks_device, lse, dlse, gradients of bias
 * and of one axis, scales of whole rows, cos and sin, and what is of i32 (positions, block_table, cu_seqlens,
 * lengths). Every element of the view lies inside the buffer, or the call is refused. A view with buffer ==
 * NULL is absent, whatever else it says; only the functions that plan or prepare take views without
 * buffers, and there one of rank 0 is absent. Buffers (no images) are made from the context's cl_context
 * and must live until the commands that use them have finished. One that a call reads must not be
 * CL_MEM_WRITE_ONLY, one that it writes not CL_MEM_READ_ONLY; it reads and writes what it merges into, attention
 * weights, a workspace, and the result of a projection or layer unless that is asked for as NATIVE.
 *
 * What a call writes shares no byte with anything else that it reads or writes, or the call is refused: views of one
 * buffer, of sub-buffers of one buffer, and of buffers on one host pointer (CL_MEM_USE_HOST_PTR) are compared by the
 * bytes of their elements, so that they may interleave: q, k, v and out packed as [B, N, 4, H, D], lse in the padding of
 * out. Strides so irregular that the comparison would take thousands of steps are refused, too. Other ways to share
 * memory (external memory, for one) are not seen. Inputs may overlap.
 *
 * In place of a buffer a view may have an address, where the device has such memory (clattn_features, svm and usm; else the call is
 * UNSUPPORTED), in every call that takes tensors:
 *   svm  OpenCL 2.0's shared virtual memory: of clSVMAlloc, or inside it, and with CL_DEVICE_SVM_FINE_GRAIN_SYSTEM of malloc
 *   usm  unified shared memory of Intel's extension: of clHostMemAllocINTEL, clDeviceMemAllocINTEL or clSharedMemAllocINTEL
 * of the context's cl_context; a multiple of the element's size, of blocks of 4 bytes. A call takes it as an argument of its kernels
 * and does nothing else with it: of coarse-grained memory the caller unmaps what the host wrote before, and maps it after
 * (clEnqueueSVMMap). All of a view must lie in one allocation. How large that is OpenCL tells of usm alone, so that of svm a view that is
 * too large is not refused but undefined, as is an address that is none. What is shared is compared by addresses, also with
 * CL_MEM_USE_HOST_PTR. Workspaces and packed weights stay buffers. CLBlast takes buffers alone: what a projection gives it is copied
 * through the workspace, whose size is then to be asked for with the addresses in place.
 * Returns   UNSUPPORTED       the device, or the OpenCL that was found, has no such memory
 *           INVALID_ARGUMENT  two of buffer, svm and usm; an address between elements; usm that is none of the context's, or too small
 * Source    OpenCL 2.0 specification, section 5.6; cl_intel_unified_shared_memory 1.0 */
typedef struct clattn_tensor {
    cl_mem buffer;  /* NULL where svm or usm is given */
    int64_t offset; /* elements */
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    int64_t stride[CLATTN_MAX_RANK]; /* elements */
    void *svm, *usm;                 /* in place of the buffer, see above; NULL: none */
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
