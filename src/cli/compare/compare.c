// compare.c: the command `clattn compare`: which differences between benches are real. Rows of two
// files match by case and device. With --by, rows match by everything except the given property. A
// difference is real if it is more than 2 % and the bootstrap interval of the ratio of medians
// excludes 1 (compare.h).
#include "cli/compare/compare.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"

#define MOST_FILES 16

enum {
    SAME = COMPARE_SAME,
    FASTER = COMPARE_FASTER,
    SLOWER = COMPARE_SLOWER,
    INCONCLUSIVE = COMPARE_INCONCLUSIVE,
    BROKEN,
    MENDED,
    NOT_MEASURED,
    VERDICTS
};
typedef struct compare {
    double fail_above; // share of the median; negative: no limit
    bool allow_missing, allow_inconclusive, json, quiet;
    int by; // COMPARE_BY_...
    json_t *files[MOST_FILES], *rows;
    const char *const *paths;
    int file_count, counts[VERDICTS], missing[2];
    bool failed;
    progress progress; // in rows
} compare;

static bool take_percentage(void *target, const char *value, char why[256]) {
    double *limit = &((compare *)target)->fail_above;
    char number[32];
    const size_t length = strcspn(value, "%");
    const int fits = snprintf(number, sizeof number, "%.*s", (int)(length < 32 ? length : 32), value) < 32;
    const bool ends = value[length] == '\0' || value[length + 1] == '\0';
    const bool good = fits && ends && option_number(number, limit, why) && *limit >= 0.0;
    *limit /= 100.0;
    if (!good) snprintf(why, 256, "a percentage such as 5%% is needed");
    return good;
}

static bool take_by(void *target, const char *value, char why[256]) {
    int *by = &((compare *)target)->by;
    const bool known = option_choice(value, compare_by_words, by, why);
    *by += known;
    return known;
}

static const char *verdict_word(int verdict) {
    static const char *const more[] = {"broken", "mended", "not measured"};
    return verdict < BROKEN ? compare_verdicts[verdict] : more[verdict - BROKEN];
}

static bool same_row(const json_t *a, const json_t *b) {
    return !strcmp(row_text(a, "case"), row_text(b, "case")) &&
           !strcmp(row_text(a, "device"), row_text(b, "device"));
}

// Find the partner of row `at`. If several rows have one name, the first row matches the first, the
// second matches the second, and so on.
static json_t *partner(const json_t *rows, size_t at, const json_t *others) {
    const json_t *wanted = json_array_get(rows, at);
    json_t *row;
    size_t i, before = 0;
    for (i = 0; i < at; i++) before += same_row(json_array_get(rows, i), wanted);
    json_array_foreach(others, i, row) {
        if (same_row(row, wanted) && before-- == 0) return row;
    }
    return NULL;
}

static const char *row_of(const json_t *row, char text[512]) {
    char one[256], two[256];
    snprintf(text, 512, "%s on %s", row_shown(row, "case", one), row_shown(row, "device", two));
    return text;
}

static void print_pair(const compare *c, const json_t *a, const json_t *b, const char *what, int verdict,
                       const compare_ratio *r) {
    char one[512], two[256];
    if (c->json || c->quiet) return;
    printf("%-12s  %s%s", verdict_word(verdict), row_of(a, one), what);
    if (verdict <= INCONCLUSIVE)
        printf(": %.3f ms, then %.3f ms, ratio %.3f [%.3f, %.3f]", row_number(a, "time_ns") / 1e6,
               row_number(b, "time_ns") / 1e6, r->ratio, r->low, r->high);
    if (verdict == BROKEN) printf(": %s: %s", row_shown(b, "status", one), row_shown(b, "why", two));
    printf("\n");
}

// True if this pair alone makes the comparison fail.
static bool pair_fails(const compare *c, const json_t *b, int verdict, const compare_ratio *r) {
    if (c->by) return false; // a slower setting is not a failure
    if (verdict == BROKEN) return true;
    if (c->fail_above < 0.0) return false;
    return !strcmp(row_text(b, "status"), "fail") || (verdict == SLOWER && r->ratio - 1.0 > c->fail_above) ||
           (verdict == INCONCLUSIVE && r->high - 1.0 > c->fail_above && !c->allow_inconclusive);
}

