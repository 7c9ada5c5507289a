// begin.c: checks a group's call before it is partitioned. Each member checks it as a call of one
// device. Then the call is described to the partition planner.
#include <math.h>

#include "attention/call/call_kind.h"
#include "attention/call/visible_keys.h"
#include "group/piece.h"

#define FEW_ROWS 8 // calls with at most this many query rows have rates of their own

// Set absent views to {0}. A view without a buffer is absent. When planning, it must have no rank
// either.
static void take_views(group_call *c, bool planning) {
    for (int n = 0; n < c->op->rule_count; n++) {
        clattn_tensor *t = cla_group_view(&c->host, &c->op->rules[n]);
        const bool absent = !t->buffer && (!planning || !t->rank);
        if (absent && c->op->rules[n].given != GIVEN_ALWAYS) *t = (clattn_tensor){0};
    }
}

static clattn_status check_given(group_call *c) {
    for (const view_rule *rule = c->op->rules; rule < c->op->rules + c->op->rule_count; rule++) {
        const clattn_tensor *t = cla_group_view(&c->host, rule);
        if (rule->given == GIVEN_ALWAYS && !t->buffer && cla_tensor_count(t) > 0)
            return cla_group_fail(c->group, CLATTN_INVALID_ARGUMENT, "%s: its memory is NULL", rule->name);
    }
    return CLATTN_OK;
}

// Every member checks and plans the call, without memory. The first error that the caller made is
// reported.
static clattn_status check_members(group_call *c) {
    clattn_status worst = CLATTN_OK;
    bool found = false;
    for (int d = 0; d < c->group->count; d++) {
        group_member *m = &c->group->members[d];
        group_params p = c->host;
        call other, *to = found ? &other : &c->whole;
        cla_slice_unbind(c->op, &p);
        m->status = cla_context_check(m->context);
        if (m->status != CLATTN_OK) continue;
        m->status = c->op->check(m->context, &p, to);
        if (m->status == CLATTN_OK && !found)
            found = true;
        else
            cla_call_release(to);
        if (m->status == CLATTN_INVALID_ARGUMENT) return cla_group_fail_as(c->group, m->status, m->context);
    }
    for (int d = 0; d < c->group->count && !found; d++)
        if (worst == CLATTN_OK)
            worst = cla_group_fail_as(c->group, c->group->members[d].status, c->group->members[d].context);
    return found ? CLATTN_OK : worst;
}

// The work of a call without query rows: the number of elements in the new keys and values.
static double work_of_new(const group_call *c, const box *b) {
    const clattn_attention_params *p = &c->host.forward;
    const double heads = (double)p->q.shape[1],
                 part = (heads > 0.0 ? (double)b->size[BOX_HEADS] / heads : 1.0) *
                        (double)b->size[BOX_ITEMS] / (double)p->q.shape[0];
    return part * (double)(cla_tensor_count(&p->kv.k_new) + cla_tensor_count(&p->kv.v_new));
}

// The work of a box: pairs of a row and a key that the row sees. Each row also costs something by
// itself, which is spread over all keys. With gradients, each key does too, spread over all rows.
static double work_of(void *user, const box *b) {
    const group_call *c = user;
    const clattn_attention_params *p = &c->host.forward;
    const double each =
        2.0 * (double)(p->q.shape[3] + cla_tensor_width(&p->kv.v)) * (double)b->size[BOX_HEADS];
    const int first = (int)b->at[BOX_ITEMS], items = (int)b->size[BOX_ITEMS], row = (int)b->at[BOX_ROWS],
              rows = (int)b->size[BOX_ROWS];
    const double key = (double)b->at[BOX_KEYS], end = key + (double)b->size[BOX_KEYS];
    const double all = (double)c->problem.size[BOX_KEYS], part = all > 0.0 ? (end - key) / all : 1.0;
    const double rows_part = p->q.shape[2] > 0 ? (double)rows / (double)p->q.shape[2] : 1.0;
    double seen = (double)items * rows * part;
    if (c->empty) return c->op->sums ? (double)items * (double)b->size[BOX_HEADS] : work_of_new(c, b);
    if (c->op->sums) seen += (double)items * (end - key) * rows_part;
    if (c->ragged) return each * (seen + cla_call_seen(&c->whole, 0, (int)p->q.shape[2]));
    const bool alike = !(c->whole.args.flags & ARGS_BATCH_ROWS);
    for (int n = 0; n < (alike ? 1 : items); n++)
        seen += (alike ? items : 1) * cla_call_seen_in(&c->whole, first + n, row, rows, key, end);
    return each * seen;
}

