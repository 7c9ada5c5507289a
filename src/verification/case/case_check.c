// case_check.c: see case_check.h.
#include "verification/case/case_check.h"

#include <math.h>
#include <stdio.h>

#include "verification/device/budget.h"
#include "verification/case/case_gradients.h"
#include "verification/case/case_layer.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

#define MOST_ROWS 64

#define MOST_WORK 5e8 // multiply-adds on the host, about half a second

#define WHOLE_WORK 2e8 // limit for a reference of all rows; 16-bit types compute it twice

static void linear_reference(const struct case_data *data, clattn_type plain,
                             const struct case_sample *sample, double *out) {
    const struct test_case *t = &data->test;
    struct reference_linear problem = {
        .x = data->x, .w = data->matrix[LAYER_Q], .b = data->matrix_bias[LAYER_Q], .plain = plain};
    problem.rows = sample != NULL ? sample->count : t->batch * t->n_q;
    problem.in = t->width;
    problem.out = case_matrix_rows(t, LAYER_Q);
    problem.sample = sample != NULL ? sample->rows : NULL;
    problem.x_period = GUARDED_PERIOD, problem.w_period = GUARDED_PERIOD_OF(t->matrix_type);
    reference_linear(&problem, out);
}

static int64_t out_width(const struct test_case *t) {
    const struct guarded_shape out = case_shape(t, CASE_OUT);
    return out.shape[out.rank - 1];
}

// The number of result rows: of [B, H, Nq], or of [B, Nq] if the case projects.
static int64_t all_rows(const struct test_case *t) {
    return t->batch * t->n_q * (case_projects(t) ? 1 : t->heads);
}

struct case_result case_reference(const struct case_data *data, clattn_type plain,
                                  const struct case_sample *sample) {
    const struct test_case *t = &data->test;
    const int64_t rows = sample != NULL ? sample->count : all_rows(t),
                  maps = sample != NULL ? rows : t->batch * t->heads * t->n_q;
    struct case_result result = {.status = CLATTN_OK, .intact = true};
    struct reference_result to = {.out = reference_alloc(rows * out_width(t))};
    const struct reference r = case_problem(data, plain, sample);
    result.out = to.out;
    if (t->op == CASE_LINEAR) {
        linear_reference(data, plain, sample, to.out);
        return result;
    }
    to.lse = result.lse = reference_alloc(maps);
    if (t->weights || t->scores || sample == NULL)
        to.tap[CLATTN_TAP_SOFTMAX] = result.weights = reference_alloc(maps * t->n_kv);
    if (t->scores_at != CLATTN_TAP_SOFTMAX && (t->scores || sample == NULL))
        to.tap[t->scores_at] = result.scores = reference_alloc(maps * t->n_kv);
    if (t->op != CASE_LAYER) {
        reference_attention(&r, &to);
        return result;
    }
    double *const *w = data->matrix, *const *b = data->matrix_bias;
    struct reference_layer layer = {
        .width = t->width, .width_y = case_layer_width_y(t), .width_out = t->width_out};
    layer.x = data->x, layer.y = data->y;
    layer.wq = w[0], layer.wk = w[1], layer.wv = w[2], layer.wo = w[3];
    layer.bq = b[0], layer.bk = b[1], layer.bv = b[2], layer.bo = b[3];
    layer.attention = r;
    case_layer_reference(data, &layer);
    reference_layer(&layer, &to);
    return result;
}

// A hidden key must have a weight of exactly 0.
static bool zeros_are_zeros(const struct budget *b, char *why, size_t size) {
    for (int64_t n = 0; n < b->count; n++) {
        if (b->ref[n] != 0 || b->got[n] == 0) continue;
        snprintf(why, size, "%s[%lld] is %.9g, must be exactly 0", b->what, (long long)n, b->got[n]);
        return false;
    }
    return true;
}

// The norm of the longest row of q or k. In a table that repeats, a row may begin anywhere, so the
// result is a bound.
static double longest_row(const double *x, int64_t count, int64_t size) {
    double longest = 0, largest = 0;
    const bool repeats = count > GUARDED_PERIOD;
    for (int64_t n = 0; !repeats && n + size <= count; n += size) {
        double squares = 0;
        for (int64_t d = 0; d < size; d++) squares += x[n + d] * x[n + d];
        longest = fmax(longest, squares); // ignores a row with a NaN
    }
    for (int64_t n = 0; repeats && n < GUARDED_PERIOD; n++) largest = fmax(largest, fabs(x[n]));
    return repeats ? largest * sqrt((double)size) : sqrt(longest);
}

