// flash_fragments.cl: flash attention on a matrix engine that 32 work-items share (fragments.clh), for float16 and bfloat16. As
// FlashAttention-2 [Dao 2023]: a warp owns 16 * ROW_VECTORS query rows, whose fragments stay in registers with the scores and
// the output; a work-group of GROUP_ROWS warps walks over the keys TILE_KV at a time, and they share the tiles of K and V in local
// memory. The softmax is made on the fragments, whose elements' places are known: no score goes through memory. While scores are
// made the tile of V is on its way, and while values are added the next tile of K.
//   S = Q K^T    an item has of rows g and g + 8 of each 16 the keys 2 t and 2 t + 1 of each eight.
//   softmax      a row's maximum and sum over the four items that share it.
//   O += P V     weights, rounded to the type of V, are the left fragments as they are.
// Barriers are uniform: all loop bounds depend on the group alone.
#ifndef TYPE_Q
#define TYPE_Q STORE_F16
#endif
#ifndef TYPE_KV
#define TYPE_KV STORE_F16
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
#define VALUE_PARTS (2 * VALUE_STEPS) // of the output
#define KEY_PITCH FRAGMENTS_PITCH(HEAD_DIM)           // bytes of a row in local memory
#define VALUE_PITCH FRAGMENTS_PITCH(HEAD_DIM_V)
#define VALUES_AT (TILE_KV * KEY_PITCH)
#define SHARED_BYTES FRAGMENTS_LOCAL_BYTES(TILE_ROWS, TILE_KV, HEAD_DIM, HEAD_DIM_V)
#define CHANGES (SCORE_OPS & ~ARGS_HEAD_SCALES)

// Of a score: the power of two that its weight is. With options a score may be as far below 0 as float32 goes.
#if CHANGES
#define WEIGHT_BASE(most) (most)
#define WEIGHT_POWER(s) (((s)-base) * factor)
#else
#define WEIGHT_BASE(most) ((most)*factor)
#define WEIGHT_POWER(s) MULTIPLY_ADD(s, factor, -base)
#endif

#define EACH_VECTOR(x) FRAGMENT_UNROLL for (int x = 0; x < ROW_VECTORS; x++)
#define EACH_KEY_PART(y) FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y++)
#define EACH_VALUE_PART(y) FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y++)
#define EACH_ELEMENT(e) FRAGMENT_UNROLL for (int e = 0; e < 4; e++)
#define EACH_HALF(n) FRAGMENT_UNROLL for (int n = 0; n < 2; n++) // of a fragment: rows g and g + 8

typedef __global const ushort *row_pointer;

// Rows to local memory by the whole group, in pieces of eight numbers, 0 past a row's end: 2 * steps pieces of each of `count` rows, of
// which the first begins at `begin`. ROW_AT(n) is where row n begins in memory.
#if WIDE == 2
#define PIECE_BYTES(d, width) ((width) % 16 == 0 ? 16 : clamp(2 * ((width) - (d)), 0, 16))
#define PUT_PIECE(to, from, d, width)                                                                        \
    FRAGMENT_COPY(memory, to, (width) % 16 == 0 || (d) < (width) ? (from) + (d) : (from), PIECE_BYTES(d, width))
#else
uint4 gather_piece(row_pointer row, int d, int width) {
    uint x[8];
    for (int i = 0; i < 8; i++) x[i] = d + i < width ? (uint)row[d + i] : 0;
    return (uint4)(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16);
}
#define PUT_PIECE(to, from, d, width) tile[(to) / 16] = gather_piece(from, d, width)
#endif
// Where a piece of a row lies: places of eight pieces are exchanged by the row's number, so that the rows of a matrix fall on all banks.
#define PLACE(row, piece, pitch) ((row) * (pitch) + 16 * ((piece) ^ ((row) & 7)))
#define PUT_ROWS(begin, count, steps, pitch, width, ROW_AT)                                                  \
    FRAGMENT_UNROLL for (int at_ = 0; at_ < (count) * 2 * (steps); at_ += FRAGMENT_GROUP) {                  \
        const int n_ = at_ + id, row_ = n_ / (2 * (steps)), piece_ = n_ % (2 * (steps));                     \
        if ((count) * 2 * (steps) % FRAGMENT_GROUP == 0 || n_ < (count) * 2 * (steps)) {                     \
            const row_pointer from_ = (row_pointer)(ROW_AT(row_));                                           \
            PUT_PIECE((begin) + PLACE(row_, piece_, pitch), from_, 8 * piece_, width);                     \
        }                                                                                                    \
    }
