// behind.h: builds that continue behind calls (compile_limit_ms of clattn_context_params). Such a
// build runs in a thread of its own. After the limit, the waiting call is planned again without the
// kernel. Later calls can use the kernel when the build has ended.
#ifndef CLATTN_PROGRAM_BEHIND_H
#define CLATTN_PROGRAM_BEHIND_H
#include "program/program.h"

// The call that a build runs for, while that call waits.
typedef struct build_wait {
    const void *thread;   // cla_unfit_thread
    clattn_status status; // status of the build, once it has ended
    bool over;
} build_wait;

// True if a build for the running call may continue behind it.
bool cla_behind_applies(const clattn_context *context, const program_spec *spec);
// Build a listed program and announce the end. After a failure, now or before (`status`), the
// program is removed from the list and released. *passed: a waiting call has received the failure.
typedef clattn_status behind_builder(clattn_context *context, program *p, clattn_status status, bool *passed);
// Start the build of p, which this thread has listed as `building`, and wait as cla_behind_wait
// does. False: no thread could start, and the caller must build.
bool cla_behind_build(clattn_context *context, program *p, const program_spec *spec, behind_builder *build,
                      clattn_status *status);
// Wait for a build. OK: the build has ended, and a built program is listed. ENTRY_PLAN_AGAIN: the
// call continues without it, or the driver refused it. Else the status of the failure. The caller
// holds program_lock.
clattn_status cla_behind_wait(clattn_context *context, const program_spec *spec);
// After a build of p, in any thread: wake the waiting call, and let later calls plan with p. True:
// a waiting call has received the status, and the marks of a failure. The caller holds
// program_lock.
bool cla_behind_over(clattn_context *context, program *p, clattn_status status);
// The number of running builds. The caller holds program_lock.
uint64_t cla_behind_running(const clattn_context *context);
// Wait until all builds have ended.
void cla_behind_finish(clattn_context *context);
#endif
