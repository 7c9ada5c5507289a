// linear_lanes.cl: y = x W^T + bias for many rows, on CPUs. For few rows see linear_few_lanes.cl.
//
// Rows of x are in the lanes: x is transposed once per tile, an element of W is broadcast to all
// rows, and y is transposed when it is stored. A work-item is a whole work-group. It owns
// ROW_PANELS panels of LANES * ROW_VECTORS rows and column_tile columns, and loops over the
// reduction in tiles of REDUCTION_TILE that stay in the L2 cache. The rows of all batch items form
// one sequence. Private memory: tiles of x and y, and a packed block of W. Local size 1; global
// size (ceil(B*rows / TILE_ROWS), ceil(columns / column_tile)).
//
// Knobs that change the products:
//   TRANSPOSED  transposed W or x for gradients, whose reduction is over rows (linear.clh)
//   DOT_BF16   pairs of bfloat16 along the reduction, of x and W as stored
//   DOT_I8     integers, for W in ggml's blocks, int8, i4 or u4 (linear_lanes_integers.clh)
//
// On a Zen 4 with PoCL 3.1 it reaches 85 to 92 % of the FMA peak. The micro-kernel runs at the
// peak. Packing x and W and storing y cost the rest. Fastest are 4 x 6 and 5 x 4 accumulators.
// Prefetching W and y gains 4 to 5 %.

// Other defaults than those of knobs.def.
#ifndef ROW_VECTORS
#define ROW_VECTORS 4
#endif
#ifndef COLUMN_BLOCK
#define COLUMN_BLOCK 6
#endif
#include "lanes/lanes.clh"
#include "linear/linear.clh"

#if DOT_BF16 && (TYPE_Q != STORE_BF16 || TYPE_KV != STORE_BF16 || LANES != 16)
#error "DOT_BF16 takes bfloat16 x and W, and 16 lanes"
#endif
// Numbers of the reduction per multiply-add, and per vector of one row.
#define STEP (1 + DOT_BF16)
#define SPAN (STEP * LANES)
#define TILE_STEPS (REDUCTION_TILE / STEP)
#if REDUCTION_TILE % SPAN || COLUMN_BLOCK % ROW_PANELS
#error "REDUCTION_TILE is a multiple of LANES (with DOT_BF16 of 32), COLUMN_BLOCK of ROW_PANELS"
#endif
#define TILE_VECTORS (ROW_PANELS * ROW_VECTORS)
#define TILE_ROWS (TILE_VECTORS * LANES)
// Blocks of W that are packed at once, and their size. Padding after each row avoids conflicts in
// the first-level cache if the reduction is a power of two. A transposed W is packed in transposed
// blocks: enough of them to use whole cache lines of a row.
#if TRANSPOSED & LINEAR_TRANSPOSED_W
#define W_WIDE ((COLUMN_BLOCK + 3) / 4 * 4)
#define W_FLOATS (TILE_STEPS * W_WIDE + LANES) // whole vectors are stored
#define W_AT(w, n, d) w[(d)*W_WIDE + (n)]
#define W_DIRECT (TYPE_KV == STORE_F32) // whole blocks are read directly, without packing
#define W_BLOCKS (W_DIRECT ? 1 : 8)
#else
#define W_BLOCKS 1
#define W_STRIDE (TILE_STEPS + LANES)
#define W_FLOATS (COLUMN_BLOCK * W_STRIDE)
#define W_AT(w, n, d) w[(n)*W_STRIDE + (d)]
#endif
#define W_AHEAD (COLUMN_BLOCK / ROW_PANELS) // rows of W that a panel prefetches

#if COLUMN_BLOCK > 32 || ROW_PANELS > 2
#error "COLUMN_BLOCK is at most 32, ROW_PANELS 1 or 2"
#endif
#if 4 * (TILE_ROWS * (TILE_STEPS * (DOT_I8 ? 2 : 1) + LINEAR_TILE_COLUMNS) + W_BLOCKS * W_FLOATS) >          \
    PRIVATE_BYTES_MOST
