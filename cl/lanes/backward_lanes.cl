// backward_lanes.cl: the gradients of attention with respect to q, k and v for CPU devices, in one pass over pairs of tiles: five
// products of matrices, nothing computed twice. A work-item is a whole work-group and owns a range of keys of one key/value head. It
// takes them TILE_KV at a time, brings K and V of the tile into private memory as floats, and meets there, in ascending order, the
// tiles of LANE_ROWS query rows, of each query head of the group, that see any of the keys:
//   S^T[key][row], dP^T[key][row]   rows in lanes, as flash_lanes.cl's scores, so that one pipeline serves both directions
//   P and dT of the tile            exp(s - lse), and the gradient of scale * dot(q, k) times the scale
//   dV += P^T dO, dK += dT^T Q      sums of the tile of keys, in private memory
//   dQ += dT K                      of the range, float32 in scratch memory, which this work-item alone reads and writes
// The last three have columns in lanes and broadcast P and dT: nothing but Q and dO is ever transposed, once for TILE_KV keys.
// Every sum has one order. Keys past an item's, rows past an item's, and rows that see nothing are 0 or left alone as the header says.
// Global size: (parts, Hkv, batch), local size 1. Enqueued by the backward entry, after backward_rows.cl.
// Measured on PoCL 3.1, Sapphire Rapids (AVX-512), as a part of a register-only FMA loop in turns, five products counted, of causal calls
// half: f32, and bf16 by conversion, N = 512 80 %, 1024 84 %, 2048 and 4096 86 % and more, causal 71, 78, 83 and 86 %, D = 64 and 128
// alike. DOT_BF16, whose instruction has half of that rate there: 87 to 91 % of its own.
// Tried and left out: tiles of 128 keys: 2 to 4 points less; 3 or 4 vectors of rows, 12 keys in registers: no gain, causal calls slower.
#define PRODUCT_PRIVATE
#define PRODUCT_PADDED // rows in private memory end in 0
#define TILE_ALIGN (1 + DOT_BF16)
#define SCORE_GRADIENTS
#include "lanes/lanes_product.clh"
#include "backward/backward.clh"
#if PAST || PAGED || WEIGHTS || KV_SCALED || (DOT_BF16 && (TYPE_OUT != STORE_BF16 || KEY_BLOCK % 2 != 0))
#error                                                                                                       \
    "keys lie in one view, no weights are returned, and DOT_BF16 takes bfloat16 in dout, too, and whole pairs of keys"
#endif

// The products with columns in lanes go by steps, of one row or key, or with DOT_BF16 of two, as those of lanes_product.clh: an operand
// is then a word with a bfloat16 of each. Their accumulators: GRAD_ROWS rows (or keys) of GRAD_VECTORS vectors; and keys whose K stays in
// the first-level cache while all rows of a tile meet it.
#define GRAD_ROWS 4
#define GRAD_VECTORS (LANES == 16 ? 4 : 2)
#define GRAD_CHUNK 64
#if LANE_ROWS % GRAD_ROWS != 0 || TILE_KV % GRAD_ROWS != 0
#error "GRAD_ROWS divides a tile's rows and its keys"
#endif

// Vectors of a row in private memory, and rows there: a block of keys may begin anywhere in a tile and end behind it.
#define PITCH_K PRODUCT_PITCH_K
#define PITCH_V PRODUCT_PITCH_V
#define GRAD_KEYS (TILE_KV + (KEY_BLOCK > GRAD_ROWS ? KEY_BLOCK : GRAD_ROWS))
#define GRAD_WORDS (LANE_ROWS / PRODUCT_STEP) // of the tile's rows, as steps

