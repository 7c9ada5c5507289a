// test_masks.c: rows without visible keys, with a sink and without, sums of weights, and the list
// of every option that changes or hides a score (tests/cases/masks.txt). Elsewhere: hostile values
// (test_hostile.c) and RoPE (test_rope.c).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/storage.h"
#include "support/case_list.h"

START_TEST(empty_rows) {
    struct test_case test;
    char why[256];
    ck_assert(case_read(_i ? "attend-f32-b3-h4-hkv2-n20-nkv33-d32-lse-maskqk-sinks"
                           : "attend-f32-b3-h4-hkv2-n20-nkv33-d32-lse-maskqk",
                        &test, why));
    test.name = _i ? "no key, a sink" : "no key";
    struct case_data *data = case_make(&test);
    memset(data->mask, 0, 33 * 20 * sizeof *data->mask);
    data->mask[3 * 33 + 32] = 1;
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        data->test.weights = case_kernel(n) == CLATTN_KERNEL_UNFUSED;
        case_assert_data(data);
    }
    case_free(data);
}
END_TEST

// Summed weights equal the sums of complete weights, which the list tests. The cases have more rows
// than a chunk of scores, rows past an item's length, and options between scores and weights.
static const char *const summed[] = {
    "attend-f32-b2-h4-hkv2-n70-nkv33-d32-causal-lse-weights",
    "attend-f32-b3-h4-hkv2-n70-nkv133-d32-causal-padded-lse-weights-maskqk-alibi-sinks-qlen70:0:17-kvlen133:"
    "60:0",
    "attend-f16-b2-h2-n20-nkv150-d64-causal-kvq8_0-lse-weights-past41-dropout0.3:7",
    "attend-f32-b3-h2-n20-nkv33-d32-causal-lse-weights-qlen20:0:7-kvlen33:20:9-raggedhost",
    // needs ten seconds: left out of a shortened run
    "attend-f32-b1-h1-n700-nkv30000-d8-causal-weights",
};
START_TEST(sums_of_weights) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    ck_assert_msg(case_parse(summed[_i], &test, why), "%s: %s", summed[_i], why);
    struct case_data *data = case_make(&test);
    cl_command_queue queue = harness()->queue;
    case_bind(data, harness_place(), &arrays);
    ck_assert_int_eq(case_enqueue(harness()->context, queue, &arrays, NULL), CLATTN_OK);
    struct case_result whole = case_collect(&arrays, queue, NULL);
    const int64_t *full = arrays.params.weights.shape;
    struct guarded sums = guarded_output(
        harness_place(),
        &(struct guarded_shape){CLATTN_TYPE_F32, 4, {full[0], full[1], 1, full[3]}, LAYOUT_SCATTERED});
    const int64_t count = guarded_count(&sums.view), rows = full[2], keys = full[3];
    double *got = reference_alloc(count);
    arrays.params.weights = sums.view;
    ck_assert_int_eq(clattn_attention_enqueue(harness()->context, queue, &arrays.params, 0, NULL, NULL),
                     CLATTN_OK);
    ck_assert_msg(guarded_read(&sums, queue, got), "written outside");
    for (int64_t n = 0; n < count; n++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            const double weight = whole.weights[(n / keys * rows + i) * keys + n % keys];
            sum += weight == STORAGE_UNTOUCHED ? 0 : weight;
        }
        ck_assert_msg(fabs(got[n] - sum) <= 1e-6 * (1 + sum), "%s: sum %lld is %g, should be %g", summed[_i],
                      (long long)n, got[n], sum);
    }
    free(got);
    guarded_release(&sums);
    case_result_free(&whole);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("masks");
    TCase *rows = harness_add(suite, "rows", (const TTest *const[]){NULL});
    tcase_add_loop_test(rows, empty_rows, 0, 2);
    const int sums = sizeof summed / sizeof summed[0];
    tcase_add_loop_test(rows, sums_of_weights, 0, harness_every() > 1 ? sums - 1 : sums);
    case_list_add(suite, "masks", "cases");
    return harness_run(suite);
}
