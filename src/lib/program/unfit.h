// unfit.h: kernels that the context's driver refused, so that plans avoid them. A failure is
// recorded for the calling thread, and its call is planned again (ENTRY_PLAN_AGAIN). The end of the
// call settles the record. If the call succeeded with another kernel, the context keeps the record.
// If the call failed, the record is dropped, because the kernel was not at fault.
#ifndef CLATTN_PROGRAM_UNFIT_H
#define CLATTN_PROGRAM_UNFIT_H
#include "program/program.h"
#include "program/unfit_call.h"

typedef enum unfit_step {
    UNFIT_SOURCE,
    UNFIT_BUILD,
    UNFIT_CREATE,
    UNFIT_INFO,   // query the compiled kernel's limits
    UNFIT_OBJECT, // create a further kernel object: treated as a failed launch
    UNFIT_ARGUMENT,
    UNFIT_LAUNCH,
    UNFIT_LATE, // not a failure: the build continues behind calls (behind.h)
    UNFIT_STEPS
} unfit_step;

typedef struct unfit_failure {
    const program_spec *spec;
    unfit_step step;
    const char *call; // the OpenCL function, if it is not the step's usual one; else NULL
    cl_int code;
    size_t work_group; // work-items per group of a launch, else 0
    bool final;        // the call cannot be planned again and fails; the context keeps the record
    const char *log;   // from the compiler; NULL: none
    // The message for BUILD_FAILED if no other kernel is left. NULL: derived from `code`.
    const char *text;
} unfit_failure;

bool cla_unfit_create(clattn_context *context);
void cla_unfit_destroy(clattn_context *context);

// Load the cached record of earlier processes. Clear the record, here and in the cache.
void cla_unfit_load(clattn_context *context);
void cla_unfit_forget(clattn_context *context);

// Let another thread, which waits for this one, own the marks of this one.
void cla_unfit_pass(clattn_context *context, const void *thread);

// Record a failure. Returns ENTRY_PLAN_AGAIN. Returns the call's final status if the error code is
// not about the kernel, or if this call has already recorded the same failure.
clattn_status cla_unfit_failed(clattn_context *context, const unfit_failure *f);
// Call this before a build. Returns OK, or the failure that this call met in the same build.
// `waited`: the thread waited for another thread's build, whose failure also counts for this call.
clattn_status cla_unfit_check(clattn_context *context, const program_spec *spec, bool waited);
// A launch of a repeated call of this thread succeeded.
void cla_unfit_worked(clattn_context *context, const program_spec *spec);
// A repeated call of this thread has ended.
void cla_unfit_settle(clattn_context *context, bool went_well);

// The build of a kernel exceeds the time that calls wait: plans avoid it until it is ready. False:
// no memory to record it.
bool cla_unfit_late(clattn_context *context, const program_spec *spec);
void cla_unfit_ready(clattn_context *context, const program_spec *spec);

// An unknown driver, which no context with this cache has used, may compile a large kernel for
// minutes. On such a driver the first call of a context uses the kernels with the least text.
void cla_unfit_begin_first(clattn_context *context);
// End this state: the first call succeeded with such a kernel, or a call compiles ahead (`any`).
void cla_unfit_end_first(clattn_context *context, bool any);
// True if earlier plans may differ: a workspace may have the size for another kernel.
bool cla_unfit_plans_changed(const clattn_context *context);

// The largest work-group of a kernel that failed launches leave. 0: no limit.
uint32_t cla_unfit_group(const clattn_context *context, enum kernel_id id);

// A planner's read-only view of the record. NULL: no kernel was refused. Returned texts live as
// long as the context.
typedef struct unfit_list unfit_list;
const unfit_list *cla_unfit_known(const clattn_context *context);
// Why a plan must not use this kernel, or NULL. `options`, `inserted`: as in program_spec.
const char *cla_unfit_refusal(const unfit_list *list, enum kernel_id id, const knobs *k, const char *options,
                              const char *inserted);
// True if a kernel of this id must not be used. For kernels that other kernels depend on.
bool cla_unfit_has(const unfit_list *list, enum kernel_id id);
#endif
