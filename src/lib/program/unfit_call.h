// unfit_call.h: the calls of a thread that can be planned again. Calls can be nested.
#ifndef CLATTN_PROGRAM_UNFIT_CALL_H
#define CLATTN_PROGRAM_UNFIT_CALL_H
#include <stdbool.h>
#include <stdint.h>

// Begin and end such a call. Outside of one, a failure is only returned, not recorded.
void cla_unfit_begin(void);
void cla_unfit_end(void);
// The call has enqueued a launch that cannot be repeated. Later failures are only returned.
void cla_unfit_fix(void);
// True if this thread is in such a call; if that call can still be planned again.
bool cla_unfit_in_call(void);
bool cla_unfit_can_plan_again(void);
// Nanoseconds that the call has waited for builds: behind.c counts them.
uint64_t *cla_unfit_waited_ns(void);
// An address that identifies this thread as the owner of its marks.
const void *cla_unfit_thread(void);
#endif
