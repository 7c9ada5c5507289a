// convert.cl: y = x + bias, from one storage type to another. The bias is added to every row. x may
// be weights with scales and zero points per group.
//
// A layer uses it before and after CLBlast, which multiplies in float32 and adds no bias. x and y
// may be the same buffer. With ARGS_BATCH_ROWS, rows past an item's query length (table: args.h)
// are not written. A work-item has one element.
#define CONVERTS_WEIGHTS
#include "base/common.clh"

#if RAGGED
#error "a layer has no ragged batches"
#endif

// Global size: (rows * columns, batch).
__kernel void convert(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y,
                      __global const ELEMENT(TYPE_BIAS) * bias, __global const int *table,
#if STORE_IS_SCALED(TYPE_Q)
                      __global const ELEMENT(TYPE_SCALE) * scales, __global const ELEMENT(TYPE_SCALE) * zeros,
#endif
                      const convert_args args) {
    const long column = (long)get_global_id(0) % args.columns, row = (long)get_global_id(0) / args.columns;
    const long b = (long)get_global_id(1);
    if (row >= args.rows || b >= args.batch) return;
    if ((args.flags & ARGS_BATCH_ROWS) && row >= table[ARGS_ITEM_WORDS * b + 1]) return;
    float value = LOAD(TYPE_Q, x + args.x_offset + b * args.x_batch + row * args.x_row, column);
#if STORE_IS_SCALED(TYPE_Q)
    const long group = row * args.scale_row + (SCALE_GROUP > 1 ? column / max(SCALE_GROUP, 1) : 0);
    if (ZERO_POINTS) value -= LOAD(TYPE_SCALE, zeros, args.zero_offset + group);
    value *= LOAD(TYPE_SCALE, scales, args.scale_offset + group);
#endif
    if (args.flags & ARGS_BIAS) value += LOAD(TYPE_BIAS, bias, args.bias_offset + column);
    STORE(TYPE_OUT, y, args.y_offset + b * args.y_batch + row * args.y_row + column, value);
}
