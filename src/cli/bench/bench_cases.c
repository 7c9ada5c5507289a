// bench_cases.c: see bench_call.h.
#include "cli/bench/bench_call.h"

#include "verification/sets/hard_cases.h"
#include "verification/words/words.h"
#include "verification/sets/presets.h"

#define MOST_CASES 4096

const char *const bench_baselines[] = {"none", "unfused", "clblast", NULL};
// Presets of sizes alone, then whole models (verification/sets/presets.h).
#define PRESET(title, url, ...) title,
const char *const bench_presets[] = {"bert-base", "gpt2", "gpt3", "llama3-8b", "decode", "mla-decode",
#include "verification/sets/presets.def"
                                     NULL};
#undef PRESET

typedef struct shape {
    case_op op;
    bool causal;
    int64_t heads, kv_heads, n, n_kv, d;
    int64_t latent; // Dv if v is a view of k; 0 otherwise
} shape;

// In the order of bench_presets. Sources:
//   Devlin et al. 2019; Radford et al. 2019; Brown et al. 2020, table 2.1 (175B);
//   Llama Team 2024, table 3 (8B);
//   DeepSeek-AI 2024, "DeepSeek-V3", section 4.2 (latents of 512 and 64).
static const shape sizes[] = {
    {CASE_ATTEND, false, 12, 12, 512, 512, 64, 0},   {CASE_ATTEND, true, 12, 12, 1024, 1024, 64, 0},
    {CASE_ATTEND, true, 96, 96, 2048, 2048, 128, 0}, {CASE_ATTEND, true, 32, 8, 4096, 4096, 128, 0},
    {CASE_DECODE, false, 32, 8, 1, 4096, 128, 0},    {CASE_DECODE, false, 128, 1, 1, 4096, 576, 512},
};

#define SIZES ((int64_t)(sizeof sizes / sizeof sizes[0]))
#define MODEL_ROWS 4096

// Shapes without a preset, in the order of names_ops.
static const shape plain[] = {
    {CASE_ATTEND, false, 12, 12, 1024, 1024, 64, 0},   {CASE_DECODE, false, 32, 8, 1, 4096, 128, 0},
    {CASE_LAYER, false, 12, 12, 512, 512, 64, 0},      {CASE_LINEAR, false, 12, 12, 512, 512, 64, 0},
    {CASE_BACKWARD, false, 12, 12, 1024, 1024, 64, 0},
};

static const char *const standard[] = {
    "attend-f32-b1-h12-n1024-d64-full",
    "attend-f32-b1-h12-n1024-d64-full-unfused",
    "attend-f32-b1-h12-n1024-d64-full-clblast",
    "attend-f32-b1-h12-n2048-d64-causal",
    "attend-f32-b1-h16-n4096-d128-full",
    "attend-bf16-b1-h12-n1024-d64-full",
    "attend-bf16-b1-h12-n2048-d64-causal",
    "attend-bf16-b1-h16-n4096-d128-full",
    "decode-f32-b1-h32-hkv8-n1-nkv4096-d128-full",
    "decode-bf16-b1-h32-hkv8-n1-nkv4096-d128-full",
    "layer-f32-b1-h12-n512-d64-m768-full",
};

// The axis's value for the case at these list indices, or `otherwise` if the list is empty.
static int64_t value(const option_list *lists, const int *at, int axis, int64_t otherwise) {
    return lists[axis].count ? lists[axis].x[at[axis]] : otherwise;
}

// The word after names_ops is attend-backward, a second name for backward (bench_ops).
static case_op op_of(const option_list *lists, const int *at, case_op otherwise) {
    const int64_t word = value(lists, at, BENCH_AXIS_OP, otherwise);
    return word > CASE_BACKWARD ? CASE_BACKWARD : (case_op)word;
}

// Fill the fields of a case that depend on the lists alone.
static struct test_case begin(const option_list *lists, const int *at, case_op op) {
    struct test_case c = {.op = op, .no_lse = true};
    const clattn_type type = (clattn_type)value(lists, at, BENCH_AXIS_DTYPE, CLATTN_TYPE_F32);
    c.q_type = c.kv_type = c.out_type = c.grad_type = c.matrix_type = c.bias_type = type;
    c.kernel = (clattn_kernel)value(lists, at, BENCH_AXIS_KERNEL, CLATTN_KERNEL_AUTO);
    c.projection = (clattn_projection)value(lists, at, BENCH_AXIS_PROJECTION, CLATTN_PROJECTION_AUTO);
    c.precision = (clattn_precision)value(lists, at, BENCH_AXIS_PRECISION, CLATTN_PRECISION_EXACT);
    c.packs = value(lists, at, BENCH_AXIS_PACKED, 0) != 0;
    c.batch = value(lists, at, BENCH_AXIS_B, 1);
    return c;
}

