// case_shape.c: see case_shape.h.
#include "verification/case/case_shape.h"

#include <string.h>

int64_t case_matrix_rows(const struct test_case *t, int matrix) {
    const int64_t rows[] = {t->heads * t->head_dim, t->kv_heads * t->head_dim, t->kv_heads * t->head_dim_v,
                            t->width_out};
    return rows[matrix];
}

int64_t case_matrix_columns(const struct test_case *t, int matrix) {
    if (matrix == LAYER_O) return t->heads * t->head_dim_v;
    return matrix == LAYER_Q || t->width_y == 0 ? t->width : t->width_y;
}

bool case_has_places(const struct test_case *t) {
    return t->has_past || t->page_size > 0;
}

int64_t case_kv_blocks(const struct test_case *t) {
    return t->n_kv / t->page_size;
}

// The batch size of the pool of pages: the pages that the items need, and one page that no item
// uses.
int64_t case_kv_batch(const struct test_case *t) {
    return t->page_size > 0 ? t->batch * case_kv_blocks(t) + 1 : t->batch;
}

int64_t case_kv_rows(const struct test_case *t) {
    return t->page_size > 0 ? t->page_size : t->n_kv - t->past;
}

int64_t case_past_batch(const struct test_case *t) {
    return t->past_shared ? 1 : t->batch;
}

bool case_layer_appends(const struct test_case *t) {
    return t->op == CASE_LAYER && t->append > 0;
}

int64_t case_layer_width_y(const struct test_case *t) {
    return t->width_y == 0 && t->append ? t->width : t->width_y;
}

static int64_t norm_size(const struct test_case *t, int which) {
    const int64_t heads = which == 0 ? t->heads : t->kv_heads;
    return t->norm == CLATTN_NORM_WIDTH ? heads * t->head_dim : t->head_dim;
}

int64_t case_gate_rows(const struct test_case *t) {
    if (t->op != CASE_LAYER || t->gate == CASE_NO_GATE) return 0;
    return t->gate == CASE_GATE_HEADS ? t->heads : t->heads * t->head_dim_v;
}

// The shape of a weight matrix, whose rows may consist of blocks.
static struct guarded_shape matrix_shape(const struct test_case *t, int64_t rows, int64_t columns) {
    return (struct guarded_shape){.type = t->matrix_type,
                                  .rank = 2,
                                  .layout = t->layout,
                                  .shape = {rows, columns / clattn_type_numbers(t->matrix_type)}};
}

static struct guarded_shape layer_shape(const struct test_case *t, int tensor) {
    struct guarded_shape shape = {.rank = 1, .layout = t->layout, .type = t->bias_type};
    shape.shape[0] = case_gate_rows(t);
    if (t->op == CASE_LAYER && tensor < CASE_GATE && t->norm != CLATTN_NORM_NONE && !t->norm_plain) {
        shape.shape[0] = norm_size(t, tensor - CASE_NORM);
        return shape;
    }
    if (tensor == CASE_GATE && shape.shape[0] > 0) return matrix_shape(t, shape.shape[0], t->width);
    return tensor == CASE_GATE_BIAS && shape.shape[0] > 0 && t->gate_bias ? shape : (struct guarded_shape){0};
}

static struct guarded_shape map_shape(const struct test_case *t, const struct score_map *map,
                                      clattn_type type) {
    const int64_t full[4] = {t->batch, t->heads, t->n_q, t->n_kv};
    struct guarded_shape shape = {.type = type, .rank = map->rank, .layout = layout_loose(t->layout)};
    for (int axis = 4 - map->rank; axis < 4; axis++)
        shape.shape[axis - 4 + map->rank] = map->repeat >> axis & 1 ? 1 : full[axis];
    return shape;
}

static struct guarded_shape shape_of(const struct test_case *t, clattn_type type, int rank,
                                     const int64_t *sizes) {
    struct guarded_shape shape = {.type = type, .rank = rank, .layout = t->layout};
    memcpy(shape.shape, sizes, (size_t)rank * sizeof *sizes);
    // case_valid has checked that blocks are whole
    shape.shape[rank - 1] /= clattn_type_numbers(type);
    return shape;
}

static const struct guarded_shape absent;

