// test_plan_matrix.c: when the planner uses a matrix engine, and with which layout. The rest of the
// planner is in test_plan.c. Uses the library's internals, from the static library.
#include "args/args.h"

#include "plan/plan_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const clattn_capabilities cpu = {.is_cpu = true,
                                        .compute_units = 2,
                                        .float_vector_width = 16,
                                        .max_work_group = 4096,
                                        .max_work_item = {4096, 4096, 4096},
                                        .local_memory_bytes = 1 << 20,
                                        .max_allocation_bytes = 1u << 28};

// Tiles of a matrix engine: the default if the probe passed and they are far faster. They are never
// used if a caller's row names another kernel. The emulation is used only if a row names it.
START_TEST(tiles_by_rate) {
    static const struct {
        const char *own;
        float rate; // 0: not proven
        int engine; // expected engine; 0: another family
    } cases[] = {{NULL, 0.0f, 0},
                 {NULL, 1800.0f, MATRIX_ENGINE_AMX},
                 {NULL, 800.0f, 0},
                 {"flash_lanes :", 1800.0f, 0},
                 {"decode_lanes :", 1800.0f, MATRIX_ENGINE_AMX},
                 {"flash_matrix :", 0.0f, MATRIX_ENGINE_EMULATION},
                 {"flash_matrix :", 100.0f, MATRIX_ENGINE_AMX},
                 {"flash_matrix : MATRIX_ENGINE=1", 1800.0f, MATRIX_ENGINE_EMULATION},
                 {"flash_matrix : MATRIX_ENGINE=2", 0.0f, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = {.batch = 1, .heads = 8, .kv_heads = 8, .n_q = 1024, .n_kv = 1024, .head_dim_v = 80};
        tuned_rows own = {0};
        char why[256];
        variant v;
        p.type_q = p.type_out = CLATTN_TYPE_BF16;
        plan_input in = {.device = &cpu, .shipped = &shipped};
        in.probes.ran = 1u << PROBE_FMA | 1u << PROBE_DOT_BF16 | 1u << PROBE_AMX;
        in.probes.proven = 1u << PROBE_FMA | 1u << PROBE_DOT_BF16;
        in.probes.rate[PROBE_FMA] = 100.0f, in.probes.rate[PROBE_DOT_BF16] = 200.0f;
        in.probes.rate[PROBE_AMX] = cases[i].rate;
        if (cases[i].rate > 0.0f) in.probes.proven |= 1u << PROBE_AMX;
        if (cases[i].own) ck_assert(cla_tuned_parse(cases[i].own, &own, why, sizeof why));
        in.own = &own;
        for (int n = 0; n < 3; n++) {
            p.type_kv = n == 1 ? CLATTN_TYPE_F32 : CLATTN_TYPE_BF16;
            p.head_dim = n == 2 ? 257 : 64;
            ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
            ck_assert_msg(v.knobs.matrix_engine == (n ? 0 : cases[i].engine), "%zu: engine %d", i,
                          v.knobs.matrix_engine);
            ck_assert_int_eq(v.family->id == KERNEL_FLASH_MATRIX, v.knobs.matrix_engine != 0);
            ck_assert_uint_eq(v.packed_bytes, v.knobs.matrix_engine ? 8 * 1024 * 96 * 2 : 0);
        }
        cla_tuned_free(&own);
    }
}
END_TEST

// int8 keys need two passed probes, of bytes and of bfloat16. The rate must promise less time than
// byte dot products and multiply-adds. Only int8 with one float32 scale per row qualifies. Queries
// with more digits, or float32 split into terms, need more products.
enum { F32, F16, BF16, I8 = CLATTN_TYPE_I8, E4 = CLATTN_TYPE_F8E4M3, E5, Q8, Q4, Q41 };
static const struct integers_case {
    const char *own;
    int q, out, head;
    float rate;     // rate of byte tiles; 0: not proven
    bool floats;    // the bfloat16 tile probe passed
    int dot, group; // GOP/s of byte dot products; scale_group
    int engine;     // expected engine; 0: another family
    const char *says;
} integers_cases[] = {
    {NULL, BF16, BF16, 128, 0, true, 0, 0, 0, "no matrix engine is proven"},
    {NULL, BF16, BF16, 128, 3600, false, 0, 0, 0, "no matrix engine is proven"},
    {NULL, BF16, BF16, 128, 3600, true, 0, 0, MATRIX_ENGINE_AMX, "AMX, keys in integers, 3600 GFLOP/s"},
    {NULL, BF16, BF16, 128, 3600, true, 200, 0, MATRIX_ENGINE_AMX, "AMX, keys in integers, 3600 GFLOP/s"},
    {NULL, BF16, BF16, 128, 1300, true, 200, 0, 0, "predicted to be"},
    {NULL, BF16, BF16, 128, 1500, true, 200, 0, MATRIX_ENGINE_AMX, "AMX"},
    {NULL, F32, F32, 128, 1500, true, 0, 0, 0, "predicted to be"},
    {NULL, F32, F32, 128, 1900, true, 0, 0, MATRIX_ENGINE_AMX, "AMX"},
    {NULL, F16, F16, 128, 1300, true, 0, 0, 0, "predicted to be"},
    {NULL, F16, F16, 128, 1500, true, 0, 0, MATRIX_ENGINE_AMX, "AMX"},
    {NULL, F16, F16, 33, 3600, true, 0, 0, MATRIX_ENGINE_AMX, "AMX"},
    {NULL, BF16, BF16, 257, 3600, true, 0, 0, 0, "head sizes up to 256"},
    {NULL, BF16, BF16, 128, 3600, true, 0, 32, 0, "a float32 scale a row"},
    {"flash_lanes :", BF16, BF16, 128, 3600, true, 0, 0, 0, "names another kernel"},
    {"flash_matrix :", BF16, BF16, 41, 0, true, 0, 0, MATRIX_ENGINE_EMULATION, "keys in integers, emulated"},
    {"flash_matrix :", F32, F32, 64, 10, true, 200, 0, MATRIX_ENGINE_AMX, "AMX"},
    {"flash_matrix : MATRIX_ENGINE=1", F16, F16, 64, 3600, true, 0, 0, MATRIX_ENGINE_EMULATION, "emulated"},
    {"flash_matrix : MATRIX_ENGINE=2", BF16, BF16, 64, 3600, false, 0, 0, 0, "has not proven"}};

START_TEST(tiles_over_integers) {
    const family *const *at = cla_families;
    while (strcmp((*at)->name, "flash_matrix_i8") != 0) at++;
    for (size_t i = 0; i < sizeof integers_cases / sizeof integers_cases[0]; i++) {
        const struct integers_case *c = &integers_cases[i];
        problem p = {.batch = 1, .heads = 8, .kv_heads = 8, .n_q = 1024, .n_kv = 1024, .head_dim = c->head};
        tuned_rows own = {0};
        char why[256] = "";
        const family *which = NULL;
        variant v;
        p.head_dim_v = 80, p.type_q = (clattn_type)c->q, p.type_out = (clattn_type)c->out,
        p.type_kv = CLATTN_TYPE_I8;
        p.scale_group = p.scale_group_v = c->group;
        if (c->head == 128) p.head_dim_v = 128;
        plan_input in = {.device = &cpu, .own = &own, .shipped = &shipped};
        in.probes.proven = 1u << PROBE_FMA | (c->floats ? 1u << PROBE_AMX : 0u) |
                           (c->rate > 0.0f ? 1u << PROBE_AMX_I8 : 0u) | (c->dot ? 1u << PROBE_DOT_I8 : 0u);
        in.probes.ran = in.probes.proven;
        in.probes.rate[PROBE_FMA] = 100.0f, in.probes.rate[PROBE_DOT_I8] = (float)c->dot;
        in.probes.rate[PROBE_AMX] = 1800.0f, in.probes.rate[PROBE_AMX_I8] = c->rate;
        if (c->own) ck_assert(cla_tuned_parse(c->own, &own, why, sizeof why));
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg(v.knobs.matrix_engine == c->engine, "%zu: engine %d", i, v.knobs.matrix_engine);
        ck_assert_int_eq(v.family == *at, c->engine != 0);
        ck_assert_uint_eq(v.packed_bytes,
                          c->engine ? (uint64_t)8 * 1024 / 32 * (c->head == 128 ? 130 : 98) * 64 : 0);
        for (int index = 0; which != *at && cla_variant_review(&in, &p, &v, &index, &which, why);) {
        }
        ck_assert_msg(strstr(why, c->says), "%zu: %s", i, why);
        cla_tuned_free(&own);
    }
}
END_TEST

// Fragments of warps: used if the probe passed and they are not slower than multiply-adds. On the
// emulation and on CPUs only if a row names them. All tensors have one 16-bit type, heads are at
// most 256, and local memory and groups must fit. A row's knobs are kept.
static const struct fragments_case {
    const char *own;
    float rate; // 0: not proven; tiles 100; wgmma twice this rate
    int engine; // expected engine; 0: another family
    int rows;   // per group
} fragments_cases[] = {
    {NULL, 0.0f, 0, 0},
    {NULL, 4000.0f, MATRIX_ENGINE_MMA, 128},
    {NULL, 99.0f, 0, 0},
    {"flash_tiles :", 4000.0f, 0, 0},
    {"flash_fragments :", 0.0f, MATRIX_ENGINE_EMULATION, 128},
    {"flash_fragments :", 99.0f, MATRIX_ENGINE_MMA, 128},
    {"flash_fragments : MATRIX_ENGINE=1 GROUP_ROWS=2", 4000.0f, MATRIX_ENGINE_EMULATION, 64},
    {"flash_fragments : MATRIX_ENGINE=3", 0.0f, 0, 0},
    {"flash_fragments : GROUP_ROWS=16", 4000.0f, 0, 0}, // more queries than local memory holds
    {"flash_fragments : GROUP_ROWS=16 ROW_VECTORS=1", 4000.0f, MATRIX_ENGINE_MMA, 256},
    {"flash_fragments : MATRIX_ENGINE=4", 4000.0f, MATRIX_ENGINE_WGMMA, 192},
    {"flash_fragments : MATRIX_ENGINE=4 GROUP_ROWS=8 TILE_KV=128", 4000.0f, MATRIX_ENGINE_WGMMA, 128},
    {"flash_fragments : MATRIX_ENGINE=4", 0.0f, 0, 0}};

static void check_fragments(const plan_input *in, problem *p, int engine, int rows) {
    variant v;
    ck_assert_int_eq(cla_variant_choose(in, p, &v), CLATTN_OK);
    ck_assert_msg(v.knobs.matrix_engine == engine, "engine %d in place of %d", v.knobs.matrix_engine, engine);
    ck_assert_int_eq(v.family->id == KERNEL_FLASH_FRAGMENTS, engine != 0);
    if (!engine) return;
    ck_assert_int_eq(v.rows_per_group, rows);
    ck_assert_uint_le(v.local_bytes, in->device->local_memory_bytes);
    ck_assert_int_eq(v.knobs.aligned_vectors, p->align_k >= 8 ? 2 : 0);
}

static void check_fragments_case(const struct fragments_case *c) {
    clattn_capabilities gpu = cpu;
    problem p = {
        .batch = 1, .heads = 8, .kv_heads = 8, .n_q = 1024, .n_kv = 1024, .head_dim = 64, .head_dim_v = 64};
    tuned_rows own = {0};
    char why[256];
    gpu.is_cpu = false, gpu.is_gpu = true, gpu.float_vector_width = 1, gpu.local_memory_bytes = 48 << 10;
    gpu.compute_capability = 90;
    plan_input in = {.device = &gpu, .own = &own, .shipped = &shipped};
    in.probes.rate[PROBE_TILES] = 100.0f, in.probes.rate[PROBE_MMA_BF16] = c->rate;
    in.probes.rate[PROBE_WGMMA_BF16] = 2.0f * c->rate;
    in.probes.ran = PROBES_MMA | 1u << PROBE_TILES,
    in.probes.proven = 1u << PROBE_TILES | 1u << PROBE_MMA_F16; // not for bfloat16
    if (c->rate > 0.0f) in.probes.proven |= 1u << PROBE_MMA_BF16 | 1u << PROBE_WGMMA_BF16;
    if (c->own) ck_assert(cla_tuned_parse(c->own, &own, why, sizeof why));
    p.align_q = p.align_v = 8, p.type_q = p.type_kv = CLATTN_TYPE_BF16;
    for (p.align_k = 4; p.align_k <= 8; p.align_k += 4) check_fragments(&in, &p, c->engine, c->rows);
    p.type_kv = CLATTN_TYPE_F16;
    check_fragments(&in, &p, 0, 0);
    p.type_kv = CLATTN_TYPE_BF16, p.head_dim = 257;
    check_fragments(&in, &p, 0, 0);
    p.head_dim = 129;
    if (c->engine == MATRIX_ENGINE_WGMMA) check_fragments(&in, &p, 0, 0);
    p.head_dim = 64, gpu.max_work_group = 32;
    check_fragments(&in, &p, 0, 0);
    gpu = cpu, gpu.compute_capability = 80; // this GPU has its own kernels, and more local memory
    if ((!c->own || c->engine) && c->engine != MATRIX_ENGINE_WGMMA)
        check_fragments(&in, &p, c->own ? c->engine : 0, c->rows);
    cla_tuned_free(&own);
}

// Keys and values of other types. Keys must convert exactly to the queries' type. Values must fit
// the range of that type.
static const struct types_case {
    int q, k, v;
    bool taken;
} types_cases[] = {
    {F16, F16, F16, true},  {F16, I8, I8, true},      {F16, E4, E4, true},     {BF16, E5, E5, true},
    {BF16, Q8, Q8, true},   {F16, Q4, Q41, true},     {F16, Q41, Q41, false},  {F16, F16, I8, true},
    {F16, I8, F16, true},   {F16, I8, BF16, false},   {BF16, I8, F16, true},   {BF16, BF16, F32, true},
    {F16, F16, F32, false}, {F16, BF16, BF16, false}, {BF16, F16, F16, false}, {F16, F32, F32, false},
    {F32, F16, F16, false}, {F32, I8, I8, false},     {F32, F32, F32, false}};

// wgmma needs operands without conversion. Values with scales are converted to float16 only if a
// row requests it.
static void check_fragments_of_types(const struct types_case *c, plan_input *in, const char *row) {
    problem p = {.batch = 1,
                 .heads = 8,
                 .kv_heads = 8,
                 .n_q = 1024,
                 .n_kv = 1024,
                 .head_dim = 64,
                 .head_dim_v = 64,
                 .align_q = 8,
                 .align_k = 8,
                 .align_v = 8};
    const int scales = c->k >= Q8 ? 2 : c->k >= I8;
    variant v;
    char why[256];
    p.type_q = p.type_out = (clattn_type)c->q, p.type_kv = (clattn_type)c->k;
    p.type_v = cla_type_v_knob((clattn_type)c->k, (clattn_type)c->v);
    ck_assert_int_eq(cla_variant_choose(in, &p, &v), CLATTN_OK);
    cla_variant_explain(in, &p, &v, why);
    if (strstr(row, "4")) {
        ck_assert_int_eq(v.knobs.matrix_engine == MATRIX_ENGINE_WGMMA, c->q == c->k && c->q == c->v && c->q);
        return;
    }
    const bool taken = c->taken && (row[0] || c->q != F16 || c->v < I8);
    ck_assert_msg((v.family->id == KERNEL_FLASH_FRAGMENTS) == taken, "%d %d %d: %s", c->q, c->k, c->v, why);
    if (!taken) return;
    ck_assert_uint_eq(v.local_bytes, 2 * 64 * 128 + 64 * sizeof(float) * (size_t)scales + 16);
    ck_assert_msg(strstr(why, "4000 GFLOP/s"), "%s", why);
}

START_TEST(fragments_of_types) {
    clattn_capabilities gpu = cpu;
    static const char *const rows[] = {"", "flash_fragments :", "flash_fragments : MATRIX_ENGINE=4"};
    char why[256];
    gpu.is_cpu = false, gpu.is_gpu = true, gpu.float_vector_width = 1, gpu.local_memory_bytes = 48 << 10;
    gpu.compute_capability = 90;
    plan_input in = {.device = &gpu, .shipped = &shipped};
    in.probes.rate[PROBE_TILES] = 100.0f;
    in.probes.rate[PROBE_MMA_BF16] = in.probes.rate[PROBE_MMA_F16] = 4000.0f;
    in.probes.ran = in.probes.proven = PROBES_MMA | PROBES_WGMMA | 1u << PROBE_TILES;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        tuned_rows own = {0};
        ck_assert(cla_tuned_parse(rows[r], &own, why, sizeof why));
        in.own = &own;
        for (size_t i = 0; i < sizeof types_cases / sizeof types_cases[0]; i++)
            check_fragments_of_types(&types_cases[i], &in, rows[r]);
        cla_tuned_free(&own);
    }
}
END_TEST

