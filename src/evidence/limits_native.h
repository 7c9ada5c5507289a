// limits_native.h: the multiply-add peak of the machine's cores by a loop in C, which says how much of it the
// OpenCL driver's own peak is. Leaves out everything but x86-64. Used by limits.
#ifndef CLATTN_EVIDENCE_LIMITS_NATIVE_H
#define CLATTN_EVIDENCE_LIMITS_NATIVE_H

// With this many threads; 0 where there is no such loop.
double limits_native_fma_gflops(unsigned threads);
#endif
