// argmax.cl: out[b, n] = index of the largest element of row x[b, n]; optionally lengths[b, n] +=
// 1. A work-group has one row (rows.clh). TYPE_Q is the type of x.
#include "auxiliary/greatest.clh"

__kernel ROW_GROUP void argmax(__global const ELEMENT(TYPE_Q) * x, __global int *out, __global int *lengths,
                               const argmax_args args) {
    __local greatest of[WORK_GROUP];
    const int n = (int)get_group_id(0), b = UNIFORM_ID(1);
    const greatest first = greatest_of_row(x, view_row(&args.x, b, n, 0), args.width, of);
    if (get_local_id(0) != 0) return;
    out[view_row(&args.out, b, n, 0)] = first.place;
    if (args.counts) lengths[view_row(&args.lengths, b, n, 0)]++;
}
