// test_layer.c: complete layers with random numbers: biases, cross-attention, head maps, unequal
// sizes, storage types, views, workspace and projections. Real models are in test_models.c. Cases:
// tests/cases/layer.txt.
#include "support/harness.h"
#include "support/case_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Rows past a query length keep their contents, for every projection and every type.
static void keeps_rows(const struct test_case *test) {
    struct case_arrays arrays;
    struct case_data *data = case_make(test);
    case_bind(data, harness_place(), &arrays);
    struct case_result before = case_collect(&arrays, harness()->queue, NULL);
    ck_assert_int_eq(clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.layer, 0, NULL, NULL),
                     CLATTN_OK);
    struct case_result after = case_collect(&arrays, harness()->queue, NULL);
    for (int b = 0; b < 2; b++)
        for (int64_t i = 0; i < test->n_q; i++) {
            const size_t at = (size_t)((b * test->n_q + i) * test->width),
                         bytes = (size_t)test->width * sizeof(double);
            const bool kept = memcmp(before.out + at, after.out + at, bytes) == 0;
            ck_assert_msg(kept == (i >= data->test.score.q_lengths[b]),
                          "projection %d: row %d of item %d was %s", (int)test->projection, (int)i, b,
                          kept ? "not written" : "written");
        }
    case_result_free(&before);
    case_result_free(&after);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(rows_past_a_length) {
    static const int32_t q_lengths[] = {5, 0};
    struct test_case test = case_layer_base("rows past a length");
    case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
    for (int n = 0; n < CLATTN_TYPE_BOOL; n++)
        for (int p = CLATTN_PROJECTION_CLBLAST; p < CLATTN_PROJECTION_COUNT; p++) {
            test.q_type = test.matrix_type = (clattn_type)n;
            test.projection = (clattn_projection)p;
            if (test.projection != CLATTN_PROJECTION_CLBLAST || harness_has_clblast()) keeps_rows(&test);
        }
}
END_TEST

// A missing key bias cancels in the softmax, but changes the raw scores.
START_TEST(key_bias_in_raw_scores) {
    struct test_case test = case_layer_base("key bias");
    test.scores = true;
    test.scores_at = CLATTN_TAP_RAW;
    case_assert(&test);
    struct case_data *with = case_make(&test), *without = case_make(&test);
    memset(without->matrix_bias[LAYER_K], 0, 64 * sizeof(double));
    struct case_result a = case_run(with, harness()->queue), b = case_run(without, harness()->queue);
    double scores = 0, out = 0;
    for (int n = 0; n < 2 * 4 * 9 * 9; n++) scores = fmax(scores, fabs(a.scores[n] - b.scores[n]));
    for (int n = 0; n < 2 * 9 * 48; n++) out = fmax(out, fabs(a.out[n] - b.out[n]));
    ck_assert_msg(scores > 0.1, "the key bias moved no score by more than %g", scores);
    ck_assert_msg(out < 1e-4, "the key bias moved out by %g", out);
    case_result_free(&a);
    case_result_free(&b);
    case_free(with);
    case_free(without);
}
END_TEST

START_TEST(workspace) {
    for (int n = 0; n < 6; n++) {
        struct test_case test = case_layer_base("workspace");
        struct case_arrays arrays;
        char why[512];
        size_t bytes = 0;
        cl_int status;
        test.q_type = test.matrix_type = (clattn_type)(n / 2);
        test.projection = CLATTN_PROJECTION_NATIVE;
        struct case_data *data = case_make(&test);
        case_bind(data, harness_place(), &arrays);
        ck_assert(clattn_layer_workspace(harness()->context, &arrays.layer, &bytes) == CLATTN_OK);
        ck_assert_uint_gt(bytes, 0);
        arrays.layer.workspace =
            clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, bytes + (size_t)(n % 2) * 77, NULL, &status);
        harness_expect(status, "clCreateBuffer");
        clattn_status result =
            clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.layer, 0, NULL, NULL);
        struct case_result got = case_collect(&arrays, harness()->queue, NULL);
        got.status = result;
        ck_assert_msg(case_agrees(data, &got, why, sizeof why), "workspace: %s", why);
        clReleaseMemObject(arrays.layer.workspace);
        case_result_free(&got);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// A user event blocks the layer on both kinds of queue, with every projection.
