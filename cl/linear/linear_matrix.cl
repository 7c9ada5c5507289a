// linear_matrix.cl: y = x W^T + bias for many rows on a CPU's matrix engine (matrix_tiles.clh). W
// is packed by linear_pack.cl.
//
// A work-item is a whole work-group and owns up to 128 rows by column_tile columns of y, whose sums
// are in private memory. For each REDUCTION_TILE of the reduction it copies the rows of x to tiles
// that all its columns share. The rows of all batch items form one sequence. Bfloat16 needs one
// product. A float32 x or W is split into three terms, for three or six products
// (matrix_terms.clh).
//
// Terms cannot represent infinity, NaN, and too small or too large numbers. Blocks of 32 x 32 with
// such numbers are computed from x and W by multiply-adds, with the same bits as linear_lanes.cl.
// Global size: (ceil(B*rows / 128), ceil(columns / column_tile)), local size 1.
#ifndef REDUCTION_TILE
#define REDUCTION_TILE (TYPE_Q == STORE_F32 || TYPE_KV == STORE_F32 ? 256 : 512)
#endif
#include "matrix/matrix_terms.clh"
#include "linear/linear.clh"

#if REDUCTION_TILE % LINEAR_MATRIX_STEP || REDUCTION_TILE > 1024
#error "REDUCTION_TILE is a multiple of 32, at most 1024"
#endif
#if LINEAR_MATRIX_COLUMNS != MATRIX_PITCH || LINEAR_MATRIX_STEP != MATRIX_DEPTH
#error "weights are packed as tiles take them"
#endif

#define SPLITS_NUMBERS (TERMS_X > 1 || TERMS_W > 1)
#define TILE_ROWS LINEAR_MATRIX_TILE_ROWS
#define TILE_COLUMNS LINEAR_MATRIX_TILE_COLUMNS
#define BLOCK 32 // rows, and columns, of 2 x 2 tiles
#define ROW_BLOCKS (TILE_ROWS / BLOCK)
#define COLUMN_BLOCKS (TILE_COLUMNS / BLOCK)
#define BLOCK_SUMS (BLOCK * BLOCK)
#define TILE_STEPS (REDUCTION_TILE / MATRIX_DEPTH)
// The layout of x in tiles: for each 16 rows each step, for each step each term, 16 rows of 32
// numbers.
#define X_TERM (MATRIX_SIDE * MATRIX_DEPTH)
#define X_STEP (TERMS_X * X_TERM)
#define X_TILES (TILE_STEPS * X_STEP)

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global ELEMENT(TYPE_OUT) * y_pointer;

// The part of y that a work-item owns, and offsets of its rows.
typedef struct owned {
    int rows, columns, first_column;
    long x_at[TILE_ROWS], y_at[TILE_ROWS];
    long position[TILE_ROWS];          // for RoPE
    magnitude_limits seen[ROW_BLOCKS]; // of x
    // Bit c: column block c was computed by multiply-adds, including the bias.
    ushort plain[ROW_BLOCKS];
} owned;

long column_at(int column, int head_columns, long head) {
    return column / head_columns * head + column % head_columns;
}

// A vector of a row of x from element k on, which may not be contiguous; 0 past the reduction.
VEC load_x(const linear_args *a, x_pointer row, int k) {
    const int in_head = k % a->x_head_columns;
    const long at = column_at(k, a->x_head_columns, a->x_head);
    if (k + LANES <= a->reduction && in_head + LANES <= a->x_head_columns) return LOAD_LANES(TYPE_Q, row, at);
    float t[LANES] LANES_ALIGNED;
    for (int j = 0; j < LANES; j++)
        t[j] =
            k + j < a->reduction ? LOAD(TYPE_Q, row, column_at(k + j, a->x_head_columns, a->x_head)) : 0.0f;
    return *(const VEC *)t;
}