// A tile of K or V. Where rows are a constant stride apart, an item's pieces are in one column of numbers, and it adds to one pointer;
// rows past the last are then 0, else copies of it.
#define PIECES(steps) ((steps) > 8 ? 32 : (steps) > 4 ? 16 : (steps) > 2 ? 8 : (steps) > 1 ? 4 : 2) // of a row, a power of two
#define ITEM_PIECE(steps) (id % PIECES(steps))
#define ITEM_ROW(steps) (id / PIECES(steps))
#define ROW_STEP(steps) (FRAGMENT_GROUP / PIECES(steps))
#define IN_STEPS(steps) (!PAST && !PAGED && WIDE == 2 && TILE_KV * PIECES(steps) % FRAGMENT_GROUP == 0)
#define PUT_STEPS(begin, steps, pitch, width, head, k)                                                       \
    {                                                                                                        \
        row_pointer from_ = (row_pointer)(head).at + ((k) + ITEM_ROW(steps)) * (head).stride + 8 * ITEM_PIECE(steps); \
        FRAGMENT_UNROLL for (int at_ = 0; at_ < TILE_KV; at_ += ROW_STEP(steps)) {                           \
            const int row_ = at_ + ITEM_ROW(steps);                                                          \
            if (PIECES(steps) == 2 * (steps) || ITEM_PIECE(steps) < 2 * (steps))                             \
                FRAGMENT_COPY(memory, (begin) + PLACE(row_, ITEM_PIECE(steps), pitch), from_,                \
                              (k) + row_ < seen.end ? PIECE_BYTES(8 * ITEM_PIECE(steps), width) : 0);        \
            from_ += ROW_STEP(steps) * (head).stride;                                                        \
        }                                                                                                    \
    }
#define QUERY_AT(n) (queries + min(i0 + (n), i_last) * args.q.row)
#define KEY_AT(n) kv_row_at(&keys, min(k_next + (n), seen.end - 1)).at
#define VALUE_AT(n) kv_row_at(&values, min(k0 + (n), seen.end - 1)).at
#if IN_STEPS(FRAGMENTS_STEPS(HEAD_DIM))
#define PUT_KEYS PUT_STEPS(0, STEPS, KEY_PITCH, HEAD_DIM, keys, k_next)
#else
#define PUT_KEYS PUT_ROWS(0, TILE_KV, STEPS, KEY_PITCH, HEAD_DIM, KEY_AT)
#endif
#if IN_STEPS(FRAGMENTS_STEPS(HEAD_DIM_V))
#define PUT_VALUES PUT_STEPS(VALUES_AT, VALUE_STEPS, VALUE_PITCH, HEAD_DIM_V, values, k0)
#else
#define PUT_VALUES PUT_ROWS(VALUES_AT, TILE_KV, VALUE_STEPS, VALUE_PITCH, HEAD_DIM_V, VALUE_AT)
#endif

// The first tile from key k on of which some row sees a key, by the block mask.
int next_tile(const score_call *c, const block_rows *r, int k, int end) {
    (void)c, (void)r; // for the block mask only
#if SCORE_OPS & ARGS_BLOCKS
    while (k < end && BLOCKS_HOLD(c, r, k, min(TILE_KV, end - k)) == ARGS_BLOCK_EMPTY) k += TILE_KV;
#endif
    return k;
}

