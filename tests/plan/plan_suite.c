// plan_suite.c: see plan_suite.h.
#include "plan/plan_suite.h"

#include <stdio.h>

#include "support/run_suite.h"

tuned_rows shipped;

const clattn_capabilities wide_cpu = {.name = "GPU",
                                      .is_cpu = true,
                                      .compute_units = 2,
                                      .float_vector_width = 16,
                                      .max_work_group = 4096,
                                      .max_work_item = {4096, 4096, 4096},
                                      .local_memory_bytes = 1 << 20,
                                      .global_memory_bytes = 1u << 30,
                                      .max_allocation_bytes = 1u << 28};

int plan_suite_run(const char *name, const TTest *const tests[], size_t count) {
    char why[256];
    if (!cla_tuned_parse(clattn_tuned_rows_text, &shipped, why, sizeof why)) {
        fprintf(stderr, "the shipped rows: %s\n", why);
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create(name);
    TCase *group = tcase_create("pure");
    tcase_set_timeout(group, 60);
    for (size_t i = 0; i < count; i++) tcase_add_test(group, tests[i]);
    suite_add_tcase(suite, group);
    const int status = run_suite(suite, CK_FORK_GETENV);
    cla_tuned_free(&shipped);
    return status;
}
