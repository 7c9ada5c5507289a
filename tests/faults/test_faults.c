// test_faults.c: every OpenCL call of the library and of CLBlast fails once, in this process,
// through the layer that OPENCL_LAYERS names. Subjects are in faults_calls.c and faults_contexts.c.
// faults.c judges the outcome.
#include "faults/faults.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_built(const struct subject *s) {
    return !s->through_clblast || harness_has_clblast();
}

// Run every step-th subject from `first` on, so that two processes can share the subjects. A
// shortened suite skips subjects that measure, because they are slow.
static void try_all(const struct subject *subjects, int first, int step) {
    int n = 0;
    for (const struct subject *s = subjects; s->name != NULL; s++, n++)
        if (n % step == first && is_built(s) && !(s->measures && harness_every() > 1)) faults_try(s);
}

START_TEST(calls_fail) {
    try_all(faults_calls, _i, 2);
}
END_TEST

// Starts a new harness that has not used CLBlast. Otherwise CLBlast would keep programs of other
// contexts for it.
START_TEST(contexts_fail) {
    harness_stop();
    harness_start();
    try_all(faults_contexts, 0, 1);
}
END_TEST

int main(void) {
    harness_set_guard(64);
    harness_start();
    if (faults_layer() == NULL) {
        printf("skipped: OPENCL_LAYERS is not set, or the loader takes no layers\n");
        harness_stop();
        return HARNESS_SKIP;
    }
    Suite *suite = suite_create("faults");
    tcase_add_loop_test(harness_add(suite, "calls", (const TTest *const[]){NULL}), calls_fail, 0, 1);
    tcase_add_loop_test(harness_add(suite, "other_calls", (const TTest *const[]){NULL}), calls_fail, 1, 2);
    harness_add(suite, "contexts", (const TTest *const[]){contexts_fail, NULL});
    faults_add_rules(suite);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    harness_stop();
    struct layer_counts counts;
    long objects = 0;
    faults_layer()->count(&counts);
    for (int kind = 0; kind < LAYER_KINDS; kind++) objects += counts.created[kind];
    const struct fault_figures *f = faults_figures();
    printf("%ld faults injected: %ld refused, %ld spared, of which %ld by another kernel, %ld failed events; "
           "%ld contexts lost; %ld objects counted\n",
           f->injected, f->refused, f->spared, f->went_on, f->events, f->lost, objects);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