#error "the tiles do not fit private memory"
#endif

#define ALIGNED __attribute__((aligned(4 * LANES)))

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global ELEMENT(TYPE_OUT) * y_pointer;

// Columns [first, first + count) of a matrix with heads: their offset, and if they all exist and
// are contiguous.
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
float pair_of(uint low, uint high) {
    return as_float(low | high << 16);
}
// Pairs of numbers of two neighbouring rows.
VEC load_row_pairs(__global const ushort *p, long row) {
    return AS_VEC(TO_VEC_UINT(VLOAD(0, p)) | TO_VEC_UINT(VLOAD(0, p + row)) << 16);
}
#define LOAD_X(p, i) AS_VEC(load_pairs(p, i))
#define LOAD_W(row, i) AS_VEC(load_pairs(row, i))
#define ADD_PRODUCT(x, y, acc) multiply_pairs(x, y, acc)
#else
#define LOAD_X(p, i) LOAD_LANES(TYPE_Q, p, i)
#if W_SCALED
#define LOAD_W(row, i) kv_lanes(row, i, KV_KEY)
#else
#define LOAD_W(row, i) LOAD_LANES(TYPE_KV, row, i)
#endif
#define ADD_PRODUCT(x, y, acc) fma(x, y, acc)
#endif

// SPAN numbers of a row of x from k on that are not contiguous; 0 past the reduction.
VEC gather_x(const linear_args *a, x_pointer row, int k) {
    float t[LANES];
    for (int j = 0; j < LANES; j++) {
        const int first = k + STEP * j;
        const long at = column_at(first, a->x_head_columns, a->x_head);
#if DOT_BF16
        const long odd = column_at(first + 1, a->x_head_columns, a->x_head);
        t[j] = pair_of(first < a->reduction ? row[at] : 0, first + 1 < a->reduction ? row[odd] : 0);
#else
        t[j] = first < a->reduction ? LOAD(TYPE_Q, row, at) : 0.0f;
#endif
    }
    return VLOAD(0, t);
}

#if TRANSPOSED & LINEAR_TRANSPOSED_X
// One step k of the reduction for LANES rows of a transposed x; 0 past the reduction. If the rows
// are not contiguous, each is read by itself.
VEC load_step(const linear_args *a, x_pointer x, const long row_at[LANES], int k) {
    const bool whole = row_at[LANES - 1] == row_at[0] + LANES - 1;
    x += k * a->x_head;
#if DOT_BF16
    const bool odd = k + 1 < a->reduction;
    if (whole && odd) return load_row_pairs(x + row_at[0], a->x_head);
#else
    if (whole) return LOAD_LANES(TYPE_Q, x, row_at[0]);
#endif
    float t[LANES];
    for (int j = 0; j < LANES; j++)
#if DOT_BF16
        t[j] = pair_of(x[row_at[j]], odd ? x[row_at[j] + a->x_head] : 0);
#else
        t[j] = LOAD(TYPE_Q, x, row_at[j]);
#endif
    return VLOAD(0, t);
}

void pack_x(const linear_args *a, x_pointer x, const long row_at[TILE_ROWS], int k, int depth,
            VEC tile[ROW_PANELS][TILE_STEPS][ROW_VECTORS]) {
    for (int d = 0; d < depth; d += STEP)
        for (int v = 0; v < TILE_VECTORS; v++)
            tile[v / ROW_VECTORS][d / STEP][v % ROW_VECTORS] =
                k + d < a->reduction ? load_step(a, x, row_at + v * LANES, k + d) : (VEC)(0.0f);
}
#else
// Transpose `depth` (a multiple of SPAN) columns of x from k on to vectors of rows. It reads LANES
// rows along the reduction at a time, which the hardware prefetcher follows.
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

#endif

