// flash.c: the fused paths, flash and decode. One kernel computes the call. If the keys are split,
// the kernel writes partial results to scratch memory, and combine.cl combines them. Kernels on a
// matrix engine need the values in tiles: matrix_pack.cl first writes these to the workspace, once
// per key/value head.
#include "attention/call/visible_keys.h"
#include "attention/call/table.h"
#include "attention/kv/kv.h"
#include "attention/mods/mods.h"
#include "attention/run/run.h"
#include "attention/score/score.h"
#include "plan/families/family.h"
#include "plan/planner.h"

// Buffers of a launch: q, k, v and their past, out, lse, table, weights, mask, bias, block mask,
// four of expressions. With i8: the scales and zero points of k, v and their past, and no
// expressions (CAN_PAST_MODS of plan/families/family.h).
_Static_assert(LAUNCH_BYTES(attention_args) + LAUNCH_BYTES(mod_args) + LAUNCH_BYTES(past_args) +
                           LAUNCH_BYTES(dropout_args) + 16 * LAUNCH_BYTES(cl_mem) <=
                       LAUNCH_MAX_BYTES &&
                   LAUNCH_BYTES(attention_args) + LAUNCH_BYTES(past_args) + LAUNCH_BYTES(past_scale_args) +
                           LAUNCH_BYTES(dropout_args) + 20 * LAUNCH_BYTES(cl_mem) <=
                       LAUNCH_MAX_BYTES,
               "the arguments of a launch fit every device");

static size_t divide_up(size_t n, size_t by) {
    return (n + by - 1) / by;
}

// is_partial: the main kernel writes partial results. combines: this file combines them.
static bool is_partial(const call *c) {
    return c->variant.splits > 1 || c->partial.on;
}

static bool combines(const call *c) {
    return c->variant.splits > 1 && !c->partial.on;
}

static knobs combine_knobs(const call *c) {
    return (knobs){.type_out = (int)c->problem.type_out,
                   .ragged = c->problem.ragged,
                   .combine_columns = c->context->capabilities.is_cpu ? 16 : 0};
}

// The main kernel of the chosen family.
static clattn_status main_program(const call *c, program **p) {
    const family *f = c->variant.family;
    const program_spec spec = {.id = f->id,
                               .knobs = c->variant.knobs,
                               .options = c->variant.options ? c->variant.options : f->options,
                               .inserted = c->mods.inserted};
    const planned_group planned = {c->variant.work_group, c->variant.sums, c->variant.local_bytes};
    return cla_planner_program(c->context, &spec, &planned, p);
}

static knobs pack_knobs(const call *c) {
    return (knobs){.type_kv = (int)c->problem.type_kv,
                   .head_dim_v = c->problem.head_dim_v,
                   .past = c->problem.past,
                   .paged = c->problem.paged,
                   .ragged = c->problem.ragged};
}

static clattn_status pack_prepare(const call *c) {
    program *p = NULL;
    const knobs k = pack_knobs(c);
    return c->variant.packed_bytes ? cla_program_get(c->context, KERNEL_MATRIX_PACK, &k, &p) : CLATTN_OK;
}

// View of the packed values: one row of the view is a block of keys.
static args_view packed_view(const call *c, int64_t blocks) {
    const int64_t block =
        MATRIX_PACK_BLOCK((int64_t)c->problem.head_dim_v, CLATTN_TYPE_IS_SCALED(c->problem.type_kv));
    const uint64_t at = c->variant_workspace + c->variant.packed_values;
    return (args_view){.offset = (int64_t)(at / sizeof(uint16_t)),
                       .batch = c->problem.kv_heads * blocks * block,
                       .head = blocks * block,
                       .row = block,
                       .column = 1};
}

