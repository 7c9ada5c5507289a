// linear_rows.cl: y = x W^T + bias for few rows, on GPUs, in OpenCL C 1.2. Up to three projections
// of the same rows share a launch. For many rows see linear_tiles.cl.
//
// Reading W limits the speed, so each element of W is read once for ROW_BLOCK rows. A team of
// ROW_ITEMS work-items owns four columns. Each item reads four rows of W in pieces of 16 bytes (32
// of float32), all loads at once; neighbours read neighbouring pieces. The team's float32 sums are
// added in local memory. Every team reads x from global memory, where the caches help.
//
// Local size: WORK_GROUP. Global size: (WORK_GROUP times the sum of ceil(columns / GROUP_TILE),
// ceil(B*rows / ROW_BLOCK)). There are no private arrays, because some compilers keep those in
// memory.

// Other defaults than those of knobs.def.
#ifndef WORK_GROUP
#define WORK_GROUP 128
#endif
#ifndef ROW_ITEMS
#define ROW_ITEMS 32
#endif
#if TYPE_KV > 2 && (TYPE_KV < 8 || TYPE_KV > 10)
#define STORAGE_EIGHTS // for numbers with scales
#endif
#include "linear/linear.clh"
#include "tiles/subgroups.clh"

#define PIECE 8 // elements of a row of W, or of x, that a work-item reads at once
#define COLUMNS 4
#define GROUP_TILE (WORK_GROUP / ROW_ITEMS * COLUMNS) // columns of a work-group
#if ROW_BLOCK < 4
#define PASS ROW_BLOCK // rows whose sums are added in local memory at once
#else
#define PASS 4
#endif

#if WORK_GROUP > 1024 || (WORK_GROUP & (WORK_GROUP - 1)) || ROW_ITEMS > WORK_GROUP ||                        \
    (ROW_ITEMS & (ROW_ITEMS - 1))
#error "WORK_GROUP and ROW_ITEMS are powers of two, ROW_ITEMS the smaller"
#endif
#if ROW_BLOCK != 1 && ROW_BLOCK != 2 && ROW_BLOCK != 4 && ROW_BLOCK != 8 && ROW_BLOCK != 16
#error "ROW_BLOCK is 1, 2, 4, 8 or 16"
#endif

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global const ELEMENT(TYPE_BIAS) * bias_pointer;

#ifdef FP_FAST_FMAF
#define MAD(a, b, c) fma(a, b, c)
#else
#define MAD(a, b, c) mad(a, b, c)
#endif

#if ALIGNED_VECTORS
// A piece of a row as loaded, by aligned loads, and the four floats of each half.
#define RAW_0 uint8
#define RAW_1 uint4
#define RAW_2 uint4
#define RAW(type) PASTE(RAW_, type)
#define LOAD_RAW(type, p, i) PASTE(load_raw_, type)(p, i)
#define LOW(type, raw) PASTE(four_, type)((raw).lo)
#define HIGH(type, raw) PASTE(four_, type)((raw).hi)
uint8 load_raw_0(__global const float *p, long i) {
    __global const uint4 *at = (__global const uint4 *)(p + i);
    return (uint8)(at[0], at[1]);
}
uint4 load_raw_1(__global const half *p, long i) {
    return *(__global const uint4 *)((__global const ushort *)p + i);
}
uint4 load_raw_2(__global const ushort *p, long i) {
    return *(__global const uint4 *)(p + i);
}
float4 four_0(uint4 bits) {
    return as_float4(bits);
}
float4 four_1(uint2 bits) {
    return HALVES(4, bits);
}
float4 four_2(uint2 bits) {
    return as_float4(convert_uint4(as_ushort4(bits)) << 16);
}
#if STORE_IS_BLOCKS(TYPE_KV) // loaded as numbers, because their scale must be applied
#define RAW_8 float8
#define RAW_9 float8
#define RAW_10 float8
DEFINE_LOAD_BLOCK(raw_, float8, uint8, BLOCK_EIGHT)
#define FOUR(numbers) (numbers)
#define four_8 FOUR
#define four_9 FOUR
#define four_10 FOUR
#endif
// A piece of a row of W. Numbers with scales are converted when loaded.
#if W_SCALED
#define W_RAW float8
#define LOAD_W_RAW(row, k) KV_NUMBER(row, KV_KEY, k, LOAD_EIGHT(TYPE_KV, (row).at, k))
#define W_LOW(raw) (raw).lo
#define W_HIGH(raw) (raw).hi
#else
#define W_RAW RAW(TYPE_KV)
#define LOAD_W_RAW(row, k) LOAD_RAW(TYPE_KV, row, k)
#define W_LOW(raw) LOW(TYPE_KV, raw)
#define W_HIGH(raw) HIGH(TYPE_KV, raw)
#endif
#endif

