// words.c: see words.h.
#include "verification/words/words.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const names_types[] = {"f32", "f16", "bf16", NULL};
const char *const names_kernels[] = {"auto", "unfused", "flash", "decode", NULL};
const char *const names_cascades[] = {"auto", "never", "always", "try", NULL};
const char *const names_projections[] = {"auto", "clblast", "native", NULL};
const char *const names_precisions[] = {"exact", "split", NULL};
const char *const names_taps[] = {"raw", "softcap", "masked", "softmax", NULL};
const char *const names_ropes[] = {"none", "half", "interleaved", NULL};
const char *const names_scalings[] = {"none", "linear", "ntk", "yarn", "llama3", "dynamic", "pairs", NULL};
const char *const names_norms[] = {"none", "heads", "width", NULL};
const char *const names_gates[] = {"none", "heads", "all", NULL};
const char *const names_ops[] = {"attend", "decode", "layer", "linear", "backward", NULL};
const char *const names_layouts[] = {"dense", "bshd", "padded", "spaced", "scattered", NULL};
#define KV_WORD(name, word, bytes, numbers) word,
#define NO_WORD(name, word, bytes, numbers) "-",
#define TYPE_FLOAT KV_WORD
#define TYPE_SCALED KV_WORD
#define TYPE_BLOCKS KV_WORD
#define TYPE_OTHER NO_WORD
const char *const names_v_types[] = {"-",
#include "tables/types.def"
                                     NULL};
const char *const names_ragged[] = {"-",          "host",  "device",      "gaps",
                                    "gapsdevice", "cache", "cachedevice", NULL};
const char *const names_contents[] = {"ordinary", "hiddennan", "seennan", "rownan",    "huge",
                                      "hugeneg",  "dominant",  "infbias", "unseennan", NULL};

int names_find(const char *const *names, const char *text, size_t length) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], text, length)) return i;
    return -1;
}

static bool same_letters(const char *a, const char *b, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((a[i] >= 'A' && a[i] <= 'Z' ? a[i] + 32 : a[i]) != b[i]) return false;
    return true;
}

const char *names_type_short(const char *text, size_t length) {
    static const struct {
        const char *usual, *name;
    } types[] = {{"f32", "f32"},
                 {"fp32", "f32"},
                 {"float32", "f32"},
                 {"float", "f32"},
                 {"single", "f32"},
                 {"f4", "f32"},
                 {"f16", "f16"},
                 {"fp16", "f16"},
                 {"float16", "f16"},
                 {"half", "f16"},
                 {"f2", "f16"},
                 {"bf16", "bf16"},
                 {"bfloat16", "bf16"},
                 {"bfloat", "bf16"},
                 {"q8", "q8"},
                 {"int8", "q8"},
                 {"i8", "q8"},
                 {"int4", "i4"},
                 {"uint4", "u4"},
                 {"f8e4m3", "f8e4m3"},
                 {"fp8_e4m3", "f8e4m3"},
                 {"float8_e4m3", "f8e4m3"},
                 {"float8_e4m3fn", "f8e4m3"},
                 {"f8e5m2", "f8e5m2"},
                 {"fp8_e5m2", "f8e5m2"},
                 {"float8_e5m2", "f8e5m2"}};
    static const char *const modules[] = {"torch.", "np.", "numpy.", "jnp."};
    for (size_t n = 0; n < sizeof modules / sizeof modules[0]; n++) {
        const size_t size = strlen(modules[n]);
        if (length > size && !strncmp(text, modules[n], size)) text += size, length -= size;
    }
    for (size_t n = 0; n < sizeof types / sizeof types[0]; n++)
        if (strlen(types[n].usual) == length && same_letters(text, types[n].usual, length))
            return types[n].name;
    return NULL;
}

const char *names_all(const char *const *names, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; names[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    return text;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool number_whole_at(const char **text, int64_t *value) {
    const char *at = *text;
    const bool minus = *at == '-';
    int64_t x = 0;
    at += minus;
    if (!is_digit(*at)) return false;
    // Accumulates negative numbers, because INT64_MIN has no positive counterpart.
    for (; is_digit(*at); at++) {
        const int digit = *at - '0';
        if (x < (INT64_MIN + digit) / 10) return false;
        x = x * 10 - digit;
    }
    if (!minus && x == INT64_MIN) return false;
    *value = minus ? x : -x;
    *text = at;
    return true;
}

bool number_whole(const char *text, int64_t *value) {
    int64_t x = 0;
    if (!number_whole_at(&text, &x) || *text) return false;
    *value = x;
    return true;
}

static const char *skip_digits(const char *at, int *count) {
    for (; is_digit(*at); at++) ++*count;
    return at;
}

// Matches [-]digits[.digits][e[+-]digits], with a digit before or after the point.
static bool is_decimal(const char *at) {
    int digits = 0, exponent = 0;
    at = skip_digits(at + (*at == '-'), &digits);
    if (*at == '.') at = skip_digits(at + 1, &digits);
    if (digits == 0) return false;
    if (*at != 'e' && *at != 'E') return *at == '\0';
    at += 1 + (at[1] == '-' || at[1] == '+');
    at = skip_digits(at, &exponent);
    return exponent > 0 && *at == '\0';
}

// True if any digit before the exponent is not 0.
static bool is_nonzero(const char *at) {
    for (; *at && *at != 'e' && *at != 'E'; at++)
        if (*at >= '1' && *at <= '9') return true;
    return false;
}

bool number_real(const char *text, double *value) {
    if (!is_decimal(text)) return false;
    const double x = strtod(text, NULL);
    if (!isfinite(x) || (is_nonzero(text) && fabs(x) < DBL_MIN)) return false;
    *value = x;
    return true;
}

bool number_float(const char *text, float *value) {
    double x = 0.0;
    if (!number_real(text, &x) || fabs(x) > (double)FLT_MAX || (x != 0.0 && fabs(x) < (double)FLT_MIN))
        return false;
    *value = (float)x;
    return true;
}
