// test_dropout.c: dropout. The mask that the device writes, and the mask that every kernel uses,
// must have the bits of the host (verification/reference/random.h). Also results with other
// options, a NaN in a value, and refusals. Elsewhere: the random words (test_philox.c) and rows in
// separate launches (test_slices.c). Cases: tests/cases/dropout.txt.
#include "support/case_list.h"
#include "verification/reference/random.h"
#include "verification/reference/reference.h"
#include "support/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONG_SEED UINT64_C(0xfedcba9876543210)

static const float shares[] = {0.1f, 0.5f, 0.875f, 0x1.fffffep-1f, 1e-12f};

// Masks of any size and layout.
START_TEST(written_masks) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {2, 3, 5, 77}, {3, 2, 33, 130}, {1, 2, 200, 3}};
    for (int n = 0; n < 4 * 5; n++) {
        const int64_t *size = sizes[n / 5], count = size[0] * size[1] * size[2] * size[3];
        const struct guarded_shape shape = {
            CLATTN_TYPE_BOOL, 4, {size[0], size[1], size[2], size[3]}, n % 2 ? LAYOUT_PADDED : LAYOUT_BSHD};
        struct guarded mask = guarded_output(harness_place(), &shape);
        const clattn_dropout_mask_params p = {mask.view, shares[n % 5], n % 3 ? LONG_SEED : 3};
        double *got = reference_alloc(count), kept = 0;
        ck_assert_int_eq(clattn_dropout_mask_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                         CLATTN_OK);
        ck_assert(guarded_read(&mask, harness()->queue, got));
        for (int64_t x = 0; x < count; x++) {
            const int64_t j = x % size[3], i = x / size[3] % size[2], h = x / size[3] / size[2] % size[1],
                          b = x / size[3] / size[2] / size[1];
            ck_assert_msg((got[x] != 0) == philox_keeps(p.dropout, p.dropout_seed, b, h, i, j),
                          "P %g, [%d,%d,%d,%d]: %g", (double)p.dropout, (int)b, (int)h, (int)i, (int)j,
                          got[x]);
            kept += got[x] != 0;
        }
        const double mean = (double)count * (1 - (double)p.dropout), variance = mean * (double)p.dropout;
        ck_assert_double_le(fabs(kept - mean), 5 * sqrt(variance) + 1);
        free(got);
        guarded_release(&mask);
    }
}
END_TEST

static const int kernels[] = {CLATTN_KERNEL_AUTO, CLATTN_KERNEL_UNFUSED, CLATTN_KERNEL_FLASH,
                              CLATTN_KERNEL_DECODE};

// Most cases share one shape of heads, because each shape is another kernel to compile.
static struct test_case base(const char *name) {
    struct test_case test = {.name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 13, .n_kv = 77};
    test.head_dim = 32, test.head_dim_v = 96;
    test.score.dropout = 0.4f, test.score.dropout_seed = 11;
    return test;
}

// All weights are equal, and each key's value is 1 in a column of its own. A 0 in the result is a
// dropped key.
static void assert_mask(struct case_data *data, const char *name) {
    const struct test_case *t = &data->test;
    struct case_result got = case_run(data, harness()->queue);
    ck_assert_msg(got.status == CLATTN_OK && got.intact, "%s: %s", name, got.message);
    for (int64_t x = 0; x < t->batch * t->heads * t->n_q * t->n_kv; x++) {
        const int64_t j = x % t->n_kv, i = x / t->n_kv % t->n_q, h = x / t->n_kv / t->n_q % t->heads,
                      b = x / t->n_kv / t->n_q / t->heads;
        const bool sees = !t->score.window || (j >= i + t->score.offset - t->score.window_left &&
                                               j <= i + t->score.offset + t->score.window_right);
        const bool keeps = sees && philox_keeps(t->score.dropout, t->score.dropout_seed, b, h, i, j);
        const double out = got.out[(x / t->n_kv) * t->head_dim_v + j];
        ck_assert_msg((out != 0) == keeps, "%s: b %d, h %d, i %d, j %d: %g", name, (int)b, (int)h, (int)i,
                      (int)j, out);
    }
    case_result_free(&got);
}

