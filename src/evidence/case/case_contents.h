// case_contents.h: hostile contents of the tensors of a case (enum case_contents). Used by case_data.c.
#ifndef CLATTN_EVIDENCE_CASE_CASE_CONTENTS_H
#define CLATTN_EVIDENCE_CASE_CASE_CONTENTS_H

#include "evidence/case/case_data.h"

void case_contents_fill(struct case_data *data);

#endif
