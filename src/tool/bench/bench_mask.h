// bench_mask.h: the boolean mask of a case that is timed, where chance would say nothing: one that keeps all, or documents
// packed in one sequence, as a mask or as a mask_mod. Used by bench_call.c for bench_options.c.
#ifndef CLATTN_TOOL_BENCH_BENCH_MASK_H
#define CLATTN_TOOL_BENCH_BENCH_MASK_H
#include "evidence/case/case_run.h"

typedef enum bench_mask {
    BENCH_MASK_RANDOM = 0,   // what the case says
    BENCH_MASK_KEPT,         // all
    BENCH_MASK_DOCUMENTS,    // each row and key is of one of five documents of several lengths
    BENCH_MASK_DOCUMENTS_MOD // the same, said by CLATTN_MASK_MOD_DOCUMENT in place of the mask
} bench_mask;

// Whether the host holds such a mask whole; else one line that says why not.
bool bench_mask_fits(const struct test_case *test, bench_mask how, char why[256]);
// In the inputs of a case with a mask [Nq, Nkv], before it is bound; and in the call, after it.
void bench_mask_fill(struct case_data *data, bench_mask how);
void bench_mask_bind(const struct case_data *data, struct place *place, struct case_arrays *arrays,
                     bench_mask how);

// Pairs of row and key, of all batch items and one head, that the case sees.
double bench_mask_pairs(const struct case_data *data, bench_mask how);

#endif
