/* fuzz_values.h: the numbers, sizes and types that the API's fuzzer makes calls from. */
#ifndef CLATTN_TESTS_FUZZ_VALUES_H
#define CLATTN_TESTS_FUZZ_VALUES_H

#include "fuzz/fuzz.h"

#include <clattn/clattn.h>

/* Small numbers, and those around a power of two where something could wrap. */
int64_t fuzz_number(fuzz_bytes *b);
/* Also infinities, NaN, and what a float does not hold. */
double fuzz_real(fuzz_bytes *b);
/* f32 most often: each type compiles kernels of its own. */
clattn_type fuzz_float_type(fuzz_bytes *b);

/* The sizes of a call, which all its shapes are made from; now and then one or two of them may be anything. */
typedef struct fuzz_sizes {
    int64_t batch, kv_heads, heads, n_q, n_kv, d, dv;
    bool repeats; /* inputs have strides of 0, so that any size fits into a buffer */
} fuzz_sizes;
fuzz_sizes fuzz_letters(fuzz_bytes *b);

#endif