// Make the attention or the layer of a model. Decode is one row against the keys before it.
static struct test_case make_model(const option_list *lists, const int *at, const struct preset *preset) {
    const case_op op = op_of(lists, at, CASE_ATTEND);
    struct test_case c = begin(lists, at, op);
    c.heads = value(lists, at, BENCH_AXIS_HEADS, 0);
    c.kv_heads = value(lists, at, BENCH_AXIS_KV_HEADS, c.heads);
    c.head_dim = value(lists, at, BENCH_AXIS_D, 0);
    c.head_dim_v = value(lists, at, BENCH_AXIS_DV, 0);
    c.width = case_projects(&c) ? value(lists, at, BENCH_AXIS_MODEL, 0) : 0;
    preset_apply(preset, &c);
    if (op != CASE_LINEAR && lists[BENCH_AXIS_CAUSAL].count)
        c.score.causal = value(lists, at, BENCH_AXIS_CAUSAL, 1) != 0;
    c.n_q = value(lists, at, BENCH_AXIS_N, op == CASE_DECODE ? 1 : MODEL_ROWS);
    c.n_kv = value(lists, at, BENCH_AXIS_N_KV, op == CASE_DECODE ? MODEL_ROWS : c.n_q);
    if (op == CASE_LAYER && c.n_kv != c.n_q) c.width_y = c.width;
    return c;
}

static struct test_case make(const option_list *lists, const int *at) {
    const int64_t preset = value(lists, at, BENCH_AXIS_PRESET, -1);
    if (preset >= SIZES) return make_model(lists, at, &presets[preset - SIZES]);
    const shape *of = preset >= 0 ? &sizes[preset] : NULL;
    const case_op op = op_of(lists, at, of ? of->op : CASE_ATTEND);
    if (!of) of = &plain[op];
    const bool one_row = op == CASE_DECODE && of->op != CASE_DECODE;
    struct test_case c = begin(lists, at, op);
    c.score.causal = value(lists, at, BENCH_AXIS_CAUSAL, of->causal && !one_row) != 0;
    if (c.score.causal) c.score.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    c.heads = value(lists, at, BENCH_AXIS_HEADS, of->heads);
    // --heads without --kv-heads sets both counts, except for a latent, which always has its own
    // count of KV heads.
    const bool as_many = lists[BENCH_AXIS_HEADS].count && !of->latent;
    c.kv_heads = value(lists, at, BENCH_AXIS_KV_HEADS, as_many ? c.heads : of->kv_heads);
    const int64_t model = value(lists, at, BENCH_AXIS_MODEL, 0);
    c.head_dim = value(lists, at, BENCH_AXIS_D, model ? model / c.heads : of->d);
    c.latent = of->latent > 0 && !case_projects(&c);
    const bool own_size = c.latent && !lists[BENCH_AXIS_D].count;
    c.head_dim_v = value(lists, at, BENCH_AXIS_DV, own_size ? of->latent : c.head_dim);
    if (case_projects(&c)) c.width = model ? model : c.heads * c.head_dim;
    c.n_q = value(lists, at, BENCH_AXIS_N, one_row ? 1 : of->n);
    const bool own_keys = op == CASE_DECODE || !lists[BENCH_AXIS_N].count;
    c.n_kv = value(lists, at, BENCH_AXIS_N_KV, own_keys ? of->n_kv : c.n_q);
    if (op == CASE_LAYER && c.n_kv != c.n_q) c.width_y = c.width;
    return c;
}

static bool valid(const struct test_case *c, char why[256]) {
    if (c->projection && !case_projects(c))
        snprintf(why, 256, "--projection %s: --op %s has no projection: layer and linear have",
                 names_projections[c->projection], names_ops[c->op]);
    else if ((c->precision || c->packs) && !case_projects(c))
        snprintf(why, 256, "--%s: --op %s has no weights: layer and linear have",
                 c->precision ? "precision split" : "packed yes", names_ops[c->op]);
    else if (c->kernel && c->op == CASE_LINEAR)
        snprintf(why, 256, "--kernel %s: --op linear has no attention: --projection selects its kernel",
                 names_kernels[c->kernel]);
    else if (c->kernel && c->op == CASE_BACKWARD)
        snprintf(why, 256, "--kernel %s: --op backward has kernels of its own", names_kernels[c->kernel]);
    else if (c->heads % c->kv_heads)
        snprintf(why, 256, "--kv-heads %lld: must divide --heads %lld", (long long)c->kv_heads,
                 (long long)c->heads);
    else if (c->head_dim < 1)
        snprintf(why, 256, "--d-model %lld: must be at least --heads %lld", (long long)c->width,
                 (long long)c->heads);
    else
        return case_valid(c, why);
    return false;
}

