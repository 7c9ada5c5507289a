// topk.c: clattn_topk_enqueue: the best K entries of each row of given scores.
#include "attention/sparse/selection.h"
#include "launch/entry.h"

typedef struct topk_job {
    clattn_topk_params params;
    selection selection;
} topk_job;

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    topk_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    *job = (topk_job){.params = *(const clattn_topk_params *)params};
    clattn_topk_params *p = &job->params;
    const given_views all = {context, planning, .inner = false};
    const tensor_rule scores = {"scores", "[B, Hs, Nq, N]", TYPES_FLOAT, false, planning};
    job->selection =
        (selection){.context = context, .rows_name = "scores", .keys_name = "scores", .s = &p->selection};
    CLA_GIVEN(&all, false, &p->scores);
    cla_selection_given(&all, &p->selection);
    TRY(cla_tensor_check(context, &p->scores, 4, &scores));
    const int64_t *s = p->scores.shape;
    const int64_t block = cla_selection_block(&p->selection);
    job->selection.sizes =
        (selection_sizes){.batch = s[0], .heads = s[1], .rows = s[2], .entries = s[3], .keys = s[3] * block};
    TRY(cla_selection_check(&job->selection, planning));
    if (planning) return CLATTN_OK;
    call_views v;
    cla_views_begin(&v, context);
    cla_views_add(&v, "scores", &p->scores, VIEW_READ);
    cla_selection_add_views(&v, &p->selection);
    return cla_views_check(&v);
}

static selection_kernel kernel_of(const topk_job *job, topk_args *args) {
    const clattn_tensor *t = &job->params.scores;
    *args = (topk_args){.scores = cla_tensor_view(t)};
    return (selection_kernel){.id = KERNEL_TOPK,
                              .knobs = {.type_q = (int)t->type},
                              .tensors = {&t->buffer},
                              .count = 1,
                              .args = LAUNCH_VALUE(args, sizeof *args),
                              .flops = PACE_MOVE_FLOPS * (double)t->shape[3]};
}

static clattn_status prepare(void *from) {
    topk_args args;
    const selection_kernel kernel = kernel_of(from, &args);
    return cla_selection_prepare(&((topk_job *)from)->selection, &kernel);
}

static clattn_status run(void *from, chain *steps) {
    const topk_job *job = from;
    topk_args args;
    const selection_kernel kernel = kernel_of(job, &args);
    if (cla_selection_is_empty(&job->selection)) return CLATTN_OK;
    return cla_selection_enqueue(&job->selection, steps, &kernel, &args.select, job->params.progress);
}

static void release(void *from) {
    cla_selection_release(&((topk_job *)from)->selection);
}

static const entry topk_entry = {check, prepare, run, release};

clattn_status clattn_topk_plan(clattn_context *context, const clattn_topk_params *params,
                               clattn_selection_plan *plan) {
    topk_job job;
    TRY(cla_entry_plan(&topk_entry, context, params, plan, "plan", &job));
    cla_selection_describe(&job.selection, "topk", plan);
    return CLATTN_OK;
}

clattn_status clattn_topk_prepare(clattn_context *context, const clattn_topk_params *params) {
    topk_job job;
    return cla_entry_prepare(&topk_entry, context, params, &job);
}

clattn_status clattn_topk_enqueue(clattn_context *context, cl_command_queue queue,
                                  const clattn_topk_params *params, cl_uint wait_count,
                                  const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    topk_job job;
    return cla_entry_enqueue(&topk_entry, context, params, &at, &job);
}