// A tile of keys, and a tile of query rows that meets it; sizes of steps are PRODUCT_STEP.
typedef struct grad_tiles {
    product_key_element *k, *v;              // [key][column]
    product_key_element *q_rows, *dout_rows; // [row][column]
    float *k_steps;                          // [step of keys][column]
    float *dk, *dv;                          // [key][column]
    float *q, *dout;                         // [step of rows][column]
    VEC *q_tile, *dout_tile;                 // [column][row], as lanes_product.clh takes a query
    VEC *p, *derivatives;                    // [key][row], numbers
    float *p_rows, *dt_rows;                 // [key][step of rows]
    VEC *dt_keys;                            // [step of keys][row]
    VEC lse[ROW_VECTORS], delta[ROW_VECTORS];
    bool keys_finite, rows_finite; // K; Q and dO
} grad_tiles;

#if DOT_BF16
// n vectors of numbers as words of bfloat16, lane after lane.
REGISTER_INLINE void keep_words(float *to, const VEC *x, const int n) {
#pragma unroll
    for (int b = 0; b + 1 < n; b += 2) VSTORE(words_lanes(x[b], x[b + 1]), 0, to + b * LANES / 2);
    if (n % 2) vstore8(words_lanes(x[n - 1], (VEC)(0.0f)).lo, 0, to + (n - 1) * LANES / 2);
}
#endif

// Rows in global memory, `rows` of `width` numbers, into private memory, with 0 up to the pitch and up to row `all`: as steps, or, with
// `elements`, as they are multiplied by a query (or both). True where every number is finite: x * 0 is else a NaN.
#define GRAD_ROW_VECTOR(type, p, d, width)                                                                   \
    ((d) + LANES <= (width) ? LOAD_LANES(type, p, d) : LOAD_LANES_PART(type, p, d, (width) - (d)))
#if DOT_BF16
bool grad_copy_2(float *steps, ushort *elements, __global const ushort *p, long stride, int rows, int all,
                 const int width) {
    const int pitch = LANES_ROUND_UP(width, LANES);
    VEC sum = (VEC)(0.0f);
    for (int r = 0; r < all; r += 2, p += 2 * stride)
        for (int d = 0; d < pitch; d += LANES) {
            VEC x = (VEC)(0.0f), y = (VEC)(0.0f);
            if (r < rows) x = GRAD_ROW_VECTOR(STORE_BF16, p, d, width);
            if (r + 1 < rows) y = GRAD_ROW_VECTOR(STORE_BF16, p + stride, d, width);
            sum = fma(x, (VEC)(0.0f), fma(y, (VEC)(0.0f), sum));
            const VEC_UINT low = AS_VEC_UINT(x) >> 16, high = AS_VEC_UINT(y);
            if (steps) *(VEC *)(steps + r / 2 * pitch + d) = AS_VEC(low | high);
            if (elements) {
                VSTORE(TO_VEC_USHORT(low), 0, elements + r * pitch + d);
                VSTORE(TO_VEC_USHORT(high >> 16), 0, elements + (r + 1) * pitch + d);
            }
        }
    return sum_lanes(sum) == 0.0f;
}
#else
#define DEFINE_GRAD_COPY(type)                                                                               \
    bool grad_copy_##type(float *steps, float *elements, __global const ELEMENT(type) * p, long stride,      \
                          int rows, int all, const int width) {                                              \
        const int pitch = LANES_ROUND_UP(width, LANES);                                                      \
        float *to = elements ? elements : steps;                                                             \
        VEC sum = (VEC)(0.0f);                                                                               \
        for (int r = 0; r < rows; r++, p += stride, to += pitch)                                             \
            for (int d = 0; d < pitch; d += LANES) {                                                         \
                const VEC x = GRAD_ROW_VECTOR(type, p, d, width);                                            \
                sum = fma(x, (VEC)(0.0f), sum);                                                              \
                *(VEC *)(to + d) = x;                                                                        \
            }                                                                                                \
        for (int i = 0; i < (all - rows) * pitch; i += LANES) *(VEC *)(to + i) = (VEC)(0.0f);                \
        return sum_lanes(sum) == 0.0f;                                                                       \
    }
