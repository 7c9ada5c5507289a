// call.c: one call of a group. It is checked as a call of one device, partitioned, and run. Other
// devices run the pieces of failed devices.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "attention/call/call_kind.h"
#include "group/piece.h"

#define FIRST_PART 0.125 // share of a call's work that is split evenly if rates are unknown
// A piece with more bytes is cut, so that copying one part overlaps with computing another.
#define OVERLAP_BYTES 16e6
#define OVERLAP_PIECES 4

static bool is_up(const group_member *m) {
    return m->status == CLATTN_OK;
}

// Estimate a device's rate from its capabilities, until a rate was measured.
static double guess(const group_member *m) {
    const clattn_capabilities *can = &m->context->capabilities;
    const double lanes = can->is_gpu ? 64.0 : can->float_vector_width;
    return lanes * (can->compute_units ? can->compute_units : 1) * (can->clock_mhz ? can->clock_mhz : 1000);
}

// Set `rates`: members get work in proportion to them. True if all rates are known.
static bool take_rates(const group_call *c, double *rates) {
    const clattn_group *g = c->group;
    double all = 0.0;
    bool known = true;
    for (int d = 0; d < g->count; d++)
        known = known && (!is_up(&g->members[d]) || g->members[d].rate[c->kind].ops > 0.0);
    for (int d = 0; d < g->count; d++) {
        const group_member *m = &g->members[d];
        const double rate = c->shares ? c->shares[d] : known ? m->rate[c->kind].ops : guess(m);
        rates[d] = is_up(m) ? rate : 0.0;
        all += rates[d];
    }
    for (int d = 0; d < g->count && all <= 0.0; d++) rates[d] = is_up(&g->members[d]) ? 1.0 : 0.0;
    return known || c->shares;
}

static int count_up(const clattn_group *g) {
    int count = 0;
    for (int d = 0; d < g->count; d++) count += is_up(&g->members[d]);
    return count;
}

static piece *new_piece(group_call *c, const box *b, int member) {
    if (c->count == c->room) {
        const int room = c->room ? 2 * c->room : 16;
        piece **more = cla_host_grow(&c->group->host, c->pieces, (size_t)c->room * sizeof *more,
                                     (size_t)room * sizeof *more);
        if (!more) return NULL;
        c->pieces = more, c->room = room;
    }
    piece *p = cla_host_take_zeroed(&c->group->host, 1, sizeof *p);
    if (!p) return NULL;
    p->host = &c->group->host;
    p->box = *b, p->member = member;
    p->work = cla_group_work(c, b);
    c->pieces[c->count++] = p;
    return p;
}

// The axes along which a piece may be cut. Partial results of the same rows can be merged, so they
// are cut only along keys.
static unsigned cuts_of(const group_call *c, const piece *p) {
    return p->partial && !c->op->sums ? c->problem.can & PARTITION_CAN_KEYS : c->problem.can;
}

// Assign a box to a member, cut into pieces that fit its memory and whose copies overlap. If the
// member cannot do a piece, its status becomes an error.
static clattn_status place(group_call *c, const box *b, int member, uint64_t soft) {
    group_member *m = &c->group->members[member];
    piece *p = new_piece(c, b, member);
    clattn_status status = p ? cla_slice_make(c, p) : CLATTN_OUT_OF_MEMORY;
    if (status != CLATTN_OK) return cla_group_fail(c->group, status, "group: no host memory for a piece");
    size_t workspace = 0;
    if (is_up(m)) status = c->op->workspace(m->context, &p->params, &workspace);
    if (!is_up(m) || status != CLATTN_OK) {
        if (is_up(m)) m->status = status;
        return CLATTN_OK;
    }
    p->workspace_bytes = workspace;
    const uint64_t need = p->bytes + p->beside_bytes + workspace;
    const bool overlaps = !m->context->capabilities.is_cpu && (double)p->bytes > OVERLAP_BYTES;
    if (!soft) soft = overlaps ? p->bytes / OVERLAP_PIECES + 1 : UINT64_MAX;
    const bool large = need > m->max_bytes || p->bytes > m->largest;
    const unsigned all = cuts_of(c, p), can = large ? all
                                              : p->bytes > soft
                                                  ? all & (PARTITION_CAN_ITEMS | PARTITION_CAN_GROUPS)
                                                  : 0;
    box half = *b, second;
    if (can && cla_partition_halve(&c->problem, can, &half, &second)) {
        cla_piece_free(p);
        c->count--;
        TRY(place(c, &half, member, soft));
        return place(c, &second, member, soft);
    }
    if (large)
        m->status =
            cla_context_fail(m->context, CLATTN_OUT_OF_MEMORY,
                             "group: a piece needs %llu bytes of the device, %llu are allowed, and it "
                             "cannot be cut smaller",
                             (unsigned long long)need, (unsigned long long)m->max_bytes);
    return CLATTN_OK;
}

