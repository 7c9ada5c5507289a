// mod_words.c: see mod_words.h.
#include "attention/mods/mod_words.h"

#include <string.h>

#define WORD(name, kind, type, by)                                                                           \
    { name, kind, type, by, MOD_FLOATS, 0, false, false, false }
#define NAME(name, by) WORD(name, WORD_NAME, MOD_INT, by)
#define CONSTANT(name, type) WORD(name, WORD_CONSTANT, type, 0)
#define TYPE(name, type) WORD(name, WORD_TYPE, type, 0)
#define CALL(name, shape, parts, alone, rounds, own)                                                         \
    { name, WORD_FUNCTION, MOD_INT, 0, shape, parts, alone, rounds, own }
#define FUNCTION(name, shape, parts) CALL(name, shape, parts, false, false, false)
#define ROUNDS(name, parts) CALL(name, MOD_FLOATS, parts, false, true, false)
// Functions without a vector form.
#define ALONE(name, shape, parts) CALL(name, shape, parts, true, false, false)
#define REAL(name, parts) ALONE(name, MOD_FLOATS, parts)
#define OWN(name, shape, parts) CALL(name, shape, parts, false, false, true)
#define OWN_ALONE(name, parts) CALL(name, MOD_NUMBERS, parts, true, false, true)

