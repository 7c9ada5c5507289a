// backward_matrix.cl: gradients of attention with respect to q, k and v on a CPU's matrix engine
// (matrix_tiles.clh). It is the pass of lanes_gradients.clh, like backward_lanes.cl, with all five
// products on tiles. q, k, v and dout are bfloat16, with heads of at most 256.
//
// The scores of MATRIX_DEPTH keys at a time are computed, weighed and added to dV and dK. Then dQ
// adds those of all keys of the tile. Operands as tiles:
//   S^T, dP^T   K and V as stored; Q and dO in pairs of columns
//   dV, dK      P^T and dT^T as stored; dO and Q in pairs of rows
//   dQ^T        K by columns, transposed once for all rows; dT in pairs of keys; then transposed
// Sums are float32. P and dT are rounded to bfloat16 for the last three products, with a relative
// error of at most 2^-8. With DOT_BF16 the CPU's instruction rounds, which like the engine reads a
// denormal as 0. Scores are never rounded. Weights of hidden or missing keys and rows are 0.
//
// Global size: (parts, Hkv, batch), local size 1. Enqueued by clattn_attention_backward_enqueue
// after backward_rows.cl. It ran on an Emerald Rapids with PoCL 3.1 and was not timed. Per 32 x 32
// scores, D = Dv = 64, 64 rows and 256 keys it has 40 tile products, 48 loads and 17 stores.
#ifndef TYPE_Q
#define TYPE_Q STORE_BF16
#endif
#ifndef TYPE_KV
#define TYPE_KV STORE_BF16
#endif
#ifndef TYPE_OUT
#define TYPE_OUT STORE_BF16
#endif
#define TILE_SCALES_SCORES 1
#define TILE_ALIGN 32 // MATRIX_DEPTH
#define SCORE_GRADIENTS
#define GRAD_PAIRS 1
#define GRAD_COLUMNS 32 // MATRIX_DEPTH
#define GRAD_KEYS TILE_KV
#define GRAD_KEYS_TRANSPOSED 1
#include "args/backward_args.h"
#include "lanes/lanes_tile.clh"
#include "matrix/matrix_tiles.clh"

#if TYPE_Q != STORE_BF16 || TYPE_KV != STORE_BF16 || TYPE_OUT != STORE_BF16 || HEAD_DIM > 256 ||             \
    HEAD_DIM_V > 256
#error "q, k, v and dout are bfloat16, with heads of at most 256"
#endif
#if ROW_VECTORS % 2 != 0 || TILE_KV % MATRIX_DEPTH != 0 || KEY_BLOCK % 2 != 0 || MATRIX_DEPTH % KEY_BLOCK != 0
#error "rows are in pairs of vectors; TILE_KV is a multiple of 32, and KEY_BLOCK, which is even, divides 32"
#endif

#if !DOT_BF16 // else lanes.clh has them as instructions
// `words_lanes` joins the bits of x and of y, `pair_lanes` interleaves them.
VEC words_lanes(VEC x, VEC y) {
    return AS_VEC(
        (VEC_UINT)(as_uint8(TO_VEC_USHORT(bf16_bits_lanes(x))), as_uint8(TO_VEC_USHORT(bf16_bits_lanes(y)))));
}
VEC pair_lanes(VEC x, VEC y) {
    return AS_VEC(matrix_pair(x, y));
}
#endif
#include "lanes/lanes_gradients.clh"

#define BLOCK (2 * MATRIX_SIDE) // rows and columns of a product of 2 x 2 tiles
#define BLOCK_VECTORS (MATRIX_DEPTH * ROW_VECTORS)

// The products of MATRIX_DEPTH keys and the tile's rows, as [key][row]: x has rows of `pitch`
// elements, `pairs` pairs of columns.
void multiply_keys(VEC *to, const ushort *x, const VEC *pairs, const int pitch) {
    for (int r = 0; r < LANE_ROWS; r += BLOCK)
        MATRIX_PRODUCT_2X2(MATRIX_FROM_ZERO, (float *)to + r, LANE_ROWS, x, pitch, MATRIX_SIDE * pitch,
                           MATRIX_DEPTH, (const uint *)pairs + r, pitch / MATRIX_DEPTH);
}

// The sums of MATRIX_DEPTH keys, in rows of `pitch`, += x^T y over the tile's first `rows` rows.
void add_rows(float *sums, const float *x, const float *y, int rows, const int pitch) {
    for (int d = 0; d < pitch; d += BLOCK)
        MATRIX_PRODUCT_2X2(MATRIX_FROM(sums + d, pitch), sums + d, pitch, (const ushort *)x, LANE_ROWS,
                           MATRIX_SIDE * LANE_ROWS, MATRIX_DEPTH, (const uint *)y + d, rows / MATRIX_DEPTH);
}

// dQ of the tile's rows += dT K over `count` keys, a multiple of MATRIX_DEPTH; k points to their
// columns.
void add_keys(const grad_tiles *g, const tile_rows *t, const ushort *k, int count, __global float *dq,
              long stride) {
    VEC *turned = g->p + BLOCK_VECTORS;
    for (int d = 0; d < HEAD_DIM; d += BLOCK, k += BLOCK * TILE_KV) {
        for (int r = 0; r < LANE_ROWS; r += BLOCK)
            MATRIX_PRODUCT_2X2(MATRIX_FROM_ZERO, (float *)g->p + r, LANE_ROWS, k, TILE_KV,
                               MATRIX_SIDE * TILE_KV, MATRIX_DEPTH, (const uint *)g->dt_keys + r,
                               count / MATRIX_DEPTH);
        grad_transpose(turned, BLOCK / LANES, (const float *)g->p, LANE_ROWS, LANE_ROWS, 1.0f);
        for (int x = 0; x < t->rows * (BLOCK / LANES); x++) {
            const int column = d + x % (BLOCK / LANES) * LANES, left = HEAD_DIM - column;
            __global float *to = dq + x / (BLOCK / LANES) * stride + column;
            if (left >= LANES)
                VSTORE(VLOAD(0, to) + turned[x], 0, to);
            else if (left > 0)
                grad_add_part(to, turned[x], left);
        }
    }
}

