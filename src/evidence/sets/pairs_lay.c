// pairs_lay.c: where the keys of a covering array's case lie (pairs.h): in pages, in past rows and new ones, or as a latent, and
// how many of them the call appends. Their numbers follow from the sizes of the case, which the other options choose.
#include <string.h>

#include "evidence/sets/pairs.h"

static void lay_pages(struct test_case *t, int64_t page_size) {
    t->page_size = page_size;
    t->n_kv = (t->n_kv + page_size - 1) / page_size * page_size;
}

// Two keys in three are past ones, of all items or of some: of one all, of the next none, of the next about half.
static void lay_past(struct test_case *t, bool lengths, bool shared) {
    t->has_past = true;
    t->past = (2 * t->n_kv + 2) / 3;
    t->past_shared = shared;
    t->past_count = lengths ? (int)t->batch : 0;
    for (int b = 0; b < t->past_count; b++)
        t->past_length[b] = b % 3 == 0 ? (double)t->past : b % 3 == 1 ? 0 : (double)(t->past / 2);
}

// A past that all rows see by their positions, so that it is read once for all; behind it each has keys of its own.
static void lay_prefix(struct test_case *t) {
    const int64_t own = t->n_q + 5;
    int32_t lengths[CASE_GIVEN_MOST] = {0};
    if (t->n_kv < own + 15) t->n_kv = own + 15;
    lay_past(t, false, true);
    if (t->past > t->n_kv - own) t->past = t->n_kv - own;
    t->cascade = CASE_CASCADE_TRY;
    for (int64_t b = 0; b < t->batch && b < CASE_GIVEN_MOST; b++)
        lengths[b] = (int32_t)(t->n_kv - (3 * b + (int64_t)(t->seed % 5)) % 6);
    if (t->hosts & CASE_HOST_BIT(CASE_KV_LENGTHS)) case_give(t, CASE_KV_LENGTHS, (int)t->batch, lengths);
}

// New rows are among the keys that an item has, behind its past; those of a ragged batch as many as its rows.
static void lay_append(struct test_case *t, int64_t rows) {
    const int64_t most = t->n_kv - t->past, page = t->page_size > 0 ? t->page_size : 1;
    const bool given = t->given[CASE_KV_LENGTHS].count > 0;
    if (t->ragged && most < rows) t->n_kv = (t->past + rows + page - 1) / page * page;
    t->append = (int32_t)(rows < t->n_kv - t->past ? rows : t->n_kv - t->past);
    for (int b = 0; given && b < t->batch; b++)
        if (t->given[CASE_KV_LENGTHS].x[b] < (double)(t->past + t->append))
            t->given[CASE_KV_LENGTHS].x[b] = (double)(t->past + t->append);
}

void pairs_lay(struct test_case *t, const char *word) {
    if (strncmp(word, "pages", 5) == 0)
        lay_pages(t, strcmp(word, "pages7") == 0 ? 7 : 16);
    else if (strcmp(word, "past-cascade") == 0)
        lay_prefix(t);
    else if (strncmp(word, "past", 4) == 0)
        lay_past(t, strcmp(word, "past-lengths") == 0, strcmp(word, "past-shared") == 0);
    else if (strncmp(word, "append", 6) == 0)
        lay_append(t, strcmp(word, "appendall") == 0 ? t->n_q : 1);
    else if (strcmp(word, "latent") == 0)
        t->latent = true;
}
