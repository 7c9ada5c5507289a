// case_kv.c: see case_kv.h. Types without scales need nothing here. Rows of i8, or groups of their
// numbers, have a scale: the largest number is stored as 127, or with zero points the range is
// mapped to the type's range. If a group contains a NaN, its scale is NaN.
#include "verification/case/case_kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/allocate.h"
#include "verification/case/case_ragged.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

// Assign pages in random order. An odd item shares its first page with the item before, unless rows
// are appended. Blocks without keys have no page.
static void make_blocks(struct case_data *data, struct random *random) {
    const struct test_case *t = &data->test;
    const int64_t blocks = case_kv_blocks(t), pages = case_kv_batch(t);
    int32_t *order = evidence_zeros((size_t)pages, sizeof *order);
    data->block_table = evidence_zeros((size_t)(t->batch * blocks), sizeof *data->block_table);
    for (int64_t n = 0; n < pages; n++) {
        const int64_t other = (int64_t)random_uniform(random, 0, (double)(n + 1));
        order[n] = order[other], order[other] = (int32_t)n;
    }
    for (int64_t n = 0; n < t->batch * blocks; n++) {
        const int64_t b = n / blocks, block = n % blocks,
                      keys = t->score.kv_lengths ? t->score.kv_lengths[b] : t->n_kv;
        data->block_table[n] = block == 0 && b % 2 == 1 && !t->append ? order[n - blocks] : order[n];
        if (block * t->page_size >= keys) data->block_table[n] = n % 2 ? INT32_MIN : -1;
    }
    free(order);
}

// Limit random lengths to the keys of an item: its past and new rows, at least the appended rows.
static void fit_lengths(struct case_data *data) {
    const struct test_case *t = &data->test;
    int32_t *lengths = data->integers[CASE_KV_LENGTHS];
    for (int64_t b = 0; lengths != NULL && t->given[CASE_KV_LENGTHS].count == 0 && b < t->batch; b++) {
        const int64_t least = t->append ? case_places_past(data, b) + t->append : 0;
        if (lengths[b] > case_places_most(data, b)) lengths[b] = (int32_t)case_places_most(data, b);
        if (lengths[b] < least) lengths[b] = (int32_t)least;
    }
}

void case_kv_make(struct case_data *data) {
    const struct test_case *t = &data->test;
    struct random random = {t->seed + 77};
    if (t->past_count > 0) data->past_lengths = evidence_zeros((size_t)t->batch, sizeof *data->past_lengths);
    for (int64_t b = 0; b < t->past_count; b++) data->past_lengths[b] = (int32_t)t->past_length[b];
    fit_lengths(data);
    if (t->page_size > 0) make_blocks(data, &random);
}

// Returns false for a table that repeats, which has no rows of its own.
static bool whole(const struct case_data *data, int tensor) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    return guarded_shape_numbers(&shape) <= GUARDED_PERIOD_OF(shape.type);
}

static void hide(struct case_data *data, bool value) {
    const struct test_case *t = &data->test;
    const int tensors[] = {value ? CASE_V : CASE_K, value ? CASE_PAST_V : CASE_PAST_K};
    const int64_t size = value ? t->head_dim_v : t->head_dim;
    double *copy[2] = {NULL, NULL};
    int64_t count[2];
    for (int n = 0; n < 2; n++) {
        const struct guarded_shape shape = case_shape(t, tensors[n]);
        count[n] = guarded_shape_numbers(&shape);
        copy[n] = data->input[tensors[n]];
        data->input[tensors[n]] = copy[n] ? reference_alloc(count[n]) : NULL;
        for (int64_t i = 0; copy[n] && i < count[n]; i++) data->input[tensors[n]][i] = (double)NAN;
    }
    for (int64_t b = 0; b < t->batch; b++) {
        const int64_t keys = case_places_keys(data, b);
        for (int64_t h = 0; h < t->kv_heads; h++)
            for (int64_t j = 0; j < keys && j < t->n_kv; j++) {
                double *row = case_kv_row(data, value, b, h, j);
                if (row == NULL) continue;
                const bool in_k = row >= data->input[tensors[0]] && row < data->input[tensors[0]] + count[0];
                const int from = in_k ? 0 : 1;
                const double *old = copy[from] + (row - data->input[tensors[from]]);
                for (int64_t d = 0; d < size; d++) row[d] = old[d];
            }
    }
    free(copy[0]);
    free(copy[1]);
}

