// flash.c: the fused path: one kernel, no scratch memory.
#include "attention/call.h"

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to;
}

clattn_status flash_prepare(call *c) {
    program *p = NULL;
    return program_get(c->context, c->variant.id, &c->variant.knobs, &p);
}

clattn_status flash_enqueue(call *c, chain *steps) {
    const clattn_attention_params *p = c->params;
    const variant *v = &c->variant;
    launch l = {0};
    const clattn_status status = program_get(c->context, v->id, &v->knobs, &l.program);
    if (status != CLATTN_OK) return status;
    launch_buffer(&l, &c->q);
    launch_buffer(&l, &c->k);
    launch_buffer(&l, &c->v);
    launch_buffer(&l, &p->out.buffer);
    launch_buffer(&l, &p->lse.buffer);
    launch_buffer(&l, &p->mask.buffer);
    launch_buffer(&l, &p->bias.buffer);
    launch_buffer(&l, &c->table);
    launch_value(&l, &c->args, sizeof c->args);
    const size_t tiles = round_up((size_t)c->problem.n_q, (size_t)v->rows_per_group);
    l.local[0] = (size_t)v->work_group, l.local[1] = 1, l.local[2] = 1;
    l.global[0] = tiles * (size_t)v->work_group;
    l.global[1] = (size_t)c->problem.heads;
    l.global[2] = (size_t)c->problem.batch;
    return launch_enqueue(steps, &l);
}
