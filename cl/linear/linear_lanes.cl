// linear_lanes.cl: y = x W^T + bias for many rows, on devices whose work-item owns vector registers.
// Rows of x are in the lanes: x is transposed once per tile, an element of W is broadcast to all rows, and y
// is transposed back when it is stored. A work-item owns ROW_PANELS panels of LANES * ROW_VECTORS rows times
// column_tile columns, and walks the reduction in tiles that stay in the second-level cache. The rows of all
// batch items are one row set. Local size 1; global size (ceil(B*rows / TILE_ROWS), ceil(columns /
// column_tile)). Few rows are linear_few_lanes.cl's subject. Called by the layer's projections.
//
// Measured on a 2-core Zen 4 with PoCL 3.1, November 2026, in processor time: 85 to 92 % of the FMA peak from
// 512 x 768 x 768 to 2048^3, in all storage types. The micro-kernel runs at the peak; the rest is packing x
// and W and storing y. 4 x 6 and 5 x 4 accumulators are alike, 3 x 8 is 1 % behind, 2 x 12 2 %, 1 x 16 16 %;
// asking early for the next block of W gives 3 %, for the lines of y 1 to 2 %; two panels against one 1 to 4 %,
// 384 columns against 96 5 %; equal tiles against an uneven last one 4 to 8 %. In 48 or 80 rows less is padded: 77
// rows of 768 went from 115 to 180 GFLOP/s with 5 x 4 accumulators. Rejected: asking for the next tile of x (no
// change), four panels (no change).
// With DOT_BF16 each number in a vector is a pair of bfloat16 along the reduction, of x and of W as they are stored: 790 to
// 810 GFLOP/s on a 2-core Zen 5 from 512 x 768 x 768 to 2048 x 1024 x 1024, 1.8 times what multiply-adds reach there.

// Other standards than knobs.def's.
#ifndef ROW_VECTORS
#define ROW_VECTORS 4
#endif
#ifndef COLUMN_BLOCK
#define COLUMN_BLOCK 6
#endif
#define TAKES_BLOCKS
#include "lanes/lanes.clh"
#include "linear/linear_rope.clh"

#if DOT_BF16 && (TYPE_Q != STORE_BF16 || TYPE_KV != STORE_BF16 || LANES != 16)
#error "DOT_BF16 takes bfloat16 x and W, and 16 lanes"
#endif
// Numbers of the reduction that a multiply-add takes, and that a vector holds of one row.
#define STEP (1 + DOT_BF16)
#define SPAN (STEP * LANES)
#define TILE_STEPS (REDUCTION_TILE / STEP)
#if REDUCTION_TILE % SPAN || COLUMN_BLOCK % ROW_PANELS
#error "REDUCTION_TILE is a multiple of LANES (with DOT_BF16 of 32), COLUMN_BLOCK of ROW_PANELS"
#endif
#define TILE_VECTORS (ROW_PANELS * ROW_VECTORS)
#define TILE_ROWS (TILE_VECTORS * LANES)
// Rows of a block of W lie a whole number of pages apart where K is a power of two; packed with this padding
// they do not meet in one set of the first-level cache.
#define W_STRIDE (TILE_STEPS + LANES)
#define W_AHEAD (COLUMN_BLOCK / ROW_PANELS) // rows of W that a panel asks for

#if COLUMN_BLOCK > 32 || ROW_PANELS > 2
#error "COLUMN_BLOCK is at most 32, ROW_PANELS 1 or 2"
#endif
#if 4 * (TILE_ROWS * (TILE_STEPS + LINEAR_TILE_COLUMNS) + COLUMN_BLOCK * W_STRIDE) > PRIVATE_BYTES_MOST
#error "the tiles do not fit private memory"
#endif

#define ALIGNED __attribute__((aligned(4 * LANES)))

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global const ELEMENT(TYPE_KV) * w_pointer;
typedef __global ELEMENT(TYPE_OUT) * y_pointer;

