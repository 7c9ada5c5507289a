// case_layer_cache.c: see case_layer_cache.h.
#include "evidence/case/case_layer_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/case/case_append.h"
#include "evidence/case/case_layer.h"
#include "evidence/device/opencl.h"
#include "evidence/reference/reference.h"

bool case_layer_appends(const struct test_case *t) {
    return t->op == CASE_LAYER && t->append > 0;
}

int64_t case_layer_width_y(const struct test_case *t) {
    return t->width_y == 0 && t->append ? t->width : t->width_y;
}

const char *case_layer_cache_refusal(const struct test_case *t) {
    if (!case_layer_appends(t)) return NULL;
    if (t->ready) return "append: keys that a layer appends are not made before";
    if (t->width_y == 0 && t->append != t->n_q) return "append: of x all rows are appended";
    if (t->width_y != 0 && t->ragged) return "append: of sequences rows of x are appended";
    return t->batch * t->n_kv * case_layer_width_y(t) <= GUARDED_PERIOD
               ? NULL
               : "append: y has up to a million elements";
}

void case_layer_cache_make(struct case_data *data) {
    const struct test_case *t = &data->test;
    if (!case_layer_appends(t) || t->width_y != 0) return;
    for (int64_t b = 0; b < t->batch; b++)
        memcpy(data->x + b * t->n_q * t->width,
               data->y + (b * t->n_kv + case_append_start(data, b)) * t->width,
               (size_t)(case_append_count(data, b) * t->width) * sizeof *data->x);
}

// The most rows that an item's cache has before the call.
static int64_t rows_before(const struct case_data *data) {
    int64_t most = 0;
    for (int64_t b = 0; b < data->test.batch; b++)
        if (case_append_start(data, b) > most) most = case_append_start(data, b);
    return most;
}

// Rows [0, n) of y, NaN from an item's first new one on; or its new ones, [0, append).
static struct guarded bind_y(const struct case_data *data, struct place *place, bool is_new, int64_t n) {
    const struct test_case *t = &data->test;
    const int64_t width = case_layer_width_y(t);
    const struct guarded_shape shape = {t->q_type, 3, {t->batch, n, width}, t->layout};
    double *values = reference_alloc(t->batch * n * width);
    for (int64_t c = 0; c < t->batch * n * width; c++) {
        const int64_t b = c / width / n, row = c / width % n, start = case_append_start(data, b),
                      most = is_new ? case_append_count(data, b) : start;
        const double *from = data->y + (b * t->n_kv + (is_new ? start : 0) + row) * width;
        values[c] = row < most ? from[c % width] : (double)NAN;
    }
    const struct guarded y = guarded_input(place, &shape, values);
    free(values);
    return y;
}

// Explicit positions of those rows.
static struct guarded bind_positions(const struct case_data *data, struct place *place, int64_t n) {
    const struct test_case *t = &data->test;
    const int64_t axes = reference_has_sections(&t->rope) ? 3 : 1;
    const struct guarded_shape with_axes = {CLATTN_TYPE_I32, 3, {axes, t->batch, n}, t->layout},
                               one = {CLATTN_TYPE_I32, 2, {t->batch, n}, t->layout};
    double *values = reference_alloc(axes * t->batch * n);
    for (int64_t c = 0; c < axes * t->batch * n; c++) values[c] = data->positions[1][c / n * t->n_kv + c % n];
    const struct guarded positions = guarded_input(place, axes > 1 ? &with_axes : &one, values);
    free(values);
    return positions;
}

// Views of the first n rows of both caches.
static void fill(const struct case_data *data, struct place *place, struct case_arrays *a, int64_t n) {
    struct guarded y = bind_y(data, place, false, n), positions = {.bytes = 0};
    clattn_layer_kv_params made = case_layer_maker(&a->layer);
    made.y = y.view;
    made.k = a->ready[0].view, made.v = a->ready[1].view;
    made.k.shape[2] = made.v.shape[2] = n;
    if (data->positions[1]) positions = bind_positions(data, place, n), made.rope.positions = positions.view;
    const clattn_status status = clattn_layer_kv_enqueue(place->context, place->queue, &made, 0, NULL, NULL);
    if (status != CLATTN_OK) place_broken(place, "clattn_layer_kv_enqueue", (cl_int)status);
    clFinish(place->queue);
    guarded_release(&y);
    guarded_release(&positions);
}

void case_layer_cache_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const int64_t n = rows_before(data);
    clattn_layer_params *p = &a->layer;
    if (!case_layer_appends(t)) return;
    for (int which = 0; which < 2; which++) {
        const struct guarded_shape shape = {
            t->q_type,
            4,
            {t->batch, t->kv_heads, t->n_kv, which == 0 ? t->head_dim : t->head_dim_v},
            t->layout};
        a->ready[which] = guarded_output(place, &shape);
    }
    if (n > 0) fill(data, place, a, n);
    guarded_release(&a->y);
    p->y = (clattn_tensor){0};
    if (t->width_y != 0) a->y = bind_y(data, place, true, t->append), p->y = a->y.view;
    p->kv.k = a->ready[0].view, p->kv.v = a->ready[1].view;
    p->append = true;
}