// float32 split into bfloat16 terms: used if a row requests it and the probe passed, or on the
// emulation. Otherwise the plan has the reason, comparing six engine products with one product of
// tiles.
static const struct terms_case {
    const char *own;
    float rate; // rate of bfloat16 fragments; 0: not proven. Tiles have the rate 100
    int head, engine, tile_kv;
    const char *says;
} terms_cases[] = {
    {"", 0.0f, 64, 0, 0, "float32 queries are not rounded"},
    {"", 599.0f, 64, 0, 0, "six products"},
    {"", 601.0f, 64, 0, 0, "BF16_TERMS=3 asks"},
    {"flash_fragments :", 4000.0f, 64, 0, 0, "BF16_TERMS=3 asks"},
    {"flash_fragments : BF16_TERMS=3", 4000.0f, 64, MATRIX_ENGINE_MMA, 32, "six products for one"},
    {"flash_fragments : BF16_TERMS=3", 4000.0f, 128, MATRIX_ENGINE_MMA, 16, "six products for one"},
    {"flash_fragments : BF16_TERMS=3 TILE_KV=64", 4000.0f, 128, 0, 0, "local memory"},
    {"flash_fragments : BF16_TERMS=3", 0.0f, 64, MATRIX_ENGINE_EMULATION, 32, "emulated"},
    {"flash_fragments : BF16_TERMS=3", 4000.0f, 576, 0, 0, "no engine hold a latent's"},
    {"flash_fragments : BF16_TERMS=3 MATRIX_ENGINE=4", 4000.0f, 64, 0, 0, "as they are"}};

