// matrix_pack.c: the values in tiles, for kernels on a matrix engine: matrix_pack.cl writes them into the workspace once a
// key/value head, before the kernel that takes them.
#include "attention/call/call.h"

static knobs pack_knobs(const call *c) {
    return (knobs){.type_kv = (int)c->problem.type_kv,
                   .head_dim_v = c->problem.head_dim_v,
                   .past = c->problem.past,
                   .paged = c->problem.paged,
                   .ragged = c->problem.ragged};
}

clattn_status cla_pack_prepare(const call *c) {
    program *p = NULL;
    const knobs k = pack_knobs(c);
    return c->variant.packed_bytes ? cla_program_get(c->context, KERNEL_MATRIX_PACK, &k, &p) : CLATTN_OK;
}

// A row of the view is a block of keys.
static args_view packed_view(const call *c, int64_t blocks) {
    const int64_t block = (int64_t)MATRIX_PACK_ROWS(c->problem.head_dim_v) * MATRIX_PACK_KEYS;
    const uint64_t at = c->variant_workspace + c->variant.packed_values;
    return (args_view){.offset = (int64_t)(at / clattn_type_size(c->problem.type_kv)),
                       .batch = c->problem.kv_heads * blocks * block,
                       .head = blocks * block,
                       .row = block,
                       .column = 1};
}

clattn_status cla_pack_enqueue(const call *c, chain *steps, args_view *v) {
    const problem *m = &c->problem;
    const knobs k = pack_knobs(c);
    launch l = {.local = {1, 1, 1}};
    if (!c->variant.packed_bytes) return CLATTN_OK;
    const int64_t blocks = ((int64_t)m->n_kv + MATRIX_PACK_KEYS - 1) / MATRIX_PACK_KEYS;
    const pack_args a = {
        .v = c->args.v, .packed = packed_view(c, blocks), .n_kv = m->n_kv, .flags = c->args.flags};
    TRY(cla_program_get(c->context, KERNEL_MATRIX_PACK, &k, &l.program));
    cla_kv_value_arguments(c, &c->v, &l);
    cla_kv_place_arguments(c, &l);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    l.global[0] = (size_t)blocks;
    l.global[1] = (size_t)m->kv_heads;
    l.global[2] = (size_t)m->batch;
    *v = a.packed;
    return cla_launch_enqueue(steps, &l);
}
