// storage.c: f32, f16, bf16 and bool elements on the host. Rounding goes from double straight to the type, so
// there is no double rounding. Leaves out everything about buffers (guarded.c). Called by the reference and
// the cases.
#include "evidence/reference/storage.h"

#include <math.h>
#include <string.h>

#define POISON_F32 0x7fc5a5a5u
#define POISON_F16 0x7e5au
#define POISON_BF16 0x7fdau
#define POISON_BOOL 0xffu

static double round_to(double x, int bits, int min_exponent, double largest) {
    if (isnan(x) || isinf(x) || x == 0) return x;
    int exponent = ilogb(x);
    if (exponent < min_exponent) exponent = min_exponent;
    double unit = ldexp(1.0, exponent - bits);
    double y = nearbyint(x / unit) * unit;
    return fabs(y) > largest ? copysign((double)INFINITY, x) : y;
}

// OFP8 1.0: e4m3 has no infinity, and its largest number has all bits of the exponent.
static double f8_round(clattn_type type, double x) {
    return type == CLATTN_TYPE_F8E4M3 ? round_to(x, 3, -6, 448.0) : round_to(x, 2, -14, 57344.0);
}

static uint8_t f8_bits(clattn_type type, double x) {
    const int mantissa = type == CLATTN_TYPE_F8E4M3 ? 3 : 2, least = type == CLATTN_TYPE_F8E4M3 ? -6 : -14;
    const double y = fabs(f8_round(type, x));
    const uint8_t sign = signbit(x) ? 0x80u : 0u;
    if (!isfinite(y)) return type == CLATTN_TYPE_F8E4M3 || isnan(y) ? 0x7fu : (uint8_t)(sign | 0x7cu);
    const int exponent = y > 0 && ilogb(y) > least ? ilogb(y) : least;
    return (uint8_t)(sign | (((exponent - least) << mantissa) + (int)ldexp(y, mantissa - exponent)));
}

static double f8_value(clattn_type type, uint8_t bits) {
    const int mantissa = type == CLATTN_TYPE_F8E4M3 ? 3 : 2, least = type == CLATTN_TYPE_F8E4M3 ? -6 : -14;
    const int exponent = (bits & 0x7f) >> mantissa, part = bits & ((1 << mantissa) - 1);
    double y = ldexp(exponent > 0 ? part + (1 << mantissa) : part,
                     least - mantissa + (exponent > 0 ? exponent - 1 : 0));
    if (type == CLATTN_TYPE_F8E4M3 ? (bits & 0x7f) == 0x7f : exponent == 31)
        y = type == CLATTN_TYPE_F8E5M2 && part == 0 ? (double)INFINITY : (double)NAN;
    return bits & 0x80 ? -y : y;
}

double storage_largest(clattn_type type) {
    return type == CLATTN_TYPE_F8E4M3 ? 448.0 : type == CLATTN_TYPE_F8E5M2 ? 57344.0 : 127.0;
}

double storage_unscaled(clattn_type type, double x) {
    const double largest = storage_largest(type),
                 y = type == CLATTN_TYPE_I8 ? nearbyint(x) : f8_round(type, x);
    return fmin(fmax(y, -largest), largest);
}

double storage_round(clattn_type type, double x) {
    if (CLATTN_TYPE_IS_SCALED(type)) return x; // the scale of its row decides: case_kv.c
    if (type == CLATTN_TYPE_I32) return nearbyint(x);
    if (type == CLATTN_TYPE_F16) return round_to(x, 10, -14, 65504.0);
    if (type == CLATTN_TYPE_BF16) return round_to(x, 7, -126, ldexp(255.0, 120));
    if (type == CLATTN_TYPE_F32) return (double)(float)x;
    return x != 0 ? 1.0 : 0.0;
}

