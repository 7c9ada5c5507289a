// bench_table.h: rows as text: Markdown, CSV, JSON, JSON lines, SQL. A row is a JSON object whose keys are the
// contract; every other format prints its values, so that none can drift. Used by bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_TABLE_H
#define CLATTN_TOOL_BENCH_BENCH_TABLE_H
#include <jansson.h>

#include "tool/bench/bench_options.h"

#define BENCH_FORMAT_VERSION 1

typedef enum bench_format { BENCH_MD = 0, BENCH_CSV, BENCH_JSON, BENCH_JSONL, BENCH_SQL } bench_format;
extern const char *const bench_formats[]; // names, ending with NULL

// The file: format_version, clattn, devices (with limits), rows.
json_t *bench_table_new(void);
void bench_table_add_device(json_t *table, const clattn_capabilities *c, const struct limits *found);
// A row of the device that was added last.
void bench_table_add_row(json_t *table, const bench_row *row);

// One of what an option costs, with the fields of a row and its own.
void bench_table_add_option(json_t *table, const bench_option *option);

// The text, which the caller frees; NULL: no memory.
char *bench_table_text(const json_t *table, bench_format format, size_t *bytes);
#endif