static clattn_status pack_enqueue(const call *c, chain *steps, args_view *v) {
    const problem *m = &c->problem;
    const knobs k = pack_knobs(c);
    launch l = {.local = {1, 1, 1}};
    if (!c->variant.packed_bytes) return CLATTN_OK;
    const int64_t blocks = ((int64_t)m->n_kv + MATRIX_PACK_KEYS - 1) / MATRIX_PACK_KEYS;
    const pack_args a = {.v = c->args.v,
                         .v_scale = c->args.v_scale,
                         .packed = packed_view(c, blocks),
                         .n_kv = m->n_kv,
                         .flags = c->args.flags};
    TRY(cla_program_get(c->context, KERNEL_MATRIX_PACK, &k, &l.program));
    cla_kv_value_arguments(c, &c->v, &l);
    cla_kv_place_arguments(c, false, true, &l);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    l.global[0] = (size_t)blocks;
    l.global[1] = (size_t)m->kv_heads;
    l.global[2] = (size_t)m->batch;
    *v = a.packed;
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_flash_prepare(call *c) {
    program *p = NULL;
    TRY(main_program(c, &p));
    TRY(pack_prepare(c));
    return combines(c) ? cla_flash_prepare_combine(c) : CLATTN_OK;
}

clattn_status cla_flash_prepare_combine(const call *c) {
    program *p = NULL;
    const knobs k = combine_knobs(c);
    return cla_program_get(c->context, KERNEL_COMBINE, &k, &p);
}

// Set the output views to dense float32 partial results in the workspace. Per split: unnormalised
// output rows, and (max, sum) for each row.
static void partial_views(const call *c, attention_args *a) {
    const problem *m = &c->problem;
    a->flags |= ARGS_LSE | ARGS_PARTIAL;
    if (c->partial.on) {
        a->out = c->partial.out, a->lse = c->partial.lse;
        a->split_out = c->partial.split_out, a->split_lse = c->partial.split_lse;
        return;
    }
    const int64_t n = m->ragged ? m->packed_rows : m->n_q, dv = m->head_dim_v, heads = m->heads,
                  batch = m->ragged ? 1 : m->batch;
    const int64_t start = (int64_t)(c->variant_workspace / sizeof(float));
    a->out = (args_view){start, m->ragged ? 0 : heads * n * dv, n * dv, dv, 1};
    a->lse = (args_view){start + (int64_t)(c->variant.partial_lse / sizeof(float)),
                         m->ragged ? 0 : 2 * heads * n, 2 * n, 2, 0};
    a->split_out = batch * heads * n * dv;
    a->split_lse = 2 * batch * heads * n;
}

double cla_flash_combine_flops(const call *c, int splits) {
    const problem *m = &c->problem;
    const double rows = m->ragged ? (double)m->packed_rows : (double)m->batch * m->n_q;
    return PACE_MOVE_FLOPS * splits * rows * m->heads * m->head_dim_v;
}

clattn_status cla_flash_combine(const call *c, chain *steps, int splits) {
    const clattn_attention_params *p = &c->params;
    const knobs k = combine_knobs(c);
    const problem *m = &c->problem;
    const int rows = m->ragged ? m->packed_rows : m->n_q, batch = m->ragged ? 1 : m->batch;
    attention_args partial = c->args;
    launch l = {.flops = cla_flash_combine_flops(c, splits), .cuts_first = true};
    TRY(cla_program_get(c->context, KERNEL_COMBINE, &k, &l.program));
    partial_views(c, &partial);
    const combine_args a = {.partial_out = partial.out,
                            .partial_lse = partial.lse,
                            .out = c->args.out,
                            .lse = c->args.lse,
                            .split_out = partial.split_out,
                            .split_lse = partial.split_lse,
                            .batch = c->args.batch,
                            .heads = c->args.heads,
                            .n_q = rows,
                            .head_dim_v = c->args.head_dim_v,
                            .splits = splits,
                            .flags = c->args.flags};
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &c->workspace);
    cla_launch_buffer(&l, &p->out.buffer);
    cla_launch_buffer(&l, &p->lse.buffer);
    cla_launch_buffer(&l, &c->table);
    cla_launch_value(&l, &a, sizeof a);
    const size_t columns = k.combine_columns ? (size_t)k.combine_columns : 4;
    const size_t items[3] = {divide_up((size_t)m->head_dim_v, columns), (size_t)rows,
                             (size_t)batch * (size_t)m->heads};
    cla_launch_items(&l, c->context, items, (const size_t[3]){16, 4, 1});
    return cla_launch_enqueue(steps, &l);
}

static void set_grid(const variant *v, launch *l, size_t tiles) {
    for (int i = 0; i < 3; i++) {
        l->local[i] = i == 0 ? (size_t)v->work_group : 1;
        l->global[i] = (i == 0 && tiles ? tiles * (size_t)v->splits : v->groups[i]) * l->local[i];
    }
}

// Set the arguments of a fused kernel, in the order of score.clh.
static void set_arguments(const call *c, const attention_args *a, const mod_args *mods,
                          const dropout_args *dropout, const cl_mem *table, launch *l) {
    const clattn_attention_params *p = &c->params;
    const bool split = is_partial(c);
    const knobs *k = &c->variant.knobs;
    cla_launch_buffer(l, &c->q);
    cla_kv_key_arguments(c, l);
    cla_kv_value_arguments(c, c->variant.packed_bytes ? &c->workspace : &c->v, l);
    cla_kv_place_arguments(c, true, true, l);
    cla_launch_buffer(l, split ? &c->workspace : &p->out.buffer);
    cla_launch_buffer(l, split ? &c->workspace : &p->lse.buffer);
    cla_launch_buffer(l, table);
    if (k->weights) cla_launch_buffer(l, &p->weights.buffer);
    cla_score_arguments(&p->score, k->score_ops, mods, l);
    cla_launch_value(l, a, sizeof *a);
    if (k->dropout) cla_launch_value(l, dropout, sizeof *dropout);
}