DEFINE_GRAD_COPY(0)
DEFINE_GRAD_COPY(1)
DEFINE_GRAD_COPY(2)
#endif
#define GRAD_COPY(type, steps, elements, p, stride, rows, all, width)                                        \
    PASTE(grad_copy_, type)(steps, elements, p, stride, rows, all, width)

// The keys [first, first + count) of the head, count at least 0, and no sums.
void grad_take_keys(grad_tiles *g, const kv_head *keys, const kv_head *values, int first, int count) {
    g->keys_finite = GRAD_COPY(TYPE_KV, g->k_steps, g->k, keys->at + first * keys->stride, keys->stride,
                               count, GRAD_KEYS, HEAD_DIM);
    GRAD_COPY(TYPE_KV, 0, g->v, values->at + first * values->stride, values->stride, count, GRAD_KEYS,
              HEAD_DIM_V);
    for (int i = 0; i < GRAD_KEYS * PITCH_K; i += LANES) *(VEC *)(g->dk + i) = (VEC)(0.0f);
    for (int i = 0; i < GRAD_KEYS * PITCH_V; i += LANES) *(VEC *)(g->dv + i) = (VEC)(0.0f);
}

// A round of transpose_lanes whose loops have constant ends: those of zip_lanes PoCL 3.1 unrolled in part alone, so that each round went
// through memory.
REGISTER_INLINE void grad_zip(VEC t[LANES]) {
    VEC u[LANES];
#pragma unroll
    for (int i = 0; i < LANES / 2; i++) {
        u[2 * i] = LANES_ZIP_FIRST(t[i], t[i + LANES / 2]);
        u[2 * i + 1] = LANES_ZIP_SECOND(t[i], t[i + LANES / 2]);
    }
#pragma unroll
    for (int i = 0; i < LANES; i++) t[i] = u[i];
}

// Rows in private memory, transposed: `columns` words of each, 0 in lanes without a row.
REGISTER_INLINE void grad_transpose(VEC *tile, const float *rows, const int pitch, const int columns,
                                    float factor) {
#pragma unroll 1
    for (int d = 0; d < columns; d += LANES, rows += LANES)
#pragma unroll 1
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC t[LANES];
#pragma unroll
            for (int r = 0; r < LANES; r++) t[r] = VLOAD(0, rows + (b * LANES + r) * pitch);
            grad_zip(t);
            grad_zip(t);
            if (LANES >= 8) grad_zip(t);
            if (LANES >= 16) grad_zip(t);
#pragma unroll
            for (int c = 0; c < LANES; c++) tile[(d + c) * ROW_VECTORS + b] = DOT_BF16 ? t[c] : t[c] * factor;
        }
}

// The tile's rows of Q and dO, as they lie and transposed, and what is known of them.
void grad_take_rows(grad_tiles *g, __global const ELEMENT(TYPE_Q) * q,
                    __global const ELEMENT(TYPE_OUT) * dout, __global const float2 *rows,
                    const tile_rows *t) {
    const attention_args *a = t->args;
    q += view_row(&a->q, t->b, t->h, t->i0), dout += view_row(&a->out, t->b, t->h, t->i0);
    const bool q_finite = GRAD_COPY(TYPE_Q, g->q, g->q_rows, q, a->q.row, t->rows, LANE_ROWS, HEAD_DIM);
    const bool dout_finite =
        GRAD_COPY(TYPE_OUT, g->dout, g->dout_rows, dout, a->out.row, t->rows, LANE_ROWS, HEAD_DIM_V);
    grad_transpose(g->q_tile, (const float *)g->q_rows, PITCH_K / PRODUCT_STEP, PRODUCT_STEPS(HEAD_DIM),
                   t->scale * SCORE_UNIT);
    grad_transpose(g->dout_tile, (const float *)g->dout_rows, PITCH_V / PRODUCT_STEP,
                   PRODUCT_STEPS(HEAD_DIM_V), 1.0f);
    g->rows_finite = q_finite && dout_finite;
    float lse[LANE_ROWS] LANES_ALIGNED, delta[LANE_ROWS] LANES_ALIGNED;
    for (int x = 0; x < LANE_ROWS; x++) {
        const float2 row = x < t->rows ? rows[t->i0 + x] : (float2)(INFINITY, 0.0f);
        lse[x] = row.x * SCORE_UNIT, delta[x] = row.y;
    }
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++)
        g->lse[b] = *(const VEC *)(lse + b * LANES), g->delta[b] = *(const VEC *)(delta + b * LANES);
}

