// linear_few_lanes.cl: y = x W^T + bias for few rows, on devices whose work-item owns vector registers.
// With few rows the time is that of reading W once, so nothing is packed: the reduction is in the lanes, x
// and W are read as they lie, and each sum ends in a horizontal addition. Same arguments as linear_lanes.cl.
// Local size 1; global size ceil(columns / COLUMN_TILE).
//
// Measured on a 2-core Zen 4 with PoCL 3.1, November 2026, 4096 x 4096: one row reads W at the machine's read
// bandwidth with 8 columns at once (12 to 33 % slower with 4 to 1: the prefetcher wants several streams).
// Rejected: one or two columns with many rows (5 to 11 GB/s of W at 16 rows against 17 with 5), and
// linear_lanes.cl for 20 rows of 512 (46 % of the FMA peak against 69 %).
#include "lanes_pair.clh"
#include "lanes_rope.clh"
#include "linear_args.h"

#ifndef ROW_BLOCK
#define ROW_BLOCK 4 // rows in registers at once
#endif
#ifndef COLUMN_BLOCK
#define COLUMN_BLOCK 4 // columns in registers at once; ROW_BLOCK * COLUMN_BLOCK accumulators
#endif
#ifndef COLUMN_TILE
#define COLUMN_TILE 8 // columns of a work-item
#endif
#define SPAN (2 * LANES)
#if ROPE && (COLUMN_BLOCK % 2 || COLUMN_TILE % COLUMN_BLOCK || ROW_BLOCK * COLUMN_BLOCK > 32)
#error "with ROPE a block holds whole pairs, at most 16 of them"
#endif

// A pair of x in the order in which LOAD_PAIR gives W.
#if TYPE_Q == TYPE_KV
#define LOAD_X(p, i) LOAD_PAIR(TYPE_Q, p, i)
#else
#define LOAD_X(p, i) ORDER_PAIR(TYPE_KV, UNORDER_PAIR(TYPE_Q, LOAD_PAIR(TYPE_Q, p, i)))
#endif

typedef __global const ELEMENT(TYPE_Q) * x_pointer;
typedef __global const ELEMENT(TYPE_KV) * w_pointer;

// sum += x w over `count` contiguous elements of ROW_BLOCK rows of x and COLUMN_BLOCK rows of W.
inline void add_products(const x_pointer x[ROW_BLOCK], const w_pointer w[COLUMN_BLOCK], int count,
                         VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
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
            const vec_pair ws = LOAD_PAIR(TYPE_KV, w[n], k);
#pragma unroll
            for (int r = 0; r < ROW_BLOCK; r++) acc[r][n] = fma(xs[r].b, ws.b, fma(xs[r].a, ws.a, acc[r][n]));
        }
    }
    if (whole < count) {
        vec_pair xs[ROW_BLOCK];
#pragma unroll
        for (int r = 0; r < ROW_BLOCK; r++) xs[r] = LOAD_PART(TYPE_Q, x[r], whole, count - whole);
#pragma unroll
        for (int n = 0; n < COLUMN_BLOCK; n++) {
            const vec_pair ws = LOAD_PART(TYPE_KV, w[n], whole, count - whole);
#pragma unroll
            for (int r = 0; r < ROW_BLOCK; r++) acc[r][n] = fma(xs[r].b, ws.b, fma(xs[r].a, ws.a, acc[r][n]));
        }
    }
#pragma unroll
    for (int r = 0; r < ROW_BLOCK; r++) {
#pragma unroll
        for (int n = 0; n < COLUMN_BLOCK; n++) sum[r][n] = acc[r][n];
    }
}

// Rows [row, row + ROW_BLOCK) and columns [column, column + COLUMN_BLOCK) of y, of which only so many exist;
// those past the end repeat the last one and are not stored.
typedef struct block {
    int row, rows, column, columns;
} block;

// Which column the n-th of the walk is: with RoPE the two of a pair follow one another.
inline int walk_column(const linear_args *a, int n) {
#if ROPE == 1
    const int d = n % a->y_head_columns, head = n - d;
    if (d < a->rotary_dim) return head + (d % 2 ? pair_second(a, d / 2) : pair_first(a, d / 2));
#endif
    return n;
}