static void compare_pair(compare *c, const json_t *a, const json_t *b, const char *what) {
    const bool ok_a = row_ok(a), ok_b = row_ok(b), timed = ok_a && ok_b;
    int verdict = ok_a ? BROKEN : ok_b ? MENDED : NOT_MEASURED;
    compare_ratio r = {0};
    progress_more(&c->progress, 0.0, row_text(a, "case"));
    if (timed) {
        compare_times times[2];
        compare_times_of(a, &times[0]), compare_times_of(b, &times[1]);
        r = compare_ratio_of(&times[0], &times[1]);
        verdict = r.verdict;
    }
    c->progress.done += 1.0;
    progress_wipe(&c->progress);
    c->counts[verdict]++;
    c->failed = c->failed || pair_fails(c, b, verdict, &r);
    print_pair(c, a, b, what, verdict, &r);
    json_t *row = json_pack("{s:s, s:s, s:s, s:O?, s:O?}", "case", row_text(a, "case"), "device",
                            row_text(a, "device"), "verdict", verdict_word(verdict), "time_ns_a",
                            json_object_get(a, "time_ns"), "time_ns_b", json_object_get(b, "time_ns"));
    json_object_set_new(row, "ratio", timed ? json_real(r.ratio) : json_null());
    json_object_set_new(row, "ratio_low", timed ? json_real(r.low) : json_null());
    json_object_set_new(row, "ratio_high", timed ? json_real(r.high) : json_null());
    if (c->by) json_object_set_new(row, "of", json_string(what));
    json_array_append_new(c->rows, row);
}

static void tell_missing(compare *c, const json_t *row, int file) {
    static const char *const where[] = {"only in the second", "only in the first"};
    char one[512];
    c->missing[file]++;
    if (!c->json && !c->quiet) printf("%-12s  %s: %s\n", "missing", row_of(row, one), where[file]);
    json_array_append_new(c->rows,
                          json_pack("{s:s, s:s, s:s, s:s}", "case", row_text(row, "case"), "device",
                                    row_text(row, "device"), "verdict", "missing", "where", where[file]));
}

// The comparison fails if no pair was compared, or with --fail-above if a row is missing.
static void judge_coverage(compare *c) {
    const bool nothing =
        c->counts[NOT_MEASURED] == (int)json_array_size(c->rows) - c->missing[0] - c->missing[1];
    const bool vanished = c->missing[1] > 0 && c->fail_above >= 0.0 && !c->allow_missing;
    c->failed = c->failed || nothing || vanished;
    if (c->quiet) return;
    if (nothing)
        tool_failed(c->by ? "nothing was compared: no two rows differ in that alone"
                          : "nothing was compared: no case that both files measured on one device");
    else if (vanished)
        tool_failed(
            "%d rows of the first file are not in the second: --fail-above fails; --allow-missing accepts it",
            c->missing[1]);
    else if (c->fail_above >= 0.0 && !c->allow_inconclusive && c->counts[INCONCLUSIVE] && c->failed)
        tool_failed("%d inconclusive rows may be slower than --fail-above accepts: measure again, or use "
                    "--allow-inconclusive",
                    c->counts[INCONCLUSIVE]);
}

static int finish(compare *c) {
    judge_coverage(c);
    const int status = c->failed ? EXIT_FAILED : EXIT_DONE;
    if (c->quiet) return status;
    if (!c->json) {
        printf("ratio is second / first, with its interval of 95 %%. %d faster, %d slower, %d same, %d "
               "inconclusive",
               c->counts[FASTER], c->counts[SLOWER], c->counts[SAME], c->counts[INCONCLUSIVE]);
        printf(", %d broken, %d mended, %d missing\n", c->counts[BROKEN], c->counts[MENDED],
               c->missing[0] + c->missing[1]);
        return status;
    }
    const int printed = report_json(
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:O}", "faster", c->counts[FASTER], "slower",
                  c->counts[SLOWER], "same", c->counts[SAME], "inconclusive", c->counts[INCONCLUSIVE],
                  "broken", c->counts[BROKEN], "mended", c->counts[MENDED], "missing",
                  c->missing[0] + c->missing[1], "failed", c->failed, "rows", c->rows));
    return printed == EXIT_DONE ? status : printed;
}

