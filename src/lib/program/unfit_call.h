// unfit_call.h: the calls of a thread that can be planned again, one in another.
#ifndef CLATTN_PROGRAM_UNFIT_CALL_H
#define CLATTN_PROGRAM_UNFIT_CALL_H
#include <stdbool.h>
#include <stdint.h>

// Such a call begins, and ends. Outside of one a failure is its status, and leaves no record.
void cla_unfit_begin(void);
void cla_unfit_end(void);
// The call has enqueued what it cannot repeat: from now on a failure is its status.
void cla_unfit_fix(void);
// Whether this thread is in a call, and whether that can still be planned again.
bool cla_unfit_in_call(void);
bool cla_unfit_can_plan_again(void);
// Nanoseconds that the call has waited for builds: behind.c counts them.
uint64_t *cla_unfit_waited_ns(void);
// What names this thread as the owner of its marks.
const void *cla_unfit_thread(void);
#endif
