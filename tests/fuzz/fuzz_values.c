/* fuzz_values.c: see fuzz_values.h. */
#include "fuzz/fuzz_values.h"

#include <math.h>

int64_t fuzz_number(fuzz_bytes *b) {
    static const int32_t near[] = {
        0, 1, -1, 2, 3, 5, 8, 16, 33, 64, 255, 256, 4096, 65536, INT32_MAX - 65536};
    static const int powers[] = {16, 28, 30, 31, 32, 33, 40, 58, 59, 60, 61, 62, 63};
    enum { NEAR = sizeof near / sizeof near[0], POWERS = sizeof powers / sizeof powers[0] };
    const int chosen = fuzz_byte(b), power = chosen - NEAR;
    if (chosen < NEAR) return near[chosen];
    if (power < 3 * POWERS) return (int64_t)((UINT64_C(1) << powers[power / 3]) + (uint64_t)(power % 3) - 1);
    return chosen < 128 ? chosen - 64 : (int64_t)chosen * fuzz_byte(b) - 16384;
}

double fuzz_real(fuzz_bytes *b) {
    static const double reals[] = {0.0, 1.0, -1.0, 0.5, 30.0, 1e-3, 1e30, 1e-45, 3e38, -0.0, 1e300, 1e-300};
    const int chosen = fuzz_below(b, 16);
    return chosen < 12    ? reals[chosen]
           : chosen == 12 ? (double)NAN
           : chosen == 13 ? (double)INFINITY
           : chosen == 14 ? -(double)INFINITY
                          : fuzz_byte(b);
}

static int small(fuzz_bytes *b) {
    static const int sizes[] = {1, 2, 3, 5, 8, 17, 33, 4};
    return sizes[fuzz_below(b, 8)];
}

static int head_size(fuzz_bytes *b) {
    static const int sizes[] = {8, 8, 8, 8, 8, 16, 8, 3};
    return sizes[fuzz_below(b, 8)];
}

clattn_type fuzz_float_type(fuzz_bytes *b) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F32, CLATTN_TYPE_F32,
                                        CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16};
    return types[fuzz_below(b, 6)];
}

fuzz_sizes fuzz_letters(fuzz_bytes *b) {
    fuzz_sizes l = {.batch = 1 + fuzz_below(b, 2), .kv_heads = 1 + fuzz_below(b, 2)};
    l.heads = l.kv_heads * (1 + fuzz_below(b, 2));
    l.n_q = small(b), l.n_kv = small(b), l.d = head_size(b), l.dv = fuzz_below(b, 4) ? l.d : head_size(b);
    const int extremes = fuzz_below(b, 8) - 4;
    int64_t *const all[] = {&l.batch, &l.kv_heads, &l.heads, &l.n_q, &l.n_kv, &l.d, &l.dv};
    l.repeats = extremes > 0;
    for (int i = 0; i < extremes; i++) *all[fuzz_below(b, 7)] = fuzz_number(b);
    return l;
}