// acc[a][b] += x[a] * y[vector b] for `vectors` of them.
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

// acc[a][b] += sum over the steps [from, end) of x[a * x_row + step * x_step] * y[step * pitch + vector b].
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

// A block of keys and the rows that meet it. Of a tile whose rows do not all see all keys the products leave out, GRAD_ROWS keys or
// rows at a time, what no row sees by its position: there is nothing but 0. Intervals never fall from a row to the next.
typedef struct grad_block {
    const int *first, *last; // of the keys that row r sees, counted from the block's first
    int keys, rows;
} grad_block;

// Columns of GRAD_VECTORS vectors, or of the last ones, of sums[key][column] += sum over rows of x[key][row] * y[row][column].
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
        grad_sum(acc, x, GRAD_WORDS, 1, y, pitch, r0 / PRODUCT_STEP, PRODUCT_STEPS(r1), vectors);
#pragma unroll
        for (int a = 0; a < GRAD_ROWS; a++)
            if (j + a < at->keys) {
#pragma unroll
                for (int b = 0; b < GRAD_VECTORS; b++)
                    if (b < vectors) *(VEC *)(sums + a * pitch + b * LANES) = acc[a][b];
            }
    }
}

// All columns of the keys of a block: dK of dT and Q, or dV of P and dO.
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

void grad_add_part(__global float *to, VEC x, int count) {
    const float *numbers = (const float *)&x;
    for (int c = 0; c < count; c++) to[c] += numbers[c];
}

// dq[row][column] += sum over keys of dT[key][row] * K[key][column], `columns` of them from d on, a constant: with calls for a vector's
// part on the way all accumulators went through memory, and the whole kernel took 1.6 times as long.
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
        grad_sum(acc, dt + i, 1, LANE_ROWS, k + d, PITCH_K, j0 / PRODUCT_STEP, PRODUCT_STEPS(j1), vectors);
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

// Number n of row r of steps, `pitch` words each; and of rows of p or dt. `odd`: in the upper half of a word.
#if DOT_BF16
#define GRAD_NUMBER(x, odd) as_float((odd) ? as_uint(x) & 0xffff0000u : as_uint(x) << 16)
#else
#define GRAD_NUMBER(x, odd) (x)
#endif
#define GRAD_AT_STEP(x, r, pitch, n) GRAD_NUMBER((x)[(r) / PRODUCT_STEP * (pitch) + (n)], (r) % 2)
#define GRAD_AT_ROW(x, r, n) GRAD_NUMBER((x)[(r)*GRAD_WORDS + (n) / PRODUCT_STEP], (n) % 2)

// The three products where a number of K, Q or dO is not finite and some row does not see some key: 0 * NaN must reach neither.
// dq may be 0.
void grad_add_selected(const grad_tiles *g, const tile_rows *t, int first, __global float *dq, long stride) {
    for (int j = 0; j < t->count; j++) {
        const int key = first + j;
        float *dk = g->dk + key * PITCH_K, *dv = g->dv + key * PITCH_V;
        for (int b = 0; b < ROW_VECTORS; b++) {
            int sees[LANES] LANES_ALIGNED;
            *(VEC_INT *)sees = tile_sees(t, b, j);
            for (int r = b * LANES; r < min(t->rows, (b + 1) * LANES); r++) {
                if (!sees[r - b * LANES]) continue;
                const float w = GRAD_AT_ROW(g->dt_rows, j, r), x = GRAD_AT_ROW(g->p_rows, j, r);
                for (int d = 0; d < HEAD_DIM; d++) dk[d] = fma(w, GRAD_AT_STEP(g->q, r, PITCH_K, d), dk[d]);
                for (int d = 0; d < HEAD_DIM && dq; d++)
                    dq[r * stride + d] =
                        fma(w, GRAD_AT_STEP(g->k_steps, key, PITCH_K, d), dq[r * stride + d]);
                for (int d = 0; d < HEAD_DIM_V; d++)
                    dv[d] = fma(x, GRAD_AT_STEP(g->dout, r, PITCH_V, d), dv[d]);
            }
        }
    }
}

