// rates.h: what repeated times of a probe say of a rate, and what the rates of one device say of one another: another use of the
// machine slows whatever runs meanwhile, for a moment or for minutes. Pure functions.
#ifndef CLATTN_PROBE_RATES_H
#define CLATTN_PROBE_RATES_H
#include <stdbool.h>

#include "clattn/runtime.h"
#include "probe/probe_results.h"

// The two least times of some runs.
typedef struct rate_times {
    double least, next;
    int runs;
} rate_times;
void cla_rates_time(rate_times *t, double time);

// By what share the second least time is longer, without that of an empty launch; 1 where there are no two.
float cla_rates_spread(const rate_times *t, double launch);
// Two measurements of one thing differ by no more; and by how little they should.
#define RATES_AGREE 0.1f
#define RATES_ALIKE 0.05f

// A rate and how sure it is: the best of runs that agreed, and not far below what it should be by the others.
typedef struct probe_rate {
    float gflops; // 0: it does not work
    float spread;
    int runs;
    bool sure;
    bool settled;     // it is far below the others and was measured again beside the best of them
    bool died;        // an earlier process ended while it ran this: it was not asked again
    int64_t measured; // seconds since 1970; 0: it was not asked
} probe_rate;

// The proven ids that are far below what others say of the same engine, of which *best is the one that reached most:
// multiply-adds in full vectors, alone, with loads, or as the lanes kernels use them, are no slower than three quarters of each
// other, nor of those in narrower vectors; a bfloat16 dot product does twice as many operations. Where it is so nevertheless (the dot
// product of a Sapphire Rapids), a second look finds it again.
unsigned cla_rates_doubtful(const clattn_capabilities *device, const probe_results *found, probe_id *best);

// The second look: `again` was measured in turns with the best of the others, which was `best` and is now `best_again`. The
// faster of both counts. It is sure where the machine is as it was when that one reached its best; elsewhere both looks were at a
// busy machine, and it is not.
probe_rate cla_rates_second(const probe_rate *first, const probe_rate *again, float best, float best_again);
#endif
