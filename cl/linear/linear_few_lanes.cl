// linear_few_lanes.cl: y = x W^T + bias for few rows, on CPUs. Up to three projections of the same
// rows share a launch. For many rows see linear_lanes.cl.
//
// Reading W once limits the speed, so nothing is packed. The reduction is in the lanes, x and W are
// read as stored, and each sum ends with an addition of lanes. A work-item is a whole work-group
// and has COLUMN_TILE columns of one projection, ROW_BLOCK rows by COLUMN_BLOCK columns at a time.
// Local size 1; global size the sum of ceil(columns / COLUMN_TILE).
//
// On a Zen 4 with PoCL 3.1 one row reads W (4096 x 4096) at the machine's read bandwidth with 8
// columns at once. Fewer columns are 12 to 33 % slower, because the prefetcher needs several
// streams. Tried without gain: one or two columns with many rows, columns in the lanes with a
// transposed W, and linear_lanes.cl for 20 rows.
#define STORAGE_PAIRS
#if EPILOGUE
#define LANES_ACTIVATED
#endif
#define FOLLOWS_SEQUENCES
#include "lanes/lanes.clh"
#include "call/items.clh"
#include "linear/linear.clh"

#define SPAN (2 * LANES)
#define SUM_GROUPS ((ROW_BLOCK * COLUMN_BLOCK + LANES - 1) / LANES)
#if ROW_BLOCK > 8 || COLUMN_BLOCK > 16
#error "ROW_BLOCK is at most 8, COLUMN_BLOCK 16: more would not be in registers"
#endif
#if ROPE && EPILOGUE
#error "what is turned has no EPILOGUE"
#endif
#if ROPE && (COLUMN_BLOCK % 2 || COLUMN_TILE % COLUMN_BLOCK || ROW_BLOCK * COLUMN_BLOCK > 32)
#error "with ROPE a block holds whole pairs, at most 16 of them"
#endif

// A pair of x in the order of LOAD_PAIR for W.
#if TYPE_Q == TYPE_KV
#define LOAD_X(p, i) LOAD_PAIR(TYPE_Q, p, i)
#else
#define LOAD_X(p, i) ORDER_PAIR(TYPE_KV, UNORDER_PAIR(TYPE_Q, LOAD_PAIR(TYPE_Q, p, i)))
#endif

typedef __global const ELEMENT(TYPE_Q) * x_pointer;

// A pair of vectors of W. A block's n are multiplied first and then scaled by d once; q4_1 adds
// m + 8 d. Numbers with scales do the same, minus their zero points.
#if STORE_IS_BLOCKS(TYPE_KV) || W_SCALED
typedef struct w_part {
    vec_pair n;
    float d, m;
} w_part;
#else
typedef vec_pair w_part;
#endif
#if STORE_IS_BLOCKS(TYPE_KV)
w_part load_w(w_pointer w, long k) {
    w_part part = {{PASTE(block_lanes_, TYPE_KV)(w, k), PASTE(block_lanes_, TYPE_KV)(w, k + LANES)},
                   BLOCK_D(w, k)};
#if TYPE_KV == STORE_Q4_1
    part.m = fma(8.0f, part.d, BLOCK_M(w, k));
#endif
    return part;
}
#define LOAD_W(w, k) load_w(w, k)
#define LOAD_W_PART(w, k, count) load_w(w, k) // blocks are whole
#elif W_SCALED
w_part scale_part(row_of_w w, int k, vec_pair n) {
#if ZERO_POINTS
    const float zero = KV_ZERO(w, KV_KEY, k);
    n.a -= zero, n.b -= zero;
#endif
    const w_part part = {n, KV_SCALE(w, KV_KEY, k)};
    return part;
}
#define LOAD_W(w, k) scale_part(w, k, LOAD_PAIR(TYPE_KV, (w).at, k))
// The last part of a row as scaled numbers: an infinite scale would make NaN of the 0 past the end.
w_part load_w_part(row_of_w w, int k, int count) {
    const w_part of = scale_part(w, k, LOAD_PAIR_PART(TYPE_KV, w.at, k, count));
    const VEC_INT a = lane_numbers() < (VEC_INT)(count), b = lane_numbers() < (VEC_INT)(count - LANES);
    const w_part part = {{AS_VEC(AS_VEC_INT(of.n.a * of.d) & a), AS_VEC(AS_VEC_INT(of.n.b * of.d) & b)},
                         1.0f};
    return part;
}
#define LOAD_W_PART(w, k, count) load_w_part(w, k, count)
#else
#define LOAD_W(w, k) LOAD_PAIR(TYPE_KV, w, k)
#define LOAD_W_PART(w, k, count) LOAD_PAIR_PART(TYPE_KV, w, k, count)
#endif
REGISTER_INLINE VEC add_part(vec_pair x, w_part w, VEC sum) {
#if STORE_IS_BLOCKS(TYPE_KV) || W_SCALED
    sum = fma(fma(x.b, w.n.b, x.a * w.n.a), (VEC)(w.d), sum);
    return TYPE_KV == STORE_Q4_1 ? fma(x.a + x.b, (VEC)(w.m), sum) : sum;
#else
    return fma(x.b, w.b, fma(x.a, w.a, sum));
#endif
}

