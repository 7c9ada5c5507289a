// case_gradients.h: are the gradients of a case right? Used by case_check.h.
#ifndef CLATTN_EVIDENCE_CASE_CASE_GRADIENTS_H
#define CLATTN_EVIDENCE_CASE_CASE_GRADIENTS_H

#include "verification/case/case_run.h"

// Compare the gradients in `got` with the reference's of got->out and got->lse. *nmse is that of all of them together.
//
// A sum in float32 is right to a rounding, 2^-24, of the absolute values of what it is summed of, times 4 + sqrt(terms) / 4: a few for
// each term's own arithmetic, and what a sum of so many gathers where its roundings are as often up as down (struct reference_gradients
// has those values; in plain float32, one term after the other, 1.7 was the most, Nov 2026). Of the error that is left beyond that the
// budget of forward results holds: that of float32 or of the storage type, with the plain computation in it, whose mean may be more than
// forward's where scores of turned q and k are rounded and their derivative is small (softcap). What nothing adds to is exactly 0.
bool case_gradients_agree(const struct case_data *data, const struct case_result *got,
                          const struct case_sample *sample, double *nmse, char *why, size_t size);

#endif
