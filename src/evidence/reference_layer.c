// reference_layer.c: rotary embedding, linear and the whole layer in double precision. Leaves out attention
// itself (reference.c). Called by reference.c for the turn, and by the layer suites.
#include "evidence/reference.h"

#include "evidence/storage.h"

#include <math.h>
#include <stdlib.h>

static double kept(clattn_type plain, double x) {
    return plain == CLATTN_TYPE_F32 ? x : storage_round(plain, x);
}

void reference_rope(const clattn_rope *rope, double *rows, int64_t n, int64_t head_dim, int64_t first) {
    int64_t width = rope->rotary_dim != 0 ? rope->rotary_dim : head_dim, half = width / 2;
    double base = rope->base != 0 ? rope->base : 10000.0, factor = 1;
    if (rope->scaling == CLATTN_ROPE_SCALING_LINEAR) factor = rope->factor;
    if (rope->scaling == CLATTN_ROPE_SCALING_NTK)
        base *= pow(rope->factor, (double)width / (double)(width - 2));
    for (int64_t c = 0; c < n * half; c++) {
        int64_t r = c / half, d = c % half;
        double angle = (double)(first + r) / factor * pow(base, -2.0 * (double)d / (double)width);
        double *x = rows + r * head_dim + (rope->layout == CLATTN_ROPE_HALF ? d : 2 * d);
        double *y = rows + r * head_dim + (rope->layout == CLATTN_ROPE_HALF ? d + half : 2 * d + 1);
        double x0 = *x, y0 = *y;
        *x = x0 * cos(angle) - y0 * sin(angle);
        *y = x0 * sin(angle) + y0 * cos(angle);
    }
}

void reference_linear(const struct reference_linear *p, double *y) {
    for (int64_t c = 0; c < p->rows * p->out; c++) {
        const double *x = p->x + c / p->out * p->in, *w = p->w + c % p->out * p->in;
        double sum = p->b != NULL ? p->b[c % p->out] : 0;
        for (int64_t m = 0; m < p->in; m++) sum += x[m] * w[m];
        y[c] = kept(p->plain, sum);
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

// One projection of x into heads [B, heads, N, size].
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
    linear.rows = a->batch * a->n_kv;
    linear.in = l->y != NULL ? l->width_y : l->width;
    linear.out = a->kv_heads * size;
    return project(&linear, &shape);
}

// What a row past its query length holds after the output projection is nobody's business.
static void forget_rows(const struct reference_layer *l, double *out) {
    const struct reference *a = &l->attention;
    for (int64_t row = 0; a->options->score.q_lengths != NULL && row < a->batch * a->n_q; row++) {
        if (row % a->n_q < a->options->score.q_lengths[row / a->n_q]) continue;
        for (int64_t m = 0; m < l->width_out; m++) out[row * l->width_out + m] = REFERENCE_ANY;
    }
}

void reference_layer(const struct reference_layer *l, const struct reference_result *result) {
    struct reference_result inner = *result;
    struct reference a = l->attention;
    struct reheading q_shape = {a.batch, a.heads, a.n_q, a.head_dim, false};
    struct reference_linear q_linear = {.x = l->x, .w = l->wq, .b = l->bq, .plain = a.plain};
    q_linear.rows = a.batch * a.n_q;
    q_linear.in = l->width;
    q_linear.out = a.heads * a.head_dim;
    double *q = project(&q_linear, &q_shape);
    double *k = project_kv(l, l->wk, l->bk, a.head_dim), *v = project_kv(l, l->wv, l->bv, a.head_dim_v);
    double *heads = reference_alloc(a.batch * a.heads * a.n_q * a.head_dim_v);
    a.q = q;
    a.k = k;
    a.v = v;
    inner.out = heads;
    reference_attention(&a, &inner);
    struct reheading back = {a.batch, a.heads, a.n_q, a.head_dim_v, true};
    double *rows = rehead(&back, heads);
    struct reference_linear o_linear = {rows,         l->wo,  l->bo, a.batch * a.n_q, a.heads * a.head_dim_v,
                                        l->width_out, a.plain};
    reference_linear(&o_linear, result->out);
    forget_rows(l, result->out);
    free(q);
    free(k);
    free(v);
    free(heads);
    free(rows);
}
