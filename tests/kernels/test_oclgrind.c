// test_oclgrind.c: one small case of every kernel path, for Oclgrind, which sees races, divergent
// barriers and accesses one element too far that a CPU driver does not. Buffers end with their
// views for that. A case needs at most some thousand multiplications. Set OCLGRIND_LOG to a file
// and require an empty file: Oclgrind's own exit status is always 0.
#include "support/harness.h"
#include "support/case_list.h"
#include "support/small_calls.h"
#include "verification/reference/random.h"

#include <stdio.h>
#include <string.h>

START_TEST(dropout_mask) {
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL, 4, {2, 2, 3, 19}, LAYOUT_PADDED};
    struct guarded mask = guarded_output(harness_place(), &shape);
    const clattn_dropout_mask_params p = {mask.view, 0.3f, UINT64_C(0xfedcba9876543210)};
    double got[2 * 2 * 3 * 19];
    ck_assert(clattn_dropout_mask_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) ==
              CLATTN_OK);
    ck_assert(guarded_read(&mask, harness()->queue, got));
    for (int x = 0; x < 2 * 2 * 3 * 19; x++)
        ck_assert_int_eq(got[x] != 0,
                         philox_keeps(p.dropout, p.dropout_seed, x / 114, x / 57 % 2, x / 19 % 3, x % 19));
    guarded_release(&mask);
}
END_TEST

// Positions outside the tables use the first or the last row.
START_TEST(rotary_call) {
    static const double far[] = {-5, 0, 3, 99, 1e9};
    const struct guarded_shape x = {CLATTN_TYPE_F32, 4, {1, 2, 5, 8}, LAYOUT_DENSE},
                               rows = {CLATTN_TYPE_F32, 2, {4, 4}, LAYOUT_DENSE},
                               of = {CLATTN_TYPE_I32, 2, {1, 5}, LAYOUT_DENSE};
    const double zeros[80] = {0};
    struct guarded all[] = {guarded_input(harness_place(), &x, zeros), guarded_output(harness_place(), &x),
                            guarded_input(harness_place(), &rows, zeros),
                            guarded_input(harness_place(), &of, far)};
    clattn_rope_params p = {.x = all[0].view, .y = all[1].view, .cos = all[2].view, .sin = all[2].view};
    p.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .positions = all[3].view};
    ck_assert(clattn_rope_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    p.rope.positions = p.cos = p.sin = (clattn_tensor){0};
    ck_assert(clattn_rope_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
    const clattn_hadamard_params turned = {.x = all[0].view, .y = all[1].view, .block = 4};
    ck_assert(clattn_hadamard_enqueue(harness()->context, harness()->queue, &turned, 0, NULL, NULL) ==
              CLATTN_OK);
    clFinish(harness()->queue);
    for (int n = 0; n < 4; n++) guarded_release(&all[n]);
}
END_TEST

// A state in place by slots, with a key size that the work-items of a column do not divide evenly.
START_TEST(recurrent_state) {
    struct small_call c;
    double written;
    small_open(&c, SMALL_LINEAR_ATTENTION, harness_place());
    ck_assert(small_enqueue(&c, harness()->context, harness()->queue, 0, NULL, NULL) == CLATTN_OK);
    c.linear_attention.q.shape[3] = c.linear_attention.k.shape[3] = 7;
    c.linear_attention.state.shape[2] = c.linear_attention.new_state.shape[2] = 7;
    ck_assert(small_enqueue(&c, harness()->context, harness()->queue, 0, NULL, NULL) == CLATTN_OK);
    ck_assert(small_intact(&c, harness()->queue, &written));
    small_close(&c);
}
END_TEST

// Lists of keys, by given scores and by the indexer.
START_TEST(lists_of_keys) {
    for (int which = SMALL_TOPK; which <= SMALL_INDEX; which++) {
        struct small_call c;
        double written;
        small_open(&c, which, harness_place());
        ck_assert(small_enqueue(&c, harness()->context, harness()->queue, 0, NULL, NULL) == CLATTN_OK);
        clFinish(harness()->queue);
        ck_assert(small_intact(&c, harness()->queue, &written));
        small_close(&c);
    }
}
END_TEST

// Weights that are summed over rows, with an item that has fewer rows.
START_TEST(sums_of_weights) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 4, {2, 2, 1, 19}, LAYOUT_PADDED};
    struct test_case test;
    struct case_arrays arrays;
    char why[512];
    ck_assert(case_parse("attend-f32-b2-h2-n9-nkv19-d8-full-qlen9:3", &test, why));
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    struct guarded sums = guarded_output(harness_place(), &shape);
    double got[2 * 2 * 19], all = 0;
    arrays.params.weights = sums.view;
    ck_assert(clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, NULL) ==
              CLATTN_OK);
    ck_assert(guarded_read(&sums, harness()->queue, got));
    for (int n = 0; n < 2 * 2 * 19; n++) all += got[n];
    ck_assert_double_eq_tol(all, 2 * (9 + 3), 1e-4);
    guarded_release(&sums);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// Keys of float32, of int8, and of blocks with partial RoPE; one item's keys stay.
