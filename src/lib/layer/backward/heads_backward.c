// heads_backward.c: see heads_backward.h.
#include "layer/backward/heads_backward.h"

#include "args/backward_args.h"
#include "launch/workspace.h"
#include "plan/planner.h"

#define PART_ROWS 512 // rows in one part of an item's sum

_Static_assert(LAUNCH_BYTES(norm_backward_args) <= LAUNCH_MAX_BYTES &&
                   LAUNCH_BYTES(gate_backward_args) <= LAUNCH_MAX_BYTES,
               "they fit");

// Heads with weights of their own become columns. Heads that share weights become rows.
static clattn_tensor share_rows(const norm_backward *n) {
    const clattn_tensor *t = &n->shares;
    const int64_t groups = n->norm->how == CLATTN_NORM_WIDTH ? 1 : t->shape[1];
    const int64_t shape[3] = {t->shape[0], t->shape[2] * groups, t->shape[1] / groups * t->shape[3]};
    clattn_tensor rows = clattn_tensor_dense(t->buffer, t->type, 3, shape);
    rows.offset = t->offset;
    return rows;
}

// One launch sums all rows. Or one launch sums parts of the rows, and a second one sums the parts.
static int64_t parts_of(const clattn_tensor *rows) {
    return rows->shape[1] > 2 * PART_ROWS ? (rows->shape[1] + PART_ROWS - 1) / PART_ROWS : 1;
}

uint64_t cla_norm_backward_scratch(const norm_backward *n) {
    if (!cla_tensor_given(&n->dw)) return 0; // without dw, no sums are needed
    const clattn_tensor rows = share_rows(n);
    const int64_t parts = parts_of(&rows);
    return parts > 1 ? cla_workspace_add(0, (uint64_t)parts, sizeof(float) * (size_t)rows.shape[2]) : 0;
}

double cla_norm_backward_flops(const norm_backward *n) {
    return PACE_MOVE_FLOPS * (double)cla_tensor_count(&n->x) * (cla_tensor_given(&n->dw) ? 2.0 : 1.0);
}

static clattn_status norm_program(clattn_context *context, const norm_backward *n, program **p) {
    const int group = cla_norm_group(context, n->norm, KERNEL_NORM_BACKWARD);
    const program_spec spec = {
        .id = KERNEL_NORM_BACKWARD,
        .knobs = {.type_kv = cla_tensor_given(&n->norm->w) ? (int)n->norm->w.type : 0, .work_group = group}};
    return cla_planner_program(context, &spec, &(planned_group){.items = group}, p);
}

clattn_status cla_norm_backward_prepare(clattn_context *context, const norm_backward *n) {
    const linear_sums parts = {.x = {.type = CLATTN_TYPE_F32}, .y = {.type = CLATTN_TYPE_F32}},
                      last = {.x = {.type = CLATTN_TYPE_F32}, .y = {.type = n->dw.type}};
    program *p = NULL;
    if (cla_tensor_given(&n->dw)) TRY(cla_linear_sums_prepare(context, &parts));
    if (cla_tensor_given(&n->dw)) TRY(cla_linear_sums_prepare(context, &last));
    return norm_program(context, n, &p);
}

static clattn_status enqueue_weights(chain *steps, const norm_backward *n) {
    linear_sums s = {.x = share_rows(n), .y = n->dw};
    const int64_t parts = parts_of(&s.x), shape[3] = {1, parts, s.x.shape[2]};
    if (parts == 1) return cla_linear_sums_enqueue(steps, &s);
    s.part_rows = PART_ROWS;
    s.y = clattn_tensor_dense(s.x.buffer, CLATTN_TYPE_F32, 2, shape + 1);
    s.y.offset = (int64_t)(n->at / sizeof(float));
    TRY(cla_linear_sums_enqueue(steps, &s));
    linear_sums last = {.x = clattn_tensor_dense(s.x.buffer, CLATTN_TYPE_F32, 3, shape), .y = n->dw};
    last.x.offset = s.y.offset;
    return cla_linear_sums_enqueue(steps, &last);
}

