// cases.c: see cases.h.
#include "tool/bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CASES 4096

const char *const bench_ops[] = {"attend", "decode", "layer", "linear", NULL};
const char *const bench_dtypes[] = {"f32", "f16", "bf16", NULL};
const char *const bench_kernels[] = {"auto", "unfused", "flash", "decode", NULL};
const char *const bench_projections[] = {"auto", "clblast", "native", NULL};
const char *const bench_baselines[] = {"none", "unfused", "clblast", NULL};
const char *const bench_presets[] = {"bert-base", "gpt2", "gpt3", "llama3-8b", "decode", NULL};

typedef struct shape {
    bench_op op;
    bool causal;
    int64_t heads, kv_heads, n, n_kv, d;
} shape;

// In the order of bench_presets. Sources: Devlin et al. 2019; Radford et al. 2019; Brown et al. 2020,
// table 2.1 (175B); Llama Team 2024, table 3 (8B).
static const shape presets[] = {
    {BENCH_ATTEND, false, 12, 12, 512, 512, 64},   {BENCH_ATTEND, true, 12, 12, 1024, 1024, 64},
    {BENCH_ATTEND, true, 96, 96, 2048, 2048, 128}, {BENCH_ATTEND, true, 32, 8, 4096, 4096, 128},
    {BENCH_DECODE, false, 32, 8, 1, 4096, 128},
};

// Without a preset, in the order of bench_ops.
static const shape plain[] = {
    {BENCH_ATTEND, false, 12, 12, 1024, 1024, 64},
    {BENCH_DECODE, false, 32, 8, 1, 4096, 128},
    {BENCH_LAYER, false, 12, 12, 512, 512, 64},
    {BENCH_LINEAR, false, 12, 12, 512, 512, 64},
};

#define CASE(OP, DTYPE, CAUSAL, H, HKV, N, NKV, D)                                                           \
    .op = BENCH_##OP, .dtype = CLATTN_TYPE_##DTYPE, .causal = CAUSAL, .b = 1, .heads = H, .kv_heads = HKV,   \
    .n = N, .n_kv = NKV, .d = D, .dv = D
static const bench_case standard[] = {
    {CASE(ATTEND, F32, false, 12, 12, 1024, 1024, 64)},
    {CASE(ATTEND, F32, false, 12, 12, 1024, 1024, 64), .kernel = CLATTN_KERNEL_UNFUSED,
     .baseline = BENCH_UNFUSED},
    {CASE(ATTEND, F32, false, 12, 12, 1024, 1024, 64), .baseline = BENCH_CLBLAST},
    {CASE(ATTEND, F32, true, 12, 12, 2048, 2048, 64)},
    {CASE(ATTEND, F32, false, 16, 16, 4096, 4096, 128)},
    {CASE(ATTEND, BF16, false, 12, 12, 1024, 1024, 64)},
    {CASE(ATTEND, BF16, true, 12, 12, 2048, 2048, 64)},
    {CASE(ATTEND, BF16, false, 16, 16, 4096, 4096, 128)},
    {CASE(DECODE, F32, false, 32, 8, 1, 4096, 128)},
    {CASE(DECODE, BF16, false, 32, 8, 1, 4096, 128)},
    {CASE(LAYER, F32, false, 12, 12, 512, 512, 64), .model = 768},
};

void bench_case_name(const bench_case *c, char name[BENCH_NAME_SIZE]) {
    char kv_heads[32] = "", n_kv[32] = "", dv[32] = "", model[32] = "", kernel[32] = "", projection[32] = "";
    if (c->kv_heads != c->heads) snprintf(kv_heads, sizeof kv_heads, "-hkv%lld", (long long)c->kv_heads);
    if (c->n_kv != c->n) snprintf(n_kv, sizeof n_kv, "-nkv%lld", (long long)c->n_kv);
    if (c->dv != c->d) snprintf(dv, sizeof dv, "-dv%lld", (long long)c->dv);
    if (c->model) snprintf(model, sizeof model, "-m%lld", (long long)c->model);
    if (c->kernel) snprintf(kernel, sizeof kernel, "-%s", bench_kernels[c->kernel]);
    if (c->projection) snprintf(projection, sizeof projection, "-%s", bench_projections[c->projection]);
    snprintf(name, BENCH_NAME_SIZE, "%s-%s-b%lld-h%lld%s-n%lld%s-d%lld%s%s-%s%s%s%s", bench_ops[c->op],
             bench_dtypes[c->dtype], (long long)c->b, (long long)c->heads, kv_heads, (long long)c->n, n_kv,
             (long long)c->d, dv, model, c->causal ? "causal" : "full", kernel, projection,
             c->baseline == BENCH_CLBLAST ? "-clblast" : "");
}

// The value of an axis for the case at these indices.
static int64_t value(const bench_list *lists, const int *at, int axis, int64_t otherwise) {
    return lists[axis].count ? lists[axis].x[at[axis]] : otherwise;
}

