// test_hostile.c: NaN and infinity, visible and hidden, huge and tiny values, and identities that
// need no reference. Ordinary numbers are in tests/cases.
#include "support/case_assert.h"
#include "verification/case/case_kv.h"
#include "verification/reference/storage.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>

#define ROWS 12
#define KEYS 33
#define SIZE 32

static const int32_t two_q_lengths[] = {12, 5};
static const int32_t two_kv_lengths[] = {33, 17};

static struct case_data *make(const char *name) {
    struct test_case test = {
        .name = name, .batch = 2, .heads = 2, .n_q = ROWS, .n_kv = KEYS, .head_dim = SIZE};
    return case_make(&test);
}

// Fill row n of every head with one value.
static void fill_row(double *data, int64_t rows, int64_t n, double value) {
    for (int64_t bh = 0; bh < 4; bh++)
        for (int64_t d = 0; d < SIZE; d++) data[(bh * rows + n) * SIZE + d] = value;
}

static void fill(double *data, int64_t count, double value) {
    for (int64_t n = 0; n < count; n++) data[n] = value;
}

static void finish(struct case_data *data) {
    case_assert_data_kernels(data);
    case_free(data);
}

START_TEST(nan_beyond_lengths) {
    struct case_data *data = make("NaN beyond the lengths");
    data->test.score.q_lengths = two_q_lengths;
    data->test.score.kv_lengths = two_kv_lengths;
    for (int64_t n = 0; n < 2 * KEYS * SIZE; n++) {
        bool beyond = n / SIZE % KEYS >= two_kv_lengths[1];
        if (beyond) data->k[2 * KEYS * SIZE + n] = data->v[2 * KEYS * SIZE + n] = (double)NAN;
    }
    for (int64_t n = 0; n < 2 * ROWS * SIZE; n++)
        if (n / SIZE % ROWS >= two_q_lengths[1]) data->q[2 * ROWS * SIZE + n] = (double)NAN;
    finish(data);
}
END_TEST

// A key that causality, a window or a mask hides is NaN in K and V.
START_TEST(nan_in_hidden_keys) {
    struct case_data *data = make("NaN in a hidden key");
    for (int64_t j = ROWS; j < KEYS; j++) {
        fill_row(data->k, KEYS, j, (double)NAN);
        fill_row(data->v, KEYS, j, (double)NAN);
    }
    data->test.score.causal = true;
    case_assert_data_kernels(data);
    data->test.score.causal = false;
    data->test.score.window = true;
    data->test.score.window_left = 3;
    finish(data);
    data = case_make(&(struct test_case){.name = "NaN in a masked key",
                                         .batch = 2,
                                         .heads = 2,
                                         .n_q = ROWS,
                                         .n_kv = KEYS,
                                         .head_dim = SIZE,
                                         .mask = {.rank = 2}});
    for (int64_t i = 0; i < ROWS; i++) data->mask[i * KEYS + 6] = 0;
    fill_row(data->k, KEYS, 6, (double)NAN);
    fill_row(data->v, KEYS, 6, (double)NAN);
    finish(data);
}
END_TEST

// A visible NaN reaches its rows; rows that do not see it are right.
START_TEST(nan_in_seen_keys) {
    struct case_data *data = make("NaN in a key that later rows see");
    data->test.score.causal = true;
    fill_row(data->k, KEYS, 7, (double)NAN);
    finish(data);
    data = make("NaN in a value that later rows see");
    data->test.score.causal = true;
    for (int64_t bh = 0; bh < 4; bh++) data->v[(bh * KEYS + 7) * SIZE + 3] = (double)NAN;
    data->v[(1 * KEYS + 2) * SIZE + 4] = (double)INFINITY;
    finish(data);
    data = make("NaN in one query row");
    fill_row(data->q, ROWS, 4, (double)NAN);
    finish(data);
}
END_TEST

