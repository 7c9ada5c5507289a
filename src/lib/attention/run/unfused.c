// unfused.c: the unfused path: scores, softmax and P*V as three kernels, on a chunk of (batch,
// head) items and rows at a time. It can return weights and score taps, and is the baseline of the
// fused paths. Scores are float32. They are stored in the caller's weights if those are float32,
// else in scratch memory for one chunk.
#include "attention/kv/kv.h"
#include "attention/mods/mods.h"
#include "attention/run/run.h"
#include "attention/score/score.h"
#include "plan/planner.h"

// Buffers: q, k and its past, their scales and zero points, scores, table, mask, bias, four of
// expressions.
#define BUFFERS_MOST 15
_Static_assert(LAUNCH_BYTES(attention_args) + LAUNCH_BYTES(chunk_args) + LAUNCH_BYTES(mod_args) +
                       LAUNCH_BYTES(past_args) + LAUNCH_BYTES(past_scale_args) +
                       BUFFERS_MOST * LAUNCH_BYTES(cl_mem) <=
                   LAUNCH_MAX_BYTES,
               "the arguments of a launch fit every device");

#define SOFTMAX_FLOPS 16.0 // estimated operations for one score

typedef struct unfused {
    program *scores, *softmax, *softmax_out, *softmax_drop, *sums, *values;
} unfused;

static clattn_status get_programs(call *c, unfused *u) {
    const problem *m = &c->problem;
    const int hides = m->score_ops & (ARGS_MASK | ARGS_MASK_MOD);
    const program_spec scores = {.id = KERNEL_SCORES,
                                 .knobs = {.type_q = (int)m->type_q,
                                           .type_kv = (int)m->type_kv,
                                           .scale_group = m->scale_group,
                                           .type_scale = m->scale_group ? m->type_scale : 0,
                                           .zero_points = m->zero_points & 1,
                                           .past = m->past,
                                           .paged = m->paged,
                                           .type_bias = (int)m->type_bias,
                                           .score_ops = m->score_ops & ~ARGS_BLOCKS,
                                           .ragged = m->ragged},
                                 .inserted = c->mods.inserted};
    const planned_group group = {.items = c->variant.work_group};
    const program_spec softmax = {.id = KERNEL_SOFTMAX,
                                  .knobs = {.work_group = group.items, .ragged = m->ragged}};
    const program_spec softmax_out = {
        .id = KERNEL_SOFTMAX,
        .knobs = {.work_group = group.items, .type_weights = (int)m->type_weights, .ragged = m->ragged}};
    const program_spec softmax_drop = {
        .id = KERNEL_SOFTMAX, .knobs = {.work_group = group.items, .dropout = 1, .ragged = m->ragged}};
    const program_spec sums = {.id = KERNEL_WEIGHT_SUMS, .knobs = {.ragged = m->ragged}};
    const program_spec values = {.id = KERNEL_VALUES,
                                 .knobs = {.type_kv = (int)cla_problem_type_v(m),
                                           .scale_group = m->scale_group_v,
                                           .scale_group_v = m->scale_group_v,
                                           .type_scale = m->scale_group_v ? m->type_scale : 0,
                                           .zero_points = m->zero_points & 2,
                                           .type_out = (int)m->type_out,
                                           .past = m->past,
                                           .paged = m->paged,
                                           .score_ops = hides,
                                           .ragged = m->ragged},
                                 .inserted = hides & ARGS_MASK_MOD ? c->mods.inserted : NULL};
    TRY(cla_program_get_spec(c->context, &scores, &u->scores));
    TRY(cla_planner_program(c->context, &softmax, &group, &u->softmax));
    if (m->sums_weights)
        TRY(cla_program_get_spec(c->context, &sums, &u->sums));
    else if (m->wants_weights)
        TRY(cla_planner_program(c->context, &softmax_out, &group, &u->softmax_out));
    if (m->dropout) TRY(cla_planner_program(c->context, &softmax_drop, &group, &u->softmax_drop));
    return cla_program_get_spec(c->context, &values, &u->values);
}

clattn_status cla_unfused_prepare(call *c) {
    unfused u = {0};
    return get_programs(c, &u);
}

static size_t blocks(int n, int size) {
    return ((size_t)n + (size_t)size - 1) / (size_t)size;
}

