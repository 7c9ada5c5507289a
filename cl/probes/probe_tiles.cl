// probe_tiles.cl: how fast is a product of tiles through local memory, as in kernels for devices
// without lanes? If a CPU device reports no vector width, its vectors are not probed where they are
// far slower than this. Numbers are integers, so every sum is exact.
#include "tiles/tiles.clh"

// The word where the columns begin. Each row begins one word after the previous one.
#define FIRST_COLUMN 100

float4 fetch(__global const float *from, int row, int d) {
    return vload4(0, from + row + d);
}
#define FETCH(from, row, d) fetch(from, row, d)
TILES_DEFINE_LOAD_TRANSPOSED(load_rows, __global const float *, FETCH, CHUNK / 4)
TILES_DEFINE_LOAD(load_columns, __global const float *, FETCH, TILES_COLUMNS, CHUNK / 4, TILES_CHUNK_PITCH)

// result[item] is the sum over the item's rows r and columns c of (r + 1) (c + 1) times their
// product. rounds is the number of chunks; 0 is one chunk.
__kernel __attribute__((reqd_work_group_size(TILES_GROUP, 1, 1))) void
probe_tiles(__global const uint *words, __global uint *result, int rounds) {
    __local float4 turned[TILES_TRANSPOSED_FOURS], chunk[TILES_CHUNK_FOURS];
    __global const float *in = (__global const float *)words;
    const int item = (int)get_local_id(0), ty = item / GROUP_COLUMNS, tx = item % GROUP_COLUMNS;
    tiles_sums s;
    tiles_clear(&s);
    for (int r = 0; r < max(rounds, 1); r++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        load_rows(turned, in, r % 4, TILES_ROWS - 1, 0);
        load_columns(chunk, in + FIRST_COLUMN, r % 4, TILES_COLUMNS - 1, 0);
        barrier(CLK_LOCAL_MEM_FENCE);
        tiles_multiply(&s, turned, chunk, ty, tx, CHUNK / 4);
    }
    const VEC sum = s.c0 + 2.0f * s.c1 + 3.0f * s.c2 + 4.0f * s.c3;
    float all = 0.0f, of[MICRO_ROWS];
    VSTORE(sum, 0, of);
    for (int i = 0; i < MICRO_ROWS; i++) all += (float)(i + 1) * of[i];
    result[item] = as_uint(all);
}