// Rows of sums to the result.
void grad_store(__global ELEMENT(TYPE_GRADIENT) * to, long stride, const float *sums, int rows,
                const int width) {
    const int pitch = LANES_ROUND_UP(width, LANES);
    for (int r = 0; r < rows; r++, to += stride, sums += pitch)
        for (int d = 0; d < width; d += LANES)
            STORE_LANES_UP_TO(TYPE_GRADIENT, to, d, *(const VEC *)(sums + d), width - d);
}

// The range's share of dq begins at 0.
void grad_clear(__global float *dq, long stride, int rows) {
    for (int r = 0; r < rows; r++, dq += stride)
        for (int d = 0; d < HEAD_DIM; d += LANES)
            STORE_LANES_UP_TO(STORE_F32, dq, d, (VEC)(0.0f), HEAD_DIM - d);
}

// From a tile's scores to its weights and to dT.

#define GRAD_DERIVES ((bool)(SCORE_OPS & (ARGS_SOFTCAP | ARGS_SCORE_MOD)))
#define GRAD_SEES(t, x, j, seen)                                                                             \
    select((VEC)(0.0f), seen, tile_sees(t, (x) % ROW_VECTORS, (j) + (x) / ROW_VECTORS))

// Weights of the block's keys [j, j + KEY_BLOCK), whose rows of K begin at k. A hidden one is 0 by selection.
REGISTER_INLINE void grad_weigh_keys(const grad_tiles *g, const tile_rows *t, const product_key_element *k,
                                     int j) {
    VEC s[KEY_BLOCK][ROW_VECTORS];
    product_key keys[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) keys[a] = k + (j + a) * PITCH_K;
    product_score_block(s, g->q_tile, keys, HEAD_DIM);
    tile_scale_scores(s, t);
    tile_change_scores(s, t, j);
    VEC *p = g->p + j * ROW_VECTORS;
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++)
        p[x] = exp2_lanes((s[x / ROW_VECTORS][x % ROW_VECTORS] - g->lse[x % ROW_VECTORS]) * SCORE_TO_EXP2);
    if (!tile_all_see(t, j, KEY_BLOCK)) {
#pragma unroll
        for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) p[x] = GRAD_SEES(t, x, j, p[x]);
    }
}

// Weights and dT of those keys as the products take them.
REGISTER_INLINE void grad_keep(const grad_tiles *g, const VEC *p, const VEC *dt, int j) {
#if DOT_BF16
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) {
        keep_words(g->p_rows + (j + a) * GRAD_WORDS, p + a * ROW_VECTORS, ROW_VECTORS);
        keep_words(g->dt_rows + (j + a) * GRAD_WORDS, dt + a * ROW_VECTORS, ROW_VECTORS);
    }
#pragma unroll
    for (int x = 0; x < KEY_BLOCK / 2 * ROW_VECTORS; x++) {
        const int at = x / ROW_VECTORS * 2 * ROW_VECTORS + x % ROW_VECTORS;
        g->dt_keys[j / 2 * ROW_VECTORS + x] = pair_lanes(dt[at], dt[at + ROW_VECTORS]);
    }
#else
    (void)p; // they are there
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) g->dt_keys[j * ROW_VECTORS + x] = dt[x];
#endif
}

