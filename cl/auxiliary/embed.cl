// embed.cl: out[b, n] = table[ids[b, n]] * scale, an embedding of tokens; 0 for an id out of range.
// A work-group has one row (rows.clh). TYPE_KV is the type of the table, TYPE_OUT that of out.
#include "auxiliary/rows.clh"

#if STORE_IS_SCALED(TYPE_KV)
#error "the table is float32, float16, bfloat16 or blocks"
#endif

__kernel ROW_GROUP void embed(__global const int *ids, __global const ELEMENT(TYPE_KV) * table,
                              __global ELEMENT(TYPE_OUT) * out, const embed_args args) {
    const int n = (int)get_group_id(0), b = UNIFORM_ID(1), width = args.width;
    const int id = ids[view_row(&args.ids, b, n, 0)];
    const bool there = id >= 0 && id < args.rows;
    const long from = args.table_offset + (there ? id * args.table_row : 0),
               to = view_row(&args.out, b, n, 0);
    FOR_ROW(d, width) {
        VEC y = (VEC)(0.0f);
        if (there) y = LOAD_LANES_UP_TO(TYPE_KV, table + from, d, width - d) * args.scale;
        STORE_LANES_UP_TO(TYPE_OUT, out, to + d, y, width - d);
    }
}
