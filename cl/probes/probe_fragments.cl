// probe_fragments.cl: does the device's compiler take the instructions of a matrix engine that 32 work-items share, do its
// elements lie where fragments.clh says, and how fast is it? Four warps do the same. Numbers are small and whole: every
// product and sum is exact.
#ifndef TYPE_KV
#define TYPE_KV STORE_F16
#endif
#define FRAGMENT_GROUP PROBE_FRAGMENTS_ITEMS
#include "fragments/fragments.clh"

#define PITCH 48 // bytes of a row
#define B_AT (16 * PITCH)

// words: A, then B, 16 rows of 16 numbers of 16 bits each, which begin at a multiple of 16 bytes. rounds 0: result[16 r + c] is
// P = A B^T, result[256 + 16 r + c] is P B, with P rounded, and result[512 + r] the largest of P's row r. Else that many
// rounds of eight products.
__kernel __attribute__((reqd_work_group_size(PROBE_FRAGMENTS_ITEMS, 1, 1))) void
probe_fragments(__global const uint *words, __global uint *result, int rounds) {
    __local uint4 tile[32 * PITCH / 16];
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    const int id = (int)get_local_id(0), lane = FRAGMENT_LANE, g = lane / 4, t = lane % 4;
    const bool writes = FRAGMENT_WARP == 1;
    __global const ushort *in = (__global const ushort *)words;
    uint a[4], b[4], p[4], turned[4];
    float c[8][4];
    FRAGMENT_UNROLL for (int i = 0; i < 8; i++) FRAGMENT_UNROLL for (int e = 0; e < 4; e++) c[i][e] = 0.0f;
    // Of the last half row nothing is read, and 0 is put there.
    if (id < 64) FRAGMENT_COPY(memory, id / 2 * PITCH + id % 2 * 16, in + 8 * id, id < 63 ? 16 : 0);
    FRAGMENT_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
    FRAGMENT_LOAD(a, memory, lane % 16 * PITCH + lane / 16 * 16);
    FRAGMENT_LOAD(b, memory, B_AT + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16);
    FRAGMENT_LOAD_TURNED(turned, memory, B_AT + lane % 16 * PITCH + lane / 16 * 16);
    FRAGMENT_MULTIPLY_ADD(c[0], a, b[0], b[1], memory);
    FRAGMENT_MULTIPLY_ADD(c[1], a, b[2], b[3], memory);
    FRAGMENT_UNROLL for (int i = 0; i < 4; i++) p[i] =
        FRAGMENT_PAIR(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
    FRAGMENT_MULTIPLY_ADD(c[2], p, turned[0], turned[1], memory);
    FRAGMENT_MULTIPLY_ADD(c[3], p, turned[2], turned[3], memory);
    FRAGMENT_UNROLL for (int n = 0; n < 2; n++) {
        float most = fmax(fmax(c[0][2 * n], c[0][2 * n + 1]), fmax(c[1][2 * n], c[1][2 * n + 1]));
        most = fmax(most, FRAGMENT_XOR(most, 1, memory));
        most = fmax(most, FRAGMENT_XOR(most, 2, memory));
        if (writes && t == 0) result[512 + g + 8 * n] = as_uint(most);
    }
    if (writes) {
        FRAGMENT_UNROLL for (int i = 0; i < 4; i++) FRAGMENT_UNROLL for (int e = 0; e < 4; e++)
            result[i / 2 * 256 + 16 * (g + e / 2 * 8) + i % 2 * 8 + 2 * t + e % 2] = as_uint(c[i][e]);
    }
    for (int r = 0; r < rounds; r++)
        FRAGMENT_UNROLL for (int i = 0; i < 8; i++)
            FRAGMENT_MULTIPLY_ADD(c[i], i % 2 ? p : a, b[i % 4], turned[i % 4], memory);
    float sum = 0.0f;
    FRAGMENT_UNROLL for (int i = 0; i < 8; i++) FRAGMENT_UNROLL for (int e = 0; e < 4; e++) sum += c[i][e];
    if (rounds) result[id] = as_uint(sum);
}