static bench_case make(const bench_list *lists, const int *at) {
    const bool preset = lists[BENCH_AXIS_PRESET].count > 0;
    const shape *of = preset ? &presets[lists[BENCH_AXIS_PRESET].x[at[BENCH_AXIS_PRESET]]] : NULL;
    const bench_op op = (bench_op)value(lists, at, BENCH_AXIS_OP, of ? of->op : BENCH_ATTEND);
    if (!of) of = &plain[op];
    const bool one_row = op == BENCH_DECODE && of->op != BENCH_DECODE;
    bench_case c = {.op = op};
    c.dtype = (clattn_type)value(lists, at, BENCH_AXIS_DTYPE, CLATTN_TYPE_F32);
    c.kernel = (clattn_kernel)value(lists, at, BENCH_AXIS_KERNEL, CLATTN_KERNEL_AUTO);
    c.projection = (clattn_projection)value(lists, at, BENCH_AXIS_PROJECTION, CLATTN_PROJECTION_AUTO);
    c.causal = value(lists, at, BENCH_AXIS_CAUSAL, of->causal && !one_row) != 0;
    c.b = value(lists, at, BENCH_AXIS_B, 1);
    c.heads = value(lists, at, BENCH_AXIS_HEADS, of->heads);
    // A number of heads without one of key/value heads asks for as many of these.
    c.kv_heads =
        value(lists, at, BENCH_AXIS_KV_HEADS, lists[BENCH_AXIS_HEADS].count ? c.heads : of->kv_heads);
    const int64_t model = value(lists, at, BENCH_AXIS_MODEL, 0);
    c.d = value(lists, at, BENCH_AXIS_D, model ? model / c.heads : of->d);
    c.dv = value(lists, at, BENCH_AXIS_DV, c.d);
    if (op == BENCH_LAYER || op == BENCH_LINEAR) c.model = model ? model : c.heads * c.d;
    c.n = value(lists, at, BENCH_AXIS_N, one_row ? 1 : of->n);
    const bool own_keys = op == BENCH_DECODE || !lists[BENCH_AXIS_N].count;
    c.n_kv = value(lists, at, BENCH_AXIS_N_KV, own_keys ? of->n_kv : c.n);
    return c;
}

static bool valid(const bench_case *c, char why[256]) {
    const bool projects = c->op == BENCH_LAYER || c->op == BENCH_LINEAR;
    if (c->projection && !projects)
        snprintf(why, 256, "--projection %s: --op %s has none: layer and linear have",
                 bench_projections[c->projection], bench_ops[c->op]);
    else if (c->kernel && c->op == BENCH_LINEAR)
        snprintf(why, 256, "--kernel %s: --op linear has no attention: --projection says who multiplies",
                 bench_kernels[c->kernel]);
    else if (c->heads % c->kv_heads)
        snprintf(why, 256, "--kv-heads %lld: must divide --heads %lld", (long long)c->kv_heads,
                 (long long)c->heads);
    else if (c->d < 1)
        snprintf(why, 256, "--d-model %lld: must be at least --heads %lld", (long long)c->model,
                 (long long)c->heads);
    else
        return true;
    return false;
}

static bool is_listed(const bench_list *list, int which) {
    for (int i = 0; i < list->count; i++)
        if (list->x[i] == which) return true;
    return false;
}

// With the baselines that are asked for, or with all where none is asked for.
static bool copy_standard(const bench_list *baselines, bench_case **cases, int *count) {
    *count = 0;
    *cases = malloc(sizeof standard);
    for (size_t i = 0; *cases && i < sizeof standard / sizeof standard[0]; i++)
        if (!standard[i].baseline || !baselines->count || is_listed(baselines, (int)standard[i].baseline))
            (*cases)[(*count)++] = standard[i];
    return *cases != NULL;
}

// The baselines of a case, onto `to`; their number is returned. Kernels and projections that are compared
// share one of each, behind the first.
static int add_baselines(const bench_list *lists, const int *at, const bench_list *baselines,
                         const bench_case *c, bench_case *to) {
    const bool unfused = is_listed(&lists[BENCH_AXIS_KERNEL], CLATTN_KERNEL_UNFUSED);
    int count = 0;
    if (at[BENCH_AXIS_KERNEL] || at[BENCH_AXIS_PROJECTION]) return 0;
    if (is_listed(baselines, BENCH_UNFUSED) && !unfused && c->op != BENCH_LINEAR) {
        to[count] = *c;
        to[count].kernel = CLATTN_KERNEL_UNFUSED;
        to[count++].baseline = BENCH_UNFUSED;
    }
    if (is_listed(baselines, BENCH_CLBLAST) && (c->op == BENCH_ATTEND || c->op == BENCH_DECODE)) {
        to[count] = *c;
        to[count].kernel = CLATTN_KERNEL_AUTO;
        to[count++].baseline = BENCH_CLBLAST;
    }
    return count;
}

static bool make_product(const bench_list *lists, const bench_list *baselines, int64_t product,
                         bench_case *cases, int *count, char why[256]) {
    *count = 0;
    for (int64_t i = 0; i < product; i++) {
        int at[BENCH_AXES] = {0};
        int64_t rest = i;
        for (int a = BENCH_AXES - 1; a >= 0; a--) {
            const int size = lists[a].count ? lists[a].count : 1;
            at[a] = (int)(rest % size);
            rest /= size;
        }
        const bench_case c = make(lists, at);
        if (!valid(&c, why)) return false;
        cases[(*count)++] = c;
        *count += add_baselines(lists, at, baselines, &c, cases + *count);
    }
    return true;
}

bool bench_cases_make(const bench_list lists[BENCH_AXES], const bench_list *baselines, bench_case **cases,
                      int *count, char why[256]) {
    int64_t product = 1;
    bool given = false;
    for (int a = 0; a < BENCH_AXES && product <= MOST_CASES; a++) {
        given = given || lists[a].count > 0;
        product *= lists[a].count ? lists[a].count : 1;
    }
    snprintf(why, 256, "the lists make more than %d cases", MOST_CASES);
    if (product > MOST_CASES) return false;
    snprintf(why, 256, "no memory");
    if (!given) return copy_standard(baselines, cases, count);
    *cases = calloc((size_t)product * 3, sizeof **cases); // each with two baselines at most
    if (*cases && make_product(lists, baselines, product, *cases, count, why)) return true;
    free(*cases);
    *cases = NULL;
    return false;
}
