// test_errors_shift.c: every refusal of clattn_shift_enqueue: the status, a one-line reason, and
// nothing written. Results are in test_shift.c.
#define REFUSED_PARAMS clattn_shift_params
#include "refusals/refused.h"

enum { BATCH = 2, HEADS = 3, ROWS = 5, SIZE = 64 };

static clattn_shift_params *integers(clattn_shift_params *p) {
    static const int64_t rows[] = {BATCH, HEADS, ROWS};
    p->k.type = CLATTN_TYPE_I8;
    p->k_scale = clattn_tensor_dense(p->k.buffer, CLATTN_TYPE_F32, 3, rows);
    p->k_scale.offset = BATCH * HEADS * ROWS * SIZE / 4;
    return p;
}

static clattn_tensor places(const clattn_shift_params *p) {
    static const int64_t rows[] = {BATCH, ROWS};
    return clattn_tensor_dense(p->k.buffer, CLATTN_TYPE_I32, 2, rows);
}

static clattn_rope *dynamic(clattn_shift_params *p) {
    p->rope.scaling = CLATTN_ROPE_SCALING_DYNAMIC;
    p->rope.factor = 2, p->rope.original_length = p->rope.length = 2048;
    return &p->rope;
}

// Rows wider than any buffer of the good call. The width must be checked before the buffer's size.
static clattn_shift_params *wide(clattn_shift_params *p) {
    static const int64_t blocks[] = {1, 1, 1, 1056 / 32};
    p->k = clattn_tensor_dense(p->k.buffer, CLATTN_TYPE_Q8_0, 4, blocks);
    return p;
}

static const int32_t good_deltas[] = {-1, 8}, far_before[] = {0, -(1 << 24) - 1},
                     far_behind[] = {(1 << 24) + 1, 0}, too_many[] = {ROWS + 1, 1},
                     fewer_than_none[] = {1, -1};

#define INVALID(X)                                                                                           \
    X(k_rank, "k: rank 3", p->k.rank = 3)                                                                    \
    X(k_bool, "k: type bool", p->k.type = CLATTN_TYPE_BOOL)                                                  \
    X(k_repeats, "k: elements", p->k.stride[1] = 0)                                                          \
    X(k_last_stride, "k: last stride", p->k.stride[3] = 2)                                                   \
    X(k_size, "k: head size 0", p->k.shape[3] = 0)                                                           \
    X(no_scale, "k_scale: is absent", p->k.type = CLATTN_TYPE_I8)                                            \
    X(needless_scale, "k_scale: is for i8", integers(p)->k.type = CLATTN_TYPE_F16)                           \
    X(scale_rows, "k_scale: size 4", integers(p)->k_scale.shape[2] = ROWS - 1)                               \
    X(scale_type, "k_scale: type i32", integers(p)->k_scale.type = CLATTN_TYPE_I32)                          \
    X(zero_type, "k_zero: its type, shape and strides",                                                      \
      (integers(p), p->k_zero = p->k_scale, p->k_zero.type = CLATTN_TYPE_F16))                               \
    X(zero_alone, "k_zero: is for i8", p->k_zero = p->k)                                                     \
    X(both_deltas, "delta: is given beside", (p->delta = 1, p->deltas = good_deltas))                        \
    X(delta_before, "delta: -16777217 of item 0", p->delta = -(1 << 24) - 1)                                 \
    X(delta_least, "delta: -2147483648", p->delta = INT32_MIN)                                               \
    X(deltas_before, "delta: -16777217 of item 1", p->deltas = far_before)                                   \
    X(deltas_behind, "delta: 16777217 of item 0", p->deltas = far_behind)                                    \
    X(lengths_more, "lengths: item 0 is 6", p->lengths = too_many)                                           \
    X(lengths_less, "lengths: item 1 is -1", p->lengths = fewer_than_none)                                   \
    X(no_layout, "rope.layout: is CLATTN_ROPE_NONE", p->rope.layout = CLATTN_ROPE_NONE)                      \
    X(rope_layout, "rope.layout", p->rope.layout = CLATTN_ROPE_COUNT)                                        \
    X(rope_width, "rope.rotary_dim", p->rope.rotary_dim = SIZE + 2)                                          \
    X(rope_wide_blocks, "rope.rotary_dim: 1056", wide(p)->delta = 1)                                         \
    X(position, "rope.position: has no effect", p->rope.position = 1)                                        \
    X(rotation, "k_rotation: 48 of rows of 64", p->k_rotation = 48)                                          \
    X(rotation_wide, "k_rotation: 32 of rows of 1056: must be a power of two", wide(p)->k_rotation = 32)     \
    X(positions, "rope.positions: has no effect", p->rope.positions = places(p))                             \
    X(k_positions, "rope.k_positions: has no effect", p->rope.k_positions = places(p))                       \
    X(sections, "rope.sections: has no effect", p->rope.sections[2] = SIZE / 2)                              \
    X(interleaved_sections, "rope.sections_interleaved", p->rope.sections_interleaved = true)                \
    X(dynamic_length, "rope.length: 2049", dynamic(p)->length = 2049)                                        \
    X(no_factor, "rope.factor", p->rope.scaling = CLATTN_ROPE_SCALING_LINEAR)

#define INVALID_BUFFERS(X)                                                                                   \
    X(k_absent, "k: its buffer is NULL", p->k.buffer = NULL)                                                 \
    X(k_leaves, "k: its last element", p->k.stride[0] = 100000)                                              \
    X(zero_over_scale, "overlaps", (integers(p), p->k_zero = p->k_scale))                                    \
    X(scale_over_k, "overlaps", integers(p)->k_scale.offset = 0)                                             \
    X(scale_leaves, "k_scale: its last element", integers(p)->k_scale.offset = 1000000)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_shift_params *p) {
    const struct guarded_shape k = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE};
    *p = (clattn_shift_params){.k = refused_buffer(b, true, k), .rope = {.layout = CLATTN_ROPE_HALF}};
}

REFUSED_SUITE("errors_shift", make, clattn_shift)
