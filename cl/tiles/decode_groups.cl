// decode_groups.cl: attention of few query rows over many keys, out = softmax(scale * Q K^T) V, on
// GPUs. Returned weights and taps are unsupported.
//
// Reading K and V limits the speed, so each row of them is read once. A work-group of WORK_GROUP
// items owns one key/value head, one split of the keys, and ROWS of the query rows of this head
// (its group of query heads times Nq). Neighbouring work-items read a row of K or V, eight numbers
// each, in loads of 16 bytes (8 for int8), so that a wave reads whole lines. A work-item issues
// loads of four rows before it uses the first.
//
// A chunk of keys, about one per work-item, has three steps, separated by barriers:
//   1. scores: partial products are added in local memory (two more barriers per block of keys),
//      or by shuffles with SUBGROUP
//   2. the chunk's maximum and weights
//   3. the product with V
// Numbers read from global memory, each once in its storage type, of the keys that some row sees:
//   passes * (K + V) + splits * q      passes = ceil(group * Nq / ROWS); q: of whole passes
// and a scale per eight numbers of int8. Written: splits * rows * (Dv + 1) numbers. Passes over the
// same keys are neighbours in the grid and share a cache. tests/kernels/check_decode_loads.sh
// counts the loads in compiled code.
//
// With splits > 1, out and lse are float32 partial results for combine.cl. With DOT_I8, scores use
// integers (decode_integers.clh). Global size: (splits * passes * WORK_GROUP, Hkv, B).
#ifndef WORK_GROUP
#define WORK_GROUP 128
#endif
#define STORAGE_EIGHTS
#include "call/score.clh"
#include "tiles/subgroups.clh"
#if DOT_I8
#include "base/dots.clh"
#endif

#if ROWS != 1 && ROWS != 2 && ROWS != 4
#error "ROWS is 1, 2 or 4"
#endif
#if WORK_GROUP % 16 != 0 || WORK_GROUP > 1024 || (SUBGROUP && WORK_GROUP % SUBGROUP != 0)
#error "WORK_GROUP is a multiple of 16 and of SUBGROUP, at most 1024"
#endif
#if DECODE_GROUPS_LANES(HEAD_DIM) > WORK_GROUP || DECODE_GROUPS_LANES(HEAD_DIM_V) > WORK_GROUP
#error "a row of K or V is read by one work-group, eight numbers a work-item"
#endif
#if LOADS_OF_8 && (HEAD_DIM % 8 != 0 || HEAD_DIM_V % 8 != 0)
#error "LOADS_OF_8: rows are whole loads of eight"
#endif

#define LANES_K DECODE_GROUPS_LANES(HEAD_DIM) // work-items per row
#define LANES_V DECODE_GROUPS_LANES(HEAD_DIM_V)
#define BLOCK_K DECODE_GROUPS_BLOCK(WORK_GROUP, HEAD_DIM) // keys loaded at once
#define BLOCK_V DECODE_GROUPS_BLOCK(WORK_GROUP, HEAD_DIM_V)
#define KEYS_CHUNK DECODE_GROUPS_CHUNK(WORK_GROUP, HEAD_DIM)
#if SUBGROUP_SHUFFLES
#define SHARE_LIMIT SUBGROUP
#else
#define SHARE_LIMIT 1
#endif
#define SHARE DECODE_GROUPS_SHARE(HEAD_DIM, SHARE_LIMIT)
#define PARTS DECODE_GROUPS_PARTS(HEAD_DIM, SHARE_LIMIT)
#define PITCH DECODE_GROUPS_PITCH(HEAD_DIM, SHARE_LIMIT)
#define SCRATCH DECODE_GROUPS_SCRATCH(WORK_GROUP, ROWS, HEAD_DIM, SHARE_LIMIT)
#if SUBGROUP
#define GROUP_ITEM SUBGROUP_ITEM
#else
#define GROUP_ITEM ((int)get_local_id(0))
#endif
#define SIXTEEN 16     // partial results of a reduction over the group
#define HIDDEN (-1.0f) // a hidden key's place among the weights, which are never negative