// dT of those keys, whose rows of V begin at v.
REGISTER_INLINE void grad_keys(const grad_tiles *g, const tile_rows *t, const product_key_element *v,
                               int j DROPOUT_PARAMETER) {
    VEC dp[KEY_BLOCK][ROW_VECTORS], dt[KEY_BLOCK * ROW_VECTORS];
    product_key values[KEY_BLOCK];
#pragma unroll
    for (int a = 0; a < KEY_BLOCK; a++) values[a] = v + (j + a) * PITCH_V;
    product_score_block(dp, g->dout_tile, values, HEAD_DIM_V);
    VEC *p = g->p + j * ROW_VECTORS;
    const VEC *by = g->derivatives + j * ROW_VECTORS;
#pragma unroll
    for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) {
        VEC z = dp[x / ROW_VECTORS][x % ROW_VECTORS], weight = p[x];
#if DROPOUT // a dropped weight has the sign bit; it is multiplied by 0, so that a NaN stays one
        const VEC_INT drops = AS_VEC_INT(weight) < 0;
        weight = AS_VEC(AS_VEC_INT(weight) & 0x7fffffff);
        const VEC factor = select((VEC)(dropout->factor), (VEC)(0.0f), drops);
        z *= factor, p[x] = weight * factor;
#endif
        const VEC ds = weight * (z - g->delta[x % ROW_VECTORS]);
        dt[x] = (GRAD_DERIVES ? ds * by[x] : ds) * t->scale;
    }
    if (!tile_all_see(t, j, KEY_BLOCK)) {
#pragma unroll
        for (int x = 0; x < KEY_BLOCK * ROW_VECTORS; x++) dt[x] = GRAD_SEES(t, x, j, dt[x]);
    }
    grad_keep(g, p, dt, j);
}

#if DROPOUT
// The sign bit of the weights that are dropped. A block of keys may begin and end within a quad.
void grad_drop(const grad_tiles *g, const tile_rows *t, const dropout_args *a) {
    for (int quad = t->k0 / 4; 4 * quad < t->k0 + t->count; quad++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC_INT drops[4];
            dropout_lanes(drops, a, t->b, TILE_HEADS(t, b), TILE_ROWS(t, b) + t->args->first_row,
                          (VEC_INT)(quad));
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const int j = 4 * quad + n - t->k0;
                if (j < 0 || j >= t->count) continue;
                VEC *p = g->p + j * ROW_VECTORS + b;
                *p = AS_VEC(AS_VEC_UINT(*p) | (AS_VEC_UINT(drops[n]) & 0x80000000u));
            }
        }
}
#endif

// The rows of the tile after this one, asked for a few with each block of scores: the second-level cache does not hold all of a head.
typedef struct grad_ahead {
    __global const ELEMENT(TYPE_Q) * q;
    __global const ELEMENT(TYPE_OUT) * dout;
    __global const float *dq;
    long q_row, dout_row, dq_row;
    int rows;
} grad_ahead;

#define GRAD_ASK(p, width)                                                                                   \
    for (int d = 0; d < (width); d += 64 / (int)sizeof *(p)) PREFETCH_FAR((p) + d)
REGISTER_INLINE void grad_ask(const grad_ahead *to, int j) {
    const int end = min(to->rows, (j + KEY_BLOCK) * LANE_ROWS / TILE_KV);
#pragma unroll 1
    for (int r = j * LANE_ROWS / TILE_KV; r < end; r++) {
        GRAD_ASK(to->q + r * to->q_row, HEAD_DIM);
        GRAD_ASK(to->dout + r * to->dout_row, HEAD_DIM_V);
        GRAD_ASK(to->dq + r * to->dq_row, HEAD_DIM);
    }
}

