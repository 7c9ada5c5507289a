// merge.cl: merge two attention results over disjoint keys into the first one, in place (Dao et al.
// 2022, section 3.1). A work-item has a whole row: every column needs both old log-sum-exps, and
// the row's own is overwritten at the end.
#include "base/common.clh"

// Global size: (rows, heads, batch).
__kernel void merge(__global ELEMENT(TYPE_OUT) * out_a, __global float *lse_a,
                    __global const ELEMENT(TYPE_OUT) * out_b, __global const float *lse_b,
                    const merge_args args) {
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    if (i >= args.n_q || h >= args.heads || b >= args.batch) return;
    const long at_a = view_row(&args.out_a, b, h, i), at_b = view_row(&args.out_b, b, h, i);
    const long at_lse = view_row(&args.lse_a, b, h, i);
    const float la = lse_a[at_lse], lb = lse_b[view_row(&args.lse_b, b, h, i)];
    if (lb == -INFINITY) return; // part b saw no key, so its `out` is not read

    const bool a_empty = la == -INFINITY;
    const float m = fmax(la, lb);
    const float wa = exp(la - m),
                // NaN if a log-sum-exp is NaN or +infinity, as it should be.
        wb = exp(lb - m);
    const float sum = wa + wb;
    for (int d = 0; d < args.head_dim_v; d++) {
        const float y = LOAD(TYPE_OUT, out_b, at_b + d);
        const float x = a_empty ? 0.0f : LOAD(TYPE_OUT, out_a, at_a + d);
        STORE(TYPE_OUT, out_a, at_a + d, a_empty ? y : (x * wa + y * wb) / sum);
    }
    lse_a[at_lse] = a_empty ? lb : m + log(sum);
}
