// flash_fragments.cl: out = softmax(scale * Q K^T) V like FlashAttention-2 [Dao 2023], on a GPU's
// matrix engine that the work-items of a warp share (fragments.clh). Queries are float16 or
// bfloat16.
//
// A work-group of GROUP_ROWS warps has query rows of one head and one split of the keys. A warp
// owns FRAGMENT_ROWS * ROW_VECTORS rows, whose fragments stay in registers with the scores and the
// output. The group loops over the keys, TILE_KV at a time. Its warps share tiles of K and V in
// local memory, and no score leaves registers. V of the tile is loaded while scores are computed,
// and the next K while values are added.
//   S = Q K^T   an item has some keys of one or two rows, depending on the engine
//   softmax     a row's maximum and sum are combined over the items that share it
//   O += P V    weights rounded to 16 bits are an operand as they are, or after one exchange
// Keys and values of other types are converted to the queries' type on their way to local memory.
// Keys with scales are converted without them, so nothing overflows, and the sums are scaled.
// Values are rounded, like weights.
//
// With BF16_TERMS, queries and all products are float32. Each number is the sum of three bfloat16
// terms, and only the six of nine products that affect float32 are computed. The largest of them
// has its own sums. A tile's output is added by multiply-adds, since engines do not round sums to
// nearest. If a number is 2^60 or more, infinite or NaN, the group computes everything again
// without the engine: `start_again`.
//
// With HEAD_ROWS (decode_fragments.cl), the rows are those of all query heads of a key/value head.
// Barriers are uniform: all loop bounds depend on the group alone. The softmax has no branch,
// because some compilers would move a product of the whole warp into both paths.
#if defined(BF16_TERMS) && BF16_TERMS > 1
#define QUERIES_OF 0
#else
#define QUERIES_OF 1
#endif
#ifndef TYPE_Q
#define TYPE_Q QUERIES_OF
#endif
#ifndef TYPE_KV
#define TYPE_KV QUERIES_OF
#endif
#ifndef GROUP_ROWS
#define GROUP_ROWS 4
#endif
#ifndef ROW_VECTORS
#define ROW_VECTORS 1
#endif
#define FRAGMENT_GROUP (GROUP_ROWS * FRAGMENT_ITEMS)
#if BF16_TERMS > 1
#define TYPE_FRAGMENT STORE_BF16
#else
#define TYPE_FRAGMENT TYPE_Q
#endif
#if BF16_TERMS > 1 || TYPE_KV != TYPE_Q || TYPE_V
#define STORAGE_FOURS
#endif
#include "fragments/fragments.clh"
#include "call/score.clh"

#define KEY_CONVERTS (BF16_TERMS > 1 || TYPE_KV != TYPE_FRAGMENT)
#define VALUE_CONVERTS (BF16_TERMS > 1 || TYPE_V != TYPE_FRAGMENT)
#if BF16_TERMS == 2 || (BF16_TERMS == 3) != (TYPE_Q == STORE_F32)
#error "BF16_TERMS is 3 with float32 queries, and 1 with others"
#endif
#if (BF16_TERMS == 1 && KEY_CONVERTS && (STORE_IS_FLOAT(TYPE_KV) || TYPE_KV == STORE_Q4_1)) ||               \
    HEAD_DIM > 256 || HEAD_DIM_V > 256
#error "k is of q's type, of int8, float8, q8_0 or q4_0; heads of at most 256"
#endif
#if SCALE_GROUP || SCALE_GROUP_V
#error "scales are of whole rows, or of blocks"
#endif
#if VALUE_CONVERTS && STORE_IS_FLOAT(TYPE_V) && TYPE_FRAGMENT != STORE_BF16
#error "values of other floating types become bfloat16, which holds all that they may be"
#endif
#if FRAGMENT_TILES && (KEY_CONVERTS || VALUE_CONVERTS)
#error "wgmma reads tiles by itself: with it nothing is converted"
#endif
#if FRAGMENT_TILES
#if TILE_KV % 64 != 0 || TILE_KV > 128 || GROUP_ROWS % 4 != 0 || ROW_VECTORS != 1 || HEAD_DIM > 128 ||       \
    HEAD_DIM_V > 128
#error                                                                                                       \
    "with wgmma TILE_KV is 64 or 128, GROUP_ROWS are fours of warps, ROW_VECTORS is 1, heads are of at most 128"
