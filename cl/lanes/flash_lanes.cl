// flash_lanes.cl: out = softmax(scale * Q K^T) V in tiles with an online softmax (Dao et al. 2022),
// for CPU devices.
//
// A work-item is a whole work-group. It owns LANE_ROWS = LANES * ROW_VECTORS query rows of one
// head, one per vector lane, and one split of the keys. Scores of TILE_KV keys are computed
// transposed, S^T[key][row]. So maximum, sum and rescaling are operations of whole vectors: no
// local memory, no barrier, no exchange between lanes. Private memory: tiles of Q, output and
// scores, and packed K and V. With the knob WEIGHTS, the kernel also returns attention weights:
// scores are stored in the result and become weights when the row's maximum and sum are known.
// Score taps are unsupported.
//
// Global size: (row tiles * splits, heads, batch), local size 1. Enqueued by
// clattn_attention_enqueue.
//
// Part of the peak that a register-only FMA loop reaches on a Zen 4 with PoCL 3.1:
//   float32                            D = 128: 92 %   D = 64: 85 to 87 %
//   bfloat16 (DOT_BF16), peak doubled  D = 128: 85 %   D = 64: 76 to 78 %
// Tried without gain:
//   - packing float32 K and V like the 16-bit types;
//   - prefetching the next keys of the same head;
//   - rescaling the output in a separate pass: it is one fma where the accumulators are stored;
//   - more than 16 accumulators;
//   - skipping keys per row vector at the edges of a window;
//   - skipping mask checks in tiles that were trimmed to keys that all rows see.
#include "lanes/lanes_tile.clh"

// Prefetch of memory that the kernel uses for the first time. This is the output of the tile, query
// rows and window of the next tile, and keys and values of the next head. Within a head the
// hardware prefetcher suffices. Short heads (N = 128) gain 15 to 20 %.

#define AHEAD_LINE 64
#define AHEAD_BYTES                                                                                          \
    262144 // a head's keys and values up to this size are prefetched: two heads' fit the L2 cache

// Rows to prefetch; the stride is in bytes.
typedef struct ahead_rows {
    __global const uchar *at;
    long stride;
    int rows;
} ahead_rows;

typedef struct ahead {
    ahead_rows out, q, k, v;
    // Rows in the window of the next tile but not in this one's.
    ahead_rows new_k, new_v;
    int begin; // the first key of the tile
    int end;   // from this key on there is nothing to prefetch
    // Tile `part` of the `parts` tiles of a head prefetches every parts-th block of the next head.
    int part, parts;
} ahead;

#define AHEAD_ROWS(p, stride, rows)                                                                          \
    ((ahead_rows){(__global const uchar *)(p), (stride) * (long)sizeof *(p), rows})

// The longest run of rows in [first, first + n) of a head that begins at `first` and has a constant
// stride.
ahead_rows ahead_keys(const kv_head *head, int first, int n) {
    if (PAGED || n == 0) return (ahead_rows){0, 0, 0};
    return AHEAD_ROWS(kv_row_at(head, first).at, kv_stride(head, first), kv_run(head, first, n));
}

// Work-groups run in the order of tiles, from a head's last rows to its first, then of heads and of
// items. The arguments here_k and here_v are the keys and values of this head.
ahead ahead_find(const tile_rows *t, __global const ELEMENT(TYPE_Q) * q, const kv_buffers *kv,
                 const kv_head *here_k, const kv_head *here_v, __global ELEMENT(TYPE_OUT) * out_rows,
                 int part, int parts) {
    const attention_args *a = t->args;
    const bool last = t->h + 1 == a->heads, last_tile = t->i0 < LANE_ROWS, end = last && t->b + 1 == a->batch;
    const int next_h = last ? 0 : t->h + 1, next_b = t->b + last, kv_h = next_h / a->group;
    const int i0 = last_tile ? (a->n_q - 1) / LANE_ROWS * LANE_ROWS : t->i0 - LANE_ROWS;
    const int n_kv = FUSED_PLACE(t->place->keys, a->n_kv);
    const long kv_bytes = (long)n_kv * (STORED_BYTES(TYPE_KV, HEAD_DIM) + STORED_BYTES(TYPE_V, HEAD_DIM_V));
    const int q_rows = last_tile && end ? 0 : min(LANE_ROWS, a->n_q - i0);
    // Pages have no constant stride, so their keys are not prefetched.
    const int keys = PAGED || end || kv_bytes > AHEAD_BYTES || kv_h == t->h / a->group ? 0 : n_kv;
    ahead to;
    q += last_tile ? view_row(&a->q, end ? 0 : next_b, next_h, i0) : view_row(&a->q, t->b, t->h, i0);
    const kv_head k = kv_keys(a, kv, end ? 0 : next_b, kv_h), v = kv_values(a, kv, end ? 0 : next_b, kv_h);
    to.out = AHEAD_ROWS(out_rows, a->out.row, t->rows);
    to.q = AHEAD_ROWS(q, a->q.row, q_rows);
    to.k = ahead_keys(&k, 0, keys), to.v = ahead_keys(&v, 0, keys);
    const bool moves = !last_tile && a->splits == 1 && t->begin < t->end;
    const int new_keys = moves ? min(t->begin, LANE_ROWS) : 0;
    to.new_k = ahead_keys(here_k, t->begin - new_keys, new_keys);
    to.new_v = ahead_keys(here_v, t->begin - new_keys, new_keys);
    to.end = max(max(to.out.rows, max(to.q.rows, new_keys)) + t->k0, max(to.k.rows, to.v.rows));
    to.begin = t->k0, to.part = part, to.parts = parts;
    return to;
}

