// test_behind.c: kernels with long builds. With compile_limit_ms a call uses a plainer kernel, and
// a later call the better one. On an unknown driver the first call compiles the least text. The
// driver is refusing_driver.c: it holds a build until the test releases it, so no check depends on
// time. POSIX only.
#define _GNU_SOURCE
#include "faults/refusing_driver.h"
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/temporary_folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFILL "attend-f32-b1-h2-n20-d16-causal-lse"
#define SHORT_MS 20    // shorter than any build that the driver holds
#define LONG_MS 600000 // longer than any build

static atomic_int behind, lanes_behind, unfit, errors;
static void hear(void *user, clattn_log_level level, const char *text) {
    (void)user;
    errors += level == CLATTN_LOG_ERROR;
    const bool says = strstr(text, "the build goes on behind it") != NULL;
    behind += says;
    lanes_behind += says && !strncmp(text, "kernel flash_lanes:", 19);
    unfit += !strncmp(text, "unfit: ", 7);
}

static clattn_context *open_context(clattn_context_params params) {
    behind = lanes_behind = unfit = errors = 0;
    driver.hits = driver.builds = driver.all = 0;
    params.context = harness()->opencl;
    params.log = (clattn_log){.fn = hear, .level = CLATTN_LOG_INFO};
    return harness_open_first(params);
}
static clattn_context *open_limited(uint32_t ms) {
    return open_context((clattn_context_params){.compile_limit_ms = ms});
}

static void refuse(const char *kernel, cl_int code) {
    driver.kernel = kernel, driver.at = kernel && code ? BUILD : NO_STEP, driver.code = code;
}

static bool is_recorded; // recorded calls do not run, so results are not compared

static clattn_status run_with(clattn_context *c, const char *name, cl_mem workspace) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    char why[512] = "";
    place.context = c;
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    if (workspace) arrays.params.workspace = workspace;
    const clattn_status status = case_enqueue(c, place.queue, &arrays, NULL);
    harness_finish(place.queue);
    ck_assert_msg(status != CLATTN_OK || is_recorded ||
                      case_holds(data, &arrays, place.queue, why, sizeof why),
                  "%s: %s", name, why);
    case_unbind(&arrays);
    case_free(data);
    return status;
}
static clattn_status run(clattn_context *c, const char *name) {
    return run_with(c, name, NULL);
}

static clattn_attention_params prefill(void) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_AUTO};
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 20, 16);
    p.score.causal = true;
    return p;
}
static clattn_plan plan_of(clattn_context *c) {
    const clattn_attention_params p = prefill();
    clattn_plan plan;
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
    return plan;
}

static uint64_t running(clattn_context *c) {
    clattn_context_stats stats;
    clattn_context_get_stats(c, &stats);
    return stats.builds_running;
}
static uint64_t built(clattn_context *c) {
    clattn_context_stats stats;
    clattn_context_get_stats(c, &stats);
    return stats.programs_built;
}
static void let_go(clattn_context *c) {
    driver_hold(NULL);
    while (running(c) > 0) usleep(1000);
}
static size_t listed(clattn_context *c) {
    size_t count = 0;
    ck_assert_int_eq(clattn_context_unfit(c, NULL, 0, &count), CLATTN_OK);
    return count;
}

// A call, the kernel whose build is held, and the tuned row that selects this kernel (NULL: none).
static const struct way {
    const char *name, *kernel, *rows;
} ways[] = {
    {PREFILL, "flash_lanes", NULL},
    {"attend-f32-b1-h2-n1-nkv40-d16-full", "decode_lanes", NULL},
    {PREFILL, "flash", NULL}, // flash and flash_lanes are held, so the unfused path runs
    {"linear-f32-b1-h2-n40-d16-m32-full-native", "linear_lanes", "linear_lanes :"},
    {"backward-f32-b1-h2-n12-nkv9-d16-full", "backward_lanes", NULL},
    {"layer-f32-b1-h2-n10-d16-m32-causal-native", "layer_few_lanes", NULL},
    {"layer-f32-b1-h2-n40-d16-m32-causal-native", "flash_lanes", "linear_lanes :"},
};

