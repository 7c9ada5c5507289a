// case_data.c: see case_data.h. Random numbers here, hostile ones in case_contents.c.
#include "evidence/case/case_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/device/allocate.h"
#include "evidence/case/case_contents.h"
#include "evidence/case/case_kv.h"
#include "evidence/case/case_places.h"
#include "evidence/case/case_positions.h"
#include "evidence/case/case_layer.h"
#include "evidence/case/case_layer_cache.h"
#include "evidence/reference/reference.h"
#include "evidence/reference/storage.h"

static struct guarded_shape map_shape(const struct test_case *t, const struct score_map *map,
                                      clattn_type type) {
    const int64_t full[4] = {t->batch, t->heads, t->n_q, t->n_kv};
    struct guarded_shape shape = {.type = type, .rank = map->rank, .layout = t->layout};
    for (int axis = 4 - map->rank; axis < 4; axis++)
        shape.shape[axis - 4 + map->rank] = map->repeat >> axis & 1 ? 1 : full[axis];
    return shape;
}

static struct guarded_shape shape_of(const struct test_case *t, clattn_type type, int rank,
                                     const int64_t *sizes) {
    struct guarded_shape shape = {.type = type, .rank = rank, .layout = t->layout};
    memcpy(shape.shape, sizes, (size_t)rank * sizeof *sizes);
    return shape;
}

static const struct guarded_shape absent;

static struct guarded_shape attention_shape(const struct test_case *t, int tensor) {
    const int64_t q[] = {t->batch, t->heads, t->n_q, t->head_dim},
                  k[] = {case_kv_batch(t), t->kv_heads, case_kv_rows(t), t->head_dim},
                  v[] = {case_kv_batch(t), t->kv_heads, case_kv_rows(t), t->head_dim_v},
                  past_k[] = {case_past_batch(t), t->kv_heads, t->past, t->head_dim},
                  past_v[] = {case_past_batch(t), t->kv_heads, t->past, t->head_dim_v},
                  out[] = {t->batch, t->heads, t->n_q, t->head_dim_v};
    if (tensor == CASE_Q) return shape_of(t, t->q_type, 4, q);
    if (tensor == CASE_K) return shape_of(t, t->kv_type, 4, k);
    if (tensor == CASE_V) return t->latent ? absent : shape_of(t, t->kv_type, 4, v);
    if (tensor == CASE_PAST_K) return t->has_past ? shape_of(t, t->kv_type, 4, past_k) : absent;
    if (tensor == CASE_PAST_V) return t->has_past && !t->latent ? shape_of(t, t->kv_type, 4, past_v) : absent;
    if (tensor == CASE_LSE) return t->no_lse ? absent : shape_of(t, CLATTN_TYPE_F32, 3, out);
    return tensor == CASE_OUT ? shape_of(t, t->out_type, 4, out) : absent;
}

static struct guarded_shape projection_shape(const struct test_case *t, int tensor) {
    const bool linear = t->op == CASE_LINEAR;
    const int64_t x[] = {t->batch, t->n_q, t->width}, y[] = {t->batch, t->n_kv, case_layer_width_y(t)},
                  out[] = {t->batch, t->n_q, linear ? case_matrix_rows(t, LAYER_Q) : t->width_out};
    const int matrix = tensor < CASE_MATRIX_BIAS ? tensor - CASE_MATRIX : tensor - CASE_MATRIX_BIAS;
    if (tensor >= CASE_NORM && tensor <= CASE_GATE_BIAS) return case_layer_shape(t, tensor);
    if (tensor == CASE_X) return shape_of(t, t->q_type, 3, x);
    if (tensor == CASE_Y) return linear || y[2] == 0 ? absent : shape_of(t, t->q_type, 3, y);
    if (tensor == CASE_OUT) return shape_of(t, t->q_type, 3, out);
    if (tensor < CASE_MATRIX || tensor >= CASE_MASK || (linear && matrix != LAYER_Q)) return absent;
    const int64_t sizes[] = {case_matrix_rows(t, matrix), case_matrix_columns(t, matrix)};
    if (tensor < CASE_MATRIX_BIAS) return shape_of(t, t->matrix_type, 2, sizes);
    return t->biases >> matrix & 1 ? shape_of(t, t->bias_type, 1, sizes) : absent;
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

double *case_random(struct random *random, int64_t count, clattn_type type, double size) {
    double *values = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) values[n] = storage_round(type, random_uniform(random, -size, size));
    return values;
}