START_TEST(float32_in_terms) {
    clattn_capabilities gpu = cpu;
    gpu.is_cpu = false, gpu.is_gpu = true, gpu.float_vector_width = 1, gpu.local_memory_bytes = 48 << 10;
    gpu.compute_capability = 90;
    plan_input in = {.device = &gpu, .shipped = &shipped};
    const family *const *at = cla_families;
    while ((*at)->id != KERNEL_FLASH_FRAGMENTS) at++;
    const family *const fragments = *at;
    for (size_t i = 0; i < sizeof terms_cases / sizeof terms_cases[0]; i++) {
        const struct terms_case *c = &terms_cases[i];
        const unsigned proven = c->rate > 0.0f ? 1u << PROBE_MMA_BF16 | 1u << PROBE_WGMMA_BF16 : 0;
        problem p = {.batch = 1, .heads = 8, .kv_heads = 8, .n_q = 1024, .n_kv = 1024, .head_dim = c->head};
        tuned_rows own = {0};
        char why[256];
        variant v = {0};
        p.head_dim_v = c->head, p.align_q = p.align_k = p.align_v = 8;
        ck_assert(cla_tuned_parse(c->own, &own, why, sizeof why));
        in.probes.rate[PROBE_TILES] = 100.0f, in.probes.rate[PROBE_MMA_BF16] = c->rate;
        in.probes.ran = PROBES_MMA | 1u << PROBE_TILES, in.probes.proven = proven | 1u << PROBE_TILES;
        in.own = &own;
        for (int other = 0; other < 2; other++) { // keys of any type
            p.type_kv = other ? CLATTN_TYPE_Q4_1 : CLATTN_TYPE_F32;
            const char *refusal =
                cla_family_try(fragments, &in, &p, cla_problem_features(&p), own.count ? own.rows : NULL, &v);
            ck_assert_msg(!refusal == (c->engine != 0), "%d: %s", (int)i, refusal ? refusal : "taken");
            if (!refusal) fragments->explain(&in, &v, why);
            ck_assert_msg(strstr(refusal ? refusal : why, c->says), "%d: %s", (int)i,
                          refusal ? refusal : why);
            if (refusal) continue;
            ck_assert_int_eq(v.knobs.bf16_terms, 3);
            ck_assert_int_eq(v.knobs.matrix_engine, c->engine);
            ck_assert_int_eq(v.knobs.tile_kv, c->tile_kv);
        }
        cla_tuned_free(&own);
    }
}
END_TEST

