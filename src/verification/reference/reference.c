// reference.c: attention and merge in double precision, one row at a time. reference_rope.c has
// RoPE, reference_layer.c linear and layer. Used by the case runner and by suites that compute
// their own expected values.
#include "verification/reference/reference.h"

#include "verification/device/allocate.h"
#include "verification/reference/random.h"
#include "verification/reference/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The keys of the last head, with the Hadamard transform undone and RoPE applied, and room for a
// row of q.
struct roped_keys {
    int64_t head;
    double *k, *q;
};

double *reference_alloc(int64_t count) {
    return evidence_zeros(count > 0 ? (size_t)count : 0, sizeof(double));
}

static int64_t kv_length(const struct reference *r, int64_t b) {
    return r->score->kv_lengths != NULL ? r->score->kv_lengths[b] : reference_kv_most(r, b);
}

static int64_t q_length(const struct reference *r, int64_t b) {
    return r->score->q_lengths != NULL ? r->score->q_lengths[b] : r->n_q;
}

static int64_t past_length(const struct reference_places *p, int64_t b) {
    return p->past_lengths ? p->past_lengths[b] : p->past;
}

int64_t reference_kv_most(const struct reference *r, int64_t b) {
    return r->places.past_k ? past_length(&r->places, b) + r->places.rows : r->n_kv;
}

bool reference_was_roped(const struct reference *r, int64_t b, int64_t j) {
    return (r->places.page_size > 0 && r->places.turned_pages) ||
           (r->places.past_k && j < past_length(&r->places, b));
}

int64_t reference_new_row(const struct reference *r, int64_t b, int64_t j) {
    return r->places.past_k ? j - past_length(&r->places, b) : j;
}

const double *reference_kv_row(const struct reference *r, bool value, int64_t b, int64_t h, int64_t j) {
    const struct reference_places *p = &r->places;
    const int64_t size = !value ? r->head_dim : r->v_row ? r->v_row : r->head_dim_v;
    const double *x = value ? r->v : r->k;
    int64_t item = b, rows = r->n_kv;
    if (p->page_size > 0) {
        item = p->block_table[b * (r->n_kv / p->page_size) + j / p->page_size];
        j %= p->page_size, rows = p->page_size;
        if (item < 0) return NULL;
    } else if (p->past_k && j < past_length(p, b)) {
        x = value ? p->past_v : p->past_k;
        item = p->past_batch == 1 ? 0 : b, rows = p->past;
    } else if (p->past_k) {
        j -= past_length(p, b), rows = p->rows;
        if (j >= rows) return NULL;
    }
    const int64_t first = ((item * r->kv_heads + h) * rows + j) * size;
    return x + (r->kv_period[value] != 0 ? first % r->kv_period[value] : first);
}

int64_t reference_shift(const struct reference *r, int64_t b) {
    const clattn_score *score = r->score;
    if (score->alignment == CLATTN_ALIGN_BOTTOM_RIGHT) return kv_length(r, b) - q_length(r, b);
    if (score->alignment != CLATTN_ALIGN_OFFSET) return 0;
    return score->offsets != NULL ? score->offsets[b] : score->offset;
}

static const double *values_at(const struct reference *r, const double *x, int64_t first) {
    return x + (r->period != 0 ? first % r->period : first);
}

static double mapped(const struct reference *r, const double *map, const int64_t *stride,
                     const struct reference_row *at, int64_t j) {
    const int64_t n = at->b * stride[0] + at->h * stride[1] + at->i * stride[2] + j * stride[3];
    return map[r->map_period != 0 ? n % r->map_period : n];
}

bool reference_sees(const struct reference *r, const struct reference_row *at, int64_t j) {
    const clattn_score *score = r->score;
    if (j >= at->kv_length) return false;
    if (score->causal && j > at->p) return false;
    if (score->window && score->window_left >= 0 && j < at->p - score->window_left) return false;
    if (score->window && score->window_right >= 0 && j > at->p + score->window_right) return false;
    return r->mask == NULL || mapped(r, r->mask, r->mask_stride, at, j) != 0;
}

double reference_dot(const double *a, const double *b, int64_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0}; // four chains hide the latency of additions
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

// The position of a row of q (of = 0) or k (of = 1).
struct roped_row {
    int of;
    int64_t b, n, counted;
};

static bool has_rope(const struct reference *r) {
    return r->rope != NULL && r->rope->layout != CLATTN_ROPE_NONE;
}

// True if the keys in the product differ from the stored keys.
static bool changes(const struct reference *r) {
    return has_rope(r) || r->rotation[0] != 0;
}

// Round a row of q, or a row with RoPE applied, to the storage type of the plain computation. The
// row is rounded in the basis of the stored keys (Hadamard-transformed or not).
static void round_stored(const struct reference *r, double *row) {
    if (r->plain == CLATTN_TYPE_F32) return;
    reference_hadamard(row, r->head_dim, r->rotation[0]);
    for (int64_t d = 0; d < r->head_dim; d++) row[d] = storage_round(r->plain, row[d]);
    reference_hadamard(row, r->head_dim, r->rotation[0]);
}

