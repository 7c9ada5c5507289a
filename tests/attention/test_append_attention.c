// test_append_attention.c: attention that first appends its last keys and values to a cache: every
// kernel, lengths, int8, RoPE of only the new rows. The results equal those of the case without
// appending. The append call alone is in test_append.c. Cases: tests/cases/append_attention.txt.
#include "support/case_list.h"
#include "support/harness.h"

#include <stdlib.h>

static struct test_case base(const char *name) {
    return (struct test_case){.name = name,
                              .batch = 2,
                              .heads = 4,
                              .kv_heads = 2,
                              .n_q = 3,
                              .n_kv = 41,
                              .head_dim = 32,
                              .append = 3,
                              .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT}};
}

// The contents of a case's caches after the call, with or without its query rows. The caller frees
// them.
static void fill_caches(const struct case_data *data, bool rows, double *caches[2]) {
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    clattn_attention_params *p = &a.params;
    if (!rows) p->q.shape[2] = p->out.shape[2] = p->lse.shape[2] = p->rope.positions.shape[1] = 0;
    harness_log_clear();
    ck_assert_msg(case_enqueue(harness()->context, harness()->queue, &a, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    for (int of = 0; of < 2; of++) {
        caches[of] = calloc((size_t)guarded_numbers(&a.caches[of].view), sizeof *caches[of]);
        ck_assert_ptr_nonnull(caches[of]);
        ck_assert(guarded_read(&a.caches[of], harness()->queue, caches[of]));
    }
    if (!rows) ck_assert(guarded_intact(&a.out, harness()->queue));
    case_unbind(&a);
}

// New rows are written even if the call has no query rows.
START_TEST(without_query_rows) {
    static const int32_t kv_lengths[] = {31, 30};
    for (int n = 0; n < 5; n++) {
        struct test_case test = base("no rows");
        double *with[2], *without[2];
        if (n == 1) case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        if (n == 2) test.rope.layout = CLATTN_ROPE_HALF, test.rope.position = -50;
        if (n == 3) test.rope.layout = CLATTN_ROPE_HALF, test.has_past = true, test.past = 24;
        if (n == 4) test.page_size = 7, test.n_kv = 42, test.kv_type = CLATTN_TYPE_I8;
        struct case_data *data = case_make(&test);
        fill_caches(data, true, with), fill_caches(data, false, without);
        const int64_t rows = n == 3 ? 41 - 24 : n == 4 ? 7 : 41, items = n == 4 ? 2 * 6 + 1 : 2;
        ck_assert_mem_eq(with[0], without[0], (size_t)(items * 2 * rows * 32) * sizeof(double));
        ck_assert_mem_eq(with[1], without[1], (size_t)(items * 2 * rows * 32) * sizeof(double));
        for (int of = 0; of < 2; of++) free(with[of]), free(without[of]);
        case_free(data);
    }
}
END_TEST

// Lengths that would put a new row into the past are refused.
START_TEST(not_into_a_past) {
    static const int32_t too_few[] = {41, 26};
    struct test_case test = base("short");
    struct case_arrays arrays;
    clattn_plan plan;
    test.has_past = true;
    test.past = 24;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_OK);
    arrays.params.score.kv_lengths = too_few;
    harness_log_clear();
    harness_assert_refused("short", clattn_attention_plan(harness()->context, &arrays.params, &plan),
                           CLATTN_INVALID_ARGUMENT,
                           "k_new: 3 rows of item 1 are not all behind its past of 24: it has 26 keys");
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// A latent cache cannot have values of another tensor, or keys to which the call applies RoPE.
START_TEST(no_latent) {
    struct test_case test = base("latent");
    struct case_arrays arrays;
    clattn_plan plan;
    test.latent = true, test.head_dim_v = 16;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    const clattn_tensor right = arrays.params.kv.v_new;
    ck_assert_int_eq(clattn_attention_plan(harness()->context, &arrays.params, &plan), CLATTN_OK);
    harness_log_clear();
    arrays.params.kv.v_new.offset += 16;
    harness_assert_refused("v_new", clattn_attention_plan(harness()->context, &arrays.params, &plan),
                           CLATTN_INVALID_ARGUMENT,
                           "v_new: v is a view of k, and v_new is then the same view of k_new");
    harness_log_clear();
    arrays.params.kv.v_new = right;
    arrays.params.rope.layout = CLATTN_ROPE_HALF;
    harness_assert_refused("rope", clattn_attention_plan(harness()->context, &arrays.params, &plan),
                           CLATTN_INVALID_ARGUMENT, "rope: turns new keys, and v, which is a view of k");
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {not_into_a_past, without_query_rows, no_latent, NULL};
    Suite *suite = suite_create("append_attention");
    harness_add(suite, "append", tests);
    case_list_add(suite, "append_attention", "cases");
    return harness_run(suite);
}
