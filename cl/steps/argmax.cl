// argmax.cl: the place of a row's greatest number, the first of several; a NaN is greater than all, as in NumPy and PyTorch.
// TYPE_Q is the storage of x.
#include "steps/rows.clh"

// Whether number x at place i comes before number y at place j.
bool comes_first(float x, int i, float y, int j) {
    if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || i < j);
    return x > y || (x == y && i < j);
}

__kernel ROW_GROUP void argmax(__global const ELEMENT(TYPE_Q) * x, __global int *out,
                               const argmax_args args) {
    __local float best[WORK_GROUP];
    __local int place[WORK_GROUP];
    const int lane = (int)get_local_id(0), n = (int)get_group_id(0), b = UNIFORM_ID(1);
    const long at = view_row(&args.x, b, n, 0);
    // Of each lane; a NaN once it is met, as no comparison with it holds.
    VEC most = (VEC)(-INFINITY);
    VEC_INT where = (VEC_INT)(INT_MAX);
    FOR_ROW(d, args.width) {
        const VEC y = LOAD_LANES_UP_TO(TYPE_Q, x, at + d, args.width - d);
        const VEC_INT i = lane_numbers() + d;
        const VEC_INT take = (i < args.width) & ~isnan(most) & (isnan(y) | (y > most) | (where == INT_MAX));
        most = take ? y : most, where = take ? i : where;
    }
    const float *numbers = (const float *)&most;
    const int *places = (const int *)&where;
    best[lane] = numbers[0], place[lane] = places[0];
    for (int c = 1; c < LANES; c++)
        if (comes_first(numbers[c], places[c], best[lane], place[lane]))
            best[lane] = numbers[c], place[lane] = places[c];
    for (int half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); // the upper half's must be there before they are compared
        if (lane < half_size &&
            comes_first(best[lane + half_size], place[lane + half_size], best[lane], place[lane]))
            best[lane] = best[lane + half_size], place[lane] = place[lane + half_size];
    }
    if (lane == 0) out[view_row(&args.out, b, n, 0)] = place[0];
}