const mod_word cla_mod_words[] = {
    NAME("b", MOD_BY_CALL), NAME("h", MOD_BY_HEAD), NAME("i", MOD_BY_ROW), NAME("row", MOD_BY_ROW),
    NAME("j", MOD_BY_KEY), NAME("q_length", MOD_BY_CALL), NAME("kv_length", MOD_BY_CALL),
    WORD("score", WORD_NAME, MOD_FLOAT, MOD_BY_SCORE), CONSTANT("true", MOD_INT), CONSTANT("false", MOD_INT),
    CONSTANT("INT_MAX", MOD_INT), CONSTANT("INFINITY", MOD_FLOAT), CONSTANT("FLT_MAX", MOD_FLOAT),
    CONSTANT("M_PI_F", MOD_FLOAT), CONSTANT("M_LOG2E_F", MOD_FLOAT), CONSTANT("NAN", MOD_FLOAT),
    CONSTANT("MAXFLOAT", MOD_FLOAT), CONSTANT("HUGE_VALF", MOD_FLOAT), CONSTANT("FLT_MIN", MOD_FLOAT),
    CONSTANT("FLT_EPSILON", MOD_FLOAT), CONSTANT("INT_MIN", MOD_INT), CONSTANT("UINT_MAX", MOD_UINT),
    CONSTANT("LONG_MAX", MOD_LONG), CONSTANT("LONG_MIN", MOD_LONG), CONSTANT("ULONG_MAX", MOD_ULONG),
    CONSTANT("M_E_F", MOD_FLOAT), CONSTANT("M_LOG10E_F", MOD_FLOAT), CONSTANT("M_LN2_F", MOD_FLOAT),
    CONSTANT("M_LN10_F", MOD_FLOAT), CONSTANT("M_PI_2_F", MOD_FLOAT), CONSTANT("M_PI_4_F", MOD_FLOAT),
    CONSTANT("M_1_PI_F", MOD_FLOAT), CONSTANT("M_2_PI_F", MOD_FLOAT), CONSTANT("M_2_SQRTPI_F", MOD_FLOAT),
    CONSTANT("M_SQRT2_F", MOD_FLOAT), CONSTANT("M_SQRT1_2_F", MOD_FLOAT), TYPE("bool", MOD_BOOL),
    TYPE("int", MOD_INT), TYPE("uint", MOD_UINT), TYPE("float", MOD_FLOAT), TYPE("char", MOD_CHAR),
    TYPE("uchar", MOD_UCHAR), TYPE("short", MOD_SHORT), TYPE("ushort", MOD_USHORT), TYPE("long", MOD_LONG),
    TYPE("ulong", MOD_ULONG),
    // Integer functions, and functions of both kinds: 6.12.3, 6.12.4.
    OWN("abs", MOD_MAGNITUDE, 1), OWN("abs_diff", MOD_MAGNITUDE, 2), OWN("min", MOD_SAME, 2),
    OWN("max", MOD_SAME, 2), OWN("clamp", MOD_SAME, 3), ALONE("add_sat", MOD_NUMBERS, 2),
    ALONE("sub_sat", MOD_NUMBERS, 2), ALONE("hadd", MOD_NUMBERS, 2), ALONE("rhadd", MOD_NUMBERS, 2),
    ALONE("clz", MOD_COUNTS, 1), ALONE("popcount", MOD_NUMBERS, 1), OWN_ALONE("mad_hi", 3),
    OWN_ALONE("mad_sat", 3), OWN_ALONE("mul_hi", 2), OWN_ALONE("mad24", 3), OWN_ALONE("mul24", 2),
    ALONE("rotate", MOD_NUMBERS, 2), ALONE("upsample", MOD_JOINED, 2), REAL("degrees", 1), REAL("radians", 1),
    REAL("mix", 3), REAL("sign", 1), REAL("step", 2), REAL("smoothstep", 3),
    // Relational functions: 6.12.6.
    FUNCTION("select", MOD_SELECT, 3), FUNCTION("isnan", MOD_IS, 1), FUNCTION("isinf", MOD_IS, 1),
    FUNCTION("isfinite", MOD_IS, 1), ALONE("isnormal", MOD_IS, 1), ALONE("isordered", MOD_IS, 2),
    ALONE("isunordered", MOD_IS, 2), ALONE("isequal", MOD_IS, 2), ALONE("isnotequal", MOD_IS, 2),
    ALONE("isgreater", MOD_IS, 2), ALONE("isgreaterequal", MOD_IS, 2), ALONE("isless", MOD_IS, 2),
    ALONE("islessequal", MOD_IS, 2), ALONE("islessgreater", MOD_IS, 2), ALONE("signbit", MOD_IS, 1),
    ALONE("any", MOD_TRUTH, 1), ALONE("all", MOD_TRUTH, 1), ALONE("bitselect", MOD_SAME, 3),
    // Mathematical functions without pointers: 6.12.2.
    FUNCTION("fabs", MOD_FLOATS, 1), FUNCTION("floor", MOD_FLOATS, 1), FUNCTION("ceil", MOD_FLOATS, 1),
    FUNCTION("trunc", MOD_FLOATS, 1), FUNCTION("rint", MOD_FLOATS, 1), FUNCTION("fmin", MOD_FLOATS, 2),
    FUNCTION("fmax", MOD_FLOATS, 2), FUNCTION("copysign", MOD_FLOATS, 2), ROUNDS("tanh", 1), ROUNDS("exp", 1),
    ROUNDS("exp2", 1), ROUNDS("log", 1), ROUNDS("log2", 1), ROUNDS("sqrt", 1), ROUNDS("rsqrt", 1),
    ROUNDS("sin", 1), ROUNDS("cos", 1), ROUNDS("pow", 2), REAL("acos", 1), REAL("acosh", 1),
    REAL("acospi", 1), REAL("asin", 1), REAL("asinh", 1), REAL("asinpi", 1), REAL("atan", 1),
    REAL("atan2", 2), REAL("atanh", 1), REAL("atanpi", 1), REAL("atan2pi", 2), REAL("cbrt", 1),
    REAL("cosh", 1), REAL("cospi", 1), REAL("erf", 1), REAL("erfc", 1), REAL("exp10", 1), REAL("expm1", 1),
    REAL("fdim", 2), REAL("fma", 3), REAL("fmod", 2), REAL("hypot", 2), ALONE("ilogb", MOD_COUNTS, 1),
    ALONE("ldexp", MOD_POWERS, 2), REAL("lgamma", 1), REAL("log10", 1), REAL("log1p", 1), REAL("logb", 1),
    REAL("mad", 3), REAL("maxmag", 2), REAL("minmag", 2), ALONE("nan", MOD_QUIET, 1), REAL("nextafter", 2),
    ALONE("pown", MOD_POWERS, 2), REAL("powr", 2), REAL("remainder", 2), ALONE("rootn", MOD_POWERS, 2),
    REAL("round", 1), REAL("sinh", 1), REAL("sinpi", 1), REAL("tan", 1), REAL("tanpi", 1), REAL("tgamma", 1),
    REAL("half_cos", 1), REAL("half_divide", 2), REAL("half_exp", 1), REAL("half_exp2", 1),
    REAL("half_exp10", 1), REAL("half_log", 1), REAL("half_log2", 1), REAL("half_log10", 1),
    REAL("half_powr", 2), REAL("half_recip", 1), REAL("half_rsqrt", 1), REAL("half_sin", 1),
    REAL("half_sqrt", 1), REAL("half_tan", 1), REAL("native_cos", 1), REAL("native_divide", 2),
    REAL("native_exp", 1), REAL("native_exp2", 1), REAL("native_exp10", 1), REAL("native_log", 1),
    REAL("native_log2", 1), REAL("native_log10", 1), REAL("native_powr", 2), REAL("native_recip", 1),
    REAL("native_rsqrt", 1), REAL("native_sin", 1), REAL("native_sqrt", 1), REAL("native_tan", 1)};
const size_t cla_mod_word_count = sizeof cla_mod_words / sizeof cla_mod_words[0];

static bool is(const char *at, int length, const char *word) {
    return (int)strlen(word) == length && !strncmp(at, word, (size_t)length);
}

static bool is_for(const mod_word *w, bool is_mask) {
    return !is_mask || !(w->by & MOD_BY_SCORE);
}

