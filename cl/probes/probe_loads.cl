// probe_loads.cl: how fast are multiply-adds with operands from the first-level cache and KEY_BLOCK
// x ROW_VECTORS accumulators, as in lanes_product.clh? CPUs differ: if instruction supply is the
// limit, the tile with fewer loads is faster, else the one with fewer vectors of rows. Numbers are
// integers, so every sum is exact.
#include "lanes/lanes.clh"

#define STEPS 32

// Number `step` of key a is words[(a + step) % 16], of row b words[16 + (b + step) % 16] + lane.
// The result per lane is the sum over `step` of their products, times a + b + 1, over all a and b.
// rounds 0 is one round.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_loads(__global const uint *words,
                                                                         __global uint *result, int rounds) {
    VEC row[STEPS * ROW_VECTORS], acc[KEY_BLOCK][ROW_VECTORS];
    float key[KEY_BLOCK * STEPS];
    for (int i = 0; i < STEPS * ROW_VECTORS; i++)
        row[i] = TO_VEC(lane_numbers()) + (float)words[16 + (i % ROW_VECTORS + i / ROW_VECTORS) % 16];
    for (int i = 0; i < KEY_BLOCK * STEPS; i++) key[i] = (float)words[(i / STEPS + i % STEPS) % 16];
#pragma unroll
    for (int i = 0; i < KEY_BLOCK * ROW_VECTORS; i++) acc[i / ROW_VECTORS][i % ROW_VECTORS] = (VEC)(0.0f);
    for (int n = 0; n < max(rounds, 1); n++) {
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int a = 0; a < KEY_BLOCK; a++) {
                const VEC x = (VEC)(key[a * STEPS + step]);
#pragma unroll
                for (int b = 0; b < ROW_VECTORS; b++)
                    acc[a][b] = fma(x, row[step * ROW_VECTORS + b], acc[a][b]);
            }
        }
    }
    VEC sum = (VEC)(0.0f);
#pragma unroll
    for (int i = 0; i < KEY_BLOCK * ROW_VECTORS; i++)
        sum = fma(acc[i / ROW_VECTORS][i % ROW_VECTORS],
                  (VEC)((float)(i / ROW_VECTORS + i % ROW_VECTORS + 1)), sum);
    VSTORE(AS_VEC_UINT(sum), 0, result);
}
