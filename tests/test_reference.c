// test_reference.c: the reference of sampled rows, which large cases are judged by, is the whole reference at those
// rows, with every option; and a judgement finds one wrong element. Needs no device.
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "evidence/budget.h"
#include "evidence/case_check.h"

static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n9-nkv33-d12-dv20-causal-lse-softcap2-window20:0-maskb1qk-biashqk-alibi-sinks",
    "attend-f32-b3-h4-hkv2-n9-nkv33-d12-causal-lse-weights-scoresmasked-qlen9:0:4-kvlen9:33:0-hiddennan",
    "attend-f16-b2-h2-n7-nkv19-d10-full-lse-offsetsm4:13-ropehalf-rotary6-ropepos77",
    "layer-f32-b2-h4-hkv2-n9-d12-dv20-m24-causal-mo30-biases-softcap2-alibi-sinks-kvlen9:4",
    "layer-f32-b2-h4-n9-nkv21-d12-m24-full-my40-biasesqk-maskqk-biashqk-qlen9:5",
    "layer-f32-b2-h4-n9-d12-m24-full-scale0.7-window3:2",
    "linear-f16-b2-h4-n9-d12-m24-full-matrixbf16-biases",
};

static int64_t out_width(const struct test_case *t) {
    const struct guarded_shape out = case_shape(t, CASE_OUT);
    return out.shape[out.rank - 1];
}

static void assert_same(const char *name, const char *what, const double *some, const double *all,
                        int64_t width, const struct case_sample *sample) {
    for (int64_t n = 0; some != NULL && n < sample->count * width; n++) {
        const double a = some[n], b = all[sample->rows[n / width] * width + n % width];
        ck_assert_msg(a == b || (isnan(a) && isnan(b)) || fabs(a - b) < 1e-12, "%s: %s[%d] is %g, not %g",
                      name, what, (int)n, a, b);
    }
}

START_TEST(samples_are_the_whole) {
    for (size_t c = 0; c < sizeof names / sizeof names[0]; c++) {
        struct test_case test;
        char why[256] = "";
        ck_assert_msg(case_parse(names[c], &test, why), "%s: %s", names[c], why);
        struct case_data *data = case_make(&test);
        const int64_t count = test.batch * test.n_q * (case_projects(&test) ? 1 : test.heads),
                      keys = test.n_kv;
        const int64_t rows[] = {count - 1, 0, 5, 11, count / 2, 5};
        const struct case_sample sample = {6, rows};
        struct case_result all = case_reference(data, CLATTN_TYPE_F32, NULL),
                           some = case_reference(data, CLATTN_TYPE_F32, &sample);
        assert_same(names[c], "out", some.out, all.out, out_width(&test), &sample);
        if (!case_projects(&test)) {
            assert_same(names[c], "lse", some.lse, all.lse, 1, &sample);
            assert_same(names[c], "weights", some.weights, all.weights, keys, &sample);
            assert_same(names[c], "scores", some.scores, all.scores, keys, &sample);
        }
        case_result_free(&all);
        case_result_free(&some);
        case_free(data);
    }
}
END_TEST

// Any one element of out that is off, NaN or not written is found.
START_TEST(one_wrong_element_is_found) {
    static const double wrong[] = {1e-3, NAN, INFINITY, 1e300};
    struct test_case test;
    char why[256] = "";
    ck_assert(case_parse(names[0], &test, why));
    struct case_data *data = case_make(&test);
    struct case_result got = case_reference(data, CLATTN_TYPE_F32, NULL);
    free(got.scores);
    got.scores = NULL;
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "%s", why);
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        const double right = got.out[97];
        got.out[97] = n == 0 ? right + wrong[n] : wrong[n];
        ck_assert_msg(!case_agrees(data, &got, why, sizeof why), "%g passed", wrong[n]);
        got.out[97] = right;
    }
    got.lse[3] += 0.01;
    ck_assert(!case_agrees(data, &got, why, sizeof why));
    case_result_free(&got);
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *group = tcase_create("reference");
    tcase_add_test(group, samples_are_the_whole);
    tcase_add_test(group, one_wrong_element_is_found);
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
