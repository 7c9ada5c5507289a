// decode_rows.cl: attention of few query rows whose many heads share a key/value head, on CPUs:
// multi-query attention, and multi-head latent attention (DeepSeek-V2). There 16 to 128 query heads
// read one row of 576 numbers, whose first 512 are the value. Ragged batches, returned weights and
// taps are unsupported.
//
// This is a matrix product, not limited by memory. As in flash_lanes.cl each lane has one row of
// the group (its query heads times Nq). A work-item is a whole work-group and has up to TILE_Q
// rows, in tiles of LANES * ROW_VECTORS. It converts a tile of TILE_KV keys in private memory to
// floats (or to pairs with DOT_BF16), and all tiles of rows use it there. So each number of K and V
// is read from global memory once for TILE_Q rows. With the knob SHARED_KV, a value is the first
// HEAD_DIM_V numbers of its key.
//
// Local size 1; global size (splits, Hkv * ceil(group * Nq / TILE_Q), B). With splits > 1, out and
// lse are partial results for combine.cl.

// Other defaults than those of knobs.def.
#ifndef TILE_Q
#define TILE_Q (LANES * ROW_VECTORS)
#endif
#define PRODUCT_PRIVATE
#define SCORE_HEADS // lanes are rows of several heads
// Scores are scaled as in decode_lanes.cl, so that both kernels compute equal scores near 1e7,
// where the last bit is a factor of e. A call with a shared prefix uses both.
#define TILE_SCALES_SCORES 1
#include "lanes/lanes_product.clh"
#include "lanes/lanes_softmax.clh"

#if RAGGED
#error "sequences of different lengths are for other kernels"
#endif
#if SCORE_OPS & ARGS_BLOCKS
#error "a block mask is for kernels whose tiles of keys are of one head"
#endif
#if TILE_Q % LANE_ROWS != 0
#error "TILE_Q is a multiple of LANES * ROW_VECTORS"
#endif
#if SHARED_KV && HEAD_DIM_V > HEAD_DIM
#error "with SHARED_KV a value is a part of its key"
#endif
#if ROWS_PRIVATE_BYTES(TILE_Q, TILE_KV, HEAD_DIM, HEAD_DIM_V) > PRIVATE_BYTES_MOST
#error "the rows and a tile of keys do not fit private memory"
#endif

// A tile whose rows belong to several heads: each lane's head, query row and score options. Row n
// of the group is query row n / group of its query head n % group.

// Lanes past the tile's rows repeat the last row.
int heads_row(const tile_rows *t, int n) {
    return t->i0 + min(n, t->rows - 1);
}

void heads_find_rows(tile_rows *t, int h_kv) {
    int head[LANE_ROWS] LANES_ALIGNED, row[LANE_ROWS] LANES_ALIGNED;
    float scale[LANE_ROWS] LANES_ALIGNED;
    for (int x = 0; x < LANE_ROWS; x++) {
        const int n = heads_row(t, x), h = h_kv * t->args->group + n % t->args->group;
        head[x] = h, row[x] = n / t->args->group;
        scale[x] = score_scale(t->call, h);
        score_head_lane(&t->numbers[x / LANES], x % LANES, t->call, h);
    }
    for (int b = 0; b < ROW_VECTORS; b++) {
        t->head[b] = *(const VEC_INT *)(head + b * LANES), t->row[b] = *(const VEC_INT *)(row + b * LANES);
        t->scales[b] = *(const VEC *)(scale + b * LANES);
    }
}

