// decode_lanes.cl: attention of few query rows over many keys, for devices whose work-item owns vector
// registers. It is bound by reading K and V, so all query rows that read one K/V head (its group of query
// heads times Nq) share one pass over it, each row of K and V is read once and in order, and the head
// dimension is in the lanes. The keys may be split over work-items; combine.cl then merges the partial
// results. Called by the decode path. Local size 1; global size (splits, Hkv * ceil(group * Nq / ROWS), B).
// With splits > 1 out and lse are float32 partial results of a normal form: range s is at split_out * s and
// split_lse * s. Not here: returned weights and score taps (scores.cl), many query rows (flash_lanes.cl).
//
// Measured on a 2-core Zen 4 with PoCL 3.1, November 2026: 32 query heads on 8 K/V heads, 4096 keys, D = 128.
// float32 is bound by memory, and what matters is that K and V are read in address order: four keys at once,
// or half a row of V at a time, cost 30 to 45 %, and asking for memory ahead in software halved the speed
// (the first-level cache's miss buffers are then the limit; the second level's own prefetcher has more of
// them). bfloat16 in the third-level cache is bound by arithmetic: DOT_BF16 is 20 % faster. Adding up the
// lanes of sixteen keys in one tree, from memory, was 15 % slower: what is short there are loads, because the
// query does not fit the registers. From registers (four keys of four rows) it gave bfloat16 2 to 4 % and took a
// third of float32's speed, since the compiler then reads the four keys side by side.

// Other defaults than knobs.clh's. Float32 waits for memory: one key after the other, whole rows of V, so that the
// addresses only ever grow by a line. 16-bit storage is as fast as the arithmetic: fewer loads of the query, fewer
// accumulators.
#ifndef KEY_BLOCK
#define KEY_BLOCK (TYPE_KV == STORE_F32 ? 1 : 2)
#endif
#ifndef VALUE_ACCUMULATORS
#define VALUE_ACCUMULATORS (TYPE_KV == STORE_F32 ? 32 : 16)
#endif
#define STORAGE_PAIRS
#include "lanes.clh"
#include "fused.clh"
#include "kv.clh"

#if ROWS < 1 || ROWS > 8
#error "ROWS is 1 to 8"
#endif
#if KEY_TILE > 32 || KEY_TILE % LANES != 0 || KEY_TILE % KEY_BLOCK != 0
#error "KEY_TILE is a multiple of LANES and KEY_BLOCK, at most 32: what a row sees of it is one word"
#endif

// A head is pairs of vectors and a rest shorter than a pair.
#define SPAN (2 * LANES)
#define PAIRS (HEAD_DIM / SPAN)
#define REST (HEAD_DIM % SPAN)
#define PAIRS_V (HEAD_DIM_V / SPAN)
#define REST_V (HEAD_DIM_V % SPAN)
#define ALL_PAIRS (PAIRS + (REST > 0))
#define ALL_PAIRS_V (PAIRS_V + (REST_V > 0))

#if DOT_BF16 && (LANES != 16 || TYPE_Q != STORE_BF16 || TYPE_KV != STORE_BF16 || REST != 0)
#error "DOT_BF16 takes bfloat16 in q, k and v, 16 lanes, and HEAD_DIM a multiple of 32"
#endif
#if 4 * 2 * LANES * ROWS * (ALL_PAIRS + ALL_PAIRS_V) > PRIVATE_BYTES_MOST
#error "the rows of a pass do not fit private memory"
#endif

// Query rows whose output is in registers while a tile of V is read: a divisor of ROWS.
#define VALUE_ROWS_LIMIT (VALUE_ACCUMULATORS / (2 * ALL_PAIRS_V))
#if ROWS <= VALUE_ROWS_LIMIT
#define VALUE_ROWS ROWS
#elif ROWS % 4 == 0 && VALUE_ROWS_LIMIT >= 4
#define VALUE_ROWS 4
#elif ROWS % 3 == 0 && VALUE_ROWS_LIMIT >= 3
#define VALUE_ROWS 3
#elif ROWS % 2 == 0 && VALUE_ROWS_LIMIT >= 2
#define VALUE_ROWS 2
#else
#define VALUE_ROWS 1
#endif