// For functions with pointers to registers or arguments: calls would put both in memory.
#define STEP_INLINE static __attribute__((always_inline))

// A number per row of the pass, and its component for row r, as FOR_ROWS passes it: a float has no
// .s0.
#if ROWS == 1
#define ROW_FLOATS float
#define FOR_ROWS(F) F(0, )
#elif ROWS == 2
#define ROW_FLOATS float2
#define FOR_ROWS(F) F(0, .s0) F(1, .s1)
#else
#define ROW_FLOATS float4
#define FOR_ROWS(F) F(0, .s0) F(1, .s1) F(2, .s2) F(3, .s3)
#endif

// Eight numbers per row, or per key. The members have names, because arrays would go to memory.
typedef struct row_eights {
#define MEMBER(r, c) float8 row##r;
    FOR_ROWS(MEMBER)
#undef MEMBER
} row_eights;
typedef struct key_eights {
    float8 k0, k1, k2, k3;
} key_eights;

// A row of the pass.
typedef struct pass_row {
    int h, i, first, last; // query head and row; it sees keys [first, last)
    float scale;           // factor from a product to SCORE_UNIT
} pass_row;

// The state that all work-items of the group share.
typedef struct decode_group {
    const attention_args *args;
    const score_call *call;
    __local pass_row *rows;
    __local float4 *q;
    __local float *scratch;
    __local ROW_FLOATS *weights, *sixteen; // for the keys of a chunk: scores, then weights
    int b, shift, item;
#if DOT_I8
    __global const ELEMENT(TYPE_Q) * from; // the call's q
#endif
} decode_group;
#if DOT_I8
#define GROUP_QUERIES , q
#else
#define GROUP_QUERIES
#endif

// Eight numbers of row j; zeros without a read if the row does not exist.
float8 load_row(const kv_head *rows, int j, int d, const int width, bool there, const int side) {
    if (there) return kv_eight(kv_row_at(rows, j), d, width, side);
    return (float8)(0.0f);
}

// Four keys from j on, as far as they are below `end`. All loads come before the first use.
key_eights load_block(const kv_head *rows, int j, int d, const int width, int end, const int side) {
    const key_eights x = {load_row(rows, j, d, width, j < end, side),
                          load_row(rows, j + 1, d, width, j + 1 < end, side),
                          load_row(rows, j + 2, d, width, j + 2 < end, side),
                          load_row(rows, j + 3, d, width, j + 3 < end, side)};
    return x;
}
key_eights load_whole_block(const kv_head *rows, int j, int d, const int width, const int side) {
    const key_eights x = {
        load_row(rows, j, d, width, true, side), load_row(rows, j + 1, d, width, true, side),
        load_row(rows, j + 2, d, width, true, side), load_row(rows, j + 3, d, width, true, side)};
    return x;
}

// True if row r sees key j.
bool row_sees(const decode_group *g, int r, int j) {
    const pass_row row = g->rows[r];
    const score_place at = {g->b, row.h, j, g->shift, row.i};
    return j >= row.first && j < row.last && score_kept(g->call, &at);
}

// Store the score of row r and key j, which is number `key` of the chunk.
STEP_INLINE void put_score(const decode_group *g, int r, int key, int j, float product) {
    const pass_row row = g->rows[r];
    const score_place at = {g->b, row.h, j, g->shift, row.i};
    bool seen = j >= row.first && j < row.last;
    const float s = score_step(g->call, &at, product * row.scale, &seen);
    ((__local float *)g->weights)[key * ROWS + r] = s;
}