// Columns [first, first + count) of a matrix whose columns are cut into heads: where they start, and whether
// they are contiguous and all exist.
typedef struct lane_columns {
    long at;
    bool whole;
} lane_columns;

long column_at(int column, int head_columns, long head) {
    return column / head_columns * head + column % head_columns;
}
lane_columns lane_columns_at(int first, int count, int columns, int head_columns, long head) {
    const bool whole = first + count <= columns && first % head_columns + count <= head_columns;
    return (lane_columns){column_at(first, head_columns, head), whole};
}

#if DOT_BF16
#define LOAD_X(p, i) AS_VEC(load_pairs(p, i))
#define LOAD_W(p, i) AS_VEC(load_pairs(p, i))
#define ADD_PRODUCT(x, y, acc) multiply_pairs(x, y, acc)
#else
#define LOAD_X(p, i) LOAD_LANES(TYPE_Q, p, i)
#define LOAD_W(p, i) LOAD_LANES(TYPE_KV, p, i)
#define ADD_PRODUCT(x, y, acc) fma(x, y, acc)
#endif

// A span of x's row from k on where that is not one piece; zero from the reduction's end on.
VEC gather_x(const linear_args *a, x_pointer row, int k) {
    float t[LANES];
    for (int j = 0; j < LANES; j++) {
        const int first = k + STEP * j;
        const long at = column_at(first, a->x_head_columns, a->x_head);
#if DOT_BF16
        const long odd = column_at(first + 1, a->x_head_columns, a->x_head);
        const uint low = first < a->reduction ? row[at] : 0, high = first + 1 < a->reduction ? row[odd] : 0;
        t[j] = as_float(low | high << 16);
#else
        t[j] = first < a->reduction ? LOAD(TYPE_Q, row, at) : 0.0f;
#endif
    }
    return VLOAD(0, t);
}

// Transpose depth (a multiple of SPAN) columns of x from `k` on into vectors of rows. LANES rows at a time
// walk along the reduction, so that the hardware prefetcher follows them.
void pack_x(const linear_args *a, x_pointer x, const long row_at[TILE_ROWS], int k, int depth,
            VEC tile[ROW_PANELS][TILE_STEPS][ROW_VECTORS]) {
    lane_columns c[REDUCTION_TILE / SPAN];
    for (int d = 0; d < depth; d += SPAN)
        c[d / SPAN] = lane_columns_at(k + d, SPAN, a->reduction, a->x_head_columns, a->x_head);
    for (int v = 0; v < TILE_VECTORS; v++) {
        for (int d = 0; d < depth; d += SPAN) {
            VEC t[LANES];
            if (c[d / SPAN].whole) {
                x_pointer p = x + c[d / SPAN].at;
#pragma unroll
                for (int j = 0; j < LANES; j++) t[j] = LOAD_X(p, row_at[v * LANES + j]);
            } else {
#pragma unroll 1
                for (int j = 0; j < LANES; j++) t[j] = gather_x(a, x + row_at[v * LANES + j], k + d);
            }
            transpose_lanes(t);
#pragma unroll
            for (int j = 0; j < LANES; j++) tile[v / ROW_VECTORS][d / STEP + j][v % ROW_VECTORS] = t[j];
        }
    }
}

// Copy a block of W as float32 (with DOT_BF16 as it is, in pairs), zero from the reduction's end on; columns past the last
// repeat it.
void pack_w(const linear_args *a, w_pointer w, int column, int k, int depth,
            float block[COLUMN_BLOCK][W_STRIDE]) {
    for (int n = 0; n < COLUMN_BLOCK; n++) {
        w_pointer p = BLOCK_AT(TYPE_KV, w + a->w_offset + min(column + n, a->columns - 1) * a->w_row, k);
        const int exist = min(depth, a->reduction - k), whole = exist / SPAN * SPAN;
        for (int d = 0; d < whole; d += SPAN) VSTORE(LOAD_W(p, d), 0, block[n] + d / STEP);
#if DOT_BF16
        for (int d = whole; d < depth; d += STEP) {
            const uint low = d < exist ? p[d] : 0, high = d + 1 < exist ? p[d + 1] : 0;
            block[n][d / STEP] = as_float(low | high << 16);
        }
#else
        for (int d = whole; d < depth; d++) block[n][d] = d < exist ? LOAD(TYPE_KV, p, d) : 0.0f;
#endif
    }
}

