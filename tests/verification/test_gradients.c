// test_gradients.c: the reference of gradients, compared with differences of the reference of
// attention. The loss is L = sum dout out + sum dlse lse. Every number with a gradient, and every
// option, is tested. Sampled rows and keys equal the whole's. Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verification/case/case_problem.h"
#include "verification/reference/reference_backward.h"

static const char *const names[] = {
    "attend-f32-b2-h2-n5-nkv7-d6-full",
    "attend-f32-b1-h4-hkv2-n5-nkv7-d4-dv6-causal",
    "attend-f32-b1-h2-n5-nkv7-d6-dv3-causal-topleft",
    "attend-f32-b1-h2-n5-nkv7-d6-causal-offsetm2",
    "attend-f32-b3-h2-n5-nkv7-d4-causal-offsetsm2:0:3",
    "attend-f32-b1-h2-n6-nkv9-d4-full-bottomright-window2:1",
    "attend-f32-b1-h2-n6-nkv9-d4-causal-window3:m1",
    "attend-f32-b3-h2-n6-nkv9-d4-causal-qlen6:0:4-kvlen9:5:0-hiddennan",
    "attend-f32-b2-h2-n6-nkv9-d4-full-maskbhqk",
    "attend-f32-b2-h2-n6-nkv9-d4-full-maskb11k-biask",
    "attend-f32-b2-h2-n5-nkv7-d4-full-biasqk",
    "attend-f32-b2-h2-n5-nkv7-d4-causal-biashqk",
    "attend-f32-b2-h4-hkv2-n5-nkv7-d4-full-biasbhqk",
    "attend-f32-b2-h2-n5-nkv7-d4-full-bias1hqk",
    "attend-f32-b2-h2-n5-nkv7-d4-full-biasb1qk",
    "attend-f32-b2-h2-n5-nkv7-d4-full-biasb11k",
    "attend-f32-b2-h2-n5-nkv7-d4-full-biasbh1k",
    "attend-f32-b2-h2-n5-nkv7-d4-full-bias111k",
    "attend-f32-b1-h2-n5-nkv7-d6-full-softcap1.5",
    "attend-f32-b1-h2-n5-nkv7-d6-full-scalem0.3",
    "attend-f32-b2-h4-hkv2-n5-nkv7-d4-causal-alibi",
    "attend-f32-b2-h4-hkv2-n5-nkv3-d4-causal-sinks",
    "attend-f32-b2-h4-hkv2-n5-nkv7-d4-full-headscales",
    "attend-f32-b2-h4-hkv2-n5-nkv7-d4-full-dropout0.3:7",
    "attend-f32-b2-h2-n5-nkv7-d6-causal-ropehalf-ropepos9",
    "attend-f32-b2-h2-n5-nkv7-d6-causal-ropeinterleaved-rotary4-ropescaleyarn-ropefactor8-ropeoriginal16",
    "attend-f32-b2-h4-hkv2-n5-nkv7-d6-full-ropehalf-ropescaleyarn-ropefactor4-ropeoriginal16-ropeattention1."
    "25-"
    "positions",
    "attend-f32-b2-h2-n5-nkv7-d8-full-ropehalf-positions-sectiont2-sectionh1-sectionw1",
    "attend-f32-b1-h4-hkv1-n5-nkv7-d6-dv4-causal-latent",
    "attend-f32-b2-h4-hkv2-n6-nkv9-d4-dv6-causal-offset4-softcap2-window6:0-maskqk-biash1k-alibi-sinks-"
    "headscales-"
    "kvlen9:5-ropeinterleaved-dropout0.2:5-hiddennan",
};
#define NAMES (int)(sizeof names / sizeof names[0])

// A case with the derivatives of its results, its results, and its gradients.
struct subject {
    struct case_data *data;
    struct reference_backward problem;
    double *out, *lse, *dout, *dlse;
    struct reference_gradients got;
};

static bool is_hidden(const struct reference *r, int64_t row) {
    const int32_t *lengths = r->score->q_lengths;
    return lengths != NULL && row % r->n_q >= lengths[row / r->n_q / r->heads];
}

