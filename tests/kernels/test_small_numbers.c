// test_small_numbers.c: kernels that multiply integers, at the ends of float32's range. Queries,
// values and x are too small for integers, scales compensate, or scales of keys are large. Results,
// log-sum-exp and projections equal float64. Numbers that are not finite are in cases/integers.txt.
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verification/case/case_data.h"
#include "verification/reference/storage.h"

enum { HEADS = 2, KEYS = 70, SIZE = 64, MOST_ROWS = 40, OUT = 48 };

// Powers of two that multiply queries, scales of keys, and scales of values. Scores and weights
// stay the same, except in the last two rows, where one key has the largest score.
static const int powers[][3] = {{0, 0, 0},         {-60, 60, 0}, {-97, 97, 0},   {-104, 104, 0},
                                {-122, 120, 0},    {0, 0, -100}, {0, 0, -108},   {0, 0, -118},
                                {-110, 110, -110}, {0, 96, 0},   {-40, 40, -104}};
enum { POWERS = sizeof powers / sizeof powers[0] };

static const struct {
    const char *row;
    clattn_kernel kernel;
    clattn_type type; // type of q; out is float32 or this type
    int rows;
    double most; // error, relative to the largest number
} kernels[] = {{"flash_lanes : DOT_I8=1\n", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, 20, 4e-6},
               {"flash_lanes : DOT_I8=1\n", CLATTN_KERNEL_FLASH, CLATTN_TYPE_BF16, 20, 1e-2},
               {"decode_lanes : DOT_I8=1\n", CLATTN_KERNEL_DECODE, CLATTN_TYPE_BF16, 3, 1e-2},
               {"decode_groups : DOT_I8=1\n", CLATTN_KERNEL_DECODE, CLATTN_TYPE_F32, 3, 4e-6},
               {"flash_matrix :\n", CLATTN_KERNEL_FLASH, CLATTN_TYPE_F32, 40, 4e-6},
               {"flash_matrix :\n", CLATTN_KERNEL_FLASH, CLATTN_TYPE_BF16, 40, 2e-2}};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

static struct guarded take(clattn_type type, int rank, const int64_t shape[4], double *values) {
    const struct guarded_shape s = {
        .type = type, .rank = rank, .shape = {shape[0], shape[1], shape[2], shape[3]}};
    return values ? guarded_input(harness_place(), &s, values) : guarded_output(harness_place(), &s);
}

static double *fill(struct random *random, int64_t count, clattn_type type, double size, int power) {
    double *x = case_random(random, count, type, size);
    for (int64_t n = 0; n < count; n++)
        x[n] = type == CLATTN_TYPE_I8 ? floor(x[n]) : storage_round(type, ldexp(x[n], power));
    return x;
}

// Row r of the result, and its log-sum-exp.
static double attend(const double *q, const double *k, const double *v, const double *k_scale,
                     const double *v_scale, double out[SIZE]) {
    double score[KEYS], most = -INFINITY, sum = 0;
    for (int j = 0; j < KEYS; j++) {
        score[j] = 0;
        for (int d = 0; d < SIZE; d++) score[j] += q[d] * k[j * SIZE + d];
        score[j] *= k_scale[j] / 8;
        most = fmax(most, score[j]);
    }
    for (int d = 0; d < SIZE; d++) out[d] = 0;
    for (int j = 0; j < KEYS; j++) {
        const double p = exp(score[j] - most);
        sum += p;
        for (int d = 0; d < SIZE; d++) out[d] += p * v[j * SIZE + d] * v_scale[j];
    }
    for (int d = 0; d < SIZE; d++) out[d] /= sum;
    return most + log(sum);
}

