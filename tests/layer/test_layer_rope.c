// test_layer_rope.c: RoPE inside the layer, where native projections apply RoPE as they write the
// heads: every layout, head size, width and position, fused or not. The raw scores show differences
// that the softmax would hide. RoPE in attention calls is in test_rope.c. Cases:
// tests/cases/layer_rope.txt.
#include "support/harness.h"
#include "support/case_list.h"

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

// Fused RoPE needs no rotated copies. RoPE that cannot be fused needs them.
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
    const TTest *const calls[] = {no_copies, NULL};
    Suite *suite = suite_create("layer_rope");
    harness_add(suite, "calls", calls);
    case_list_add(suite, "layer_rope", "cases");
    return harness_run(suite);
}
