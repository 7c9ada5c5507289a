// What clattn tune says of a row and keeps of it: by made-up runs, a machine that is noisy among them, in place of a bench. Pure C.
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/bench/bench_against.h"
#include "tool/cli/interrupt.h"
#include "tool/tune/tune.h"
#include "tool/tune/tuned.h"

#define ROUNDS 41

static double gain, noise; // of the row beside what is shipped; of a round, up and down by this
static int rounds;         // 0: it did not run
static bool interrupted;
static char said[512];

// Ratios are the row's time by that of what is shipped.
void bench_pair_measure(const char *command, const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair) {
    double ratios[ROUNDS];
    (void)command, (void)device, (void)sides, (void)settings;
    for (int n = 0; n < rounds; n++) ratios[n] = (1.0 + noise * (n - rounds / 2) / (rounds / 2)) / gain;
    *pair = (bench_pair){.row = {.status = rounds ? BENCH_OK : BENCH_FAIL, .why = "nobody knows"}};
    if (rounds) pair->ratio = compare_ratio_paired(ratios, rounds);
}

bool interrupt_asked(void) {
    return interrupted;
}

const char *tool_cache_dir(const common_options *o, char *buffer, size_t size) {
    (void)o, (void)buffer, (void)size;
    return folder;
}

bool tuned_path(const char *where, const clattn_capabilities *device, char *path, size_t size) {
    (void)device;
    return snprintf(path, size, "%s/rows", where) > 0;
}

const char *tuned_head(const clattn_capabilities *device, char line[TUNED_HEAD]) {
    (void)device;
    return strcpy(line, "# head");
}

void tool_note(const char *command, const char *format, ...) {
    va_list list;
    (void)command;
    va_start(list, format);
    vsnprintf(said, sizeof said, format, list);
    va_end(list);
}

int tool_failed(const char *command, const char *format, ...) {
    (void)command, (void)format;
    return EXIT_FAILED;
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
    {1.01, 0.001, ROUNDS, false, "1.01x what is shipped ["}, // too little to be worth a row
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

START_TEST(rows_in_the_folder) {
    static tune t;
    char text[128] = "";
    tune_keep_row(&t, "flash : # 3 GFLOP/s");
    ck_assert_int_eq(tune_keep(&t), -1);
    FILE *file = fopen(in_folder("rows"), "rb");
    ck_assert(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_str_eq(text, "# head\nflash : # 3 GFLOP/s\n");
    ck_assert(strstr(said, "1 rows are kept"));
    // Interrupted before anything was found nothing is known; else what an earlier run kept goes.
    t.kept_count = 0, interrupted = true;
    ck_assert(tune_keep(&t) == -1 && access(in_folder("rows"), F_OK) == 0);
    interrupted = false;
    ck_assert(tune_keep(&t) == -1 && access(in_folder("rows"), F_OK) != 0);
    ck_assert(strstr(said, "none is kept, and those of an earlier run are gone"));
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