void case_kv_hide(struct case_data *data) {
    if (!case_has_places(&data->test)) return;
    if (whole(data, CASE_K) && whole(data, CASE_PAST_K)) hide(data, false);
    if (whole(data, CASE_V) && whole(data, CASE_PAST_V)) hide(data, true);
}

void case_kv_free(struct case_data *data) {
    free(data->past_lengths);
    free(data->block_table);
}

// Tensors with scales. k and v come first, because their type may be one of blocks.
static const int scaled[CASE_SCALED] = {CASE_K,          CASE_V,          CASE_PAST_K,
                                        CASE_PAST_V,     CASE_MATRIX,     CASE_MATRIX + 1,
                                        CASE_MATRIX + 2, CASE_MATRIX + 3, CASE_GATE};
#define OF_KEYS_AND_VALUES 4

int case_kv_scales(int tensor) {
    int n = 0;
    while (n < CASE_SCALED && scaled[n] != tensor) n++;
    return n;
}

// Groups of numbers that share a scale, such as the rows of a tensor. A table that repeats has a
// single group.
typedef struct kv_groups {
    int64_t count, size;
} kv_groups;

static int64_t group_size(const struct test_case *t, int tensor, int64_t width) {
    const bool value = tensor == CASE_V || tensor == CASE_PAST_V;
    const int64_t group = value && t->value_group ? t->value_group : t->scale_group;
    return group > 1 ? group : width;
}

static kv_groups groups_of(const struct test_case *t, int tensor) {
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t count = guarded_shape_numbers(&shape), period = GUARDED_PERIOD_OF(shape.type),
                  width = shape.shape[shape.rank - 1] * clattn_type_numbers(shape.type),
                  size = group_size(t, tensor, width);
    if (count > period) return (kv_groups){1, period + width};
    return (kv_groups){size > 0 ? count / size : 0, size};
}

static struct storage_scale make_stored(const struct test_case *t, clattn_type type, double *x,
                                        int64_t size) {
    const struct storage_scale s = storage_scale_of(type, t->scale_type, t->zeros, x, size);
    for (int64_t d = 0; d < size; d++) x[d] = storage_scaled(type, t->zeros, x[d], s);
    return s;
}

// Round k or v to blocks. Tables that repeat were already generated from whole blocks.
static void store_blocks(const struct test_case *t, int tensor, double *x) {
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t count = guarded_shape_numbers(&shape);
    if (x != NULL && count <= GUARDED_PERIOD_OF(shape.type)) storage_round_blocks(shape.type, x, count);
}

void case_kv_store(struct case_data *data) {
    for (int n = 0; n < CASE_SCALED; n++) {
        const int tensor = scaled[n];
        const struct guarded_shape shape = case_shape(&data->test, tensor);
        const clattn_type type = shape.type;
        if (shape.rank == 0 || !(CLATTN_TYPE_IS_SCALED(type) || clattn_type_numbers(type) > 1)) continue;
        if (!CLATTN_TYPE_IS_SCALED(type)) { // matrices were already generated from whole blocks
            if (n < OF_KEYS_AND_VALUES) store_blocks(&data->test, tensor, data->input[tensor]);
            continue;
        }
        const kv_groups groups = groups_of(&data->test, tensor);
        double *x = data->input[tensor];
        for (int64_t r = 0; r < groups.count; r++, x += groups.size) {
            const struct storage_scale s = make_stored(&data->test, type, x, groups.size);
            for (int64_t d = 0; d < groups.size; d++) x[d] = (x[d] - s.zero) * s.scale;
        }
    }
}

// Bind the scales of a tensor, one for each row or group. Zero points have the same strides. To
// test offsets, zero points of rows that are not past ones start 5 elements later in their buffer.
static void bind_scales(const struct case_data *data, struct place *place, int tensor,
                        const struct storage_scale *each, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const struct guarded_shape of = case_shape(t, tensor);
    const bool past = tensor == CASE_PAST_K || tensor == CASE_PAST_V,
               written = t->append && (tensor == CASE_K || tensor == CASE_V);
    const int n = case_kv_scales(tensor), last = of.rank - 1;
    const int64_t width = of.shape[last] * clattn_type_numbers(of.type), size = group_size(t, tensor, width);
    struct guarded_shape shape = of;
    shape.type = t->scale_type, shape.rank = last, shape.layout = layout_loose(t->layout);
    if (size < width || (t->scale_group == width && size == width))
        shape.rank = of.rank, shape.shape[last] = width / size, shape.layout = t->layout;
    const int64_t count = guarded_shape_count(&shape);
    double *numbers = reference_alloc(count);
    for (int64_t i = 0; i < count; i++) numbers[i] = each[i].scale;
    a->kv_scales[n] =
        written ? guarded_in_out(place, &shape, numbers) : guarded_input(place, &shape, numbers);
    if (t->zeros) {
        clattn_tensor view = a->kv_scales[n].view;
        view.buffer = NULL, view.svm = view.usm = NULL;
        view.offset += past ? 0 : 5;
        for (int64_t i = 0; i < count; i++) numbers[i] = each[i].zero;
        a->kv_zeros[n] = guarded_view(place, &view, numbers, written);
    }
    free(numbers);
}

