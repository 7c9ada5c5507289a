// test_layer_rope.c: rotary embedding inside the layer, where the native projections turn the heads as they
// make them: every layout, head size, width and position that decides how, and those that cannot be fused.
// The raw scores show what the softmax would smooth. Leaves out RoPE of attention alone (test_rope.c).
#include "support/harness.h"
#include "support/case_assert.h"

#include <stdio.h>

static struct test_case turned(const char *name, int64_t rows, int64_t head_dim) {
    return (struct test_case){.op = CASE_LAYER,
                              .name = name,
                              .batch = 2,
                              .n_q = rows,
                              .width = 48,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = head_dim,
                              .biases = LAYER_ALL_BIASES,
                              .projection = CLATTN_PROJECTION_NATIVE,
                              .scores = true,
                              .scores_at = CLATTN_TAP_RAW,
                              .rope = {.layout = CLATTN_ROPE_HALF}};
}

static void both_layouts(struct test_case test) {
    test.rope.layout = CLATTN_ROPE_HALF;
    case_assert(&test);
    test.rope.layout = CLATTN_ROPE_INTERLEAVED;
    case_assert(&test);
}

// Few rows and many take different kernels; a head may fill a part of a tile, one, or more than any.
START_TEST(rows_and_heads) {
    static const int64_t rows[] = {1, 9, 70}, heads[] = {6, 40, 100, 256};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
            both_layouts(turned("rows and heads", rows[r], heads[h]));
}
END_TEST

START_TEST(part_of_a_head) {
    static const int widths[] = {2, 6, 10, 24};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int64_t rows = 9; rows <= 70; rows += 61) {
            struct test_case even = turned("part of a head", rows, 24), odd = turned("an odd head", rows, 25);
            even.rope.rotary_dim = odd.rope.rotary_dim = widths[w];
            both_layouts(even);
            both_layouts(odd);
        }
}
END_TEST

START_TEST(storage_types) {
    for (int n = 0; n < 18; n++) {
        struct test_case test = turned("types", n < 9 ? 5 : 70, 32);
        test.q_type = (clattn_type)(n % 3);
        test.matrix_type = (clattn_type)(n / 3 % 3);
        test.bias_type = test.q_type;
        case_assert(&test);
    }
}
END_TEST

// Rows stand where the alignment puts them, keys on the same ruler.
START_TEST(positions) {
    static const int32_t q_lengths[] = {5, 9}, kv_lengths[] = {30, 4}, offsets[] = {100000, -3};
    for (int64_t rows = 9; rows <= 70; rows += 61) {
        struct test_case test = turned("positions", rows, 32);
        test.n_kv = rows + 21;
        test.width_y = 40;
        test.score.causal = true;
        test.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        test.rope.position = rows < 10 ? 4000 : -4000;
        both_layouts(test);
        test.rope.scaling = CLATTN_ROPE_SCALING_NTK;
        test.rope.factor = 4;
        case_give(&test, CASE_KV_LENGTHS, 2, kv_lengths);
        case_give(&test, CASE_Q_LENGTHS, 2, q_lengths);
        both_layouts(test);
        test.hosts = 0;
        case_give(&test, CASE_OFFSETS, 2, offsets);
        both_layouts(test);
    }
}
END_TEST

// Few rows, whose q, k and v share a launch, and many; keys that have positions of their own; sections, which the
// projections leave to a pass of its own.
START_TEST(explicit_positions) {
    for (int n = 0; n < 8; n++) {
        struct test_case test = turned("explicit positions", n / 4 ? 70 : 9, 32);
        test.positions = true;
        test.seed = (uint64_t)n;
        if (n % 4 == 3) test.rope.sections[0] = 6, test.rope.sections[1] = 7, test.rope.sections[2] = 3;
        if (n % 4 == 2) test.n_kv = test.n_q + 21, test.width_y = 40;
        both_layouts(test);
    }
}
END_TEST

// YaRN's factor on cosines and sines among them, in projections of few rows and of many.
START_TEST(scalings) {
    struct test_case test = turned("scalings", 40, 32), few = turned("scalings", 9, 32);
    few.rope = (clattn_rope){.factor = 4, .original_length = 1000, .scaling = CLATTN_ROPE_SCALING_YARN};
    both_layouts(few);
    test.rope.factor = 4;
    test.rope.original_length = 1000;
    test.rope.scaling = CLATTN_ROPE_SCALING_YARN;
    both_layouts(test);
    test.rope.attention_factor = 1;
    both_layouts(test);
    test.rope.attention_factor = 0;
    test.rope.scaling = CLATTN_ROPE_SCALING_LLAMA3;
    both_layouts(test);
}
END_TEST

START_TEST(with_clblast) {
    if (!harness_has_clblast()) return;
    struct test_case test = turned("CLBlast", 9, 32);
    test.projection = CLATTN_PROJECTION_CLBLAST;
    both_layouts(test);
}
END_TEST

static size_t workspace_of(struct test_case test, clattn_rope_layout layout) {
    test.positions = test.positions && layout != CLATTN_ROPE_NONE;
    struct case_arrays arrays;
    size_t bytes = 0;
    test.scores = false;
    test.rope.layout = layout;
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    ck_assert(clattn_layer_workspace(harness()->context, &arrays.layer, &bytes) == CLATTN_OK);
    case_unbind(&arrays);
    case_free(data);
    return bytes;
}

// What is fused needs no turned copies; what cannot be has them.
START_TEST(no_copies) {
    for (int64_t rows = 9; rows <= 70; rows += 61) {
        const struct test_case fused = turned("fused", rows, 64), apart = turned("apart", rows, 25);
        struct test_case part = apart;
        part.rope.rotary_dim = 24;
        ck_assert_uint_eq(workspace_of(fused, CLATTN_ROPE_HALF), workspace_of(fused, CLATTN_ROPE_NONE));
        ck_assert_uint_eq(workspace_of(fused, CLATTN_ROPE_INTERLEAVED),
                          workspace_of(fused, CLATTN_ROPE_NONE));
        struct test_case scaled = fused;
        scaled.positions = true;
        scaled.rope.factor = 4, scaled.rope.original_length = 1000;
        scaled.rope.scaling = CLATTN_ROPE_SCALING_YARN;
        ck_assert_uint_eq(workspace_of(scaled, CLATTN_ROPE_HALF), workspace_of(fused, CLATTN_ROPE_NONE));
        ck_assert_uint_gt(workspace_of(part, CLATTN_ROPE_HALF), workspace_of(apart, CLATTN_ROPE_NONE));
    }
}
END_TEST

int main(void) {
    const TTest *const numbers[] = {rows_and_heads,     part_of_a_head, storage_types, positions,
                                    explicit_positions, scalings,       with_clblast,  NULL};
    const TTest *const calls[] = {no_copies, NULL};
    Suite *suite = suite_create("layer_rope");
    harness_add(suite, "numbers", numbers);
    harness_add(suite, "calls", calls);
    return harness_run(suite);
}
