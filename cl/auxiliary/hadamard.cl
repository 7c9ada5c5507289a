// hadamard.cl: y = x H / sqrt(block) with the Hadamard matrix H, for each block of `block` columns
// of a row; block is a power of two. A work-group of WORK_GROUP items has one block in local
// memory. It reads the whole block before it writes, so x and y may be the same tensor.
#include "auxiliary/hadamard.clh"

// Global size: (rows * blocks * WORK_GROUP, heads, items).
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void
hadamard(__global const ELEMENT(TYPE_Q) * x, __global ELEMENT(TYPE_OUT) * y, const hadamard_args args) {
    __local float line[HADAMARD_MOST_BLOCK];
    const long group = (long)get_group_id(0) + (long)(get_global_offset(0) / WORK_GROUP);
    const int n = (int)(group / args.blocks), first = (int)(group % args.blocks) * args.block;
    const int b = UNIFORM_ID(2), h = UNIFORM_ID(1), lane = (int)get_local_id(0);
    const long from = view_row(&args.x, b, h, n) + first, to = view_row(&args.y, b, h, n) + first;
    for (int c = lane; c < args.block; c += WORK_GROUP) line[c] = LOAD(TYPE_Q, x, from + c) * args.scale;
    rotate_line(line, args.block, args.block);
    for (int c = lane; c < args.block; c += WORK_GROUP) STORE(TYPE_OUT, y, to + c, line[c]);
}
