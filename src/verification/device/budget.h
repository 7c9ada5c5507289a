// budget.h: is a result accurate enough? An error budget, not magic numbers. Leaves out how results are made.
#ifndef CLATTN_EVIDENCE_DEVICE_BUDGET_H
#define CLATTN_EVIDENCE_DEVICE_BUDGET_H

#include <clattn/clattn.h>

// A comparison of `count` results with the exact ones.
//   normalised mean squared error <= 1e-11 (f32), 1e-6 (f16), 5e-5 (bf16); of a float16 below 2^-14 the half step of 2^-25 that
//            its storage takes is none
//            where `as_plain` asks for it, twice that of `plain`, where that is more
//   f32:     max|got - ref| <= 2e-5 max(1, max|ref|), so that one wrong element among many shows
//   16-bit:  max|got - ref| <= 2 max|plain - ref| + 2 max|((ref + 0.3) - 0.3) - ref|, where `plain` is given
// NaN must meet NaN, an infinity the same infinity, 0 in all of ref 0 in all of got.
struct budget {
    const char *what;
    clattn_type type;
    const double *got, *ref, *plain; // plain may be NULL
    int64_t count;
    double max_error; // a tighter limit on |got - ref|; 0: none
    // Whether the mean may also be twice that of `plain`: of a result that magnifies what is rounded before it.
    bool as_plain;
};

// False with one line in why[size] when the result is not good enough.
bool budget_holds(const struct budget *budget, char *why, size_t size);

// |got - ref|^2 / |ref|^2; infinity where a NaN, an infinity or an element nobody wrote is not met by its like.
double budget_nmse(const struct budget *budget);
// The largest error that is still right for a storage type.
double budget_nmse_limit(clattn_type type);

#endif
