// mod_rules.c: see mod_rules.h. Conventions where a derivative is not unique:
//   fabs, copysign       0 at 0
//   hypot, atan2         0 where both parts are 0
//   cbrt                 infinite at 0
//   fmin, fmax, minmag, maxmag, min, max
//                        of equal numbers the first; of a NaN and a number the number
//   clamp                1 at its bounds
//   smoothstep, fdim     0 at the edges, and for equal numbers
//   floor, round, step, sign, logb ...
//                        0 everywhere
//   pow, powr            by the first part 0 if the second is 0; by the second 0 if the first is 0
// half_ and native_ functions have the derivatives of the standard functions.
#include "attention/mods/mod_rules.h"

#include <string.h>

#define ONE(name, by)                                                                                        \
    {                                                                                                        \
        name, {NULL}, {                                                                                      \
            { by }                                                                                           \
        }                                                                                                    \
    }
#define TWO(name, first, second)                                                                             \
    {                                                                                                        \
        name, {NULL}, {                                                                                      \
            { first, second }                                                                                \
        }                                                                                                    \
    }
#define FLAT(name) ONE(name, NULL)
// The derivative by the part that the function returns is 1, by the other part 0.
#define PICKS(name, gives)                                                                                   \
    {                                                                                                        \
        name, {gives}, {                                                                                     \
            {"", NULL}, {                                                                                    \
                NULL, ""                                                                                     \
            }                                                                                                \
        }                                                                                                    \
    }
// The derivative is 0 if the condition `zero` holds.
#define UNLESS(name, zero, first, second)                                                                    \
    {                                                                                                        \
        name, {zero}, {                                                                                      \
            {NULL}, {                                                                                        \
                first, second                                                                                \
            }                                                                                                \
        }                                                                                                    \
    }
#define ARC "rsqrt((1.0f - $1) * (1.0f + $1))"
#define POWER(name)                                                                                          \
    TWO(name, "($2 == 0.0f ? 0.0f : $2 * " name "($1, $2 - 1.0f))",                                          \
        "($1 == 0.0f ? 0.0f : " name "($1, $2) * log($1))")
#define STEP_WIDTH "/ ($2 - $1)"

