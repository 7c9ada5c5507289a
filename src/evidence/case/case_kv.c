// case_kv.c: see case_kv.h. Types whose every element says its own number need nothing here; rows of i8 have a scale,
// such that their largest number is 127 of it. A row with a NaN is one of NaN: its scale is.
#include "evidence/case/case_kv.h"

#include <math.h>
#include <stdlib.h>

#include "evidence/case/case_places.h"
#include "evidence/reference/reference.h"

const char *const case_kv_types[] = {"f32", "f16", "bf16", "-", "i8", NULL};

// Rows of a tensor of k or v, or of the table that repeats in its place, where one scale serves all.
typedef struct kv_rows {
    int64_t count, size;
} kv_rows;

static kv_rows rows_of(const struct test_case *t, int tensor) {
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t count = guarded_shape_count(&shape), size = shape.shape[3];
    if (count > GUARDED_PERIOD) return (kv_rows){1, GUARDED_PERIOD + size};
    return (kv_rows){size > 0 ? count / size : 0, size};
}

static float scale_of(const double *row, int64_t size) {
    double largest = 0;
    for (int64_t d = 0; d < size; d++) largest = isnan(row[d]) ? row[d] : fmax(largest, fabs(row[d]));
    for (int64_t d = 0; d < size; d++)
        if (isnan(row[d])) return NAN;
    return (float)(largest / 127);
}

static double integer_of(double x, float scale) {
    return scale > 0 ? fmin(fmax(nearbyint(x / (double)scale), -127), 127) : 0;
}

float case_kv_integers(double *row, int64_t size) {
    const float scale = scale_of(row, size);
    for (int64_t d = 0; d < size; d++) row[d] = integer_of(row[d], scale);
    return scale;
}

void case_kv_store(struct case_data *data) {
    static const int tensors[] = {CASE_K, CASE_V, CASE_PAST_K, CASE_PAST_V};
    for (int n = 0; n < 4 && data->test.kv_type == CLATTN_TYPE_I8; n++) {
        const int tensor = tensors[n];
        if (data->test.latent && (tensor == CASE_V || tensor == CASE_PAST_V)) continue;
        const kv_rows rows = rows_of(&data->test, tensor);
        double *x = data->input[tensor];
        for (int64_t r = 0; r < rows.count; r++, x += rows.size) {
            const float scale = scale_of(x, rows.size);
            for (int64_t d = 0; d < rows.size; d++)
                x[d] = isnan(scale) ? (double)NAN : integer_of(x[d], scale) * (double)scale;
        }
    }
}

// The integers of a tensor, and its scales beside it.
static struct guarded bind_i8(const struct case_data *data, struct place *place, int tensor,
                              struct guarded *scales) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    const kv_rows rows = rows_of(&data->test, tensor);
    const struct guarded_shape one_less = {
        CLATTN_TYPE_F32, 3, {shape.shape[0], shape.shape[1], shape.shape[2]}, shape.layout};
    const int64_t scale_count = guarded_shape_count(&one_less);
    double *integers = reference_alloc(rows.count * rows.size), *each = reference_alloc(scale_count);
    for (int64_t r = 0; r < rows.count; r++) {
        const double *x = data->input[tensor] + r * rows.size;
        const float scale = scale_of(x, rows.size);
        for (int64_t d = 0; d < rows.size; d++) integers[r * rows.size + d] = integer_of(x[d], scale);
        for (int64_t n = r; n < scale_count; n += rows.count) each[n] = (double)scale;
    }
    *scales = guarded_input(place, &one_less, each);
    const struct guarded tensor_of = guarded_input(place, &shape, integers);
    free(integers);
    free(each);
    return tensor_of;
}

static struct guarded bind(const struct case_data *data, struct place *place, int tensor,
                           struct guarded *scales) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    if (shape.type == CLATTN_TYPE_I8) return bind_i8(data, place, tensor, scales);
    return guarded_input(place, &shape, data->input[tensor]);
}

// A latent's values are the first columns of its keys.
static void bind_pair(const struct case_data *data, struct place *place, int tensor, struct case_arrays *a,
                      struct guarded scales[2], clattn_tensor *const views[4]) {
    const int v = data->test.latent ? 0 : 1;
    struct guarded *const pair = a->all + tensor;
    for (int n = 0; n <= v; n++) pair[n] = bind(data, place, tensor + n, &scales[n]);
    *views[0] = pair[0].view, *views[1] = pair[v].view;
    *views[2] = scales[0].view, *views[3] = scales[v].view;
    views[1]->shape[3] = data->test.head_dim_v;
}

void case_kv_bind(const struct case_data *data, const struct case_data *keys, struct place *place,
                  struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    bind_pair(keys, place, CASE_K, a, a->kv_scales,
              (clattn_tensor *[]){&kv->k, &kv->v, &kv->k_scale, &kv->v_scale});
    case_kv_bind_past(data, place, a);
}

void case_kv_bind_past(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    if (data->test.has_past)
        bind_pair(data, place, CASE_PAST_K, a, a->kv_scales + 2,
                  (clattn_tensor *[]){&kv->past_k, &kv->past_v, &kv->past_k_scale, &kv->past_v_scale});
    case_places_bind(data, place, a);
}
