// linear_attention.c: clattn_linear_attention_enqueue: checks, the plan, and one launch for all
// tokens.
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "args/linear_attention.h"
#include "attention/call/tensor.h"
#include "attention/call/views.h"
#include "base/host.h"
#include "launch/entry.h"
#include "plan/linear_attention_plan.h"
#include "plan/planner.h"

_Static_assert(LAUNCH_BYTES(linear_attention_args) + 11 * sizeof(cl_mem) + 24 <= LAUNCH_MAX_BYTES,
               "the kernels' arguments fit any device");

typedef struct linear_attention_job {
    clattn_context *context;
    bool planning;
    int64_t sequences;
    int64_t state_heads, out_heads; // Hs, H
    linear_attention_plan plan;
    clattn_linear_attention_params params;
} linear_attention_job;

static bool is_gated(const clattn_linear_attention_params *p) {
    return p->rule == CLATTN_LINEAR_RULE_GATED || p->rule == CLATTN_LINEAR_RULE_GATED_DELTA;
}

static bool is_delta(const clattn_linear_attention_params *p) {
    return p->rule == CLATTN_LINEAR_RULE_DELTA || p->rule == CLATTN_LINEAR_RULE_GATED_DELTA;
}

static const char *rule_word(const clattn_linear_attention_params *p) {
    static const char *const words[CLATTN_LINEAR_RULE_COUNT] = {"GATED_DELTA", "LINEAR", "GATED", "DELTA"};
    return words[p->rule];
}

static clattn_status check_numbers(clattn_context *c, const clattn_linear_attention_params *p) {
    if ((unsigned)p->rule >= CLATTN_LINEAR_RULE_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "rule: %d is none of CLATTN_LINEAR_RULE_*",
                                (int)p->rule);
    if (!isfinite(p->scale))
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "scale: %g: must be finite, or 0 for 1 / sqrt(Dk)", (double)p->scale);
    if (!isfinite(p->l2_epsilon) || p->l2_epsilon < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "l2_epsilon: %g: must be 0 or more",
                                (double)p->l2_epsilon);
    if (p->l2_epsilon > 0.0f && !p->l2_norm)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "l2_epsilon: has no effect without l2_norm");
    return CLATTN_OK;
}

// A tensor that only some rules have.
static clattn_status check_rule(clattn_context *c, const clattn_linear_attention_params *p, const char *name,
                                const clattn_tensor *t, bool needed) {
    if (cla_tensor_given(t) == needed) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            needed ? "%s: rule %s needs it" : "%s: rule %s has none", name, rule_word(p));
}

// The heads of q, k and v must divide those of the result and of the state.
static clattn_status find_heads(linear_attention_job *job) {
    const clattn_linear_attention_params *p = &job->params;
    const int64_t q = p->q.shape[1], k = p->k.shape[1], v = p->v.shape[1];
    job->state_heads = k > v ? k : v;
    job->out_heads = q > job->state_heads ? q : job->state_heads;
    if (q > 0 && k > 0 && v > 0 && job->state_heads % k == 0 && job->state_heads % v == 0 &&
        job->out_heads % q == 0 && job->out_heads % job->state_heads == 0)
        return CLATTN_OK;
    return cla_context_fail(
        job->context, CLATTN_INVALID_ARGUMENT,
        "heads: %lld of q, %lld of k and %lld of v: each count must be 1 or more, and the "
        "largest a multiple of the others",
        (long long)q, (long long)k, (long long)v);
}

static clattn_status check_dims(const linear_attention_job *job) {
    clattn_context *c = job->context;
    const int64_t dk = job->params.q.shape[3], dv = job->params.v.shape[3];
    if (dk < 1 || dv < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: head size 0: must be 1 or more",
                                dk < 1 ? "q" : "v");
    if (dk > LINEAR_STATE_MOST_DK)
        return cla_context_fail(c, CLATTN_UNSUPPORTED, "q: head size %lld: linear attention has at most %d",
                                (long long)dk, LINEAR_STATE_MOST_DK);
    return CLATTN_OK;
}