START_TEST(shifted_keys) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_I8, CLATTN_TYPE_Q4_0};
    static const int32_t deltas[] = {-3, 0}, lengths[] = {2, 3};
    const struct guarded_shape of_rows = {CLATTN_TYPE_F32, 3, {2, 2, 3}, LAYOUT_DENSE};
    const double zeros[2 * 2 * 3 * 64] = {0};
    for (int n = 0; n < 3; n++) {
        const struct guarded_shape k = {
            types[n], 4, {2, 2, 3, 64 / clattn_type_numbers(types[n])}, LAYOUT_DENSE};
        struct guarded keys = guarded_in_out(harness_place(), &k, zeros),
                       scales = guarded_in_out(harness_place(), &of_rows, zeros);
        clattn_shift_params p = {.k = keys.view, .deltas = deltas, .lengths = lengths};
        p.rope = (clattn_rope){.layout = CLATTN_ROPE_HALF, .rotary_dim = 40};
        if (n == 1) p.k_scale = scales.view;
        ck_assert(clattn_shift_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL) == CLATTN_OK);
        clFinish(harness()->queue);
        guarded_release(&keys);
        guarded_release(&scales);
    }
}
END_TEST

START_TEST(merge) {
    struct test_case test = {.name = "merge",
                             .heads = 2,
                             .kv_heads = 1,
                             .n_q = 9,
                             .n_kv = 19,
                             .head_dim = 8,
                             .kernel = CLATTN_KERNEL_FLASH};
    struct case_data *data = case_make(&test);
    struct case_arrays a, b;
    char why[512];
    case_bind(data, harness_place(), &a);
    case_bind(data, harness_place(), &b);
    a.params.kv.k.shape[2] = a.params.kv.v.shape[2] = 7;
    b.params.kv.k.shape[2] = b.params.kv.v.shape[2] = 12;
    b.params.kv.k.offset += 7 * 8;
    b.params.kv.v.offset += 7 * 8;
    clattn_merge_params params = {a.params.out, a.params.lse, b.params.out, b.params.lse};
    cl_command_queue queue = harness()->queue;
    ck_assert(clattn_attention_enqueue(harness()->context, queue, &a.params, 0, NULL, NULL) == CLATTN_OK);
    ck_assert(clattn_attention_enqueue(harness()->context, queue, &b.params, 0, NULL, NULL) == CLATTN_OK);
    ck_assert(clattn_merge_enqueue(harness()->context, queue, &params, 0, NULL, NULL) == CLATTN_OK);
    struct case_result got = case_collect(&a, queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "merge: %s", why);
    case_result_free(&got);
    case_unbind(&a);
    case_unbind(&b);
    case_free(data);
}
END_TEST

