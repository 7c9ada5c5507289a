// case_contents.c: see case_contents.h.
#include "evidence/case_contents.h"

#include <math.h>

static void fill(double *x, int64_t count, double value) {
    for (int64_t n = 0; n < count; n++) x[n] = value;
}

// Row n of [heads, rows, size] in every head.
static void fill_rows(double *x, const int64_t sizes[3], int64_t n, double value) {
    for (int64_t h = 0; h < sizes[0]; h++) fill(x + (h * sizes[1] + n) * sizes[2], sizes[2], value);
}

static void hide_nan(struct case_data *data) {
    const struct test_case *t = &data->test;
    const int32_t *q_lengths = t->score.q_lengths, *kv_lengths = t->score.kv_lengths;
    const int64_t q[] = {t->heads, t->n_q, t->head_dim}, k[] = {t->kv_heads, t->n_kv, t->head_dim},
                  v[] = {t->kv_heads, t->n_kv, t->head_dim_v};
    for (int64_t b = 0; b < t->batch; b++) {
        for (int64_t i = q_lengths != NULL ? q_lengths[b] : t->n_q; i >= 0 && i < t->n_q; i++)
            fill_rows(data->q + b * q[0] * q[1] * q[2], q, i, (double)NAN);
        for (int64_t j = kv_lengths != NULL ? kv_lengths[b] : t->n_kv; j >= 0 && j < t->n_kv; j++) {
            fill_rows(data->k + b * k[0] * k[1] * k[2], k, j, (double)NAN);
            if (data->v != NULL) fill_rows(data->v + b * v[0] * v[1] * v[2], v, j, (double)NAN);
        }
    }
}

static void fill_bias(struct case_data *data) {
    const struct guarded_shape shape = case_shape(&data->test, CASE_BIAS);
    const int64_t count = guarded_shape_count(&shape), keys = shape.shape[shape.rank - 1];
    for (int64_t n = 0; n < count; n++)
        if (n / keys % 7 == 2 || n % keys == keys / 3) data->bias[n] = -(double)INFINITY;
}

void case_contents_fill(struct case_data *data) {
    const struct test_case *t = &data->test;
    const int64_t q[] = {t->batch * t->heads, t->n_q, t->head_dim},
                  k[] = {t->batch * t->kv_heads, t->n_kv, t->head_dim}, q_count = q[0] * q[1] * q[2],
                  k_count = k[0] * k[1] * k[2];
    const double sign = t->contents == CASE_HUGE_NEGATIVE ? -1 : 1;
    switch (t->contents) {
    case CASE_HIDDEN_NAN:
        hide_nan(data);
        break;
    case CASE_SEEN_NAN:
        fill_rows(data->k, k, t->n_kv / 4, (double)NAN);
        break;
    case CASE_ROW_NAN:
        fill_rows(data->q, q, t->n_q / 3, (double)NAN);
        break;
    case CASE_HUGE:
    case CASE_HUGE_NEGATIVE:
        fill(data->q, q_count, 1000);
        fill(data->k, k_count, 1000 * sign);
        break;
    case CASE_DOMINANT:
        fill(data->q, q_count, 50);
        for (int64_t j = 0; j < t->n_kv; j++) fill_rows(data->k, k, j, -(double)(j % 64));
        fill_rows(data->k, k, t->n_kv / 2, 50);
        break;
    case CASE_INF_BIAS:
        fill_bias(data);
        break;
    default:
        break;
    }
}
