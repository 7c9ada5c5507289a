// compare.c: clattn compare: which differences between two benches are real. A row is known by its case and
// device; a difference is real when the medians' intervals, median +- spread, do not meet and it is above 2
// %.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/bench_table.h"
#include "tool/file.h"
#include "tool/report.h"

#define LEAST_CHANGE 0.02

enum { COMPARE_FAIL_ABOVE = 500, COMPARE_ALLOW_MISSING, COMPARE_JSON, COMPARE_QUIET };
enum { SAME, FASTER, SLOWER, BROKEN, MENDED, NOT_MEASURED, VERDICTS };
static const char *const verdicts[] = {"same", "faster", "slower", "broken", "mended", "not measured"};

typedef struct compare {
    double fail_above; // of the median; below 0: no limit
    bool allow_missing, json, quiet;
    json_t *files[2], *rows;
    int counts[VERDICTS], missing[2];
    bool failed;
} compare;

static bool take_compare(void *target, int id, const char *value, char why[256]) {
    compare *c = target;
    char number[32];
    if (id == COMPARE_ALLOW_MISSING) c->allow_missing = true;
    if (id == COMPARE_JSON) c->json = true;
    if (id == COMPARE_QUIET) c->quiet = true;
    if (id != COMPARE_FAIL_ABOVE) return true;
    const size_t length = strcspn(value, "%");
    const int fits = snprintf(number, sizeof number, "%.*s", (int)(length < 32 ? length : 32), value) < 32;
    const bool ends = value[length] == '\0' || value[length + 1] == '\0';
    if (fits && ends && option_number(number, &c->fail_above, why) && c->fail_above >= 0.0) {
        c->fail_above /= 100.0;
        return true;
    }
    snprintf(why, 256, "a percentage such as 5%% is needed");
    return false;
}

static const char *text(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

// A nanosecond to thirty years: ratios of such times are finite, and JSON has no other numbers.
static bool is_time(const json_t *row, const char *key, double least) {
    return json_is_number(json_object_get(row, key)) && number(row, key) >= least && number(row, key) <= 1e18;
}

static bool valid_rows(const json_t *rows) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const bool timed = is_time(row, "time_ns", 1.0) && is_time(row, "time_ns_spread", 0.0);
        if (!text(row, "case")[0] || !json_is_string(json_object_get(row, "device")) ||
            !text(row, "status")[0])
            return false;
        if (!strcmp(text(row, "status"), "ok") && !timed) return false;
    }
    return json_is_array(rows);
}

static int load(const char *path, json_t **file) {
    unsigned char *bytes = NULL;
    size_t count = 0;
    char why[512];
    json_error_t error;
    if (!file_read_whole(path, &bytes, &count, why, sizeof why)) return tool_wrong("compare", "%s", why);
    *file = json_loadb((const char *)bytes, count, 0, &error);
    free(bytes);
    if (!*file)
        return tool_wrong("compare", "%s: no JSON of clattn bench --save: line %d: %s", path, error.line,
                          error.text);
    const json_t *version = json_object_get(*file, "format_version");
    if (!json_is_integer(version) || json_integer_value(version) != BENCH_FORMAT_VERSION)
        return tool_wrong("compare", "%s: format_version is not %d: a file of clattn bench --save is needed",
                          path, BENCH_FORMAT_VERSION);
    if (valid_rows(json_object_get(*file, "rows"))) return -1;
    return tool_wrong("compare",
                      "%s: rows lack case, device, status or times of 1 to 1e18 ns: a file of clattn bench "
                      "--save is needed",
                      path);
}

static bool same_row(const json_t *a, const json_t *b) {
    return !strcmp(text(a, "case"), text(b, "case")) && !strcmp(text(a, "device"), text(b, "device"));
}

// The partner of row `at`: among rows of one name the first answers to the first, the second to the second.
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

static int judge(const json_t *a, const json_t *b) {
    const bool ok_a = !strcmp(text(a, "status"), "ok"), ok_b = !strcmp(text(b, "status"), "ok");
    const double time_a = number(a, "time_ns"), time_b = number(b, "time_ns");
    const double reach = number(a, "time_ns_spread") + number(b, "time_ns_spread");
    if (!ok_a || !ok_b) return ok_a ? BROKEN : ok_b ? MENDED : NOT_MEASURED;
    if (fabs(time_b - time_a) <= reach || fabs(time_b / time_a - 1.0) <= LEAST_CHANGE) return SAME;
    return time_b < time_a ? FASTER : SLOWER;
}

