// backward_tiles.cl: gradients of q (GRADIENT_OF_KV 0), or of k and v (GRADIENT_OF_KV 1), for GPUs,
// in OpenCL 1.2. All products are tiled in registers (tiles.clh).
//
// A work-group owns TILES_ROWS rows of the result: query rows, or keys. It loops over the other
// side, TILES_COLUMNS rows at a time, and with GRADIENT_OF_KV over the query heads of the group.
// Groups share no sums and need no atomics. The steps of a tile:
//   S = Q K^T, dout V^T  in chunks of columns: own rows transposed times the other side's as
//                        stored. Work-item (ty, tx) has own rows MICRO_ROWS * ty + 0, 1, ... and
//                        other rows tx + GROUP_COLUMNS * j of both products.
//   weights, slopes      from both products in registers (backward_score_of), for a slice of
//                        GROUP_COLUMNS other rows; then transposed through local memory.
//   dq += slopes K, or   in slices, whose rows are loaded again as stored.
//   dk += slopes Q, dv += weights dout
// Barriers are uniform: all loop bounds depend on the group alone. Own rows are loaded again for
// each tile, because keeping them would need all local memory from head size 64 on.
#define TYPE_RESULT TYPE_GRADIENT
#define FIRST_QUADS TILES_QUADS(HEAD_DIM)
#define SECOND_QUADS TILES_QUADS(HEAD_DIM_V)
#if GRADIENT_OF_KV
#define OUT_QUADS (HEAD_DIM > HEAD_DIM_V ? FIRST_QUADS : SECOND_QUADS)
#else
#define OUT_QUADS FIRST_QUADS
#endif
#include "tiles/tiles_results.clh"
#include "backward/backward.clh"

#if !STORE_IS_FLOAT(TYPE_KV) || KV_TWO_TYPES || PAST || PAGED
#error "gradients are of floats, in one view"
#endif
#define SHARED_WIDTH (HEAD_DIM > HEAD_DIM_V ? HEAD_DIM : HEAD_DIM_V)
#define SHARED_FOURS (FLASH_TILES_SHARED(MICRO_ROWS, GROUP_ROWS, GROUP_COLUMNS, CHUNK, SHARED_WIDTH) / 4)

// Rows of a head's q and dout, as kv_head has those of keys and values.
typedef struct query_rows {
    __global const ELEMENT(TYPE_Q) * at;
    long stride;
} query_rows;
typedef struct dout_rows {
    __global const ELEMENT(TYPE_OUT) * at;
    long stride;
} dout_rows;

#if ALIGNED_VECTORS == 2
#define ROW_PIECE LOAD_ROW_EIGHT
#define KV_PIECE kv_row_eight
#else
#define ROW_PIECE LOAD_ROW_FOUR
#define KV_PIECE kv_four
#endif
#define ROW_OF(from, row) ((from)->at + (row) * (from)->stride)
#define QUERY_AT(from, row, d, width) ROW_PIECE(TYPE_Q, ROW_OF(from, row), d, width)
#define DOUT_AT(from, row, d, width) ROW_PIECE(TYPE_OUT, ROW_OF(from, row), d, width)
#define KV_AT(from, row, d, width) KV_PIECE(kv_row_at(from, row), d, width, KV_KEY)

// The operands of both products of a score: the group's own rows, and the other side's.
#if GRADIENT_OF_KV
#define OWN_FIRST_AT KV_AT
#define OWN_SECOND_AT KV_AT
#define OTHER_FIRST_AT QUERY_AT
#define OTHER_SECOND_AT DOUT_AT
typedef const kv_head *own_first, *own_second;
typedef const query_rows *other_first;
typedef const dout_rows *other_second;
#else
#define OWN_FIRST_AT QUERY_AT
#define OWN_SECOND_AT DOUT_AT
#define OTHER_FIRST_AT KV_AT
#define OTHER_SECOND_AT KV_AT
typedef const query_rows *own_first;
typedef const dout_rows *own_second;
typedef const kv_head *other_first, *other_second;
#endif

