// merge.c: clattn_merge_enqueue: merge two partial results over disjoint keys.
#include "attention/call/tensor.h"
#include "attention/call/views.h"
#include "launch/entry.h"
#include "device/pointer.h"

typedef struct merge_job {
    clattn_context *context;
    clattn_merge_params params;
} merge_job;

static clattn_status check_views(clattn_context *c, const clattn_merge_params *p) {
    const tensor_rule out_a = {"out_a", "[B, H, Nq, Dv]", TYPES_FLOAT, true, false};
    const tensor_rule out_b = {"out_b", "[B, H, Nq, Dv]", TYPES_FLOAT, false, false};
    const tensor_rule lse_a = {"lse_a", "[B, H, Nq]", TYPES_F32 | ANY_LAST_STRIDE, true, false};
    const tensor_rule lse_b = {"lse_b", "[B, H, Nq]", TYPES_F32 | ANY_LAST_STRIDE, false, false};
    TRY(cla_tensor_check(c, &p->out_a, 4, &out_a));
    TRY(cla_tensor_check(c, &p->out_b, 4, &out_b));
    TRY(cla_tensor_check(c, &p->lse_a, 3, &lse_a));
    TRY(cla_tensor_check(c, &p->lse_b, 3, &lse_b));
    return cla_tensor_check_shape(c, &p->out_b, p->out_a.shape, &out_b);
}

static clattn_status check_memory(clattn_context *c, const clattn_merge_params *p) {
    call_views v;
    cla_views_begin(&v, c);
    cla_views_add(&v, "out_a", &p->out_a, VIEW_BOTH);
    cla_views_add(&v, "lse_a", &p->lse_a, VIEW_BOTH);
    cla_views_add(&v, "out_b", &p->out_b, VIEW_READ);
    cla_views_add(&v, "lse_b", &p->lse_b, VIEW_READ);
    return cla_views_check(&v);
}

static clattn_status check(clattn_context *c, const void *params, entry_purpose purpose, void *to) {
    merge_job *job = to;
    (void)purpose;
    *job = (merge_job){c, *(const clattn_merge_params *)params};
    clattn_merge_params *const p = &job->params;
    cla_pointers_take(c, (clattn_tensor *const[]){&p->out_a, &p->lse_a, &p->out_b, &p->lse_b}, 4, false);
    TRY(check_views(c, p));
    TRY(cla_tensor_check_alike(c, "out_b", &p->out_b, "out_a", &p->out_a));
    for (int i = 0; i < 3; i++)
        if (p->lse_a.shape[i] != p->out_a.shape[i] || p->lse_b.shape[i] != p->out_a.shape[i])
            return cla_context_fail(
                c, CLATTN_INVALID_ARGUMENT,
                "%s: size of axis %d does not fit: [B, H, Nq] must be that of out_a, here %lld",
                p->lse_a.shape[i] != p->out_a.shape[i] ? "lse_a" : "lse_b", i, (long long)p->out_a.shape[i]);
    return check_memory(c, p);
}

static clattn_status run(void *from, chain *steps) {
    const merge_job *job = from;
    const clattn_merge_params *p = &job->params;
    const merge_args a = {cla_tensor_view(&p->out_a), cla_tensor_view(&p->lse_a), cla_tensor_view(&p->out_b),
                          cla_tensor_view(&p->lse_b), (int)p->out_a.shape[0],     (int)p->out_a.shape[1],
                          (int)p->out_a.shape[2],     (int)p->out_a.shape[3]};
    const knobs k = {.type_out = (int)p->out_a.type};
    const size_t items[3] = {(size_t)a.n_q, (size_t)a.heads, (size_t)a.batch};
    launch l = {
        .flops = PACE_MOVE_FLOPS * (double)cla_tensor_count(&p->out_a), .cuts_first = true, .changes = true};
    if (cla_tensor_count(&p->lse_a) == 0) return CLATTN_OK;
    TRY(cla_program_get(job->context, KERNEL_MERGE, &k, &l.program));
    cla_launch_items(&l, job->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &p->out_a.buffer);
    cla_launch_buffer(&l, &p->lse_a.buffer);
    cla_launch_buffer(&l, &p->out_b.buffer);
    cla_launch_buffer(&l, &p->lse_b.buffer);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

static const entry merge_entry = {.check = check, .run = run};

clattn_status clattn_merge_enqueue(clattn_context *context, cl_command_queue queue,
                                   const clattn_merge_params *params, cl_uint wait_count,
                                   const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    merge_job job;
    return cla_entry_enqueue(&merge_entry, context, params, &at, &job);
}