#if SHARE > 1
// Add over SHARE lanes: each round exchanges half of the numbers with another lane and adds the
// other half. A lane ends with ROWS * 4 / SHARE complete sums at the start of `x`, or with one that
// several lanes have.
float8 fold_eight(float8 low, float8 high, int mask) {
    const bool upper = SUBGROUP_LANE & mask;
    const float8 give = upper ? low : high;
    float8 keep = upper ? high : low;
    keep.s0 += subgroup_xor(give.s0, mask), keep.s1 += subgroup_xor(give.s1, mask);
    keep.s2 += subgroup_xor(give.s2, mask), keep.s3 += subgroup_xor(give.s3, mask);
    keep.s4 += subgroup_xor(give.s4, mask), keep.s5 += subgroup_xor(give.s5, mask);
    keep.s6 += subgroup_xor(give.s6, mask), keep.s7 += subgroup_xor(give.s7, mask);
    return keep;
}
float4 fold_four(float4 low, float4 high, int mask) {
    const bool upper = SUBGROUP_LANE & mask;
    const float4 give = upper ? low : high;
    float4 keep = upper ? high : low;
    keep.s0 += subgroup_xor(give.s0, mask), keep.s1 += subgroup_xor(give.s1, mask);
    keep.s2 += subgroup_xor(give.s2, mask), keep.s3 += subgroup_xor(give.s3, mask);
    return keep;
}
float2 fold_two(float2 low, float2 high, int mask) {
    const bool upper = SUBGROUP_LANE & mask;
    const float2 give = upper ? low : high;
    float2 keep = upper ? high : low;
    keep.s0 += subgroup_xor(give.s0, mask), keep.s1 += subgroup_xor(give.s1, mask);
    return keep;
}
float8 fold(float16 x) {
    int mask = SHARE / 2;
    if (ROWS == 4 && mask) x.lo = fold_eight(x.lo, x.hi, mask), mask /= 2;
    if (ROWS >= 2 && mask) x.lo.lo = fold_four(x.lo.lo, x.lo.hi, mask), mask /= 2;
    if (mask) x.lo.lo.lo = fold_two(x.lo.lo.lo, x.lo.lo.hi, mask), mask /= 2;
    if (mask) {
        const bool upper = SUBGROUP_LANE & mask;
        x.s0 = (upper ? x.s1 : x.s0) + subgroup_xor(upper ? x.s0 : x.s1, mask);
        mask /= 2;
    }
    for (; mask; mask /= 2) x.s0 += subgroup_xor(x.s0, mask);
    return x.lo;
}

// The number of complete sums of a lane.
#define HELD (SHARE < 4 * ROWS ? 4 * ROWS / SHARE : 1)
#define COPIES (SHARE > 4 * ROWS ? SHARE / (4 * ROWS) : 1) // lanes with the same sum
#if HELD == 8
#define FOR_HELD(F) F(0, .s0) F(1, .s1) F(2, .s2) F(3, .s3) F(4, .s4) F(5, .s5) F(6, .s6) F(7, .s7)
#elif HELD == 4
#define FOR_HELD(F) F(0, .s0) F(1, .s1) F(2, .s2) F(3, .s3)
#elif HELD == 2
#define FOR_HELD(F) F(0, .s0) F(1, .s1)
#else
#define FOR_HELD(F) F(0, .s0)
#endif
#endif

// The maximum, or the sum, over all work-items, with the same bits in all.
#if SUBGROUP
#define DEFINE_REDUCTION(name, combine, of_subgroup)                                                         \
    STEP_INLINE ROW_FLOATS name(const decode_group *g, ROW_FLOATS x) {                                       \
        __local ROW_FLOATS *const parts = (__local ROW_FLOATS *)g->scratch;                                  \
        FOR_ROWS(of_subgroup)                                                                                \
        if (SUBGROUP_LANE == 0) parts[SUBGROUP_NUMBER] = x;                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        x = parts[0];                                                                                        \
        for (int n = 1; n < SUBGROUP_COUNT; n++) x = combine(x, parts[n]);                                   \
        return x;                                                                                            \
    }
