// arrays.h: a tensor on the device, and its stored numbers on the host. For suites that compute the
// expected result themselves.
#ifndef CLATTN_TESTS_ARRAYS_H
#define CLATTN_TESTS_ARRAYS_H
#include <math.h>
#include <stdlib.h>

#include "verification/device/guarded.h"
#include "verification/reference/random.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"
#include "support/harness.h"

typedef struct array {
    struct guarded memory;
    double *values;
} array;

// Create a tensor of random numbers: I32 in [0, most), other types in [-most, most). `written`: the
// call also writes the tensor.
static inline array array_given(struct random *random, const struct guarded_shape *shape, double most,
                                bool written) {
    const int64_t count = guarded_shape_count(shape) * clattn_type_numbers(shape->type);
    const bool whole = shape->type == CLATTN_TYPE_I32;
    array a = {.values = reference_alloc(count + 1)};
    for (int64_t n = 0; n < count; n++) {
        const double x = random_uniform(random, whole ? 0 : -most, most);
        a.values[n] = whole ? floor(x) : storage_round(shape->type, x);
    }
    if (clattn_type_numbers(shape->type) > 1) storage_round_blocks(shape->type, a.values, count);
    a.memory = written ? guarded_in_out(harness_place(), shape, a.values)
                       : guarded_input(harness_place(), shape, a.values);
    return a;
}

static inline array array_empty(const struct guarded_shape *shape) {
    return (array){guarded_output(harness_place(), shape), reference_alloc(guarded_shape_count(shape) + 1)};
}

// An array without values is skipped.
static inline void array_release(array *a) {
    if (a->values) guarded_release(&a->memory), free(a->values);
}
#endif
