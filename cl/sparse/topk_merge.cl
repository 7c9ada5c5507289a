// topk_merge.cl: a row's results from the best candidates of its segments. A work-group has one
// row. Global size: WORK_GROUP * units.
#include "sparse/select.clh"

__kernel SELECT_ATTRIBUTES void topk_merge(__global const int *table, __global const int *lengths,
                                           __global uint *scratch, __global int *indices,
                                           __global int *counts, __global float *scores,
                                           const select_args args) {
    __local uint bins[SELECT_LOCAL_WORDS];
    const long unit = select_group();
    select_row r;
    const bool writes = select_open_row(&args, args.unit + unit, table, lengths, &r);
    const select_slots slots = {scratch + unit * args.segments * SELECT_SLOT_WORDS(args.capacity),
                                args.segments, args.capacity};
    const select_results to = {&args, indices, scores, 0};
    select_finish(&to, &r, &slots, writes, counts, bins);
}
