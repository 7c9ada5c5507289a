// case_ragged.c: see case_ragged.h.
#include "verification/case/case_ragged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/allocate.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

#define TAIL 3 // rows after the last sequence

bool case_ragged_has_gaps(const struct test_case *t) {
    return t->ragged == CASE_RAGGED_GAPS || t->ragged == CASE_RAGGED_GAPS_DEVICE;
}

static bool has_cache(const struct test_case *t) {
    return t->ragged == CASE_RAGGED_CACHE || t->ragged == CASE_RAGGED_CACHE_DEVICE;
}

static bool on_device(const struct test_case *t) {
    return t->ragged == CASE_RAGGED_DEVICE || t->ragged == CASE_RAGGED_GAPS_DEVICE ||
           t->ragged == CASE_RAGGED_CACHE_DEVICE;
}

// The packed rows of an item: query rows, or keys without past rows.
static int64_t rows_of(const struct case_data *data, bool queries, int64_t b) {
    const struct test_case *t = &data->test;
    if (queries) return t->score.q_lengths != NULL ? t->score.q_lengths[b] : t->n_q;
    const int64_t rows = case_kv_rows(t),
                  past = !t->has_past         ? 0
                         : data->past_lengths ? data->past_lengths[b]
                                              : t->past,
                  keys = t->score.kv_lengths != NULL ? t->score.kv_lengths[b] : past + rows;
    return keys < past ? 0 : keys - past;
}

// First rows [B + 1] of queries or keys. With gaps, each sequence is followed by 0, 1 or 2 unused
// rows, and lengths exclude them.
static int32_t *cu_of(const struct case_data *data, bool queries) {
    const struct test_case *t = &data->test;
    int32_t *cu = evidence_zeros((size_t)t->batch + 1, sizeof *cu);
    const bool gaps = case_ragged_has_gaps(t) && (queries ? t->score.q_lengths : t->score.kv_lengths) != NULL;
    for (int64_t b = 0; b < t->batch; b++)
        cu[b + 1] = cu[b] + (int32_t)rows_of(data, queries, b) + (gaps ? (int32_t)((b + 1) % 3) : 0);
    return cu;
}

int64_t case_ragged_total(const struct case_data *data, bool queries) {
    int32_t *cu = cu_of(data, queries);
    const int64_t total = cu[data->test.batch] + TAIL;
    free(cu);
    return total;
}

