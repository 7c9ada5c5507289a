// test_errors_kv.c: every refusal of a call that computes a layer's keys and values: the status, a
// one-line reason, and nothing enqueued or written.
#define REFUSED_PARAMS clattn_layer_kv_params
#include "refusals/refused.h"

#include <math.h>

enum { BATCH = 2, ROWS = 7, WIDTH = 20, HEADS = 2, SIZE = 8, SIZE_V = 6 };

#define INVALID(X)                                                                                           \
    X(y_absent, "y: ", p->y.buffer = NULL)                                                                   \
    X(y_rank, "y: ", p->y.rank = 2)                                                                          \
    X(y_type, "y: ", p->y.type = CLATTN_TYPE_I32)                                                            \
    X(y_leaves, "y: ", p->y.stride[1] = 1000000)                                                             \
    X(y_width, "y: ", (p->y.shape[2] = 0, p->wk.shape[1] = 0))                                               \
    X(k_absent, "k: ", p->k.buffer = NULL)                                                                   \
    X(k_rank, "k: ", p->k.rank = 3)                                                                          \
    X(k_batch, "k: ", p->k.shape[0] = 1)                                                                     \
    X(k_rows, "k: ", p->k.shape[2] = 6)                                                                      \
    X(k_heads, "v: ", p->k.shape[1] = 1)                                                                     \
    X(k_no_heads, "k: ", p->k.shape[1] = p->v.shape[1] = 0)                                                  \
    X(k_size, "wk: ", p->k.shape[3] = 7)                                                                     \
    X(k_no_size, "k: ", p->k.shape[3] = 0)                                                                   \
    X(k_type, "k: its type", p->k.type = CLATTN_TYPE_F16)                                                    \
    X(k_repeats, "k: ", p->k.stride[1] = 0)                                                                  \
    X(k_last_stride, "k: ", p->k.stride[3] = 2)                                                              \
    X(v_type, "v: its type", p->v.type = CLATTN_TYPE_BF16)                                                   \
    X(v_size, "wv: ", p->v.shape[3] = 5)                                                                     \
    X(v_is_k, "k", p->v.buffer = p->k.buffer)                                                                \
    X(y_is_k, "k", p->k.buffer = p->y.buffer)                                                                \
    X(norm_is_k, "k", p->k_norm.buffer = p->k.buffer)                                                        \
    X(wk_absent, "wk: ", p->wk.buffer = NULL)                                                                \
    X(wk_columns, "wk: ", p->wk.shape[1] = 19)                                                               \
    X(wv_type, "wv: its type", p->wv.type = CLATTN_TYPE_F16)                                                 \
    X(bk_size, "bk: ", p->bk.shape[0] = 15)                                                                  \
    X(precision, "precision: ", p->precision = CLATTN_PRECISION_COUNT)                                       \
    X(norm, "norm: ", p->norm = CLATTN_NORM_COUNT)                                                           \
    X(k_norm_alone, "k_norm: ", p->norm = CLATTN_NORM_NONE)                                                  \
    X(k_norm_size, "k_norm: ", p->norm = CLATTN_NORM_WIDTH)                                                  \
    X(norm_epsilon, "norm_epsilon: ", p->norm_epsilon = NAN)                                                 \
    X(norm_plus_one, "norm_plus_one: ", (p->norm_plus_one = true, p->k_norm.buffer = NULL))                  \
    X(rope_layout, "rope.layout: ", p->rope.layout = CLATTN_ROPE_COUNT)                                      \
    X(rope_width, "rope.rotary_dim: ", p->rope.rotary_dim = 10)                                              \
    X(rope_position, "rope.position: ", p->rope.position = -(1 << 24) - 1)                                   \
    X(packed, "packed_wk: ", p->packed_wk.buffer = p->wv.buffer)

REFUSED_TABLE(invalid, INVALID)

static void make(struct refused_buffers *b, clattn_layer_kv_params *p) {
    const struct guarded_shape y = {CLATTN_TYPE_F32, 3, {BATCH, ROWS, WIDTH}, LAYOUT_DENSE},
                               wk = {CLATTN_TYPE_F32, 2, {HEADS * SIZE, WIDTH}, LAYOUT_DENSE},
                               wv = {CLATTN_TYPE_F32, 2, {HEADS * SIZE_V, WIDTH}, LAYOUT_DENSE},
                               bk = {CLATTN_TYPE_F32, 1, {HEADS * SIZE}, LAYOUT_DENSE},
                               norm = {CLATTN_TYPE_F32, 1, {SIZE}, LAYOUT_DENSE},
                               k = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE}, LAYOUT_DENSE},
                               v = {CLATTN_TYPE_F32, 4, {BATCH, HEADS, ROWS, SIZE_V}, LAYOUT_DENSE};
    *p = (clattn_layer_kv_params){.norm = CLATTN_NORM_HEADS, .rope = {.layout = CLATTN_ROPE_HALF}};
    p->y = refused_buffer(b, false, y), p->wk = refused_buffer(b, false, wk);
    p->wv = refused_buffer(b, false, wv), p->bk = refused_buffer(b, false, bk);
    p->k_norm = refused_buffer(b, false, norm);
    p->k = refused_buffer(b, true, k), p->v = refused_buffer(b, true, v);
}

static clattn_status enqueue(const clattn_layer_kv_params *p, cl_event *event) {
    return clattn_layer_kv_enqueue(harness()->context, harness()->queue, p, 0, NULL, event);
}

START_TEST(the_good_call_is_good) {
    struct refused_buffers b = {.count = 0};
    clattn_layer_kv_params p;
    make(&b, &p);
    ck_assert_msg(enqueue(&p, NULL) == CLATTN_OK, "%s", harness_log_text());
    harness_finish(harness()->queue);
    p.y.shape[1] = p.k.shape[2] = p.v.shape[2] = 0;
    ck_assert_int_eq(enqueue(&p, NULL), CLATTN_OK);
    refused_buffers_end(&b, NULL, NULL);
}
END_TEST

START_TEST(invalid_calls) {
    struct refused_buffers b = {.count = 0};
    clattn_layer_kv_params p;
    cl_event event = NULL;
    make(&b, &p);
    invalid[_i].spoil(&p);
    ASSERT_INVALID(invalid[_i].name, enqueue(&p, &event), invalid[_i].word);
    refused_buffers_end(&b, invalid[_i].name, event);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, NULL};
    Suite *suite = suite_create("errors of a layer's keys and values");
    TCase *group = harness_add(suite, "keys and values", tests);
    REFUSED_LOOP(group, invalid_calls, invalid);
    return harness_run(suite);
}
