// case_sinks.h: the sink logits of a case in a buffer, in place of an array of the host.
#ifndef CLATTN_EVIDENCE_CASE_CASE_SINKS_H
#define CLATTN_EVIDENCE_CASE_CASE_SINKS_H

#include "evidence/case/case_run.h"

void case_sinks_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays);

#endif
