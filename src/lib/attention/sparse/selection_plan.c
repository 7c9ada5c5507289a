// selection_plan.c: see selection_plan.h.
#include "attention/sparse/selection_plan.h"

#include <stdio.h>

#include "args/select_args.h"

// A segment has at least this many entries, and more than the entries that it passes on.
#define SEGMENT_LEAST 4096
#define SEGMENTS_MOST 256
// Work-groups for each compute unit. On a CPU the second one balances late threads.
#define GROUPS_CPU 2
#define GROUPS_OTHER 4
// Candidates that are appended between two reductions.
#define APPENDED_LEAST 2048

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t greatest(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

static void say_why(const selection_problem *p, int64_t groups, int64_t possible, selection_shares *s) {
    char parts[160];
    if (s->segments > 1)
        snprintf(parts, sizeof parts, "%lld rows are fewer than %lld groups: %d segments a row",
                 (long long)p->units, (long long)groups, s->segments);
    else if (p->units >= groups)
        snprintf(parts, sizeof parts, "%lld rows are enough for %lld groups: a group a row",
                 (long long)p->units, (long long)groups);
    else
        snprintf(parts, sizeof parts, "%lld entries are too few for segments of %lld: a group a row",
                 (long long)p->entries, (long long)possible);
    snprintf(s->why, sizeof s->why, "%s; %s",
             p->cpu ? "a CPU: groups of 1 work-item skip a vector of scores at once"
                    : "groups of work-items count and scan together",
             parts);
}

selection_shares cla_selection_plan(const selection_problem *p) {
    selection_shares s = {.work_group = p->cpu ? 1 : SELECT_GROUP};
    s.lanes = !p->cpu ? 4 : p->vector >= 16 ? 16 : p->vector >= 8 ? 8 : 4;
    const int64_t tile = (int64_t)s.work_group * s.lanes;
    const int64_t groups = (int64_t)(p->cpu ? GROUPS_CPU : GROUPS_OTHER) * greatest(p->compute_units, 1);
    const int64_t shortest = greatest(SEGMENT_LEAST, 2 * (int64_t)p->k);
    const int64_t units = greatest(p->units, 1);
    const int64_t wanted = units >= groups ? 1 : (groups + units - 1) / units;
    const int64_t most = least(greatest(p->entries / shortest, 1), SEGMENTS_MOST);
    const int64_t segments = least(wanted, most);
    s.span = (int)least(round_up(greatest((p->entries + segments - 1) / segments, 1), tile),
                        INT32_MAX - INT32_MAX % tile);
    s.segments = (int)greatest((p->entries + s.span - 1) / s.span, 1);
    s.capacity = (int)least(p->k + greatest(p->k, APPENDED_LEAST) + tile, s.span);
    const uint64_t slots = (uint64_t)SELECT_SLOT_WORDS(s.capacity) * sizeof(uint32_t) * (uint64_t)s.segments;
    s.units = least(units, greatest((int64_t)(SELECTION_MOST_BYTES / slots), 1));
    s.bytes = slots * (uint64_t)s.units;
    s.launches = (int)least((p->units + s.units - 1) / s.units * 2, INT32_MAX);
    say_why(p, groups, shortest, &s);
    return s;
}
