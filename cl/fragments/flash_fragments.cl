// flash_fragments.cl: flash attention on a matrix engine that 32 work-items share (fragments.clh), for float16 and bfloat16, as
// FlashAttention-2 has it [Dao 2023]: a warp owns 16 * ROW_VECTORS query rows, whose fragments stay in registers with the scores
// and the output; a work-group of GROUP_ROWS warps walks over the keys TILE_KV at a time, and its warps share the tiles of K and
// V in local memory. The softmax is made on the fragments, whose elements' places are known: no score goes through memory.
// While scores are made the tile of V is on its way, and while values are added the next tile of K.
//   S = Q K^T    an item has, of rows g and g + 8 of each 16, the keys 2 t and 2 t + 1 of each eight.
//   softmax      a row's maximum and sum over the four items that share it.
//   O += P V     weights, rounded to the type of V, are the left fragments as they are.
// Barriers are uniform: all loop bounds depend on the group alone. The softmax has no branch: a compiler that does not know a product for
// one of a whole warp might put it on both ways.
#ifndef TYPE_Q
#define TYPE_Q 1
#endif
#ifndef TYPE_KV
#define TYPE_KV 1
#endif
#ifndef GROUP_ROWS
#define GROUP_ROWS 4
#endif
#ifndef ROW_VECTORS
#define ROW_VECTORS 1
#endif
#define FRAGMENT_GROUP (GROUP_ROWS * FRAGMENT_ITEMS)
#include "fragments/fragments.clh"
#include "call/score.clh"

#if TYPE_Q != TYPE_KV || HEAD_DIM > 256 || HEAD_DIM_V > 256
#error "q, k and v are of one type of 16 bits, with heads of at most 256"
#endif
#if TILE_KV % 16 != 0 || TILE_KV > 64 || GROUP_ROWS > 16 || ROW_VECTORS > 2
#error "TILE_KV is 16, 32, 48 or 64; at most 16 warps, GROUP_ROWS, of 16 or 32 rows"
#endif
#if WIDE != 0 && WIDE != 2
#error "rows are read by eights or one by one"
#endif

#define WARP_ROWS (16 * ROW_VECTORS)
#define TILE_ROWS (WARP_ROWS * GROUP_ROWS)
#define KEY_PARTS (TILE_KV / 8) // fragments of scores
#define STEPS FRAGMENTS_STEPS(HEAD_DIM)
#define VALUE_STEPS FRAGMENTS_STEPS(HEAD_DIM_V)
#define VALUE_PARTS (2 * VALUE_STEPS)       // fragments of the output
#define KEY_PITCH FRAGMENTS_PITCH(HEAD_DIM) // bytes of a row in local memory
#define VALUE_PITCH FRAGMENTS_PITCH(HEAD_DIM_V)
#define VALUES_AT (TILE_KV * KEY_PITCH)
#define SHARED_BYTES FRAGMENTS_LOCAL_BYTES(TILE_ROWS, TILE_KV, HEAD_DIM, HEAD_DIM_V)
#define CHANGES (SCORE_OPS & ~ARGS_HEAD_SCALES)

#define EACH_VECTOR(x) FRAGMENT_UNROLL for (int x = 0; x < ROW_VECTORS; x++)
#define EACH_KEY_PART(y) FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y++)
#define EACH_VALUE_PART(y) FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y++)
#define EACH_ELEMENT(e) FRAGMENT_UNROLL for (int e = 0; e < 4; e++)
#define EACH_HALF(n) FRAGMENT_UNROLL for (int n = 0; n < 2; n++) // of a fragment: rows g and g + 8

// The key of an item's element e of part y, from the first of a tile on; and its row, from the first of a warp's 16 on.
#define ELEMENT_KEY(y, e) (8 * (y) + 2 * (FRAGMENT_LANE % 4) + (e) % 2)
#define ELEMENT_ROW(e) (FRAGMENT_LANE / 4 + 8 * ((e) / 2))

typedef __global const ushort *row_pointer;

