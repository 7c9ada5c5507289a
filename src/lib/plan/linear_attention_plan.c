// linear_attention_plan.c: see linear_attention_plan.h.
#include "plan/linear_attention_plan.h"

#include <stdio.h>

#define GROUP 64               // work-items that share a head's columns on a GPU
#define ROW_ITEMS 4            // work-items per column there: 32 rows each for Dk = 128
#define VECTORS_MOST 4         // two sums for each vector stay in registers
#define CACHE_BYTES (16 << 10) // for a work-item's part of the state: half a first-level cache

static int64_t blocks_of(const linear_attention_problem *p, int vectors) {
    const int64_t width = (int64_t)vectors * p->lanes;
    return (p->head_dim_v + width - 1) / width * p->heads * p->sequences;
}

// Wide blocks share the work on rows of q and k; narrow ones keep every core busy and the state in
// the first-level cache.
static int vectors_of(const linear_attention_problem *p) {
    int vectors = VECTORS_MOST;
    while (vectors > 1 && (blocks_of(p, vectors) < p->compute_units ||
                           p->head_dim * vectors * p->lanes * (int64_t)sizeof(float) > CACHE_BYTES))
        vectors /= 2;
    return vectors;
}

void cla_plan_linear_attention(const linear_attention_problem *p, linear_attention_plan *plan) {
    *plan = (linear_attention_plan){.id = KERNEL_LINEAR_ATTENTION, .knobs = {.head_dim = (int)p->head_dim}};
    if (p->is_cpu && p->lanes) {
        plan->id = KERNEL_LINEAR_ATTENTION_LANES;
        plan->knobs.lanes = p->lanes;
        plan->knobs.row_vectors = vectors_of(p);
        snprintf(plan->why, sizeof plan->why,
                 "a CPU with vectors of %d floats: %d columns of a head's state a work-item, %lld work-items",
                 p->lanes, plan->knobs.row_vectors * p->lanes,
                 (long long)blocks_of(p, plan->knobs.row_vectors));
        return;
    }
    plan->group = GROUP;
    plan->knobs.row_items = p->is_cpu ? 1 : ROW_ITEMS;
    snprintf(plan->why, sizeof plan->why,
             p->is_cpu ? "a CPU without vectors of floats: %d work-item for each column of a head's state"
                       : "not a CPU: %d work-items for each column of a head's state",
             plan->knobs.row_items);
}
