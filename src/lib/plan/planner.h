// planner.h: the planning state of a context: tuned rows, and limits learned from compiled kernels.
// The planner itself is a pure function (variant.h); this file prepares its input.
#ifndef CLATTN_PLAN_PLANNER_H
#define CLATTN_PLAN_PLANNER_H
#include <limits.h>
#include <stdatomic.h>

#include "plan/variant.h"
#include "probe/probe.h"
#include "program/program.h"

#define PLANNER_FEW_SUMS 48
#define PLANNER_NO_SPILLS UINT_MAX

struct planner {
    tuned_rows own, shipped;
    plan_input input;                      // for projections, and the base of all other inputs
    atomic_uint group_limit[KERNEL_COUNT]; // largest work-group seen; 0: not known
    atomic_uint own_local[KERNEL_COUNT];   // bytes of local memory that the driver adds
    atomic_uint spilled_sums;              // see plan_input; 0: not known; or PLANNER_NO_SPILLS
};

// Parse the caller's tuned rows (NULL: none) and the shipped ones. On INVALID_ARGUMENT and
// OUT_OF_MEMORY, why[256] has the reason.
clattn_status cla_planner_create(clattn_context *context, const char *own_rows, char why[256]);
void cla_planner_destroy(clattn_context *context);

// Planner input for an attention call. Runs the probes that matter for the call's types.
plan_input cla_planner_input(clattn_context *context, const problem *p);
// True if a plan may depend on the alignment of rows. The CPU kernels do not, unless a tuned row of
// the caller names another kernel.
bool cla_planner_asks_alignment(const clattn_context *context);
// Assumptions of a plan about its kernel: work-items per group (0: any), accumulators per work-item
// (0: not checked), local memory per group.
typedef struct planned_group {
    int items, sums;
    size_t local_bytes;
} planned_group;

// Compile a kernel and compare it with the plan's assumptions. ENTRY_PLAN_AGAIN: the kernel permits
// smaller groups, needs more local memory, or spills registers. Later plans use what was learned.
clattn_status cla_planner_program(clattn_context *context, const program_spec *spec, const planned_group *g,
                                  program **p);
// The caller's first tuned row for this CLBlast kernel on this device, or NULL.
const int *cla_planner_clblast_row(const clattn_context *context, int kernel);
// Vector width (knob LANES) for kernels that only copy or add numbers.
int cla_planner_lanes(const clattn_context *context);
// Planner input for a projection. src/lib/layer adds measurements to it.
plan_input cla_planner_linear_input(const clattn_context *context);
#endif
