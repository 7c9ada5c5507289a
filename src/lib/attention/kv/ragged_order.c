// ragged_order.c: the order in which the sequences of a ragged batch are computed (most work
// first), and how the batch is cut into launches. cl/call/items.clh is the device's part.
#include <stdlib.h>

#include "attention/call/call.h"
#include "attention/call/visible_keys.h"
#include "base/host.h"
#include "plan/families/family.h"

bool cla_ragged_has_work(const ragged_batch *r, int b) {
    return r->q_length[b] >= r->from_rows && r->q_length[b] <= r->to_rows;
}

// Number of query heads whose rows share a unit of work.
int cla_ragged_unit_heads(const call *c) {
    return c->variant.family->shares_heads ? c->args.group : 1;
}

static int64_t units_of(const call *c, int64_t rows) {
    const int each = c->variant.rows_per_group > 0 ? c->variant.rows_per_group : 1;
    return (rows * cla_ragged_unit_heads(c) + each - 1) / each;
}

static int64_t groups_of(const call *c, int64_t units) {
    return units * (c->problem.heads / cla_ragged_unit_heads(c)) * c->variant.splits;
}

// A sequence, and the cost of one unit of its rows.
typedef struct sequence_cost {
    int b;
    double cost;
} sequence_cost;

static int compare_costs(const void *a, const void *b) {
    const sequence_cost *x = a, *y = b;
    return x->cost != y->cost ? (x->cost < y->cost ? 1 : -1) : x->b < y->b ? -1 : 1;
}

static double cost_of(const call *c, int b) {
    const int rows = c->ragged.q_length[b];
    return cla_call_seen_of(c, b, 0, rows) / (double)units_of(c, rows);
}

clattn_status cla_ragged_order(call *c) {
    ragged_batch *r = &c->ragged;
    int64_t before = 0;
    if (!r->given || r->on_device || r->sequences == 0) return CLATTN_OK;
    sequence_cost *costs = cla_host_take(&c->context->host, (size_t)r->sequences * sizeof *costs);
    if (!costs)
        return cla_context_fail(c->context, CLATTN_OUT_OF_MEMORY,
                                "cu_seqlens_q: no host memory for its order");
    r->working = 0;
    for (int b = 0; b < r->sequences; b++)
        if (cla_ragged_has_work(r, b)) costs[r->working++] = (sequence_cost){b, cost_of(c, b)};
    qsort(costs, (size_t)r->working, sizeof *costs, compare_costs);
    for (int n = 0; n < r->working; n++) {
        r->order[n] = costs[n].b, r->before[n] = (int32_t)before;
        before += units_of(c, r->q_length[costs[n].b]);
    }
    r->before[r->working] = (int32_t)before; // the planner has limited it to 31 bits
    cla_host_release(&c->context->host, costs);
    return CLATTN_OK;
}

bool cla_ragged_next(const call *c, bool apart, ragged_part *part) {
    const ragged_batch *r = &c->ragged;
    if (r->on_device) {
        if (part->groups) return false;
        *part = (ragged_part){.groups = groups_of(c, units_of(c, r->total_q) + r->sequences),
                              .seen = cla_call_seen(c, 0, c->problem.n_q)};
        return part->groups > 0;
    }
    const int from = part->to;
    if (from >= r->working) return false;
    const double cost = cost_of(c, r->order[from]);
    *part = (ragged_part){.from = from, .to = from};
    do {
        part->seen += cla_call_seen_of(c, r->order[part->to], 0, c->problem.n_q);
        part->to++;
    } while (part->to < r->working && (!apart || cost_of(c, r->order[part->to]) >= cost / 2));
    part->first_group = groups_of(c, r->before[from]);
    part->groups = groups_of(c, r->before[part->to]) - part->first_group;
    return true;
}
