// topk.cl: the best K entries of each segment of a row of scores, for topk_merge.cl. A work-group
// has one segment. TYPE_Q is the type of the scores. Global size: WORK_GROUP * segments * units.
#include "sparse/select.clh"

__kernel SELECT_ATTRIBUTES void topk(__global const ELEMENT(TYPE_Q) * x, __global const int *table,
                                     __global const int *lengths, __global uint *scratch,
                                     const topk_args args) {
    __local uint bins[SELECT_LOCAL_WORDS];
    const select_args *a = &args.select;
    const long group = select_group();
    const int segment = (int)(group % a->segments);
    select_row r;
    const bool writes = select_open_row(a, a->unit + group / a->segments, table, lengths, &r);
    const int entries = writes ? r.entries : 0;
    const int begin = (int)min((long)segment * a->span, (long)entries),
              end = (int)min((long)begin + a->span, (long)entries);
    const long at = view_at(&args.scores, r.out_b, r.h, r.out_i, 0);
    select_pass pass = select_begin(a, scratch, group);
    int tile = begin;
    do { // all of it is uniform
        for (; tile < end && !select_is_full(&pass, a); tile += SELECT_TILE) {
            const int first = tile + (int)get_local_id(0) * LANES;
            VEC y = (VEC)(0.0f);
            if (first < end) y = LOAD_LANES_UP_TO(TYPE_Q, x, at + first, end - first);
            select_append(&pass, a, &r, first, end, y, bins);
        }
        select_reduce(&pass, a, &r, bins);
    } while (tile < end);
}
