// limits.h: what a device can do at most, measured on it in this run through OpenCL: multiply-adds that stay
// in registers, and reading a buffer larger than the caches. Leaves out matrix instructions. Used by the
// bench.
#ifndef CLATTN_EVIDENCE_LIMITS_H
#define CLATTN_EVIDENCE_LIMITS_H
#include "tool/tool.h"

typedef struct bench_limits {
    double fma_gflops, read_gbytes_per_s; // 0: could not be measured
    double native_fma_gflops;             // a loop in C, on CPU devices; 0: none
} bench_limits;

// Raises *limits to what this measurement finds: another use of the machine only ever lowers one.
void bench_limits_measure(session *s, bench_limits *limits);
#endif