// Copy a row of q or k and apply RoPE at its position.
static void turned(const struct reference *r, const double *row, const struct roped_row *at, double *copy) {
    const double *given = r->positions[at->of],
                 counted = has_rope(r) ? (double)(r->rope->position + at->counted) : 0;
    const int64_t rows = !at->of ? r->n_q : r->places.past_k ? r->places.rows : r->n_kv;
    double position[3] = {counted, counted, counted};
    for (int axis = 0; given != NULL && axis < (reference_has_sections(r->rope) ? 3 : 1); axis++)
        position[axis] = given[(axis * r->batch + at->b) * rows + at->n];
    if (copy != row) memcpy(copy, row, (size_t)r->head_dim * sizeof *copy);
    if (has_rope(r)) reference_rope(r->rope, copy, r->head_dim, position);
    if (changes(r)) round_stored(r, copy);
}

// The keys of one head with RoPE applied, computed once for consecutive rows that share the head.
static const double *roped_keys(const struct reference *r, int64_t head, struct roped_keys *kept) {
    const int64_t b = head / r->kv_heads, h = head % r->kv_heads;
    if (!changes(r)) return NULL;
    for (int64_t j = 0; head != kept->head && j < r->n_kv; j++) {
        const double *k = reference_kv_row(r, false, b, h, j);
        double *to = kept->k + j * r->head_dim;
        if (k == NULL) continue;
        memcpy(to, k, (size_t)r->head_dim * sizeof *to);
        reference_hadamard(to, r->head_dim, r->rotation[0]);
        if (has_rope(r) && !reference_was_roped(r, b, j))
            turned(r, to, &(struct roped_row){1, b, reference_new_row(r, b, j), j}, to);
    }
    kept->head = head;
    return kept->k;
}

// The factor of the scores of head h.
double reference_scale(const struct reference *r, int64_t h) {
    if (r->score->head_scales != NULL) return (double)r->score->head_scales[h];
    return r->score->scale != 0 ? (double)r->score->scale : 1.0 / sqrt((double)r->head_dim);
}

static void raw_scores(const struct reference *r, const struct reference_row *at, struct roped_keys *kept,
                       double *s) {
    const int64_t head = at->b * r->kv_heads + at->h / (r->heads / r->kv_heads), d = r->head_dim;
    const double *q = values_at(r, r->q, ((at->b * r->heads + at->h) * r->n_q + at->i) * d);
    const double *keys = roped_keys(r, head, kept);
    const double scale = reference_scale(r, at->h);
    turned(r, q, &(struct roped_row){0, at->b, at->i, at->p}, kept->q);
    for (int64_t j = 0; j < r->n_kv; j++) {
        const double *k = keys != NULL
                              ? keys + j * d
                              : reference_kv_row(r, false, at->b, at->h / (r->heads / r->kv_heads), j);
        s[j] = k != NULL ? scale * reference_dot(kept->q, k, d) : 0;
    }
}

double reference_added(const struct reference *r, const struct reference_row *at, int64_t j, double *size) {
    const double bias = r->bias == NULL ? 0 : mapped(r, r->bias, r->bias_stride, at, j);
    const double slope = r->score->alibi_slopes == NULL ? 0 : (double)r->score->alibi_slopes[at->h];
    const double far = slope * fabs((double)(at->p - j));
    if (size != NULL) *size += fabs(bias) + fabs(far);
    return bias - far;
}

static void mask_scores(const struct reference *r, const struct reference_row *at, double *s) {
    for (int64_t j = 0; j < r->n_kv; j++) {
        s[j] += reference_added(r, at, j, NULL);
        if (!reference_sees(r, at, j)) s[j] = -(double)INFINITY;
    }
}

// Convert scores to probabilities in place, and return the log-sum-exp. A row without visible keys
// becomes zeros.
static double softmax(const struct reference *r, const struct reference_row *at, double *s) {
    double none = -(double)INFINITY, m = none, l = 0;
    if (r->score->sinks != NULL) m = (double)r->score->sinks[at->h];
    for (int64_t j = 0; j < r->n_kv; j++) m = isnan(s[j]) || s[j] > m ? s[j] : m;
    if (r->score->sinks != NULL) l = exp((double)r->score->sinks[at->h] - m);
    for (int64_t j = 0; j < r->n_kv; j++) l += s[j] == none ? 0 : exp(s[j] - m);
    for (int64_t j = 0; j < r->n_kv; j++) s[j] = s[j] == none ? 0 : exp(s[j] - m) / l;
    return m == none ? none : m + log(l);
}