// Decode, if a row requests it. Rows of all query heads of a key/value head share as many warps as
// they fill. Keys are split into ranges.
static const struct heads_case {
    // expected warps; 0: another family
    int heads, kv_heads, n_q, n_kv, score_ops, splits, type_kv, warps, ranges;
} heads_cases[] = {{32, 4, 1, 4096, 0, 0, BF16, 1, 16}, {32, 1, 1, 4096, 0, 0, I8, 2, 16},
                   {64, 1, 3, 4096, 0, 0, BF16, 4, 16}, {16, 2, 1, 4096, ARGS_SOFTCAP, 3, Q8, 1, 3},
                   {32, 4, 1, 200, 0, 0, BF16, 1, 1},   {32, 4, 1, 4096, ARGS_BIAS, 0, BF16, 0, 0},
                   {32, 4, 1, 4096, 0, 0, F16, 0, 0}};

START_TEST(fragments_of_heads) {
    clattn_capabilities gpu = cpu;
    tuned_rows none = {0}, own = {0};
    char why[256];
    ck_assert(cla_tuned_parse("decode_fragments :", &own, why, sizeof why));
    gpu.is_cpu = false, gpu.is_gpu = true, gpu.float_vector_width = 1, gpu.local_memory_bytes = 48 << 10;
    gpu.compute_capability = 80, gpu.compute_units = 108;
    plan_input in = {.device = &gpu, .shipped = &shipped};
    in.probes.rate[PROBE_TILES] = 100.0f, in.probes.rate[PROBE_MMA_BF16] = 4000.0f;
    in.probes.ran = in.probes.proven = 1u << PROBE_MMA_BF16 | 1u << PROBE_TILES;
    for (size_t i = 0; i < sizeof heads_cases / sizeof heads_cases[0]; i++) {
        const struct heads_case *c = &heads_cases[i];
        problem p = {.batch = 1,
                     .heads = c->heads,
                     .kv_heads = c->kv_heads,
                     .n_q = c->n_q,
                     .n_kv = c->n_kv,
                     .head_dim = 128,
                     .head_dim_v = 128,
                     .score_ops = c->score_ops,
                     .align_q = 8,
                     .align_k = 8,
                     .align_v = 8,
                     .type_q = CLATTN_TYPE_BF16,
                     .type_kv = (clattn_type)c->type_kv};
        variant v;
        p.type_out = CLATTN_TYPE_BF16, p.splits = c->splits;
        p.kernel = c->splits ? CLATTN_KERNEL_DECODE : CLATTN_KERNEL_AUTO;
        in.own = &none;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_ne(v.family->id, KERNEL_DECODE_FRAGMENTS);
        in.own = &own;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg((v.family->id == KERNEL_DECODE_FRAGMENTS) == (c->warps > 0), "%d: %s", (int)i,
                      v.family->name);
        if (!c->warps) continue;
        ck_assert_int_eq(v.knobs.group_rows, c->warps);
        ck_assert_int_eq(v.splits, c->ranges);
        ck_assert_uint_eq(v.groups[1], (size_t)c->kv_heads);
    }
    cla_tuned_free(&own);
}
END_TEST

