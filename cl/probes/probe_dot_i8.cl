// probe_dot_i8.cl: does the device's compiler accept x86's integer dot products (VNNI), are their
// results right, and how fast are they? It runs before a kernel with DOT_I8 is chosen. The host
// compares every number.
#ifndef DOT_I8
#define DOT_I8 1
#endif
#include "lanes/lanes.clh"

#define ACCUMULATORS 12

// With `rounds` 0, the result has two parts of LANES words, the second from word 16 on:
//   5 + the products of the bytes of words [0, LANES), unsigned, and of words from 16 on, signed
//   the same for their signed 16-bit halves
// Else it runs that many rounds of ACCUMULATORS such products.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_dot_i8(__global const uint *words,
                                                                          __global uint *result, int rounds) {
    VEC_INT sum[ACCUMULATORS];
    const VEC_INT a = AS_VEC_INT(VLOAD(0, words)), b = AS_VEC_INT(VLOAD(0, words + 16));
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) sum[i] = (VEC_INT)(i * rounds);
    if (rounds == 0) {
        sum[0] = dot_bytes((VEC_INT)(5), a, b);
        VSTORE(AS_VEC_UINT(dot_words((VEC_INT)(5), a, b)), 0, result + 16);
    }
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < ACCUMULATORS; i += 2) {
            sum[i] = dot_bytes(sum[i], a, b);
            sum[i + 1] = dot_words(sum[i + 1], a, b);
        }
    }
#pragma unroll
    for (int i = 1; i < ACCUMULATORS; i++) sum[0] += sum[i];
    VSTORE(AS_VEC_UINT(sum[0]), 0, result);
}
