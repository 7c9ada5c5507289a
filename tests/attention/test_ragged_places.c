// test_ragged_places.c: ragged batches with keys as serving engines store them: in pages, in a
// cache or behind a past. Lengths are on the host or on the device; rows are appended; positions
// are explicit. Compared with the reference of a dense batch, on every path. Also refusals, and no
// access outside the tensors. Sequences that are packed on both sides are in test_ragged.c. Cases:
// tests/cases/ragged_places.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <stdlib.h>
#include <string.h>

#include "verification/case/case_ragged.h"

#define SEQUENCES 5
static const int32_t q_rows[] = {40, 0, 17, 1, 33}, kv_rows[] = {120, 60, 17, 20, 96};

static struct test_case base(const char *name, case_ragged ragged) {
    struct test_case test = {
        .name = name, .batch = SEQUENCES, .heads = 4, .kv_heads = 2, .n_q = 40, .n_kv = 120, .head_dim = 32};
    test.ragged = ragged;
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    case_give(&test, CASE_Q_LENGTHS, SEQUENCES, q_rows);
    case_give(&test, CASE_KV_LENGTHS, SEQUENCES, kv_rows);
    return test;
}

// The same kernel computes the same rows of each sequence in both places.
START_TEST(both_places_agree) {
    struct test_case test = base("places", CASE_RAGGED_CACHE);
    test.page_size = 15, test.kernel = CLATTN_KERNEL_FLASH;
    struct case_data *data = case_make(&test);
    struct case_result host = case_run(data, harness()->queue);
    data->test.ragged = CASE_RAGGED_CACHE_DEVICE;
    struct case_result device = case_run(data, harness()->queue);
    ck_assert_int_eq(host.status, CLATTN_OK);
    ck_assert_int_eq(device.status, CLATTN_OK);
    ck_assert_int_eq(memcmp(host.out, device.out, (size_t)SEQUENCES * 4 * 40 * 32 * sizeof(double)), 0);
    case_result_free(&host);
    case_result_free(&device);
    case_free(data);
}
END_TEST

static void write_words(const struct guarded *to, const int32_t *words, size_t bytes) {
    harness_expect(clEnqueueWriteBuffer(harness()->queue, to->view.buffer, CL_TRUE,
                                        (size_t)to->view.offset * sizeof *words, bytes, words, 0, NULL, NULL),
                   "clEnqueueWriteBuffer");
}

// With any contents of cu_seqlens, lengths and the block table, nothing outside the tensors is read
// or written, and the context still works.
START_TEST(wild_arrays) {
    static const int32_t wild[][SEQUENCES + 1] = {
        {0, 1000000, 3, INT32_MAX, INT32_MIN, 40}, {-7, -100, 91, 20, 91, 20}, {91, 80, 60, 40, 20, 0}};
    struct test_case test = base("wild", CASE_RAGGED_CACHE_DEVICE);
    test.page_size = 12, test.append = (int32_t)test.n_q;
    test.rope.layout = CLATTN_ROPE_HALF;
    test.kernel = _i ? CLATTN_KERNEL_UNFUSED : CLATTN_KERNEL_FLASH;
    struct case_data *data = case_make(&test);
    for (size_t n = 0; n < sizeof wild / sizeof wild[0]; n++) {
        struct case_arrays a;
        case_bind(data, harness_place(), &a);
        write_words(&a.cu_device[0], wild[n], sizeof wild[n]);
        write_words(&a.cu_device[1], wild[(n + 1) % 3], SEQUENCES * sizeof wild[n][0]);
        write_words(&a.block_table, wild[n], sizeof wild[n]);
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        const struct guarded *const written[] = {&a.out, &a.lse, &a.caches[0], &a.caches[1]};
        for (size_t t = 0; t < sizeof written / sizeof written[0]; t++) {
            double *values = calloc((size_t)guarded_count(&written[t]->view), sizeof *values);
            ck_assert_ptr_nonnull(values);
            ck_assert_msg(guarded_read(written[t], harness()->queue, values), "array %zu, tensor %zu", n, t);
            free(values);
        }
        ck_assert(guarded_intact(&a.q, harness()->queue) && guarded_intact(&a.new_rows[0], harness()->queue));
        case_unbind(&a);
    }
    case_free(data);
}
END_TEST

static const int32_t good_cu[] = {0, 5, 5, 9}, good_lengths[] = {12, 30, 4};