#define SUBGROUP_MAX(r, c) x c = subgroup_max(x c);
#define SUBGROUP_SUM(r, c) x c = subgroup_sum(x c);
#else
#define DEFINE_REDUCTION(name, combine, of_subgroup)                                                         \
    STEP_INLINE ROW_FLOATS name(const decode_group *g, ROW_FLOATS x) {                                       \
        __local ROW_FLOATS *const parts = (__local ROW_FLOATS *)g->scratch;                                  \
        parts[g->item] = x;                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        if (g->item < SIXTEEN) {                                                                             \
            for (int n = g->item + SIXTEEN; n < WORK_GROUP; n += SIXTEEN) x = combine(x, parts[n]);          \
            g->sixteen[g->item] = x;                                                                         \
        }                                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        x = g->sixteen[0];                                                                                   \
        for (int n = 1; n < SIXTEEN; n++) x = combine(x, g->sixteen[n]);                                     \
        return x;                                                                                            \
    }
#endif
#define PLUS(x, y) ((x) + (y))
DEFINE_REDUCTION(group_max, fmax, SUBGROUP_MAX)
DEFINE_REDUCTION(group_sum, PLUS, SUBGROUP_SUM)

#if DOT_I8
#include "tiles/decode_integers.clh"
#else
typedef key_eights scored_keys;
#define load_scored(rows, j, d, end) load_block(rows, j, d, HEAD_DIM, end, KV_KEY)
#define load_whole_scored(rows, j, d) load_whole_block(rows, j, d, HEAD_DIM, KV_KEY)
float dot_eight(float8 a, float8 b) {
    const float4 x = fma(a.lo, b.lo, a.hi * b.hi);
    return (x.s0 + x.s1) + (x.s2 + x.s3);
}
// Row r's products with four keys, for this lane's eight numbers.
STEP_INLINE float4 products(const decode_group *g, int r, int lane, const scored_keys *k) {
    const int at = (r * LANES_K + lane) * 2;
    const float8 q = (float8)(g->q[at], g->q[at + 1]);
    return (float4)(dot_eight(q, k->k0), dot_eight(q, k->k1), dot_eight(q, k->k2), dot_eight(q, k->k3));
}
#endif

// The scores of keys [t0, t0 + BLOCK_K) of the chunk, as far as they are below `count`.
STEP_INLINE void score_block(const decode_group *g, const kv_head *keys, int c0, int t0, int count) {
    const int lane = g->item % LANES_K, four = g->item / LANES_K, key = t0 + 4 * four;
    const int end = four < BLOCK_K / 4 ? c0 + count : 0; // 0: a surplus work-item
    scored_keys k;
    if (c0 + key + 4 <= end)
        k = load_whole_scored(keys, c0 + key, 8 * lane);
    else
        k = load_scored(keys, c0 + key, 8 * lane, end);
#if SHARE > 1
#if ROWS == 4
    const float16 all = (float16)(products(g, 0, lane, &k), products(g, 1, lane, &k),
                                  products(g, 2, lane, &k), products(g, 3, lane, &k));
#elif ROWS == 2
    const float16 all = (float16)(products(g, 0, lane, &k), products(g, 1, lane, &k), (float8)(0.0f));
#else
    const float16 all = (float16)(products(g, 0, lane, &k), (float4)(0.0f), (float8)(0.0f));
#endif
    const float8 held = fold(all);
    // the work-item's first of the 4 * ROWS sums
    const int first = lane % SHARE * (4 * ROWS) / SHARE;
    const bool mine = end && lane % COPIES == 0;
#endif
#if PARTS > 1 || SHARE == 1
    barrier(CLK_LOCAL_MEM_FENCE); // the previous block's partial sums have been read
#if SHARE > 1
#define PUT(n, c)                                                                                            \
    g->scratch[((four * ROWS + (first + n) / 4) * PITCH + lane / SHARE) * 4 + (first + n) % 4] = held c;
    if (mine) {
        FOR_HELD(PUT)
    }
#else
#define PUT(r, c) ((__local float4 *)g->scratch)[(four * ROWS + r) * PITCH + lane] = products(g, r, lane, &k);
    if (end) {
        FOR_ROWS(PUT)
    }
#endif
#undef PUT
    barrier(CLK_LOCAL_MEM_FENCE); // partial sums are written
    for (int x = g->item; x < BLOCK_K * ROWS; x += WORK_GROUP) {
        const int at = x / 4, part = x % 4, mine_key = t0 + at / ROWS * 4 + part;
        float sum = 0.0f;
        for (int y = 0; y < PARTS; y++) sum += g->scratch[(at * PITCH + y) * 4 + part];
        if (mine_key < count) put_score(g, at % ROWS, mine_key, c0 + mine_key, sum);
    }
#else
#pragma unroll 1 // not unrolled: a score with all options is much code
    for (int y = 0; y < HELD; y++) {
        const int value = first + y, at = key + value % 4;
        float sum = held.s0;
#define TAKE(n, c)                                                                                           \
    if (y == n) sum = held c;
        FOR_HELD(TAKE)
#undef TAKE
        if (mine && at < count) put_score(g, value / 4, at, c0 + at, sum);
    }
#endif
}