START_TEST(fragments_by_rate) {
    for (size_t i = 0; i < sizeof fragments_cases / sizeof fragments_cases[0]; i++)
        check_fragments_case(&fragments_cases[i]);
}
END_TEST

// Devices with each engine. The probes of both types passed unless a rate is 0. Two groups of a
// chosen plan fit into 64 KiB for heads up to 128. Larger heads need a row. A row that no engine
// supports is refused.
static const struct engine_case {
    unsigned wavefront, ways, sizes, capability;
    probe_id f16, bf16;
    const char *own;
    int head, engine, items, rows, keys; // expected engine; 0: another family
} engine_cases[] = {
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, NULL, 64, MATRIX_ENGINE_WMMA, 128, 64, 64},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, NULL, 128, MATRIX_ENGINE_WMMA, 128, 64, 32},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, NULL, 129, 0, 0, 0, 0},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, "flash_fragments : GROUP_ROWS=2", 256, 5, 64, 32, 32},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, "flash_fragments : TILE_KV=16", 64, 5, 128, 64, 16},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, "flash_fragments : MATRIX_ENGINE=7", 64, 0, 0, 0, 0},
    {32, 0, 0, 0, PROBE_WMMA_F16, PROBE_WMMA_BF16, "flash_fragments : MATRIX_ENGINE=3", 64, 0, 0, 0, 0},
    {64, 0, 0, 0, PROBE_MFMA_F16, PROBE_MFMA_BF16, NULL, 64, MATRIX_ENGINE_MFMA, 256, 128, 64},
    {64, 0, 0, 0, PROBE_MFMA_F16, PROBE_MFMA_BF16, NULL, 128, MATRIX_ENGINE_MFMA, 256, 128, 32},
    {64, 0, 0, 0, PROBE_MFMA_F16, PROBE_MFMA_BF16, "flash_fragments : TILE_KV=16", 64, 0, 0, 0, 0},
    {64, 0, 0, 0, PROBE_MFMA_F16, PROBE_MFMA_BF16, "flash_fragments : MATRIX_ENGINE=7", 64, 7, 256, 128, 64},
    {64, 0, 0, 0, PROBE_NONE, PROBE_NONE, NULL, 64, 0, 0, 0, 0},
    {64, 0, 0, 0, PROBE_NONE, PROBE_NONE, "flash_fragments : MATRIX_ENGINE=1 EMULATED=8", 64, 1, 64, 64, 32},
    {0, 82, 56, 0, PROBE_DPAS_F16, PROBE_DPAS_BF16, NULL, 64, MATRIX_ENGINE_DPAS_8, 64, 64, 32},
    {0, 82, 56, 0, PROBE_DPAS_F16, PROBE_DPAS_BF16, NULL, 128, MATRIX_ENGINE_DPAS_8, 64, 64, 16},
    {0, 82, 48, 0, PROBE_DPAS_F16, PROBE_DPAS_BF16, NULL, 64, MATRIX_ENGINE_DPAS_16, 128, 128, 32},
    {0, 82, 48, 0, PROBE_DPAS_F16, PROBE_DPAS_BF16, "flash_fragments : TILE_KV=48", 64, 9, 128, 128, 48},
    {0, 82, 48, 0, PROBE_DPAS_F16, PROBE_DPAS_BF16, "flash_fragments : MATRIX_ENGINE=8", 64, 0, 0, 0, 0},
    {0, 0, 0, 90, PROBE_MMA_F16, PROBE_MMA_BF16, NULL, 192, MATRIX_ENGINE_MMA, 128, 64, 32}};

