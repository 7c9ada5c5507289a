// layer_small.c: runs a self-attention layer of few rows as one launch of layer_few_lanes.cl. The
// projections must use linear_few_lanes.cl and attention flash_lanes.cl, in one type and with no
// step in between. PoCL and Intel's CPU runtime wake the cores for each launch, and such a layer's
// work hardly needs more time than that.
#include <math.h>

#include "args/args.h"
#include "attention/call/call_kind.h"
#include "attention/run/run.h"
#include "attention/score/score.h"
#include "base/host.h"
#include "layer/block/layer.h"
#include "plan/families/family.h"
#include "program/unfit.h"

// Buffers: eleven of attention (q, k, v, out, lse, table, weights, mask, bias, block mask and one
// more), and twelve of the layer.
_Static_assert(LAUNCH_BYTES(attention_args) + LAUNCH_BYTES(dropout_args) + 23 * LAUNCH_BYTES(cl_mem) <=
                       LAUNCH_MAX_BYTES &&
                   23 + 2 <= LAUNCH_MAX_ARGS,
               "the arguments of a launch fit every device");

static const int of_small[SMALL_PROJECTIONS] = {PROJECT_Q, PROJECT_K, PROJECT_V, PROJECT_OUT};

// True if all projections use one kernel with equal knobs, which *k receives. k->rope is the knob
// of q.
static bool projections_agree(const layer *l, knobs *k, small_layer *s) {
    for (int i = 0; i < SMALL_PROJECTIONS; i++) {
        knobs own;
        const int rope = i > 0 ? k->rope : 0;
        if (!cla_linear_native_small(&l->of[of_small[i]], &own, &s->of[i])) return false;
        if (i == 0) *k = own;
        own.rope = i > 0 ? rope : own.rope;
        if (!cla_knobs_equal(&own, k)) return false;
    }
    return l->of[PROJECT_V].rope.rotary_dim == 0 && l->of[PROJECT_OUT].rope.rotary_dim == 0;
}

// Merge attention's knobs with those of the projections, `of`, into *k. False if they conflict.
static bool attention_agrees(const call *c, const knobs *of, knobs *k) {
    const problem *p = &c->problem;
    *k = c->variant.knobs;
    if (k->type_q != of->type_q || k->type_kv != of->type_q || k->type_v || k->type_out != of->type_q ||
        k->lanes != of->lanes)
        return false;
    if ((p->score_ops & ARGS_BIAS) && k->type_bias != of->type_bias) return false;
    k->type_bias = of->type_bias;
    k->row_block = of->row_block, k->column_block = of->column_block, k->column_tile = of->column_tile;
    k->rope = of->rope;
    return true;
}

// True if there is no step between projections and attention, and no past, cache or mods.
static bool is_plain(const layer *l) {
    const call *c = &l->call;
    const problem *p = &c->problem;
    const bool heard = l->params.progress && l->params.progress->fn;
    return l->native && l->self && !l->ready && !l->gated && !heard && !c->empty && !c->applies_rope &&
           !cla_norm_is_needed(&l->q_norm) && !cla_norm_is_needed(&l->k_norm) && !p->past && !p->paged &&
           !p->ragged && !cla_kv_appends(&c->params.kv) && !(p->score_ops & ARGS_MODS);
}

static bool find_spec(const layer *l, program_spec *spec, small_layer *s) {
    const variant *v = &l->call.variant;
    const pace_rate unknown = {0};
    knobs k;
    if (!l->context->capabilities.is_cpu || !is_plain(l)) return false;
    if (v->family->id != KERNEL_FLASH_LANES || v->splits != 1 || v->packed_bytes) return false;
    // On this device large launches are cut into slices.
    if (cla_pace_most(l->context, &unknown, false) < INFINITY) return false;
    *spec =
        (program_spec){.id = KERNEL_LAYER_FEW_LANES, .options = v->options ? v->options : v->family->options};
    return projections_agree(l, &k, s) && attention_agrees(&l->call, &k, &spec->knobs) &&
           !cla_unfit_refusal(cla_unfit_known(l->context), spec->id, &spec->knobs, spec->options, NULL);
}

bool cla_layer_is_small(const layer *l) {
    program_spec spec;
    small_layer s;
    return find_spec(l, &spec, &s);
}

clattn_status cla_layer_small_prepare(const layer *l) {
    program_spec spec;
    small_layer s;
    program *p = NULL;
    return find_spec(l, &spec, &s) ? cla_program_get_spec(l->context, &spec, &p) : CLATTN_OK;
}

// One work-group for each core, but at most one for each column tile of q, k and v.
static size_t groups_of(const layer *l, const small_layer *s, const knobs *k) {
    const size_t units = l->context->capabilities.compute_units;
    const size_t parts = (size_t)((s->of[SMALL_Q].columns + k->column_tile - 1) / k->column_tile);
    return units < 1 ? 1 : units < 3 * parts ? units : 3 * parts;
}

clattn_status cla_layer_small_enqueue(layer *l, chain *steps) {
    const call *c = &l->call;
    const linear *of = l->of;
    program_spec spec;
    small_layer s;
    cl_mem shared;
    launch job = {.global = {1, 1, 1}, .local = {1, 1, 1}};
    attention_args a = c->args;
    const dropout_args dropout = cla_dropout_arguments(c->params.score.dropout, c->params.score.dropout_seed);
    cla_bytes_zero(&s, sizeof s);
    if (!find_spec(l, &spec, &s)) return CLATTN_OK;
    a.splits = 1, a.split_keys = c->variant.split_keys;
    s.tiles = (c->problem.n_q + c->variant.rows_per_group - 1) / c->variant.rows_per_group;
    TRY(cla_program_get_spec(l->context, &spec, &job.program));
    TRY(cla_chain_table(steps, &s, sizeof s, &shared));
    cla_flash_arguments(c, &a, &dropout, &job);
    cla_launch_buffer(&job, &of[PROJECT_Q].x.buffer);
    for (int i = 0; i < SMALL_PROJECTIONS; i++) cla_launch_buffer(&job, &of[of_small[i]].w.buffer);
    for (int i = 0; i < SMALL_PROJECTIONS; i++) cla_launch_buffer(&job, &of[of_small[i]].b.buffer);
    cla_launch_buffer(&job, &of[PROJECT_OUT].y.buffer);
    cla_launch_buffer(&job, &of[PROJECT_Q].rope.frequencies);
    cla_launch_buffer(&job, cla_linear_native_positions(&of[PROJECT_Q]));
    cla_launch_buffer(&job, &shared);
    job.global[0] = groups_of(l, &s, &spec.knobs);
    return cla_launch_enqueue(steps, &job);
}