static clattn_status check_rows(linear_attention_job *job) {
    clattn_context *c = job->context;
    const clattn_linear_attention_params *p = &job->params;
    const tensor_rule q = {"q", "[B, Hq, T, Dk]", TYPES_FLOAT, false, job->planning},
                      k = {"k", "[B, Hk, T, Dk]", TYPES_FLOAT, false, job->planning},
                      v = {"v", "[B, Hv, T, Dv]", TYPES_FLOAT, false, job->planning},
                      out = {"out", "[B, H, T, Dv]", TYPES_FLOAT, true, job->planning};
    TRY(cla_tensor_check(c, &p->q, 4, &q));
    TRY(cla_tensor_check(c, &p->k, 4, &k));
    TRY(cla_tensor_check(c, &p->v, 4, &v));
    TRY(cla_tensor_check(c, &p->out, 4, &out));
    const int64_t *s = p->q.shape;
    TRY(cla_tensor_check_shape(c, &p->k, (const int64_t[4]){s[0], -1, s[2], s[3]}, &k));
    TRY(cla_tensor_check_shape(c, &p->v, (const int64_t[4]){s[0], -1, s[2], -1}, &v));
    TRY(cla_tensor_check_alike(c, "k", &p->k, "q", &p->q));
    TRY(cla_tensor_check_alike(c, "v", &p->v, "q", &p->q));
    TRY(find_heads(job));
    TRY(check_dims(job));
    return cla_tensor_check_shape(c, &p->out, (const int64_t[4]){s[0], job->out_heads, s[2], p->v.shape[3]},
                                  &out);
}

// `size` or 1 along an axis that may repeat.
static int64_t repeated(int64_t given, int64_t size) {
    return given == 1 ? 1 : size;
}

static clattn_status check_gates(const linear_attention_job *job) {
    clattn_context *c = job->context;
    const clattn_linear_attention_params *p = &job->params;
    const int64_t *s = p->q.shape, heads = job->state_heads;
    const tensor_rule decay = {"decay", "[B, Hs or 1, T, Dk or 1]", TYPES_FLOAT, false, job->planning},
                      beta = {"beta", "[B, Hs or 1, T]", TYPES_FLOAT | ANY_LAST_STRIDE, false, job->planning};
    TRY(check_rule(c, p, "decay", &p->decay, is_gated(p)));
    TRY(check_rule(c, p, "beta", &p->beta, is_delta(p)));
    if (is_gated(p)) {
        TRY(cla_tensor_check(c, &p->decay, 4, &decay));
        const int64_t *d = p->decay.shape,
                      shape[4] = {s[0], repeated(d[1], heads), s[2], repeated(d[3], s[3])};
        TRY(cla_tensor_check_shape(c, &p->decay, shape, &decay));
    }
    if (is_delta(p)) {
        TRY(cla_tensor_check(c, &p->beta, 3, &beta));
        const int64_t shape[3] = {s[0], repeated(p->beta.shape[1], heads), s[2]};
        TRY(cla_tensor_check_shape(c, &p->beta, shape, &beta));
    }
    return cla_tensor_check_alike(c, "beta", &p->beta, "decay", &p->decay);
}

static clattn_status check_sequences(linear_attention_job *job) {
    clattn_context *c = job->context;
    const clattn_tensor *q = &job->params.q, *starts = &job->params.cu_seqlens_device;
    const tensor_rule rule = {"cu_seqlens_device", "[N + 1]", TYPES_I32 | ANY_LAST_STRIDE, false,
                              job->planning};
    job->sequences = q->shape[0];
    if (!cla_tensor_given(starts)) return CLATTN_OK;
    TRY(cla_tensor_check(c, starts, 1, &rule));
    if (starts->shape[0] < 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "cu_seqlens_device: size 0: N + 1 numbers are needed");
    if (q->shape[0] != 1)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "q: B is %lld: must be 1 with cu_seqlens_device",
                                (long long)q->shape[0]);
    job->sequences = starts->shape[0] - 1;
    return CLATTN_OK;
}

static clattn_status check_indices(const linear_attention_job *job, const char *name, const clattn_tensor *t,
                                   int rank) {
    const tensor_rule rule = {name, rank == 1 ? "[N]" : "[N, C]", TYPES_I32 | ANY_LAST_STRIDE, false,
                              job->planning};
    TRY(cla_tensor_check(job->context, t, rank, &rule));
    return cla_tensor_check_shape(job->context, t, (const int64_t[2]){job->sequences, -1}, &rule);
}

