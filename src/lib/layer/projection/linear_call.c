// linear_call.c: the public call of one projection.
#include <stdio.h>

#include "launch/entry.h"
#include "launch/workspace.h"
#include "layer/projection/packed.h"
#include "layer/projection/projector.h"
#include "plan/families/family.h"

typedef struct linear_job {
    clattn_context *context;
    linear linear;
    clattn_projection wanted;
    cl_mem given; // the caller's workspace
    uint64_t workspace_bytes;
    const char *why; // why CLBlast or the native kernel was chosen
    bool empty;      // B or N is 0
} linear_job;

// One kernel computes both projections of a gate, so their scales must have one type and group
// size.
static clattn_status check_up_scales(clattn_context *c, const clattn_linear_params *p) {
    if (!CLATTN_TYPE_IS_SCALED(p->w.type)) return CLATTN_OK;
    if (p->w_up_scale.type != p->w_scale.type ||
        cla_linear_scale_group(&p->w_up, &p->w_up_scale) != cla_linear_scale_group(&p->w, &p->w_scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "w_up_scale: must have the type and the groups of w_scale");
    if (cla_tensor_given(&p->w_up_zero) == cla_tensor_given(&p->w_zero)) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "w_up_zero: is given with w_zero, and only then");
}

static clattn_status check_up(clattn_context *c, const clattn_linear_params *p, const int64_t sizes[2],
                              bool planning) {
    const linear_given up = {&p->w_up,
                             &p->b_up,
                             &p->w_up_scale,
                             &p->w_up_zero,
                             {sizes[0], sizes[1]},
                             LINEAR_NAMES("w_up", "b_up")};
    const struct {
        bool given;
        const char *name;
    } needless[] = {{cla_tensor_given(&p->b_up), "b_up"},
                    {p->packed_up.buffer != NULL, "packed_up"},
                    {cla_tensor_given(&p->w_up_scale), "w_up_scale"},
                    {cla_tensor_given(&p->w_up_zero), "w_up_zero"}};
    if (cla_tensor_given(&p->w_up)) {
        TRY(cla_linear_check_matrix(c, &up, planning));
        TRY(cla_tensor_check_alike(c, "w_up", &p->w_up, "w", &p->w));
        TRY(check_up_scales(c, p));
        return cla_tensor_check_alike(c, "b_up", &p->b_up, "b", &p->b);
    }
    for (size_t i = 0; i < sizeof needless / sizeof needless[0]; i++)
        if (needless[i].given)
            return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is there for w_up, which is absent",
                                    needless[i].name);
    return CLATTN_OK;
}

static clattn_status check_epilogue(clattn_context *c, const clattn_linear_params *p, const int64_t sizes[2],
                                    bool planning) {
    const tensor_rule residual = {"residual", "[B, N, M]", TYPES_FLOAT, false, planning};
    if ((unsigned)p->activation >= CLATTN_ACTIVATION_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "activation: %d is none of CLATTN_ACTIVATION_*",
                                (int)p->activation);
    TRY(check_up(c, p, sizes, planning));
    if (!cla_tensor_given(&p->residual)) return CLATTN_OK;
    TRY(cla_tensor_check(c, &p->residual, 3, &residual));
    TRY(cla_tensor_check_shape(c, &p->residual, p->out.shape, &residual));
    return cla_tensor_check_alike(c, "residual", &p->residual, "x", &p->x);
}

static clattn_status check_views(clattn_context *c, const clattn_linear_params *p, bool planning) {
    const tensor_rule x = {"x", "[B, N, K]", TYPES_FLOAT, false, planning};
    const tensor_rule out = {"out", "[B, N, M]", TYPES_FLOAT, true, planning};
    TRY(cla_tensor_check(c, &p->x, 3, &x));
    TRY(cla_tensor_check(c, &p->out, 3, &out));
    const int64_t out_shape[3] = {p->x.shape[0], p->x.shape[1], -1};
    TRY(cla_tensor_check_shape(c, &p->out, out_shape, &out));
    TRY(cla_tensor_check_alike(c, "out", &p->out, "x", &p->x));
    if (p->x.shape[2] == 0 || p->out.shape[2] == 0)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: its last size is 0: must be 1 or more",
                                p->x.shape[2] == 0 ? "x" : "out");
    const int64_t sizes[2] = {p->out.shape[2], p->x.shape[2]};
    const linear_given w = {
        &p->w, &p->b, &p->w_scale, &p->w_zero, {sizes[0], sizes[1]}, LINEAR_NAMES("w", "b")};
    TRY(cla_linear_check_matrix(c, &w, planning));
    return check_epilogue(c, p, sizes, planning);
}

