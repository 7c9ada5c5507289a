// test_errors_hadamard.c: every refusal of clattn_hadamard_enqueue: the status, a one-line reason,
// and nothing written. Results are in test_hadamard.c.
#define REFUSED_PARAMS clattn_hadamard_params
#include "refusals/refused.h"

enum { BATCH = 2, HEADS = 3, ROWS = 8, SIZE = 48 };

static clattn_hadamard_params *wide(clattn_hadamard_params *p) {
    static const int64_t row[] = {1, 1, 1, 2048}; // fits the buffers
    p->x = clattn_tensor_dense(p->x.buffer, CLATTN_TYPE_F32, 4, row);
    p->y = clattn_tensor_dense(p->y.buffer, CLATTN_TYPE_F32, 4, row);
    return p;
}

#define INVALID(X)                                                                                           \
    X(x_rank, "x: rank 3", p->x.rank = 3)                                                                    \
    X(x_type, "x: type i8", p->x.type = CLATTN_TYPE_I8)                                                      \
    X(x_stride, "x: last stride", p->x.stride[3] = 2)                                                        \
    X(x_size, "x: head size 0", p->x.shape[3] = p->y.shape[3] = 0)                                           \
    X(odd_size, "block: 0 of D = 47", p->x.shape[3] = p->y.shape[3] = SIZE - 1)                              \
    X(y_rows, "y: shape [2,3,7,48]", p->y.shape[2] = ROWS - 1)                                               \
    X(y_size, "y: shape [2,3,8,47]", p->y.shape[3] = SIZE - 1)                                               \
    X(y_repeats, "y: elements", p->y.stride[0] = 0)                                                          \
    X(block_one, "block: 1 of D = 48: must be a power of two", p->block = 1)                                 \
    X(block_below, "block: -2", p->block = -2)                                                               \
    X(block_three, "block: 3", p->block = 3)                                                                 \
    X(block_divides, "block: 32 of D = 48", p->block = 32)                                                   \
    X(block_most, "block: 2048", wide(p)->block = 2048)

#define INVALID_BUFFERS(X)                                                                                   \
    X(y_absent, "y: its buffer is NULL", p->y.buffer = NULL)                                                 \
    X(partly_over, "overlaps", (p->y = p->x, p->y.offset += 1))                                              \
    X(another_type, "overlaps", (p->y = p->x, p->y.type = CLATTN_TYPE_BF16))                                 \
    X(y_leaves, "y: its last element", p->y.stride[0] = 1000000)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_hadamard_params *p) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE};
    *p = (clattn_hadamard_params){.block = 0};
    p->x = refused_buffer(b, false, shape), p->y = refused_buffer(b, true, shape);
}

REFUSED_SUITE("errors_hadamard", make, clattn_hadamard)