static clattn_status partition_units(group_call *c, int64_t first, int64_t last, const double *rates) {
    int64_t cuts[GROUP_MOST_MEMBERS + 1];
    box boxes[PARTITION_MOST_BOXES];
    double one[GROUP_MOST_MEMBERS] = {0.0};
    int best = 0;
    for (int d = 0; d < c->group->count; d++)
        if (rates[d] > rates[best]) best = d;
    one[best] = 1.0;
    if (!cla_partition_cut(&c->problem, &c->axis, first, last,
                           c->axis.partition == CLATTN_PARTITION_WHOLE ? one : rates, c->group->count, cuts))
        return cla_group_fail(c->group, CLATTN_OUT_OF_MEMORY, "group: no host memory to partition a call");
    for (int d = 0; d < c->group->count; d++) {
        const int count = cla_partition_boxes(&c->problem, &c->axis, cuts[d], cuts[d + 1], boxes);
        for (int n = 0; n < count; n++) TRY(place(c, &boxes[n], d, 0));
    }
    return CLATTN_OK;
}

static void keep_rates(group_call *c) {
    for (int d = 0; d < c->group->count; d++) {
        group_member *m = &c->group->members[d];
        group_rate *rate = &m->rate[c->kind];
        if (m->timed_work == 0.0 || !is_up(m)) continue;
        const double now = m->timed_work / ((double)(m->last_ns - m->first_ns) * 1e-9);
        if (!c->empty) { // an empty call computed no scores, so it says nothing about the rate
            rate->ops = rate->samples > 1 ? (rate->ops + now) / 2.0 : now;
            rate->samples++, rate->idle = 0;
        }
        m->share.gflops = now * 1e-9;
        m->share.time_ns += m->last_ns - m->first_ns;
        m->first_ns = m->last_ns = 0, m->timed_work = 0.0;
    }
}

// The member that would finish first if it got one more piece.
static int least_busy(const group_call *c, const double *rates, const double *loads, double work) {
    int best = -1;
    for (int d = 0; d < c->group->count; d++) {
        if (!is_up(&c->group->members[d])) continue;
        const double rate = rates[d] > 0.0 ? rates[d] : 1e-9;
        if (best < 0 ||
            (loads[d] + work) / rate < (loads[best] + work) / (rates[best] > 0.0 ? rates[best] : 1e-9))
            best = d;
    }
    return best;
}

// Reassign the pieces of failed members. They are halved if there are fewer than working members.
static clattn_status hand_over(group_call *c, piece **left, int count) {
    double rates[GROUP_MOST_MEMBERS], loads[GROUP_MOST_MEMBERS] = {0.0};
    take_rates(c, rates);
    const int up = count_up(c->group);
    for (int n = 0; n < count; n++) {
        const unsigned can = cuts_of(c, left[n]);
        box boxes[2] = {left[n]->box};
        const int parts = count < up && cla_partition_halve(&c->problem, can, &boxes[0], &boxes[1]) ? 2 : 1;
        for (int i = 0; i < parts; i++) {
            const double work = cla_group_work(c, &boxes[i]);
            const int d = least_busy(c, rates, loads, work);
            loads[d] += work;
            TRY(place(c, &boxes[i], d, 0));
        }
        c->handed++;
    }
    return CLATTN_OK;
}

// Move the unfinished pieces from c->pieces to `left`.
static int take_left(group_call *c, piece **left) {
    int kept = 0, count = 0;
    for (int n = 0; n < c->count; n++) {
        piece *p = c->pieces[n];
        if (p->done)
            c->pieces[kept++] = p;
        else
            left[count++] = p;
    }
    c->count = kept;
    return count;
}

static clattn_status all_failed(group_call *c) {
    group_member *m = &c->group->members[0];
    for (int d = 0; d < c->group->count; d++)
        if (c->group->members[d].share.status == CLATTN_OK) m = &c->group->members[d];
    return cla_group_fail_as(c->group, m->status, m->context);
}

