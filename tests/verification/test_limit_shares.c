// test_limit_shares.c: the limit of a case, and contradictory limits, on machines with made-up
// rates, or rates that were once measured. Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <string.h>

#include "verification/limits/limits_share.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define CACHES(l1, l2, l3, l3_bytes)                                                                         \
    .level_count = 3, .levels = {{"L1", 48 * KIB, l1, 96 * KIB, 48 * KIB},                                   \
                                 {"L2", 2 * MIB, l2, 4 * MIB, 2 * MIB},                                      \
                                 {"L3", l3_bytes, l3, l3_bytes, l3_bytes / 2}}

// A server's CPU with 300 MiB of third-level cache, and its engines.
static const struct limits server = {.fma_gflops = 300.0,
                                     .fma_loads_gflops = 290.0,
                                     .native_fma_gflops = 300.0,
                                     .read_gbytes_per_s = 20.0,
                                     .engine_gflops = {[LIMIT_ENGINE_DOT_BF16] = 600.0,
                                                       [LIMIT_ENGINE_DOT_I8] = 1000.0,
                                                       [LIMIT_ENGINE_AMX_BF16] = 4000.0,
                                                       [LIMIT_ENGINE_AMX_I8] = 8000.0},
                                     CACHES(400.0, 150.0, 50.0, 300 * MIB)};

static struct limit_share share(const struct limits *of, double flops, double bytes, double ns,
                                limit_engine engine, double read) {
    return limits_share(of, &(struct limit_demand){flops, bytes, ns, engine, read});
}

static void expect(struct limit_share s, const char *name, double rate, double percent) {
    ck_assert_str_eq(s.name, name);
    ck_assert_double_eq_tol(s.rate, rate, 1e-9 * rate);
    ck_assert_double_eq_tol(s.percent, percent, 1e-6 * percent);
    ck_assert_int_eq(s.reads, !strncmp(name, "reading", 7));
}

// 32 MiB of keys at 33.5 GB/s: 167 % of reading from memory, and 67 % of the third-level cache that
// contains them.
START_TEST(level_of_memory) {
    expect(share(&server, 67e6, 33.5e6, 1e6, LIMIT_ENGINE_FMA, 0.0), "reading 33.5 MB (L3)", 50.0, 67.0);
    expect(share(&server, 3e6, 3e6, 1e6, LIMIT_ENGINE_FMA, 0.0), "reading 3 MB (L2)", 150.0, 2.0);
    expect(share(&server, 2e4, 4e4, 1e4, LIMIT_ENGINE_FMA, 0.0), "reading 40 kB (L1)", 400.0, 1.0);
    expect(share(&server, 1e9, 500e6, 50e6, LIMIT_ENGINE_FMA, 0.0), "reading 500 MB (memory)", 20.0, 50.0);
    expect(share(&server, 1e9, 5432e6, 543.2e6, LIMIT_ENGINE_FMA, 0.0), "reading 5432 MB (memory)", 20.0,
           50.0);
    // A rate measured beside the case is used, never a rate of fewer bytes. A rate of more bytes is
    // no faster.
    expect(share(&server, 67e6, 33.5e6, 1e6, LIMIT_ENGINE_FMA, 67.0), "reading 33.5 MB (L3)", 67.0, 50.0);
    expect(share(&server, 67e6, 33.5e6, 1e6, LIMIT_ENGINE_FMA, 7.0), "reading 33.5 MB (L3)", 50.0, 67.0);
    expect(share(&server, 4e8, 2e8, 8e6, LIMIT_ENGINE_FMA, 40.0), "reading 200 MB (L3)", 40.0, 62.5);
    expect(share(&server, 1e9, 500e6, 25e6, LIMIT_ENGINE_FMA, 25.0), "reading 500 MB (memory)", 25.0, 80.0);
    // no cache is reported
    const struct limits plain = {.fma_gflops = 100.0, .read_gbytes_per_s = 10.0};
    expect(share(&plain, 6e6, 3e6, 1e6, LIMIT_ENGINE_FMA, 0.0), "reading 3 MB (memory)", 10.0, 30.0);
}
END_TEST