// Lists of a block's rows for macros. The sums of PASS rows are added at once.
#define ROWS_1(DO) DO(0)
#define ROWS_2(DO) DO(0) DO(1)
#define ROWS_4(DO) DO(0) DO(1) DO(2) DO(3)
#define ROWS_8(DO) ROWS_4(DO) DO(4) DO(5) DO(6) DO(7)
#define ROWS_16(DO) ROWS_8(DO) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define EACH_ROW(DO) PASTE(ROWS_, ROW_BLOCK)(DO)

// The offset of element k of a row of x.
long x_place(const linear_args *a, int k) {
    if (a->x_head_columns == a->reduction) return k;
    return k / a->x_head_columns * a->x_head + k % a->x_head_columns;
}

// Offsets and positions of a block's rows, shared by the group.
typedef struct row_places {
    long x[ROW_BLOCK], y[ROW_BLOCK], position[ROW_BLOCK];
} row_places;

// Rows past the last row are copies of it, and are not stored.
void place_rows(const linear_args *a, __global const int *table, long first, long last, int id,
                __local row_places *to) {
    for (int r = id; r < ROW_BLOCK; r += WORK_GROUP) {
        const long row = min(first + r, last);
        const int b = (int)(row / a->rows), i = (int)(row % a->rows);
        to->x[r] = a->x_offset + b * a->x_batch + i * a->x_row;
        to->y[r] = a->y_offset + b * a->y_batch + i * a->y_row;
        to->position[r] = ROPE && a->rotary_dim > 0 ? rope_position(a, table, b, i) : 0;
    }
}