// Run all pieces, and reassign unfinished ones until none is left. Every further round has at least
// one device less.
static clattn_status run_rounds(group_call *c) {
    for (;;) {
        TRY(cla_run_pieces(c));
        keep_rates(c);
        piece **left = cla_host_take_zeroed(&c->group->host, (size_t)c->count + 1, sizeof *left);
        if (!left) return cla_group_fail(c->group, CLATTN_OUT_OF_MEMORY, "group: no host memory");
        const int count = take_left(c, left);
        clattn_status status = CLATTN_OK;
        if (count && !count_up(c->group)) status = all_failed(c);
        for (int d = 0; d < c->group->count && status == CLATTN_OK; d++) {
            group_member *m = &c->group->members[d];
            if (!is_up(m) && m->share.status == CLATTN_OK) cla_group_tell(c->group, d);
            m->share.status = m->status;
        }
        if (count && status == CLATTN_OK) status = hand_over(c, left, count);
        for (int n = 0; n < count; n++) cla_piece_free(left[n]);
        cla_host_release(&c->group->host, left);
        if (!count || status != CLATTN_OK) return status;
    }
}

static clattn_status choose(group_call *c, double *rates, bool *known) {
    static const char why[] = "partition: this call cannot be dealt by %s: %s";
    bool no_memory;
    *known = take_rates(c, rates);
    // A call that only appends rows runs on one device.
    const clattn_partition wanted = c->empty ? CLATTN_PARTITION_WHOLE : c->partition;
    if (cla_partition_choose(&c->problem, wanted, rates, c->group->count, &c->axis, &c->busy, &no_memory))
        return CLATTN_OK;
    if (no_memory)
        return cla_group_fail(c->group, CLATTN_OUT_OF_MEMORY, "group: no host memory to partition");
    const clattn_attention_params *p = &c->host.forward;
    return cla_group_fail(c->group, CLATTN_UNSUPPORTED, why, clattn_partition_name(c->partition),
                          !c->problem.can          ? "dropout and mods count items, heads and rows of a call"
                          : c->ragged              ? "of a ragged batch heads are"
                          : cla_kv_appends(&p->kv) ? "with k_new heads are"
                          : c->op->sums            ? "a sink's gradient is of rows, whichever keys they see"
                          : c->whole.problem.sums_weights     ? "with weights summed over rows heads are"
                          : p->weights.rank || p->scores.rank ? "weights and scores need all keys of a row"
                                                              : "past keys and pages are whole");
}

// Forget the rate of a member that had no work for many calls.
static void count_idle(group_call *c) {
    for (int d = 0; d < c->group->count && !c->shares; d++) {
        group_rate *rate = &c->group->members[d].rate[c->kind];
        if (!is_up(&c->group->members[d]) || c->group->members[d].share.pieces) continue;
        if (++rate->idle >= GROUP_MOST_IDLE) *rate = (group_rate){0};
    }
}

// If rates are unknown, first split an eighth of the call evenly to measure them. If that is large
// enough it runs in two steps, so that the second is not slowed by a driver's one-time work.
static clattn_status run_call(group_call *c) {
    double rates[GROUP_MOST_MEMBERS], even[GROUP_MOST_MEMBERS];
    bool known = false;
    TRY(choose(c, rates, &known));
    int64_t first = 0;
    const int up = count_up(c->group);
    for (int d = 0; d < c->group->count; d++) even[d] = is_up(&c->group->members[d]) ? 1.0 : 0.0;
    if (!known && up > 1) first = cla_partition_first(&c->problem, &c->axis, FIRST_PART, up);
    if (2 * first > c->axis.units) first = 0;
    const int64_t middle = first / 2 >= up ? first / 2 : 0;
    for (int64_t from = 0, to = middle ? middle : first; from < first; from = to, to = first) {
        TRY(partition_units(c, from, to, even));
        TRY(run_rounds(c));
    }
    if (first) take_rates(c, rates);
    TRY(partition_units(c, first, c->axis.units, rates));
    TRY(run_rounds(c));
    if (c->axis.partition != CLATTN_PARTITION_WHOLE) count_idle(c);
    TRY(c->op->join(c));
    cla_slice_unpack(c);
    c->op->store(c);
    return CLATTN_OK;
}

