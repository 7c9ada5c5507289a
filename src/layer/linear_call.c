// linear_call.c: the public call of one projection, on the seam that a layer uses four times (linear.h); and
// the checks that both share.
#include "layer/linear.h"

#include <stdio.h>

#define MAX_SIDE                                                                                             \
    (INT32_MAX - 65536) // of W: kernels count its columns in 32 bits, and step past the end by a tile

typedef struct linear_job {
    linear linear;
    size_t workspace_bytes;
    bool empty; // B or N is 0
} linear_job;

clattn_status cla_linear_check_matrix(clattn_context *c, const clattn_tensor *w, const clattn_tensor *b,
                                      const int64_t shape[2], const char *const names[2], bool planning) {
    const tensor_rule weight = {names[0], "[out, in]", TYPES_FLOAT, false, planning};
    const tensor_rule bias = {names[1], "[out]", TYPES_FLOAT, false, planning};
    clattn_status status = cla_tensor_check(c, w, 2, &weight);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, w, shape, &weight);
    const int64_t longest = shape[0] > shape[1] ? shape[0] : shape[1];
    if (status == CLATTN_OK && longest > MAX_SIDE)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: a side of %lld: at most %d are possible",
                                names[0], (long long)longest, MAX_SIDE);
    if (status != CLATTN_OK || !cla_tensor_given(b)) return status;
    status = cla_tensor_check(c, b, 1, &bias);
    return status == CLATTN_OK ? cla_tensor_check_shape(c, b, shape, &bias) : status;
}

clattn_status cla_linear_check_projection(clattn_context *c, clattn_projection wanted) {
    if ((unsigned)wanted >= CLATTN_PROJECTION_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "projection: %d is none of CLATTN_PROJECTION_*",
                                (int)wanted);
    if (wanted == CLATTN_PROJECTION_CLBLAST && !cla_clblast_available())
        return cla_context_fail(c, CLATTN_UNSUPPORTED,
                                "projection: this build of clattn has no CLBlast: take native");
    return CLATTN_OK;
}

static clattn_status check_views(clattn_context *c, const clattn_linear_params *p, bool planning) {
    const tensor_rule x = {"x", "[B, N, K]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, N, M]", TYPES_FLOAT, true, planning};
    clattn_status status = cla_tensor_check(c, &p->x, 3, &x);
    if (status == CLATTN_OK) status = cla_tensor_check_shape(c, &p->x, p->x.shape, &x);
    if (status == CLATTN_OK) status = cla_tensor_check(c, &p->out, 3, &out);
    if (status != CLATTN_OK) return status;
    const int64_t out_shape[3] = {p->x.shape[0], p->x.shape[1], -1};
    status = cla_tensor_check_shape(c, &p->out, out_shape, &out);
    if (status != CLATTN_OK) return status;
    if (p->out.type != p->x.type)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "out: its type differs from x's: both must be stored alike");
    if (p->x.shape[2] == 0 || p->out.shape[2] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its last size is 0: must be 1 or more",
                                p->x.shape[2] == 0 ? "x" : "out");
    const int64_t sizes[2] = {p->out.shape[2], p->x.shape[2]};
    return cla_linear_check_matrix(c, &p->w, &p->b, sizes, (const char *const[]){"w", "b"}, planning);
}

static clattn_status choose(clattn_context *c, const clattn_linear_params *p, linear_job *job) {
    linear *l = &job->linear;
    *l = (linear){.x = cla_linear_one_head(&p->x), .w = p->w, .b = p->b, .y = cla_linear_one_head(&p->out)};
    job->empty = p->x.shape[0] == 0 || p->x.shape[1] == 0;
    const clattn_status status = cla_linear_decide(c, l, p->projection, job->empty);
    if (status != CLATTN_OK) return status;
    job->workspace_bytes = job->empty ? 0 : cla_linear_scratch(l);
    return cla_linear_check_reach(c, l, job->workspace_bytes);
}

