// probe_fragments.cl: does the device's compiler accept the instructions of a matrix engine that a
// warp shares, are elements where fragments.clh says, and how fast is the engine? All warps of the
// group compute the same. Numbers are small integers, so every product and sum is exact.
#ifndef TYPE_KV
#define TYPE_KV STORE_F16
#endif
#ifndef TILE_KV
#define TILE_KV 32 // PROBE_FRAGMENTS_SIDE
#endif
#define FRAGMENT_GROUP PROBE_FRAGMENTS_ITEMS
#include "fragments/fragments.clh"

#if TILE_KV != PROBE_FRAGMENTS_SIDE
#error "TILE_KV is the side of the probe's matrices"
#endif

#define SIDE PROBE_FRAGMENTS_SIDE
#define PITCH FRAGMENTS_PITCH(FRAGMENT_ENGINE, SIDE) // bytes of a row
#define KEYS_AT (FRAGMENT_ROWS * PITCH)
#define VALUES_AT (KEYS_AT + SIDE * PITCH)
#define KEY_PARTS (SIDE / FRAGMENT_COLUMNS)
#define VALUE_PARTS FRAGMENT_VALUE_PARTS(SIDE)
#define TIMED (4 * FRAGMENT_PARTS) // independent sums

// `words` has A, FRAGMENT_ROWS rows of SIDE 16-bit numbers, and after 32 rows B, SIDE rows. With
// rounds 0, result[SIDE r + c] is P = A B^T. Then follow P B, with P rounded, and the largest
// number of each row of P. Else it runs that many rounds of TIMED products.
__kernel FRAGMENT_SIZED __attribute__((reqd_work_group_size(PROBE_FRAGMENTS_ITEMS, 1, 1))) void
probe_fragments(__global const uint *words, __global uint *result, int rounds) {
    __local uint4 tile[(VALUES_AT + FRAGMENTS_VALUE_BYTES(FRAGMENT_ENGINE, SIDE, SIDE)) / 16]
        __attribute__((aligned(128)));
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    const bool writes = FRAGMENT_WARP == 1;
    __global const ushort *in = (__global const ushort *)words;
    fragment_own a[SIDE / FRAGMENT_STEP], p[SIDE / FRAGMENT_STEP];
    fragment_shared k, v;
    fragment_sums s[KEY_PARTS], o[VALUE_PARTS], sums[TIMED];
    FRAGMENT_UNROLL for (int i = 0; i < KEY_PARTS; i++) EACH_ELEMENT(e) s[i][e] = 0.0f;
    FRAGMENT_UNROLL for (int i = 0; i < VALUE_PARTS; i++) EACH_ELEMENT(e) o[i][e] = 0.0f;
    FRAGMENT_UNROLL for (int i = 0; i < TIMED; i++) EACH_ELEMENT(e) sums[i][e] = 0.0f;
    for (int n = (int)get_local_id(0); n < SIDE * SIDE / 8; n += FRAGMENT_GROUP) {
        const int row = n / (SIDE / 8), piece = n % (SIDE / 8);
        // For the last piece no byte is read, and 0 is stored.
        const int bytes = n < SIDE * SIDE / 8 - 1 ? 16 : 0;
        if (row < FRAGMENT_ROWS) FRAGMENT_COPY(memory, FRAGMENT_PLACE(row, piece, PITCH), in + 8 * n, 16);
        FRAGMENT_COPY(memory, KEYS_AT + FRAGMENT_PLACE(row, piece, PITCH), in + 32 * SIDE + 8 * n, bytes);
#if FRAGMENT_FETCHES
        const uint4 x = fragment_piece(in + 32 * SIDE + 8 * n, bytes);
        FRAGMENT_PUT_VALUE(memory, VALUES_AT, row, piece, PITCH, x);
#else
        FRAGMENT_COPY(memory, VALUES_AT + FRAGMENT_PLACE(row, piece, PITCH), in + 32 * SIDE + 8 * n, bytes);
#endif
    }
    FRAGMENT_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
    FRAGMENT_UNROLL for (int d = 0; d < SIDE / FRAGMENT_STEP; d++) {
        FRAGMENT_LOAD_OWN(a[d], memory, 0, 0, d, PITCH);
        FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y += FRAGMENT_PARTS) {
            FRAGMENT_LOAD_KEYS(k, memory, FRAGMENT_ROWS + FRAGMENT_COLUMNS * y, d, PITCH);
            EACH_PART(i) FRAGMENT_MULTIPLY_ADD(s[y + i], a[d], k, i, memory);
        }
    }
    FRAGMENT_UNROLL for (int z = 0; z < SIDE / FRAGMENT_STEP; z++) {
        FRAGMENT_WEIGHTS(p[z], s, z, memory);
        FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y += FRAGMENT_PARTS) {
            FRAGMENT_LOAD_VALUES(v, memory, VALUES_AT, FRAGMENT_STEP * z, y, PITCH);
            EACH_PART(i) FRAGMENT_MULTIPLY_ADD(o[y + i], p[z], v, i, memory);
        }
    }
    FRAGMENT_UNROLL for (int n = 0; n < FRAGMENT_ITEM_ROWS; n++) {
        const int in_row = FRAGMENT_ELEMENTS / FRAGMENT_ITEM_ROWS, row = FRAGMENT_ROW(n);
        float most = -INFINITY;
        FRAGMENT_UNROLL for (int i = 0; i < KEY_PARTS; i++) FRAGMENT_UNROLL for (int e = 0; e < in_row; e++)
            most = fmax(most, s[i][in_row * n + e]);
        FRAGMENT_ROW_MAX(most, memory);
        if (writes && FRAGMENT_FIRST) result[2 * SIDE * FRAGMENT_ROWS + row] = as_uint(most);
        FRAGMENT_UNROLL for (int e = in_row * n; e < in_row * (n + 1); e++) {
            if (!writes) continue;
            FRAGMENT_UNROLL for (int i = 0; i < KEY_PARTS; i++) result[SIDE * row + FRAGMENT_COLUMN(i, e)] =
                as_uint(s[i][e]);
            FRAGMENT_UNROLL for (int i = 0; i < VALUE_PARTS; i++)
                result[SIDE * (FRAGMENT_ROWS + row) + FRAGMENT_COLUMN(i, e)] = as_uint(o[i][e]);
        }
    }
    for (int r = 0; r < rounds; r++)
        FRAGMENT_UNROLL for (int i = 0; i < TIMED; i += FRAGMENT_PARTS) EACH_PART(n)
            FRAGMENT_MULTIPLY_ADD(sums[i + n], i & FRAGMENT_PARTS ? p[0] : a[0], k, n, memory);
    float sum = 0.0f;
    FRAGMENT_UNROLL for (int i = 0; i < TIMED; i++) EACH_ELEMENT(e) sum += sums[i][e];
    if (rounds) result[get_local_id(0)] = as_uint(sum);
}