// The key of an item's element e of part y, from the first of a tile on; and the row, from the first of a warp's vector on.
#define ELEMENT_KEY(y, e) (8 * (y) + 2 * (FRAGMENT_LANE % 4) + (e) % 2)
#define ELEMENT_ROW(e) (FRAGMENT_LANE / 4 + 8 * ((e) / 2))

// V's NaNs and infinities in what this item looks at become 0. Returns whether there are some.
#define STRANGE(bits) (((bits)&INFINITE) == INFINITE)
#define INFINITE (TYPE_KV == STORE_BF16 ? 0x7f80u : 0x7c00u)
bool values_clear(__local uint4 *tile, int id) {
    bool found = false;
    for (int n = id; n < TILE_KV * 2 * VALUE_STEPS; n += FRAGMENT_GROUP) {
        __local uint4 *at = tile + (VALUES_AT + PLACE(n / (2 * VALUE_STEPS), n % (2 * VALUE_STEPS), VALUE_PITCH)) / 16;
        const uint4 x = *at, low = x & INFINITE, high = x & (INFINITE << 16);
        const uint4 finite = select((uint4)(0xffffu), (uint4)(0), low == INFINITE) |
                             select((uint4)(0xffff0000u), (uint4)(0), high == (INFINITE << 16));
        if (any(finite != 0xffffffffu)) *at = x & finite, found = true;
    }
    return found;
}

float number_of(uint bits) {
#if TYPE_KV == STORE_BF16
    return as_float(bits << 16);
#else
    const ushort x = (ushort)bits;
    return vload_half(0, (const half *)&x);
#endif
}

#if DROPOUT
// Bits of what row i drops of key j and those that follow it among its four.
#define DROPS_FROM(i, j) (dropout_drops(&dropout, b, h, (i) + args.first_row, (j) / 4) >> (j) % 4)
#define DROPS(i, j) (DROPS_FROM(i, j) & 1u)
// Weights of a part that dropout drops become 0.
#define DROP(p, x, y)                                                                                        \
    EACH_HALF(n) {                                                                                           \
        const int key = k0 + ELEMENT_KEY(y, 0);                                                              \
        const uint drops = DROPS_FROM(first_row + 16 * (x) + ELEMENT_ROW(2 * n), key);                       \
        if (drops & 1u) p[2 * n] = 0.0f;                                                                     \
        if (drops & 2u) p[2 * n + 1] = 0.0f;                                                                 \
    }
#define TILE_BEGIN(begin) ((begin) / 4 * 4) // fours of keys lie in one tile
#else
#define DROP(p, x, y)
#define DROPS(i, j) false
#define TILE_BEGIN(begin) (begin)
#endif

