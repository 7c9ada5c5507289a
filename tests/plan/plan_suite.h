// plan_suite.h: shared by the planner's suites: the library's tuned rows, a CPU, and the end of
// main.
#ifndef CLATTN_TESTS_PLAN_SUITE_H
#define CLATTN_TESTS_PLAN_SUITE_H
#include "plan/families/family.h"

#include <check.h>

extern tuned_rows shipped; // valid while plan_suite_run runs
// A CPU with AVX-512. Its name says GPU, because names must not matter.
extern const clattn_capabilities wide_cpu;

// Run these tests as a suite of this name and return main's exit status.
int plan_suite_run(const char *name, const TTest *const tests[], size_t count);
#define PLAN_SUITE_RUN(name, tests) plan_suite_run(name, tests, sizeof tests / sizeof tests[0])
#endif