START_TEST(huge_equal_scores) {
    for (int sign = -1; sign <= 1; sign += 2) {
        struct case_data *data = make("equal huge scores");
        fill(data->q, 4 * ROWS * SIZE, 1000);
        fill(data->k, 4 * KEYS * SIZE, 1000.0 * sign);
        finish(data);
    }
}
END_TEST

// One key has such a high score that all other weights underflow to 0.
START_TEST(one_dominant_key) {
    struct case_data *data = make("one dominant key");
    fill(data->q, 4 * ROWS * SIZE, 50);
    for (int64_t j = 0; j < KEYS; j++) fill_row(data->k, KEYS, j, -(double)j);
    fill_row(data->k, KEYS, 20, 50);
    finish(data);
}
END_TEST

// Maxima that rise or fall from block to block of keys, so that sums are rescaled in each block, or
// never.
START_TEST(rising_scores) {
    for (int sign = -1; sign <= 1; sign += 2) {
        struct test_case test = {.name = sign > 0 ? "rising scores" : "falling scores", .heads = 2};
        test.n_q = ROWS, test.n_kv = 200, test.head_dim = SIZE;
        test.q_type = test.kv_type = test.out_type = CLATTN_TYPE_BF16;
        struct case_data *data = case_make(&test);
        fill(data->q, 2 * ROWS * SIZE, 1);
        for (int64_t n = 0; n < 2 * 200 * SIZE; n++)
            data->k[n] = storage_round(CLATTN_TYPE_BF16, 0.02 * sign * (double)(n / SIZE % 200));
        finish(data);
    }
}
END_TEST

START_TEST(infinite_bias) {
    struct test_case test = {.name = "-inf by bias", .batch = 2, .heads = 2, .n_q = ROWS, .n_kv = KEYS};
    test.head_dim = SIZE;
    test.bias.rank = 2;
    for (int sinks = 0; sinks < 2; sinks++) {
        if (sinks) test.hosts = CASE_HOST_BIT(CASE_SINKS);
        struct case_data *data = case_make(&test);
        for (int64_t j = 0; j < KEYS; j++) data->bias[5 * KEYS + j] = -(double)INFINITY;
        for (int64_t i = 0; i < ROWS; i++) data->bias[i * KEYS + 9] = -(double)INFINITY;
        for (int64_t j = 1; j < KEYS; j++) data->bias[6 * KEYS + j] = -(double)INFINITY;
        finish(data);
    }
}
END_TEST

START_TEST(huge_sinks) {
    struct test_case test = {.name = "huge sink", .heads = 2, .n_q = ROWS, .n_kv = KEYS, .head_dim = SIZE};
    test.hosts = CASE_HOST_BIT(CASE_SINKS);
    struct case_data *data = case_make(&test);
    data->floats[CASE_SINKS][0] = 1e4f;
    data->floats[CASE_SINKS][1] = -1e4f;
    finish(data);
}
END_TEST

// A device may flush float32 subnormal numbers to 0, so the tolerance is the smallest normal
// number.
START_TEST(denormals) {
    for (int n = 0; n < 3; n++) {
        struct case_data *data = make("denormals");
        data->test.kernel = case_kernel(n);
        fill(data->q, 4 * ROWS * SIZE, 1e-40);
        fill(data->k, 4 * KEYS * SIZE, 1e-40);
        fill(data->v, 4 * KEYS * SIZE, 3e-39);
        struct case_result got = case_run(data, harness()->queue);
        ck_assert_msg(got.status == CLATTN_OK && got.intact, "%s", harness_log_text());
        for (int64_t c = 0; c < 4 * ROWS * SIZE; c++)
            ck_assert_msg(fabs(got.out[c] - 3e-39) < 1.2e-38, "out %g of denormals", got.out[c]);
        for (int64_t c = 0; c < 4 * ROWS; c++) ck_assert_double_eq_tol(got.lse[c], log(KEYS), 1e-6);
        case_result_free(&got);
        case_free(data);
    }
}
END_TEST

