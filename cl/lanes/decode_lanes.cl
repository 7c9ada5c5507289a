// decode_lanes.cl: attention of few query rows over many keys, out = softmax(scale * Q K^T) V, on
// CPUs. For many rows see flash_lanes.cl. Returned weights and score taps are unsupported.
//
// Reading K and V limits the speed. So all query rows of a K/V head (its group of query heads times
// Nq) share one pass over its keys, ROWS rows at a time. Each row of K and V is read once and in
// order, with the head dimension in the lanes. A work-item is a whole work-group and has ROWS rows
// and one split of the keys. Private memory: the queries, the output, and scores of KEY_TILE keys.
//
// Local size 1; global size (splits, Hkv * ceil(group * Nq / ROWS), B). With splits > 1, out and
// lse are float32 partial results for combine.cl: range s is at split_out * s and split_lse * s.
//
// Memory must be requested in address order and without pauses. On a Zen 5 prefetching a tile
// ahead, line by line, needs 0.5 to 0.99 of the time without. Some CPUs gain more from the
// second-level cache than from the first: probe_ask.cl measures both, and the planner sets the knob
// PREFETCH_LEVEL.

// Other defaults than knobs.def's. Float32 waits for memory: one key at a time, so that addresses
// increase line by line. 16-bit storage is limited by arithmetic: two keys share loads of the
// query.
#if DOT_I8 // keys that fill a vector of scores, or whose sums fit registers
#define KEY_BLOCK                                                                                            \
    (COLUMNS_IN_LANES ? VECTOR_KEYS : ROWS * DIGITS > 8 || KEY_TILE < 2 * LANES ? LANES : 2 * LANES)
#elif !defined(KEY_BLOCK)
#define KEY_BLOCK (TYPE_KV == STORE_F32 ? 1 : 2)
#endif
// 8 KiB of float32 keys, or 16 KiB of other types: each tile costs 270 cycles of waiting for the
// maximum. Integers use up to 20 KiB of keys and values.
#define TILE_IS_DOUBLE                                                                                       \
    (DOT_I8 && HEAD_DIM + HEAD_DIM_V <= (TYPE_KV >= STORE_Q4_0 && TYPE_V >= STORE_Q4_0 ? 256 : 128))
#ifndef KEY_TILE
#define KEY_TILE                                                                                             \
    (TYPE_KV != STORE_F32 ? (HEAD_DIM > 256   ? 16                                                           \
                             : HEAD_DIM > 128 ? 32                                                           \
                             : TILE_IS_DOUBLE ? 128                                                          \
                                              : 64)                                                          \
     : HEAD_DIM > 96      ? 16                                                                               \
     : HEAD_DIM > 64      ? 32                                                                               \
                          : 64)
#endif
#include "lanes/decode_lanes_scores.clh"
#if DOT_I8
#include "lanes/decode_lanes_values.clh"
#endif

#if DOT_VALUES
// Pairs of a column's values of two keys, in the order of the unpack instructions: groups of four
// columns.
REGISTER_INLINE vec_pair zip_values(uint16 first, uint16 second) {
    vec_pair x;
    __asm__("vpunpcklwd %2, %1, %0" : "=v"(x.a) : "v"(first), "v"(second));
    __asm__("vpunpckhwd %2, %1, %0" : "=v"(x.b) : "v"(first), "v"(second));
    return x;
}
#endif
#if DOT_VALUES || ZIPPED_VALUES
vec_pair order_values(vec_pair x) {
    const vec_pair n = UNORDER_PAIR(TYPE_V, x);
    return (vec_pair){(VEC)(n.a.s0123, n.a.s89ab, n.b.s0123, n.b.s89ab),
                      (VEC)(n.a.s4567, n.a.scdef, n.b.s4567, n.b.scdef)};
}
vec_pair unorder_values(vec_pair x) {
    return (vec_pair){(VEC)(x.a.s0123, x.b.s0123, x.a.s4567, x.b.s4567),
                      (VEC)(x.a.s89ab, x.b.s89ab, x.a.scdef, x.b.scdef)};
}
#else
#define order_values(x) (x)
#define unorder_values(x) UNORDER_PAIR(TYPE_V, x)
#endif

