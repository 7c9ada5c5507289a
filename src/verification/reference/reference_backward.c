// reference_backward.c: see reference_backward.h. Rows are processed one by one: each pair of a row
// and a visible key adds to all gradients. Hidden pairs are skipped, not multiplied by 0.
#include "verification/reference/reference_backward.h"

#include "verification/reference/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct backward {
    const struct reference_backward *problem;
    const struct reference *r;
    struct reference_gradients to;
    double *q, *k;      // the row of q and the keys of a head, with RoPE applied
    int64_t turned;     // the head whose keys are in k
    const double *dout; // row of dout; the fields below also belong to this row
    double lse, delta, delta_size;
};

// One pair of a row and a visible key. `p` is its weight after dropout, `dot` the product of the
// RoPE'd rows. Sizes are explained at struct reference_gradients.
struct pair {
    double p, ds, dt, dot;
    double p_size, ds_size, dt_size, dot_size;
};

static bool turns(const struct reference *r) {
    return r->rope != NULL && r->rope->layout != CLATTN_ROPE_NONE;
}

static double kept(const struct reference *r, double x) {
    return r->plain == CLATTN_TYPE_F32 ? x : storage_round(r->plain, x);
}

// The positions of row n of q (of = 0) or k (of = 1).
static void place_of(const struct reference *r, int of, int64_t b, int64_t n, double position[3]) {
    const int64_t rows = of == 0 ? r->n_q : r->n_kv, shift = of == 0 ? reference_shift(r, b) : 0;
    const double *given = r->positions[of];
    for (int axis = 0; axis < 3; axis++) {
        const int64_t from = reference_has_sections(r->rope) ? axis : 0;
        position[axis] =
            given != NULL ? given[(from * r->batch + b) * rows + n] : (double)(r->rope->position + shift + n);
    }
}

static void turn(const struct reference *r, int of, int64_t b, int64_t n, double *row) {
    double position[3];
    if (!turns(r)) return;
    place_of(r, of, b, n, position);
    reference_rope(r->rope, row, r->head_dim, position);
    for (int64_t d = 0; d < r->head_dim; d++) row[d] = kept(r, row[d]);
}

// Apply the transpose of RoPE: rotate by the negative angle, with the same amplitude.
static void turn_back(const struct reference *r, int of, int64_t b, int64_t n, double *row) {
    double position[3];
    place_of(r, of, b, n, position);
    for (int axis = 0; axis < 3; axis++) position[axis] = -position[axis];
    reference_rope(r->rope, row, r->head_dim, position);
}

// Propagate sizes through RoPE: each number of a pair may have the errors of both.
static void turn_size(const struct reference *r, double *size) {
    const int64_t width = r->rope->rotary_dim != 0 ? r->rope->rotary_dim : r->head_dim, half = width / 2;
    const bool halves = r->rope->layout == CLATTN_ROPE_HALF;
    // applies only the amplitude
    reference_rope(r->rope, size, r->head_dim, (const double[3]){0, 0, 0});
    for (int64_t d = 0; d < half; d++) {
        double *x = size + (halves ? d : 2 * d), *y = size + (halves ? d + half : 2 * d + 1);
        *x = *y = *x + *y;
    }
}

static double size_dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs(a[i] * b[i]);
    return sum;
}

static const double *values_at(const struct reference *r, const double *x, int64_t first) {
    return x + (r->period != 0 ? first % r->period : first);
}

static int64_t kv_head(const struct reference *r, const struct reference_row *at) {
    return at->h / (r->heads / r->kv_heads);
}

// The index of a pair's bias.
static int64_t bias_of(const struct reference *r, const struct reference_row *at, int64_t j) {
    return at->b * r->bias_stride[0] + at->h * r->bias_stride[1] + at->i * r->bias_stride[2] +
           j * r->bias_stride[3];
}

static void turn_keys(struct backward *w, const struct reference_row *at) {
    const struct reference *r = w->r;
    const int64_t head = at->b * r->kv_heads + kv_head(r, at);
    if (w->turned == head) return;
    for (int64_t j = 0; j < r->n_kv; j++) {
        const double *k = reference_kv_row(r, false, at->b, kv_head(r, at), j);
        memcpy(w->k + j * r->head_dim, k, (size_t)r->head_dim * sizeof *k);
        turn(r, 1, at->b, j, w->k + j * r->head_dim);
    }
    w->turned = head;
}

// Compute the values that a row has for all its keys. False: the row has no gradient.
static bool begin_row(struct backward *w, const struct reference_row *at) {
    const struct reference *r = w->r;
    const int64_t row = (at->b * r->heads + at->h) * r->n_q + at->i, dv = r->head_dim_v;
    const double *q = values_at(r, r->q, row * r->head_dim), *out = w->problem->out + row * dv,
                 dlse = w->problem->dlse != NULL ? w->problem->dlse[row] : 0;
    if (r->score->q_lengths != NULL && at->i >= r->score->q_lengths[at->b]) return false;
    w->lse = w->problem->lse[row];
    if (w->lse == -(double)INFINITY) return false;
    w->dout = values_at(r, w->problem->dout, row * dv);
    w->delta = reference_dot(w->dout, out, dv) - dlse;
    w->delta_size = size_dot(w->dout, out, dv) + fabs(dlse);
    memcpy(w->q, q, (size_t)r->head_dim * sizeof *q);
    turn(r, 0, at->b, at->i, w->q);
    turn_keys(w, at);
    return true;
}

