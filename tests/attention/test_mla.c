// test_mla.c: multi-head latent attention (DeepSeek-V2) in two forms, compared with the float64
// layer of the host. Plain form: each head has keys [c W_UK, k_rope] and values c W_UV. Absorbed
// form: queries [q_nope W_UK^T, q_rope] meet the latents [c, k_rope], v is a view of their first
// columns, and W_UV follows. Cases with the token `latent` run the view with every kernel
// (test_case.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include "verification/reference/random.h"
#include "verification/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Letters of the header, and the widths of c, k_rope, q_nope and v.
typedef struct mla {
    int64_t batch, heads, n_q, n_kv, latent, rope, nope, value;
    bool causal;
    clattn_type type;
} mla;

// The layer's numbers: q [B, H, Nq, nope + rope], rows [B, N, latent + rope], W_UK [H, latent,
// nope], W_UV [H, latent, value].
typedef struct weights {
    double *q, *rows, *uk, *uv;
} weights;

static double *numbers(struct random *random, int64_t count, double size) {
    return case_random(random, count, CLATTN_TYPE_F32, size);
}

static weights make(const mla *m) {
    struct random random = {.state = 7};
    const double size = 2 / sqrt((double)m->latent);
    weights w;
    w.q = numbers(&random, m->batch * m->heads * m->n_q * (m->nope + m->rope), 2);
    w.rows = numbers(&random, m->batch * m->n_kv * (m->latent + m->rope), 2);
    w.uk = numbers(&random, m->heads * m->latent * m->nope, size);
    w.uv = numbers(&random, m->heads * m->latent * m->value, size);
    return w;
}

static void release(weights *w) {
    free(w->q), free(w->rows), free(w->uk), free(w->uv);
}

// y[columns] = x[rows] w, or with w transposed.
static void times(const double *x, const double *w, int64_t rows, int64_t columns, double *y) {
    for (int64_t c = 0; c < columns; c++) y[c] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) y[c] += x[r] * w[r * columns + c];
}
static void times_transposed(const double *x, const double *w, int64_t rows, int64_t columns, double *y) {
    for (int64_t r = 0; r < rows; r++) y[r] = reference_dot(x, w + r * columns, columns);
}

// Keys and values of each head.
static void plain_keys(const mla *m, const weights *w, double *k, double *v) {
    const int64_t head = m->nope + m->rope, row = m->latent + m->rope;
    for (int64_t b = 0; b < m->batch; b++)
        for (int64_t h = 0; h < m->heads; h++)
            for (int64_t j = 0; j < m->n_kv; j++, k += head, v += m->value) {
                const double *c = w->rows + (b * m->n_kv + j) * row;
                times(c, w->uk + h * m->latent * m->nope, m->latent, m->nope, k);
                memcpy(k + m->nope, c + m->latent, (size_t)m->rope * sizeof *k);
                times(c, w->uv + h * m->latent * m->value, m->latent, m->value, v);
            }
}

static void absorbed_queries(const mla *m, const weights *w, double *to) {
    const int64_t head = m->nope + m->rope, row = m->latent + m->rope;
    for (int64_t n = 0; n < m->batch * m->heads * m->n_q; n++, to += row) {
        const int64_t h = n / m->n_q % m->heads;
        const double *q = w->q + n * head;
        times_transposed(q, w->uk + h * m->latent * m->nope, m->latent, m->nope, to);
        memcpy(to + m->latent, q + m->nope, (size_t)m->rope * sizeof *to);
    }
}

// The common options of both forms. The scale is that of the plain heads, whose size the absorbed
// call does not have.
static clattn_score score_of(const mla *m) {
    return (clattn_score){.scale = (float)(1 / sqrt((double)(m->nope + m->rope))),
                          .causal = m->causal,
                          .alignment = CLATTN_ALIGN_BOTTOM_RIGHT};
}

// One call of the library. `value` is the width of v; v is a view of k if `values` is NULL.
static double *call(const mla *m, int64_t kv_heads, int64_t head, int64_t value, const double *queries,
                    const double *keys, const double *values, clattn_plan *plan) {
    struct place *place = harness_place();
    struct guarded_shape shape = {m->type, 4, {m->batch, m->heads, m->n_q, head}, LAYOUT_DENSE};
    struct guarded q = guarded_input(place, &shape, queries), v = {0};
    shape.shape[3] = value;
    struct guarded out = guarded_output(place, &shape);
    shape.shape[1] = kv_heads, shape.shape[2] = m->n_kv;
    if (values != NULL) v = guarded_input(place, &shape, values);
    shape.shape[3] = head;
    struct guarded k = guarded_input(place, &shape, keys);
    clattn_attention_params p = {.q = q.view,
                                 .kv = {.k = k.view, .v = values ? v.view : k.view},
                                 .out = out.view,
                                 .score = score_of(m)};
    p.kv.v.shape[3] = value;
    double *result = reference_alloc(guarded_count(&out.view));
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &p, plan), CLATTN_OK);
    ck_assert_int_eq(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                     CLATTN_OK);
    ck_assert(guarded_read(&out, harness()->queue, result));
    guarded_release(&q), guarded_release(&k), guarded_release(&v), guarded_release(&out);
    return result;
}