// Prefetch SPAN numbers of a row from number k on.
REGISTER_INLINE void ask(w_pointer w, int k) {
    if (PREFETCH_LEVEL != PREFETCH_SECOND_LEVEL) return;
    __global const uchar *at = (__global const uchar *)BLOCK_AT(TYPE_KV, w, k);
    const int bytes = STORED_BYTES(TYPE_KV, SPAN);
    if (bytes < 64 && k / SPAN % (64 / max(bytes, 1)) != 0) return;
    PREFETCH_FAR(at);
    if (bytes > 64) PREFETCH_FAR(at + 64);
}

// True if W is read row by row instead of COLUMN_BLOCK rows at once. For one row of x and 16-bit W,
// and for float32 rows shorter than a page, in which a prefetcher follows one stream. While the
// sums of a block end, a part of the next rows is prefetched. It saves 8 to 15 % (Zen 4).
#define PAGE 4096
#define READS_IN_ORDER(count)                                                                                \
    (ROW_BLOCK == 1 && (TYPE_KV == STORE_F16 || TYPE_KV == STORE_BF16 ||                                     \
                        (TYPE_KV == STORE_F32 && !W_SCALED && (count) < PAGE / 4)))
#define LATE_ROWS 2
#define LATE_NUMBERS 512

// sum += x w over `count` numbers (whole SPANs) from number `first` of w on, for one row of x. The
// sum is in four vectors, so that no product waits for the previous one.
REGISTER_INLINE VEC add_row(x_pointer x, row_of_w w, int first, long ahead, int count, VEC sum) {
    VEC part[4] = {sum, (VEC)(0.0f), (VEC)(0.0f), (VEC)(0.0f)};
    int k = 0;
    for (; k + 4 * SPAN <= count; k += 4 * SPAN)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            ask(W_ROW_AT(w) + ahead, first + k + i * SPAN);
            part[i] = add_part(LOAD_X(x, k + i * SPAN), LOAD_W(w, first + k + i * SPAN), part[i]);
        }
    for (; k < count; k += SPAN) {
        ask(W_ROW_AT(w) + ahead, first + k);
        part[0] = add_part(LOAD_X(x, k), LOAD_W(w, first + k), part[0]);
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

// Add the rest of a row from number `whole` on.
REGISTER_INLINE void add_tail(const x_pointer x[ROW_BLOCK], const row_of_w w[COLUMN_BLOCK], int first,
                              int whole, int count, VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
    vec_pair xs[ROW_BLOCK];
#pragma unroll
    for (int r = 0; r < ROW_BLOCK; r++) xs[r] = LOAD_PAIR_PART(TYPE_Q, x[r], whole, count - whole);
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCK; n++) {
        const w_part ws = LOAD_W_PART(w[n], first + whole, count - whole);
#pragma unroll
        for (int r = 0; r < ROW_BLOCK; r++) sum[r][n] = add_part(xs[r], ws, sum[r][n]);
    }
}

// sum += x w over `count` contiguous elements of a row of x and COLUMN_BLOCK rows of W, one row of
// W after the other.
void add_in_order(const x_pointer x[ROW_BLOCK], const row_of_w w[COLUMN_BLOCK], int first, long ahead,
                  long later, int count, VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
    const int whole = count / SPAN * SPAN;
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCK; n++) sum[0][n] = add_row(x[0], w[n], first, ahead, whole, sum[0][n]);
    for (int n = 0; n < min(LATE_ROWS, COLUMN_BLOCK); n++)
        for (int k = 0; k < min(whole, LATE_NUMBERS); k += SPAN) ask(W_ROW_AT(w[n]) + later, first + k);
    if (whole < count) add_tail(x, w, first, whole, count, sum);
}

