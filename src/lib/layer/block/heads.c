// heads.c: see heads.h.
#include "layer/block/heads.h"

#include <math.h>

#include "args/args.h"
#include "plan/families/family.h"
#include "plan/planner.h"

#define DEFAULT_EPSILON 1e-6f

_Static_assert(LAUNCH_BYTES(norm_args) <= LAUNCH_MAX_BYTES && LAUNCH_BYTES(gate_args) <= LAUNCH_MAX_BYTES,
               "they fit");

static clattn_status check_weights(clattn_context *c, const norm_options *o, int which, bool planning) {
    const bool width = o->how == CLATTN_NORM_WIDTH;
    const tensor_rule rule = {o->names[which], width ? "[heads * D]" : "[D]", TYPES_FLOAT, false, planning};
    const int64_t shape[1] = {width ? o->heads[which] * o->head_dim : o->head_dim};
    const clattn_tensor *w = o->w[which];
    if (o->how == CLATTN_NORM_NONE)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: is there for a norm, and norm is NONE",
                                o->names[which]);
    TRY(cla_tensor_check(c, w, 1, &rule));
    return cla_tensor_check_shape(c, w, shape, &rule);
}

clattn_status cla_norm_check(clattn_context *c, const norm_options *o, bool planning) {
    bool weights = false;
    if ((unsigned)o->how >= CLATTN_NORM_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "norm: %d is none of CLATTN_NORM_*", (int)o->how);
    if (!isfinite(o->epsilon) || o->epsilon < 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "norm_epsilon: %g: must be 0 or more",
                                (double)o->epsilon);
    if (o->how == CLATTN_NORM_NONE && o->epsilon != 0.0f)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "norm_epsilon: is there for a norm, and norm is NONE");
    for (int i = 0; i < 2; i++) {
        if (!o->names[i] || !cla_tensor_given(o->w[i])) continue;
        TRY(check_weights(c, o, i, planning));
        weights = true;
    }
    if (o->plus_one && !weights)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "norm_plus_one: is there for weights, and none are given");
    return CLATTN_OK;
}

head_norm cla_norm_of(const norm_options *o, int which, const linear *made) {
    head_norm n = {.how = o->how, .epsilon = o->epsilon > 0.0f ? o->epsilon : DEFAULT_EPSILON};
    n.plus_one = o->plus_one;
    n.amplitude = 1.0f;
    n.shared = made->choice.id == KERNEL_LINEAR_ROWS || made->choice.id == KERNEL_LINEAR_TILES ||
               made->choice.id == KERNEL_LINEAR_FRAGMENTS;
    if (cla_tensor_given(o->w[which])) n.w = *o->w[which];
    return n;
}

bool cla_norm_is_needed(const head_norm *n) {
    return n->how != CLATTN_NORM_NONE || n->rope.rotary_dim > 0;
}

double cla_norm_flops(const head_norm *n, const clattn_tensor *x) {
    return cla_norm_is_needed(n) ? PACE_MOVE_FLOPS * (double)cla_tensor_count(x) : 0.0;
}

int cla_norm_group(clattn_context *context, const head_norm *n, enum kernel_id kernel) {
    const plan_input in = cla_planner_linear_input(context);
    const uint64_t most = cla_family_group_limit(&in, kernel);
    int group = n->how == CLATTN_NORM_WIDTH ? 256 : 32;
    if (!n->shared) return 1;
    while (group > 1 && (uint64_t)group > most) group /= 2;
    return group;
}

static clattn_status program_of(clattn_context *context, const head_norm *n, clattn_type type, program **p) {
    const int group = cla_norm_group(context, n, KERNEL_NORM), layout = n->rope.interleaved ? 2 : 1;
    const program_spec spec = {
        .id = KERNEL_NORM,
        .knobs = {.type_q = (int)type,
                  .type_kv = cla_tensor_given(&n->w) ? (int)n->w.type : 0,
                  .work_group = group,
                  .rope = n->rope.rotary_dim > 0 ? layout : 0,
                  .positions = n->rope.positions ? cla_rope_positions_knob(n->rope_params) : 0}};
    return cla_planner_program(context, &spec, &(planned_group){.items = group}, p);
}

