// probe_amx.cl: does the device's compiler accept x86's tile instructions, are their results right,
// and how fast are they? It runs before a kernel for this engine is chosen, in a process that has
// requested the tile registers. The host compares every number. The emulation is right on any
// device. TYPE_KV selects products of bfloat16 or of signed bytes.
#ifndef LANES
#define LANES 16
#endif
#include "matrix/matrix_tiles.clh"

#if TYPE_KV == STORE_I8
typedef int probe_sum;
#define PROBE_LOAD_A(t, p) MATRIX_LOAD_BYTES(t, (const uchar *)(p), 64)
#define PROBE_MULTIPLY_ADD MATRIX_MULTIPLY_ADD_BYTES
#define PROBE_STORE_C MATRIX_STORE_INTS
#else
typedef float probe_sum;
#define PROBE_LOAD_A(t, p) MATRIX_LOAD_A(t, (const ushort *)(p), 32)
#define PROBE_MULTIPLY_ADD MATRIX_MULTIPLY_ADD
#define PROBE_STORE_C MATRIX_STORE_C
#endif

// Word i of row r of A is words[(r + i) % 32], of B words[32 + (3 r + i) % 32]. If `rounds` is 0,
// result[16 q + n] is the sum over rows r = q, q + 4, ... of (r + 1) times number (r, n) of C.
// Otherwise, the kernel runs `rounds` rounds of four products.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_amx(__global const uint *words,
                                                                       __global uint *result, int rounds) {
    uint a[MATRIX_SIDE * 16] LANES_ALIGNED, b[MATRIX_SIDE * 16] LANES_ALIGNED;
    probe_sum c[MATRIX_SIDE * MATRIX_SIDE] LANES_ALIGNED;
    for (int i = 0; i < MATRIX_SIDE * 16; i++)
        a[i] = words[(i / 16 + i % 16) % 32], b[i] = words[32 + (i / 16 * 3 + i % 16) % 32];
    matrix_begin();
    {
        MATRIX_DECLARE_TILES
        MATRIX_ZERO(0);
        MATRIX_ZERO(1);
        MATRIX_ZERO(2);
        MATRIX_ZERO(3);
        PROBE_LOAD_A(4, a);
        PROBE_LOAD_A(5, a);
        MATRIX_LOAD_B(6, b, 16);
        MATRIX_LOAD_B(7, b, 16);
        if (rounds == 0) PROBE_MULTIPLY_ADD(0, 4, 6);
        for (int r = 0; r < rounds; r++) {
            PROBE_MULTIPLY_ADD(0, 4, 6);
            PROBE_MULTIPLY_ADD(1, 4, 7);
            PROBE_MULTIPLY_ADD(2, 5, 6);
            PROBE_MULTIPLY_ADD(3, 5, 7);
        }
        PROBE_STORE_C(0, c, MATRIX_SIDE);
    }
    matrix_end();
    for (int q = 0; q < 4; q++)
        for (int n = 0; n < MATRIX_SIDE; n++) {
            probe_sum sum = 0;
            for (int r = q; r < MATRIX_SIDE; r += 4) sum += (probe_sum)(r + 1) * c[r * MATRIX_SIDE + n];
            result[16 * q + n] = as_uint(sum);
        }
}
