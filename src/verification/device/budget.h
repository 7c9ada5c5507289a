// budget.h: the error budget that decides if a result is accurate enough.
#ifndef CLATTN_VERIFICATION_DEVICE_BUDGET_H
#define CLATTN_VERIFICATION_DEVICE_BUDGET_H

#include <clattn/clattn.h>

// Compare `count` results with the exact values.
//    normalised mean squared error <= 1e-11 (f32), 1e-6 (f16), 5e-5 (bf16). An error of half a
//             step, 2^-25, of a float16 below 2^-14 is not counted. With `as_plain` the limit is
//             at least twice the error of `plain`.
//    f32:     max|got - ref| <= 2e-5 max(1, max|ref|), so that a single wrong element fails
//    16-bit:  max|got - ref| <= 2 max|plain - ref| + 2 max|((ref + 0.3) - 0.3) - ref|, with `plain`
// NaN must match NaN, and an infinity the same infinity. If all of ref is 0, all of got must be 0.
struct budget {
    const char *what;
    clattn_type type;
    const double *got, *ref, *plain; // plain may be NULL
    int64_t count;
    double max_error; // a tighter limit on |got - ref|; 0: none
    // The mean error may also be twice that of `plain`, for results that magnify earlier rounding.
    bool as_plain;
};

// False if the result is not accurate enough; `why` has one line.
bool budget_holds(const struct budget *budget, char *why, size_t size);

// |got - ref|^2 / |ref|^2; infinity if a NaN, an infinity or an unwritten element differs.
double budget_nmse(const struct budget *budget);
// The largest normalised mean squared error that is accepted for a storage type.
double budget_nmse_limit(clattn_type type);

#endif