static clattn_status check_state(const linear_attention_job *job, const char *name, const clattn_tensor *t,
                                 bool output, bool by_index) {
    const clattn_linear_attention_params *p = &job->params;
    const tensor_rule rule = {name, by_index ? "[S, Hs, Dk, Dv]" : "[N, Hs, Dk, Dv]", TYPES_FLOAT, output,
                              job->planning};
    TRY(cla_tensor_check(job->context, t, 4, &rule));
    const int64_t shape[4] = {by_index ? -1 : job->sequences, job->state_heads, p->q.shape[3], p->v.shape[3]};
    return cla_tensor_check_shape(job->context, t, shape, &rule);
}

static clattn_status check_states(const linear_attention_job *job) {
    clattn_context *c = job->context;
    const clattn_linear_attention_params *p = &job->params;
    const bool from = cla_tensor_given(&p->state_indices), to = cla_tensor_given(&p->new_state_indices),
               old = cla_tensor_given(&p->state), new = cla_tensor_given(&p->new_state);
    if (from && !old)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "state_indices: has no effect without state");
    if (to && !new)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "new_state_indices: has no effect without new_state");
    if (from) TRY(check_indices(job, "state_indices", &p->state_indices, 1));
    if (to)
        TRY(check_indices(job, "new_state_indices", &p->new_state_indices,
                          p->new_state_indices.rank == 2 ? 2 : 1));
    if (old) TRY(check_state(job, "state", &p->state, false, from));
    if (new) TRY(check_state(job, "new_state", &p->new_state, true, from || to));
    return cla_tensor_check_alike(c, "new_state", &p->new_state, "state", &p->state);
}

static clattn_status check_memory(const linear_attention_job *job) {
    call_views v;
    const clattn_linear_attention_params *p = &job->params;
    const bool in_place = cla_tensor_same_view(&p->state, &p->new_state);
    cla_views_begin(&v, job->context);
    cla_views_add(&v, "out", &p->out, VIEW_WRITE);
    cla_views_add(&v, "new_state", &p->new_state, in_place ? VIEW_BOTH : VIEW_WRITE);
    if (!in_place) cla_views_add(&v, "state", &p->state, VIEW_READ);
    cla_views_add(&v, "q", &p->q, VIEW_READ);
    cla_views_add(&v, "k", &p->k, VIEW_READ);
    cla_views_add(&v, "v", &p->v, VIEW_READ);
    cla_views_add(&v, "decay", &p->decay, VIEW_READ);
    cla_views_add(&v, "beta", &p->beta, VIEW_READ);
    cla_views_add(&v, "state_indices", &p->state_indices, VIEW_READ);
    cla_views_add(&v, "new_state_indices", &p->new_state_indices, VIEW_READ);
    cla_views_add(&v, "cu_seqlens_device", &p->cu_seqlens_device, VIEW_READ);
    return cla_views_check(&v);
}

static void make_plan(linear_attention_job *job) {
    const clattn_capabilities *device = &job->context->capabilities;
    const clattn_linear_attention_params *p = &job->params;
    const linear_attention_problem sizes = {.is_cpu = device->is_cpu,
                                            .lanes = cla_planner_lanes(job->context),
                                            .compute_units = device->compute_units,
                                            .sequences = job->sequences,
                                            .heads = job->state_heads,
                                            .head_dim = p->q.shape[3],
                                            .head_dim_v = p->v.shape[3]};
    cla_plan_linear_attention(&sizes, &job->plan);
    knobs *k = &job->plan.knobs;
    k->type_q = (int)p->q.type, k->type_out = (int)p->out.type;
    k->type_bias = (int)(is_gated(p) ? p->decay.type : is_delta(p) ? p->beta.type : CLATTN_TYPE_F32);
    k->type_state = (int)(cla_tensor_given(&p->state)       ? p->state.type
                          : cla_tensor_given(&p->new_state) ? p->new_state.type
                                                            : CLATTN_TYPE_F32);
}

