// column_sums.cl: the sum of each column over all rows of all batch items, such as the gradient of a projection's bias. A work-item owns a
// column; it adds runs of SUM_ROWS rows, and then those sums, which loses less than one chain. Global size (columns).
#include "args/backward_args.h"
#include "base/common.clh"

#define SUM_ROWS 64

__kernel void column_sums(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                          const transpose_args args) {
    const int c = (int)get_global_id(0);
    if (c >= args.columns) return;
    float all = 0.0f;
    for (int b = 0; b < args.batch; b++)
        for (int r0 = 0; r0 < args.rows; r0 += SUM_ROWS) {
            const int end = min(args.rows, r0 + SUM_ROWS);
            float sum = 0.0f;
            for (int r = r0; r < end; r++)
                sum += LOAD(TYPE_Q, x, args.x_offset + b * args.x_batch + r * args.x_row + c);
            all += sum;
        }
    STORE(TYPE_OUT, y, args.y_offset + c * args.y_row, all);
}
