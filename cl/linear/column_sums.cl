// column_sums.cl: the sum of each column over rows of all batch items, such as the gradient of a projection's bias. A work-item owns a
// column of a part of the rows; it adds runs of SUM_ROWS rows, and then those sums, which loses less than one chain. Rows past an item's
// length are left out. Global size (columns, parts).
#include "args/backward_args.h"
#include "base/common.clh"

#define SUM_ROWS 64

__kernel void column_sums(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                          __global const int *table, const transpose_args args) {
    const int c = (int)get_global_id(0), part = (int)get_global_id(1);
    const long first = (long)part * args.part_rows;
    if (c >= args.columns || first >= max(args.rows, 1)) return;
    float all = 0.0f;
    for (int b = 0; b < args.batch; b++) {
        const int rows = args.word ? min(args.rows, table[ARGS_ITEM_WORDS * (long)b + args.word]) : args.rows;
        const int last = (int)min((long)rows, first + args.part_rows);
        for (int r0 = (int)first; r0 < last; r0 += SUM_ROWS) {
            const int end = min(last, r0 + SUM_ROWS);
            float sum = 0.0f;
            for (int r = r0; r < end; r++)
                sum += LOAD(TYPE_Q, x, args.x_offset + b * args.x_batch + r * args.x_row + c);
            all += sum;
        }
    }
    STORE(TYPE_OUT, y, args.y_offset + part * args.y_part + c * args.y_row, all);
}