double *case_ragged_rows(const struct case_data *data, bool queries, const double *from, int64_t heads,
                         int64_t n, int64_t width) {
    int32_t *cu = cu_of(data, queries);
    const int64_t total = cu[data->test.batch] + TAIL;
    double *to = reference_alloc(heads * total * width);
    for (int64_t x = 0; x < heads * total * width; x++) to[x] = (double)NAN;
    for (int64_t b = 0; b < data->test.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(to + (h * total + cu[b]) * width, from + (b * heads + h) * n * width,
                   (size_t)(rows_of(data, queries, b) * width) * sizeof *to);
    free(cu);
    return to;
}

static const struct case_data *pack_layer(const struct case_data *data, struct case_data *packed) {
    const struct test_case *t = &data->test;
    packed->x = case_ragged_rows(data, true, data->x, 1, t->n_q, t->width);
    if (data->y == NULL || has_cache(t)) return packed;
    packed->y = case_ragged_rows(data, false, data->y, 1, t->n_kv, t->width_y);
    packed->test.n_kv = case_ragged_total(data, false);
    return packed;
}

const struct case_data *case_ragged_pack(const struct case_data *data) {
    const struct test_case *t = &data->test;
    if (t->ragged == CASE_DENSE) return data;
    struct case_data *packed = evidence_zeros(1, sizeof *packed);
    const int64_t rows = case_kv_rows(t);
    *packed = *data;
    packed->test.batch = 1, packed->test.n_q = case_ragged_total(data, true);
    if (t->op == CASE_LAYER) return pack_layer(data, packed);
    packed->q = case_ragged_rows(data, true, data->q, t->heads, t->n_q, t->head_dim);
    if (data->dout) packed->dout = case_ragged_rows(data, true, data->dout, t->heads, t->n_q, t->head_dim_v);
    if (data->dlse) packed->dlse = case_ragged_rows(data, true, data->dlse, t->heads, t->n_q, 1);
    if (!case_ragged_has(t, CASE_K)) return packed;
    packed->k = case_ragged_rows(data, false, data->k, t->kv_heads, rows, t->head_dim);
    if (data->v != NULL) packed->v = case_ragged_rows(data, false, data->v, t->kv_heads, rows, t->head_dim_v);
    packed->test.n_kv = t->past + case_ragged_total(data, false);
    return packed;
}

void case_ragged_free(const struct case_data *data, const struct case_data *packed) {
    if (packed == data) return;
    if (packed->q != data->q) free(packed->q);
    if (packed->x != data->x) free(packed->x);
    if (packed->dout != data->dout) free(packed->dout);
    if (packed->dlse != data->dlse) free(packed->dlse);
    if (packed->y != data->y) free(packed->y);
    if (packed->k != data->k) free(packed->k), free(packed->v);
    free((void *)packed);
}

bool case_ragged_has(const struct test_case *t, int tensor) {
    if (t->ragged == CASE_DENSE) return false;
    if (tensor == CASE_K || tensor == CASE_V || tensor == CASE_Y || tensor == CASE_GRADIENT + GRADIENT_K ||
        tensor == CASE_GRADIENT + GRADIENT_V)
        return !has_cache(t);
    if (tensor == CASE_DOUT || tensor == CASE_DLSE || tensor == CASE_GRADIENT + GRADIENT_Q) return true;
    return tensor == CASE_Q || tensor == CASE_X || tensor == CASE_OUT || tensor == CASE_LSE;
}

static clattn_tensor put(const struct test_case *t, struct place *place, const int32_t *x, int64_t count,
                         struct guarded *to) {
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 1, {count}, t->layout};
    double *values = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) values[n] = x[n];
    *to = guarded_input(place, &shape, values);
    free(values);
    return to->view;
}

// Bind the lengths of a cache. The seed decides whether they are on the device.
static void bind_cache_lengths(const struct test_case *t, struct place *place, struct case_arrays *a) {
    clattn_attention_params *p = &a->params;
    if (!on_device(t) || t->score.kv_lengths == NULL || t->seed % 2 == 1) return;
    p->kv.kv_lengths_device = put(t, place, t->score.kv_lengths, t->batch, &a->cu_device[1]);
    p->score.kv_lengths = NULL;
}

// True if the starts of the sequences determine the number of keys.
static bool says_lengths(const struct case_data *data) {
    const struct test_case *t = &data->test;
    bool all = !case_ragged_has_gaps(t) && !has_cache(t);
    for (int64_t b = 0; t->has_past && t->score.kv_lengths != NULL && b < t->batch; b++)
        all = all && t->score.kv_lengths[b] >= (data->past_lengths ? data->past_lengths[b] : t->past);
    return all;
}

void case_ragged_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_attention_params *p = &a->params;
    const bool maps = t->mask.rank > 0 || t->bias.rank > 0 || t->weights || t->scores || t->blocks;
    if (t->ragged == CASE_DENSE) return;
    a->test = t;
    a->cu[0] = cu_of(data, true), a->cu[1] = cu_of(data, false);
    p->sequences = (int32_t)t->batch;
    if (maps || on_device(t))
        p->max_q = (int32_t)t->n_q, p->max_kv = has_cache(t) ? 0 : (int32_t)case_kv_rows(t);
    if (!on_device(t)) {
        p->cu_seqlens_q = a->cu[0];
        if (!has_cache(t)) p->kv.cu_seqlens_kv = a->cu[1];
    } else {
        p->cu_seqlens_q_device = put(t, place, a->cu[0], t->batch + 1, &a->cu_device[0]);
        if (!has_cache(t))
            p->kv.cu_seqlens_kv_device = put(t, place, a->cu[1], t->batch + 1, &a->cu_device[1]);
    }
    if (has_cache(t)) bind_cache_lengths(t, place, a);
    if (!case_ragged_has_gaps(t)) p->score.q_lengths = NULL;
    if (says_lengths(data)) p->score.kv_lengths = NULL;
}

