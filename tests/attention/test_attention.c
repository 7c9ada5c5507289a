// test_attention.c: sizes, head sizes, head maps and storage types of plain and causal attention, in every
// kernel. Leaves out masks (test_masks.c), hostile values (test_hostile.c), views (test_views.c) and events
// (test_queue.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <stdio.h>

static const int64_t edges[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127};
#define EDGES ((int)(sizeof edges / sizeof edges[0]))

// Every size meets itself and two others, on both axes.
START_TEST(tile_edges) {
    for (int n = 0; n < 3 * EDGES; n++) {
        struct test_case test = {.name = "tile edges", .heads = 2, .head_dim = 32};
        test.n_q = edges[n % EDGES];
        test.n_kv = edges[(n % EDGES + n / EDGES * 5) % EDGES];
        test.seed = (uint64_t)n;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(tile_edges_causal) {
    for (int n = 0; n < EDGES; n++) {
        struct test_case test = {.name = "causal tile edges", .heads = 2, .head_dim = 32};
        test.n_q = edges[n];
        test.n_kv = edges[(n * 5 + 3) % EDGES];
        test.score.causal = true;
        test.score.alignment = n % 2 ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_BOTTOM_RIGHT;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(head_sizes) {
    static const int64_t sizes[][2] = {{1, 1},   {5, 5},     {32, 32},   {40, 40}, {64, 64}, {80, 80},
                                       {96, 96}, {128, 128}, {256, 256}, {64, 24}, {24, 80}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        struct test_case test = {.name = "head sizes", .heads = 2, .n_q = 10, .n_kv = 37};
        test.head_dim = sizes[n][0];
        test.head_dim_v = sizes[n][1];
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(sixteen_bit_types) {
    static const int64_t sizes[][2] = {{32, 32}, {40, 24}};
    for (int n = 0; n < 4; n++) {
        clattn_type type = n % 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16;
        struct test_case test = {.name = n % 2 ? "bf16" : "f16", .heads = 2, .n_kv = 65};
        test.q_type = test.kv_type = test.out_type = type;
        test.head_dim = sizes[n / 2][0];
        test.head_dim_v = sizes[n / 2][1];
        for (test.n_q = 1; test.n_q < 40; test.n_q += 31) case_assert_kernels(&test);
    }
}
END_TEST

// q with out, and k with v, may be of different types; out may differ from q as well.
START_TEST(mixed_types) {
    static const clattn_type types[][3] = {{CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_F32},
                                           {CLATTN_TYPE_F32, CLATTN_TYPE_BF16, CLATTN_TYPE_F32},
                                           {CLATTN_TYPE_F16, CLATTN_TYPE_F32, CLATTN_TYPE_F16},
                                           {CLATTN_TYPE_F16, CLATTN_TYPE_F16, CLATTN_TYPE_F32},
                                           {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_BF16}};
    for (size_t n = 0; n < sizeof types / sizeof types[0]; n++) {
        struct test_case test = {.name = "mixed types", .heads = 2, .n_q = 17, .n_kv = 33, .head_dim = 32};
        test.q_type = types[n][0];
        test.kv_type = types[n][1];
        test.out_type = types[n][2];
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(head_maps) {
    static const int64_t heads[][2] = {{4, 4}, {4, 2}, {6, 2}, {5, 1}};
    for (size_t n = 0; n < sizeof heads / sizeof heads[0]; n++) {
        struct test_case test = {.name = "grouped-query", .batch = 2, .n_q = 9, .n_kv = 17, .head_dim = 32};
        test.heads = heads[n][0];
        test.kv_heads = heads[n][1];
        case_assert_kernels(&test);
        test.n_q = 1;
        case_assert_kernels(&test);
    }
}
END_TEST

// The scale given, a negative one, and none.
START_TEST(given_scale) {
    static const float scales[] = {0, 1, 0.05f, -0.3f};
    for (size_t n = 0; n < sizeof scales / sizeof scales[0]; n++) {
        struct test_case test = {.name = "scale", .n_q = 9, .n_kv = 33, .head_dim = 32};
        test.score.scale = scales[n];
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(without_lse) {
    case_assert_kernels(&(struct test_case){
        .name = "without lse", .heads = 2, .n_q = 16, .n_kv = 33, .head_dim = 32, .no_lse = true});
}
END_TEST

// A decode call: one row, many keys, split as asked.
START_TEST(decode_splits) {
    for (int splits = 0; splits < 8; splits += splits == 0 ? 1 : 3) {
        struct test_case test = {.name = "splits", .batch = 2, .heads = 4, .kv_heads = 2, .n_kv = 1031};
        test.head_dim = 32;
        test.kernel = CLATTN_KERNEL_DECODE;
        test.splits = splits;
        case_assert(&test);
    }
}
END_TEST

START_TEST(thousand_keys) {
    case_assert_kernels(
        &(struct test_case){.name = "a thousand keys", .heads = 2, .n_q = 37, .n_kv = 1031, .head_dim = 32});
}
END_TEST

int main(void) {
    const TTest *const sizes[] = {tile_edges, tile_edges_causal, head_sizes, thousand_keys, NULL};
    const TTest *const types[] = {sixteen_bit_types, mixed_types, NULL};
    const TTest *const others[] = {head_maps, given_scale, without_lse, decode_splits, NULL};
    Suite *suite = suite_create("attention");
    harness_add(suite, "sizes", sizes);
    harness_add(suite, "types", types);
    harness_add(suite, "heads", others);
    int status = harness_run(suite);
    printf("decode: %d cases passed over as unsupported\n", case_decode_skipped());
    return status;
}
