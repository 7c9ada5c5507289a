// case_problem.h: a case as the reference takes it.
#ifndef CLATTN_EVIDENCE_CASE_CASE_PROBLEM_H
#define CLATTN_EVIDENCE_CASE_CASE_PROBLEM_H

#include "evidence/case/case_data.h"
#include "evidence/reference/reference.h"

// Some rows of a result: of [B, H, Nq], or of [B, Nq] where the case projects. NULL in its place: all.
struct case_sample {
    int64_t count;
    const int64_t *rows;
};

// `plain` as in reference.h.
struct reference case_problem(const struct case_data *data, clattn_type plain,
                              const struct case_sample *sample);

#endif