// Add the sums of a team's work-items to those of its first item: PASS rows of four columns each.
void add_team(__local float4 sums[PASS][WORK_GROUP], int id) {
    for (int step = ROW_ITEMS / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the sums that this step reads are written
        if (id % ROW_ITEMS < step) {
            for (int r = 0; r < PASS; r++) sums[r][id] += sums[r][id + step];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE); // the sums are complete
}

// Store rows [first, first + PASS) of the block; a work-item stores pairs of columns.
void store_sums(const linear_args *a, bias_pointer bias, __global ELEMENT(TYPE_OUT) * y,
                __global const ulong *frequencies, __local const row_places *rows, int first, int count,
                int column, int id, __local const float4 sums[PASS][WORK_GROUP]) {
    const int item = id % ROW_ITEMS, team = id - item;
    for (int n = item; n < PASS * COLUMNS / 2; n += ROW_ITEMS) {
        const int r = n / (COLUMNS / 2), pair = n % (COLUMNS / 2), walked = column + 2 * pair;
        if (first + r >= count || walked >= a->columns) continue;
        const bool both = walked + 1 < a->columns;
        const int c0 = walk_column(a, walked), c1 = both ? walk_column(a, walked + 1) : c0;
        __local const float2 *sum = (__local const float2 *)&sums[r][team];
        float2 value = sum[pair];
        if (a->flags & ARGS_BIAS)
            value += (float2)(LOAD(TYPE_BIAS, bias, a->bias_offset + c0),
                              LOAD(TYPE_BIAS, bias, a->bias_offset + c1));
#if ROPE
        value = rope_pair(a, frequencies, rows->position[first + r], walked % a->y_head_columns, value);
#endif
        const long to = rows->y[first + r];
        STORE(TYPE_OUT, y, to + c0 / a->y_head_columns * a->y_head + c0 % a->y_head_columns, value.s0);
        if (both)
            STORE(TYPE_OUT, y, to + c1 / a->y_head_columns * a->y_head + c1 % a->y_head_columns, value.s1);
    }
}

int column_tiles(const linear_args *a) {
    return (a->columns + GROUP_TILE - 1) / GROUP_TILE;
}

// The arguments of projection `which`. Fields are selected one by one, because a pointer to one of
// three arguments would keep them in memory.
#define PICK(field) a.field = which == 0 ? a.field : which == 1 ? b->field : c->field
linear_args pick(linear_args a, const linear_args *b, const linear_args *c, int which) {
    PICK(w_offset), PICK(w_row), PICK(bias_offset);
#if W_SCALED
    PICK(scale_offset), PICK(scale_row), PICK(zero_offset);
#endif
    PICK(y_offset), PICK(y_batch), PICK(y_head), PICK(y_row);
    PICK(position), PICK(columns), PICK(y_head_columns), PICK(flags), PICK(rotary_dim);
    return a;
}

// The sums of row r: four columns, one float4. t0 to t7 hold a piece of W: element 0 to 7 of each
// of the four columns.
#define DECLARE(r) float4 sum##r = (float4)(0.0f);
#define ADD_PIECE(r)                                                                                         \
    {                                                                                                        \
        const RAW(TYPE_Q) raw = LOAD_RAW(TYPE_Q, x_at, places.x[r]);                                         \
        const float4 lo = LOW(TYPE_Q, raw), hi = HIGH(TYPE_Q, raw);                                          \
        sum##r = MAD((float4)(lo.s0), t0, sum##r), sum##r = MAD((float4)(lo.s1), t1, sum##r);                \
        sum##r = MAD((float4)(lo.s2), t2, sum##r), sum##r = MAD((float4)(lo.s3), t3, sum##r);                \
        sum##r = MAD((float4)(hi.s0), t4, sum##r), sum##r = MAD((float4)(hi.s1), t5, sum##r);                \
        sum##r = MAD((float4)(hi.s2), t6, sum##r), sum##r = MAD((float4)(hi.s3), t7, sum##r);                \
    }
#define ADD_ELEMENT(r) sum##r = MAD((float4)(LOAD(TYPE_Q, x, places.x[r] + at)), t, sum##r);
#define KEEP(r) sums[r % PASS][id] = sum##r;
#define STORE_PASS_BARRIER(first)                                                                            \
    add_team(sums, id);                                                                                      \
    store_sums(&a, bias, y, frequencies, &places, first, count, column, id, sums);                           \
    barrier(CLK_LOCAL_MEM_FENCE); // the sums have been read

// A projection that does not exist has 0 columns.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) SUBGROUP_SIZED void
linear_rows(x_pointer x, w_pointer w0, w_pointer w1, w_pointer w2,
            W_SCALES_OF(0) W_SCALES_OF(1) W_SCALES_OF(2) bias_pointer bias0, bias_pointer bias1,
            bias_pointer bias2, __global ELEMENT(TYPE_OUT) * y0, __global ELEMENT(TYPE_OUT) * y1,
            __global ELEMENT(TYPE_OUT) * y2, __global const ulong *frequencies, __global const int *table,
            linear_args args0, linear_args args1, linear_args args2) {
    __local row_places places;
    __local float4 sums[PASS][WORK_GROUP];
    const int id = (int)get_local_id(0), item = id % ROW_ITEMS, group = (int)get_group_id(0);
    const int tiles0 = column_tiles(&args0), tiles1 = tiles0 + column_tiles(&args1);
    const int which = group < tiles0 ? 0 : group < tiles1 ? 1 : 2;
    const linear_args a = pick(args0, &args1, &args2, which);
    w_matrix w;
    w.at = which == 0 ? w0 : which == 1 ? w1 : w2;
#if W_SCALED
    w.scale = which == 0 ? scale0 : which == 1 ? scale1 : scale2;
    w.zero = which == 0 ? zero0 : which == 1 ? zero1 : zero2;
#endif
    bias_pointer bias = which == 0 ? bias0 : which == 1 ? bias1 : bias2;
    __global ELEMENT(TYPE_OUT) *y = which == 0 ? y0 : which == 1 ? y1 : y2;
    const int tile = group - (which == 0 ? 0 : which == 1 ? tiles0 : tiles1);
    const int column = tile * GROUP_TILE + id / ROW_ITEMS * COLUMNS;
    const long first_row = (long)get_global_id(1) * ROW_BLOCK, rows = (long)a.batch * a.rows;
    const int count = (int)min(rows - first_row, (long)ROW_BLOCK);
    // Columns past the last column are copies of it.
    const row_of_w c0 = w_row_of(w, &a, walk_column(&a, min(column, a.columns - 1)));
    const row_of_w c1 = w_row_of(w, &a, walk_column(&a, min(column + 1, a.columns - 1)));
    const row_of_w c2 = w_row_of(w, &a, walk_column(&a, min(column + 2, a.columns - 1)));
    const row_of_w c3 = w_row_of(w, &a, walk_column(&a, min(column + 3, a.columns - 1)));
    EACH_ROW(DECLARE)
    place_rows(&a, table, first_row, rows - 1, id, &places);
    barrier(CLK_LOCAL_MEM_FENCE); // the places are written
    int k = item;
#if ALIGNED_VECTORS
    const int whole = a.reduction / PIECE * PIECE;
    for (k = item * PIECE; k < whole; k += ROW_ITEMS * PIECE) {
        const W_RAW raw0 = LOAD_W_RAW(c0, k), raw1 = LOAD_W_RAW(c1, k), raw2 = LOAD_W_RAW(c2, k),
                    raw3 = LOAD_W_RAW(c3, k);
        const float4 l0 = W_LOW(raw0), l1 = W_LOW(raw1), l2 = W_LOW(raw2), l3 = W_LOW(raw3),
                     h0 = W_HIGH(raw0), h1 = W_HIGH(raw1), h2 = W_HIGH(raw2), h3 = W_HIGH(raw3);
        const float4 t0 = (float4)(l0.s0, l1.s0, l2.s0, l3.s0), t1 = (float4)(l0.s1, l1.s1, l2.s1, l3.s1),
                     t2 = (float4)(l0.s2, l1.s2, l2.s2, l3.s2), t3 = (float4)(l0.s3, l1.s3, l2.s3, l3.s3),
                     t4 = (float4)(h0.s0, h1.s0, h2.s0, h3.s0), t5 = (float4)(h0.s1, h1.s1, h2.s1, h3.s1),
                     t6 = (float4)(h0.s2, h1.s2, h2.s2, h3.s2), t7 = (float4)(h0.s3, h1.s3, h2.s3, h3.s3);
        x_pointer x_at = x + x_place(&a, k);
        EACH_ROW(ADD_PIECE)
    }
    k = whole + item;
#endif
    for (; k < a.reduction; k += ROW_ITEMS) {
        const float4 t = (float4)(W_NUMBER(c0, k), W_NUMBER(c1, k), W_NUMBER(c2, k), W_NUMBER(c3, k));
        const long at = x_place(&a, k);
        EACH_ROW(ADD_ELEMENT)
    }
    PASTE(ROWS_, PASS)
    (KEEP) STORE_PASS_BARRIER(0)
#if ROW_BLOCK > 4
        KEEP(4) KEEP(5) KEEP(6) KEEP(7) STORE_PASS_BARRIER(4)
#endif
#if ROW_BLOCK > 8
            KEEP(8) KEEP(9) KEEP(10) KEEP(11) STORE_PASS_BARRIER(8) KEEP(12) KEEP(13) KEEP(14) KEEP(15)
                STORE_PASS_BARRIER(12)
#endif
}
