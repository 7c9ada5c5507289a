// mod_value.c: see mod_value.h.
#include "mods/mod_value.h"

#include <check.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static double exp10_of(double x) {
    return pow(10.0, x);
}
static double rsqrt_of(double x) {
    return 1.0 / sqrt(x);
}
static double sinpi_of(double x) {
    return sin(pi * x);
}
static double cospi_of(double x) {
    return cos(pi * x);
}
static double tanpi_of(double x) {
    return tan(pi * x);
}
static double asinpi_of(double x) {
    return asin(x) / pi;
}
static double acospi_of(double x) {
    return acos(x) / pi;
}
static double atanpi_of(double x) {
    return atan(x) / pi;
}
static double degrees_of(double x) {
    return x * 180.0 / pi;
}
static double radians_of(double x) {
    return x * pi / 180.0;
}
static double sign_of(double x) {
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
}
static double recip_of(double x) {
    return 1.0 / x;
}
static double not_a_number(double x) {
    (void)x;
    return NAN;
}
static double is_nan(double x) {
    return isnan(x) != 0;
}
static double divide_of(double x, double y) {
    return x / y;
}
static double atan2pi_of(double x, double y) {
    return atan2(x, y) / pi;
}
static double minmag_of(double x, double y) {
    return fabs(x) < fabs(y) ? x : fabs(y) < fabs(x) ? y : fmin(x, y);
}
static double maxmag_of(double x, double y) {
    return fabs(x) > fabs(y) ? x : fabs(y) > fabs(x) ? y : fmax(x, y);
}
static double rootn_of(double x, double n) {
    return x < 0.0 && fmod(n, 2.0) != 0.0 ? -pow(-x, 1.0 / n) : pow(x, 1.0 / n);
}
static double ldexp_of(double x, double n) {
    return x * exp2(n);
}
static double step_of(double edge, double x) {
    return x < edge ? 0.0 : 1.0;
}
static double clamp_of(double x, double least, double most) {
    return fmin(fmax(x, least), most);
}
static double mix_of(double x, double y, double a) {
    return x + (y - x) * a;
}
static double smoothstep_of(double from, double to, double x) {
    const double t = clamp_of((x - from) / (to - from), 0.0, 1.0);
    return t * t * (3.0 - 2.0 * t);
}
static double select_of(double no, double yes, double by) {
    return by != 0.0 ? yes : no;
}
static double mad_of(double x, double y, double z) {
    return x * y + z;
}

static const struct function {
    const char *name;
    double (*of)(double);
    double (*of_two)(double, double);
    double (*of_three)(double, double, double);
} functions[] = {{"tanh", tanh, 0, 0},
                 {"exp", exp, 0, 0},
                 {"exp2", exp2, 0, 0},
                 {"exp10", exp10_of, 0, 0},
                 {"expm1", expm1, 0, 0},
                 {"log", log, 0, 0},
                 {"log2", log2, 0, 0},
                 {"log10", log10, 0, 0},
                 {"log1p", log1p, 0, 0},
                 {"sqrt", sqrt, 0, 0},
                 {"rsqrt", rsqrt_of, 0, 0},
                 {"cbrt", cbrt, 0, 0},
                 {"sin", sin, 0, 0},
                 {"cos", cos, 0, 0},
                 {"tan", tan, 0, 0},
                 {"sinh", sinh, 0, 0},
                 {"cosh", cosh, 0, 0},
                 {"asin", asin, 0, 0},
                 {"acos", acos, 0, 0},
                 {"atan", atan, 0, 0},
                 {"asinh", asinh, 0, 0},
                 {"acosh", acosh, 0, 0},
                 {"atanh", atanh, 0, 0},
                 {"sinpi", sinpi_of, 0, 0},
                 {"cospi", cospi_of, 0, 0},
                 {"tanpi", tanpi_of, 0, 0},
                 {"asinpi", asinpi_of, 0, 0},
                 {"acospi", acospi_of, 0, 0},
                 {"atanpi", atanpi_of, 0, 0},
                 {"erf", erf, 0, 0},
                 {"erfc", erfc, 0, 0},
                 {"fabs", fabs, 0, 0},
                 {"abs", fabs, 0, 0},
                 {"floor", floor, 0, 0},
                 {"ceil", ceil, 0, 0},
                 {"trunc", trunc, 0, 0},
                 {"rint", rint, 0, 0},
                 {"round", round, 0, 0},
                 {"sign", sign_of, 0, 0},
                 {"logb", logb, 0, 0},
                 {"degrees", degrees_of, 0, 0},
                 {"radians", radians_of, 0, 0},
                 {"recip", recip_of, 0, 0},
                 {"nan", not_a_number, 0, 0},
                 {"isnan", is_nan, 0, 0},
                 {"lgamma", lgamma, 0, 0},
                 {"pow", 0, pow, 0},
                 {"powr", 0, pow, 0},
                 {"pown", 0, pow, 0},
                 {"rootn", 0, rootn_of, 0},
                 {"ldexp", 0, ldexp_of, 0},
                 {"fmin", 0, fmin, 0},
                 {"fmax", 0, fmax, 0},
                 {"min", 0, fmin, 0},
                 {"max", 0, fmax, 0},
                 {"minmag", 0, minmag_of, 0},
                 {"maxmag", 0, maxmag_of, 0},
                 {"fdim", 0, fdim, 0},
                 {"fmod", 0, fmod, 0},
                 {"remainder", 0, remainder, 0},
                 {"hypot", 0, hypot, 0},
                 {"atan2", 0, atan2, 0},
                 {"atan2pi", 0, atan2pi_of, 0},
                 {"copysign", 0, copysign, 0},
                 {"step", 0, step_of, 0},
                 {"divide", 0, divide_of, 0},
                 {"fma", 0, 0, mad_of},
                 {"mad", 0, 0, mad_of},
                 {"mix", 0, 0, mix_of},
                 {"clamp", 0, 0, clamp_of},
                 {"smoothstep", 0, 0, smoothstep_of},
                 {"select", 0, 0, select_of}};

