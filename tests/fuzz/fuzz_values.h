/* fuzz_values.h: the numbers, sizes and types from which the API's fuzzer makes calls. */
#ifndef CLATTN_TESTS_FUZZ_VALUES_H
#define CLATTN_TESTS_FUZZ_VALUES_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Small numbers, and numbers around powers of two where something could overflow. */
int64_t fuzz_number(fuzz_bytes *b);
/* Also infinities, NaN, and numbers that a float does not hold. */
double fuzz_real(fuzz_bytes *b);
/* Usually f32: each type compiles kernels of its own. */
clattn_type fuzz_float_type(fuzz_bytes *b);

/* The sizes of a call, from which all its shapes are made. Sometimes one or two of them have any
 * value. */
typedef struct fuzz_sizes {
    int64_t batch, kv_heads, heads, n_q, n_kv, d, dv;
    bool repeats; /* inputs have strides of 0, so that any size fits a buffer */
} fuzz_sizes;
fuzz_sizes fuzz_letters(fuzz_bytes *b);

#endif
