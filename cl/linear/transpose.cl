// transpose.cl: y[column][row] = x[row][column], for the gradients of a projection.
//
// A work-item transposes a block of ARGS_TRANSPOSE x ARGS_TRANSPOSE numbers, so that it reads and
// writes contiguous pieces of rows. In y the rows of all batch items follow one another; rows past
// an item's length become 0. Global size: (blocks of columns, blocks of rows, batch).
#include "args/backward_args.h"
#include "base/common.clh"

__kernel void transpose(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                        __global const int *table, const transpose_args args) {
    const int c0 = (int)get_global_id(0) * ARGS_TRANSPOSE, r0 = (int)get_global_id(1) * ARGS_TRANSPOSE;
    const long b = (long)get_global_id(2);
    if (c0 >= args.columns || r0 >= args.rows) return;
    const int columns = min(ARGS_TRANSPOSE, args.columns - c0), rows = min(ARGS_TRANSPOSE, args.rows - r0);
    const int there = args.word ? clamp(table[ARGS_ITEM_WORDS * b + args.word] - r0, 0, rows) : rows;
    float block[ARGS_TRANSPOSE][ARGS_TRANSPOSE];
    x += args.x_offset + b * args.x_batch + r0 * args.x_row + c0;
    y += args.y_offset + c0 * args.y_row + b * args.rows + r0;
    for (int r = 0; r < there; r++)
        for (int c = 0; c < columns; c++) block[r][c] = LOAD(TYPE_Q, x + r * args.x_row, c);
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++) STORE(TYPE_OUT, y + c * args.y_row, r, r < there ? block[r][c] : 0.0f);
}
