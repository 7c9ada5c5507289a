// selection_plan.h: how the entries of rows are divided among work-groups and launches. A pure
// function of the device's numbers and the call's sizes.
#ifndef CLATTN_ATTENTION_SPARSE_SELECTION_PLAN_H
#define CLATTN_ATTENTION_SPARSE_SELECTION_PLAN_H
#include <stdbool.h>
#include <stdint.h>

// Limit for the scratch memory of several rows.
#define SELECTION_MOST_BYTES ((uint64_t)64 << 20)

typedef struct selection_problem {
    bool cpu;
    int compute_units, vector; // vector: floats that the device prefers
    int64_t units, entries;    // rows of all heads and items; entries of a row
    int k;
} selection_problem;

typedef struct selection_shares {
    int work_group, lanes;
    int segments, span, capacity; // as in select_args
    int64_t units;                // of a launch, at most
    int launches;
    uint64_t bytes;
    char why[256];
} selection_shares;

selection_shares cla_selection_plan(const selection_problem *p);
#endif
