// case_positions.c: see case_positions.h. The seed decides whether all batch items share one row of
// positions, and whether keys use the positions of the rows if their counts are equal.
#include "verification/case/case_positions.h"

#include <math.h>
#include <stdlib.h>

#include "verification/case/case_ragged.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"

#define FARTHEST 0x1p20 // a float32 angle would be off by 0.06 there

static int64_t axes_of(const struct test_case *t) {
    return t->rope.sections[0] || t->rope.sections[1] || t->rope.sections[2] ? 3 : 1;
}

static bool is_shared(const struct test_case *t) {
    return t->seed / 2 % 2 == 1 && !t->append && !t->ragged;
}

// True if the call applies RoPE to keys.
static bool ropes_keys(const struct test_case *t) {
    return t->page_size == 0 || t->append;
}
static int64_t key_rows(const struct test_case *t) {
    return t->page_size > 0 ? t->n_kv : case_kv_rows(t);
}

// True if the call receives separate positions of keys.
static bool keys_have_own(const struct test_case *t) {
    return ropes_keys(t) && (t->n_q != key_rows(t) || t->seed % 2 == 1 || t->append || t->ragged);
}

// The number of positions of q (of = 0) or k (1). Keys in pages already have RoPE applied.
static int64_t rows_of(const struct test_case *t, int of) {
    return of && ropes_keys(t) ? key_rows(t) : t->n_q;
}

void case_positions_make(struct case_data *data) {
    const struct test_case *t = &data->test;
    struct random random = {t->seed + 77};
    for (int of = 0; of < 2 && t->positions; of++) {
        const int64_t n = rows_of(t, of), count = axes_of(t) * t->batch * n;
        double *x = data->positions[of] = reference_alloc(count);
        for (int64_t c = 0; c < count; c++) {
            const int64_t row = c % n, axis = c / n / t->batch;
            x[c] = is_shared(t) && c / n % t->batch > 0 ? x[axis * t->batch * n + row]
                                                        : floor(random_uniform(&random, -FARTHEST, FARTHEST));
            if (of && !keys_have_own(t)) x[c] = data->positions[0][c];
        }
    }
}

// Bind the positions of a ragged batch, [1, T]. `values` has `n` rows for each item and is freed.
static clattn_tensor bind_packed(const struct case_data *data, struct place *place, int of, double *values,
                                 struct guarded *to) {
    const struct test_case *t = &data->test;
    const bool as_queries = !of || t->append;
    const int64_t axes = axes_of(t), n = as_queries ? t->n_q : rows_of(t, of),
                  total = case_ragged_total(data, as_queries);
    double *packed = reference_alloc(axes * total);
    for (int64_t axis = 0; axis < axes; axis++) {
        double *one = case_ragged_rows(data, as_queries, values + axis * t->batch * n, 1, n, 1);
        for (int64_t x = 0; x < total; x++) packed[axis * total + x] = isnan(one[x]) ? 0 : one[x];
        free(one);
    }
    const struct guarded_shape with_axes = {CLATTN_TYPE_I32, 3, {axes, 1, total}, t->layout},
                               one = {CLATTN_TYPE_I32, 2, {1, total}, t->layout};
    *to = guarded_input(place, axes > 1 ? &with_axes : &one, packed);
    free(values);
    free(packed);
    return to->view;
}

// Bind positions [B or 1, N], or three such arrays. For appended keys, only theirs.
static clattn_tensor bind(const struct case_data *data, struct place *place, int of, struct guarded *to) {
    const struct test_case *t = &data->test;
    const int64_t axes = axes_of(t), all = rows_of(t, of), n = of && t->append ? t->append : all,
                  batch = is_shared(t) ? 1 : t->batch;
    double *values = reference_alloc(axes * batch * n);
    for (int64_t c = 0; c < axes * batch * n; c++) {
        const int64_t b = c / n % batch,
                      row = c % n +
                            (of && t->append ? case_append_start(data, b) - case_places_past(data, b) : 0);
        values[c] = row < all ? data->positions[of][(c / (batch * n) * t->batch + b) * all + row] : 0;
    }
    if (case_ragged_has(t, of ? CASE_K : CASE_Q) || (of && t->ragged && t->append))
        return bind_packed(data, place, of, values, to);
    const struct guarded_shape with_axes = {CLATTN_TYPE_I32, 3, {axes, batch, n}, t->layout},
                               one = {CLATTN_TYPE_I32, 2, {batch, n}, t->layout};
    *to = guarded_input(place, axes > 1 ? &with_axes : &one, values);
    free(values);
    return to->view;
}

void case_positions_bind(const struct case_data *data, struct place *place, struct case_arrays *a,
                         clattn_rope *rope) {
    if (!data->test.positions) return;
    rope->positions = bind(data, place, 0, &a->positions[0]);
    if (keys_have_own(&data->test)) rope->k_positions = bind(data, place, 1, &a->positions[1]);
}