// The tile of rows meets the block of keys at hand, which is in the tile of keys from row `first` on. dq points at the first row.
void grad_meet(const grad_tiles *g, const tile_rows *t, int first, int wants, __global float *dq, long stride,
               const grad_ahead *next DROPOUT_PARAMETER) {
    const product_key_element *k = g->k + first * PITCH_K, *v = g->v + first * PITCH_V;
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) {
        grad_ask(next, j);
        grad_weigh_keys(g, t, k, j);
    }
#if DROPOUT
    grad_drop(g, t, dropout);
#endif
#pragma unroll 1
    for (int j = 0; j < t->count; j += KEY_BLOCK) grad_keys(g, t, v, j DROPOUT_PASSED);
    const int keys = LANES_ROUND_UP(t->count, PRODUCT_STEP); // a step's second key may be hidden
    if (!(g->keys_finite && g->rows_finite) && !tile_all_see(t, 0, keys)) {
        grad_add_selected(g, t, first, wants & ARGS_WANTS_DQ ? dq : 0, stride);
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
        grad_add_dq(dq, stride, g->dt_keys, g->k_steps + first / PRODUCT_STEP * PITCH_K, &at);
}

// What the tiles of a work-group share: where a head's rows lie, and their gradients of this range of keys.
typedef struct grad_call {
    const backward_args *grads;
    __global const ELEMENT(TYPE_Q) * q;
    __global const ELEMENT(TYPE_OUT) * dout;
    __global const float2 *rows;
    __global float *dq;
    int n_q;
} grad_call;