static clattn_status check(clattn_context *context, const void *params, entry_purpose purpose, void *to) {
    linear_attention_job *job = to;
    cla_bytes_zero(job, offsetof(linear_attention_job, params));
    job->context = context;
    job->planning = purpose != ENTRY_ENQUEUE;
    cla_bytes_copy(&job->params, params, sizeof job->params);
    clattn_linear_attention_params *p = &job->params;
    const given_views all = {context, job->planning, .inner = false};
    CLA_GIVEN(&all, false, &p->q, &p->k, &p->v, &p->out);
    CLA_GIVEN(&all, true, &p->decay, &p->beta, &p->state, &p->new_state, &p->state_indices,
              &p->new_state_indices, &p->cu_seqlens_device);
    TRY(check_numbers(context, p));
    TRY(check_rows(job));
    TRY(check_gates(job));
    TRY(check_sequences(job));
    TRY(check_states(job));
    if (!job->planning) TRY(check_memory(job));
    make_plan(job);
    return CLATTN_OK;
}

static clattn_status get_program(linear_attention_job *job, program **p) {
    linear_attention_plan *plan = &job->plan;
    return plan->group ? cla_program_get_group(job->context, plan->id, &plan->knobs, plan->group, p)
                       : cla_program_get(job->context, plan->id, &plan->knobs, p);
}

static clattn_status prepare(void *from) {
    program *p = NULL;
    return get_program(from, &p);
}

// A view whose axes of size 1 repeat along heads and columns.
static args_view repeating_view(const clattn_tensor *t) {
    args_view v = cla_tensor_view(t);
    if (t->rank && t->shape[1] == 1) v.head = 0;
    if (t->rank == 4 && t->shape[3] == 1) v.column = 0;
    return v;
}

static int flags_of(const linear_attention_job *job) {
    const clattn_linear_attention_params *p = &job->params;
    const int64_t dk = p->q.shape[3];
    const clattn_tensor *to = &p->new_state_indices;
    return (is_delta(p) ? LINEAR_STATE_DELTA : 0) | (is_gated(p) ? LINEAR_STATE_GATED : 0) |
           (is_gated(p) && dk > 1 && p->decay.shape[3] == dk ? LINEAR_STATE_COLUMNS : 0) |
           (p->l2_norm ? LINEAR_STATE_NORM : 0) |
           (cla_tensor_given(&p->cu_seqlens_device) ? LINEAR_STATE_RAGGED : 0) |
           (cla_tensor_given(&p->state) ? LINEAR_STATE_READ : 0) |
           (cla_tensor_given(&p->new_state) ? LINEAR_STATE_WRITE : 0) |
           (cla_tensor_given(&p->state_indices) ? LINEAR_STATE_FROM : 0) |
           (cla_tensor_given(to) ? LINEAR_STATE_TO : 0) | (to->rank == 2 ? LINEAR_STATE_DRAFTS : 0);
}

static linear_attention_args args_of(const linear_attention_job *job) {
    const clattn_linear_attention_params *p = &job->params;
    const clattn_tensor *to = &p->new_state_indices;
    const int64_t dk = p->q.shape[3], hs = job->state_heads, h = job->out_heads;
    return (linear_attention_args){.q = cla_tensor_view(&p->q),
                                   .k = cla_tensor_view(&p->k),
                                   .v = cla_tensor_view(&p->v),
                                   .decay = repeating_view(&p->decay),
                                   .beta = repeating_view(&p->beta),
                                   .out = cla_tensor_view(&p->out),
                                   .state = cla_tensor_view(&p->state),
                                   .new_state = cla_tensor_view(&p->new_state),
                                   .starts_offset = p->cu_seqlens_device.offset,
                                   .starts_stride = p->cu_seqlens_device.stride[0],
                                   .from_offset = p->state_indices.offset,
                                   .from_stride = p->state_indices.stride[0],
                                   .to_offset = to->offset,
                                   .to_row = to->stride[0],
                                   .to_column = to->rank == 2 ? to->stride[1] : 0,
                                   .tokens = (int)p->q.shape[2],
                                   .head_dim_v = (int)p->v.shape[3],
                                   .q_group = (int)(h / p->q.shape[1]),
                                   .k_group = (int)(hs / p->k.shape[1]),
                                   .v_group = (int)(hs / p->v.shape[1]),
                                   .out_group = (int)(h / hs),
                                   .slots = (int)(cla_tensor_given(&p->state) ? p->state.shape[0] : 0),
                                   .new_slots =
                                       (int)(cla_tensor_given(&p->new_state) ? p->new_state.shape[0] : 0),
                                   .to_columns = (int)(to->rank == 2 ? to->shape[1] : 0),
                                   .flags = flags_of(job),
                                   .scale = p->scale != 0.0f ? p->scale : (float)(1.0 / sqrt((double)dk)),
                                   .epsilon = p->l2_epsilon > 0.0f ? p->l2_epsilon : 1e-6f};
}

