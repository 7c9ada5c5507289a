// tune.h: what the parts of clattn tune share: the run's rows, and the time of a case.
#ifndef CLATTN_TOOL_TUNE_TUNE_H
#define CLATTN_TOOL_TUNE_TUNE_H
#include <jansson.h>

#include "verification/case/case.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"

#define TUNE_CLASSES 3

// The problem classes that get a row each; a representative is timed.
typedef struct tune_class {
    char condition[64];
    struct test_case test;
} tune_class;

typedef struct tune {
    const char *out;
    bool quick, projection;
    bool named; // one case in place of the classes
    tune_class classes[TUNE_CLASSES];
    int class_count;
    common_options common;
    clattn_device id;
    clattn_capabilities device;
    char text[16384]; // the rows
    size_t used;
    int row_count;
    enum { TUNE_KEEP_GENERAL, TUNE_KEEP_ON, TUNE_KEEP_OFF } keep;
    char kept[16384]; // those for the cache folder
    size_t kept_used;
    int kept_count;
    json_t *rows;      // of --json
    progress progress; // in rows that are tried
} tune;

// tune_keep.c. What a row gains on this case, in turns with what is shipped.
typedef struct tune_gained {
    bool faster;            // for sure
    double gain, low, high; // what is shipped takes so many times its time, and the interval; 0: not known
    char remark[160];       // the same as words
} tune_gained;
void tune_gain(tune *t, const char *row, const struct test_case *test, tune_gained *gained);
void tune_keep_row(tune *t, const char *row);
// Into the cache folder, where a session finds them (tuned.h). -1, or an exit status with its line.
int tune_keep(const tune *t);
#endif
