// probe_amx.cl: does the device's compiler take x86's tile instructions, do they compute what they should, and how fast?
// Built and run before a kernel on that engine is chosen, in a process that has asked for its registers; the host compares
// every number. With the emulation it is right anywhere.
#ifndef LANES
#define LANES 16
#endif
#include "matrix/matrix_tiles.clh"

// Word i of A's row r is words[(r + i) % 32], of B's row r words[32 + (3 r + i) % 32]. rounds 0: result[16 q + n] is the
// sum over rows r = q, q + 4, ... of (r + 1) times C's number (r, n). Else that many rounds of four products.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_amx(__global const uint *words,
                                                                       __global uint *result, int rounds) {
    uint a[MATRIX_SIDE * 16] LANES_ALIGNED, b[MATRIX_SIDE * 16] LANES_ALIGNED;
    float c[MATRIX_SIDE * MATRIX_SIDE] LANES_ALIGNED;
    for (int i = 0; i < MATRIX_SIDE * 16; i++)
        a[i] = words[(i / 16 + i % 16) % 32], b[i] = words[32 + (i / 16 * 3 + i % 16) % 32];
    matrix_begin();
    {
        MATRIX_DECLARE_TILES
        MATRIX_ZERO(0);
        MATRIX_ZERO(1);
        MATRIX_ZERO(2);
        MATRIX_ZERO(3);
        MATRIX_LOAD_A(4, (const ushort *)a, 32);
        MATRIX_LOAD_A(5, (const ushort *)a, 32);
        MATRIX_LOAD_B(6, b, 16);
        MATRIX_LOAD_B(7, b, 16);
        if (rounds == 0) MATRIX_MULTIPLY_ADD(0, 4, 6);
        for (int r = 0; r < rounds; r++) {
            MATRIX_MULTIPLY_ADD(0, 4, 6);
            MATRIX_MULTIPLY_ADD(1, 4, 7);
            MATRIX_MULTIPLY_ADD(2, 5, 6);
            MATRIX_MULTIPLY_ADD(3, 5, 7);
        }
        MATRIX_STORE_C(0, c, MATRIX_SIDE);
    }
    matrix_end();
    for (int q = 0; q < 4; q++)
        for (int n = 0; n < MATRIX_SIDE; n++) {
            float sum = 0.0f;
            for (int r = q; r < MATRIX_SIDE; r += 4) sum += (float)(r + 1) * c[r * MATRIX_SIDE + n];
            result[16 * q + n] = as_uint(sum);
        }
}
