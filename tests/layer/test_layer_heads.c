// test_layer_heads.c: per-head operations of a layer around attention: norms of q and k with and
// without RoPE, gates, and keys and values from a separate call. Rejected calls are in
// test_errors_layer.c. Cases: tests/cases/layer_heads.txt.
#include "support/harness.h"
#include "support/case_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_case base(const char *name) {
    struct test_case test = case_layer_base(name);
    test.kv_heads = 2;
    test.projection = CLATTN_PROJECTION_NATIVE;
    test.norm = CLATTN_NORM_HEADS;
    return test;
}

// A key bias changes no weight of a plain layer, but does after a norm. The raw scores show
// differences that the softmax would hide.
static struct test_case seen(const char *name) {
    struct test_case test = base(name);
    test.scores = true;
    test.scores_at = CLATTN_TAP_RAW;
    return test;
}

// A gate with a large bias is fully open or shut, and never NaN.
START_TEST(gates_that_are_shut) {
    struct test_case test = seen("shut gates");
    test.gate = CASE_GATE_HEADS, test.gate_bias = true;
    test.biases = 0;
    struct case_data *data = case_make(&test);
    for (int h = 0; h < 4; h++) data->gate_bias[h] = h % 2 ? 1e30 : -1e30;
    struct case_result got = case_run(data, harness()->queue);
    char why[512];
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s", why);
    case_result_free(&got);
    for (int h = 0; h < 4; h++) data->gate_bias[h] = -1e30;
    got = case_run(data, harness()->queue);
    for (int n = 0; n < 2 * 9 * 48; n++)
        ck_assert_msg(got.out[n] == 0.0, "shut, and %g at %d", got.out[n], n);
    case_result_free(&got);
    case_free(data);
}
END_TEST

// The norm of a row of zeros is 0.
START_TEST(a_row_of_zeros) {
    for (int how = CLATTN_NORM_HEADS; how < CLATTN_NORM_COUNT; how++) {
        struct test_case test = seen("zeros");
        test.norm = (clattn_norm)how;
        test.biases = 0;
        struct case_data *data = case_make(&test);
        memset(data->x + 48, 0, 48 * sizeof(double));
        struct case_result got = case_run(data, harness()->queue);
        char why[512];
        ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s", why);
        case_result_free(&got);
        case_free(data);
    }
}
END_TEST

// int8 keys with scales from a cache: the layer must equal attention on the same cache.
START_TEST(keys_as_integers) {
    struct test_case attend = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 3, .n_kv = 40, .head_dim = 16};
    attend.kv_type = CLATTN_TYPE_I8;
    struct test_case layer = base("i8 keys");
    layer.n_q = 3, layer.n_kv = 40, layer.width_y = 8, layer.norm = CLATTN_NORM_NONE;
    layer.biases = 0, layer.width = layer.width_out = 64;
    struct case_data *cache = case_make(&attend), *data = case_make(&layer);
    struct case_arrays a, l;
    // q = x and out = heads, so the layer is only attention.
    for (int n = 0; n < 64 * 64; n++) data->matrix[LAYER_Q][n] = data->matrix[LAYER_O][n] = n % 65 == 0;
    case_bind(cache, harness_place(), &a);
    case_bind(data, harness_place(), &l);
    const clattn_tensor absent = {0};
    l.layer.y = l.layer.wk = l.layer.wv = absent;
    l.layer.kv = a.params.kv;
    a.params.q = clattn_tensor_bshd(l.x.view.buffer, CLATTN_TYPE_F32, 2, 4, 3, 16);
    a.params.q.offset = l.x.view.offset;
    cl_command_queue queue = harness()->queue;
    ck_assert_int_eq(case_enqueue(harness()->context, queue, &a, NULL), CLATTN_OK);
    const clattn_status status = case_enqueue(harness()->context, queue, &l, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    struct case_result heads = case_collect(&a, queue, NULL), out = case_collect(&l, queue, NULL);
    for (int n = 0; n < 2 * 4 * 3 * 16; n++) {
        const int d = n % 16, i = n / 16 % 3, h = n / 48 % 4, b = n / 192;
        const double x = heads.out[n], y = out.out[((b * 3 + i) * 4 + h) * 16 + d];
        ck_assert_msg(fabs(x - y) < 1e-5, "%g and %g at %d", x, y, n);
    }
    case_result_free(&heads);
    case_result_free(&out);
    case_unbind(&a);
    case_unbind(&l);
    case_free(cache);
    case_free(data);
}
END_TEST

static size_t workspace_of(struct test_case test) {
    struct case_arrays arrays;
    size_t bytes = 0;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_layer_workspace(harness()->context, &arrays.layer, &bytes) == CLATTN_OK);
    case_unbind(&arrays);
    case_free(data);
    return bytes;
}

// The norm and the RoPE after it run in place. Keys that are ready need no workspace.
START_TEST(no_copies) {
    struct test_case test = base("copies"), turned = test, yarn = test, ready = test, plain = test;
    plain.norm = CLATTN_NORM_NONE;
    turned.rope.layout = yarn.rope.layout = CLATTN_ROPE_HALF;
    yarn.rope.scaling = CLATTN_ROPE_SCALING_YARN;
    yarn.rope.factor = 4, yarn.rope.original_length = 1000;
    ready.ready = true;
    ck_assert_uint_eq(workspace_of(test), workspace_of(plain));
    ck_assert_uint_eq(workspace_of(turned), workspace_of(plain));
    ck_assert_uint_eq(workspace_of(yarn), workspace_of(plain));
    ck_assert_uint_lt(workspace_of(ready), workspace_of(plain));
}
END_TEST

START_TEST(plan_and_prepare) {
    struct test_case test = base("plan");
    struct case_arrays arrays;
    clattn_context_stats before, after;
    test.gate = CASE_GATE_ALL;
    test.rope.layout = CLATTN_ROPE_HALF;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_layer_prepare(harness()->context, &arrays.layer) == CLATTN_OK);
    clattn_context_get_stats(harness()->context, &before);
    ck_assert(case_enqueue(harness()->context, harness()->queue, &arrays, NULL) == CLATTN_OK);
    clattn_context_get_stats(harness()->context, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    harness_finish(harness()->queue);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const numbers[] = {gates_that_are_shut, a_row_of_zeros, keys_as_integers, NULL};
    const TTest *const calls[] = {no_copies, plan_and_prepare, NULL};
    Suite *suite = suite_create("heads of a layer");
    harness_add(suite, "numbers", numbers);
    harness_add(suite, "calls", calls);
    case_list_add(suite, "layer_heads", "cases");
    return harness_run(suite);
}