// Three sequences, 9 rows in total, on pages of 16.
static clattn_attention_params good(void) {
    static const int64_t table[] = {3, 2};
    clattn_attention_params p = {.q = clattn_tensor_bshd(NULL, CLATTN_TYPE_F32, 1, 2, 9, 16)};
    p.out = p.q;
    p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 7, 2, 16, 16);
    p.kv.block_table = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, table);
    p.kv.page_size = 16;
    p.cu_seqlens_q = good_cu;
    p.score.kv_lengths = good_lengths;
    p.sequences = 3;
    return p;
}

// A good call that also appends new rows (k_new, v_new).
static clattn_attention_params grown(void) {
    clattn_attention_params p = good();
    p.kv.k_new = p.kv.v_new = p.q;
    return p;
}

// A call with a past and packed keys.
static clattn_attention_params aged(void) {
    clattn_attention_params p = {.q = clattn_tensor_bshd(NULL, CLATTN_TYPE_F32, 1, 2, 9, 16)};
    p.out = p.kv.k = p.kv.v = p.q;
    p.kv.past_k = p.kv.past_v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 3, 2, 20, 16);
    p.cu_seqlens_q = p.kv.cu_seqlens_kv = good_cu;
    p.sequences = 3;
    return p;
}

static void refused(const char *name, const clattn_attention_params *p, const char *word) {
    clattn_plan plan;
    harness_log_clear();
    harness_assert_refused(name, clattn_attention_plan(harness()->context, p, &plan), CLATTN_INVALID_ARGUMENT,
                           word);
}
static void planned(const clattn_attention_params *p) {
    clattn_plan plan;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, p, &plan), CLATTN_OK);
}

START_TEST(refusals) {
    static const int32_t too_few[] = {4, 30, 4}, too_many[] = {33, 30, 4}, past_and_more[] = {5, 21, 4};
    clattn_attention_params p = good();
    planned(&p);
    p.kv.cu_seqlens_kv = good_cu, refused("packed pages", &p, "cu_seqlens_kv: keys lie in pages");
    p = good(), p.kv.block_table.shape[0] = 1, refused("lines", &p, "block_table: 1 lines");
    p = good(), p.score.kv_lengths = too_many, refused("lengths", &p, "kv_lengths: item 0 is 33");
    p = good(), p.max_kv = 5, refused("max_kv", &p, "max_kv: is of packed keys");
    p = grown(), planned(&p);
    p.kv.k_new.shape[2] = p.kv.v_new.shape[2] = 8,
    refused("new rows", &p, "k_new: 8 rows: of a ragged batch");
    p = grown(), p.kv.k_new.shape[0] = p.kv.v_new.shape[0] = 3, refused("new batch", &p, "k_new: 3 batch");
    p = grown(), p.score.kv_lengths = too_few, refused("new keys", &p, "k_new: 5 rows of item 0 are more");
    p = aged(), planned(&p);
    p.score.kv_lengths = past_and_more, refused("past and more", &p, "kv_lengths: item 1 is 21");
    p = aged(), p.kv.past_k.shape[0] = p.kv.past_v.shape[0] = 2, refused("past batch", &p, "past_k: shape");
    p = aged(), p.kv.past_k.rank = p.kv.past_v.rank = 0, p.kv.k_new = p.kv.v_new = p.q;
    refused("append", &p, "cu_seqlens_kv: k_new goes to caches");
}
END_TEST

// A batch of no sequences appends nothing, and needs no buffers for tensors without elements.
START_TEST(no_sequences_append) {
    static const int32_t cu[] = {0};
    static const int64_t x[] = {1, 0, 8}, w[] = {8, 8};
    const clattn_tensor rows = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 1, 0, 8),
                        cache = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 0, 1, 20, 8);
    clattn_attention_params p = {.q = rows, .out = rows, .cu_seqlens_q = cu};
    p.kv.k = p.kv.v = cache, p.kv.k_new = p.kv.v_new = rows;
    harness_log_clear();
    ck_assert_msg(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
                      CLATTN_OK,
                  "%s", harness_log_text());
    clattn_layer_params l = {.heads = 1, .append = true, .cu_seqlens_q = cu};
    size_t bytes;
    l.x = l.out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x);
    l.wq = l.wk = l.wv = l.wo = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w);
    l.kv.k = l.kv.v = cache;
    ck_assert_msg(clattn_layer_workspace(harness()->context, &l, &bytes) == CLATTN_OK, "%s",
                  harness_log_text());
}
END_TEST

// The header's table of layouts of keys. For each line, without and with new rows: the accepted
// shapes, Nkv (by a mask), and that lengths count all keys. Other suites test the numbers:
// attention, rope, past, ragged, append_attention, and the covering arrays.
enum { ITEMS = 3, NEW = 3, KEYS = 9, P = 8, PAGE_ROWS = 4, BLOCKS = 5 };

