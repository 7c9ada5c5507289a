// flash_matrix.cl: attention with an online softmax on a CPU's matrix engine (matrix_tiles.clh),
// like flash_lanes.cl with both products on tiles. For bfloat16, or int8 keys and values with a
// scale per row (matrix_integers.clh). Score taps and heads above 256 are unsupported.
//
// A work-item is a whole work-group and owns 32 query rows, one per lane. S^T = K Q^T reads K as
// stored. O^T = V^T P^T uses the weights of pairs of keys, rounded to bfloat16, and V^T in tiles,
// which matrix_pack.cl packs once per key/value head. Softmax and masks are those of the lanes
// kernels.
//
// The base of the softmax is an integer that changes only if a maximum exceeds it by BASE_SLACK. So
// the output is seldom rescaled, and only by powers of two. Weights are at most 2^8, far from the
// limits of float32 and bfloat16. Global size: (row tiles * splits, heads, batch), local size 1.
#ifndef TYPE_KV
#define TYPE_KV STORE_BF16
#ifndef TYPE_Q // over int8 q is float32 by default
#define TYPE_Q STORE_BF16
#endif
#endif
#define TILE_SCALES_SCORES (TYPE_KV == STORE_BF16)
#define TILE_ALIGN 32          // MATRIX_DEPTH
#define RAGGED_PACKED_VALUES 1 // before items.clh is included
#include "lanes/lanes_softmax.clh"
#include "matrix/matrix_tiles.clh"

#define INTEGERS (TYPE_KV == STORE_I8)
#if !(TYPE_Q == STORE_BF16 && TYPE_KV == STORE_BF16) && !(STORE_IS_FLOAT(TYPE_Q) && INTEGERS) ||             \
    KV_TWO_TYPES || KV_GROUPED || HEAD_DIM > 256 || HEAD_DIM_V > 256
#error "q, k and v are bfloat16, or k and v int8 with a float32 scale a row, with heads of at most 256"
#endif
#if MATRIX_PACK_KEYS != MATRIX_DEPTH
#error "values are packed as tiles take them"
#endif
#if ROW_VECTORS != 2 || TILE_KV % MATRIX_DEPTH != 0 || TILE_KV > 512 || MATRIX_DEPTH % KEY_BLOCK != 0
#error "rows are in two vectors; TILE_KV is a multiple of 32, at most 512, and KEY_BLOCK divides 32"
#endif

#define BASE_SLACK (8.0f / SCORE_TO_EXP2) // a weight is at most 2^8
// rows of V^T, in whole pairs of tiles
#define VALUE_ROWS MATRIX_PACK_ROWS(HEAD_DIM_V)
#define VALUE_BLOCK MATRIX_PACK_BLOCK(HEAD_DIM_V, VALUE_SCALED) // elements of 32 packed keys
#define VALUE_AT(d, j) ((j) / MATRIX_DEPTH * VALUE_BLOCK + (d)*MATRIX_DEPTH + (j) % MATRIX_DEPTH)
#define VALUE_SCALE_AT(v, j)                                                                                 \
    (((__global const float *)((v) + (j) / MATRIX_DEPTH * VALUE_BLOCK +                                      \
                               VALUE_ROWS * MATRIX_DEPTH))[(j) % MATRIX_DEPTH])
// Index of term n of key j.
#define WEIGHT_AT(n, j, b) ((n)*TILE_KV / 2 * ROW_VECTORS + (j) / 2 * ROW_VECTORS + (b))
typedef __global const ushort *packed_pointer;

#if INTEGERS
#include "matrix/matrix_integers.clh"
#else
#define WEIGHT_TERMS 1
#define has_small_scales(v, count) false
#define scale_unit(scale) 1.0f
#define KEY_WIDTH LANES_ROUND_UP(HEAD_DIM, MATRIX_DEPTH) // numbers of a row of K, in whole tiles
#define QUERY_TILES (KEY_WIDTH / 2 * ROW_VECTORS)
typedef VEC query_tile;
typedef ushort key_copy;