// The norm of the longest key. Past keys are stored with RoPE applied, so this bound is wider than
// necessary.
static double longest_key(const struct case_data *data) {
    const struct guarded_shape k = case_shape(&data->test, CASE_K),
                               past = case_shape(&data->test, CASE_PAST_K);
    const double longest = longest_row(data->k, guarded_shape_numbers(&k), data->test.head_dim);
    if (past.rank == 0) return longest;
    return fmax(longest, longest_row(data->past_k, guarded_shape_numbers(&past), data->test.head_dim));
}

// How much rounding of RoPE'd q and k may change a weight. A number's relative error is at most its
// type's roundoff, u_q or u_k. By Cauchy and Schwarz, a score's error is at most
//    e = scale * |q| |k| (u_q + u_k + u_q u_k).
// A weight's logit then moves by at most 2 e, and the weight by at most tanh(e / 2).
static double weights_moved(const struct case_data *data) {
    const struct test_case *t = &data->test;
    const bool turns = t->rope.layout != CLATTN_ROPE_NONE;
    if ((!turns && !t->k_rotation) || case_projects(t)) return 0;
    const double u_q = storage_roundoff(t->q_type), u_k = turns ? storage_roundoff(t->kv_type) : 0;
    const float *const scales = t->score.head_scales;
    double scale = t->score.scale != 0.0f ? fabs((double)t->score.scale) : 1 / sqrt((double)t->head_dim);
    for (int64_t h = 0; scales && h < t->heads; h++) scale = fmax(h ? scale : 0, fabs((double)scales[h]));
    const double q = longest_row(data->q, t->batch * t->heads * t->n_q * t->head_dim, t->head_dim),
                 k = longest_key(data);
    return tanh(scale * q * k * (u_q + u_k + u_q * u_k) / 2);
}

// Returns the largest error of a weight: twice its own rounding, plus the effect of the rounding of
// its score.
static double weights_limit(const struct case_data *data) {
    const struct test_case *t = &data->test;
    if (t->weights_type == CLATTN_TYPE_F32) return 0;
    return 2 * storage_roundoff(t->weights_type) + weights_moved(data);
}

static bool scores_agree(const struct case_data *data, const struct case_result *got,
                         const struct case_result *ref, int64_t rows, char *why, size_t size) {
    const struct test_case *t = &data->test;
    clattn_type type = case_score_type(t), weights_type = storage_coarser(type, t->weights_type);
    struct budget lse = {.what = "lse", .type = type, .got = got->lse, .ref = ref->lse, .count = rows};
    struct budget weights = {
        .what = "weights", .type = weights_type, .got = got->weights, .ref = ref->weights};
    struct budget scores = {.what = "scores", .type = type, .got = got->scores, .ref = ref->scores};
    weights.count = scores.count = rows * t->n_kv;
    weights.max_error = weights_limit(data);
    if (t->scores_at == CLATTN_TAP_SOFTMAX) scores.ref = ref->weights;
    if (got->lse != NULL && !budget_holds(&lse, why, size)) return false;
    if (got->scores != NULL && !budget_holds(&scores, why, size)) return false;
    if (got->weights == NULL) return true;
    return budget_holds(&weights, why, size) && (t->op == CASE_LAYER || zeros_are_zeros(&weights, why, size));
}

// With a whole reference, the plain computation also bounds single errors of 16-bit types.
static bool agrees(const struct case_data *data, const struct case_result *got,
                   const struct case_sample *sample, double *nmse, char *why, size_t size) {
    const struct test_case *t = &data->test;
    const clattn_type type = case_budget_type(t);
    const int64_t rows = sample != NULL ? sample->count : all_rows(t);
    if (t->op == CASE_BACKWARD) return case_gradients_agree(data, got, sample, nmse, why, size);
    struct case_result ref = case_reference(data, CLATTN_TYPE_F32, sample), plain = {0};
    if (type != CLATTN_TYPE_F32 && sample == NULL) plain = case_reference(data, type, NULL);
    struct budget out = {.what = "out", .type = type, .got = got->out, .ref = ref.out, .plain = plain.out};
    out.count = rows * out_width(t);
    *nmse = budget_nmse(&out);
    const bool good =
        budget_holds(&out, why, size) &&
        (t->op == CASE_LINEAR ||
         scores_agree(data, got, &ref, sample != NULL ? rows : t->batch * t->heads * t->n_q, why, size));
    case_result_free(&ref);
    case_result_free(&plain);
    return good;
}