// Three keys in four are kept; every nonzero byte is true.
static double *random_mask(struct random *random, int64_t count) {
    static const double bytes[] = {0, 1, 2, 255};
    double *mask = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) mask[n] = bytes[(int)random_uniform(random, 0, 4)];
    return mask;
}

// Matrices are small enough that every stage's results are about 1 in size.
static double size_of(const struct test_case *t, int tensor) {
    if (tensor == CASE_GATE) return 4 / sqrt((double)t->width); // gates are not all about one half
    if (tensor >= CASE_MATRIX_BIAS && tensor < CASE_MASK) return 1;
    if (tensor < CASE_MATRIX || tensor >= CASE_MASK) return 2;
    return 2 / sqrt((double)case_matrix_columns(t, tensor - CASE_MATRIX));
}

// The table of a large tensor goes on past its period for one row.
static double *random_input(const struct test_case *t, int tensor, struct random *random) {
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t count = guarded_shape_count(&shape);
    if (shape.rank == 0) return NULL;
    const int64_t table = count < GUARDED_PERIOD ? count : GUARDED_PERIOD,
                  more = count > table ? shape.shape[shape.rank - 1] : 0;
    double *x = tensor == CASE_MASK ? random_mask(random, table)
                                    : case_random(random, table, shape.type, size_of(t, tensor));
    double *whole = more > 0 ? realloc(x, (size_t)(table + more) * sizeof *x) : x;
    if (whole == NULL) {
        free(x);
        return reference_alloc(table + more);
    }
    for (int64_t n = table; n < table + more; n++) whole[n] = whole[n - table];
    return whole;
}

static double host_value(const struct test_case *t, int host, int64_t n, struct random *random) {
    const struct case_host_row *row = &case_hosts[host];
    const double per = row->per == CASE_PER_ROWS   ? (double)t->n_q
                       : row->per == CASE_PER_KEYS ? (double)t->n_kv
                                                   : 1.0;
    if (t->given[host].count > 0) return t->given[host].x[n];
    const double x = random_uniform(random, row->low, row->high * per + (row->of_heads ? 0 : 1));
    return row->of_heads ? x : floor(x);
}

static void make_host(struct case_data *data, int host, struct random *random) {
    const struct test_case *t = &data->test;
    const bool of_heads = case_hosts[host].of_heads;
    const int64_t count = of_heads ? t->heads : t->batch;
    char *field = (char *)&data->test.score + case_hosts[host].field;
    float *floats = NULL;
    int32_t *integers = NULL;
    if (!(t->hosts & CASE_HOST_BIT(host))) return;
    if (of_heads)
        floats = data->floats[host] = calloc((size_t)count + 1, sizeof *floats);
    else
        integers = data->integers[host] = calloc((size_t)count + 1, sizeof *integers);
    for (int64_t n = 0; (floats != NULL || integers != NULL) && n < count; n++) {
        const double x = host_value(t, host, n, random);
        if (of_heads)
            floats[n] = (float)x;
        else
            integers[n] = (int32_t)x;
    }
    memcpy(field, of_heads ? (void *)&floats : (void *)&integers, sizeof floats);
}

struct case_data *case_make(const struct test_case *test) {
    struct case_data *data = evidence_zeros(1, sizeof *data);
    struct random random = {test->seed + 1};
    data->test = case_complete(test);
    for (int n = 0; n < CASE_INPUTS; n++) data->input[n] = random_input(&data->test, n, &random);
    for (int host = 0; host < CASE_HOSTS; host++) make_host(data, host, &random);
    case_places_make(data);
    case_layer_cache_make(data);
    case_positions_make(data);
    case_contents_fill(data);
    case_places_hide(data);
    case_kv_store(data);
    return data;
}

void case_free(struct case_data *data) {
    for (int n = 0; n < CASE_INPUTS; n++) free(data->input[n]);
    for (int host = 0; host < CASE_HOSTS; host++) {
        free(data->floats[host]);
        free(data->integers[host]);
    }
    case_places_free(data);
    for (int n = 0; n < 2; n++) free(data->positions[n]);
    free(data);
}
