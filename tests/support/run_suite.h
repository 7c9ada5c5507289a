// run_suite.h: the end of main in a suite that needs no device (for the others see harness.h).
#ifndef CLATTN_TESTS_RUN_SUITE_H
#define CLATTN_TESTS_RUN_SUITE_H

#include <check.h>
#include <stdlib.h>

// Run the suite, free it, and return main's exit status. Each test has a process if Check may fork.
// A suite without a test has failed.
static inline int run_suite(Suite *suite, enum fork_status forking) {
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, forking);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
