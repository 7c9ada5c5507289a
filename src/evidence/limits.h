// limits.h: what a device can do at most, measured on it in this run through OpenCL: multiply-adds that stay
// in registers, x86's bfloat16 dot products, and reading a buffer larger than the caches. Leaves out other matrix
// instructions. Used by the bench and by what Python benchmarks load.
#ifndef CLATTN_EVIDENCE_LIMITS_H
#define CLATTN_EVIDENCE_LIMITS_H

#include "evidence/place.h"

struct limits {
    double fma_gflops, read_gbytes_per_s; // 0: could not be measured
    double native_fma_gflops;             // a loop in C, on CPU devices; 0: none
};

// Raises *found to what this measurement finds: another use of the machine only ever lowers one.
void limits_measure(struct place *place, struct limits *found);

// One of them as work that can be run again and again, long enough that start-up does not count.
struct limit;
typedef enum limit_kind { LIMIT_FMA, LIMIT_BF16, LIMIT_READ } limit_kind;

// LIMIT_FMA is the faster of fma() and mad(). NULL: the device has none, or place->error says why. bytes: of LIMIT_READ; 0: more than the caches hold. The place
// outlives it.
struct limit *limit_create(struct place *place, limit_kind kind, size_t bytes);
void limit_destroy(struct limit *l);
// Enqueue once.
bool limit_enqueue(struct limit *l, cl_event *event);
// Floating-point operations, or bytes, of one run.
double limit_work(const struct limit *l);

#endif