// Subnormal f16 numbers are ordinary numbers in float32.
START_TEST(half_denormals) {
    struct test_case test = {
        .name = "f16 denormals", .heads = 2, .n_q = ROWS, .n_kv = KEYS, .head_dim = SIZE};
    test.kv_type = CLATTN_TYPE_F16;
    struct case_data *data = case_make(&test);
    for (int64_t n = 0; n < 2 * KEYS * SIZE; n++) data->v[n] = ldexp((double)(n % 37 + 1), -24);
    finish(data);
}
END_TEST

START_TEST(ones_give_one) {
    struct case_data *data = make("V = 1");
    fill(data->v, 4 * KEYS * SIZE, 1);
    case_retype(data);
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        struct case_result got = case_run(data, harness()->queue);
        for (int64_t c = 0; c < 4 * ROWS * SIZE; c++) ck_assert_double_eq_tol(got.out[c], 1, 2e-6);
        case_result_free(&got);
    }
    case_free(data);
}
END_TEST

// An infinite scale of a key or a value has the same effect in every kernel, also in integer
// products.
START_TEST(infinite_scales) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    ck_assert(case_parse(_i % 4 / 2 ? "decode-bf16-b1-h2-hkv1-n1-nkv40-d64-full-kvi8"
                                    : "decode-bf16-b1-h2-hkv1-n3-nkv40-d32-full-kvi8",
                         &test, why));
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    const clattn_tensor *scale = &arrays.kv_scales[_i % 2].view;
    const float infinite = _i / 4 ? -INFINITY : INFINITY;
    const size_t at = (size_t)(scale->offset + 7 * scale->stride[2]) * sizeof infinite;
    struct case_result got[3];
    ck_assert_int_eq(clEnqueueWriteBuffer(harness()->queue, scale->buffer, CL_TRUE, at, sizeof infinite,
                                          &infinite, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int n = 0; n < 3; n++) {
        static const clattn_kernel kernels[] = {CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_DECODE,
                                                CLATTN_KERNEL_FLASH};
        arrays.params.kernel = kernels[n];
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
        got[n] = case_collect(&arrays, harness()->queue, NULL);
    }
    for (int64_t c = 0; c < 2 * 2 * test.n_q * test.head_dim; c++) {
        const double plain = got[0].out[c / 2], other = got[1 + c % 2].out[c / 2];
        ck_assert(!isfinite(plain));
        ck_assert_msg(isnan(plain) ? isnan(other) : plain == other, "%g, should be %g", other, plain);
    }
    for (int n = 0; n < 3; n++) case_result_free(&got[n]);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// Scales and zero points that no cache would contain: zero, not finite, far larger than the
// numbers, or far from all codes of the type. All kernels compute the same, also integer products.
static const struct {
    float scale, zero;
} hostile_groups[] = {
    {0, 3},        {NAN, 0},         {INFINITY, 0}, {0.5f, NAN},         {0.5f, -INFINITY},
    {0, INFINITY}, {1e-30f, -1e30f}, {1e30f, 0},    {1 / 15.0f, -15000}, {40, 1},
};
enum { HOSTILE_GROUPS = sizeof hostile_groups / sizeof hostile_groups[0] };

static void write_one(const clattn_tensor *t, int64_t row, float value) {
    const size_t at = (size_t)(t->offset + row * t->stride[2] + t->stride[3]) * sizeof value;
    ck_assert_int_eq(
        clEnqueueWriteBuffer(harness()->queue, t->buffer, CL_TRUE, at, sizeof value, &value, 0, NULL, NULL),
        CL_SUCCESS);
}

static void run_beside_unfused(struct case_arrays *arrays, clattn_kernel kernel, struct case_result got[2]) {
    for (int n = 0; n < 2; n++) {
        arrays->params.kernel = n ? kernel : CLATTN_KERNEL_UNFUSED;
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, arrays, NULL), CLATTN_OK);
        got[n] = case_collect(arrays, harness()->queue, NULL);
    }
}

