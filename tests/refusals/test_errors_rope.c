// test_errors_rope.c: every refusal of clattn_rope_enqueue: the status, a one-line reason, and
// nothing written. Results are in test_rope_call.c.
#define REFUSED_PARAMS clattn_rope_params
#include "refusals/refused.h"

enum { BATCH = 2, HEADS = 3, ROWS = 9, SIZE = 40, CACHE = 50 };

static clattn_rope_params *placed(clattn_rope_params *p) {
    static const int64_t rows[] = {BATCH, ROWS};
    p->rope.position = 0;
    p->rope.positions = clattn_tensor_dense(p->x.buffer, CLATTN_TYPE_I32, 2, rows);
    return p;
}

static clattn_rope_params *with_cached(clattn_rope_params *p) {
    static const int64_t rows[] = {CACHE, SIZE / 2};
    p->rope.position = 0;
    p->cos = p->sin = clattn_tensor_dense(p->x.buffer, CLATTN_TYPE_F32, 2, rows);
    return p;
}

static clattn_rope_params *by_row(clattn_rope_params *p) {
    static const int64_t rows[] = {BATCH, ROWS, SIZE / 2};
    p->rope.position = 0;
    p->cos = p->sin = clattn_tensor_dense(p->x.buffer, CLATTN_TYPE_F32, 3, rows);
    return p;
}

static const int32_t some_offsets[] = {1, 2}, far_offsets[] = {0, 1 << 24};

#define INVALID(X)                                                                                           \
    X(x_rank, "x", p->x.rank = 3)                                                                            \
    X(x_type, "x", p->x.type = CLATTN_TYPE_I32)                                                              \
    X(x_stride, "x", p->x.stride[3] = 2)                                                                     \
    X(x_size, "x", p->x.shape[3] = p->y.shape[3] = 0)                                                        \
    X(y_rows, "y", p->y.shape[2] = ROWS - 1)                                                                 \
    X(y_repeats, "y", p->y.stride[0] = 0)                                                                    \
    X(layout, "layout", p->rope.layout = CLATTN_ROPE_NONE)                                                   \
    X(rotary, "rotary_dim", p->rope.rotary_dim = SIZE + 2)                                                   \
    X(position, "rope.position", p->rope.position = (1 << 24) - 1)                                           \
    X(position_wraps, "rope.position", p->rope.position = INT64_MIN)                                         \
    X(offset, "offset", p->offset = INT32_MAX)                                                               \
    X(both_offsets, "offset", (p->offset = 1, p->offsets = some_offsets))                                    \
    X(offsets_far, "offset", p->offsets = far_offsets)                                                       \
    X(positions_rows, "rope.positions", placed(p)->rope.positions.shape[1] = ROWS + 1)                       \
    X(positions_type, "rope.positions", placed(p)->rope.positions.type = CLATTN_TYPE_F32)                    \
    X(positions_and_offset, "offset", placed(p)->offset = 1)                                                 \
    X(positions_and_position, "rope.position", placed(p)->rope.position = 1)                                 \
    X(k_positions, "rope.k_positions", p->rope.k_positions = placed(p)->rope.positions)                      \
    X(sections, "rope.sections", placed(p)->rope.sections[0] = SIZE)                                         \
    X(cos_alone, "sin", with_cached(p)->sin = (clattn_tensor){0})                                            \
    X(sin_alone, "cos", with_cached(p)->cos = (clattn_tensor){0})                                            \
    X(cos_width, "cos", with_cached(p)->cos.shape[1] = SIZE)                                                 \
    X(cos_type, "cos", with_cached(p)->cos.type = CLATTN_TYPE_BOOL)                                          \
    X(sin_type, "sin", with_cached(p)->sin.type = CLATTN_TYPE_F16)                                           \
    X(sin_rows, "sin", with_cached(p)->sin.shape[0] = 3)                                                     \
    X(cached_base, "rope.base", with_cached(p)->rope.base = 500)                                             \
    X(cached_far, "rope.position", with_cached(p)->offset = CACHE)                                           \
    X(cached_before, "rope.position", with_cached(p)->offset = -1)                                           \
    X(by_row_rows, "cos", (by_row(p), p->cos.shape[1] = p->sin.shape[1] = ROWS - 1))                         \
    X(by_row_counted, "offset", by_row(p)->offset = 1)                                                       \
    X(by_row_placed, "rope.positions", by_row(placed(p)))

#define INVALID_BUFFERS(X)                                                                                   \
    X(y_absent, "y", p->y.buffer = NULL)                                                                     \
    X(partly_over, "overlaps", (p->y = p->x, p->y.offset += 1))                                              \
    X(another_type, "overlaps", (p->y = p->x, p->y.type = CLATTN_TYPE_BF16))                                 \
    X(positions_leave, "rope.positions", placed(p)->rope.positions.offset = 1000000)                         \
    X(cos_over_y, "overlaps", with_cached(p)->cos.buffer = p->y.buffer)                                      \
    X(sin_leaves, "sin", with_cached(p)->sin.stride[0] = 1000000)

REFUSED_TABLE(invalid, INVALID)
REFUSED_TABLE(invalid_buffers, INVALID_BUFFERS)

static void make(struct refused_buffers *b, clattn_rope_params *p) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE};
    *p = (clattn_rope_params){.rope = {.layout = CLATTN_ROPE_HALF}};
    p->x = refused_buffer(b, false, shape), p->y = refused_buffer(b, true, shape);
}

REFUSED_SUITE("errors_rope", make, clattn_rope)
