// case_places.c: see case_places.h.
#include "evidence/case/case_places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "evidence/device/allocate.h"

bool case_has_places(const struct test_case *t) {
    return t->has_past || t->page_size > 0;
}

static int64_t blocks_of(const struct test_case *t) {
    return t->n_kv / t->page_size;
}
// One page more than items have keys for: nobody's.
int64_t case_kv_batch(const struct test_case *t) {
    return t->page_size > 0 ? t->batch * blocks_of(t) + 1 : t->batch;
}
int64_t case_kv_rows(const struct test_case *t) {
    return t->page_size > 0 ? t->page_size : t->n_kv - t->past;
}
int64_t case_past_batch(const struct test_case *t) {
    return t->past_shared ? 1 : t->batch;
}

// Of lengths that are given: those of the past, of keys, and of rows, of which as many are new.
static bool past_leaves_room(const struct test_case *t) {
    bool fits = true;
    for (int b = 0; b < t->given[CASE_KV_LENGTHS].count; b++) {
        const double past = t->past_count > 0 ? t->past_length[b] : (double)t->past,
                     rows = t->append == t->n_q && t->given[CASE_Q_LENGTHS].count > b
                                ? t->given[CASE_Q_LENGTHS].x[b]
                                : t->append;
        fits = fits && t->given[CASE_KV_LENGTHS].x[b] >= past + rows;
    }
    return fits;
}

bool case_places_valid(const struct test_case *t, char why[256]) {
    bool fits = true;
    for (int b = 0; b < t->past_count; b++) fits = fits && t->past_length[b] <= t->past;
    if (t->past_count > 0 && t->past_count != t->batch)
        snprintf(why, 256, "past: %d lengths are given, %lld are needed", t->past_count, (long long)t->batch);
    else if (!fits || t->past > t->n_kv)
        snprintf(why, 256, "past: %lld rows: lengths are at most that, and nkv counts them, too",
                 (long long)t->past);
    else if (t->has_past && t->page_size > 0)
        snprintf(why, 256, "past: not with pages");
    else if (t->past_shared && !t->has_past)
        snprintf(why, 256, "sharedpast: needs past, such as past64");
    else if (t->has_past && t->append > t->n_kv - t->past)
        snprintf(why, 256, "append: goes behind past rows: at most nkv without them");
    else if (t->has_past && t->append && !past_leaves_room(t))
        snprintf(why, 256, "kvlen: counts past rows and those of append, which are its last");
    else if (t->page_size > 0 && t->n_kv % t->page_size != 0)
        snprintf(why, 256, "pages: nkv must be whole pages of %lld keys", (long long)t->page_size);
    else if (case_has_places(t) && t->packed)
        snprintf(why, 256, "packed: q, k and v of one buffer have no past and no pages");
    else
        return true;
    return false;
}

int64_t case_places_past(const struct case_data *data, int64_t b) {
    return data->past_lengths ? data->past_lengths[b] : data->test.past;
}
// Keys of an item at most.
static int64_t most_keys(const struct case_data *data, int64_t b) {
    const struct test_case *t = &data->test;
    return t->has_past ? case_places_past(data, b) + case_kv_rows(t) : t->n_kv;
}
int64_t case_places_keys(const struct case_data *data, int64_t b) {
    const int32_t *lengths = data->test.score.kv_lengths;
    return lengths ? lengths[b] : most_keys(data, b);
}

struct reference_places case_places_of(const struct case_data *data) {
    const struct test_case *t = &data->test;
    return (struct reference_places){.past_k = data->past_k,
                                     .past_v = t->latent ? data->past_k : data->past_v,
                                     .past = t->past,
                                     .past_batch = case_past_batch(t),
                                     .past_lengths = data->past_lengths,
                                     .block_table = data->block_table,
                                     .page_size = t->page_size,
                                     .turned_pages = !t->append,
                                     .rows = case_kv_rows(t)};
}

double *case_kv_row(const struct case_data *data, bool value, int64_t b, int64_t h, int64_t j) {
    const struct test_case *t = &data->test;
    const int64_t size = value ? t->head_dim_v : t->head_dim, past = case_places_past(data, b);
    double *at = value ? data->v : data->k;
    if (at == NULL) return NULL; // the values are those of the keys
    if (t->page_size > 0) {
        b = data->block_table[b * blocks_of(t) + j / t->page_size];
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

// Pages in random order. An odd item shares its first page with the one before, unless rows are appended. Blocks that
// hold no key name none.
static void make_blocks(struct case_data *data, struct random *random) {
    const struct test_case *t = &data->test;
    const int64_t blocks = blocks_of(t), pages = case_kv_batch(t);
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

// Random ones into what an item has: its past and the rows behind it, those that are appended among them.
static void fit_lengths(struct case_data *data) {
    const struct test_case *t = &data->test;
    int32_t *lengths = data->integers[CASE_KV_LENGTHS];
    for (int64_t b = 0; lengths != NULL && t->given[CASE_KV_LENGTHS].count == 0 && b < t->batch; b++) {
        const int64_t least = t->append ? case_places_past(data, b) + t->append : 0;
        if (lengths[b] > most_keys(data, b)) lengths[b] = (int32_t)most_keys(data, b);
        if (lengths[b] < least) lengths[b] = (int32_t)least;
    }
}

void case_places_make(struct case_data *data) {
    const struct test_case *t = &data->test;
    struct random random = {t->seed + 77};
    if (t->past_count > 0) data->past_lengths = evidence_zeros((size_t)t->batch, sizeof *data->past_lengths);
    for (int64_t b = 0; b < t->past_count; b++) data->past_lengths[b] = (int32_t)t->past_length[b];
    fit_lengths(data);
    if (t->page_size > 0) make_blocks(data, &random);
}

// A table that repeats has no rows of its own.
static bool whole(const struct case_data *data, int tensor) {
    const struct guarded_shape shape = case_shape(&data->test, tensor);
    return guarded_shape_count(&shape) <= GUARDED_PERIOD;
}

static void hide(struct case_data *data, bool value) {
    const struct test_case *t = &data->test;
    const int tensors[] = {value ? CASE_V : CASE_K, value ? CASE_PAST_V : CASE_PAST_K};
    const int64_t size = value ? t->head_dim_v : t->head_dim;
    double *copy[2] = {NULL, NULL};
    int64_t count[2];
    for (int n = 0; n < 2; n++) {
        const struct guarded_shape shape = case_shape(t, tensors[n]);
        count[n] = guarded_shape_count(&shape);
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

void case_places_hide(struct case_data *data) {
    if (!case_has_places(&data->test)) return;
    if (whole(data, CASE_K) && whole(data, CASE_PAST_K)) hide(data, false);
    if (whole(data, CASE_V) && whole(data, CASE_PAST_V)) hide(data, true);
}

void case_places_free(struct case_data *data) {
    free(data->past_lengths);
    free(data->block_table);
}

void case_places_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    a->params.kv.past_lengths = data->past_lengths;
    if (t->page_size == 0) return;
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 2, {t->batch, blocks_of(t)}, t->layout};
    double *values = reference_alloc(t->batch * blocks_of(t));
    for (int64_t n = 0; n < t->batch * blocks_of(t); n++) values[n] = data->block_table[n];
    a->block_table = guarded_input(place, &shape, values);
    free(values);
    a->params.kv.block_table = a->block_table.view;
    a->params.kv.page_size = (int32_t)t->page_size;
}