// The second of a row's two groups, of a key or a value, is hostile. Another group has a large
// scale, for which weights are rounded. Beside a value's scale of 1e30, all other weights are 0 as
// integers.
static void check_hostile_group(int hostile, const char *name, bool value) {
    const float scale = hostile_groups[hostile].scale, zero = hostile_groups[hostile].zero;
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    ck_assert(case_parse(name, &test, why));
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    write_one(&arrays.kv_scales[value].view, 7, scale);
    write_one(&arrays.kv_zeros[value].view, 7, zero);
    if (value) write_one(&arrays.kv_scales[value].view, 9, 40);
    struct case_result got[2];
    run_beside_unfused(&arrays, test.kernel, got);
    const int64_t count = 2 * test.n_q * 64;
    double largest = 0;
    for (int64_t c = 0; c < count; c++)
        if (isfinite(got[0].out[c])) largest = fmax(largest, fabs(got[0].out[c]));
    for (int64_t c = 0; c < count; c++) {
        const double plain = got[0].out[c], other = got[1].out[c];
        ck_assert_msg(isfinite(plain) ? fabs(plain - other) <= 1e-3 * largest
                                      : (isnan(plain) ? isnan(other) : plain == other),
                      "scale %g, zero %g: %g, should be %g", (double)scale, (double)zero, other, plain);
    }
    for (int n = 0; n < 2; n++) case_result_free(&got[n]);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(hostile_scales_of_groups) {
    const char *name = _i / 2 ? "attend-f16-b1-h2-hkv1-n20-nkv40-d64-full-flash-kvu4-groups32-zeros"
                              : "attend-f16-b1-h2-hkv1-n3-nkv40-d64-full-decode-kvu4-groups32-zeros";
    for (int hostile = 0; hostile < HOSTILE_GROUPS; hostile++)
        if (_i % 2 == 0 || hostile_groups[hostile].scale != 1e30f) check_hostile_group(hostile, name, _i % 2);
}
END_TEST

// One column is large, and the others are near their zero point. The error of rounded weights must
// be relative to the distance from the zero point.
START_TEST(values_near_their_zero_point) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    ck_assert(case_parse(_i ? "attend-f16-b1-h1-n20-nkv16-d64-full-flash-kvi8-groups32-zeros"
                            : "attend-f16-b1-h1-n1-nkv16-d64-full-decode-kvi8-groups32-zeros",
                         &test, why));
    struct case_data *data = case_make(&test);
    for (int64_t n = 0; n < 16 * 64; n++) data->v[n] = n % 32 ? 0.02 * (double)(n % 7) : 255;
    case_kv_store(data);
    case_bind(data, harness_place(), &arrays);
    struct case_result got[2];
    run_beside_unfused(&arrays, test.kernel, got);
    for (int64_t c = 0; c < test.n_q * 64; c++)
        if (c % 32)
            ck_assert_msg(fabs(got[1].out[c] - got[0].out[c]) <= 1e-4, "column %d: %g, should be %g",
                          (int)(c % 64), got[1].out[c], got[0].out[c]);
    for (int n = 0; n < 2; n++) case_result_free(&got[n]);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// The first key has nearly the whole weight of every row, and its value is 0, like the first tokens
// of language models. The result is the sum of all other values, whose weights are each below a
// 16-bit part of the largest.
START_TEST(first_key_takes_all) {
    struct test_case test;
    char why[256];
    ck_assert(case_parse(_i ? "attend-f16-b1-h1-n64-nkv1500-d64-full-flash-kvq8_0"
                            : "attend-f16-b1-h1-n64-nkv1500-d64-full-flash-kvi8",
                         &test, why));
    struct case_data *data = case_make(&test);
    fill(data->q, 64 * 64, 1);
    fill(data->k, 64, 2);
    fill(data->v, 64, 0);
    case_kv_store(data);
    case_assert_data(data);
    case_free(data);
}
END_TEST

// Scores so large that float32 has no digits behind the point. A kernel that subtracts a number
// other than the largest score can have weights above 65504, which are infinite in float16.
START_TEST(huge_equal_halves) {
    struct test_case test;
    char why[256];
    ck_assert(case_parse("attend-f16-b1-h2-n12-nkv33-d32-full-flash", &test, why));
    struct case_data *data = case_make(&test);
    for (int64_t n = 0; n < 2 * ROWS * SIZE; n++) data->q[n] = 4000 - 8 * (double)(n / SIZE);
    fill(data->k, 2 * KEYS * SIZE, 4000);
    case_assert_data(data);
    case_free(data);
}
END_TEST

// Key j moves to place (j * 10) mod 33 with its value: 10 and 33 have no common divisor.
START_TEST(permuted_keys) {
    struct case_data *data = make("permuted keys"), *moved = make("permuted keys");
    for (int64_t n = 0; n < 4 * KEYS * SIZE; n++) {
        int64_t j = n / SIZE % KEYS, to = n + (j * 10 % KEYS - j) * SIZE;
        moved->k[to] = data->k[n];
        moved->v[to] = data->v[n];
    }
    for (int n = 0; n < 3; n++) {
        data->test.kernel = moved->test.kernel = case_kernel(n);
        struct case_result a = case_run(data, harness()->queue), b = case_run(moved, harness()->queue);
        for (int64_t c = 0; c < 4 * ROWS * SIZE; c++) ck_assert_double_eq_tol(a.out[c], b.out[c], 5e-6);
        for (int64_t c = 0; c < 4 * ROWS; c++) ck_assert_double_eq_tol(a.lse[c], b.lse[c], 5e-6);
        case_result_free(&a);
        case_result_free(&b);
    }
    case_free(data);
    case_free(moved);
}
END_TEST

// A forced, unoptimised kernel is slow, so a shortened run repeats it ten times.
START_TEST(same_bits_many_times) {
    const int times = harness_every() > 1 ? 10 : 50;
    for (int n = 0; n < 4; n++) {
        struct test_case test = {.name = "same bits",
                                 .heads = 3,
                                 .n_q = n < 3 ? 65 : 2,
                                 .n_kv = n < 3 ? 127 : 1030,
                                 .head_dim = SIZE};
        test.score.causal = true;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        test.kernel = n < 3 ? case_kernel(n) : CLATTN_KERNEL_DECODE;
        struct case_data *data = case_make(&test);
        case_retype(data);
        struct case_result first = case_run(data, harness()->queue);
        ck_assert_int_eq(first.status, CLATTN_OK);
        const size_t rows = 3 * (size_t)test.n_q;
        for (int again = 1; again < times; again++) {
            struct case_result got = case_run(data, harness()->queue);
            ck_assert_mem_eq(got.out, first.out, rows * SIZE * sizeof *got.out);
            ck_assert_mem_eq(got.lse, first.lse, rows * sizeof *got.lse);
            case_result_free(&got);
        }
        case_result_free(&first);
        case_free(data);
    }
}
END_TEST

int main(void) {
    const TTest *const nan[] = {nan_beyond_lengths, nan_in_hidden_keys, nan_in_seen_keys, NULL};
    const TTest *const sizes[] = {huge_equal_scores, one_dominant_key,  rising_scores,
                                  infinite_bias,     huge_sinks,        denormals,
                                  half_denormals,    huge_equal_halves, NULL};
    const TTest *const identities[] = {ones_give_one, permuted_keys, same_bits_many_times, NULL};
    Suite *suite = suite_create("hostile");
    harness_add(suite, "NaN", nan);
    TCase *const scales = harness_add(suite, "huge and tiny", sizes);
    tcase_add_loop_test(scales, infinite_scales, 0, 8);
    tcase_add_loop_test(scales, first_key_takes_all, 0, 2);
    TCase *const groups = harness_add(suite, "groups", (const TTest *const[]){NULL});
    tcase_add_loop_test(groups, hostile_scales_of_groups, 0, 4);
    tcase_add_loop_test(groups, values_near_their_zero_point, 0, 2);
    harness_add(suite, "identities", identities);
    return harness_run(suite);
}