#endif
#elif TILE_KV % FRAGMENT_TILE_STEP != 0 || TILE_KV > 64 || GROUP_ROWS > 16 || ROW_VECTORS > 2
#error                                                                                                       \
    "TILE_KV is 16, 32, 48 or 64, as the engine has it; at most 16 warps, GROUP_ROWS; ROW_VECTORS is 1 or 2"
#endif
#if ALIGNED_VECTORS != 0 && ALIGNED_VECTORS != 2
#error "rows are read by eights or one by one"
#endif

#define WARP_ROWS (FRAGMENT_ROWS * ROW_VECTORS)
#define TILE_ROWS (WARP_ROWS * GROUP_ROWS)
#define KEY_PARTS (TILE_KV / FRAGMENT_COLUMNS) // fragments of scores
// pieces of eight numbers of a key, in local memory
#define KEY_PIECES (2 * FRAGMENTS_STEPS(HEAD_DIM))
#define STEPS (8 * KEY_PIECES / FRAGMENT_STEP) // products summed in a score
#define VALUE_PIECES (FRAGMENT_VALUE_PARTS(HEAD_DIM_V) * FRAGMENT_COLUMNS / 8)
#if FRAGMENT_TILES
#define VALUE_PARTS ((HEAD_DIM_V + 63) / 64 * FRAGMENT_TILE_PARTS)
#else
#define VALUE_PARTS FRAGMENT_VALUE_PARTS(HEAD_DIM_V) // fragments of the output
#endif
#define KEY_PITCH FRAGMENTS_PITCH(FRAGMENT_ENGINE, HEAD_DIM) // bytes of a row in local memory
#define VALUE_PITCH FRAGMENTS_PITCH(FRAGMENT_ENGINE, HEAD_DIM_V)
#if FRAGMENT_TILES
// Three places that rotate: this tile's keys (places.x), its values (.y), the next tile's keys
// (.z).
#define PLACE_BYTES FRAGMENTS_PLACE_BYTES(FRAGMENT_ENGINE, TILE_KV, HEAD_DIM, HEAD_DIM_V)
#define DECLARE_PLACES int4 places = (int4)(0, PLACE_BYTES, 2 * PLACE_BYTES, 0)
#define KEYS_AT places.x
#define VALUES_AT places.y
#else
#define DECLARE_PLACES
#define KEYS_AT 0
#define VALUES_AT (BF16_TERMS * TILE_KV * KEY_PITCH)
#endif
#define FRAGMENT_ROUNDS FRAGMENTS_ROUNDS(FRAGMENT_ENGINE, GROUP_ROWS, BF16_TERMS)
#define ROUND_ROWS (TILE_ROWS / FRAGMENT_ROUNDS) // rows whose queries are in local memory at once
#define SHARED_BYTES                                                                                         \
    (BF16_TERMS * FRAGMENTS_LOCAL_BYTES(FRAGMENT_ENGINE, ROUND_ROWS, TILE_KV, HEAD_DIM, HEAD_DIM_V))
#define QUERIES_AT                                                                                           \
    (FRAGMENTS_KEEPS_QUERIES(FRAGMENT_ENGINE)                                                                \
         ? 0                                                                                                 \
         : BF16_TERMS * FRAGMENTS_TILE_BYTES(FRAGMENT_ENGINE, TILE_KV, HEAD_DIM, HEAD_DIM_V))
#define CHANGES (SCORE_OPS & ~ARGS_HEAD_SCALES)

#define EACH_KEY_PART(y) FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y++)
#define EACH_VALUE_PART(y) FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y++)
#define ELEMENT_ROW(e) FRAGMENT_ROW((e) / ROW_ELEMENTS)

// The terms of a tile follow one another like additional rows. EACH_PRODUCT has the products of
// terms that count.
#define VALUE_TERM_BYTES FRAGMENTS_VALUE_BYTES(FRAGMENT_ENGINE, TILE_KV, HEAD_DIM_V)
#define EACH_TERM(a) FRAGMENT_UNROLL for (int a = 0; a < BF16_TERMS; a++)
#define EACH_PRODUCT(a, b) EACH_TERM(a) FRAGMENT_UNROLL for (int b = 0; b < BF16_TERMS - a; b++)

#if BF16_TERMS > 1
typedef __global const float *row_pointer;
#else
typedef __global const ushort *row_pointer;
#endif

