// test_masks.c: rows that see no key, with a sink and without, and the list of every option that changes or hides a score
// (tests/cases/masks.txt). Leaves out hostile values (test_hostile.c) and rotary embedding (test_rope.c).
#include <string.h>

#include "support/case_list.h"

START_TEST(empty_rows) {
    struct test_case test;
    char why[256];
    ck_assert(case_read(_i ? "attend-f32-b3-h4-hkv2-n20-nkv33-d32-lse-maskqk-sinks"
                           : "attend-f32-b3-h4-hkv2-n20-nkv33-d32-lse-maskqk",
                        &test, why));
    test.name = _i ? "no key, a sink" : "no key";
    struct case_data *data = case_make(&test);
    memset(data->mask, 0, 33 * 20 * sizeof *data->mask);
    data->mask[3 * 33 + 32] = 1;
    for (int n = 0; n < 3; n++) {
        data->test.kernel = case_kernel(n);
        data->test.weights = case_kernel(n) == CLATTN_KERNEL_UNFUSED;
        case_assert_data(data);
    }
    case_free(data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("masks");
    tcase_add_loop_test(harness_add(suite, "rows", (const TTest *const[]){NULL}), empty_rows, 0, 2);
    case_list_add(suite, "masks", "cases");
    return harness_run(suite);
}
