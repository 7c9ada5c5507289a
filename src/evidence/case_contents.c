// case_contents.c: see case_contents.h.
#include "evidence/case_contents.h"

#include <math.h>
#include <stdlib.h>

#include "evidence/case_check.h"

#include "evidence/case_places.h"

static void fill(double *x, int64_t count, double value) {
    for (int64_t n = 0; n < count; n++) x[n] = value;
}

// Row n of [heads, rows, size] in every head.
static void fill_rows(double *x, const int64_t sizes[3], int64_t n, double value) {
    for (int64_t h = 0; h < sizes[0]; h++) fill(x + (h * sizes[1] + n) * sizes[2], sizes[2], value);
}

// Key j of an item, or its value.
static void fill_key(struct case_data *data, bool of_value, int64_t b, int64_t j, double value) {
    const struct test_case *t = &data->test;
    for (int64_t h = 0; h < t->kv_heads; h++) {
        double *row = case_kv_row(data, of_value, b, h, j);
        if (row != NULL) fill(row, of_value ? t->head_dim_v : t->head_dim, value);
    }
}
static void fill_keys(struct case_data *data, int64_t j, double value) {
    for (int64_t b = 0; b < data->test.batch; b++) fill_key(data, false, b, j, value);
}

// Past rows and pages that nobody has hold NaN in any case, and items share the others.
static void hide_nan(struct case_data *data) {
    const struct test_case *t = &data->test;
    const int32_t *q_lengths = t->score.q_lengths, *kv_lengths = t->score.kv_lengths;
    const int64_t q[] = {t->heads, t->n_q, t->head_dim};
    for (int64_t b = 0; b < t->batch; b++) {
        for (int64_t i = q_lengths != NULL ? q_lengths[b] : t->n_q; i >= 0 && i < t->n_q; i++)
            fill_rows(data->q + b * q[0] * q[1] * q[2], q, i, (double)NAN);
        if (case_has_places(t)) continue;
        for (int64_t j = kv_lengths != NULL ? kv_lengths[b] : t->n_kv; j >= 0 && j < t->n_kv; j++) {
            fill_key(data, false, b, j, (double)NAN);
            fill_key(data, true, b, j, (double)NAN);
        }
    }
}

// Which keys of a key/value head some row sees, and which numbers of the bias belong to a pair that is seen.
struct seen {
    struct reference r;
    double *keys, *bias; // [B, Hkv, Nkv], as the bias; 0: nobody
};

static void see_row(const struct seen *s, int64_t number) {
    const struct reference *r = &s->r;
    const struct reference_row at = reference_row_of(r, number);
    const int64_t *step = r->bias_stride, head = at.b * r->kv_heads + at.h / (r->heads / r->kv_heads);
    if (r->score->q_lengths != NULL && at.i >= r->score->q_lengths[at.b]) return;
    for (int64_t j = 0; j < r->n_kv; j++) {
        if (!reference_sees(r, &at, j)) continue;
        s->keys[head * r->n_kv + j] = 1;
        if (s->bias != NULL) s->bias[at.b * step[0] + at.h * step[1] + at.i * step[2] + j * step[3]] = 1;
    }
}

static void hide_unseen(struct case_data *data) {
    const struct test_case *t = &data->test;
    const struct guarded_shape bias = case_shape(t, CASE_BIAS);
    const int64_t keys = t->batch * t->kv_heads * t->n_kv, biases = guarded_shape_count(&bias);
    struct seen seen = {.r = case_problem(data, CLATTN_TYPE_F32, NULL), .keys = reference_alloc(keys)};
    seen.bias = data->bias != NULL ? reference_alloc(biases) : NULL;
    for (int64_t row = 0; row < t->batch * t->heads * t->n_q; row++) see_row(&seen, row);
    for (int64_t n = 0; n < keys; n++) {
        if (seen.keys[n] != 0) continue;
        fill(data->k + n * t->head_dim, t->head_dim, (double)NAN);
        if (!t->latent) fill(data->v + n * t->head_dim_v, t->head_dim_v, (double)NAN);
    }
    for (int64_t n = 0; seen.bias != NULL && n < biases; n++)
        if (seen.bias[n] == 0) data->bias[n] = (double)NAN;
    free(seen.keys);
    free(seen.bias);
    hide_nan(data);
}

static void fill_bias(struct case_data *data) {
    const struct guarded_shape shape = case_shape(&data->test, CASE_BIAS);
    const int64_t count = guarded_shape_count(&shape), keys = shape.shape[shape.rank - 1];
    for (int64_t n = 0; n < count; n++)
        if (n / keys % 7 == 2 || n % keys == keys / 3) data->bias[n] = -(double)INFINITY;
}

void case_contents_fill(struct case_data *data) {
    const struct test_case *t = &data->test;
    const int64_t q[] = {t->batch * t->heads, t->n_q, t->head_dim}, q_count = q[0] * q[1] * q[2];
    const double sign = t->contents == CASE_HUGE_NEGATIVE ? -1 : 1;
    switch (t->contents) {
    case CASE_HIDDEN_NAN:
        hide_nan(data);
        break;
    case CASE_SEEN_NAN:
        fill_keys(data, t->n_kv / 4, (double)NAN);
        break;
    case CASE_ROW_NAN:
        fill_rows(data->q, q, t->n_q / 3, (double)NAN);
        break;
    case CASE_HUGE:
    case CASE_HUGE_NEGATIVE:
        fill(data->q, q_count, 1000);
        for (int64_t j = 0; j < t->n_kv; j++) fill_keys(data, j, 1000 * sign);
        break;
    case CASE_DOMINANT:
        fill(data->q, q_count, 50);
        for (int64_t j = 0; j < t->n_kv; j++) fill_keys(data, j, -(double)(j % 64));
        fill_keys(data, t->n_kv / 2, 50);
        break;
    case CASE_INF_BIAS:
        fill_bias(data);
        break;
    case CASE_UNSEEN_NAN:
        hide_unseen(data);
        break;
    default:
        break;
    }
}