// The shapes of a backward's own tensors: derivatives and gradients. dbias has the axes of the
// bias. Options that are replaced by expressions have no gradient of their own.
static struct guarded_shape backward_shape(const struct test_case *t, int tensor) {
    const int64_t rows[] = {t->batch, t->heads, t->n_q, t->head_dim_v},
                  sizes[][4] = {{t->batch, t->heads, t->n_q, t->head_dim},
                                {t->batch, t->kv_heads, t->n_kv, t->head_dim},
                                {t->batch, t->kv_heads, t->n_kv, t->head_dim_v}};
    const int gradient = tensor - CASE_GRADIENT;
    const case_host host = gradient == GRADIENT_SINKS    ? CASE_SINKS
                           : gradient == GRADIENT_SLOPES ? CASE_ALIBI
                                                         : CASE_HEAD_SCALES;
    struct guarded_shape shape =
        shape_of(t, t->grad_type, 4, gradient < GRADIENT_BIAS && gradient >= 0 ? sizes[gradient] : rows);
    if (t->op != CASE_BACKWARD || (gradient >= 0 && t->only && !(t->only >> gradient & 1))) return absent;
    if (gradient >= 0 && gradient < GRADIENT_BIAS) return shape;
    shape.type = CLATTN_TYPE_F32;
    if (tensor == CASE_DOUT) return shape.type = t->out_type, shape;
    shape.rank = 3;
    if (tensor == CASE_DLSE) return t->dlse ? shape : absent;
    if (t->mods && (gradient == GRADIENT_BIAS || gradient == GRADIENT_SLOPES)) return absent;
    if (gradient == GRADIENT_BIAS) {
        shape = map_shape(t, &t->bias, CLATTN_TYPE_F32);
        return shape.layout = t->layout, shape;
    }
    shape.rank = 1, shape.shape[0] = t->heads;
    return t->hosts & CASE_HOST_BIT(host) ? shape : absent;
}

static struct guarded_shape attention_shape(const struct test_case *t, int tensor) {
    const int64_t q[] = {t->batch, t->heads, t->n_q, t->head_dim},
                  k[] = {case_kv_batch(t), t->kv_heads, case_kv_rows(t), t->head_dim},
                  v[] = {case_kv_batch(t), t->kv_heads, case_kv_rows(t), t->head_dim_v},
                  past_k[] = {case_past_batch(t), t->kv_heads, t->past, t->head_dim},
                  past_v[] = {case_past_batch(t), t->kv_heads, t->past, t->head_dim_v},
                  out[] = {t->batch, t->heads, t->n_q, t->head_dim_v};
    if (tensor == CASE_Q) return shape_of(t, t->q_type, 4, q);
    if (tensor == CASE_K) return shape_of(t, t->kv_type, 4, k);
    if (tensor == CASE_V) return t->latent ? absent : shape_of(t, case_v_type(t), 4, v);
    if (tensor == CASE_PAST_K) return t->has_past ? shape_of(t, t->kv_type, 4, past_k) : absent;
    if (tensor == CASE_PAST_V)
        return t->has_past && !t->latent ? shape_of(t, case_v_type(t), 4, past_v) : absent;
    if (tensor == CASE_LSE) {
        struct guarded_shape shape = shape_of(t, CLATTN_TYPE_F32, 3, out);
        shape.layout = layout_loose(t->layout);
        return t->no_lse ? absent : shape;
    }
    return tensor == CASE_OUT ? shape_of(t, t->out_type, 4, out) : absent;
}

static struct guarded_shape projection_shape(const struct test_case *t, int tensor) {
    const bool linear = t->op == CASE_LINEAR;
    const int64_t x[] = {t->batch, t->n_q, t->width}, y[] = {t->batch, t->n_kv, case_layer_width_y(t)},
                  out[] = {t->batch, t->n_q, linear ? case_matrix_rows(t, LAYER_Q) : t->width_out};
    const int matrix = tensor < CASE_MATRIX_BIAS ? tensor - CASE_MATRIX : tensor - CASE_MATRIX_BIAS;
    if (tensor >= CASE_NORM && tensor <= CASE_GATE_BIAS) return layer_shape(t, tensor);
    if (tensor == CASE_X) return shape_of(t, t->q_type, 3, x);
    if (tensor == CASE_Y) return linear || y[2] == 0 ? absent : shape_of(t, t->q_type, 3, y);
    if (tensor == CASE_OUT) return shape_of(t, t->q_type, 3, out);
    if (tensor < CASE_MATRIX || tensor >= CASE_MASK || (linear && matrix != LAYER_Q)) return absent;
    const int64_t rows = case_matrix_rows(t, matrix);
    if (tensor < CASE_MATRIX_BIAS) return matrix_shape(t, rows, case_matrix_columns(t, matrix));
    return t->biases >> matrix & 1 ? shape_of(t, t->bias_type, 1, &rows) : absent;
}