// Load the products of KEY_BLOCK keys to registers.
REGISTER_INLINE void take_products(VEC s[KEY_BLOCK][ROW_VECTORS], const VEC *from) {
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) s[x / ROW_VECTORS][x % ROW_VECTORS] = from[x];
}

// Weights and dT of MATRIX_DEPTH keys from key j of the block on; k and v point to their rows.
void make_weights(const grad_tiles *g, const tile_rows *t, const ushort *k, const ushort *v, int j,
                  const grad_ahead *next DROPOUT_PARAMETER) {
    VEC *p = g->p, *dp = p + BLOCK_VECTORS;
    multiply_keys(p, k, g->q_tile, PITCH_K);
    multiply_keys(dp, v, g->dout_tile, PITCH_V);
#pragma unroll 1
    for (int a = 0; a < MATRIX_DEPTH; a += KEY_BLOCK) {
        VEC s[KEY_BLOCK][ROW_VECTORS];
        grad_ask(next, j + a);
        take_products(s, p + a * ROW_VECTORS);
        grad_weigh(p + a * ROW_VECTORS, s, g, t, j + a);
    }
    GRAD_DROP(p, t, j, min(j + MATRIX_DEPTH, t->count));
#pragma unroll 1
    for (int a = 0; a < MATRIX_DEPTH; a += KEY_BLOCK) {
        VEC s[KEY_BLOCK][ROW_VECTORS], dt[KEY_BLOCK * ROW_VECTORS];
        take_products(s, dp + a * ROW_VECTORS);
        grad_derive(dt, p + a * ROW_VECTORS, s, g, t, j + a DROPOUT_PASSED);
        grad_keep(g, p + a * ROW_VECTORS, dt, a, j + a);
    }
}

void grad_meet(const grad_tiles *g, const tile_rows *t, int first, int wants, __global float *dq, long stride,
               const grad_ahead *next DROPOUT_PARAMETER) {
    const int keys = LANES_ROUND_UP(t->count, MATRIX_DEPTH), rows = LANES_ROUND_UP(t->rows, BLOCK);
    const bool selects = !(g->keys_finite && g->rows_finite) && !tile_all_see(t, 0, keys);
    for (int j = 0; j < keys; j += MATRIX_DEPTH) {
        const int key = first + j;
        make_weights(g, t, g->k + key * PITCH_K, g->v + key * PITCH_V, j, next DROPOUT_PASSED);
        if (selects) {
            grad_add_selected(g, t, first, j, min(j + MATRIX_DEPTH, t->count), wants & ARGS_WANTS_DQ ? dq : 0,
                              stride);
            continue;
        }
        if (wants & ARGS_WANTS_DV) add_rows(g->dv + key * PITCH_V, g->p_rows, g->dout, rows, PITCH_V);
        if (wants & ARGS_WANTS_DK) add_rows(g->dk + key * PITCH_K, g->dt_rows, g->q, rows, PITCH_K);
    }
    if (wants & ARGS_WANTS_DQ && !selects)
        add_keys(g, t, (const ushort *)g->k_steps + first, keys, dq, stride);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_matrix(GRAD_ARGUMENTS) {
    GRAD_DECLARE_CALL;
    ushort q_rows[LANE_ROWS * PITCH_K] LANES_ALIGNED, dout_rows[LANE_ROWS * PITCH_V] LANES_ALIGNED,
        k_rows[TILE_KV * PITCH_K] LANES_ALIGNED, v_rows[TILE_KV * PITCH_V] LANES_ALIGNED;
    float k_columns[PITCH_K * TILE_KV / 2] LANES_ALIGNED, dk_rows[TILE_KV * PITCH_K] LANES_ALIGNED,
        dv_rows[TILE_KV * PITCH_V] LANES_ALIGNED, q_steps[GRAD_WORDS * PITCH_K] LANES_ALIGNED,
        dout_steps[GRAD_WORDS * PITCH_V] LANES_ALIGNED, p_rows[MATRIX_DEPTH * GRAD_WORDS] LANES_ALIGNED,
        dt_rows[MATRIX_DEPTH * GRAD_WORDS] LANES_ALIGNED;
    VEC q_tile[PITCH_K / 2 * ROW_VECTORS] LANES_ALIGNED, dout_tile[PITCH_V / 2 * ROW_VECTORS] LANES_ALIGNED,
        p_tile[2 * BLOCK_VECTORS] LANES_ALIGNED, dt_keys[TILE_KV / 2 * ROW_VECTORS] LANES_ALIGNED,
        derivatives[GRAD_DERIVES ? TILE_KV * ROW_VECTORS : 1] LANES_ALIGNED;
    grad_tiles g = {k_rows,     v_rows, q_rows,    dout_rows, k_columns,   dk_rows, dv_rows, q_steps,
                    dout_steps, q_tile, dout_tile, p_tile,    derivatives, p_rows,  dt_rows, dt_keys};
    t.derivatives = derivatives;
    matrix_begin();
    grad_take_range(&g, &t, &c, &bounds, &keys, &values DROPOUT_VALUE);
    matrix_end();
}
