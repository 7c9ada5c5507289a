// case_check.h: verify the result of a case. The reference is in double precision: whole if that is
// quick, otherwise of sampled rows. The error budget is in budget.h. Used by the suites, verify,
// bench and tune.
#ifndef CLATTN_VERIFICATION_CASE_CASE_CHECK_H
#define CLATTN_VERIFICATION_CASE_CASE_CHECK_H

#include "verification/case/case_run.h"
#include "verification/reference/reference.h"

// The reference result, whole or of some rows. `plain` is explained in reference.h.
struct case_result case_reference(const struct case_data *data, clattn_type plain,
                                  const struct case_sample *sample);

// Compare with the reference. False: `why` has one line. The status must be OK.
bool case_agrees(const struct case_data *data, const struct case_result *got, char *why, size_t size);

struct case_verdict {
    bool good;
    // Normalised mean squared error of out; infinity if a NaN, an infinity or an unwritten element
    // differs.
    double nmse;
    char why[256];
};

// Read back the bound arrays and compare everything, or some rows of a large case.
void case_judge(const struct case_data *data, const struct case_arrays *arrays, cl_command_queue queue,
                struct case_verdict *verdict);

#endif
