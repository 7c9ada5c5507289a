// bench.h: what the parts of clattn bench share: what was asked for, and what came out. Used by bench*.c.
#ifndef CLATTN_TOOL_BENCH_BENCH_H
#define CLATTN_TOOL_BENCH_BENCH_H
#include "tool/bench/bench_table.h"
#include "tool/cli/progress.h"
#include "tool/devices/several.h"

typedef struct bench {
    option_list lists[BENCH_AXES], baselines;
    bench_settings settings;
    int format; // -1: not given
    const char *save, *named, *batch, *against;
    bool options;
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

void bench_tell_problem(const bench *b, const bench_row *row, const char *name);
#endif
