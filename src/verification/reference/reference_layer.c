// reference_layer.c: linear and the whole layer in double precision. reference.c has attention.
#include "verification/reference/reference.h"

#include "verification/reference/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double kept(clattn_type plain, double x) {
    return plain == CLATTN_TYPE_F32 ? x : storage_round(plain, x);
}

static const double *values_at(const double *x, int64_t period, int64_t first) {
    return x + (period != 0 ? first % period : first);
}

void reference_linear(const struct reference_linear *p, double *y) {
    for (int64_t c = 0; c < p->rows * p->out; c++) {
        const int64_t n = c / p->out, row = p->sample != NULL ? p->sample[n] : n;
        const double *x = values_at(p->x, p->x_period, row * p->in);
        const double *w = values_at(p->w, p->w_period, c % p->out * p->in);
        y[c] = kept(p->plain, reference_dot(x, w, p->in) + (p->b != NULL ? p->b[c % p->out] : 0));
    }
}

// Rows [B, N, heads * size] to heads [B, heads, N, size], or back.
struct reheading {
    int64_t batch, heads, n, size;
    bool back;
};

static double *rehead(const struct reheading *r, const double *from) {
    double *to = reference_alloc(r->batch * r->heads * r->n * r->size);
    for (int64_t c = 0; c < r->batch * r->heads * r->n * r->size; c++) {
        int64_t d = c % r->size, n = c / r->size % r->n, h = c / r->size / r->n % r->heads;
        int64_t b = c / r->size / r->n / r->heads;
        int64_t row = ((b * r->n + n) * r->heads + h) * r->size + d;
        if (r->back)
            to[row] = from[c];
        else
            to[c] = from[row];
    }
    return to;
}

// Project x to heads [B, heads, N, size].
static double *project(const struct reference_linear *linear, const struct reheading *shape) {
    double *rows = reference_alloc(linear->rows * linear->out);
    reference_linear(linear, rows);
    double *heads = rehead(shape, rows);
    free(rows);
    return heads;
}

static double *project_kv(const struct reference_layer *l, const double *w, const double *b, int64_t size) {
    const struct reference *a = &l->attention;
    struct reheading shape = {a->batch, a->kv_heads, a->n_kv, size, false};
    struct reference_linear linear = {.x = l->y != NULL ? l->y : l->x, .w = w, .b = b, .plain = a->plain};
    linear.x_period = a->period, linear.w_period = l->w_period;
    linear.rows = a->batch * a->n_kv;
    linear.in = l->y != NULL ? l->width_y : l->width;
    linear.out = a->kv_heads * size;
    return project(&linear, &shape);
}

// Divide heads [B, heads, N, D] by the root mean square of each head, or of all heads of a row.
static void normalise(const struct reference_layer *l, double *heads, int64_t count, int64_t n,
                      const double *w) {
    const struct reference *a = &l->attention;
    const int64_t size = a->head_dim, shared = l->norm == CLATTN_NORM_WIDTH ? count : 1;
    for (int64_t row = 0; l->norm != CLATTN_NORM_NONE && row < a->batch * n * (count / shared); row++) {
        const int64_t group = row % (count / shared), i = row / (count / shared) % n,
                      b = row / (count / shared) / n;
        double *first = heads + ((b * count + group * shared) * n + i) * size, squares = 0;
        for (int64_t c = 0; c < shared * size; c++) {
            const double x = first[c / size * n * size + c % size];
            squares += x * x;
        }
        const double root = sqrt(squares / (double)(shared * size) + l->norm_epsilon);
        for (int64_t c = 0; c < shared * size; c++) {
            double *x = &first[c / size * n * size + c % size];
            const double weight = w != NULL ? w[c] + (l->norm_plus_one ? 1 : 0) : 1;
            *x = kept(a->plain, *x / root * weight);
        }
    }
}

// Multiply rows [B * Nq, H * Dv] by the sigmoid of their gates.
static void apply_gate(const struct reference_layer *l, double *rows) {
    const struct reference *a = &l->attention;
    const int64_t width = a->heads * a->head_dim_v;
    struct reference_linear gate = {.x = l->x, .w = l->w_gate, .b = l->b_gate, .rows = a->batch * a->n_q};
    if (l->gates == 0) return;
    gate.in = l->width;
    gate.out = l->gates;
    gate.plain = a->plain;
    gate.x_period = a->period, gate.w_period = l->w_period;
    double *gates = reference_alloc(gate.rows * gate.out);
    reference_linear(&gate, gates);
    for (int64_t c = 0; c < gate.rows * width; c++) {
        const double g = gates[c / width * gate.out + c % width / (width / gate.out)];
        rows[c] = kept(a->plain, rows[c] / (1 + exp(-g)));
    }
    free(gates);
}

// Rows past their query length may contain anything after the output projection.
static void forget_rows(const struct reference_layer *l, double *out) {
    const struct reference *a = &l->attention;
    for (int64_t row = 0; a->score->q_lengths != NULL && row < a->batch * a->n_q; row++) {
        if (row % a->n_q < a->score->q_lengths[row / a->n_q]) continue;
        for (int64_t m = 0; m < l->width_out; m++) out[row * l->width_out + m] = REFERENCE_ANY;
    }
}