// sum += x w over `count` contiguous elements of ROW_BLOCK rows of x and COLUMN_BLOCK rows of W,
// which begin at number `first` of W. It prefetches the block of W at distance `ahead`, and some
// rows at distance `later`.
REGISTER_INLINE void add_products(const x_pointer x[ROW_BLOCK], const row_of_w w[COLUMN_BLOCK], int first,
                                  long ahead, long later, int count, VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
    if (READS_IN_ORDER(count)) {
        add_in_order(x, w, first, ahead, later, count, sum);
        return;
    }
    VEC acc[ROW_BLOCK][COLUMN_BLOCK];
#pragma unroll
    for (int r = 0; r < ROW_BLOCK; r++) {
#pragma unroll
        for (int n = 0; n < COLUMN_BLOCK; n++) acc[r][n] = sum[r][n];
    }
    const int whole = count / SPAN * SPAN;
    for (int k = 0; k < whole; k += SPAN) {
        vec_pair xs[ROW_BLOCK];
#pragma unroll
        for (int r = 0; r < ROW_BLOCK; r++) xs[r] = LOAD_X(x[r], k);
#pragma unroll
        for (int n = 0; n < COLUMN_BLOCK; n++) {
            const w_part ws = LOAD_W(w[n], first + k);
            ask(W_ROW_AT(w[n]) + ahead, first + k);
#pragma unroll
            for (int r = 0; r < ROW_BLOCK; r++) acc[r][n] = add_part(xs[r], ws, acc[r][n]);
        }
    }
    if (whole < count) add_tail(x, w, first, whole, count, acc);
#pragma unroll
    for (int r = 0; r < ROW_BLOCK; r++) {
#pragma unroll
        for (int n = 0; n < COLUMN_BLOCK; n++) sum[r][n] = acc[r][n];
    }
}

// The current columns of y of a work-item, and their rows of W. Columns past the last column are
// copies of it, and are not stored.
typedef struct column_block {
    int count, d[COLUMN_BLOCK]; // d: column within its head
    bool together;              // all exist and are contiguous in memory
    // Distance in W from a row to the row to prefetch: `ahead` with each product, `later` while
    // sums end. Near the end of W it is 0.
    long ahead, later;
    int row[COLUMN_BLOCK]; // of W
    long y[COLUMN_BLOCK];
    float bias[SUM_GROUPS * LANES]; // biases in the order of the block's sums
} column_block;

// The current rows. b and i are batch item and row of the next block, first_b and first_i of this
// one. With RAGGED, y is negative for a row without a place in a cache.
typedef struct row_block {
    int count, b, i, first_b, first_i;
    long x[ROW_BLOCK], y[ROW_BLOCK], position[ROW_BLOCK];
} row_block;

typedef __global const ELEMENT(TYPE_BIAS) * bias_pointer;

// The distance of the prefetch in blocks. With DOT_I8 it is 2, because none is issued while x is
// converted.
#define BLOCKS_AHEAD (DOT_I8 ? 2 : 1)
column_block take_columns(const linear_args *a, bias_pointer bias, int first, int last) {
    column_block to;
    to.count = min(COLUMN_BLOCK, last - first);
    to.ahead = BLOCKS_AHEAD * COLUMN_BLOCK * a->w_row, to.later = 2 * COLUMN_BLOCK * a->w_row;
    int head = first / a->y_head_columns, d = first - head * a->y_head_columns;
    const bool whole = to.count == COLUMN_BLOCK,
               follow = whole & (d + COLUMN_BLOCK <= a->y_head_columns) & (ROPE != 1);
    to.together = whole;
    // The last rows of W that the block uses, and that it prefetches late.
    int most = first + COLUMN_BLOCK - 1, most_late = first + min(LATE_ROWS, COLUMN_BLOCK) - 1;
    if (follow) // without a check per column
        for (int n = 0; n < COLUMN_BLOCK; n++) {
            to.d[n] = d + n, to.row[n] = first + n;
            to.y[n] = a->y_offset + head * a->y_head + d + n;
            to.bias[n] = (a->flags & ARGS_BIAS) ? LOAD(TYPE_BIAS, bias, a->bias_offset + first + n) : 0.0f;
        }
    else
        for (int n = 0; n < COLUMN_BLOCK; n++) {
            const int in_head = walk_in_head(a, d), c = head * a->y_head_columns + in_head;
            to.d[n] = d, to.row[n] = c;
            most = max(most, c), most_late = n < LATE_ROWS ? max(most_late, c) : most_late;
            to.y[n] = a->y_offset + head * a->y_head + in_head;
            to.together = to.together && to.y[n] == to.y[0] + n;
            to.bias[n] = (a->flags & ARGS_BIAS) ? LOAD(TYPE_BIAS, bias, a->bias_offset + c) : 0.0f;
            if (n + 1 < to.count && ++d == a->y_head_columns) d = 0, head++;
        }
    if (most + BLOCKS_AHEAD * COLUMN_BLOCK >= a->columns) to.ahead = 0;
    if (most_late + 2 * COLUMN_BLOCK >= a->columns) to.later = 0;
    for (int k = COLUMN_BLOCK; k < SUM_GROUPS * LANES; k++) to.bias[k] = to.bias[k - COLUMN_BLOCK];
    return to;
}