#if DOT_BF16
typedef uint16 query_span;
uint16 load_bits(__global const ushort *p, long i) {
    return (uint16)(as_uint8(vload16(0, p + i)), as_uint8(vload16(0, p + i + 16)));
}
#define LOAD_KEYS(row, c) load_bits((row).at, (c)*SPAN)
VEC multiply_add(query_span x, query_span q, VEC sum) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(q));
    return sum;
}
void load_query(__global const ushort *q, query_span query[ALL_PAIRS]) {
    for (int c = 0; c < ALL_PAIRS; c++) query[c] = load_bits(q, c * SPAN);
}
#else
typedef vec_pair query_span;
#define LOAD_KEYS(row, c) ((c) < PAIRS ? kv_pair(row, (c)*SPAN) : kv_pair_part(row, PAIRS * SPAN, REST))
VEC multiply_add(query_span x, query_span q, VEC sum) {
    return fma(x.b, q.b, fma(x.a, q.a, sum));
}
void load_query(__global const ELEMENT(TYPE_Q) * q, query_span query[ALL_PAIRS]) {
    float x[ALL_PAIRS * SPAN];
    for (int d = 0; d < ALL_PAIRS * SPAN; d++) x[d] = d < HEAD_DIM ? LOAD(TYPE_Q, q, d) : 0.0f;
    for (int c = 0; c < ALL_PAIRS; c++) {
        const vec_pair natural = {VLOAD(2 * c, x), VLOAD(2 * c + 1, x)};
        query[c] = natural;
        if (c < PAIRS) query[c] = ORDER_PAIR(TYPE_KV, natural);
    }
}
#endif

// The query rows of a work-item; what it knows of each, in units of log2.
typedef struct query_rows {
    query_span query[ROWS][ALL_PAIRS];
    vec_pair out[ROWS][ALL_PAIRS_V];
    float score[ROWS][KEY_TILE]; // of the current tile: scores, then exp2(score - most)
    uint seen[ROWS];             // bit j: the tile's key j is visible; kept only where `hidden`
    bool hidden;                 // some row does not see some key of the tile
    int head[ROWS], row[ROWS], first[ROWS], last[ROWS]; // keys [first, last) by position
    float most[ROWS], sum[ROWS], rescale[ROWS];
    float scale[ROWS]; // of a score; with its log2(e) where nothing comes between the score and the softmax
    int b, shift;
} query_rows;

// Keys [first, first + count) of K or V.
typedef struct key_tile {
    kv_head keys, values;
    int first, count;
} key_tile;

