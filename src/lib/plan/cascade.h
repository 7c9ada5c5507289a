// cascade.h: whether a past that all batch items share is read once for all of them, and how: a pure function, as all of the
// planner. The call is then two launches, whose partial results are combined: one over the shared past, of which the batch is
// one and whose query rows are those of all items and of all heads of a group, and an ordinary one over the items' own keys.
// [FlashInfer's cascade inference, Ye et al. 2024; Hydragen, Juravsky et al. 2024]
#ifndef CLATTN_PLAN_CASCADE_H
#define CLATTN_PLAN_CASCADE_H
#include "plan/variant.h"

// How a call's axes become heads and query rows of a launch whose batch is the call's key/value heads and which
// has one of those: a view has one stride for each, so that axes which become one must lie one behind the other.
typedef enum cascade_fold {
    CASCADE_ITEMS, // heads: the batch; rows: the heads of a group, and in them the rows
    CASCADE_ITEMS_TURNED, // rows and heads change places: kernels that share a pass among the heads of a group do not mind
    CASCADE_HEADS, // heads: those of a group; rows: the batch, and in it the rows
    CASCADE_HEADS_TURNED,
    CASCADE_ONE, // one head; rows: the batch, heads, rows; of one key/value head
    CASCADE_FOLDS
} cascade_fold;

// All that the rule looks at besides the problem.
typedef struct cascade_input {
    clattn_cascade asked;
    int prefix;     // past rows that all items see wholly
    bool shared_kv; // as problem.shared_kv, of the past and of the items' own keys
    bool own_shared_kv;
    unsigned folds;      // bit of each cascade_fold that the strides allow
    const char *refusal; // why the options do not allow any; or NULL
} cascade_input;

typedef struct cascade_plan {
    bool on;
    int prefix;
    cascade_fold fold;
    variant of_prefix, of_suffix; // the latter only where has_suffix
    bool has_suffix;              // items have keys of their own
    double times, times_before;   // that the past is read by this plan, and by the call's own
    uint64_t partial_lse;         // bytes from the first partial result to the maxima and sums
    uint64_t partial_bytes;       // of all partial results
    uint64_t workspace_bytes;     // and of what the launches need beside them
    const char *why;              // why not; or NULL
} cascade_plan;

// The problems of the two launches.
problem cla_cascade_prefix(const problem *p, const cascade_input *c, cascade_fold fold);
problem cla_cascade_suffix(const problem *p, const cascade_input *c);

// Plan. `today` is the call's own variant, which goes on where this says no. UNSUPPORTED where it is asked for and cannot be.
clattn_status cla_cascade_choose(const plan_input *in, const problem *p, const cascade_input *c,
                                 const variant *today, cascade_plan *plan);

// Append the plan's words about it to why[size]; nothing where there is no shared past.
void cla_cascade_explain(const cascade_plan *plan, char *why, size_t size);
#endif
