// test_errors_kv.c: every refusal of a call that makes a layer's keys and values: the status, one line of why, and nothing
// enqueued or written.
#define REFUSED_PARAMS clattn_layer_kv_params
#include "refusals/refused.h"

#include "support/case_assert.h"

#include <math.h>

enum { BATCH = 2, ROWS = 7, WIDTH = 20, HEADS = 2, SIZE = 8, SIZE_V = 6 };

// The buffers of a good call.
struct operands {
    struct guarded y, wk, wv, bk, norm, k, v;
    clattn_layer_kv_params params;
};

static struct guarded operand(bool output, int rank, const int64_t *shape) {
    struct guarded_shape s = {.rank = rank};
    double zeros[ROWS * BATCH * WIDTH * HEADS * SIZE] = {0};
    for (int n = 0; n < rank; n++) s.shape[n] = shape[n];
    return output ? guarded_output(harness_place(), &s) : guarded_input(harness_place(), &s, zeros);
}

static void make(struct operands *o) {
    const int64_t y[] = {BATCH, ROWS, WIDTH}, wk[] = {HEADS * SIZE, WIDTH}, wv[] = {HEADS * SIZE_V, WIDTH},
                  k[] = {BATCH, HEADS, ROWS, SIZE}, v[] = {BATCH, HEADS, ROWS, SIZE_V}, size[] = {SIZE};
    o->y = operand(false, 3, y), o->wk = operand(false, 2, wk), o->wv = operand(false, 2, wv);
    o->bk = operand(false, 1, wk), o->norm = operand(false, 1, size);
    o->k = operand(true, 4, k), o->v = operand(true, 4, v);
    o->params = (clattn_layer_kv_params){.y = o->y.view,
                                         .wk = o->wk.view,
                                         .wv = o->wv.view,
                                         .bk = o->bk.view,
                                         .k = o->k.view,
                                         .v = o->v.view,
                                         .norm = CLATTN_NORM_HEADS,
                                         .k_norm = o->norm.view,
                                         .rope = {.layout = CLATTN_ROPE_HALF}};
}

static void unmake(struct operands *o) {
    struct guarded *const all[] = {&o->y, &o->wk, &o->wv, &o->bk, &o->norm, &o->k, &o->v};
    for (int n = 0; n < 7; n++) guarded_release(all[n]);
}

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

START_TEST(the_good_call_is_good) {
    struct operands o;
    make(&o);
    const clattn_status status =
        clattn_layer_kv_enqueue(harness()->context, harness()->queue, &o.params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    harness_finish(harness()->queue);
    o.params.y.shape[1] = o.params.k.shape[2] = o.params.v.shape[2] = 0;
    ck_assert_int_eq(clattn_layer_kv_enqueue(harness()->context, harness()->queue, &o.params, 0, NULL, NULL),
                     CLATTN_OK);
    unmake(&o);
}
END_TEST

START_TEST(invalid_calls) {
    const struct refusal *refusal = &invalid[_i];
    struct operands o;
    cl_event event = NULL;
    make(&o);
    refusal->spoil(&o.params);
    ASSERT_REFUSED(refusal->name,
                   clattn_layer_kv_enqueue(harness()->context, harness()->queue, &o.params, 0, NULL, &event),
                   CLATTN_INVALID_ARGUMENT, refusal->word);
    refused_assert_nothing(refusal->name, event, &o.k);
    ck_assert(guarded_intact(&o.v, harness()->queue));
    unmake(&o);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {the_good_call_is_good, NULL};
    Suite *suite = suite_create("errors of a layer's keys and values");
    TCase *group = harness_add(suite, "keys and values", tests);
    REFUSED_LOOP(group, invalid_calls, invalid);
    return harness_run(suite);
}
