// sample.cl: a place of each row of logits, drawn by the softmax of x / temperature over those that top_k, top_p and min_p leave.
// Adding to each logit a number of its own from Gumbel's distribution and taking the greatest draws from the softmax (Gumbel 1954;
// Maddison et al. 2014), so that nothing is sorted or summed for the draw itself. What top_k and top_p leave are the numbers from
// a least one on, whose bits are found from the highest to the lowest. TYPE_Q is the storage of x.
#ifndef DROPOUT
#define DROPOUT 1 // whose random words these are, too
#endif
#include "steps/greatest.clh"

#include "call/softmax.clh"

#define SAMPLE_HEAD 0xffffffffu // in the place of dropout's head, so that no word is drawn for both

typedef struct sample_row {
    const sample_args *args;
    __global const ELEMENT(TYPE_Q) * x;
    long at;
    float most;
} sample_row;

// Whole numbers in the order of floats, -0 and 0 the same.
VEC_UINT order_lanes(VEC x) {
    const VEC_UINT bits = AS_VEC_UINT(x + 0.0f);
    return AS_VEC_INT(bits) < 0 ? ~bits : bits | 0x80000000u;
}
uint order_of(float x) {
    const uint bits = as_uint(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The weight of the row's numbers from `least` on, where the greatest weighs 1, or how many there are. It has barriers.
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

// The greatest least number, at least `floor`, from which on the total is still what is wanted.
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
    if (!isnan(first.number)) { // as it is for the whole work-group
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
                if (order_of(y) < least || y < r.most - args.margin) continue; // of two infinities: kept
                if (!drawn) {
                    words = philox((uint4)((uint)j / 4, (uint)n, SAMPLE_HEAD, (uint)b), args.seed[0],
                                   args.seed[1]);
                    for (int k = 0; k < c; k++) words = words.yzwx;
                    drawn = true;
                }
                const float uniform = ((float)(words.x >> 9) + 0.5f) * 0x1p-23f; // in (0, 1), exactly
                const float distance = y == r.most ? 0.0f : (y - r.most) * args.by;
                const greatest other = {distance - log(-log(uniform)), j + c};
                if (comes_first(other, mine)) mine = other;
            }
        }
        first = first_of_group(mine, of);
    }
    if (lane == 0) out[view_row(&args.out, b, n, 0)] = first.place;
}