START_TEST(engines) {
    const double flops = 2e9, bytes = 1e6, ns = 1e6; // 2000 GFLOP/s
    expect(share(&server, flops, bytes, ns, LIMIT_ENGINE_AMX_BF16, 0.0), "AMX bfloat16", 4000.0, 50.0);
    expect(share(&server, flops, bytes, ns, LIMIT_ENGINE_AMX_I8, 0.0), "AMX int8", 8000.0, 25.0);
    expect(share(&server, flops, bytes, 4 * ns, LIMIT_ENGINE_DOT_BF16, 0.0), "bfloat16 dot product", 600.0,
           100.0 * 5 / 6);
    expect(share(&server, flops, bytes, 4 * ns, LIMIT_ENGINE_DOT_I8, 0.0), "int8 dot product", 1000.0, 50.0);
    expect(share(&server, flops, bytes, 10 * ns, LIMIT_ENGINE_FMA, 0.0), "float32 FMA", 300.0, 200.0 / 3);
    // Decode of many heads over one past is bound by multiplying, a projection of few rows by
    // reading.
    expect(share(&server, 2e9, 5e6, 1e7, LIMIT_ENGINE_FMA, 0.0), "float32 FMA", 300.0, 200.0 / 3);
    expect(share(&server, 5e6, 10e6, 1e6, LIMIT_ENGINE_AMX_BF16, 0.0), "reading 10 MB (L3)", 50.0, 20.0);
    // its engine was not measured
    const struct limits old = {.fma_gflops = 100.0, .read_gbytes_per_s = 10.0};
    expect(share(&old, flops, bytes, 4 * ns, LIMIT_ENGINE_AMX_BF16, 0.0), "float32 FMA", 100.0, 500.0);
    expect(share(&old, flops, bytes, 4 * ns, LIMIT_ENGINE_OTHER, 0.0),
           "float32 FMA (the engine's peak is not measured)", 100.0, 500.0);
    const struct limits none = {.fma_gflops = 0.0};
    ck_assert_str_eq(share(&none, flops, bytes, ns, LIMIT_ENGINE_FMA, 0.0).name, "");
    ck_assert_str_eq(share(&server, flops, bytes, 0.0, LIMIT_ENGINE_FMA, 0.0).name, "");
}
END_TEST