// Round numbers to multiples of 1/1024, so that a numerical step is exact in float32.
static void coarsen(float *x, int64_t count) {
    for (int64_t n = 0; x != NULL && n < count; n++) x[n] = roundf(x[n] * 1024) / 1024;
}

static struct subject begin(const char *name) {
    struct subject s = {0};
    struct test_case test;
    struct random random = {11};
    char why[256] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    s.data = case_make(&test);
    for (int host = 0; host < CASE_HOSTS; host++) coarsen(s.data->floats[host], test.heads);
    const struct reference r = case_problem(s.data, CLATTN_TYPE_F32, NULL);
    const int64_t rows = r.batch * r.heads * r.n_q;
    s.out = reference_alloc(rows * r.head_dim_v), s.dout = reference_alloc(rows * r.head_dim_v);
    s.lse = reference_alloc(rows), s.dlse = reference_alloc(rows);
    for (int64_t n = 0; n < rows * r.head_dim_v; n++)
        s.dout[n] = is_hidden(&r, n / r.head_dim_v) ? (double)NAN : random_uniform(&random, -1, 1);
    for (int64_t n = 0; n < rows; n++)
        s.dlse[n] = is_hidden(&r, n) ? (double)NAN : random_uniform(&random, -1, 1);
    reference_attention(&r, &(struct reference_result){.out = s.out, .lse = s.lse});
    s.problem =
        (struct reference_backward){.forward = r, .out = s.out, .lse = s.lse, .dout = s.dout, .dlse = s.dlse};
    for (int g = 0; g < GRADIENTS; g++) {
        s.got.x[g] = reference_alloc(reference_gradient_count(&r, g));
        s.got.size[g] = reference_alloc(reference_gradient_count(&r, g));
    }
    reference_backward(&s.problem, &s.got);
    return s;
}

static void end(struct subject *s) {
    for (int g = 0; g < GRADIENTS; g++) free(s->got.x[g]), free(s->got.size[g]);
    free(s->out), free(s->lse), free(s->dout), free(s->dlse);
    case_free(s->data);
}

static double loss(const struct subject *s) {
    const struct reference *r = &s->problem.forward;
    const int64_t rows = r->batch * r->heads * r->n_q, dv = r->head_dim_v;
    double *out = reference_alloc(rows * dv), *lse = reference_alloc(rows), sum = 0;
    reference_attention(r, &(struct reference_result){.out = out, .lse = lse});
    for (int64_t row = 0; row < rows; row++) {
        if (is_hidden(r, row) || isinf(lse[row])) continue;
        sum += s->dlse[row] * lse[row] + reference_dot(s->dout + row * dv, out + row * dv, dv);
    }
    free(out), free(lse);
    return sum;
}

// A number with a gradient: of a tensor, or of a host array.
struct number {
    double *x;
    float *host;
};
static double loss_at(const struct subject *s, const struct number *at, double step) {
    const double x = at->x ? *at->x : 0;
    const float host = at->host ? *at->host : 0;
    if (at->x) *at->x = x + step;
    if (at->host) *at->host = (float)((double)host + step);
    const double sum = loss(s);
    if (at->x) *at->x = x;
    if (at->host) *at->host = host;
    return sum;
}

// Differences of fourth order: the error is 1e-12 of a fifth derivative.
static double difference(const struct subject *s, const struct number *at) {
    const double step = 0x1p-9;
    return (8 * (loss_at(s, at, step) - loss_at(s, at, -step)) -
            (loss_at(s, at, 2 * step) - loss_at(s, at, -2 * step))) /
           (12 * step);
}

static struct number number_of(const struct subject *s, int gradient, int64_t n) {
    double *const tensors[] = {s->data->q, s->data->k, s->data->v, s->data->bias};
    float *const hosts[] = {s->data->floats[CASE_SINKS], s->data->floats[CASE_ALIBI],
                            s->data->floats[CASE_HEAD_SCALES]};
    double *const x = gradient <= GRADIENT_BIAS ? tensors[gradient] : NULL;
    float *const host = gradient > GRADIENT_BIAS ? hosts[gradient - GRADIENT_SINKS] : NULL;
    return (struct number){x ? x + n : NULL, host ? host + n : NULL};
}