struct guarded case_kv_bind_scaled(const struct case_data *data, struct place *place, int tensor,
                                   struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const struct guarded_shape shape = case_shape(t, tensor);
    const kv_groups groups = groups_of(t, tensor);
    const int64_t numbers = guarded_shape_numbers(&shape),
                  width = shape.shape[shape.rank - 1] * clattn_type_numbers(shape.type),
                  size = group_size(t, tensor, width), count = size > 0 ? numbers / size : 0;
    double *integers = reference_alloc(groups.count * groups.size);
    struct storage_scale *each = evidence_zeros((size_t)count + 1, sizeof *each);
    memcpy(integers, data->input[tensor], (size_t)(groups.count * groups.size) * sizeof *integers);
    for (int64_t r = 0; r < groups.count; r++) {
        const struct storage_scale s = make_stored(t, shape.type, integers + r * groups.size, groups.size);
        for (int64_t n = r; n < count; n += groups.count) each[n] = s;
    }
    bind_scales(data, place, tensor, each, a);
    const struct guarded tensor_of = guarded_input(place, &shape, integers);
    free(integers);
    free(each);
    return tensor_of;
}

static struct guarded bind_tensor(const struct case_data *data, struct place *place, int tensor,
                                  struct case_arrays *a) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    if (CLATTN_TYPE_IS_SCALED(shape.type)) return case_kv_bind_scaled(data, place, tensor, a);
    return guarded_input(place, &shape, data->input[tensor]);
}

// A latent's value scales are the first of its key scales.
static void view_scales(const struct case_data *data, const struct case_arrays *a, int past, int side,
                        clattn_tensor *scale, clattn_tensor *zero) {
    const struct test_case *t = &data->test;
    const int n = past + (t->latent ? 0 : side);
    *scale = a->kv_scales[n].view, *zero = a->kv_zeros[n].view;
    if (t->latent && side == 1 && scale->rank == 4)
        scale->shape[3] = zero->shape[3] = t->head_dim_v / t->scale_group;
}

// A latent's values are the first columns of its keys.
static void bind_pair(const struct case_data *data, struct place *place, int tensor, struct case_arrays *a,
                      clattn_tensor *const views[6]) {
    const int v = data->test.latent ? 0 : 1, past = tensor == CASE_PAST_K ? 2 : 0;
    struct guarded *const pair = a->all + tensor;
    for (int n = 0; n <= v; n++) pair[n] = bind_tensor(data, place, tensor + n, a);
    *views[0] = pair[0].view, *views[1] = pair[v].view;
    for (int n = 0; n < 2; n++) view_scales(data, a, past, n, views[2 + n], views[4 + n]);
    views[1]->shape[3] = data->test.head_dim_v / clattn_type_numbers(views[1]->type);
}

static void bind_places(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    a->params.kv.past_lengths = data->past_lengths;
    if (t->page_size == 0) return;
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 2, {t->batch, case_kv_blocks(t)}, t->layout};
    double *values = reference_alloc(t->batch * case_kv_blocks(t));
    for (int64_t n = 0; n < t->batch * case_kv_blocks(t); n++) values[n] = data->block_table[n];
    a->block_table = guarded_input(place, &shape, values);
    free(values);
    a->params.kv.block_table = a->block_table.view;
    a->params.kv.page_size = (int32_t)t->page_size;
}

static void bind_past(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    if (data->test.has_past)
        bind_pair(data, place, CASE_PAST_K, a,
                  (clattn_tensor *[]){&kv->past_k, &kv->past_v, &kv->past_k_scale, &kv->past_v_scale,
                                      &kv->past_k_zero, &kv->past_v_zero});
    bind_places(data, place, a);
}

void case_kv_bind(const struct case_data *data, const struct case_data *keys, struct place *place,
                  struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    bind_pair(keys, place, CASE_K, a,
              (clattn_tensor *[]){&kv->k, &kv->v, &kv->k_scale, &kv->v_scale, &kv->k_zero, &kv->v_zero});
    bind_past(data, place, a);
}

