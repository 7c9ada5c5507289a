// expect.h: the option --expect of attend and layer: compare a result with a stored array.
#ifndef CLATTN_CLI_ATTEND_EXPECT_H
#define CLATTN_CLI_ATTEND_EXPECT_H
#include "cli/call_options/tensors.h"

typedef struct expect {
    // The stored result. Optional file of [B] integers: how many rows of each batch item to
    // compare.
    const char *file, *rows_file;
    double tolerance; // largest absolute difference that passes; 0: results must be equal
    bool tolerant;    // --tolerance was given; otherwise the tolerance is 1e-5
    array values;     // without data if `later` is set
    bool later;
    int32_t *rows;
    double error; // largest difference found so far
} expect;

option_group expect_group(expect *e);
// Load the files. Returns -1, else the exit status.
int expect_load(expect *e, int64_t batch);
// Before the run, check that the files fit a result of this shape and select something to compare.
// `row_axis` is the axis whose rows rows_file counts. Returns -1, or EXIT_WRONG after printing a
// line.
int expect_fits(const expect *e, const array *result, int row_axis);
// Compare a part of the result, and raise `error` to the largest difference. `rows` holds the index
// in the whole result of each of the part's rows on row_axis; NULL: the part is the whole. Returns
// -1, or EXIT_FAILED after printing a line if memory is short.
int expect_add(expect *e, const array *result, array *want, int row_axis, const int64_t *rows);
int expect_verdict(const expect *e);
// Compare the whole result. Returns -1, or EXIT_FAILED after printing a line.
int expect_check(expect *e, const array *result, int row_axis);
// Add the error to a report and return the report, or print the error as a line. Without --expect
// both do nothing.
json_t *expect_json(const expect *e, json_t *report);
void expect_print(const expect *e);
void expect_free(expect *e);
#endif