// A latent's key also has the gradient of its value.
static double expected(const struct subject *s, int gradient, int64_t n) {
    const struct reference *r = &s->problem.forward;
    const int64_t row = n / r->head_dim, d = n % r->head_dim;
    const bool both = r->v_row != 0 && gradient == GRADIENT_K && d < r->head_dim_v;
    return s->got.x[gradient][n] + (both ? s->got.x[GRADIENT_V][row * r->head_dim_v + d] : 0);
}

static const char *const words[GRADIENTS] = {"dq",          "dk", "dv", "dbias", "dsinks", "dalibi_slopes",
                                             "dhead_scales"};

// Returns whether the gradient equals the differences; false if the case has no such gradient.
static bool compare(const struct subject *s, const char *name, int gradient) {
    const int64_t count = reference_gradient_count(&s->problem.forward, gradient);
    double largest = 0;
    for (int64_t n = 0; n < count; n++) largest = fmax(largest, fabs(expected(s, gradient, n)));
    for (int64_t n = 0; n < count; n++) {
        const struct number at = number_of(s, gradient, n);
        if (at.x == NULL && at.host == NULL) return false;
        const double x = expected(s, gradient, n), want = at.x && isnan(*at.x) ? 0 : difference(s, &at);
        ck_assert_msg(fabs(x - want) <= 1e-8 * largest,
                      "%s: %s[%d] is %.12g, by differences %.12g, largest %g", name, words[gradient], (int)n,
                      x, want, largest);
    }
    ck_assert_msg(count == 0 || largest > 1e-3, "%s: %s is nothing", name, words[gradient]);
    return count > 0;
}

START_TEST(gradients_are_differences) {
    int compared[GRADIENTS] = {0};
    for (int c = 0; c < NAMES; c++) {
        struct subject s = begin(names[c]);
        for (int g = 0; g < GRADIENTS; g++) compared[g] += compare(&s, names[c], g);
        end(&s);
    }
    for (int g = 0; g < GRADIENTS; g++) ck_assert_msg(compared[g] > 1, "%s was not compared", words[g]);
}
END_TEST

static void assert_rows(const char *what, const double *some, const double *all, const int64_t *rows,
                        int64_t count, int64_t width) {
    for (int64_t n = 0; n < count * width; n++) {
        const double want = all[rows[n / width] * width + n % width];
        ck_assert_msg(fabs(some[n] - want) < 1e-12, "%s[%d] is %g, not %g", what, (int)n, some[n], want);
    }
}

START_TEST(samples_are_the_whole) {
    for (int c = 0; c < NAMES; c++) {
        struct subject s = begin(names[c]);
        const struct reference r = s.problem.forward;
        const int64_t last_row = r.batch * r.heads * r.n_q - 1, last_key = r.batch * r.kv_heads * r.n_kv - 1,
                      rows[] = {last_row, 0, last_row / 2, 0}, keys[] = {last_key, 1, last_key / 2, last_key};
        struct reference_gradients some = {0};
        for (int g = GRADIENT_Q; g <= GRADIENT_V; g++) {
            some.x[g] = reference_alloc(4 * (r.head_dim + r.head_dim_v));
            some.size[g] = reference_alloc(4 * (r.head_dim + r.head_dim_v));
        }
        s.problem.forward.rows = rows, s.problem.forward.row_count = 4;
        s.problem.keys = keys, s.problem.key_count = 4;
        reference_backward(&s.problem, &some);
        for (int of_size = 0; of_size < 2; of_size++) {
            double *const *x = of_size ? some.size : some.x, *const *all = of_size ? s.got.size : s.got.x;
            assert_rows("dq", x[GRADIENT_Q], all[GRADIENT_Q], rows, 4, r.head_dim);
            assert_rows("dk", x[GRADIENT_K], all[GRADIENT_K], keys, 4, r.head_dim);
            assert_rows("dv", x[GRADIENT_V], all[GRADIENT_V], keys, 4, r.head_dim_v);
        }
        for (int g = GRADIENT_Q; g <= GRADIENT_V; g++) free(some.x[g]), free(some.size[g]);
        end(&s);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gradients");
    TCase *group = tcase_create("gradients");
    tcase_add_test(group, gradients_are_differences);
    tcase_add_test(group, samples_are_the_whole);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
