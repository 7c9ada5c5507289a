// test_group.c: a group of devices gives what one gives, for every option and however the work is dealt; by two platforms where there
// are two. Leaves out the planner alone (test_group_deal.c), what the header promises besides (test_group_promises.c), and failures
// (test_group_faults.c).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/case_group.h"
#include "evidence/hard_cases.h"
#include "evidence/pairs.h"
#include "group_fixture.h"

// ------------------------------------------------------------------------------------------ every option

#define SEED 1
#define CASES 500
#define STEP 8 // of the configurations every eighth, of which so many rows
#define ROWS 2

static struct pairs array;
static int *chosen, chosen_count;

static bool in_share(int n) {
    int before = 0;
    if (array.rows[n].configuration % STEP != STEP / 2) return false;
    for (int i = 0; i < n; i++) before += array.rows[i].configuration == array.rows[n].configuration;
    return before < ROWS;
}

START_TEST(pairs_agree) {
    const struct test_case test = pairs_case(&array, chosen[_i]);
    group_assert_deals(group_of(2), &test);
}
END_TEST

static bool open_array(void) {
    if (!pairs_make("planner", SEED, CASES, &array)) return false;
    chosen = calloc((size_t)array.count, sizeof *chosen);
    for (int n = 0; chosen != NULL && n < array.count; n++)
        if (in_share(n)) chosen[chosen_count++] = n;
    return chosen != NULL && chosen_count > 0;
}

// A hard case each, of attention.
START_TEST(hard_cases_agree) {
    const struct test_case test = hard_case(_i);
    if (!case_projects(&test)) group_assert_deals(group_of(2), &test);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const none[] = {NULL};
    (void)argv;
    if (!open_array()) return EXIT_FAILURE;
    Suite *suite = suite_create("group");
    TCase *pairs = harness_add(suite, "pairs", none);
    tcase_add_loop_test(pairs, pairs_agree, 0, chosen_count);
    if (argc > 1) tcase_add_loop_test(harness_add(suite, "hard", none), hard_cases_agree, 0, hard_case_count);
    const int status = group_run(suite);
    printf("%d cases, dealt in %ld ways\n", chosen_count, group_ways());
    free(chosen);
    pairs_free(&array);
    return status;
}