static void whole_layer(const struct reference_layer *l, const struct reference_result *result) {
    struct reference_result inner = *result;
    struct reference a = l->attention;
    struct reheading q_shape = {a.batch, a.heads, a.n_q, a.head_dim, false};
    struct reference_linear q_linear = {.x = l->x, .w = l->wq, .b = l->bq, .plain = a.plain};
    q_linear.x_period = a.period, q_linear.w_period = l->w_period;
    q_linear.rows = a.batch * a.n_q;
    q_linear.in = l->width;
    q_linear.out = a.heads * a.head_dim;
    double *q = project(&q_linear, &q_shape);
    double *k = project_kv(l, l->wk, l->bk, a.head_dim), *v = project_kv(l, l->wv, l->bv, a.head_dim_v);
    double *heads = reference_alloc(a.batch * a.heads * a.n_q * a.head_dim_v);
    normalise(l, q, a.heads, a.n_q, l->q_norm);
    normalise(l, k, a.kv_heads, a.n_kv, l->k_norm);
    a.q = q;
    a.k = k;
    a.v = v;
    a.period = a.kv_period[0] = a.kv_period[1] = 0;
    a.rows = NULL;
    inner.out = heads;
    reference_attention(&a, &inner);
    struct reheading back = {a.batch, a.heads, a.n_q, a.head_dim_v, true};
    double *rows = rehead(&back, heads);
    apply_gate(l, rows);
    struct reference_linear o_linear = {.x = rows, .w = l->wo, .b = l->bo, .rows = a.batch * a.n_q};
    o_linear.in = a.heads * a.head_dim_v;
    o_linear.out = l->width_out;
    o_linear.plain = a.plain;
    o_linear.w_period = l->w_period;
    reference_linear(&o_linear, result->out);
    forget_rows(l, result->out);
    free(q);
    free(k);
    free(v);
    free(heads);
    free(rows);
}

// Compute one head of row `row` of [B, Nq]. K and V are never projected, because
//    q (Wk y)^T = (q Wk) y^T and p (y Wv^T) = (p y) Wv^T.
// A row then costs a few products with y. `scratch` holds q, q Wk, p y, the scores and the weights.
static void layer_head(const struct reference_layer *l, const struct reference_row *at, double *scratch,
                       double *out) {
    const struct reference *a = &l->attention;
    const int64_t width_y = l->y != NULL ? l->width_y : l->width, group = at->h / (a->heads / a->kv_heads);
    const double *ys = l->y != NULL ? l->y : l->x;
    double *q = scratch, *turned = q + a->head_dim, *seen = turned + width_y, *s = seen + width_y,
           *p = s + a->n_kv, bias = 0, total = 0;
    const double scale = reference_scale(a, at->h);
    const int64_t x_row = at->b * a->n_q + at->i;
    memset(turned, 0, (size_t)(2 * width_y) * sizeof *turned);
    for (int64_t d = 0; d < a->head_dim; d++) {
        const int64_t row = at->h * a->head_dim + d, k_row = group * a->head_dim + d;
        q[d] = reference_dot(values_at(l->x, a->period, x_row * l->width),
                             values_at(l->wq, a->period, row * l->width), l->width) +
               (l->bq != NULL ? l->bq[row] : 0);
        const double *wk = values_at(l->wk, a->period, k_row * width_y);
        for (int64_t m = 0; m < width_y; m++) turned[m] += q[d] * wk[m];
        if (l->bk != NULL) bias += q[d] * l->bk[k_row];
    }
    for (int64_t j = 0; j < a->n_kv; j++)
        s[j] =
            scale * (bias + reference_dot(turned, values_at(ys, a->period, (at->b * a->n_kv + j) * width_y),
                                          width_y));
    reference_finish(a, at, s, p, &(struct reference_result){0});
    for (int64_t j = 0; j < a->n_kv; j++) {
        const double *y = values_at(ys, a->period, (at->b * a->n_kv + j) * width_y);
        if (s[j] == -(double)INFINITY) continue;
        const double weight = p[j] * reference_dropout(a, at, j);
        total += weight;
        for (int64_t m = 0; m < width_y; m++) seen[m] += weight * y[m];
    }
    for (int64_t d = 0; d < a->head_dim_v; d++) {
        const int64_t row = group * a->head_dim_v + d;
        out[d] = reference_dot(seen, values_at(l->wv, a->period, row * width_y), width_y) +
                 (l->bv != NULL ? total * l->bv[row] : 0);
    }
}

static void sampled_layer(const struct reference_layer *l, const struct reference_result *result) {
    const struct reference *a = &l->attention;
    const int64_t width_y = l->y != NULL ? l->width_y : l->width, width = a->heads * a->head_dim_v;
    double *scratch = reference_alloc(a->head_dim + 2 * width_y + 2 * a->n_kv),
           *heads = reference_alloc(width);
    for (int64_t n = 0; n < a->row_count; n++) {
        const int64_t b = a->rows[n] / a->n_q, i = a->rows[n] % a->n_q;
        double *out = result->out + n * l->width_out;
        const bool past = a->score->q_lengths != NULL && i >= a->score->q_lengths[b];
        for (int64_t h = 0; h < a->heads && !past; h++) {
            const struct reference_row at = reference_row_of(a, (b * a->heads + h) * a->n_q + i);
            layer_head(l, &at, scratch, heads + h * a->head_dim_v);
        }
        for (int64_t m = 0; m < l->width_out; m++)
            out[m] = past ? REFERENCE_ANY
                          : reference_dot(heads, values_at(l->wo, a->period, m * width), width) +
                                (l->bo != NULL ? l->bo[m] : 0);
    }
    free(scratch);
    free(heads);
}

void reference_layer(const struct reference_layer *l, const struct reference_result *result) {
    if (l->attention.rows != NULL)
        sampled_layer(l, result);
    else
        whole_layer(l, result);
}

double reference_activation(double x, clattn_activation how) {
    switch (how) {
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case CLATTN_ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case CLATTN_ACTIVATION_GELU_TANH: // 1 + tanh(y) without cancellation
        return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case CLATTN_ACTIVATION_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case CLATTN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CLATTN_ACTIVATION_RELU_SQUARED:
        return x < 0 ? 0 : x * x;
    case CLATTN_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}
