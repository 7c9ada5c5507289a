// plan_suite.h: the common part of the planner's suites: the shipped tuned rows, a CPU, and the end
// of main.
#ifndef CLATTN_TESTS_PLAN_SUITE_H
#define CLATTN_TESTS_PLAN_SUITE_H
#include "plan/families/family.h"

#include <check.h>

extern tuned_rows shipped; // while plan_suite_run runs
// with AVX-512; its name says GPU, because a name decides nothing
extern const clattn_capabilities wide_cpu;

// Run these tests as a suite of this name, and return main's exit status.
int plan_suite_run(const char *name, const TTest *const tests[], size_t count);
#define PLAN_SUITE_RUN(name, tests) plan_suite_run(name, tests, sizeof tests / sizeof tests[0])
#endif