#if RAGGED
// The place of a packed row: in a cache if position_row, its capacity, is not 0; else in packed y.
void take_place(const linear_args *a, __global const int *table, row_block *to, int r) {
    const ragged_key key = ragged_key_of(table, a->position_batch, to->i);
    to->position[r] = a->position + key.position;
    if (a->position_row == 0)
        to->y[r] = to->i * a->y_row;
    else
        to->y[r] =
            key.exists && key.position < a->position_row ? key.b * a->y_batch + key.position * a->y_row : -1;
}
#endif

void take_rows(const linear_args *a, __global const int *table, row_block *to) {
    to->count = 0, to->first_b = to->b, to->first_i = to->i;
    for (int r = 0; r < ROW_BLOCK; r++) {
        if (to->b == a->batch) { // past the last row; the first row of a block always exists
            to->x[r] = to->x[max(r, 1) - 1];
            to->position[r] = to->position[max(r, 1) - 1];
            continue;
        }
        to->x[r] = a->x_offset + to->b * a->x_batch + to->i * a->x_row;
#if RAGGED
        take_place(a, table, to, r);
#else
        to->y[r] = to->b * a->y_batch + to->i * a->y_row;
        to->position[r] = ROPE ? rope_position(a, table, to->b, to->i) : 0;
#endif
        to->count++;
        if (++to->i == a->rows) to->i = 0, to->b++;
    }
}

// Sum the products of a block. If heads of x are not contiguous, each begins a group of scales.
void sum_block(const linear_args *a, x_pointer x, w_matrix w, const row_block *rows,
               const column_block *columns, VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
    for (int r = 0; r < ROW_BLOCK; r++) {
        for (int n = 0; n < COLUMN_BLOCK; n++) sum[r][n] = (VEC)(0.0f);
    }
    // A part of the reduction that is contiguous in x: a head, or all of it.
    for (int k = 0, head = 0; k < a->reduction; k += a->x_head_columns, head++) {
        x_pointer xs[ROW_BLOCK];
        row_of_w ws[COLUMN_BLOCK];
        for (int r = 0; r < ROW_BLOCK; r++) xs[r] = x + rows->x[r] + head * a->x_head;
        for (int n = 0; n < COLUMN_BLOCK; n++) W_ROW_SET(&ws[n], w_row_of(w, a, columns->row[n]));
        add_products(xs, ws, k, columns->ahead, columns->later, min(a->x_head_columns, a->reduction - k),
                     sum);
    }
}

// Add all lanes and the bias, LANES accumulators at a time, row after row.
REGISTER_INLINE void finish_sums(const column_block *columns, VEC sum[ROW_BLOCK][COLUMN_BLOCK],
                                 float y[SUM_GROUPS * LANES]) {
#pragma unroll
    for (int g = 0; g < SUM_GROUPS; g++) {
        VEC t[LANES];
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            const int k = g * LANES + i;
            t[i] = k < ROW_BLOCK * COLUMN_BLOCK ? sum[k / COLUMN_BLOCK % ROW_BLOCK][k % COLUMN_BLOCK]
                                                : (VEC)(0.0f);
        }
        VSTORE(sum_each_lanes(t) + VLOAD(g, columns->bias), g, y);
    }
}