struct guarded_shape case_shape(const struct test_case *t, int tensor) {
    const int64_t map[] = {t->batch, t->heads, t->n_q, t->n_kv};
    if (tensor == CASE_PACKED) {
        const int64_t sizes[] = {t->batch, t->heads + 2 * t->kv_heads, t->n_q, t->head_dim};
        struct guarded_shape shape = shape_of(t, t->q_type, 4, sizes);
        shape.layout = LAYOUT_BSHD;
        return t->packed ? shape : absent;
    }
    if (tensor == CASE_MASK || tensor == CASE_BIAS || tensor == CASE_WEIGHTS || tensor == CASE_SCORES) {
        if (t->op == CASE_LINEAR) return absent;
        if (tensor == CASE_MASK) return map_shape(t, &t->mask, CLATTN_TYPE_BOOL);
        if (tensor == CASE_BIAS) return map_shape(t, &t->bias, t->bias.type);
        if (tensor == CASE_WEIGHTS) return t->weights ? shape_of(t, t->weights_type, 4, map) : absent;
        return t->scores ? shape_of(t, CLATTN_TYPE_F32, 4, map) : absent;
    }
    if (tensor == CASE_DOUT || tensor == CASE_DLSE || tensor >= CASE_GRADIENT)
        return backward_shape(t, tensor);
    return case_projects(t) ? projection_shape(t, tensor) : attention_shape(t, tensor);
}

double case_bytes(const struct test_case *t, double *largest) {
    double all = 0;
    *largest = 0;
    for (int n = 0; n < CASE_TENSORS; n++) {
        const struct guarded_shape shape = case_shape(t, n);
        const double bytes = (double)guarded_shape_count(&shape) * (double)clattn_type_size(shape.type);
        all += bytes;
        if (bytes > *largest) *largest = bytes;
    }
    return all;
}

int64_t case_places_past(const struct case_data *data, int64_t b) {
    return data->past_lengths ? data->past_lengths[b] : data->test.past;
}

// The most keys that an item can have.
int64_t case_places_most(const struct case_data *data, int64_t b) {
    const struct test_case *t = &data->test;
    return t->has_past ? case_places_past(data, b) + case_kv_rows(t) : t->n_kv;
}

int64_t case_places_keys(const struct case_data *data, int64_t b) {
    const int32_t *lengths = data->test.score.kv_lengths;
    return lengths ? lengths[b] : case_places_most(data, b);
}

int64_t case_append_count(const struct case_data *data, int64_t b) {
    const struct test_case *t = &data->test;
    return t->score.q_lengths && t->append == t->n_q ? t->score.q_lengths[b] : t->append;
}

int64_t case_append_start(const struct case_data *data, int64_t b) {
    return case_places_keys(data, b) - case_append_count(data, b);
}

double *case_kv_row(const struct case_data *data, bool value, int64_t b, int64_t h, int64_t j) {
    const struct test_case *t = &data->test;
    const int64_t size = value ? t->head_dim_v : t->head_dim, past = case_places_past(data, b);
    double *at = value ? data->v : data->k;
    if (at == NULL) return NULL; // a latent's values are part of its keys
    if (t->page_size > 0) {
        b = data->block_table[b * case_kv_blocks(t) + j / t->page_size];
        j %= t->page_size;
        if (b < 0) return NULL;
    } else if (t->has_past && j < past) {
        at = value ? data->past_v : data->past_k;
        return at + ((t->past_shared ? 0 : b * t->kv_heads * t->past) + h * t->past + j) * size;
    } else if (t->has_past) {
        j -= past;
        if (j >= case_kv_rows(t)) return NULL;
    }
    return at + ((b * t->kv_heads + h) * case_kv_rows(t) + j) * size;
}