// A text of a file for the terminal, which control characters would steer.
static const char *shown(const json_t *row, const char *key, char buffer[256]) {
    snprintf(buffer, 256, "%s", text(row, key));
    for (char *at = buffer; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    return buffer;
}

static void print_pair(const compare *c, const json_t *a, const json_t *b, int verdict) {
    char one[256], two[256];
    if (c->json || c->quiet) return;
    printf("%-12s  %s on %s", verdicts[verdict], shown(a, "case", one), shown(a, "device", two));
    if (verdict <= SLOWER)
        printf(": %.3f +- %.3f ms, then %.3f +- %.3f ms, ratio %.3f", number(a, "time_ns") / 1e6,
               number(a, "time_ns_spread") / 1e6, number(b, "time_ns") / 1e6,
               number(b, "time_ns_spread") / 1e6, number(b, "time_ns") / number(a, "time_ns"));
    if (verdict == BROKEN) printf(": %s: %s", shown(b, "status", one), shown(b, "why", two));
    printf("\n");
}

static void compare_pair(compare *c, const json_t *a, const json_t *b) {
    const int verdict = judge(a, b);
    const bool timed = verdict <= SLOWER;
    const double ratio = timed ? number(b, "time_ns") / number(a, "time_ns") : 0.0;
    c->counts[verdict]++;
    const bool limited = c->fail_above >= 0.0;
    c->failed = c->failed || verdict == BROKEN || (limited && !strcmp(text(b, "status"), "fail")) ||
                (limited && verdict == SLOWER && ratio - 1.0 > c->fail_above);
    print_pair(c, a, b, verdict);
    json_array_append_new(c->rows, json_pack("{s:s, s:s, s:s, s:o, s:O?, s:O?}", "case", text(a, "case"),
                                             "device", text(a, "device"), "verdict", verdicts[verdict],
                                             "ratio", timed ? json_real(ratio) : json_null(), "time_ns_a",
                                             json_object_get(a, "time_ns"), "time_ns_b",
                                             json_object_get(b, "time_ns")));
}

static void tell_missing(compare *c, const json_t *row, int file) {
    static const char *const where[] = {"only in the second", "only in the first"};
    char one[256], two[256];
    c->missing[file]++;
    if (!c->json && !c->quiet)
        printf("%-12s  %s on %s: %s\n", "missing", shown(row, "case", one), shown(row, "device", two),
               where[file]);
    json_array_append_new(c->rows,
                          json_pack("{s:s, s:s, s:s, s:s}", "case", text(row, "case"), "device",
                                    text(row, "device"), "verdict", "missing", "where", where[file]));
}

// What makes a comparison worthless: no pair of rows to compare; and, where it is to fail, a row that is gone.
static void judge_coverage(compare *c) {
    const bool nothing =
        c->counts[SAME] + c->counts[FASTER] + c->counts[SLOWER] + c->counts[BROKEN] + c->counts[MENDED] == 0;
    const bool vanished = c->missing[1] > 0 && c->fail_above >= 0.0 && !c->allow_missing;
    c->failed = c->failed || nothing || vanished;
    if (c->quiet) return;
    if (nothing)
        tool_failed("compare", "nothing was compared: no case that both files measured on one device");
    else if (vanished)
        tool_failed(
            "compare",
            "%d rows of the first file are not in the second: --fail-above fails; --allow-missing accepts it",
            c->missing[1]);
}

static int finish(compare *c) {
    judge_coverage(c);
    const int status = c->failed ? EXIT_FAILED : EXIT_DONE;
    if (c->quiet) return status;
    if (!c->json) {
        printf("ratio is second / first. %d faster, %d slower, %d same", c->counts[FASTER], c->counts[SLOWER],
               c->counts[SAME]);
        printf(", %d broken, %d mended, %d missing\n", c->counts[BROKEN], c->counts[MENDED],
               c->missing[0] + c->missing[1]);
        return status;
    }
    const int printed = report_json(json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:O}", "faster", c->counts[FASTER], "slower", c->counts[SLOWER],
        "same", c->counts[SAME], "broken", c->counts[BROKEN], "mended", c->counts[MENDED], "missing",
        c->missing[0] + c->missing[1], "failed", c->failed, "rows", c->rows));
    return printed == EXIT_DONE ? status : printed;
}

static int compare_files(compare *c) {
    const json_t *a = json_object_get(c->files[0], "rows"), *b = json_object_get(c->files[1], "rows");
    c->rows = json_array();
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *other = partner(a, i, b);
        if (other)
            compare_pair(c, json_array_get(a, i), other);
        else
            tell_missing(c, json_array_get(a, i), 1);
    }
    for (size_t i = 0; i < json_array_size(b); i++)
        if (!partner(b, i, a)) tell_missing(c, json_array_get(b, i), 0);
    return finish(c);
}

int tool_compare(int argc, char **argv) {
    static const option_row rows[] = {
        {"fail-above", "P%", COMPARE_FAIL_ABOVE,
         "exit 1 when a real slowdown is more than this, or a row of the first file is gone"},
        {"allow-missing", NULL, COMPARE_ALLOW_MISSING, "rows of the first file that are gone do not fail"},
        {"json", NULL, COMPARE_JSON, "print the comparison as JSON"},
        {"quiet", NULL, COMPARE_QUIET, "print nothing: the exit status tells"},
    };
    compare c = {.fail_above = -1.0};
    const option_group groups[] = {{"options", rows, sizeof rows / sizeof rows[0], take_compare, &c}};
    command_line line = {.command = "compare",
                         .summary = "A.json B.json of clattn bench --save: which differences are real",
                         .example = "clattn compare before.json after.json --fail-above 5%",
                         .groups = groups,
                         .group_count = 1,
                         .positional_max = 2};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (c.allow_missing && c.fail_above < 0.0)
        return tool_wrong("compare", "--allow-missing: needs --fail-above P%%, which alone minds");
    if (line.positional_count < 2)
        return tool_wrong("compare", "two files of clattn bench --save are needed");
    for (int i = 0; i < 2 && status < 0; i++) status = load(line.positional[i], &c.files[i]);
    if (status < 0) status = compare_files(&c);
    for (int i = 0; i < 2; i++) json_decref(c.files[i]);
    json_decref(c.rows);
    return status;
}
