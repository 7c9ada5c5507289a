// test_probe_kept.c: results of probes in the cache folder. Certain results are kept for the
// device, driver, CPU, library and kernel that produced them, until they are measured again.
#include "support/harness.h"

#include "device/driver_quirks.h"
#include "probe/lane_widths.h"
#include "probe/probe.h"
#include "probe/rates.h"
#include "probe/survey.h"
#include "program/program.h"
#include "plan/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/layer_client.h"

static clattn_context *open_context(const char *cache_dir) {
    return harness_open((clattn_context_params){.cache_dir = cache_dir});
}

// Impossible rates. The function sets the two rates of multiply-adds and of decode that are
// compared, one of which may be uncertain.
static void keep_made_up(const char *folder, bool sure, bool settled) {
    probe_rate rates[PROBE_COUNT] = {{0}};
    clattn_context *c = open_context(folder);
    rates[PROBE_FMA] = (probe_rate){
        .gflops = 3.5f, .spread = 0.25f, .runs = 7, .sure = true, .settled = settled, .measured = 86400};
    rates[PROBE_LOADS_2X8] = rates[PROBE_LOADS_4X6] = rates[PROBE_FMA];
    rates[PROBE_LOADS_4X6].sure = sure;
    cla_probe_keep(c, 1u << PROBE_FMA | PROBES_LOADS, rates);
    clattn_context_destroy(c);
}

static void check_engine(const clattn_engine *e, bool made_up) {
    ck_assert_msg(e->works && e->kept == made_up, "%g GFLOP/s, kept %d, made up %d", (double)e->gflops,
                  e->kept, made_up);
    if (made_up)
        ck_assert(e->sure && e->gflops == 3.5f && e->spread == 0.25f && e->runs == 7 && e->measured == 86400);
    else
        ck_assert(e->gflops != 3.5f && e->runs >= 3 && e->measured > 86400 && e->spread >= 0.0f &&
                  e->spread <= 1.0f && (!e->sure || e->spread <= RATES_AGREE));
}