static clattn_status enqueue_rows(chain *steps, const norm_backward *n) {
    const clattn_tensor *x = &n->x;
    const int64_t groups = n->norm->how == CLATTN_NORM_WIDTH ? 1 : x->shape[1];
    const norm_backward_args a = {.x = x->offset,
                                  .g = n->g.offset,
                                  .shares = n->shares.offset,
                                  .w_offset = n->norm->w.offset,
                                  .batch = (int)x->shape[0],
                                  .rows = (int)x->shape[2],
                                  .groups = (int)groups,
                                  .width = (int)(x->shape[1] / groups * x->shape[3]),
                                  .word = n->rows.word,
                                  .flags = (cla_tensor_given(&n->norm->w) ? NORM_WEIGHTS : 0) |
                                           (cla_tensor_given(&n->dw) ? NORM_SHARES : 0),
                                  .epsilon = n->norm->epsilon,
                                  .more = n->norm->plus_one ? 1.0f : 0.0f};
    const size_t group = (size_t)cla_norm_group(steps->context, n->norm, KERNEL_NORM_BACKWARD);
    launch l = {.flops = PACE_MOVE_FLOPS * (double)cla_tensor_count(x),
                .cuts_first = true,
                .local = {group, 1, 1},
                .global = {group * (size_t)(x->shape[2] * groups), (size_t)x->shape[0], 1}};
    TRY(norm_program(steps->context, n, &l.program));
    cla_launch_buffer(&l, &x->buffer);
    cla_launch_buffer(&l, &n->g.buffer);
    cla_launch_buffer(&l, &n->norm->w.buffer);
    cla_launch_buffer(&l, &n->rows.lengths);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}

clattn_status cla_norm_backward_enqueue(chain *steps, const norm_backward *n) {
    if (cla_tensor_count(&n->x) > 0) TRY(enqueue_rows(steps, n));
    return cla_tensor_given(&n->dw) ? enqueue_weights(steps, n) : CLATTN_OK;
}

double cla_gate_backward_flops(const gate_backward *g) {
    return 2.0 * PACE_MOVE_FLOPS * (double)cla_tensor_count(&g->heads);
}

static clattn_status gate_program(clattn_context *context, program **p) {
    return cla_program_get(context, KERNEL_GATE_BACKWARD, &(knobs){0}, p);
}

clattn_status cla_gate_backward_prepare(clattn_context *context) {
    program *p = NULL;
    return gate_program(context, &p);
}

clattn_status cla_gate_backward_enqueue(chain *steps, const gate_backward *g) {
    const int64_t width = g->heads.shape[1] * g->heads.shape[3], gates = g->gates.shape[3];
    const gate_backward_args a = {.gates = g->gates.offset,
                                  .heads = g->heads.offset,
                                  .dgates = cla_tensor_given(&g->dgates) ? g->dgates.offset : -1,
                                  .dheads = cla_tensor_given(&g->dheads) ? g->dheads.offset : -1,
                                  .gated = g->gated.offset,
                                  .batch = (int)g->heads.shape[0],
                                  .rows = (int)g->heads.shape[2],
                                  .columns = (int)gates,
                                  .each = (int)(width / gates),
                                  .word = g->rows.word};
    const size_t items[3] = {(size_t)(g->heads.shape[2] * gates), (size_t)g->heads.shape[0], 1};
    launch l = {.flops = cla_gate_backward_flops(g), .cuts_first = true};
    if (cla_tensor_count(&g->heads) == 0) return CLATTN_OK;
    TRY(gate_program(steps->context, &l.program));
    cla_launch_items(&l, steps->context, items, (const size_t[3]){64, 1, 1});
    cla_launch_buffer(&l, &g->heads.buffer);
    cla_launch_buffer(&l, &g->dheads.buffer);
    cla_launch_buffer(&l, &g->rows.lengths);
    cla_launch_value(&l, &a, sizeof a);
    return cla_launch_enqueue(steps, &l);
}
