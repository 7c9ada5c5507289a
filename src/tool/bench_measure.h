// measure.h: one case on one device: build, verify, time, row. Leaves out what is printed. Used by the bench.
#ifndef CLATTN_TOOL_BENCH_MEASURE_H
#define CLATTN_TOOL_BENCH_MEASURE_H
#include "evidence/limits.h"
#include "tool/bench_problem.h"

typedef struct bench_settings {
    int64_t repeat; // 0: as many as the time allows, at least five
    double max_ms;  // for the repeats of a case; 0: a second
    bool check;     // verify before timing
} bench_settings;

typedef struct bench_row {
    bench_case c;
    bench_status status;
    char why[256];   // where the status is not ok
    char kernel[32]; // "" where no plan was made
    int64_t repeats;
    double time_ns, time_ns_min, time_ns_spread; // on the device: median, least, interquartile range
    double wall_ns;                              // from enqueue to finish, median
    double gflops, gbytes_per_s, limit_percent;
    double error_nmse; // -1: not verified
    double build_ms, peak_bytes;
    bool cold; // some kernel came from its source and not from the cache
} bench_row;

// On a context of its own (`s` is opened and closed here), so that the build time is the case's.
void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row);

// Percent of the device's limit: reading for decode, multiply-adds for the rest.
void bench_measure_percent(bench_row *row, const bench_limits *limits);
#endif
