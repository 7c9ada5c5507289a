// test_append_attention.c: attention that appends its last keys and values to a cache first: every kernel, lengths, int8,
// RoPE of new rows alone; as the case without it. Leaves out the append alone (test_append.c).
#include "support/case_assert.h"
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

START_TEST(every_kernel) {
    static const int32_t counts[] = {3, 1, 41, 5};
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("append");
        test.append = counts[n];
        test.layout = (enum layout)n;
        case_assert_kernels(&test);
    }
}
END_TEST

// New rows end where an item's keys end; as many as its query rows.
START_TEST(lengths) {
    static const int32_t kv_lengths[] = {17, 3}, q_lengths[] = {1, 3};
    for (int n = 0; n < 2; n++) {
        struct test_case test = base("lengths");
        case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        if (n) case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        test.contents = CASE_HIDDEN_NAN;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(storage_types) {
    static const clattn_type types[][2] = {{CLATTN_TYPE_F32, CLATTN_TYPE_I8},
                                           {CLATTN_TYPE_BF16, CLATTN_TYPE_I8},
                                           {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16},
                                           {CLATTN_TYPE_F32, CLATTN_TYPE_F16}};
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("types");
        test.q_type = test.out_type = types[n][0];
        test.kv_type = types[n][1];
        case_assert(&test);
    }
}
END_TEST

START_TEST(turned) {
    static const int32_t kv_lengths[] = {17, 41};
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("turned");
        test.rope.layout = n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED;
        test.rope.position = n / 2 == 2 ? 0 : n / 2 ? -1000 : 1000000;
        test.positions = n / 2 == 2;
        test.seed = (uint64_t)n;
        if (n == 5) test.rope.sections[0] = 5, test.rope.sections[1] = 5, test.rope.sections[2] = 6;
        if (n / 2 == 1) case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        case_assert_kernels(&test);
    }
}
END_TEST

// Behind a past of all items or of each, and what lies there stays: rows go to the cache, which begins with the first key that is
// not in it; lengths and positions count from the past's first.
START_TEST(behind_a_past) {
    static const int32_t kv_lengths[] = {31, 20}, q_lengths[] = {1, 3};
    static const double pasts[] = {24, 9};
    for (int n = 0; n < 6; n++) {
        struct test_case test = base("past");
        test.has_past = true;
        test.past = 24, test.past_shared = n < 2;
        test.layout = (enum layout)(n % 4);
        test.seed = (uint64_t)n;
        if (n > 2) test.past_count = 2, test.past_length[0] = pasts[0], test.past_length[1] = pasts[1];
        if (n > 3) case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths), test.contents = CASE_HIDDEN_NAN;
        if (n == 4) case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        if (n % 2) test.rope.layout = CLATTN_ROPE_HALF, test.rope.position = 1000;
        if (n == 3) test.positions = true, test.rope.position = 0;
        if (n == 2) test.kv_type = CLATTN_TYPE_I8;
        case_assert_kernels(&test);
    }
}
END_TEST

// What the caches of a case hold after the call, with or without its query rows; the caller frees them.
static void fill_caches(const struct case_data *data, bool rows, double *caches[2]) {
    struct case_arrays a;
    case_bind(data, harness_place(), &a);
    clattn_attention_params *p = &a.params;
    if (!rows) p->q.shape[2] = p->out.shape[2] = p->lse.shape[2] = p->rope.positions.shape[1] = 0;
    harness_log_clear();
    ck_assert_msg(case_enqueue(harness()->context, harness()->queue, &a, NULL) == CLATTN_OK, "%s",
                  harness_log_text());
    for (int of = 0; of < 2; of++) {
        caches[of] = calloc((size_t)guarded_count(&a.caches[of].view), sizeof *caches[of]);
        ck_assert_ptr_nonnull(caches[of]);
        ck_assert(guarded_read(&a.caches[of], harness()->queue, caches[of]));
    }
    if (!rows) ck_assert(guarded_intact(&a.out, harness()->queue));
    case_unbind(&a);
}

// New rows are written where no query row is there to look at them, too.
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

// Lengths that would put a new row into the past.
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

// Latents: a new row of k holds its value, which is a view of it as the cache's is.
START_TEST(latent) {
    static const int32_t kv_lengths[] = {17, 41};
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("latent");
        test.latent = true, test.kv_heads = 1, test.head_dim_v = n == 1 ? 32 : 16;
        if (n == 1) test.has_past = true, test.past = 24;
        if (n == 2) test.kv_type = CLATTN_TYPE_I8, case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        if (n == 3) test.page_size = 7, test.n_kv = 42;
        case_assert_kernels(&test);
    }
}
END_TEST

// Values of another tensor, and keys that the call turns, are none of a latent's cache.
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
    const TTest *const tests[] = {
        every_kernel,       lengths, storage_types, turned, behind_a_past, not_into_a_past,
        without_query_rows, latent,  no_latent,     NULL};
    Suite *suite = suite_create("append_attention");
    harness_add(suite, "append", tests);
    return harness_run(suite);
}
