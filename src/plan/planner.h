// planner.h: what a context keeps for planning: the caller's rows and the library's. The planner itself is a pure function (variant.h); this makes its input.
#ifndef CLATTN_PLAN_PLANNER_H
#define CLATTN_PLAN_PLANNER_H
#include <stdatomic.h>

#include "core/probe.h"
#include "plan/variant.h"

struct planner {
    tuned_rows own, shipped;
    plan_input input;                      // of a projection, and what every other starts from
    atomic_uint group_limit[KERNEL_COUNT]; // 0: not known
};

// Parse the caller's rows (NULL: none) and the shipped ones. INVALID_ARGUMENT or OUT_OF_MEMORY with why[256].
clattn_status cla_planner_create(clattn_context *context, const char *own_rows, char why[256]);
void cla_planner_destroy(clattn_context *context);

// The input for one attention call: probes that its types can gain from have run.
plan_input cla_planner_input(clattn_context *context, const problem *p);
// Whether a plan may depend on how rows are aligned: not that of a CPU's own kernels, which are taken unless a row of the
// caller's names another.
bool cla_planner_asks_alignment(const clattn_context *context);
// A compiled kernel allows no more work-items than this: plans from now on keep to it.
void cla_planner_learn_limit(clattn_context *context, enum kernel_id id, size_t items);
// The first row of the caller's with parameters for a kernel of CLBlast on this device, or NULL.
const int *cla_planner_clblast_row(const clattn_context *context, int kernel);
// The input for a projection; what was measured of them is added by src/layer.
plan_input cla_planner_linear_input(const clattn_context *context);
#endif