static void keep(const struct reference *r, const struct reference_row *at, double *tap, const double *s) {
    if (tap == NULL) return;
    memcpy(tap + at->at * r->n_kv, s, (size_t)r->n_kv * sizeof *s);
}

// A tap before the mask may contain anything for keys past the length.
static void keep_early(const struct reference *r, const struct reference_row *at, double *tap,
                       const double *s) {
    keep(r, at, tap, s);
    if (tap == NULL) return;
    for (int64_t j = at->kv_length; j < r->n_kv; j++) tap[at->at * r->n_kv + j] = REFERENCE_ANY;
}

double reference_dropout(const struct reference *r, const struct reference_row *at, int64_t j) {
    return philox_factor(r->score->dropout, r->score->dropout_seed, at->b, at->h, at->i, j);
}

// Values of hidden keys are skipped, not multiplied by 0. A dropped value is multiplied by 0.
static void weigh_values(const struct reference *r, const struct reference_row *at, const double *s,
                         const double *p, double *out) {
    for (int64_t d = 0; d < r->head_dim_v; d++) out[d] = 0;
    for (int64_t j = 0; j < r->n_kv; j++) {
        const double *v = reference_kv_row(r, true, at->b, at->h / (r->heads / r->kv_heads), j);
        const double kept = p[j] * reference_dropout(r, at, j),
                     weight = r->plain == CLATTN_TYPE_F32 ? kept : storage_round(r->plain, kept);
        if (s[j] == -(double)INFINITY) continue;
        for (int64_t d = 0; d < r->head_dim_v; d++) out[d] += weight * v[d];
    }
    // Round once, and again if the values' Hadamard transform is undone after rounding.
    for (int turn = 0; turn < (r->rotation[1] != 0 ? 2 : 1); turn++) {
        if (turn) reference_hadamard(out, r->head_dim_v, r->rotation[1]);
        for (int64_t d = 0; r->plain != CLATTN_TYPE_F32 && d < r->head_dim_v; d++)
            out[d] = storage_round(r->plain, out[d]);
    }
}

double reference_finish(const struct reference *r, const struct reference_row *at, double *s, double *p,
                        const struct reference_result *to) {
    keep_early(r, at, to->tap[CLATTN_TAP_RAW], s);
    double cap = (double)r->score->softcap;
    for (int64_t j = 0; cap > 0 && j < r->n_kv; j++) s[j] = cap * tanh(s[j] / cap);
    keep_early(r, at, to->tap[CLATTN_TAP_SOFTCAP], s);
    mask_scores(r, at, s);
    keep(r, at, to->tap[CLATTN_TAP_MASKED], s);
    memcpy(p, s, (size_t)r->n_kv * sizeof *p);
    double lse = softmax(r, at, p);
    keep(r, at, to->tap[CLATTN_TAP_SOFTMAX], p);
    if (to->lse != NULL) to->lse[at->at] = lse;
    return lse;
}

static void leave_row(const struct reference *r, const struct reference_row *at,
                      const struct reference_result *to) {
    const int64_t row = at->at;
    for (int64_t d = 0; to->out != NULL && d < r->head_dim_v; d++)
        to->out[row * r->head_dim_v + d] = REFERENCE_UNTOUCHED;
    if (to->lse != NULL) to->lse[row] = REFERENCE_UNTOUCHED;
    for (int tap = 0; tap < CLATTN_TAP_COUNT; tap++)
        for (int64_t j = 0; to->tap[tap] != NULL && j < r->n_kv; j++)
            to->tap[tap][row * r->n_kv + j] = REFERENCE_UNTOUCHED;
}

struct reference_row reference_row_of(const struct reference *r, int64_t number) {
    struct reference_row at = {
        .b = number / r->n_q / r->heads, .h = number / r->n_q % r->heads, .i = number % r->n_q};
    at.p = at.i + reference_shift(r, at.b);
    at.kv_length = kv_length(r, at.b);
    return at;
}

void reference_attention(const struct reference *r, const struct reference_result *result) {
    const int64_t count = r->rows != NULL ? r->row_count : r->batch * r->heads * r->n_q;
    struct roped_keys kept = {.head = -1, .q = reference_alloc(r->head_dim)};
    double *scores = reference_alloc(2 * r->n_kv), *p = scores + r->n_kv;
    kept.k = reference_alloc(changes(r) ? r->n_kv * r->head_dim : 0);
    for (int64_t n = 0; n < count; n++) {
        struct reference_row at = reference_row_of(r, r->rows != NULL ? r->rows[n] : n);
        at.at = n;
        if (at.i >= q_length(r, at.b)) {
            leave_row(r, &at, result);
            continue;
        }
        raw_scores(r, &at, &kept, scores);
        reference_finish(r, &at, scores, p, result);
        if (result->out != NULL) weigh_values(r, &at, scores, p, result->out + n * r->head_dim_v);
    }
    free(scores);
    free(kept.q);
    free(kept.k);
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
