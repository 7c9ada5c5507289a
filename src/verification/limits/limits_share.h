// limits_share.h: interpret measured limits: the limit that bounds a case and the share of it that
// the case reaches, and limits that contradict each other. Pure functions of rates. Used by bench
// and limits.c.
#ifndef CLATTN_VERIFICATION_LIMITS_LIMITS_SHARE_H
#define CLATTN_VERIFICATION_LIMITS_LIMITS_SHARE_H

#include "verification/limits/limits.h"

// The name in rows and devices, such as "float32 FMA".
const char *limits_engine_name(limit_engine engine);

// The engine of a kernel's products, determined by the kernel's name, its plan and its types.
limit_engine limits_engine(const char *kernel, bool matrix_instructions, clattn_type q, clattn_type kv);

// Raise the peaks of engines to the rates that clattn_context_engines measured. A probe runs on one
// work-item. Its rate times `units` is scaled by the share of such a sum that float32 FMA reaches
// on all cores.
void limits_take_engines(const clattn_engine *engines, size_t count, unsigned units, struct limits *found);

// A case's work and time.
struct limit_demand {
    double flops, bytes, time_ns;
    limit_engine engine;
    // Read rate measured beside the case, on a buffer of the same size. 0: not measured.
    double read_gbytes_per_s;
};

// The limit that bounds a case: its engine's peak or reading from the level that its bytes fit,
// whichever is slower.
struct limit_share {
    char name[64]; // "" if the device has no limits
    bool reads;
    double rate;    // GB/s if `reads`, else GFLOP/s
    double percent; // share of `rate` that the case reached, in percent
};
struct limit_share limits_share(const struct limits *found, const struct limit_demand *demand);

// True if reading may bound this work, judged by the rate of memory, the slowest level.
bool limits_may_read(const struct limits *found, const struct limit_demand *demand);

// A line that names limits of one run that contradict each other; "" if there are none.
const char *limits_contradiction(const struct limits *found, char text[LIMIT_LINE]);

// A line if other programs used the cores during the measurement, or limits contradict each other;
// otherwise "".
const char *limits_contended(const struct limits *found, char text[LIMIT_LINE]);

#endif
