// test_past.c: keys in past rows before the new ones, and in pages: sizes at the edges of both,
// lengths that differ between items, a shared prefix, invalid page numbers, refusals. Unused rows
// are NaN in every case (case_kv.h). Cases: tests/cases/past.txt.
#define REFUSED_PARAMS clattn_attention_params
#include "refusals/refused.h"
#include "support/case_list.h"

static struct test_case base(const char *name, int64_t n_kv, int64_t past) {
    struct test_case test = {
        .name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 4, .n_kv = n_kv, .head_dim = 32};
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    test.has_past = past >= 0;
    test.past = past > 0 ? past : 0;
    return test;
}

// Multi-head latent attention, whose values are the first columns of its keys: in pages, and with a
// past.
static struct test_case latent(const char *name, int64_t past) {
    struct test_case test = base(name, 112, past);
    test.heads = 20, test.kv_heads = 1, test.n_q = 2;
    test.head_dim = 72, test.head_dim_v = 64;
    test.latent = true;
    return test;
}

// The new values are a part of their keys, the past values are not.
START_TEST(past_values_elsewhere) {
    const struct test_case test = latent("past values elsewhere", 71);
    struct case_arrays arrays;
    struct case_data *data = case_make(&test);
    const struct guarded_shape shape = case_shape(&data->test, CASE_PAST_K);
    const int64_t count = guarded_shape_count(&shape);
    double *values = reference_alloc(count);
    for (int64_t i = 0; i < count; i++) values[i] = (double)(i % 11) / 8;
    case_bind(data, harness_place(), &arrays);
    struct guarded elsewhere = guarded_input(harness_place(), &shape, values);
    arrays.params.kv.past_v.buffer = elsewhere.view.buffer;
    ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
    struct case_result got = case_collect(&arrays, harness()->queue, NULL);
    struct reference right = case_problem(data, CLATTN_TYPE_F32, NULL);
    right.places.past_v = values;
    double *exact = reference_alloc(2 * 20 * 2 * 64);
    reference_attention(&right, &(struct reference_result){.out = exact});
    for (int64_t i = 0; i < 2 * 20 * 2 * 64; i++) ck_assert_double_eq_tol(got.out[i], exact[i], 1e-5);
    guarded_release(&elsewhere), case_result_free(&got), case_unbind(&arrays);
    case_free(data), free(values), free(exact);
}
END_TEST

// A page number outside the pool reads the first or last page.
START_TEST(pages_that_are_none) {
    static const int32_t wrong[] = {INT32_MIN, -1, INT32_MAX, 1 << 20};
    for (int kernel = 0; kernel < CLATTN_KERNEL_COUNT; kernel++)
        for (int n = 0; n < 4; n++) {
            struct test_case test = base("pages that are none", 48, -1);
            struct case_arrays arrays;
            char why[512];
            test.page_size = 16, test.kernel = (clattn_kernel)kernel;
            struct case_data *data = case_make(&test);
            // The first page belongs to no item, and also has numbers.
            const int32_t pages = (int32_t)(2 * 3 + 1), right = n < 2 ? 0 : pages - 1;
            const int64_t size = 2 * 16 * 32;
            for (int64_t i = 0; i < size; i++)
                data->k[right * size + i] = data->v[right * size + i] = (double)(i % 5) / 4;
            data->block_table[1] = wrong[n];
            case_bind(data, harness_place(), &arrays);
            data->block_table[1] = right;
            ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
            ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s", why);
            case_unbind(&arrays);
            case_free(data);
        }
}
END_TEST