// Prefetch rows [first, end) as far as they exist. `bytes` per row is a constant.
REGISTER_INLINE void ahead_ask_rows(const ahead_rows *set, int first, int end, const int bytes,
                                    const bool write) {
    __global const uchar *row = set->at + first * set->stride;
    end = min(end, set->rows);
#pragma unroll 1
    for (int r = first; r < end; r++, row += set->stride)
#pragma unroll
        for (int i = 0; i < bytes; i += AHEAD_LINE) {
            if (write)
                PREFETCH_WRITE(row + i);
            else
                PREFETCH_FAR(row + i);
        }
}

#if WEIGHTS
// Prefetch a tile of the returned weights, some rows with each block of keys.
void ahead_ask_weights(__global float *weights, const tile_rows *t, int block) {
    const args_view *view = &t->args->weights;
    const int each = (LANE_ROWS * KEY_BLOCK + TILE_KV - 1) / TILE_KV;
    for (int r = block * each; r < min((block + 1) * each, t->rows); r++) {
        __global const uchar *row =
            (__global const uchar *)(weights + view_at(view, t->b, t->h, t->i0 + r, t->k0));
        for (int i = 0; i < t->count * 4; i += AHEAD_LINE) PREFETCH_WRITE(row + i);
    }
}
#endif

#define AHEAD_IS_DONE(to, key) ((key) >= (to)->end)
// Each part of a block of keys (PRODUCT_PART columns) prefetches a row or a few, which is 5 %
// faster than all rows of the block at once.
#define PRODUCT_PART 16
#define AHEAD_PARTS ((HEAD_DIM + PRODUCT_PART - 1) / PRODUCT_PART)
REGISTER_INLINE void ahead_ask(const ahead *to, int key, int part) {
    if (AHEAD_IS_DONE(to, key)) return;
    const int first = key + KEY_BLOCK * part / AHEAD_PARTS, end = key + KEY_BLOCK * (part + 1) / AHEAD_PARTS;
    ahead_ask_rows(&to->out, first - to->begin, end - to->begin, HEAD_DIM_V * sizeof(ELEMENT(TYPE_OUT)),
                   true);
    ahead_ask_rows(&to->q, first - to->begin, end - to->begin, HEAD_DIM * sizeof(ELEMENT(TYPE_Q)), false);
    ahead_ask_rows(&to->new_k, first - to->begin, end - to->begin, STORED_BYTES(TYPE_KV, HEAD_DIM), false);
    ahead_ask_rows(&to->new_v, first - to->begin, end - to->begin, STORED_BYTES(TYPE_V, HEAD_DIM_V), false);
    if (key / KEY_BLOCK % to->parts != to->part) return;
    ahead_ask_rows(&to->k, first, end, STORED_BYTES(TYPE_KV, HEAD_DIM), false);
    ahead_ask_rows(&to->v, first, end, STORED_BYTES(TYPE_V, HEAD_DIM_V), false);
}
#define PRODUCT_ASIDE_PARAMETERS , const ahead *next, int first_key
#define PRODUCT_ASIDE_VALUES , next, first_key
#define PRODUCT_ASIDE(part) ahead_ask(next, first_key, part)
#define PRODUCT_ASIDE_IDLE AHEAD_IS_DONE(next, first_key)
#include "lanes/lanes_product.clh"

