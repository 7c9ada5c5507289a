// rates.h: how reliable a probe's rate is, from its repeated times and from the device's other
// rates. Other load on the machine can slow a probe for a moment or for minutes. Pure functions.
#ifndef CLATTN_PROBE_RATES_H
#define CLATTN_PROBE_RATES_H
#include <stdbool.h>

#include "clattn/runtime.h"
#include "probe/probe_results.h"

// The two shortest times of some runs.
typedef struct rate_times {
    double least, next;
    int runs;
} rate_times;
void cla_rates_time(rate_times *t, double time);

// The relative difference of the two shortest times, without the time of an empty launch. 1 if
// there are fewer than two times.
float cla_rates_spread(const rate_times *t, double launch);
// Two measurements agree up to the first spread. Runs are added until the spread is below the
// second.
#define RATES_AGREE 0.1f
#define RATES_ALIKE 0.05f

// A rate. It is sure if its runs agreed, and if it is not far below the device's other rates.
typedef struct probe_rate {
    float gflops; // 0: does not work
    float spread;
    int runs;
    bool sure;
    // measured again next to the best other probe, because the rate was far below the others
    bool settled;
    bool died;        // ended an earlier process, so it was not run again
    int64_t measured; // seconds since 1970; 0: not run
} probe_rate;

// The proven probes whose rate is below three quarters of the best comparable rate, which is that
// of *best. Compared are multiply-adds in vectors, plain, with loads, or as in lanes kernels. A
// bfloat16 dot product counts as two. A rate can be really that low (the dot product of a Sapphire
// Rapids): the second measurement then confirms it.
unsigned cla_rates_doubtful(const clattn_capabilities *device, const probe_results *found, probe_id *best);

// Combine two measurements of one probe. Returns the faster one. It is sure only if `again` is sure
// and as fast as `first`, and if the best other probe reached its earlier speed again (`best_again`
// near `best`). Otherwise the machine was busy.
probe_rate cla_probe_combine_rates(const probe_rate *first, const probe_rate *again, float best,
                                   float best_again);
#endif