// Scores of KEY_BLOCK keys from `key` on, for all rows. Keys from tile->count on repeat the last one, so that
// nothing past it is read.
// Static, against the habit (common.clh): clang then inlines it before PoCL 3.1 does, and float32 took 0.71 of the
// processor time, bfloat16 0.94 (Zen 5, Nov 2026).
static void score_keys(query_rows *rows, const key_tile *tile, int key) {
    kv_row k[KEY_BLOCK];
    VEC acc[ROWS][KEY_BLOCK];
#pragma unroll
    for (int j = 0; j < KEY_BLOCK; j++) {
        k[j] = kv_row_at(&tile->keys, tile->first + min(key + j, tile->count - 1));
#pragma unroll
        for (int r = 0; r < ROWS; r++) acc[r][j] = (VEC)(0.0f);
    }
#pragma unroll
    for (int c = 0; c < ALL_PAIRS; c++) {
#pragma unroll
        for (int j = 0; j < KEY_BLOCK; j++) {
            const query_span x = LOAD_KEYS(k[j], c);
#pragma unroll
            for (int r = 0; r < ROWS; r++) acc[r][j] = multiply_add(x, rows->query[r][c], acc[r][j]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int j = 0; j < KEY_BLOCK; j++) rows->score[r][key + j] = sum_lanes(acc[r][j]) * rows->scale[r];
    }
}

// Row r of a tile in which a key may be hidden, or an option changes the scores.
void finish_scores(const score_call *call, query_rows *rows, const key_tile *tile, int r) {
    score_place at = {rows->b, rows->head[r], 0, rows->shift, rows->row[r]};
    rows->seen[r] = 0;
    for (int j = 0; j < tile->count; j++) {
        at.j = tile->first + j;
        bool seen = at.j >= rows->first[r] && at.j < rows->last[r];
        rows->score[r][j] = score_step(call, &at, rows->score[r][j], &seen);
        rows->seen[r] |= (uint)seen << j;
    }
}

float largest_lane(VEC x) {
#if LANES == 16
    const float8 a = x.lo > x.hi ? x.lo : x.hi;
    const float4 b = a.lo > a.hi ? a.lo : a.hi;
#elif LANES == 8
    const float4 b = x.lo > x.hi ? x.lo : x.hi;
#else
    const float4 b = x;
#endif
    return fmax(fmax(b.x, b.y), fmax(b.z, b.w));
}

// Scores of row r become exp2(score - maximum), and its running maximum and sum follow.
void softmax_row(query_rows *rows, int r, int count) {
    float *score = rows->score[r];
    const int padded = (count + LANES - 1) / LANES * LANES;
    for (int j = count; j < padded; j++) score[j] = -INFINITY;
    VEC top = (VEC)(-INFINITY);
    for (int j = 0; j < padded; j += LANES) top = max_lanes(VLOAD(0, score + j), top);
    const float most = fmax(rows->most[r], largest_lane(top));
    const float base = most == -INFINITY ? 0.0f : most; // -inf minus -inf would be a NaN
    VEC total = (VEC)(0.0f);
    for (int j = 0; j < padded; j += LANES) {
        const VEC p = exp2_lanes((VLOAD(0, score + j) - base) * SCORE_TO_EXP2);
        VSTORE(p, 0, score + j);
        total += p;
    }
    rows->rescale[r] = most == rows->most[r] ? 1.0f : exp2((rows->most[r] - base) * SCORE_TO_EXP2);
    rows->sum[r] = fma(rows->sum[r], rows->rescale[r], sum_lanes(total));
    rows->most[r] = most;
}

vec_pair load_value(const key_tile *tile, int j, int pair) {
    const kv_row v = kv_row_at(&tile->values, tile->first + j);
    return pair < PAIRS_V ? kv_pair(v, pair * SPAN) : kv_pair_part(v, PAIRS_V * SPAN, REST_V);
}

// A pair of value columns of row r without the keys it does not see.
vec_pair add_seen(const query_rows *rows, const key_tile *tile, int r, int pair) {
    vec_pair o = rows->out[r][pair];
    o.a *= rows->rescale[r], o.b *= rows->rescale[r];
    for (int j = 0; j < tile->count; j++) {
        if (!((rows->seen[r] >> j) & 1u)) continue;
        const vec_pair x = load_value(tile, j, pair);
        o.a = fma((VEC)(rows->score[r][j]), x.a, o.a);
        o.b = fma((VEC)(rows->score[r][j]), x.b, o.b);
    }
    return o;
}

// out = rescale * out + P V for rows [first, first + VALUE_ROWS). Where keys are hidden their weight is 0,
// which is enough unless V holds an infinity or NaN there: then the sum shows it, and is done again with
// care.
void add_values(query_rows *rows, const key_tile *tile, int first) {
    vec_pair acc[VALUE_ROWS][ALL_PAIRS_V];
#pragma unroll
    for (int r = 0; r < VALUE_ROWS; r++) {
#pragma unroll
        for (int c = 0; c < ALL_PAIRS_V; c++) {
            acc[r][c].a = rows->out[first + r][c].a * rows->rescale[first + r];
            acc[r][c].b = rows->out[first + r][c].b * rows->rescale[first + r];
        }
    }
    for (int j = 0; j < tile->count; j++) {
#pragma unroll
        for (int c = 0; c < ALL_PAIRS_V; c++) {
            const vec_pair x = load_value(tile, j, c);
#pragma unroll
            for (int r = 0; r < VALUE_ROWS; r++) {
                acc[r][c].a = fma((VEC)(rows->score[first + r][j]), x.a, acc[r][c].a);
                acc[r][c].b = fma((VEC)(rows->score[first + r][j]), x.b, acc[r][c].b);
            }
        }
    }
    for (int r = 0; r < VALUE_ROWS; r++) {
        VEC all = (VEC)(0.0f);
        for (int c = 0; c < ALL_PAIRS_V; c++) all += acc[r][c].a + acc[r][c].b;
        const bool again = rows->hidden && any(isnan(all));
        for (int c = 0; c < ALL_PAIRS_V; c++)
            rows->out[first + r][c] = again ? add_seen(rows, tile, first + r, c) : acc[r][c];
    }
}

void add_tile(const score_call *call, query_rows *rows, const key_tile *tile) {
    rows->hidden = SCORE_OPS != 0;
    for (int r = 0; r < ROWS; r++)
        rows->hidden |= rows->first[r] > tile->first || rows->last[r] < tile->first + tile->count;
    for (int j = 0; j < tile->count; j += KEY_BLOCK) score_keys(rows, tile, j);
    for (int r = 0; r < ROWS; r++) {
        if (rows->hidden) finish_scores(call, rows, tile, r);
        softmax_row(rows, r, tile->count);
    }
    for (int r = 0; r + VALUE_ROWS <= ROWS; r += VALUE_ROWS) add_values(rows, tile, r);
}

// What row r starts with: its place, its interval of keys, and the sink, which is a key without a value.
void start_row(const score_call *call, const mask_rows *bounds, query_rows *rows, int r, int h_kv,
               int index) {
    const attention_args *a = call->args;
    const int h = h_kv * a->group + index / a->n_q, i = index % a->n_q;
    const float sink = get_group_id(0) == 0 ? table_sink(a, call->table, h) * SCORE_UNIT : -INFINITY;
    rows->head[r] = h, rows->row[r] = i;
    rows->first[r] = mask_first_key(bounds, i), rows->last[r] = mask_last_key(bounds, i);
    rows->scale[r] = score_scale(call, h) * SCORE_UNIT;
    rows->most[r] = sink;
    rows->sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
    for (int c = 0; c < ALL_PAIRS_V; c++) rows->out[r][c] = (vec_pair){(VEC)(0.0f), (VEC)(0.0f)};
}

void store_row(__global ELEMENT(TYPE_OUT) * out, const query_rows *rows, int r) {
    const float factor = rows->sum[r] == 0.0f ? 0.0f : 1.0f / rows->sum[r];
    for (int c = 0; c < ALL_PAIRS_V; c++) {
        const vec_pair y = c < PAIRS_V ? UNORDER_PAIR(TYPE_KV, rows->out[r][c]) : rows->out[r][c];
        float x[SPAN];
        VSTORE(y.a * factor, 0, x);
        VSTORE(y.b * factor, 1, x);
        for (int d = 0; d < SPAN && c * SPAN + d < HEAD_DIM_V; d++)
            STORE(TYPE_OUT, out, c * SPAN + d, rows->sum[r] == 0.0f ? 0.0f : x[d]);
    }
}

__kernel void decode_lanes(FUSED_ARGUMENTS) {
    const int all_rows = args.group * args.n_q, passes = (all_rows + ROWS - 1) / ROWS;
    const int split = (int)get_group_id(0), h_kv = (int)get_global_id(1) / passes;
    const int first_row = (int)get_global_id(1) % passes * ROWS;
    const score_call call = SCORE_CALL;
    query_rows rows;
    rows.b = (int)get_global_id(2);
    const mask_rows bounds = mask_rows_of(&args, table, rows.b);
    rows.shift = bounds.item.shift;
    int begin = INT_MAX, end = 0; // the keys that some row sees
    for (int r = 0; r < ROWS; r++) {
        // Rows past the end repeat the last one; they are not stored.
        start_row(&call, &bounds, &rows, r, h_kv, min(first_row + r, all_rows - 1));
        load_query(q + view_row(&args.q, rows.b, rows.head[r], rows.row[r]), rows.query[r]);
        begin = min(begin, rows.first[r]);
        end = max(end, rows.last[r]);
    }
    if (args.splits > 1) {
        begin = (int)max((long)begin, (long)split * args.split_keys);
        end = (int)min((long)end, (long)(split + 1) * args.split_keys);
    }
    const kv_buffers kv = KV_BUFFERS;
    key_tile tile = {kv_keys(&args, &kv, rows.b, h_kv), kv_values(&args, &kv, rows.b, h_kv), begin, 0};
    for (; tile.first < end; tile.first += KEY_TILE) {
        tile.count = min(KEY_TILE, end - tile.first);
        add_tile(&call, &rows, &tile);
    }
    for (int r = 0; r < ROWS && first_row + r < all_rows; r++) {
        const int h = rows.head[r], i = rows.row[r];
        if (i >= bounds.item.q_length) continue;
        store_row(out + view_row(&args.out, rows.b, h, i) + split * args.split_out, &rows, r);
        if (args.splits > 1 || (args.flags & ARGS_LSE))
            lse[view_row(&args.lse, rows.b, h, i) + split * args.split_lse] =
                rows.sum[r] == 0.0f ? -INFINITY : rows.most[r] * SCORE_TO_NATURAL + log(rows.sum[r]);
    }
}