// Load Q in pairs of columns, transposed.
void load_query(query_tile *to, __global const ushort *q, long stride, int rows, float scale) {
    (void)scale; // used for integers
    for (int d = 0; d < QUERY_TILES; d++) to[d] = (VEC)(0.0f);
    LOAD_ROWS(pair, to, q, stride, rows, HEAD_DIM);
}

// S^T of 32 keys from key j on. They are copied first if a row is not a whole number of tiles, or
// rows are missing.
void multiply_keys(VEC *s_tile, const VEC *q_tile, const kv_head *keys, ushort *copy, int j, int n_kv,
                   const tile_rows *t) {
    (void)t; // used for integers
    float *s = (float *)s_tile;
    const uint *q = (const uint *)q_tile;
#if HEAD_DIM % MATRIX_DEPTH == 0
    if (j + MATRIX_DEPTH <= n_kv && kv_run(keys, j, MATRIX_DEPTH) == MATRIX_DEPTH) {
        const kv_pointer k = kv_row_at(keys, j).at;
        const long stride = kv_stride(keys, j);
        MATRIX_PRODUCT_2X2(MATRIX_FROM_ZERO, s, MATRIX_PITCH, k, stride, MATRIX_SIDE * stride, MATRIX_DEPTH,
                           q, KEY_WIDTH / MATRIX_DEPTH);
        return;
    }
#endif
    for (int r = 0; r < MATRIX_DEPTH; r++) {
        const kv_pointer k = kv_row_at(keys, min(j + r, n_kv - 1)).at;
        const int count = j + r < n_kv ? HEAD_DIM : 0;
        for (int d = 0; d < KEY_WIDTH; d++) copy[r * KEY_WIDTH + d] = d < count ? k[d] : (ushort)0;
    }
    MATRIX_PRODUCT_2X2(MATRIX_FROM_ZERO, s, MATRIX_PITCH, copy, KEY_WIDTH, MATRIX_SIDE * KEY_WIDTH,
                       MATRIX_DEPTH, q, KEY_WIDTH / MATRIX_DEPTH);
}

// Convert scores to weights, rounded, in pairs of keys.
REGISTER_INLINE void scores_to_weights(VEC *p_tile, const VEC *s_tile, row_softmax *x, VEC *met,
                                       packed_pointer v, int count, bool small) {
    (void)v, (void)small; // values have no scales
    VEC base[ROW_VECTORS], sum[ROW_VECTORS], rounded[ROW_VECTORS];
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++)
        base[b] = softmax_base_lanes(x->m[b]), sum[b] = rounded[b] = (VEC)(0.0f);
#pragma unroll 1
    for (int j = 0; j < count; j += 2)
#pragma unroll
        for (int b = 0; b < ROW_VECTORS; b++) {
            const VEC first = exp2_lanes((s_tile[j * ROW_VECTORS + b] - base[b]) * SCORE_TO_EXP2);
            const VEC second = exp2_lanes((s_tile[(j + 1) * ROW_VECTORS + b] - base[b]) * SCORE_TO_EXP2);
            const VEC_UINT pair = matrix_pair(first, second);
            sum[b] += first, sum[b] += second;
            rounded[b] += AS_VEC(pair << 16), rounded[b] += AS_VEC(pair & 0xffff0000u);
            p_tile[j / 2 * ROW_VECTORS + b] = AS_VEC(pair);
        }
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) x->l[b] += sum[b], met[b] += rounded[b];
}
#endif

// Convert the products of 32 keys from key j of the block on to scores in place.
REGISTER_INLINE void keep_scores(VEC *s_tile, VEC *m, const tile_rows *t, int j) {
#pragma unroll 1
    for (int end = j + MATRIX_DEPTH; j < end; j += KEY_BLOCK) {
        VEC s[KEY_BLOCK][ROW_VECTORS];
#pragma unroll
        for (int i = 0; i < KEY_BLOCK * ROW_VECTORS; i++)
            s[i / ROW_VECTORS][i % ROW_VECTORS] = s_tile[j * ROW_VECTORS + i];
        tile_keep_scores(s_tile, m, s, t, j);
    }
}