static clattn_status check_call(clattn_context *context, const clattn_linear_params *p, bool planning,
                                linear_job *job) {
    if (!p) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = cla_linear_check_projection(context, p->projection);
    if (status == CLATTN_OK) status = check_views(context, p, planning);
    return status == CLATTN_OK ? choose(context, p, job) : status;
}

clattn_status clattn_linear_workspace(clattn_context *context, const clattn_linear_params *params,
                                      size_t *bytes) {
    linear_job job;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!bytes) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "bytes: is NULL");
    const clattn_status status = check_call(context, params, true, &job);
    if (status == CLATTN_OK) *bytes = job.workspace_bytes;
    return status;
}

static const char *reason(const clattn_context *c, const linear_job *job, clattn_projection wanted) {
    const int measure = job->linear.choice.id == KERNEL_LINEAR_FEW_LANES ? PLAN_FEW_ROWS : PLAN_MANY_ROWS;
    if (wanted != CLATTN_PROJECTION_AUTO) return "as asked";
    if (job->empty) return "there are no rows";
    if (!cla_linear_native_is_open(c, &job->linear))
        return job->linear.native ? "a tuned row of the context prefers it"
                                  : "no tuned row prefers the native kernel on this device";
    return c->planner.measured[measure] ? "measured as the faster one on this device"
                                        : "a shipped row prefers it, nothing was measured";
}

clattn_status clattn_linear_plan(clattn_context *context, const clattn_linear_params *params,
                                 clattn_linear_choice *choice) {
    linear_job job;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!choice) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "choice: is NULL");
    const clattn_status status = check_call(context, params, true, &job);
    if (status != CLATTN_OK) return status;
    const linear *l = &job.linear;
    *choice =
        (clattn_linear_choice){.projection = l->native ? CLATTN_PROJECTION_NATIVE : CLATTN_PROJECTION_CLBLAST,
                               .workspace_bytes = job.workspace_bytes};
    snprintf(choice->kernel_name, sizeof choice->kernel_name, "%s",
             l->native ? clattn_kernel_sources[l->choice.id].name : "clblast");
    snprintf(choice->why, sizeof choice->why, "%s: %s", l->native ? "native" : "clblast",
             reason(context, &job, params->projection));
    return CLATTN_OK;
}

clattn_status clattn_linear_prepare(clattn_context *context, const clattn_linear_params *params) {
    linear_job job;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    const clattn_status status = check_call(context, params, true, &job);
    return status == CLATTN_OK && !job.empty ? cla_linear_prepare(context, &job.linear) : status;
}

// What can refuse comes first: a kernel that does not build, a workspace that is too small.
static clattn_status enqueue_call(chain *steps, const linear_job *job, cl_mem given) {
    cl_mem workspace = NULL;
    clattn_status status = cla_linear_prepare(steps->context, &job->linear);
    if (status == CLATTN_OK)
        status = cla_workspace_take(steps->context, given, job->workspace_bytes, &workspace);
    if (status == CLATTN_OK) status = cla_linear_enqueue(steps, &job->linear, workspace, 0);
    if (workspace) clReleaseMemObject(workspace);
    return status;
}

clattn_status clattn_linear_enqueue(clattn_context *context, cl_command_queue queue,
                                    const clattn_linear_params *params, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event) {
    linear_job job;
    chain steps;
    if (event) *event = NULL;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    clattn_status status = cla_context_check(context);
    if (status == CLATTN_OK) status = cla_chain_check(context, queue, wait_count, wait_list);
    if (status == CLATTN_OK) status = check_call(context, params, false, &job);
    if (status != CLATTN_OK) return status;
    cla_chain_begin(&steps, context, queue, wait_count, wait_list);
    if (!job.empty) status = enqueue_call(&steps, &job, params->workspace);
    return cla_chain_end(&steps, status, event);
}