static clattn_status enqueue_scores(call *c, chain *steps, const unfused *u, const attention_args *a,
                                    const chunk_args *chunk, cl_mem s, int items) {
    // This and the kernels below ignore the block mask.
    const size_t grid[3] = {blocks(a->n_kv, 4), blocks(chunk->rows, 4), (size_t)items};
    const mod_args mods = cla_mods_arguments(&c->params.score);
    launch l = {.program = u->scores};
    if (a->n_kv == 0) return CLATTN_OK;
    cla_launch_items(&l, c->context, grid, (const size_t[3]){16, 4, 1});
    l.cuts_first = true;
    l.flops = 2.0 * a->head_dim * a->n_kv * chunk->rows * items;
    cla_launch_buffer(&l, &c->q);
    cla_kv_key_arguments(c, &l);
    cla_kv_place_arguments(c, true, false, &l);
    cla_launch_buffer(&l, &s);
    cla_launch_buffer(&l, &c->table);
    cla_score_arguments(&c->params.score, c->problem.score_ops & ~ARGS_BLOCKS, &mods, &l);
    cla_launch_value(&l, a, sizeof *a);
    cla_launch_value(&l, chunk, sizeof *chunk);
    return cla_launch_enqueue(steps, &l);
}

static softmax_args softmax_arguments(const attention_args *a, args_view weights) {
    return (softmax_args){.scores = a->weights,
                          .weights = weights,
                          .lse = a->lse,
                          .batch = a->batch,
                          .heads = a->heads,
                          .n_q = a->n_q,
                          .n_kv = a->n_kv,
                          .shift = a->shift,
                          .window_left = a->window_left,
                          .window_right = a->window_right,
                          .flags = a->flags};
}

// Convert scores s to weights w; `view` describes w. s and w may be the same buffer with the same
// view. If `drops`, the program also applies dropout.
static clattn_status enqueue_softmax(call *c, chain *steps, program *p, bool drops, const attention_args *a,
                                     const chunk_args *chunk, cl_mem s, cl_mem w, args_view view, int items) {
    const clattn_score *score = &c->params.score;
    const dropout_args dropout = cla_dropout_arguments(score->dropout, score->dropout_seed);
    const size_t group = (size_t)c->variant.work_group;
    const softmax_args soft = softmax_arguments(a, view);
    launch l = {.program = p,
                .global = {group, (size_t)chunk->rows, (size_t)items},
                .local = {group, 1, 1},
                .flops = SOFTMAX_FLOPS * a->n_kv * chunk->rows * items};
    cla_launch_buffer(&l, &s);
    cla_launch_buffer(&l, &w);
    cla_launch_buffer(&l, &c->params.lse.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &soft, sizeof soft);
    cla_launch_value(&l, chunk, sizeof *chunk);
    if (drops) cla_launch_value(&l, &dropout, sizeof dropout);
    return cla_launch_enqueue(steps, &l);
}

// Add the chunk's weights, before dropout, to the sums over rows. This overwrites the scores in s
// with weights. With dropout, the scores are recomputed for the next step.
static clattn_status enqueue_sums(call *c, chain *steps, const unfused *u, const attention_args *a,
                                  const chunk_args *chunk, cl_mem s, int items) {
    const softmax_args soft = softmax_arguments(a, cla_tensor_view(&c->params.weights));
    const size_t grid[3] = {(size_t)a->n_kv, (size_t)items, 1};
    launch l = {.program = u->sums, .flops = (double)a->n_kv * chunk->rows * items};
    TRY(enqueue_softmax(c, steps, u->softmax, false, a, chunk, s, s, a->weights, items));
    if (a->n_kv == 0) return CLATTN_OK;
    cla_launch_items(&l, c->context, grid, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &s);
    cla_launch_buffer(&l, &c->params.weights.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &soft, sizeof soft);
    cla_launch_value(&l, chunk, sizeof *chunk);
    TRY(cla_launch_enqueue(steps, &l));
    return c->problem.dropout ? enqueue_scores(c, steps, u, a, chunk, s, items) : CLATTN_OK;
}