vec_pair load_value(const key_tile *tile, int j, int pair) {
    const kv_row v = TILE_ROW(tile, values, j);
    return pair < PAIRS_V ? order_values(kv_pair(v, pair * SPAN, KV_VALUE))
                          : kv_pair_part(v, PAIRS_V * SPAN, REST_V, KV_VALUE);
}

// A pair of value columns of row r over the keys that the row sees.
vec_pair add_seen(const query_rows *rows, const key_tile *tile, int r, int pair, vec_pair o) {
    const float *score = (const float *)rows->score + r;
    const float rescale = ROW_OF(rows->rescale, r);
    o.a *= rescale, o.b *= rescale;
    for (int j = 0; j < tile->count; j++) {
        if (rows->hidden && !((const int *)rows->seen[r])[j]) continue;
        const vec_pair x = load_value(tile, j, pair);
        o.a = fma((VEC)(score[KEY_PLACE(j)]), x.a, o.a);
        o.b = fma((VEC)(score[KEY_PLACE(j)]), x.b, o.b);
    }
    return o;
}

#if !DOT_I8
// acc += P V for the tile's keys, rows [first, first + VALUE_ROWS) and `pairs` pairs of columns
// from `column` on.
#if DOT_VALUES
REGISTER_INLINE void multiply_values(vec_pair acc[VALUE_ROWS][VALUE_PAIRS], const query_rows *rows,
                                     const key_tile *tile, int first, int column, const int pairs) {
    const float *pair = (const float *)rows->pair + first;
#pragma unroll 1
    for (int j = 0; j < tile->count; j += 2, pair += SLOTS) {
        const kv_row even = TILE_ROW(tile, values, j);
        const kv_row odd = TILE_ROW(tile, values, min(j + 1, tile->count - 1));
        if (first == 0) {
            ask_with_value(tile, j, column);
            ask_with_value(tile, j + 1, column);
        }
#pragma unroll
        for (int c = 0; c < pairs; c++) {
            const int at = (column + c) * SPAN;
            const uint16 none = (uint16)(0), second = load_pairs(odd.at, at);
            // A missing key has the weight 0, but 0 * infinity would be NaN.
            const vec_pair x = zip_values(load_pairs(even.at, at), j + 1 < tile->count ? second : none);
#pragma unroll
            for (int r = 0; r < VALUE_ROWS; r++) {
                acc[r][c].a = multiply_add(AS_VEC_UINT(x.a), AS_VEC_UINT((VEC)(pair[r])), acc[r][c].a);
                acc[r][c].b = multiply_add(AS_VEC_UINT(x.b), AS_VEC_UINT((VEC)(pair[r])), acc[r][c].b);
            }
        }
    }
}
#else
REGISTER_INLINE void multiply_values(vec_pair acc[VALUE_ROWS][VALUE_PAIRS], const query_rows *rows,
                                     const key_tile *tile, int first, int column, const int pairs) {
    const float *score = (const float *)rows->score + first;
#pragma unroll 1
    for (int j = 0; j < tile->count; j++, score += SLOTS) {
        if (first == 0) ask_with_value(tile, j, column);
#pragma unroll
        for (int c = 0; c < pairs; c++) {
            const vec_pair x = load_value(tile, j, column + c);
#pragma unroll
            for (int r = 0; r < VALUE_ROWS; r++) {
                acc[r][c].a = fma((VEC)(score[r]), x.a, acc[r][c].a);
                acc[r][c].b = fma((VEC)(score[r]), x.b, acc[r][c].b);
            }
        }
    }
}
#endif

