// reference_backward.h: the gradients of an attention call in double precision with plain loops, by
// the formulas of clattn/backward.h. Supports every option with a gradient; expressions are
// replaced by equal options. Used by the verdict of cases and by suites.
#ifndef CLATTN_VERIFICATION_REFERENCE_REFERENCE_BACKWARD_H
#define CLATTN_VERIFICATION_REFERENCE_REFERENCE_BACKWARD_H

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
    // The call, without past rows and pages. Its `rows` are those of dq. With `plain`, an unfused
    // computation in that type is modelled: it rounds RoPE'd q and k, p, the scores' gradients, and
    // dq, dk and dv.
    struct reference forward;
    const int64_t *keys; // rows of dk and dv as indices of [B, Hkv, Nkv]; NULL: all, in order
    int64_t key_count;
    const double *out, *lse; // forward's results for all rows, [B, H, Nq, Dv] and [B, H, Nq]
    // derivatives, with the shapes of out and lse; NULL: 0. dout repeats with forward.period
    const double *dout, *dlse;
};

// Dense results; each may be NULL. dbias has the bias's shape. `size` is the scale of an element's
// rounding error: the sum of the absolute values of all added terms, each multiplied by the factor
// by which it magnifies relative errors.
struct reference_gradients {
    double *x[GRADIENTS], *size[GRADIENTS];
};

// Overwrite the results. With `rows` and `keys`, only dq, dk and dv are computed.
void reference_backward(const struct reference_backward *problem, const struct reference_gradients *to);

// The number of elements of a gradient of the whole problem.
int64_t reference_gradient_count(const struct reference *forward, int gradient);

#endif
