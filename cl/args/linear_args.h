// linear_args.h: the run-time arguments of the projection kernels, in the manner of args.h.
#ifndef CLATTN_LINEAR_ARGS_H
#define CLATTN_LINEAR_ARGS_H
#include "args/args.h"

// Columns of y that a work-item of linear_lanes.cl can own: its tile of y then stays in the second-level cache.
#define LINEAR_TILE_COLUMNS 576

// y[b,r,n] = sum_k x[b,r,k] w[n,k] + bias[n], in elements:
//   x[b,r,k] at x_offset + b*x_batch + (k / x_head_columns)*x_head + r*x_row + k % x_head_columns
//   w[n,k]   at w_offset + n*w_row + k
//   y[b,r,n] at y_offset + b*y_batch + (n / y_head_columns)*y_head + r*y_row + n % y_head_columns
// so that splitting columns into heads and joining heads into columns cost nothing. A plain matrix has
// x_head_columns = reduction and y_head_columns = columns. All sizes are at least 1.
// With the knob ROPE the heads of y are turned: row r of batch item b by its position, which is position + r, with
// ARGS_BATCH_ROWS plus the shift of the table of args.h; with LINEAR_POSITIONS by what the table holds in its place, its
// own position: of row r of batch item b at position + b*position_batch + r*position_row.
typedef struct linear_args {
    args_i64 x_offset, x_batch, x_head, x_row;
    args_i64 w_offset, w_row, bias_offset;
    args_i64 y_offset, y_batch, y_head, y_row;
    args_i64 position;           // of row 0, for RoPE
    args_i64 packed_offset;      // of linear_matrix.cl's packed weights, in words
    args_i32 batch, rows;        // B, rows of a batch item
    args_i32 columns, reduction; // of y; of x and w
    args_i32 x_head_columns, y_head_columns;
    args_i32 flags;      // ARGS_BIAS: there is a bias; ARGS_BATCH_ROWS: positions are shifted by the table
    args_i32 rotary_dim; // columns of a head that RoPE turns
    args_i32
        column_tile; // columns of a work-item of linear_lanes.cl, at most LINEAR_TILE_COLUMNS; of linear_matrix.cl
    args_i32 position_batch, position_row;
    args_f32 amplitude; // of RoPE: YaRN's factor on cos and sin, else 1
} linear_args;
ARGS_SIZE(linear_args, 152);
#define LINEAR_POSITIONS 1 // of the flags, whose other bits are those of args.h

// Weights packed for linear_matrix.cl: blocks of so many columns of y, steps of so much of the reduction; the head, in words,
// before the first tile. A work-item has at most so many rows and columns of y.
#define LINEAR_MATRIX_COLUMNS 32
#define LINEAR_MATRIX_STEP 32
#define LINEAR_MATRIX_BLOCKS(columns) (((columns) + LINEAR_MATRIX_COLUMNS - 1) / LINEAR_MATRIX_COLUMNS)
#define LINEAR_MATRIX_STEPS(reduction) (((reduction) + LINEAR_MATRIX_STEP - 1) / LINEAR_MATRIX_STEP)
#define LINEAR_MATRIX_HEAD(blocks) ((2 * (blocks) + 15) / 16 * 16)
#define LINEAR_MATRIX_TILE_ROWS 128
#define LINEAR_MATRIX_TILE_COLUMNS 512

// linear_pack.cl: weights as in linear_args; where the packed ones begin, in words.
typedef struct linear_pack_args {
    args_i64 w_offset, w_row, packed_offset;
    args_i32 columns, reduction;
} linear_pack_args;
ARGS_SIZE(linear_pack_args, 32);

#endif