// out = rescale * out + P V for a block of rows and columns.
REGISTER_INLINE void add_columns(query_rows *rows, const key_tile *tile, int first, int column,
                                 const int pairs) {
    vec_pair acc[VALUE_ROWS][VALUE_PAIRS];
#pragma unroll
    for (int r = 0; r < VALUE_ROWS; r++) {
        const float rescale = ROW_OF(rows->rescale, first + r);
#pragma unroll
        for (int c = 0; c < pairs; c++) {
            acc[r][c].a = rows->out[first + r][column + c].a * rescale;
            acc[r][c].b = rows->out[first + r][column + c].b * rescale;
        }
    }
    multiply_values(acc, rows, tile, first, column, pairs);
#pragma unroll
    for (int r = 0; r < VALUE_ROWS; r++)
#pragma unroll
        for (int c = 0; c < pairs; c++) { // member by member: the compiler copies a struct in parts
            rows->out[first + r][column + c].a = acc[r][c].a;
            rows->out[first + r][column + c].b = acc[r][c].b;
        }
}
#endif

// Add P V to rows [first, first + VALUE_ROWS). Hidden keys have weight 0. If V has an infinity or
// NaN there, the sum is NaN and is computed again without hidden keys.
void add_values(query_rows *rows, const key_tile *tile, int first) {
#if DOT_I8
    if (!rows->finite_values) {
        for (int r = 0; r < VALUE_ROWS; r++)
            for (int c = 0; c < ALL_PAIRS_V; c++)
                rows->out[first + r][c] = add_seen(rows, tile, first + r, c, rows->out[first + r][c]);
        return;
    }
    const bool hidden = false;
#else
    const bool hidden = rows->hidden;
#endif
    vec_pair before[VALUE_ROWS][ALL_PAIRS_V];
    for (int r = 0; hidden && r < VALUE_ROWS; r++)
        for (int c = 0; c < ALL_PAIRS_V; c++) before[r][c] = rows->out[first + r][c];
    for (int c = 0; c + VALUE_PAIRS <= ALL_PAIRS_V; c += VALUE_PAIRS)
        add_columns(rows, tile, first, c, VALUE_PAIRS);
    if (ALL_PAIRS_V % VALUE_PAIRS != 0)
        add_columns(rows, tile, first, ALL_PAIRS_V / VALUE_PAIRS * VALUE_PAIRS, ALL_PAIRS_V % VALUE_PAIRS);
    for (int r = 0; hidden && r < VALUE_ROWS; r++) {
        VEC all = (VEC)(0.0f);
        for (int c = 0; c < ALL_PAIRS_V; c++) all += rows->out[first + r][c].a + rows->out[first + r][c].b;
        if (!any(isnan(all))) continue;
        for (int c = 0; c < ALL_PAIRS_V; c++)
            rows->out[first + r][c] = add_seen(rows, tile, first + r, c, before[r][c]);
    }
}

void add_tile(const score_call *call, query_rows *rows, const key_tile *tile DROPOUT_PARAMETER) {
#if SCORE_OPS & ARGS_BLOCKS
    rows->hidden = FINISHED_APART || !call->whole;
#else
    rows->hidden = FINISHED_APART || SCORE_MASKED;
#endif
    for (int r = 0; r < ROWS; r++)
        rows->hidden |= rows->first[r] > tile->first || rows->last[r] < tile->first + tile->count;
#if DOT_I8 && !COLUMNS_IN_LANES
    key_block k[2];
    take_keys(&k[0], tile, 0, 0, KEY_BLOCK);
    for (int j = 0, n = 0; j < tile->count; j += KEY_BLOCK, n ^= 1)
        score_keys(rows, tile, j, &k[n], &k[n ^ 1]);
#else
    for (int j = 0; j < tile->count; j += KEY_BLOCK) score_keys(rows, tile, j);
#if DOT_I8
    score_singly(rows, tile);
#endif
#endif
    cap_scores(call, rows);
    for (int r = 0; r < ROWS && rows->hidden && FINISHED_BY_KEY; r++) finish_scores(call, rows, tile, r);
    if (rows->hidden) change_scores(call, rows, tile);
    softmax_rows(rows, tile->count);
#if DROPOUT
    drop_weights(rows, tile, dropout, call->args->first_row);
#endif
#if DOT_I8
    make_weights(rows, tile);
#endif
    for (int r = 0; r + VALUE_ROWS <= ROWS; r += VALUE_ROWS) add_values(rows, tile, r);
}

