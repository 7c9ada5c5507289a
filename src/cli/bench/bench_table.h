// bench_table.h: rows as text: Markdown, CSV, JSON, JSON lines, SQL. A row is a JSON object whose keys are the
// contract; every other format prints its values, so that none can drift. Used by bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_TABLE_H
#define CLATTN_TOOL_BENCH_BENCH_TABLE_H
#include <jansson.h>

#include "cli/bench/bench_call.h"
#include "cli/compare/compare.h"

typedef struct bench_option {
    bench_row row;
    const char *name;
    double visible_keys;        // pairs of a row and a key that it sees, of all heads and batch items
    double plain_ns;            // the plain call between its runs, median
    double ratio, ratio_spread; // its time by that of the plain run beside it: median, interquartile range
    double ratio_per_key;       // the same of the time of a visible key
} bench_option;

// The cases that they are measured on where none is named; NULL ends them.
extern const char *const bench_option_cases[];

int bench_option_count(void);
// All of one case, the first being the plain call, on a context of its own (`s` is opened and closed here). `begins` is
// called before each with its name.
void bench_options_measure(session *s, const struct test_case *base, const bench_settings *settings,
                           bench_option *options, void (*begins)(void *user, const char *name), void *user);

#define BENCH_FORMAT_VERSION 1

typedef enum bench_format { BENCH_MD = 0, BENCH_CSV, BENCH_JSON, BENCH_JSONL, BENCH_SQL } bench_format;
extern const char *const bench_formats[]; // names, ending with NULL

// A case, and its partner with the options changed; the row's status is the worse of theirs.
typedef struct bench_pair {
    bench_row row, other;
    compare_ratio ratio; // the partner's time by the row's, of the runs that were taken in turns
} bench_pair;

// The file: format_version, clattn, devices (with limits), rows.
json_t *bench_table_new(void);
void bench_table_add_device(json_t *table, const clattn_capabilities *c, const struct limits *found);
// A row of the device that was added last.
void bench_table_add_row(json_t *table, const bench_row *row);

// One of what an option costs, with the fields of a row and its own.
void bench_table_add_option(json_t *table, const bench_option *option);

// One of a pair, in turns with a case after these options.
void bench_table_add_pair(json_t *table, const char *options, const bench_pair *pair);

// bench_submit.c: a submission: the table of the one set of cases that is the same everywhere, with its date and a hash (seal.h).
// The set, as --case takes it. Other cases are another version, and only one version is compared.
#define BENCH_SUBMIT_SET "standard"
#define BENCH_SUBMIT_VERSION 1
extern const char bench_submit_cases[];
// -1, or an exit status with its line: an option beside --submit that would change what is measured, or how.
int bench_submit_check(const command_line *line);
// The text of the file, which the caller frees; NULL: no memory. max_ms: what a case's runs had, in milliseconds.
char *bench_submit_text(const json_t *table, double max_ms, size_t *bytes);

// The text, which the caller frees; NULL: no memory.
char *bench_table_text(const json_t *table, bench_format format, size_t *bytes);
#endif