// The tiles of rows of query head t->h that see any of the keys [first, end) meet them.
void grad_take_head(grad_tiles *g, tile_rows *t, const grad_call *c, const mask_rows *bounds, int first,
                    int end DROPOUT_PARAMETER) {
    const args_view *view = &t->args->VIEW_DQ;
    __global const float2 *rows = backward_rows_of(c->grads, c->rows, t->b, t->h);
    for (int i0 = 0; i0 < c->n_q; i0 += LANE_ROWS) {
        const int last = min(i0 + LANE_ROWS, c->n_q) - 1;
        if (max(mask_first_key(bounds, i0), first) >= min(mask_last_key(bounds, last), end)) continue;
        tile_begin_rows(t, bounds, i0, c->n_q);
        tile_begin_mods(t);
        tile_find_intervals(t, bounds, first, end);
        t->begin -= (t->begin - first) % PRODUCT_STEP; // a tile of keys begins with a whole step
        tile_next(t, 0, t->begin);
        if (t->k0 >= t->end) continue;
        grad_take_rows(g, c->q, c->dout, rows, t);
        __global float *dq = c->dq + view_row(view, t->b, t->h, i0);
        const long i = i0 + LANE_ROWS;
        const args_view *vq = &t->args->q, *vd = &t->args->VIEW_DOUT;
        const grad_ahead next = {c->q + view_row(vq, t->b, t->h, i0) + LANE_ROWS * vq->row,
                                 c->dout + view_row(vd, t->b, t->h, i0) + LANE_ROWS * vd->row,
                                 dq + LANE_ROWS * view->row,
                                 vq->row,
                                 vd->row,
                                 view->row,
                                 (int)min((long)LANE_ROWS, c->n_q - i)};
        for (; t->k0 < t->end; tile_next(t, 0, t->next)) {
            tile_load_bias(t, t->call);
            grad_meet(g, t, t->k0 - first, c->grads->wants, dq, view->row, &next DROPOUT_PASSED);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
backward_lanes(BACKWARD_INPUTS, __global float *dq, __global ELEMENT(TYPE_GRADIENT) * dk,
               __global ELEMENT(TYPE_GRADIENT) * dv, BACKWARD_CALL) {
    const int part = UNIFORM_ID(0), h_kv = UNIFORM_ID(1), b = UNIFORM_ID(2);
    FUSED_DECLARE_ARGS;
    BACKWARD_ITEM(b);
    const mask_rows bounds = mask_rows_of(&item_args, table, b);
    const int q_length = bounds.item.q_length, kv_length = bounds.item.kv_length,
              h_end = (h_kv + 1) * args.group;
    const int written_q = RAGGED ? q_length : args.n_q, written = grads.packed_keys ? kv_length : args.n_kv;
    const grad_call c = {&grads, q, dout, item_rows, dq + part * grads.part_dq, min(args.n_q, q_length)};
    score_call call = SCORE_CALL;
    call.args = &item_args;
    const kv_buffers buffers = KV_BUFFERS;
    const kv_head keys = kv_keys(&item_args, &buffers, b, h_kv),
                  values = kv_values(&item_args, &buffers, b, h_kv);
    // The last rows are read as whole vectors.
    product_key_element q_rows[LANE_ROWS * PITCH_K + 2 * LANES] LANES_ALIGNED,
        dout_rows[LANE_ROWS * PITCH_V + 2 * LANES] LANES_ALIGNED;
    product_key_element k_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, v_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED;
    float dk_rows[GRAD_KEYS * PITCH_K] LANES_ALIGNED, dv_rows[GRAD_KEYS * PITCH_V] LANES_ALIGNED;
    VEC q_tile[LANES_ROUND_UP(PRODUCT_STEPS(HEAD_DIM), LANES) * ROW_VECTORS] LANES_ALIGNED,
        dout_tile[LANES_ROUND_UP(PRODUCT_STEPS(HEAD_DIM_V), LANES) * ROW_VECTORS] LANES_ALIGNED,
        p_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED, dt_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
#if DOT_BF16
    float q_steps[GRAD_WORDS * PITCH_K] LANES_ALIGNED, dout_steps[GRAD_WORDS * PITCH_V] LANES_ALIGNED;
    float k_steps[GRAD_KEYS / 2 * PITCH_K] LANES_ALIGNED, p_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED,
        dt_rows[TILE_KV * GRAD_WORDS] LANES_ALIGNED;
    VEC dt_keys[TILE_KV / 2 * ROW_VECTORS] LANES_ALIGNED;
#else // one and the same
    float *q_steps = q_rows, *dout_steps = dout_rows, *k_steps = k_rows, *p_rows = (float *)p_tile,
          *dt_rows = (float *)dt_tile;
    VEC *dt_keys = dt_tile;
#endif
    grad_tiles g = {k_rows,     v_rows, q_rows,    dout_rows, k_steps, dk_rows, dv_rows, q_steps,
                    dout_steps, q_tile, dout_tile, p_tile,    dt_tile, p_rows,  dt_rows, dt_keys};
    tile_rows t;
    t.args = &item_args, t.call = &call, t.b = b, t.bias = bias_tile, t.seen_tile = seen_tile;
    t.derivatives = dt_tile;

    if (grads.wants & ARGS_WANTS_DQ)
        for (int h = h_kv * args.group; h < h_end; h++)
            grad_clear(c.dq + view_row(&item_args.VIEW_DQ, b, h, 0), args.VIEW_DQ.row, written_q);
    const int end = (int)min((part + 1L) * grads.part_keys, (long)written);
    for (int first = (int)min((long)part * grads.part_keys, (long)written); first < end; first += TILE_KV) {
        const int count = min(TILE_KV, end - first), seen = clamp(kv_length - first, 0, count);
        grad_take_keys(&g, &keys, &values, first, seen);
        for (t.h = h_kv * args.group; t.h < h_end && seen > 0; t.h++)
            grad_take_head(&g, &t, &c, &bounds, first, first + seen DROPOUT_VALUE);
        if (grads.wants & ARGS_WANTS_DK)
            grad_store(dk + view_row(&item_args.VIEW_DK, b, h_kv, first), args.VIEW_DK.row, dk_rows, count,
                       HEAD_DIM);
        if (grads.wants & ARGS_WANTS_DV)
            grad_store(dv + view_row(&item_args.VIEW_DV, b, h_kv, first), args.VIEW_DV.row, dv_rows, count,
                       HEAD_DIM_V);
    }
}
