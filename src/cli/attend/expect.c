// expect.c: see expect.h.
#include "cli/attend/expect.h"

#include <math.h>

#include "cli/files/formats.h"
#include "cli/call_options/call_options.h"

static bool take_tolerance(void *target, const char *value, char why[256]) {
    expect *e = target;
    e->tolerant = true;
    if (option_number(value, &e->tolerance, why) && e->tolerance >= 0.0) return true;
    snprintf(why, 256, "a number from 0 is needed; 0 accepts equal numbers only");
    return false;
}

option_group expect_group(expect *e) {
    static const option_row rows[] = {
        {"expect", "FILE",
         "compare the output with this file; exit status 1 when the difference is larger than --tolerance",
         AS_TEXT(expect, file)},
        {"expect-rows", "FILE", "[B] how many rows of each batch item are compared; the rest is padding",
         AS_TEXT(expect, rows_file)},
        {"tolerance", "X", "largest absolute difference that passes, 0 for none; default 1e-5",
         AS_CALL(take_tolerance)},
    };
    return (option_group){"check", OPTION_ROWS(rows), e};
}

// Read only the type and shape.
static int find_values(expect *e) {
    reason error;
    load_place place;
    if (!load_find(e->file, &place, error)) return tool_wrong("--expect: %s", error);
    e->values = place.whole;
    load_leave(&place);
    return -1;
}

int expect_load(expect *e, int64_t batch) {
    if (!e->file && (e->rows_file || e->tolerant))
        return tool_wrong("--%s: needs --expect FILE", e->rows_file ? "expect-rows" : "tolerance");
    if (!e->file) return -1;
    if (!e->tolerant) e->tolerance = 1e-5;
    const int status = e->later ? find_values(e) : tensors_load("expect", e->file, -1, &e->values);
    return status >= 0 ? status : score_options_integers("expect-rows", e->rows_file, batch, &e->rows);
}

static bool same_shape(const array *a, const array *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

int expect_fits(const expect *e, const array *result, int row_axis) {
    char want[128], got[128];
    int64_t selected = 0;
    if (!e->file) return -1;
    if (!same_shape(&e->values, result))
        return tool_wrong("--expect: has shape %s: the output's shape %s is needed",
                          array_shape_text(&e->values, got), array_shape_text(result, want));
    for (int64_t b = 0; e->rows && b < result->shape[0]; b++) {
        if (e->rows[b] < 0 || e->rows[b] > result->shape[row_axis])
            return tool_wrong("--expect-rows: item %lld is %d: a number from 0 to %lld rows is needed",
                              (long long)b, (int)e->rows[b], (long long)result->shape[row_axis]);
        selected += e->rows[b];
    }
    if (array_count(result) > 0 && (!e->rows || selected > 0)) return -1;
    return tool_wrong("--expect%s: nothing would be compared: %s", e->rows ? "-rows" : "",
                      e->rows ? "no row is selected" : "the output has no element");
}

int expect_add(expect *e, const array *result, array *values, int row_axis, const int64_t *rows) {
    float *got = NULL, *want = NULL;
    if (isnan(e->error)) return -1; // a NaN difference is final
    if (result->type == ARRAY_BF16 && values->type == ARRAY_U16) values->type = ARRAY_BF16;
    if (!array_to_f32(result, &got) || !array_to_f32(values, &want)) {
        free(got);
        return tool_failed("no memory to compare");
    }
    int64_t inner = 1, per_batch = 1;
    for (int i = row_axis + 1; i < result->rank; i++) inner *= result->shape[i];
    for (int i = 1; i < result->rank; i++) per_batch *= result->shape[i];
    const int64_t count = array_count(result);
    for (int64_t i = 0; i < count; i++) {
        const int64_t mine = i / inner % result->shape[row_axis], row = rows ? rows[mine] : mine;
        if (e->rows && row >= e->rows[i / per_batch]) continue;
        // Equal infinities differ by 0.
        const double difference = got[i] == want[i] ? 0.0 : fabs((double)got[i] - (double)want[i]);
        if (!(difference <= e->error)) e->error = difference;
        if (isnan(difference)) break;
    }
    free(got);
    free(want);
    return -1;
}

int expect_verdict(const expect *e) {
    if (e->error <= e->tolerance) return -1;
    return tool_failed("--expect: the largest difference is %g, more than %g", e->error, e->tolerance);
}

int expect_check(expect *e, const array *result, int row_axis) {
    if (!e->file) return -1;
    e->error = 0.0;
    const int status = expect_add(e, result, &e->values, row_axis, NULL);
    return status >= 0 ? status : expect_verdict(e);
}

void expect_free(expect *e) {
    array_free(&e->values);
    free(e->rows);
}

json_t *expect_json(const expect *e, json_t *report) {
    if (report && e->file) json_object_set_new(report, "max_error", report_real(e->error));
    return report;
}

void expect_print(const expect *e) {
    if (e->file)
        printable_printf(stdout, "largest difference to %s: %.3g (at most %g allowed)\n", e->file, e->error,
                         e->tolerance);
}
