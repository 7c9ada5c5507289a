// test_rope.c: rotary embedding of q and k inside attention: both layouts, partial width, scaling, positions
// up to 2^24, and that rows and keys count on one ruler. Leaves out the layer (test_layer.c).
#include "support/case_assert.h"
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct test_case base(const char *name, clattn_rope_layout layout) {
    struct test_case test = {.name = name, .batch = 2, .heads = 4, .kv_heads = 2, .n_q = 9, .n_kv = 33};
    test.head_dim = 32;
    test.rope.layout = layout;
    return test;
}

START_TEST(both_layouts) {
    static const int widths[] = {0, 32, 16, 6, 2};
    for (int n = 0; n < 10; n++) {
        struct test_case test = base("rotary width", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        test.rope.rotary_dim = widths[n / 2];
        test.score.causal = n % 3 == 0;
        test.layout = (enum layout)(n % LAYOUT_COUNT);
        case_assert_kernels(&test);
    }
}
END_TEST

// Tolerance: the float32 budget (nmse 1e-11). Angles in plain float32 would be off by 0.06 here.
START_TEST(position_one_million) {
    for (int n = 0; n < 4; n++) {
        struct test_case test =
            base("position 1,000,000", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        test.scores = true;
        test.rope.position = n / 2 ? (1 << 24) - 64 : 1000000;
        case_assert_kernels(&test);
        test.scores = false;
        case_assert_kernels(&test);
    }
}
END_TEST

// Rows a million positions from their keys, so that nothing of the large angle cancels.
START_TEST(rows_far_from_keys) {
    for (int n = 0; n < 2; n++) {
        struct test_case test = base("offset 1,000,000", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        test.scores = true;
        test.score.alignment = CLATTN_ALIGN_OFFSET;
        test.score.offset = 1000000;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(scaling) {
    static const clattn_rope scalings[] = {
        {.base = 100000},
        {.scaling = CLATTN_ROPE_SCALING_LINEAR, .factor = 4},
        {.scaling = CLATTN_ROPE_SCALING_LINEAR, .factor = 1.7, .base = 500000},
        {.scaling = CLATTN_ROPE_SCALING_NTK, .factor = 2},
        {.scaling = CLATTN_ROPE_SCALING_NTK, .factor = 8, .base = 1000},
        {.scaling = CLATTN_ROPE_SCALING_YARN, .factor = 4, .original_length = 4096},
        {.scaling = CLATTN_ROPE_SCALING_YARN,
         .factor = 32,
         .original_length = 4096,
         .base = 150000,
         .beta_fast = 20,
         .beta_slow = 2,
         .attention_factor = 1.25,
         .untruncated = true},
        {.scaling = CLATTN_ROPE_SCALING_YARN, .factor = 40, .original_length = 100, .base = 50},
        {.scaling = CLATTN_ROPE_SCALING_LLAMA3, .factor = 8, .original_length = 8192, .base = 500000},
        {.scaling = CLATTN_ROPE_SCALING_LLAMA3,
         .factor = 32,
         .original_length = 600,
         .low_factor = 0.5,
         .high_factor = 9},
        {.scaling = CLATTN_ROPE_SCALING_DYNAMIC, .factor = 2, .original_length = 2048, .length = 7000},
        {.scaling = CLATTN_ROPE_SCALING_DYNAMIC, .factor = 2, .original_length = 2048, .length = 100}};
    for (size_t n = 0; n < sizeof scalings / sizeof scalings[0]; n++) {
        struct test_case test = base("scaling", CLATTN_ROPE_HALF);
        test.rope = scalings[n];
        test.rope.layout = n % 3 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED;
        test.rope.position = n % 2 ? 1000000 : 5000;
        test.rope.rotary_dim = n % 2 ? 24 : 0;
        test.scores = true;
        case_assert_kernels(&test);
    }
}
END_TEST

// Row i stands at i + shift among the keys, whatever sets the shift; the raw scores show it.
START_TEST(alignments) {
    static const int32_t offsets[] = {-4, 24}, kv_lengths[] = {33, 20}, q_lengths[] = {9, 4};
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("alignment", CLATTN_ROPE_INTERLEAVED);
        test.scores = true;
        test.score.alignment = n == 0 ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_OFFSET;
        if (n == 1 || n == 2) test.score.offset = n == 1 ? 24 : -3;
        if (n == 3) case_give(&test, CASE_OFFSETS, 2, offsets);
        case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        if (n == 0) case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        test.score.causal = true;
        case_assert_kernels(&test);
        test.scores = false;
        case_assert_kernels(&test);
    }
}
END_TEST

static double largest_difference(const struct test_case *a, const struct test_case *b) {
    struct case_data *data_a = case_make(a), *data_b = case_make(b);
    struct case_result got_a = case_run(data_a, harness()->queue), got_b = case_run(data_b, harness()->queue);
    double largest = 0;
    ck_assert_msg(got_a.status == CLATTN_OK && got_b.status == CLATTN_OK, "%s", harness_log_text());
    for (int n = 0; n < 2 * 4 * 9 * 33; n++) largest = fmax(largest, fabs(got_a.scores[n] - got_b.scores[n]));
    case_result_free(&got_a);
    case_result_free(&got_b);
    case_free(data_a);
    case_free(data_b);
    return largest;
}

// Moving rows and keys together changes nothing; moving the rows alone does.
START_TEST(origin) {
    for (int n = 0; n < 4; n++) {
        struct test_case here = base("origin", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        here.scores = true;
        struct test_case moved = here, shifted = here;
        moved.rope.position = n < 2 ? 777 : -777;
        shifted.score.alignment = CLATTN_ALIGN_OFFSET;
        shifted.score.offset = 5;
        double together = largest_difference(&here, &moved), alone = largest_difference(&here, &shifted);
        ck_assert_msg(together < 1e-4, "moving both changed a score by %g", together);
        ck_assert_msg(alone > 0.1, "moving the rows changed no score by more than %g", alone);
    }
}
END_TEST

// Rows and keys that say where they stand, about a million either side of 0: by batch item or for all, keys apart or not;
// three of them by sections, in slices and mixed.
START_TEST(explicit_positions) {
    static const int32_t sections[][3] = {{0, 0, 0}, {4, 6, 6}, {8, 5, 3}};
    for (int n = 0; n < 12; n++) {
        struct test_case test = base("positions", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        test.positions = test.scores = true;
        test.seed = (uint64_t)n;
        test.layout = (enum layout)(n % LAYOUT_COUNT);
        memcpy(test.rope.sections, sections[n / 2 % 3], sizeof test.rope.sections);
        test.rope.sections_interleaved = n / 2 % 3 == 2;
        if (n >= 6) test.n_q = test.n_kv, test.rope.scaling = CLATTN_ROPE_SCALING_YARN;
        test.rope.factor = 4, test.rope.original_length = 4096;
        test.score.causal = n % 3 == 0;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(sixteen_bit_types) {
    for (int n = 0; n < 4; n++) {
        struct test_case test = base("16-bit", n % 2 ? CLATTN_ROPE_HALF : CLATTN_ROPE_INTERLEAVED);
        test.q_type = test.kv_type = test.out_type = n / 2 ? CLATTN_TYPE_BF16 : CLATTN_TYPE_F16;
        test.rope.position = 100;
        test.rope.rotary_dim = 20;
        case_assert_kernels(&test);
    }
}
END_TEST

START_TEST(one_row_and_a_cache) {
    struct test_case test = base("decode", CLATTN_ROPE_HALF);
    test.n_q = 1;
    test.n_kv = 127;
    test.score.causal = true;
    test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    case_assert_kernels(&test);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        both_layouts,       position_one_million, rows_far_from_keys,  scaling, alignments, origin,
        explicit_positions, sixteen_bit_types,    one_row_and_a_cache, NULL};
    Suite *suite = suite_create("rope");
    harness_add(suite, "rope", tests);
    return harness_run(suite);
}
