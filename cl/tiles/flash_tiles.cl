// flash_tiles.cl: out = softmax(scale * Q K^T) V with an online softmax, for GPUs, in OpenCL 1.2.
// Both products are tiled in registers (tiles.clh).
//
// A work-group of GROUP_ROWS x GROUP_COLUMNS work-items owns TILES_ROWS query rows of one head and
// one split of the keys. It loops over the keys, TILES_COLUMNS at a time. Work-item (ty, tx) has
// the scores of rows MICRO_ROWS * ty + 0, 1, ... and keys tx + GROUP_COLUMNS * j. It has the output
// of the same rows and columns 4 * (tx + GROUP_COLUMNS * c) + 0 to 3.
//   S = Q K^T  in chunks of CHUNK head columns.
//   softmax    one maximum per row and tile: GROUP_COLUMNS partial maxima in local memory,
//              finished by one work-item per row. With the knob SUBGROUP it stays in registers,
//              and a row's work-items are neighbours in a sub-group.
//   O += P V   in slices of GROUP_COLUMNS keys, the j-th key of every work-item: weights
//              transposed, [key][row], and V as stored, [key][column].
// Local memory: FLASH_TILES_LOCAL_FLOATS (args.h). With DROPOUT, a word per work-item has the
// dropped weights. Barriers are uniform: all loop bounds depend on the group alone. With HEAD_ROWS
// (decode_tiles.cl), the rows are those of all query heads of a key/value head.
#define OUT_QUADS TILES_QUADS(HEAD_DIM_V)
#define TYPE_RESULT TYPE_OUT
#include "tiles/tiles_results.clh"
#define SCORE_VECTORS // a vector has rows
#include "call/score.clh"
#include "tiles/subgroups.clh"

// The work of a work-item on its own rows between barriers: products to scores, weights and values
// to the output, and its store. A vector has the rows of one key or column.

// With HEAD_ROWS, row r of the tile is query row r / group of query head r % group of key/value
// head h. Without it, row r is query row r of head h. In both cases it is query row r /
// HEAD_SHARE(group).
#ifndef HEAD_ROWS
#define HEAD_ROWS 0
#define TILES_KERNEL flash_tiles
#endif
#if HEAD_ROWS
#if (SCORE_OPS & ~ARGS_SOFTCAP) || DROPOUT || RAGGED
#error "rows of several heads: no options that tell heads apart"
#endif
#define HEAD_SHARE(group) (group)
#define HEAD_OF(a, h, r) ((h) * (a)->group + (r) % (a)->group)
#else
#define HEAD_SHARE(group) 1
#define HEAD_OF(a, h, r) (h)
#endif
TILES_INLINE long head_row(const attention_args *a, const args_view *view, int b, int h, int r) {
    return view_row(view, b, HEAD_OF(a, h, r), r / HEAD_SHARE(a->group));
}

// The work-item's rows: the first one, and the last row and key that exist.
typedef struct score_rows {
    int b, h, i, i_last, j_last;
    const mask_rows *bounds;
    bool masked; // true if the boolean mask or mask_mod hides keys of the tile
} score_rows;

#if MICRO_ROWS == 8
#define ROWS_EACH(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7)
#define ROWS_BITS (VEC_INT)(1, 2, 4, 8, 16, 32, 64, 128)
#else
#define ROWS_EACH(X) X(0), X(1), X(2), X(3)
#define ROWS_BITS (VEC_INT)(1, 2, 4, 8)
#endif

// The factor of older sums if the row's maximum was m and `base` is now subtracted.
#define SHRINKS(m, base) exp2(((m) - (base)) * SCORE_TO_EXP2)

