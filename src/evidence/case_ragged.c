// case_ragged.c: see case_ragged.h.
#include "evidence/case_ragged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/allocate.h"
#include "evidence/reference.h"
#include "evidence/storage.h"

const char *const case_ragged_names[] = {"-",          "host",  "device",      "gaps",
                                         "gapsdevice", "cache", "cachedevice", NULL};

#define TAIL 3 // rows behind the last sequence

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

// First rows, [B + 1], of queries or keys. A gap of 0, 1 or 2 rows is behind each sequence, where there are gaps, and lengths that
// say that the rows of a gap are none of the sequence.
static void fill_cu(const struct test_case *t, const int32_t *lengths, int64_t all, int32_t *cu) {
    cu[0] = 0;
    for (int64_t b = 0; b < t->batch; b++)
        cu[b + 1] = cu[b] + (lengths != NULL ? lengths[b] : (int32_t)all) +
                    (case_ragged_has_gaps(t) && lengths != NULL ? (int32_t)((b + 1) % 3) : 0);
}

// [B, heads, n, width] with `length` rows of each item becomes [heads, total, width].
static double *pack(const struct test_case *t, const double *from, const int32_t *lengths, const int32_t *cu,
                    int64_t heads, int64_t n, int64_t width) {
    const int64_t total = cu[t->batch] + TAIL;
    double *to = reference_alloc(heads * total * width);
    for (int64_t x = 0; x < heads * total * width; x++) to[x] = (double)NAN;
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(to + (h * total + cu[b]) * width, from + (b * heads + h) * n * width,
                   (size_t)((lengths != NULL ? lengths[b] : n) * width) * sizeof *to);
    return to;
}

static int32_t *cu_of(const struct case_data *data, bool queries) {
    const struct test_case *t = &data->test;
    int32_t *cu = evidence_zeros((size_t)t->batch + 1, sizeof *cu);
    if (queries)
        fill_cu(t, t->score.q_lengths, t->n_q, cu);
    else
        fill_cu(t, t->score.kv_lengths, t->n_kv, cu);
    return cu;
}

const struct case_data *case_ragged_pack(const struct case_data *data) {
    const struct test_case *t = &data->test;
    if (t->ragged == CASE_DENSE) return data;
    struct case_data *packed = evidence_zeros(1, sizeof *packed);
    int32_t *q = cu_of(data, true), *kv = cu_of(data, false);
    *packed = *data;
    packed->q = pack(t, data->q, t->score.q_lengths, q, t->heads, t->n_q, t->head_dim);
    packed->k = pack(t, data->k, t->score.kv_lengths, kv, t->kv_heads, t->n_kv, t->head_dim);
    packed->v = pack(t, data->v, t->score.kv_lengths, kv, t->kv_heads, t->n_kv, t->head_dim_v);
    packed->test.batch = 1;
    packed->test.n_q = q[t->batch] + TAIL, packed->test.n_kv = kv[t->batch] + TAIL;
    free(q);
    free(kv);
    return packed;
}

void case_ragged_free(const struct case_data *data, const struct case_data *packed) {
    if (packed == data) return;
    free(packed->q);
    free(packed->k);
    free(packed->v);
    free((void *)packed);
}

bool case_ragged_has(const struct test_case *t, int tensor) {
    if (t->ragged == CASE_DENSE) return false;
    if (tensor == CASE_K || tensor == CASE_V) return !has_cache(t);
    return tensor == CASE_Q || tensor == CASE_OUT || tensor == CASE_LSE;
}

static clattn_tensor put(const struct test_case *t, struct place *place, const int32_t *cu,
                         struct guarded *to) {
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 1, {t->batch + 1}, t->layout};
    double *values = reference_alloc(t->batch + 1);
    for (int64_t n = 0; n <= t->batch; n++) values[n] = cu[n];
    *to = guarded_input(place, &shape, values);
    free(values);
    return to->view;
}

void case_ragged_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    clattn_attention_params *p = &a->params;
    const bool maps = t->mask.rank > 0 || t->bias.rank > 0 || t->weights || t->scores || t->blocks;
    if (t->ragged == CASE_DENSE) return;
    a->test = t;
    a->cu[0] = cu_of(data, true), a->cu[1] = cu_of(data, false);
    p->sequences = (int32_t)t->batch;
    if (maps || on_device(t)) p->max_q = (int32_t)t->n_q, p->max_kv = has_cache(t) ? 0 : (int32_t)t->n_kv;
    if (!on_device(t)) {
        p->cu_seqlens_q = a->cu[0];
        if (!has_cache(t)) p->kv.cu_seqlens_kv = a->cu[1];
    } else {
        p->cu_seqlens_q_device = put(t, place, a->cu[0], &a->cu_device[0]);
        if (!has_cache(t)) p->kv.cu_seqlens_kv_device = put(t, place, a->cu[1], &a->cu_device[1]);
    }
    if (case_ragged_has_gaps(t)) return;
    p->score.q_lengths = NULL;
    if (!has_cache(t)) p->score.kv_lengths = NULL;
}

double *case_ragged_unpack(const struct case_arrays *a, double *packed, int64_t width, bool *intact) {
    const struct test_case *t = a->test;
    if (t == NULL || packed == NULL) return packed;
    const int64_t total = a->cu[0][t->batch] + TAIL;
    double *to = reference_alloc(t->batch * t->heads * t->n_q * width);
    for (int64_t x = 0; x < t->batch * t->heads * t->n_q * width; x++) to[x] = STORAGE_UNTOUCHED;
    for (int64_t b = 0; b < t->batch; b++) {
        const int64_t length = t->score.q_lengths != NULL ? t->score.q_lengths[b] : t->n_q;
        for (int64_t h = 0; h < t->heads; h++)
            for (int64_t x = 0; x < length * width; x++) {
                double *from = packed + (h * total + a->cu[0][b]) * width + x;
                to[(b * t->heads + h) * t->n_q * width + x] = *from;
                *from = STORAGE_UNTOUCHED;
            }
    }
    for (int64_t x = 0; x < t->heads * total * width; x++)
        *intact = *intact && packed[x] == STORAGE_UNTOUCHED;
    free(packed);
    return to;
}
