// expect.h: --expect: compare a result with a stored one, for attend and layer.
#ifndef CLATTN_TOOL_ATTEND_EXPECT_H
#define CLATTN_TOOL_ATTEND_EXPECT_H
#include "cli/call_options/tensors.h"

typedef struct expect {
    const char *file, *rows_file; // stored result; optional [B]: how many rows of each batch item to compare
    double tolerance;             // largest absolute difference that passes; 0: the same numbers
    bool tolerant;                // it was given, else it is 1e-5
    array values;                 // `later`: without data, since the caller reads it by parts
    bool later;
    int32_t *rows;
    double error; // found
} expect;

option_group expect_group(expect *e);
// Load the files. Returns -1, else the exit status.
int expect_load(expect *e, int64_t batch);
// Before the run: whether the files fit a result of this shape, whose axis `row_axis` is that of the rows that rows_file
// counts, and select something to compare. Returns -1, else EXIT_WRONG with a line.
int expect_fits(const expect *e, const array *result, int row_axis);
// Compare a part of the result: `rows` are the places in the whole of its rows on row_axis, NULL: all. The error grows.
// Returns -1, else EXIT_FAILED with a line where there is no memory.
int expect_add(expect *e, const array *result, array *want, int row_axis, const int64_t *rows);
int expect_verdict(const expect *e);
// All of it. Returns -1, or EXIT_FAILED with a line.
int expect_check(expect *e, const array *result, int row_axis);
// Adds the error to a report, which is returned, or prints it as a line; nothing where nothing was to be compared.
json_t *expect_json(const expect *e, json_t *report);
void expect_print(const expect *e);
void expect_free(expect *e);
#endif
