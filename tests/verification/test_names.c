// test_names.c: the names of cases (verification/case/case.h). A printed name is read as the same
// case, for the hard list, for the bench's fixed names and for a random sample. Other text is
// refused with one line. Running them is in test_case.c. Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_data.h"
#include "verification/device/choose_device.h"
#include "verification/sets/hard_cases.h"
#include "verification/words/words.h"

static void assert_round_trip(const char *name) {
    struct test_case test;
    char why[256] = "", again[CASE_NAME_SIZE];
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    ck_assert_str_eq(case_name(&test, again), name);
}

START_TEST(hard_names) {
    for (int n = 0; n < hard_case_count; n++) {
        assert_round_trip(hard_cases[n].name);
        ck_assert_int_eq(hard_case_find(hard_cases[n].alias), n);
        ck_assert_int_eq(hard_case_find(hard_cases[n].name), n);
    }
}
END_TEST

// clattn compare uses these names as keys of tables, so they never change.
START_TEST(standing_names) {
    static const char *const names[] = {"attend-f32-b1-h12-n1024-d64-full",
                                        "attend-f32-b1-h12-n1024-d64-full-unfused",
                                        "attend-f32-b1-h12-n1024-d64-full-clblast",
                                        "attend-bf16-b1-h12-n2048-d64-causal",
                                        "attend-f32-b1-h32-hkv8-n4096-d128-causal-flash",
                                        "attend-f32-b3-h2-n37-nkv19-d16-dv24-causal-clblast",
                                        "decode-bf16-b1-h32-hkv8-n1-nkv4096-d128-full",
                                        "layer-f32-b1-h12-n512-d64-m768-full",
                                        "layer-bf16-b1-h12-n512-nkv300-d64-m768-causal-unfused-native",
                                        "layer-f32-b1-h12-n1024-d64-m768-causal-biases-weights",
                                        "linear-f32-b3-h2-n33-d16-m40-full",
                                        "linear-f32-b1-h12-n512-d64-m768-full-clblast",
                                        "backward-bf16-b1-h12-n2048-d64-causal"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) assert_round_trip(names[n]);
}
END_TEST

// One token of each kind, in the order of names. A random subset of them has only one name.
#define ALWAYS 32
static const struct {
    const char *token;
    unsigned ops; // bit of case_op
} tokens[] = {{"-hkv2", 31},
              {"-n7", ALWAYS},
              {"-nkv21", 23},
              {"-d12", ALWAYS},
              {"-dv20", 31},
              {"-m24", ALWAYS},
              {"-causal", ALWAYS},
              {"-flash", 7},
              {"-native", 12},
              {"-topleft", 19},
              {"-kvbf16", 19},
              {"-outf16", 19},
              {"-matrixf16", 12},
              {"-vectorbf16", 12},
              {"-my36", 4},
              {"-mo48", 4},
              {"-biasesqv", 4},
              {"-padded", 31},
              {"-lse", 3},
              {"-weightsf16", 7},
              {"-scoresmasked", 7},
              {"-splits3", 7},
              {"-dlse", 16},
              {"-gradf16", 16},
              {"-onlyqvs", 16},
              {"-scalem0.3", 23},
              {"-softcap1.5", 23},
              {"-window5:m1", 23},
              {"-maskb1qk", 23},
              {"-bias1hqk:f16", 23},
              {"-alibi", 23},
              {"-sinks1e30:m2:0.1:7", 23},
              {"-qlen0:7", 23},
              {"-kvlen", 23},
              {"-offsetsm9:13", 4},
              {"-ropehalf", 23},
              {"-rotary6", 23},
              {"-ropebase500000", 23},
              {"-ropepos16777216", 23},
              {"-ropescalentk", 23},
              {"-ropefactor1.5", 23},
              {"-hugeneg", 3},
              {"-seed77", 31}};
#define TOKENS ((int)(sizeof tokens / sizeof tokens[0]))