bool case_agrees(const struct case_data *data, const struct case_result *got, char *why, size_t size) {
    double nmse;
    if (got->status == CLATTN_OK && got->intact) return agrees(data, got, NULL, &nmse, why, size);
    snprintf(why, size, "%s: %s", clattn_status_name(got->status),
             got->status != CLATTN_OK ? got->message : "bytes around an output changed, or an input");
    return false;
}

// Multiply-adds of one row.
static double row_work(const struct test_case *t) {
    const double head = (double)t->n_kv * (double)(t->head_dim + t->head_dim_v), m = (double)t->width;
    if (t->op == CASE_LINEAR) return m * (double)out_width(t);
    if (t->op == CASE_BACKWARD) return 4 * head; // six products, which also compute error sizes
    if (t->op != CASE_LAYER) return head;
    return (double)t->heads * m *
           (2.0 * (double)t->n_kv + 2.0 * (double)t->head_dim + 2.0 * (double)t->head_dim_v);
}

static double whole_work(const struct test_case *t) {
    const double rows = (double)t->batch * (double)t->n_q, m = (double)t->width;
    if (t->op != CASE_LAYER) return (double)all_rows(t) * row_work(t);
    return rows * (double)t->heads * (double)(t->head_dim + t->head_dim_v) * ((double)t->n_kv + 2 * m) +
           (double)t->batch * (double)t->n_kv * m * (double)t->kv_heads *
               (double)(t->head_dim + t->head_dim_v);
}

// Pick some of `all` rows, each of `work` operations. The last row is always picked, because tiles
// often fail at tails.
static int64_t pick(int64_t all, double work, int64_t rows[MOST_ROWS]) {
    const double affordable = MOST_WORK / work;
    const int64_t count = affordable < 1.0 ? 1 : affordable > MOST_ROWS ? MOST_ROWS : (int64_t)affordable;
    struct random random = {1};
    for (int64_t n = 0; n < count; n++)
        rows[n] = n == 0 ? all - 1 : (int64_t)random_uniform(&random, 0, (double)all);
    return count;
}

// Pick rows, and for a backward also keys. A key's gradient needs all rows of its heads.
static void pick_sample(const struct test_case *t, int64_t rows[MOST_ROWS], int64_t keys[MOST_ROWS],
                        struct case_sample *sample) {
    const double of_key = row_work(t) / (double)t->n_kv * (double)t->n_q * (double)(t->heads / t->kv_heads);
    *sample = (struct case_sample){.count = pick(all_rows(t), row_work(t), rows), .rows = rows};
    if (t->op != CASE_BACKWARD) return;
    sample->key_count = pick(t->batch * t->kv_heads * t->n_kv, of_key, keys);
    sample->keys = keys;
}

// A layer with RoPE or norms is always computed whole: the sampled reference does not project K.
static bool is_small(const struct test_case *t) {
    const double times = case_budget_type(t) == CLATTN_TYPE_F32 ? 1 : 2;
    return whole_work(t) * times <= WHOLE_WORK || t->ragged || case_layer_is_whole(t);
}

void case_judge(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                struct case_verdict *verdict) {
    int64_t rows[MOST_ROWS], keys[MOST_ROWS];
    struct case_sample sample;
    const struct case_sample *some = is_small(&data->test) ? NULL : &sample;
    if (some != NULL) pick_sample(&data->test, rows, keys, &sample);
    struct case_result got = case_collect(arrays, queue, some);
    *verdict = (struct case_verdict){.nmse = (double)INFINITY};
    if (arrays->out.place->error[0] != '\0')
        snprintf(verdict->why, sizeof verdict->why, "%s", arrays->out.place->error);
    else if (!got.intact)
        snprintf(verdict->why, sizeof verdict->why, "bytes around an output changed, or an input");
    else
        verdict->good = agrees(data, &got, some, &verdict->nmse, verdict->why, sizeof verdict->why);
    case_result_free(&got);
}
