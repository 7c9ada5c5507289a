// planner.h: what a context keeps for planning: the caller's rows and the library's. The planner itself is a pure
// function (variant.h); this makes its input.
#ifndef CLATTN_PLAN_PLANNER_H
#define CLATTN_PLAN_PLANNER_H
#include <limits.h>
#include <stdatomic.h>

#include "probe/probe.h"
#include "plan/variant.h"

struct planner {
    tuned_rows own, shipped;
    plan_input input;                      // of a projection, and what every other starts from
    atomic_uint group_limit[KERNEL_COUNT]; // 0: not known
    atomic_uint spilled_sums;              // 0: not known; PLANNER_NO_SPILLS
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
// A compiled kernel with so many sums a work-item takes so much private memory. Whether plans now differ: it has spilled
// registers, and fewer sums are wanted; or it seems to have, with PLANNER_FEW_SUMS or less, for which every device has registers.
// The driver then counts what is in registers, too: its number decides nothing from then on. Each kernel changes
// plans for a while, never for ever: to fewer sums, and once back.
bool cla_planner_learn_private(clattn_context *context, enum kernel_id id, int sums, uint64_t bytes);
#define PLANNER_FEW_SUMS 48
#define PLANNER_NO_SPILLS UINT_MAX
// The first row of the caller's with parameters for a kernel of CLBlast on this device, or NULL.
const int *cla_planner_clblast_row(const clattn_context *context, int kernel);
// The input for a projection; what was measured of them is added by src/layer.
plan_input cla_planner_linear_input(const clattn_context *context);
#endif