static clattn_status enqueue_values(call *c, chain *steps, const unfused *u, const attention_args *a,
                                    const chunk_args *chunk, cl_mem s, int items) {
    const size_t grid[3] = {(size_t)a->head_dim_v, blocks(chunk->rows, 4), (size_t)items};
    const mod_args mods = cla_mods_arguments(&c->params.score);
    launch l = {.program = u->values};
    cla_launch_items(&l, c->context, grid, (const size_t[3]){64, 1, 1});
    l.cuts_first = true;
    l.flops = 2.0 * a->head_dim_v * a->n_kv * chunk->rows * items;
    cla_launch_buffer(&l, &s);
    cla_kv_value_arguments(c, &c->v, &l);
    cla_kv_place_arguments(c, false, true, &l);
    cla_launch_buffer(&l, &c->params.out.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_score_arguments(&c->params.score, c->problem.score_ops & (ARGS_MASK | ARGS_MASK_MOD), &mods, &l);
    cla_launch_value(&l, a, sizeof *a);
    cla_launch_value(&l, chunk, sizeof *chunk);
    return cla_launch_enqueue(steps, &l);
}

// Write the chunk's score tap, unless the softmax writes it.
static clattn_status enqueue_tap(call *c, chain *steps, const unfused *u, attention_args a, chunk_args chunk,
                                 int items) {
    const clattn_attention_params *p = &c->params;
    static const int taps[] = {ARGS_TAP_RAW, ARGS_TAP_SOFTCAP, ARGS_TAP_MASKED};
    if (!c->problem.wants_scores || p->scores_at == CLATTN_TAP_SOFTMAX) return CLATTN_OK;
    a.weights = cla_tensor_view(&p->scores);
    chunk.tap = taps[p->scores_at];
    return enqueue_scores(c, steps, u, &a, &chunk, p->scores.buffer, items);
}

static clattn_status enqueue_chunk(call *c, chain *steps, const unfused *u, const chunk_args *chunk,
                                   int items) {
    const clattn_attention_params *p = &c->params;
    const problem *m = &c->problem;
    const bool in_place = cla_unfused_in_weights(m);
    cl_mem s = in_place ? p->weights.buffer : c->workspace;
    attention_args a = c->args;
    a.weights = cla_tensor_view(&p->weights);
    if (!in_place) {
        const int64_t row = a.n_kv, head = row * chunk->rows;
        const int64_t start = (int64_t)(c->variant_workspace / sizeof(float));
        a.weights = (args_view){start - chunk->first_item * head - chunk->first_row * row, head * a.heads,
                                head, row, 1};
    }
    TRY(enqueue_tap(c, steps, u, a, *chunk, items));
    TRY(enqueue_scores(c, steps, u, &a, chunk, s, items));
    if (m->wants_scores && p->scores_at == CLATTN_TAP_SOFTMAX)
        TRY(enqueue_softmax(c, steps, u->softmax, false, &a, chunk, s, p->scores.buffer,
                            cla_tensor_view(&p->scores), items));
    if (m->sums_weights)
        TRY(enqueue_sums(c, steps, u, &a, chunk, s, items));
    else if (m->wants_weights && !in_place)
        TRY(enqueue_softmax(c, steps, u->softmax_out, false, &a, chunk, s, p->weights.buffer,
                            cla_tensor_view(&p->weights), items));
    if (m->dropout || !m->sums_weights) // enqueue_sums has left the weights in s
        TRY(enqueue_softmax(c, steps, m->dropout ? u->softmax_drop : u->softmax, m->dropout, &a, chunk, s, s,
                            a.weights, items));
    return enqueue_values(c, steps, u, &a, chunk, s, items);
}

double cla_unfused_flops(const call *c) {
    const problem *m = &c->problem;
    const bool tapped = m->wants_scores && c->params.scores_at == CLATTN_TAP_SOFTMAX,
               copied = m->wants_weights && !cla_unfused_in_weights(m), again = m->wants_scores && !tapped;
    const double score = 2.0 * m->head_dim * (again ? 2 : 1) + 2.0 * m->head_dim_v +
                         SOFTMAX_FLOPS * (1 + (tapped ? 1 : 0) + (copied ? 1 : 0));
    return score * m->batch * m->heads * m->n_q * m->n_kv;
}

// The counters have 64 bits: the last step may exceed 32 bits.
clattn_status cla_unfused_enqueue(call *c, chain *steps) {
    const unfused_chunk most = cla_unfused_chunk(&c->problem);
    unfused u = {0};
    const int64_t items = (int64_t)c->args.batch * c->args.heads, n_q = c->args.n_q;
    TRY(get_programs(c, &u));
    for (int64_t item = 0; item < items; item += most.items)
        for (int64_t row = 0; row < n_q; row += most.rows) {
            const int64_t rest = items - item, rows = n_q - row;
            const chunk_args chunk = {.first_item = (int)item,
                                      .first_row = (int)row,
                                      .rows = (int)(rows < most.rows ? rows : most.rows),
                                      .tap = ARGS_TAP_MASKED};
            TRY(enqueue_chunk(c, steps, &u, &chunk, (int)(rest < most.items ? rest : most.items)));
        }
    return CLATTN_OK;
}
