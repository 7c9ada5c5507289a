// test_merge.c: partial results of disjoint keys merge to the whole result in any order, and an
// empty part changes nothing. Refused merges are in test_errors.c.
#include "verification/device/budget.h"
#include "verification/reference/reference.h"
#include "support/case_assert.h"
#include "support/harness.h"
#include "verification/reference/storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS (2 * 3 * 9)
#define SIZE 24

// Two parts on the host and on the device: values, log-sum-exps and their arrays.
struct parts {
    double *out[2], *lse[2];
    struct guarded out_array[2], lse_array[2];
    clattn_type type;
};

static void make_parts(struct parts *parts, clattn_type type, enum layout layout) {
    struct random random = {(uint64_t)layout + 7};
    struct guarded_shape out = {type, 4, {2, 3, 9, SIZE}, layout};
    struct guarded_shape lse = {CLATTN_TYPE_F32, 3, {2, 3, 9}, layout_loose(layout)};
    parts->type = type;
    for (int n = 0; n < 2; n++) {
        parts->out[n] = reference_alloc(ROWS * SIZE);
        parts->lse[n] = reference_alloc(ROWS);
        for (int c = 0; c < ROWS * SIZE; c++)
            parts->out[n][c] = storage_round(type, random_uniform(&random, -2, 2));
        for (int c = 0; c < ROWS; c++)
            parts->lse[n][c] = storage_round(CLATTN_TYPE_F32, random_uniform(&random, -5, 5));
        parts->lse[n][4 + n] = -(double)INFINITY;
    }
    // Both parts are empty; then the smaller part vanishes beside the larger.
    parts->lse[0][8] = parts->lse[1][8] = -(double)INFINITY;
    for (int n = 0; n < 2; n++) memset(parts->out[n] + 8 * SIZE, 0, SIZE * sizeof(double));
    parts->lse[0][9] = 50;
    parts->lse[1][10] = 50;
    for (int n = 0; n < 2; n++) {
        parts->out_array[n] = guarded_in_out(harness_place(), &out, parts->out[n]);
        parts->lse_array[n] = guarded_in_out(harness_place(), &lse, parts->lse[n]);
    }
}

static void free_parts(struct parts *parts) {
    for (int n = 0; n < 2; n++) {
        free(parts->out[n]);
        free(parts->lse[n]);
        guarded_release(&parts->out_array[n]);
        guarded_release(&parts->lse_array[n]);
    }
}