// Global size: (row tiles * splits * FRAGMENT_GROUP, heads, batch).
__kernel __attribute__((reqd_work_group_size(FRAGMENT_GROUP, 1, 1))) void flash_fragments(FUSED_ARGUMENTS) {
    __local uint4 tile[SHARED_BYTES / 16] __attribute__((aligned(128)));
    __local int strange;
    FRAGMENT_EXCHANGE;
    FRAGMENT_DECLARE(memory, tile);
    const int id = (int)get_local_id(0), lane = FRAGMENT_LANE;
    FUSED_DECLARE_PLACE;
    if (FUSED_IS_IDLE(TILE_ROWS, 1)) return; // uniform
    const int b = FUSED_ITEM(UNIFORM_ID), h = FUSED_HEAD(UNIFORM_ID), h_kv = h / args.group;
    // With causality the last tiles have the most keys: they start first.
    const int part = FUSED_PARTS - 1 - FUSED_PART, split = part % args.splits, i0 = part / args.splits * TILE_ROWS;
    const mask_rows rows = mask_rows_of(&args, table, b);
    const int rows_end = min(args.n_q, rows.item.q_length), i_last = min(i0 + TILE_ROWS, rows_end) - 1;
    if (i0 >= rows_end) return; // uniform: the whole group leaves
    const mask_tile seen = mask_tile_of(&args, &rows, split, i0, i_last);
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&args, &kv, b, h_kv), values = kv_values(&args, &kv, b, h_kv);
    score_call call = SCORE_CALL;
    const block_rows blocks_of = {b, h, h, i0, i_last};
    const int first_row = i0 + WARP_ROWS * FRAGMENT_WARP; // of the warp

    // Scores are kept as products, which `factor` takes to powers of two and `natural` to scores; the maximum of products is
    // that of scores where the factor is above 0. Else, and with other options, scores are made before.
    const float scale = score_scale(&call, h);
    const bool folded = !CHANGES && scale > 0.0f;
    const float factor = folded ? scale * LOG2E : SCORE_TO_EXP2, natural = folded ? scale : SCORE_TO_NATURAL;

    // The rows of Q, through the place of keys and values.
    if (id == 0) strange = 0;
    uint q_part[ROW_VECTORS][STEPS][4];
    const row_pointer queries = (row_pointer)q + view_row(&args.q, b, h, 0);
    PUT_ROWS(0, TILE_ROWS, STEPS, KEY_PITCH, HEAD_DIM, QUERY_AT)
    FRAGMENT_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_VECTOR(x)
    FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++)
        FRAGMENT_LOAD(q_part[x][d], memory,
                      PLACE(WARP_ROWS * FRAGMENT_WARP + 16 * x + lane % 16, 2 * d + lane / 16, KEY_PITCH));
    barrier(CLK_LOCAL_MEM_FENCE); // they have been read

    float o[ROW_VECTORS][VALUE_PARTS][4], m[ROW_VECTORS][2], l[ROW_VECTORS][2];
    EACH_VECTOR(x) {
        EACH_VALUE_PART(y) EACH_ELEMENT(e) o[x][y][e] = 0.0f;
        EACH_HALF(n) m[x][n] = -INFINITY, l[x][n] = 0.0f; // l: of this item's keys alone
    }
    // The row of a matrix and the piece of it that begin where this item's number says.
    const int key_row = lane % 8 + lane / 16 * 8, key_piece = lane / 8 % 2, value_row = lane % 16, value_piece = lane / 16;

    int k_next = next_tile(&call, &blocks_of, TILE_BEGIN(seen.begin), seen.end);
    if (k_next < seen.end) {
        PUT_KEYS
    }
    while (k_next < seen.end) { // uniform
        const int k0 = k_next;
        const bool whole = SCORE_WHOLE(call, BLOCKS_HOLD(&call, &blocks_of, k0, min(TILE_KV, seen.end - k0)));
        const bool all_see =
            !(SCORE_MASKED && !whole) && k0 >= seen.all_begin && k0 + TILE_KV <= seen.all_end;
        FRAGMENT_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE); // keys are there, and the values before have been read
        PUT_VALUES
        float s[ROW_VECTORS][KEY_PARTS][4];
        EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) s[x][y][e] = 0.0f;
        FRAGMENT_UNROLL for (int d = 0; d < STEPS; d++)
            FRAGMENT_UNROLL for (int y = 0; y < KEY_PARTS; y += 2) {
                uint k_part[4];
                FRAGMENT_LOAD(k_part, memory, PLACE(key_row, 2 * d + key_piece, KEY_PITCH) + 8 * y * KEY_PITCH);
                EACH_VECTOR(x) {
                    FRAGMENT_MULTIPLY_ADD(s[x][y], q_part[x][d], k_part[0], k_part[1], memory);
                    FRAGMENT_MULTIPLY_ADD(s[x][y + 1], q_part[x][d], k_part[2], k_part[3], memory);
                }
            }

        // Products become scores, -inf where a row does not see the key.
        if (!folded) {
            EACH_VECTOR(x) EACH_KEY_PART(y) EACH_ELEMENT(e) s[x][y][e] *= scale * SCORE_UNIT;
        }
