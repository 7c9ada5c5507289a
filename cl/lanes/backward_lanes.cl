// backward_lanes.cl: gradients of attention with respect to q, k and v, for CPU devices. It is the
// pass of lanes_gradients.clh with products of float32 vectors, or of bfloat16 pairs with DOT_BF16.
// dV, dK and dQ have columns in lanes and broadcast P and dT. So only Q and dO are transposed, once
// for TILE_KV keys.
//
// Global size: (parts, Hkv, batch), local size 1. Enqueued by clattn_attention_backward_enqueue
// after backward_rows.cl.
//
// Part of the peak that a register-only FMA loop reaches on a Sapphire Rapids with PoCL 3.1:
//   float32    N = 512: 80 %, causal 71 %   N = 4096: 86 %, causal 86 %
//   DOT_BF16   87 to 91 % of the instruction's own peak
// Tiles of 128 keys, more vectors of rows and more keys in registers were not faster.
#define PRODUCT_PRIVATE
#define PRODUCT_PADDED // rows in private memory are padded with 0
#define TILE_ALIGN (1 + DOT_BF16)
#define SCORE_GRADIENTS
#define GRAD_PAIRS DOT_BF16
#define GRAD_COLUMNS LANES
#define GRAD_KEYS_TRANSPOSED 0
// Products with columns in lanes have GRAD_ROWS x GRAD_VECTORS accumulators. K of GRAD_CHUNK keys
// stays in the first-level cache while all rows of a tile use it.
#define GRAD_ROWS 4
#define GRAD_VECTORS (LANES == 16 ? 4 : 2)
#define GRAD_CHUNK 64
// Rows of private memory for a tile of keys; a block of keys may end past the tile.
#define GRAD_KEYS (TILE_KV + (KEY_BLOCK > GRAD_ROWS ? KEY_BLOCK : GRAD_ROWS))
#include "args/backward_args.h"
#include "lanes/lanes_product.clh"
#include "lanes/lanes_gradients.clh"
#if DOT_BF16 && (TYPE_OUT != STORE_BF16 || KEY_BLOCK % 2 != 0)
#error "DOT_BF16 takes bfloat16 in dout, too, and whole pairs of keys"
#endif

#if LANE_ROWS % GRAD_ROWS != 0 || TILE_KV % GRAD_ROWS != 0
#error "GRAD_ROWS divides a tile's rows and its keys"
#endif

// acc[a][b] += x[a] * y[vector b] for `vectors` vectors.
REGISTER_INLINE void grad_step(VEC acc[GRAD_ROWS][GRAD_VECTORS], const float *x, const int x_row,
                               const float *y, const int vectors) {
    VEC z[GRAD_VECTORS];
#pragma unroll
    for (int b = 0; b < GRAD_VECTORS; b++)
        if (b < vectors) z[b] = *(const VEC *)(y + b * LANES);
#pragma unroll
    for (int a = 0; a < GRAD_ROWS; a++) {
        const VEC w = (VEC)(x[a * x_row]);
#pragma unroll
        for (int b = 0; b < GRAD_VECTORS; b++)
            if (b < vectors) acc[a][b] = product_add(w, z[b], acc[a][b]);
    }
}

// acc[a][b] += sum over the steps [from, end) of
// x[a * x_row + step * x_step] * y[step * pitch + b].
REGISTER_INLINE void grad_sum(VEC acc[GRAD_ROWS][GRAD_VECTORS], const float *x, const int x_row,
                              const int x_step, const float *y, const int pitch, int from, int end,
                              const int vectors) {
    int n = end - from;
    x += from * x_step, y += from * pitch;
#pragma unroll 1
    for (; n > 1; n -= 2, x += 2 * x_step, y += 2 * pitch) {
        grad_step(acc, x, x_row, y, vectors);
        grad_step(acc, x + x_step, x_row, y + pitch, vectors);
    }
    if (n > 0) grad_step(acc, x, x_row, y, vectors);
}

// The rows of a tile and a block of keys. If not all rows see all keys, products skip GRAD_ROWS
// keys or rows that no row sees by position. Intervals never decrease with the row.
typedef struct grad_block {
    const int *first, *last; // row r sees keys [first, last), relative to the block's first
    int keys, rows;
} grad_block;