START_TEST(kernels) {
    static const struct {
        const char *kernel;
        bool matrix;
        clattn_type q, kv;
        limit_engine engine;
    } all[] = {{"flash_matrix", true, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_AMX_BF16},
               {"flash_matrix", true, CLATTN_TYPE_F32, CLATTN_TYPE_I8, LIMIT_ENGINE_AMX_I8},
               // emulated
               {"flash_matrix", false, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_FMA},
               {"backward_matrix", true, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_AMX_BF16},
               {"linear_matrix", false, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_AMX_BF16},
               {"flash_lanes", true, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_DOT_BF16},
               {"flash_lanes", false, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_FMA},
               {"flash_lanes", false, CLATTN_TYPE_F32, CLATTN_TYPE_F32, LIMIT_ENGINE_FMA},
               {"decode_lanes", true, CLATTN_TYPE_BF16, CLATTN_TYPE_I8, LIMIT_ENGINE_DOT_I8},
               {"decode_lanes", true, CLATTN_TYPE_F32, CLATTN_TYPE_Q8_0, LIMIT_ENGINE_DOT_I8},
               {"decode_rows", true, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_DOT_BF16},
               {"linear_lanes", false, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_DOT_BF16},
               {"linear_lanes", false, CLATTN_TYPE_F32, CLATTN_TYPE_I8, LIMIT_ENGINE_DOT_I8},
               {"linear_lanes", false, CLATTN_TYPE_F32, CLATTN_TYPE_F32, LIMIT_ENGINE_FMA},
               {"flash_fragments", true, CLATTN_TYPE_BF16, CLATTN_TYPE_BF16, LIMIT_ENGINE_OTHER},
               {"linear_fragments", false, CLATTN_TYPE_F16, CLATTN_TYPE_F16, LIMIT_ENGINE_OTHER},
               {"decode_groups", true, CLATTN_TYPE_F16, CLATTN_TYPE_I8, LIMIT_ENGINE_OTHER},
               {"decode_groups", false, CLATTN_TYPE_F16, CLATTN_TYPE_F16, LIMIT_ENGINE_FMA},
               {"linear_rows", false, CLATTN_TYPE_F16, CLATTN_TYPE_F16, LIMIT_ENGINE_FMA},
               {"unfused", false, CLATTN_TYPE_F32, CLATTN_TYPE_F32, LIMIT_ENGINE_FMA},
               {"clblast", false, CLATTN_TYPE_F32, CLATTN_TYPE_F32, LIMIT_ENGINE_FMA}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_msg(limits_engine(all[i].kernel, all[i].matrix, all[i].q, all[i].kv) == all[i].engine,
                      "%zu: %s", i, all[i].kernel);
}
END_TEST

// The peaks of engines from rates of one work-item. Here two cores together reach three quarters of
// the sum of their rates.
START_TEST(peaks_of_probes) {
    static const clattn_engine probes[] = {
        {.name = "multiply-add in vectors", .works = true, .gflops = 100.0f},
        {.name = "bfloat16 matrix tiles (AMX)", .works = true, .gflops = 2000.0f},
        {.name = "int8 matrix tiles (AMX)", .works = false, .gflops = 4000.0f},
        {.name = "integer dot product (VNNI)", .works = true, .gflops = 300.0f},
        {.name = "bfloat16 dot product", .works = true, .gflops = 10.0f}};
    struct limits found = {.fma_gflops = 150.0, .engine_gflops = {[LIMIT_ENGINE_DOT_BF16] = 400.0}};
    limits_take_engines(probes, 5, 2, &found);
    ck_assert_double_eq_tol(found.engine_gflops[LIMIT_ENGINE_AMX_BF16], 3000.0, 1e-3);
    ck_assert_double_eq_tol(found.engine_gflops[LIMIT_ENGINE_DOT_I8], 450.0, 1e-3);
    ck_assert_double_eq(found.engine_gflops[LIMIT_ENGINE_AMX_I8], 0.0);
    ck_assert_double_eq(found.engine_gflops[LIMIT_ENGINE_DOT_BF16], 400.0); // measured on all cores
    ck_assert_double_eq(found.engine_gflops[LIMIT_ENGINE_FMA], 0.0);
}
END_TEST

START_TEST(reading_beside_a_case) {
    const struct limit_demand decode = {67e6, 33.5e6, 0.0, LIMIT_ENGINE_FMA, 0.0},
                              prefill = {3e9, 12e6, 0.0, LIMIT_ENGINE_FMA, 0.0},
                              tiles = {3e9, 12e6, 0.0, LIMIT_ENGINE_AMX_BF16, 0.0};
    ck_assert(limits_may_read(&server, &decode));
    ck_assert(!limits_may_read(&server, &prefill));
    ck_assert(!limits_may_read(&server, &tiles)); // 250 operations a byte, above 200
    const struct limits unknown = {.fma_gflops = 300.0, .read_gbytes_per_s = 20.0};
    ck_assert(limits_may_read(&unknown, &tiles)); // the engine's peak is not known yet
}
END_TEST

#define SANE                                                                                                 \
    {                                                                                                        \
        .fma_gflops = 231.6, .fma_loads_gflops = 232.2, .native_fma_gflops = 228.1,                          \
        .read_gbytes_per_s = 32.6, CACHES(218.2, 201.2, 146.1, 32 * MIB), .instructions = 6.7,               \
        .disturbed = 1.02, .cores_share = 0.97                                                               \
    }

START_TEST(contradictions) {
    char line[LIMIT_LINE];
    const struct limits sane[] = {SANE, // two cores of a Zen 4
                                  {.fma_gflops = 2470.9,
                                   .fma_loads_gflops = 2484.1,
                                   .native_fma_gflops = 2267.7,
                                   .read_gbytes_per_s = 253.0,
                                   // Sapphire Rapids, 16 cores
                                   CACHES(2541.8, 573.3, 231.2, 300 * MIB)},
                                  {.fma_gflops = 62660.1, .read_gbytes_per_s = 4003.2}, // H200
                                  {.fma_gflops = 125.0,
                                   .fma_loads_gflops = 97.0,
                                   .native_fma_gflops = 460.0,
                                   .read_gbytes_per_s = 31.0}, // no AVX-512
                                  {.fma_gflops = 0.0}};
    for (size_t i = 0; i < sizeof sane / sizeof sane[0]; i++) {
        ck_assert_msg(!*limits_contradiction(&sane[i], line), "%zu: %s", i, line);
        ck_assert_str_eq(limits_contended(&sane[i], line), "");
    }
    static const struct {
        struct limits of;
        const char *words[3];
    } bad[] = {{{.fma_gflops = 150.0, .fma_loads_gflops = 14.5, .read_gbytes_per_s = 0.7},
                {"14.5", "150.0", "0.7 GB/s"}},
               {{.fma_gflops = 60.0, .fma_loads_gflops = 200.0}, {"60.0", "200.0"}},
               {{.fma_gflops = 200.0, .native_fma_gflops = 60.0}, {"60.0", "200.0", "loop in C"}},
               {{.fma_gflops = 150.0, .read_gbytes_per_s = 20.0, CACHES(200.0, 9.0, 60.0, 32 * MIB)},
                {"L2", "9.0", "60.0"}},
               {{.fma_gflops = 150.0, .read_gbytes_per_s = 20.0, CACHES(200.0, 100.0, 5.0, 32 * MIB)},
                {"L3", "5.0", "memory"}},
               {{.fma_gflops = 150.0, .read_gbytes_per_s = 2.0, CACHES(200.0, 100.0, 90.0, 32 * MIB)},
                {"memory", "2.0", "90.0"}},
               {{.fma_gflops = 150.0, .read_gbytes_per_s = 0.5}, {"0.5 GB/s", "150.0"}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *text = limits_contended(&bad[i].of, line);
        ck_assert_msg(!strncmp(text, "Limits of this run contradict each other: ", 42), "%zu: %s", i, text);
        for (int w = 0; w < 3 && bad[i].words[w]; w++)
            ck_assert_msg(strstr(text, bad[i].words[w]) != NULL, "%zu: no %s: %s", i, bad[i].words[w], text);
        ck_assert_msg(!strchr(text, '\n') && text[strlen(text) - 1] == '.' && !strstr(text, "; ."), "%s",
                      text);
    }
}
END_TEST

START_TEST(contention) {
    char line[LIMIT_LINE];
    struct limits shared = SANE;
    shared.cores_share = 0.45;
    ck_assert_msg(strstr(limits_contended(&shared, line), "45 %") != NULL, "%s", line);
    shared = (struct limits)SANE, shared.instructions = 2.0;
    ck_assert_ptr_nonnull(strstr(limits_contended(&shared, line), "instructions"));
    shared = (struct limits)SANE, shared.disturbed = 1.5;
    ck_assert_ptr_nonnull(strstr(limits_contended(&shared, line), "longer at times"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("limit shares");
    TCase *all = tcase_create("limits");
    tcase_add_test(all, level_of_memory);
    tcase_add_test(all, engines);
    tcase_add_test(all, kernels);
    tcase_add_test(all, peaks_of_probes);
    tcase_add_test(all, reading_beside_a_case);
    tcase_add_test(all, contradictions);
    tcase_add_test(all, contention);
    suite_add_tcase(suite, all);
    return run_suite(suite, CK_FORK_GETENV);
}