// Values that are the first numbers of their keys' rows (latents). The past's values are also
// latents, or they have a tensor of their own. The kernel reads keys and values together only in
// the first case.
START_TEST(latents_and_a_past) {
    for (int n = 0; n < 2; n++) {
        struct test_case test = base(n ? "latents" : "latents beside past values of their own", 100, 60);
        struct case_arrays arrays;
        char why[512];
        test.heads = 16, test.kv_heads = 1, test.head_dim_v = 24;
        struct case_data *data = case_make(&test);
        for (int64_t row = 0; row < 2 * 40; row++)
            for (int64_t d = 0; d < 24; d++) data->v[row * 24 + d] = data->k[row * 32 + d];
        for (int64_t row = 0; n && row < 2 * 60; row++)
            for (int64_t d = 0; d < 24; d++) data->past_v[row * 24 + d] = data->past_k[row * 32 + d];
        case_bind(data, harness_place(), &arrays);
        clattn_kv *kv = &arrays.params.kv;
        kv->v = kv->k, kv->v.shape[3] = 24;
        if (n) kv->past_v = kv->past_k, kv->past_v.shape[3] = 24;
        ck_assert_int_eq(case_enqueue(harness()->context, harness()->queue, &arrays, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s: %s", test.name, why);
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// Refusals, each with one line that names the field.
static const int32_t past_length[] = {5, 60}, too_long[] = {5, 61}, negative[] = {-1, 5},
                     beyond[] = {46, 100};
#define INVALID_PAST(X)                                                                                      \
    X(no_past_v, "past_k: is given without past_v", p->kv.past_v = (clattn_tensor){0})                       \
    X(no_past_k, "past_v: is given without past_k", p->kv.past_k = (clattn_tensor){0})                       \
    X(past_rank, "past_k: rank 3", p->kv.past_k.rank = 3)                                                    \
    X(past_heads, "past_k: shape", p->kv.past_k.shape[1] = 1)                                                \
    X(past_batch, "past_v: shape", p->kv.past_v.shape[0] = 3)                                                \
    X(past_size, "past_v: shape", p->kv.past_v.shape[3] = 16)                                                \
    X(past_rows, "past_v: shape", p->kv.past_v.shape[2] = 59)                                                \
    X(past_type, "past_v: its type", p->kv.past_v.type = CLATTN_TYPE_F16)                                    \
    X(past_stride, "past_k: last stride", p->kv.past_k.stride[3] = 2)                                        \
    X(past_leaves, "past_k: its last element", p->kv.past_k.offset = 1 << 20)                                \
    X(past_no_buffer, "past_k: is given without past_v", p->kv.past_v.buffer = NULL)                         \
    X(past_scale, "past_k_scale: is for i8", p->kv.past_k_scale = p->lse)                                    \
    X(past_too_long, "past_lengths: item 1 is 61: must be 0 to 60", p->kv.past_lengths = too_long)           \
    X(past_negative, "past_lengths: item 0 is -1", p->kv.past_lengths = negative)                            \
    X(kv_lengths, "kv_lengths: item 0 is 46: must be 0 to 45",                                               \
      (p->kv.past_lengths = past_length, p->score.kv_lengths = beyond))                                      \
    X(overlap, "out: overlaps past_k", (p->out.buffer = p->kv.past_k.buffer, p->out.offset = 0))             \
    X(mask_of_new, "mask", p->score.mask = clattn_tensor_bhsd(p->lse.buffer, CLATTN_TYPE_BOOL, 1, 1, 5, 40))
#define INVALID_PAGES(X)                                                                                     \
    X(table_type, "block_table: type f32", p->kv.block_table.type = CLATTN_TYPE_F32)                         \
    X(table_rank, "block_table: rank 1", p->kv.block_table.rank = 1)                                         \
    X(table_lines, "block_table: 1 lines", p->kv.block_table.shape[0] = 1)                                   \
    X(table_leaves, "block_table: its last element", p->kv.block_table.offset = 1 << 20)                     \
    X(table_no_buffer, "k: shape", p->kv.block_table.buffer = NULL)                                          \
    X(no_size, "page_size: 0: must be 1 or more", p->kv.page_size = 0)                                       \
    X(other_size, "page_size: 8: k has 20 rows", p->kv.page_size = 8)                                        \
    X(no_table, "k: shape [11,2,20,32]", p->kv.block_table = (clattn_tensor){0})                             \
    X(no_pages, "k: has no pages", p->kv.k.shape[0] = p->kv.v.shape[0] = 0)                                  \
    X(pages_of_v, "v: shape", p->kv.v.shape[0] = 3)                                                          \
    X(too_many, "k: ", p->kv.block_table.shape[1] = INT32_MAX)                                               \
    X(lengths_alone, "past_lengths: is given without past_k", p->kv.past_lengths = past_length)
REFUSED_TABLE(invalid_past, INVALID_PAST)
REFUSED_TABLE(invalid_pages, INVALID_PAGES)

static void both(clattn_attention_params *p) {
    p->kv.past_k = p->kv.k, p->kv.past_v = p->kv.v;
}
static void rope_of_i8(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
}
static const struct refusal together[] = {{"both", "block_table: not with past_k", both}},
                            of_i8[] = {{"rope", "rope of i8 keys", rope_of_i8}};

#define GOOD                                                                                                 \
    .name = "good", .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 4, .n_kv = 100, .head_dim = 32,            \
    .score = {.causal = true, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT}
static const struct test_case good_past = {GOOD, .has_past = true, .past = 60},
                              good_pages = {GOOD, .page_size = 20},
                              good_i8 = {GOOD, .has_past = true, .past = 60, .kv_type = CLATTN_TYPE_I8};

REFUSED_CASES(past_that_is_refused, invalid_past, good_past, params, clattn_attention,
              CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(pages_that_are_refused, invalid_pages, good_pages, params, clattn_attention,
              CLATTN_INVALID_ARGUMENT)
REFUSED_CASES(not_together, together, good_pages, params, clattn_attention, CLATTN_UNSUPPORTED)
REFUSED_CASES(not_of_i8, of_i8, good_i8, params, clattn_attention, CLATTN_UNSUPPORTED)

int main(void) {
    const TTest *const tests[] = {past_values_elsewhere, pages_that_are_none, latents_and_a_past, NULL};
    Suite *suite = suite_create("past");
    TCase *group = harness_add(suite, "past", tests);
    REFUSED_LOOP(group, past_that_is_refused, invalid_past);
    REFUSED_LOOP(group, pages_that_are_refused, invalid_pages);
    REFUSED_LOOP(group, not_together, together);
    REFUSED_LOOP(group, not_of_i8, of_i8);
    case_list_add(suite, "past", "cases");
    return harness_run(suite);
}
