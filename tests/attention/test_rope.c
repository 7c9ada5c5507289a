// test_rope.c: RoPE of q and k inside attention: both layouts, partial width, scaling, positions up
// to 2^24, and equal counting of rows and keys. The layer is in test_layer.c. Cases:
// tests/cases/rope.txt.
#include "support/case_list.h"
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

// Moving rows and keys together changes nothing. Moving only the rows does.
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

int main(void) {
    const TTest *const tests[] = {origin, NULL};
    Suite *suite = suite_create("rope");
    harness_add(suite, "rope", tests);
    case_list_add(suite, "rope", "cases");
    return harness_run(suite);
}
