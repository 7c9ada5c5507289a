// bench.h: what the parts of clattn bench share: what was asked for, and what came out. Used by bench*.c.
#ifndef CLATTN_TOOL_BENCH_BENCH_H
#define CLATTN_TOOL_BENCH_BENCH_H
#include "cli/bench/bench_table.h"
#include "cli/common/progress.h"
#include "cli/devices/several.h"

typedef struct bench {
    option_list lists[BENCH_AXES], baselines;
    bench_settings settings;
    int format; // -1: not given
    const char *save, *submit, *named, *batch, *against;
    bool options, limits;
    common_options common;
    several_options several;
    struct bench *other; // of --against
    bench_case *cases;
    int case_count, failures, rows, measured;
    json_t *table;
    progress progress; // in milliseconds that the parts are expected to take
    double option_ms;  // of an option of the case at hand
} bench;

// All devices, or the one that is named. -1, or an exit status with its line.
int bench_run_devices(bench *b);

// A row is there: counted, and what is wrong with it is told.
void bench_count(bench *b, const bench_row *row);

// bench_against.c: two settings of the same cases on one device, in turns.
// One side of a pair: a context's options, tuned rows (NULL: those that the options say), and the case.
typedef struct bench_side {
    const common_options *options;
    const char *rows;
    bench_case c;
} bench_side;

// Both on contexts of their own, verified, then in turns.
void bench_pair_measure(const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair);

// Completes the options of --against by those of the command, before any case is made. -1, or an exit status with its line.
int bench_against_complete(const bench *b, bench *other);

// Case i and its partner, each on a context of its own.
void bench_against_measure(const bench *b, const session *device, int i, bench_pair *pair);

// bench_group.c: a group of devices beside the fastest of them alone, both from host memory to host memory, in turns. All cases. -1, or
// an exit status with its line.
int bench_run_group(bench *b);
#endif
