// column_sums.cl: the sum of each column over the rows of all batch items, for example the gradient
// of a projection's bias. Rows past an item's length do not count.
//
// A work-item owns LANES columns of a part of the rows. It sums runs of SUM_ROWS rows and then adds
// the runs, which rounds less than one long chain. Global size: (ceil(columns / LANES), parts).
#ifndef LANES
#define LANES 4 // for devices whose work-items are the lanes of vectors
#endif
#include "args/backward_args.h"
#include "base/common.clh"

#define SUM_ROWS 64

// The sums of `columns` columns, at most LANES. Loops over LANES become vectors. The assembler of
// lanes.clh is not used, because it works only in work-groups of one item.
void sum_rows(__global const ELEMENT(TYPE_Q) * x, __global const int *table, const transpose_args *a,
              long first, const int columns, float all[LANES]) {
    for (int c = 0; c < LANES; c++) all[c] = 0.0f;
    for (int b = 0; b < a->batch; b++) {
        const int rows = a->word ? min(a->rows, table[ARGS_ITEM_WORDS * (long)b + a->word]) : a->rows;
        const int last = (int)min((long)rows, first + a->part_rows);
        for (int r0 = (int)first; r0 < last; r0 += SUM_ROWS) {
            const int end = min(last, r0 + SUM_ROWS);
            float sum[LANES] = {0.0f};
            for (int r = r0; r < end; r++)
                for (int c = 0; c < columns; c++)
                    sum[c] += LOAD(TYPE_Q, x, b * a->x_batch + r * a->x_row + c);
            for (int c = 0; c < columns; c++) all[c] += sum[c];
        }
    }
}

__kernel void column_sums(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                          __global const int *table, const transpose_args args) {
    const int c0 = (int)get_global_id(0) * LANES, part = (int)get_global_id(1);
    const long first = (long)part * args.part_rows;
    if (c0 >= args.columns || first >= max(args.rows, 1)) return;
    const int columns = min(LANES, args.columns - c0);
    float sums[LANES];
    x += args.x_offset + c0;
    if (columns == LANES)
        sum_rows(x, table, &args, first, LANES, sums);
    else
        sum_rows(x, table, &args, first, columns, sums);
    for (int c = 0; c < columns; c++)
        STORE(TYPE_OUT, y, args.y_offset + part * args.y_part + (c0 + c) * args.y_row, sums[c]);
}
