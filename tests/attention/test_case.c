// test_case.c: the hard cases (verification/sets/hard_cases.h) with every kernel. A new row there
// is run by this suite, by verify, and by its name. Vectors of other widths are forced by verify
// only.
//
//   build/tests/test_case attend-f32-b1-h2-n9-nkv33-d64-causal-window5:3    runs one case, as
//                                                                            CLATTN_TEST_CASE does
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_assert.h"
#include "verification/sets/hard_cases.h"

static struct test_case named;

// With CLATTN_TEST_CASES=share a case runs with the planner's choice and with one other kernel,
// which changes from case to case. With all kernels the compilation needs minutes.
static bool in_share(int index, int kernel) {
    const char *wanted = getenv("CLATTN_TEST_CASES");
    return wanted == NULL || strcmp(wanted, "share") != 0 || kernel == CLATTN_KERNEL_AUTO ||
           kernel == 1 + index % (CLATTN_KERNEL_COUNT - 1);
}

// Unfused and the planner's choice support every case, except that unfused cannot read a shared
// past once. Flash and decode may refuse cases that they do not support.
START_TEST(with_every_kernel) {
    const struct test_case test = hard_case(_i);
    for (int kernel = 0; kernel < CLATTN_KERNEL_COUNT; kernel++) {
        char why[512] = "", name[CASE_NAME_SIZE];
        if (test.kernel != CLATTN_KERNEL_AUTO && kernel != (int)test.kernel) continue;
        if (test.kernel == CLATTN_KERNEL_AUTO && !in_share(_i, kernel)) continue;
        if (test.op == CASE_BACKWARD && kernel != CLATTN_KERNEL_AUTO) continue; // test_backward.c
        struct case_data *data = case_make(&test);
        case_retype(data);
        data->test.kernel = (clattn_kernel)kernel;
        struct case_result got = case_run(data, harness()->queue);
        const bool may_refuse = kernel == CLATTN_KERNEL_DECODE ||
                                (kernel == CLATTN_KERNEL_UNFUSED && test.cascade == CLATTN_CASCADE_ALWAYS) ||
                                (kernel == CLATTN_KERNEL_FLASH && (test.weights || test.scores));
        const bool refused =
            may_refuse && test.kernel == CLATTN_KERNEL_AUTO && got.status == CLATTN_UNSUPPORTED;
        const bool good = refused || case_agrees(data, &got, why, sizeof why);
        case_result_free(&got);
        ck_assert_msg(good, "%s: %s: %s", test.name, case_name(&data->test, name), why);
        case_free(data);
    }
}
END_TEST

START_TEST(one_case) {
    case_assert(&named);
}
END_TEST

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : getenv("CLATTN_TEST_CASE");
    Suite *suite = suite_create("cases");
    const TTest *const one[] = {name != NULL ? one_case : NULL, NULL};
    TCase *group = harness_add(suite, "hard", one);
    char why[256];
    if (name == NULL) {
        tcase_add_loop_test(group, with_every_kernel, 0, hard_case_count);
    } else if (hard_case_find(name) >= 0) {
        named = hard_case(hard_case_find(name));
    } else if (!case_parse(name, &named, why)) {
        fprintf(stderr, "%s: %s\n", name, why);
        return 2;
    }
    if (named.name == NULL) named.name = name;
    return harness_run(suite);
}