#if ROPE
// Apply RoPE to a block; all pairs share vectors of cosine and sine. It includes repeated rows and
// columns: loops that skip them crashed Intel's compiler 2026.2.
void rope_block(const linear_args *a, __global const ulong *frequencies, const row_block *rows,
                const column_block *columns, float y[ROW_BLOCK * COLUMN_BLOCK]) {
    float angle[16] = {0.0f}, c[16], s[16];
#pragma unroll
    for (int i = 0; i < ROW_BLOCK * COLUMN_BLOCK / 2; i++) {
        const int d = columns->d[2 * i % COLUMN_BLOCK];
        const ulong part =
            d < a->rotary_dim ? (ulong)rows->position[2 * i / COLUMN_BLOCK] * frequencies[d / 2] : 0;
        angle[i] = (float)as_long(part) * 0x1.0p-63f;
    }
    vstore16(cospi(vload16(0, angle)) * a->amplitude, 0, c);
    vstore16(sinpi(vload16(0, angle)) * a->amplitude, 0, s);
#pragma unroll
    for (int i = 0; i < ROW_BLOCK * COLUMN_BLOCK / 2; i++) {
        const bool turned = columns->d[2 * i % COLUMN_BLOCK] < a->rotary_dim;
        const float y0 = y[2 * i], y1 = y[2 * i + 1];
        y[2 * i] = turned ? y0 * c[i] - y1 * s[i] : y0;
        y[2 * i + 1] = turned ? y1 * c[i] + y0 * s[i] : y1;
    }
}
#endif

void store_row(__global ELEMENT(TYPE_OUT) * y, const column_block *columns, const float *row) {
#if TYPE_OUT == STORE_F32 && (COLUMN_BLOCK == 4 || COLUMN_BLOCK == 8 || COLUMN_BLOCK == 16)
    if (columns->together) {
        PASTE(vstore, COLUMN_BLOCK)(PASTE(vload, COLUMN_BLOCK)(0, row), 0, y + columns->y[0]);
        return;
    }
#endif
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCK; n++)
        if (n < columns->count) STORE(TYPE_OUT, y, columns->y[n], row[n]);
}

typedef struct epilogue epilogue;
#if EPILOGUE
// The steps before columns are stored: an activation, times a second projection of the same rows,
// plus a residual.
struct epilogue {
    const linear_args *up;
    w_matrix w_up;
    bias_pointer bias_up;
    __global const ELEMENT(TYPE_OUT) * residual;
    const epilogue_args *args;
};

// Apply the epilogue to rows from row i of batch item b on and columns from `column` on. `up` has
// the sums of the second projection in columns `ups`.
void finish_block(const linear_args *of, const epilogue *e, const row_block *rows, const column_block *ups,
                  const float up[SUM_GROUPS * LANES], int column, float result[SUM_GROUPS * LANES]) {
    const epilogue_args *a = e->args;
    for (int g = 0; g < SUM_GROUPS; g++) {
        VEC v = activated(VLOAD(g, result), a->how);
        if (a->gates) v *= VLOAD(g, up);
        VSTORE(v, g, result);
    }
    int b = rows->first_b, i = rows->first_i;
    for (int r = 0; a->adds && r < rows->count; r++) {
        const long at = view_row(&a->residual, b, i, 0) + column;
        for (int n = 0; n < ups->count; n++)
            result[r * COLUMN_BLOCK + n] += LOAD(TYPE_OUT, e->residual, at + n);
        if (++i == of->rows) i = 0, b++;
    }
}
#endif

// Arguments of one projection; `after` is used with EPILOGUE.
typedef struct projection {
    const linear_args *a;
    x_pointer x;
    w_matrix w;
    bias_pointer bias;
    __global ELEMENT(TYPE_OUT) * y;
    __global const ulong *frequencies;
    __global const int *table;
    const epilogue *after;
} projection;

// Finish and store a block from its sums `sum`, and those of the second projection, `up`, in
// columns `ups`.
void finish_columns(const projection *p, const row_block *rows, const column_block *columns, int column,
                    VEC sum[ROW_BLOCK][COLUMN_BLOCK], const column_block *ups,
                    VEC up[ROW_BLOCK][COLUMN_BLOCK]) {
    float result[SUM_GROUPS * LANES];
    finish_sums(columns, sum, result);
#if ROPE
    if (p->a->rotary_dim > 0) rope_block(p->a, p->frequencies, rows, columns, result);
#endif
#if EPILOGUE
    float of_up[SUM_GROUPS * LANES];
    if (p->after->args->gates) finish_sums(ups, up, of_up);
    finish_block(p->a, p->after, rows, ups, of_up, column, result);
#endif
    for (int r = 0; r < rows->count; r++) {
#if RAGGED
        if (rows->y[r] < 0) continue;
#endif
        store_row(p->y + rows->y[r], columns, result + r * COLUMN_BLOCK);
    }
}