// The rows' running maximum, the sums of this work-item's keys, and the factor of older sums.
typedef struct pass_state {
    ROW_FLOATS m, l, keep;
} pass_state;

// Convert the chunk's scores to weights.
STEP_INLINE void weigh(const decode_group *g, pass_state *x, int c0, int count, bool partial) {
    ROW_FLOATS most = (ROW_FLOATS)(-INFINITY);
    for (int key = g->item; key < count; key += WORK_GROUP) most = fmax(most, g->weights[key]);
    most = fmax(x->m, group_max(g, most));
    const ROW_FLOATS base = most == (ROW_FLOATS)(-INFINITY) ? (ROW_FLOATS)(0.0f) : most;
    x->keep = exp2((x->m - base) * SCORE_TO_EXP2);
    x->m = most, x->l *= x->keep;
    for (int key = g->item; key < count; key += WORK_GROUP) {
        ROW_FLOATS p = exp2((g->weights[key] - base) * SCORE_TO_EXP2);
        if (!partial) {
            x->l += p;
        } else {
#define HIDE(r, c)                                                                                           \
    if (row_sees(g, r, c0 + key))                                                                            \
        x->l c += p c;                                                                                       \
    else                                                                                                     \
        p c = HIDDEN;
            FOR_ROWS(HIDE)
#undef HIDE
        }
        g->weights[key] = p;
    }
}

#if DROPOUT
// Set the chunk's dropped weights to 0. The work-items share the quads of keys of each row.
STEP_INLINE void drop_weights(const decode_group *g, const dropout_args *a, int c0, int count) {
    const int quads = (c0 + count - 1) / 4 - c0 / 4 + 1;
    __local float *weights = (__local float *)g->weights;
    for (int x = g->item; x < quads * ROWS; x += WORK_GROUP) {
        const int r = x % ROWS, first = (c0 / 4 + x / ROWS) * 4 - c0;
        const uint drops =
            dropout_drops(a, g->b, g->rows[r].h, g->rows[r].i + g->args->first_row, (c0 + first) / 4);
        for (int key = first; key < first + 4; key++) {
            if (key < 0 || key >= count || !(drops >> (key - first) & 1u)) continue;
            if (weights[key * ROWS + r] != HIDDEN) weights[key * ROWS + r] = 0.0f;
        }
    }
}
#endif

// Skip a hidden key: 0 * NaN would be NaN.
float8 add_value(float8 acc, float weight, float8 v, bool partial) {
    return partial && weight == HIDDEN ? acc : fma((float8)(weight), v, acc);
}

ROW_FLOATS weights_of(const decode_group *g, int key, int count) {
    return key < count ? g->weights[key] : (ROW_FLOATS)(0.0f);
}

