// cascade.h: decide whether a past that all batch items share is read once for all of them. Like
// the whole planner it is a pure function. The call then becomes two launches, whose partial
// results are combined. The first covers the shared past: its batch is 1, and its query rows are
// those of all items and all heads of a group. The second is an ordinary launch over the items' own
// keys. [FlashInfer's cascade inference, Ye et al. 2024; Hydragen, Juravsky et al. 2024]
#ifndef CLATTN_PLAN_CASCADE_H
#define CLATTN_PLAN_CASCADE_H
#include "plan/variant.h"

// How the axes (batch, heads of a group, rows) become heads and query rows of the launch over the
// past. That launch has the call's key/value heads as its batch, and one key/value head. A view has
// one stride per axis, so axes can be merged only if they are contiguous.
typedef enum cascade_fold {
    // heads: the batch. rows: (heads of a group, rows)
    CASCADE_ITEMS,
    // As CASCADE_ITEMS, but heads and rows are exchanged, for kernels that share a pass over the
    // keys among the heads of a group.
    CASCADE_ITEMS_TRANSPOSED,
    // heads: heads of a group. rows: (batch, rows)
    CASCADE_HEADS,
    CASCADE_HEADS_TRANSPOSED,
    // one head. rows: (batch, heads, rows). Needs a single key/value head.
    CASCADE_ONE,
    CASCADE_FOLDS
} cascade_fold;

// Everything the decision depends on, besides the problem.
typedef struct cascade_input {
    clattn_cascade asked;
    int prefix;     // past rows that every item sees completely
    bool shared_kv; // as problem.shared_kv, for the past and for the items' own keys
    bool own_shared_kv;
    unsigned folds;      // bits of the cascade_fold values that the strides permit
    const char *refusal; // why the options forbid a cascade; NULL: they permit it
} cascade_input;

typedef struct cascade_plan {
    bool on;
    int prefix;
    cascade_fold fold;
    variant of_prefix, of_suffix; // of_suffix only with has_suffix
    bool has_suffix;              // the items have keys of their own
    double times, times_before;   // how often the past is read by this plan, and by the call's own
    uint64_t partial_lse;         // byte offset from the partial results to their (max, sum) pairs
    uint64_t partial_bytes;       // size of all partial results
    uint64_t workspace_bytes;     // size of the partial results and other scratch
    const char *why;              // why there is no cascade; NULL: there is one
} cascade_plan;

problem cla_cascade_prefix(const problem *p, const cascade_input *c, cascade_fold fold);
problem cla_cascade_suffix(const problem *p, const cascade_input *c);

// Decide. `today` is the plan without a cascade, which is used if `plan->on` is false. Returns
// UNSUPPORTED if the caller requires a cascade and it is impossible.
clattn_status cla_cascade_choose(const plan_input *in, const problem *p, const cascade_input *c,
                                 const variant *today, cascade_plan *plan);

// Append a description of the plan to why[size]. Appends nothing without a shared past.
void cla_cascade_explain(const cascade_plan *plan, char *why, size_t size);
#endif
