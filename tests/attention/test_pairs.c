// test_pairs.c: the cases of a covering array (verification/sets/pairs.h) on the device: every two
// values of every two options, with the kernels of one family. By default a share with few kernels.
//
// Environment:
//   CLATTN_TEST_PAIRS  "FAMILY", one of pairs_families, with the tuned row of CLATTN_TEST_ROWS;
//                      "FAMILY all"; "FAMILY 3/10": every tenth configuration from the fourth on;
//                      unset: planner
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_assert.h"
#include "verification/sets/pairs.h"

#define SEED 1
// A share has every SHARE_STEP-th configuration from SHARE_FIRST on, and at most SHARE_ROWS of its
// rows. With CLATTN_TEST_EVERY it has fewer rows, but at least one.
#define SHARE_STEP 16
#define SHARE_FIRST 4
#define SHARE_ROWS 4

static struct pairs array;
static int *chosen, chosen_count; // rows of the array

// Returns whether row n is in the share.
static bool in_share(int n) {
    int before = 0;
    if (array.rows[n].configuration % SHARE_STEP != SHARE_FIRST) return false;
    for (int i = 0; i < n; i++) before += array.rows[i].configuration == array.rows[n].configuration;
    return before < (harness_every() < SHARE_ROWS ? SHARE_ROWS / harness_every() : 1);
}

// The array of a family has no cases that its path does not support, so no case may be refused.
START_TEST(pairs_agree) {
    char why[512] = "", name[CASE_NAME_SIZE];
    const struct test_case test = pairs_case(&array, chosen[_i]);
    struct case_data *data = case_make(&test);
    case_retype(data);
    struct case_result got = case_run(data, harness()->queue);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s: %s", case_name(&test, name), why);
}
END_TEST

static bool open_array(void) {
    char family[32];
    const char *wanted = getenv("CLATTN_TEST_PAIRS");
    if (wanted == NULL) wanted = "planner";
    snprintf(family, sizeof family, "%.*s", (int)strcspn(wanted, " "), wanted);
    if (!pairs_make(family, SEED, &array)) {
        fprintf(stderr, "CLATTN_TEST_PAIRS: there is no family %s\n", family);
        return false;
    }
    chosen = calloc((size_t)array.count, sizeof *chosen);
    const char *rest = wanted + strlen(family);
    int first = 0, step = strcmp(rest, " all") == 0 ? 1 : 0;
    if (*rest != '\0' && step == 0 && (sscanf(rest, " %d/%d", &first, &step) != 2 || step < 1)) return false;
    for (int n = 0; chosen != NULL && n < array.count; n++)
        if (step ? array.rows[n].configuration % step == first : in_share(n)) chosen[chosen_count++] = n;
    return chosen != NULL;
}

int main(void) {
    const TTest *const none[] = {NULL};
    if (!open_array()) return EXIT_FAILURE;
    Suite *suite = suite_create("pairs");
    TCase *group = harness_add(suite, pairs_families[array.family], none);
    tcase_add_loop_test(group, pairs_agree, 0, chosen_count);
    const int status = harness_run(suite);
    printf("%s: %d of %d cases\n", pairs_families[array.family], chosen_count, array.count);
    free(chosen);
    pairs_free(&array);
    return chosen_count > 0 ? status : EXIT_FAILURE;
}
