// backward_args.h: the run-time arguments of the kernels of gradients, as args.h has those of the others.
#ifndef CLATTN_BACKWARD_ARGS_H
#define CLATTN_BACKWARD_ARGS_H
#include "args/args.h"

// The gradients of a call (backward.h). Their kernels have attention_args in which keys have no scales and nothing is returned, so that
// other views stand in those places (cl/call/score.clh has their names): dout's in `out`, dq's in `lse`, dk's and dv's in k_scale
// and v_scale, dbias' in `weights`. Of each query row backward_rows.cl makes a pair of numbers, dense [B, H, Nq] (of a ragged batch
// [1, H, T]): the log-sum-exp in natural units, and delta. A row that sees nothing has an lse of +infinity there, so that its weights
// are 0.
typedef struct backward_args {
    args_i64 part_dq; // elements between the float32 sums of two parts of the keys in dq
    args_i64 pairs,
        marks; // where the rows' pairs begin in scratch memory, in pairs, and those of backward_marks.cl
    args_i64 rows_batch, rows_head; // pairs from one batch item, and one head, to the next
    args_i32 part_keys;             // of a range of keys whose share of dq is made apart
    args_i32 packed_keys;   // 1: keys are packed as sequences are, and those past a length are nobody's
    args_i32 wants, unused; // which results there are
} backward_args;
ARGS_SIZE(backward_args, 56);
#define ARGS_WANTS_DQ 1
#define ARGS_WANTS_DK 2
#define ARGS_WANTS_DV 4

// Floats of local memory of a work-group of backward_tiles.cl: as of flash_tiles.cl a chunk of both sides' rows, or after them the weights
// and a slice of the wider others; a pair for each query row of a tile; and a flag. The planner and the kernel share it.
#define BACKWARD_TILES_PAIRS(micro_rows, group_rows, group_columns)                                          \
    ((micro_rows) * (group_rows) > 4 * (group_columns) ? (micro_rows) * (group_rows) : 4 * (group_columns))
#define BACKWARD_TILES_LOCAL_FLOATS(micro_rows, group_rows, group_columns, chunk, width)                     \
    (FLASH_TILES_SHARED(micro_rows, group_rows, group_columns, chunk, width) +                               \
     2 * BACKWARD_TILES_PAIRS(micro_rows, group_rows, group_columns) + 4)

// backward_rows.cl: those pairs.
#define ARGS_DLSE 1 // of `gives`: dlse is given
typedef struct backward_rows_args {
    args_view out, dout, lse, dlse;
    args_i64 pairs, rows_batch, rows_head; // as above
    args_i32 batch, heads, n_q, head_dim_v;
    args_i32 flags, gives;
} backward_rows_args;
ARGS_SIZE(backward_rows_args, 208);

// backward_store.cl: sums of parts, [parts] times dense rows, become a result, turned back by RoPE where its knob says so.
typedef struct backward_store_args {
    args_view x, y;
    args_i64 part;     // elements between two parts
    args_i64 position; // of row 0; with shifts the table's shift is added
    args_i32 parts, n, head_dim, rotary_dim;
    args_i32 flags;  // of the call: ARGS_BATCH_ROWS
    args_i32 shifts; // 1: rows stand at the table's shift
    args_i32 keys;   // 1: rows are keys, else queries
    args_f32 amplitude;
} backward_store_args;
ARGS_SIZE(backward_store_args, 128);

// backward_bias.cl: the sizes of dbias, of which those of 1 repeat in the call.
typedef struct backward_bias_args {
    args_i32 batch, heads, rows, columns;
} backward_bias_args;
ARGS_SIZE(backward_bias_args, 16);

// backward_heads.cl adds what backward_marks.cl found of each row, a pair of numbers beside its pair: what its score options with a
// number a head say, in ARGS_HEAD_SUMS sums, each of every ARGS_HEAD_SUMS-th row. Results are [H], a stride apart.
#define ARGS_HEAD_SUMS 64
enum { ARGS_DSINKS, ARGS_DSLOPES, ARGS_DSCALES, ARGS_HEAD_RESULTS };
typedef struct backward_heads_args {
    args_i64 offset[3], stride[3]; // of dsinks, dalibi_slopes, dhead_scales
    args_i32 wants, unused;        // a bit of each that is there
} backward_heads_args;
ARGS_SIZE(backward_heads_args, 56);

// transpose.cl: y[column][row] = x[row][column], of rows of several items that follow one another in y, a block of ARGS_TRANSPOSE by
// ARGS_TRANSPOSE numbers a work-item; and column_sums.cl: rows of sums y[part][column], each over part_rows rows of every item.
// Where `word` is not 0, that word of an item in the table of args.h says how many rows it has: those behind are taken for 0,
// whatever lies there.
#define ARGS_TRANSPOSE 8
typedef struct transpose_args {
    args_i64 x_offset, x_batch, x_row, y_offset, y_row, y_part;
    args_i32 batch, rows, columns, word; // rows of an item
    args_i32 part_rows, unused;
} transpose_args;
ARGS_SIZE(transpose_args, 72);

// A layer's gradients. What they read of the forward call lies dense in one memory, what they change in another or in the same, float32,
// at so many elements from its start; `word` as above, but that results of rows past a length are written as 0.
// gate_backward.cl: of [B, rows, gates] numbers, each the gate of `each` numbers of the heads' result, both of the forward call: `dgates`
// become the gates' gradients, `dheads`, the gradients of the gated result, those of the result, each unless it is -1: nobody wants it;
// `gated` becomes the gated result.
typedef struct gate_backward_args {
    args_i64 gates, heads, dgates, dheads, gated;
    args_i32 batch, rows, columns, each, word, unused;
} gate_backward_args;
ARGS_SIZE(gate_backward_args, 64);

// norm_backward.cl: of `groups` times `width` numbers a row, each group normalised by itself: x before the norm, of the forward call, and
// g, the gradient of what the norm has made of it, which becomes that of x. With NORM_WEIGHTS there are weights (norm_args), and with
// NORM_SHARES `shares` becomes what each number adds to their gradient.
#define NORM_SHARES 4
typedef struct norm_backward_args {
    args_i64 x, g, shares, w_offset;
    args_i32 batch, rows, groups, width, word, flags;
    args_f32 epsilon, more;
} norm_backward_args;
ARGS_SIZE(norm_backward_args, 64);

#endif