static void wait_on(cl_command_queue queue, clattn_projection projection) {
    struct test_case test = case_layer_base("wait list");
    struct case_arrays arrays;
    char why[512];
    test.projection = projection;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    cl_event gate = harness_gate(), done = NULL;
    clattn_status result = clattn_layer_enqueue(harness()->context, queue, &arrays.layer, 1, &gate, &done);
    ck_assert_msg(result == CLATTN_OK, "%s", harness_log_text());
    harness_open_gate(gate, done, queue);
    struct case_result got = case_collect(&arrays, queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "wait list: %s", why);
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(wait_lists) {
    harness_each_way(wait_on);
}
END_TEST

START_TEST(without_clblast) {
    struct test_case test = case_layer_base("no CLBlast");
    test.projection = CLATTN_PROJECTION_CLBLAST;
    if (harness_has_clblast()) return;
    struct case_data *data = case_make(&test);
    struct case_result got = case_run(data, harness()->queue);
    ck_assert_int_eq(got.status, CLATTN_UNSUPPORTED);
    ck_assert_msg(strstr(harness_log_text(), "CLBlast") != NULL, "message: %s", harness_log_text());
    case_result_free(&got);
    case_free(data);
}
END_TEST

START_TEST(plan_and_prepare) {
    struct test_case test = case_layer_base("plan");
    struct case_arrays arrays;
    clattn_plan plan = {0};
    clattn_context_stats before, after;
    test.projection = CLATTN_PROJECTION_NATIVE;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_layer_plan(harness()->context, &arrays.layer, &plan) == CLATTN_OK);
    ck_assert(plan.kernel != CLATTN_KERNEL_AUTO && plan.why[0] != '\0');
    ck_assert(clattn_layer_prepare(harness()->context, &arrays.layer) == CLATTN_OK);
    clattn_context_get_stats(harness()->context, &before);
    ck_assert(clattn_layer_enqueue(harness()->context, harness()->queue, &arrays.layer, 0, NULL, NULL) ==
              CLATTN_OK);
    clattn_context_get_stats(harness()->context, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    harness_finish(harness()->queue);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// The same call returns the same bits, in both native kernels.
START_TEST(same_bits) {
    for (int n = 0; n < 6; n++) {
        struct test_case test = case_layer_base("same bits");
        test.n_q = n % 2 ? 70 : 9;
        test.q_type = test.matrix_type = (clattn_type)(n / 2);
        test.projection = CLATTN_PROJECTION_NATIVE;
        test.rope.layout = CLATTN_ROPE_INTERLEAVED;
        struct case_data *data = case_make(&test);
        struct case_result first = case_run(data, harness()->queue);
        const size_t bytes = (size_t)(2 * test.n_q * test.width) * sizeof(double);
        for (int again = 0; again < 3; again++) {
            struct case_result next = case_run(data, harness()->queue);
            ck_assert_msg(memcmp(first.out, next.out, bytes) == 0, "run %d of case %d differs", again, n);
            case_result_free(&next);
        }
        case_result_free(&first);
        case_free(data);
    }
}
END_TEST

// x and y have the same shape and no buffers, but planning must treat them as two tensors.
START_TEST(prepare_without_buffers) {
    const clattn_context_params params = {
        .device = harness()->device, .context = harness()->opencl, .log = harness_log()};
    struct test_case test = case_layer_base("prepare");
    struct case_arrays arrays;
    clattn_context *context = NULL;
    clattn_context_stats before, after;
    test.n_kv = test.n_q;
    test.width_y = test.width;
    // biases make each projection's kernel different
    test.biases = LAYER_ALL_BIASES & ~(1 << LAYER_O);
    test.bias_type = CLATTN_TYPE_F16;
    test.projection = CLATTN_PROJECTION_NATIVE;
    test.rope.layout = CLATTN_ROPE_HALF;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert_int_eq(clattn_context_create(&params, &context), CLATTN_OK);
    clattn_layer_params planned = arrays.layer;
    planned.x.buffer = planned.y.buffer = NULL;
    ck_assert_int_eq(clattn_layer_prepare(context, &planned), CLATTN_OK);
    clattn_context_get_stats(context, &before);
    ck_assert_int_eq(clattn_layer_enqueue(context, harness()->queue, &arrays.layer, 0, NULL, NULL),
                     CLATTN_OK);
    clattn_context_get_stats(context, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    harness_finish(harness()->queue);
    clattn_context_destroy(context);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const numbers[] = {rows_past_a_length, same_bits, key_bias_in_raw_scores, NULL};
    const TTest *const calls[] = {plan_and_prepare, prepare_without_buffers, workspace,
                                  wait_lists,       without_clblast,         NULL};
    Suite *suite = suite_create("layer");
    harness_add(suite, "calls", calls);
    harness_add(suite, "numbers", numbers);
    case_list_add(suite, "layer", "cases");
    return harness_run(suite);
}