// The micro-kernel: y += x w for one panel and one block of columns. Meanwhile it asks for the rows of W that
// `next` points to, of which each panel takes its share; they are packed after this block.
void multiply_block(const VEC x[TILE_STEPS][ROW_VECTORS], const float w[COLUMN_BLOCK][W_STRIDE], int depth,
                    VEC y[][ROW_VECTORS], w_pointer next, long next_row) {
    VEC acc[COLUMN_BLOCK][ROW_VECTORS];
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCK; n++) {
#pragma unroll
        for (int v = 0; v < ROW_VECTORS; v++) acc[n][v] = y[n][v];
    }
    for (int first = 0; first < depth / STEP; first += LANES) {
        for (int n = 0; n < W_AHEAD; n++) PREFETCH(BLOCK_AT(TYPE_KV, next + n * next_row, first * STEP));
#pragma unroll 2
        for (int d = first; d < first + LANES; d++) {
#pragma unroll
            for (int n = 0; n < COLUMN_BLOCK; n++) {
#pragma unroll
                for (int v = 0; v < ROW_VECTORS; v++)
                    acc[n][v] = ADD_PRODUCT((VEC)(w[n][d]), x[d][v], acc[n][v]);
            }
        }
    }
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCK; n++) {
#pragma unroll
        for (int v = 0; v < ROW_VECTORS; v++) y[n][v] = acc[n][v];
    }
}

// Ask for the lines of y that the tile will be stored to: with the n-th column of a tile that part of its rows.
void ask_for_y(const linear_args *a, __global const ELEMENT(TYPE_OUT) * y, const long row_at[TILE_ROWS],
               int n, int first_column, int columns) {
    const int each = (TILE_ROWS * COLUMN_BLOCK + columns - 1) / columns, first = n / COLUMN_BLOCK * each;
    for (int c = 0; c < columns; c += LANES) {
        const long at = column_at(first_column + c, a->y_head_columns, a->y_head);
        for (int r = first; r < min(first + each, TILE_ROWS); r++) PREFETCH_WRITE(y + row_at[r] + at);
    }
}

// Store LANES columns of the tile's rows, from its n-th on; rows from `rows` on do not exist.
void store_y(const linear_args *a, y_pointer y, const long row_at[TILE_ROWS], int rows, int first_column,
             int first, VEC tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS]) {
    const int column = first_column + first;
    const lane_columns c = lane_columns_at(column, LANES, a->columns, a->y_head_columns, a->y_head);
    for (int v = 0; v < TILE_VECTORS; v++) {
        VEC t[LANES];
#pragma unroll
        for (int j = 0; j < LANES; j++) t[j] = tile[v / ROW_VECTORS][first + j][v % ROW_VECTORS];
        transpose_lanes(t);
        VEC lines[LANES];
#pragma unroll
        for (int j = 0; j < LANES; j++) lines[j] = t[j];
        for (int j = 0; j < LANES && v * LANES + j < rows; j++) {
            const long at = row_at[v * LANES + j];
            if (c.whole) {
                STORE_LANES(TYPE_OUT, y, at + c.at, lines[j]);
                continue;
            }
            const float *line = (const float *)&lines[j];
            for (int n = 0; n < LANES && column + n < a->columns; n++)
                STORE(TYPE_OUT, y, at + column_at(column + n, a->y_head_columns, a->y_head), line[n]);
        }
    }
}

