// test_past.c: keys that lie in past rows before the new ones, and in pages: sizes at the edges of both, lengths that differ
// from item to item, a prefix that items share, numbers of pages that are none, and what is refused. Rows that nobody has hold NaN
// in every case (case_kv.h). Leaves out speed.
#define REFUSED_PARAMS clattn_attention_params
#include "refusals/refused.h"

static struct test_case base(const char *name, int64_t n_kv, int64_t past) {
    struct test_case test = {
        .name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 4, .n_kv = n_kv, .head_dim = 32};
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    test.has_past = past >= 0;
    test.past = past > 0 ? past : 0;
    return test;
}

static void retype(struct test_case *test, clattn_type type) {
    test->q_type = test->kv_type = test->out_type = type;
}

// Nothing of the past, nothing new, one of each, the edges of tiles, and more than a tile of either.
START_TEST(past_sizes) {
    static const int64_t sizes[][2] = {{5, 0}, {5, 5}, {2, 1}, {64, 63}, {65, 64}, {130, 65}, {200, 131}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        struct test_case test = base("sizes", sizes[n][0], sizes[n][1]);
        test.n_q = n % 2 ? 4 : 19;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(past_lengths) {
    static const int32_t kv_lengths[] = {20, 45};
    for (int n = 0; n < 8; n++) {
        struct test_case test = base("lengths", 100, 60);
        test.past_count = 2;
        test.past_length[0] = n % 4 == 0 ? 0 : n % 4 == 1 ? 60 : n % 4 == 2 ? 33 : 1;
        test.past_length[1] = 60 - test.past_length[0];
        test.past_shared = n / 4 == 1;
        test.layout = (enum layout)(n % LAYOUT_COUNT);
        if (n % 4 == 3) case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        case_assert_kernels(&test);
    }
}
END_TEST

// An item without a key, and one whose only keys are past.
START_TEST(empty_items) {
    struct test_case test = base("empty items", 40, 40);
    test.past_count = 2, test.past_length[1] = 17;
    case_assert_kernels(&test);
    test = base("no keys yet", 16, 0);
    test.page_size = 8, test.has_past = false;
    static const int32_t none[] = {0, 3};
    case_give(&test, CASE_KV_LENGTHS, 2, none);
    case_assert_kernels(&test);
}
END_TEST

START_TEST(page_sizes) {
    static const int sizes[][2] = {{1, 9}, {3, 23}, {16, 5}, {64, 3}, {200, 1}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        struct test_case test = base("pages", sizes[n][0] * sizes[n][1], -1);
        const int32_t lengths[] = {(int32_t)test.n_kv, (int32_t)(test.n_kv / 2)};
        test.page_size = sizes[n][0];
        test.n_q = n % 2 ? 4 : 19;
        test.layout = (enum layout)(n % LAYOUT_COUNT);
        case_give(&test, CASE_KV_LENGTHS, 2, lengths);
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(sixteen_bit_types) {
    for (int n = 0; n < 2; n++) {
        struct test_case test = base("16 bits", 110, n ? -1 : 71);
        retype(&test, n ? CLATTN_TYPE_F16 : CLATTN_TYPE_BF16);
        test.page_size = n ? 11 : 0;
        case_assert_kernels(&test);
        test.n_q = 40;
        test.kernel = CLATTN_KERNEL_FLASH;
        case_assert(&test);
    }
}
END_TEST

// Options of the score know all keys by their place in the whole.
START_TEST(options) {
    struct test_case test = base("options", 96, 50);
    test.mask.rank = 2, test.bias.rank = 3;
    test.hosts = CASE_HOST_BIT(CASE_ALIBI) | CASE_HOST_BIT(CASE_SINKS);
    test.score.softcap = 5;
    test.score.window = true, test.score.window_left = 70, test.score.window_right = 0;
    case_assert_kernels(&test);
}
END_TEST

// RoPE turns q, and of the keys the new ones alone, which follow the past.
START_TEST(rope) {
    for (int n = 0; n < 3; n++) {
        struct test_case test = base("rope", 48, n < 2 ? 39 : -1);
        test.page_size = n < 2 ? 0 : 16;
        test.past_count = n == 1 ? 2 : 0;
        test.past_length[0] = 5, test.past_length[1] = 39;
        test.rope.layout = n ? CLATTN_ROPE_INTERLEAVED : CLATTN_ROPE_HALF;
        test.rope.position = 100;
        case_assert_kernels(&test);
    }
}
END_TEST

// Int8 with scales; weights and taps.
START_TEST(int8_weights_and_taps) {
    struct test_case test = base("int8", 70, 41);
    test.kv_type = CLATTN_TYPE_I8;
    case_assert_kernels(&test);
    test = base("int8 pages", 70, -1);
    test.kv_type = CLATTN_TYPE_I8, test.page_size = 7;
    case_assert(&test);
    test = base("weights", 200, 131);
    test.weights = true;
    test.kernel = CLATTN_KERNEL_AUTO;
    case_assert(&test);
    test.scores = true, test.scores_at = CLATTN_TAP_MASKED;
    case_assert(&test);
}
END_TEST

// Multi-head latent attention, whose values are the first columns of its keys: in pages, and of a past.
static struct test_case latent(const char *name, int64_t past) {
    struct test_case test = base(name, 112, past);
    test.heads = 20, test.kv_heads = 1, test.n_q = 2;
    test.head_dim = 72, test.head_dim_v = 64;
    test.latent = true;
    return test;
}

START_TEST(latents) {
    static const int32_t lengths[] = {112, 35};
    for (int n = 0; n < 4; n++) {
        struct test_case test = latent("latents", n < 2 ? -1 : 71);
        test.page_size = n < 2 ? 16 : 0;
        test.past_count = n == 3 ? 2 : 0;
        test.past_length[0] = 71, test.past_length[1] = 5;
        if (n % 2) test.kv_type = CLATTN_TYPE_I8;
        if (n == 0) retype(&test, CLATTN_TYPE_BF16);
        if (n < 3) case_give(&test, CASE_KV_LENGTHS, 2, lengths);
        case_assert_kernels(&test);
    }
}
END_TEST

// The new values are a part of their keys, and those of the past are not.
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

// Expressions beside past keys of int8 have too many arguments for one kernel: another takes them.
START_TEST(expressions_beside_int8) {
    struct test_case test = base("expressions", 60, 41);
    test.kv_type = CLATTN_TYPE_I8;
    test.hosts = CASE_HOST_BIT(CASE_ALIBI);
    test.mods = true;
    case_assert(&test);
}
END_TEST

// A page's number outside the pool reads its first or last page.
START_TEST(pages_that_are_none) {
    static const int32_t wrong[] = {INT32_MIN, -1, INT32_MAX, 1 << 20};
    for (int kernel = 0; kernel < CLATTN_KERNEL_COUNT; kernel++)
        for (int n = 0; n < 4; n++) {
            struct test_case test = base("pages that are none", 48, -1);
            struct case_arrays arrays;
            char why[512];
            test.page_size = 16, test.kernel = (clattn_kernel)kernel;
            struct case_data *data = case_make(&test);
            // The first page is nobody's else: there stand numbers, too.
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

// Values that are the first numbers of their keys' rows, as in latent attention, beside past ones that are, too, and past ones
// that are a tensor of their own: what is read once for both differs.
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

// What must be refused, in one line that names it.
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

static void check_refusal(const struct refusal *refusal, const struct test_case *good, clattn_status want) {
    struct refused_case call = refused_case_begin(good);
    cl_event event = NULL;
    const clattn_attention_params *p = &call.arrays.params;
    refusal->spoil(&call.arrays.params);
    ASSERT_REFUSED(refusal->name,
                   clattn_attention_enqueue(harness()->context, harness()->queue, p, 0, NULL, &event), want,
                   refusal->word);
    refused_case_end(&call, refusal->name, event);
}

START_TEST(past_that_is_refused) {
    const struct test_case good = base("good", 100, 60);
    check_refusal(&invalid_past[_i], &good, CLATTN_INVALID_ARGUMENT);
}
END_TEST

START_TEST(pages_that_are_refused) {
    struct test_case good = base("good", 100, -1);
    good.page_size = 20;
    check_refusal(&invalid_pages[_i], &good, CLATTN_INVALID_ARGUMENT);
}
END_TEST

static void both(clattn_attention_params *p) {
    p->kv.past_k = p->kv.k, p->kv.past_v = p->kv.v;
}
static void rope_of_i8(clattn_attention_params *p) {
    p->rope.layout = CLATTN_ROPE_HALF;
}
START_TEST(not_built) {
    const struct refusal of_both = {"both", "block_table: not with past_k", both},
                         of_rope = {"rope", "rope of i8 keys", rope_of_i8};
    struct test_case good = base("good", 100, -1);
    good.page_size = 20;
    check_refusal(&of_both, &good, CLATTN_UNSUPPORTED);
    good = base("good", 100, 60);
    good.kv_type = CLATTN_TYPE_I8;
    check_refusal(&of_rope, &good, CLATTN_UNSUPPORTED);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {past_sizes,
                                  past_lengths,
                                  empty_items,
                                  page_sizes,
                                  sixteen_bit_types,
                                  options,
                                  rope,
                                  int8_weights_and_taps,
                                  latents,
                                  past_values_elsewhere,
                                  expressions_beside_int8,
                                  pages_that_are_none,
                                  latents_and_a_past,
                                  not_built,
                                  NULL};
    Suite *suite = suite_create("past");
    TCase *group = harness_add(suite, "past", tests);
    REFUSED_LOOP(group, past_that_is_refused, invalid_past);
    REFUSED_LOOP(group, pages_that_are_refused, invalid_pages);
    return harness_run(suite);
}