// If CHUNK divides the row, no piece is past its end, which compilers do not see.
#define CHUNK_WIDTH(width, d) ((width) % CHUNK ? (width) : (d) + TILES_READ)
#define OWN_FIRST_CHUNK(from, row, d) OWN_FIRST_AT(from, row, d, CHUNK_WIDTH(HEAD_DIM, d))
#define OWN_SECOND_CHUNK(from, row, d) OWN_SECOND_AT(from, row, d, CHUNK_WIDTH(HEAD_DIM_V, d))
#define OTHER_FIRST_CHUNK(from, row, d) OTHER_FIRST_AT(from, row, d, CHUNK_WIDTH(HEAD_DIM, d))
#define OTHER_SECOND_CHUNK(from, row, d) OTHER_SECOND_AT(from, row, d, CHUNK_WIDTH(HEAD_DIM_V, d))
#define OTHER_FIRST_SLICE(from, row, d) OTHER_FIRST_AT(from, row, d, HEAD_DIM)
#define OTHER_SECOND_SLICE(from, row, d) OTHER_SECOND_AT(from, row, d, HEAD_DIM_V)
#define PIECES (CHUNK / TILES_READ)
TILES_DEFINE_LOAD_TRANSPOSED(load_own_first, own_first, OWN_FIRST_CHUNK, PIECES)
TILES_DEFINE_LOAD_TRANSPOSED(load_own_second, own_second, OWN_SECOND_CHUNK, PIECES)
TILES_DEFINE_LOAD(load_other_first, other_first, OTHER_FIRST_CHUNK, TILES_COLUMNS, PIECES, TILES_CHUNK_PITCH)
TILES_DEFINE_LOAD(load_other_second, other_second, OTHER_SECOND_CHUNK, TILES_COLUMNS, PIECES,
                  TILES_CHUNK_PITCH)
TILES_DEFINE_LOAD_SLICE(load_first_slice, other_first, OTHER_FIRST_SLICE, HEAD_DIM)
#if GRADIENT_OF_KV
TILES_DEFINE_LOAD_SLICE(load_second_slice, other_second, OTHER_SECOND_SLICE, HEAD_DIM_V)
#endif

// Load the pairs of the tile's query rows: the other side's, or the group's own.
#define PAIR_ROWS (GRADIENT_OF_KV ? TILES_COLUMNS : TILES_ROWS)
TILES_INLINE void load_pairs(__local float2 *to, __global const float2 *rows, int row0, int last) {
    TILES_EACH(PAIR_ROWS) {
        to[TILES_NUMBER] = rows[min(row0 + TILES_NUMBER, last)];
    }
}

// The state of one work-item and tile: its first own row, the tile's first other row, and the last
// existing row of each side.
typedef struct grad_tile {
    const score_call *call;
    const mask_rows *bounds;
    __local const float2 *pairs; // pairs of the work-item's own rows, or of the other side's rows
    float scale;
    int b, h;
    int own, own_last, other0, other_last;
    bool all_see; // no key is hidden from any row
} grad_tile;

// True if every query row sees every key by position, and the tile is full on both sides.
TILES_INLINE bool tile_is_whole(const mask_rows *bounds, int own0, int own_last, int other0, int other_last) {
    const int i0 = GRADIENT_OF_KV ? other0 : own0, i_last = GRADIENT_OF_KV ? other_last : own_last;
    const int j0 = GRADIENT_OF_KV ? own0 : other0, j_last = GRADIENT_OF_KV ? own_last : other_last;
    return own_last - own0 + 1 == TILES_ROWS && other_last - other0 + 1 == TILES_COLUMNS &&
           j0 >= mask_first_key(bounds, i_last) && j_last < mask_last_key(bounds, i0);
}

// Convert both products of the own rows with one other row, dots and values, to slopes and weights.
// The results of hidden pairs are -0, which no other result is. Not unrolled: NVIDIA's compiler
// would use 50 % more registers, and the code of score options would fill the instruction cache.
TILES_INLINE void grad_weigh(VEC *dots, VEC *values, const grad_tile *t, int other DROPOUT_PARAMETER) {
    const int there = min(other, t->other_last);
    VEC x = *dots, y = *values;
#pragma unroll 1
    for (int n = 0; n < MICRO_ROWS; n++) {
        const int mine = min(t->own + n, t->own_last);
        const int i = GRADIENT_OF_KV ? there : mine, j = GRADIENT_OF_KV ? mine : there;
        const bool seen =
            t->all_see || (other == there && t->own + n == mine && j >= mask_first_key(t->bounds, i) &&
                           j < mask_last_key(t->bounds, i));
        const score_place at = {t->b, t->h, j, t->bounds->item.shift, i};
        const backward_score s =
            backward_score_of(t->call, &at, t->scale, x.s0, y.s0,
                              t->pairs[GRADIENT_OF_KV ? other - t->other0 : n], seen DROPOUT_PASSED);
        const float slope = s.scaled * t->scale;
        x.s0 = !s.seen ? -0.0f : slope == 0.0f ? 0.0f : slope;
        y.s0 = s.seen ? s.weight : -0.0f;
        ROWS_NEXT(x), ROWS_NEXT(y);
    }
    *dots = x, *values = y;
}

