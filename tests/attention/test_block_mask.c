// test_block_mask.c: block masks: the blocks that the device writes, kernels that skip empty blocks
// and compute the others right, and refusals. The masks and expressions themselves are in
// test_masks.c and test_mods.c. Cases: tests/cases/block_mask.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>

static struct test_case base(const char *name) {
    return (struct test_case){
        .name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 150, .n_kv = 333, .head_dim = 32};
}

// With an expression that hides nothing, a kernel must still skip the blocks that the block mask
// calls empty.
static void assert_passes_over(struct case_arrays *a, const clattn_tensor *blocks, clattn_kernel kernel,
                               int32_t splits) {
    struct case_result with, without;
    a->params.score.mask_mod = "true";
    a->params.score.block_mask = *blocks;
    a->params.kernel = kernel, a->params.splits = splits;
    ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, a, NULL), CLATTN_OK);
    with = case_collect(a, harness()->queue, NULL);
    a->params.score.block_mask = (clattn_tensor){0};
    ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, a, NULL), CLATTN_OK);
    without = case_collect(a, harness()->queue, NULL);
    // Row 0 sees the keys of one block with the block mask, and all keys without it.
    ck_assert_msg(with.lse[0] < without.lse[0] - 0.1, "kernel %d: %g, without blocks %g", (int)kernel,
                  with.lse[0], without.lse[0]);
    case_result_free(&with);
    case_result_free(&without);
}

// The device writes the right block mask, and kernels use the block mask.
START_TEST(block_masks_themselves) {
    struct test_case test = base("blocks");
    test.n_q = 130, test.n_kv = 200, test.heads = test.kv_heads = 2, test.batch = 1;
    struct case_data *data = case_make(&test);
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {1, 1, 3, 4}, LAYOUT_PADDED};
    struct guarded blocks = guarded_output(harness_place(), &shape);
    static const double expected[] = {1, 0, 0, 0, 2, 1, 0, 0, 2, 2, 1, 0};
    double got[12];
    a.params.score.mask_mod = "j <= i";
    a.params.score.block_mask = blocks.view;
    // the parameters have no buffers, but scales if the type needs them
    clattn_attention_params sizes = a.params;
    sizes.q.buffer = sizes.kv.k.buffer = sizes.kv.v.buffer = sizes.out.buffer = sizes.lse.buffer = NULL;
    // every type for keys alone, and for keys and values
    for (int n = 0; n < 2 * CLATTN_TYPE_COUNT; n++) {
        const clattn_type type = (clattn_type)(n / 2);
        const int64_t elements = test.head_dim / clattn_type_numbers(type);
        sizes.kv.k.type = type, sizes.kv.k.shape[3] = elements;
        sizes.kv.v.type = n % 2 ? type : CLATTN_TYPE_F16;
        sizes.kv.v.shape[3] = n % 2 ? elements : test.head_dim;
        cl_event done = NULL;
        harness_log_clear();
        ck_assert_msg(clattn_block_mask_enqueue(harness()->context, harness()->queue, &sizes, 0, NULL,
                                                &done) == CLATTN_OK,
                      "%s: %s", clattn_type_name(type), harness_log_text());
        ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
        clReleaseEvent(done);
        ck_assert(guarded_read(&blocks, harness()->queue, got));
        for (int i = 0; i < 12; i++) ck_assert_msg(got[i] == expected[i], "block %d holds %g", i, got[i]);
    }

    assert_passes_over(&a, &blocks.view, CLATTN_KERNEL_FLASH, 0);
    guarded_release(&blocks);
    case_unbind(&a);
    case_free(data);
}
END_TEST

START_TEST(decode_passes_over) {
    struct test_case test = base("blocks, few rows");
    test.n_q = 3, test.n_kv = 200, test.heads = 4, test.kv_heads = 2, test.batch = 1;
    struct case_data *data = case_make(&test);
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {1, 1, 1, 4}, LAYOUT_PADDED};
    struct guarded blocks = guarded_output(harness_place(), &shape);
    a.params.score.mask_mod = "j / 64 == 2";
    a.params.score.block_mask = blocks.view;
    ck_assert_int_eq(
        clattn_block_mask_enqueue(harness()->context, harness()->queue, &a.params, 0, NULL, NULL), CLATTN_OK);
    clFinish(harness()->queue);
    for (int splits = 0; splits < 4; splits++)
        assert_passes_over(&a, &blocks.view, CLATTN_KERNEL_DECODE, splits);
    guarded_release(&blocks);
    case_unbind(&a);
    case_free(data);
}
END_TEST

// The heads of one pass see different blocks.
START_TEST(decode_of_heads_that_differ) {
    struct test_case test = base("blocks of heads");
    test.n_q = 2, test.n_kv = 300, test.heads = 8, test.kv_heads = 2, test.batch = 1;
    struct case_data *data = case_make(&test);
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {1, 8, 1, 5}, LAYOUT_PADDED};
    struct guarded blocks = guarded_output(harness_place(), &shape);
    struct case_result with, without;
    a.params.score.mask_mod = "j / 64 == h % 4 || j == 299";
    a.params.kernel = CLATTN_KERNEL_DECODE;
    for (int splits = 0; splits < 4; splits++) {
        a.params.splits = splits;
        a.params.score.block_mask = (clattn_tensor){0};
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        without = case_collect(&a, harness()->queue, NULL);
        a.params.score.block_mask = blocks.view;
        ck_assert_int_eq(
            clattn_block_mask_enqueue(harness()->context, harness()->queue, &a.params, 0, NULL, NULL),
            CLATTN_OK);
        clFinish(harness()->queue);
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        with = case_collect(&a, harness()->queue, NULL);
        for (int n = 0; n < 16; n++)
            ck_assert_msg(fabs(with.lse[n] - without.lse[n]) < 1e-5, "splits %d, row %d: %g, without %g",
                          splits, n, with.lse[n], without.lse[n]);
        case_result_free(&with);
        case_result_free(&without);
    }
    guarded_release(&blocks);
    case_unbind(&a);
    case_free(data);
}
END_TEST

START_TEST(block_masks_are_refused) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 100, 16)};
    const int64_t good[] = {1, 2, 2, 2}, wrong[] = {1, 2, 2, 3};
    p.out = p.kv.k = p.kv.v = p.q;
    clattn_plan plan;
    p.score.block_mask = clattn_tensor_dense(NULL, CLATTN_TYPE_BOOL, 4, good);
    harness_log_clear();
    harness_assert_refused("alone", clattn_attention_plan(harness()->context, &p, &plan),
                           CLATTN_INVALID_ARGUMENT, "block_mask: ");
    p.score.mask_mod = "j <= i";
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &p, &plan), CLATTN_OK);
    p.score.block_mask = clattn_tensor_dense(NULL, CLATTN_TYPE_BOOL, 4, wrong);
    harness_log_clear();
    harness_assert_refused("size", clattn_attention_plan(harness()->context, &p, &plan),
                           CLATTN_INVALID_ARGUMENT, "block_mask: ");
    p.score.block_mask = (clattn_tensor){0};
    harness_log_clear();
    harness_assert_refused("absent",
                           clattn_block_mask_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL),
                           CLATTN_INVALID_ARGUMENT, "block_mask: ");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("block mask");
    harness_add(suite, "block masks",
                (const TTest *const[]){block_masks_themselves, decode_passes_over,
                                       decode_of_heads_that_differ, block_masks_are_refused, NULL});
    case_list_add(suite, "block_mask", "cases");
    return harness_run(suite);
}