// The rows of a warp.
typedef struct warp_rows {
    // First row of the warp, last existing row of the group, end of the group's keys.
    int b, h, first, last, end;
    const attention_args *args;
    const mask_rows *bounds;
    // The head's scale, and the factors from stored scores to powers of two and to scores.
    float scale, factor, natural;
    bool folded; // products are stored unscaled
} warp_rows;
typedef struct warp_state {
    fragment_sums o[ROW_VECTORS][VALUE_PARTS];
    // l: of this item's keys only. keep: the output's factor where it is applied late.
    float m[ROW_VECTORS][FRAGMENT_ITEM_ROWS], l[ROW_VECTORS][FRAGMENT_ITEM_ROWS];
    float keep[ROW_VECTORS][FRAGMENT_ITEM_ROWS];
} warp_state;
typedef struct warp_scores {
    fragment_sums s[ROW_VECTORS][KEY_PARTS];
} warp_scores;

// The first tile from key k on with a key that some row sees, by the block mask.
int next_tile(const score_call *c, const block_rows *r, int k, int end) {
    (void)c, (void)r; // used with a block mask only
#if SCORE_OPS & ARGS_BLOCKS
    while (k < end && BLOCKS_HOLD(c, r, k, min(TILE_KV, end - k)) == ARGS_BLOCK_EMPTY) k += TILE_KV;
#endif
    return k;
}

// Scores become weights, and older sums shrink. With options scores may be near -FLT_MAX, so the
// base is subtracted before the factor is applied. A float16 weight below 2^-14 loses digits: a
// row's largest weight is 2^15, and `store` removes this factor. The base is rounded up, so weights
// do not overflow.
#if TYPE_FRAGMENT == STORE_F16
#define WEIGHT_POWERS 15.0f
#define WEIGHT_UNIT 0x1p-15f
#else
#define WEIGHT_POWERS 0.0f
#define WEIGHT_UNIT 1.0f
#endif
#if CHANGES
#define WEIGHT_BASE(most) (most)
#define WEIGHT_POWER(s) MULTIPLY_ADD((s)-base, r->factor, WEIGHT_POWERS)
#define WEIGHT_SHRINKS(from) (((from)-base) * r->factor)
#else
#if TYPE_FRAGMENT == STORE_F16
#define WEIGHT_BASE(most) FRAGMENT_ABOVE(most, r->factor, -WEIGHT_POWERS)
#else
#define WEIGHT_BASE(most) ((most)*r->factor)
#endif
#define WEIGHT_POWER(s) MULTIPLY_ADD(s, r->factor, -base)
#define WEIGHT_SHRINKS(from) ((from)-base) // of the rounded bases, which the older weights use
#endif

#if DROPOUT
// Bits of key j and the following keys of its quad that dropout drops in row i of the launch.
uint drops_from(const dropout_args *a, const warp_rows *r, int first_row, int i, int j) {
    return dropout_drops(a, r->b, r->h, i + first_row, j / 4) >> j % 4;
}
#define DROPS(i, j) (drops_from(dropout, r, first_row, i, j) & 1u)
#define TILE_BEGIN(begin) ((begin) / 4 * 4) // a quad of keys is in one tile
// Set dropped weights to 0. FRAGMENT_RUN elements of an item are neighbouring keys of one quad.
FRAGMENT_INLINE void drop_weights(warp_scores *w, const warp_rows *r, int first_row,
                                  int k0 DROPOUT_PARAMETER) {
    EACH_VECTOR(x)
    EACH_KEY_PART(y) EACH_ITEM_ROW(n) FRAGMENT_UNROLL for (int z = 0; z < ROW_ELEMENTS; z += FRAGMENT_RUN) {
        const int i = r->first + FRAGMENT_ROWS * x + FRAGMENT_ROW(n);
        const uint drops = drops_from(dropout, r, first_row, i, k0 + FRAGMENT_COLUMN(y, z));
        FRAGMENT_UNROLL for (int u = 0; u < FRAGMENT_RUN; u++) if (drops >> u & 1u)
            w->s[x][y][ROW_ELEMENT(n, z + u)] = 0.0f;
    }
}
#define DROP_WEIGHTS(w, r, k0) drop_weights(w, r, args.first_row, k0, &dropout)
#else
#define DROPS(i, j) false
#define TILE_BEGIN(begin) (begin)
#define DROP_WEIGHTS(w, r, k0)
#endif

#include "fragments/fragments_rows.clh"