// sums[key][column] += sum over rows of x[key][row] * y[row][column], for `vectors` vectors of
// columns.
REGISTER_INLINE void grad_add_keys(float *sums, const float *x, const float *y, const int pitch,
                                   const grad_block *at, const int vectors) {
    int r0 = 0, r1 = 0; // the rows that see any of the keys
#pragma unroll 1
    for (int j = 0; j < at->keys; j += GRAD_ROWS, sums += GRAD_ROWS * pitch, x += GRAD_ROWS * GRAD_WORDS) {
        while (r0 < at->rows && at->last[r0] <= j) r0++;
        while (r1 < at->rows && at->first[r1] < j + GRAD_ROWS) r1++;
        VEC acc[GRAD_ROWS][GRAD_VECTORS];
#pragma unroll
        for (int a = 0; a < GRAD_ROWS; a++)
#pragma unroll
            for (int b = 0; b < GRAD_VECTORS; b++)
                if (b < vectors) acc[a][b] = *(const VEC *)(sums + a * pitch + b * LANES);
        grad_sum(acc, x, GRAD_WORDS, 1, y, pitch, r0 / GRAD_STEP, PRODUCT_STEPS(r1), vectors);
#pragma unroll
        for (int a = 0; a < GRAD_ROWS; a++)
            if (j + a < at->keys) {
#pragma unroll
                for (int b = 0; b < GRAD_VECTORS; b++)
                    if (b < vectors) *(VEC *)(sums + a * pitch + b * LANES) = acc[a][b];
            }
    }
}

// All columns of the block's keys: dK from dT and Q, or dV from P and dO.
#define DEFINE_GRAD_ADD(name, width)                                                                         \
    void name(float *sums, const float *x, const float *y, const grad_block *at) {                           \
        const int pitch = LANES_ROUND_UP(width, LANES), each = GRAD_VECTORS * LANES;                         \
        const int last = pitch / each * each;                                                                \
        _Pragma("unroll 1") for (int d = 0; d < last; d += each)                                             \
            grad_add_keys(sums + d, x, y + d, pitch, at, GRAD_VECTORS);                                      \
        if (last < pitch) grad_add_keys(sums + last, x, y + last, pitch, at, (pitch - last) / LANES);        \
    }
DEFINE_GRAD_ADD(grad_add_dk, HEAD_DIM)
DEFINE_GRAD_ADD(grad_add_dv, HEAD_DIM_V)

// dq[row][column] += sum over keys of dT[key][row] * K[key][column], for `columns` columns from d
// on. `columns` is a constant: otherwise accumulators go through memory, and the kernel is 1.6
// times slower.
REGISTER_INLINE void grad_add_rows(__global float *dq, long stride, const float *dt, const float *k,
                                   const grad_block *at, int begin, int d, const int columns) {
    const int vectors = (columns + LANES - 1) / LANES;
#pragma unroll 1
    for (int i = 0; i < at->rows; i += GRAD_ROWS) {
        const int j0 = max(at->first[i], begin),
                  j1 = min(at->last[min(i + GRAD_ROWS, at->rows) - 1], min(begin + GRAD_CHUNK, at->keys));
        if (j0 >= j1) continue;
        VEC acc[GRAD_ROWS][GRAD_VECTORS];
#pragma unroll
        for (int a = 0; a < GRAD_ROWS; a++)
#pragma unroll
            for (int b = 0; b < GRAD_VECTORS; b++) acc[a][b] = (VEC)(0.0f);
        grad_sum(acc, dt + i, 1, LANE_ROWS, k + d, PITCH_K, j0 / GRAD_STEP, PRODUCT_STEPS(j1), vectors);
#pragma unroll
        for (int a = 0; a < GRAD_ROWS; a++)
            if (i + a < at->rows) {
                __global float *to = dq + (i + a) * stride + d;
#pragma unroll
                for (int b = 0; b < GRAD_VECTORS; b++) {
                    const int left = columns - b * LANES;
                    if (left >= LANES)
                        VSTORE(VLOAD(b, to) + acc[a][b], b, to);
                    else if (left > 0)
                        grad_add_part(to + b * LANES, acc[a][b], left);
                }
            }
    }
}

void grad_add_dq(__global float *dq, long stride, const VEC *dt_keys, const float *k, const grad_block *at) {
    const int each = GRAD_VECTORS * LANES, last = HEAD_DIM / each * each;
    const float *dt = (const float *)dt_keys;
#pragma unroll 1
    for (int j = 0; j < at->keys; j += GRAD_CHUNK) {
#pragma unroll 1
        for (int d = 0; d < last; d += each) grad_add_rows(dq, stride, dt, k, at, j, d, each);
        if (last < HEAD_DIM) grad_add_rows(dq, stride, dt, k, at, j, last, HEAD_DIM - last);
    }
}

// Weights of the block's keys [j, j + KEY_BLOCK); k is their first row of K.
REGISTER_INLINE void grad_weigh_keys(const grad_tiles *g, const tile_rows *t, const grad_element *k, int j) {
    VEC s[KEY_BLOCK][ROW_VECTORS];
    product_key keys[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) keys[a] = k + (j + a) * PITCH_K;
    product_score_block(s, g->q_tile, keys, HEAD_DIM);
    grad_weigh(g->p + j * ROW_VECTORS, s, g, t, j);
}