// A second context loads the result as it was. It does not if it must measure again, or if other
// rates contradict the result. Uncertain results, and those that would be compared with them, are
// not stored.
START_TEST(answers_are_kept) {
    enum { TAKEN, DOUBTED, AGAIN, WAYS };
    const unsigned asked = 1u << PROBE_FMA | PROBES_LOADS;
    char folder[] = "/tmp/clattn-probe-XXXXXX", command[128];
    clattn_engine engines[PROBE_COUNT];
    size_t count = 0;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int sure = 0; sure < 2; sure++) {
        keep_made_up(folder, sure, true);
        clattn_context *c = open_context(folder);
        if (cla_probes[PROBE_FMA].applies(&c->capabilities) &&
            cla_probes[PROBE_LOADS_2X8].applies(&c->capabilities))
            ck_assert_uint_eq(cla_probe_results_kept(c, asked).ran, sure ? asked : 1u << PROBE_FMA);
        clattn_context_destroy(c);
    }
    for (int way = TAKEN; way < WAYS; way++) {
        keep_made_up(folder, true, way != DOUBTED);
        clattn_context *c =
            harness_open((clattn_context_params){.cache_dir = folder, .measure_again = way == AGAIN});
        if (way == AGAIN) ck_assert_uint_eq(cla_probe_results_kept(c, asked).ran, 0);
        ck_assert_int_eq(clattn_context_engines(c, engines, PROBE_COUNT, &count), CLATTN_OK);
        const clattn_engine e = engines[PROBE_FMA - 1];
        if (cla_probes[PROBE_LANES_4].applies(&c->capabilities)) check_engine(&e, way == TAKEN);
        for (size_t i = 0; i < count && way == AGAIN; i++) ck_assert(!engines[i].kept);
        clattn_context_destroy(c);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// Results of another device, CPU, driver, library or kernel text are not loaded.
enum { NAME, VENDOR, DRIVER, VERSION, PLATFORM, CPU, WIDTH, IDENTITY_PARTS };

static void change(clattn_context *c, int part) {
    clattn_capabilities *of = &c->capabilities;
    char *const texts[] = {of->name, of->vendor, of->driver, of->version, of->platform, c->cpu_model};
    if (part < WIDTH)
        texts[part][0] ^= 1;
    else // the knobs of FMA's probe depend on the width; those of the widths' probes do not
        of->float_vector_width = of->float_vector_width >= 16 ? 8 : 16;
}

START_TEST(answers_of_another) {
    const unsigned asked = 1u << PROBE_FMA | 1u << PROBE_TILES | 1u << PROBE_LANES_4;
    char folder[] = "/tmp/clattn-another-XXXXXX", command[128];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    clattn_context *c = open_context(folder);
    const probe_results found = cla_probe_results(c, asked);
    // On a busy machine an uncertain result is not stored, nor are those that it is compared with.
    const bool sure = !(found.ran & ~found.sure);
    const unsigned proven = found.proven & found.sure & asked;
    clattn_context_destroy(c);
    for (int part = 0; part <= IDENTITY_PARTS; part++) {
        c = open_context(folder);
        if (c->capabilities.is_cpu && part == CPU) ck_assert_msg(c->cpu_model[0], "a CPU without a model");
        if (part < IDENTITY_PARTS) change(c, part);
        const unsigned kept = cla_probe_results_kept(c, asked).proven & asked;
        const unsigned wanted = part < IDENTITY_PARTS ? 0 : sure ? proven : proven & kept;
        ck_assert_msg(kept == wanted, "part %d: kept %#x, not %#x", part, kept, wanted);
        clattn_context_destroy(c);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// The two parts that no context can change.
START_TEST(keys) {
    uint8_t key[4][CACHE_KEY_BYTES];
    const clattn_context *c = harness()->context;
    probe fma = cla_probes[PROBE_FMA];
    for (int i = 0; i < 3; i++) cla_probe_key(c, &fma, i < 2 ? "1.2.3" : "1.2.4", key[i]);
    fma.kernel = KERNEL_PROBE_LOADS;
    cla_probe_key(c, &fma, "1.2.3", key[3]);
    ck_assert_mem_eq(key[0], key[1], CACHE_KEY_BYTES);
    ck_assert_mem_ne(key[0], key[2], CACHE_KEY_BYTES);
    ck_assert_mem_ne(key[0], key[3], CACHE_KEY_BYTES);
}
END_TEST

static int planned_lanes(const clattn_context *c) {
    const plan_input in = cla_planner_linear_input(c);
    return cla_plan_lanes(&in);
}

// Made-up rates, with 16 lanes the fastest.
static void keep_lanes(clattn_context *c) {
    probe_rate rates[PROBE_COUNT] = {{0}};
    for (int id = PROBE_TILES; id <= PROBE_LANES_16; id++)
        rates[id] = (probe_rate){.gflops = (float)(1 << id), .sure = true};
    cla_probe_keep(c, PROBES_LANES, rates);
}

// The vector width that a device reports is used until a probe runs; then the result stays in the
// cache folder. A device that reports none is probed when a call is planned, and the result
// replaces the report.
START_TEST(widths_of_a_device) {
    char folder[] = "/tmp/clattn-widths-XXXXXX", command[128];
    size_t count = 0;
    clattn_engine engine;
    clattn_linear_choice choice;
    const int64_t x[3] = {1, 64, 64}, w[2] = {64, 64};
    const clattn_linear_params p = {.x = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x),
                                    .w = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w),
                                    .out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x),
                                    .projection = CLATTN_PROJECTION_NATIVE};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    clattn_context *c = open_context(folder);
    const int reported = planned_lanes(c);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran & PROBES_LANES, 0);
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran & PROBES_LANES, 0);
    if (!reported || !c->capabilities.is_cpu) goto done;
    clattn_context_destroy(c);

    c = open_context(folder);
    c->capabilities.float_vector_width = 1;
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    ck_assert_str_eq(choice.kernel_name, "linear_lanes");
    ck_assert_uint_eq(cla_probe_results(c, 0).ran & PROBES_LANES, PROBES_LANES);
    ck_assert_int_ge(planned_lanes(c), 4);
    clattn_context_destroy(c);

    // A probe runs for the reported width. Results of another width have another key.
    c = open_context(folder);
    keep_lanes(c);
    clattn_context_destroy(c);

    // Results from the folder, without any measurement here.
    c = open_context(folder);
    ck_assert_int_eq(planned_lanes(c), 16);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran & PROBES_LANES, PROBES_LANES);
    ck_assert_int_eq(clattn_context_engines(c, &engine, 1, &count), CLATTN_OK);
    clattn_context_destroy(c);
    c = harness_open((clattn_context_params){.cache_dir = folder, .no_measurements = true});
    planned_lanes(c);
    ck_assert_uint_eq(cla_probe_results(c, 0).ran, 0);