static double *run_plain(const mla *m, const weights *w, double *exact) {
    const int64_t head = m->nope + m->rope, rows = m->batch * m->heads * m->n_kv;
    double *k = reference_alloc(rows * head), *v = reference_alloc(rows * m->value);
    const clattn_score score = score_of(m);
    clattn_plan plan;
    plain_keys(m, w, k, v);
    const struct reference r = {.batch = m->batch,
                                .heads = m->heads,
                                .kv_heads = m->heads,
                                .n_q = m->n_q,
                                .n_kv = m->n_kv,
                                .head_dim = head,
                                .head_dim_v = m->value,
                                .q = w->q,
                                .k = k,
                                .v = v,
                                .score = &score};
    reference_attention(&r, &(struct reference_result){.out = exact});
    double *out = call(m, m->heads, head, m->value, w->q, k, v, &plan);
    free(k), free(v);
    return out;
}

static double *run_absorbed(const mla *m, const weights *w, clattn_plan *plan) {
    const int64_t row = m->latent + m->rope, rows = m->batch * m->heads * m->n_q;
    double *q = reference_alloc(rows * row), *out = reference_alloc(rows * m->value);
    absorbed_queries(m, w, q);
    double *latent = call(m, 1, row, m->latent, q, w->rows, NULL, plan);
    for (int64_t n = 0; n < rows; n++)
        times(latent + n * m->latent, w->uv + n / m->n_q % m->heads * m->latent * m->value, m->latent,
              m->value, out + n * m->value);
    free(q), free(latent);
    return out;
}

// The mean square of the difference, divided by that of the right numbers.
static double nmse(const double *got, const double *right, int64_t count) {
    double error = 0, all = 0;
    for (int64_t n = 0; n < count; n++)
        error += (got[n] - right[n]) * (got[n] - right[n]), all += right[n] * right[n];
    return error / all;
}

static void agree(const mla *m, clattn_plan *plan) {
    static const double most[] = {
        [CLATTN_TYPE_F32] = 1e-11, [CLATTN_TYPE_F16] = 1e-6, [CLATTN_TYPE_BF16] = 5e-5};
    const int64_t count = m->batch * m->heads * m->n_q * m->value;
    weights w = make(m);
    double *exact = reference_alloc(count), *plain = run_plain(m, &w, exact),
           *absorbed = run_absorbed(m, &w, plan);
    ck_assert_double_le(nmse(plain, exact, count), most[m->type]);
    ck_assert_double_le(nmse(absorbed, exact, count), most[m->type]);
    ck_assert_double_le(nmse(absorbed, plain, count), most[m->type]);
    free(exact), free(plain), free(absorbed);
    release(&w);
}

// Decode, and prefill.
START_TEST(forms_agree) {
    mla m = {.batch = 2,
             .heads = 24,
             .n_kv = 70,
             .latent = 32,
             .rope = 8,
             .nope = 16,
             .value = 16,
             .causal = true};
    for (int n = 0; n < 4; n++) {
        clattn_plan plan;
        m.n_q = n < 3 ? 3 : 20;
        m.type = (clattn_type)(n % 3);
        agree(&m, &plan);
    }
}
END_TEST

// DeepSeek-V3's widths, with 16 of its 128 heads.
START_TEST(real_sizes) {
    clattn_plan plan;
    const mla m = {
        .batch = 1, .heads = 16, .n_q = 1, .n_kv = 33, .latent = 512, .rope = 64, .nope = 128, .value = 128};
    agree(&m, &plan);
    // The plan of a kernel that reads a latent once for many heads says that values are a part of
    // keys.
    if (strcmp(plan.kernel_name, "decode_rows") == 0)
        ck_assert_msg(strstr(plan.why, "keys and values") != NULL, "%s", plan.why);
}
END_TEST

int main(void) {
    const TTest *const forms[] = {forms_agree, real_sizes, NULL};
    Suite *suite = suite_create("mla");
    harness_add(suite, "forms", forms);
    return harness_run(suite);
}
