// test_errors_append.c: every refusal of clattn_append_enqueue: the status, a one-line reason, and
// nothing written. Results are in test_append.c.
#define REFUSED_PARAMS clattn_append_params
#include "refusals/refused.h"

enum { BATCH = 2, HEADS = 3, ROWS = 5, CAPACITY = 13, SIZE = 24, SIZE_V = 17 };

static clattn_append_params *turned(clattn_append_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
    return p;
}

static clattn_append_params *placed(clattn_append_params *p) {
    static const int64_t rows[] = {BATCH, ROWS};
    turned(p)->rope.positions = clattn_tensor_dense(p->k_new.buffer, CLATTN_TYPE_I32, 2, rows);
    return p;
}

static clattn_append_params *integers(clattn_append_params *p) {
    static const int64_t rows[] = {BATCH, HEADS, CAPACITY};
    p->k.type = p->v.type = CLATTN_TYPE_I8;
    p->k_scale = clattn_tensor_dense(p->k.buffer, CLATTN_TYPE_F32, 3, rows);
    p->v_scale = clattn_tensor_dense(p->v.buffer, CLATTN_TYPE_F32, 3, rows);
    p->k_scale.offset = p->v_scale.offset = BATCH * HEADS * CAPACITY * SIZE / 4;
    return p;
}

static const int32_t good_starts[] = {0, 8}, before[] = {0, -1}, beyond[] = {0, 9}, too_many[] = {6, 1},
                     fewer_than_none[] = {1, -1};
static const clattn_tensor absent;

#define INVALID(X)                                                                                           \
    X(all_absent, "both are absent", p->k = p->k_new = p->v = p->v_new = absent)                             \
    X(k_alone, "k: is given", p->k_new = absent)                                                             \
    X(v_new_alone, "v: is absent", p->v = absent)                                                            \
    X(k_new_rank, "k_new", p->k_new.rank = 3)                                                                \
    X(k_new_integers, "k_new", p->k_new.type = CLATTN_TYPE_I8)                                               \
    X(k_bool, "k", p->k.type = CLATTN_TYPE_BOOL)                                                             \
    X(k_heads, "k", p->k.shape[1] = 2)                                                                       \
    X(k_repeats, "k", p->k.stride[1] = 0)                                                                    \
    X(k_size, "k_new", p->k_new.shape[3] = p->k.shape[3] = 0)                                                \
    X(v_rows, "v_new", p->v_new.shape[2] = 4)                                                                \
    X(v_capacity, "v:", p->v.shape[2] = 12)                                                                  \
    X(v_new_type, "v_new", p->v_new.type = CLATTN_TYPE_F16)                                                  \
    X(v_no_scale, "v_scale", p->v.type = CLATTN_TYPE_I8)                                                     \
    X(no_blocks, "no whole blocks of q4_0", p->k.type = p->v.type = CLATTN_TYPE_Q4_0)                        \
    X(no_scale, "k_scale", p->k.type = p->v.type = CLATTN_TYPE_I8)                                           \
    X(needless_scale, "k_scale", (integers(p), p->k.type = p->v.type = CLATTN_TYPE_F16))                     \
    X(scale_rows, "v_scale", integers(p)->v_scale.shape[2] = 12)                                             \
    X(scale_type, "k_scale", integers(p)->k_scale.type = CLATTN_TYPE_I32)                                    \
    X(zero_shape, "v_zero: its type, shape and strides",                                                     \
      (integers(p), p->v_zero = p->v_scale, p->v_zero.stride[0]++))                                          \
    X(u4_without_zero, "k_zero: is absent", (integers(p)->k.type = CLATTN_TYPE_U4, p->k.shape[3] /= 2))      \
    X(start_before, "start", p->start = -1)                                                                  \
    X(start_beyond, "start", p->start = CAPACITY - ROWS + 1)                                                 \
    X(start_wraps, "start", p->start = INT32_MAX)                                                            \
    X(circular_before, "start", (p->circular = true, p->start = -1))                                         \
    X(circular_twice, "more than once", (p->circular = true, p->k.shape[2] = p->v.shape[2] = 4))             \
    X(both_starts, "start", (p->start = 1, p->starts = good_starts))                                         \
    X(starts_before, "start: -1 of item 1", p->starts = before)                                              \
    X(starts_beyond, "start: 9 of item 1", p->starts = beyond)                                               \
    X(lengths_more, "lengths: item 0 is 6", p->lengths = too_many)                                           \
    X(lengths_less, "lengths: item 1 is -1", p->lengths = fewer_than_none)                                   \
    X(rope_layout, "rope.layout", p->rope.layout = CLATTN_ROPE_COUNT)                                        \
    X(rope_width, "rope.rotary_dim", turned(p)->rope.rotary_dim = SIZE + 2)                                  \
    X(rope_far, "rope.position", turned(p)->rope.position = 1 << 24)                                         \
    X(rope_of_values, "k_new is absent", (turned(p), p->k = p->k_new = absent))                              \
    X(positions_rows, "rope.positions", placed(p)->rope.positions.shape[1] = 4)                              \
    X(rotation_size, "k_rotation: 16 of rows of 24", p->k_rotation = 16)                                     \
    X(v_rotation_size, "v_rotation: 2 of rows of 17", p->v_rotation = 2)                                     \
    X(rotation_alone, "k_rotation: is given, and k_new is absent",                                           \
      (p->k_rotation = 8, p->k = p->k_new = absent))                                                         \
    X(v_rotation_alone, "v_rotation: is given, and v_new is absent",                                         \
      (p->v_rotation = 1, p->v = p->v_new = absent))                                                         \
    X(positions_counted, "rope.position:", placed(p)->rope.position = 1)                                     \
    X(k_positions, "rope.k_positions", p->rope.k_positions = placed(p)->rope.positions)

#define INVALID_BUFFERS(X)                                                                                   \
    X(k_absent, "k: is absent", p->k.buffer = NULL)                                                          \
    X(k_leaves, "k", p->k.stride[0] = 100000)                                                                \
    X(k_new_leaves, "k_new", p->k_new.offset = 100000)                                                       \
    X(k_over_v, "overlaps", p->v.buffer = p->k.buffer)                                                       \
    X(rows_of_the_cache, "overlaps", p->k_new.buffer = p->k.buffer)                                          \
    X(scale_over_k, "overlaps", integers(p)->k_scale.offset = 0)                                             \
    X(positions_leave, "rope.positions", placed(p)->rope.positions.offset = 1000000)                         \
    X(positions_in_the_cache, "overlaps", placed(p)->rope.positions.buffer = p->k.buffer)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_append_params *p) {
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               of_values = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE_V}, LAYOUT_DENSE},
                               k = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, CAPACITY, SIZE}, LAYOUT_DENSE},
                               v = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, CAPACITY, SIZE_V}, LAYOUT_DENSE};
    *p = (clattn_append_params){.circular = false};
    p->k_new = refused_buffer(b, false, rows), p->v_new = refused_buffer(b, false, of_values);
    p->k = refused_buffer(b, true, k), p->v = refused_buffer(b, true, v);
}

REFUSED_SUITE("errors_append", make, clattn_append)
