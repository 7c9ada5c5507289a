// storage.c: elements of storage types in host memory. Rounding goes directly from double to the
// type, so that no value is rounded twice. Used by the reference and the cases.
#include "verification/reference/storage.h"

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

// OFP8 1.0: e4m3 has no infinity, and its largest number has all exponent bits set.
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

static bool is_nibbles(clattn_type type) {
    return type == CLATTN_TYPE_I4 || type == CLATTN_TYPE_U4;
}

static bool is_whole(clattn_type type) {
    return type == CLATTN_TYPE_I8 || is_nibbles(type);
}

double storage_largest(clattn_type type) {
    if (is_nibbles(type)) return type == CLATTN_TYPE_I4 ? 7.0 : 15.0;
    return type == CLATTN_TYPE_F8E4M3 ? 448.0 : type == CLATTN_TYPE_F8E5M2 ? 57344.0 : 127.0;
}

double storage_least(clattn_type type) {
    if (type == CLATTN_TYPE_U4) return 0.0;
    return is_whole(type) ? -storage_largest(type) - 1.0 : -storage_largest(type);
}

double storage_from_zero(clattn_type type, double x) {
    const double y = is_whole(type) ? nearbyint(x) : f8_round(type, x);
    return fmin(fmax(y, storage_least(type)), storage_largest(type));
}

double storage_unscaled(clattn_type type, double x) {
    return fmax(storage_from_zero(type, x), -storage_largest(type));
}

struct storage_scale storage_scale_of(clattn_type type, clattn_type scale_type, bool zeros, const double *x,
                                      int64_t size) {
    double least = INFINITY, most = -INFINITY;
    for (int64_t d = 0; d < size; d++) {
        if (isnan(x[d])) return (struct storage_scale){(double)NAN, 0};
        least = fmin(least, x[d]), most = fmax(most, x[d]);
    }
    const double low = storage_least(type), high = storage_largest(type),
                 largest = fmax(0, low < 0 ? fmax(-least, most) : most),
                 scale = storage_round(scale_type, !zeros          ? largest / high
                                                   : least == most ? fabs(most)
                                                                   : (most - least) / (high - low));
    return (struct storage_scale){scale,
                                  zeros && scale > 0 ? storage_round(scale_type, low - least / scale) : 0};
}

double storage_scaled(clattn_type type, bool zeros, double x, struct storage_scale s) {
    if (!(s.scale > 0)) return 0;
    const double y = (double)((float)x / (float)s.scale);
    return zeros ? storage_from_zero(type, y + s.zero) : storage_unscaled(type, y);
}