#if DOT_I8
#include "linear/linear_few_lanes_integers.clh"
#else
// Compute columns [first, last).
void project(const projection *p, int first, int last) {
    for (int column = first; column < last; column += COLUMN_BLOCK) {
        const column_block columns = take_columns(p->a, p->bias, column, last);
#if EPILOGUE
        const bool gates = p->after->args->gates;
        const column_block ups =
            gates ? take_columns(p->after->up, p->after->bias_up, column, last) : columns;
#endif
        row_block rows;
        rows.b = rows.i = 0;
        while (rows.b < p->a->batch) {
            VEC sum[ROW_BLOCK][COLUMN_BLOCK];
            take_rows(p->a, p->table, &rows);
            sum_block(p->a, p->x, p->w, &rows, &columns, sum);
#if EPILOGUE
            VEC up[ROW_BLOCK][COLUMN_BLOCK];
            if (gates) sum_block(p->after->up, p->x, p->after->w_up, &rows, &ups, up);
            finish_columns(p, &rows, &columns, column, sum, &ups, up);
#else
            finish_columns(p, &rows, &columns, column, sum, 0, 0);
#endif
        }
    }
}
#endif

// Compute columns [first, first + COLUMN_TILE) of one projection. `after` is used with EPILOGUE.
void project_columns(const linear_args *a, x_pointer x, w_matrix w, bias_pointer bias,
                     __global ELEMENT(TYPE_OUT) * y, __global const ulong *frequencies,
                     __global const int *table, int first, const epilogue *after) {
    const projection p = {a, x, w, bias, y, frequencies, table, after};
    project(&p, first, min(first + COLUMN_TILE, a->columns));
}

int column_tiles(const linear_args *a) {
    return (a->columns + COLUMN_TILE - 1) / COLUMN_TILE;
}

#ifndef PART_OF_LAYER // layer_few_lanes.cl includes this file for its functions
// Up to three projections of the same rows, for example to q, k and v. Their tiles of columns are
// consecutive work-groups. A projection that does not exist has 0 columns.
__kernel void
linear_few_lanes(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w0,
                 __global const ELEMENT(TYPE_KV) * w1, __global const ELEMENT(TYPE_KV) * w2,
                 W_SCALES_OF(0) W_SCALES_OF(1) W_SCALES_OF(2) __global const ELEMENT(TYPE_BIAS) * bias0,
                 __global const ELEMENT(TYPE_BIAS) * bias1, __global const ELEMENT(TYPE_BIAS) * bias2,
                 __global ELEMENT(TYPE_OUT) * y0, __global ELEMENT(TYPE_OUT) * y1,
                 __global ELEMENT(TYPE_OUT) * y2, __global const ulong *frequencies,
                 __global const int *table,
#if EPILOGUE
                 __global const ELEMENT(TYPE_OUT) * residual, const epilogue_args epilogue_of,
#endif
                 linear_args args0, linear_args args1, linear_args args2) {
    const w_matrix all0 = W_POINTERS(0), all1 = W_POINTERS(1), all2 = W_POINTERS(2);
#if EPILOGUE
    const epilogue after = {&args1, all1, bias1, residual, &epilogue_of};
    (void)all2;
    project_columns(&args0, x, all0, bias0, y0, frequencies, table, (int)get_group_id(0) * COLUMN_TILE,
                    &after);
#else
    const int tile = (int)get_group_id(0), tiles0 = column_tiles(&args0),
              tiles1 = tiles0 + column_tiles(&args1);
    if (tile < tiles0)
        project_columns(&args0, x, all0, bias0, y0, frequencies, table, tile * COLUMN_TILE, 0);
    else if (tile < tiles1)
        project_columns(&args1, x, all1, bias1, y1, frequencies, table, (tile - tiles0) * COLUMN_TILE, 0);
    else
        project_columns(&args2, x, all2, bias2, y2, frequencies, table, (tile - tiles1) * COLUMN_TILE, 0);
#endif
}
#endif