done:
    clattn_context_destroy(c);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// A process that ends between begin and end of the step with this key.
static void die_in(const char *folder, const uint8_t key[CACHE_KEY_BYTES], int weight) {
    const pid_t child = fork();
    if (child == 0) {
        cache_mark mark;
        cache *c = cla_cache_open(&(cache_params){.dir = folder});
        _exit(c && cla_cache_begin(c, key, weight, false, &mark) ? 0 : 1);
    }
    int status = 1;
    ck_assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static bool begins(cache *c, const uint8_t key[CACHE_KEY_BYTES], bool again) {
    cache_mark mark;
    const bool begun = cla_cache_begin(c, key, CACHE_PLAIN, again, &mark);
    if (begun) cla_cache_end(c, &mark);
    return begun;
}

// One death disables a dangerous step, two disable a plain one. A success clears the mark, and so
// does a new attempt. The mark of a living process has no effect.
START_TEST(marks_of_ended_processes) {
    const uint8_t key[CACHE_KEY_BYTES] = {1}, other[CACHE_KEY_BYTES] = {2};
    char folder[] = "/tmp/clattn-marks-XXXXXX", command[128];
    cache_mark held;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cache *c = cla_cache_open(&(cache_params){.dir = folder});
    ck_assert(cla_cache_begin(c, key, CACHE_DANGEROUS, false, &held));
    ck_assert(!cla_cache_was_fatal(c, key) && begins(c, key, false));
    cla_cache_end(c, &held);
    ck_assert(begins(c, key, false));
    die_in(folder, key, CACHE_PLAIN);
    ck_assert(!cla_cache_was_fatal(c, key) && begins(c, key, false)); // which succeeded
    die_in(folder, key, CACHE_PLAIN);
    die_in(folder, key, CACHE_PLAIN);
    ck_assert(cla_cache_was_fatal(c, key) && !begins(c, key, false));
    ck_assert(!cla_cache_was_fatal(c, other) && begins(c, other, false));
    ck_assert(begins(c, key, true) && begins(c, key, false));
    die_in(folder, key, CACHE_DANGEROUS);
    ck_assert(!begins(c, key, false));
    cla_cache_trim(c, 0);
    ck_assert(!cla_cache_was_fatal(c, key) && begins(c, key, false));
    ck_assert(begins(NULL, key, false));
    cla_cache_close(c);
    snprintf(command, sizeof command, "rmdir %s", folder); // succeeds only if the folder is empty
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static clattn_engine engine_of(clattn_context *c, int id) {
    clattn_engine engines[PROBE_COUNT];
    size_t count = 0;
    ck_assert_int_eq(clattn_context_engines(c, engines, PROBE_COUNT, &count), CLATTN_OK);
    return engines[id - 1];
}

// A probe that ended processes is not run and is reported as died. The others are kept. Measuring
// again runs it.
START_TEST(fatal_probes) {
    char folder[] = "/tmp/clattn-fatal-XXXXXX", command[128];
    uint8_t key[CACHE_KEY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    clattn_context *c = open_context(folder);
    const bool applies = cla_probes[PROBE_TILES].applies(&c->capabilities);
    cla_probe_key(c, &cla_probes[PROBE_TILES], CLATTN_VERSION_STRING, key);
    clattn_context_destroy(c);
    die_in(folder, key, CACHE_DANGEROUS);
    for (int again = 0; again < 2 && applies; again++) {
        c = harness_open((clattn_context_params){.cache_dir = folder, .measure_again = again});
        const probe_results found = cla_probe_results(c, 1u << PROBE_TILES);
        const clattn_engine e = engine_of(c, PROBE_TILES);
        ck_assert(found.ran >> PROBE_TILES & 1u && (found.proven >> PROBE_TILES & 1u) == (unsigned)again);
        ck_assert(e.died == !again && e.works == again && (e.measured > 0) == again);
        ck_assert(!engine_of(c, PROBE_FMA).died);
        clattn_context_destroy(c);
    }
    c = open_context(folder);
    ck_assert(!applies || engine_of(c, PROBE_TILES).works);
    clattn_context_destroy(c);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static void expect_assembly(const char *folder, unsigned assembly, bool surveyed) {
    clattn_features features;
    clattn_context *c = open_context(folder);
    ck_assert_int_eq(clattn_features_get(c, &features), CLATTN_OK);
    ck_assert(features.surveyed == surveyed);
    ck_assert_uint_eq(c->capabilities.assembly, assembly);
    ck_assert_int_eq(strstr(cla_program_device_options(c), "NO_ASSEMBLY") == NULL, assembly != 0);
    clattn_context_destroy(c);
}

// An unknown driver receives no assembly before a survey has tested it, under that driver's name
// and version. An unfinished survey has no effect; one that continues skips what ended it.
START_TEST(surveys) {
    static const char stranger[] = "OpenCL 3.0 Stranger 1.0", newer[] = "OpenCL 3.0 Stranger 1.1";
    const struct layer_control *layer = layer_client();
    char folder[] = "/tmp/clattn-survey-XXXXXX", command[128];
    clattn_context_params params = {.device = harness()->device, .log = harness_log()};
    ck_assert_int_eq(clattn_device_survey(NULL, false), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_device_survey(&params, false), CLATTN_INVALID_ARGUMENT);
    params.cache_dir = "/nothing/that/is/there";
    ck_assert_int_eq(clattn_device_survey(&params, false), CLATTN_INVALID_ARGUMENT);
    const clattn_capabilities *own = clattn_context_capabilities(harness()->context);
    if (!layer || !own->driver_known || !own->is_cpu) return;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    params.cache_dir = folder;
    layer->pretend(CL_PLATFORM_VERSION, stranger, sizeof stranger);
    expect_assembly(folder, 0, false);
    ck_assert_int_eq(clattn_device_survey(&params, false), CLATTN_OK);
    expect_assembly(folder, CLATTN_ASSEMBLY_X86, true);
    clattn_context *c = open_context(folder);
    cla_survey_store(c, false); // begun again
    clattn_context_destroy(c);
    expect_assembly(folder, 0, false);
    uint8_t key[CACHE_KEY_BYTES];
    c = open_context(folder);
    cla_probe_key(c, cla_survey_trial(CLATTN_ASSEMBLY_X86), CLATTN_VERSION_STRING, key);
    clattn_context_destroy(c);
    die_in(folder, key, CACHE_DANGEROUS);
    ck_assert_int_eq(clattn_device_survey(&params, true), CLATTN_OK);
    expect_assembly(folder, 0, true);
    layer->pretend(CL_PLATFORM_VERSION, newer, sizeof newer);
    expect_assembly(folder, 0, false);
    layer->pretend(0, NULL, 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

// A long text keeps its end, where Adreno's drivers name the compiler: one that crashes on
// sub-groups.
START_TEST(long_texts) {
    const struct layer_control *layer = layer_client();
    char text[300];
    if (!layer) return;
    memset(text, 'x', sizeof text);
    snprintf(text + 200, sizeof text - 200, " Compiler E031.37.07.00");
    layer->pretend(CL_DRIVER_VERSION, text, strlen(text) + 1);
    clattn_context *c = open_context(NULL);
    layer->pretend(0, NULL, 0);
    const char *driver = c->capabilities.driver, *end = strstr(driver, "Compiler E031.37.07.00");
    ck_assert_msg(driver[0] == 'x' && end && !end[22] && strstr(driver, "x...x"), "%s", driver);
    ck_assert(cla_defect(DEFECT_OF_SUBGROUPS, &c->capabilities) && !c->capabilities.subgroups);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {answers_are_kept,
                                  answers_of_another,
                                  keys,
                                  widths_of_a_device,
                                  marks_of_ended_processes,
                                  fatal_probes,
                                  long_texts,
                                  surveys,
                                  NULL};
    Suite *suite = suite_create("probe_kept");
    harness_add(suite, "kept", tests);
    return harness_run(suite);
}
