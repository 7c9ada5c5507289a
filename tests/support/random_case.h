// random_case.h: random cases with all options. Their kinds share compiled kernels. Running them is
// elsewhere.
#ifndef CLATTN_TESTS_RANDOM_CASE_H
#define CLATTN_TESTS_RANDOM_CASE_H
#include "verification/case/case.h"
#include "verification/reference/random.h"

// A kind fixes what is compiled into kernels: types, head sizes, and options with a buffer or an
// argument.
#define RANDOM_KINDS 6
// A valid case of that kind, with at most `most` rows and keys and about `work` multiplications.
struct test_case random_case(struct random *random, int kind, int64_t most, double work);
#endif