void cla_flash_arguments(const call *c, const attention_args *a, const dropout_args *dropout, launch *l) {
    static const mod_args none;
    set_arguments(c, a, &none, dropout, &c->table, l);
}

static double score_flops(const call *c) {
    return 2.0 * ((double)c->problem.head_dim + c->problem.head_dim_v);
}

// Operations of these rows, in all heads and batch items.
static double rows_flops(const call *c, int first, int rows) {
    return score_flops(c) * c->problem.heads * cla_call_seen(c, first, rows);
}

double cla_flash_flops(const call *c) {
    return rows_flops(c, 0, c->problem.n_q) +
           (combines(c) ? cla_flash_combine_flops(c, c->variant.splits) : 0.0);
}

// Query rows per launch. If a kernel has one group per tile of rows, a launch may have fewer rows,
// to limit its run time. Heads and batch items are cut elsewhere (pace).
static int rows_of_launch(const call *c, const chain *steps, program *p, bool *tiled) {
    const variant *v = &c->variant;
    const size_t tiles = divide_up((size_t)c->problem.n_q, (size_t)v->rows_per_group);
    *tiled = v->family->path == CLATTN_KERNEL_FLASH && v->groups[0] == tiles * (size_t)v->splits;
    if (!*tiled) return c->problem.n_q;
    const double most = cla_pace_most(c->context, &p->rate, steps->progress != NULL);
    return (int)cla_pace_rows(c->problem.n_q, v->rows_per_group, score_flops(c) * cla_call_row_keys(c), most);
}

// Restrict the arguments to `rows` query rows from `first` on. The launch counts rows from 0, so
// views and shift move by `first`.
static void take_rows(attention_args *a, int first, int rows) {
    args_view *const views[] = {&a->q, &a->out, &a->lse, &a->mask, &a->bias, &a->weights};
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) views[i]->offset += first * views[i]->row;
    a->n_q = rows;
    a->shift += first;
    a->first_row = first;
}

// Enqueue the launches of a ragged batch. Each has a one-dimensional grid.
static clattn_status enqueue_sequences(const call *c, chain *steps, program *p, const attention_args *whole,
                                       const mod_args *mods, const dropout_args *dropout) {
    const double most = cla_pace_most(c->context, &p->rate, steps->progress != NULL);
    const bool apart = rows_flops(c, 0, c->problem.n_q) > most;
    ragged_part part = {0};
    while (cla_ragged_next(c, apart, &part)) {
        const size_t group = (size_t)c->variant.work_group;
        launch l = {.program = p, .global = {(size_t)part.groups * group, 1, 1}, .local = {group, 1, 1}};
        attention_args a = *whole;
        a.first_row = (int)part.first_group;
        set_arguments(c, &a, mods, dropout, &c->table, &l);
        l.flops = score_flops(c) * c->problem.heads * part.seen;
        l.cuts_first = true;
        TRY(cla_launch_enqueue(steps, &l));
    }
    return CLATTN_OK;
}

clattn_status cla_flash_enqueue(call *c, chain *steps) {
    const variant *v = &c->variant;
    // Rows of the dense launches, whose grids are rows x heads x batch items.
    const int all = c->ragged.given ? 0 : c->problem.n_q;
    bool tiled;
    program *p = NULL;
    attention_args whole = c->args;
    const mod_args mods = cla_mods_arguments(&c->params.score);
    const dropout_args dropout = cla_dropout_arguments(c->params.score.dropout, c->params.score.dropout_seed);
    TRY(main_program(c, &p));
    whole.splits = v->splits;
    whole.split_keys = v->split_keys;
    if (is_partial(c)) partial_views(c, &whole);
    TRY(pack_enqueue(c, steps, &whole.v));
    if (c->ragged.given) TRY(enqueue_sequences(c, steps, p, &whole, &mods, &dropout));
    const int most = rows_of_launch(c, steps, p, &tiled);
    for (int first = 0, rows; first < all; first += rows) {
        launch l = {.program = p};
        attention_args a = whole;
        cl_mem table = c->table;
        rows = all - first < most ? all - first : most;
        if (rows < all) {
            cl_mem with_sinks = NULL;
            TRY(cla_call_table_of(c, steps, first, rows, &table));
            TRY(cla_sinks_borrow(c, steps, &with_sinks));
            TRY(cla_sinks_enqueue(c, steps, with_sinks, &table));
        }
        take_rows(&a, first, rows);
        set_arguments(c, &a, &mods, &dropout, &table, &l);
        set_grid(v, &l, tiled ? divide_up((size_t)rows, (size_t)v->rows_per_group) : 0);
        l.flops = rows_flops(c, first, rows);
        l.early = all - first >= 2 * most;
        TRY(cla_launch_enqueue(steps, &l));
    }
    return combines(c) ? cla_flash_combine(c, steps, v->splits) : CLATTN_OK;
}
