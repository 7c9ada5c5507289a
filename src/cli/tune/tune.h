// tune.h: what the files of `clattn tune` share: the run's rows and the gain of a row.
#ifndef CLATTN_CLI_TUNE_TUNE_H
#define CLATTN_CLI_TUNE_TUNE_H
#include <jansson.h>

#include "verification/case/case.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"

#define TUNE_CLASSES 3

// A class of problems that receives a row. `test` is its representative, which is timed.
typedef struct tune_class {
    char condition[64];
    struct test_case test;
} tune_class;

typedef struct tune {
    const char *out;
    bool quick, projection;
    bool named; // one case instead of the classes
    tune_class classes[TUNE_CLASSES];
    int class_count;
    common_options common;
    clattn_device id;
    clattn_capabilities device;
    char text[16384]; // the rows
    size_t used;
    int row_count;
    enum { TUNE_KEEP_GENERAL, TUNE_KEEP_ON, TUNE_KEEP_OFF } keep;
    char kept[16384]; // the rows for the cache folder
    size_t kept_used;
    int kept_count;
    json_t *rows;      // for --json
    progress progress; // unit: rows tried
} tune;

// tune_keep.c: the gain of a row on a case, interleaved with the shipped configuration.
typedef struct tune_gained {
    bool faster; // certainly faster
    // The shipped time divided by the row's time, and its interval. 0: unknown.
    double gain, low, high;
    char remark[160]; // the gain in words
} tune_gained;
void tune_gain(tune *t, const char *row, const struct test_case *test, tune_gained *gained);
void tune_keep_row(tune *t, const char *row);
// Write the kept rows to the cache folder, where sessions find them (tuned.h). Returns -1, or an
// exit status after printing a line.
int tune_keep(const tune *t);
#endif