// Load bias and masks of the block lane by lane, because lanes have rows of different heads.
void heads_load_options(const tile_rows *t) {
    (void)t; // unused without the options
#if SCORE_OPS & (ARGS_BIAS | ARGS_MASK | ARGS_MASK_MOD)
    const int *head = (const int *)t->head, *row = (const int *)t->row;
    for (int x = 0; x < LANE_ROWS; x++) {
#if SCORE_OPS & ARGS_BIAS
        const args_view *v = &t->args->bias;
        const long at = view_at(v, t->b, head[x], row[x], t->k0);
        float *bias = (float *)t->bias + x;
        for (int j = 0; j < t->count; j++)
            bias[j * LANE_ROWS] = LOAD(TYPE_BIAS, t->call->bias, at + j * v->column);
#endif
        float *kept = (float *)t->seen + x;
#if SCORE_OPS & ARGS_MASK
        const args_view *m = &t->args->mask;
        __global const uchar *mask = t->call->mask + view_at(m, t->b, head[x], row[x], t->k0);
        for (int j = 0; j < t->count; j++) kept[j * LANE_ROWS] = (float)mask[j * m->column];
#endif
#if (SCORE_OPS & ARGS_MASK_MOD) && !MOD_MASK_LANES
        const mod_place p = mod_place_of(t->args, t->call->table, t->b, head[x]);
        for (int j = 0; j < t->count; j++) {
            const bool keeps = mod_keeps(&t->call->mods, &p, row[x], t->k0 + j);
            if (!(SCORE_OPS & ARGS_MASK) || !keeps) kept[j * LANE_ROWS] = keeps ? 1.0f : 0.0f;
        }
#endif
        (void)kept;
    }
#endif
#if MOD_MASK_LANES
    for (int j = 0; j < t->count; j++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC *seen = &t->seen[j * ROW_VECTORS + b];
            VEC_INT keep = mod_keeps_lanes(&t->kept[b], &t->call->mods, &t->place_of_mods, TILE_HEAD(t, b),
                                           TILE_ROWS(t, b), t->k0 + j);
            if (SCORE_OPS & ARGS_MASK) keep &= *seen != 0.0f;
            *seen = AS_VEC(keep & AS_VEC_INT((VEC)(1.0f)));
        }
#endif
}

// 1: prefetch the next tile's rows while a tile is multiplied and memory is idle. Bfloat16 with 16
// heads needs 0.85 of the time (Zen 5); float32 is slower with it.
#define FAR_AHEAD (!KV_IN_PLACE)

// A tile of rows: transposed query, output, softmax, and keys that the rows see. t.i0 counts rows
// of the group.
typedef struct rows_tile {
    VEC q[PRODUCT_STEPS(HEAD_DIM) * ROW_VECTORS], o[HEAD_DIM_V * ROW_VECTORS];
    row_softmax x;
    tile_rows t;
} rows_tile;

// Keys [k0, k0 + count) and their values in private memory.
typedef struct kept_keys {
    kv_head keys, values;   // where they are stored
    product_key_element *k; // TILE_KV rows of KEPT_PITCH_K
    float *v;               // rows of KEPT_PITCH_V, one per step
    int k0, count;
    int asked, end; // the head's rows below `asked` were prefetched; end of the keys
    int tiles;      // number of tiles of rows
} kept_keys;

#define KEPT_PITCH_K LANES_ROUND_UP(HEAD_DIM, LANES *PRODUCT_STEP)
#if SHARED_KV && !DOT_BF16
#define KEPT_PITCH_V KEPT_PITCH_K
#else
#define KEPT_PITCH_V LANES_ROUND_UP(HEAD_DIM_V, LANES *PRODUCT_STEP)
#endif

#if DOT_BF16
#define LOAD_STEPS(row, d, left, side)                                                                       \
    ((left) >= 2 * LANES ? load_lanes_pair((row).at, d) : load_lanes_part_pair((row).at, d, left))
#else
#define LOAD_STEPS(row, d, left, side) product_load(row, d, left, side)
#endif

// Copy `count` rows from j on; each number is read once.
void keep_rows(product_key_element *to, const kv_head *from, int j, int count, const int width,
               const int pitch, const int side) {
    for (int a = 0; a < count; a++, to += pitch) {
        const kv_row row = kv_row_at(from, j + a);
        for (int d = 0; d < width; d += LANES * PRODUCT_STEP)
            *(VEC *)(to + d) = LOAD_STEPS(row, d, width - d, side);
    }
}

#if DOT_BF16
// Make pairs of two keys from rows of bits, the first key in the lower half. A missing second key
// is 0, and so is its weight.
void pair_values(float *to, const ushort *bits, const int pitch, int count) {
    for (int j = 0; j < count; j += 2, to += KEPT_PITCH_V, bits += 2 * pitch)
        for (int d = 0; d < HEAD_DIM_V; d += LANES) {
            VEC_UINT pair = TO_VEC_UINT(*(const VEC_USHORT *)(bits + d));
            if (j + 1 < count) pair |= TO_VEC_UINT(*(const VEC_USHORT *)(bits + pitch + d)) << 16;
            *(VEC *)(to + d) = AS_VEC(pair);
        }
}
#endif

