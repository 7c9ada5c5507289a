// probe_wgmma.cl: does the driver assemble wgmma, in which four warps multiply by a tile in local
// memory? Does it read the tile's elements where engine_mma.clh says, and how fast is it? Numbers
// are small integers, so every product and sum is exact.
#ifndef TYPE_KV
#define TYPE_KV STORE_F16
#endif
#define FRAGMENT_GROUP PROBE_FRAGMENTS_ITEMS
#include "fragments/fragments.clh"

#define SIDE 64 // rows, and numbers per row, of A and B
#define PITCH FRAGMENTS_PITCH(FRAGMENT_ENGINE, SIDE)
#define TILE_AT (SIDE * PITCH)
#define STEPS (SIDE / FRAGMENT_STEP)
#define EACH_STEP(d) FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++)
#define EACH_SUM(i, e)                                                                                       \
    FRAGMENT_UNROLL for (int i = 0; i < FRAGMENT_TILE_PARTS; i++)                                            \
        FRAGMENT_UNROLL for (int e = 0; e < FRAGMENT_ELEMENTS; e++)

// `words` has 128 pieces of eight 16-bit numbers. A and B are made of them so that all rows and
// columns differ. With rounds 0, the result is every fourth row of O = (A B^T) B, sixteen rows of
// 64. Else it runs that many rounds of eight products.
__kernel __attribute__((reqd_work_group_size(PROBE_FRAGMENTS_ITEMS, 1, 1))) void
probe_wgmma(__global const uint *words, __global uint *result, int rounds) {
    __local uint4 tile[2 * TILE_AT / 16] __attribute__((aligned(1024)));
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    __global const ushort *in = (__global const ushort *)words;
    fragment_own a[STEPS];
    fragment_sums s[FRAGMENT_TILE_PARTS], o[FRAGMENT_TILE_PARTS];
    for (int n = (int)get_local_id(0); n < SIDE * SIDE / 8; n += PROBE_FRAGMENTS_ITEMS) {
        const int row = n / 8, piece = n % 8, at = FRAGMENT_PLACE(row, piece, PITCH);
        FRAGMENT_COPY(memory, at, in + 8 * ((37 * row + 11 * piece) % 128), 16);
        FRAGMENT_COPY(memory, TILE_AT + at, in + 8 * ((29 * row + 5 * piece + 3) % 128), 16);
    }
    FRAGMENT_COMMIT();
    FRAGMENT_COMMIT();
    FRAGMENT_WAIT_BUT_LAST();
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_STEP(d) FRAGMENT_LOAD_OWN(a[d], memory, 0, FRAGMENT_ROWS * FRAGMENT_WARP, d, PITCH);
    EACH_SUM(i, e) s[i][e] = 0.0f;
    EACH_SUM(i, e) o[i][e] = 0.0f;
    FRAGMENT_SETTLE(o);
    FRAGMENT_BEGIN();
    FRAGMENT_KEYS_FIRST(s, a[0], memory, TILE_AT, PITCH);
    FRAGMENT_UNROLL for (int d = 1; d < STEPS; d++)
        FRAGMENT_KEYS(s, a[d], memory, TILE_AT + FRAGMENT_KEYS_AT(d, PITCH), PITCH);
    FRAGMENT_END();
    FRAGMENT_SETTLE(s);
    EACH_STEP(d) FRAGMENT_WEIGHTS(a[d], s, d, memory);
    for (int r = 0; r <= rounds; r++) {
        FRAGMENT_SETTLE(s);
        FRAGMENT_SETTLE(o);
        FRAGMENT_BEGIN();
        EACH_STEP(d) FRAGMENT_VALUES(o, a[d], memory, TILE_AT + FRAGMENT_VALUES_AT(d, 0, PITCH), PITCH);
        if (r < rounds) {
            EACH_STEP(d) FRAGMENT_KEYS(s, a[d], memory, TILE_AT + FRAGMENT_KEYS_AT(d, PITCH), PITCH);
        }
        FRAGMENT_END();
    }
    FRAGMENT_SETTLE(s);
    FRAGMENT_SETTLE(o);
    if (rounds == 0) {
        FRAGMENT_UNROLL for (int n = 0; n < FRAGMENT_ITEM_ROWS; n++) {
            const int row = FRAGMENT_ROWS * FRAGMENT_WARP + FRAGMENT_ROW(n);
            if (row % 4) continue;
            FRAGMENT_UNROLL for (int i = 0; i < FRAGMENT_TILE_PARTS; i++)
                FRAGMENT_UNROLL for (int e = 0; e < 2; e++) result[SIDE * (row / 4) + FRAGMENT_COLUMN(i, e)] =
                    as_uint(o[i][2 * n + e]);
        }
    } else {
        float sum = 0.0f;
        EACH_SUM(i, e) sum += s[i][e] + o[i][e];
        result[get_local_id(0)] = as_uint(sum);
    }
}