const mod_word *cla_mod_word_find(const char *at, int length, bool is_mask) {
    for (size_t n = 0; n < cla_mod_word_count; n++)
        if (is(at, length, cla_mod_words[n].name))
            return is_for(&cla_mod_words[n], is_mask) ? &cla_mod_words[n] : NULL;
    return NULL;
}

const char *cla_mod_type_name(mod_type type) {
    for (size_t n = 0; n < cla_mod_word_count; n++)
        if (cla_mod_words[n].kind == WORD_TYPE && cla_mod_words[n].type == type && type != MOD_BOOL)
            return cla_mod_words[n].name;
    // double is the type of some literals, but not a type name of the language.
    return type == MOD_DOUBLE ? "double" : "int";
}

int cla_mod_type_width(const char *at, int length, mod_type *type) {
    static const struct {
        const char *digits;
        int width;
    } widths[] = {{"", 1}, {"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {"16", 16}};
    for (size_t n = 0; n < sizeof widths / sizeof widths[0]; n++) {
        const int digits = (int)strlen(widths[n].digits), plain = length - digits;
        if (plain <= 0 || strncmp(at + plain, widths[n].digits, (size_t)digits) != 0) continue;
        const mod_word *w = cla_mod_word_find(at, plain, false);
        if (!w || w->kind != WORD_TYPE || (digits && w->type == MOD_BOOL)) continue;
        *type = w->type;
        return widths[n].width;
    }
    return 0;
}

static bool ends_in(const char *at, int length, const char *end) {
    const int size = (int)strlen(end);
    return length > size && !strncmp(at + length - size, end, (size_t)size);
}

mod_conversion cla_mod_conversion(const char *at, int length) {
    static const char *const roundings[] = {"_rte", "_rtz", "_rtp", "_rtn"};
    mod_conversion c = {.width = 0};
    c.same_bits = length > 3 && !strncmp(at, "as_", 3);
    const int first = c.same_bits ? 3 : 8;
    if (length <= first || (!c.same_bits && strncmp(at, "convert_", 8) != 0)) return c;
    for (int n = 0; n < 4 && !c.same_bits && !c.rounding; n++)
        if (ends_in(at, length, roundings[n])) c.rounding = roundings[n][3], length -= 4;
    c.saturates = !c.same_bits && ends_in(at, length, "_sat");
    if (c.saturates) length -= 4;
    c.width = cla_mod_type_width(at + first, length - first, &c.type);
    if (c.width && c.type == MOD_BOOL) c.width = 0;
    return c;
}

// Edit distance of a word of up to 24 letters: letters to change, add or remove.
static int distance(const char *a, int length, const char *b) {
    int row[25];
    const int columns = (int)strlen(b);
    for (int k = 0; k <= columns; k++) row[k] = k;
    for (int n = 1; n <= length; n++) {
        int diagonal = row[0];
        row[0] = n;
        for (int k = 1; k <= columns; k++) {
            int least = diagonal + (a[n - 1] != b[k - 1]);
            diagonal = row[k];
            if (row[k] + 1 < least) least = row[k] + 1;
            if (row[k - 1] + 1 < least) least = row[k - 1] + 1;
            row[k] = least;
        }
    }
    return row[columns];
}

const char *cla_mod_word_near(const char *at, int length, bool is_mask) {
    const char *best = NULL;
    for (int n = 0, least = 1 + (length > 2) + (length > 6); length <= 24 && n < (int)cla_mod_word_count;
         n++) {
        const int far = is_for(&cla_mod_words[n], is_mask) ? distance(at, length, cla_mod_words[n].name) : 99;
        if (far < least) least = far, best = cla_mod_words[n].name;
    }
    return best;
}

const char *cla_mod_word_meant(const char *at, int length) {
    static const struct {
        const char *word, *meant;
    } meanings[] = {{"and", "&&"},
                    {"or", "||"},
                    {"not", "!"},
                    {"True", "true"},
                    {"False", "false"},
                    {"if", "a ? b : c"},
                    {"else", "a ? b : c"},
                    {"where", "a ? b : c"},
                    {"q_idx", "i"},
                    {"kv_idx", "j"},
                    {"batch", "b"},
                    {"head", "h"},
                    {"inf", "INFINITY"},
                    {"double", "float"},
                    {"lambda", "the expression alone"},
                    {"return", "the expression alone"},
                    {"math", "the function alone, such as exp(x)"},
                    {"np", "the function alone, such as exp(x)"},
                    {"numpy", "the function alone, such as exp(x)"},
                    {"torch", "the function alone, such as exp(x)"}};
    for (size_t n = 0; n < sizeof meanings / sizeof meanings[0]; n++)
        if (is(at, length, meanings[n].word)) return meanings[n].meant;
    return NULL;
}
