// case_backward.h: the gradients of an attention case on the device: the forward call, which makes out and lse when the case is bound,
// and the call itself. Leaves out the judgement (case_gradients.h).
#ifndef CLATTN_EVIDENCE_CASE_CASE_BACKWARD_H
#define CLATTN_EVIDENCE_CASE_CASE_BACKWARD_H

#include "verification/case/case_run.h"

// Run the forward call of bound arrays, and make `backward` of it; from then on out and lse are inputs.
void case_backward_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);
// Where the forward call failed, its status.
clattn_status case_backward_enqueue(clattn_context *context, cl_command_queue queue,
                                    const struct case_arrays *arrays, cl_event *event);

#endif
