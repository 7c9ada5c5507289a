// model.c: see model.h.
#include "evidence/model.h"

static double visible_pairs(const bench_case *c) {
    double pairs = 0.0;
    if (!c->causal) return (double)c->n * (double)c->n_kv;
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t keys = i + 1 + c->n_kv - c->n;
        if (keys > 0) pairs += (double)keys;
    }
    return pairs;
}

// Elements of the weight matrices that are applied to x, and to the key side.
static double row_weights(const bench_case *c) {
    return (double)c->model * (double)c->heads * (double)(c->d + c->dv);
}

static double key_weights(const bench_case *c) {
    return (double)c->model * (double)c->kv_heads * (double)(c->d + c->dv);
}

// Columns of a linear: the query projection of a layer with the case's heads.
static double columns(const bench_case *c) {
    return (double)c->heads * (double)c->d;
}

double bench_model_flops(const bench_case *c) {
    const double b = (double)c->b;
    if (c->op == BENCH_LINEAR) return 2.0 * b * (double)c->n * (double)c->model * columns(c);
    const double attention = 2.0 * b * (double)c->heads * visible_pairs(c) * (double)(c->d + c->dv);
    const double projections = 2.0 * b * ((double)c->n * row_weights(c) + (double)c->n_kv * key_weights(c));
    return c->op == BENCH_LAYER ? attention + projections : attention;
}

double bench_model_bytes(const bench_case *c) {
    const double b = (double)c->b, size = (double)clattn_type_size(c->dtype), width = (double)(c->d + c->dv);
    if (c->op == BENCH_LAYER) {
        const double rows = 2.0 * (double)c->n + (c->n_kv == c->n ? 0.0 : (double)c->n_kv);
        return size * (b * rows * (double)c->model + row_weights(c) + key_weights(c));
    }
    if (c->op == BENCH_LINEAR) {
        const double rows = b * (double)c->n, inner = (double)c->model;
        return size * (rows * inner + inner * columns(c) + rows * columns(c));
    }
    return size * b * width * ((double)c->heads * (double)c->n + (double)c->kv_heads * (double)c->n_kv);
}
