// column_sums.cl: the sum of each column over rows of all batch items, such as the gradient of a projection's bias. A work-item owns LANES
// columns of a part of the rows; it adds runs of SUM_ROWS rows, and then those sums, which loses less than one chain. Rows past an item's
// length are left out. Global size (columns / LANES, rounded up, parts).
#ifndef LANES
#define LANES 4 // of devices whose work-items are lanes themselves
#endif
#include "args/backward_args.h"
#include "lanes/lanes.clh"

#define SUM_ROWS 64

// One column, or LANES of them: what a work-item adds, from its first column on.
#define DEFINE_SUM_ROWS(name, type, load)                                                                    \
    type name(__global const ELEMENT(TYPE_Q) * x, __global const int *table, const transpose_args *a,        \
              long first) {                                                                                  \
        type all = (type)(0.0f);                                                                             \
        for (int b = 0; b < a->batch; b++) {                                                                 \
            const int rows = a->word ? min(a->rows, table[ARGS_ITEM_WORDS * (long)b + a->word]) : a->rows;   \
            const int last = (int)min((long)rows, first + a->part_rows);                                     \
            for (int r0 = (int)first; r0 < last; r0 += SUM_ROWS) {                                           \
                const int end = min(last, r0 + SUM_ROWS);                                                    \
                type sum = (type)(0.0f);                                                                     \
                for (int r = r0; r < end; r++) sum += load(TYPE_Q, x, b * a->x_batch + r * a->x_row);        \
                all += sum;                                                                                  \
            }                                                                                                \
        }                                                                                                    \
        return all;                                                                                          \
    }
DEFINE_SUM_ROWS(sum_column, float, LOAD)
DEFINE_SUM_ROWS(sum_columns, VEC, LOAD_LANES)

__kernel void column_sums(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                          __global const int *table, const transpose_args args) {
    const int c0 = (int)get_global_id(0) * LANES, part = (int)get_global_id(1);
    const long first = (long)part * args.part_rows;
    if (c0 >= args.columns || first >= max(args.rows, 1)) return;
    const int columns = min(LANES, args.columns - c0);
    float sums[LANES];
    x += args.x_offset + c0;
    if (columns == LANES) {
        VSTORE(sum_columns(x, table, &args, first), 0, sums);
    } else {
        for (int c = 0; c < columns; c++) sums[c] = sum_column(x + c, table, &args, first);
    }
    for (int c = 0; c < columns; c++)
        STORE(TYPE_OUT, y, args.y_offset + part * args.y_part + (c0 + c) * args.y_row, sums[c]);
}
