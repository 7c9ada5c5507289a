// backward_run.c: the launches of a call's gradients. In order: a pair of numbers per row, dq, dk
// and dv, the gradients of options, the conversion of float32 sums.
#include "attention/backward/backward.h"

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "attention/call/table.h"
#include "attention/kv/kv.h"
#include "attention/rope/rope.h"
#include "attention/score/score.h"
#include "launch/workspace.h"
#include "plan/families/family.h"
#include "plan/planner.h"

_Static_assert(LAUNCH_BYTES(attention_args) + LAUNCH_BYTES(mod_args) + LAUNCH_BYTES(backward_args) +
                       LAUNCH_BYTES(dropout_args) + LAUNCH_BYTES(backward_bias_args) +
                       16 * LAUNCH_BYTES(cl_mem) <=
                   LAUNCH_MAX_BYTES,
               "the arguments of a launch fit every device");

typedef enum backward_step { STEP_DQ, STEP_DKV, STEP_BIAS, STEP_MARKS, STEPS } backward_step;

// The type that the main kernels write.
static int type_of(const backward_result *r) {
    return r->sums ? CLATTN_TYPE_F32 : (int)r->t->type;
}

static program_spec spec_of(const backward_job *job, backward_step step) {
    const backward_result *keys = &job->result[cla_tensor_given(&job->params.dk) ? DK : DV];
    program_spec spec = {
        .id = job->variant.family->id, .knobs = job->variant.knobs, .inserted = job->call.mods.inserted};
    if (step == STEP_DQ) spec.knobs.type_gradient = type_of(&job->result[DQ]);
    if (step == STEP_DKV) spec.knobs.type_gradient = cla_tensor_given(keys->t) ? type_of(keys) : 0;
    if (step == STEP_DKV) spec.knobs.gradient_of_kv = !job->variant.one_pass;
    if (step == STEP_BIAS || step == STEP_MARKS) {
        // These are simple kernels without tiles.
        spec.id = step == STEP_BIAS ? KERNEL_BACKWARD_BIAS : KERNEL_BACKWARD_MARKS;
        spec.knobs = (knobs){0};
        cla_family_data_knobs(&job->call.problem, &spec.knobs);
        spec.knobs.head_dim = spec.knobs.head_dim_v = 0;
    }
    return spec;
}

static bool wants(const backward_job *job, backward_step step) {
    const clattn_attention_backward_params *p = &job->params;
    const bool one_pass = job->variant.one_pass, dq = job->args.wants & ARGS_WANTS_DQ;
    if (step == STEP_DQ) return dq && !one_pass;
    if (step == STEP_DKV) return job->args.wants & (ARGS_WANTS_DK | ARGS_WANTS_DV) || (dq && one_pass);
    if (step == STEP_BIAS) return cla_tensor_given(&p->dbias) && cla_tensor_count(&p->dbias) > 0;
    return job->marks_rows;
}

// View of a tensor of rank 1 to 4 as [B, H, Nq, Nkv]. Missing axes have stride 0.
static args_view bias_view(const clattn_tensor *t) {
    const int64_t *last = t->stride + t->rank - 1;
    return (args_view){.offset = t->offset,
                       .batch = t->rank > 3 ? last[-3] : 0,
                       .head = t->rank > 2 ? last[-2] : 0,
                       .row = t->rank > 1 ? last[-1] : 0,
                       .column = last[0]};
}

static args_view gradient_view(const clattn_tensor *t, bool packed) {
    args_view v = cla_tensor_view(t);
    if (packed) v.batch = 0;
    return v;
}

// The target of the main kernels: dense sums in the workspace, or the caller's tensor.
static args_view result_view(const backward_result *r) {
    clattn_tensor t = *r->t;
    if (r->sums) t = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, r->like->rank, r->like->shape);
    if (r->sums) t.offset = (int64_t)(r->at / sizeof(float));
    return cla_tensor_given(r->t) || r->sums ? gradient_view(&t, r->packed) : (args_view){0};
}

// Arguments common to all launches: those of the forward call, with gradient views in unused fields
// (backward_args.h).
static attention_args args_of(const backward_job *job) {
    const clattn_attention_backward_params *p = &job->params;
    attention_args a = job->call.args;
    a.out = gradient_view(&p->dout, job->call.problem.ragged);
    a.lse = result_view(&job->result[DQ]);
    a.k_scale = result_view(&job->result[DK]);
    a.v_scale = result_view(&job->result[DV]);
    if (cla_tensor_given(&p->dbias)) a.weights = bias_view(&p->dbias);
    return a;
}

