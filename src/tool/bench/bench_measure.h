// bench_measure.h: one case on one device: build, verify, time, row. Leaves out what is printed. Used by the bench.
#ifndef CLATTN_TOOL_BENCH_BENCH_MEASURE_H
#define CLATTN_TOOL_BENCH_BENCH_MEASURE_H
#include "evidence/limits/limits.h"
#include "evidence/device/measure.h"
#include "tool/bench/bench_call.h"

typedef struct bench_settings {
    measure_settings measure;
    bool check;     // verify before timing
    int64_t warmup; // runs before, the first of which is verified; 0: one
    double
        fma_gflops; // what the device reaches at most, by which a case that would take too long is known; 0: not known
} bench_settings;

// A run that takes longer is given up: ten times --max-ms, and two seconds at least, so that one case or one slow device does not
// keep the others.
double bench_patience_ms(const bench_settings *settings);

typedef struct bench_row {
    bench_case c;
    bench_status status;
    char why[256];   // where the status is not ok
    char kernel[32]; // "" where no plan was made
    measure_times times;
    double gflops, gbytes_per_s, limit_percent;
    double error_nmse; // -1: not verified
    double build_ms, peak_bytes;
    bool cold; // some kernel came from its source and not from the cache
} bench_row;

// On a context of its own (`s` is opened and closed here), so that the build time is the case's.
void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row);

// Whether the case can end in that time by what the device reaches at most; else row->why says so.
bool bench_can_end(const bench_settings *settings, bench_row *row);

// The first run of a call that is prepared: it compiles what prepare could not, and gives the result that is verified. It is
// given up where it takes too long.
bench_status bench_warm_up(bench_call *call, const bench_settings *settings, double *wall_ns, bench_row *row);

// Percent of the device's limit: reading for decode, multiply-adds for the rest.
void bench_measure_percent(bench_row *row, const struct limits *of_device);
#endif