static bool is_listed(const option_list *list, int which) {
    for (int i = 0; i < list->count; i++)
        if (list->x[i] == which) return true;
    return false;
}

static bool parse_one(const char *name, bench_case *c, char why[256]) {
    char text[256], told[256];
    const int hard = hard_case_find(name);
    *c = (bench_case){.baseline = BENCH_NO_BASELINE};
    if (hard >= 0)
        c->test = hard_case(hard);
    else if (!case_parse(name, &c->test, told)) {
        snprintf(text, sizeof text, "%.100s", name);
        snprintf(why, 256, "--case %.100s: %.140s", text, told);
        return false;
    }
    if (c->test.composed) c->baseline = BENCH_CLBLAST;
    return true;
}

bool bench_cases_named(const char *names, bench_case **cases, int *count, char why[256]) {
    int commas = 0;
    for (const char *p = names; *p; p++) commas += *p == ',';
    snprintf(why, 256, "no memory");
    *cases = calloc((size_t)commas + 1, sizeof **cases);
    for (*count = 0; *cases && *count <= commas; (*count)++) {
        char name[CASE_NAME_SIZE];
        const size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < CASE_NAME_SIZE ? length : CASE_NAME_SIZE - 1),
                 names);
        names += length + (names[length] == ',');
        if (parse_one(name, &(*cases)[*count], why)) continue;
        free(*cases);
        *cases = NULL;
    }
    return *cases != NULL;
}

// Copy the standard set with the listed baselines, or with all baselines if none is listed.
static bool copy_standard(const option_list *baselines, bench_case **cases, int *count, char why[256]) {
    *count = 0;
    *cases = malloc(sizeof standard / sizeof standard[0] * sizeof **cases);
    for (size_t i = 0; *cases && i < sizeof standard / sizeof standard[0]; i++) {
        bench_case *c = &(*cases)[*count];
        if (!parse_one(standard[i], c, why)) return false;
        if (c->test.kernel == CLATTN_KERNEL_UNFUSED) c->baseline = BENCH_UNFUSED;
        *count += !c->baseline || !baselines->count || is_listed(baselines, (int)c->baseline);
    }
    return *cases != NULL;
}

// Append the baselines of a case to `to`; returns their count. Cases that differ only in kernel or
// projection share the baselines after the first of them.
static int add_baselines(const option_list *lists, const int *at, const option_list *baselines,
                         const struct test_case *c, bench_case *to) {
    const bool unfused = is_listed(&lists[BENCH_AXIS_KERNEL], CLATTN_KERNEL_UNFUSED);
    int count = 0;
    if (at[BENCH_AXIS_KERNEL] || at[BENCH_AXIS_PROJECTION]) return 0;
    if (is_listed(baselines, BENCH_UNFUSED) && !unfused && c->op != CASE_LINEAR && c->op != CASE_BACKWARD) {
        to[count] = (bench_case){.test = *c, .baseline = BENCH_UNFUSED};
        to[count++].test.kernel = CLATTN_KERNEL_UNFUSED;
    }
    if (is_listed(baselines, BENCH_CLBLAST) && case_attends(c) && !c->latent) {
        to[count] = (bench_case){.test = *c, .baseline = BENCH_CLBLAST};
        to[count].test.kernel = CLATTN_KERNEL_AUTO;
        to[count++].test.composed = true;
    }
    return count;
}

static bool make_product(const option_list *lists, const option_list *baselines, int64_t product,
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
        const struct test_case c = make(lists, at);
        if (!valid(&c, why)) return false;
        cases[(*count)++] = (bench_case){.test = c};
        *count += add_baselines(lists, at, baselines, &c, cases + *count);
    }
    return true;
}

bool bench_cases_make(const option_list lists[BENCH_AXES], const option_list *baselines, bench_case **cases,
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
    if (!given) return copy_standard(baselines, cases, count, why);
    *cases = calloc((size_t)product * 3, sizeof **cases); // each case has at most two baselines
    if (*cases && make_product(lists, baselines, product, *cases, count, why)) return true;
    free(*cases);
    *cases = NULL;
    return false;
}
