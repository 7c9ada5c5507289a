// test_grids.c: the sizes of other libraries' tests (verification/sets/grids.h) on the device. By
// default a share of each grid.
//
// Environment:
//   CLATTN_TEST_GRIDS  auto, unfused, flash or decode: all cases that this path supports, with the
//                      tuned row of CLATTN_TEST_ROWS; "PATH 3/10": every tenth from the fourth on;
//                      unset: a share, with the planner's choice
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_assert.h"
#include "verification/sets/grids.h"

#define SHARE 4             // cases of each grid, evenly distributed
#define MOST_DECODE_ROWS 16 // most query rows of a call on the decode path

static clattn_kernel kernel;
static int chosen[4096][2], count;
// if all cases are requested: run every step_wanted-th case from first_wanted on
static int first_wanted, step_wanted = 1;

START_TEST(cases_agree) {
    struct test_case test = grid_case(chosen[_i][0], chosen[_i][1]);
    test.name = grids[chosen[_i][0]].name;
    test.kernel = kernel;
    case_assert(&test);
}
END_TEST

static void choose(int grid, bool all) {
    const int cases = grid_cases(grid), step = all ? step_wanted : cases < SHARE ? 1 : cases / SHARE;
    for (int n = all ? first_wanted : step / 2; n < cases && count < (int)(sizeof chosen / sizeof chosen[0]);
         n += step) {
        const struct test_case test = grid_case(grid, n);
        if (kernel == CLATTN_KERNEL_DECODE && test.n_q > MOST_DECODE_ROWS) continue;
        chosen[count][0] = grid, chosen[count][1] = n;
        count++;
    }
}

int main(void) {
    const TTest *const none[] = {NULL};
    const char *wanted = getenv("CLATTN_TEST_GRIDS");
    const size_t length = wanted ? strcspn(wanted, " ") : 0;
    const int named = wanted ? names_find(names_kernels, wanted, length) : CLATTN_KERNEL_AUTO;
    const bool shared = wanted && wanted[length] != '\0';
    if (named < 0 || (shared && (sscanf(wanted + length, " %d/%d", &first_wanted, &step_wanted) != 2 ||
                                 first_wanted < 0 || step_wanted < 1))) {
        fprintf(stderr, "CLATTN_TEST_GRIDS: a path, or a path and K/N: not %s\n", wanted);
        return EXIT_FAILURE;
    }
    kernel = (clattn_kernel)named;
    Suite *suite = suite_create("grids");
    for (int grid = 0; grid < grid_count; grid++) {
        const int first = count;
        choose(grid, wanted != NULL);
        tcase_add_loop_test(harness_add(suite, grids[grid].name, none), cases_agree, first, count);
        printf("%s: %d of %d cases\n", grids[grid].name, count - first, grid_cases(grid));
    }
    return harness_run(suite);
}