static double flops_of(const linear_attention_job *job) {
    const clattn_linear_attention_params *p = &job->params;
    const double tokens = (double)p->q.shape[0] * (double)p->q.shape[2] + (double)job->sequences;
    return 2.0 * tokens * (double)p->q.shape[3] * (double)p->v.shape[3] *
           (double)(3 * job->state_heads + job->out_heads);
}

static clattn_status run(void *from, chain *steps) {
    linear_attention_job *job = from;
    const clattn_linear_attention_params *p = &job->params;
    const clattn_tensor *const tensors[] = {&p->q,
                                            &p->k,
                                            &p->v,
                                            &p->decay,
                                            &p->beta,
                                            &p->out,
                                            &p->state,
                                            &p->new_state,
                                            &p->state_indices,
                                            &p->new_state_indices,
                                            &p->cu_seqlens_device};
    const bool writes = cla_tensor_count(&p->out) > 0 ||
                        (cla_tensor_given(&p->new_state) && cla_tensor_count(&p->new_state) > 0);
    if (job->sequences == 0 || !writes) return CLATTN_OK;
    const linear_attention_args args = args_of(job);
    launch l = {.flops = flops_of(job),
                .cuts_first = true,
                .changes = cla_tensor_same_view(&p->state, &p->new_state)};
    TRY(get_program(job, &l.program));
    const knobs *k = &job->plan.knobs;
    const int group = job->plan.group ? k->work_group : 1,
              columns = job->plan.group ? (group > k->row_items ? group / k->row_items : 1)
                                        : k->row_vectors * k->lanes;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) cla_launch_buffer(&l, &tensors[i]->buffer);
    cla_launch_value(&l, &args, sizeof args);
    l.local[0] = (size_t)group, l.local[1] = l.local[2] = 1;
    l.global[0] = (size_t)((p->v.shape[3] + columns - 1) / columns) * l.local[0];
    l.global[1] = (size_t)job->state_heads, l.global[2] = (size_t)job->sequences;
    cla_chain_set_progress(steps, p->progress, l.flops);
    return cla_launch_enqueue(steps, &l);
}

static const entry linear_attention_entry = {check, prepare, run, NULL};

clattn_status clattn_linear_attention_plan(clattn_context *context,
                                           const clattn_linear_attention_params *params,
                                           clattn_linear_attention_choice *choice) {
    linear_attention_job job;
    TRY(cla_entry_plan(&linear_attention_entry, context, params, choice, "choice", &job));
    *choice = (clattn_linear_attention_choice){{0}, {0}};
    snprintf(choice->kernel_name, sizeof choice->kernel_name, "%s", clattn_kernel_sources[job.plan.id].name);
    snprintf(choice->why, sizeof choice->why, "%s", job.plan.why);
    return CLATTN_OK;
}

clattn_status clattn_linear_attention_prepare(clattn_context *context,
                                              const clattn_linear_attention_params *params) {
    linear_attention_job job;
    return cla_entry_prepare(&linear_attention_entry, context, params, &job);
}

clattn_status clattn_linear_attention_enqueue(clattn_context *context, cl_command_queue queue,
                                              const clattn_linear_attention_params *params,
                                              cl_uint wait_count, const cl_event *wait_list,
                                              cl_event *event) {
    const entry_queue at = {queue, wait_count, wait_list, event};
    linear_attention_job job;
    return cla_entry_enqueue(&linear_attention_entry, context, params, &at, &job);
}
