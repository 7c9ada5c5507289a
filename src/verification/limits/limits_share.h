// limits_share.h: what measured limits say of one another and of a case: the limit that a case meets and its share of it, and limits
// that contradict each other. Pure functions of rates. Used by the bench and the limits' own measurement.
#ifndef CLATTN_EVIDENCE_LIMITS_LIMITS_SHARE_H
#define CLATTN_EVIDENCE_LIMITS_LIMITS_SHARE_H

#include "verification/limits/limits.h"

// In rows and devices, such as "float32 FMA".
const char *limits_engine_name(limit_engine engine);

// The engine of a kernel's products, by the kernel's name and what its plan and types say.
limit_engine limits_engine(const char *kernel, bool matrix_instructions, clattn_type q, clattn_type kv);

// Raises the peaks of engines to what clattn_context_engines measured. A probe runs on one work-item: its rate times `units` counts
// by the share of such a sum that float32 FMA reached on all cores at once.
void limits_take_engines(const clattn_engine *engines, size_t count, unsigned units, struct limits *found);

// A case and its time.
struct limit_demand {
    double flops, bytes, time_ns;
    limit_engine engine;
    double read_gbytes_per_s; // measured beside the case on a buffer of as many bytes; 0: not
};

// The limit that a case meets: its engine's peak, or reading from the level of memory that its bytes fit, whichever allows less speed.
struct limit_share {
    char name[64]; // "" where the device has no limits
    bool reads;
    double rate;    // GB/s where it reads, else GFLOP/s
    double percent; // of the rate that the case reached
};
struct limit_share limits_share(const struct limits *found, const struct limit_demand *demand);

// Whether reading may be the limit of so many operations and bytes, by the rate of memory, which is the slowest level.
bool limits_may_read(const struct limits *found, const struct limit_demand *demand);

// A line that names the limits of one run that cannot all be right; "" where there are none.
const char *limits_contradiction(const struct limits *found, char text[LIMIT_LINE]);

// A line where others used the cores while the limits were measured, or limits contradict each other; "" where not.
const char *limits_contended(const struct limits *found, char text[LIMIT_LINE]);

#endif