static void check_engine(const struct engine_case *c, plan_input *in, clattn_type type) {
    problem p = {.batch = 1, .heads = 8, .kv_heads = 8, .n_q = 1024, .n_kv = 1024};
    variant v;
    p.head_dim = p.head_dim_v = c->head, p.type_q = p.type_kv = type;
    p.align_q = p.align_k = p.align_v = 8;
    ck_assert_int_eq(cla_variant_choose(in, &p, &v), CLATTN_OK);
    ck_assert_msg(v.knobs.matrix_engine == c->engine, "engine %d in place of %d, heads of %d, %s",
                  v.knobs.matrix_engine, c->engine, c->head, c->own ? c->own : "no row");
    ck_assert_int_eq(v.family->id == KERNEL_FLASH_FRAGMENTS, c->engine != 0);
    if (!c->engine) return;
    ck_assert_int_eq(v.work_group, c->items);
    ck_assert_int_eq(v.rows_per_group, c->rows);
    ck_assert_int_eq(v.knobs.tile_kv, c->keys);
    ck_assert_int_eq(v.options && strstr(v.options, "256-GRF") != NULL, c->engine >= MATRIX_ENGINE_DPAS_8);
    if (!c->own && c->wavefront) ck_assert_uint_le(2 * v.local_bytes, in->device->local_memory_bytes);
}