// What a warp has at hand.
typedef struct warp_rows {
    int b, h, first, last,
        end; // its first row, the last row of the group that exists, where the group's keys end
    const mask_rows *bounds;
    float scale, factor, natural; // of the head; from what is kept as scores to powers of two, and to scores
    bool folded;                  // products are kept as they are
} warp_rows;
typedef struct warp_state {
    float o[ROW_VECTORS][VALUE_PARTS][4], m[ROW_VECTORS][2],
        l[ROW_VECTORS][2]; // l: of this item's keys alone
} warp_state;
typedef struct warp_scores {
    float s[ROW_VECTORS][KEY_PARTS][4];
} warp_scores;

// Where a piece of eight numbers of a row lies: eight pieces change places by the row's number, so that a matrix's rows fall on all
// banks.
#define PLACE(row, piece, pitch) ((row) * (pitch) + 16 * ((piece) ^ ((row)&7)))

// Numbers d to d + 7 of a row of `width` to local memory, 0 past its end, or all 0 where the row is not there.
FRAGMENT_INLINE void put_piece(fragment_memory *memory, __local uint4 *tile, int to, row_pointer row, int d,
                               const int width, bool there) {
#if WIDE == 2
    const int bytes = width % 16 == 0 ? 16 : clamp(2 * (width - d), 0, 16);
    (void)tile;
    FRAGMENT_COPY(*memory, to, width % 16 == 0 || d < width ? row + d : row, there ? bytes : 0);
#else
    uint x[8];
    (void)memory;
    for (int i = 0; i < 8; i++) x[i] = there && d + i < width ? (uint)row[d + i] : 0;
    tile[to / 16] = (uint4)(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16);
#endif
}

// Rows to local memory by the whole group, 2 * steps pieces of each; an item has piece PIECE_OF of row PIECE_ROW. Where those of a row
// divide the group its pieces are in one column, and where rows are a constant stride apart it adds to one pointer.
#define IN_COLUMN(steps) (FRAGMENT_GROUP % (2 * (steps)) == 0)
#define PIECE_AT(steps) ((int)get_local_id(0) + (IN_COLUMN(steps) ? 0 : at_))
#define PIECE_OF(steps) (PIECE_AT(steps) % (2 * (steps)))
#define PIECE_ROW(steps) (PIECE_AT(steps) / (2 * (steps)) + (IN_COLUMN(steps) ? at_ / (2 * (steps)) : 0))
#define EACH_PIECE(count, steps)                                                                             \
    FRAGMENT_UNROLL for (int at_ = 0; at_ < (count)*2 * (steps);                                             \
                         at_ += FRAGMENT_GROUP) if ((count)*2 * (steps) % FRAGMENT_GROUP == 0 ||             \
                                                    PIECE_ROW(steps) < (count))

FRAGMENT_INLINE void put_queries(fragment_memory *memory, __local uint4 *tile, row_pointer q, long stride,
                                 int i0, int i_last) {
    EACH_PIECE(TILE_ROWS, STEPS) {
        const int row = PIECE_ROW(STEPS), piece = PIECE_OF(STEPS);
        put_piece(memory, tile, PLACE(row, piece, KEY_PITCH), q + min(i0 + row, i_last) * stride, 8 * piece,
                  HEAD_DIM, true);
    }
}

// A tile of K or V, from key k on; rows from `end` on are 0.
FRAGMENT_INLINE void put_tile(fragment_memory *memory, __local uint4 *tile, int begin, const int steps,
                              const int pitch, const int width, const kv_head *head, int k, int end) {
    row_pointer from = (row_pointer)head->at + (k + (int)get_local_id(0) / (2 * steps)) * head->stride;
    const long step = (FRAGMENT_GROUP / (2 * steps)) * head->stride;
    EACH_PIECE(TILE_KV, steps) {
        const int row = PIECE_ROW(steps), piece = PIECE_OF(steps);
        if (PAST || PAGED || !IN_COLUMN(steps)) from = (row_pointer)kv_row_at(head, min(k + row, end - 1)).at;
        put_piece(memory, tile, begin + PLACE(row, piece, pitch), from, 8 * piece, width, k + row < end);
        from += step;
    }
}

// The first tile from key k on of which some row sees a key, by the block mask.
int next_tile(const score_call *c, const block_rows *r, int k, int end) {
    (void)c, (void)r; // for the block mask only
#if SCORE_OPS & ARGS_BLOCKS
    while (k < end && BLOCKS_HOLD(c, r, k, min(TILE_KV, end - k)) == ARGS_BLOCK_EMPTY) k += TILE_KV;
#endif
    return k;
}