#if FRAGMENT_TILES
#define EACH_TILE_PARTS(y, parts) FRAGMENT_UNROLL for (int y = 0; y < (parts); y += FRAGMENT_TILE_PARTS)
FRAGMENT_INLINE void multiply_keys(warp_scores *w, warp_queries *queries, fragment_memory *memory, int from) {
    FRAGMENT_BEGIN();
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++) EACH_TILE_PARTS(y, KEY_PARTS) {
        const int at = from + FRAGMENT_KEYS_AT(d, KEY_PITCH) + 8 * y * KEY_PITCH;
        if (d == 0)
            FRAGMENT_KEYS_FIRST(w->s[0] + y, QUERY(own, 0, d, 0), *memory, at, KEY_PITCH);
        else
            FRAGMENT_KEYS(w->s[0] + y, QUERY(own, 0, d, 0), *memory, at, KEY_PITCH);
    }
    FRAGMENT_END();
    EACH_TILE_PARTS(y, KEY_PARTS) FRAGMENT_SETTLE(w->s[0] + y);
}
// o += P V. P is converted to an operand right after the softmax, before barriers and copies,
// because it then needs half of the registers.
#define TAKE_WEIGHTS                                                                                         \
    fragment_own weights[TILE_KV / FRAGMENT_STEP];                                                           \
    FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++)                                        \
        FRAGMENT_WEIGHTS(weights[z], scores.s[0], z, memory)
#define TAKEN_WEIGHTS weights
FRAGMENT_INLINE void add_values(warp_state *t, fragment_own *p, fragment_memory *memory, int from) {
    EACH_TILE_PARTS(y, VALUE_PARTS) FRAGMENT_SETTLE(t->o[0] + y);
    FRAGMENT_BEGIN();
    FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++) EACH_TILE_PARTS(y, VALUE_PARTS)
        FRAGMENT_VALUES(t->o[0] + y, p[z], *memory, from + FRAGMENT_VALUES_AT(z, y, VALUE_PITCH),
                        VALUE_PITCH);
    FRAGMENT_END();
    EACH_TILE_PARTS(y, VALUE_PARTS) FRAGMENT_SETTLE(t->o[0] + y);
}
#else
#define TAKE_WEIGHTS
#define TAKEN_WEIGHTS (&scores)
// Add the product of the first terms to `high`, or, if `less`, another product to `low`.
#if BF16_TERMS > 1
#define ADD_PRODUCT(high, low, own, shared, less, i)                                                         \
    {                                                                                                        \
        if (less)                                                                                            \
            FRAGMENT_MULTIPLY_ADD(low, own, shared, i, *memory);                                             \
        else                                                                                                 \
            FRAGMENT_MULTIPLY_ADD(high, own, shared, i, *memory);                                            \
    }
#else
#define ADD_PRODUCT(high, low, own, shared, less, i) FRAGMENT_MULTIPLY_ADD(high, own, shared, i, *memory)
#endif
// The products of the warp's rows with a tile's keys, for steps [begin, end).
FRAGMENT_INLINE void multiply_steps(warp_scores *w, warp_queries *queries, fragment_memory *memory, int begin,
                                    int end) {
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) w->s[x][y][e] = 0.0f;
#if BF16_TERMS > 1
    warp_scores low;
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) low.s[x][y][e] = 0.0f;
#endif
    FRAGMENT_UNROLL for (int d = begin; d < end; d++) {
#if !FRAGMENTS_KEEPS_QUERIES(FRAGMENT_ENGINE)
        fragment_own own[ROW_VECTORS][BF16_TERMS];
        EACH_VECTOR(x)
        EACH_TERM(a)
        FRAGMENT_LOAD_OWN(own[x][a], *memory, QUERIES_AT,
                          WARP_ROWS * FRAGMENT_WARP + FRAGMENT_ROWS * x + ROUND_ROWS * a, d, KEY_PITCH);
        (void)queries;
#endif
        FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y += FRAGMENT_PARTS) {
            fragment_shared k[BF16_TERMS];
            EACH_TERM(b) FRAGMENT_LOAD_KEYS(k[b], *memory, FRAGMENT_COLUMNS * y + TILE_KV * b, d, KEY_PITCH);
            EACH_VECTOR(x)
            EACH_PART(i)
            EACH_PRODUCT(a, b)
            ADD_PRODUCT(w->s[x][y + i], low.s[x][y + i], QUERY(own, x, d, a), k[b], a + b, i);
        }
    }