// Copy `steps` steps of the reduction from k on to tiles. Rows past the last one are 0.
void copy_x(const linear_args *a, x_pointer x, owned *o, int k, int steps, ushort *tiles) {
    for (int block = 0; block * BLOCK < o->rows; block++) {
        magnitudes m = magnitudes_none();
        for (int r = block * BLOCK; r < (block + 1) * BLOCK; r++) {
            ushort *to = tiles + r / MATRIX_SIDE * X_TILES + r % MATRIX_SIDE * MATRIX_DEPTH;
            for (int s = 0; s < steps; s++)
                for (int side = 0; side < MATRIX_DEPTH; side += LANES) {
                    VEC part = (VEC)(0.0f);
                    if (r < o->rows) part = load_x(a, x + o->x_at[r], k + s * MATRIX_DEPTH + side);
                    if (SPLITS_NUMBERS) magnitudes_see(&m, part);
                    for (int i = 0; i < TERMS_X; i++)
                        vstore16(TO_VEC_USHORT(TERMS_X == 1 ? AS_VEC_UINT(part) >> 16 : matrix_term(&part)),
                                 0, to + s * X_STEP + i * X_TERM + side);
                }
        }
        if (SPLITS_NUMBERS) {
            const magnitude_limits l = magnitudes_limits(&m);
            o->seen[block].least = min(o->seen[block].least, l.least);
            o->seen[block].most = max(o->seen[block].most, l.most);
        }
    }
}

#define LOAD_X(i)                                                                                            \
    MATRIX_LOAD_A(4, x + (i)*X_TERM, MATRIX_DEPTH);                                                          \
    MATRIX_LOAD_A(5, x + (i)*X_TERM + X_TILES, MATRIX_DEPTH)
#define LOAD_W(i)                                                                                            \
    MATRIX_LOAD_B(6, w + (i)*TILE_UINTS, MATRIX_PITCH);                                                      \
    MATRIX_LOAD_B(7, w + (i)*TILE_UINTS + MATRIX_SIDE, MATRIX_PITCH)

// A block's sums += x w over `steps` steps, small products first.
void multiply_block(float *sums, const ushort *x, __global const uint *w, int steps) {
    MATRIX_DECLARE_TILES
    MATRIX_FROM(sums, MATRIX_PITCH);
    for (int s = 0; s < steps; s++, x += X_STEP, w += TERMS_W * TILE_UINTS) {
#if TERMS_X == 3
        LOAD_X(2);
        LOAD_W(0);
        MATRIX_MULTIPLY_ADD_2X2;
        LOAD_X(1);
        MATRIX_MULTIPLY_ADD_2X2;
#endif
#if TERMS_X == 3 && TERMS_W == 3
        LOAD_W(1);
        MATRIX_MULTIPLY_ADD_2X2;
        LOAD_X(0);
        MATRIX_MULTIPLY_ADD_2X2;
        LOAD_W(2);
        MATRIX_MULTIPLY_ADD_2X2;
#elif TERMS_W == 3
        LOAD_X(0);
        LOAD_W(2);
        MATRIX_MULTIPLY_ADD_2X2;
        LOAD_W(1);
        MATRIX_MULTIPLY_ADD_2X2;
#else
        LOAD_X(0);
#endif
#if TERMS_X == 1 || TERMS_W == 3
        LOAD_W(0);
#endif
        MATRIX_MULTIPLY_ADD_2X2;
    }
    MATRIX_EACH_C(MATRIX_STORE_C, sums, MATRIX_PITCH);
}

#if SPLITS_NUMBERS
// Load 32 rows of x from k on, one row per lane, as in linear_lanes.cl. Rows past the last row are
// copies of it.
void transpose_x(const linear_args *a, x_pointer x, const owned *o, int first, int k, int depth,
                 VEC part[][2]) {
    for (int v = 0; v < 2; v++)
        for (int d = 0; d < depth; d += LANES) {
            VEC t[LANES];
            for (int j = 0; j < LANES; j++)
                t[j] = load_x(a, x + o->x_at[min(first + v * LANES + j, o->rows - 1)], k + d);
            transpose_lanes(t);
            for (int j = 0; j < LANES; j++) part[d + j][v] = t[j];
        }
}

// acc += x w over `depth` numbers of the reduction, in order, for four columns of W; wp points to
// number k.
REGISTER_INLINE void multiply_columns(VEC acc[4][2], const VEC part[][2], w_pointer wp, const long w_row[4],
                                      int depth) {
    for (int d = 0; d < depth; d++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const VEC weight = (VEC)(LOAD(TYPE_KV, wp, w_row[n] + d));
            acc[n][0] = fma(weight, part[d][0], acc[n][0]);
            acc[n][1] = fma(weight, part[d][1], acc[n][1]);
        }
    }
}