static void make_name(struct random *random, int one, char name[CASE_NAME_SIZE]) {
    const int op = one >= 0 ? -1 : (int)random_uniform(random, 0, 5);
    int of = op;
    for (int n = 0; one >= 0 && n < 5; n++)
        if (tokens[one].ops >> n & 1) of = n;
    snprintf(name, CASE_NAME_SIZE, "%s-%s-b2-h4", names_ops[of], names_types[0]);
    for (int n = 0; n < TOKENS; n++) {
        const bool always = tokens[n].ops == ALWAYS, width = strcmp(tokens[n].token, "-m24") == 0;
        bool with = one >= 0 ? n == one : random_uniform(random, 0, 3) < 1 && tokens[n].ops >> of & 1;
        if (always) with = !width || of == CASE_LAYER || of == CASE_LINEAR;
        const size_t used = strlen(name);
        if (with) snprintf(name + used, CASE_NAME_SIZE - used, "%s", tokens[n].token);
    }
}

START_TEST(random_names) {
    struct random random = {2026};
    char name[CASE_NAME_SIZE];
    for (int n = 0; n < 20000; n++) {
        make_name(&random, -1, name);
        assert_round_trip(name);
    }
}
END_TEST

// A token that is read and ignored would also survive the round trip, if the name were not printed
// from the case.
START_TEST(every_token_changes_the_case) {
    for (int n = 0; n < TOKENS; n++) {
        struct test_case with, without;
        char name[CASE_NAME_SIZE], why[256] = "";
        if (tokens[n].ops == ALWAYS) continue;
        make_name(NULL, n, name);
        ck_assert_msg(case_parse(name, &with, why), "%s: %s", name, why);
        char *token = strstr(name, tokens[n].token);
        memmove(token, token + strlen(tokens[n].token), strlen(token + strlen(tokens[n].token)) + 1);
        ck_assert_msg(case_parse(name, &without, why), "%s: %s", name, why);
        ck_assert_msg(memcmp(&with, &without, sizeof with) != 0, "%s changes nothing", tokens[n].token);
    }
}
END_TEST

/* A float accepts numbers that are no integers. */
START_TEST(large_numbers) {
    struct test_case test;
    char why[256] = "";
    ck_assert_msg(case_parse("attend-f32-b1-h1-n1-d1-full-scale1e30-ropehalf-ropebase1e300", &test, why),
                  "%s", why);
    ck_assert_float_eq(test.score.scale, 1e30f);
    ck_assert_double_eq(test.rope.base, 1e300);
}
END_TEST

static void assert_refused(const char *const names[][2], size_t count) {
    for (size_t n = 0; n < count; n++) {
        struct test_case test;
        char why[256] = "";
        ck_assert_msg(!case_parse(names[n][0], &test, why), "'%s' was taken", names[n][0]);
        ck_assert_msg(strstr(why, names[n][1]) != NULL, "'%s': no %s in: %s", names[n][0], names[n][1], why);
        ck_assert_msg(strchr(why, '\n') == NULL, "'%s': more than a line", names[n][0]);
    }
}

START_TEST(refused_names) {
    static const char *const names[][2] = {
        {"", "starts with"},
        {"attend", "starts with"},
        {"attention-f32-b1-h1-n1-d1-full", "starts with"},
        {"attend-f64-b1-h1-n1-d1-full", "starts with"},
        {"attend-f32-b1-h1-n1-d1", "is written"},
        {"attend-f32-b1-h1-n1-d1-full-", "''"},
        {"attend-f32-b1-h1-n1-d1-full-full", "is written"},
        {"attend-f32-b1-h1-n1-d1-full-seed0", "is written"},
        {"attend-f32-b1-h1-hkv1-n1-d1-full", "is written"},
        {"attend-f32-h1-b1-n1-d1-full", "is written"},
        {"attend-f32-b01-h1-n1-d1-full", "is written"},
        {"attend-f32-b1-h1-n0-d1-full", "'n0'"},
        {"attend-f32-bm1-h1-n1-d1-full", "'bm1'"},
        {"attend-f32-b1-h1-n1.5-d1-full", "'n1.5'"},
        {"attend-f32-b1-h1-n1-d1-full-m768", "'m768'"},
        {"attend-f32-b1-h1-n1-d1-full-native", "'native'"},
        {"attend-f32-b1-h1-n1-d1-full-auto", "'auto'"},
        {"attend-f32-b1-h1-n1-d1-full-sinks1:2", "sinks"},
        {"attend-f32-b1-h1-n1-d1-full-sinks1:", "'sinks1:'"},
        {"attend-f32-b1-h1-n1-d1-full-window3", "'window3'"},
        {"attend-f32-b1-h1-n1-d1-full-windowm2:1", "'windowm2:1'"},
        {"attend-f32-b1-h1-n1-d1-full-window4294967296:1", "'window4294967296:1'"},
        {"attend-f32-b1-h1-n1-d1-full-window1:77777777777777777777", "window1:7"},
        {"attend-f32-b1-h1-n1-d1-full-scale77777777777777777777777777777777777777777", "scale7"},
        {"attend-f32-b1-h1-n1-d1-full-scale1em300", "'scale1em300'"},
        {"attend-f32-b1-h1-n1-d1-full-softcap1em300", "'softcap1em300'"},
        {"attend-f32-b1-h1-n1-d1-full-maskhk", "'maskhk'"},
        {"attend-f32-b1-h1-n1-d1-full-maskqk:f16", "'maskqk:f16'"},
        {"attend-f32-b1-h1-n1-d1-full-scalenan", "'scalenan'"},
        {"attend-f32-b1-h1-n1-d1-full-infbias", "infbias"},
        {"attend-f32-b1-h4-hkv3-n1-d1-full", "divide"},
        {"attend-f32-b16777216-h16777216-n16777216-d16777216-full", "elements"},
        {"layer-f32-b1-h1-n1-d1-full", "width"},
        {"linear-f32-b1-h1-n1-d1-m1-full-softcap2", "'softcap2'"},
    };
    assert_refused(names, sizeof names / sizeof names[0]);
}
END_TEST