static int compare_files(compare *c) {
    const json_t *a = json_object_get(c->files[0], "rows"), *b = json_object_get(c->files[1], "rows");
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *other = partner(a, i, b);
        if (other)
            compare_pair(c, json_array_get(a, i), other, "");
        else
            tell_missing(c, json_array_get(a, i), 1);
    }
    for (size_t i = 0; i < json_array_size(b); i++)
        if (!partner(b, i, a)) tell_missing(c, json_array_get(b, i), 0);
    return finish(c);
}

// Compare a row with the first row that has the same key and another value of the --by property.
static void compare_with_first(compare *c, json_t *firsts, int file, const json_t *row) {
    char key[1024], what[700];
    compare_by_key(row, file, c->by, key);
    const char *value = compare_by_value(row, c->paths[file], c->by);
    const json_t *first = json_object_get(firsts, key);
    if (!first) {
        json_object_set_new(firsts, key, json_pack("{s:O, s:s}", "row", row, "value", value));
        return;
    }
    const char *before = json_string_value(json_object_get(first, "value"));
    if (!strcmp(before, value)) return;
    snprintf(what, sizeof what, ": %s, then %s", before, value);
    compare_pair(c, json_object_get(first, "row"), row, printable(what));
}

static int compare_settings(compare *c) {
    json_t *firsts = json_object();
    for (int file = 0; file < c->file_count; file++) {
        const json_t *rows = json_object_get(c->files[file], "rows");
        for (size_t i = 0; i < json_array_size(rows); i++)
            compare_with_first(c, firsts, file, json_array_get(rows, i));
    }
    json_decref(firsts);
    return finish(c);
}

static int refuse_options(const compare *c) {
    if (c->by && c->fail_above >= 0.0)
        return tool_wrong("--by: compares settings and never fails: --fail-above is for two files");
    if ((c->allow_missing || c->allow_inconclusive) && c->fail_above < 0.0)
        return tool_wrong("--allow-%s: has no effect without --fail-above P%%",
                          c->allow_missing ? "missing" : "inconclusive");
    if (!c->by && c->file_count != 2)
        return tool_wrong("two files of clattn bench --save are needed; with --by, one to %d", MOST_FILES);
    if (c->by && !c->file_count) return tool_wrong("a file of clattn bench --save is needed");
    return -1;
}

int tool_compare(int argc, char **argv) {
    static const option_row rows[] = {
        {"fail-above", "P%",
         "exit with 1 when a row is slower by more than this, when noise hides whether it is, or when a row "
         "of the first file is missing",
         AS_CALL(take_percentage)},
        {"allow-missing", NULL, "missing rows of the first file do not fail",
         AS_SWITCH(compare, allow_missing)},
        {"allow-inconclusive", NULL, "rows that are too noisy to judge do not fail",
         AS_SWITCH(compare, allow_inconclusive)},
        {"by", "WHAT", "compare rows that differ only in this: dtype, device, kernel or file",
         AS_CALL(take_by)},
        {"json", NULL, "print the comparison as JSON", AS_SWITCH(compare, json)},
        {"quiet", NULL, "print nothing; the exit status is the answer", AS_SWITCH(compare, quiet)},
    };
    compare c = {.fail_above = -1.0};
    const option_group groups[] = {{"options", OPTION_ROWS(rows), &c}};
    command_line line = {.command = "compare",
                         .summary = "A.json B.json of clattn bench --save: which differences are real",
                         .example = "clattn compare before.json after.json --fail-above 5%",
                         .groups = groups,
                         .group_count = 1,
                         .positional_max = MOST_FILES};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    c.paths = line.positional, c.file_count = line.positional_count;
    status = refuse_options(&c);
    if (status >= 0) return status;
    c.rows = json_array();
    status = compare_load_all(c.paths, c.file_count, c.files);
    double pairs = 0.0;
    for (int i = c.by ? 0 : 1; i < c.file_count && status < 0; i++)
        pairs += (double)json_array_size(json_object_get(c.files[i], "rows"));
    progress_begin(&c.progress, c.quiet, pairs, 500.0);
    if (status < 0) status = c.by ? compare_settings(&c) : compare_files(&c);
    compare_release(c.files, c.file_count);
    json_decref(c.rows);
    return status;
}