static void check(int kernel, int n) {
    const int rows = kernels[kernel].rows;
    const clattn_type type = kernels[kernel].type;
    const int64_t sq[4] = {1, HEADS, rows, SIZE}, sk[4] = {1, 1, KEYS, SIZE};
    struct random random = {(uint64_t)n + 1};
    double *q = fill(&random, HEADS * rows * SIZE, type, 1, powers[n][0]),
           *k = fill(&random, KEYS * SIZE, CLATTN_TYPE_I8, 127, 0),
           *v = fill(&random, KEYS * SIZE, CLATTN_TYPE_I8, 127, 0),
           *k_scale = fill(&random, KEYS, CLATTN_TYPE_F32, 0.02, powers[n][1]),
           *v_scale = fill(&random, KEYS, CLATTN_TYPE_F32, 0.02, powers[n][2]), want[SIZE], most = 0,
           worst = 0;
    double *got = calloc((size_t)(HEADS * rows * SIZE), sizeof *got),
           *lse = calloc((size_t)(HEADS * rows), sizeof *lse);
    struct guarded t[] = {take(type, 4, sq, q),
                          take(CLATTN_TYPE_I8, 4, sk, k),
                          take(CLATTN_TYPE_I8, 4, sk, v),
                          take(CLATTN_TYPE_F32, 3, sk, k_scale),
                          take(CLATTN_TYPE_F32, 3, sk, v_scale),
                          take(type, 4, sq, NULL),
                          take(CLATTN_TYPE_F32, 3, sq, NULL)};
    clattn_context *c = harness_open((clattn_context_params){
        .context = harness()->opencl, .log = harness_log(), .tuned_rows = kernels[kernel].row});
    const clattn_attention_params p = {
        .q = t[0].view,
        .kv = {.k = t[1].view, .v = t[2].view, .k_scale = t[3].view, .v_scale = t[4].view},
        .out = t[5].view,
        .lse = t[6].view,
        .kernel = kernels[kernel].kernel};
    ck_assert_int_eq(clattn_attention_enqueue(c, harness()->queue, &p, 0, NULL, NULL), CLATTN_OK);
    ck_assert(guarded_read(&t[5], harness()->queue, got) && guarded_read(&t[6], harness()->queue, lse));
    for (int r = 0; r < HEADS * rows; r++) {
        const double of_lse = attend(q + r * SIZE, k, v, k_scale, v_scale, want);
        ck_assert_msg(fabs(lse[r] - of_lse) <= 1e-5 + 1e-6 * fabs(of_lse), "%s, powers %d: lse %g, not %g",
                      kernels[kernel].row, n, lse[r], of_lse);
        for (int d = 0; d < SIZE; d++) {
            most = fmax(most, fabs(want[d]));
            worst = fmax(worst,
                         isfinite(got[r * SIZE + d]) ? fabs(got[r * SIZE + d] - want[d]) : (double)INFINITY);
        }
    }
    ck_assert_msg(worst <= kernels[kernel].most * most, "%s, powers %d: %g of the largest number apart",
                  kernels[kernel].row, n, worst / most);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) guarded_release(&t[i]);
    free(q), free(k), free(v), free(k_scale), free(v_scale), free(got), free(lse);
    clattn_context_destroy(c);
}

START_TEST(attention_of_small_numbers) {
    if (!harness_compiles_right(harness()->context, kernels[_i].row)) return;
    for (int n = 0; n < POWERS; n++) check(_i, n);
}
END_TEST

// x is small, and the scales of W compensate.
START_TEST(projections_of_small_numbers) {
    static const char *const of[] = {"linear_lanes : DOT_I8=1\n", "linear_few_lanes : DOT_I8=1\n"};
    static const int small[] = {0, -97, -104, -122};
    const int rows = _i ? 2 : 40;
    const int64_t sx[4] = {1, rows, SIZE}, sw[4] = {OUT, SIZE}, sy[4] = {1, rows, OUT};
    clattn_context *c = harness_open(
        (clattn_context_params){.context = harness()->opencl, .log = harness_log(), .tuned_rows = of[_i]});
    for (size_t n = 0; n < sizeof small / sizeof small[0]; n++) {
        struct random random = {n + 3};
        double *x = fill(&random, rows * SIZE, CLATTN_TYPE_F32, 1, small[n]),
               *w = fill(&random, OUT * SIZE, CLATTN_TYPE_I8, 127, 0),
               *scale = fill(&random, OUT, CLATTN_TYPE_F32, 0.02, -small[n]), got[MOST_ROWS * OUT];
        struct guarded t[] = {take(CLATTN_TYPE_F32, 3, sx, x), take(CLATTN_TYPE_I8, 2, sw, w),
                              take(CLATTN_TYPE_F32, 1, sw, scale), take(CLATTN_TYPE_F32, 3, sy, NULL)};
        const clattn_linear_params p = {.x = t[0].view,
                                        .w = t[1].view,
                                        .w_scale = t[2].view,
                                        .out = t[3].view,
                                        .projection = CLATTN_PROJECTION_NATIVE};
        ck_assert_msg(clattn_linear_enqueue(c, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                      harness_log_text());
        ck_assert(guarded_read(&t[3], harness()->queue, got));
        for (int r = 0; r < rows * OUT; r++) {
            double want = 0, size = 0;
            for (int d = 0; d < SIZE; d++) {
                const double product = x[r / OUT * SIZE + d] * w[r % OUT * SIZE + d] * scale[r % OUT];
                want += product, size += fabs(product);
            }
            ck_assert_msg(fabs(got[r] - want) <= 2e-6 * size, "%s, x of 2^%d: %g, not %g", of[_i], small[n],
                          got[r], want);
        }
        for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) guarded_release(&t[i]);
        free(x), free(w), free(scale);
    }
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("small numbers");
    TCase *group = harness_add(suite, "small numbers", (const TTest *const[]){NULL});
    harness_add_loop(group, attention_of_small_numbers, KERNELS);
    tcase_add_loop_test(group, projections_of_small_numbers, 0, 2);
    return harness_run(suite);
}
