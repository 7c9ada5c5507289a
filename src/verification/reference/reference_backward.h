// reference_backward.h: the gradients of an attention call in double precision and plain loops, by the formulas of
// clattn/backward.h, with every option that has one. Leaves out expressions: what a case says by them is an option here. Used by
// the judgement of cases and by suites.
#ifndef CLATTN_EVIDENCE_REFERENCE_REFERENCE_BACKWARD_H
#define CLATTN_EVIDENCE_REFERENCE_REFERENCE_BACKWARD_H

#include "verification/reference/reference.h"

enum {
    GRADIENT_Q,
    GRADIENT_K,
    GRADIENT_V,
    GRADIENT_BIAS,
    GRADIENT_SINKS,
    GRADIENT_SLOPES, // of ALiBi
    GRADIENT_SCALES, // of heads
    GRADIENTS
};

struct reference_backward {
    // The call without past rows and pages. Its `rows` are those of dq, one behind the other. With `plain` set, turned q and k, p and
    // the gradient of a score round where an unfused computation in that type stores them, and dq, dk and dv as it stores those.
    struct reference forward;
    const int64_t *keys; // of dk and dv: numbers of [B, Hkv, Nkv]; NULL: all, in order
    int64_t key_count;
    const double *out, *lse;   // of all rows [B, H, Nq, Dv] and [B, H, Nq]: what the forward call wrote
    const double *dout, *dlse; // of the same shapes; NULL: 0. dout repeats with forward.period
};

// Dense results; each may be NULL. dbias has an element where the bias has one. `size` of a result is by what its rounding is
// measured: the sum of the absolute values of all that is added, each multiplied by how much what it is made of magnifies a
// relative error.
struct reference_gradients {
    double *x[GRADIENTS], *size[GRADIENTS];
};

// Results are overwritten; of some rows and keys alone dq, dk and dv.
void reference_backward(const struct reference_backward *problem, const struct reference_gradients *to);

// Elements of a gradient of the whole problem.
int64_t reference_gradient_count(const struct reference *forward, int gradient);

#endif