void case_ragged_bind_layer(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const clattn_attention_params *p = &a->params;
    clattn_layer_params *l = &a->layer;
    const bool self = case_is_self(&data->test);
    if (data->test.ragged == CASE_DENSE) return;
    a->params.score = l->score;
    case_ragged_bind(data, place, a);
    l->score = p->score;
    l->sequences = p->sequences, l->max_q = p->max_q, l->max_kv = self ? 0 : p->max_kv;
    l->cu_seqlens_q = p->cu_seqlens_q, l->cu_seqlens_q_device = p->cu_seqlens_q_device;
    l->kv.kv_lengths_device = p->kv.kv_lengths_device;
    if (self) return;
    l->kv.cu_seqlens_kv = p->kv.cu_seqlens_kv, l->kv.cu_seqlens_kv_device = p->kv.cu_seqlens_kv_device;
}

double *case_ragged_unpack(const struct case_arrays *a, double *packed, int64_t width, bool *intact) {
    const struct test_case *t = a->test;
    if (t == NULL || packed == NULL) return packed;
    const int64_t total = a->cu[0][t->batch] + TAIL, heads = t->op == CASE_LAYER ? 1 : t->heads;
    double *to = reference_alloc(t->batch * heads * t->n_q * width);
    for (int64_t x = 0; x < t->batch * heads * t->n_q * width; x++) to[x] = STORAGE_UNTOUCHED;
    for (int64_t b = 0; b < t->batch; b++) {
        const int64_t length = t->score.q_lengths != NULL ? t->score.q_lengths[b] : t->n_q;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t x = 0; x < length * width; x++) {
                double *from = packed + (h * total + a->cu[0][b]) * width + x;
                to[(b * heads + h) * t->n_q * width + x] = *from;
                *from = STORAGE_UNTOUCHED;
            }
    }
    // A layer's unused rows may contain anything.
    for (int64_t x = 0; t->op != CASE_LAYER && x < heads * total * width; x++)
        *intact = *intact && packed[x] == STORAGE_UNTOUCHED;
    free(packed);
    return to;
}

double *case_ragged_unpack_gradient(const struct case_arrays *a, bool queries, double *packed, int64_t width,
                                    bool *intact) {
    const struct test_case *t = a->test;
    if (t == NULL || packed == NULL || (!queries && has_cache(t))) return packed;
    const int32_t *cu = a->cu[!queries], *lengths = queries ? t->score.q_lengths : t->score.kv_lengths;
    const int64_t total = cu[t->batch] + TAIL, heads = queries ? t->heads : t->kv_heads,
                  n = queries ? t->n_q : t->n_kv;
    double *to = reference_alloc(t->batch * heads * n * width);
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t row = cu[b]; row < cu[b + 1]; row++)
            for (int64_t x = 0; x < heads * width; x++) {
                const int64_t h = x / width, i = row - cu[b], d = x % width;
                double *from = packed + (h * total + row) * width + d;
                const bool has = i < (lengths != NULL ? lengths[b] : n);
                if (!has) continue;
                to[((b * heads + h) * n + i) * width + d] = *from;
                *from = STORAGE_UNTOUCHED;
            }
    for (int64_t x = 0; x < heads * total * width; x++) *intact = *intact && packed[x] == STORAGE_UNTOUCHED;
    free(packed);
    return to;
}
