// test_plan_widths.c: the vector width that the planner uses on CPUs, some of which report none:
// synthetic CPUs with the rates that their probes would find. The rest of the planner is in
// test_plan.c. Uses the library's internals, from the static library.
#include "args/args.h"
#include "probe/lane_widths.h"
#include "plan/plan_suite.h"

#include <stdio.h>
#include <string.h>

// A CPU: its reported limits, and GFLOP/s of a work-item for each probe. Negative: ran and was
// wrong. 0: did not run.
typedef struct cpu_device {
    const char *word;
    clattn_capabilities is;
    float fma, tiles, lanes_4, lanes_8, lanes_16;
    int lanes; // expected lanes; 0: the planner uses kernels for other devices
} cpu_device;

#define CPU(width, group)                                                                                    \
    {                                                                                                        \
        .is_cpu = true, .compute_units = 8, .float_vector_width = width, .max_work_group = group,            \
        .max_work_item = {group, group, group}, .local_memory_bytes = 32 << 10,                              \
        .global_memory_bytes = 1u << 30, .max_allocation_bytes = 1u << 28                                    \
    }

static const cpu_device cpus[] = {
    // PoCL on aarch64 reports 1. A register holds four floats. Eight floats are two registers, and
    // no faster.
    {"PoCL on aarch64", CPU(1, 4096), 40, 2, 34, 35, 20, 4},
    {"the same in qemu, whose multiply-adds are slow", CPU(1, 4096), 0.07f, 0.34f, 0.06f, 0.06f, 0.06f, 4},
    {"PoCL on aarch64, not probed", CPU(1, 4096), 0, 0, 0, 0, 0, 0},
    {"an aarch64 whose vectors are longer", CPU(1, 4096), 40, 2, 34, 70, 71, 8},
    {"a CPU that reports 1 and has AVX-512", CPU(1, 4096), 60, 5, 60, 120, 240, 16},
    {"the same, sixteen wrong", CPU(1, 4096), 60, 5, 60, 120, -1, 8},
    // rusticl on llvmpipe: vector multiply-adds are slower than tiles, so no other width is probed.
    {"rusticl on llvmpipe", CPU(1, 1024), 0.05f, 4.5f, -1, -1, -1, 0},
    {"rusticl, if eight were right", CPU(1, 1024), 0.05f, 4.5f, -1, 0.2f, -1, 8},
    {"AVX2", CPU(8, 8192), 0, 0, 0, 0, 0, 8},
    {"AVX2, probed", CPU(8, 8192), 100, 20, 55, 100, 90, 8},
    {"AVX-512 on 256-bit units", CPU(16, 8192), 110, 20, 55, 112, 110, 16},
    {"AVX-512, a quiet eight and a slowed sixteen", CPU(16, 8192), 110, 20, 55, 130, 110, 16},
    {"one that reports 8 and has 16", CPU(8, 8192), 110, 20, 55, 110, 200, 16},
    {"one that reports 16 and computes it wrongly", CPU(16, 8192), 110, 20, 55, 110, -1, 8},
    {"one that computes all wrongly", CPU(16, 8192), 110, 20, -1, -1, -1, 0},
    {"SSE", CPU(4, 8192), 50, 20, 50, 49, 30, 4},
    // Apple's CPU device (OpenCL 1.2) allows work-groups of 1024, but kernels with barriers have
    // one work-item.
    {"Apple's CPU device", CPU(4, 1024), 0, 0, 0, 0, 0, 4},
    {"a vector of 32", CPU(32, 4096), 0, 0, 0, 0, 0, 16},
};
#define CPUS (sizeof cpus / sizeof cpus[0])

static void keep(probe_results *results, probe_id id, float rate) {
    if (rate != 0.0f) results->ran |= 1u << id, results->sure |= 1u << id;
    if (rate > 0.0f) results->proven |= 1u << id, results->rate[id] = rate;
}

static plan_input input_of(const cpu_device *cpu) {
    plan_input in = {.device = &cpu->is, .shipped = &shipped};
    keep(&in.probes, PROBE_FMA, cpu->fma);
    keep(&in.probes, PROBE_TILES, cpu->tiles);
    keep(&in.probes, PROBE_LANES_4, cpu->lanes_4);
    keep(&in.probes, PROBE_LANES_8, cpu->lanes_8);
    keep(&in.probes, PROBE_LANES_16, cpu->lanes_16);
    return in;
}

