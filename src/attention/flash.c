// flash.c: the fused paths: flash and decode, portable or with rows in vector lanes. One kernel; where the
// keys are split it writes partial results into scratch memory, and combine.cl makes one of them.
#include "attention/call.h"
#include "plan/family.h"

static size_t divide_up(size_t n, size_t by) {
    return (n + by - 1) / by;
}

static knobs combine_knobs(const call *c) {
    return (knobs){.type_out = (int)c->problem.type_out,
                   .combine_columns = c->context->capabilities.is_cpu ? 16 : 0};
}

// The family's kernel, with the options that it needs.
static clattn_status main_program(const call *c, program **p) {
    const family *f = c->variant.family;
    const program_spec spec = {.id = f->id,
                               .knobs = c->variant.knobs,
                               .options = c->variant.options ? c->variant.options : f->options};
    return cla_call_program(c, &spec, c->variant.work_group, p);
}

clattn_status cla_flash_prepare(call *c) {
    program *p = NULL;
    const knobs k = combine_knobs(c);
    TRY(main_program(c, &p));
    if (c->variant.splits == 1) return CLATTN_OK;
    return cla_program_get(c->context, KERNEL_COMBINE, &k, &p);
}

// Dense float32 views of the partial results in the workspace, all splits apart.
static void partial_views(const call *c, attention_args *a) {
    const int64_t n = c->problem.n_q, dv = c->problem.head_dim_v, heads = c->problem.heads;
    const int64_t start = (int64_t)(c->variant_workspace / sizeof(float));
    a->out = (args_view){start, heads * n * dv, n * dv, dv, 1};
    a->lse = (args_view){start + (int64_t)(c->variant.partial_lse / sizeof(float)), heads * n, n, 1, 0};
    a->split_out = c->problem.batch * heads * n * dv;
    a->split_lse = c->problem.batch * heads * n;
    a->flags |= ARGS_LSE;
}

static clattn_status enqueue_combine(call *c, chain *steps) {
    const clattn_attention_params *p = &c->params;
    const knobs k = combine_knobs(c);
    attention_args partial = c->args;
    launch l = {0};
    TRY(cla_program_get(c->context, KERNEL_COMBINE, &k, &l.program));
    partial_views(c, &partial);
    const combine_args a = {.partial_out = partial.out,
                            .partial_lse = partial.lse,
                            .out = c->args.out,
                            .lse = c->args.lse,
                            .split_out = partial.split_out,
                            .split_lse = partial.split_lse,
                            .batch = c->args.batch,
                            .heads = c->args.heads,
                            .n_q = c->args.n_q,
                            .head_dim_v = c->args.head_dim_v,
                            .splits = c->variant.splits,
                            .flags = c->args.flags};
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &p->out.buffer);
    cla_launch_buffer(&l, &p->lse.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    l.global[0] = divide_up((size_t)c->problem.head_dim_v, k.combine_columns ? (size_t)k.combine_columns : 4);
    l.global[1] = (size_t)c->problem.n_q;
    l.global[2] = (size_t)c->problem.batch * (size_t)c->problem.heads;
    return cla_launch_enqueue(steps, &l);
}

static void set_grid(const variant *v, launch *l) {
    for (int i = 0; i < 3; i++) {
        l->local[i] = i == 0 ? (size_t)v->work_group : 1;
        l->global[i] = v->groups[i] * l->local[i];
    }
}

// The arguments of every fused kernel, in the order of fused.clh.
static void set_arguments(const call *c, const attention_args *a, launch *l) {
    const clattn_attention_params *p = &c->params;
    const bool split = c->variant.splits > 1;
    const knobs *k = &c->variant.knobs;
    cla_launch_buffer(l, &c->q);
    cla_kv_key_arguments(c, l);
    cla_kv_value_arguments(c, l);
    cla_launch_buffer(l, split ? &c->workspace : &p->out.buffer);
    cla_launch_buffer(l, split ? &c->workspace : &p->lse.buffer);
    cla_launch_buffer(l, &c->table);
    if (k->weights) cla_launch_buffer(l, &p->weights.buffer);
    if (k->score_ops & ARGS_MASK) cla_launch_buffer(l, &p->score.mask.buffer);
    if (k->score_ops & ARGS_BIAS) cla_launch_buffer(l, &p->score.bias.buffer);
    cla_launch_value(l, a, sizeof *a);
}

clattn_status cla_flash_enqueue(call *c, chain *steps) {
    const variant *v = &c->variant;
    const bool split = v->splits > 1;
    attention_args a = c->args;
    launch l = {0};
    TRY(main_program(c, &l.program));
    a.splits = v->splits;
    a.split_keys = v->split_keys;
    if (split) partial_views(c, &a);
    set_arguments(c, &a, &l);
    set_grid(v, &l);
    TRY(cla_launch_enqueue(steps, &l));
    return split ? enqueue_combine(c, steps) : CLATTN_OK;
}
