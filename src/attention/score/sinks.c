// sinks.c: sink logits that lie on the device, such as a model's learned ones: a small kernel puts them into the call's table,
// where those of the host stand otherwise. Tables of the host are kept for other calls, so it is a copy that it writes.
#include "attention/call/call.h"

static bool given(const call *c) {
    return cla_tensor_given(&c->params.score.sinks_device);
}

clattn_status cla_sinks_check(const call *c, bool planning) {
    const clattn_score *s = &c->params.score;
    const tensor_rule rule = {"sinks_device", "[H]", TYPES_FLOAT | ANY_LAST_STRIDE, false, planning};
    if (!given(c)) return CLATTN_OK;
    if (s->sinks)
        return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                                "sinks_device: is given beside sinks, whose place it takes");
    TRY(cla_tensor_check(c->context, &s->sinks_device, 1, &rule));
    if (s->sinks_device.shape[0] == c->problem.heads) return CLATTN_OK;
    return cla_context_fail(c->context, CLATTN_INVALID_ARGUMENT,
                            "sinks_device: has %lld numbers: [H] has H = %d",
                            (long long)s->sinks_device.shape[0], c->problem.heads);
}

static clattn_status find_program(const call *c, program **p) {
    const knobs k = {.type_q = (int)c->params.score.sinks_device.type};
    return cla_program_get(c->context, KERNEL_SINKS, &k, p);
}

clattn_status cla_sinks_prepare(const call *c) {
    program *p = NULL;
    return given(c) ? find_program(c, &p) : CLATTN_OK;
}

clattn_status cla_sinks_borrow(const call *c, chain *steps, cl_mem *to) {
    if (!given(c) || !c->table || *to) return CLATTN_OK;
    return cla_chain_scratch(steps, cla_call_words(c).all * sizeof(int32_t), to);
}

clattn_status cla_sinks_enqueue(const call *c, chain *steps, cl_mem to, cl_mem *table) {
    const clattn_tensor *t = &c->params.score.sinks_device;
    const call_words words = cla_call_words(c);
    const sinks_args a = {.offset = t->offset,
                          .stride = t->stride[0],
                          .words = (int)words.all,
                          .before_heads = (int)words.before_heads,
                          .heads = c->problem.heads};
    const size_t items[3] = {words.all, 1, 1};
    launch l = {.flops = 0.0};
    if (!given(c) || !*table || *table == to) return CLATTN_OK;
    TRY(find_program(c, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, table);
    cla_launch_buffer(&l, &to);
    cla_launch_buffer(&l, &t->buffer);
    cla_launch_value(&l, &a, sizeof a);
    TRY(cla_launch_enqueue(steps, &l));
    *table = to;
    return CLATTN_OK;
}