// The products of the warp's rows with a tile's keys.
FRAGMENT_INLINE void multiply_keys(warp_scores *w, uint (*q)[STEPS][4], fragment_memory *memory) {
    const int lane = FRAGMENT_LANE, row = lane % 8 + lane / 16 * 8, piece = lane / 8 % 2;
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) w->s[x][y][e] = 0.0f;
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++) FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y += 2) {
        uint k[4];
        FRAGMENT_LOAD(k, *memory, PLACE(row, 2 * d + piece, KEY_PITCH) + 8 * y * KEY_PITCH);
        EACH_VECTOR(x) {
            FRAGMENT_MULTIPLY_ADD(w->s[x][y], q[x][d], k[0], k[1], *memory);
            FRAGMENT_MULTIPLY_ADD(w->s[x][y + 1], q[x][d], k[2], k[3], *memory);
        }
    }
}

// Products become scores, -inf where a row does not see the key.
#if CHANGES
FRAGMENT_INLINE void finish_scores(warp_scores *w, const warp_rows *r, const score_call *c, int k0,
                                   bool all_see) {
    // A loop that stays a loop: the first part is changed, and becomes the last.
#pragma unroll 1
    for (int y = 0; y < KEY_PARTS; y++) EACH_VECTOR(x) EACH_ELEMENT(e) {
            const int i = min(r->first + 16 * x + ELEMENT_ROW(e), r->last), j = k0 + ELEMENT_KEY(y, e);
            const score_place at = {r->b, r->h, min(j, r->end - 1), r->bounds->item.shift, i};
            bool sees = all_see ||
                        (j >= mask_first_key(r->bounds, i) && j < min(mask_last_key(r->bounds, i), r->end));
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
    EACH_VECTOR(x) EACH_HALF(n) {
        const int i = min(r->first + 16 * x + ELEMENT_ROW(2 * n), r->last),
                  first = mask_first_key(r->bounds, i) - k0,
                  last = min(mask_last_key(r->bounds, i), r->end) - k0;
        EACH_KEY_PART(y) EACH_HALF(z) {
            const int j = ELEMENT_KEY(y, z);
            if (j < first || j >= last) w->s[x][y][2 * n + z] = -INFINITY;
        }
    }
}
#endif

// Scores become weights, and what is of before shrinks. With options a score may be as far below 0 as float32 goes: their base is
// subtracted before the factor is taken.
#if CHANGES
#define WEIGHT_BASE(most) (most)
#define WEIGHT_POWER(s) (((s)-base) * r->factor)
#define WEIGHT_SHRINKS(from) (((from)-base) * r->factor)
#else
#define WEIGHT_BASE(most) ((most)*r->factor)
#define WEIGHT_POWER(s) MULTIPLY_ADD(s, r->factor, -base)
#define WEIGHT_SHRINKS(from) ((from)-base) // of bases as they were rounded, which the weights of before have
#endif
FRAGMENT_INLINE void weigh(warp_state *t, warp_scores *w, const warp_rows *r, fragment_memory *memory) {
    EACH_VECTOR(x) EACH_HALF(n) {
        float most = t->m[x][n];
        EACH_KEY_PART(y) most = fmax(most, fmax(w->s[x][y][2 * n], w->s[x][y][2 * n + 1]));
        most = fmax(most, FRAGMENT_XOR(most, 1, *memory));
        most = fmax(most, FRAGMENT_XOR(most, 2, *memory));
        const float before = WEIGHT_BASE(t->m[x][n]), base = WEIGHT_BASE(softmax_base(most)),
                    keep = t->m[x][n] == -INFINITY ? 0.0f : FRAGMENT_EXP2(WEIGHT_SHRINKS(before));
        float sum = 0.0f;
        EACH_KEY_PART(y) EACH_HALF(z) {
            const float p = FRAGMENT_EXP2(WEIGHT_POWER(w->s[x][y][2 * n + z]));
            w->s[x][y][2 * n + z] = p, sum += p;
        }
        t->m[x][n] = most, t->l[x][n] = t->l[x][n] * keep + sum;
        EACH_VALUE_PART(y) EACH_HALF(z) t->o[x][y][2 * n + z] *= keep;
    }
}

#if DROPOUT
// Bits of what row i of the launch drops of key j and those that follow it among its four.
uint drops_from(const dropout_args *a, const warp_rows *r, int first_row, int i, int j) {
    return dropout_drops(a, r->b, r->h, i + first_row, j / 4) >> j % 4;
}
#define DROPS(i, j) (drops_from(dropout, r, first_row, i, j) & 1u)
#define TILE_BEGIN(begin) ((begin) / 4 * 4) // fours of keys lie in one tile
// Weights that dropout drops become 0.
FRAGMENT_INLINE void drop_weights(warp_scores *w, const warp_rows *r, int first_row,
                                  int k0 DROPOUT_PARAMETER) {
    EACH_VECTOR(x) EACH_KEY_PART(y) EACH_HALF(n) {
        const uint drops =
            drops_from(dropout, r, first_row, r->first + 16 * x + ELEMENT_ROW(2 * n), k0 + ELEMENT_KEY(y, 0));
        if (drops & 1u) w->s[x][y][2 * n] = 0.0f;
        if (drops & 2u) w->s[x][y][2 * n + 1] = 0.0f;
    }
}
#define DROP_WEIGHTS(w, r, k0) drop_weights(w, r, args.first_row, k0, &dropout)
#else
#define DROPS(i, j) false
#define TILE_BEGIN(begin) (begin)
#define DROP_WEIGHTS(w, r, k0)
#endif

// o += P V.
FRAGMENT_INLINE void add_values(warp_state *t, const warp_scores *w, fragment_memory *memory) {
    const int row = FRAGMENT_LANE % 16, piece = FRAGMENT_LANE / 16;
    FRAGMENT_UNROLL for (int z = 0; z < KEY_PARTS; z += 2) {
        uint p[ROW_VECTORS][4];
        EACH_VECTOR(x) EACH_ELEMENT(e) {
            const int y = z + e / 2, at = e % 2 * 2;
            p[x][e] = FRAGMENT_PAIR(w->s[x][y][at], w->s[x][y][at + 1]);
        }
        FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y += 2) {
            uint v[4];
            FRAGMENT_LOAD_TURNED(v, *memory,
                                 VALUES_AT + PLACE(row, y + piece, VALUE_PITCH) + 8 * z * VALUE_PITCH);
            EACH_VECTOR(x) {
                FRAGMENT_MULTIPLY_ADD(t->o[x][y], p[x], v[0], v[1], *memory);
                FRAGMENT_MULTIPLY_ADD(t->o[x][y + 1], p[x], v[2], v[3], *memory);
            }
        }
    }
}

