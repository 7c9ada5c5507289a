// reference.c: attention and merge in double precision, one row at a time. Leaves out rotary embedding,
// linear and layer (reference_layer.c). Called by the case runner and by suites that need a figure of their
// own.
#include "evidence/reference.h"

#include "evidence/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One row of one head, its position and how many keys it could see.
struct row {
    int64_t b, h, i, p, kv_length;
};

double *reference_alloc(int64_t count) {
    double *data = calloc((size_t)(count > 0 ? count : 1), sizeof *data);
    if (data == NULL) {
        fprintf(stderr, "no memory for %lld doubles\n", (long long)count);
        exit(EXIT_FAILURE);
    }
    return data;
}

static int64_t kv_length(const struct reference *r, int64_t b) {
    return r->options->score.kv_lengths != NULL ? r->options->score.kv_lengths[b] : r->n_kv;
}

static int64_t q_length(const struct reference *r, int64_t b) {
    return r->options->score.q_lengths != NULL ? r->options->score.q_lengths[b] : r->n_q;
}

int64_t reference_shift(const struct reference *r, int64_t b) {
    const clattn_attention_params *options = r->options;
    if (options->score.alignment == CLATTN_ALIGN_BOTTOM_RIGHT) return kv_length(r, b) - q_length(r, b);
    if (options->score.alignment != CLATTN_ALIGN_OFFSET) return 0;
    return options->score.offsets != NULL ? options->score.offsets[b] : options->score.offset;
}

static double mapped(const double *map, const int64_t *stride, const struct row *at, int64_t j) {
    return map[at->b * stride[0] + at->h * stride[1] + at->i * stride[2] + j * stride[3]];
}

static bool sees(const struct reference *r, const struct row *at, int64_t j) {
    const clattn_attention_params *options = r->options;
    if (j >= at->kv_length) return false;
    if (options->score.causal && j > at->p) return false;
    if (options->score.window && options->score.window_left >= 0 && j < at->p - options->score.window_left)
        return false;
    if (options->score.window && options->score.window_right >= 0 && j > at->p + options->score.window_right)
        return false;
    return r->mask == NULL || mapped(r->mask, r->mask_stride, at, j) != 0;
}

static void raw_scores(const struct reference *r, const struct row *at, double *s) {
    int64_t head_kv = at->h / (r->heads / r->kv_heads);
    const double *q = r->q + ((at->b * r->heads + at->h) * r->n_q + at->i) * r->head_dim;
    const double *k = r->k + (at->b * r->kv_heads + head_kv) * r->n_kv * r->head_dim;
    double scale =
        r->options->score.scale != 0 ? (double)r->options->score.scale : 1.0 / sqrt((double)r->head_dim);
    for (int64_t j = 0; j < r->n_kv; j++) {
        double dot = 0;
        for (int64_t d = 0; d < r->head_dim; d++) dot += q[d] * k[j * r->head_dim + d];
        s[j] = scale * dot;
    }
}

static void mask_scores(const struct reference *r, const struct row *at, double *s) {
    for (int64_t j = 0; j < r->n_kv; j++) {
        if (r->bias != NULL) s[j] += mapped(r->bias, r->bias_stride, at, j);
        if (r->options->score.alibi_slopes != NULL)
            s[j] -= (double)r->options->score.alibi_slopes[at->h] * fabs((double)(at->p - j));
        if (!sees(r, at, j)) s[j] = -(double)INFINITY;
    }
}

// Scores to probabilities in place; returns the log-sum-exp. A row that sees nothing gets zeros.
static double softmax(const struct reference *r, const struct row *at, double *s) {
    double none = -(double)INFINITY, m = none, l = 0;
    if (r->options->score.sinks != NULL) m = (double)r->options->score.sinks[at->h];
    for (int64_t j = 0; j < r->n_kv; j++) m = isnan(s[j]) || s[j] > m ? s[j] : m;
    if (r->options->score.sinks != NULL) l = exp((double)r->options->score.sinks[at->h] - m);
    for (int64_t j = 0; j < r->n_kv; j++) l += s[j] == none ? 0 : exp(s[j] - m);
    for (int64_t j = 0; j < r->n_kv; j++) s[j] = s[j] == none ? 0 : exp(s[j] - m) / l;
    return m == none ? none : m + log(l);
}

static void keep(const struct reference *r, const struct row *at, double *tap, const double *s) {
    if (tap == NULL) return;
    memcpy(tap + ((at->b * r->heads + at->h) * r->n_q + at->i) * r->n_kv, s, (size_t)r->n_kv * sizeof *s);
}

// A tap before the mask may hold anything for keys past the length.
static void keep_early(const struct reference *r, const struct row *at, double *tap, const double *s) {
    keep(r, at, tap, s);
    if (tap == NULL) return;
    double *row = tap + ((at->b * r->heads + at->h) * r->n_q + at->i) * r->n_kv;
    for (int64_t j = at->kv_length; j < r->n_kv; j++) row[j] = REFERENCE_ANY;
}