// Load the next tile of keys. Keys that fill up a block are 0; their scores are hidden.
void keep_keys(kept_keys *kept, product_key_element *bits, int k0, int end) {
    const int count = min(TILE_KV, end - k0);
    kept->k0 = k0, kept->count = count;
    kept->asked = k0 + count, kept->end = end;
    keep_rows(kept->k, &kept->keys, k0, count, HEAD_DIM, KEPT_PITCH_K, KV_KEY);
    for (int x = count * KEPT_PITCH_K; x < LANES_ROUND_UP(count, KEY_BLOCK) * KEPT_PITCH_K; x++)
        kept->k[x] = 0;
#if !SHARED_KV && !DOT_BF16
    keep_rows(kept->v, &kept->values, k0, count, HEAD_DIM_V, KEPT_PITCH_V, KV_VALUE);
#elif !SHARED_KV
    keep_rows(bits, &kept->values, k0, count, HEAD_DIM_V, KEPT_PITCH_V, KV_VALUE);
    pair_values(kept->v, bits, KEPT_PITCH_V, count);
#elif DOT_BF16
    pair_values(kept->v, kept->k, KEPT_PITCH_K, count);
#endif
    (void)bits; // unused in the other variants
}

// Column d of value j.
float kept_value(const kept_keys *kept, int j, int d) {
    const float x = kept->v[j / PRODUCT_STEP * KEPT_PITCH_V + d];
#if DOT_BF16
    return as_float(j % 2 != 0 ? as_uint(x) & 0xffff0000u : as_uint(x) << 16);
#else
    return x;
#endif
}

// False if a value is infinite or NaN: its product with 0 is NaN.
bool kept_values_finite(const kept_keys *kept) {
    float sum = 0.0f;
    for (int j = 0; j < kept->count; j++)
        for (int d = 0; d < HEAD_DIM_V; d++) sum = fma(kept_value(kept, j, d), 0.0f, sum);
    return sum == 0.0f;
}

// Scores of the tile's rows; m is the running maximum.
REGISTER_INLINE void score_rows(VEC *s_tile, VEC *m, const rows_tile *r, const kept_keys *kept) {
#pragma unroll 1
    for (int j = 0; j < kept->count; j += KEY_BLOCK) {
        VEC s[KEY_BLOCK][ROW_VECTORS];
        product_key keys[KEY_BLOCK];
#pragma unroll
        for (int a = 0; a < KEY_BLOCK; a++) keys[a] = kept->k + (j + a) * KEPT_PITCH_K;
        product_score_block(s, r->q, keys, HEAD_DIM);
        tile_keep_scores(s_tile, m, s, &r->t, j);
    }
}

// o = o * keep + P V if a value is infinite or NaN and some row does not see it.
void add_seen(rows_tile *r, const VEC *p_tile, const VEC *keep, const kept_keys *kept) {
    for (int d = 0; d < HEAD_DIM_V; d++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = r->o[d * ROW_VECTORS + b] * keep[b];
            for (int j = 0; j < kept->count; j++) {
                VEC p = p_tile[j / PRODUCT_STEP * ROW_VECTORS + b];
#if DOT_BF16
                p = AS_VEC(j % 2 != 0 ? AS_VEC_UINT(p) & 0xffff0000u : AS_VEC_UINT(p) << 16);
#endif
                o = select(o, fma((VEC)(kept_value(kept, j, d)), p, o), tile_sees(&r->t, b, j));
            }
            r->o[d * ROW_VECTORS + b] = o;
        }
}

// Prefetch a part of the next tile of keys with each block of columns of row tile n.
void prefetch_level(kept_keys *kept, int n, int d) {
    const int blocks = (HEAD_DIM_V + KEY_BLOCK - 1) / KEY_BLOCK;
    const int part = (n * blocks + d / KEY_BLOCK + 1) * TILE_KV / (kept->tiles * blocks);
    for (; kept->asked < min(kept->end, kept->k0 + TILE_KV + part); kept->asked++) {
        __global const uchar *k = (__global const uchar *)kv_row_at(&kept->keys, kept->asked).at,
                             *v = (__global const uchar *)kv_row_at(&kept->values, kept->asked).at;
        const int bytes_v = SHARED_KV ? 0 : STORED_BYTES(TYPE_V, HEAD_DIM_V);
#pragma unroll
        for (int i = 0; i < STORED_BYTES(TYPE_KV, HEAD_DIM); i += 64) PREFETCH_FAR(k + i);
#pragma unroll
        for (int i = 0; i < bytes_v; i += 64) PREFETCH_FAR(v + i);
    }
}