// Initialise row r: its place, its interval of keys, and the sink, which acts as a key without a
// value.
void start_row(const score_call *call, const mask_rows *bounds, query_rows *rows, int r, int h_kv,
               int index) {
    const attention_args *a = call->args;
    const int h = h_kv * a->group + index / a->n_q, i = index % a->n_q;
    const float sink = rows->split == 0 ? table_sink(a, call->table, h) * SCORE_UNIT : -INFINITY;
    rows->head[r] = h, rows->row[r] = i;
    rows->first[r] = mask_first_key(bounds, i), rows->last[r] = mask_last_key(bounds, i);
    for (int x = r; x < SLOT_VECTORS * LANES; x += SLOTS) {
        ((float *)rows->scale)[x] = score_scale(call, h) * SCORE_UNIT;
        ((float *)rows->most)[x] = sink;
        ((float *)rows->sum)[x] = sink == -INFINITY || x != r ? 0.0f : 1.0f;
    }
    for (int c = 0; c < ALL_PAIRS_V; c++) rows->out[r][c] = (vec_pair){(VEC)(0.0f), (VEC)(0.0f)};
    begin_mods(call, rows, r);
}

float sum_of_row(const query_rows *rows, int r) {
    float sum = 0.0f;
    for (int x = r; x < SLOT_VECTORS * LANES; x += SLOTS) sum += ROW_OF(rows->sum, x);
    return sum;
}

void store_row(__global ELEMENT(TYPE_OUT) * out, const query_rows *rows, int r, float scale) {
    const float sum = sum_of_row(rows, r), factor = sum == 0.0f ? 0.0f : scale / sum;
    for (int c = 0; c < ALL_PAIRS_V; c++) {
        const vec_pair y = c < PAIRS_V ? unorder_values(rows->out[r][c]) : rows->out[r][c];
        float x[SPAN];
        VSTORE(y.a * factor, 0, x);
        VSTORE(y.b * factor, 1, x);
        for (int d = 0; d < SPAN && c * SPAN + d < HEAD_DIM_V; d++)
            STORE(TYPE_OUT, out, c * SPAN + d, sum == 0.0f ? 0.0f : x[d]);
    }
}

// Keys to the next tile: a constant with one view and without a block mask.
#if PAST || PAGED || SCORE_OPS & ARGS_BLOCKS
#define TILE_STEP(tile) (tile).count
#else
#define TILE_STEP(tile) KEY_TILE
#endif

#if SCORE_OPS & ARGS_BLOCKS
#define SPLIT_KEYS(call, block, split, begin, end)                                                           \
    blocks_partition(call, block, split, (call)->args->splits, begin, end)
#else
#define SPLIT_KEYS(call, block, split, begin, end)                                                           \
    ((void)(block), split_keys((call)->args, split, begin, end))
#endif

// Reduce the keys [*begin, *end) to the part of a split.
void split_keys(const attention_args *a, int split, int *begin, int *end) {
    *begin = (int)max((long)*begin, (long)split * a->split_keys);
    *end = (int)min((long)*end, (long)(split + 1) * a->split_keys);
}

#ifndef PART_OF_PROBE // probe_ask.cl includes this file for its functions
__kernel void decode_lanes(FUSED_ARGUMENTS) {
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(1, ROWS, args.group)) return;
    const int all_rows = args.group * args.n_q;
#if !RAGGED
    const int passes = (all_rows + ROWS - 1) / ROWS;
