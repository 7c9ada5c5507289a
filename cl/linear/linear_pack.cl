// linear_pack.cl: converts a projection's weights to the layout of linear_matrix.cl, described in
// matrix_terms.clh. Zeros follow the last column and the end of the reduction. It is enqueued by
// clattn_linear_pack, or before a projection without packed weights. A work-item packs 32 columns.
// Global size: blocks of 32 columns; local size: 1.
#include "matrix/matrix_terms.clh"

// Weights k to k + 31 of a column; 0 past the end of the reduction.
void load_weights(VEC part[2], __global const ELEMENT(TYPE_KV) * w, long column, int k, int count) {
    if (count >= LINEAR_MATRIX_STEP) {
        part[0] = LOAD_LANES(TYPE_KV, w, column + k);
        part[1] = LOAD_LANES(TYPE_KV, w, column + k + LANES);
        return;
    }
    part[0] = LOAD_LANES_PART(TYPE_KV, w, column + k, count);
    part[1] = LOAD_LANES_PART(TYPE_KV, w, column + k + LANES, count - LANES);
}

// A vector of pairs of 16-bit terms from two vectors of single terms.
VEC pair_terms(VEC_UINT first, VEC_UINT second) {
    VEC_UINT pairs;
    pairs.lo = as_uint8(TO_VEC_USHORT(first));
    pairs.hi = as_uint8(TO_VEC_USHORT(second));
    return AS_VEC(pairs);
}

// Pack columns [first, first + 16) and 32 numbers of the reduction from k on: half of each term's
// tile.
void pack_tile(__global const ELEMENT(TYPE_KV) * w, __global uint *tile, int first, int k,
               const linear_pack_args *a, magnitudes *m) {
    VEC t[TERMS_W][LANES];
    for (int n = 0; n < LANES; n++) {
        const int count = first + n < a->columns ? a->reduction - k : 0;
        const long column = a->w_offset + min(first + n, a->columns - 1) * a->w_row;
        VEC part[2];
        load_weights(part, w, column, k, count);
        magnitudes_see(m, part[0]);
        magnitudes_see(m, part[1]);
        for (int i = 0; i < TERMS_W; i++) {
            const VEC_UINT low = matrix_term(&part[0]);
            t[i][n] = pair_terms(low, matrix_term(&part[1]));
        }
    }
    for (int i = 0; i < TERMS_W; i++) {
        transpose_lanes(t[i]);
        for (int p = 0; p < LANES; p++)
            vstore16(AS_VEC_UINT(t[i][p]), 0, tile + i * TILE_UINTS + p * LINEAR_MATRIX_COLUMNS);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
linear_pack(__global const ELEMENT(TYPE_KV) * w, __global uint *packed, const linear_pack_args args) {
    const int block = (int)get_global_id(0), blocks = LINEAR_MATRIX_BLOCKS(args.columns);
    const int steps = LINEAR_MATRIX_STEPS(args.reduction);
    magnitudes m = magnitudes_none();
    packed += args.packed_offset;
    __global uint *tile = packed + LINEAR_MATRIX_HEAD(blocks) + (long)block * steps * TERMS_W * TILE_UINTS;
    for (int s = 0; s < steps; s++, tile += TERMS_W * TILE_UINTS)
        for (int side = 0; side < LINEAR_MATRIX_COLUMNS; side += LANES)
            pack_tile(w, tile + side, block * LINEAR_MATRIX_COLUMNS + side, s * LINEAR_MATRIX_STEP, &args,
                      &m);
    const magnitude_limits limits = magnitudes_limits(&m);
    packed[2 * block] = limits.least;
    packed[2 * block + 1] = limits.most;
}
