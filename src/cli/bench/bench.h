// bench.h: what the bench*.c files share: the parsed request and the results.
#ifndef CLATTN_CLI_BENCH_BENCH_H
#define CLATTN_CLI_BENCH_BENCH_H
#include "cli/bench/bench_table.h"
#include "cli/common/progress.h"
#include "cli/devices/device_group.h"

typedef struct bench {
    option_list lists[BENCH_AXES], baselines;
    bench_settings settings;
    int format; // -1: not given
    const char *save, *submit, *named, *batch, *against;
    bool options, limits;
    common_options common;
    several_options several;
    struct bench *other; // the request of --against
    bench_case *cases;
    int case_count, failures, rows, measured;
    json_t *table;
    // unit: expected milliseconds
    progress progress;
    double option_ms; // expected milliseconds of one option of the current case
} bench;

// Run on all devices, or on the device that --device names. Returns -1, or an exit status after
// printing a line.
int bench_run_devices(bench *b);

// Count a finished row, and print its error if it has one.
void bench_count(bench *b, const bench_row *row);

// bench_against.c: measure two settings of the same case on one device, interleaved.
//
// A side of a pair has the options of its context, its tuned rows (NULL: as the options select),
// and its case.
typedef struct bench_side {
    const common_options *options;
    const char *rows;
    bench_case c;
} bench_side;

// Verify both sides, each on a context of its own, then time them interleaved.
void bench_pair_measure(const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair);

// Fill in the options that --against leaves out from the command's, before any case is made.
// Returns -1, or an exit status after printing a line.
int bench_against_complete(const bench *b, bench *other);

// Measure case i beside its partner, each on a context of its own.
void bench_against_measure(const bench *b, const session *device, int i, bench_pair *pair);

// bench_group.c: for all cases, measure a group of devices beside the fastest single device of the
// group, interleaved. The runs start and end in host memory. Returns -1, or an exit status after
// printing a line.
int bench_run_group(bench *b);
#endif
