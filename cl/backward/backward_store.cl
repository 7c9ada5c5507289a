// backward_store.cl: result = sum over the parts of float32 gradients in scratch memory, converted
// to the result's type. If forward applied RoPE (knob ROPE), its transpose is applied here: the
// same rotation with the angle's sign changed. Rows past an item's length become 0; in a ragged
// batch they are not written.
//
// Global size: (rows * (pairs + single columns), heads, batch) with ROPE. Without it, a work-item
// has LANES columns: (rows * ceil(columns / LANES), heads, batch). Any local size works.
#ifndef LANES
#define LANES 4 // for devices whose work-items are the lanes of vectors
#endif
#include "args/backward_args.h"
#include "call/items.clh"
#include "call/rope.clh"

float summed(const backward_store_args *a, __global const float *x, long at) {
    float sum = x[at];
    for (int part = 1; part < a->parts; part++) sum += x[at + part * a->part];
    return sum;
}

#if !ROPE
// Loops over LANES become vectors. The assembler of lanes.clh is not used, because it works only in
// work-groups of one item.
void store_columns(const backward_store_args *a, __global const float *x, __global ELEMENT(TYPE_GRADIENT) * y,
                   int columns) {
    if (columns < LANES) {
        for (int d = 0; d < columns; d++) STORE(TYPE_GRADIENT, y, d, summed(a, x, d));
        return;
    }
    float sum[LANES];
    for (int d = 0; d < LANES; d++) sum[d] = x[d];
    for (int part = 1; part < a->parts; part++)
        for (int d = 0; d < LANES; d++) sum[d] += x[part * a->part + d];
    for (int d = 0; d < LANES; d++) STORE(TYPE_GRADIENT, y, d, sum[d]);
}
#endif

__kernel void backward_store(__global const float *x, __global ELEMENT(TYPE_GRADIENT) * y,
                             __global const ulong *frequencies, __global const int *table,
#if POSITIONS
                             __global const int *positions,
#endif
                             const backward_store_args args
#if POSITIONS
                             ,
                             const rope_source_args source
#endif
) {
    const int h = (int)get_global_id(1), b = (int)get_global_id(2);
#if ROPE
    const int pairs = args.rotary_dim / 2;
    const long width = args.head_dim - pairs;
#else
    const long width = (args.head_dim + LANES - 1) / LANES;
#endif
    const int pair = (int)((long)get_global_id(0) % width), n = (int)((long)get_global_id(0) / width);
    if ((long)get_global_id(0) >= width * args.n) return;
    const table_item all = {0, args.n, args.n}, item = table_item_of(args.flags, table, b, all);
    long row = n;
    (void)item; // used for shifts and packed rows only
#if RAGGED
    if (n >= (args.keys ? item.kv_length : item.q_length)) return;
    row += table[TABLE_ITEM_WORDS * (long)b + (args.keys ? RAGGED_START_KV : RAGGED_START_Q)];
#endif
    const long from = args.x.offset + b * args.x.batch + h * args.x.head + row * args.x.row,
               to = args.y.offset + b * args.y.batch + h * args.y.head + row * args.y.row;
#if !ROPE
    const int d = pair * LANES;
    store_columns(&args, x + from + d, y + to + d, min(LANES, args.head_dim - d));
#else
    if (pair >= pairs) {
        const int d = pair + pairs;
        STORE(TYPE_GRADIENT, y, to + d, summed(&args, x, from + d));
        return;
    }
#if POSITIONS
    const long position =
        positions[source.positions.offset + b * source.positions.batch +
                  rope_axis(&source, pair) * source.positions.head + row * source.positions.row];
#else
    const long position = args.position + n + (args.shifts ? item.shift : 0);
#endif
    const float angle_over_pi = rope_angle_over_pi(position, frequencies[pair]);
    const float c = cospi(angle_over_pi) * args.amplitude, s = sinpi(angle_over_pi) * args.amplitude;
    const int d0 = ROPE == 2 ? 2 * pair : pair, d1 = ROPE == 2 ? d0 + 1 : pair + pairs;
    const float x0 = summed(&args, x, from + d0), x1 = summed(&args, x, from + d1);
    STORE(TYPE_GRADIENT, y, to + d0, x0 * c + x1 * s);
    STORE(TYPE_GRADIENT, y, to + d1, x1 * c - x0 * s);
#endif
}
