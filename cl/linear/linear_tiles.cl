// linear_tiles.cl: y = x W^T + bias for many rows, on GPUs, in OpenCL C 1.2. For few rows see
// linear_rows.cl.
//
// A work-group has a tile of y of TILES_ROWS x TILES_COLUMNS in registers (tiles.clh). Rows of x
// and of W are loaded to local memory in chunks of the reduction and become float32 there. So any
// storage types combine, and no converted copy of W is needed. RoPE is applied before y is stored:
// one work-item has both columns of a pair. The rows of all batch items form one sequence of rows.
//
// Local size TILES_GROUP; global size (TILES_GROUP * ceil(B*rows / TILES_ROWS),
// ceil(columns / TILES_COLUMNS)).
#include "tiles/tiles.clh"
#include "linear/linear.clh"
#include "tiles/subgroups.clh"

#if 2 * GROUP_COLUMNS * TILES_TRANSPOSED_PITCH > TILES_TRANSPOSED_FOURS + TILES_CHUNK_FOURS
#error "half a tile of the result does not fit the local memory of a chunk"
#endif

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global const ELEMENT(TYPE_BIAS) * bias_pointer;

// Offsets of the tile's rows of x and y and of its rows of W, found once for all chunks.
typedef struct tile_places {
    long x[TILES_ROWS], y[TILES_ROWS];
    long w[TILES_COLUMNS], y_column[TILES_COLUMNS];
#if W_SCALED
    long scale[TILES_COLUMNS]; // distance from the first scale, or zero point
#endif
    float bias[TILES_COLUMNS];
#if ROPE
    long position[TILES_ROWS];
    int column[TILES_COLUMNS]; // column in walking order, within its head
#endif
} tile_places;

// The column of the tile in line n of its chunk. Work-item tx has lines tx + GROUP_COLUMNS * j.
// With RoPE its lines 0 and 1 are a pair, and 2 and 3.
TILES_INLINE int line_column(int n) {
#if ROPE
    const int j = n / GROUP_COLUMNS, tx = n % GROUP_COLUMNS;
    return j / 2 * 2 * GROUP_COLUMNS + 2 * tx + j % 2;
#else
    return n;
#endif
}

// Rows past the last row are copies of it, and are not stored; so are columns.
TILES_INLINE void place_tile(const linear_args *a, bias_pointer bias, __global const int *table,
                             long first_row, int first_column, __local tile_places *to) {
    for (int r = (int)get_local_id(0); r < TILES_ROWS; r += TILES_GROUP) {
        const long row = min(first_row + r, (long)a->batch * a->rows - 1);
        const int b = (int)(row / a->rows), i = (int)(row % a->rows);
        to->x[r] = a->x_offset + b * a->x_batch + i * a->x_row;
        to->y[r] = a->y_offset + b * a->y_batch + i * a->y_row;
#if ROPE
        to->position[r] = rope_position(a, table, b, i);
#endif
    }
    for (int n = (int)get_local_id(0); n < TILES_COLUMNS; n += TILES_GROUP) {
        const int walked = min(first_column + line_column(n), a->columns - 1), c = walk_column(a, walked);
        to->w[n] = a->w_offset + c * a->w_row;
#if W_SCALED
        to->scale[n] = c * a->scale_row;
#endif
        to->y_column[n] = c / a->y_head_columns * a->y_head + c % a->y_head_columns;
        to->bias[n] = (a->flags & ARGS_BIAS) ? LOAD(TYPE_BIAS, bias, a->bias_offset + c) : 0.0f;
#if ROPE
        to->column[n] = walked % a->y_head_columns;
#endif
    }
}

typedef struct source {
    const linear_args *args;
    x_pointer x;
    w_matrix w;
    __local const tile_places *at;
} source;

// The row of W of a line.
TILES_INLINE row_of_w row_of(source from, int line) {
#if W_SCALED
    return w_row_at(from.w, from.args, from.at->w[line], from.at->scale[line]);
#else
    return w_row_at(from.w, from.args, from.at->w[line], 0);
#endif
}

// Element d of a row of x, whose heads may not be contiguous.
TILES_INLINE float x_element(source from, int row, int d) {
    const linear_args *a = from.args;
    if (d >= a->reduction) return 0.0f;
    return LOAD(TYPE_Q, from.x, from.at->x[row] + d / a->x_head_columns * a->x_head + d % a->x_head_columns);
}

// Loads of a chunk: FETCH_WHOLE if each row has all of it in one piece, else FETCH.
#define FETCH_FOUR_X(from, row, d)                                                                           \
    (float4)(x_element(from, row, d), x_element(from, row, d + 1), x_element(from, row, d + 2),              \
             x_element(from, row, d + 3))
