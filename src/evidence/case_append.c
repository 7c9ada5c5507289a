// case_append.c: see case_append.h. With RoPE the keys that lie in a cache were turned before.
#include "evidence/case_append.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/case_kv.h"
#include "evidence/reference.h"
#include "evidence/storage.h"

int64_t case_append_count(const struct case_data *data, int64_t b) {
    const struct test_case *t = &data->test;
    return t->score.q_lengths && t->append == t->n_q ? t->score.q_lengths[b] : t->append;
}

int64_t case_append_start(const struct case_data *data, int64_t b) {
    const clattn_score *s = &data->test.score;
    return (s->kv_lengths ? s->kv_lengths[b] : data->test.n_kv) - case_append_count(data, b);
}

static struct guarded bind_rows(const struct case_data *data, struct place *place, int tensor) {
    const struct test_case *t = &data->test;
    struct guarded_shape shape = case_shape(t, tensor);
    const int64_t size = shape.shape[3], n = t->append;
    if (shape.type != t->q_type) shape.type = CLATTN_TYPE_F32; // holds whatever is stored
    shape.shape[2] = n;
    double *values = reference_alloc(guarded_shape_count(&shape));
    for (int64_t c = 0; c < t->batch * t->kv_heads * n; c++) {
        const int64_t head = c / n, b = head / t->kv_heads, r = c % n;
        const int64_t from = head * t->n_kv + case_append_start(data, b) + r;
        for (int64_t d = 0; d < size; d++) {
            const bool is_new = r < case_append_count(data, b);
            values[c * size + d] = is_new ? data->input[tensor][from * size + d] : (double)NAN;
        }
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
    for (int axis = 0; axis < 3; axis++) position[axis] = (double)(t->rope.position + j);
    for (int axis = 0; data->positions[1] && axis < (reference_has_sections(&t->rope) ? 3 : 1); axis++)
        position[axis] = data->positions[1][(axis * t->batch + b) * t->n_kv + j];
    reference_rope(&t->rope, row, t->head_dim, position);
    for (int64_t d = 0; d < size; d++) row[d] = storage_round(t->kv_type, row[d]);
}

static struct guarded bind_cache(const struct case_data *data, struct place *place, int tensor,
                                 struct guarded *scales) {
    const struct test_case *t = &data->test;
    const struct guarded_shape shape = case_shape(t, tensor),
                               of_rows = {CLATTN_TYPE_F32, 3, {t->batch, t->kv_heads, t->n_kv}, t->layout};
    const int64_t rows = t->batch * t->kv_heads * t->n_kv, size = shape.shape[3];
    double *values = reference_alloc(rows * size), *each = reference_alloc(rows);
    memcpy(values, data->input[tensor], (size_t)(rows * size) * sizeof *values);
    for (int64_t c = 0; c < rows; c++) {
        double *row = values + c * size;
        fill_row(data, tensor, c / t->n_kv / t->kv_heads, c % t->n_kv, row);
        if (t->kv_type == CLATTN_TYPE_I8) each[c] = (double)case_kv_integers(row, size);
    }
    if (t->kv_type == CLATTN_TYPE_I8) *scales = guarded_in_out(place, &of_rows, each);
    const struct guarded to = guarded_in_out(place, &shape, values);
    free(values);
    free(each);
    return to;
}

void case_append_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    clattn_tensor *const views[] = {&kv->k, &kv->v}, *const rows[] = {&kv->k_new, &kv->v_new},
                         *const scales[] = {&kv->k_scale, &kv->v_scale};
    for (int n = 0; n < 2; n++) {
        a->caches[n] = bind_cache(data, place, CASE_K + n, &a->kv_scales[n]);
        a->new_rows[n] = bind_rows(data, place, CASE_K + n);
        *views[n] = a->caches[n].view;
        *rows[n] = a->new_rows[n].view;
        *scales[n] = a->kv_scales[n].view;
    }
}
