// embed.cl: rows of a table by their numbers: the embedding of tokens, times a factor. A number that is no row's gives zeros.
// TYPE_KV is the storage of the table, TYPE_OUT that of out.
#include "lanes/lanes.clh"

#if !STORE_IS_FLOAT(TYPE_KV)
#error "the table is float32, float16 or bfloat16"
#endif

// Global size: (ceil(width / LANES), rows, batch). Work-items past the end do nothing.
__kernel void embed(__global const int *ids, __global const ELEMENT(TYPE_KV) * table,
                    __global ELEMENT(TYPE_OUT) * out, const embed_args args) {
    const int d = (int)get_global_id(0) * LANES, n = (int)get_global_id(1), b = (int)get_global_id(2);
    const int count = args.width - d;
    if (count <= 0 || n >= args.n || b >= args.batch) return;
    const int id = ids[view_row(&args.ids, b, n, 0)];
    VEC y = (VEC)(0.0f);
    if (id >= 0 && id < args.rows)
        y = LOAD_LANES_UP_TO(TYPE_KV, table, args.table_offset + id * args.table_row + d, count) * args.scale;
    STORE_LANES_UP_TO(TYPE_OUT, out, view_row(&args.out, b, n, 0) + d, y, count);
}