#if W_SCALED
#define W_FOUR(row, d, width) kv_four(row, d, width, KV_KEY)
#define W_EIGHT(row, d, width) kv_row_eight(row, d, width, KV_KEY)
#define W_WHOLE(LOAD_OF, row, d) KV_NUMBER(row, KV_KEY, d, LOAD_OF(TYPE_KV, (row).at, d))
#else
#define W_FOUR(row, d, width) LOAD_ROW_FOUR(TYPE_KV, row, d, width)
#define W_EIGHT(row, d, width) LOAD_ROW_EIGHT(TYPE_KV, row, d, width)
#define W_WHOLE(LOAD_OF, row, d) LOAD_OF(TYPE_KV, row, d)
#endif
#if ALIGNED_VECTORS == 2
#define FETCH_WHOLE_X(from, row, d) LOAD_EIGHT(TYPE_Q, from.x + from.at->x[row], d)
#define FETCH_WHOLE_W(from, row, d) W_WHOLE(LOAD_EIGHT, row_of(from, row), d)
#define FETCH_X(from, row, d) (float8)(FETCH_FOUR_X(from, row, d), FETCH_FOUR_X(from, row, d + 4))
#define FETCH_W(from, row, d) W_EIGHT(row_of(from, row), d, from.args->reduction)
#else
#define FETCH_WHOLE_X(from, row, d) LOAD_FOUR(TYPE_Q, from.x + from.at->x[row], d)
#define FETCH_WHOLE_W(from, row, d) W_WHOLE(LOAD_FOUR, row_of(from, row), d)
#define FETCH_X FETCH_FOUR_X
#define FETCH_W(from, row, d) W_FOUR(row_of(from, row), d, from.args->reduction)
#endif
#define PIECES (CHUNK / TILES_READ)
TILES_DEFINE_LOAD_TRANSPOSED(load_whole_x, source, FETCH_WHOLE_X, PIECES)
TILES_DEFINE_LOAD(load_whole_w, source, FETCH_WHOLE_W, TILES_COLUMNS, PIECES, TILES_CHUNK_PITCH)
TILES_DEFINE_LOAD_TRANSPOSED(load_x, source, FETCH_X, PIECES)
TILES_DEFINE_LOAD(load_w, source, FETCH_W, TILES_COLUMNS, PIECES, TILES_CHUNK_PITCH)

// Store lines [first, first + 2 * GROUP_COLUMNS) of the tile from local memory, by the whole group.
// Neighbours store neighbouring columns.
TILES_INLINE void store_lines(const linear_args *a, __local const float4 *lines,
                              __local const tile_places *at, long rows, int columns, int first,
                              __global const ulong *frequencies, __global ELEMENT(TYPE_OUT) * y) {
    for (int n = (int)get_local_id(0); n < TILES_ROWS * GROUP_COLUMNS; n += TILES_GROUP) {
        const int r = n / GROUP_COLUMNS, tx = n % GROUP_COLUMNS, n0 = first + tx, n1 = n0 + GROUP_COLUMNS;
        __local const float *line = (__local const float *)(lines + tx * TILES_TRANSPOSED_PITCH) + r;
        float2 value = (float2)(line[0], line[4 * GROUP_COLUMNS * TILES_TRANSPOSED_PITCH]);
        value += (float2)(at->bias[n0], at->bias[n1]);
        if (r >= rows) continue;
#if ROPE
        value = rope_pair(a, frequencies, at->position[r], at->column[n0], value);
#endif
        if (line_column(n0) < columns) STORE(TYPE_OUT, y, at->y[r] + at->y_column[n0], value.s0);
        if (line_column(n1) < columns) STORE(TYPE_OUT, y, at->y[r] + at->y_column[n1], value.s1);
    }
}

__kernel __attribute__((reqd_work_group_size(TILES_GROUP, 1, 1))) SUBGROUP_SIZED void
linear_tiles(x_pointer x, w_pointer w, W_SCALES_OF() bias_pointer bias, __global ELEMENT(TYPE_OUT) * y,
             __global const ulong *frequencies, __global const int *table, linear_args args) {
    __local float4 tile[TILES_TRANSPOSED_FOURS + TILES_CHUNK_FOURS];
    __local tile_places at;
    __local float4 *const x_tile = tile, *const w_tile = tile + TILES_TRANSPOSED_FOURS;
    const int tx = (int)get_local_id(0) % GROUP_COLUMNS, ty = (int)get_local_id(0) / GROUP_COLUMNS;
    const long first_row = (long)get_group_id(0) * TILES_ROWS;
    const int first_column = UNIFORM_ID(1) * TILES_COLUMNS;
    const source from = {&args, x, W_POINTERS(), &at};
    tiles_sums sums;
    tiles_clear(&sums);
    place_tile(&args, bias, table, first_row, first_column, &at);
    const int whole = args.x_head_columns == args.reduction ? args.reduction / CHUNK * CHUNK : 0;
    for (int k = 0; k < whole; k += CHUNK) {
        barrier(CLK_LOCAL_MEM_FENCE); // the places are written; the previous chunk has been read
        load_whole_x(x_tile, from, 0, TILES_ROWS - 1, k);
        load_whole_w(w_tile, from, 0, TILES_COLUMNS - 1, k);
        barrier(CLK_LOCAL_MEM_FENCE); // the chunk is loaded
        tiles_multiply(&sums, x_tile, w_tile, ty, tx, CHUNK / 4);
    }
    for (int k = whole; k < args.reduction; k += CHUNK) {
        barrier(CLK_LOCAL_MEM_FENCE); // as above
        load_x(x_tile, from, 0, TILES_ROWS - 1, k);
        load_w(w_tile, from, 0, TILES_COLUMNS - 1, k);
        barrier(CLK_LOCAL_MEM_FENCE); // the chunk is loaded
        tiles_multiply(&sums, x_tile, w_tile, ty, tx, CHUNK / 4);
    }
    const long rows = (long)args.batch * args.rows - first_row;
    const int columns = args.columns - first_column;
    barrier(CLK_LOCAL_MEM_FENCE); // the chunk has been read
    tiles_write_rows(tile, tx, ty, sums.c0);
    tiles_write_rows(tile, tx + GROUP_COLUMNS, ty, sums.c1);
    barrier(CLK_LOCAL_MEM_FENCE); // half of the result is written
    store_lines(&args, tile, &at, rows, columns, 0, frequencies, y);
    barrier(CLK_LOCAL_MEM_FENCE); // this half has been read
    tiles_write_rows(tile, tx, ty, sums.c2);
    tiles_write_rows(tile, tx + GROUP_COLUMNS, ty, sums.c3);
    barrier(CLK_LOCAL_MEM_FENCE); // the other half is written
    store_lines(&args, tile, &at, rows, columns, 2 * GROUP_COLUMNS, frequencies, y);
}
