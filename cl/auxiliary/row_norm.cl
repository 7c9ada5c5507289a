// row_norm.cl: RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016) of the rows of x, or
// of x + residual. This sum may be stored, too.
//
// A work-group has one row (rows.clh). The same work-item reads and writes an element, so sum and
// out may be the same memory as x or the residual. TYPE_Q is the type of x and sum, TYPE_BIAS that
// of the residual, TYPE_KV that of weight and bias, TYPE_OUT that of out.
#include "auxiliary/rows.clh"

#if !STORE_IS_FLOAT(TYPE_KV)
#error "weight and bias are float32, float16 or bfloat16"
#endif
#if !STORE_IS_FLOAT(TYPE_BIAS)
#error "the residual is float32, float16 or bfloat16"
#endif

typedef struct norm_row {
    const row_norm_args *args;
    __global const ELEMENT(TYPE_Q) * x;
    __global const ELEMENT(TYPE_BIAS) * residual;
    long x_at, residual_at;
    bool adds;
} norm_row;

// LANES elements from d on, minus the mean; 0 past the row's end.
VEC row_lanes(const norm_row *r, int d, float mean) {
    const int count = r->args->width - d;
    VEC x = LOAD_LANES_UP_TO(TYPE_Q, r->x, r->x_at + d, count);
    if (r->adds) x += LOAD_LANES_UP_TO(TYPE_BIAS, r->residual, r->residual_at + d, count);
    x -= mean;
    return count < LANES ? (lane_numbers() < count ? x : (VEC)(0.0f)) : x;
}

// The sum of x over the row, or of (x - mean)^2. All work-items get the result.
float row_sum(const norm_row *r, __local float *part, bool squares, float mean) {
    VEC sums = (VEC)(0.0f);
    FOR_ROW(d, r->args->width) {
        const VEC x = row_lanes(r, d, mean);
        sums += squares ? x * x : x;
    }
    return sum_of_group(sums, part);
}

__kernel ROW_GROUP void row_norm(__global const ELEMENT(TYPE_Q) * x,
                                 __global const ELEMENT(TYPE_BIAS) * residual, __global ELEMENT(TYPE_Q) * sum,
                                 __global ELEMENT(TYPE_OUT) * out, __global const ELEMENT(TYPE_KV) * weight,
                                 __global const ELEMENT(TYPE_KV) * bias, const row_norm_args args) {
    __local float part[WORK_GROUP];
    const int n = (int)get_group_id(0), b = UNIFORM_ID(1), width = args.width;
    norm_row r = {&args,
                  x,
                  residual,
                  view_row(&args.x, b, n, 0),
                  view_row(&args.residual, b, n, 0),
                  (args.flags & ROW_NORM_ADDS) != 0};
    if (args.flags & ROW_NORM_STORES) {
        const long sum_at = view_row(&args.sum, b, n, 0);
        FOR_ROW(d, width) STORE_LANES_UP_TO(TYPE_Q, sum, sum_at + d, row_lanes(&r, d, 0.0f), width - d);
        // normalise the sum as stored, rounded to its type
        r.x = sum, r.x_at = sum_at, r.adds = false;
    }
    float mean = 0.0f;
    if (args.flags & ROW_NORM_CENTERS) mean = row_sum(&r, part, false, 0.0f) / (float)width;
    const float by = 1.0f / sqrt(row_sum(&r, part, true, mean) / (float)width + args.epsilon);
    const long out_at = view_row(&args.out, b, n, 0);
    FOR_ROW(d, width) {
        VEC y = row_lanes(&r, d, mean) * by;
        if (args.flags & ROW_NORM_WEIGHS)
            y *= LOAD_LANES_UP_TO(TYPE_KV, weight, args.weight_offset + d, width - d) + args.more;
        if (args.flags & ROW_NORM_SHIFTS)
            y += LOAD_LANES_UP_TO(TYPE_KV, bias, args.bias_offset + d, width - d);
        STORE_LANES_UP_TO(TYPE_OUT, out, out_at + d, y, width - d);
    }
}
