// probe_fma.cl: how fast are multiply-adds in vectors of LANES floats? The host compares the rate
// with those of the other engines' probes. Nothing is loaded: the twelve accumulators stay in
// registers.
#include "lanes/lanes.clh"

#define ACCUMULATORS 12

// With rounds 0, result[0..LANES) is a*b + c, for words from 0, 16 and 32 on. Else it runs that
// many rounds of ACCUMULATORS fma.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_fma(__global const uint *words,
                                                                       __global uint *result, int rounds) {
    __global const float *in = (__global const float *)words;
    const VEC a = VLOAD(0, in), b = VLOAD(0, in + 16);
    VEC sum[ACCUMULATORS];
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) sum[i] = VLOAD(0, in + 32) + (float)(i * rounds);
    if (rounds == 0) sum[0] = fma(a, b, sum[0]);
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < ACCUMULATORS; i++) sum[i] = fma(a, sum[i], b);
    }
#pragma unroll
    for (int i = 1; i < ACCUMULATORS; i++) sum[0] += rounds ? sum[i] : (VEC)(0.0f);
    VSTORE(AS_VEC_UINT(sum[0]), 0, result);
}