// Compute a block of y by multiply-adds, starting from the bias. `part` is memory for
// REDUCTION_TILE vectors of 32 rows.
void multiply_plainly(const linear_args *a, x_pointer x, w_pointer w, const float *start, const owned *o,
                      int row, int column, VEC part[][2], float *sums) {
    VEC acc[BLOCK][2];
    for (int n = 0; n < BLOCK; n++) acc[n][0] = acc[n][1] = (VEC)(start[n]);
    for (int k = 0; k < a->reduction; k += REDUCTION_TILE) {
        const int depth = min(REDUCTION_TILE, a->reduction - k);
        transpose_x(a, x, o, row, k, depth, part);
        for (int n = 0; n < BLOCK; n += 4) {
            long at[4];
            for (int j = 0; j < 4; j++) at[j] = min(column + n + j, a->columns - 1) * a->w_row;
            multiply_columns(acc + n, part, w + a->w_offset + k, at, depth);
        }
    }
    for (int r = 0; r < BLOCK; r++)
        for (int n = 0; n < BLOCK; n++) sums[r * BLOCK + n] = ((const float *)&acc[n][r / LANES])[r % LANES];
}

// Compute the blocks with numbers that terms cannot represent.
void mend_blocks(const linear_args *a, x_pointer x, w_pointer w, __global const uint *limits,
                 const float *start, owned *o, VEC part[][2], float *sums) {
    for (int r = 0; r * BLOCK < o->rows; r++)
        for (int c = 0; c * BLOCK < o->columns; c++) {
            const int block = o->first_column / BLOCK + c;
            const magnitude_limits of_w = {limits[2 * block], limits[2 * block + 1]};
            if (matrix_terms_hold(o->seen[r], of_w)) continue;
            multiply_plainly(a, x, w, start + c * BLOCK, o, r * BLOCK, o->first_column + c * BLOCK, part,
                             sums + (r * COLUMN_BLOCKS + c) * BLOCK_SUMS);
            o->plain[r] |= (ushort)(1u << c);
        }
}
#endif

#if ROPE
// Apply RoPE to the heads of a row of the tile, which are whole: cosines and sines of 16 pairs
// serve all heads.
void rope_line(const linear_args *a, __global const ulong *frequencies, long position, int columns,
               float *line) {
    const int pairs = a->rotary_dim / 2;
    for (int first = 0; first < pairs; first += LANES) {
        float c[LANES] LANES_ALIGNED, s[LANES] LANES_ALIGNED;
        ulong frequency[LANES] LANES_ALIGNED;
        for (int i = 0; i < LANES; i++) frequency[i] = frequencies[min(first + i, pairs - 1)];
        const VEC_ULONG part = *(const VEC_ULONG *)frequency * (VEC_ULONG)((ulong)position);
        const VEC angle_over_pi = TO_VEC(PASTE(as_long, LANES)(part)) * 0x1.0p-63f;
        *(VEC *)c = cospi(angle_over_pi) * a->amplitude, *(VEC *)s = sinpi(angle_over_pi) * a->amplitude;
        for (int head = 0; head < columns; head += a->y_head_columns)
            for (int i = 0; i < min(LANES, pairs - first); i++) {
                float *y0 = line + head + rope_pair_first(first + i),
                      *y1 = line + head + rope_pair_second(a, first + i);
                const float u = *y0, v = *y1;
                *y0 = u * c[i] - v * s[i], *y1 = v * c[i] + u * s[i];
            }
    }
}
#endif

void store_line(const linear_args *a, y_pointer y, const owned *o, const float *line) {
    for (int n = 0; n < o->columns; n += LANES) {
        const int column = o->first_column + n, in_head = column % a->y_head_columns;
        if (n + LANES <= o->columns && in_head + LANES <= a->y_head_columns) {
            STORE_LANES(TYPE_OUT, y, column_at(column, a->y_head_columns, a->y_head),
                        *(const VEC *)(line + n));
            continue;
        }
        for (int j = n; j < min(n + LANES, o->columns); j++)
            STORE(TYPE_OUT, y, column_at(o->first_column + j, a->y_head_columns, a->y_head), line[j]);
    }
}