// dT of the same keys; v is their first row of V.
REGISTER_INLINE void grad_keys(const grad_tiles *g, const tile_rows *t, const grad_element *v,
                               int j DROPOUT_PARAMETER) {
    VEC dp[KEY_BLOCK][ROW_VECTORS], dt[KEY_BLOCK * ROW_VECTORS];
    product_key values[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) values[a] = v + (j + a) * PITCH_V;
    product_score_block(dp, g->dout_tile, values, HEAD_DIM_V);
    VEC *p = g->p + j * ROW_VECTORS;
    grad_derive(dt, p, dp, g, t, j DROPOUT_PASSED);
#if GRAD_PAIRS
    grad_keep(g, p, dt, j, j);
#else // the weights are already stored
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) g->dt_keys[j * ROW_VECTORS + x] = dt[x];
#endif
}

void grad_meet(const grad_tiles *g, const tile_rows *t, int first, int wants, __global float *dq, long stride,
               const grad_ahead *next DROPOUT_PARAMETER) {
    const grad_element *k = g->k + first * PITCH_K, *v = g->v + first * PITCH_V;
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) {
        grad_ask(next, j);
        grad_weigh_keys(g, t, k, j);
    }
    GRAD_DROP(g->p, t, 0, t->count);
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) grad_keys(g, t, v, j DROPOUT_PASSED);
    const int keys = LANES_ROUND_UP(t->count, GRAD_STEP); // a step's second key may be hidden
    if (!(g->keys_finite && g->rows_finite) && !tile_all_see(t, 0, keys)) {
        grad_add_selected(g, t, first, 0, t->count, wants & ARGS_WANTS_DQ ? dq : 0, stride);
        return;
    }
    VEC_INT sees_first[ROW_VECTORS] LANES_ALIGNED, sees_last[ROW_VECTORS] LANES_ALIGNED;
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++)
        sees_first[b] = t->first[b] - t->k0, sees_last[b] = t->last[b] - t->k0;
    const grad_block at = {(const int *)sees_first, (const int *)sees_last, t->count, t->rows};
    if (wants & ARGS_WANTS_DV) grad_add_dv(g->dv + first * PITCH_V, g->p_rows, g->dout, &at);
    if (wants & ARGS_WANTS_DK) grad_add_dk(g->dk + first * PITCH_K, g->dt_rows, g->q, &at);
    if (wants & ARGS_WANTS_DQ)
        grad_add_dq(dq, stride, g->dt_keys, g->k_steps + first / GRAD_STEP * PITCH_K, &at);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_lanes(GRAD_ARGUMENTS) {
    GRAD_DECLARE_CALL;
    // Padding, because the last rows are read as whole vectors.
    grad_element q_rows[LANE_ROWS * PITCH_K + 2 * LANES] LANES_ALIGNED,
        dout_rows[LANE_ROWS * PITCH_V + 2 * LANES] LANES_ALIGNED;
    grad_element k_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, v_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED;
    float dk_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, dv_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED;
    VEC q_tile[LANES_ROUND_UP(PRODUCT_STEPS(HEAD_DIM), LANES) * ROW_VECTORS] LANES_ALIGNED,
        dout_tile[LANES_ROUND_UP(PRODUCT_STEPS(HEAD_DIM_V), LANES) * ROW_VECTORS] LANES_ALIGNED,
        p_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED, dt_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
#if DOT_BF16
    float q_steps[GRAD_WORDS * PITCH_K] LANES_ALIGNED, dout_steps[GRAD_WORDS * PITCH_V] LANES_ALIGNED;
    float k_steps[GRAD_KEYS / 2 * PITCH_K] LANES_ALIGNED, p_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED,
        dt_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED;
    VEC dt_keys[TILE_KV / 2 * ROW_VECTORS] LANES_ALIGNED;
#else // the same arrays
    float *q_steps = q_rows, *dout_steps = dout_rows, *k_steps = k_rows, *p_rows = (float *)p_tile,
          *dt_rows = (float *)dt_tile;
    VEC *dt_keys = dt_tile;
#endif
    grad_tiles g = {k_rows,     v_rows, q_rows,    dout_rows, k_steps, dk_rows, dv_rows, q_steps,
                    dout_steps, q_tile, dout_tile, p_tile,    dt_tile, p_rows,  dt_rows, dt_keys};
    t.derivatives = dt_tile;
    grad_take_range(&g, &t, &c, &bounds, &keys, &values DROPOUT_VALUE);
}