static problem make_problem(int n_q) {
    return (problem){
        .batch = 1,
        .heads = 8,
        .kv_heads = 8,
        .n_q = n_q,
        .n_kv = 1024,
        .head_dim = 64,
        .head_dim_v = 64,
        .align_q = 16,
        .align_k = 16,
        .align_v = 16,
    };
}

static void check_width(const cpu_device *cpu) {
    const plan_input in = input_of(cpu);
    const problem prefill = make_problem(1024), decode = make_problem(1);
    const linear_problem few = {.rows = 1, .columns = 768, .reduction = 768},
                         many = {.rows = 512, .columns = 768, .reduction = 768};
    variant v;
    linear_choice c;
    ck_assert_msg(cla_plan_lanes(&in) == cpu->lanes, "%s: %d lanes", cpu->word, cla_plan_lanes(&in));
    ck_assert_int_eq(cla_plan_has_lanes(&in), cpu->lanes != 0);
    ck_assert_int_eq(cla_variant_choose(&in, &prefill, &v), CLATTN_OK);
    ck_assert_msg(v.family->id == (cpu->lanes ? KERNEL_FLASH_LANES : KERNEL_FLASH_TILES) &&
                      v.knobs.lanes == cpu->lanes,
                  "%s: %s of %d lanes", cpu->word, v.family->name, v.knobs.lanes);
    ck_assert_int_eq(cla_variant_choose(&in, &decode, &v), CLATTN_OK);
    ck_assert_msg(v.family->id == (cpu->lanes ? KERNEL_DECODE_LANES : KERNEL_DECODE_GROUPS) &&
                      v.knobs.lanes == cpu->lanes,
                  "%s: %s of %d lanes", cpu->word, v.family->name, v.knobs.lanes);
    ck_assert(cla_variant_choose_linear(&in, &few, true, &c));
    ck_assert_int_eq(c.id, cpu->lanes ? KERNEL_LINEAR_FEW_LANES : KERNEL_LINEAR_ROWS);
    ck_assert(cla_variant_choose_linear(&in, &many, true, &c));
    ck_assert_int_eq(c.id, cpu->lanes ? KERNEL_LINEAR_LANES : KERNEL_LINEAR_TILES);
    ck_assert_int_eq(c.knobs.lanes, cpu->lanes);
}

// Attention, decode and projections use the same width.
START_TEST(widths) {
    for (size_t i = 0; i < CPUS; i++) check_width(&cpus[i]);
}
END_TEST

// Only a device that reports no vectors must beat tiles before its other widths are probed.
START_TEST(worth_asking) {
    for (size_t i = 0; i < CPUS; i++) {
        const plan_input in = input_of(&cpus[i]);
        const bool worth = cla_lanes_worth(&cpus[i].is, &in.probes);
        ck_assert_msg(worth == (cpus[i].is.float_vector_width >= 4 || 8.0f * cpus[i].fma > cpus[i].tiles),
                      "%s", cpus[i].word);
        ck_assert(!strstr(cpus[i].word, "rusticl") || !worth);
    }
    ck_assert_uint_eq(cla_lanes_wanted(1u << PROBE_LANES_8), PROBES_LANES | 1u << PROBE_FMA);
    ck_assert_uint_eq(cla_lanes_wanted(1u << PROBE_AMX), 1u << PROBE_AMX);
}
END_TEST

// A row's `lanes` condition is compared with the chosen width on CPUs, and with the reported width
// on GPUs.
START_TEST(rows_by_width) {
    static const char rows[] = "flash_lanes lanes=1 : TILE_KV=32\nflash_lanes lanes=4 : TILE_KV=96\n"
                               "flash_lanes lanes=32 : TILE_KV=128\n";
    static const struct {
        size_t cpu;
        int tile;
    } cases[] = {{0, 96}, {2, 32}, {CPUS - 1, 128}};
    tuned_rows own;
    char why[256];
    variant v;
    const problem p = make_problem(1024);
    ck_assert(cla_tuned_parse(rows, &own, why, sizeof why));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_input in = input_of(&cpus[cases[i].cpu]);
        in.own = &own;
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg(v.knobs.tile_kv == cases[i].tile, "%s: %d", cpus[cases[i].cpu].word, v.knobs.tile_kv);
        ck_assert_int_eq(v.knobs.lanes, cases[i].cpu == CPUS - 1 ? 16 : 4);
    }
    cla_tuned_free(&own);
}
END_TEST