// Finish and store row r of y: its sums, the bias if it is missing, and RoPE.
void finish_row(const linear_args *a, y_pointer y, __global const ulong *frequencies, const float *start,
                const owned *o, int r, const float *sums) {
    float line[TILE_COLUMNS] LANES_ALIGNED;
    for (int n = 0; n < o->columns; n += LANES) {
        const float *from = sums + (r / BLOCK * COLUMN_BLOCKS + n / BLOCK) * BLOCK_SUMS + r % BLOCK * BLOCK;
        const bool whole = o->plain[r / BLOCK] >> n / BLOCK & 1;
        *(VEC *)(line + n) =
            *(const VEC *)(from + n % BLOCK) + (whole ? (VEC)(0.0f) : *(const VEC *)(start + n));
    }
#if ROPE
    rope_line(a, frequencies, o->position[r], o->columns, line);
#endif
    store_line(a, y + o->y_at[r], o, line);
}

void find_rows(const linear_args *a, __global const int *table, long first_row, owned *o) {
    for (int r = 0; r < o->rows; r++) {
        const long row = first_row + r;
        const int b = (int)(row / a->rows), i = (int)(row % a->rows);
        o->x_at[r] = a->x_offset + b * a->x_batch + i * a->x_row;
        o->y_at[r] = a->y_offset + b * a->y_batch + i * a->y_row;
#if ROPE
        o->position[r] = rope_position(a, table, b, i);
#endif
    }
    for (int block = 0; block < ROW_BLOCKS; block++)
        o->seen[block] = (magnitude_limits){0xffffffffu, 0u}, o->plain[block] = 0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
linear_matrix(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
              __global const uint *packed, __global const ELEMENT(TYPE_BIAS) * bias,
              __global ELEMENT(TYPE_OUT) * y, __global const ulong *frequencies, __global const int *table,
              linear_args args) {
    const long first_row = (long)get_global_id(0) * TILE_ROWS, all_rows = (long)args.batch * args.rows;
    const int blocks = LINEAR_MATRIX_BLOCKS(args.columns), all_steps = LINEAR_MATRIX_STEPS(args.reduction);
    float sums[ROW_BLOCKS * COLUMN_BLOCKS * BLOCK_SUMS] LANES_ALIGNED, start[TILE_COLUMNS] LANES_ALIGNED;
    ushort tiles[TILE_ROWS / MATRIX_SIDE * X_TILES] LANES_ALIGNED;
    owned o;
    o.first_column = (int)get_global_id(1) * args.column_tile;
    o.rows = (int)min(all_rows - first_row, (long)TILE_ROWS);
    o.columns = min(args.columns - o.first_column, args.column_tile);
    find_rows(&args, table, first_row, &o);
    for (int n = 0; n < TILE_COLUMNS; n++) {
        const bool biased = (args.flags & ARGS_BIAS) && n < o.columns;
        start[n] = biased ? LOAD(TYPE_BIAS, bias, args.bias_offset + o.first_column + n) : 0.0f;
    }
    for (int r = 0; r * BLOCK < o.rows; r++)
        for (int n = 0; n < LINEAR_MATRIX_BLOCKS(o.columns) * BLOCK_SUMS; n++)
            sums[r * COLUMN_BLOCKS * BLOCK_SUMS + n] = 0.0f;
    packed += args.packed_offset;
    __global const uint *first = packed + LINEAR_MATRIX_HEAD(blocks) +
                                 (long)(o.first_column / BLOCK) * all_steps * TERMS_W * TILE_UINTS;
    matrix_begin();
    for (int k = 0; k < args.reduction; k += REDUCTION_TILE) {
        const int done = k / MATRIX_DEPTH, steps = min(TILE_STEPS, all_steps - done);
        copy_x(&args, x, &o, k, steps, tiles);
        for (int c = 0; c * BLOCK < o.columns; c++)
            for (int r = 0; r * BLOCK < o.rows; r++)
                multiply_block(sums + (r * COLUMN_BLOCKS + c) * BLOCK_SUMS, tiles + r * 2 * X_TILES,
                               first + ((long)c * all_steps + done) * TERMS_W * TILE_UINTS, steps);
    }
    matrix_end();
#if SPLITS_NUMBERS
    mend_blocks(&args, x, w, packed, start, &o, (VEC(*)[2])tiles, sums);
#endif
    for (int r = 0; r < o.rows; r++) finish_row(&args, y, frequencies, start, &o, r, sums);
}