#if BF16_TERMS > 1
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) w->s[x][y][e] += low.s[x][y][e];
#endif
}
FRAGMENT_INLINE void multiply_keys(warp_scores *w, warp_queries *queries, fragment_memory *memory,
                                   int from SCALES_PARAMETER) {
    (void)from; // KEYS_AT
#if KEY_SCALES > 1
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) w->s[x][y][e] = 0.0f;
    FRAGMENT_UNROLL for (int n = 0; n < KEY_SCALES; n++) {
        warp_scores part;
        multiply_steps(&part, queries, memory, n * (32 / FRAGMENT_STEP), (n + 1) * (32 / FRAGMENT_STEP));
        EACH_KEY_PART(y) EACH_ELEMENT(e) {
            const float by = scales[TILE_KV * n + FRAGMENT_COLUMN(y, e)];
            EACH_VECTOR(x) w->s[x][y][e] = MULTIPLY_ADD(part.s[x][y][e], by, w->s[x][y][e]);
        }
    }
#else
    multiply_steps(w, queries, memory, 0, STEPS);
#if KEY_SCALES
    EACH_KEY_PART(y) EACH_ELEMENT(e) {
        const float by = scales[FRAGMENT_COLUMN(y, e)];
        EACH_VECTOR(x) w->s[x][y][e] *= by;
    }
#endif
#endif
}

// o += P V. With built-in functions, a part of the output is rescaled and gets all keys before the
// next part. Compilers that copy a product's input and output registers then do so for one part
// only.
#if BF16_TERMS > 1
FRAGMENT_INLINE void add_values(warp_state *t, warp_scores *w, fragment_memory *memory, int from) {
    fragment_own p[ROW_VECTORS][TILE_KV / FRAGMENT_STEP][BF16_TERMS];
    EACH_VECTOR(x)
    FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++) EACH_TERM(a)
        FRAGMENT_WEIGHTS(p[x][z][a], w->s[x], z, *memory);
    FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y += FRAGMENT_PARTS) {
        fragment_sums high[ROW_VECTORS][FRAGMENT_PARTS], low[ROW_VECTORS][FRAGMENT_PARTS];
        EACH_VECTOR(x) EACH_PART(i) EACH_ELEMENT(e) high[x][i][e] = 0.0f, low[x][i][e] = 0.0f;
        FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++) {
            fragment_shared v[BF16_TERMS];
            EACH_TERM(b)
            FRAGMENT_LOAD_VALUES(v[b], *memory, from + VALUE_TERM_BYTES * b, FRAGMENT_STEP * z, y,
                                 VALUE_PITCH);
            EACH_VECTOR(x)
            EACH_PART(i) EACH_PRODUCT(a, b) ADD_PRODUCT(high[x][i], low[x][i], p[x][z][a], v[b], a + b, i);
        }
        EACH_VECTOR(x)
        EACH_PART(i)
        EACH_ELEMENT(e)
        t->o[x][y + i][e] =
            MULTIPLY_ADD(t->o[x][y + i][e], t->keep[x][e / ROW_ELEMENTS], high[x][i][e] + low[x][i][e]);
    }
}
#elif FRAGMENT_FETCHES
FRAGMENT_INLINE void add_values(warp_state *t, const warp_scores *w, fragment_memory *memory, int from) {
    fragment_own p[ROW_VECTORS][TILE_KV / FRAGMENT_STEP];
    EACH_VECTOR(x)
    FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++)
        FRAGMENT_WEIGHTS(p[x][z], w->s[x], z, *memory);
    EACH_VALUE_PART(y) {
        EACH_VECTOR(x) EACH_ELEMENT(e) t->o[x][y][e] *= t->keep[x][0];
        FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++) {
            fragment_shared v;
            FRAGMENT_LOAD_VALUES(v, *memory, from, FRAGMENT_STEP * z, y, VALUE_PITCH);
            EACH_VECTOR(x) FRAGMENT_MULTIPLY_ADD(t->o[x][y], p[x][z], v, 0, *memory);
        }
    }
}
#else
FRAGMENT_INLINE void add_values(warp_state *t, const warp_scores *w, fragment_memory *memory, int from) {
    FRAGMENT_UNROLL for (int z = 0; z < TILE_KV / FRAGMENT_STEP; z++) {
        fragment_own p[ROW_VECTORS];
        EACH_VECTOR(x) FRAGMENT_WEIGHTS(p[x], w->s[x], z, *memory);
        FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y += FRAGMENT_PARTS) {
            fragment_shared v;
            FRAGMENT_LOAD_VALUES(v, *memory, from, FRAGMENT_STEP * z, y, VALUE_PITCH);
            EACH_VECTOR(x) EACH_PART(i) FRAGMENT_MULTIPLY_ADD(t->o[x][y + i], p[x], v, i, *memory);
        }
    }
}
#endif
#endif