static void check_engine_case(const struct engine_case *c) {
    clattn_capabilities gpu = cpu;
    tuned_rows own = {0};
    char why[256];
    gpu.is_cpu = false, gpu.is_gpu = true, gpu.float_vector_width = 1, gpu.local_memory_bytes = 64 << 10;
    gpu.max_work_group = 256, gpu.wavefront_width = c->wavefront, gpu.assembly = CLATTN_ASSEMBLY_AMD,
    gpu.compute_capability = c->capability;
    gpu.subgroup_ways = c->ways, gpu.subgroup_sizes = c->sizes, gpu.subgroups = c->ways != 0;
    plan_input in = {.device = &gpu, .own = &own, .shipped = &shipped};
    in.probes.rate[PROBE_TILES] = 100.0f, in.probes.proven = 1u << PROBE_TILES;
    if (c->f16) in.probes.proven |= 1u << c->f16 | 1u << c->bf16;
    in.probes.rate[c->f16] = in.probes.rate[c->bf16] = c->f16 ? 900.0f : 0.0f;
    if (c->own) ck_assert_msg(cla_tuned_parse(c->own, &own, why, sizeof why), "%s", why);
    check_engine(c, &in, CLATTN_TYPE_F16);
    check_engine(c, &in, CLATTN_TYPE_BF16);
    // Slower than multiply-adds: used only if a row requests it.
    in.probes.rate[c->f16] = in.probes.rate[c->bf16] = 99.0f;
    struct engine_case slow = *c;
    if (!c->own) slow.engine = 0;
    check_engine(&slow, &in, CLATTN_TYPE_F16);
    cla_tuned_free(&own);
}

START_TEST(engines_of_each_device) {
    for (size_t i = 0; i < sizeof engine_cases / sizeof engine_cases[0]; i++)
        check_engine_case(&engine_cases[i]);
}
END_TEST

// Packed values follow the partial results of key ranges in the workspace. If a buffer would be too
// large, another family runs.
START_TEST(values_in_the_workspace) {
    problem p = {
        .batch = 1, .heads = 4, .kv_heads = 2, .n_q = 20, .n_kv = 5000, .head_dim = 64, .head_dim_v = 33};
    tuned_rows own;
    char why[256];
    variant v;
    p.type_q = p.type_kv = CLATTN_TYPE_BF16;
    ck_assert(cla_tuned_parse("flash_matrix :", &own, why, sizeof why));
    plan_input in = {.device = &cpu, .own = &own, .shipped = &shipped};
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, KERNEL_FLASH_MATRIX);
    ck_assert_int_eq(v.splits, 2); // two tiles of rows per compute unit are wanted
    const uint64_t partial = (uint64_t)v.splits * 4 * 20 * (33 + 2) * sizeof(float);
    ck_assert_uint_eq(v.packed_values, (partial + 255) / 256 * 256);
    ck_assert_uint_eq(v.packed_bytes, 2 * (5000 + 24) * 64 * 2);
    ck_assert_uint_eq(v.workspace_bytes, v.packed_values + v.packed_bytes);
    p.n_kv = 1 << 30;
    ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
    ck_assert_int_eq(v.family->id, KERNEL_FLASH);
    ck_assert_uint_eq(v.packed_bytes, 0);
    cla_tuned_free(&own);
}
END_TEST

// Projections of bfloat16, and of float32 that may be split into bfloat16 terms. The engine is used
// if it is predicted to be faster than multiply-adds. The prediction takes 20 % of the engine's
// measured rate (for three or six products, 40 % divided by their number) and 85 % of the
// multiply-adds' rate.
static const struct {
    clattn_type x, w;
    bool split, packed;
    int rows, reduction;
    float rate; // rate of AMX; 0: not proven. Multiply-adds have the rate 100
    const char *own;
    int engine; // expected engine; 0: another kernel
} projections[] = {
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 1800, NULL, 2},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 430, NULL, 2},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 420, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 0, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 31, 768, 1800, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, false, 127, 768, 1800, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, false, 128, 768, 1800, NULL, 2},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_F32, false, true, 512, 768, 1800, NULL, 0},
    {CLATTN_TYPE_F32, CLATTN_TYPE_BF16, false, true, 512, 768, 1800, NULL, 0},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, false, true, 512, 768, 1800, NULL, 0},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, true, 512, 768, 1800, NULL, 2},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, true, 512, 768, 1200, NULL, 0},
    {CLATTN_TYPE_F32, CLATTN_TYPE_BF16, true, true, 512, 768, 1200, NULL, 2},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, true, 512, 63, 1800, NULL, 0},
    {CLATTN_TYPE_F16, CLATTN_TYPE_BF16, true, true, 512, 768, 1800, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_F16, true, true, 512, 768, 1800, NULL, 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, false, 1, 3, 0, "linear_matrix :", 1},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, false, 1, 3, 10, "linear_matrix :", 2},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, true, false, 9, 64, 0, "linear_matrix :", 1},
    {CLATTN_TYPE_F32, CLATTN_TYPE_F32, false, false, 9, 64, 0, "linear_matrix :", 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 1800, "linear_lanes :", 0},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 1800, "linear_matrix : MATRIX_ENGINE=1", 1},
    {CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, false, true, 512, 768, 0, "linear_matrix : MATRIX_ENGINE=2", 0}};