// acc += P V for the work-item's eight columns of the output.
STEP_INLINE void add_values(row_eights *acc, const decode_group *g, const kv_head *values, int c0, int count,
                            bool partial) {
    const int lane = g->item % LANES_V, four = g->item / LANES_V;
    const int end = four < BLOCK_V / 4 ? c0 + count : 0;
    for (int key = 4 * four; key < count; key += BLOCK_V) {
        key_eights v;
        if (c0 + key + 4 <= end)
            v = load_whole_block(values, c0 + key, 8 * lane, HEAD_DIM_V, KV_VALUE);
        else
            v = load_block(values, c0 + key, 8 * lane, HEAD_DIM_V, end, KV_VALUE);
        const ROW_FLOATS w0 = weights_of(g, key, count), w1 = weights_of(g, key + 1, count),
                         w2 = weights_of(g, key + 2, count), w3 = weights_of(g, key + 3, count);
#define ADD(r, c)                                                                                            \
    acc->row##r = add_value(acc->row##r, w0 c, v.k0, partial);                                               \
    acc->row##r = add_value(acc->row##r, w1 c, v.k1, partial);                                               \
    acc->row##r = add_value(acc->row##r, w2 c, v.k2, partial);                                               \
    acc->row##r = add_value(acc->row##r, w3 c, v.k3, partial);
        FOR_ROWS(ADD)
#undef ADD
    }
}

// Add the work-items' parts of row r's output and store it; 0 if the row sees no key.
STEP_INLINE void store_row(const decode_group *g, const row_eights *acc, const pass_state *state,
                           __global ELEMENT(TYPE_OUT) * out, __global float *lse, __global const int *table,
                           int split, int r, bool exists) {
    const attention_args *a = g->args;
    const pass_row at = g->rows[r];
    const int lane = g->item % LANES_V, four = g->item / LANES_V;
    float8 mine = acc->row0;
    softmax_state x = {0.0f, 0.0f};
#define TAKE(n, c)                                                                                           \
    if (r == n) mine = acc->row##n, x.m = state->m c * SCORE_TO_NATURAL, x.l = state->l c;
    FOR_ROWS(TAKE)
#undef TAKE
    float keep = 1.0f;
    if ((a->flags & ARGS_SINK) && split == 0) {
        const softmax_state with = softmax_add(x, table_sink(a, table, at.h));
        keep = exp(x.m - softmax_base(with.m));
        x = with;
    }
    const float factor = x.l == 0.0f ? 0.0f : keep / x.l;
    barrier(CLK_LOCAL_MEM_FENCE); // scratch has been read
    if (four < BLOCK_V / 4) vstore8(mine, four * LANES_V + lane, g->scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    __global ELEMENT(TYPE_OUT) *to = out + split * a->split_out + view_row(&a->out, g->b, at.h, at.i);
    for (int d = g->item; exists && d < HEAD_DIM_V; d += WORK_GROUP) {
        float sum = 0.0f;
        for (int n = 0; n < BLOCK_V / 4; n++) sum += g->scratch[n * LANES_V * 8 + d];
        STORE(TYPE_OUT, to, d, x.l == 0.0f ? 0.0f : sum * factor);
    }
    if ((a->flags & ARGS_LSE) && g->item == 0 && exists)
        softmax_store(lse, split * a->split_lse + view_row(&a->lse, g->b, at.h, at.i), a->flags, x);
}

// Global size: (splits * passes * WORK_GROUP, Hkv, B). Local size: (WORK_GROUP, 1, 1).
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) SUBGROUP_SIZED void
decode_groups(FUSED_ARGUMENTS) {
    __local float4 q_rows[ROWS * LANES_K * 2], scratch[SCRATCH / 4];
    __local ROW_FLOATS weights[KEYS_CHUNK], sixteen[SIXTEEN];
    __local pass_row rows[ROWS];
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(WORK_GROUP, ROWS, args.group)) return; // uniform
    const int b = FUSED_ITEM(get_global_id), h_kv = FUSED_HEAD(get_global_id);
    const mask_rows masks = mask_rows_of(&args, table, b);
    const int total = min(args.n_q, masks.item.q_length) * args.group; // rows of this head
    const int passes = (args.n_q * args.group + ROWS - 1) / ROWS;
    const int n = FUSED_PART, split = n / passes, row = n % passes * ROWS;
    if (row >= total) return; // uniform

    score_call call = SCORE_CALL;
    const decode_group g = {&args,   &call,   rows, q_rows,           (__local float *)scratch,
                            weights, sixteen, b,    masks.item.shift, GROUP_ITEM GROUP_QUERIES};
    const block_rows block = {b, h_kv * args.group, (h_kv + 1) * args.group - 1, row / args.group,
                              (min(row + ROWS, total) - 1) / args.group};
    const mask_tile keys_of = BLOCKS_TILE(&call, &masks, &block, split);
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    if (g.item < ROWS) {
        const int n = min(row + g.item, total - 1), i = n / args.group,
                  h = h_kv * args.group + n % args.group;
        const pass_row r = {h, i, mask_first_key(&masks, i), mask_last_key(&masks, i),
                            score_scale(&call, h) * SCORE_UNIT};
        rows[g.item] = r;
    }
    for (int x = g.item; x < ROWS * LANES_K * 8; x += WORK_GROUP) {
        const int n = min(row + x / (LANES_K * 8), total - 1), d = x % (LANES_K * 8);
        const long at = view_row(&args.q, b, h_kv * args.group + n % args.group, n / args.group);
        ((__local float *)q_rows)[x] = d < HEAD_DIM ? LOAD(TYPE_Q, q, at + d) : 0.0f;
    }
