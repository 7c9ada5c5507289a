// hadamard.c: clattn_hadamard_enqueue: multiply rows by the Hadamard matrix, out of place or in
// place. For caches, rope.c, append.c and shift.c do the same within their launches.
#include <stddef.h>

#include "attention/call/call_kind.h"
#include "attention/call/views.h"
#include "attention/rope/rope.h"
#include "base/host.h"
#include "launch/entry.h"

#define GROUP 32 // work-items per block, except on a CPU

typedef struct hadamard_job {
    clattn_context *context;
    int block;
    clattn_hadamard_params params;
} hadamard_job;

static clattn_status get_program(const hadamard_job *job, knobs *k, program **p) {
    *k = (knobs){.type_q = (int)job->params.x.type, .type_out = (int)job->params.y.type};
    return cla_program_get_group(job->context, KERNEL_HADAMARD, k, GROUP, p);
}

static clattn_status check_block(hadamard_job *job) {
    // the largest power of two that divides D
    const int64_t size = job->params.x.shape[3], largest = size & -size;
    const int given = job->params.block;
    job->block = given ? given : (int)(largest < HADAMARD_MOST_BLOCK ? largest : HADAMARD_MOST_BLOCK);
    if (cla_hadamard_divides(job->block, size)) return CLATTN_OK;
    return cla_context_fail(
        job->context, CLATTN_INVALID_ARGUMENT,
        "block: %d of D = %lld: must be a power of two that divides D, 2 to %d, or 0 for the "
        "largest",
        given, (long long)size, HADAMARD_MOST_BLOCK);
}

static clattn_status check_memory(const hadamard_job *job) {
    call_views v;
    const clattn_hadamard_params *p = &job->params;
    cla_views_begin(&v, job->context);
    const bool in_place = cla_tensor_same_view(&p->x, &p->y);
    cla_views_add(&v, "y", &p->y, in_place ? VIEW_BOTH : VIEW_WRITE);
    if (!in_place) cla_views_add(&v, "x", &p->x, VIEW_READ);
    return cla_views_check(&v);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    hadamard_job *job = to;
    const bool planning = purpose != ENTRY_ENQUEUE;
    cla_bytes_zero(job, offsetof(hadamard_job, params));
    job->context = context;
    cla_bytes_copy(&job->params, params, sizeof job->params);
    const given_views all = {context, planning, .inner = false};
    CLA_GIVEN(&all, false, &job->params.x, &job->params.y);
    TRY(cla_rope_check_rows(context, &job->params.x, &job->params.y, planning));
    TRY(check_block(job));
    return planning ? CLATTN_OK : check_memory(job);
}

static clattn_status prepare(void *from) {
    knobs k;
    program *p = NULL;
    return get_program(from, &k, &p);
}

static clattn_status run(void *from, chain *steps) {
    const hadamard_job *job = from;
    const clattn_hadamard_params *p = &job->params;
    const int64_t *s = p->x.shape;
    if (cla_tensor_count(&p->x) == 0) return CLATTN_OK;
    hadamard_args args = {.x = cla_tensor_view(&p->x),
                          .y = cla_tensor_view(&p->y),
                          .blocks = (int)(s[3] / job->block),
                          .block = job->block,
                          .scale = cla_hadamard_scale(job->block)};
    knobs k;
    launch l = {.flops = cla_rope_apply_flops(&p->x),
                .cuts_first = true,
                .changes = cla_tensor_same_view(&p->x, &p->y)};
    TRY(get_program(job, &k, &l.program));
    cla_launch_buffer(&l, &p->x.buffer);
    cla_launch_buffer(&l, &p->y.buffer);
    cla_launch_value(&l, &args, sizeof args);
    l.local[0] = (size_t)k.work_group, l.local[1] = l.local[2] = 1;
    l.global[0] = (size_t)s[2] * (size_t)args.blocks * l.local[0];
    l.global[1] = (size_t)s[1], l.global[2] = (size_t)s[0];
    cla_chain_set_progress(steps, p->progress, l.flops);
    return cla_launch_enqueue(steps, &l);
}

static const entry hadamard_entry = {check, prepare, run, NULL};

clattn_status clattn_hadamard_prepare(clattn_context *context, const clattn_hadamard_params *params) {
    hadamard_job job;
    return cla_entry_prepare(&hadamard_entry, context, params, &job);
}

clattn_status clattn_hadamard_enqueue(clattn_context *context, cl_command_queue queue,
                                      const clattn_hadamard_params *params, cl_uint wait_count,
                                      const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    hadamard_job job;
    return cla_entry_enqueue(&hadamard_entry, context, params, &at, &job);
}