// Convert products to scores; -inf for hidden keys.
#if CHANGES
FRAGMENT_INLINE void finish_scores(warp_scores *w, const warp_rows *r, const score_call *c, int k0,
                                   bool all_see) {
    // Not unrolled: the first part is converted and moved to the end.
#pragma unroll 1
    for (int y = 0; y < KEY_PARTS; y++) EACH_VECTOR(x) EACH_ELEMENT(e) {
            const int i = min(r->first + FRAGMENT_ROWS * x + ELEMENT_ROW(e), r->last),
                      j = k0 + FRAGMENT_COLUMN(y, e);
            const score_place at = {r->b, r->h, min(j, r->end - 1), r->bounds->item.shift, i};
            bool sees = all_see || (j >= FIRST_KEY(r, i) && j < min(LAST_KEY(r, i), r->end));
            const float s = score_step(c, &at, w->s[x][0][e] * (r->scale * SCORE_UNIT), &sees);
            FRAGMENT_UNROLL for (int z = 0; z + 1 < KEY_PARTS; z++) w->s[x][z][e] = w->s[x][z + 1][e];
            w->s[x][KEY_PARTS - 1][e] = s;
        }
}
#else
FRAGMENT_INLINE void finish_scores(warp_scores *w, const warp_rows *r, const score_call *c, int k0,
                                   bool all_see) {
    (void)c;
    if (!r->folded) {
        EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) w->s[x][y][e] *= r->scale * SCORE_UNIT;
    }
    if (all_see) return;
    EACH_VECTOR(x) EACH_ITEM_ROW(n) {
        const int i = min(r->first + FRAGMENT_ROWS * x + FRAGMENT_ROW(n), r->last),
                  first = FIRST_KEY(r, i) - k0, last = min(LAST_KEY(r, i), r->end) - k0;
        EACH_KEY_PART(y) EACH_OF_ROW(z) {
            const int j = FRAGMENT_COLUMN(y, z);
            if (j < first || j >= last) w->s[x][y][ROW_ELEMENT(n, z)] = -INFINITY;
        }
    }
}
#endif

#if FRAGMENT_FETCHES || BF16_TERMS > 1
#define SHRINK(t, x, n, by) (t)->keep[x][n] = (by)
#else
#define SHRINK(t, x, n, by) EACH_VALUE_PART(y) EACH_OF_ROW(z)(t)->o[x][y][ROW_ELEMENT(n, z)] *= (by)
#endif
FRAGMENT_INLINE void weigh(warp_state *t, warp_scores *w, const warp_rows *r, fragment_memory *memory) {
    EACH_VECTOR(x) EACH_ITEM_ROW(n) {
        float most = t->m[x][n];
        EACH_KEY_PART(y)
        FRAGMENT_UNROLL for (int z = 0; z < ROW_ELEMENTS; z += 2) most =
            fmax(most, fmax(w->s[x][y][ROW_ELEMENT(n, z)], w->s[x][y][ROW_ELEMENT(n, z + 1)]));
        FRAGMENT_ROW_MAX(most, *memory);
        const float before = WEIGHT_BASE(t->m[x][n]), base = WEIGHT_BASE(softmax_base(most)),
                    keep = t->m[x][n] == -INFINITY ? 0.0f : FRAGMENT_EXP2(WEIGHT_SHRINKS(before));
        float sum = 0.0f;
        EACH_KEY_PART(y) EACH_OF_ROW(z) {
            const float p = FRAGMENT_EXP2(WEIGHT_POWER(w->s[x][y][ROW_ELEMENT(n, z)]));
            w->s[x][y][ROW_ELEMENT(n, z)] = p, sum += p;
        }
        t->m[x][n] = most, t->l[x][n] = t->l[x][n] * keep + sum;
        SHRINK(t, x, n, keep);
    }
}

// The sink of a head, or the table with the sinks of the rows' heads.
#define SINK_OF(a, table, split, h) ((split) == 0 ? table_sink(a, table, h) : -INFINITY)
#if HEAD_ROWS
#define SINK_PARAMETER __global const int *table
#define SINK_VALUE table
#define DECLARE_SINK const float sink = SINK_OF(a, table, split, HEAD_OF(a, r->h, min(i, r->last)))
#else
#define SINK_PARAMETER float sink
#define SINK_VALUE SINK_OF(&args, table, split, h)
#define DECLARE_SINK
#endif

