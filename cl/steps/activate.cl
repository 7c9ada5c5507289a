// activate.cl: an activation of x, times `up` where that is given: SwiGLU, GeGLU and their like (Shazeer 2020).
// TYPE_Q is the storage of x and up, TYPE_OUT that of out.
#include "steps/rows.clh"

// e^x as a power of two, whose exponent x * log2(e) is taken in two parts, since one loses too much for large x. Above 88, near
// where float32 ends, infinity; below -87 e^-87, which nobody tells from 0 beside 1.
VEC exp_lanes(VEC x) {
    const VEC bounded = x > 88.0f ? (VEC)(88.0f) : x < -87.0f ? (VEC)(-87.0f) : x, y = bounded * M_LOG2E_F;
    const VEC rest =
        fma(bounded, (VEC)(M_LOG2E_F), -y) + bounded * 1.925963033500e-8f; // log2(e) less its float32
    const VEC power = exp2_lanes(y) * fma(rest, (VEC)(M_LN2_F), (VEC)(1.0f));
    return x > 88.0f ? (VEC)(INFINITY) : power;
}

VEC activated(VEC x, int how) {
    switch (how) {
    case ACTIVATE_SILU:
        return x / (1.0f + exp_lanes(-x));
    case ACTIVATE_GELU:
        return 0.5f * x * erfc(x * -M_SQRT1_2_F);
    case ACTIVATE_GELU_TANH: // 1 + tanh(y) = 2 / (1 + e^(-2y))
        return x / (1.0f + exp_lanes(x * (-1.5957691216f - 0.0713548163f * x * x)));
    case ACTIVATE_GELU_QUICK:
        return x / (1.0f + exp_lanes(-1.702f * x));
    case ACTIVATE_RELU:
        return x < 0.0f ? (VEC)(0.0f) : x; // a NaN stays one
    case ACTIVATE_RELU_SQUARED:
        return x < 0.0f ? (VEC)(0.0f) : x * x;
    case ACTIVATE_SIGMOID:
        return 1.0f / (1.0f + exp_lanes(-x));
    default:
        return x;
    }
}

__kernel ROW_GROUP void activate(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_Q) * up,
                                 __global ELEMENT(TYPE_OUT) * out, const activate_args args) {
    const int n = (int)get_group_id(0), b = UNIFORM_ID(1), width = args.width;
    const long x_at = view_row(&args.x, b, n, 0), up_at = view_row(&args.up, b, n, 0),
               out_at = view_row(&args.out, b, n, 0);
    FOR_ROW(d, width) {
        VEC y = activated(LOAD_LANES_UP_TO(TYPE_Q, x, x_at + d, width - d), args.how);
        if (args.gates) y *= LOAD_LANES_UP_TO(TYPE_Q, up, up_at + d, width - d);
        STORE_LANES_UP_TO(TYPE_OUT, out, out_at + d, y, width - d);
    }
}