// The gradients of a pair with score s. The exponential converts the score's error to a relative
// error, and the derivative of tanh adds its own rounding.
static void weigh_pair(const struct backward *w, const struct reference_row *at, int64_t j, double s,
                       double s_size, double capped, struct pair *pair) {
    const struct reference *r = w->r;
    const double *v = reference_kv_row(r, true, at->b, kv_head(r, at), j);
    const double p = exp(s - w->lse), z = reference_dropout(r, at, j), slope = 1 - capped * capped;
    pair->p = z * p;
    pair->ds = p * (z * reference_dot(w->dout, v, r->head_dim_v) - w->delta);
    pair->dt = pair->ds * slope;
    pair->p_size = z * p * (1 + s_size);
    pair->ds_size = p * (z * size_dot(w->dout, v, r->head_dim_v) + w->delta_size) + fabs(pair->ds) * s_size;
    pair->dt_size = pair->ds_size * slope + 2 * fabs(pair->ds) * fabs(capped);
    pair->p = kept(r, pair->p), pair->ds = kept(r, pair->ds), pair->dt = kept(r, pair->dt);
}

// Compute a pair. False: the row does not see the key.
static bool make_pair(const struct backward *w, const struct reference_row *at, int64_t j,
                      struct pair *pair) {
    const struct reference *r = w->r;
    const double *k = w->k + j * r->head_dim, cap = (double)r->score->softcap,
                 scale = reference_scale(r, at->h);
    double capped = 0;
    if (!reference_sees(r, at, j)) return false;
    pair->dot = reference_dot(w->q, k, r->head_dim);
    pair->dot_size = size_dot(w->q, k, r->head_dim);
    double s = scale * pair->dot;
    if (cap > 0) capped = tanh(s / cap), s = cap * capped;
    double size = fabs(scale) * pair->dot_size + fabs(w->lse);
    s += reference_added(r, at, j, &size);
    if (s == -(double)INFINITY) return false;
    weigh_pair(w, at, j, s, size, capped, pair);
    return true;
}

static void add(const struct backward *w, int gradient, int64_t n, double x, double size) {
    if (w->to.x[gradient] != NULL) w->to.x[gradient][n] += x;
    if (w->to.size[gradient] != NULL) w->to.size[gradient][n] += fabs(size);
}

// Add x[width] times a factor to a row of the result.
static void add_row(const struct backward *w, int gradient, int64_t row, const double *x, double factor,
                    double size) {
    const int64_t width = gradient == GRADIENT_V ? w->r->head_dim_v : w->r->head_dim;
    for (int64_t d = 0; d < width; d++) add(w, gradient, row * width + d, factor * x[d], size * x[d]);
}

// Add to row n of dk and dv.
static void add_key(const struct backward *w, const struct reference_row *at, int64_t n,
                    const struct pair *pair) {
    const double scale = reference_scale(w->r, at->h);
    add_row(w, GRADIENT_K, n, w->q, scale * pair->dt, scale * pair->dt_size);
    add_row(w, GRADIENT_V, n, w->dout, pair->p, pair->p_size);
}

static void add_sums(const struct backward *w, const struct reference_row *at, int64_t j,
                     const struct pair *pair) {
    const double far = fabs((double)(at->p - j));
    if (w->r->bias != NULL) add(w, GRADIENT_BIAS, bias_of(w->r, at, j), pair->ds, pair->ds_size);
    if (w->r->score->alibi_slopes != NULL)
        add(w, GRADIENT_SLOPES, at->h, -pair->ds * far, pair->ds_size * far);
    if (w->r->score->head_scales != NULL)
        add(w, GRADIENT_SCALES, at->h, pair->dt * pair->dot,
            pair->dt_size * fabs(pair->dot) + fabs(pair->dt) * pair->dot_size);
}

static void add_sink(const struct backward *w, const struct reference_row *at) {
    if (w->r->score->sinks == NULL) return;
    const double sink = (double)w->r->score->sinks[at->h], p = exp(sink - w->lse);
    add(w, GRADIENT_SINKS, at->h, -p * w->delta,
        p * (w->delta_size + fabs(w->delta) * (fabs(sink) + fabs(w->lse))));
}

