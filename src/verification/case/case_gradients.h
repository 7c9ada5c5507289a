// case_gradients.h: verify the gradients of a case. Used by case_check.h.
#ifndef CLATTN_VERIFICATION_CASE_CASE_GRADIENTS_H
#define CLATTN_VERIFICATION_CASE_CASE_GRADIENTS_H

#include "verification/case/case_run.h"

// Compare the gradients in `got` with the reference's gradients of got->out and got->lse. *nmse is
// of all gradients together.
//
// The error budget of a gradient has two parts:
//    1. Rounding: 2^-24 of the sum of the terms' absolute values (struct reference_gradients),
//       times 4 + sqrt(terms) / 4. Plain float32 summation needed at most 1.7.
//    2. For the error beyond that, the budget of forward results: that of float32 or of the
//       storage type, with the plain computation. The mean may be larger than forward's if
//       scores of RoPE'd q and k are rounded and their derivative is small (softcap).
// A gradient to which nothing is added must be exactly 0.
bool case_gradients_agree(const struct case_data *data, const struct case_result *got,
                          const struct case_sample *sample, double *nmse, char *why, size_t size);

#endif