// Exponentials leave the load ports idle, so the next rows of V are prefetched meanwhile: 1.5 %
// faster at D = 64, 1 % slower at D = 128 (Zen 5).
#if !PRODUCT_PACK_V && HEAD_DIM_V <= 64
void ask_for_value(const product_rows *kv, int j) {
    const kv_pointer at = PRODUCT_VALUE(kv, j).at;
#pragma unroll
    for (int d = 0; d < HEAD_DIM_V; d += AHEAD_LINE / 4) PREFETCH(at + d);
}
#define WEIGH_PARAMETERS , const product_rows *kv, int k0
#define WEIGH_VALUES , &kv, t.k0
#define WEIGH_STEP(j) ask_for_value(kv, k0 + j)
#else
#define WEIGH_VALUES
#endif
#include "lanes/lanes_softmax.clh"

// The tile of queries, and the functions of both products.
#if DOT_I8
#include "lanes/flash_lanes_integers.clh"
#define FLASH_DECLARE_QUERY                                                                                  \
    query_lanes q_tile[1] LANES_ALIGNED;                                                                     \
    value_tile v_tile LANES_ALIGNED
#define LOAD_QUERY(q_tile, q, t) load_query(q_tile, q, (t)->args->q.row, (t)->rows, (t)->scale *SCORE_UNIT)
#define FLASH_PACKED(floats) 1
#define SCORE_KEYS score_keys_by_integers
#define ADD_BY_INTEGERS(...) add_values_by_integers(__VA_ARGS__)
typedef query_lanes query_tile;
#else
#define FLASH_DECLARE_QUERY VEC q_tile[PRODUCT_STEPS(HEAD_DIM) * ROW_VECTORS] LANES_ALIGNED
#if DOT_BF16
#define LOAD_QUERY(q_tile, q, t) LOAD_ROWS(pair, q_tile, q, (t)->args->q.row, (t)->rows, HEAD_DIM)
#else
#define LOAD_QUERY(q_tile, q, t)                                                                             \
    LOAD_ROWS_SCALED(TYPE_Q, q_tile, q, (t)->args->q.row, (t)->rows, HEAD_DIM, (t)->scale *SCORE_UNIT)
#endif
#define FLASH_PACKED(floats) (floats)
#define SCORE_KEYS product_score_keys
#define ADD_BY_INTEGERS(...) false
typedef VEC query_tile;
#endif

// Like product_add_values, if a value is infinite or NaN and a row does not see it: 0 * NaN must
// not reach this row.
void add_values_selected(VEC *o_tile, const VEC *p_tile, const VEC *keep, const product_rows *kv,
                         const tile_rows *t) {
    for (int d = 0; d < HEAD_DIM_V; d++)
        for (int b = 0; b < ROW_VECTORS; b++) {
            VEC o = o_tile[d * ROW_VECTORS + b] * keep[b];
            for (int j = 0; j < t->count; j++) {
                const VEC v = (VEC)(kv_at(kv_row_at(&kv->values, t->k0 + j), d, KV_VALUE));
                VEC p = p_tile[j / PRODUCT_STEP * ROW_VECTORS + b];
#if DOT_BF16
                p = AS_VEC(j % 2 != 0 ? AS_VEC_UINT(p) & 0xffff0000u : AS_VEC_UINT(p) << 16);
#endif
                o = select(o, fma(v, p, o), tile_sees(t, b, j));
            }
            o_tile[d * ROW_VECTORS + b] = o;
        }
}

void clear_values(VEC *o_tile) {
    for (int d = 0; d < HEAD_DIM_V * ROW_VECTORS; d++) o_tile[d] = (VEC)(0.0f);
}

// Load Q transposed and scaled, and reset the softmax. The first block of keys overwrites the
// output.
void start_rows(query_tile *q_tile, row_softmax *x, __global const ELEMENT(TYPE_Q) * q, const tile_rows *t) {
    q += view_row(&t->args->q, t->b, t->h, t->i0);
    LOAD_QUERY(q_tile, q, t);
    for (int b = 0; b < ROW_VECTORS; b++) x->m[b] = (VEC)(-INFINITY), x->l[b] = (VEC)(0.0f);
}

#if PAGED
#define FLASH_DECLARE_TILES kv_tile key_tile, value_tile
#define FLASH_TILES_VALUE , &key_tile, &value_tile
#else
#define FLASH_DECLARE_TILES (void)0
#define FLASH_TILES_VALUE
#endif

