// sample.cl: out[b, n] = an index drawn from softmax(x[b, n] / temperature), limited to the
// candidates that top_k, top_p and min_p leave.
//
// The draw adds an independent Gumbel random number to each logit and returns the index of the
// largest sum (Gumbel 1954; Maddison et al. 2014). So it needs no sorting and no cumulative sums.
// Each of `top_k` and `top_p` leaves the logits from a threshold on. The threshold's bits are found
// from the highest to the lowest. A work-group has one row (rows.clh). TYPE_Q is the type of x.
#ifndef DROPOUT
#define DROPOUT 1 // for dropout's random words (softmax.clh)
#endif
#include "auxiliary/greatest.clh"

#include "call/softmax.clh"

#define SAMPLE_HEAD 0xffffffffu // in place of dropout's head, so that both draw different words

typedef struct sample_row {
    const sample_args *args;
    __global const ELEMENT(TYPE_Q) * x;
    long at;
    float most;
} sample_row;

// Unsigned integers in the order of the floats; -0 and 0 are equal.
VEC_UINT order_lanes(VEC x) {
    const VEC_UINT bits = AS_VEC_UINT(x + 0.0f);
    return AS_VEC_INT(bits) < 0 ? ~bits : bits | 0x80000000u;
}
uint order_of(float x) {
    const uint bits = as_uint(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The total weight exp((x - most) / temperature) of the elements from `least` on, or, without
// `weighs`, their number. It has barriers.
float row_total(const sample_row *r, uint least, bool weighs, __local float *part) {
    const int width = r->args->width;
    VEC sums = (VEC)(0.0f);
    FOR_ROW(d, width) {
        const VEC y = LOAD_LANES_UP_TO(TYPE_Q, r->x, r->at + d, width - d);
        const VEC_INT in = (lane_numbers() + d < width) & (order_lanes(y) >= least);
        const VEC weight = y == r->most ? (VEC)(1.0f) : exp2_lanes((y - r->most) * r->args->to_exp2);
        sums += in ? (weighs ? weight : (VEC)(1.0f)) : (VEC)(0.0f);
    }
    return sum_of_group(sums, part);
}

// The largest threshold for which the total is still at least `wanted`; never below `floor`.
uint find_least(const sample_row *r, uint floor, float wanted, bool weighs, __local float *part) {
    uint least = 0;
    for (uint bit = 0x80000000u; bit > 0; bit /= 2) {
        const uint at = least | bit;
        if (at <= floor || row_total(r, at, weighs, part) >= wanted) least = at;
    }
    return least;
}

__kernel ROW_GROUP void sample(__global const ELEMENT(TYPE_Q) * x, __global int *out,
                               const sample_args args) {
    __local greatest of[WORK_GROUP];
    __local float part[WORK_GROUP];
    const int lane = (int)get_local_id(0), n = (int)get_group_id(0), b = UNIFORM_ID(1);
    sample_row r = {&args, x, view_row(&args.x, b, n, 0), 0.0f};
    greatest first = greatest_of_row(x, r.at, args.width, of);
    if (!isnan(first.number)) { // uniform
        uint least = 0;
        r.most = first.number;
        if (args.top_k > 0) least = find_least(&r, 0, (float)args.top_k, false, part);
        if (args.top_p < 1.0f)
            least = find_least(&r, least, args.top_p * row_total(&r, least, true, part), true, part);
        greatest mine = {-INFINITY, INT_MAX};
        for (int j = 4 * lane; j < args.width; j += 4 * WORK_GROUP) {
            uint4 words = (uint4)(0);
            bool drawn = false;
            for (int c = 0; c < 4 && j + c < args.width; c++, words = words.yzwx) {
                const float y = LOAD(TYPE_Q, x, r.at + j + c);
                // the difference of two infinities is NaN: kept
                if (order_of(y) < least || y < r.most - args.margin) continue;
                if (!drawn) {
                    words = philox((uint4)((uint)j / 4, (uint)n, SAMPLE_HEAD, (uint)b), args.seed[0],
                                   args.seed[1]);
                    for (int k = 0; k < c; k++) words = words.yzwx;
                    drawn = true;
                }
                // In (0, 1), exactly.
                const float uniform = ((float)(words.x >> 9) + 0.5f) * 0x1p-23f;
                const float distance = y == r.most ? 0.0f : (y - r.most) * args.by;
                const greatest other = {distance - log(-log(uniform)), j + c};
                if (comes_first(other, mine)) mine = other;
            }
        }
        first = first_of_group(mine, of);
    }
    if (lane == 0) out[view_row(&args.out, b, n, 0)] = first.place;
}