static clattn_attention_params cell_of(int line, bool appends) {
    static const int32_t cu[] = {0, NEW, 2 * NEW, 3 * NEW};
    const bool ragged = line == 3 || line == 4, packed = line == 3, paged = line == 2;
    const int64_t b = ragged ? 1 : ITEMS, n = ragged ? ITEMS * NEW : NEW, table[] = {ITEMS, BLOCKS};
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, b, 4, n, 16)};
    p.out = p.q;
    p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32,
                                         paged    ? 6
                                         : packed ? 1
                                                  : ITEMS,
                                         2,
                                         paged    ? PAGE_ROWS
                                         : packed ? ITEMS * NEW
                                                  : KEYS,
                                         16);
    if (line == 1) p.kv.past_k = p.kv.past_v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, P, 16);
    if (paged)
        p.kv.block_table = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, table), p.kv.page_size = PAGE_ROWS;
    if (ragged) p.sequences = ITEMS, p.cu_seqlens_q = cu;
    if (packed) p.kv.cu_seqlens_kv = cu;
    if (appends) p.kv.k_new = p.kv.v_new = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, b, 2, n, 16);
    return p;
}

START_TEST(cells_of_the_table) {
    static const int64_t keys[] = {KEYS, P + KEYS, BLOCKS * PAGE_ROWS, NEW, KEYS};
    const int line = _i / 2;
    const bool appends = _i % 2;
    clattn_attention_params p = cell_of(line, appends);
    if (line == 3 && appends) {
        refused("packed", &p, "cu_seqlens_kv: k_new goes to caches");
        return;
    }
    const int64_t shape[] = {1, keys[line]};
    int32_t lengths[ITEMS] = {(int32_t)keys[line], (int32_t)keys[line], (int32_t)keys[line]};
    p.score.mask = clattn_tensor_dense(NULL, CLATTN_TYPE_BOOL, 2, shape);
    planned(&p);
    p.score.mask.shape[1]++, refused("Nkv", &p, "mask: shape"), p.score.mask.shape[1]--;
    p.score.kv_lengths = lengths, planned(&p);
    lengths[1]++, refused("lengths", &p, "kv_lengths: item 1");
    lengths[1]--;
    if (!appends) return;
    lengths[1] = line == 1 ? P + NEW : NEW, planned(&p);
    lengths[1]--, refused("new rows", &p, "k_new: 3 rows of item 1");
    lengths[1]++, p.kv.k_new.shape[0]++, p.kv.v_new.shape[0]++, refused("items", &p, "k");
}
END_TEST

START_TEST(device_lengths_are_refused) {
    const int64_t count[] = {4, 3};
    clattn_attention_params p = good();
    p.kv.kv_lengths_device = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 1, &count[1]);
    refused("both places", &p, "all arrays must be on the device, or none");
    p.cu_seqlens_q = NULL, refused("lengths alone", &p, "kv_lengths_device: needs cu_seqlens_q");
    p.cu_seqlens_q_device = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 1, count), p.max_q = 5;
    refused("both lengths", &p, "kv_lengths_device: is given beside kv_lengths");
    p.score.kv_lengths = NULL, planned(&p);
    p.kv.kv_lengths_device.shape[0] = 4, refused("count", &p, "kv_lengths_device: has 4 numbers");
    p.kv.kv_lengths_device.shape[0] = 3;
    p.kv.cu_seqlens_kv_device = p.cu_seqlens_q_device, refused("packed", &p, "kv_lengths_device: is of keys");
}
END_TEST

START_TEST(positions_are_refused) {
    static const int64_t rows[] = {1, 9}, each[] = {3, 9};
    clattn_attention_params p = aged();
    p.rope.layout = CLATTN_ROPE_HALF;
    p.rope.positions = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, rows), planned(&p);
    p.rope.positions = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, each);
    refused("one row each", &p, "rope.positions: its shape");
    p.rope.positions = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, rows);
    p.kv.cu_seqlens_kv = NULL, p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 3, 2, 9, 16);
    refused("keys of a cache", &p, "rope.k_positions: are absent");
    p.rope.k_positions = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 2, each), planned(&p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ragged_places");
    TCase *results = harness_add(suite, "results", (const TTest *const[]){both_places_agree, NULL});
    tcase_add_loop_test(results, wild_arrays, 0, 2);
    tcase_add_loop_test(results, cells_of_the_table, 0, 10);
    harness_add(suite, "refusals",
                (const TTest *const[]){refusals, no_sequences_append, device_lengths_are_refused,
                                       positions_are_refused, NULL});
    case_list_add(suite, "ragged_places", "cases");
    return harness_run(suite);
}
