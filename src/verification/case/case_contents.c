// case_contents.c: hostile contents of the tensors of a case (enum case_contents).
#include <math.h>
#include <stdlib.h>

#include "verification/case/case_data.h"
#include "verification/case/case_problem.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"

static void fill(double *x, int64_t count, double value) {
    for (int64_t n = 0; n < count; n++) x[n] = value;
}

// Fill row n of [heads, rows, size] in every head.
static void fill_rows(double *x, const int64_t sizes[3], int64_t n, double value) {
    for (int64_t h = 0; h < sizes[0]; h++) fill(x + (h * sizes[1] + n) * sizes[2], sizes[2], value);
}

// Fill key j of an item, or its value, in every head.
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

// Set dout and dlse of query row i of an item to NaN in every head.
static void hide_row(struct case_data *data, int64_t b, int64_t i) {
    const struct test_case *t = &data->test;
    const int64_t out[] = {t->heads, t->n_q, t->head_dim_v}, lse[] = {t->heads, t->n_q, 1};
    if (data->dout != NULL) fill_rows(data->dout + b * out[0] * out[1] * out[2], out, i, (double)NAN);
    if (data->dlse != NULL) fill_rows(data->dlse + b * lse[0] * lse[1], lse, i, (double)NAN);
}

// Set q, k and v past the lengths to NaN. Unused past rows and pages contain NaN in every case.
static void hide_nan(struct case_data *data) {
    const struct test_case *t = &data->test;
    const int32_t *q_lengths = t->score.q_lengths, *kv_lengths = t->score.kv_lengths;
    const int64_t q[] = {t->heads, t->n_q, t->head_dim};
    for (int64_t b = 0; b < t->batch; b++) {
        for (int64_t i = q_lengths != NULL ? q_lengths[b] : t->n_q; i >= 0 && i < t->n_q; i++)
            fill_rows(data->q + b * q[0] * q[1] * q[2], q, i, (double)NAN), hide_row(data, b, i);
        if (case_has_places(t)) continue;
        for (int64_t j = kv_lengths != NULL ? kv_lengths[b] : t->n_kv; j >= 0 && j < t->n_kv; j++) {
            fill_key(data, false, b, j, (double)NAN);
            fill_key(data, true, b, j, (double)NAN);
        }
    }
}

// Visible elements: keys of a key/value head, elements of the bias, and query rows that see a key
// in some head.
struct seen {
    struct reference r;
    double *keys, *bias, *rows; // [B, Hkv, Nkv], the bias's shape, [B, Nq]; 0: invisible
};

static void see_row(const struct seen *s, int64_t number) {
    const struct reference *r = &s->r;
    const struct reference_row at = reference_row_of(r, number);
    const int64_t *step = r->bias_stride, head = at.b * r->kv_heads + at.h / (r->heads / r->kv_heads);
    if (r->score->q_lengths != NULL && at.i >= r->score->q_lengths[at.b]) return;
    for (int64_t j = 0; j < r->n_kv; j++) {
        if (!reference_sees(r, &at, j)) continue;
        s->keys[head * r->n_kv + j] = 1, s->rows[at.b * r->n_q + at.i] = 1;
        if (s->bias != NULL) s->bias[at.b * step[0] + at.h * step[1] + at.i * step[2] + j * step[3]] = 1;
    }
}

// Set invisible rows of k or v to NaN. Items may share a row, which is hidden only if none of them
// sees it.
static void hide_rows(struct case_data *data, const double *seen, bool of_value) {
    const struct test_case *t = &data->test;
    const int64_t size = of_value ? t->head_dim_v : t->head_dim;
    const int tensors[] = {of_value ? CASE_V : CASE_K, of_value ? CASE_PAST_V : CASE_PAST_K};
    for (int n = 0; n < 2; n++) {
        const struct guarded_shape shape = case_shape(t, tensors[n]);
        double *x = data->input[tensors[n]];
        const int64_t count = x != NULL ? guarded_shape_numbers(&shape) : 0;
        double *kept = reference_alloc(count);
        for (int64_t i = 0; i < count; i++) kept[i] = x[i], x[i] = (double)NAN;
        for (int64_t key = 0; key < t->batch * t->kv_heads * t->n_kv; key++) {
            const int64_t head = key / t->n_kv;
            double *row = case_kv_row(data, of_value, head / t->kv_heads, head % t->kv_heads, key % t->n_kv);
            if (seen[key] == 0 || row == NULL || row < x || row >= x + count) continue;
            for (int64_t d = 0; d < size; d++) row[d] = kept[row - x + d];
        }
        free(kept);
    }
}

static void hide_unseen(struct case_data *data) {
    const struct test_case *t = &data->test;
    const struct guarded_shape bias = case_shape(t, CASE_BIAS);
    const int64_t keys = t->batch * t->kv_heads * t->n_kv, biases = guarded_shape_count(&bias);
    struct seen seen = {.r = case_problem(data, CLATTN_TYPE_F32, NULL), .keys = reference_alloc(keys)};
    seen.bias = data->bias != NULL ? reference_alloc(biases) : NULL;
    seen.rows = reference_alloc(t->batch * t->n_q);
    for (int64_t row = 0; row < t->batch * t->heads * t->n_q; row++) see_row(&seen, row);
    for (int of_value = 0; of_value < 2; of_value++) hide_rows(data, seen.keys, of_value);
    for (int64_t n = 0; seen.bias != NULL && n < biases; n++)
        if (seen.bias[n] == 0) data->bias[n] = (double)NAN;
    // With sinks, a row that sees no key still has a gradient.
    for (int64_t n = 0; t->score.sinks == NULL && n < t->batch * t->n_q; n++)
        if (seen.rows[n] == 0) hide_row(data, n / t->n_q, n % t->n_q);
    free(seen.keys), free(seen.bias), free(seen.rows);
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