// Store the output with the rows' sums and the sink; 0 in rows without visible keys.
FRAGMENT_INLINE void store(warp_state *t, const warp_rows *r, const attention_args *a, int end, int split,
                           SINK_PARAMETER, fragment_memory *memory, __global ELEMENT(TYPE_OUT) * out,
                           __global float *lse DROPOUT_PARAMETER) {
    EACH_VECTOR(x) EACH_ITEM_ROW(n) {
        const int i = r->first + FRAGMENT_ROWS * x + FRAGMENT_ROW(n);
        float sum = t->l[x][n];
        FRAGMENT_ROW_SUM(sum, *memory);
        softmax_state state = {t->m[x][n] == -INFINITY ? -INFINITY : t->m[x][n] * r->natural,
                               sum * WEIGHT_UNIT};
        float keep = WEIGHT_UNIT;
        DECLARE_SINK;
        if (sink != -INFINITY) {
            const softmax_state with = softmax_add(state, sink);
            keep *= exp(state.m - softmax_base(with.m));
            state = with;
        }
        const bool none = state.l == 0.0f;
        const int columns = i < end ? HEAD_DIM_V : 0; // no break: the emulation has barriers
#if DROPOUT
        keep *= dropout->factor;
#endif
        __global ELEMENT(TYPE_OUT) *to = out + split * a->split_out + head_row(a, &a->out, r->b, r->h, i);
        EACH_VALUE_PART(y) EACH_OF_ROW(z) {
            const int d = FRAGMENT_COLUMN(y, z);
            if (d < columns)
                STORE(TYPE_OUT, to, d, none ? 0.0f : t->o[x][y][ROW_ELEMENT(n, z)] * (keep / state.l));
        }
        if ((a->flags & ARGS_LSE) && FRAGMENT_FIRST && columns)
            softmax_store(lse, split * a->split_lse + head_row(a, &a->lse, r->b, r->h, i), a->flags, state);
    }
}

// Loads that overlap with the work on a tile.
#define NEXT_TILE next_tile(&call, &blocks_of, k0 + TILE_KV, seen.end)
#if FRAGMENT_TILES
#define TILE_ALIGNED 1024
#define BEGIN_TILES                                                                                          \
    if (k_next < seen.end) FETCH_KEYS(k_next);                                                               \
    FRAGMENT_COMMIT();                                                                                       \
    if (k_next < seen.end) FETCH_VALUES(k_next);                                                             \
    FRAGMENT_COMMIT()
#define WAIT_FOR_KEYS FRAGMENT_WAIT_BUT_LAST()
#define AFTER_KEYS                                                                                           \
    k_next = NEXT_TILE;                                                                                      \
    if (k_next < seen.end) COPY_KEYS(k_next, places.z);                                                      \
    FRAGMENT_COMMIT()
#define WAIT_FOR_VALUES FRAGMENT_WAIT_BUT_LAST()
#define AFTER_VALUES                                                                                         \
    if (k_next < seen.end) COPY_VALUES(k_next, KEYS_AT);                                                     \
    FRAGMENT_COMMIT()
#define NEXT_PLACES places = places.zxyw
// Local memory has no room for a flag.
#define DECLARE_STRANGE int strange
#define BEGIN_STRANGE strange = 0
#define KNOW_STRANGE strange = FRAGMENT_ANY(strange, memory)
#else
#define TILE_ALIGNED 128
#define BEGIN_TILES                                                                                          \
    if (k_next < seen.end) FETCH_KEYS(k_next)
#define WAIT_FOR_KEYS                                                                                        \
    PUT_KEYS;                                                                                                \
    FRAGMENT_WAIT()
#define AFTER_KEYS FETCH_VALUES(k0)
#define WAIT_FOR_VALUES                                                                                      \
    PUT_VALUES;                                                                                              \
    FRAGMENT_WAIT()
#define AFTER_VALUES                                                                                         \
    k_next = NEXT_TILE;                                                                                      \
    if (k_next < seen.end) FETCH_KEYS(k_next)
#define NEXT_PLACES
// Volatile, because LLVM 14 moves reads of a local variable across barriers that it does not
// recognise.
#define DECLARE_STRANGE __local volatile int strange
#define BEGIN_STRANGE                                                                                        \
    if (get_local_id(0) == 0) strange = 0
#define KNOW_STRANGE barrier(CLK_LOCAL_MEM_FENCE)
#define FRAGMENT_SHOW()
#endif