static bool is(const mod_node *x, const char *word) {
    return (int)strlen(word) == x->length && !strncmp(x->at, word, (size_t)x->length);
}

static double named(const mod_node *x, const struct mod_value_at *at) {
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"true", 1.0},
                     {"false", 0.0},
                     {"INFINITY", INFINITY},
                     {"NAN", NAN},
                     {"FLT_MAX", (double)FLT_MAX},
                     {"INT_MAX", INT_MAX},
                     {"M_PI_F", 3.14159265358979323846},
                     {"M_1_PI_F", 0.318309886183790671538},
                     {"M_SQRT1_2_F", 0.707106781186547524401},
                     {"M_LN2_F", 0.693147180559945309417},
                     {"M_LN10_F", 2.30258509299404568402},
                     {"M_LOG2E_F", 1.44269504088896340736},
                     {"M_LOG10E_F", 0.434294481903251827651},
                     {"M_2_SQRTPI_F", 1.12837916709551257390}};
    if (is(x, "score")) return at->score;
    if (is(x, "i") || is(x, "row")) return at->i;
    if (is(x, "j")) return at->j;
    for (size_t n = 0; n < sizeof constants / sizeof constants[0]; n++)
        if (is(x, constants[n].name)) return constants[n].value;
    ck_assert_msg(x->by != 0, "%.*s has no value here", x->length, x->at);
    return 1.0;
}

static double called(const mod_node *x, const double p[3]) {
    if (!x->function) return p[0];
    const char *name = x->function->name;
    name += !strncmp(name, "half_", 5) ? 5 : !strncmp(name, "native_", 7) ? 7 : 0;
    for (size_t n = 0; n < sizeof functions / sizeof functions[0]; n++) {
        const struct function *f = &functions[n];
        if (strcmp(f->name, name) != 0) continue;
        return f->of ? f->of(p[0]) : f->of_two ? f->of_two(p[0], p[1]) : f->of_three(p[0], p[1], p[2]);
    }
    ck_abort_msg("%s has no value here", name);
    return 0.0;
}

static double joined(const mod_node *x, double a, double b) {
    const bool whole = x->type < MOD_FLOAT;
    switch (*x->at) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '/':
        return whole ? trunc(a / b) : a / b;
    case '%':
        return fmod(a, b);
    case '&':
        return (double)((long)a & (long)b);
    case '<':
        return is(x, "<=") ? a <= b : a < b;
    case '>':
        return is(x, ">=") ? a >= b : a > b;
    default:
        return is(x, "!=") ? a != b : a == b;
    }
}

double mod_value(const mod_tree *tree, int node, const struct mod_value_at *at) {
    const mod_node *x = &tree->nodes[node];
    double p[3] = {0.0, 0.0, 0.0};
    if (x->kind == MOD_LOAD) return at->element;
    if (x->kind == MOD_NUMBER) return x->constant ? (double)x->value : strtod(x->at, NULL);
    if (x->kind == MOD_NAME) return named(x, at);
    for (int n = 0; n < x->parts && n < 3; n++) p[n] = mod_value(tree, x->part[n], at);
    switch (x->kind) {
    case MOD_UNARY:
        return *x->at == '-' ? -p[0] : *x->at == '!' ? p[0] == 0.0 : p[0];
    case MOD_BINARY:
        return joined(x, p[0], p[1]);
    case MOD_AND:
        return p[0] != 0.0 && p[1] != 0.0;
    case MOD_OR:
        return p[0] != 0.0 || p[1] != 0.0;
    case MOD_CHOICE:
        return p[0] != 0.0 ? p[1] : p[2];
    case MOD_CAST:
        return x->type == MOD_BOOL ? p[0] != 0.0 : x->type < MOD_FLOAT ? trunc(p[0]) : p[0];
    case MOD_CALL:
        return called(x, p);
    default:
        ck_abort_msg("%.*s has no value here", x->length, x->at);
        return 0.0;
    }
}

double mod_value_of(const mod_source *source, const struct mod_value_at *at) {
    mod_tree *tree = malloc(sizeof *tree);
    mod_fault fault;
    char why[MOD_WHY];
    ck_assert_ptr_nonnull(tree);
    ck_assert_msg(cla_mod_parse(source, tree, &fault, why), "%s: %s", source->text, fault.why);
    const double value = mod_value(tree, tree->root, at);
    free(tree);
    return value;
}