// Lengths outside the tensors are refused; the longest and shortest valid lengths are accepted.
START_TEST(refused_lengths) {
    static const char *const names[][2] = {
        {"attend-f32-b4-h4-hkv2-n15-nkv77-d64-causal-qlen15:0:4:1-kvlen77:25:3:9-append15-raggedcachedevice",
         "kvlen: counts past rows and those of append"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-pages11-kvlen33:8-append9", "kvlen: counts"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-past20-kvlen33:28-append9", "kvlen: counts"},
        {"layer-f32-b2-h2-n9-nkv33-d4-m8-causal-native-kvlen33:8-append9", "kvlen: counts"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-kvlen33:34-raggedhost", "kvlen: from 0"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-kvlen33:m1-raggedhost", "kvlen: from 0"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-past20:20:3-kvlen33:17", "kvlen: from 0"},
        {"backward-f32-b2-h2-n9-nkv33-d4-causal-kvlen33:34", "kvlen: from 0"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-qlen9:10-raggedhost", "qlen: from 0"},
        {"attend-f32-b2-h2-n9-nkv33-d4-causal-qlen9:m1-raggedhost", "qlen: from 0"},
    };
    static const char *const taken[] = {
        "attend-f32-b4-h4-hkv2-n15-nkv77-d64-causal-qlen15:0:4:1-kvlen77:25:4:9-append15-raggedcachedevice",
        "attend-f32-b2-h2-n9-nkv33-d4-causal-pages11-kvlen33:9-append9",
        "attend-f32-b2-h2-n9-nkv33-d4-causal-past20:20:3-kvlen29:12-append9",
        "attend-f32-b2-h2-n9-nkv33-d4-causal-past20:20:3-kvlen33:16",
        "attend-f32-b2-h2-n9-nkv33-d4-causal-qlen9:0-kvlen33:0-raggedhost",
    };
    assert_refused(names, sizeof names / sizeof names[0]);
    for (size_t n = 0; n < sizeof taken / sizeof taken[0]; n++) {
        struct test_case test;
        char why[256] = "";
        ck_assert_msg(case_parse(taken[n], &test, why), "'%s': %s", taken[n], why);
    }
}
END_TEST

// Options without a gradient cannot be part of a backward.
START_TEST(refused_gradients) {
    static const char *const names[][2] = {
        {"attend-f32-b1-h1-n1-d1-full-dlse", "'dlse'"},
        {"backward-f32-b1-h1-n1-d1-full-lse", "'lse'"},
        {"backward-f32-b1-h1-n1-d1-full-weights", "'weights'"},
        {"backward-f32-b1-h1-n1-d1-full-flash", "'flash'"},
        {"backward-f32-b1-h1-n1-d1-full-splits2", "'splits2'"},
        {"backward-f32-b1-h1-n1-d1-full-past1", "'past1'"},
        {"backward-f32-b1-h1-n1-d1-full-pages1", "'pages1'"},
        {"backward-f32-b1-h1-n1-d1-full-append1", "'append1'"},
        {"backward-f32-b1-h1-n1-d1-full-only", "'only'"},
        {"backward-f32-b1-h1-n1-d1-full-onlyx", "'onlyx'"},
        {"backward-f32-b1-h1-n1-d1-full-onlykq", "is written"},
        {"backward-f32-b1-h1-n1-d1-full-kvi8", "a byte"},
        {"backward-f32-b1-h1-n1-d1-full-huge", "huge"},
        {"backward-f32-b1-h1-n1-d1-full-modsgradient", "mods"},
    };
    assert_refused(names, sizeof names / sizeof names[0]);
}
END_TEST

// --device: a number, a kind, a whole name before a part of one. A part that fits devices of two
// names fits none.
START_TEST(names_of_devices) {
    static clattn_capabilities all[5];
    static const struct {
        const char *spec;
        int chosen, other;
    } wanted[] = {{NULL, 2, -1},          {"0", 0, -1},      {"4", 4, -1},    {"5", -1, -1},
                  {"01", -1, -1},         {"gpu", 2, -1},    {"CPU", 0, -1},  {"amd epyc", 1, -1},
                  {"epyc", -1, 1},        {"e", -1, 1},      {"pocl", 0, -1}, {"nvidia", 2, -1},
                  {"nvidia h100", 2, -1}, {"radeon", -1, -1}};
    const char *const names[] = {"cpu-AMD EPYC", "AMD EPYC", "NVIDIA H100", "NVIDIA H100", ""};
    const char *const platforms[] = {"PoCL", "Intel", "CUDA", "CUDA", "none"};
    for (int i = 0; i < 5; i++) {
        snprintf(all[i].name, sizeof all[i].name, "%s", names[i]);
        snprintf(all[i].platform, sizeof all[i].platform, "%s", platforms[i]);
        all[i].is_cpu = i < 2, all[i].is_gpu = i >= 2;
    }
    for (size_t n = 0; n < sizeof wanted / sizeof wanted[0]; n++) {
        int other = 7;
        const int chosen = choose_capabilities(all, 5, wanted[n].spec, &other);
        ck_assert_msg(chosen == wanted[n].chosen && other == wanted[n].other, "%s: %d, other %d",
                      wanted[n].spec ? wanted[n].spec : "no spec", chosen, other);
    }
}
END_TEST

// A name is enough to make the same numbers again, and other numbers with another seed.
START_TEST(same_inputs_again) {
    const char *const names[] = {"attend-f16-b2-h4-n7-d12-causal-maskqk-alibi-kvlen",
                                 "attend-f16-b2-h4-n7-d12-causal-maskqk-alibi-kvlen",
                                 "attend-f16-b2-h4-n7-d12-causal-maskqk-alibi-kvlen-seed1"};
    struct case_data *data[3];
    for (int n = 0; n < 3; n++) {
        struct test_case test;
        char why[256];
        ck_assert(case_parse(names[n], &test, why));
        data[n] = case_make(&test);
        ck_assert_int_ge(data[n]->integers[CASE_KV_LENGTHS][1], 0);
        ck_assert_int_le(data[n]->integers[CASE_KV_LENGTHS][1], 7);
    }
    const size_t bytes = 2 * 4 * 7 * 12 * sizeof(double);
    ck_assert_mem_eq(data[0]->q, data[1]->q, bytes);
    ck_assert_mem_eq(data[0]->floats[CASE_ALIBI], data[1]->floats[CASE_ALIBI], 4 * sizeof(float));
    ck_assert_mem_ne(data[0]->q, data[2]->q, bytes);
    for (int n = 0; n < 3; n++) case_free(data[n]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        hard_names,        standing_names,  random_names,      every_token_changes_the_case,
        refused_names,     refused_lengths, refused_gradients, large_numbers,
        same_inputs_again, names_of_devices};
    Suite *suite = suite_create("names of cases");
    TCase *group = tcase_create("names");
    for (size_t n = 0; n < sizeof tests / sizeof tests[0]; n++) tcase_add_test(group, tests[n]);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