// Projections with a tuned row that names linear_matrix: weights packed by the caller and by the
// call, one product and several, RoPE, and numbers that use multiply-adds. No access is one element
// too far.
START_TEST(on_tiles) {
    static const char *const names[] = {
        "linear-bf16-b2-h1-n5-d20-m9-full-biases",
        "linear-f32-b1-h1-n9-d9-m65-full-split-packed",
        "linear-f32-b1-h2-n3-d4-m70-full-split-packed-matrixbf16",
    };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct test_case test;
        struct case_arrays a;
        clattn_linear_choice choice;
        char why[512];
        ck_assert_msg(case_parse(names[n], &test, why), "%s: %s", names[n], why);
        struct case_data *data = case_make(&test);
        if (n == 1) data->x[70] = 1e-32;
        case_bind(data, harness_place(), &a);
        ck_assert_int_eq(clattn_linear_plan(harness()->context, &a.linear, &choice), CLATTN_OK);
        ck_assert_str_eq(choice.kernel_name, "linear_matrix");
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s: %s", names[n], why);
        case_unbind(&a);
        case_free(data);
    }
}
END_TEST

// Projections with a tuned row that names linear_fragments: tails of rows, columns and the
// reduction, RoPE, and unaligned rows.
START_TEST(on_fragments) {
    static const char *const names[] = {"linear-bf16-b2-h1-n5-d20-m9-full-biases",
                                        "linear-f16-b1-h1-n33-d72-m34-full",
                                        "linear-f32-b1-h1-n5-d20-m70-full-native-split-biases",
                                        "layer-f16-b1-h1-n3-d6-m9-full-native-ropehalf"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct case_arrays a;
        clattn_linear_choice choice;
        char why[512];
        struct case_data *data = case_open(names[n], &a);
        if (a.op == CASE_LINEAR) {
            ck_assert_int_eq(clattn_linear_plan(harness()->context, &a.linear, &choice), CLATTN_OK);
            ck_assert_str_eq(choice.kernel_name, "linear_fragments");
        }
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &a, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &a, harness()->queue, why, sizeof why), "%s: %s", names[n], why);
        case_unbind(&a);
        case_free(data);
    }
}
END_TEST

int main(int argc, char **argv) {
    Suite *suite = suite_create("small cases");
    harness_set_guard(0);
    if (argc > 1 && strcmp(argv[1], "tiles") == 0) {
        harness_add(suite, "projections on tiles", (const TTest *const[]){on_tiles, NULL});
        return harness_run(suite);
    }
    if (argc > 1 && strcmp(argv[1], "fragments") == 0) {
        harness_add(suite, "projections on fragments", (const TTest *const[]){on_fragments, NULL});
        return harness_run(suite);
    }
    if (argc > 1 && strcmp(argv[1], "blocks") == 0) {
        case_list_add(suite, "oclgrind_blocks", "blocks");
        return harness_run(suite);
    }
    const bool integers = argc > 1 && strcmp(argv[1], "integers") == 0;
    if (integers || (argc > 1 && strcmp(argv[1], "gradients") == 0)) {
        case_list_add(suite, integers ? "oclgrind_integers" : "oclgrind_backward", argv[1]);
        return harness_run(suite);
    }
    if (argc < 2 || strcmp(argv[1], "projections") != 0) {
        harness_add(suite, "attention", (const TTest *const[]){dropout_mask, sums_of_weights, NULL});
        harness_add(suite, "decode",
                    (const TTest *const[]){rotary_call, shifted_keys, recurrent_state, lists_of_keys, NULL});
        case_list_add(suite, "oclgrind", "attention");
        case_list_add(suite, "oclgrind_decode", "decode");
    }
    harness_add(suite, "merge", (const TTest *const[]){merge, NULL});
    case_list_add(suite, "oclgrind_layers", "layers");
    const int status = harness_run(suite);
    printf("decode: %d cases were not run\n", case_decode_skipped());
    return status;
}