// Move to the next other row of each work-item.
TILES_INLINE void tiles_next_column(tiles_sums *s) {
    s->c0 = s->c1, s->c1 = s->c2, s->c2 = s->c3;
}

// Store a result's rows from `row` on, as far as they are below `end`; `to` is the head's first
// row.
TILES_INLINE void grad_store(__global ELEMENT(TYPE_GRADIENT) * to, long stride, out_sums *sums, int row,
                             int end, int tx, const int width) {
#pragma unroll 1
    for (int x = 0; x < MICRO_ROWS; x++) {
        const int columns = row + x < end ? width : 0; // no break: see flash_tiles.cl
        out_store_row(to + (row + x) * stride, sums, tx, columns, TILES_QUADS(width));
    }
}

#if GRADIENT_OF_KV
#define OWN_FIRST &keys
#define OWN_SECOND &values
#define OTHER_FIRST &queries
#define OTHER_SECOND &douts
#else
#define OWN_FIRST &queries
#define OWN_SECOND &douts
#define OTHER_FIRST &keys
#define OTHER_SECOND &values
#endif

// Parts of the kernel that it uses twice: sums of own rows with the other side's in chunks of
// columns, and adding a slice to a result. Their first barrier waits until the previous chunk, or
// slice, has been read.
#define MULTIPLY_CHUNKS(sums, width, load_own, own_rows, load_others, other_rows)                            \
    for (int d0 = 0; d0 < (width); d0 += CHUNK) {                                                            \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        if (id == 0) strange[0] = 0;                                                                         \
        load_own(own, own_rows, own0, own_last, d0);                                                         \
        load_others(others, other_rows, o0, last, d0);                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        tiles_multiply(&(sums), own, others, ty, tx, TILES_CHUNK_STEPS(width, d0));                          \
    }
#define ADD_SLICE(result, weights, load_slice, rows, quads)                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    tiles_write_rows(turned, tx, ty, weights);                                                               \
    if (load_slice(slice, rows, x0, last) && !all_see) atomic_or(&strange[0], 1);                            \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    add_slice(&(result), turned, slice, ty, tx, quads, strange[0] != 0);