// The call continues while the driver compiles. The next call does not wait. Later calls use the
// kernel once it is built.
START_TEST(calls_go_on) {
    const struct way *w = &ways[_i];
    if (!harness_takes(_i)) return;
    clattn_context *c =
        open_context((clattn_context_params){.compile_limit_ms = SHORT_MS, .tuned_rows = w->rows});
    driver_hold(w->kernel);
    ck_assert_int_eq(run(c, w->name), CLATTN_OK);
    const int lines = behind; // one log line for each held kernel
    ck_assert_msg(driver_held() > 0 && running(c) >= (uint64_t)driver_held(), "%s: not held", w->name);
    ck_assert_int_gt(lines, 0);
    ck_assert_int_eq(run(c, w->name), CLATTN_OK);
    ck_assert_msg(behind == lines, "%s: told again", w->name);
    ck_assert_uint_eq(listed(c), 0);
    let_go(c);
    refuse(w->kernel, 0);
    // a plan may need several kernels, and each run may build the next one
    for (int n = 0; n < 3; n++) {
        driver.builds = 0;
        ck_assert_int_eq(run(c, w->name), CLATTN_OK);
        let_go(c);
    }
    ck_assert_msg(driver.builds == 0 && built(c) > 0, "%s: built again", w->name);
    ck_assert_int_eq(errors, 0);
    refuse(NULL, 0);
    clattn_context_destroy(c);
}
END_TEST

START_TEST(plans_say_why) {
    clattn_context *c = open_limited(SHORT_MS);
    ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
    driver_hold("flash_lanes");
    ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
    const clattn_plan plan = plan_of(c);
    ck_assert_str_eq(plan.kernel_name, "flash");
    ck_assert_msg(strstr(plan.why, "flash_lanes: is still being compiled"), "%s", plan.why);
    let_go(c);
    ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
    ck_assert_msg(!strstr(plan_of(c).why, "compiled"), "%s", plan_of(c).why);
    clattn_context_destroy(c);
}
END_TEST

typedef struct caller {
    pthread_t thread;
    clattn_context *context;
    const char *name;
    clattn_status status;
    atomic_bool done;
} caller;

static void *call_in_thread(void *user) {
    caller *own = user;
    const clattn_attention_params p = prefill();
    own->status = own->name ? run(own->context, own->name) : clattn_attention_prepare(own->context, &p);
    own->done = true;
    return NULL;
}
static void start(caller *own, clattn_context *c, const char *name) {
    *own = (caller){.context = c, .name = name};
    ck_assert_int_eq(pthread_create(&own->thread, NULL, call_in_thread, own), 0);
}
static clattn_status end(caller *own) {
    pthread_join(own->thread, NULL);
    return own->status;
}

// The call has no other kernel, or its kernel has no alternative. It waits for the first build that
// ends.
START_TEST(the_last_is_waited_for) {
    static const char *const names[] = {PREFILL, "attend-f32-b1-h2-n20-d16-causal-ropehalf"};
    static const char *const kernels[] = {"", "rope"};
    caller own;
    for (int n = 0; n < 2; n++) {
        clattn_context *c = open_limited(SHORT_MS);
        driver_hold(kernels[n]);
        start(&own, c, names[n]);
        // flash_lanes, flash, and the first of the unfused path
        while (behind < (n == 0 ? 3 : 1)) usleep(1000);
        usleep(50000);
        ck_assert(!own.done);
        driver_hold(NULL);
        ck_assert_int_eq(end(&own), CLATTN_OK);
        let_go(c);
        ck_assert_int_eq(errors, 0);
        ck_assert_uint_eq(listed(c), 0);
        clattn_context_destroy(c);
    }
}
END_TEST

// A build that fails behind a call is listed once. A failure within the limit is listed as without
// a limit.
START_TEST(builds_fail_behind) {
    for (int n = 0; n < 2; n++) {
        clattn_context *c = open_limited(n == 0 ? SHORT_MS : LONG_MS);
        refuse("flash_lanes", CL_BUILD_PROGRAM_FAILURE);
        if (n == 0) driver_hold("flash_lanes");
        ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
        ck_assert_uint_eq(listed(c), n);
        let_go(c);
        ck_assert_uint_eq(listed(c), 1);
        ck_assert_int_eq(unfit, 1);
        const clattn_plan plan = plan_of(c);
        ck_assert_msg(strstr(plan.why, "-11") && !strcmp(plan.kernel_name, "flash"), "%s", plan.why);
        driver.builds = 0;
        ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
        ck_assert_int_eq(driver.builds, 0);
        ck_assert_int_eq(errors, 0);
        refuse(NULL, 0);
        clattn_context_destroy(c);
    }
    clattn_context *c = open_limited(LONG_MS);
    refuse("", CL_BUILD_PROGRAM_FAILURE);
    ck_assert_int_eq(run(c, PREFILL), CLATTN_BUILD_FAILED);
    ck_assert_uint_eq(listed(c), 0);
    ck_assert_int_eq(unfit, 0);
    refuse(NULL, 0);
    ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
    clattn_context_destroy(c);
}
END_TEST