clattn_status cla_norm_prepare(clattn_context *context, const head_norm *n, clattn_type type) {
    program *p = NULL;
    return cla_norm_is_needed(n) ? program_of(context, n, type, &p) : CLATTN_OK;
}

clattn_status cla_norm_enqueue(chain *c, const head_norm *n, const clattn_tensor *x) {
    if (!cla_norm_is_needed(n) || cla_tensor_count(x) == 0) return CLATTN_OK;
    const int64_t shared = n->how == CLATTN_NORM_WIDTH ? x->shape[1] : 1;
    const norm_args a = {.x = cla_tensor_view(x),
                         .w_offset = n->w.offset,
                         .position = n->rope.position,
                         .batch = (int)x->shape[0],
                         .heads = (int)x->shape[1],
                         .n = (int)x->shape[2],
                         .head_dim = (int)x->shape[3],
                         .shared = (int)shared,
                         .rotary_dim = n->rope.rotary_dim,
                         .flags = (n->how != CLATTN_NORM_NONE ? NORM_SCALES : 0) |
                                  (cla_tensor_given(&n->w) ? NORM_WEIGHTS : 0) | n->rope.flags,
                         .epsilon = n->epsilon,
                         .more = n->plus_one ? 1.0f : 0.0f,
                         .amplitude = n->amplitude};
    const size_t group = (size_t)cla_norm_group(c->context, n, KERNEL_NORM);
    launch l = {
        .flops = cla_norm_flops(n, x),
        .cuts_first = true,
        .local = {group, 1, 1},
        .global = {group * (size_t)x->shape[2] * (size_t)(x->shape[1] / shared), (size_t)x->shape[0], 1}};
    TRY(program_of(c->context, n, x->type, &l.program));
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, &n->w.buffer);
    cla_launch_buffer(&l, &n->rope.frequencies);
    cla_launch_buffer(&l, &n->rope.table);
    if (n->rope.positions) cla_launch_buffer(&l, &n->rope.positions->buffer);
    cla_launch_value(&l, &a, sizeof a);
    rope_source_args source; // outlives the launch, which keeps its address
    if (n->rope.positions) {
        source = cla_rope_source(n->rope_params, n->rope.positions);
        cla_launch_value(&l, &source, sizeof source);
    }
    return cla_launch_enqueue(c, &l);
}

double cla_gate_flops(const clattn_tensor *x) {
    return PACE_MOVE_FLOPS * (double)cla_tensor_count(x);
}

clattn_status cla_gate_prepare(clattn_context *context, clattn_type type) {
    const knobs k = {.type_q = (int)type};
    program *p = NULL;
    return cla_program_get(context, KERNEL_GATE, &k, &p);
}

clattn_status cla_gate_enqueue(chain *c, const clattn_tensor *x, const clattn_tensor *gates) {
    const gate_args a = {.x = cla_tensor_view(x),
                         .gate = cla_tensor_view(gates),
                         .batch = (int)x->shape[0],
                         .heads = (int)x->shape[1],
                         .n = (int)x->shape[2],
                         .head_dim = (int)x->shape[3],
                         .of_heads = gates->shape[3] == x->shape[1]};
    const knobs k = {.type_q = (int)x->type};
    const size_t items[3] = {(size_t)(x->shape[2] * x->shape[3]), (size_t)(x->shape[0] * x->shape[1]), 1};
    launch l = {.flops = cla_gate_flops(x), .cuts_first = true};
    if (cla_tensor_count(x) == 0) return CLATTN_OK;
    TRY(cla_program_get(c->context, KERNEL_GATE, &k, &l.program));
    cla_launch_items(&l, c->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, &gates->buffer);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(c, &l);
}
