// expect.h: --expect: compare a result with a stored one, for attend and layer.
#ifndef CLATTN_TOOL_EXPECT_H
#define CLATTN_TOOL_EXPECT_H
#include "tool/tensors.h"

typedef struct expect {
    const char *file, *rows_file; // stored result; optional [B]: how many rows of each batch item to compare
    double tolerance;             // largest absolute difference that passes; 0: 1e-5
    array values;
    int32_t *rows;
    double error; // found
} expect;

option_group expect_group(expect *e);
// Load the files. Returns -1, else the exit status.
int expect_load(const char *command, expect *e, int64_t batch);
// Compare; `row_axis` is the axis of the rows that rows_file counts. Returns -1, or EXIT_FAILED with a line.
int expect_check(const char *command, expect *e, const array *result, int row_axis);
void expect_free(expect *e);
#endif
