// test_random.c: random cases (random_case.h), also layers and projections, compared with the
// reference: combinations that no list has. A failure names its case. The suite prints the seed of
// a run.
//
// Environment:
//   CLATTN_TEST_RANDOM  "SEED CASES"; unset: 1 and 120
#include <stdio.h>
#include <stdlib.h>

#include "support/case_assert.h"
#include "support/random_case.h"

#define MOST_ROWS 400
#define MOST_WORK 4e6

static unsigned long long seed = 1;

START_TEST(random_cases) {
    struct random random = {seed * 1000003 + (uint64_t)_i};
    const struct test_case test = random_case(&random, _i % RANDOM_KINDS, MOST_ROWS, MOST_WORK);
    case_assert(&test);
}
END_TEST

int main(void) {
    const TTest *const none[] = {NULL};
    const char *wanted = getenv("CLATTN_TEST_RANDOM");
    int cases = 120;
    if (wanted != NULL && (sscanf(wanted, "%llu %d", &seed, &cases) != 2 || cases < 1)) {
        fprintf(stderr, "CLATTN_TEST_RANDOM: \"SEED CASES\" is wanted\n");
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("random");
    tcase_add_loop_test(harness_add(suite, "cases", none), random_cases, 0, cases);
    const int status = harness_run(suite);
    printf("random: seed %llu, %d cases; decode: %d passed over as unsupported\n", seed, cases,
           case_decode_skipped());
    return status;
}
