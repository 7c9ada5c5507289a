/* The remaining time that clattn prints for any long command. Pure C. */
#include "support/run_suite.h"

#include <check.h>

#include "cli/common/progress.h"

static const struct {
    double share, seconds;
    const char *text;
} lines[] = {
    {0.0, 5.0, "0 %"},
    {0.005, 5.0, "0 %"}, /* too early for an estimate */
    {0.5, 0.1, "50 %"},
    {0.5, 10.0, "50 %, 10 s left"},
    {0.1, 1.0, "10 %, 9 s left"},
    {0.99, 98.0, "99 %, 1 s left"},
    {0.999, 0.3, "99 %, 1 s left"},
    {0.25, 60.0, "25 %, 3 min 00 s left"},
    {0.01, 60.0, "1 %, 1 h 39 min left"},
    {0.5, 1e9, "50 %, 1000 h 00 min left"},
    {1.0, 10.0, "100 %"},
    {1.5, 10.0, "100 %"},
    {-1.0, 10.0, "0 %"},
};

START_TEST(time_that_is_left) {
    char text[48];
    ck_assert_str_eq(progress_text(lines[_i].share, lines[_i].seconds, text), lines[_i].text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("progress");
    TCase *group = tcase_create("progress");
    tcase_add_loop_test(group, time_that_is_left, 0, sizeof lines / sizeof *lines);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
