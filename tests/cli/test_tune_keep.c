// Reports and stored rows of `clattn tune`. Synthetic timings, also of a noisy machine, replace the
// benchmark. Pure C.
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "cli/common/progress.h"
#include "cli/tune/tune.h"
#include "cli/tune/tuned.h"

#define ROUNDS 41

static double gain, noise; // the row's speed relative to the shipped rows; noise of a round
static int rounds;         // 0: it did not run

// Replaces the function of bench_against.c. A ratio is the row's time divided by that of the
// shipped rows.
void bench_pair_measure(const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair) {
    double ratios[ROUNDS];
    (void)device, (void)sides, (void)settings;
    for (int n = 0; n < rounds; n++) ratios[n] = (1.0 + noise * (n - rounds / 2) / (rounds / 2)) / gain;
    *pair = (bench_pair){.row = {.status = rounds ? BENCH_OK : BENCH_FAIL, .why = "nobody knows"}};
    if (rounds) pair->ratio = compare_ratio_paired(ratios, rounds);
}

static const struct {
    double gain, noise;
    int rounds;
    bool faster;
    const char *remark;
} rows[] = {
    {1.5, 0.01, ROUNDS, true, "1.50x what is shipped ["},
    {1.1, 0.9, ROUNDS, false, "the machine is too noisy to tell"},
    {1.05, 0.3, ROUNDS, false, "the machine is too noisy to tell"},
    {1.01, 0.001, ROUNDS, false, "1.01x what is shipped ["}, // too small a gain for a row
    {0.5, 0.01, ROUNDS, false, "0.50x what is shipped ["},
    {2.0, 0.0, 2, false, "too few runs to tell"},
    {2.0, 0.0, 0, false, "not compared with what is shipped: nobody knows"},
};

START_TEST(only_what_is_faster_for_sure_is_kept) {
    tune t = {.row_count = 0};
    tune_gained gained;
    gain = rows[_i].gain, noise = rows[_i].noise, rounds = rows[_i].rounds;
    tune_gain(&t, "row", &(struct test_case){.name = NULL}, &gained);
    ck_assert_msg(gained.faster == rows[_i].faster && strstr(gained.remark, rows[_i].remark), "%d: %s",
                  gained.faster, gained.remark);
    if (gained.low > 0.0) ck_assert(gained.low <= gained.gain && gained.gain <= gained.high);
}
END_TEST

static const char *text_of(const char *name, char text[256]) {
    FILE *file = fopen(in_folder(name), "rb");
    ck_assert_msg(file != NULL, "%s is not there", name);
    text[fread(text, 1, 255, file)] = 0;
    fclose(file);
    return text;
}

START_TEST(rows_in_the_folder) {
    static tune t = {.device = {.name = "A (B)", .driver = "1.2"}};
    char text[256], rows_text[256];
    const char *path = "tuned-A-B-.txt";
    t.common.cache_dir = folder;
    tool_begin("tune");
    ck_assert(freopen(in_folder("said"), "w", stderr) != NULL);
    tune_keep_row(&t, "flash : # 3 GFLOP/s");
    ck_assert_int_eq(tune_keep(&t), -1);
    snprintf(rows_text, sizeof rows_text, "# A (B), 1.2, clattn %s\nflash : # 3 GFLOP/s\n", clattn_version());
    ck_assert_str_eq(text_of(path, text), rows_text);
    fflush(stderr);
    ck_assert_msg(strstr(text_of("said", text), "clattn tune: 1 rows are kept in "), "%s", text);
    // If interrupted before any result, the rows of an earlier run stay. Otherwise they are
    // removed.
    t.kept_count = 0;
    interrupt_catch();
    raise(SIGINT);
    ck_assert(tune_keep(&t) == -1 && access(in_folder(path), F_OK) == 0);
    interrupt_catch();
    ck_assert(tune_keep(&t) == -1 && access(in_folder(path), F_OK) != 0);
    fflush(stderr);
    ck_assert(strstr(text_of("said", text), "none is kept, and those of an earlier run are gone"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tune_keep");
    TCase *group = tcase_create("rows");
    tcase_add_unchecked_fixture(group, enter, leave);
    tcase_add_loop_test(group, only_what_is_faster_for_sure_is_kept, 0, sizeof rows / sizeof *rows);
    tcase_add_test(group, rows_in_the_folder);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
