/* fuzz_values.h: the numbers, sizes and types in calls of the API's fuzzer. */
#ifndef CLATTN_TESTS_FUZZ_VALUES_H
#define CLATTN_TESTS_FUZZ_VALUES_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Small numbers, and numbers near a power of two, where arithmetic could overflow. */
int64_t fuzz_number(fuzz_bytes *b);
/* Also infinities, NaN, and numbers outside a float's range. */
double fuzz_real(fuzz_bytes *b);
/* Mostly f32, because each type compiles its own kernels. */
clattn_type fuzz_float_type(fuzz_bytes *b);

/* The sizes of a call, from which all shapes are built. Now and then one or two of them are
 * arbitrary. */
typedef struct fuzz_sizes {
    int64_t batch, kv_heads, heads, n_q, n_kv, d, dv;
    bool repeats; /* inputs have strides of 0, so that any size fits */
} fuzz_sizes;
fuzz_sizes fuzz_letters(fuzz_bytes *b);

#endif
