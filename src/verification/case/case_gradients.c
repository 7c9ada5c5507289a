// case_gradients.c: see case_gradients.h.
#include "verification/case/case_gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verification/device/budget.h"
#include "verification/reference/storage.h"

static const char *const names[GRADIENTS] = {"dq",          "dk", "dv", "dbias", "dsinks", "dalibi_slopes",
                                             "dhead_scales"};

// The reference's gradients with their error sizes, and the plain computation's gradients.
struct judged {
    const struct case_data *data;
    const struct case_result *got;
    const struct case_sample *sample;
    clattn_type type; // storage type that the plain computation rounds to
    struct reference_gradients right, plain;
};

static int64_t count_of(const struct judged *j, int gradient) {
    const struct test_case *t = &j->data->test;
    const struct guarded_shape shape = case_shape(t, CASE_GRADIENT + gradient);
    if (j->got->gradient[gradient] == NULL) return 0;
    if (j->sample == NULL) return guarded_shape_count(&shape);
    return gradient == GRADIENT_Q
               ? j->sample->count * t->head_dim
               : j->sample->key_count * (gradient == GRADIENT_K ? t->head_dim : t->head_dim_v);
}

static void free_all(double *const x[GRADIENTS]) {
    for (int g = 0; g < GRADIENTS; g++) free(x[g]);
}

static void compute(const struct judged *j, clattn_type plain, bool sizes, struct reference_gradients *to) {
    struct reference_backward problem = {.forward = case_problem(j->data, plain, j->sample),
                                         .out = j->got->out,
                                         .lse = j->got->lse,
                                         .dout = j->data->dout,
                                         .dlse = j->data->dlse};
    if (j->sample != NULL) problem.keys = j->sample->keys, problem.key_count = j->sample->key_count;
    *to = (struct reference_gradients){0};
    for (int g = 0; g < GRADIENTS; g++) {
        if (j->got->gradient[g] == NULL) continue;
        to->x[g] = reference_alloc(count_of(j, g));
        if (sizes) to->size[g] = reference_alloc(count_of(j, g));
    }
    reference_backward(&problem, to);
}

// The number of terms in the nested sums over rows, keys and columns.
static double terms_of(const struct test_case *t) {
    return (double)t->batch * (double)t->heads * (double)t->n_q + (double)t->n_kv + (double)t->head_dim +
           (double)t->head_dim_v;
}

// The type whose budget applies. A sink does not depend on q and k, so their rounding does not
// affect its gradient.
static clattn_type type_of(const struct judged *j, int gradient) {
    if (gradient < GRADIENT_BIAS) return j->type;
    return gradient == GRADIENT_SINKS ? CLATTN_TYPE_F32 : case_score_type(&j->data->test);
}

// The rounding error of an element as a share of its size. With 16-bit RoPE'd q and k, a score also
// has their rounding. For dq, dk and dv the plain computation measures that part.
static double roundings(const struct judged *j, int gradient) {
    const clattn_type type = type_of(j, gradient);
    const double stored =
        gradient < GRADIENT_BIAS || type == CLATTN_TYPE_F32 ? 0 : storage_roundoff(type) / 4;
    return storage_roundoff(CLATTN_TYPE_F32) * (4 + sqrt(terms_of(&j->data->test)) / 4) + stored;
}

// Reduce each error by the amount that rounding explains. False: a result is not 0 although nothing
// was added to it.
static bool bring_near(const struct judged *j, int gradient, double *near, char *why, size_t size) {
    const double *got = j->got->gradient[gradient], *right = j->right.x[gradient],
                 *sizes = j->right.size[gradient], unit = roundings(j, gradient);
    for (int64_t n = 0; n < count_of(j, gradient); n++) {
        const double error = got[n] - right[n], beyond = fmax(0, fabs(error) - unit * sizes[n]);
        near[n] = isfinite(error) && isfinite(sizes[n]) && got[n] != STORAGE_UNTOUCHED
                      ? right[n] + copysign(beyond, error)
                      : got[n];
        if (sizes[n] != 0 || got[n] == 0) continue;
        snprintf(why, size, "%s[%lld] is %.9g, must be exactly 0", names[gradient], (long long)n, got[n]);
        return false;
    }
    return true;
}

static bool gradient_agrees(const struct judged *j, int gradient, char *why, size_t size) {
    struct budget budget = {
        .what = names[gradient], .ref = j->right.x[gradient], .count = count_of(j, gradient)};
    double *near = reference_alloc(budget.count);
    budget.type = type_of(j, gradient);
    budget.plain = budget.type != CLATTN_TYPE_F32 && j->sample == NULL ? j->plain.x[gradient] : NULL;
    budget.got = near, budget.as_plain = true;
    const bool good = bring_near(j, gradient, near, why, size) && budget_holds(&budget, why, size);
    free(near);
    return good;
}

// Returns the error of all gradients together, because a single gradient may consist of rounding
// errors only.
static double nmse_of(const struct judged *j) {
    double squares = 0, norm = 0;
    for (int g = 0; g < GRADIENTS; g++) {
        const struct budget one = {.got = j->got->gradient[g], .ref = j->right.x[g], .count = count_of(j, g)};
        double of_one = 0;
        for (int64_t n = 0; n < one.count; n++)
            if (isfinite(one.ref[n])) of_one += one.ref[n] * one.ref[n];
        squares += budget_nmse(&one) * (of_one > 0 ? of_one : 1), norm += of_one;
    }
    return norm > 0 ? squares / norm : squares;
}

bool case_gradients_agree(const struct case_data *data, const struct case_result *got,
                          const struct case_sample *sample, double *nmse, char *why, size_t size) {
    const struct test_case *t = &data->test;
    struct judged j = {.data = data, .got = got, .sample = sample};
    j.type = storage_coarser(t->grad_type, case_budget_type(t));
    compute(&j, CLATTN_TYPE_F32, true, &j.right);
    if (j.type != CLATTN_TYPE_F32 && sample == NULL) compute(&j, j.type, false, &j.plain);
    *nmse = nmse_of(&j);
    bool good = true;
    for (int g = 0; g < GRADIENTS; g++)
        good = good && (got->gradient[g] == NULL || gradient_agrees(&j, g, why, size));
    free_all(j.right.x), free_all(j.right.size), free_all(j.plain.x);
    return good;
}
