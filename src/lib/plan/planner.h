// planner.h: what a context keeps for planning: the caller's rows and the library's. The planner itself is a pure
// function (variant.h); this makes its input.
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
    plan_input input;                      // of a projection, and what every other starts from
    atomic_uint group_limit[KERNEL_COUNT]; // 0: not known
    atomic_uint own_local[KERNEL_COUNT];   // bytes of local memory that the driver takes besides
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
// What a plan counted on: work-items of a group, 0: any; sums of a work-item, 0: none that count; bytes of local memory of a group.
typedef struct planned_group {
    int items, sums;
    size_t local_bytes;
} planned_group;

// The compiled kernel. ENTRY_PLAN_AGAIN: it allows fewer work-items, takes more local memory, or spills registers that the plan
// counted on, and plans from now on know it.
clattn_status cla_planner_program(clattn_context *context, const program_spec *spec, const planned_group *g,
                                  program **p);
// The first row of the caller's with parameters for a kernel of CLBlast on this device, or NULL.
const int *cla_planner_clblast_row(const clattn_context *context, int kernel);
// Numbers that a work-item of a kernel which only moves or adds them has in a vector: the knob LANES.
int cla_planner_lanes(const clattn_context *context);
// The input for a projection; what was measured of them is added by src/lib/layer.
plan_input cla_planner_linear_input(const clattn_context *context);
#endif
