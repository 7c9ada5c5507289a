// limits_share.c: see limits_share.h.
#include "verification/limits/limits_share.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Names of engines in rows, and of the probes that measure them (clattn_engine.name).
static const struct {
    const char *name, *probe;
} engines_of[LIMIT_ENGINES] = {
    [LIMIT_ENGINE_FMA] = {"float32 FMA", "multiply-add in vectors"},
    [LIMIT_ENGINE_DOT_BF16] = {"bfloat16 dot product", "bfloat16 dot product"},
    [LIMIT_ENGINE_DOT_I8] = {"int8 dot product", "integer dot product (VNNI)"},
    [LIMIT_ENGINE_AMX_BF16] = {"AMX bfloat16", "bfloat16 matrix tiles (AMX)"},
    [LIMIT_ENGINE_AMX_I8] = {"AMX int8", "int8 matrix tiles (AMX)"},
    [LIMIT_ENGINE_OTHER] = {"float32 FMA (the engine's peak is not measured)", ""},
};

const char *limits_engine_name(limit_engine engine) {
    return engines_of[engine].name;
}

// A name with three digits and no exponent.
static void name_reading(double bytes, const char *level, char name[64]) {
    const bool large = bytes >= 1e5;
    const double shown = bytes / (large ? 1e6 : 1e3);
    snprintf(name, 64, shown < 1000.0 ? "reading %.3g %s (%s)" : "reading %.0f %s (%s)", shown,
             large ? "MB" : "kB", level);
}

static bool is_float(clattn_type type) {
    return type == CLATTN_TYPE_F32 || type == CLATTN_TYPE_F16 || type == CLATTN_TYPE_BF16;
}

limit_engine limits_engine(const char *kernel, bool matrix_instructions, clattn_type q, clattn_type kv) {
    // A projection's plan does not name its instructions. Its types determine the engine.
    const bool projects = !strncmp(kernel, "linear_", 7), floats = is_float(kv);
    const bool has = matrix_instructions || projects;
    if (strstr(kernel, "_fragments")) return has ? LIMIT_ENGINE_OTHER : LIMIT_ENGINE_FMA;
    if (strstr(kernel, "_matrix"))
        return !has ? LIMIT_ENGINE_FMA : floats ? LIMIT_ENGINE_AMX_BF16 : LIMIT_ENGINE_AMX_I8;
    if (!strstr(kernel, "_lanes") && !strstr(kernel, "_rows"))
        return matrix_instructions ? LIMIT_ENGINE_OTHER : LIMIT_ENGINE_FMA;
    if (projects && floats && (q != CLATTN_TYPE_BF16 || kv != CLATTN_TYPE_BF16)) return LIMIT_ENGINE_FMA;
    return !has ? LIMIT_ENGINE_FMA : floats ? LIMIT_ENGINE_DOT_BF16 : LIMIT_ENGINE_DOT_I8;
}

void limits_take_engines(const clattn_engine *engines, size_t count, unsigned units, struct limits *found) {
    double rates[LIMIT_ENGINES] = {0.0};
    for (size_t i = 0; i < count; i++)
        for (int e = 0; e < LIMIT_ENGINES; e++)
            if (engines[i].works && !strcmp(engines[i].name, engines_of[e].probe))
                rates[e] = (double)engines[i].gflops * units;
    const double fma = rates[LIMIT_ENGINE_FMA], all = found->fma_gflops;
    const double share = fma > 0.0 && all > 0.0 && all < fma ? all / fma : 1.0;
    for (int e = LIMIT_ENGINE_FMA + 1; e < LIMIT_ENGINES; e++)
        if (share * rates[e] > found->engine_gflops[e]) found->engine_gflops[e] = share * rates[e];
}

// The peak of a case's engine. *engine becomes float32 FMA if the engine's own peak is unknown.
static double peak_of(const struct limits *found, limit_engine *engine) {
    const double own = found->engine_gflops[*engine];
    if (*engine != LIMIT_ENGINE_FMA && own > 0.0) return own;
    if (*engine != LIMIT_ENGINE_OTHER) *engine = LIMIT_ENGINE_FMA;
    return found->fma_gflops;
}

// The fastest measured rate of reading this many bytes or more, because fewer bytes cannot be
// slower. *level is the level that they fit.
static double read_rate(const struct limits *found, const struct limit_demand *d, const char **level) {
    double rate = found->read_gbytes_per_s;
    *level = "memory";
    for (int i = found->level_count - 1; i >= 0; i--) {
        const struct limit_level *l = &found->levels[i];
        if (d->bytes > (double)l->capacity) continue;
        *level = l->name;
        const bool seen = d->bytes <= (double)l->read_bytes || d->read_gbytes_per_s <= 0.0;
        if (seen && l->gbytes_per_s > rate) rate = l->gbytes_per_s;
    }
    return d->read_gbytes_per_s > rate ? d->read_gbytes_per_s : rate;
}

struct limit_share limits_share(const struct limits *found, const struct limit_demand *d) {
    struct limit_share s = {.name = ""};
    limit_engine engine = d->engine;
    const char *level;
    const double peak = peak_of(found, &engine), read = read_rate(found, d, &level);
    const double counted = peak > 0.0 ? 100.0 * d->flops / d->time_ns / peak : 0.0;
    const double moved = read > 0.0 ? 100.0 * d->bytes / d->time_ns / read : 0.0;
    if (d->time_ns <= 0.0 || (peak <= 0.0 && read <= 0.0)) return s;
    s.reads = moved > counted || peak <= 0.0;
    s.rate = s.reads ? read : peak;
    s.percent = s.reads ? moved : counted;
    if (s.reads)
        name_reading(d->bytes, level, s.name);
    else
        snprintf(s.name, sizeof s.name, "%s", engines_of[engine].name);
    return s;
}

