// probe_dot_bf16.cl: does the device's compiler accept x86's bfloat16 instructions, are their
// results right, and how fast are they? It runs before a kernel with DOT_BF16 is chosen. The host
// compares every number.
#ifndef LANES
#define LANES 16
#endif
#include "lanes/lanes.clh"

#define ACCUMULATORS 12

// With `rounds` 0, the result has two parts of 16 words:
//   a[2i] * b[2i] + a[2i+1] * b[2i+1], for words from 0 (a) and from 16 (b) on
//   the floats x and y of words from 32 and from 48 on, as bfloat16 pairs (x low, y high)
// Else it runs that many rounds of ACCUMULATORS dot products.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_dot_bf16(__global const uint *words, __global uint *result, int rounds) {
    float16 sum[ACCUMULATORS];
    const uint16 pa = vload16(0, words), pb = vload16(1, words);
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) sum[i] = (float16)((float)(i * rounds));
    if (rounds == 0) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum[0]) : "v"(pa), "v"(pb));
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < ACCUMULATORS; i++)
            __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum[i]) : "v"(pa), "v"(pb));
    }
#pragma unroll
    for (int i = 1; i < ACCUMULATORS; i++) sum[0] += sum[i];
    vstore16(as_uint16(sum[0]), 0, result);

    __global const float *in = (__global const float *)words;
    const float16 lo = vload16(2, in), hi = vload16(3, in);
    uint16 halves, pairs;
    // Word 2i is word i of x, word 2i+1 is word i of y.
    const uint16 zip = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (uint16)(16u << 16) +
                       ((uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) << 16);
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(hi), "v"(lo));
    __asm__("vpermw %2, %1, %0" : "=v"(pairs) : "v"(zip), "v"(halves));
    vstore16(pairs, 1, result);
}
