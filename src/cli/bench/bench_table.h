// bench_table.h: rows as text: Markdown, CSV, JSON, JSON lines, SQL. A row is a JSON object whose
// keys are the contract. Every other format prints the values of that object, so that no format can
// differ. Used by bench.
#ifndef CLATTN_CLI_BENCH_BENCH_TABLE_H
#define CLATTN_CLI_BENCH_BENCH_TABLE_H
#include <jansson.h>

#include "cli/bench/bench_call.h"
#include "cli/compare/compare.h"

typedef struct bench_option {
    bench_row row;
    const char *name;
    double visible_keys; // visible pairs of a query row and a key, over all heads and batch items
    double plain_ns;     // the plain call, interleaved with this option: median
    // Time divided by the time of the plain run beside it: median and interquartile range.
    double ratio, ratio_spread;
    double ratio_per_key; // as `ratio`, but of the time per visible pair
} bench_option;

// The cases for --options if the user names none. NULL ends the list.
extern const char *const bench_option_cases[];

int bench_option_count(void);
// Measure all options of one case on a context of its own: `s` is opened and closed here. The first
// option is the plain call. `begins` is called before each option with its name.
void bench_options_measure(session *s, const struct test_case *base, const bench_settings *settings,
                           bench_option *options, void (*begins)(void *user, const char *name), void *user);

#define BENCH_FORMAT_VERSION 1

typedef enum bench_format { BENCH_MD = 0, BENCH_CSV, BENCH_JSON, BENCH_JSONL, BENCH_SQL } bench_format;
extern const char *const bench_formats[]; // NULL ends the list

// A case, and its partner with changed options. The row's status is the worse of the two.
typedef struct bench_pair {
    bench_row row, other;
    compare_ratio ratio; // the partner's time divided by the row's, over interleaved runs
} bench_pair;

// Create the table: format_version, clattn, devices (with limits) and rows.
json_t *bench_table_new(void);
void bench_table_add_device(json_t *table, const clattn_capabilities *c, const struct limits *found);
// Add a row of the device that was added last.
void bench_table_add_row(json_t *table, const bench_row *row);

// Add a row of `bench --options`: the plain call, or one option added to it.
void bench_table_add_option(json_t *table, const bench_option *option);

// Add a pair of --against. `options` is the text of --against.
void bench_table_add_pair(json_t *table, const char *options, const bench_pair *pair);

// bench_submit.c: a submission is the table of one fixed set of cases, with the date and a hash
// (seal.h).
//
// bench_submit_cases is the set, in the grammar of --case. Another set needs another version: only
// submissions of one version are compared.
#define BENCH_SUBMIT_SET "standard"
#define BENCH_SUBMIT_VERSION 1
extern const char bench_submit_cases[];
// Reject an option beside --submit that would change what is measured, or how. Returns -1, or an
// exit status after printing a line.
int bench_submit_check(const command_line *line);
// The text of the file. The caller frees it. NULL: no memory. max_ms is the time limit of a case's
// runs.
char *bench_submit_text(const json_t *table, double max_ms, size_t *bytes);

// The text of the table. The caller frees it. NULL: no memory.
char *bench_table_text(const json_t *table, bench_format format, size_t *bytes);
#endif