static clattn_status plan_call(group_call *c) {
    double rates[GROUP_MOST_MEMBERS];
    bool known = false;
    TRY(choose(c, rates, &known));
    TRY(partition_units(c, 0, c->axis.units, rates));
    for (int n = 0; n < c->count; n++) {
        clattn_group_share *s = &c->group->members[c->pieces[n]->member].share;
        s->share += c->pieces[n]->work / c->work;
        s->bytes_in += c->pieces[n]->bytes_in, s->bytes_out += c->pieces[n]->bytes_out;
        s->pieces++;
    }
    return CLATTN_OK;
}

static void report_on(const group_call *c, clattn_group_report *report, clattn_group_share *shares) {
    const clattn_group *g = c->group;
    clattn_group_report r = {
        .partition = c->axis.partition, .handed = c->handed, .merged = c->merged, .busy = c->busy};
    for (int d = 0; d < g->count; d++) {
        r.pieces += g->members[d].share.pieces;
        if (shares) shares[d] = g->members[d].share, shares[d].status = g->members[d].status;
    }
    snprintf(r.why, sizeof r.why,
             "%s dealt to %d of %d devices: %d pieces, predicted to keep them %.0f %% busy",
             c->axis.partition == CLATTN_PARTITION_WHOLE ? "not" : clattn_partition_name(c->axis.partition),
             count_up(g), g->count, r.pieces, 100.0 * c->busy);
    if (report) *report = r;
}

static clattn_status work(group_call *c, bool planning, clattn_group_report *report,
                          clattn_group_share *shares) {
    clattn_group *g = c->group;
    for (int d = 0; d < g->count; d++) {
        group_member *m = &g->members[d];
        m->share = (clattn_group_share){.status = CLATTN_OK};
        m->first_ns = m->last_ns = 0, m->timed_work = 0.0;
    }
    clattn_status status = cla_group_begin(c, planning);
    if (status == CLATTN_OK && !c->nothing) status = planning ? plan_call(c) : run_call(c);
    report_on(c, report, shares);
    for (int n = 0; n < c->count; n++) cla_piece_free(c->pieces[n]);
    for (int n = 0; n < GROUP_RULES; n++) cla_host_release(&g->host, c->sums[n]);
    cla_host_release(&g->host, c->pieces);
    cla_call_release(&c->whole);
    if (status == CLATTN_OK && !planning && !c->nothing && c->progress && c->progress->fn)
        c->progress->fn(c->progress->user, 1.0);
    return status;
}

static clattn_status enter(clattn_group *g, group_call *c, bool planning, clattn_group_report *report,
                           clattn_group_share *shares) {
    if (report) *report = (clattn_group_report){.partition = CLATTN_PARTITION_WHOLE};
    if (!g) return CLATTN_INVALID_ARGUMENT;
    if (!c->op) return cla_group_fail(g, CLATTN_INVALID_ARGUMENT, "params: is NULL");
    c->group = g;
    cla_os_mutex_lock(&g->lock);
    const clattn_status status = work(c, planning, report, shares);
    cla_os_mutex_unlock(&g->lock);
    return status;
}

static group_call call_of(const clattn_group_attention_params *p) {
    if (!p) return (group_call){.op = NULL};
    return (group_call){.op = &cla_group_forward,
                        .host = {.forward = p->attention},
                        .partition = p->partition,
                        .shares = p->shares,
                        .progress = p->attention.progress};
}

static group_call backward_of(const clattn_group_attention_backward_params *p) {
    if (!p) return (group_call){.op = NULL};
    return (group_call){.op = &cla_group_backward,
                        .host = p->backward,
                        .partition = p->partition,
                        .shares = p->shares,
                        .progress = p->backward.progress};
}

clattn_status clattn_group_attention(clattn_group *group, const clattn_group_attention_params *params,
                                     clattn_group_report *report, clattn_group_share *shares) {
    group_call c = call_of(params);
    return enter(group, &c, false, report, shares);
}

clattn_status clattn_group_plan(clattn_group *group, const clattn_group_attention_params *params,
                                clattn_group_report *report, clattn_group_share *shares) {
    group_call c = call_of(params);
    return enter(group, &c, true, report, shares);
}

clattn_status clattn_group_attention_backward(clattn_group *group,
                                              const clattn_group_attention_backward_params *params,
                                              clattn_group_report *report, clattn_group_share *shares) {
    group_call c = backward_of(params);
    return enter(group, &c, false, report, shares);
}

clattn_status clattn_group_backward_plan(clattn_group *group,
                                         const clattn_group_attention_backward_params *params,
                                         clattn_group_report *report, clattn_group_share *shares) {
    group_call c = backward_of(params);
    return enter(group, &c, true, report, shares);
}