static uint16_t half_bits(double x) {
    unsigned sign = signbit(x) ? 0x8000u : 0u;
    double y = fabs(storage_round(CLATTN_TYPE_F16, x));
    if (isnan(y)) return 0x7e00u;
    if (isinf(y)) return (uint16_t)(sign | 0x7c00u);
    if (y < ldexp(1.0, -14)) return (uint16_t)(sign | (unsigned)ldexp(y, 24));
    int exponent = ilogb(y);
    unsigned mantissa = (unsigned)(ldexp(y, 10 - exponent) - 1024.0);
    return (uint16_t)(sign | (unsigned)(exponent + 15) << 10 | mantissa);
}

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 1023, y;
    if (exponent == 31) {
        y = mantissa != 0 ? (double)NAN : (double)INFINITY;
    } else {
        y = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024.0 + mantissa, exponent - 25);
    }
    return bits & 0x8000 ? -y : y;
}

static double float_value(uint32_t bits) {
    float y;
    memcpy(&y, &bits, sizeof y);
    return (double)y;
}

double storage_load(clattn_type type, const void *base, int64_t index) {
    if (type == CLATTN_TYPE_F32) {
        uint32_t bits = ((const uint32_t *)base)[index];
        return bits == POISON_F32 ? STORAGE_UNTOUCHED : float_value(bits);
    }
    if (type == CLATTN_TYPE_BOOL) return ((const uint8_t *)base)[index];
    if (type == CLATTN_TYPE_I32) return ((const int32_t *)base)[index];
    if (type == CLATTN_TYPE_I8) return ((const int8_t *)base)[index];
    if (CLATTN_TYPE_IS_SCALED(type)) return f8_value(type, ((const uint8_t *)base)[index]);
    uint16_t bits = ((const uint16_t *)base)[index];
    if (type == CLATTN_TYPE_F16) return bits == POISON_F16 ? STORAGE_UNTOUCHED : half_value(bits);
    return bits == POISON_BF16 ? STORAGE_UNTOUCHED : float_value((uint32_t)bits << 16);
}

void storage_store(clattn_type type, void *base, int64_t index, double x) {
    if (type == CLATTN_TYPE_BOOL) {
        ((uint8_t *)base)[index] = (uint8_t)x;
    } else if (type == CLATTN_TYPE_I8) {
        ((int8_t *)base)[index] = (int8_t)x;
    } else if (CLATTN_TYPE_IS_SCALED(type)) {
        ((uint8_t *)base)[index] = f8_bits(type, x);
    } else if (type == CLATTN_TYPE_I32) {
        ((int32_t *)base)[index] = isnan(x) ? INT32_MIN : (int32_t)x; // there is no NaN around inputs
    } else if (type == CLATTN_TYPE_F32) {
        ((float *)base)[index] = (float)x;
    } else if (type == CLATTN_TYPE_F16) {
        ((uint16_t *)base)[index] = half_bits(x);
    } else {
        float y = (float)storage_round(CLATTN_TYPE_BF16, x);
        uint32_t bits;
        memcpy(&bits, &y, sizeof bits);
        ((uint16_t *)base)[index] = isnan(x) ? 0x7fc0u : (uint16_t)(bits >> 16);
    }
}

void storage_poison(clattn_type type, void *base, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        if (type == CLATTN_TYPE_F32 || type == CLATTN_TYPE_I32) {
            ((uint32_t *)base)[n] = POISON_F32;
        } else if (type == CLATTN_TYPE_I8) {
            ((int8_t *)base)[n] = INT8_MIN; // there is no NaN; no row holds it
        } else if (CLATTN_TYPE_IS_SCALED(type)) {
            ((uint8_t *)base)[n] = 0x7f; // a NaN
        } else if (type == CLATTN_TYPE_BOOL) {
            ((uint8_t *)base)[n] = POISON_BOOL;
        } else {
            ((uint16_t *)base)[n] = type == CLATTN_TYPE_F16 ? POISON_F16 : POISON_BF16;
        }
    }
}

double storage_roundoff(clattn_type type) {
    return type == CLATTN_TYPE_F32    ? 0x1p-24
           : type == CLATTN_TYPE_F16  ? 0x1p-11
           : type == CLATTN_TYPE_BF16 ? 0x1p-8
                                      : 0.0;
}

clattn_type storage_coarser(clattn_type a, clattn_type b) {
    // The numbers of a row are what its scale says, exactly.
    if (CLATTN_TYPE_IS_SCALED(a) || CLATTN_TYPE_IS_SCALED(b)) return CLATTN_TYPE_IS_SCALED(a) ? b : a;
    return a > b ? a : b;
}