static const mod_rule rules[] = {
    TWO("+", "", ""),
    TWO("-", "", "-"),
    TWO("*", "$2", "$1"),
    TWO("/", "/ $2", "-$1 / $2 / $2"),
    {"?:", {"?1"}, {{NULL, "", NULL}, {NULL, NULL, ""}}},
    {"select", {"?3"}, {{NULL, "", NULL}, {"", NULL, NULL}}},
    ONE("tanh", "(1.0f - tanh($1) * tanh($1))"),
    ONE("exp", "exp($1)"),
    ONE("exp2", "M_LN2_F * exp2($1)"),
    ONE("exp10", "M_LN10_F * exp10($1)"),
    ONE("expm1", "exp($1)"),
    ONE("log", "/ $1"),
    ONE("log2", "M_LOG2E_F / $1"),
    ONE("log10", "M_LOG10E_F / $1"),
    ONE("log1p", "/ (1.0f + $1)"),
    ONE("sqrt", "0.5f * rsqrt($1)"),
    ONE("rsqrt", "-0.5f * rsqrt($1) / $1"),
    ONE("cbrt", "/ (3.0f * cbrt($1) * cbrt($1))"),
    ONE("sin", "cos($1)"),
    ONE("cos", "-sin($1)"),
    ONE("tan", "(1.0f + tan($1) * tan($1))"),
    ONE("sinh", "cosh($1)"),
    ONE("cosh", "sinh($1)"),
    ONE("asin", ARC),
    ONE("acos", "-" ARC),
    ONE("atan", "/ (1.0f + $1 * $1)"),
    ONE("asinh", "rsqrt($1 * $1 + 1.0f)"),
    ONE("acosh", "rsqrt(($1 - 1.0f) * ($1 + 1.0f))"),
    ONE("atanh", "/ ((1.0f - $1) * (1.0f + $1))"),
    ONE("sinpi", "M_PI_F * cospi($1)"),
    ONE("cospi", "-M_PI_F * sinpi($1)"),
    ONE("tanpi", "M_PI_F * (1.0f + tanpi($1) * tanpi($1))"),
    ONE("asinpi", "M_1_PI_F * " ARC),
    ONE("acospi", "-M_1_PI_F * " ARC),
    ONE("atanpi", "M_1_PI_F / (1.0f + $1 * $1)"),
    ONE("erf", "M_2_SQRTPI_F * exp(-$1 * $1)"),
    ONE("erfc", "-M_2_SQRTPI_F * exp(-$1 * $1)"),
    UNLESS("fabs", "$1 == 0.0f", "copysign(1.0f, $1)", NULL),
    UNLESS("copysign", "$1 == 0.0f", "copysign(1.0f, $1) * copysign(1.0f, $2)", NULL),
    POWER("pow"),
    POWER("powr"),
    ONE("pown", "(#2 == 0 ? 0.0f : $2 * pown($1, #2 - 1))"),
    ONE("rootn", "pow(fabs($1), 1.0f / $2 - 1.0f) / $2"),
    ONE("ldexp", "ldexp(1.0f, #2)"),
    {"fma", {NULL}, {{"$2", "$1", ""}}},
    {"mad", {NULL}, {{"$2", "$1", ""}}},
    {"mix", {NULL}, {{"(1.0f - $3)", "$3", "($2 - $1)"}}},
    ONE("degrees", "degrees(1.0f)"),
    ONE("radians", "radians(1.0f)"),
    UNLESS("hypot", "hypot($1, $2) == 0.0f", "$1 / hypot($1, $2)", "$2 / hypot($1, $2)"),
    UNLESS("atan2", "hypot($1, $2) == 0.0f", "$2 / hypot($1, $2) / hypot($1, $2)",
           "-$1 / hypot($1, $2) / hypot($1, $2)"),
    UNLESS("atan2pi", "hypot($1, $2) == 0.0f", "M_1_PI_F * $2 / hypot($1, $2) / hypot($1, $2)",
           "-M_1_PI_F * $1 / hypot($1, $2) / hypot($1, $2)"),
    TWO("fmod", "", "rint((fmod($1, $2) - $1) / $2)"),
    TWO("remainder", "", "rint((remainder($1, $2) - $1) / $2)"),
    TWO("divide", "/ $2", "-$1 / $2 / $2"),
    ONE("recip", "-1.0f / $1 / $1"),
    PICKS("fmin", "fmin($1, $2) == $1"),
    PICKS("fmax", "fmax($1, $2) == $1"),
    PICKS("minmag", "minmag($1, $2) == $1"),
    PICKS("maxmag", "maxmag($1, $2) == $1"),
    PICKS("min", "$1 <= $2"),
    PICKS("max", "$1 >= $2"),
    {"clamp", {"$1 < $2", "$1 > $3"}, {{NULL, ""}, {NULL, NULL, ""}, {""}}},
    {"fdim", {"$1 > $2"}, {{"", "-"}, {NULL}}},
    {"smoothstep",
     {"$3 > $1 && $3 < $2"},
     {{"-6.0f * ($3 - $1) / ($2 - $1) * ($2 - $3) / ($2 - $1) * ($2 - $3) / ($2 - $1) / ($2 - $1)",
       "-6.0f * ($3 - $1) / ($2 - $1) * ($3 - $1) / ($2 - $1) * ($2 - $3) / ($2 - $1) / ($2 - $1)",
       "6.0f * ($3 - $1) / ($2 - $1) * ($2 - $3) / ($2 - $1) / ($2 - $1)"},
      {NULL}}},
    FLAT("floor"),
    FLAT("ceil"),
    FLAT("trunc"),
    FLAT("rint"),
    FLAT("round"),
    FLAT("sign"),
    FLAT("step"),
    FLAT("logb"),
    FLAT("nan")};

static const mod_rule same = ONE("+", ""), turned = ONE("-", "-");

static const mod_rule *find(const char *name, size_t length) {
    for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++)
        if (strlen(rules[n].name) == length && !strncmp(rules[n].name, name, length)) return &rules[n];
    return NULL;
}

const mod_rule *cla_mod_rule(const mod_node *x) {
    const size_t length = (size_t)x->length;
    switch (x->kind) {
    case MOD_UNARY:
        return *x->at == '-' ? &turned : &same;
    case MOD_CAST:
        return &same;
    case MOD_BINARY:
        return find(x->at, length);
    case MOD_CHOICE:
        return find("?:", 2);
    case MOD_CALL:
        if (!x->function) return x->conversion.same_bits ? NULL : &same;
        for (const char *const *first = (const char *const[]){"half_", "native_", NULL}; *first; first++) {
            const size_t size = strlen(*first);
            if (length > size && !strncmp(x->at, *first, size)) return find(x->at + size, length - size);
        }
        return find(x->at, length);
    default:
        return NULL;
    }
}