// Process the current tile of keys for row tile n.
REGISTER_INLINE void add_keys(rows_tile *r, VEC *s_tile, kept_keys *kept, int n DROPOUT_PARAMETER) {
    VEC m[ROW_VECTORS], keep[ROW_VECTORS];
    r->t.k0 = kept->k0, r->t.count = kept->count;
    heads_load_options(&r->t);
#pragma unroll
    for (int b = 0; b < ROW_VECTORS; b++) m[b] = r->x.m[b];
    score_rows(s_tile, m, r, kept);
    weigh_scores(s_tile, &r->x, m, keep, kept->count);
#if DROPOUT
    drop_weights(s_tile, &r->t, dropout, DOT_BF16);
#endif
    if (!tile_all_see(&r->t, 0, kept->count) && !kept_values_finite(kept)) {
        add_seen(r, s_tile, keep, kept);
    } else {
        const product_values values = {kept->v, KEPT_PITCH_V, PRODUCT_STEPS(kept->count)};
#pragma unroll 1
        for (int d = 0; d + KEY_BLOCK <= HEAD_DIM_V; d += KEY_BLOCK) {
            if (FAR_AHEAD) prefetch_level(kept, n, d);
            product_value_block(r->o, s_tile, keep, &values, d, KEY_BLOCK);
        }
        if (HEAD_DIM_V % KEY_BLOCK != 0)
            product_value_block(r->o, s_tile, keep, &values, HEAD_DIM_V / KEY_BLOCK * KEY_BLOCK,
                                HEAD_DIM_V % KEY_BLOCK);
    }
}

// The rows of a group: row n is query row n / group of query head n % group.
typedef struct group_rows {
    const attention_args *args;
    int b, h_kv;
} group_rows;

long row_of_group(const group_rows *g, const args_view *v, int n) {
    return view_row(v, g->b, g->h_kv * g->args->group + n % g->args->group, n / g->args->group);
}

#if DOT_BF16
#define LOAD_QUERY(p, i, left)                                                                               \
    ((left) >= 2 * LANES ? load_lanes_pair(p, i) : load_lanes_part_pair(p, i, left))
#else
#define LOAD_QUERY(p, i, left)                                                                               \
    ((left) >= LANES ? LOAD_LANES(TYPE_Q, p, i) : LOAD_LANES_PART(TYPE_Q, p, i, left))
#endif

// Load Q transposed and scaled, and clear the sums. A sink is a key without a value.
void start_tile(rows_tile *r, const group_rows *g, __global const ELEMENT(TYPE_Q) * q,
                __global const int *table, bool sinks) {
    const tile_rows *t = &r->t;
    float sink[LANE_ROWS] LANES_ALIGNED;
    for (int b = 0; b < ROW_VECTORS; b++) {
        long at[LANES];
        for (int x = 0; x < LANES; x++) {
            const int n = t->i0 + min(b * LANES + x, t->rows - 1),
                      h = g->h_kv * g->args->group + n % g->args->group;
            at[x] = row_of_group(g, &g->args->q, n);
            sink[b * LANES + x] = sinks ? table_sink(g->args, table, h) * SCORE_UNIT : -INFINITY;
        }
        for (int d = 0; d * PRODUCT_STEP < HEAD_DIM; d += LANES) {
            const int left = HEAD_DIM - d * PRODUCT_STEP;
            VEC x[LANES];
#pragma unroll
            for (int y = 0; y < LANES; y++) x[y] = LOAD_QUERY(q, at[y] + d * PRODUCT_STEP, left);
            transpose_lanes(x);
#pragma unroll
            for (int c = 0; c < LANES; c++)
                if (c * PRODUCT_STEP < left)
                    r->q[(d + c) * ROW_VECTORS + b] =
                        TILE_SCALES_SCORES ? x[c] : x[c] * (TILE_SCALE(t, b) * SCORE_UNIT);
        }
        r->x.m[b] = *(const VEC *)(sink + b * LANES);
        r->x.l[b] = select((VEC)(1.0f), (VEC)(0.0f), r->x.m[b] == -INFINITY);
    }
    for (int d = 0; d < HEAD_DIM_V * ROW_VECTORS; d++) r->o[d] = (VEC)(0.0f);
}