inline void sum_block(const linear_args *a, x_pointer x, w_pointer w, const block *at,
                      VEC sum[ROW_BLOCK][COLUMN_BLOCK]) {
    for (int r = 0; r < ROW_BLOCK; r++) {
        for (int n = 0; n < COLUMN_BLOCK; n++) sum[r][n] = (VEC)(0.0f);
    }
    // A part of the reduction that is contiguous in x: a head, or all of it.
    for (int k = 0, head = 0; k < a->reduction; k += a->x_head_columns, head++) {
        x_pointer xs[ROW_BLOCK];
        w_pointer ws[COLUMN_BLOCK];
        for (int r = 0; r < ROW_BLOCK; r++) {
            const int i = at->row + min(r, at->rows - 1), b = i / a->rows;
            xs[r] = x + a->x_offset + b * a->x_batch + i % a->rows * a->x_row + head * a->x_head;
        }
        for (int n = 0; n < COLUMN_BLOCK; n++)
            ws[n] = w + a->w_offset + walk_column(a, at->column + min(n, at->columns - 1)) * a->w_row + k;
        add_products(xs, ws, min(a->x_head_columns, a->reduction - k), sum);
    }
}

#if ROPE
// Turn the pairs of a block; pairs of all its rows share a vector for cosine and sine.
inline void turn_block(const linear_args *a, __global const ulong *turns, __global const int *table, const block *at,
                       float y[ROW_BLOCK][COLUMN_BLOCK]) {
    float angle[16] = {0.0f}, c[16], s[16];
    for (int r = 0; r < at->rows; r++) {
        const long position = rope_position(a, table, (at->row + r) / a->rows, (at->row + r) % a->rows);
        for (int n = 0; n < at->columns; n += 2) {
            const int d = (at->column + n) % a->y_head_columns;
            const long part = d < a->rotary_dim ? position * as_long(turns[d / 2]) : 0;
            angle[(r * COLUMN_BLOCK + n) / 2] = (float)part * 0x1.0p-63f;
        }
    }
    vstore16(cospi(vload16(0, angle)), 0, c);
    vstore16(sinpi(vload16(0, angle)), 0, s);
    for (int r = 0; r < at->rows; r++) {
        for (int n = 0; n < at->columns; n += 2) {
            const int pair = (r * COLUMN_BLOCK + n) / 2;
            const float y0 = y[r][n], y1 = y[r][n + 1];
            y[r][n] = y0 * c[pair] - y1 * s[pair];
            y[r][n + 1] = y1 * c[pair] + y0 * s[pair];
        }
    }
}
#endif

inline void store_block(const linear_args *a, __global ELEMENT(TYPE_OUT) * to, const block *at,
                        float y[ROW_BLOCK][COLUMN_BLOCK]) {
    for (int n = 0; n < COLUMN_BLOCK && n < at->columns; n++) {
        const int c = walk_column(a, at->column + n);
        const long column_at = a->y_offset + c / a->y_head_columns * a->y_head + c % a->y_head_columns;
        for (int r = 0; r < ROW_BLOCK && r < at->rows; r++) {
            const int b = (at->row + r) / a->rows, i = (at->row + r) % a->rows;
            STORE(TYPE_OUT, to, column_at + b * a->y_batch + i * a->y_row, y[r][n]);
        }
    }
}

inline void add_bias(const linear_args *a, __global const ELEMENT(TYPE_BIAS) * bias, const block *at,
                     VEC sum[ROW_BLOCK][COLUMN_BLOCK], float y[ROW_BLOCK][COLUMN_BLOCK]) {
    for (int n = 0; n < COLUMN_BLOCK; n++) {
        const bool biased = (a->flags & ARGS_BIAS) && n < at->columns;
        const float start = biased ? LOAD(TYPE_BIAS, bias, a->bias_offset + walk_column(a, at->column + n)) : 0.0f;
        for (int r = 0; r < ROW_BLOCK; r++) y[r][n] = start + sum_lanes(sum[r][n]);
    }
}

__kernel void linear_few_lanes(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
                               __global const ELEMENT(TYPE_BIAS) * bias, __global ELEMENT(TYPE_OUT) * y,
                               __global const ulong *turns, __global const int *table, linear_args args) {
    const int first = (int)get_group_id(0) * COLUMN_TILE, last = min(first + COLUMN_TILE, args.columns);
    const int rows = args.batch * args.rows;
    for (int column = first; column < last; column += COLUMN_BLOCK) {
        for (int row = 0; row < rows; row += ROW_BLOCK) {
            const block at = {row, min(ROW_BLOCK, rows - row), column, min(COLUMN_BLOCK, last - column)};
            VEC sum[ROW_BLOCK][COLUMN_BLOCK];
            float result[ROW_BLOCK][COLUMN_BLOCK];
            sum_block(&args, x, w, &at, sum);
            add_bias(&args, bias, &at, sum, result);
#if ROPE
            turn_block(&args, turns, table, &at, result);
#endif
            store_block(&args, y, &at, result);
        }
    }
}
