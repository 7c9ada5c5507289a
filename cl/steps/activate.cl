// activate.cl: an activation of x, times `up` where that is given: SwiGLU, GeGLU and their like (Shazeer 2020); plus a residual.
// TYPE_Q is the storage of x and up, TYPE_OUT that of the residual and of out, which may lie in one place.
#define LANES_ACTIVATED
#include "steps/rows.clh"

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
