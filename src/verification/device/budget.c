// budget.c: the error budget of every numeric comparison. Tighter absolute tolerances are the
// caller's (max_error). Used by the case runner and the suites.
#include "verification/device/budget.h"

#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

#include <math.h>
#include <stdio.h>

struct errors {
    double squares, plain_squares, norm, largest, ref_largest, plain_largest, grid_largest;
};

double budget_nmse_limit(clattn_type type) {
    if (type == CLATTN_TYPE_F16) return 1e-6;
    return type == CLATTN_TYPE_BF16 ? 5e-5 : 1e-11;
}

// Values that cannot be subtracted: both results must be equal.
static bool special(double ref) {
    return isnan(ref) || isinf(ref) || ref == REFERENCE_UNTOUCHED;
}

static bool alike(double got, double ref) {
    return isnan(ref) ? isnan(got) : got == ref;
}

// The coarseness of a type at a value: the error of a step by 0.3 and back.
static double grid_error(clattn_type type, double ref) {
    double moved = storage_round(type, storage_round(type, ref) + 0.3);
    return fabs(storage_round(type, moved - 0.3) - ref);
}

// The error beyond float16's subnormal spacing of 2^-24: even the nearest stored value may be off
// by half a step.
static double beyond_storage(clattn_type type, double error, double ref) {
    const bool subnormal = type == CLATTN_TYPE_F16 && ref != 0 && fabs(ref) < ldexp(1, -14);
    return subnormal ? fmax(0, error - ldexp(1, -25)) : error;
}

static void add(struct errors *e, const struct budget *b, int64_t n) {
    const double error = fabs(b->got[n] - b->ref[n]), beyond = beyond_storage(b->type, error, b->ref[n]);
    e->squares += beyond * beyond;
    e->norm += b->ref[n] * b->ref[n];
    e->largest = fmax(e->largest, error);
    e->ref_largest = fmax(e->ref_largest, fabs(b->ref[n]));
    const double plain = b->plain != NULL ? b->plain[n] - b->ref[n] : 0;
    e->plain_squares += plain * plain;
    if (b->plain != NULL) e->plain_largest = fmax(e->plain_largest, fabs(b->plain[n] - b->ref[n]));
    e->grid_largest = fmax(e->grid_largest, grid_error(b->type, b->ref[n]));
}

static double largest_allowed(const struct budget *b, const struct errors *e) {
    double limit = (double)INFINITY;
    if (b->type == CLATTN_TYPE_F32)
        limit = 2e-5 * fmax(1.0, e->ref_largest);
    else if (b->plain != NULL)
        limit = 2 * e->plain_largest + 2 * e->grid_largest;
    return b->max_error > 0 ? fmin(limit, b->max_error) : limit;
}

bool budget_holds(const struct budget *b, char *why, size_t size) {
    struct errors e = {0};
    for (int64_t n = 0; n < b->count; n++) {
        double got = b->got[n], ref = b->ref[n];
        if (ref == REFERENCE_ANY) continue;
        if ((special(ref) || special(got)) && !alike(got, ref)) {
            snprintf(why, size, "%s[%lld] is %.9g%s, should be %.9g%s", b->what, (long long)n, got,
                     got == STORAGE_UNTOUCHED ? " (not written)" : "", ref,
                     ref == REFERENCE_UNTOUCHED ? " (left alone)" : "");
            return false;
        }
        if (!special(ref)) add(&e, b, n);
    }
    const double nmse = e.squares == 0 ? 0 : e.squares / e.norm, limit = largest_allowed(b, &e),
                 plain = b->as_plain && b->plain && e.norm > 0 ? 2 * e.plain_squares / e.norm : 0,
                 nmse_limit = fmax(budget_nmse_limit(b->type), plain);
    if (nmse <= nmse_limit && e.largest <= limit) return true;
    snprintf(why, size, "%s: nmse %.3g (limit %.3g), largest error %.3g (limit %.3g), largest value %.3g",
             b->what, nmse, nmse_limit, e.largest, limit, e.ref_largest);
    return false;
}

double budget_nmse(const struct budget *b) {
    double squares = 0, norm = 0;
    for (int64_t n = 0; n < b->count; n++) {
        const double got = b->got[n], ref = b->ref[n];
        if (ref == REFERENCE_ANY) continue;
        if (special(ref) || special(got)) {
            if (!alike(got, ref)) return (double)INFINITY;
            continue;
        }
        squares += (got - ref) * (got - ref);
        norm += ref * ref;
    }
    return norm > 0 ? squares / norm : squares;
}
