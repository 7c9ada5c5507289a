// case_problem.h: convert a case to the reference's problem, and select the storage types for its
// error budget.
#ifndef CLATTN_VERIFICATION_CASE_CASE_PROBLEM_H
#define CLATTN_VERIFICATION_CASE_CASE_PROBLEM_H

#include "verification/case/case_data.h"
#include "verification/reference/reference.h"

// Some rows of a result: of [B, H, Nq], or of [B, Nq] if the case projects. For gradients also some
// keys of [B, Hkv, Nkv]. A NULL pointer to a sample means all.
struct case_sample {
    int64_t count;
    const int64_t *rows;
    int64_t key_count;
    const int64_t *keys;
};

// `plain` is explained in reference.h.
struct reference case_problem(const struct case_data *data, clattn_type plain,
                              const struct case_sample *sample);

// The storage type whose budget applies to the output.
clattn_type case_budget_type(const struct test_case *test);
// As case_budget_type, before the output is rounded: for scores, weights and their sums.
clattn_type case_score_type(const struct test_case *test);

#endif