#if CHANGES
        // A loop that stays a loop: the first part is changed, and becomes the last.
#pragma unroll 1
        for (int y = 0; y < KEY_PARTS; y++) EACH_VECTOR(x) {
                EACH_ELEMENT(e) {
                    const int i = min(first_row + 16 * x + ELEMENT_ROW(e), i_last), j = k0 + ELEMENT_KEY(y, e);
                    const score_place at = {b, h, min(j, seen.end - 1), rows.item.shift, i};
                    bool sees = all_see || (j >= mask_first_key(&rows, i) && j < min(mask_last_key(&rows, i), seen.end));
                    s[x][0][e] = score_step(&call, &at, s[x][0][e], &sees);
                }
                EACH_ELEMENT(e) {
                    const float next = s[x][0][e];
                    FRAGMENT_UNROLL for (int z = 0; z + 1 < KEY_PARTS; z++) s[x][z][e] = s[x][z + 1][e];
                    s[x][KEY_PARTS - 1][e] = next;
                }
            }
#else
        if (!all_see) {
            EACH_VECTOR(x) EACH_HALF(n) {
                const int i = min(first_row + 16 * x + ELEMENT_ROW(2 * n), i_last),
                          first = mask_first_key(&rows, i) - k0,
                          last = min(mask_last_key(&rows, i), seen.end) - k0;
                EACH_KEY_PART(y) EACH_HALF(z) {
                    const int e = 2 * n + z, j = ELEMENT_KEY(y, e);
                    if (j < first || j >= last) s[x][y][e] = -INFINITY;
                }
            }
        }