#endif
    const int split = FUSED_PLACE(place.part % args.splits, (int)get_group_id(0)),
              h_kv = FUSED_PLACE(place.head, (int)get_global_id(1) / passes),
              first_row = FUSED_PLACE(place.part / args.splits, (int)get_global_id(1) % passes) * ROWS;
    score_call call = SCORE_CALL;
    query_rows rows;
    rows.b = FUSED_PLACE(place.b, (int)get_global_id(2)), rows.split = split;
    const mask_rows bounds = mask_rows_of(&args, table, rows.b);
    rows.shift = bounds.item.shift;
    bool finite = true;
    int begin = INT_MAX, end = 0;          // the keys that some row sees
    for (int s = 0; s < SLOT_VECTORS; s++) // including unused places
        rows.scale[s] = rows.sum[s] = (VEC)(0.0f), rows.most[s] = (VEC)(-INFINITY);
    for (int r = 0; r < ROWS; r++) {
        // Rows past the last row are copies of the last row, and are not stored.
        start_row(&call, &bounds, &rows, r, h_kv, min(first_row + r, all_rows - 1));
        finite &= load_query(q + view_row(&args.q, rows.b, rows.head[r], rows.row[r]), &rows.query[r]);
        begin = min(begin, rows.first[r]);
        end = max(end, rows.last[r]);
    }
#if DOT_I8
    rows.finite = finite;
    for (int x = 0; x < LANES; x++) ((float *)&rows.step)[x] = rows.query[x % SLOTS % ROWS].step;
#else
    (void)finite;
#endif
    const block_rows block = {rows.b, rows.head[0], rows.head[ROWS - 1], 0, args.n_q - 1};
    if (args.splits > 1) SPLIT_KEYS(&call, &block, split, &begin, &end);
    const kv_buffers kv = KV_BUFFERS;
#if PAST || PAGED
    const kv_head keys = kv_keys(&args, &kv, rows.b, h_kv), values = kv_values(&args, &kv, rows.b, h_kv);
    key_tile tile;
    tile.first = begin;
#else
    key_tile tile = {kv_keys(&args, &kv, rows.b, h_kv), kv_values(&args, &kv, rows.b, h_kv), begin, 0, 0};
#endif
#if PAGED
    kv_tile places[2][2];
    int n = 0;
#endif
    for (tile.first = BLOCKS_NEXT(&call, &block, tile.first, end); tile.first < end;
         tile.first = BLOCKS_NEXT(&call, &block, tile.first + TILE_STEP(tile), end)) {
        tile.count = BLOCKS_RUN(&call, &block, tile.first, min(KEY_TILE, end - tile.first));
        (void)SCORE_WHOLE(call, BLOCKS_HOLD(&call, &block, tile.first, tile.count));
#if PAGED
        // With a block mask the next tile may be anywhere, so each tile is looked up.
        find_tile(&tile, places, (SCORE_OPS & ARGS_BLOCKS) ? 0 : n++, &keys, &values, end);
#elif PAST
        tile.left = kv_run(&keys, tile.first, end - tile.first), tile.count = min(tile.left, tile.count);
        kv_take_part(&tile.keys, &keys, tile.first), kv_take_part(&tile.values, &values, tile.first);
#else
        tile.left = end - tile.first;
#endif
        add_tile(&call, &rows, &tile DROPOUT_VALUE);
    }
    for (int r = 0; r < ROWS && first_row + r < all_rows; r++) {
        const int h = rows.head[r], i = rows.row[r];
        const float sum = sum_of_row(&rows, r);
        if (i >= bounds.item.q_length) continue;
        store_row(out + view_row(&args.out, rows.b, h, i) + split * args.split_out, &rows, r,
                  DROPOUT_SCALED(1.0f));
        if (args.flags & ARGS_LSE)
            softmax_store(lse, view_row(&args.lse, rows.b, h, i) + split * args.split_lse, args.flags,
                          (softmax_state){ROW_OF(rows.most, r) * SCORE_TO_NATURAL, sum});
    }
}
#endif
