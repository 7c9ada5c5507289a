// array.c: host tensors: sizes, and conversion to and from float32. Rounding works on the bits, so
// that it does not depend on the compiler's half type or on the rounding mode.
#include "cli/files/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[ARRAY_TYPE_COUNT] = {
    [ARRAY_F32] = {"f32", 4},       [ARRAY_F16] = {"f16", 2}, [ARRAY_BF16] = {"bf16", 2},
    [ARRAY_I32] = {"i32", 4},       [ARRAY_I64] = {"i64", 8}, [ARRAY_BOOL] = {"bool", 1},
    [ARRAY_U16] = {"u16", 2},       [ARRAY_I8] = {"i8", 1},   [ARRAY_F8E4M3] = {"f8e4m3", 1},
    [ARRAY_F8E5M2] = {"f8e5m2", 1},
};

static bool is_type(array_type type) {
    return (unsigned)type < ARRAY_TYPE_COUNT;
}

size_t array_type_size(array_type type) {
    return is_type(type) ? types[type].size : 0;
}

const char *array_type_name(array_type type) {
    return is_type(type) ? types[type].name : "unknown";
}

void array_free(array *a) {
    if (!a) return;
    free(a->data);
    *a = (array){0};
}

int64_t array_count(const array *a) {
    int64_t count = 1;
    for (int axis = 0; axis < a->rank; axis++) count *= a->shape[axis];
    return count;
}

bool array_measure(array_type type, int rank, const int64_t *shape, size_t *bytes) {
    if (!is_type(type) || rank < 0 || rank > ARRAY_MAX_RANK) return false;
    uint64_t limit = (SIZE_MAX < INT64_MAX ? SIZE_MAX : INT64_MAX) / types[type].size;
    uint64_t nonzero_product = 1;
    bool empty = false;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return false;
        if (shape[axis] == 0) {
            empty = true;
            continue;
        }
        if ((uint64_t)shape[axis] > limit / nonzero_product) return false;
        nonzero_product *= (uint64_t)shape[axis];
    }
    *bytes = empty ? 0 : (size_t)(nonzero_product * types[type].size);
    return true;
}

bool array_create(array *out, array_type type, int rank, const int64_t *shape) {
    *out = (array){0};
    size_t bytes = 0;
    if (!array_measure(type, rank, shape, &bytes)) return false;
    void *data = calloc(bytes ? bytes : 1, 1);
    if (!data) return false;
    *out = (array){.type = type, .rank = rank, .data = data, .bytes = bytes};
    for (int axis = 0; axis < rank; axis++) out->shape[axis] = shape[axis];
    return true;
}

const char *array_shape_text(const array *a, char text[128]) {
    const size_t size = 128;
    size_t used = 0;
    const char *separator = "[";
    for (int axis = 0; axis < a->rank && used < size; axis++) {
        int length = snprintf(text + used, size - used, "%s%lld", separator, (long long)a->shape[axis]);
        used += length > 0 ? (size_t)length : 0;
        separator = ", ";
    }
    if (used < size) (void)snprintf(text + used, size - used, a->rank ? "]" : "[]");
    return text;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Drop the lowest `drop` bits of a magnitude, rounding to nearest, ties to even. A carry increments
// the exponent.
static uint32_t round_off(uint32_t magnitude, int drop) {
    uint32_t half = UINT32_C(1) << (drop - 1);
    uint32_t odd = (magnitude >> drop) & 1;
    return (magnitude + half - 1 + odd) >> drop;
}

uint16_t array_bf16_from_f32(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)round_off(bits, 16);
}

float array_f32_from_bf16(uint16_t bits) {
    return float_of((uint32_t)bits << 16);
}

uint16_t array_f16_from_f32(float value) {
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    // 65520 and above round to infinity
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) // 2^-14, the smallest normal half
        return (uint16_t)(sign | round_off(magnitude - (UINT32_C(112) << 23), 13));
    if (magnitude <= 0x33000000)
        return (uint16_t)sign; // 2^-25 is a tie between 0 and the smallest subnormal: 0 is even
    int exponent = (int)(magnitude >> 23);
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | round_off(significand, 126 - exponent));
}

float array_f32_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}

// The same exponent bits as a float16 mean a value 2^8 times larger. The type has no infinities and
// one NaN. Source: "OCP 8-bit Floating Point Specification", 1.0, section 5.
static float from_f8e4m3(uint8_t bits) {
    const float value = 256.0f * array_f32_from_f16((uint16_t)((bits & 0x80) << 8 | (bits & 0x7f) << 7));
    return (bits & 0x7f) == 0x7f ? float_of(0x7fc00000) : value;
}

static float element(const array *a, size_t index) {
    const void *data = a->data;
    switch (a->type) {
    case ARRAY_F32:
        return ((const float *)data)[index];
    case ARRAY_F16:
        return array_f32_from_f16(((const uint16_t *)data)[index]);
    case ARRAY_BF16:
        return array_f32_from_bf16(((const uint16_t *)data)[index]);
    case ARRAY_I32:
        return (float)((const int32_t *)data)[index];
    case ARRAY_I64:
        return (float)((const int64_t *)data)[index];
    case ARRAY_BOOL:
        return ((const unsigned char *)data)[index] ? 1.0f : 0.0f;
    case ARRAY_U16:
        return (float)((const uint16_t *)data)[index];
    case ARRAY_I8:
        return (float)((const int8_t *)data)[index];
    case ARRAY_F8E4M3:
        return from_f8e4m3(((const uint8_t *)data)[index]);
    case ARRAY_F8E5M2:
        return array_f32_from_f16((uint16_t)(((const uint8_t *)data)[index] << 8));
    default:
        return 0.0f;
    }
}

bool array_to_f32(const array *a, float **values) {
    size_t count = (size_t)array_count(a);
    *values = NULL;
    if (count > SIZE_MAX / sizeof(float)) return false;
    float *converted = malloc(count ? count * sizeof(float) : 1);
    if (!converted) return false;
    for (size_t i = 0; i < count; i++) converted[i] = element(a, i);
    *values = converted;
    return true;
}

bool array_from_f32(const array *a, const float *values, array_type type, array *out) {
    *out = (array){0};
    if (type != ARRAY_F32 && type != ARRAY_F16 && type != ARRAY_BF16) return false;
    if (!array_create(out, type, a->rank, a->shape)) return false;
    size_t count = (size_t)array_count(out);
    for (size_t i = 0; i < count; i++) {
        if (type == ARRAY_F32) ((float *)out->data)[i] = values[i];
        if (type == ARRAY_F16) ((uint16_t *)out->data)[i] = array_f16_from_f32(values[i]);
        if (type == ARRAY_BF16) ((uint16_t *)out->data)[i] = array_bf16_from_f32(values[i]);
    }
    return true;
}
