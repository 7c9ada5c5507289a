// limits_native.h: of the machine's cores without OpenCL: their multiply-add peak by a loop in C, which says how much of
// it the OpenCL driver's own peak is, and how many instructions they take. Leaves out everything but x86-64. Used by limits.
#ifndef CLATTN_EVIDENCE_LIMITS_LIMITS_NATIVE_H
#define CLATTN_EVIDENCE_LIMITS_LIMITS_NATIVE_H

// With this many threads, for max_ms at most (0: as long as is good); 0 where there is no such loop.
double limits_native_fma_gflops(unsigned threads, double max_ms);
// Instructions that do nothing, a cycle of a core, while this many threads run; the least of the threads.
double limits_native_instructions(unsigned threads);
#endif