START_TEST(projections_by_rate) {
    for (size_t i = 0; i < sizeof projections / sizeof projections[0]; i++) {
        linear_problem p = {
            .type_x = projections[i].x, .type_w = projections[i].w, .columns = 768, .rope_head = 64};
        tuned_rows own = {0};
        linear_choice c;
        char why[256];
        p.rows = projections[i].rows, p.reduction = projections[i].reduction;
        p.split = projections[i].split, p.packed = projections[i].packed;
        plan_input in = {.device = &cpu, .own = &own, .shipped = &shipped, .has_clblast = true};
        in.probes.proven = 1u << PROBE_FMA, in.probes.rate[PROBE_FMA] = 100.0f;
        in.probes.rate[PROBE_AMX] = projections[i].rate;
        if (projections[i].rate > 0.0f) in.probes.proven |= 1u << PROBE_AMX;
        if (projections[i].own)
            ck_assert_msg(cla_tuned_parse(projections[i].own, &own, why, sizeof why), "%s", why);
        in.measured[PLAN_MANY_ROWS] = PLAN_NATIVE_FASTER;
        ck_assert(cla_variant_choose_linear(&in, &p, false, &c));
        const bool taken = c.id == KERNEL_LINEAR_MATRIX;
        ck_assert_msg(taken == (projections[i].engine != 0) && c.knobs.matrix_engine == projections[i].engine,
                      "%zu: %s, engine %d", i, clattn_kernel_sources[c.id].name, c.knobs.matrix_engine);
        if (taken && !projections[i].own)
            ck_assert(strstr(cla_variant_linear_why(&in, &p, true), "engine") &&
                      !cla_variant_linear_is_open(&in, &p));
        if (taken) {
            ck_assert(c.row_tile == LINEAR_MATRIX_TILE_ROWS && c.column_tile % 64 == 0 && c.column_tile > 0 &&
                      c.column_tile <= LINEAR_MATRIX_TILE_COLUMNS);
            ck_assert_int_eq(c.knobs.rope, 1);
        }
        cla_tuned_free(&own);
    }
}
END_TEST

// With fused RoPE a tile has whole heads, at any size. Also sizes near the counters' limit.
START_TEST(tiles_of_projections) {
    tuned_rows own;
    char why[256];
    linear_choice c;
    ck_assert(cla_tuned_parse("linear_matrix : COLUMN_TILE=96 REDUCTION_TILE=64", &own, why, sizeof why));
    plan_input in = {.device = &cpu, .own = &own, .shipped = &shipped};
    for (int head = 1; head <= 600; head++) {
        linear_problem p = {.rows = 500, .columns = 6 * head, .reduction = 512, .rope_head = head};
        p.type_x = p.type_w = CLATTN_TYPE_BF16;
        ck_assert(cla_variant_choose_linear(&in, &p, true, &c) && c.id == KERNEL_LINEAR_MATRIX);
        ck_assert_int_eq(c.column_tile % LINEAR_MATRIX_COLUMNS, 0);
        ck_assert(c.column_tile > 0 && c.column_tile <= LINEAR_MATRIX_TILE_COLUMNS);
        if (c.knobs.rope) ck_assert_int_eq(c.column_tile % head, 0);
        if (head % 2 || head > 512) ck_assert_int_eq(c.knobs.rope, 0);
        if (head % 32 == 0 && head <= 512) ck_assert_int_eq(c.knobs.rope, 1);
        ck_assert_int_eq(c.knobs.reduction_tile, 64);
    }
    cla_tuned_free(&own);
    ck_assert(cla_tuned_parse("linear_matrix :", &own, why, sizeof why));
    linear_problem vast = {.rows = (int64_t)1 << 46, .columns = INT32_MAX - 65536, .reduction = 1};
    vast.type_x = vast.type_w = CLATTN_TYPE_BF16;
    ck_assert(cla_variant_choose_linear(&in, &vast, false, &c) && c.column_tile > 0);
    vast.rows = 0;
    ck_assert(cla_variant_choose_linear(&in, &vast, false, &c) && c.column_tile > 0);
    cla_tuned_free(&own);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {tiles_by_rate,          tiles_over_integers,     fragments_by_rate,
                                  fragments_of_types,     float32_in_terms,        fragments_of_heads,
                                  engines_of_each_device, values_in_the_workspace, projections_by_rate,
                                  tiles_of_projections};
    return PLAN_SUITE_RUN("plan_matrix", tests);
}