static struct guarded bind_rows(const struct case_data *data, struct place *place, int tensor) {
    const struct test_case *t = &data->test;
    const int64_t size = tensor == CASE_K ? t->head_dim : t->head_dim_v, n = t->append;
    const int64_t rotation = tensor == CASE_K ? t->k_rotation : t->v_rotation;
    const bool as_q =
        t->kv_type == t->q_type && case_v_type(t) == t->q_type && !t->k_rotation && !t->v_rotation;
    // The type of both caches' new rows. It represents every stored value exactly.
    const clattn_type type = as_q ? t->q_type : CLATTN_TYPE_F32;
    struct guarded_shape shape = {type, 4, {t->batch, t->kv_heads, n, size}, t->layout};
    double *values = reference_alloc(guarded_shape_count(&shape));
    for (int64_t c = 0; c < t->batch * t->kv_heads * n; c++) {
        const int64_t head = c / n, b = head / t->kv_heads, r = c % n;
        const bool is_new = r < case_append_count(data, b);
        const double *from = is_new ? case_kv_row(data, tensor == CASE_V, b, head % t->kv_heads,
                                                  case_append_start(data, b) + r)
                                    : NULL;
        for (int64_t d = 0; d < size; d++) values[c * size + d] = is_new ? from[d] : (double)NAN;
        reference_hadamard(values + c * size, size, rotation); // the call transforms them
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

// Set a row of the cache to its contents before the call: NaN if the call appends it, else with
// RoPE applied.
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
    reference_hadamard(row, t->head_dim, t->k_rotation);
    reference_rope(&t->rope, row, t->head_dim, position);
    reference_hadamard(row, t->head_dim, t->k_rotation);
    for (int64_t d = 0; d < size; d++) row[d] = storage_round(t->kv_type, row[d]);
}

static struct guarded bind_cache(const struct case_data *data, struct place *place, int tensor,
                                 struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t *n = shape.shape, rows = n[0] * n[1] * n[2], size = n[3] * clattn_type_numbers(shape.type);
    const int64_t group = group_size(t, tensor, size), groups = group > 0 ? rows * size / group : 0;
    double *values = reference_alloc(rows * size);
    struct storage_scale *each = evidence_zeros((size_t)groups + 1, sizeof *each);
    memcpy(values, data->input[tensor], (size_t)(rows * size) * sizeof *values);
    for (int64_t c = 0; c < t->batch * t->kv_heads * t->n_kv; c++) {
        const int64_t head = c / t->n_kv, b = head / t->kv_heads, j = c % t->n_kv;
        if (j < case_places_past(data, b)) continue; // a past row, as in any case
        const double *row = case_kv_row(data, tensor == CASE_V, b, head % t->kv_heads, j);
        if (row != NULL) fill_row(data, tensor, b, j, values + (row - data->input[tensor]));
    }
    for (int64_t c = 0; c < groups && CLATTN_TYPE_IS_SCALED(shape.type); c++)
        each[c] = make_stored(t, shape.type, values + c * group, group);
    if (CLATTN_TYPE_IS_SCALED(shape.type)) bind_scales(data, place, tensor, each, a);
    const struct guarded to = guarded_in_out(place, &shape, values);
    free(values);
    free(each);
    return to;
}

// A latent's values are the first columns of its keys, in the cache and in the new rows.
void case_kv_bind_append(const struct case_data *data, struct place *place, struct case_arrays *a) {
    clattn_kv *kv = &a->params.kv;
    clattn_tensor *const views[] = {&kv->k, &kv->v}, *const rows[] = {&kv->k_new, &kv->v_new},
                         *const scales[] = {&kv->k_scale, &kv->v_scale},
                         *const zeros[] = {&kv->k_zero, &kv->v_zero};
    const bool latent = data->test.latent;
    for (int n = 0; n < 2; n++) {
        const int from = latent ? 0 : n;
        if (n == from) {
            a->caches[n] = bind_cache(data, place, CASE_K + n, a);
            a->new_rows[n] = bind_rows(data, place, CASE_K + n);
        }
        *views[n] = a->caches[from].view;
        *rows[n] = a->new_rows[from].view;
        view_scales(data, a, 0, n, scales[n], zeros[n]);
    }
    if (latent) kv->v_new.shape[3] = data->test.head_dim_v;
    if (latent) kv->v.shape[3] = data->test.head_dim_v / clattn_type_numbers(data->test.kv_type);
    bind_past(data, place, a);
}