// Query rows and keys that are no whole tiles; with a window, tiles of keys begin anywhere.
START_TEST(masks_of_kernels) {
    struct test_case test = base("masks");
    test.n_q = _i % 2 ? 13 : 37, test.score.dropout_seed = LONG_SEED;
    if (_i >= 2) {
        test.score.alignment = CLATTN_ALIGN_OFFSET, test.score.offset = 23;
        test.score.window = true, test.score.window_left = 12, test.score.window_right = 30;
    }
    struct case_data *data = case_make(&test);
    memset(data->q, 0, (size_t)(test.batch * test.heads * test.n_q * test.head_dim) * sizeof(double));
    for (int64_t x = 0; x < test.batch * test.kv_heads * test.n_kv * test.head_dim_v; x++)
        data->v[x] = x % test.head_dim_v == x / test.head_dim_v % test.n_kv;
    case_retype(data);
    for (int k = 0; k < 4; k++) {
        if (kernels[k] == CLATTN_KERNEL_DECODE && test.n_q > 16) continue;
        data->test.kernel = (clattn_kernel)kernels[k];
        // Ranges of 26 keys begin inside a group of four keys.
        data->test.splits = kernels[k] == CLATTN_KERNEL_DECODE && _i == 1 ? 3 : 0;
        assert_mask(data, clattn_kernel_name(data->test.kernel));
    }
    case_free(data);
}
END_TEST

// A NaN in a value reaches every row that sees its key, dropped or not, and no other row.
START_TEST(nan_in_a_value) {
    struct test_case test = base("NaN");
    test.score.causal = true, test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    struct case_data *data = case_make(&test);
    for (int64_t h = 0; h < 4; h++) data->v[(h * 77 + 70) * 96 + 5] = _i ? (double)INFINITY : (double)NAN;
    case_assert_data_kernels(data);
    case_free(data);
}
END_TEST

// A seed without dropout changes nothing. The same call returns the same bits. Another seed returns
// another result.
START_TEST(seeds) {
    const struct test_case test = base("seeds");
    struct case_data *data = case_make(&test);
    struct case_result results[5];
    const size_t bytes = 2 * 4 * 13 * 96 * sizeof(double);
    for (int n = 0; n < 5; n++) {
        static const float dropout[] = {0.0f, 0.0f, 0.5f, 0.5f, 0.5f};
        static const uint64_t seed[] = {0, 9, 9, 9, 10};
        data->test.score.dropout = dropout[n], data->test.score.dropout_seed = seed[n];
        results[n] = case_run(data, harness()->queue);
        ck_assert_int_eq(results[n].status, CLATTN_OK);
    }
    ck_assert(memcmp(results[0].out, results[1].out, bytes) == 0);
    ck_assert(memcmp(results[1].out, results[2].out, bytes) != 0);
    ck_assert(memcmp(results[2].out, results[3].out, bytes) == 0);
    ck_assert(memcmp(results[3].out, results[4].out, bytes) != 0);
    for (int n = 0; n < 5; n++) case_result_free(&results[n]);
    case_free(data);
}
END_TEST

static void assert_refused(const clattn_dropout_mask_params *p, const char *word) {
    harness_log_clear();
    harness_assert_refused(
        word, clattn_dropout_mask_enqueue(harness()->context, harness()->queue, p, 0, NULL, NULL),
        CLATTN_INVALID_ARGUMENT, word);
}

START_TEST(refusals) {
    static const float wrong[] = {-0.1f, 1.0f, 1.5f, NAN, INFINITY, -INFINITY};
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {1, 2, 3, 4}, LAYOUT_DENSE};
    struct guarded mask = guarded_output(harness_place(), &shape);
    clattn_dropout_mask_params p = {mask.view, 0.5f, 0};
    clattn_attention_params call = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 5, 16)};
    call.out = call.kv.k = call.kv.v = call.q;
    for (int n = 0; n < 6; n++) {
        clattn_plan plan;
        call.score.dropout = p.dropout = wrong[n];
        harness_log_clear();
        harness_assert_refused("plan", clattn_attention_plan(harness()->context, &call, &plan),
                               CLATTN_INVALID_ARGUMENT, "dropout: ");
        assert_refused(&p, "dropout: ");
    }
    p.dropout = 0.5f;
    p.mask.type = CLATTN_TYPE_F32;
    assert_refused(&p, "mask: ");
    p.mask = mask.view, p.mask.rank = 3;
    assert_refused(&p, "mask: ");
    p.mask = mask.view, p.mask.stride[3] = 0;
    assert_refused(&p, "mask: ");
    p.mask = mask.view, p.mask.shape[2] = INT64_C(1) << 40;
    assert_refused(&p, "mask: ");
    p.mask = mask.view, p.mask.buffer = NULL;
    assert_refused(&p, "mask: ");
    p.mask = mask.view, p.mask.shape[2] = 0; // nothing to do
    ck_assert_int_eq(clattn_dropout_mask_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                     CLATTN_OK);
    guarded_release(&mask);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dropout");
    TCase *masks = harness_add(suite, "masks", (const TTest *const[]){written_masks, seeds, refusals, NULL});
    tcase_add_loop_test(masks, masks_of_kernels, 0, 4);
    tcase_add_loop_test(masks, nan_in_a_value, 0, 2);
    case_list_add(suite, "dropout", "options");
    return harness_run(suite);
}