static void *let_go_later(void *done) {
    usleep(100000);
    ck_assert(!*(atomic_bool *)done);
    driver_hold(NULL);
    return NULL;
}

// A context waits for its builds, whose threads use it.
START_TEST(destroying_waits) {
    atomic_bool done = false;
    pthread_t thread;
    clattn_context *c = open_limited(SHORT_MS);
    driver_hold("flash_lanes");
    ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go_later, &done), 0);
    clattn_context_destroy(c);
    done = true;
    pthread_join(thread, NULL);
    ck_assert_int_eq(driver_held(), 0);
}
END_TEST

START_TEST(threads_meet_it_at_once) {
    enum { THREADS = 6 };
    caller own[THREADS];
    // 0: builds are held; 1: refused within the limit; 2: refused after the limit
    for (int n = 0; n < 3; n++) {
        clattn_context *c = open_limited(n == 1 ? LONG_MS : SHORT_MS);
        refuse("flash_lanes", n > 0 ? CL_BUILD_PROGRAM_FAILURE : 0);
        if (n != 1) driver_hold("flash_lanes");
        for (int t = 0; t < THREADS; t++) start(&own[t], c, NULL);
        for (int t = 0; t < THREADS; t++) ck_assert_int_eq(end(&own[t]), CLATTN_OK);
        ck_assert_int_eq(lanes_behind, n != 1);
        let_go(c);
        ck_assert_uint_eq(listed(c), n > 0);
        ck_assert_int_eq(errors, 0);
        refuse(NULL, 0);
        clattn_context_destroy(c);
    }
}
END_TEST

// A recording keeps the kernels that it was recorded with, and their results.
START_TEST(recorded_steps) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    clattn_recording *r[2];
    char why[512];
    ck_assert(case_parse(PREFILL, &test, why));
    clattn_context *c = place.context = open_limited(SHORT_MS);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    for (int n = 0; n < 2; n++) {
        driver_hold(n == 0 ? "flash_lanes" : NULL);
        if (n == 1) let_go(c);
        ck_assert_int_eq(clattn_recording_begin(c, place.queue, &r[n]), CLATTN_OK);
        ck_assert_int_eq(case_enqueue(c, place.queue, &arrays, NULL), CLATTN_OK);
        ck_assert_int_eq(clattn_recording_end(r[n]), CLATTN_OK);
        ck_assert_int_eq(clattn_recording_fuse(r[n]), CLATTN_OK);
    }
    for (int n = 0; n < 2; n++) {
        ck_assert_int_eq(clattn_recording_enqueue(r[n], place.queue, 0, NULL, NULL), CLATTN_OK);
        harness_finish(place.queue);
        ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s", why);
    }
    for (int n = 0; n < 2; n++) clattn_recording_destroy(r[n]);
    case_unbind(&arrays);
    case_free(data);
    clattn_context_destroy(c);
}
END_TEST

// Launches are not fused if their kernels needed more build time than the limit.
START_TEST(fusing_has_a_limit) {
    static const uint32_t limits[] = {1, LONG_MS};
    const int64_t size[] = {1, 4, 64};
    for (int n = 0; n < 2; n++) {
        clattn_context *c = open_limited(limits[n]);
        clattn_recording *r;
        cl_int code;
        cl_mem x = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, 4 * 64 * sizeof(float), NULL, &code);
        const clattn_tensor t = clattn_tensor_dense(x, CLATTN_TYPE_F32, 3, size);
        const clattn_activation_params p = {.x = t, .out = t, .activation = CLATTN_ACTIVATION_SILU};
        ck_assert_int_eq(clattn_recording_begin(c, harness()->queue, &r), CLATTN_OK);
        for (int twice = 0; twice < 2; twice++)
            ck_assert_int_eq(clattn_activation_enqueue(c, harness()->queue, &p, 0, NULL, NULL), CLATTN_OK);
        ck_assert_int_eq(clattn_recording_end(r), CLATTN_OK);
        ck_assert_int_eq(clattn_recording_fuse(r), CLATTN_OK);
        if (clattn_context_capabilities(c)->is_cpu)
            ck_assert_uint_eq(clattn_recording_launches(r), n == 0 ? 2 : 1);
        clattn_recording_destroy(r);
        clReleaseMemObject(x);
        clattn_context_destroy(c);
    }
}
END_TEST

