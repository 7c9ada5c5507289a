// linear_few_lanes.cl: y = x W^T + bias for few rows, on devices whose work-item owns vector registers.
// With few rows the time is that of reading W once, so nothing is packed: the reduction is in the lanes, x
// and W are read as they lie, and each sum ends in a horizontal addition. Same arguments as linear_lanes.cl.
// Local size 1; global size ceil(columns / COLUMN_TILE).
#include "lanes_pair.clh"
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

__kernel void linear_few_lanes(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_KV) * w,
                               __global const ELEMENT(TYPE_BIAS) * bias, __global ELEMENT(TYPE_OUT) * y,
                               linear_args args) {
    const int first = (int)get_group_id(0) * COLUMN_TILE, last = min(first + COLUMN_TILE, args.columns);
    const int rows = args.batch * args.rows;
    for (int column = first; column < last; column += COLUMN_BLOCK) {
        for (int row = 0; row < rows; row += ROW_BLOCK) {
            VEC sum[ROW_BLOCK][COLUMN_BLOCK];
            for (int r = 0; r < ROW_BLOCK; r++) {
                for (int n = 0; n < COLUMN_BLOCK; n++) sum[r][n] = (VEC)(0.0f);
            }
            // A part of the reduction that is contiguous in x: a head, or all of it.
            for (int k = 0, head = 0; k < args.reduction; k += args.x_head_columns, head++) {
                x_pointer xs[ROW_BLOCK];
                w_pointer ws[COLUMN_BLOCK];
                for (int r = 0; r < ROW_BLOCK; r++) {
                    const int i = min(row + r, rows - 1); // past the end: the last one again, not stored
                    xs[r] = x + args.x_offset + i / args.rows * args.x_batch + i % args.rows * args.x_row +
                            head * args.x_head;
                }
                for (int n = 0; n < COLUMN_BLOCK; n++)
                    ws[n] = w + args.w_offset + min(column + n, last - 1) * args.w_row + k;
                add_products(xs, ws, min(args.x_head_columns, args.reduction - k), sum);
            }
            for (int n = 0; n < COLUMN_BLOCK && column + n < last; n++) {
                const int c = column + n;
                const float start =
                    (args.flags & ARGS_BIAS) ? LOAD(TYPE_BIAS, bias, args.bias_offset + c) : 0.0f;
                const long at =
                    args.y_offset + c / args.y_head_columns * args.y_head + c % args.y_head_columns;
                for (int r = 0; r < ROW_BLOCK && row + r < rows; r++) {
                    const int b = (row + r) / args.rows, i = (row + r) % args.rows;
                    STORE(TYPE_OUT, y, at + b * args.y_batch + i * args.y_row, start + sum_lanes(sum[r][n]));
                }
            }
        }
    }
}
