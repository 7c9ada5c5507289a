// test_errors_layer.c: every refusal of a layer call: the status, one line of why, and nothing enqueued or
// written. Leaves out attention's own options (test_errors.c), which a layer passes on; two stand for them
// here.
#include "harness.h"
#include "layer_case.h"

#include <stdio.h>

static const struct layer_case good = {.name = "good",
                                       .batch = 2,
                                       .n_q = 5,
                                       .n_kv = 7,
                                       .width = 24,
                                       .width_y = 20,
                                       .width_out = 28,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 8,
                                       .biases = LAYER_ALL_BIASES};

// X(name, word the message must have, what is wrong with the call)
#define INVALID(X)                                                                                           \
    X(x_absent, "x", p->x.buffer = NULL)                                                                     \
    X(x_rank, "x", p->x.rank = 4)                                                                            \
    X(x_last_stride, "x", p->x.stride[2] = 2)                                                                \
    X(x_leaves, "x", p->x.stride[1] = 1000000)                                                               \
    X(x_type, "x", p->x.type = CLATTN_TYPE_BOOL)                                                             \
    X(y_batch, "y", p->y.shape[0] = 1)                                                                       \
    X(y_type, "y", p->y.type = CLATTN_TYPE_F16)                                                              \
    X(y_rank, "y", p->y.rank = 2)                                                                            \
    X(out_absent, "out", p->out.buffer = NULL)                                                               \
    X(out_rows, "out", p->out.shape[1] = 4)                                                                  \
    X(out_type, "out", p->out.type = CLATTN_TYPE_F16)                                                        \
    X(out_repeats, "out", p->out.stride[0] = 0)                                                              \
    X(wq_absent, "wq", p->wq.buffer = NULL)                                                                  \
    X(wq_columns, "wq", p->wq.shape[1] = 23)                                                                 \
    X(wq_rows, "wq", p->wq.shape[0] = 30)                                                                    \
    X(wk_rows, "wk", p->wk.shape[0] = 14)                                                                    \
    X(wk_columns, "wk", p->wk.shape[1] = 19)                                                                 \
    X(wv_rows, "wv", p->wv.shape[0] = 15)                                                                    \
    X(wv_type, "wv", p->wv.type = CLATTN_TYPE_F16)                                                           \
    X(wo_rows, "out", p->wo.shape[0] = 27)                                                                   \
    X(wo_columns, "wo", p->wo.shape[1] = 31)                                                                 \
    X(wo_last_stride, "wo", p->wo.stride[1] = 2)                                                             \
    X(bq_size, "bq", p->bq.shape[0] = 31)                                                                    \
    X(bk_size, "bk", p->bk.shape[0] = 32)                                                                    \
    X(bv_rank, "bv", p->bv.rank = 2)                                                                         \
    X(bo_type, "bo", p->bo.type = CLATTN_TYPE_BOOL)                                                          \
    X(no_heads, "heads", p->heads = 0)                                                                       \
    X(negative_heads, "heads", p->heads = -4)                                                                \
    X(heads_not_of_wq, "wq", p->heads = 6)                                                                   \
    X(kv_heads_not_of_heads, "heads", p->kv_heads = 3)                                                       \
    X(negative_kv_heads, "heads", p->kv_heads = -1)                                                          \
    X(projection, "projection", p->projection = CLATTN_PROJECTION_COUNT)                                     \
    X(attention_q, "q", p->attention.q = p->x)                                                               \
    X(attention_out, "out", p->attention.out = p->out)                                                       \
    X(attention_window, "window", (p->attention.window = true, p->attention.window_left = -2))

#define UNSUPPORTED(X)                                                                                       \
    X(q_norm, "q_norm", p->q_norm = p->bq)                                                                   \
    X(k_norm, "k_norm", p->k_norm = p->bk)                                                                   \
    X(attention_dropout, "dropout", p->attention.dropout = 0.5f)

#define DEFINE(name, word, wrong)                                                                            \
    static void spoil_##name(clattn_layer_params *p) {                                                       \
        (void)(wrong);                                                                                       \
    }
INVALID(DEFINE)
UNSUPPORTED(DEFINE)
#undef DEFINE

struct refusal {
    const char *name, *word;
    void (*spoil)(clattn_layer_params *params);
};
#define ROW(name, word, wrong) {#name, word, spoil_##name},
static const struct refusal invalid[] = {INVALID(ROW)};
static const struct refusal unsupported[] = {UNSUPPORTED(ROW)};
#undef ROW
#define LENGTH(rows) ((int)(sizeof(rows) / sizeof(rows)[0]))

static void check(const struct refusal *refusal, clattn_status want) {
    struct layer_data *data = layer_make(&good);
    struct layer_arrays arrays;
    cl_event event = NULL;
    layer_bind(data, &arrays);
    refusal->spoil(&arrays.params);
    harness_log_clear();
    clattn_status got =
        clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, &event);
    harness_assert_refused(refusal->name, got, want, refusal->word);
    ck_assert_msg(event == NULL, "%s: a refused call made an event", refusal->name);
    ck_assert_msg(array_intact(&arrays.out, harness()->queue), "%s: a refused call wrote", refusal->name);
    layer_unbind(&arrays);
    layer_free(data);
}

START_TEST(the_good_call_is_good) {
    layer_assert(&good);
}
END_TEST

START_TEST(invalid_calls) {
    check(&invalid[_i], CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(options_not_built) {
    check(&unsupported[_i], CLATTN_UNSUPPORTED);
}
END_TEST

START_TEST(handles) {
    struct layer_data *data = layer_make(&good);
    struct layer_arrays arrays;
    cl_int status;
    size_t bytes = 0;
    layer_bind(data, &arrays);
    ck_assert_int_eq(clattn_layer_enqueue(NULL, harness()->queue, &arrays.params, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    harness_log_clear();
    harness_assert_refused("no params",
                           clattn_layer_enqueue(harness()->context, harness()->queue, NULL, 0, NULL, NULL),
                           CLATTN_INVALID_ARGUMENT, "params");
    harness_log_clear();
    harness_assert_refused("no queue",
                           clattn_layer_enqueue(harness()->context, NULL, &arrays.params, 0, NULL, NULL),
                           CLATTN_INVALID_ARGUMENT, "queue");
    harness_log_clear();
    harness_assert_refused(
        "no list", clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.params, 2, NULL, NULL),
        CLATTN_INVALID_ARGUMENT, "wait");
    ck_assert(clattn_layer_workspace(harness()->context, &arrays.params, &bytes) == CLATTN_OK && bytes > 1);
    cl_mem small = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes - 1, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    arrays.params.attention.workspace = small;
    harness_log_clear();
    harness_assert_refused(
        "workspace",
        clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL),
        CLATTN_INVALID_ARGUMENT, "workspace");
    ck_assert(array_intact(&arrays.out, harness()->queue));
    clReleaseMemObject(small);
    layer_unbind(&arrays);
    layer_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("errors of the layer");
    TCase *group = tcase_create("layer");
    tcase_set_timeout(group, 0);
    tcase_add_test(group, the_good_call_is_good);
    tcase_add_test(group, handles);
    tcase_add_loop_test(group, invalid_calls, 0, LENGTH(invalid));
    tcase_add_loop_test(group, options_not_built, 0, LENGTH(unsupported));
    suite_add_tcase(suite, group);
    return harness_run(suite);
}