static void merge_into(const struct parts *parts, int a) {
    clattn_merge_params params = {.out_a = parts->out_array[a].view,
                                  .lse_a = parts->lse_array[a].view,
                                  .out_b = parts->out_array[1 - a].view,
                                  .lse_b = parts->lse_array[1 - a].view};
    cl_event event = NULL;
    clattn_status status =
        clattn_merge_enqueue(harness()->context, harness()->queue, &params, 0, NULL, &event);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    harness_expect(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

static void check_merge(const struct parts *parts, int a) {
    char why[512] = "";
    double *out = reference_alloc(ROWS * SIZE), *lse = reference_alloc(ROWS);
    merge_into(parts, a);
    bool intact = guarded_read(&parts->out_array[a], harness()->queue, out);
    intact = guarded_read(&parts->lse_array[a], harness()->queue, lse) && intact;
    ck_assert_msg(intact, "bytes around the merged result changed");
    ck_assert_msg(guarded_intact(&parts->out_array[1 - a], harness()->queue), "part b changed");
    reference_merge(parts->out[a], parts->lse[a], parts->out[1 - a], parts->lse[1 - a], ROWS, SIZE);
    struct budget out_budget = {"out", parts->type, out, parts->out[a], NULL, ROWS * SIZE, 0, false};
    struct budget lse_budget = {"lse", CLATTN_TYPE_F32, lse, parts->lse[a], NULL, ROWS, 1e-5, false};
    ck_assert_msg(budget_holds(&out_budget, why, sizeof why), "part %d: %s", a, why);
    ck_assert_msg(budget_holds(&lse_budget, why, sizeof why), "part %d: %s", a, why);
    free(out);
    free(lse);
}

START_TEST(both_orders) {
    for (int n = 0; n < 2 * 3 * LAYOUT_COUNT; n++) {
        struct parts parts;
        make_parts(&parts, (clattn_type)(n / 2 % 3), (enum layout)(n / 6));
        check_merge(&parts, n % 2);
        free_parts(&parts);
    }
}
END_TEST

// If a part has no visible keys, its `out` may contain anything.
START_TEST(empty_part_is_neutral) {
    struct parts parts;
    make_parts(&parts, CLATTN_TYPE_F32, LAYOUT_PADDED);
    guarded_release(&parts.out_array[1]);
    guarded_release(&parts.lse_array[1]);
    for (int n = 0; n < ROWS * SIZE; n++) parts.out[1][n] = (double)NAN;
    for (int n = 0; n < ROWS; n++) parts.lse[1][n] = -(double)INFINITY;
    struct guarded_shape out = {CLATTN_TYPE_F32, 4, {2, 3, 9, SIZE}, LAYOUT_PADDED};
    struct guarded_shape lse = {CLATTN_TYPE_F32, 3, {2, 3, 9}, LAYOUT_PADDED};
    parts.out_array[1] = guarded_in_out(harness_place(), &out, parts.out[1]);
    parts.lse_array[1] = guarded_in_out(harness_place(), &lse, parts.lse[1]);
    merge_into(&parts, 0);
    ck_assert_msg(guarded_intact(&parts.out_array[0], harness()->queue), "an empty part changed out");
    ck_assert_msg(guarded_intact(&parts.lse_array[0], harness()->queue), "an empty part changed lse");
    free_parts(&parts);
}
END_TEST

static void attend(const clattn_attention_params *params) {
    clattn_status status =
        clattn_attention_enqueue(harness()->context, harness()->queue, params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
}

// Keys [from, to) of a call with dense K and V.
static clattn_attention_params part_of(const clattn_attention_params *whole, int64_t from, int64_t to) {
    clattn_attention_params part = *whole;
    part.kv.k.offset += from * part.kv.k.stride[2];
    part.kv.v.offset += from * part.kv.v.stride[2];
    part.kv.k.shape[2] = part.kv.v.shape[2] = to - from;
    return part;
}

// Split the keys at `at`, merge the parts in one order or the other, and compare with the reference
// of the whole call.
static void split_and_merge(const struct test_case *test, int64_t at, bool swap) {
    char why[512] = "";
    struct case_arrays first, second;
    struct case_data *data = case_make(test);
    case_bind(data, harness_place(), &first);
    case_bind(data, harness_place(), &second);
    clattn_attention_params a = part_of(&first.params, 0, at), b = part_of(&second.params, at, test->n_kv);
    attend(&a);
    attend(&b);
    clattn_merge_params params = {.out_a = a.out, .lse_a = a.lse, .out_b = b.out, .lse_b = b.lse};
    if (swap) params = (clattn_merge_params){.out_a = b.out, .lse_a = b.lse, .out_b = a.out, .lse_b = a.lse};
    clattn_status status = clattn_merge_enqueue(harness()->context, harness()->queue, &params, 0, NULL, NULL);
    ck_assert_msg(status == CLATTN_OK, "%s", harness_log_text());
    struct case_result got = case_collect(swap ? &second : &first, harness()->queue, NULL);
    ck_assert_msg(case_agrees(data, &got, why, sizeof why), "split at %d%s: %s", (int)at,
                  swap ? ", swapped" : "", why);
    case_result_free(&got);
    case_unbind(&first);
    case_unbind(&second);
    case_free(data);
}

START_TEST(split_and_merge_is_whole) {
    static const int64_t at[] = {0, 1, 20, 32, 33};
    for (int n = 0; n < 5 * 2 * 2; n++) {
        struct test_case test = {
            .name = "split", .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 9, .n_kv = 33};
        test.head_dim = 32;
        test.head_dim_v = SIZE;
        test.layout = (enum layout)(n % LAYOUT_COUNT);
        test.kernel = case_kernel(n / 10);
        split_and_merge(&test, at[n % 5], n % 10 >= 5);
    }
}
END_TEST

START_TEST(nothing_to_merge) {
    struct parts parts;
    make_parts(&parts, CLATTN_TYPE_F32, LAYOUT_DENSE);
    for (int n = 0; n < 2; n++) parts.out_array[n].view.shape[0] = parts.lse_array[n].view.shape[0] = 0;
    merge_into(&parts, 0);
    ck_assert(guarded_intact(&parts.out_array[0], harness()->queue));
    ck_assert(guarded_intact(&parts.lse_array[0], harness()->queue));
    free_parts(&parts);
}
END_TEST

int main(void) {
    const TTest *const merges[] = {both_orders, empty_part_is_neutral, split_and_merge_is_whole,
                                   nothing_to_merge, NULL};
    Suite *suite = suite_create("merge");
    harness_add(suite, "merge", merges);
    return harness_run(suite);
}
