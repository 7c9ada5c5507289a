// merge.c: two partial results over disjoint keys become one.
#include "attention/tensor.h"
#include "core/chain.h"

static clattn_status check_merge(clattn_context *c, const clattn_merge_params *p) {
    const tensor_rule out_a = {"out_a", "[B, H, Nq, Dv]", TYPES_FLOAT, true, false};
    const tensor_rule out_b = {"out_b", "[B, H, Nq, Dv]", TYPES_FLOAT, false, false};
    const tensor_rule lse_a = {"lse_a", "[B, H, Nq]", TYPES_F32, true, false};
    const tensor_rule lse_b = {"lse_b", "[B, H, Nq]", TYPES_F32, false, false};
    clattn_status status = cla_tensor_check(c, &p->out_a, 4, &out_a);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->out_b, 4, &out_b);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->lse_a, 3, &lse_a);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->lse_b, 3, &lse_b);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, &p->out_a, p->out_a.shape, &out_a);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, &p->out_b, p->out_a.shape, &out_b);
    if (status != CLATTN_OK) return status;
    if (p->out_a.type != p->out_b.type)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "out_b: its type differs from out_a's: both must be stored alike");
    for (int i = 0; i < 3; i++)
        if (p->lse_a.shape[i] != p->out_a.shape[i] || p->lse_b.shape[i] != p->out_a.shape[i])
            return cla_context_fail(
                c, CLATTN_INVALID_ARGUMENT,
                "%s: size of axis %d does not fit: [B, H, Nq] must be that of out_a, here %lld",
                p->lse_a.shape[i] != p->out_a.shape[i] ? "lse_a" : "lse_b", i, (long long)p->out_a.shape[i]);
    return CLATTN_OK;
}

static clattn_status enqueue_merge(clattn_context *c, const clattn_merge_params *p, chain *steps) {
    const merge_args a = {cla_tensor_view(&p->out_a), cla_tensor_view(&p->lse_a), cla_tensor_view(&p->out_b),
                          cla_tensor_view(&p->lse_b), (int)p->out_a.shape[0],     (int)p->out_a.shape[1],
                          (int)p->out_a.shape[2],     (int)p->out_a.shape[3]};
    const knobs k = {.type_out = (int)p->out_a.type};
    launch l = {.global = {(size_t)a.n_q, (size_t)a.heads, (size_t)a.batch}};
    if (cla_tensor_count(&p->lse_a) == 0) return CLATTN_OK;
    const clattn_status status = cla_program_get(c, KERNEL_MERGE, &k, &l.program);
    if (status != CLATTN_OK) return status;
    cla_launch_buffer(&l, &p->out_a.buffer);
    cla_launch_buffer(&l, &p->lse_a.buffer);
    cla_launch_buffer(&l, &p->out_b.buffer);
    cla_launch_buffer(&l, &p->lse_b.buffer);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

clattn_status clattn_merge_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_merge_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    if (event) *event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!params) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    chain steps;
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = cla_chain_check(context, queue, wait_count, wait_list);
    if (status == CLATTN_OK) status = check_merge(context, params);
    if (status != CLATTN_OK) return status;
    cla_chain_begin(&steps, context, queue, wait_count, wait_list);
    status = enqueue_merge(context, params, &steps);
    return cla_chain_end(&steps, status, event);
}