// True if a row's maximum exceeds its base. Before the first key the base is -infinity, so any
// other score exceeds it.
bool base_is_passed(const VEC *m, const row_softmax *x) {
    VEC_INT above = m[0] > x->m[0] + BASE_SLACK;
    for (int b = 1; b < ROW_VECTORS; b++) above |= m[b] > x->m[b] + BASE_SLACK;
    const int8 a = above.lo | above.hi;
    const int4 c = a.lo | a.hi;
    return ((c.x | c.y) | (c.z | c.w)) != 0;
}

// Move the bases up to the next integer. `met` and the output are sums of rounded weights. x->l is
// the sum of weights that are not rounded.
void move_base(row_softmax *x, VEC *met, VEC *o_tile, const VEC *m) {
    for (int b = 0; b < ROW_VECTORS; b++) {
        const VEC to = max_lanes(ceil(m[b]), x->m[b]);
        const VEC keep = exp2_lanes((x->m[b] - softmax_base_lanes(to)) * SCORE_TO_EXP2);
        x->m[b] = to;
        x->l[b] *= keep, met[b] *= keep;
        for (int d = 0; d < VALUE_ROWS; d++) o_tile[d * ROW_VECTORS + b] *= keep;
    }
}

// O^T += V^T P^T over `count` keys, whose values begin at v.
void add_values(VEC *o_tile, const VEC *p_tile, packed_pointer v, int count) {
    for (int d = 0; d < VALUE_ROWS; d += 2 * MATRIX_SIDE)
        for (int n = 0; n < WEIGHT_TERMS; n++) {
            const uint *p = (const uint *)(p_tile + WEIGHT_AT(n, 0, 0));
            float *o = (float *)(o_tile + d * ROW_VECTORS);
            MATRIX_PRODUCT_2X2(MATRIX_FROM(o, MATRIX_PITCH), o, MATRIX_PITCH, v + VALUE_AT(d, 0),
                               MATRIX_DEPTH, VALUE_AT(MATRIX_SIDE, 0), VALUE_BLOCK, p, count / MATRIX_DEPTH);
        }
}

// As add_values, for tiles where a value is infinite or NaN and some row does not see it: 0 * NaN
// must not reach this row. Also used for values with small scales.
void add_values_selected(VEC *o_tile, const VEC *p_tile, packed_pointer v, const tile_rows *t, bool small) {
    for (int d = 0; d < HEAD_DIM_V; d++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = o_tile[d * ROW_VECTORS + b];
            for (int j = 0; j < t->count; j++) {
                const float unit = small ? 1.0f / scale_unit(VALUE_SCALE_AT(v, j)) : 1.0f;
                for (int n = 0; n < WEIGHT_TERMS; n++) {
                    const VEC_UINT pair = AS_VEC_UINT(p_tile[WEIGHT_AT(n, j, b)]);
                    const VEC p = AS_VEC(j % 2 != 0 ? pair & 0xffff0000u : pair << 16);
                    const VEC x = (VEC)(LOAD(STORE_BF16, v, VALUE_AT(d, j)) * unit);
                    o = select(o, fma(x, p, o), tile_sees(t, b, j));
                }
            }
            o_tile[d * ROW_VECTORS + b] = o;
        }
}

// False if a value of `count` keys is infinite or NaN.
bool values_finite(packed_pointer v, int count) {
    VEC sum = (VEC)(0.0f);
    for (int j = 0; j < count; j += MATRIX_DEPTH)
        for (int i = 0; i < VALUE_ROWS * MATRIX_DEPTH; i += LANES)
            sum = fma(LOAD_LANES(STORE_BF16, v, VALUE_AT(0, j) + i), (VEC)(0.0f), sum);
    return sum_lanes(sum) == 0.0f;
}

