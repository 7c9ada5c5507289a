// random_case.h: cases at random, all options, of kinds that share compiled kernels. Leaves out running them.
#ifndef CLATTN_TESTS_RANDOM_CASE_H
#define CLATTN_TESTS_RANDOM_CASE_H
#include "verification/case/case.h"
#include "verification/reference/random.h"

// What is compiled into kernels: types, head sizes, the options that need a buffer or an argument.
#define RANDOM_KINDS 6
// A valid case of that kind, of at most `most` rows and keys and about `work` multiplications.
struct test_case random_case(struct random *random, int kind, int64_t most, double work);
#endif
