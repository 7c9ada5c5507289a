// case_problem.h: a case as the reference takes it, and the storage types by which its results are measured.
#ifndef CLATTN_EVIDENCE_CASE_CASE_PROBLEM_H
#define CLATTN_EVIDENCE_CASE_CASE_PROBLEM_H

#include "verification/case/case_data.h"
#include "verification/reference/reference.h"

// Some rows of a result: of [B, H, Nq], or of [B, Nq] where the case projects; of gradients of keys some of [B, Hkv, Nkv]. NULL in
// its place: all.
struct case_sample {
    int64_t count;
    const int64_t *rows;
    int64_t key_count;
    const int64_t *keys;
};

// `plain` as in reference.h.
struct reference case_problem(const struct case_data *data, clattn_type plain,
                              const struct case_sample *sample);

// The storage type whose budget holds.
clattn_type case_budget_type(const struct test_case *test);
// The one that holds before any rounding of the output: of scores, weights and what is summed of them.
clattn_type case_score_type(const struct test_case *test);

#endif