#if DOT_I8
    quantise_rows(&g);
#endif

    row_eights acc;
#define CLEAR(r, c) acc.row##r = (float8)(0.0f);
    FOR_ROWS(CLEAR)
    pass_state x; // set by member: Mesa's rusticl 22.3 reads a constant initialiser as zeros
    x.m = (ROW_FLOATS)(-INFINITY), x.l = (ROW_FLOATS)(0.0f);
    for (int c0 = BLOCKS_NEXT(&call, &block, keys_of.begin, keys_of.end), step; c0 < keys_of.end;
         c0 = BLOCKS_NEXT(&call, &block, c0 + step, keys_of.end)) {
        const int count = BLOCKS_RUN(&call, &block, c0, min(KEYS_CHUNK, keys_of.end - c0));
        step = BLOCKS_STEP(count, KEYS_CHUNK);
        const bool partial = (!SCORE_WHOLE(call, BLOCKS_HOLD(&call, &block, c0, count)) && SCORE_MASKED) ||
                             c0 < keys_of.all_begin || c0 + count > keys_of.all_end;
        // The previous weights have been read; in the first iteration, the rows are written.
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t0 = 0; t0 < count; t0 += BLOCK_K) score_block(&g, &keys, c0, t0, count);
        barrier(CLK_LOCAL_MEM_FENCE); // the scores are written
        weigh(&g, &x, c0, count, partial);
#define SCALE(r, c) acc.row##r *= x.keep c;
        FOR_ROWS(SCALE)
        barrier(CLK_LOCAL_MEM_FENCE); // the weights are written
#if DROPOUT
        drop_weights(&g, &dropout, c0, count);
        barrier(CLK_LOCAL_MEM_FENCE); // other work-items' weights were dropped
#endif
        add_values(&acc, &g, &values, c0, count, partial);
    }

#define FINISH(r, c) acc.row##r = DROPOUT_SCALED(acc.row##r);
    FOR_ROWS(FINISH)
    barrier(CLK_LOCAL_MEM_FENCE); // scratch has been read
    x.l = group_sum(&g, x.l);
#pragma unroll 1 // less code
    for (int r = 0; r < ROWS; r++) store_row(&g, &acc, &x, out, lse, table, split, r, row + r < total);
}