// Selection, not multiplication: a value whose key is hidden is not even read.
static void weigh_values(const struct reference *r, const struct row *at, const double *s, const double *p,
                         double *out) {
    const double *v =
        r->v + (at->b * r->kv_heads + at->h / (r->heads / r->kv_heads)) * r->n_kv * r->head_dim_v;
    for (int64_t d = 0; d < r->head_dim_v; d++) {
        double sum = 0;
        for (int64_t j = 0; j < r->n_kv; j++) {
            double weight = r->plain == CLATTN_TYPE_F32 ? p[j] : storage_round(r->plain, p[j]);
            if (s[j] != -(double)INFINITY) sum += weight * v[j * r->head_dim_v + d];
        }
        out[d] = r->plain == CLATTN_TYPE_F32 ? sum : storage_round(r->plain, sum);
    }
}

static void attend(const struct reference *r, const struct row *at, double *s,
                   const struct reference_result *to) {
    double *p = s + r->n_kv;
    int64_t row = (at->b * r->heads + at->h) * r->n_q + at->i;
    raw_scores(r, at, s);
    keep_early(r, at, to->tap[CLATTN_TAP_RAW], s);
    double cap = (double)r->options->score.softcap;
    for (int64_t j = 0; cap > 0 && j < r->n_kv; j++) s[j] = cap * tanh(s[j] / cap);
    keep_early(r, at, to->tap[CLATTN_TAP_SOFTCAP], s);
    mask_scores(r, at, s);
    keep(r, at, to->tap[CLATTN_TAP_MASKED], s);
    memcpy(p, s, (size_t)r->n_kv * sizeof *p);
    double lse = softmax(r, at, p);
    keep(r, at, to->tap[CLATTN_TAP_SOFTMAX], p);
    if (to->lse != NULL) to->lse[row] = lse;
    if (to->out != NULL) weigh_values(r, at, s, p, to->out + row * r->head_dim_v);
}

static void leave_row(const struct reference *r, const struct row *at, const struct reference_result *to) {
    int64_t row = (at->b * r->heads + at->h) * r->n_q + at->i;
    for (int64_t d = 0; to->out != NULL && d < r->head_dim_v; d++)
        to->out[row * r->head_dim_v + d] = REFERENCE_UNTOUCHED;
    if (to->lse != NULL) to->lse[row] = REFERENCE_UNTOUCHED;
    for (int tap = 0; tap < CLATTN_TAP_COUNT; tap++)
        for (int64_t j = 0; to->tap[tap] != NULL && j < r->n_kv; j++)
            to->tap[tap][row * r->n_kv + j] = REFERENCE_UNTOUCHED;
}

// A copy of q or k with every head turned, so that one score loop serves both.
static double *turned(const struct reference *r, bool keys) {
    int64_t heads = keys ? r->kv_heads : r->heads, n = keys ? r->n_kv : r->n_q, d = r->head_dim;
    int64_t count = r->batch * heads * n * d;
    double *copy = reference_alloc(count);
    memcpy(copy, keys ? r->k : r->q, (size_t)count * sizeof *copy);
    for (int64_t bh = 0; bh < r->batch * heads; bh++) {
        int64_t first = r->options->rope.position + (keys ? 0 : reference_shift(r, bh / heads));
        reference_rope(&r->options->rope, copy + bh * n * d, n, d, first);
    }
    for (int64_t c = 0; r->plain != CLATTN_TYPE_F32 && c < count; c++)
        copy[c] = storage_round(r->plain, copy[c]);
    return copy;
}

void reference_attention(const struct reference *problem, const struct reference_result *result) {
    struct reference r = *problem;
    double *q = NULL, *k = NULL, *scores = reference_alloc(2 * r.n_kv);
    if (r.options->rope.layout != CLATTN_ROPE_NONE) {
        r.q = q = turned(problem, false);
        r.k = k = turned(problem, true);
    }
    for (int64_t n = 0; n < r.batch * r.heads * r.n_q; n++) {
        struct row at = {.b = n / r.n_q / r.heads, .h = n / r.n_q % r.heads, .i = n % r.n_q};
        at.p = at.i + reference_shift(&r, at.b);
        at.kv_length = kv_length(&r, at.b);
        if (at.i < q_length(&r, at.b))
            attend(&r, &at, scores, result);
        else
            leave_row(&r, &at, result);
    }
    free(scores);
    free(q);
    free(k);
}

void reference_merge(double *out_a, double *lse_a, const double *out_b, const double *lse_b, int64_t rows,
                     int64_t head_dim_v) {
    for (int64_t row = 0; row < rows; row++) {
        double a = lse_a[row], b = lse_b[row], m = fmax(a, b);
        if (b == -(double)INFINITY) continue;
        double lse = m + log(exp(a - m) + exp(b - m)), wa = exp(a - lse), wb = exp(b - lse);
        for (int64_t d = row * head_dim_v; d < (row + 1) * head_dim_v; d++)
            out_a[d] = (wa == 0 ? 0 : wa * out_a[d]) + wb * out_b[d];
        lse_a[row] = lse;
    }
}