double storage_round(clattn_type type, double x) {
    if (CLATTN_TYPE_IS_SCALED(type)) return x; // the scale of the row decides: case_kv.c
    // the scale of the block decides: storage_round_blocks
    if (clattn_type_numbers(type) > 1) return x;
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
        // i32 has no NaN for the guard zones of inputs
        ((int32_t *)base)[index] = isnan(x) ? INT32_MIN : (int32_t)x;
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

#define BLOCK 32

// A block's scale. A stored integer n means d * n + m. As in ggml, a number x is stored as
//    n = (x - zero) * by, rounded and limited to [least, most]
// and `by` is 1 / d before d is rounded to float16.
typedef struct block_scale {
    double d, m, by, zero;
    int least, most;
} block_scale;

static block_scale scale_of(clattn_type type, const double *x) {
    double low = x[0], high = x[0], d;
    for (int n = 1; n < BLOCK; n++) low = fmin(low, x[n]), high = fmax(high, x[n]);
    const double far = high >= -low ? high : low; // the number with the largest absolute value
    block_scale s = {.least = type == CLATTN_TYPE_Q8_0 ? -127 : type == CLATTN_TYPE_Q4_0 ? -8 : 0};
    for (int n = 0; n < BLOCK; n++)
        if (!isfinite(x[n])) return (block_scale){.d = (double)NAN, .m = (double)NAN};
    if (type == CLATTN_TYPE_Q8_0)
        d = fabs(far) / 127, s.most = 127;
    else if (type == CLATTN_TYPE_Q4_0)
        d = far / -8, s.most = 7;
    else
        d = (high - low) / 15, s.most = 15, s.zero = low, s.m = storage_round(CLATTN_TYPE_F16, low);
    s.d = storage_round(CLATTN_TYPE_F16, d);
    s.by = d != 0 ? 1 / d : 0;
    return s;
}

static int number_of(const block_scale *s, double x) {
    const double n = (x - s->zero) * s->by, whole = s->most == 127 ? nearbyint(n) : floor(n + 0.5);
    return isnan(whole) ? 0 : (int)fmin(fmax(whole, s->least), s->most);
}

void storage_round_blocks(clattn_type type, double *values, int64_t count) {
    if (is_nibbles(type)) return; // has no blocks
    for (double *x = values; x < values + count; x += BLOCK) {
        const block_scale s = scale_of(type, x);
        for (int n = 0; n < BLOCK; n++) x[n] = s.d * number_of(&s, x[n]) + s.m;
    }
}

void storage_store_numbers(clattn_type type, void *base, int64_t index, const double *values) {
    if (clattn_type_numbers(type) == 1) {
        storage_store(type, base, index, *values);
        return;
    }
    uint8_t *to = (uint8_t *)base + (size_t)index * clattn_type_size(type);
    if (is_nibbles(type)) {
        *to = (uint8_t)(((int)values[0] & 15) | ((int)values[1] & 15) << 4);
        return;
    }
    const block_scale s = scale_of(type, values);
    const uint16_t d = half_bits(s.d), m = half_bits(s.m);
    memcpy(to, &d, sizeof d), to += sizeof d;
    if (type == CLATTN_TYPE_Q4_1) memcpy(to, &m, sizeof m), to += sizeof m;
    for (int n = 0; n < BLOCK; n++) {
        const int byte = number_of(&s, values[n]);
        if (type == CLATTN_TYPE_Q8_0)
            to[n] = (uint8_t)byte;
        else if (n < BLOCK / 2)
            to[n] = (uint8_t)(byte - s.least);
        else
            to[n - BLOCK / 2] = (uint8_t)(to[n - BLOCK / 2] | (byte - s.least) << 4);
    }
}

void storage_load_numbers(clattn_type type, const void *base, int64_t index, double *values) {
    const uint8_t *from = (const uint8_t *)base + (size_t)index * clattn_type_size(type);
    uint16_t d, m = 0;
    if (clattn_type_numbers(type) == 1) {
        *values = storage_load(type, base, index);
        return;
    }
    for (int n = 0; is_nibbles(type) && n < 2; n++) {
        const int nibble = *from >> 4 * n & 15;
        values[n] = type == CLATTN_TYPE_I4 && nibble > 7 ? nibble - 16 : nibble;
    }
    if (is_nibbles(type)) return;
    memcpy(&d, from, sizeof d), from += sizeof d;
    if (type == CLATTN_TYPE_Q4_1) memcpy(&m, from, sizeof m), from += sizeof m;
    const int zero = type == CLATTN_TYPE_Q4_0 ? 8 : 0;
    for (int n = 0; n < BLOCK; n++) {
        const int nibble = from[n % (BLOCK / 2)] >> (n < BLOCK / 2 ? 0 : 4) & 15;
        const int byte = type == CLATTN_TYPE_Q8_0 ? (int8_t)from[n] : nibble - zero;
        values[n] = half_value(d) * byte + half_value(m);
    }
}

void storage_poison(clattn_type type, void *base, int64_t count) {
    if (clattn_type_numbers(type) > 1)
        memset(base, is_nibbles(type) ? 0x88 : 0xff,
               (size_t)count * clattn_type_size(type)); // 0xff: the block's scale is NaN
    for (int64_t n = 0; n < count && clattn_type_numbers(type) == 1; n++) {
        if (type == CLATTN_TYPE_F32 || type == CLATTN_TYPE_I32) {
            ((uint32_t *)base)[n] = POISON_F32;
        } else if (type == CLATTN_TYPE_I8) {
            ((int8_t *)base)[n] = INT8_MIN; // i8 has no NaN, and no row contains this number
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
    // Scaled types and block types are exact, given their scales.
    if (storage_roundoff(a) == 0.0 || storage_roundoff(b) == 0.0) return storage_roundoff(a) == 0.0 ? b : a;
    return a > b ? a : b;
}