// `pack_w` copies `blocks` blocks of W as float32 (with DOT_BF16 as pairs), with 0 past the
// reduction; columns past the last column are copies of it. `next_w` is the part of W that a panel
// prefetches.
#if TRANSPOSED & LINEAR_TRANSPOSED_W
void pack_w(const linear_args *a, w_matrix of, int column, int k, int depth, int blocks, float *to) {
    w_pointer w = of.at + a->w_offset + k * a->w_row;
    for (int d = 0; d < depth; d += STEP, to += W_WIDE) {
        w_pointer p = w + d * a->w_row;
        const bool there = k + d < a->reduction, odd = k + d + 1 < a->reduction;
        for (int block = 0; block < blocks; block++) {
            const int first = column + block * COLUMN_BLOCK;
            const int end = first + (COLUMN_BLOCK + LANES - 1) / LANES * LANES;
            if (end <= a->columns && there && (odd || STEP == 1)) {
                for (int n = 0; n < COLUMN_BLOCK; n += LANES)
#if DOT_BF16
                    VSTORE(load_row_pairs(p + first + n, a->w_row), 0, to + block * W_FLOATS + n);
#else
                    VSTORE(LOAD_LANES(TYPE_KV, p, first + n), 0, to + block * W_FLOATS + n);
#endif
                continue;
            }
            for (int n = 0; n < COLUMN_BLOCK; n++) {
                const int c = min(first + n, a->columns - 1);
#if DOT_BF16
                to[block * W_FLOATS + n] = pair_of(there ? p[c] : 0, odd ? p[a->w_row + c] : 0);
#else
                to[block * W_FLOATS + n] = there ? LOAD(TYPE_KV, p, c) : 0.0f;
#endif
            }
        }
    }
}
// While a panel uses a block, it prefetches as many rows of the next blocks as it has vectors along
// the reduction.
w_pointer next_w(const linear_args *a, w_pointer w, int column, int block, int panel, int k) {
    const int row = (block * ROW_PANELS + panel) * (TILE_STEPS / LANES) * STEP;
    const int next = column + (W_BLOCKS - block) * COLUMN_BLOCK;
    return w + a->w_offset + min(k + row, a->reduction - 1) * a->w_row + min(next, a->columns - 1);
}
#define ASK_FOR_W(next, row, k)                                                                              \
    for (int n = 0; n < W_BLOCKS * COLUMN_BLOCK; n += LANES) PREFETCH_FAR(next + (k) / LANES * row + n)
#define ASK_FOR_ROWS(w, row, k)                                                                              \
    for (int d = 0; d < LANES; d++) PREFETCH(w + (k + d) * row)
#else
void pack_w(const linear_args *a, w_matrix w, int column, int k, int depth, int blocks, float *block) {
    for (int n = 0; n < COLUMN_BLOCK; n++) {
        const row_of_w row = w_row_of(w, a, min(column + n, a->columns - 1));
        const int exist = min(depth, a->reduction - k), whole = exist / SPAN * SPAN;
        float *to = block + n * W_STRIDE;
        for (int d = 0; d < whole; d += SPAN) *(VEC *)(to + d / STEP) = LOAD_W(row, k + d);
#if DOT_BF16
        for (int d = whole; d < depth; d += STEP)
            to[d / STEP] = pair_of(d < exist ? row[k + d] : 0, d + 1 < exist ? row[k + d + 1] : 0);
#else
        for (int d = whole; d < depth; d++) to[d] = d < exist ? W_NUMBER(row, k + d) : 0.0f;
#endif
    }
}
w_pointer next_w(const linear_args *a, w_pointer w, int column, int block, int panel, int k) {
    const int row = max(min(column + COLUMN_BLOCK + panel * W_AHEAD, a->columns - W_AHEAD), 0);
    return BLOCK_AT(TYPE_KV, w + a->w_offset + row * a->w_row, k);
}
#define ASK_FOR_W(next, row, k)                                                                              \
    for (int n = 0; n < W_AHEAD; n++) PREFETCH(BLOCK_AT(TYPE_KV, next + n * row, k))