// A workspace that was right for the kernel which is late.
START_TEST(workspaces_stay_large_enough) {
    cl_int code;
    cl_mem few = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, 16, NULL, &code);
    clattn_context *c = open_limited(SHORT_MS);
    driver_hold("flash");
    for (int n = 0; n < 2; n++) ck_assert_int_eq(run_with(c, PREFILL, few), CLATTN_OK);
    let_go(c);
    ck_assert_int_eq(run_with(c, PREFILL, few), CLATTN_OK);
    clReleaseMemObject(few);
    clattn_context_destroy(c);
}
END_TEST

// The first call on a driver that is new, and what it does not build.
START_TEST(the_least_text_comes_first) {
    static const char *const names[] = {PREFILL, "attend-f32-b1-h2-n1-nkv40-d16-full",
                                        "linear-f32-b1-h2-n40-d16-m32-full-native",
                                        "layer-f32-b1-h2-n10-d16-m32-causal-native"};
    static const char *const kernels[] = {"flash_", "decode_", "linear_few_lanes", "layer_few_lanes"};
    driver.stranger = true;
    for (int n = 0; n < 4; n++) {
        clattn_context *c = open_context((clattn_context_params){.device = NULL});
        ck_assert(!clattn_context_capabilities(c)->driver_known);
        refuse(kernels[n], 0);
        driver.builds = 0;
        ck_assert_int_eq(run(c, names[n]), CLATTN_OK);
        ck_assert_msg(driver.builds == 0, "%s: %d builds of %s", names[n], driver.builds, kernels[n]);
        ck_assert_int_eq(run(c, names[n]), CLATTN_OK);
        ck_assert_msg(driver.builds > 0, "%s: %s comes never", names[n], kernels[n]);
        ck_assert_uint_eq(listed(c), 0);
        ck_assert_int_eq(unfit + errors, 0);
        refuse(NULL, 0);
        clattn_context_destroy(c);
    }
    driver.stranger = false;
}
END_TEST

// Contexts whose first call does not compile the least text first. The driver is known, a prepare
// function came first, there are tuned rows or fixed plans, or an earlier context used the same
// cache folder.
START_TEST(who_has_no_first_call) {
    const clattn_attention_params p = prefill();
    clattn_context_params kinds[] = {{.device = NULL},
                                     {.no_measurements = true},
                                     {.tuned_rows = "linear_rows :"},
                                     {.cache_dir = in_folder("first")}};
    clattn_context *c = open_context(kinds[0]);
    ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
    clattn_context_destroy(c);
    driver.stranger = true;
    c = open_context(kinds[0]);
    clattn_plan plan = plan_of(c);
    ck_assert_str_eq(plan.kernel_name, "flash");
    ck_assert_msg(strstr(plan.why, "this driver is new"), "%s", plan.why);
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_OK);
    ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
    clattn_context_destroy(c);
    for (int n = 1; n < 3; n++) {
        c = open_context(kinds[n]);
        ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
        clattn_context_destroy(c);
    }
    for (int n = 0; n < 2; n++) {
        c = open_context(kinds[3]);
        ck_assert_str_eq(plan_of(c).kernel_name, n == 0 ? "flash" : "flash_lanes");
        if (n == 0) ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
        ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
        clattn_context_destroy(c);
    }
    clattn_recording *r;
    c = open_context(kinds[0]);
    ck_assert_int_eq(clattn_recording_begin(c, harness()->queue, &r), CLATTN_OK);
    is_recorded = true;
    refuse("flash_lanes", 0);
    driver.builds = 0;
    ck_assert_int_eq(run(c, PREFILL), CLATTN_OK);
    ck_assert_int_gt(driver.builds, 0);
    is_recorded = false;
    refuse(NULL, 0);
    clattn_recording_destroy(r);
    clattn_context_destroy(c);
    driver.stranger = false;
}
END_TEST

int main(void) {
    Suite *suite = suite_create("behind");
    tcase_add_loop_test(harness_add(suite, "calls", (const TTest *const[]){NULL}), calls_go_on, 0,
                        (int)(sizeof ways / sizeof ways[0]));
    harness_add(suite, "ends",
                (const TTest *const[]){plans_say_why, the_last_is_waited_for, builds_fail_behind,
                                       destroying_waits, threads_meet_it_at_once, recorded_steps,
                                       fusing_has_a_limit, workspaces_stay_large_enough, NULL});
    TCase *first = harness_add(
        suite, "first", (const TTest *const[]){the_least_text_comes_first, who_has_no_first_call, NULL});
    tcase_add_unchecked_fixture(first, enter, leave);
    return harness_run(suite);
}
