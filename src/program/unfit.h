// unfit.h: kernels that the driver of a context refused, so that plans go around them. A failure is recorded for the thread whose
// call it is, and the call is planned again (ENTRY_PLAN_AGAIN). The end of the call settles what it recorded: a call that went well
// with another kernel leaves the record to the context, and a call that failed takes it back, since no kernel was at fault.
#ifndef CLATTN_PROGRAM_UNFIT_H
#define CLATTN_PROGRAM_UNFIT_H
#include "program/program.h"
#include "program/unfit_call.h"

typedef enum unfit_step {
    UNFIT_SOURCE,
    UNFIT_BUILD,
    UNFIT_CREATE,
    UNFIT_INFO,   // the compiled kernel is asked for its limits
    UNFIT_OBJECT, // one more object of a kernel that had one: as of a launch
    UNFIT_ARGUMENT,
    UNFIT_LAUNCH,
    UNFIT_LATE, // no failure: its build goes on behind calls (behind.h)
    UNFIT_STEPS
} unfit_step;

typedef struct unfit_failure {
    const program_spec *spec;
    unfit_step step;
    const char *call; // the OpenCL function, where it is not the step's own; else NULL
    cl_int code;
    size_t work_group; // of a launch, else 0
    bool final;        // the call cannot be planned again: it fails, and the context keeps the record
    const char *log;   // the compiler's; NULL: none
    const char *
        text; // a build's: what the call fails with, as BUILD_FAILED, when no other kernel is left; NULL: by the code
} unfit_failure;

bool cla_unfit_create(clattn_context *context);
void cla_unfit_destroy(clattn_context *context);

// Read what the cache keeps of earlier processes; forget all, here and there.
void cla_unfit_load(clattn_context *context);
void cla_unfit_forget(clattn_context *context);

// Let another thread, which waits for this one, own the marks of this one.
void cla_unfit_pass(clattn_context *context, const void *thread);

// Record a failure. ENTRY_PLAN_AGAIN, or the status of the call, which has failed for good: the code tells of no kernel, or this call
// met the same failure before.
clattn_status cla_unfit_failed(clattn_context *context, const unfit_failure *f);
// Before a build: OK, or the status of a call that met the failure of this build before. `waited`: for another thread, whose failure is
// then this call's, too.
clattn_status cla_unfit_check(clattn_context *context, const program_spec *spec, bool waited);
// A launch of a call of this thread that was planned again went well.
void cla_unfit_worked(clattn_context *context, const program_spec *spec);
// A call of this thread that was planned again has ended.
void cla_unfit_settle(clattn_context *context, bool went_well);

// The build of a kernel takes longer than calls wait: plans go around it until it is ready. False: no memory to record it.
bool cla_unfit_late(clattn_context *context, const program_spec *spec);
void cla_unfit_ready(clattn_context *context, const program_spec *spec);

// A driver that clattn does not know, and that no context on this cache has used, may compile a large kernel for minutes. On such a
// driver the first call of a context takes the kernels with the least text.
void cla_unfit_begin_first(clattn_context *context);
// The first call went well, if it took such a kernel; or a call comes that compiles ahead (`any`), and takes what later calls take.
void cla_unfit_end_first(clattn_context *context, bool any);
// Whether plans may have been others before: a workspace may be that of another kernel.
bool cla_unfit_plans_changed(const clattn_context *context);

// Work-items that a group of a kernel may have, as far as launches showed it; 0: any.
uint32_t cla_unfit_group(const clattn_context *context, enum kernel_id id);

// What a plan knows of it; NULL while nothing is refused. A pure view: the text that is returned lasts as long as the context.
typedef struct unfit_list unfit_list;
const unfit_list *cla_unfit_known(const clattn_context *context);
// Why a kernel is not to be taken, or NULL. `options`, `inserted`: as a program_spec has them.
const char *cla_unfit_refusal(const unfit_list *list, enum kernel_id id, const knobs *k, const char *options,
                              const char *inserted);
// Whether any kernel of this id is not to be taken: of those that other kernels need beside them.
bool cla_unfit_has(const unfit_list *list, enum kernel_id id);
#endif