static knobs rows_knobs(const backward_job *job) {
    return (knobs){.type_q = (int)job->call.params.out.type,
                   .type_out = (int)job->params.dout.type,
                   .ragged = job->call.problem.ragged};
}

static clattn_status enqueue_rows(const backward_job *job, chain *steps) {
    const clattn_attention_backward_params *p = &job->params;
    const call *c = &job->call;
    const bool ragged = c->problem.ragged, dlse = cla_tensor_given(&p->dlse);
    const knobs k = rows_knobs(job);
    const size_t items[3] = {(size_t)c->problem.n_q, (size_t)c->problem.heads, (size_t)c->problem.batch};
    launch l = {.flops = 2.0 * (double)cla_tensor_count(&p->dout), .cuts_first = true};
    if (job->rows == 0) return CLATTN_OK;
    const backward_rows_args a = {.out = gradient_view(&c->params.out, ragged),
                                  .dout = gradient_view(&p->dout, ragged),
                                  .lse = gradient_view(&c->params.lse, ragged),
                                  .dlse = dlse ? gradient_view(&p->dlse, ragged) : (args_view){0},
                                  .rows_batch = job->args.rows_batch,
                                  .rows_head = job->args.rows_head,
                                  .pairs = job->args.pairs,
                                  .batch = c->problem.batch,
                                  .heads = c->problem.heads,
                                  .n_q = c->problem.n_q,
                                  .head_dim_v = c->problem.head_dim_v,
                                  .flags = c->args.flags,
                                  .gives = dlse ? ARGS_DLSE : 0};
    TRY(cla_program_get(c->context, KERNEL_BACKWARD_ROWS, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &c->params.out.buffer);
    cla_launch_buffer(&l, &p->dout.buffer);
    cla_launch_buffer(&l, &c->params.lse.buffer);
    cla_launch_buffer(&l, &p->dlse.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

// Floating-point operations of a step.
static double step_flops(const backward_job *job, backward_step step) {
    const double d = job->call.problem.head_dim, dv = job->call.problem.head_dim_v,
                 seen = cla_call_seen(&job->call, 0, job->call.problem.n_q);
    const double columns = step == STEP_DQ    ? 2.0 * d + dv
                           : step == STEP_DKV ? 2.0 * (d + dv) + (job->variant.one_pass ? d : 0.0)
                                              : d + dv;
    return 2.0 * columns * job->call.problem.heads * seen;
}

static void set_results(const backward_job *job, backward_step step, launch *l) {
    const clattn_attention_backward_params *p = &job->params;
    const cl_mem *const workspace = &job->call.workspace;
    const cl_mem *const buffers[MAIN_RESULTS] = {&p->dq.buffer, &p->dk.buffer, &p->dv.buffer};
    if (step == STEP_BIAS) cla_launch_buffer(l, &p->dbias.buffer);
    if (step == STEP_MARKS) cla_launch_buffer(l, workspace);
    for (int n = 0; n < MAIN_RESULTS && step < STEP_BIAS; n++)
        if (job->variant.one_pass || (step == STEP_DQ) == (n == DQ))
            cla_launch_buffer(l, job->result[n].sums ? workspace : buffers[n]);
    if (step == STEP_DQ) cla_launch_buffer(l, workspace); // an unused second result
}

static backward_bias_args bias_sizes(const backward_job *job) {
    const clattn_tensor *t = &job->params.dbias;
    int size[4] = {1, 1, 1, 1};
    for (int i = 0; i < t->rank; i++) size[4 - t->rank + i] = (int)t->shape[i];
    return (backward_bias_args){size[0], size[1], size[2], size[3]};
}

static void set_grid(const backward_job *job, backward_step step, launch *l) {
    const problem *m = &job->call.problem;
    const backward_variant *v = &job->variant;
    if (step == STEP_BIAS || step == STEP_MARKS) {
        const backward_bias_args z = bias_sizes(job);
        const size_t of_bias[3] = {(size_t)z.rows * (size_t)z.columns, (size_t)z.heads, (size_t)z.batch},
                     of_rows[3] = {(size_t)m->n_q, (size_t)m->heads, (size_t)m->batch};
        cla_launch_items(l, job->call.context, step == STEP_BIAS ? of_bias : of_rows,
                         (const size_t[3]){64, 1, 1});
        return;
    }
    const int rows = step == STEP_DQ ? m->n_q : m->n_kv;
    const int groups = v->one_pass ? v->parts : (rows + v->own_rows - 1) / v->own_rows;
    l->local[0] = (size_t)v->work_group, l->local[1] = l->local[2] = 1;
    l->global[0] = (size_t)groups * l->local[0];
    l->global[1] = (size_t)(step == STEP_DQ ? m->heads : m->kv_heads);
    l->global[2] = (size_t)m->batch;
}

static clattn_status enqueue_step(const backward_job *job, backward_step step, chain *steps) {
    const call *c = &job->call;
    const clattn_score *s = &c->params.score;
    const program_spec spec = spec_of(job, step);
    const mod_args mods = cla_mods_arguments(s);
    const dropout_args dropout = cla_dropout_arguments(s->dropout, s->dropout_seed);
    const attention_args a = args_of(job);
    launch l = {.flops = step_flops(job, step)};
    const backward_bias_args sizes = bias_sizes(job);
    TRY(cla_program_get_spec(c->context, &spec, &l.program));
    cla_launch_buffer(&l, &c->q);
    cla_kv_key_arguments(c, &l);
    cla_kv_value_arguments(c, &c->v, &l);
    cla_launch_buffer(&l, &job->params.dout.buffer);
    cla_launch_buffer(&l, &c->workspace);
    set_results(job, step, &l);
    cla_launch_buffer(&l, &c->table);
    cla_score_arguments(s, spec.knobs.score_ops, &mods, &l);
    cla_launch_value(&l, &a, sizeof a);
    cla_launch_value(&l, &job->args, sizeof job->args);
    if (spec.knobs.dropout) cla_launch_value(&l, &dropout, sizeof dropout);
    if (step == STEP_BIAS) cla_launch_value(&l, &sizes, sizeof sizes);
    set_grid(job, step, &l);
    if (l.global[0] == 0 || l.global[1] == 0 || l.global[2] == 0) return CLATTN_OK;
    return cla_launch_enqueue(steps, &l);
}

// Find the kernel that converts sums in the workspace to the caller's result.
static clattn_status store_program(const backward_job *job, int n, knobs *k, program **p) {
    const backward_result *r = &job->result[n];
    const rope_rows rope = cla_rope_rows_of(&job->call, n == DQ);
    *k = (knobs){
        .type_gradient = (int)r->t->type, .ragged = r->packed, .lanes = cla_planner_lanes(job->call.context)};
    if (r->applies_rope) k->rope = rope.interleaved ? 2 : 1;
    if (r->applies_rope && rope.positions) k->positions = cla_rope_positions_knob(&job->call.params.rope);
    return cla_program_get(job->call.context, KERNEL_BACKWARD_STORE, k, p);
}

static bool stores(const backward_result *r) {
    return r->sums && cla_tensor_given(r->t) && cla_tensor_count(r->t) > 0;
}

static clattn_status enqueue_store(const backward_job *job, int n, chain *steps) {
    const backward_result *r = &job->result[n];
    const call *c = &job->call;
    const rope_rows rope = r->applies_rope ? cla_rope_rows_of(c, n == DQ) : (rope_rows){0};
    const int width = (int)r->like->shape[3], rows = n == DQ ? c->problem.n_q : c->problem.n_kv;
    launch l = {.flops = r->parts * cla_rope_apply_flops(r->t), .cuts_first = true};
    const rope_source_args source = cla_rope_source(&c->params.rope, rope.positions);
    knobs k;
    const backward_store_args a = {.x = result_view(r),
                                   .y = gradient_view(r->t, r->packed),
                                   .part = job->args.part_dq,
                                   .position = rope.position,
                                   .parts = r->parts,
                                   .n = rows,
                                   .head_dim = width,
                                   .rotary_dim = rope.rotary_dim,
                                   .flags = c->args.flags,
                                   .shifts = (rope.flags & ARGS_BATCH_ROWS) != 0,
                                   .keys = n != DQ,
                                   .amplitude = rope.amplitude};
    TRY(store_program(job, n, &k, &l.program));
    const int moved = r->applies_rope ? width - rope.rotary_dim / 2 : (width + k.lanes - 1) / k.lanes;
    const size_t items[3] = {(size_t)rows * (size_t)moved, (size_t)r->like->shape[1],
                             (size_t)c->problem.batch};
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &r->t->buffer);
    cla_launch_buffer(&l, &c->frequencies);
    cla_launch_buffer(&l, &c->table);
    if (k.positions) cla_launch_buffer(&l, &rope.positions->buffer);
    cla_launch_value(&l, &a, sizeof a);
    if (k.positions) cla_launch_value(&l, &source, sizeof source);
    return cla_launch_enqueue(steps, &l);
}

static int heads_group(const backward_job *job) {
    const plan_input in = cla_planner_linear_input(job->call.context);
    const uint64_t most = cla_family_group_limit(&in, KERNEL_BACKWARD_HEADS);
    int group = ARGS_HEAD_SUMS;
    while (group > 1 && (uint64_t)group > most) group /= 2;
    return group;
}

static clattn_status heads_program(const backward_job *job, program **p) {
    const int group = heads_group(job);
    const program_spec spec = {.id = KERNEL_BACKWARD_HEADS,
                               .knobs = {.work_group = group, .ragged = job->call.problem.ragged}};
    return cla_planner_program(job->call.context, &spec, &(planned_group){.items = group}, p);
}

static clattn_status enqueue_heads(const backward_job *job, chain *steps) {
    const clattn_attention_backward_params *p = &job->params;
    const clattn_tensor *const results[ARGS_HEAD_RESULTS] = {&p->dsinks, &p->dalibi_slopes, &p->dhead_scales};
    const call *c = &job->call;
    backward_heads_args a = {.wants = 0};
    const size_t group = (size_t)heads_group(job);
    launch l = {.global = {group, (size_t)c->problem.heads, 1}, .local = {group, 1, 1}};
    for (int n = 0; n < ARGS_HEAD_RESULTS; n++) {
        if (!cla_tensor_given(results[n])) continue;
        a.wants |= 1 << n, a.offset[n] = results[n]->offset, a.stride[n] = results[n]->stride[0];
    }
    if (!a.wants) return CLATTN_OK;
    TRY(heads_program(job, &l.program));
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->table);
    for (int n = 0; n < ARGS_HEAD_RESULTS; n++) cla_launch_buffer(&l, &results[n]->buffer);
    cla_launch_value(&l, &c->args, sizeof c->args);
    cla_launch_value(&l, &job->args, sizeof job->args);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

double cla_backward_flops(const backward_job *job) {
    double flops = 0.0;
    for (backward_step step = STEP_DQ; step < STEPS; step++)
        flops += wants(job, step) ? step_flops(job, step) : 0.0;
    return flops;
}

clattn_status cla_backward_prepare(backward_job *job) {
    const clattn_attention_backward_params *p = &job->params;
    const knobs rows = rows_knobs(job);
    program *made = NULL;
    knobs k;
    TRY(cla_sinks_prepare(&job->call));
    if (job->call.applies_rope) TRY(cla_rope_prepare(&job->call));
    TRY(cla_program_get(job->call.context, KERNEL_BACKWARD_ROWS, &rows, &made));
    for (backward_step step = STEP_DQ; step < STEPS; step++) {
        const program_spec spec = spec_of(job, step);
        const bool main = step < STEP_BIAS;
        const planned_group planned = {.items = main ? job->variant.work_group : 1,
                                       .sums = step == STEP_DKV ? job->variant.sums : 0,
                                       .local_bytes = main ? job->variant.local_bytes : 0};
        if (wants(job, step)) TRY(cla_planner_program(job->call.context, &spec, &planned, &made));
    }
    for (int n = 0; n < MAIN_RESULTS; n++)
        if (stores(&job->result[n])) TRY(store_program(job, n, &k, &made));
    return job->marks_rows || cla_tensor_given(&p->dsinks) ? heads_program(job, &made) : CLATTN_OK;
}

clattn_status cla_backward_run(backward_job *job, chain *steps) {
    const clattn_attention_backward_params *p = &job->params;
    call *c = &job->call;
    if (c->problem.batch == 0 || c->problem.heads == 0) return CLATTN_OK;
    TRY(cla_backward_prepare(job)); // compile errors must precede the first command
    TRY(cla_workspace_take(steps, p->workspace, job->workspace_bytes, &c->workspace));
    TRY(cla_call_table(c, steps));
    if (c->applies_rope) TRY(cla_rope_frequencies(c, steps));
    TRY(cla_ragged_enqueue(c, steps));
    TRY(cla_sinks_enqueue(c, steps, c->with_sinks, &c->table));
    cla_chain_set_progress(steps, p->progress, cla_backward_flops(job));
    if (c->applies_rope) TRY(cla_rope_enqueue(c, steps));
    TRY(enqueue_rows(job, steps));
    for (backward_step step = STEP_DQ; step < STEPS; step++)
        if (wants(job, step)) TRY(enqueue_step(job, step, steps));
    for (int n = 0; n < MAIN_RESULTS; n++)
        if (stores(&job->result[n])) TRY(enqueue_store(job, n, steps));
    return enqueue_heads(job, steps);
}