// A NaN or an infinity in V must not be multiplied by the 0 of a row that does not see its key. In tiles that some row does not see
// whole they become 0, and behind the last tile each row adds those that it sees.
#define INFINITE (TYPE_KV == STORE_BF16 ? 0x7f80u : 0x7c00u)
#define IS_STRANGE(bits) (((bits)&INFINITE) == INFINITE)
// Whether there are some in what this item looks at.
bool clear_strange(__local uint4 *tile) {
    bool found = false;
    for (int n = (int)get_local_id(0); n < TILE_KV * VALUE_PARTS; n += FRAGMENT_GROUP) {
        __local uint4 *at = tile + (VALUES_AT + PLACE(n / VALUE_PARTS, n % VALUE_PARTS, VALUE_PITCH)) / 16;
        const uint4 x = *at, low = x & INFINITE, high = x & (INFINITE << 16);
        const uint4 finite = select((uint4)(0xffffu), (uint4)(0), low == INFINITE) |
                             select((uint4)(0xffff0000u), (uint4)(0), high == (INFINITE << 16));
        if (any(finite != 0xffffffffu)) *at = x & finite, found = true;
    }
    return found;
}

// What is added is times a weight above 0, or times 0 where the weight is that. Slow, and rare; what is added twice is the same.
FRAGMENT_INLINE void add_strange(warp_state *t, const warp_rows *r, const score_call *c, row_pointer q,
                                 const kv_head *keys, const kv_head *values, int begin DROPOUT_PARAMETER) {
    const int first_row = c->args->first_row;
    (void)first_row, (void)q, (void)keys; // for options only
#pragma unroll 1
    for (int j = begin; j < r->end; j++) EACH_VECTOR(x) EACH_HALF(n) {
            const int i = min(r->first + 16 * x + ELEMENT_ROW(2 * n), r->last);
            const row_pointer v = (row_pointer)kv_row_at(values, j).at;
            float p = 1.0f;
            if (j < mask_first_key(r->bounds, i) || j >= mask_last_key(r->bounds, i)) continue;
#if CHANGES
            const row_pointer q_row = q + i * c->args->q.row, k_row = (row_pointer)kv_row_at(keys, j).at;
            const score_place at = {r->b, r->h, j, r->bounds->item.shift, i};
            float sum = 0.0f;
            bool sees = true;
            for (int d = 0; d < HEAD_DIM; d++)
                sum = MULTIPLY_ADD(fragment_number(q_row[d]), fragment_number(k_row[d]), sum);
            if (score_step(c, &at, sum * (r->scale * SCORE_UNIT), &sees) == -INFINITY) p = 0.0f;
            if (!sees) continue;
#endif
            if (DROPS(i, j)) p = 0.0f;
            EACH_VALUE_PART(y) EACH_HALF(z) {
                const uint bits = v[min(ELEMENT_KEY(y, z), HEAD_DIM_V - 1)];
                if (IS_STRANGE(bits)) t->o[x][y][2 * n + z] += p * fragment_number(bits);
            }
        }
}