// A sink's gradient belongs to a row, whatever keys the row sees. The piece with the first keys
// computes it.
static bool has_other_than_sinks(const group_call *c) {
    const group_params *p = &c->host;
    return p->dq.rank || p->dk.rank || p->dv.rank || p->dbias.rank || p->dalibi_slopes.rank ||
           p->dhead_scales.rank;
}

static unsigned what_can(const group_call *c) {
    const clattn_attention_params *p = &c->host.forward;
    // Heads of packed rows cannot be summed, because some rows are not written.
    const bool appends = cla_kv_appends(&p->kv), paged = cla_kv_is_paged(&p->kv),
               packs = c->op->sums && c->ragged;
    if (cla_score_differs(&p->score) & INDEX) return 0;
    unsigned can = PARTITION_CAN_GROUPS;
    if (!appends && !packs) can |= PARTITION_CAN_HEADS;
    if (!c->ragged && p->cascade != CLATTN_CASCADE_ALWAYS && !(appends && paged)) can |= PARTITION_CAN_ITEMS;
    if (c->ragged || appends || c->whole.problem.sums_weights) return can;
    can |= PARTITION_CAN_ROWS;
    if (c->op->sums && !has_other_than_sinks(c)) return can;
    if (!paged && !cla_kv_has_past(&p->kv) && !p->weights.rank && !p->scores.rank) can |= PARTITION_CAN_KEYS;
    return can;
}

static void describe(group_call *c) {
    const clattn_attention_params *p = &c->host.forward;
    c->ragged = cla_ragged_given(p);
    c->keeps = c->ragged || (!c->op->sums && p->score.q_lengths);
    c->problem =
        (partition_problem){.host = &c->group->host,
                            .size = {p->q.shape[0], p->q.shape[1], p->q.shape[2], cla_kv_count(&p->kv)},
                            .group = p->q.shape[1] / p->kv.k.shape[1],
                            .rows = p->score.block_mask.rank ? CLATTN_BLOCK_ROWS : PARTITION_ROWS,
                            .can = what_can(c),
                            .work = work_of,
                            .user = c};
    if (c->ragged) c->problem.size[BOX_KEYS] = c->whole.problem.n_kv;
    const box all = cla_partition_whole(&c->problem);
    c->work = work_of(c, &all);
    c->kind = (int)p->kv.k.type + (c->whole.problem.n_q <= FEW_ROWS ? 0 : CLATTN_TYPE_COUNT) +
              (c->op->sums ? 2 * CLATTN_TYPE_COUNT : 0);
}

clattn_status cla_group_begin(group_call *c, bool planning) {
    clattn_group *g = c->group;
    if ((unsigned)c->partition >= CLATTN_PARTITION_COUNT)
        return cla_group_fail(g, CLATTN_INVALID_ARGUMENT, "partition: %d is none of CLATTN_PARTITION_*",
                              (int)c->partition);
    if (c->op->sums ? c->host.workspace : c->host.forward.workspace)
        return cla_group_fail(g, CLATTN_INVALID_ARGUMENT, "workspace: a group has its own: leave it NULL");
    double sum = 0.0;
    for (int d = 0; c->shares && d < g->count; d++) {
        const double x = c->shares[d];
        if (!isfinite(x) || x < 0.0)
            return cla_group_fail(g, CLATTN_INVALID_ARGUMENT, "shares: item %d is %g: must be 0 or more", d,
                                  x);
        sum += x;
    }
    if (c->shares && sum <= 0.0)
        return cla_group_fail(g, CLATTN_INVALID_ARGUMENT, "shares: all are 0: one must be more");
    take_views(c, planning);
    TRY(check_members(c));
    if (!planning) TRY(check_given(c));
    if (!planning) TRY(cla_slice_check(c));
    const clattn_attention_params *p = &c->host.forward;
    c->empty = c->whole.empty || (c->op->sums && cla_kv_count(&p->kv) == 0);
    c->nothing = c->op->sums ? p->q.shape[0] == 0 || p->q.shape[1] == 0
                             : c->empty && (!cla_kv_appends(&p->kv) || cla_tensor_count(&p->kv.k_new) == 0);
    if (!c->nothing) describe(c);
    return CLATTN_OK;
}

double cla_group_work(group_call *c, const box *b) {
    return work_of(c, b);
}