// A row's GROUP_COLUMNS work-items are neighbours in one sub-group. They are the whole sub-group,
// or a part of it that exchanges numbers by shuffles.
#if SUBGROUP
#define TILES_ITEM SUBGROUP_ITEM
#define ROWS_MAXIMA VEC
#if GROUP_COLUMNS == SUBGROUP
#define ROWS_MAX(n) subgroup_max(x.s##n)
#define ROWS_SUM(n) subgroup_sum(x.s##n)
TILES_INLINE VEC rows_maximum(VEC x) {
    return (VEC)(ROWS_EACH(ROWS_MAX));
}
TILES_INLINE VEC rows_sum(VEC x) {
    return (VEC)(ROWS_EACH(ROWS_SUM));
}
#elif GROUP_COLUMNS < SUBGROUP && SUBGROUP_SHUFFLES
#define ROWS_OTHER(n) subgroup_xor(x.s##n, mask)
TILES_INLINE VEC rows_maximum(VEC x) {
    for (int mask = 1; mask < GROUP_COLUMNS; mask *= 2) x = fmax(x, (VEC)(ROWS_EACH(ROWS_OTHER)));
    return x;
}
TILES_INLINE VEC rows_sum(VEC x) {
    for (int mask = 1; mask < GROUP_COLUMNS; mask *= 2) x += (VEC)(ROWS_EACH(ROWS_OTHER));
    return x;
}
#else
#error "SUBGROUP is GROUP_COLUMNS, or, where there are shuffles, more"
#endif
// The number subtracted from scores, as softmax_base. rows_grow raises m to the maximum of itself
// and all of the rows' scores.
TILES_INLINE VEC rows_base(VEC m) {
    return m == -INFINITY ? (VEC)(0.0f) : m;
}
TILES_INLINE VEC rows_grow(VEC *m, VEC largest) {
    const VEC before = *m;
    *m = fmax(before, rows_maximum(largest));
    return SHRINKS(before, rows_base(*m));
}
#else
#define TILES_ITEM ((int)get_local_id(0))
#define ROWS_MAXIMA float
#endif

// Pack a comparison's result to a bit per row, and unpack it.
TILES_INLINE uint rows_pack(VEC_INT x) {
    x &= ROWS_BITS;
#if MICRO_ROWS == 8
    const int4 y = x.lo | x.hi;
#else
    const int4 y = x;
#endif
    return (uint)(y.s0 | y.s1 | y.s2 | y.s3);
}
TILES_INLINE VEC_INT rows_unpack(uint bits) {
    return ((VEC_INT)((int)bits) & ROWS_BITS) != 0;
}

// Returns true if the block mask hides all keys of the tile from all rows. Otherwise *masked
// becomes true if the boolean mask or mask_mod may hide some keys.
TILES_INLINE bool tile_sees_nothing(const score_call *c, int b, int h, int i0, int i_last, int k0, int end,
                                    bool *masked) {
    const block_rows rows = {b, h, h, i0, i_last};
    const int holds = BLOCKS_HOLD(c, &rows, k0, min(TILES_COLUMNS, end - k0));
    (void)c, (void)rows, (void)k0, (void)end; // used with a block mask only
    *masked = SCORE_MASKED && holds != ARGS_BLOCK_FULL;
    return holds == ARGS_BLOCK_EMPTY;
}

// The bias of a key, and the rows from which the boolean mask or mask_mod hides this key. Rows past
// the last row are copies of it.
TILES_INLINE VEC rows_bias(const score_call *c, const score_rows *r, int j) {
#if SCORE_OPS & ARGS_BIAS
    __global const ELEMENT(TYPE_BIAS) *bias = c->bias + view_at(&c->args->bias, r->b, r->h, 0, j);
#define ROWS_BIAS(x) LOAD(TYPE_BIAS, bias, min(r->i + x, r->i_last) * c->args->bias.row)
    return (VEC)(ROWS_EACH(ROWS_BIAS));
#else
    return (VEC)(0.0f);
#endif
}
TILES_INLINE VEC_INT rows_masked(const score_call *c, const score_rows *r, int j) {
    VEC_INT masked = (VEC_INT)(0);
    if (!r->masked) return masked;
#if SCORE_OPS & ARGS_MASK
    __global const uchar *mask = c->mask + view_at(&c->args->mask, r->b, r->h, 0, j);
#define ROWS_MASK(x) mask[min(r->i + x, r->i_last) * c->args->mask.row]
    masked = (VEC_INT)(ROWS_EACH(ROWS_MASK)) == 0;
#endif
#if SCORE_OPS & ARGS_MASK_MOD
    const mod_place p = mod_place_of(c->args, c->table, r->b, r->h);
#define ROWS_KEEPS(x) mod_keeps(&c->mods, &p, r->i + x, j)
    masked |= (VEC_INT)(ROWS_EACH(ROWS_KEEPS)) == 0;
#endif
    return masked;
}

// The steps of score.clh except the masks, for one key's scores.
TILES_INLINE VEC rows_change(VEC s, const score_call *c, const score_rows *r, int j) {
    const score_place at = {r->b, r->h, j, r->bounds->item.shift, r->i + lane_numbers()};
    const score_head head = SCORE_HEAD(c, r->h);
    s = score_add(c, &at, score_cap(c->args, s), rows_bias(c, r, min(j, r->j_last)), &head);
    return score_own(c, &at, s);
}

