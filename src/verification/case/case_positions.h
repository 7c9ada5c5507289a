// case_positions.h: explicit positions of a case's RoPE, made from its seed: of rows, and of keys where they have their own;
// three axes of them where the case has sections.
#ifndef CLATTN_EVIDENCE_CASE_CASE_POSITIONS_H
#define CLATTN_EVIDENCE_CASE_CASE_POSITIONS_H

#include "verification/case/case_run.h"

void case_positions_make(struct case_data *data);
// Put them on the device and into the call.
void case_positions_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                         clattn_rope *rope);

#endif