#if ROPE
// Turn the heads of the tile, which holds whole heads: cosine and sine of a pair serve all of them.
void turn_tile(const linear_args *a, __global const ulong *turns, const ulong position[TILE_ROWS],
               int columns, VEC tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS]) {
    for (int pair = 0; pair < a->rotary_dim / 2; pair++) {
        for (int v = 0; v < TILE_VECTORS; v++) {
            const VEC_ULONG part = PASTE(vload, LANES)(0, position + v * LANES) * turns[pair];
            const VEC half_turns = TO_VEC(PASTE(as_long, LANES)(part)) * 0x1.0p-63f;
            const VEC c = cospi(half_turns) * a->amplitude, s = sinpi(half_turns) * a->amplitude;
            for (int head = 0; head < columns; head += a->y_head_columns) {
                VEC *first = &tile[v / ROW_VECTORS][head + rope_pair_first(pair)][v % ROW_VECTORS];
                VEC *second = &tile[v / ROW_VECTORS][head + rope_pair_second(a, pair)][v % ROW_VECTORS];
                const VEC y0 = *first, y1 = *second;
                *first = y0 * c - y1 * s;
                *second = y1 * c + y0 * s;
            }
        }
    }
}
#endif

__kernel void linear_lanes(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
                           __global const ELEMENT(TYPE_BIAS) * bias, __global ELEMENT(TYPE_OUT) * y,
                           __global const ulong *turns, __global const int *table, linear_args args) {
    const int first_column = (int)get_global_id(1) * args.column_tile;
    const long first_row = (long)get_group_id(0) * TILE_ROWS, all_rows = (long)args.batch * args.rows;
    const int rows = (int)min(all_rows - first_row, (long)TILE_ROWS);
    const int columns = min(args.columns - first_column, args.column_tile);
    VEC x_tile[ROW_PANELS][TILE_STEPS][ROW_VECTORS], y_tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS];
    float w_block[COLUMN_BLOCK][W_STRIDE] ALIGNED;
    long x_row_at[TILE_ROWS], y_row_at[TILE_ROWS];
#if ROPE
    ulong position[TILE_ROWS];
#endif
    for (int r = 0; r < TILE_ROWS; r++) {
        const long row =
            first_row + min(r, rows - 1); // rows past the end repeat the last; they are not stored
        const int b = (int)(row / args.rows), i = (int)(row % args.rows);
        x_row_at[r] = args.x_offset + b * args.x_batch + i * args.x_row;
        y_row_at[r] = args.y_offset + b * args.y_batch + i * args.y_row;
#if ROPE
        position[r] = (ulong)rope_position(&args, table, b, i);
#endif
    }
    for (int n = 0; n < args.column_tile; n++) {
        const bool biased = (args.flags & ARGS_BIAS) && n < columns;
        const VEC start = (VEC)(biased ? LOAD(TYPE_BIAS, bias, args.bias_offset + first_column + n) : 0.0f);
        for (int v = 0; v < TILE_VECTORS; v++) y_tile[v / ROW_VECTORS][n][v % ROW_VECTORS] = start;
    }
    for (int k = 0; k < args.reduction; k += REDUCTION_TILE) {
        const int exist = min(REDUCTION_TILE, args.reduction - k), depth = (exist + SPAN - 1) / SPAN * SPAN;
        pack_x(&args, x, x_row_at, k, depth, x_tile);
        for (int n = 0; n < columns; n += COLUMN_BLOCK) {
            pack_w(&args, w, first_column + n, k, depth, w_block);
            if (k + REDUCTION_TILE >= args.reduction) ask_for_y(&args, y, y_row_at, n, first_column, columns);
            for (int p = 0; p < ROW_PANELS; p++) {
                const int ahead = first_column + n + COLUMN_BLOCK + p * W_AHEAD,
                          most = args.columns - W_AHEAD;
                w_pointer next =
                    BLOCK_AT(TYPE_KV, w + args.w_offset + max(min(ahead, most), 0) * args.w_row, k);
                multiply_block(x_tile[p], w_block, depth, &y_tile[p][n], next, most < 0 ? 0 : args.w_row);
            }
        }
    }
#if ROPE
    turn_tile(&args, turns, position, columns, y_tile);
#endif
    for (int n = 0; n < columns; n += LANES) store_y(&args, y, y_row_at, rows, first_column, n, y_tile);
}