// Global size: (row tiles * splits * FRAGMENT_GROUP, heads, batch), or key/value heads with
// HEAD_ROWS.
__kernel FRAGMENT_SIZED __attribute__((reqd_work_group_size(FRAGMENT_GROUP, 1, 1))) void
FRAGMENTS_KERNEL(FUSED_ARGUMENTS) {
    __local uint4 tile[SHARED_BYTES / 16] __attribute__((aligned(TILE_ALIGNED)));
    DECLARE_STRANGE;
    DECLARE_SCALES;
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(FRAGMENT_GROUP, TILE_ROWS, 1)) return; // uniform
    // With causality the last tiles have the most keys, so they start first.
    const int b = FUSED_ITEM(UNIFORM_ID), h = FUSED_HEAD(UNIFORM_ID), part = FUSED_PARTS - 1 - FUSED_PART;
    const int h_kv = HEAD_ROWS ? h : h / args.group, split = part % args.splits,
              i0 = part / args.splits * TILE_ROWS;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const int share = HEAD_SHARE(&args), rows_end = share * min(args.n_q, bounds.item.q_length),
              i_last = min(i0 + TILE_ROWS, rows_end) - 1;
    if (i0 >= rows_end) return; // uniform
    const mask_tile seen = mask_tile_of(&args, &bounds, split, i0 / share, i_last / share);
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    const query_rows queries = {(row_pointer)q + (HEAD_ROWS ? 0 : view_row(&args.q, b, h, 0)), &args, b, h};
    const block_rows blocks_of = {b, h, h, i0, i_last};
    score_call call = SCORE_CALL;
    // If the factor of products is positive, unscaled products have the same maximum as scores.
    const float scale = score_scale(&call, h);
    const bool folded = !CHANGES && scale > 0.0f;
    warp_rows rows;
    rows.b = b, rows.h = h, rows.first = i0 + WARP_ROWS * FRAGMENT_WARP, rows.last = i_last,
    rows.end = seen.end, rows.args = &args;
    rows.bounds = &bounds, rows.scale = scale, rows.folded = folded;
    rows.factor = folded ? scale * LOG2E : SCORE_TO_EXP2, rows.natural = folded ? scale : SCORE_TO_NATURAL;

    BEGIN_STRANGE;
    warp_queries q_part;
    DECLARE_LARGEST;
    take_queries(&q_part, &queries, i0, i_last, &memory LARGEST_VALUE);
    warp_state state;
    EACH_VECTOR(x) {
        EACH_VALUE_PART(y) EACH_ELEMENT(e) state.o[x][y][e] = 0.0f;
        EACH_ITEM_ROW(n) state.m[x][n] = -INFINITY, state.l[x][n] = 0.0f;
    }
    int k_next = next_tile(&call, &blocks_of, TILE_BEGIN(seen.begin), seen.end);
    DECLARE_FETCHED;
    BEGIN_TILES;
    while (k_next < seen.end) { // uniform
        const int k0 = k_next;
        const bool whole = SCORE_WHOLE(call, BLOCKS_HOLD(&call, &blocks_of, k0, min(TILE_KV, seen.end - k0)));
        const bool all_see =
            !(SCORE_MASKED && !whole) && k0 >= seen.all_begin && k0 + TILE_KV <= seen.all_end;
        warp_scores scores;
        WAIT_FOR_KEYS;
        barrier(CLK_LOCAL_MEM_FENCE); // keys are loaded, and the previous values have been read
        AFTER_KEYS;
        multiply_keys(&scores, &q_part, &memory, KEYS_AT SCALES_VALUE);
        finish_scores(&scores, &rows, &call, k0, all_see);
        weigh(&state, &scores, &rows, &memory);
        DROP_WEIGHTS(&scores, &rows, k0);
        TAKE_WEIGHTS;
        WAIT_FOR_VALUES;
        barrier(CLK_LOCAL_MEM_FENCE); // values are loaded, and keys have been read
        CLEAR_STRANGE;
        AFTER_VALUES;
        add_values(&state, TAKEN_WEIGHTS, &memory, VALUES_AT);
        NEXT_PLACES;
    }
    if (NEED_AGAIN) strange = 1;
    KNOW_STRANGE; // includes a barrier
    if (strange) {
        BEHIND_TILES;
    }
    store(&state, &rows, &args, rows_end, split, SINK_VALUE, &memory, out, lse DROPOUT_VALUE);
}
