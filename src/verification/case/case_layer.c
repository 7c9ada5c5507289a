// case_layer.c: see case_layer.h.
#include "verification/case/case_layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_kv.h"
#include "verification/case/case_shape.h"
#include "verification/device/opencl.h"

void case_layer_bind(const struct case_data *data, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_layer_params *p = &a->layer;
    p->norm = t->norm;
    p->norm_epsilon = t->norm_epsilon;
    p->norm_plus_one = t->norm_plus_one;
    p->q_norm = a->norm[0].view;
    p->k_norm = a->norm[1].view;
    p->w_gate = a->gate.view;
    p->w_gate_scale = a->kv_scales[case_kv_scales(CASE_GATE)].view;
    p->w_gate_zero = a->kv_zeros[case_kv_scales(CASE_GATE)].view;
    p->b_gate = a->gate_bias.view;
}

static clattn_layer_kv_params maker_of(const clattn_layer_params *p) {
    clattn_layer_kv_params made = {.wk = p->wk,
                                   .wv = p->wv,
                                   .bk = p->bk,
                                   .bv = p->bv,
                                   .wk_scale = p->wk_scale,
                                   .wv_scale = p->wv_scale,
                                   .wk_zero = p->wk_zero,
                                   .wv_zero = p->wv_zero,
                                   .precision = p->precision,
                                   .packed_wk = p->packed_wk,
                                   .packed_wv = p->packed_wv,
                                   .norm = p->norm,
                                   .k_norm = p->k_norm,
                                   .norm_epsilon = p->norm_epsilon,
                                   .norm_plus_one = p->norm_plus_one && p->k_norm.rank,
                                   .rope = p->rope};
    if (p->rope.k_positions.rank) made.rope.positions = p->rope.k_positions;
    made.rope.k_positions = (clattn_tensor){0};
    return made;
}

// Hadamard-transform keys and values in place, as a transformed cache stores them.
static void rotate(const struct test_case *t, struct place *place, const clattn_tensor *k,
                   const clattn_tensor *v) {
    const int32_t blocks[] = {t->k_rotation, t->v_rotation};
    for (int n = 0; n < 2; n++) {
        const clattn_hadamard_params p = {.x = n ? *v : *k, .y = n ? *v : *k, .block = blocks[n]};
        if (!blocks[n]) continue;
        const clattn_status status = clattn_hadamard_enqueue(place->context, place->queue, &p, 0, NULL, NULL);
        if (status != CLATTN_OK) place_broken(place, "clattn_hadamard_enqueue", (cl_int)status);
    }
}

// Compute keys and values by an earlier call. Then remove the tensors from which the layer would
// compute them.
void case_layer_bind_ready(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_layer_params *p = &a->layer;
    const clattn_tensor absent = {0};
    for (int n = 0; n < 2; n++) {
        struct guarded_shape shape = {.type = t->q_type, .rank = 4, .layout = t->layout};
        shape.shape[0] = t->batch;
        shape.shape[1] = t->kv_heads;
        shape.shape[2] = t->n_kv;
        shape.shape[3] = n == 0 ? t->head_dim : t->head_dim_v;
        a->ready[n] = guarded_output(place, &shape);
    }
    clattn_layer_kv_params made = maker_of(p);
    made.y = p->y.rank ? p->y : p->x;
    made.k = a->ready[0].view;
    made.v = a->ready[1].view;
    p->rope.k_positions = absent;
    const clattn_status status = clattn_layer_kv_enqueue(place->context, place->queue, &made, 0, NULL, NULL);
    if (status != CLATTN_OK) place_broken(place, "clattn_layer_kv_enqueue", (cl_int)status);
    rotate(t, place, &made.k, &made.v);
    clFinish(place->queue);
    p->kv.k = a->ready[0].view;
    p->kv.v = a->ready[1].view;
    p->y = p->wk = p->wv = p->bk = p->bv = p->k_norm = absent;
    p->wk_scale = p->wv_scale = p->wk_zero = p->wv_zero = absent;
    p->packed_wk = p->packed_wv = (clattn_packed){0};
}

void case_layer_unbind(struct case_arrays *a) {
    for (int n = 0; n < 2; n++) guarded_release(&a->ready[n]);
}

bool case_layer_intact(const struct case_arrays *a, cl_command_queue queue) {
    bool intact = true;
    for (int n = 0; n < 2; n++) {
        if (a->ready[n].view.buffer == NULL) continue;
        double *values = reference_alloc(guarded_count(&a->ready[n].view));
        intact = guarded_read(&a->ready[n], queue, values) && intact;
        free(values);
    }
    return intact;
}

bool case_layer_is_whole(const struct test_case *t) {
    return t->op == CASE_LAYER && (t->append > 0 || t->rope.layout != CLATTN_ROPE_NONE ||
                                   t->norm != CLATTN_NORM_NONE || t->gate != CASE_NO_GATE);
}

void case_layer_reference(const struct case_data *data, struct reference_layer *l) {
    const struct test_case *t = &data->test;
    l->w_period = GUARDED_PERIOD_OF(t->matrix_type);
    l->norm = t->norm;
    l->norm_epsilon = t->norm_epsilon != 0.0f ? (double)t->norm_epsilon : 1e-6;
    l->norm_plus_one = t->norm_plus_one;
    l->q_norm = data->norm[0];
    l->k_norm = data->norm[1];
    l->w_gate = data->gate;
    l->b_gate = data->gate_bias;
    l->gates = case_gate_rows(t);
}

void case_layer_make(struct case_data *data) {
    const struct test_case *t = &data->test;
    if (!case_layer_appends(t) || t->width_y != 0) return;
    for (int64_t b = 0; b < t->batch; b++)
        memcpy(data->x + b * t->n_q * t->width,
               data->y + (b * t->n_kv + case_append_start(data, b)) * t->width,
               (size_t)(case_append_count(data, b) * t->width) * sizeof *data->x);
}

// The most rows that any item's cache has before the call.
static int64_t rows_before(const struct case_data *data) {
    int64_t most = 0;
    for (int64_t b = 0; b < data->test.batch; b++)
        if (case_append_start(data, b) > most) most = case_append_start(data, b);
    return most;
}

// Bind rows [0, n) of y with NaN from an item's first new row on; or with `is_new` only its new
// rows [0, append).
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

// Bind the explicit positions of these rows.
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

// Compute the first n rows of both caches.
static void fill(const struct case_data *data, struct place *place, struct case_arrays *a, int64_t n) {
    struct guarded y = bind_y(data, place, false, n), positions = {.bytes = 0};
    clattn_layer_kv_params made = maker_of(&a->layer);
    made.y = y.view;
    made.k = a->ready[0].view, made.v = a->ready[1].view;
    made.k.shape[2] = made.v.shape[2] = n;
    if (data->positions[1]) positions = bind_positions(data, place, n), made.rope.positions = positions.view;
    const clattn_status status = clattn_layer_kv_enqueue(place->context, place->queue, &made, 0, NULL, NULL);
    if (status != CLATTN_OK) place_broken(place, "clattn_layer_kv_enqueue", (cl_int)status);
    rotate(&data->test, place, &made.k, &made.v);
    clFinish(place->queue);
    guarded_release(&y);
    guarded_release(&positions);
}

void case_layer_bind_append(const struct case_data *data, struct place *place, struct case_arrays *a) {
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