// The keys that each row sees. Not always inlined, since it returns a struct: clang would declare
// noalias scopes, which Oclgrind 21.10 does not support.
mask_interval rows_see(const attention_args *a, const score_rows *r) {
#if HEAD_ROWS
#define ROWS_FIRST(x) mask_first_key(r->bounds, (r->i + x) / a->group)
#define ROWS_LAST(x) mask_last_key(r->bounds, (r->i + x) / a->group)
    const mask_interval sees = {(VEC_INT)(ROWS_EACH(ROWS_FIRST)), (VEC_INT)(ROWS_EACH(ROWS_LAST))};
    return sees;
#else
    (void)a;
    return mask_interval_of(r->bounds, r->i);
#endif
}

// Convert products to scores in SCORE_UNIT, or -inf for hidden keys. Returns a bit per hidden
// score, since a visible score may be -inf, too: MICRO_ROWS bits for each of the keys j,
// j + GROUP_COLUMNS, ...
TILES_INLINE uint finish_scores(tiles_sums *s, const score_call *c, const score_rows *r, int j,
                                bool all_see) {
    const bool changes = SCORE_OPS & ~ARGS_HEAD_SCALES;
    uint hidden = 0;
    tiles_scale(s, (VEC)(score_scale(c, r->h) * SCORE_UNIT));
    if (all_see && !changes) return 0;
    const mask_interval sees = rows_see(c->args, r);
    // Not unrolled: copies of tanh would fill the instruction cache.
#pragma unroll 1
    for (int x = 0; x < 4; x++, j += GROUP_COLUMNS) {
        VEC y = changes ? rows_change(s->c0, c, r, j) : s->c0;
        if (!all_see) {
            const VEC_INT hides = (sees.first > j) | (sees.last <= j) | (VEC_INT)(j > r->j_last ? -1 : 0) |
                                  rows_masked(c, r, min(j, r->j_last));
            y = select(y, (VEC)(-INFINITY), hides);
            hidden |= rows_pack(hides) << x * MICRO_ROWS;
        }
        s->c0 = s->c1, s->c1 = s->c2, s->c2 = s->c3, s->c3 = y;
    }
    return hidden;
}

