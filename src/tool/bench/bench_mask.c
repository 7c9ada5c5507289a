// bench_mask.c: see bench_mask.h.
#include "tool/bench/bench_mask.h"

#include <stdio.h>
#include <stdlib.h>

#include "evidence/case/case_mods.h"
#include "evidence/limits/model.h"
#include "evidence/reference/reference.h"

// In 64ths of the sequence: their ends are not those of tiles.
static const int parts[] = {7, 19, 3, 23, 12};

// The document of a key; rows are the last of the sequence.
static int document_of(const struct test_case *t, int64_t j) {
    int64_t end = 0;
    int n = 0;
    for (; n < 4; n++) {
        end += parts[n];
        if (j < t->n_kv * end / 64) break;
    }
    return n;
}

static int document_of_row(const struct test_case *t, int64_t i) {
    const int64_t j = i + t->n_kv - t->n_q;
    return document_of(t, j < 0 ? 0 : j);
}

// A mask that is given lies in a table that repeats; one that is only compared with, in the host's memory: 268 MB of it.
bool bench_mask_fits(const struct test_case *t, bench_mask how, char why[256]) {
    const int64_t pairs = t->n_q * t->n_kv;
    const bool given = how != BENCH_MASK_DOCUMENTS_MOD, fits = pairs <= (given ? GUARDED_PERIOD : 1 << 25);
    if (!fits)
        snprintf(
            why, 256, "%s",
            given
                ? "a mask of more than a million elements is a table that repeats"
                : "the documents' mask, which the result is compared by, has more than 33 million elements");
    else if (t->mask.rank != 2 || t->mask.repeat)
        snprintf(why, 256, "documents are a mask [Nq, Nkv]");
    return fits && t->mask.rank == 2 && !t->mask.repeat;
}

void bench_mask_fill(struct case_data *data, bench_mask how) {
    const struct test_case *t = &data->test;
    if (how == BENCH_MASK_RANDOM) return;
    if (t->n_q * t->n_kv > GUARDED_PERIOD) {
        free(data->mask);
        data->map_period = t->n_q * t->n_kv;
        data->mask = reference_alloc(data->map_period);
    }
    for (int64_t i = 0; i < t->n_q; i++)
        for (int64_t j = 0; j < t->n_kv; j++)
            data->mask[i * t->n_kv + j] =
                how == BENCH_MASK_KEPT || document_of_row(t, i) == document_of(t, j);
}

static void bind_documents(struct place *place, const struct test_case *t, bool rows, struct guarded *to) {
    const int64_t count = rows ? t->n_q : t->n_kv;
    const struct guarded_shape shape = {CLATTN_TYPE_I32, 2, {t->batch, count}, LAYOUT_DENSE};
    double *values = reference_alloc(t->batch * count);
    for (int64_t n = 0; n < t->batch * count; n++)
        values[n] = rows ? document_of_row(t, n % count) : document_of(t, n % count);
    *to = guarded_input(place, &shape, values);
    free(values);
}

void bench_mask_bind(const struct case_data *data, struct place *place, struct case_arrays *a,
                     bench_mask how) {
    clattn_score *s = &a->params.score;
    if (how != BENCH_MASK_DOCUMENTS_MOD) return;
    for (int n = 0; n < 2; n++) {
        bind_documents(place, &data->test, n == 0, &a->mods[n]);
        s->mod_buffers[n] = a->mods[n].view;
    }
    s->mask = (clattn_tensor){0};
    s->mask_mod = CLATTN_MASK_MOD_DOCUMENT;
    if (s->block_mask.rank > 0) case_blocks_fill(place, &a->params);
}

double bench_mask_pairs(const struct case_data *data, bench_mask how) {
    const struct test_case *t = &data->test;
    double pairs = 0.0;
    if (how == BENCH_MASK_RANDOM || how == BENCH_MASK_KEPT)
        return model_pairs(&t->score, t->batch, t->n_q, t->n_kv);
    for (int64_t n = 0; n < t->n_q * t->n_kv; n++) pairs += data->mask[n] != 0;
    return (double)t->batch * pairs;
}
