// case_positions.h: explicit RoPE positions of a case, generated from its seed: of rows, and of
// keys if they have their own. A case with sections has three axes of positions.
#ifndef CLATTN_VERIFICATION_CASE_CASE_POSITIONS_H
#define CLATTN_VERIFICATION_CASE_CASE_POSITIONS_H

#include "verification/case/case_run.h"

void case_positions_make(struct case_data *data);
// Bind the positions and set them in the call.
void case_positions_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                         clattn_rope *rope);

#endif