static clattn_status check_memory(call_views *v, const clattn_linear_params *p, const linear *l) {
    const bool in_place = cla_tensor_same_view(&p->residual, &p->out);
    cla_views_add(v, "x", &p->x, VIEW_READ);
    cla_views_add(v, "w", &p->w, VIEW_READ);
    cla_views_add(v, "w_scale", &p->w_scale, VIEW_READ);
    cla_views_add(v, "w_zero", &p->w_zero, VIEW_READ);
    cla_views_add(v, "packed", &l->packed, VIEW_READ);
    cla_views_add(v, "b", &p->b, VIEW_READ);
    cla_views_add(v, "w_up", &p->w_up, VIEW_READ);
    cla_views_add(v, "w_up_scale", &p->w_up_scale, VIEW_READ);
    cla_views_add(v, "w_up_zero", &p->w_up_zero, VIEW_READ);
    cla_views_add(v, "b_up", &p->b_up, VIEW_READ);
    cla_views_add(v, "packed_up", &l->epilogue.packed_up, VIEW_READ);
    if (!in_place) cla_views_add(v, "residual", &p->residual, VIEW_READ);
    cla_views_add(v, "out", &p->out, in_place ? VIEW_BOTH : cla_linear_output_use(p->projection));
    return cla_views_check(v);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    clattn_linear_params p = *(const clattn_linear_params *)params;
    linear_job *job = to;
    linear *l = &job->linear;
    call_views v;
    cla_views_begin(&v, context);
    const given_views all = {context, .planning = purpose != ENTRY_ENQUEUE, .inner = false};
    CLA_GIVEN(&all, false, &p.x, &p.out, &p.w);
    CLA_GIVEN(&all, true, &p.b, &p.w_up, &p.b_up, &p.residual, &p.w_scale, &p.w_zero, &p.w_up_scale,
              &p.w_up_zero);
    *job = (linear_job){.context = context, .wanted = p.projection, .given = p.workspace};
    TRY(cla_linear_check_projection(context, p.projection));
    TRY(cla_linear_check_precision(context, p.precision));
    TRY(check_views(context, &p, purpose != ENTRY_ENQUEUE));
    *l = (linear){.x = cla_linear_one_head(&p.x),
                  .w = p.w,
                  .b = p.b,
                  .scale = p.w_scale,
                  .zero = p.w_zero,
                  .y = cla_linear_one_head(&p.out),
                  .split = p.precision == CLATTN_PRECISION_SPLIT,
                  .epilogue = {.activation = p.activation,
                               .w_up = p.w_up,
                               .b_up = p.b_up,
                               .up_scale = p.w_up_scale,
                               .up_zero = p.w_up_zero,
                               .residual = p.residual}};
    l->epilogue.given = p.activation || cla_tensor_given(&p.w_up) || cla_tensor_given(&p.residual);
    TRY(cla_packed_check(context, "packed", &p.packed, &p.w, &l->packed));
    TRY(cla_packed_check(context, "packed_up", &p.packed_up, &p.w_up, &l->epilogue.packed_up));
    TRY(check_memory(&v, &p, l));
    job->empty = p.x.shape[0] == 0 || p.x.shape[1] == 0;
    cla_linear_choose(context, l);
    TRY(cla_projector_decide(context, l, p.projection, job->empty, &job->why));
    job->workspace_bytes = job->empty ? 0 : cla_linear_scratch(l);
    TRY(cla_linear_check_reach(context, l, job->workspace_bytes));
    if (purpose == ENTRY_ENQUEUE) TRY(cla_views_check_workspace(&v, &job->given, job->workspace_bytes));
    return cla_workspace_fits(context, job->given, job->workspace_bytes);
}

static clattn_status prepare(void *from) {
    const linear_job *job = from;
    return job->empty ? CLATTN_OK : cla_linear_prepare(job->context, &job->linear);
}

// Steps that can fail come first: building kernels, getting the workspace.
static clattn_status run_once(linear_job *job, chain *steps) {
    cl_mem workspace = NULL;
    TRY(prepare(job));
    TRY(cla_workspace_take(steps, job->given, job->workspace_bytes, &workspace));
    return cla_linear_enqueue(steps, &job->linear, workspace, 0);
}

static clattn_status run(void *from, chain *steps) {
    linear_job *job = from;
    if (job->empty) return CLATTN_OK;
    const clattn_status status = run_once(job, steps);
    if (status == CLATTN_OK || !cla_projector_falls_back(job->context, job->wanted, job->linear.native))
        return status;
    job->linear.native = true;
    job->workspace_bytes = cla_linear_scratch(&job->linear);
    return run_once(job, steps);
}

static const entry linear_entry = {.check = check, .prepare = prepare, .run = run};

clattn_status clattn_linear_workspace(clattn_context *context, const clattn_linear_params *params,
                                      size_t *bytes) {
    linear_job job;
    TRY(cla_entry_plan(&linear_entry, context, params, bytes, "bytes", &job));
    *bytes = (size_t)job.workspace_bytes;
    return CLATTN_OK;
}

clattn_status clattn_linear_plan(clattn_context *context, const clattn_linear_params *params,
                                 clattn_linear_choice *choice) {
    linear_job job;
    TRY(cla_entry_plan(&linear_entry, context, params, choice, "choice", &job));
    const linear *l = &job.linear;
    *choice =
        (clattn_linear_choice){.projection = l->native ? CLATTN_PROJECTION_NATIVE : CLATTN_PROJECTION_CLBLAST,
                               .workspace_bytes = (size_t)job.workspace_bytes};
    snprintf(choice->kernel_name, sizeof choice->kernel_name, "%s",
             l->native ? clattn_kernel_sources[l->choice.id].name : "clblast");
    const char *integers = l->native ? cla_family_integers_word(&l->choice.knobs) : NULL;
    const char *kernel = "", *gone = cla_linear_gone(context, l, &kernel);
    snprintf(choice->why, sizeof choice->why, "%s: %s%s%s%s%s%s%s", l->native ? "native" : "clblast", job.why,
             integers ? "; " : "", integers ? integers : "", gone ? "; " : "", kernel, gone ? ": " : "",
             gone ? gone : "");
    return CLATTN_OK;
}

clattn_status clattn_linear_prepare(clattn_context *context, const clattn_linear_params *params) {
    linear_job job;
    return cla_entry_prepare(&linear_entry, context, params, &job);
}

clattn_status clattn_linear_enqueue(clattn_context *context, cl_command_queue queue,
                                    const clattn_linear_params *params, cl_uint wait_count,
                                    const cl_event *wait_list, cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    linear_job job;
    return cla_entry_enqueue(&linear_entry, context, params, &at, &job);
}