// Multiply the sums by the rows' factors; rows without visible keys become 0.
TILES_INLINE void out_finish(out_sums *o, VEC factor, VEC empty) {
    const VEC_INT none = empty != 0.0f;
#define OUT_FINISH(n)                                                                                        \
    tiles_scale(&o->q##n, factor);                                                                           \
    o->q##n.c0 = select(o->q##n.c0, (VEC)(0.0f), none), o->q##n.c1 = select(o->q##n.c1, (VEC)(0.0f), none);  \
    o->q##n.c2 = select(o->q##n.c2, (VEC)(0.0f), none), o->q##n.c3 = select(o->q##n.c3, (VEC)(0.0f), none);
    OUT_EACH(OUT_FINISH)
}

// The rows of the output; rows from `end` on are not stored.
typedef struct out_rows {
    __global ELEMENT(TYPE_OUT) * at;
    const attention_args *args;
    int b, h, end;
} out_rows;

TILES_INLINE void out_store(const out_rows *to, out_sums *o, int i, int tx, VEC factor, VEC empty) {
    out_finish(o, factor, empty);
#pragma unroll 1
    for (int x = 0; x < MICRO_ROWS; x++) {
        const int columns =
            i + x < to->end ? HEAD_DIM_V : 0; // no break: PoCL 3.1 then stored columns past the end
        __global ELEMENT(TYPE_OUT) *row = to->at + head_row(to->args, &to->args->out, to->b, to->h, i + x);
        out_store_row(row, o, tx, columns, OUT_QUADS);
    }
}

#if TILES_ROWS > TILES_GROUP
#error "MICRO_ROWS is at most GROUP_COLUMNS: a row's maximum is finished by a work-item of its own"
#endif
#define PARTIAL_LINES FLASH_TILES_LINES(GROUP_COLUMNS, SUBGROUP)
#define SHARED_FOURS (FLASH_TILES_SHARED(MICRO_ROWS, GROUP_ROWS, GROUP_COLUMNS, CHUNK, HEAD_DIM_V) / 4)

// The query rows of a head. With HEAD_ROWS they belong to several heads, and `places` has their
// offsets.
#if HEAD_ROWS
typedef struct query_rows {
    __global const ELEMENT(TYPE_Q) * at;
    __local const long *places;
    int first;
} query_rows;
#define QUERY_ROW(from, row) ((from)->at + (from)->places[(row) - (from)->first])
#define QUERY_DECLARE_PLACES __local long places[TILES_ROWS]
#define QUERY_FIND_PLACES                                                                                    \
    if (id < TILES_ROWS) places[id] = head_row(&args, &args.q, b, h, min(i0 + id, i_last))
#define QUERY_ROWS                                                                                           \
    { q, places, i0 }
#else
typedef struct query_rows {
    __global const ELEMENT(TYPE_Q) * at;
    long stride;
} query_rows;
#define QUERY_ROW(from, row) ((from)->at + (row) * (from)->stride)
#define QUERY_DECLARE_PLACES
#define QUERY_FIND_PLACES
#define QUERY_ROWS                                                                                           \
    { q + view_row(&args.q, b, h, 0), args.q.row }
#endif
// If CHUNK divides the row, no piece is past its end, which compilers do not see.
#define ROW_WIDTH(d) (HEAD_DIM % CHUNK ? HEAD_DIM : (d) + TILES_READ)
#if ALIGNED_VECTORS == 2
#define QUERY_PIECE(row, d, width) LOAD_ROW_EIGHT(TYPE_Q, row, d, width)
#define KV_PIECE kv_row_eight
#else
#define QUERY_PIECE(row, d, width) LOAD_ROW_FOUR(TYPE_Q, row, d, width)
#define KV_PIECE kv_four
#endif
#define QUERY_AT(from, row, d) QUERY_PIECE(QUERY_ROW(from, row), d, ROW_WIDTH(d))
#define KEY_AT(from, row, d) KV_PIECE(kv_row_at(from, row), d, ROW_WIDTH(d), KV_KEY)
#define VALUE_AT(from, row, d) KV_PIECE(kv_row_at(from, row), d, HEAD_DIM_V, KV_VALUE)
TILES_DEFINE_LOAD_TRANSPOSED(load_queries, const query_rows *, QUERY_AT, CHUNK / TILES_READ)
TILES_DEFINE_LOAD(load_keys, const kv_head *, KEY_AT, TILES_COLUMNS, CHUNK / TILES_READ, TILES_CHUNK_PITCH)
TILES_DEFINE_LOAD_SLICE(load_values, const kv_head *, VALUE_AT, HEAD_DIM_V)

// The largest of a work-item's scores in each row.
TILES_INLINE VEC largest(const tiles_sums *s) {
    return fmax(fmax(s->c0, s->c1), fmax(s->c2, s->c3));
}

#if DROPOUT
// Set word n of `dropped` for a work-item's rows to the dropped weights of keys 4 n to 4 n + 3:
// MICRO_ROWS bits per key. Each work-item computes one word.
TILES_INLINE void find_dropped(__local int *dropped, const dropout_args *a, const score_rows *r,
                               int first_row, int k0, int id) {
    uint bits = 0;
#pragma unroll 1 // to save registers
    for (int x = 0; x < MICRO_ROWS; x++) {
        const uint drops = dropout_drops(a, r->b, r->h, r->i + x + first_row, k0 / 4 + id % GROUP_COLUMNS);
        for (int n = 0; n < 4; n++) bits |= (drops >> n & 1u) << (n * MICRO_ROWS + x);
    }
    dropped[id] = (int)bits;
}
#define DROPPED_WORDS TILES_GROUP
#define FIND_DROPPED(rows, k0) find_dropped(strange + 4, &dropout, rows, args.first_row, k0, id)
#define DROPPED_OF(key) ((uint)strange[4 + ty * GROUP_COLUMNS + (key) / 4] >> (key) % 4 * MICRO_ROWS)
#define DROP(p, bits) select(p, (VEC)(0.0f), rows_unpack(bits))
#define TILE_BEGIN(begin) ((begin) / 4 * 4) // a quad of keys is in one tile
#else
#define DROPPED_WORDS 0
#define FIND_DROPPED(rows, k0)
#define DROPPED_OF(key) 0
#define DROP(p, bits) (p)
#define TILE_BEGIN(begin) (begin)
#endif

// Convert the next slice of scores to weights, store them for the product, and return them. A
// hidden weight is -0, which no other weight is: it adds nothing, and add_seen_values recognises
// it. `dropped` has a bit per row whose stored weight becomes 0.
TILES_INLINE VEC weigh_slice(__local float4 *weights, int tx, int ty, tiles_sums *s, VEC base, uint *hidden,
                             uint dropped) {
    VEC p = exp2((s->c0 - base) * SCORE_TO_EXP2);
    if (*hidden) p = select(p, (VEC)(-0.0f), rows_unpack(*hidden));
    tiles_write_rows(weights, tx, ty, DROP(p, dropped & ~*hidden));
    s->c0 = s->c1, s->c1 = s->c2, s->c2 = s->c3, *hidden >>= MICRO_ROWS;
    return p;
}

// For one row: the maximum of its partial maxima and of m. It sets the row's base and the factor of
// its older sums. Returns the maximum.
TILES_INLINE float finish_maximum(__local const float *partial, __local float *bases, __local float *keeps,
                                  int row, float m) {
    float most = m;
    for (int x = 0; x < GROUP_COLUMNS; x++) most = fmax(most, partial[x * 4 * TILES_TRANSPOSED_PITCH + row]);
    const float base = softmax_base(most);
    bases[row] = base, keeps[row] = SHRINKS(m, base);
    return most;
}

// Store in local memory for finish_sum: each work-item's sums, or with SUBGROUP the rows' sums, and
// the rows' maxima.
TILES_INLINE void put_sums(__local float4 *partial, __local float4 *bases, int id, VEC l, ROWS_MAXIMA m) {
    const int ty = id / GROUP_COLUMNS, tx = id % GROUP_COLUMNS;
#if SUBGROUP
    l = rows_sum(l);
    if (tx == 0) tiles_write_rows(partial, 0, ty, l), tiles_write_rows(bases, 0, ty, m);
#else
    tiles_write_rows(partial, tx, ty, l);
    if (id < TILES_ROWS) ((__local float *)bases)[id] = m;
#endif
}

// For one row with its maximum in `bases`: the sum l including the sink. Sets `factors` to the
// output's factor, `bases` to 1 if the row sees no key, else 0, and *most to the maximum. (It
// returns no struct because of Oclgrind 21.10.)
TILES_INLINE float finish_sum(__local const float *partial, __local float *bases, __local float *factors,
                              int row, float sink, float *most) {
    softmax_state x = {bases[row] * SCORE_TO_NATURAL, 0.0f};
    for (int y = 0; y < PARTIAL_LINES; y++) x.l += partial[y * 4 * TILES_TRANSPOSED_PITCH + row];
    float keep = 1.0f;
    if (sink != -INFINITY) {
        const softmax_state with = softmax_add(x, sink);
        keep = exp(x.m - softmax_base(with.m));
        x = with;
    }
    factors[row] = x.l == 0.0f ? 0.0f : keep / x.l;
    bases[row] = x.l == 0.0f ? 1.0f : 0.0f;
    *most = x.m;
    return x.l;
}

// Global size: (row tiles * splits * TILES_GROUP, heads, batch), or key/value heads with HEAD_ROWS.
// Local size: (TILES_GROUP, 1, 1).
__kernel __attribute__((reqd_work_group_size(TILES_GROUP, 1, 1))) SUBGROUP_SIZED void
TILES_KERNEL(FUSED_ARGUMENTS) {
    __local float4 shared[SHARED_FOURS], partial[PARTIAL_LINES * TILES_TRANSPOSED_PITCH],
        bases[TILES_ROWS / 4], keeps[TILES_ROWS / 4];
    __local float *row_partial = (__local float *)partial, *row_bases = (__local float *)bases,
                  *row_keeps = (__local float *)keeps;
    QUERY_DECLARE_PLACES;
    __local int strange[4 + DROPPED_WORDS]; // hidden NaN or infinity in V; i0; from 4 on: drops
    __local float4 *const tile_q = shared, *const tile_k = shared + TILES_TRANSPOSED_FOURS;
    __local float4 *const tile_p = shared, *const tile_v = shared + GROUP_COLUMNS * TILES_TRANSPOSED_PITCH;
    const int id = TILES_ITEM, ty = id / GROUP_COLUMNS, tx = id % GROUP_COLUMNS;
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(TILES_GROUP, TILES_ROWS, 1)) return; // uniform
    const int tile = FUSED_PART, b = FUSED_ITEM(UNIFORM_ID), h = FUSED_HEAD(UNIFORM_ID);
    const int split = tile % args.splits, i0 = tile / args.splits * TILES_ROWS,
              h_kv = HEAD_ROWS ? h : h / args.group;
    const mask_rows rows = mask_rows_of(&args, table, b);
    const int share = HEAD_SHARE(args.group), rows_end = share * min(args.n_q, rows.item.q_length),
              i_last = min(i0 + TILES_ROWS, rows_end) - 1;
    if (i0 >= rows_end) return; // uniform
    const mask_tile seen = mask_tile_of(&args, &rows, split, i0 / share, i_last / share);
    QUERY_FIND_PLACES;
    const query_rows queries = QUERY_ROWS;
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    const score_call call = SCORE_CALL;
    out_sums acc;
    out_clear(&acc);
    VEC l = (VEC)(0.0f);       // of this work-item's keys only; the rows' sums follow the loop
    ROWS_MAXIMA m = -INFINITY; // maximum of row `id`; with SUBGROUP, maxima of the work-item's rows
    for (int k0 = TILE_BEGIN(seen.begin); k0 < seen.end; k0 += TILES_COLUMNS) {
        bool masked;
        if (tile_sees_nothing(&call, b, h, i0, i_last, k0, seen.end, &masked)) continue; // uniform
        const bool all_see = !masked && k0 >= seen.all_begin && k0 + TILES_COLUMNS <= seen.all_end;
        tiles_sums s;
        tiles_clear(&s);
        for (int d0 = 0; d0 < HEAD_DIM; d0 += CHUNK) {
            barrier(CLK_LOCAL_MEM_FENCE); // the previous data have been read
            if (id == 0) strange[0] = 0, strange[1] = i0;
            load_queries(tile_q, &queries, i0, i_last, d0);
            load_keys(tile_k, &keys, k0, seen.end - 1, d0);
            barrier(CLK_LOCAL_MEM_FENCE);
            tiles_multiply(&s, tile_q, tile_k, ty, tx, TILES_CHUNK_STEPS(HEAD_DIM, d0));
        }
        // i0 comes from local memory: else registers hold the rows' key intervals over all tiles.
        const score_rows mine = {b, h, strange[1] + MICRO_ROWS * ty, i_last, seen.end - 1, &rows, masked};
        uint hidden = finish_scores(&s, &call, &mine, k0 + tx, all_see);
        FIND_DROPPED(&mine, k0);
#if SUBGROUP
        const VEC keep = rows_grow(&m, largest(&s)), base = rows_base(m);
#else
        tiles_write_rows(partial, tx, ty, largest(&s));
        barrier(CLK_LOCAL_MEM_FENCE); // partial maxima are written, and K has been read
        if (id < TILES_ROWS) m = finish_maximum(row_partial, row_bases, row_keeps, id, m);
        barrier(CLK_LOCAL_MEM_FENCE);
        const VEC base = tiles_read_rows(bases, 0, ty), keep = tiles_read_rows(keeps, 0, ty);
#endif
        l *= keep, out_scale(&acc, keep);
        for (int j0 = k0; j0 < min(k0 + TILES_COLUMNS, seen.end); j0 += GROUP_COLUMNS) {
            barrier(CLK_LOCAL_MEM_FENCE); // the previous slice has been read
            l += weigh_slice(tile_p, tx, ty, &s, base, &hidden, DROPPED_OF(j0 - k0 + tx));
            if (load_values(tile_v, &values, j0, seen.end - 1) && !all_see) atomic_or(&strange[0], 1);
            barrier(CLK_LOCAL_MEM_FENCE);
            add_slice(&acc, tile_p, tile_v, ty, tx, OUT_QUADS, strange[0] != 0);
        }
    }
    put_sums(partial, bases, id, l, m);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < TILES_ROWS) {
        const float sink = split == 0 ? table_sink(&args, table, HEAD_OF(&args, h, i0 + id)) : -INFINITY;
        float most;
        const float sum = finish_sum(row_partial, row_bases, row_keeps, id, sink, &most);
        if ((args.flags & ARGS_LSE) && i0 + id < rows_end)
            softmax_store(lse, split * args.split_lse + head_row(&args, &args.lse, b, h, i0 + id), args.flags,
                          (softmax_state){most, sum});
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const out_rows to = {out + split * args.split_out, &args, b, h, rows_end};
    out_store(&to, &acc, i0 + MICRO_ROWS * ty, tx, DROPOUT_SCALED(tiles_read_rows(keeps, 0, ty)),
              tiles_read_rows(bases, 0, ty));
}
