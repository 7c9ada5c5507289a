// expect.c: see expect.h.
#include "tool/expect.h"

#include <math.h>
#include <stdlib.h>

#include "tool/score_options.h"

enum { EXPECT_FILE = 400, EXPECT_ROWS, EXPECT_TOLERANCE };

static bool take_expect(void *target, int id, const char *value, char why[256]) {
    expect *e = target;
    switch (id) {
    case EXPECT_FILE:
        e->file = value;
        return true;
    case EXPECT_ROWS:
        e->rows_file = value;
        return true;
    default:
        return option_number(value, &e->tolerance, why);
    }
}

option_group expect_group(expect *e) {
    static const option_row rows[] = {
        {"expect", "FILE", EXPECT_FILE,
         "compare the output with this; exit status 1 when it is further off than allowed"},
        {"expect-rows", "FILE", EXPECT_ROWS, "[B]: rows of each batch item to compare (padding left out)"},
        {"tolerance", "X", EXPECT_TOLERANCE, "largest absolute difference that passes; default 1e-5"},
    };
    return (option_group){"check", rows, sizeof rows / sizeof rows[0], take_expect, e};
}

int expect_load(const char *command, expect *e, int64_t batch) {
    if (!e->file) return e->rows_file ? tool_wrong(command, "--expect-rows: needs --expect FILE") : -1;
    if (e->tolerance == 0.0) e->tolerance = 1e-5;
    const int status = tensors_load(command, "expect", e->file, -1, &e->values);
    return status >= 0 ? status
                       : score_options_integers(command, "expect-rows", e->rows_file, batch, &e->rows);
}

static bool same_shape(const array *a, const array *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

int expect_check(const char *command, expect *e, const array *result, int row_axis) {
    float *got = NULL, *want = NULL;
    if (!e->file) return -1;
    if (!same_shape(&e->values, result))
        return tool_wrong(command, "--expect: its shape is not the output's");
    if (!array_to_f32(result, &got) || !array_to_f32(&e->values, &want)) {
        free(got);
        return tool_failed(command, "no memory to compare");
    }
    int64_t inner = 1, per_batch = 1;
    for (int i = row_axis + 1; i < result->rank; i++) inner *= result->shape[i];
    for (int i = 1; i < result->rank; i++) per_batch *= result->shape[i];
    e->error = 0.0;
    const int64_t count = array_count(result);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / inner % result->shape[row_axis];
        if (e->rows && row >= e->rows[i / per_batch]) continue;
        const double difference = fabs((double)got[i] - (double)want[i]);
        if (!(difference <= e->error)) e->error = difference; // a NaN stays
        if (isnan(difference)) break;
    }
    free(got);
    free(want);
    if (e->error <= e->tolerance) return -1;
    return tool_failed(command, "--expect: the largest difference is %g, more than %g", e->error,
                       e->tolerance);
}

void expect_free(expect *e) {
    array_free(&e->values);
    free(e->rows);
}
