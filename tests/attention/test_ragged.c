// test_ragged.c: ragged batches: packed sequences of different lengths, compared with the reference
// of a dense batch with such lengths, on every path and option that depends on a row's place.
// Arrays on the host and on the device, refusals, and no access outside the tensors, whatever an
// array on the device contains. Cases: tests/cases/ragged.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_ragged.h"
#include "verification/reference/storage.h"

static const int32_t q_rows[] = {40, 0, 17, 1, 33}, kv_rows[] = {133, 60, 0, 20, 33};
#define SEQUENCES 5

static struct test_case base(const char *name, case_ragged ragged) {
    struct test_case test = {
        .name = name, .batch = SEQUENCES, .heads = 4, .kv_heads = 2, .n_q = 40, .n_kv = 133};
    test.head_dim = 32;
    test.ragged = ragged;
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    case_give(&test, CASE_Q_LENGTHS, SEQUENCES, q_rows);
    case_give(&test, CASE_KV_LENGTHS, SEQUENCES, kv_rows);
    return test;
}

static struct test_case of_lengths(const char *name, int sequences, const int32_t *q, const int32_t *kv) {
    struct test_case test = base(name, CASE_RAGGED_HOST);
    test.batch = sequences;
    case_give(&test, CASE_Q_LENGTHS, sequences, q);
    case_give(&test, CASE_KV_LENGTHS, sequences, kv);
    return test;
}

// Single rows among long sequences: each sequence uses the kernel that suits it, in one call.
START_TEST(prefill_and_decode) {
    static const int32_t q[] = {1, 40, 1, 3, 17, 1}, kv[] = {130, 40, 77, 133, 90, 0};
    struct test_case test = of_lengths("prefill and decode", 6, q, kv);
    test.head_dim = 64;
    test.ragged = _i & 1 ? CASE_RAGGED_GAPS : CASE_RAGGED_CACHE;
    test.hosts |= CASE_HOST_BIT(CASE_SINKS);
    if (_i & 2) test.mask.rank = 4, test.rope.layout = CLATTN_ROPE_INTERLEAVED;
    case_assert(&test);
    struct case_data *data = case_make(&test);
    struct case_arrays a;
    clattn_plan plan;
    case_bind(data, harness_place(), &a);
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &a.params, &plan), CLATTN_OK);
    ck_assert_msg(strstr(plan.why, "; sequences of up to ") != NULL, "%s", plan.why);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// Arrays on the device lead to the same bits.
START_TEST(both_places_agree) {
    struct test_case test = base("places", CASE_RAGGED_GAPS);
    test.kernel = CLATTN_KERNEL_FLASH;
    struct case_data *data = case_make(&test);
    const struct case_result host = case_run(data, harness()->queue);
    data->test.ragged = CASE_RAGGED_GAPS_DEVICE;
    const struct case_result device = case_run(data, harness()->queue);
    ck_assert_int_eq(host.status, CLATTN_OK);
    ck_assert_int_eq(device.status, CLATTN_OK);
    const size_t rows = SEQUENCES * 4 * 40;
    ck_assert_int_eq(memcmp(host.out, device.out, rows * 32 * sizeof(double)), 0);
    ck_assert_int_eq(memcmp(host.lse, device.lse, rows * sizeof(double)), 0);
    struct case_result both[] = {host, device};
    case_result_free(&both[0]);
    case_result_free(&both[1]);
    case_free(data);
}
END_TEST