// The rows' sums, with the sink, and the output; 0 in rows that saw nothing.
FRAGMENT_INLINE void store(warp_state *t, const warp_rows *r, const attention_args *a, int end, int split,
                           float sink, fragment_memory *memory, __global ELEMENT(TYPE_OUT) * out,
                           __global float *lse DROPOUT_PARAMETER) {
    EACH_VECTOR(x) EACH_HALF(n) {
        const int i = r->first + 16 * x + ELEMENT_ROW(2 * n);
        float sum = t->l[x][n];
        sum += FRAGMENT_XOR(sum, 1, *memory);
        sum += FRAGMENT_XOR(sum, 2, *memory);
        softmax_state state = {t->m[x][n] == -INFINITY ? -INFINITY : t->m[x][n] * r->natural, sum};
        float keep = 1.0f;
        if (sink != -INFINITY) {
            const softmax_state with = softmax_add(state, sink);
            keep = exp(state.m - softmax_base(with.m));
            state = with;
        }
        const bool none = state.l == 0.0f;
        const int columns = i < end ? HEAD_DIM_V : 0; // no break: the emulation has barriers
#if DROPOUT
        keep *= dropout->factor;
#endif
        __global ELEMENT(TYPE_OUT) *to = out + split * a->split_out + view_row(&a->out, r->b, r->h, i);
        EACH_VALUE_PART(y) EACH_HALF(z) {
            const int d = ELEMENT_KEY(y, z);
            if (d < columns) STORE(TYPE_OUT, to, d, none ? 0.0f : t->o[x][y][2 * n + z] * (keep / state.l));
        }
        if ((a->flags & ARGS_LSE) && FRAGMENT_LANE % 4 == 0 && columns)
            softmax_store(lse, split * a->split_lse + view_row(&a->lse, r->b, r->h, i), a->flags, state);
    }
}

