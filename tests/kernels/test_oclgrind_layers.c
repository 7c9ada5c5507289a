// test_oclgrind_layers.c: the rest of test_oclgrind.c: merge, layers and projections.
#include "support/harness.h"
#include "support/case_assert.h"

#include <stdio.h>
#include <string.h>

void oclgrind_add_layers(Suite *suite);
void oclgrind_add_tiles(Suite *suite);

START_TEST(merge) {
    struct test_case test = {.name = "merge",
                             .heads = 2,
                             .kv_heads = 1,
                             .n_q = 9,
                             .n_kv = 19,
                             .head_dim = 8,
                             .kernel = CLATTN_KERNEL_FLASH};
    struct case_data *data = case_make(&test);
    struct case_arrays a, b;
    char why[512];
    case_bind(data, harness_place(), &a);
    case_bind(data, harness_place(), &b);
    a.params.kv.k.shape[2] = a.params.kv.v.shape[2] = 7;
    b.params.kv.k.shape[2] = b.params.kv.v.shape[2] = 12;
    b.params.kv.k.offset += 7 * 8;
    b.params.kv.v.offset += 7 * 8;
    clattn_merge_params params = {a.params.out, a.params.lse, b.params.out, b.params.lse};
    cl_command_queue queue = harness()->queue;
    ck_assert(clattn_attention_enqueue(harness()->context, queue, &a.params, 0, NULL, NULL) == CLATTN_OK);
    ck_assert(clattn_attention_enqueue(harness()->context, queue, &b.params, 0, NULL, NULL) == CLATTN_OK);
    ck_assert(clattn_merge_enqueue(harness()->context, queue, &params, 0, NULL, NULL) == CLATTN_OK);
    struct case_result got = case_collect(&a, queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "merge: %s", why);
    case_result_free(&got);
    case_unbind(&a);
    case_unbind(&b);
    case_free(data);
}
END_TEST

static struct test_case layer_of(int64_t n_q, int64_t width, int64_t head_dim) {
    return (struct test_case){.op = CASE_LAYER,
                              .name = "layer",
                              .n_q = n_q,
                              .width = width,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = head_dim,
                              .biases = LAYER_ALL_BIASES,
                              .projection = CLATTN_PROJECTION_NATIVE};
}

START_TEST(native_layer) {
    for (int n = 0; n < 2 * CLATTN_ROPE_COUNT; n++) {
        struct test_case test = layer_of(9, 12, 8);
        test.q_type = test.matrix_type = test.bias_type = n % 2 ? CLATTN_TYPE_F16 : CLATTN_TYPE_F32;
        test.rope.layout = (clattn_rope_layout)(n / 2);
        test.positions = test.rope.layout && n % 2;
        case_assert(&test);
        test.norm = n % 2 ? CLATTN_NORM_WIDTH : CLATTN_NORM_HEADS;
        test.gate = n % 2 ? CASE_GATE_HEADS : CASE_GATE_ALL;
        test.ready = n % 2;
        case_assert(&test);
    }
}
END_TEST

// Too many rows for decode: with the lanes kernels one launch.
START_TEST(small_layer) {
    struct test_case test = layer_of(17, 10, 6);
    test.name = "small layer", test.batch = 2;
    test.rope.layout = CLATTN_ROPE_HALF;
    test.score.causal = true;
    case_assert(&test);
}
END_TEST

// With a row that names linear_matrix: packed by the caller and by the call, one product and several, RoPE, numbers that go to
// multiply-adds, no element too far.
START_TEST(on_tiles) {
    static const char *const names[] = {
        "linear-bf16-b2-h1-n5-d20-m9-full-biases",
        "linear-f32-b1-h1-n9-d9-m65-full-split-packed",
        "linear-f32-b1-h2-n3-d4-m70-full-split-packed-matrixbf16",
    };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct test_case test;
        struct case_arrays a;
        clattn_linear_choice choice;
        char why[512];
        ck_assert_msg(case_parse(names[n], &test, why), "%s: %s", names[n], why);
        struct case_data *data = case_make(&test);
        if (n == 1) data->x[70] = 1e-32;
        case_bind(data, harness_place(), &a);
        ck_assert_int_eq(clattn_linear_plan(harness()->context, &a.linear, &choice), CLATTN_OK);
        ck_assert_str_eq(choice.kernel_name, "linear_matrix");
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s: %s", names[n], why);
        case_unbind(&a);
        case_free(data);
    }
}
END_TEST

void oclgrind_add_layers(Suite *suite) {
    const TTest *const layers[] = {merge, native_layer, small_layer, NULL};
    harness_add(suite, "merge and layer", layers);
}

void oclgrind_add_tiles(Suite *suite) {
    const TTest *const tiles[] = {on_tiles, NULL};
    harness_add(suite, "projections on tiles", tiles);
}