// A CPU's bf16 rates in GFLOP/s of a work-item, and the chosen engine.
START_TEST(engines_by_time) {
    static const struct {
        const char *word;
        float fma, dot, amx;
        int n_q;
        const char *family;
    } cases[] = {
        {"Zen 4", 116, 231, 0, 1024, "flash_lanes_dot"},
        {"Zen 5", 243, 450, 0, 1024, "flash_lanes_dot"},
        {"Zen 5", 243, 450, 0, 1, "decode_lanes_dot"},
        {"Sapphire Rapids, tiles not asked for", 150, 74, 0, 1024, "flash_lanes"},
        {"Sapphire Rapids, tiles not asked for", 150, 74, 0, 1, "decode_lanes"},
        {"Sapphire Rapids", 150, 74, 2700, 1024, "flash_matrix"},
        {"Sapphire Rapids", 150, 74, 2700, 77, "flash_matrix"},
        {"Sapphire Rapids", 150, 74, 2700, 1, "decode_lanes"},
        // Sixteen rows fill half a tile. Tiles then need three times the rate of lanes; one and a
        // half times is too little.
        {"tiles at one and a half times the reach", 150, 74, 900, 16, "flash_lanes"},
        {"tiles at one and a half times the reach", 150, 74, 900, 1024, "flash_matrix"},
        {"tiles that reach less", 150, 74, 560, 1024, "flash_lanes"},
        {"AVX2", 100, 0, 0, 1024, "flash_lanes"},
        {"rates of which nothing is known", 0, 300, 0, 1024, "flash_lanes_dot"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = make_problem(cases[i].n_q);
        plan_input in = {.device = &wide_cpu, .shipped = &shipped};
        variant v;
        char why[256];
        const family *f;
        int index = 0;
        p.type_q = p.type_kv = p.type_out = CLATTN_TYPE_BF16;
        keep(&in.probes, PROBE_FMA, cases[i].fma);
        keep(&in.probes, PROBE_DOT_BF16, cases[i].dot);
        keep(&in.probes, PROBE_AMX, cases[i].amx);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg(!strcmp(v.family->name, cases[i].family), "%s, %d rows: %s", cases[i].word,
                      cases[i].n_q, v.family->name);
        // Families that fit but are slower say by which factor.
        while (cla_variant_review(&in, &p, &v, &index, &f, why))
            if (f != v.family && f->path == v.family->path && cases[i].fma > 0.0f &&
                (!strcmp(f->name, "flash_lanes") || !strcmp(f->name, "decode_lanes")))
                ck_assert_msg(strstr(why, "times as fast"), "%s: %s: %s", cases[i].word, f->name, why);
    }
}
END_TEST

// The float32 tile depends on the rates of multiply-adds with loads, which are probed only on
// request.
START_TEST(tiles_by_rate) {
    static const struct {
        const char *word;
        float wide, tall;
        int n_q, row_vectors, key_block;
    } cases[] = {
        {"not measured", 0, 0, 1024, 2, 8},
        {"Zen 5", 238, 233, 1024, 2, 8},
        {"Zen 5, the other way round", 233, 238, 1024, 2, 8},
        {"Sapphire Rapids, quiet", 124, 137, 1024, 4, 6},
        {"Sapphire Rapids, the other thread busy", 86, 108, 1024, 4, 6},
        {"Sapphire Rapids, 77 rows", 124, 137, 77, 5, 3},
        {"Sapphire Rapids, 96 rows", 124, 137, 96, 6, 3},
        {"one of them is wrong", -1, 137, 1024, 2, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const problem p = make_problem(cases[i].n_q);
        plan_input in = {.device = &wide_cpu, .shipped = &shipped};
        variant v;
        keep(&in.probes, PROBE_LOADS_2X8, cases[i].wide);
        keep(&in.probes, PROBE_LOADS_4X6, cases[i].tall);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg(v.knobs.row_vectors == cases[i].row_vectors && v.knobs.key_block == cases[i].key_block,
                      "%s: %d x %d", cases[i].word, v.knobs.row_vectors, v.knobs.key_block);
    }
}
END_TEST

// With a window a row sees few keys and shares them with fewer other rows, so tiles have fewer
// rows.
START_TEST(tiles_by_band) {
    static const struct {
        const char *word;
        int n_q, band, row_vectors;
        float tall;
        clattn_type type;
    } cases[] = {
        {"no window", 1024, 0, 2, 0, CLATTN_TYPE_F32},
        {"window of 512", 1024, 512, 1, 0, CLATTN_TYPE_F32},
        {"window of 513", 1024, 513, 2, 0, CLATTN_TYPE_F32},
        {"window, long rows", 16384, 128, 1, 0, CLATTN_TYPE_F32},
        {"window, few rows", 40, 16, 3, 0, CLATTN_TYPE_F32},
        {"window, bfloat16", 1024, 256, 2, 0, CLATTN_TYPE_BF16},
        {"wider window, bfloat16", 1024, 257, 4, 0, CLATTN_TYPE_BF16},
        {"window, where loads are short", 1024, 128, 4, 200, CLATTN_TYPE_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = make_problem(cases[i].n_q);
        plan_input in = {.device = &wide_cpu, .shipped = &shipped};
        variant v;
        p.band = cases[i].band, p.type_kv = cases[i].type;
        keep(&in.probes, PROBE_LOADS_2X8, cases[i].tall > 0.0f ? 100.0f : 0.0f);
        keep(&in.probes, PROBE_LOADS_4X6, cases[i].tall);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_msg(v.knobs.row_vectors == cases[i].row_vectors, "%s: %d vectors of rows", cases[i].word,
                      v.knobs.row_vectors);
    }
}
END_TEST

// The cache level into which decode prefetches, if any, by measured rates and by the layout of
// rows.
START_TEST(asks_by_rate) {
    static const struct {
        const char *word;
        clattn_type type;
        bool paged;
        float nothing, first, second;
        int asked;
    } cases[] = {
        {"not measured", CLATTN_TYPE_BF16, false, 0, 0, 0, PREFETCH_SECOND_LEVEL},
        {"Zen 4", CLATTN_TYPE_BF16, false, 90, 55, 97, PREFETCH_SECOND_LEVEL},
        {"Zen 4, float16 in pages", CLATTN_TYPE_F16, true, 90, 55, 97, PREFETCH_SECOND_LEVEL},
        {"Zen 4, float32", CLATTN_TYPE_F32, false, 90, 55, 97, PREFETCH_SECOND_LEVEL},
        {"Zen 4, float32 in pages", CLATTN_TYPE_F32, true, 90, 55, 97, PREFETCH_FIRST_LEVEL},
        {"Zen 4, int8", CLATTN_TYPE_I8, false, 90, 55, 97, PREFETCH_FIRST_LEVEL},
        {"Zen 4, int8 by integers", CLATTN_TYPE_I8, false, 90, 55, 97, PREFETCH_SECOND_LEVEL},
        {"Zen 5, int8 by integers", CLATTN_TYPE_I8, false, 90, 97, 90, PREFETCH_FIRST_LEVEL},
        {"the first-level cache is faster", CLATTN_TYPE_BF16, false, 90, 97, 90, PREFETCH_FIRST_LEVEL},
        {"the first-level cache is faster, float32", CLATTN_TYPE_F32, false, 90, 97, 90,
         PREFETCH_FIRST_LEVEL},
        {"the second is wrong", CLATTN_TYPE_BF16, false, 0, 55, 0, PREFETCH_FIRST_LEVEL},
        {"Intel's runtime", CLATTN_TYPE_BF16, false, 55, 45, 46, PREFETCH_NOTHING},
        {"Intel's runtime, float32", CLATTN_TYPE_F32, false, 55, 45, 46, PREFETCH_NOTHING},
        {"Intel's runtime, pages", CLATTN_TYPE_BF16, true, 55, 45, 46, PREFETCH_SECOND_LEVEL},
        {"nothing else works", CLATTN_TYPE_BF16, false, 55, 0, 0, PREFETCH_SECOND_LEVEL},
        {"within an accident", CLATTN_TYPE_BF16, false, 99, 55, 97, PREFETCH_SECOND_LEVEL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = make_problem(1);
        plan_input in = {.device = &wide_cpu, .shipped = &shipped};
        const bool integers = strstr(cases[i].word, "by integers") != NULL;
        variant v;
        p.type_kv = cases[i].type, p.paged = cases[i].paged;
        if (integers) p.type_q = p.type_out = CLATTN_TYPE_F16;
        keep(&in.probes, PROBE_FMA, 100.0f);
        keep(&in.probes, PROBE_DOT_I8, integers ? 200.0f : 0.0f);
        keep(&in.probes, PROBE_ASK_NOTHING, cases[i].nothing);
        keep(&in.probes, PROBE_ASK_FIRST, cases[i].first);
        keep(&in.probes, PROBE_ASK_SECOND, cases[i].second);
        ck_assert_int_eq(cla_variant_choose(&in, &p, &v), CLATTN_OK);
        ck_assert_int_eq(v.family->id, KERNEL_DECODE_LANES);
        ck_assert_int_eq(v.knobs.dot_i8, integers ? DOT_I8_VNNI : 0);
        ck_assert_msg(v.knobs.prefetch_level == cases[i].asked, "%s: %d", cases[i].word,
                      v.knobs.prefetch_level);
    }
}
END_TEST

// Unsure rates never replace a reported vector width, and change neither tiles nor prefetching.
// Sure rates do.
START_TEST(unsure_rates) {
    static const cpu_device busy = {"16 disturbed", CPU(16, 8192), 117, 43, 59, 119.3f, 74.9f, 16};
    static const cpu_device none = {"reports none", CPU(1, 4096), 40, 2, 34, 70, 71, 8};
    static const unsigned of_width[] = {1u << PROBE_LANES_8, 1u << PROBE_LANES_16};
    const problem prefill = make_problem(1024), decode = make_problem(1);
    variant v;
    plan_input in = input_of(&busy);
    ck_assert_int_eq(cla_plan_lanes(&in), 8);
    for (size_t i = 0; i < 2; i++) {
        in = input_of(&busy);
        in.probes.sure &= ~of_width[i];
        ck_assert_int_eq(cla_plan_lanes(&in), 16);
    }
    in = input_of(&none);
    in.probes.sure = 0; // without sure rates, the reported width is used
    ck_assert_int_eq(cla_plan_lanes(&in), none.lanes);
    for (int sure = 0; sure < 2; sure++) {
        in = (plan_input){.device = &wide_cpu, .shipped = &shipped};
        keep(&in.probes, PROBE_LOADS_2X8, 100.0f);
        keep(&in.probes, PROBE_LOADS_4X6, 200.0f);
        keep(&in.probes, PROBE_ASK_NOTHING, 50.0f);
        keep(&in.probes, PROBE_ASK_FIRST, 90.0f);
        keep(&in.probes, PROBE_ASK_SECOND, 60.0f);
        if (!sure) in.probes.sure &= ~(1u << PROBE_LOADS_4X6 | 1u << PROBE_ASK_SECOND);
        ck_assert_int_eq(cla_variant_choose(&in, &prefill, &v), CLATTN_OK);
        ck_assert_int_eq(v.knobs.row_vectors, sure ? 4 : 2);
        ck_assert_int_eq(cla_variant_choose(&in, &decode, &v), CLATTN_OK);
        ck_assert_int_eq(v.knobs.prefetch_level, sure ? PREFETCH_FIRST_LEVEL : PREFETCH_SECOND_LEVEL);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {widths,        worth_asking,  rows_by_width, engines_by_time,
                                  tiles_by_rate, tiles_by_band, asks_by_rate,  unsure_rates};
    return PLAN_SUITE_RUN("plan_widths", tests);
}
