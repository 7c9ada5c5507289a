// test_topk.c: clattn_topk_enqueue and clattn_index_enqueue compared with a stable sort of scores
// in float64, also as a device whose rows have work-groups; and the plans of both. Index scores
// are small integers, so that they are exact. Elsewhere: refusals (test_errors_topk.c), events,
// faults and threads (small_calls.h), strides (strided_calls.h).
#define _GNU_SOURCE
#include "args/args.h"
#include "support/case_assert.h"
#include "support/harness.h"
#include "attention/no_cpu.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

enum {
    ITEMS = 2,
    FILL_NORMAL = 0,
    FILL_TIES,
    FILL_NAN,
    FILL_EQUAL,
    FILL_ZEROS,
    FILL_INFINITE,
    FILL_FALLING,
    FILLS
};

typedef struct selecting {
    int heads, rows, entries, k;
    int fill;
    clattn_type type;
    clattn_selection s; // options
} selecting;

// ----------------------------------------------------------------------------------- reference ---
static const double *sorted_scores;
static int better_first(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    const double of_x = sorted_scores[x], of_y = sorted_scores[y];
    return of_x > of_y ? -1 : of_x < of_y ? 1 : x - y; // the position makes the sort stable
}
static int by_position(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

// Select entries of a row that sees `keys` keys, and return how many.
static int select_row(const clattn_selection *s, const double *scores, int64_t keys, int64_t entries, int k,
                      int *chosen) {
    const int64_t block = s->block ? s->block : 1;
    int64_t seen = (keys + block - 1) / block;
    seen = seen < entries ? seen : entries;
    double *x = reference_alloc(seen + 1);
    int *order = calloc((size_t)seen + 1, sizeof *order), count = 0, kept = 0;
    for (int n = 0; n < seen; n++) {
        const bool forced = n < s->sinks || n >= seen - s->local;
        x[n] = forced             ? 2 * (double)FLT_MAX
               : isinf(scores[n]) ? copysign(1.5 * (double)FLT_MAX, scores[n])
                                  : scores[n];
        if (!isnan(x[n])) order[count++] = n;
    }
    sorted_scores = x;
    qsort(order, (size_t)count, sizeof *order, better_first);
    for (; kept < count && kept < k; kept++)
        if (s->thresholded && x[order[kept]] < (double)s->threshold && kept >= s->minimum) break;
    memcpy(chosen, order, (size_t)kept * sizeof *chosen);
    qsort(chosen, (size_t)kept, sizeof *chosen, by_position);
    free(x), free(order);
    return kept;
}

static int64_t seen_keys(const clattn_selection *s, int b, int i, int64_t rows, int64_t keys) {
    const int64_t length = s->kv_lengths ? s->kv_lengths[b] : keys;
    const int64_t q = s->q_lengths ? s->q_lengths[b] : rows;
    const int64_t shift = s->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? length - q
                          : s->alignment == CLATTN_ALIGN_OFFSET     ? (s->offsets ? s->offsets[b] : s->offset)
                                                                    : 0;
    if (!s->causal) return length;
    return i + shift + 1 < 0 ? 0 : i + shift + 1 < length ? i + shift + 1 : length;
}

// The results of a call, and their comparison.
typedef struct lists {
    struct guarded indices, counts, values;
} lists;

static void open_lists(lists *l, clattn_selection *s, int heads, int rows, int k) {
    const struct guarded_shape of_k = {CLATTN_TYPE_I32, 4, {ITEMS, rows, heads, k}, LAYOUT_PADDED},
                               of_rows = {CLATTN_TYPE_I32, 3, {ITEMS, rows, heads}, LAYOUT_PADDED},
                               scores = {CLATTN_TYPE_F32, 4, {ITEMS, rows, heads, k}, LAYOUT_DENSE};
    l->indices = guarded_output(harness_place(), &of_k), s->indices = l->indices.view;
    l->counts = guarded_output(harness_place(), &of_rows), s->counts = l->counts.view;
    l->values = guarded_output(harness_place(), &scores), s->values = l->values.view;
}

// `scores` [ITEMS, heads, rows, entries].
static void check_lists(lists *l, const clattn_selection *s, const double *scores, int heads, int rows,
                        int64_t entries, int64_t keys, int k) {
    const int64_t count = (int64_t)ITEMS * rows * heads;
    double *indices = reference_alloc(count * k), *counts = reference_alloc(count),
           *values = reference_alloc(count * k);
    int *chosen = calloc((size_t)entries + 1, sizeof *chosen);
    ck_assert_msg(guarded_read(&l->indices, harness()->queue, indices) &&
                      guarded_read(&l->counts, harness()->queue, counts) &&
                      guarded_read(&l->values, harness()->queue, values),
                  "bytes around the lists changed");
    for (int64_t at = 0; at < count; at++) {
        const int h = (int)(at % heads), i = (int)(at / heads % rows), b = (int)(at / heads / rows);
        if (s->q_lengths && i >= s->q_lengths[b]) continue;
        const double *row = scores + ((b * heads + h) * (int64_t)rows + i) * entries;
        const int n = select_row(s, row, seen_keys(s, b, i, rows, keys), entries, k, chosen);
        ck_assert_msg(counts[at] == n, "item %d, head %d, row %d: %g entries, not %d", b, h, i, counts[at],
                      n);
        for (int c = 0; c < k; c++) {
            const double want = c < n ? chosen[c] : -1, score = c < n ? row[chosen[c]] : -INFINITY;
            const double got = values[at * k + c];
            ck_assert_msg(indices[at * k + c] == want, "item %d, head %d, row %d, place %d: %g, not %g", b, h,
                          i, c, indices[at * k + c], want);
            ck_assert_msg(got == score || (isnan(got) && isnan(score)) ||
                              fabs(got - score) <= 1e-6 * fabs(score),
                          "item %d, row %d, place %d: score %g, not %g", b, i, c, got, score);
        }
    }
    guarded_release(&l->indices), guarded_release(&l->counts), guarded_release(&l->values);
    free(indices), free(counts), free(values), free(chosen);
}

// --------------------------------------------------------------------------------------- top-k ---
static double fill_one(int fill, double x, int64_t n) {
    switch (fill) {
    case FILL_TIES:
        return floor(2 * x);
    case FILL_NAN:
        return n % 3 ? NAN : x;
    case FILL_EQUAL:
        return 0.5;
    case FILL_ZEROS:
        return n % 2 ? -0.0 : 0.0;
    case FILL_INFINITE:
        return n % 5 == 0 ? INFINITY : n % 5 == 1 ? -INFINITY : n % 5 == 2 ? NAN : x;
    case FILL_FALLING:
        return (double)(n % 4096) * (n % 8192 < 4096 ? 1 : -1); // each tile has better ones
    default:
        return x;
    }
}

static void run_topk(const selecting *t) {
    struct random random = {(uint64_t)t->k};
    const int64_t count = (int64_t)ITEMS * t->heads * t->rows * t->entries;
    const struct guarded_shape shape = {
        t->type, 4, {ITEMS, t->heads, t->rows, t->entries}, t->entries % 2 ? LAYOUT_PADDED : LAYOUT_DENSE};
    double *scores = case_random(&random, count, t->type, 2);
    for (int64_t n = 0; n < count; n++) // large tensors repeat a table
        scores[n] = n < GUARDED_PERIOD ? fill_one(t->fill, scores[n], n) : scores[n - GUARDED_PERIOD];
    struct guarded from = guarded_input(harness_place(), &shape, scores);
    clattn_topk_params p = {.scores = from.view, .selection = t->s};
    lists l;
    const int64_t block = t->s.block ? t->s.block : 1;
    open_lists(&l, &p.selection, t->heads, t->rows, t->k);
    ck_assert_msg(clattn_topk_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    ck_assert_msg(guarded_intact(&from, harness()->queue), "scores changed");
    check_lists(&l, &p.selection, scores, t->heads, t->rows, t->entries, t->entries * block, t->k);
    guarded_release(&from);
    free(scores);
}

START_TEST(fills) {
    run_topk(&(selecting){.heads = 2, .rows = 3, .entries = 201, .k = 1 + 16 * (_i % 2), .fill = _i});
    // in segments
    run_topk(&(selecting){.heads = 1, .rows = 1, .entries = 20000, .k = 300, .fill = _i});
}
END_TEST

START_TEST(sizes) {
    run_topk(&(selecting){.heads = 1, .rows = 2, .entries = 3, .k = 9});
    run_topk(&(selecting){.heads = 1, .rows = 1, .entries = 1, .k = 1});
    run_topk(&(selecting){.heads = 1, .rows = 1, .entries = 9001, .k = 4096, .fill = FILL_TIES});
    run_topk(&(selecting){.heads = 1, .rows = 5, .entries = 12000, .k = 40, .fill = FILL_FALLING});
}
END_TEST

START_TEST(million) {
    run_topk(&(selecting){.heads = 1, .rows = 1, .entries = 1 << 20, .k = 4096, .fill = FILL_NORMAL});
}
END_TEST

static const int32_t some_lengths[ITEMS] = {37, 0}, some_rows[ITEMS] = {4, 2}, some_offsets[ITEMS] = {-2, 60};

START_TEST(options) {
    const selecting base = {.heads = 2, .rows = 4, .entries = 100, .k = 12, .fill = FILL_NAN};
    for (int n = 0; n < 7; n++) {
        selecting t = base;
        clattn_selection *s = &t.s;
        s->sinks = n % 3, s->local = n % 4;
        if (n == 1 || n == 4) s->causal = true;
        if (n == 2) s->causal = true, s->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        if (n == 3) s->causal = true, s->alignment = CLATTN_ALIGN_OFFSET, s->offsets = some_offsets;
        if (n > 3) s->kv_lengths = some_lengths, s->q_lengths = some_rows;
        if (n == 4 || n == 5) s->thresholded = true, s->threshold = 0.25f, s->minimum = n == 4 ? 0 : 5;
        if (n == 6) s->block = 8, s->causal = true, s->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        run_topk(&t);
    }
}
END_TEST

START_TEST(types) {
    run_topk(&(selecting){
        .heads = 2, .rows = 3, .entries = 67, .k = 9, .type = (clattn_type)_i, .fill = FILL_TIES});
}
END_TEST

// ------------------------------------------------------------------------------------- indexer ---
typedef struct indexing {
    const char *name;
    int heads, lists, rows, keys, d, k;
    clattn_type q, type;
    bool linear, weighs;
    clattn_index_reduction reduction;
    clattn_selection s;
    enum { KEYS_DENSE, KEYS_PAGED, KEYS_RAGGED } where;
} indexing;

enum { PAGE = 8 };

// Small integers of a hash, so that products and sums are exact.
static double whole(int64_t n, int seed, int most) {
    const uint64_t x = ((uint64_t)n * 0x9e3779b97f4a7c15u + (uint64_t)seed * 0x2545f4914f6cdd1du) >> 33;
    return (double)(x % (uint64_t)(2 * most + 1)) - most;
}

typedef struct index_numbers {
    double *q, *k, *scale, *weights, *table, *scores;
} index_numbers;

static double key_score(const indexing *t, const index_numbers *x, int b, int list, int i, int j) {
    const int group = t->heads / t->lists;
    double sum = 0;
    for (int g = 0; g < group; g++) {
        const int h = list * group + g;
        double dot = 0;
        for (int d = 0; d < t->d; d++)
            dot += x->q[((b * t->heads + h) * (int64_t)t->rows + i) * t->d + d] *
                   x->k[((b * t->lists + list) * (int64_t)t->keys + j) * t->d + d];
        dot *= 0.5 * x->scale[(b * t->lists + list) * (int64_t)t->keys + j];
        sum += (t->weighs ? x->weights[(b * (int64_t)t->rows + i) * t->heads + h] : 1) *
               (t->linear || dot > 0 ? dot : 0);
    }
    return sum;
}

static void score_entries(const indexing *t, index_numbers *x, int64_t entries) {
    const int block = t->s.block ? t->s.block : 1;
    for (int64_t n = 0; n < (int64_t)ITEMS * t->lists * t->rows * entries; n++) {
        const int e = (int)(n % entries), i = (int)(n / entries % t->rows),
                  list = (int)(n / entries / t->rows % t->lists), b = (int)(n / entries / t->rows / t->lists);
        const int64_t seen = seen_keys(&t->s, b, i, t->rows, t->keys);
        double most = -INFINITY, sum = 0;
        int keys = 0;
        for (int j = e * block; j < (e + 1) * block && j < seen; j++, keys++) {
            const double s = key_score(t, x, b, list, i, j);
            sum += s, most = fmax(most, s);
        }
        x->scores[n] = t->reduction == CLATTN_INDEX_MEAN ? sum / keys : most;
    }
}

static double *wholes(int64_t count, int seed, int most) {
    double *x = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) x[n] = whole(n, seed, most);
    return x;
}

// Keys of pages: page p of the pool has the rows that the table assigns to it.
static double *paged(const indexing *t, const double *rows, const double *table, int width) {
    const int pages = t->keys / PAGE;
    double *x = reference_alloc((int64_t)ITEMS * pages * t->lists * PAGE * width);
    for (int64_t n = 0; n < (int64_t)ITEMS * t->lists * t->keys; n++) {
        const int j = (int)(n % t->keys), h = (int)(n / t->keys % t->lists),
                  b = (int)(n / t->keys / t->lists);
        const int64_t page = (int64_t)table[b * pages + j / PAGE];
        memcpy(x + ((page * t->lists + h) * PAGE + j % PAGE) * width, rows + n * width,
               (size_t)width * sizeof *x);
    }
    return x;
}

static void run_index(const indexing *t) {
    const int64_t keys = (int64_t)ITEMS * t->lists * t->keys, rows = (int64_t)ITEMS * t->rows * t->heads;
    const int pages = t->keys / PAGE, block = t->s.block ? t->s.block : 1;
    const int64_t entries = (t->keys + block - 1) / block;
    const bool scaled = CLATTN_TYPE_IS_SCALED(t->type), is_paged = t->where == KEYS_PAGED;
    index_numbers x = {wholes(rows * t->d, 1, 3),
                       wholes(keys * t->d, 2, 3),
                       wholes(keys, 3, 1),
                       wholes(rows, 4, 2),
                       reference_alloc(ITEMS * pages + 1),
                       reference_alloc(ITEMS * t->lists * t->rows * entries)};
    for (int64_t n = 0; n < keys; n++) x.scale[n] = scaled ? x.scale[n] + 2 : 1;
    for (int n = 0; n < ITEMS * pages; n++) x.table[n] = (n * 5 + 3) % (ITEMS * pages);
    score_entries(t, &x, entries);
    double *k = is_paged ? paged(t, x.k, x.table, t->d) : x.k,
           *scale = is_paged ? paged(t, x.scale, x.table, 1) : x.scale;
    const int64_t outer = is_paged ? ITEMS * pages : ITEMS, inner = is_paged ? PAGE : t->keys;
    const struct guarded_shape of_q = {t->q, 4, {ITEMS, t->heads, t->rows, t->d}, LAYOUT_PADDED},
                               of_k = {t->type, 4, {outer, t->lists, inner, t->d}, LAYOUT_BSHD},
                               of_scale = {CLATTN_TYPE_F32, 3, {outer, t->lists, inner}, LAYOUT_DENSE},
                               of_weights = {t->q, 3, {ITEMS, t->rows, t->heads}, LAYOUT_DENSE},
                               of_table = {CLATTN_TYPE_I32, 2, {ITEMS, pages}, LAYOUT_DENSE};
    struct guarded in[5] = {guarded_input(harness_place(), &of_q, x.q),
                            guarded_input(harness_place(), &of_k, k),
                            guarded_input(harness_place(), &of_scale, scale),
                            guarded_input(harness_place(), &of_weights, x.weights),
                            guarded_input(harness_place(), &of_table, x.table)};
    clattn_index_params p = {.q = in[0].view, .k = in[1].view, .scale = 0.5f, .linear = t->linear};
    lists l;
    p.reduction = t->reduction, p.selection = t->s;
    if (scaled) p.k_scale = in[2].view;
    if (t->weighs) p.weights = in[3].view;
    if (is_paged) p.block_table = in[4].view, p.page_size = PAGE;
    open_lists(&l, &p.selection, t->lists, t->rows, t->k);
    ck_assert_msg(clattn_index_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s: %s",
                  t->name, harness_log_text());
    check_lists(&l, &p.selection, x.scores, t->lists, t->rows, entries, t->keys, t->k);
    for (int n = 0; n < 5; n++) guarded_release(&in[n]);
    if (is_paged) free(k), free(scale);
    free(x.q), free(x.k), free(x.scale), free(x.weights), free(x.table), free(x.scores);
}

static const int32_t key_lengths[ITEMS] = {40, 19};

// Entries that share a kernel are beside each other: a compilation is the cost of this suite.
static const indexing indexings[] = {
    {"plain", 3, 1, 3, 48, 20, 7, .weighs = true},
    {"linear, causal", 3, 1, 5, 48, 20, 7, .linear = true, .s = {.causal = true, .sinks = 2, .local = 2}},
    {"maxima of blocks", 3, 1, 3, 45, 20, 3, .weighs = true,
     .s = {.block = 8, .kv_lengths = key_lengths, .local = 1}},
    {"means of blocks", 3, 1, 3, 45, 20, 3, .reduction = CLATTN_INDEX_MEAN, .linear = true,
     .s = {.block = 8, .causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT}},
    {"pages of int8", 4, 2, 2, 48, 33, 9, CLATTN_TYPE_F16, CLATTN_TYPE_I8, .weighs = true,
     .where = KEYS_PAGED, .s = {.kv_lengths = key_lengths}},
    {"float8", 2, 2, 2, 48, 16, 9, CLATTN_TYPE_BF16, CLATTN_TYPE_F8E4M3, .weighs = true},
    {"bfloat16, segments", 2, 1, 1, 9000, 16, 40, CLATTN_TYPE_F32, CLATTN_TYPE_BF16, .weighs = true}};
enum { INDEXINGS = sizeof indexings / sizeof indexings[0] };

START_TEST(index_scores) {
    run_index(&indexings[_i]);
}
END_TEST

// Packed rows and keys have the lists of separate calls.
START_TEST(packed_rows) {
    enum { ROWS = 5, KEYS = 30, SIZE = 20, K = 6 };
    static const int32_t q_ends[] = {0, 2, 2, 5}, k_ends[] = {0, 11, 15, 30};
    const struct guarded_shape of_q = {CLATTN_TYPE_F32, 4, {1, 3, ROWS, SIZE}, LAYOUT_DENSE},
                               of_k = {CLATTN_TYPE_F32, 4, {1, 1, KEYS, SIZE}, LAYOUT_DENSE},
                               list = {CLATTN_TYPE_I32, 4, {1, ROWS, 1, K}, LAYOUT_DENSE};
    double *q = wholes(3 * ROWS * SIZE, 5, 3), *k = wholes(KEYS * SIZE, 6, 3), got[2][ROWS * K];
    struct guarded in[2] = {guarded_input(harness_place(), &of_q, q),
                            guarded_input(harness_place(), &of_k, k)},
                   out[2] = {guarded_output(harness_place(), &list), guarded_output(harness_place(), &list)};
    const clattn_index_params base = {.q = in[0].view,
                                      .k = in[1].view,
                                      .selection = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT}};
    clattn_index_params p = base;
    p.cu_seqlens_kv = k_ends, p.selection.cu_seqlens_q = q_ends, p.selection.sequences = 3;
    p.selection.indices = out[0].view;
    ck_assert_msg(clattn_index_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    for (int b = 0; b < 3; b++) {
        p = base, p.selection.indices = out[1].view;
        p.q.offset += q_ends[b] * SIZE, p.q.shape[2] = q_ends[b + 1] - q_ends[b];
        p.k.offset += k_ends[b] * SIZE, p.k.shape[2] = k_ends[b + 1] - k_ends[b];
        p.selection.indices.offset += q_ends[b] * K, p.selection.indices.shape[1] = p.q.shape[2];
        ck_assert(clattn_index_enqueue(on, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    }
    for (int n = 0; n < 2; n++) ck_assert(guarded_read(&out[n], harness()->queue, got[n]));
    for (int n = 0; n < ROWS * K; n++) ck_assert_double_eq(got[0][n], got[1][n]);
    for (int n = 0; n < 2; n++) guarded_release(&in[n]), guarded_release(&out[n]);
    free(q), free(k);
}
END_TEST

// The plan of both calls, on a CPU and elsewhere.
static clattn_selection_plan plan_rows(int64_t rows, int64_t entries, int64_t k) {
    clattn_topk_params p = {
        .scores = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (int64_t[]){1, 1, rows, entries})};
    clattn_selection_plan plan;
    p.selection.indices = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 4, (int64_t[]){1, rows, 1, k});
    ck_assert_msg(clattn_topk_plan(on, &p, &plan) == CLATTN_OK, "%s", harness_log_text());
    return plan;
}

START_TEST(plans) {
    const bool cpu = clattn_context_capabilities(on)->is_cpu;
    const clattn_selection_plan few = plan_rows(1, 1 << 20, 2048), many = plan_rows(1 << 14, 1 << 17, 2048),
                                tiny = plan_rows(1, 100, 10), none = plan_rows(0, 100, 10);
    ck_assert_str_eq(few.kernel_name, "topk");
    ck_assert_int_eq(few.work_group, cpu ? 1 : 256);
    ck_assert_msg(strstr(few.why, cpu ? "a CPU" : "groups of work-items") != NULL, "%s", few.why);
    ck_assert_msg(few.segments > 1 && few.launches == 2 && strstr(few.why, "segments a row") != NULL, "%s",
                  few.why);
    ck_assert_msg(many.segments == 1 && strstr(many.why, "enough") != NULL, "%s", many.why);
    ck_assert_msg(tiny.segments == 1 && tiny.launches == 2 && strstr(tiny.why, "too few") != NULL, "%s",
                  tiny.why);
    ck_assert_uint_le(many.workspace_bytes, 64 << 20);
    ck_assert_int_gt(many.launches, 2); // so that its memory stays below that
    ck_assert_msg(none.launches == 0 && none.workspace_bytes == 0, "a call without rows");
    // Scratch memory does not grow with the keys.
    ck_assert_uint_eq(plan_rows(1 << 14, 1 << 20, 2048).workspace_bytes, many.workspace_bytes);
    plan_rows(1, ARGS_MOST_ROWS, 10);
    const clattn_topk_params too_many = {
        .scores = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 4, (int64_t[]){1, 1, 1, ARGS_MOST_ROWS + 1}),
        .selection.indices = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 4, (int64_t[]){1, 1, 1, 10})};
    clattn_selection_plan none_made;
    ck_assert_int_eq(clattn_topk_plan(on, &too_many, &none_made), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(harness_log_text(), "scores: 2147418112 keys: at most 2147418111"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("topk");
    TCase *group = harness_add(suite, "as the device is",
                               (const TTest *const[]){plans, sizes, options, packed_rows, NULL}),
          *in_groups = harness_add(suite, "as no CPU", (const TTest *const[]){plans, options, NULL});
    tcase_add_unchecked_fixture(group, begin_cpu, NULL);
    tcase_add_unchecked_fixture(in_groups, begin_gpu, end_gpu);
    tcase_add_loop_test(group, fills, 0, FILLS);
    tcase_add_loop_test(group, index_scores, 0, INDEXINGS);
    harness_add_loop(group, types, 3);
    if (harness_every() == 1) tcase_add_test(group, million);
    tcase_add_loop_test(in_groups, fills, 0, FILLS);
    // These share one kernel.
    tcase_add_loop_test(in_groups, index_scores, 0, 4);
    if (harness_every() == 1) {
        tcase_add_test(in_groups, sizes);
        tcase_add_loop_test(in_groups, index_scores, 4, INDEXINGS);
    }
    return harness_run(suite);
}