// Load Q and clear the sums.
void start_rows(query_tile *q_tile, VEC *o_tile, row_softmax *x, VEC *met, __global const ELEMENT(TYPE_Q) * q,
                const tile_rows *t) {
    load_query(q_tile, q + view_row(&t->args->q, t->b, t->h, t->i0), t->args->q.row, t->rows,
               t->scale * SCORE_UNIT);
    for (int d = 0; d < VALUE_ROWS * ROW_VECTORS; d++) o_tile[d] = (VEC)(0.0f);
    for (int b = 0; b < ROW_VECTORS; b++)
        x->m[b] = (VEC)(-INFINITY), x->l[b] = (VEC)(0.0f), met[b] = (VEC)(0.0f);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void flash_matrix(FUSED_ARGUMENTS) {
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(1, LANE_ROWS, 1)) return;
    const int tile = FUSED_PART, b = FUSED_ITEM(get_global_id), h = FUSED_HEAD(get_global_id);
    // With causality, the last tiles have the most keys. They start first, so that no core idles at
    // the end.
    const int group = FUSED_PARTS - 1 - tile, split = group % args.splits, h_kv = h / args.group;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const score_call call = SCORE_CALL;
    query_tile q_tile[QUERY_TILES] LANES_ALIGNED;
    VEC o_tile[VALUE_ROWS * ROW_VECTORS] LANES_ALIGNED, s_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC p_tile[WEIGHT_AT(WEIGHT_TERMS, 0, 0)] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
    key_copy copy[MATRIX_DEPTH * KEY_WIDTH] LANES_ALIGNED;

    tile_rows t;
    t.args = &args, t.call = &call, t.b = b, t.h = h, t.bias = bias_tile, t.seen_tile = seen_tile;
    FUSED_PLACE(t.place = &place, (void)0);
    if (!tile_begin(&t, &bounds, group / args.splits * LANE_ROWS, split)) return;
    const kv_buffers buffers = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &buffers, b, h_kv);
    // There are no rows from here on.
    const int last = PAST || RAGGED ? bounds.item.kv_length : args.n_kv;
    row_softmax x;
    VEC met[ROW_VECTORS], keep[ROW_VECTORS];
    start_rows(q_tile, o_tile, &x, met, q, &t);
    matrix_begin();

    // Packed values are in blocks of 32 keys. Keys before the first and after the last one are
    // hidden.
    for (tile_next(&t, 0, t.begin / MATRIX_DEPTH * MATRIX_DEPTH); t.k0 < t.end; tile_next(&t, 0, t.next)) {
        const int count = LANES_ROUND_UP(t.count, MATRIX_DEPTH);
        const packed_pointer values = (packed_pointer)v + view_row(&args.v, b, h_kv, t.k0 / MATRIX_DEPTH);
        VEC m[ROW_VECTORS];
        tile_load_bias(&t, &call);
        for (int c = 0; c < ROW_VECTORS; c++) m[c] = (VEC)(-INFINITY);
        for (int j = 0; j < count; j += MATRIX_DEPTH) {
            multiply_keys(s_tile + j * ROW_VECTORS, q_tile, &keys, copy, t.k0 + j, last, &t);
            keep_scores(s_tile, m, &t, j);
        }
#if WEIGHTS
        store_scores(weights, &t, s_tile);
#endif
        if (base_is_passed(m, &x)) move_base(&x, met, o_tile, m);
        const bool small = has_small_scales(values, count);
        scores_to_weights(p_tile, s_tile, &x, met, values, count, small);
        for (int n = 0; n < WEIGHT_TERMS; n++) {
            DROPOUT_DROP(p_tile + WEIGHT_AT(n, 0, 0), &t, true);
        }
        if (small || (!tile_all_see(&t, 0, count) && !values_finite(values, count)))
            add_values_selected(o_tile, p_tile, values, &t, small);
        else
            add_values(o_tile, p_tile, values, count);
    }

    matrix_end();
    finish_rows(&x, met, keep, o_tile, split == 0 ? table_sink(&args, table, h) * SCORE_UNIT : -INFINITY);
#if WEIGHTS
    finish_weights(weights, &t, &x);
#endif
    DROPOUT_SCALE_ROWS(keep);
    store_rows(out + split * args.split_out + view_row(&args.out, b, h, t.i0), args.out.row, t.rows, o_tile,
               keep);
    if (args.flags & ARGS_LSE) store_lse(lse + split * args.split_lse, &args.lse, &t, &x);
}
