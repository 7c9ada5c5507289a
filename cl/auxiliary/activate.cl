// activate.cl: out = f(x) * up + residual for an activation f: SwiGLU, GeGLU and similar (Shazeer
// 2020). `up` and the residual are optional.
//
// A work-group has one row (rows.clh has sizes and knobs). TYPE_Q is the type of x and up, TYPE_OUT
// that of the residual and of out. out may be the same memory as the residual.
#define LANES_ACTIVATED
#include "auxiliary/rows.clh"

__kernel ROW_GROUP void activate(__global const ELEMENT(TYPE_Q) * x, __global const ELEMENT(TYPE_Q) * up,
                                 __global const ELEMENT(TYPE_OUT) * residual,
                                 __global ELEMENT(TYPE_OUT) * out, const activate_args args) {
    const int n = (int)get_group_id(0), b = UNIFORM_ID(1), width = args.width;
    const long x_at = view_row(&args.x, b, n, 0), up_at = view_row(&args.up, b, n, 0),
               residual_at = view_row(&args.residual, b, n, 0), out_at = view_row(&args.out, b, n, 0);
    FOR_ROW(d, width) {
        VEC y = activated(LOAD_LANES_UP_TO(TYPE_Q, x, x_at + d, width - d), args.how);
        if (args.gates) y *= LOAD_LANES_UP_TO(TYPE_Q, up, up_at + d, width - d);
        if (args.adds) y += LOAD_LANES_UP_TO(TYPE_OUT, residual, residual_at + d, width - d);
        STORE_LANES_UP_TO(TYPE_OUT, out, out_at + d, y, width - d);
    }
}
