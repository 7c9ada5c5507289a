// backward_args.h: the run-time arguments of the gradients' kernels, like args.h for the others.
#ifndef CLATTN_BACKWARD_ARGS_H
#define CLATTN_BACKWARD_ARGS_H
#include "args/args.h"

// Arguments of gradients (clattn/backward.h), after attention_args, whose unused views have other
// tensors: dout, dq, dk, dv and dbias (names: score.clh). Each query row has a pair, [B, H, Nq] or
// [1, H, T], from backward_rows.cl: log-sum-exp and delta. A row without visible keys has
// +infinity, so its weights are 0.
typedef struct backward_args {
    args_i64 part_dq; // elements between the sums of two parts of the keys in dq
    // Scratch memory, in pairs: first pair of the rows, and of backward_marks.cl's marks.
    args_i64 pairs, marks;
    args_i64 rows_batch, rows_head; // pairs between batch items, and heads
    args_i32 part_keys;             // keys per part, for which dq is summed separately
    // 1: keys are packed sequences, so rows past an item's length belong to other items.
    args_i32 packed_keys;
    args_i32 wants, unused; // ARGS_WANTS_... of the results
} backward_args;
ARGS_SIZE(backward_args, 56);
#define ARGS_WANTS_DQ 1
#define ARGS_WANTS_DK 2
#define ARGS_WANTS_DV 4

// Floats of local memory of backward_tiles.cl: flash_tiles.cl's shared part for the wider rows; a
// pair per query row of a tile; a flag. Planner and kernel share the formula.
#define BACKWARD_TILES_PAIRS(micro_rows, group_rows, group_columns)                                          \
    ((micro_rows) * (group_rows) > 4 * (group_columns) ? (micro_rows) * (group_rows) : 4 * (group_columns))
#define BACKWARD_TILES_LOCAL_FLOATS(micro_rows, group_rows, group_columns, chunk, width)                     \
    (FLASH_TILES_SHARED(micro_rows, group_rows, group_columns, chunk, width) +                               \
     2 * BACKWARD_TILES_PAIRS(micro_rows, group_rows, group_columns) + 4)

// backward_rows.cl: makes the pairs of log-sum-exp and delta.
#define ARGS_DLSE 1 // a bit of `gives`: there is a dlse
typedef struct backward_rows_args {
    args_view out, dout, lse, dlse;
    args_i64 pairs, rows_batch, rows_head; // as in backward_args
    args_i32 batch, heads, n_q, head_dim_v;
    args_i32 flags, gives;
} backward_rows_args;
ARGS_SIZE(backward_rows_args, 208);

// backward_store.cl: adds the parts [parts][rows] of a gradient, undoes RoPE with the knob ROPE,
// and stores the result.
typedef struct backward_store_args {
    args_view x, y;
    args_i64 part;     // elements between two parts
    args_i64 position; // position of row 0; with `shifts`, the table's shift is added
    args_i32 parts, n, head_dim, rotary_dim;
    args_i32 flags;  // ARGS_BATCH_ROWS of the call
    args_i32 shifts; // 1: positions include the table's shift
    args_i32 keys;   // 1: rows are keys; 0: queries
    args_f32 amplitude;
} backward_store_args;
ARGS_SIZE(backward_store_args, 128);

// backward_bias.cl: sizes of dbias; an axis of size 1 repeats in the call.
typedef struct backward_bias_args {
    args_i32 batch, heads, rows, columns;
} backward_bias_args;
ARGS_SIZE(backward_bias_args, 16);

// backward_heads.cl: gradients [H] of sinks, ALiBi slopes and head scales, from the pairs of rows
// and of marks. It adds rows in ARGS_HEAD_SUMS sums, each of every ARGS_HEAD_SUMS-th row.
#define ARGS_HEAD_SUMS 64
enum { ARGS_DSINKS, ARGS_DSLOPES, ARGS_DSCALES, ARGS_HEAD_RESULTS };
typedef struct backward_heads_args {
    args_i64 offset[3], stride[3]; // dsinks, dalibi_slopes, dhead_scales
    args_i32 wants, unused;        // bits of the requested results
} backward_heads_args;
ARGS_SIZE(backward_heads_args, 56);

// transpose.cl: y[column][row] = x[row][column], by blocks of ARGS_TRANSPOSE x ARGS_TRANSPOSE
// numbers. column_sums.cl: sums y[part][column] over part_rows rows of each item. `word`, if not 0,
// is the table's word with an item's number of rows; later rows count as 0.
#define ARGS_TRANSPOSE 8
typedef struct transpose_args {
    args_i64 x_offset, x_batch, x_row, y_offset, y_row, y_part;
    args_i32 batch, rows, columns, word; // rows per item
    args_i32 part_rows, unused;
} transpose_args;
ARGS_SIZE(transpose_args, 72);

// Gradients of a layer. Forward inputs are dense float32 in one buffer, gradients in another;
// fields are offsets in elements. `word`: as above, but results of rows past a length become 0.
//
// gate_backward.cl: [B, rows, columns] gates, each for `each` numbers of `heads`. It stores
// `dgates` and `gated`, and scales `dheads` in place. An offset of -1 is unused.
typedef struct gate_backward_args {
    args_i64 gates, heads, dgates, dheads, gated;
    args_i32 batch, rows, columns, each, word, unused;
} gate_backward_args;
ARGS_SIZE(gate_backward_args, 64);

// norm_backward.cl: `groups` groups of `width` numbers per row. x is the norm's forward input, and
// g, the gradient of its output, becomes the gradient of x. NORM_WEIGHTS: weights as in norm_args.
// NORM_SHARES: store each number's part of the weights' gradient.
#define NORM_SHARES 4
typedef struct norm_backward_args {
    args_i64 x, g, shares, w_offset;
    args_i32 batch, rows, groups, width, word, flags;
    args_f32 epsilon, more;
} norm_backward_args;
ARGS_SIZE(norm_backward_args, 64);

#endif
