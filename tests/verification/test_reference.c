// test_reference.c: the reference of sampled rows, used for large cases, equals the whole reference
// at those rows, with every option. A check finds one wrong element. Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verification/device/budget.h"
#include "verification/case/case_check.h"
#include "verification/reference/storage.h"

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
        const struct case_sample sample = {.count = 6, .rows = rows};
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

// The results of a correct device from RoPE'd q and k in 16-bit storage, which it rounds once more.
static struct test_case turned_case(struct random *r, clattn_type type) {
    static const int64_t sizes[] = {16, 40, 64, 80, 96, 128};
    struct test_case t = {
        .name = "turned", .batch = 1, .heads = 2, .q_type = type, .kv_type = type, .out_type = type};
    t.n_q = 8 + (int64_t)random_uniform(r, 0, 24), t.n_kv = 16 + (int64_t)random_uniform(r, 0, 40);
    t.head_dim = sizes[(int)random_uniform(r, 0, 6)];
    t.rope.layout = random_uniform(r, 0, 2) < 1 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED;
    t.weights = true, t.weights_type = (clattn_type)random_uniform(r, 0, 3);
    t.seed = 1 + (uint64_t)random_uniform(r, 0, 1e9);
    return t;
}
// Compare the stored weights of `computed` with exact results of `right`.
static bool agrees_as_stored(const struct case_data *right, const struct case_data *computed,
                             clattn_type type, char why[512]) {
    const struct test_case *t = &right->test;
    struct case_result got = case_reference(right, CLATTN_TYPE_F32, NULL),
                       stored = case_reference(computed, type, NULL);
    for (int64_t n = 0; n < t->heads * t->n_q * t->n_kv; n++)
        got.weights[n] = storage_round(t->weights_type, stored.weights[n]);
    const bool good = case_agrees(right, &got, why, 512);
    case_result_free(&got);
    case_result_free(&stored);
    return good;
}

// Correct results pass in every case. Two wrong kernels are found in every case: one omits the last
// term of each product, one rounds k to bfloat16 for weights of float16 or float32.
START_TEST(turned_and_rounded) {
    struct random r = {35};
    for (int n = 0; n < 120; n++) {
        char why[512] = "", name[CASE_NAME_SIZE];
        const clattn_type type = n % 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16;
        const struct test_case test = turned_case(&r, type);
        struct case_data *data = case_make(&test), *wrong = case_make(&test);
        const int64_t count = test.heads * test.n_kv * test.head_dim;
        ck_assert_msg(agrees_as_stored(data, data, type, why), "%s: %s", case_name(&data->test, name), why);
        for (int64_t i = test.head_dim - 1; i < count; i += test.head_dim) wrong->k[i] = 0;
        ck_assert_msg(!agrees_as_stored(data, wrong, type, why), "%s: a term may be missing",
                      case_name(&data->test, name));
        for (int64_t i = 0; i < count; i++) wrong->k[i] = storage_round(CLATTN_TYPE_BF16, data->k[i]);
        if (type == CLATTN_TYPE_F16 && test.weights_type != CLATTN_TYPE_BF16)
            ck_assert_msg(!agrees_as_stored(data, wrong, type, why), "%s: k may be bfloat16",
                          case_name(&data->test, name));
        case_free(data), case_free(wrong);
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

// For float16 below 2^-14 the nearest storable number is right, a number two steps away is wrong,
// and 0 stays 0.
START_TEST(steps_of_storage_are_right) {
    enum { COUNT = 64 };
    double ref[COUNT], got[COUNT];
    char why[256] = "";
    struct budget b = {.what = "out", .type = CLATTN_TYPE_F16, .got = got, .ref = ref, .count = COUNT};
    for (int n = 0; n < COUNT; n++) ref[n] = 1e-8 * n, got[n] = storage_round(CLATTN_TYPE_F16, ref[n]);
    ck_assert_msg(budget_holds(&b, why, sizeof why), "%s", why);
    got[40] += ldexp(1, -23);
    ck_assert(!budget_holds(&b, why, sizeof why));
    got[40] -= ldexp(1, -23), got[0] = ldexp(1, -24);
    ck_assert(!budget_holds(&b, why, sizeof why));
    // If steps are smaller than 2^-11 of the values, the mean error counts.
    for (int n = 0; n < COUNT; n++) ref[n] = 1 + 1e-2 * n, got[n] = 1.002 * ref[n];
    ck_assert(!budget_holds(&b, why, sizeof why));
}
END_TEST

static int64_t nans(const double *x, int64_t count) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) n += isnan(x[i]) != 0;
    return n;
}

// Unused numbers are NaN and no others: keys past a length or hidden by causality, rows past
// theirs, the bias of hidden pairs. No result is NaN.
START_TEST(unseen_is_nan) {
    const char *name =
        "attend-f32-b2-h4-hkv2-n9-nkv33-d4-causal-topleft-lse-biasbhqk-qlen9:5-kvlen7:33-unseennan";
    struct test_case test;
    char why[256] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s", why);
    struct case_data *data = case_make(&test);
    // The first item's rows see 7 of 33 keys, the second's five rows see 5. In the second item four
    // rows are past the length.
    ck_assert_int_eq(nans(data->k, 2 * 2 * 33 * 4), (26 + 28) * 2 * 4);
    ck_assert_int_eq(nans(data->v, 2 * 2 * 33 * 4), (26 + 28) * 2 * 4);
    ck_assert_int_eq(nans(data->q, 2 * 4 * 9 * 4), 4 * 4 * 4);
    const int64_t seen = (1 + 2 + 3 + 4 + 5 + 6 + 7 + 7 + 7) + (1 + 2 + 3 + 4 + 5);
    ck_assert_int_eq(nans(data->bias, 2 * 4 * 9 * 33), 4 * (2 * 9 * 33 - seen));
    struct case_result result = case_reference(data, CLATTN_TYPE_F32, NULL);
    ck_assert_int_eq(nans(result.out, 2 * 4 * 9 * 4), 0);
    ck_assert_int_eq(nans(result.lse, 2 * 4 * 9), 0);
    case_result_free(&result);
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *group = tcase_create("reference");
    tcase_add_test(group, samples_are_the_whole);
    tcase_add_test(group, turned_and_rounded);
    tcase_add_test(group, one_wrong_element_is_found);
    tcase_add_test(group, steps_of_storage_are_right);
    tcase_add_test(group, unseen_is_nan);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