#define FASTEST_ENGINE 32.0 // times float32 FMA

bool limits_may_read(const struct limits *found, const struct limit_demand *d) {
    limit_engine engine = d->engine;
    const double known = peak_of(found, &engine),
                 peak = found->engine_gflops[d->engine] > 0.0 || d->engine == LIMIT_ENGINE_FMA
                            ? known
                            : FASTEST_ENGINE * known;
    return found->read_gbytes_per_s > 0.0 && d->bytes * peak > d->flops * found->read_gbytes_per_s;
}

static void add(char text[LIMIT_LINE], const char *format, ...) {
    const size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, LIMIT_LINE - used, format, list);
    va_end(list);
}

// Limits contradict each other if one of these bounds is broken:
//    NOISE               FMA reaches at least this share of FMA with loads, and an inner cache at
//                        least this share of an outer one
//    ALIKE               FMA with loads, and a loop in C, reach at least this share of FMA
//    SLOWEST_MEMORY      the last cache is at most this many times faster than memory
//    MOST_FLOPS_A_BYTE   most FMA operations per byte read from memory; usually 15 to 80
#define NOISE 0.75
#define ALIKE 0.5
#define SLOWEST_MEMORY 30.0
#define MOST_FLOPS_A_BYTE 200.0

static void compare_products(const struct limits *found, char text[LIMIT_LINE]) {
    const double fma = found->fma_gflops, loads = found->fma_loads_gflops, native = found->native_fma_gflops;
    if (loads > 0.0 && loads < ALIKE * fma)
        add(text, "FMA with loads %.1f GFLOP/s beside FMA %.1f; ", loads, fma);
    if (fma > 0.0 && fma < NOISE * loads) add(text, "FMA %.1f GFLOP/s beside %.1f with loads; ", fma, loads);
    if (native > 0.0 && native < ALIKE * fma)
        add(text, "FMA by a loop in C %.1f GFLOP/s beside %.1f by OpenCL; ", native, fma);
}

// A level nearer to the cores must not be slower.
static void compare_reading(const struct limits *found, char text[LIMIT_LINE]) {
    const double memory = found->read_gbytes_per_s, fma = found->fma_gflops;
    double outer = memory;
    const char *name = "memory";
    for (int i = found->level_count - 1; i >= 0; i--) {
        const struct limit_level *l = &found->levels[i];
        if (l->gbytes_per_s < NOISE * outer)
            add(text, "reading from %s %.1f GB/s beside %.1f from %s; ", l->name, l->gbytes_per_s, outer,
                name);
        if (l->gbytes_per_s > outer) outer = l->gbytes_per_s, name = l->name;
    }
    const double last = found->level_count ? found->levels[found->level_count - 1].gbytes_per_s : 0.0;
    const double least =
        last / SLOWEST_MEMORY > fma / MOST_FLOPS_A_BYTE ? last / SLOWEST_MEMORY : fma / MOST_FLOPS_A_BYTE;
    if (memory > 0.0 && memory < least)
        add(text, "reading from memory %.1f GB/s beside FMA %.1f GFLOP/s%s", memory, fma,
            last > 0.0 ? "" : "; ");
    if (memory > 0.0 && memory < least && last > 0.0)
        add(text, " and %.1f GB/s from %s; ", last, found->levels[found->level_count - 1].name);
}

const char *limits_contradiction(const struct limits *found, char text[LIMIT_LINE]) {
    static const char first[] = "Limits of this run contradict each other: ";
    snprintf(text, LIMIT_LINE, "%s", first);
    compare_products(found, text);
    compare_reading(found, text);
    size_t used = strlen(text);
    if (used == sizeof first - 1) return "";
    if (used > 2 && text[used - 2] == ';') text[used - 2] = '\0';
    add(text, ". Other work, or a driver that emulates instructions, slowed at least one of them: "
              "percentages of these "
              "limits are unreliable.");
    return text;
}

// Median time divided by minimum time; an undisturbed loop is a few percent above 1.
#define CONTENDED 1.15
// least share of the cores' time; below 1 because threads need time to start
#define LEAST_SHARE 0.8
// instructions per cycle; a core that runs one thread executes four or more
#define FEW_INSTRUCTIONS 3.5

const char *limits_contended(const struct limits *found, char text[LIMIT_LINE]) {
    if (*limits_contradiction(found, text)) return text;
    if (found->cores_share > 0.0 && found->cores_share < LEAST_SHARE) {
        snprintf(text, LIMIT_LINE,
                 "The machine is contended: busy threads of this program got %.0f %% of the cores' time.",
                 100.0 * found->cores_share);
        return text;
    }
    if (found->instructions > 0.0 && found->instructions < FEW_INSTRUCTIONS)
        return "The machine is contended: its cores give this program a part of their instructions, as where "
               "another thread runs on the same core.";
    if (found->disturbed > CONTENDED)
        return "The machine is contended: the same loop took much longer at times.";
    return "";
}