// Invalid arrays on the device: nothing outside the results changes, and the context still works.
START_TEST(wild_arrays) {
    static const int32_t wild[][SEQUENCES + 1] = {{0, 1000000, 3, INT32_MAX, INT32_MIN, 40},
                                                  {-7, -100, 91, 20, 91, 20},
                                                  {91, 80, 60, 40, 20, 0},
                                                  {INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, 0, INT32_MAX}};
    static const clattn_kernel kernels[] = {CLATTN_KERNEL_FLASH, CLATTN_KERNEL_UNFUSED};
    struct test_case test = base("wild", CASE_RAGGED_DEVICE);
    test.rope.layout = CLATTN_ROPE_HALF;
    test.kernel = kernels[_i & 1];
    struct case_data *data = case_make(&test);
    for (size_t n = 0; n < sizeof wild / sizeof wild[0]; n++) {
        struct case_arrays a;
        case_bind(data, harness_place(), &a);
        for (int of = 0; of < 2; of++)
            harness_expect(clEnqueueWriteBuffer(harness()->queue, a.cu_device[of].view.buffer, CL_TRUE,
                                                (size_t)a.cu_device[of].view.offset * 4, sizeof wild[n],
                                                wild[of ? (n + 1) % 4 : n], 0, NULL, NULL),
                           "clEnqueueWriteBuffer");
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        double *values = calloc((size_t)guarded_count(&a.out.view), sizeof *values);
        ck_assert_ptr_nonnull(values);
        ck_assert_msg(guarded_read(&a.out, harness()->queue, values), "array %zu: bytes around out changed",
                      n);
        ck_assert_msg(guarded_read(&a.lse, harness()->queue, values), "array %zu: bytes around lse changed",
                      n);
        ck_assert(guarded_intact(&a.q, harness()->queue) && guarded_intact(&a.k, harness()->queue));
        free(values);
        case_unbind(&a);
    }
    case_free(data);
}
END_TEST

// The header's rule for invalid numbers: a sequence begins at its number, clamped to 0 and T, and
// ends at the next number, not before its own start. Rows of no sequence are not written.
START_TEST(odd_arrays) {
    enum { ROWS = 6, SIZE = 16 };
    static const double odd[] = {4, 1, 99}, plain[] = {0, 0, 5};
    const struct guarded_shape rows = {CLATTN_TYPE_F32, 4, {1, 1, ROWS, SIZE}, LAYOUT_DENSE},
                               cu = {CLATTN_TYPE_I32, 1, {3}, LAYOUT_DENSE};
    double x[ROWS * SIZE], got[2][ROWS * SIZE];
    for (int n = 0; n < ROWS * SIZE; n++) x[n] = (double)(n * 37 % 101) / 50 - 1;
    for (int n = 0; n < 2; n++) {
        struct guarded q = guarded_input(harness_place(), &rows, x),
                       out = guarded_output(harness_place(), &rows),
                       at = guarded_input(harness_place(), &cu, n ? plain : odd);
        clattn_attention_params p = {.q = q.view, .kv = {.k = q.view, .v = q.view}, .out = out.view};
        p.sequences = 2, p.max_q = p.max_kv = ROWS;
        p.cu_seqlens_q_device = p.kv.cu_seqlens_kv_device = at.view;
        if (n) { // only the rows of the sequences, without row 0
            p.q.offset = p.kv.k.offset = p.kv.v.offset = p.out.offset = SIZE;
            p.q.shape[2] = p.kv.k.shape[2] = p.kv.v.shape[2] = p.out.shape[2] = ROWS - 1;
        }
        ck_assert_int_eq(clattn_attention_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                         CLATTN_OK);
        ck_assert(guarded_read(&out, harness()->queue, got[n]));
        guarded_release(&q), guarded_release(&out), guarded_release(&at);
    }
    for (int d = 0; d < SIZE; d++) ck_assert(got[0][d] == STORAGE_UNTOUCHED);
    for (int n = SIZE; n < ROWS * SIZE; n++) ck_assert_double_eq_tol(got[0][n], got[1][n], 1e-6);
}
END_TEST

static const int32_t good_cu[] = {0, 5, 5, 9};

