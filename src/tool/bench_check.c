// check.c: see check.h.
#include "tool/bench_check.h"

#include <math.h>
#include <stdlib.h>

#define MOST_ROWS 64
#define MOST_WORK 5e8 // multiply-adds on the host, about half a second

typedef struct row {
    int64_t b, h, i;
} row;

static double dot(const double *a, const double *b, int64_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0}; // four chains, since one waits for each addition
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void add_scaled(double *sum, double factor, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) sum[i] += factor * x[i];
}

static int64_t visible_keys(const bench_case *c, int64_t i) {
    const int64_t keys = c->causal ? i + 1 + c->n_kv - c->n : c->n_kv;
    return keys < 0 ? 0 : keys;
}

// Scores become attention weights, in place.
static void softmax(double *score, int64_t keys) {
    double most = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < keys; j++) most = fmax(most, score[j]);
    for (int64_t j = 0; j < keys; j++) sum += score[j] = exp(score[j] - most);
    for (int64_t j = 0; j < keys; j++) score[j] /= sum;
}

static void attention_row(const problem *p, const row *r, double *score, double *out) {
    const bench_case *c = &p->c;
    const int64_t keys = visible_keys(c, r->i), head = r->b * c->kv_heads + r->h / (c->heads / c->kv_heads);
    const double *q = problem_input(p, PROBLEM_Q, ((r->b * c->heads + r->h) * c->n + r->i) * c->d);
    for (int64_t j = 0; j < keys; j++)
        score[j] =
            dot(q, problem_input(p, PROBLEM_K, (head * c->n_kv + j) * c->d), c->d) / sqrt((double)c->d);
    softmax(score, keys);
    for (int64_t d = 0; d < c->dv; d++) out[d] = 0.0;
    for (int64_t j = 0; j < keys; j++)
        add_scaled(out, score[j], problem_input(p, PROBLEM_V, (head * c->n_kv + j) * c->dv), c->dv);
}

// One head of a layer's row. K and V are never projected: q (Wk y)^T = (q Wk) y^T and p (y Wv^T) = (p y)
// Wv^T, which makes a row's cost that of a few products with y.
static void layer_head(const problem *p, const row *r, double *scratch, double *out) {
    const bench_case *c = &p->c;
    const int64_t m = c->model, keys = visible_keys(c, r->i), kv = r->h / (c->heads / c->kv_heads);
    const int y = c->n_kv == c->n ? PROBLEM_X : PROBLEM_Y;
    const double *x = problem_input(p, PROBLEM_X, (r->b * c->n + r->i) * m);
    double *turned = scratch, *seen = scratch + m, *score = scratch + 2 * m;
    for (int64_t k = 0; k < m; k++) turned[k] = seen[k] = 0.0;
    for (int64_t d = 0; d < c->d; d++)
        add_scaled(turned, dot(x, problem_input(p, PROBLEM_WQ, (r->h * c->d + d) * m), m),
                   problem_input(p, PROBLEM_WK, (kv * c->d + d) * m), m);
    for (int64_t j = 0; j < keys; j++)
        score[j] = dot(turned, problem_input(p, y, (r->b * c->n_kv + j) * m), m) / sqrt((double)c->d);
    softmax(score, keys);
    for (int64_t j = 0; j < keys; j++)
        add_scaled(seen, score[j], problem_input(p, y, (r->b * c->n_kv + j) * m), m);
    for (int64_t d = 0; d < c->dv; d++)
        out[d] = dot(seen, problem_input(p, PROBLEM_WV, (kv * c->dv + d) * m), m);
}

// All heads' rows of one position, then the output projection.
static void layer_row(const problem *p, const row *r, double *scratch, double *out) {
    const bench_case *c = &p->c;
    const int64_t width = c->heads * c->dv;
    double *heads = scratch + 2 * c->model + c->n_kv;
    row one = *r;
    for (one.h = 0; one.h < c->heads; one.h++) layer_head(p, &one, scratch, heads + one.h * c->dv);
    for (int64_t k = 0; k < c->model; k++)
        out[k] = dot(heads, problem_input(p, PROBLEM_WO, k * width), width);
}