// Store the output of the tile's rows and their log-sum-exp.
void store_tile(rows_tile *r, const group_rows *g, __global ELEMENT(TYPE_OUT) * out,
                __global float *lse DROPOUT_PARAMETER) {
    const attention_args *a = g->args;
    VEC keep[ROW_VECTORS];
    finish_rows(&r->x, r->x.l, keep, r->o, -INFINITY);
#if DROPOUT
    for (int b = 0; b < ROW_VECTORS; b++) keep[b] *= dropout->factor;
#endif
    for (int b = 0; b < ROW_VECTORS; b++)
        for (int d = 0; d < HEAD_DIM_V; d += LANES) {
            const int count = min(LANES, HEAD_DIM_V - d);
            VEC x[LANES];
#pragma unroll
            for (int c = 0; c < LANES; c++)
                x[c] = c < count ? r->o[(d + c) * ROW_VECTORS + b] * keep[b] : (VEC)(0.0f);
            transpose_lanes(x);
            VEC lines[LANES]; // copied unrolled, so that x stays in registers
#pragma unroll
            for (int c = 0; c < LANES; c++) lines[c] = x[c];
            for (int n = b * LANES; n < min(r->t.rows, (b + 1) * LANES); n++) {
                const long at = row_of_group(g, &a->out, r->t.i0 + n) + d;
                if (count == LANES)
                    STORE_LANES(TYPE_OUT, out, at, lines[n % LANES]);
                else
                    store_rows_part(out, at, count, lines[n % LANES]);
            }
        }
    for (int n = 0; (a->flags & ARGS_LSE) && n < r->t.rows; n++) {
        const float l = ((const float *)r->x.l)[n], m = ((const float *)r->x.m)[n];
        softmax_store(lse, row_of_group(g, &a->lse, r->t.i0 + n), a->flags,
                      (softmax_state){m * SCORE_TO_NATURAL, l});
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void decode_rows(FUSED_ARGUMENTS) {
    const int blocks = (args.group * args.n_q + TILE_Q - 1) / TILE_Q;
    const int split = (int)get_group_id(0), b = (int)get_global_id(2);
    const int h_kv = (int)get_global_id(1) / blocks, first = (int)get_global_id(1) % blocks * TILE_Q;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const int rows = min(TILE_Q, args.group * min(args.n_q, bounds.item.q_length) - first);
    const int tiles = (rows + LANE_ROWS - 1) / LANE_ROWS;
    if (rows <= 0) return;
    const score_call call = SCORE_CALL;
    const group_rows g = {&args, b, h_kv};
    rows_tile all[TILE_Q / LANE_ROWS];
    VEC s_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
    product_key_element keep_k[TILE_KV * KEPT_PITCH_K] LANES_ALIGNED;
    const kv_buffers buffers = KV_BUFFERS;
    const kv_head head_k = kv_keys(&args, &buffers, b, h_kv), head_v = kv_values(&args, &buffers, b, h_kv);
#if SHARED_KV && !DOT_BF16
    kept_keys kept = {head_k, head_v, keep_k, keep_k, 0, 0, 0, 0, tiles};
#else
    float keep_v[PRODUCT_STEPS(TILE_KV) * KEPT_PITCH_V] LANES_ALIGNED;
    kept_keys kept = {head_k, head_v, keep_k, keep_v, 0, 0, 0, 0, tiles};
#endif
#if !SHARED_KV && DOT_BF16
    product_key_element bits[TILE_KV * KEPT_PITCH_V] LANES_ALIGNED;
#else
    product_key_element bits[1];
#endif

    const long keys = bounds.item.kv_length, span = args.splits > 1 ? args.split_keys : keys;
    const int begin = (int)min(split * span, keys), end = (int)min((split + 1) * span, keys);
    for (int n = 0; n < tiles; n++) {
        tile_rows *t = &all[n].t;
        t->args = &args, t->call = &call, t->b = b, t->shift = bounds.item.shift;
        t->bias = bias_tile, t->seen = t->seen_tile = seen_tile, t->masked = SCORE_MASKED;
        t->i0 = first + n * LANE_ROWS, t->rows = min(LANE_ROWS, rows - n * LANE_ROWS);
        t->scale = args.scale;
        heads_find_rows(t, h_kv);
        tile_begin_mods(t);
        tile_find_intervals(t, &bounds, begin, end);
        start_tile(&all[n], &g, q, table, split == 0);
    }
    for (int k0 = all[0].t.begin; k0 < all[tiles - 1].t.end; k0 += TILE_KV) {
        keep_keys(&kept, bits, k0, all[tiles - 1].t.end);
        for (int n = 0; n < tiles; n++) {
            const bool sees = all[n].t.begin < k0 + kept.count && all[n].t.end > k0;
            if (sees) add_keys(&all[n], s_tile, &kept, n DROPOUT_VALUE);
        }
    }
    for (int n = 0; n < tiles; n++)
        store_tile(&all[n], &g, out + split * args.split_out, lse + split * args.split_lse DROPOUT_VALUE);
}
