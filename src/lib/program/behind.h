// behind.h: builds that go on behind calls: compile_limit_ms of clattn_context_params. Such a build runs in a thread of its own. A call
// that has waited for the limit is planned again without the kernel. The build's end makes the kernel available to later calls.
#ifndef CLATTN_PROGRAM_BEHIND_H
#define CLATTN_PROGRAM_BEHIND_H
#include "program/program.h"

// The call that a build runs for, while that call waits.
typedef struct build_wait {
    const void *thread;   // cla_unfit_thread
    clattn_status status; // of the build, once it is over
    bool over;
} build_wait;

// Whether a build of the running call may go on behind it.
bool cla_behind_applies(const clattn_context *context, const program_spec *spec);
// Builds a listed program and announces the end; where it fails, or has before (`status`), it is taken off the list and released. *passed:
// a call that waited has the failure.
typedef clattn_status behind_builder(clattn_context *context, program *p, clattn_status status, bool *passed);
// Start the build of p, which this thread has listed as being built, and wait as cla_behind_wait does. False: no thread could start, and
// the caller builds it.
bool cla_behind_build(clattn_context *context, program *p, const program_spec *spec, behind_builder *build,
                      clattn_status *status);
// Wait for a build. OK: it is over, and the program is listed if it was built. ENTRY_PLAN_AGAIN: the call goes on without it, or the
// driver refused it. Else the status of the failure. The caller holds program_lock.
clattn_status cla_behind_wait(clattn_context *context, const program_spec *spec);
// A build of p is over, in any thread: pass its end to the call that waits, and let later calls plan with it. True: a call that waited
// has the status, and the marks of a failure. The caller holds program_lock.
bool cla_behind_over(clattn_context *context, program *p, clattn_status status);
// Builds that go on. The caller holds program_lock.
uint64_t cla_behind_running(const clattn_context *context);
// Wait until all have ended.
void cla_behind_finish(clattn_context *context);
#endif