// Process row `number`; its dq is row n of the result. `whole`: also add to all other gradients.
static void run_row(struct backward *w, int64_t number, int64_t n, bool whole) {
    const struct reference *r = w->r;
    const struct reference_row at = reference_row_of(r, number);
    const double scale = reference_scale(r, at.h);
    struct pair pair;
    if (!begin_row(w, &at)) return;
    if (whole) add_sink(w, &at);
    for (int64_t j = 0; j < r->n_kv; j++) {
        if (!make_pair(w, &at, j, &pair)) continue;
        add_row(w, GRADIENT_Q, n, w->k + j * r->head_dim, scale * pair.dt, scale * pair.dt_size);
        if (!whole) continue;
        add_key(w, &at, (at.b * r->kv_heads + kv_head(r, &at)) * r->n_kv + j, &pair);
        add_sums(w, &at, j, &pair);
    }
}

// Add a row's share to the requested keys.
static void run_keys(struct backward *w, int64_t number) {
    const struct reference_backward *problem = w->problem;
    const struct reference *r = w->r;
    const struct reference_row at = reference_row_of(r, number);
    const int64_t head = at.b * r->kv_heads + kv_head(r, &at);
    bool begun = false;
    struct pair pair;
    for (int64_t n = 0; n < problem->key_count; n++) {
        if (problem->keys[n] / r->n_kv != head) continue;
        if (!begun && !begin_row(w, &at)) return;
        begun = true;
        if (make_pair(w, &at, problem->keys[n] % r->n_kv, &pair)) add_key(w, &at, n, &pair);
    }
}

// Round, undo RoPE, and round again.
static void finish(const struct backward *w, int gradient, const int64_t *rows, int64_t count) {
    const struct reference *r = w->r;
    const bool of_keys = gradient != GRADIENT_Q;
    const int64_t width = gradient == GRADIENT_V ? r->head_dim_v : r->head_dim,
                  of_item = of_keys ? r->kv_heads * r->n_kv : r->heads * r->n_q;
    for (int64_t n = 0; n < count; n++) {
        const int64_t number = rows != NULL ? rows[n] : n;
        double *x = w->to.x[gradient] != NULL ? w->to.x[gradient] + n * width : NULL,
               *size = w->to.size[gradient] != NULL ? w->to.size[gradient] + n * width : NULL;
        for (int64_t d = 0; x != NULL && d < width; d++) x[d] = kept(r, x[d]);
        if (!turns(r) || gradient == GRADIENT_V) continue;
        if (x != NULL) turn_back(r, of_keys, number / of_item, number % (of_keys ? r->n_kv : r->n_q), x);
        if (size != NULL) turn_size(r, size);
        for (int64_t d = 0; x != NULL && d < width; d++) x[d] = kept(r, x[d]);
    }
}

int64_t reference_gradient_count(const struct reference *r, int gradient) {
    const int64_t sizes[4] = {r->batch, r->heads, r->n_q, r->n_kv};
    int64_t biases = r->bias != NULL;
    for (int axis = 0; axis < 4; axis++) biases *= r->bias_stride[axis] != 0 ? sizes[axis] : 1;
    const int64_t counts[GRADIENTS] = {r->batch * r->heads * r->n_q * r->head_dim,
                                       r->batch * r->kv_heads * r->n_kv * r->head_dim,
                                       r->batch * r->kv_heads * r->n_kv * r->head_dim_v,
                                       biases,
                                       r->heads,
                                       r->heads,
                                       r->heads};
    return counts[gradient];
}

void reference_backward(const struct reference_backward *problem, const struct reference_gradients *to) {
    const struct reference *r = &problem->forward;
    const int64_t all = r->batch * r->heads * r->n_q, keys = r->batch * r->kv_heads * r->n_kv,
                  rows = r->rows != NULL ? r->row_count : all,
                  of_keys = problem->keys != NULL ? problem->key_count : keys;
    const bool whole = r->rows == NULL && problem->keys == NULL;
    struct backward w = {.problem = problem, .r = r, .to = *to, .turned = -1};
    w.q = reference_alloc(r->head_dim);
    w.k = reference_alloc(r->n_kv * r->head_dim);
    for (int g = 0; g < GRADIENTS; g++) {
        const int64_t count = g == GRADIENT_Q   ? rows * r->head_dim
                              : g == GRADIENT_K ? of_keys * r->head_dim
                              : g == GRADIENT_V ? of_keys * r->head_dim_v
                                                : reference_gradient_count(r, g);
        for (int64_t n = 0; n < count; n++) {
            if (to->x[g] != NULL) to->x[g][n] = 0;
            if (to->size[g] != NULL) to->size[g][n] = 0;
        }
    }
    for (int64_t n = 0; n < rows; n++) run_row(&w, r->rows != NULL ? r->rows[n] : n, n, whole);
    for (int64_t n = 0; problem->keys != NULL && n < all; n++) run_keys(&w, n);
    finish(&w, GRADIENT_Q, r->rows, rows);
    finish(&w, GRADIENT_K, problem->keys, of_keys);
    finish(&w, GRADIENT_V, problem->keys, of_keys);
    free(w.q);
    free(w.k);
}