// A call of three sequences, 9 rows in total.
static clattn_attention_params good(void) {
    clattn_attention_params p = {.q = clattn_tensor_bshd(NULL, CLATTN_TYPE_F32, 1, 2, 9, 16)};
    p.out = p.kv.k = p.kv.v = p.q;
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

START_TEST(arrays_are_refused) {
    static const int32_t from_1[] = {1, 5, 5, 9}, falls[] = {0, 5, 4, 9}, passes[] = {0, 5, 5, 10},
                         negative[] = {0, -1, 5, 9}, used[] = {5, 1, 4};
    clattn_attention_params p = good();
    clattn_plan plan;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &p, &plan), CLATTN_OK);
    p.cu_seqlens_q = from_1, refused("from 1", &p, "cu_seqlens_q: begins with 1");
    p.cu_seqlens_q = falls, refused("falls", &p, "cu_seqlens_q: item 2 is 4 after 5");
    p.cu_seqlens_q = negative, refused("negative", &p, "cu_seqlens_q: item 1");
    p = good(), p.kv.cu_seqlens_kv = passes, refused("passes", &p, "cu_seqlens_kv: item 3 is 10");
    p = good(), p.max_q = 4, refused("max_q", &p, "sequence 0 has 5 rows, more than max_q");
    p = good(), p.score.q_lengths = used, refused("used", &p, "q_lengths: item 1 is 1");
    p = good(), p.sequences = -1, refused("sequences", &p, "sequences");
    p = good(), p.max_kv = -1, refused("max_kv", &p, "max_kv");
    p = good(), p.cu_seqlens_q = NULL, refused("keys alone", &p, "cu_seqlens_kv: needs cu_seqlens_q");
    p = good(), p.cu_seqlens_q = p.kv.cu_seqlens_kv = NULL, refused("numbers alone", &p, "sequences");
    p = good(), p.kv.cu_seqlens_kv = NULL, refused("keys are no batch", &p, "k");
    p = good(), p.q.shape[0] = 3, refused("q is a batch", &p, "q: 3 batch items");
    p = good(), p.out.shape[2] = 8, refused("out", &p, "out");
    p = good(), p.sequences = 0, refused("no sequences", &p, "sequences: is 0 beside cu_seqlens_q");
    p.max_q = 5, refused("no sequences, max_q", &p, "sequences: is 0");
    p.kv.cu_seqlens_kv = NULL, refused("no sequences, dense keys", &p, "sequences: is 0");
    // no rows, therefore no sequences
    p = good(), p.sequences = 0, p.q.shape[2] = p.out.shape[2] = 0;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &p, &plan), CLATTN_OK);
}
END_TEST

// The axes of a mask have the length of the longest sequence, independent of q_lengths and
// kv_lengths.
START_TEST(masks_are_of_whole_sequences) {
    static const int32_t fewer[] = {4, 0, 3};
    static const int64_t shape[] = {5, 5};
    clattn_attention_params p = good();
    clattn_plan plan;
    p.score.mask = clattn_tensor_dense(NULL, CLATTN_TYPE_BOOL, 2, shape);
    p.score.q_lengths = p.score.kv_lengths = fewer;
    harness_log_clear();
    ck_assert_msg(clattn_attention_plan(harness()->context, &p, &plan) == CLATTN_OK, "%s",
                  harness_log_text());
    p.score.mask.shape[1] = 4, refused("of lengths", &p, "mask: shape [5,4]");
}
END_TEST

START_TEST(device_arrays_are_refused) {
    const int64_t count = 4;
    clattn_attention_params p = good();
    p.cu_seqlens_q_device = p.kv.cu_seqlens_kv_device = clattn_tensor_dense(NULL, CLATTN_TYPE_I32, 1, &count);
    refused("both places", &p, "all arrays must be on the device, or none");
    p.cu_seqlens_q = p.kv.cu_seqlens_kv = NULL;
    refused("no bounds", &p, "max_q: is 0");
    p.max_q = 5, refused("no bound of keys", &p, "max_kv: is 0");
    p.max_kv = 5;
    clattn_plan plan;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &p, &plan), CLATTN_OK);
    clattn_attention_params none = p;
    none.max_q = none.max_kv = none.sequences = 0; // rows of no sequence
    none.cu_seqlens_q_device.shape[0] = none.kv.cu_seqlens_kv_device.shape[0] = 1;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &none, &plan), CLATTN_OK);
    p.sequences = 4, refused("length", &p, "cu_seqlens_q_device: has 4 numbers");
    p.sequences = 3, p.cu_seqlens_q_device.type = CLATTN_TYPE_F32, refused("type", &p, "i32 is needed");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ragged");
    TCase *results =
        harness_add(suite, "results", (const TTest *const[]){both_places_agree, odd_arrays, NULL});
    tcase_add_loop_test(results, prefill_and_decode, 0, 4);
    tcase_add_loop_test(results, wild_arrays, 0, 2);
    harness_add(suite, "refusals",
                (const TTest *const[]){arrays_are_refused, masks_are_of_whole_sequences,
                                       device_arrays_are_refused, NULL});
    case_list_add(suite, "ragged", "cases");
    return harness_run(suite);
}
