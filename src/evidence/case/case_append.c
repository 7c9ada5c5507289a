// case_append.c: see case_append.h. With RoPE the keys that lie in a cache were turned before.
#include "evidence/case/case_append.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/case/case_kv.h"
#include "evidence/case/case_places.h"
#include "evidence/case/case_ragged.h"
#include "evidence/reference/reference.h"
#include "evidence/reference/storage.h"

int64_t case_append_count(const struct case_data *data, int64_t b) {
    const struct test_case *t = &data->test;
    return t->score.q_lengths && t->append == t->n_q ? t->score.q_lengths[b] : t->append;
}

int64_t case_append_start(const struct case_data *data, int64_t b) {
    return case_places_keys(data, b) - case_append_count(data, b);
}

static struct guarded bind_rows(const struct case_data *data, struct place *place, int tensor) {
    const struct test_case *t = &data->test;
    const int64_t size = tensor == CASE_K ? t->head_dim : t->head_dim_v, n = t->append;
    const clattn_type stored = case_shape(t, tensor).type,
                      type = stored != t->q_type ? CLATTN_TYPE_F32 : stored; // holds whatever is stored
    struct guarded_shape shape = {type, 4, {t->batch, t->kv_heads, n, size}, t->layout};
    double *values = reference_alloc(guarded_shape_count(&shape));
    for (int64_t c = 0; c < t->batch * t->kv_heads * n; c++) {
        const int64_t head = c / n, b = head / t->kv_heads, r = c % n;
        const bool is_new = r < case_append_count(data, b);
        const double *from = is_new ? case_kv_row(data, tensor == CASE_V, b, head % t->kv_heads,
                                                  case_append_start(data, b) + r)
                                    : NULL;
        for (int64_t d = 0; d < size; d++) values[c * size + d] = is_new ? from[d] : (double)NAN;
    }
    if (t->ragged) {
        double *packed = case_ragged_rows(data, true, values, t->kv_heads, n, size);
        free(values);
        values = packed;
        shape.shape[0] = 1, shape.shape[2] = case_ragged_total(data, true);
    }
    const struct guarded rows = guarded_input(place, &shape, values);
    free(values);
    return rows;
}

// A row of the cache as it lay there before the call.
static void fill_row(const struct case_data *data, int tensor, int64_t b, int64_t j, double *row) {
    const struct test_case *t = &data->test;
    const int64_t size = tensor == CASE_K ? t->head_dim : t->head_dim_v, r = j - case_append_start(data, b);
    if (r >= 0 && r < case_append_count(data, b)) {
        for (int64_t d = 0; d < size; d++) row[d] = (double)NAN;
        return;
    }
    if (tensor != CASE_K || t->rope.layout == CLATTN_ROPE_NONE) return;
    double position[3];
    const int64_t rows = t->page_size > 0 ? t->n_kv : case_kv_rows(t);
    for (int axis = 0; axis < 3; axis++) position[axis] = (double)(t->rope.position + j);
    for (int axis = 0; data->positions[1] && axis < (reference_has_sections(&t->rope) ? 3 : 1); axis++)
        position[axis] = data->positions[1][(axis * t->batch + b) * rows + j - case_places_past(data, b)];
    reference_rope(&t->rope, row, t->head_dim, position);
    for (int64_t d = 0; d < size; d++) row[d] = storage_round(t->kv_type, row[d]);
}

static struct guarded bind_cache(const struct case_data *data, struct place *place, int tensor,
                                 struct guarded *scales) {
    const struct test_case *t = &data->test;
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t *n = shape.shape, rows = n[0] * n[1] * n[2], size = n[3];
    const struct guarded_shape of_rows = {CLATTN_TYPE_F32, 3, {n[0], n[1], n[2]}, t->layout};
    double *values = reference_alloc(rows * size), *each = reference_alloc(rows);
    memcpy(values, data->input[tensor], (size_t)(rows * size) * sizeof *values);
    for (int64_t c = 0; c < t->batch * t->kv_heads * t->n_kv; c++) {
        const int64_t head = c / t->n_kv, b = head / t->kv_heads, j = c % t->n_kv;
        if (j < case_places_past(data, b)) continue; // it lies as in any case
        const double *row = case_kv_row(data, tensor == CASE_V, b, head % t->kv_heads, j);
        if (row != NULL) fill_row(data, tensor, b, j, values + (row - data->input[tensor]));
    }
    for (int64_t c = 0; c < rows && t->kv_type == CLATTN_TYPE_I8; c++)
        each[c] = (double)case_kv_integers(values + c * size, size);
    if (t->kv_type == CLATTN_TYPE_I8) *scales = guarded_in_out(place, &of_rows, each);
    const struct guarded to = guarded_in_out(place, &shape, values);
    free(values);
    free(each);
    return to;
}

// A latent's values are the first columns of its keys, in the cache and in the new rows.
void case_append_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    clattn_tensor *const views[] = {&kv->k, &kv->v}, *const rows[] = {&kv->k_new, &kv->v_new},
                         *const scales[] = {&kv->k_scale, &kv->v_scale};
    const bool latent = data->test.latent;
    for (int n = 0; n < 2; n++) {
        const int from = latent ? 0 : n;
        if (n == from) {
            a->caches[n] = bind_cache(data, place, CASE_K + n, &a->kv_scales[n]);
            a->new_rows[n] = bind_rows(data, place, CASE_K + n);
        }
        *views[n] = a->caches[from].view;
        *rows[n] = a->new_rows[from].view;
        *scales[n] = a->kv_scales[from].view;
    }
    if (latent) kv->v.shape[3] = kv->v_new.shape[3] = data->test.head_dim_v;
    case_kv_bind_past(data, place, a);
}
