// test_probe.c: probes of engines: asked only where they apply, right to the bit or not taken, with a rate, and their answer
// kept in the cache folder.
#include "harness.h"

#include "args.h"
#include "core/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL (~0u)

static clattn_context *open_context(const char *cache_dir) {
    return harness_open((clattn_context_params){.cache_dir = cache_dir});
}

// What is proven has a rate, what is not has none; only what was asked for ran.
START_TEST(proven_means_a_rate) {
    clattn_context *c = open_context(NULL);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran, 0);
    const probe_results fma = cla_probe_results(c, 1u << PROBE_FMA);
    ck_assert_uint_eq(fma.ran, 1u << PROBE_FMA);
    const probe_results all = cla_probe_results(c, ALL);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        const bool proven = all.proven >> id & 1u;
        ck_assert(all.ran >> id & 1u);
        ck_assert_int_eq(proven, all.rate[id] > 0.0f);
        if (!cla_probes[id].applies(clattn_context_capabilities(c))) ck_assert(!proven);
    }
    // Multiply-adds in vectors compile and are right wherever they are asked for.
    if (cla_probes[PROBE_FMA].applies(clattn_context_capabilities(c))) {
        ck_assert(all.proven >> PROBE_FMA & 1u);
        ck_assert_msg(all.rate[PROBE_FMA] > 0.1f && all.rate[PROBE_FMA] < 10000.0f, "%g GFLOP/s",
                      (double)all.rate[PROBE_FMA]);
    }
    clattn_context_destroy(c);
}
END_TEST

// A second context takes the answer as it was: a rate that was measured again would differ in its last bits.
START_TEST(answers_are_kept) {
    char folder[] = "/tmp/clattn-probe-XXXXXX", command[128];
    probe_results of[3];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int round = 0; round < 3; round++) {
        clattn_context *c = open_context(folder);
        of[round] = cla_probe_results(c, ALL);
        clattn_context_destroy(c);
        ck_assert_mem_eq(&of[round], &of[0], sizeof of[0]);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// A wrong expectation must not pass: the comparison looks at every lane.
static void expect_one_off(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_probes[PROBE_FMA].expect(k, out);
    out[k->lanes - 1] ^= 1u;
}

START_TEST(wrong_is_not_proven) {
    clattn_context *c = open_context(NULL);
    probe wrong = cla_probes[PROBE_FMA];
    bool answered = false;
    if (wrong.applies(clattn_context_capabilities(c))) {
        ck_assert(cla_probe_run(c, &wrong, &answered) > 0.0f && answered);
        wrong.expect = expect_one_off;
        ck_assert(cla_probe_run(c, &wrong, &answered) == 0.0f && answered);
    }
    clattn_context_destroy(c);
}
END_TEST

static knobs knobs_emulated(const clattn_capabilities *device) {
    knobs k = cla_probes[PROBE_AMX].knobs(device);
    k.matrix_engine = MATRIX_ENGINE_EMULATION;
    return k;
}
static void expect_one_off_tile(const knobs *k, uint32_t out[PROBE_WORDS]) {
    cla_probes[PROBE_AMX].expect(k, out);
    out[PROBE_WORDS - 1] ^= 1u;
}

// What tiles must compute is what the emulation computes, on any device; a context that did not ask for the engine has none.
START_TEST(tiles) {
    clattn_context *c = open_context(NULL);
    probe emulated = cla_probes[PROBE_AMX];
    bool answered = false;
    emulated.knobs = knobs_emulated;
    ck_assert(cla_probe_run(c, &emulated, &answered) > 0.0f && answered);
    emulated.expect = expect_one_off_tile;
    ck_assert(cla_probe_run(c, &emulated, &answered) == 0.0f && answered);
    ck_assert_uint_eq(c->engines, 0);
    ck_assert(!(cla_probe_results(c, ALL).proven >> PROBE_AMX & 1u));
    clattn_context_destroy(c);
    c = harness_open((clattn_context_params){.engines = CLATTN_ENGINES_ALL});
    const bool granted = clattn_context_capabilities(c)->is_cpu && cla_os_request_amx();
    ck_assert_uint_eq(c->engines, granted ? CLATTN_ENGINE_AMX : 0);
    ck_assert_int_eq(cla_probe_results(c, ALL).proven >> PROBE_AMX & 1u, granted);
    clattn_context_destroy(c);
}
END_TEST

// The public list says what the planner goes by, no more entries than there is room for.
START_TEST(listed) {
    clattn_context *c = open_context(NULL);
    clattn_engine engines[PROBE_COUNT];
    size_t count = 0;
    memset(engines, 0x5a, sizeof engines);
    ck_assert_int_eq(clattn_context_engines(c, engines, 1, &count), CLATTN_OK);
    ck_assert_uint_eq(count, PROBE_COUNT - 1);
    ck_assert_int_eq(engines[1].name[0], 0x5a);
    ck_assert_int_eq(clattn_context_engines(c, engines, PROBE_COUNT, &count), CLATTN_OK);
    const probe_results found = cla_probe_results(c, ALL);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        ck_assert_str_eq(engines[id - 1].name, cla_probes[id].name);
        ck_assert_int_eq(engines[id - 1].works, found.proven >> id & 1u);
        ck_assert(engines[id - 1].gflops == found.rate[id]);
    }
    clattn_context_destroy(c);
}
END_TEST

static knobs knobs_refused(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.lanes = 5}; // no kernel compiles with it
}
static double no_flops(const knobs *k) {
    return 0.0 * k->lanes;
}

// What the compiler refuses is an answer, which the cache keeps; a rate that could not be had is none, nor is a call that
// failed: here a kernel that takes other arguments.
START_TEST(only_answers_are_kept) {
    clattn_context *c = open_context(NULL);
    const probe fma = cla_probes[PROBE_FMA];
    bool answered = false;
    if (fma.applies(clattn_context_capabilities(c))) {
        probe p = fma;
        p.knobs = knobs_refused;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && answered);
        p = fma, p.round_flops = no_flops;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && !answered);
        p = fma, p.kernel = KERNEL_SOFTMAX;
        ck_assert(cla_probe_run(c, &p, &answered) == 0.0f && !answered);
    }
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {proven_means_a_rate,
                                  answers_are_kept,
                                  wrong_is_not_proven,
                                  tiles,
                                  listed,
                                  only_answers_are_kept,
                                  NULL};
    Suite *suite = suite_create("probe");
    harness_add(suite, "probe", tests);
    return harness_run(suite);
}