#ifdef PART_OF_LAYER // layer_few_lanes.cl, which passes the tile and the number of tiles
void flash_lanes(FUSED_ARGUMENTS, const int tile, const int tiles, const int b, const int h) {
#else
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void flash_lanes(FUSED_ARGUMENTS) {
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(1, LANE_ROWS, 1)) return;
    const int tile = FUSED_PART, b = FUSED_ITEM(get_global_id), h = FUSED_HEAD(get_global_id),
              tiles = FUSED_PARTS;
#endif
    // With causality, the last tiles have the most keys. They start first, so that no core idles at
    // the end.
    const int group = tiles - 1 - tile, split = group % args.splits;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const score_call call = SCORE_CALL;
    FLASH_DECLARE_QUERY;
    VEC o_tile[HEAD_DIM_V * ROW_VECTORS] LANES_ALIGNED, s_tile[TILE_KV * ROW_VECTORS] LANES_ALIGNED;
    VEC bias_tile[TILE_BIAS_VECTORS] LANES_ALIGNED, seen_tile[TILE_SEEN_VECTORS] LANES_ALIGNED;
    float pack_k[FLASH_PACKED(PRODUCT_PACK_K ? KEY_BLOCK * PRODUCT_PITCH_K : 1)] LANES_ALIGNED;
    float pack_v[FLASH_PACKED(PRODUCT_PACK_V ? PRODUCT_STEPS(TILE_KV) * PRODUCT_PITCH_V : 1)] LANES_ALIGNED;

    tile_rows t;
    t.args = &args, t.call = &call, t.b = b, t.h = h, t.bias = bias_tile, t.seen_tile = seen_tile;
    FUSED_PLACE(t.place = &place, (void)0);
    if (!tile_begin(&t, &bounds, group / args.splits * LANE_ROWS, split)) return;
    const int h_kv = h / args.group;
    const kv_buffers buffers = KV_BUFFERS;
    FLASH_DECLARE_TILES;
    const product_rows kv = {kv_keys(&args, &buffers, b, h_kv), kv_values(&args, &buffers, b, h_kv), t.end,
                             pack_k, pack_v FLASH_TILES_VALUE};
    __global ELEMENT(TYPE_OUT) *out_rows = out + split * args.split_out + view_row(&args.out, b, h, t.i0);
    row_softmax x;
    VEC keep[ROW_VECTORS];
    // Values with a constant stride.
    const kv_head *const run = PRODUCT_PACK_V || PRODUCT_PAGED ? 0 : &kv.values;
    tile_next(&t, run, t.begin);
    const ahead next = ahead_find(&t, q, &buffers, &kv.keys, &kv.values, out_rows, tile, tiles);
    start_rows(q_tile, &x, q, &t);
    bool empty = true; // true: the output has not been written
    for (; t.k0 < t.end; tile_next(&t, run, t.next)) {
        tile_load_bias(&t, &call);
        product_find_rows(&kv, t.k0, t.count);
        VEC m[ROW_VECTORS];
#pragma unroll
        for (int c = 0; c < ROW_VECTORS; c++) m[c] = x.m[c];
#pragma unroll 1
        for (int j = 0; j < t.count; j += KEY_BLOCK) {
#if WEIGHTS
            ahead_ask_weights(weights, &t, j / KEY_BLOCK);
#endif
            SCORE_KEYS(s_tile, m, q_tile, &kv, &t, j, &next, t.k0 + j);
        }
#if WEIGHTS
        store_scores(weights, &t, s_tile);
#endif
        weigh_scores(s_tile, &x, m, keep, t.count WEIGH_VALUES);
        DROPOUT_DROP(s_tile, &t, DOT_BF16);
        if (ADD_BY_INTEGERS(o_tile, s_tile, keep, &v_tile, &kv, &t, empty)) {
            // ADD_BY_INTEGERS has already added the products
        } else if (DOT_I8 || (!tile_all_see(&t, 0, t.count) && !product_values_finite(&kv, &t))) {
            if (empty) clear_values(o_tile);
            add_values_selected(o_tile, s_tile, keep, &kv, &t);
        } else {
            product_values values;
            product_find_values(&values, &kv, t.k0, t.count);
            values.first = empty;
            product_add_values(o_tile, s_tile, keep, &values);
        }
        empty = false;
    }
    if (empty) clear_values(o_tile);
    finish_rows(&x, x.l, keep, o_tile, split == 0 ? table_sink(&args, table, h) * SCORE_UNIT : -INFINITY);
#if WEIGHTS
    finish_weights(weights, &t, &x);
#endif
    DROPOUT_SCALE_ROWS(keep);
    store_rows(out_rows, args.out.row, t.rows, o_tile, keep);
    if (args.flags & ARGS_LSE) store_lse(lse + split * args.split_lse, &args.lse, &t, &x);
}