// Global size: (row tiles * splits * FRAGMENT_GROUP, heads, batch).
__kernel __attribute__((reqd_work_group_size(FRAGMENT_GROUP, 1, 1))) void flash_fragments(FUSED_ARGUMENTS) {
    __local uint4 tile[SHARED_BYTES / 16] __attribute__((aligned(128)));
    __local int strange;
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(TILE_ROWS, 1)) return; // uniform
    // With causality the last tiles have the most keys: they start first.
    const int b = FUSED_ITEM(UNIFORM_ID), h = FUSED_HEAD(UNIFORM_ID), part = FUSED_PARTS - 1 - FUSED_PART;
    const int h_kv = h / args.group, split = part % args.splits, i0 = part / args.splits * TILE_ROWS;
    const mask_rows bounds = mask_rows_of(&args, table, b);
    const int rows_end = min(args.n_q, bounds.item.q_length), i_last = min(i0 + TILE_ROWS, rows_end) - 1;
    if (i0 >= rows_end) return; // uniform: the whole group leaves
    const mask_tile seen = mask_tile_of(&args, &bounds, split, i0, i_last);
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    const row_pointer queries = (row_pointer)q + view_row(&args.q, b, h, 0);
    const block_rows blocks_of = {b, h, h, i0, i_last};
    score_call call = SCORE_CALL;
    // Products are kept where the factor that makes scores of them is above 0: their maximum is then that of the scores.
    const float scale = score_scale(&call, h);
    const bool folded = !CHANGES && scale > 0.0f;
    warp_rows rows;
    rows.b = b, rows.h = h, rows.first = i0 + WARP_ROWS * FRAGMENT_WARP, rows.last = i_last,
    rows.end = seen.end;
    rows.bounds = &bounds, rows.scale = scale, rows.folded = folded;
    rows.factor = folded ? scale * LOG2E : SCORE_TO_EXP2, rows.natural = folded ? scale : SCORE_TO_NATURAL;

    if (get_local_id(0) == 0) strange = 0;
    put_queries(&memory, tile, queries, args.q.row, i0, i_last); // through the place of keys and values
    FRAGMENT_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
    uint q_part[ROW_VECTORS][STEPS][4];
    EACH_VECTOR(x)
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++)
        FRAGMENT_LOAD(q_part[x][d], memory,
                      PLACE(WARP_ROWS * FRAGMENT_WARP + 16 * x + FRAGMENT_LANE % 16,
                            2 * d + FRAGMENT_LANE / 16, KEY_PITCH));
    barrier(CLK_LOCAL_MEM_FENCE); // they have been read
    warp_state state;
    EACH_VECTOR(x) {
        EACH_VALUE_PART(y) EACH_ELEMENT(e) state.o[x][y][e] = 0.0f;
        EACH_HALF(n) state.m[x][n] = -INFINITY, state.l[x][n] = 0.0f;
    }
    int k_next = next_tile(&call, &blocks_of, TILE_BEGIN(seen.begin), seen.end);
    if (k_next < seen.end) put_tile(&memory, tile, 0, STEPS, KEY_PITCH, HEAD_DIM, &keys, k_next, seen.end);
    while (k_next < seen.end) { // uniform
        const int k0 = k_next;
        const bool whole = SCORE_WHOLE(call, BLOCKS_HOLD(&call, &blocks_of, k0, min(TILE_KV, seen.end - k0)));
        const bool all_see =
            !(SCORE_MASKED && !whole) && k0 >= seen.all_begin && k0 + TILE_KV <= seen.all_end;
        warp_scores scores;
        FRAGMENT_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE); // keys are there, and the values before have been read
        put_tile(&memory, tile, VALUES_AT, VALUE_STEPS, VALUE_PITCH, HEAD_DIM_V, &values, k0, seen.end);
        multiply_keys(&scores, q_part, &memory);
        finish_scores(&scores, &rows, &call, k0, all_see);
        weigh(&state, &scores, &rows, &memory);
        DROP_WEIGHTS(&scores, &rows, k0);
        FRAGMENT_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE); // values are there, and keys have been read
        if (!all_see) {
            if (clear_strange(tile)) strange = 1;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        k_next = next_tile(&call, &blocks_of, k0 + TILE_KV, seen.end);
        if (k_next < seen.end)
            put_tile(&memory, tile, 0, STEPS, KEY_PITCH, HEAD_DIM, &keys, k_next, seen.end);
        add_values(&state, &scores, &memory);
    }
    barrier(CLK_LOCAL_MEM_FENCE); // `strange` is known
    (void)SCORE_WHOLE(call, ARGS_BLOCK_PARTIAL);
    if (strange) add_strange(&state, &rows, &call, queries, &keys, &values, seen.begin DROPOUT_VALUE);
    store(&state, &rows, &args, rows_end, split, split == 0 ? table_sink(&args, table, h) : -INFINITY,
          &memory, out, lse DROPOUT_VALUE);
}