static void linear_row(const problem *p, const row *r, double *out) {
    const bench_case *c = &p->c;
    const double *x = problem_input(p, PROBLEM_X, (r->b * c->n + r->i) * c->model);
    for (int64_t k = 0; k < c->heads * c->d; k++)
        out[k] = dot(x, problem_input(p, PROBLEM_WQ, k * c->model), c->model);
}

// A layer and a linear give rows of a position, attention gives rows of a head's position.
static bool has_heads(const bench_case *c) {
    return c->op == BENCH_ATTEND || c->op == BENCH_DECODE;
}

static int64_t row_width(const bench_case *c) {
    return c->op == BENCH_LAYER ? c->model : c->op == BENCH_LINEAR ? c->heads * c->d : c->dv;
}

// Multiply-adds of one sampled row.
static double row_work(const bench_case *c) {
    const double head = (double)c->n_kv * (double)(c->d + c->dv), m = (double)c->model;
    if (c->op == BENCH_LINEAR) return m * (double)row_width(c);
    if (c->op != BENCH_LAYER) return head;
    return (double)c->heads * m * (2.0 * (double)c->n_kv + 2.0 * (double)c->d + 2.0 * (double)c->dv);
}

static int64_t pick(uint64_t *state, int64_t count) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)count);
}

// The very last row is always one of them: tails are where tiles go wrong.
static row sample(const bench_case *c, int number, uint64_t *state) {
    if (number == 0) return (row){c->b - 1, has_heads(c) ? c->heads - 1 : 0, c->n - 1};
    const row r = {pick(state, c->b), pick(state, c->heads), pick(state, c->n)};
    return has_heads(c) ? r : (row){r.b, 0, r.i};
}

// Adds one row's error and size to sums[2]; false: it could not be read.
static bool add_row(problem *p, const row *r, double *memory, double sums[2]) {
    const bench_case *c = &p->c;
    const int64_t width = row_width(c);
    const int64_t at = has_heads(c) ? (r->b * c->heads + r->h) * c->n + r->i : r->b * c->n + r->i;
    double *exact = memory, *got = memory + width, *scratch = memory + 2 * width;
    if (!problem_output(p, at * width, width, got)) return false;
    if (c->op == BENCH_LAYER)
        layer_row(p, r, scratch, exact);
    else if (c->op == BENCH_LINEAR)
        linear_row(p, r, exact);
    else
        attention_row(p, r, scratch, exact);
    for (int64_t k = 0; k < width; k++) {
        sums[0] += (got[k] - exact[k]) * (got[k] - exact[k]);
        sums[1] += exact[k] * exact[k];
    }
    return true;
}

double bench_check_nmse(problem *p) {
    const bench_case *c = &p->c;
    const double affordable = MOST_WORK / row_work(c);
    const int rows = affordable < 1.0 ? 1 : affordable > MOST_ROWS ? MOST_ROWS : (int)affordable;
    const int64_t width = row_width(c);
    double *memory = malloc((size_t)(2 * width + 2 * c->model + c->n_kv + c->heads * c->dv) * sizeof *memory);
    double sums[2] = {0.0, 0.0};
    uint64_t state = 1;
    bool ok = memory != NULL;
    for (int i = 0; i < rows && ok; i++) {
        const row r = sample(c, i, &state);
        ok = add_row(p, &r, memory, sums);
    }
    free(memory);
    if (!ok) return -1.0;
    if (isnan(sums[0])) return (double)INFINITY;
    return sums[1] > 0.0 ? sums[0] / sums[1] : sums[0];
}

double bench_check_budget(clattn_type type) {
    return type == CLATTN_TYPE_F32 ? 1e-11 : type == CLATTN_TYPE_F16 ? 1e-6 : 5e-5;
}