#endif

// The micro-kernel: y += x w for one panel and one block of columns. It also prefetches the panel's
// part of the next block of W (`next`), which is packed later. For an unpacked W, `next` is this
// block.
#define DEFINE_MULTIPLY(name, element, ask)                                                                  \
    void name(const VEC x[TILE_STEPS][ROW_VECTORS], const float w[W_FLOATS], int depth,                      \
              VEC y[][ROW_VECTORS], w_pointer next, long next_row) {                                         \
        VEC acc[COLUMN_BLOCK][ROW_VECTORS];                                                                  \
        _Pragma("unroll") for (int n = 0; n < COLUMN_BLOCK; n++) {                                           \
            _Pragma("unroll") for (int v = 0; v < ROW_VECTORS; v++) acc[n][v] = y[n][v];                     \
        }                                                                                                    \
        for (int first = 0; first < depth / STEP; first += LANES) {                                          \
            ask;                                                                                             \
            _Pragma("unroll 2") for (int d = first; d < first + LANES; d++) {                                \
                _Pragma("unroll") for (int n = 0; n < COLUMN_BLOCK; n++) {                                   \
                    _Pragma("unroll") for (int v = 0; v < ROW_VECTORS; v++) acc[n][v] =                      \
                        ADD_PRODUCT((VEC)(element), x[d][v], acc[n][v]);                                     \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("unroll") for (int n = 0; n < COLUMN_BLOCK; n++) {                                           \
            _Pragma("unroll") for (int v = 0; v < ROW_VECTORS; v++) y[n][v] = acc[n][v];                     \
        }                                                                                                    \
    }
DEFINE_MULTIPLY(multiply_block, W_AT(w, n, d), ASK_FOR_W(next, next_row, first *STEP))
#if W_DIRECT
DEFINE_MULTIPLY(multiply_direct, next[d * next_row + n], ASK_FOR_ROWS(next, next_row, first + LANES))
#endif

#if DOT_I8
#include "linear/linear_lanes_integers.clh"
#endif

// Prefetch the lines where the tile will be stored: a part of its rows with column n.
void ask_for_y(const linear_args *a, __global const ELEMENT(TYPE_OUT) * y, const long row_at[TILE_ROWS],
               int n, int first_column, int columns) {
    const int each = (TILE_ROWS * COLUMN_BLOCK + columns - 1) / columns, first = n / COLUMN_BLOCK * each;
    for (int c = 0; c < columns; c += LANES) {
        const long at = column_at(first_column + c, a->y_head_columns, a->y_head);
        for (int r = first; r < min(first + each, TILE_ROWS); r++) PREFETCH_WRITE(y + row_at[r] + at);
    }
}

// Store LANES columns of the tile's rows, from column `first` of the tile on. Only the first `rows`
// rows exist.
void store_y(const linear_args *a, y_pointer y, const long row_at[TILE_ROWS], int rows, int first_column,
             int first, VEC tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS]) {
    const int column = first_column + first;
    const lane_columns c = lane_columns_at(column, LANES, a->columns, a->y_head_columns, a->y_head);
    for (int v = 0; v < TILE_VECTORS && v * LANES < rows; v++) {
        VEC t[LANES];
#pragma unroll
        for (int j = 0; j < LANES; j++) t[j] = tile[v / ROW_VECTORS][first + j][v % ROW_VECTORS];
        transpose_lanes(t);
        if (c.whole && (v + 1) * LANES <= rows) {
#pragma unroll
            for (int j = 0; j < LANES; j++) STORE_LANES(TYPE_OUT, y, row_at[v * LANES + j] + c.at, t[j]);
            continue;
        }
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
// Apply RoPE to the tile, which has whole heads: cosine and sine of a pair serve all of them.
void rope_tile(const linear_args *a, __global const ulong *frequencies, const ulong position[TILE_ROWS],
               int columns, VEC tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS]) {
    for (int pair = 0; pair < a->rotary_dim / 2; pair++) {
        for (int v = 0; v < TILE_VECTORS; v++) {
            const VEC_ULONG part = PASTE(vload, LANES)(0, position + v * LANES) * frequencies[pair];
            const VEC angle_over_pi = TO_VEC(PASTE(as_long, LANES)(part)) * 0x1.0p-63f;
            const VEC c = cospi(angle_over_pi) * a->amplitude, s = sinpi(angle_over_pi) * a->amplitude;
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
                           W_SCALES_OF() __global const ELEMENT(TYPE_BIAS) * bias,
                           __global ELEMENT(TYPE_OUT) * y, __global const ulong *frequencies,
                           __global const int *table, linear_args args) {
    const int first_column = (int)get_global_id(1) * args.column_tile;
    const long first_row = (long)get_group_id(0) * TILE_ROWS, all_rows = (long)args.batch * args.rows;
    const int rows = (int)min(all_rows - first_row, (long)TILE_ROWS);
    const int columns = min(args.columns - first_column, args.column_tile);
    VEC x_tile[ROW_PANELS][TILE_STEPS][ROW_VECTORS], y_tile[ROW_PANELS][LINEAR_TILE_COLUMNS][ROW_VECTORS];
    float w_block[W_BLOCKS * W_FLOATS] ALIGNED;
    const w_matrix all = W_POINTERS();
    long x_row_at[TILE_ROWS], y_row_at[TILE_ROWS];
#if DOT_I8
    x_block x_integers[ROW_PANELS][INTEGER_BLOCKS];
    w_integers w_integers;
#endif
#if ROPE
    ulong position[TILE_ROWS];
#endif
    for (int r = 0; r < TILE_ROWS; r++) {
        // Rows past the last row are copies of it, and are not stored.
        const long row = first_row + min(r, rows - 1);
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
#if DOT_I8
        const bool finite = take_x(x_integers, &args, x, x_row_at, k, depth);
        bool packed = false;
#else
        pack_x(&args, x, x_row_at, k, depth, x_tile);
#endif
        for (int n = 0; n < columns; n += COLUMN_BLOCK) {
            const int block = n / COLUMN_BLOCK % W_BLOCKS;
            if (k + REDUCTION_TILE >= args.reduction) ask_for_y(&args, y, y_row_at, n, first_column, columns);
#if W_DIRECT
            if (exist == depth && first_column + n + COLUMN_BLOCK <= args.columns) {
                w_pointer block_w = w + args.w_offset + k * args.w_row + first_column + n;
                for (int p = 0; p < ROW_PANELS; p++)
                    multiply_direct(x_tile[p], w_block, depth, &y_tile[p][n], block_w, args.w_row);
                continue;
            }
#endif
#if DOT_I8
            if (finite && take_w(&w_integers, &args, all, first_column + n, k, depth)) {
                multiply_panels(&args, x_integers, &w_integers, w, first_column + n, k, depth, y_tile, n);
                continue;
            }
            if (!packed) pack_x(&args, x, x_row_at, k, depth, x_tile);
            packed = true;
#endif
            if (block == 0)
                pack_w(&args, all, first_column + n, k, depth,
                       min(W_BLOCKS, (columns - n + COLUMN_BLOCK - 1) / COLUMN_BLOCK), w_block);
            for (int p = 0; p < ROW_PANELS; p++) {
                w_pointer next = next_w(&args, w, first_column + n, block, p, k);
                multiply_block(x_tile[p], w_block + block * W_FLOATS, depth, &y_tile[p][n], next,
                               args.columns < W_AHEAD ? 0 : args.w_row);
            }
        }
    }
#if ROPE
    rope_tile(&args, frequencies, position, columns, y_tile);
#endif
    for (int n = 0; n < columns; n += LANES) store_y(&args, y, y_row_at, rows, first_column, n, y_tile);
}
