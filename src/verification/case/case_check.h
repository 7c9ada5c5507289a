// case_check.h: is the result of a case right? Its reference in double precision, whole where that is quick and of
// sampled rows where it is not, and the error budget. Used by the suites, verify, bench and tune.
#ifndef CLATTN_EVIDENCE_CASE_CASE_CHECK_H
#define CLATTN_EVIDENCE_CASE_CASE_CHECK_H

#include "verification/case/case_run.h"
#include "verification/reference/reference.h"

// The right result, whole or some rows; `plain` as in reference.h.
struct case_result case_reference(const struct case_data *data, clattn_type plain,
                                  const struct case_sample *sample);

// Compare with the reference; false with one line in why[size]. The status must be OK.
bool case_agrees(const struct case_data *data, const struct case_result *got, char *why, size_t size);

struct case_verdict {
    bool good;
    double nmse; // of out: normalised mean squared error; infinity where a special value is wrong
    char why[256];
};

// Read back and compare what bound arrays hold: everything, or some rows of a large case.
void case_judge(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                struct case_verdict *verdict);

#endif