#endif

        // Scores become weights; what is of before shrinks. No branch: a warp that is not together must not meet a product.
        EACH_VECTOR(x) EACH_HALF(n) {
            float most = m[x][n];
            EACH_KEY_PART(y) most = fmax(most, fmax(s[x][y][2 * n], s[x][y][2 * n + 1]));
            most = fmax(most, FRAGMENT_XOR(most, 1, memory));
            most = fmax(most, FRAGMENT_XOR(most, 2, memory));
            const float base = WEIGHT_BASE(softmax_base(most)), keep = FRAGMENT_EXP2(WEIGHT_POWER(m[x][n]));
            float sum = 0.0f;
            EACH_KEY_PART(y) EACH_HALF(z) {
                const float p = FRAGMENT_EXP2(WEIGHT_POWER(s[x][y][2 * n + z]));
                s[x][y][2 * n + z] = p, sum += p;
            }
            m[x][n] = most, l[x][n] = l[x][n] * keep + sum;
            EACH_VALUE_PART(y) EACH_HALF(z) o[x][y][2 * n + z] *= keep;
        }
        EACH_VECTOR(x) EACH_KEY_PART(y) {
            DROP(s[x][y], x, y)
        }

        FRAGMENT_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE); // values are there, and keys have been read
        if (!all_see) {
            if (values_clear(tile, id)) strange = 1;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        k_next = next_tile(&call, &blocks_of, k0 + TILE_KV, seen.end);
        if (k_next < seen.end) {
            PUT_KEYS
        }
        FRAGMENT_UNROLL for (int z = 0; z < KEY_PARTS; z += 2) {
            uint p[ROW_VECTORS][4];
            EACH_VECTOR(x) EACH_ELEMENT(e) {
                const int y = z + e / 2, at = e % 2 * 2;
                p[x][e] = FRAGMENT_PAIR(s[x][y][at], s[x][y][at + 1]);
            }
            FRAGMENT_UNROLL for (int y = 0; y < VALUE_PARTS; y += 2) {
                uint v_part[4];
                FRAGMENT_LOAD_TURNED(v_part, memory, VALUES_AT + PLACE(value_row, y + value_piece, VALUE_PITCH) + 8 * z * VALUE_PITCH);
                EACH_VECTOR(x) {
                    FRAGMENT_MULTIPLY_ADD(o[x][y], p[x], v_part[0], v_part[1], memory);
                    FRAGMENT_MULTIPLY_ADD(o[x][y + 1], p[x], v_part[2], v_part[3], memory);
                }
            }
        }
    }

    barrier(CLK_LOCAL_MEM_FENCE); // `strange` is known
    if (strange) {
        // Values that are a NaN or infinite were left out of tiles that some row does not see whole: each row adds those that it
        // sees, times a weight above 0, or times 0 where the weight is that. Slow, and rare; what is added twice is the same.
        (void)SCORE_WHOLE(call, ARGS_BLOCK_PARTIAL);
#pragma unroll 1
        for (int j = seen.begin; j < seen.end; j++) EACH_VECTOR(x) EACH_HALF(n) {
                const int i = min(first_row + 16 * x + ELEMENT_ROW(2 * n), i_last);
                const row_pointer v_row = (row_pointer)kv_row_at(&values, j).at;
                float p = 1.0f;
                if (j < mask_first_key(&rows, i) || j >= mask_last_key(&rows, i)) continue;
#if CHANGES
                const row_pointer q_row = queries + i * args.q.row, k_row = (row_pointer)kv_row_at(&keys, j).at;
                const score_place at = {b, h, j, rows.item.shift, i};
                float sum = 0.0f;
                bool sees = true;
                for (int d = 0; d < HEAD_DIM; d++)
                    sum = MULTIPLY_ADD(number_of(q_row[d]), number_of(k_row[d]), sum);
                if (score_step(&call, &at, sum * scale * SCORE_UNIT, &sees) == -INFINITY) p = 0.0f;
                if (!sees) continue;
#endif
                if (DROPS(i, j)) p = 0.0f;
                EACH_VALUE_PART(y) EACH_HALF(z) {
                    const uint bits = v_row[min(ELEMENT_KEY(y, z), HEAD_DIM_V - 1)];
                    if (STRANGE(bits)) o[x][y][2 * n + z] += p * number_of(bits);
                }
            }
    }

    // The rows' sums, and what the output is multiplied by; 0 in rows that saw nothing.
    const float sink = split == 0 ? table_sink(&args, table, h) : -INFINITY;
    EACH_VECTOR(x) EACH_HALF(n) {
        const int i = first_row + 16 * x + ELEMENT_ROW(2 * n);
        float sum = l[x][n];
        sum += FRAGMENT_XOR(sum, 1, memory);
        sum += FRAGMENT_XOR(sum, 2, memory);
        softmax_state state = {softmax_base(m[x][n]) * natural, sum};
        float keep = 1.0f;
        if (m[x][n] == -INFINITY) state.m = -INFINITY;
        if (sink != -INFINITY) {
            const softmax_state with = softmax_add(state, sink);
            keep = exp(state.m - softmax_base(with.m));
            state = with;
        }
        const bool none = state.l == 0.0f;
        const float by = DROPOUT_SCALED(none ? 0.0f : keep / state.l);
        const int columns = i < rows_end ? HEAD_DIM_V : 0; // no break: barriers of the emulation follow
        __global ELEMENT(TYPE_OUT) *to = out + split * args.split_out + view_row(&args.out, b, h, i);
        EACH_VALUE_PART(y) EACH_HALF(z) {
            const int d = ELEMENT_KEY(y, z);
            if (d < columns) STORE(TYPE_OUT, to, d, none ? 0.0f : o[x][y][2 * n + z] * by);
        }
        if ((args.flags & ARGS_LSE) && lane % 4 == 0 && columns)
            softmax_store(lse, split * args.split_lse + view_row(&args.lse, b, h, i), args.flags, state);
    }
}