// Global size: (tiles of rows * TILES_GROUP, query or key/value heads, batch). The first result is
// dq, or dk with GRADIENT_OF_KV. The second is dv, with GRADIENT_OF_KV only.
__kernel __attribute__((reqd_work_group_size(TILES_GROUP, 1, 1))) SUBGROUP_SIZED void
backward_tiles(BACKWARD_INPUTS, __global ELEMENT(TYPE_GRADIENT) * first_result,
               __global ELEMENT(TYPE_GRADIENT) * second_result, BACKWARD_CALL) {
    __local float4 shared[SHARED_FOURS];
    __local float2 pairs[PAIR_ROWS];
    // 1: a row of the other side has an infinity or NaN that some own row does not see.
    __local int strange[1];
    __local float4 *const own = shared, *const others = shared + TILES_TRANSPOSED_FOURS;
    __local float4 *const turned = shared, *const slice = shared + GROUP_COLUMNS * TILES_TRANSPOSED_PITCH;
    const int id = (int)get_local_id(0), ty = id / GROUP_COLUMNS, tx = id % GROUP_COLUMNS;
    const int own0 = (int)get_group_id(0) * TILES_ROWS, b = UNIFORM_ID(2);
    FUSED_DECLARE_ARGS;
    BACKWARD_ITEM(b);
    const mask_rows bounds = mask_rows_of(&item_args, table, b);
    const backward_place place = backward_place_of(&args, &grads, &bounds, UNIFORM_ID(1));
    if (own0 >= place.written_end) return; // uniform
    const int own_last = min(own0 + TILES_ROWS, place.end) - 1;
    const kv_buffers kv = KV_BUFFERS;
    const kv_head keys = kv_keys(&item_args, &kv, b, place.h_kv),
                  values = kv_values(&item_args, &kv, b, place.h_kv);
    score_call call = SCORE_CALL;
    call.args = &item_args;
    const int2 range = own0 <= own_last ? backward_others(&bounds, own0, own_last) : (int2)(0, 0);
    out_sums first, second;
    out_clear(&first), out_clear(&second);
    for (int h = place.h; h < place.h_end; h++) {
        const query_rows queries = {q + view_row(&item_args.q, b, h, 0), args.q.row};
        const dout_rows douts = {dout + view_row(&item_args.VIEW_DOUT, b, h, 0), args.VIEW_DOUT.row};
        for (int o0 = range.x; o0 < range.y; o0 += TILES_COLUMNS) { // uniform
            const int last = min(o0 + TILES_COLUMNS, range.y) - 1;
            const block_rows block = {b, h, h, GRADIENT_OF_KV ? o0 : own0, GRADIENT_OF_KV ? last : own_last};
            (void)block; // used with block masks only
            const int holds = BLOCKS_HOLD(&call, &block, GRADIENT_OF_KV ? own0 : o0,
                                          GRADIENT_OF_KV ? own_last - own0 + 1 : last - o0 + 1);
            if (holds == ARGS_BLOCK_EMPTY) continue; // uniform
            (void)SCORE_WHOLE(call, holds);
            tiles_sums dots, products;
            tiles_clear(&dots), tiles_clear(&products);
            load_pairs(pairs, backward_rows_of(&grads, item_rows, b, h), GRADIENT_OF_KV ? o0 : own0,
                       GRADIENT_OF_KV ? last : own_last);
            MULTIPLY_CHUNKS(dots, HEAD_DIM, load_own_first, OWN_FIRST, load_other_first, OTHER_FIRST)
            MULTIPLY_CHUNKS(products, HEAD_DIM_V, load_own_second, OWN_SECOND, load_other_second,
                            OTHER_SECOND)
            const bool all_see = !(SCORE_MASKED && holds != ARGS_BLOCK_FULL) &&
                                 tile_is_whole(&bounds, own0, own_last, o0, last);
            const grad_tile tile = {&call,
                                    &bounds,
                                    pairs + (GRADIENT_OF_KV ? 0 : MICRO_ROWS * ty),
                                    score_scale(&call, h),
                                    b,
                                    h,
                                    own0 + MICRO_ROWS * ty,
                                    own_last,
                                    o0,
                                    last,
                                    all_see};
            for (int x0 = o0; x0 <= last; x0 += GROUP_COLUMNS) {
                VEC slopes = dots.c0, weights = products.c0;
                grad_weigh(&slopes, &weights, &tile, x0 + tx DROPOUT_VALUE);
                tiles_next_column(&dots), tiles_next_column(&products);
                ADD_SLICE(first, slopes, load_first_slice, OTHER_FIRST, FIRST_QUADS)
#if GRADIENT_OF_KV
                ADD_SLICE(second, weights, load_second_slice, OTHER_SECOND, SECOND_QUADS)
#endif
            }
        }
    }
    const args_view *to = GRADIENT_OF_KV ? &item_args.VIEW_DK : &item_args.VIEW_DQ;
    const int row = own0 + MICRO_ROWS * ty;
    if (grads.wants & (GRADIENT_OF_KV ? ARGS_WANTS_DK : ARGS_WANTS_DQ))
        grad_store(first_result + view_row(to, b, GRADIENT_OF_KV ? place.h_kv : place.h, 0), to->row, &first,
                   row, place.written_end, tx, HEAD_DIM);
#if GRADIENT_OF_KV
    if (grads.wants & ARGS_WANTS_DV)
        grad_store(second_result + view_row(&item_args.VIEW_DV, b, place.h_kv, 0), item_args.VIEW_DV.row,
                   &second, row, place.written_end, tx, HEAD_DIM_V);
#endif
}
