// case_backward.h: the gradients of an attention case on the device. Binding runs the forward call,
// which computes out and lse. case_gradients.h has the verdict.
#ifndef CLATTN_VERIFICATION_CASE_CASE_BACKWARD_H
#define CLATTN_VERIFICATION_CASE_CASE_BACKWARD_H

#include "verification/case/case_run.h"

// Run the forward call of bound arrays and set up `backward`. From then on out and lse are inputs.
void case_backward_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// Enqueue the backward call. Returns the forward call's status if that failed.
clattn_status case_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                    const struct case_arrays *arrays, cl_event *event);

#endif
