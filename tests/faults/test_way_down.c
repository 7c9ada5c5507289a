// test_way_down.c: a driver refuses a kernel when it is built, created, given an argument or
// launched. The call must fall back to another kernel. The log and the plan name the refused
// kernel, and the next process does not build it. The driver is refusing_driver.c. POSIX only.
#define _GNU_SOURCE
#include "faults/refusing_driver.h"
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/small_calls.h"
#include "support/temporary_folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int lines, errors;
static atomic_int told; // number of log lines about long builds
static char line[1024];
static void hear(void *user, clattn_log_level level, const char *text) {
    (void)user;
    errors += level == CLATTN_LOG_ERROR;
    told += strstr(text, "kernel flash_lanes: the driver's compiler has worked for 10 seconds") != NULL;
    if (strncmp(text, "unfit: ", 7)) return;
    lines++;
    snprintf(line, sizeof line, "%s", text);
}

static clattn_context *open_context(const char *rows, const char *cache) {
    lines = errors = 0;
    driver.hits = driver.builds = driver.all = 0;
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .tuned_rows = rows,
                                                .cache_dir = cache,
                                                .log = {.fn = hear, .level = CLATTN_LOG_INFO}});
}

static void refuse(const char *kernel, step at, cl_int code) {
    driver.kernel = kernel, driver.at = at, driver.code = code;
    driver.spared = 0;
    driver.most = 0;
}

static clattn_status run(clattn_context *c, const char *name, char why[512]) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    place.context = c;
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    clattn_status status = case_enqueue(c, place.queue, &arrays, NULL);
    why[0] = '\0';
    harness_finish(place.queue);
    if (status == CLATTN_OK && !case_holds(data, &arrays, place.queue, why, 512))
        status = CLATTN_STATUS_COUNT;
    case_unbind(&arrays);
    case_free(data);
    return status;
}

static size_t listed(clattn_context *c, clattn_unfit *first) {
    clattn_unfit found[16];
    size_t count = 0;
    memset(found, 0, sizeof found);
    ck_assert_int_eq(clattn_context_unfit(c, found, 16, &count), CLATTN_OK);
    if (first) *first = found[0];
    return count;
}

static const cl_int codes[] = {CL_OUT_OF_RESOURCES,        CL_OUT_OF_HOST_MEMORY,
                               CL_BUILD_PROGRAM_FAILURE,   CL_INVALID_PROGRAM_EXECUTABLE,
                               CL_INVALID_KERNEL,          CL_INVALID_KERNEL_ARGS,
                               CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE,
                               CL_INVALID_BUFFER_SIZE,     -9999};
#define CODES ((int)(sizeof codes / sizeof codes[0]))

// A case, and the kernel that it uses on a CPU.
static const struct way {
    const char *name, *kernel, *rows;
} ways[] = {
    {"attend-f32-b1-h2-n20-d16-causal-lse", "flash_lanes", NULL},
    {"attend-f32-b1-h2-n1-nkv40-d16-full", "decode_lanes", NULL},
    {"linear-f32-b1-h2-n40-d16-m32-full-native", "linear_lanes", "linear_lanes :"},
    {"linear-f32-b1-h2-n2-d16-m32-full-native", "linear_few_lanes", NULL},
    {"backward-f32-b1-h2-n12-nkv9-d16-full", "backward_lanes", NULL},
    {"layer-f32-b1-h2-n40-d16-m32-causal-native", "flash_lanes", "linear_lanes :"},
    {"layer-f32-b1-h2-n40-d16-m32-causal-native", "linear_lanes", "linear_lanes :"},
    {"layer-f32-b1-h2-n10-d16-m32-causal-native", "layer_few_lanes", NULL},
};
#define WAYS ((int)(sizeof ways / sizeof ways[0]))

// True for NVIDIA's code for a bad address if something has already run: the device is then lost.
static bool is_lost(const struct way *w, cl_int code) {
    return code == -9999 && !strncmp(w->name, "backward", 8); // the forward call has already run
}

static bool is_memory(step at, cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || (code == CL_OUT_OF_HOST_MEMORY && at >= ARGUMENT);
}

// The call falls back, the log has the reason once, the context lists the kernel, and the next call
// does not try it again.
static void go_on(const struct way *w, step at, cl_int code) {
    char why[512], what[128];
    clattn_unfit of;
    snprintf(what, sizeof what, "%s: %s of %s with %d", w->name, step_names[at], w->kernel, (int)code);
    refuse(w->kernel, at, code);
    clattn_context *c = open_context(w->rows, NULL);
    const clattn_status first = run(c, w->name, why);
    ck_assert_msg(driver.hits > 0, "%s: was not asked", what);
    ck_assert_msg(first == CLATTN_OK, "%s: %s %s", what, clattn_status_name(first), why);
    const size_t count = listed(c, &of);
    ck_assert_msg(count >= 1 && lines == (int)count, "%s: %zu listed, %d lines", what, count, lines);
    ck_assert_msg(errors == 0, "%s: %d errors in the log", what, errors);
    ck_assert_str_eq(of.kernel, w->kernel);
    ck_assert_str_eq(of.step, step_names[at]);
    ck_assert_int_eq(of.code, code);
    ck_assert_str_eq(of.line, at == BUILD ? LINE : "");
    ck_assert(!of.kept && strstr(of.options, "-D"));
    ck_assert_msg(strstr(line, step_names[at]) && (at != BUILD || strstr(line, LINE)), "%s: %s", what, line);
    driver.hits = 0;
    const clattn_status second = run(c, w->name, why);
    ck_assert_msg(second == CLATTN_OK && driver.hits == 0 && lines == (int)count, "%s: again: %s, %d tries",
                  what, clattn_status_name(second), driver.hits);
    refuse(NULL, NO_STEP, 0);
    clattn_context_destroy(c);
}

// Running out of memory is not blamed on a kernel.
static void keep_status(const struct way *w, step at, cl_int code) {
    char why[512];
    refuse(w->kernel, at, code);
    clattn_context *c = open_context(w->rows, NULL);
    ck_assert_int_eq(run(c, w->name, why), CLATTN_OUT_OF_MEMORY);
    ck_assert_int_eq(driver.hits, 1);
    ck_assert_uint_eq(listed(c, NULL), 0);
    refuse(NULL, NO_STEP, 0);
    ck_assert_int_eq(run(c, w->name, why), CLATTN_OK);
    clattn_context_destroy(c);
}

// All ways run each step with each code. In a shortened suite two ways share each combination.
START_TEST(calls_go_on) {
    const struct way *w = &ways[_i];
    int turn = 0;
    for (step at = BUILD; at < STEPS; at++)
        for (int n = 0; n < CODES; n++) {
            if (harness_every() > 1 && (turn++ + _i) % WAYS > 1) continue;
            if (is_memory(at, codes[n]))
                keep_status(w, at, codes[n]);
            else if (!is_lost(w, codes[n]))
                go_on(w, at, codes[n]);
        }
    keep_status(w, (step)(BUILD + _i % 4), CL_MEM_OBJECT_ALLOCATION_FAILURE);
}
END_TEST

#define PREFILL "attend-f32-b1-h2-n20-d16-causal-lse"
#define PREFILL_UNFUSED "attend-f32-b1-h2-n20-d16-causal-unfused"

static clattn_plan plan_of(clattn_context *c) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_AUTO};
    clattn_plan plan;
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 20, 16);
    p.score.causal = true;
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
    return plan;
}

// If all kernels are refused, the call fails with the status of the portable kernel, logs it once,
// and blames no kernel.
START_TEST(the_plainest_fails) {
    static const clattn_status want[] = {CLATTN_BUILD_FAILED, CLATTN_OUT_OF_MEMORY, CLATTN_DRIVER};
    static const cl_int with[] = {CL_BUILD_PROGRAM_FAILURE, CL_OUT_OF_RESOURCES, CL_INVALID_KERNEL};
    char why[512];
    for (int n = 0; n < 3; n++) {
        const step at = n == 0 ? BUILD : n == 1 ? LAUNCH : CREATE;
        refuse("", at, with[n]);
        clattn_context *c = open_context(NULL, NULL);
        ck_assert_int_eq(run(c, PREFILL, why), want[n]);
        ck_assert_uint_eq(listed(c, NULL), 0);
        ck_assert_int_eq(lines, 0);
        ck_assert_int_eq(errors, at == BUILD ? 2 : 1); // one more line for the compiler's message
        refuse(NULL, NO_STEP, 0);
        ck_assert_int_eq(run(c, PREFILL, why), CLATTN_OK);
        clattn_context_destroy(c);
    }
}
END_TEST

// If a tuned row or the caller forces a kernel that the driver refuses, the plan says so.
START_TEST(plans_say_why) {
    char why[512];
    refuse("flash_lanes", BUILD, CL_BUILD_PROGRAM_FAILURE);
    clattn_context *c = open_context("flash_lanes :", NULL);
    ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
    ck_assert_int_eq(run(c, "attend-f32-b1-h2-n20-d16-causal-flash", why), CLATTN_OK);
    clattn_plan plan = plan_of(c);
    ck_assert_str_eq(plan.kernel_name, "flash");
    ck_assert_msg(strstr(plan.why, "flash_lanes") && strstr(plan.why, "-11"), "%s", plan.why);
    clattn_context_destroy(c);
    driver.kernel = "flash";
    c = open_context("flash_lanes :", NULL);
    ck_assert_int_eq(run(c, "attend-f32-b1-h2-n20-d16-causal-flash", why), CLATTN_OK);
    plan = plan_of(c);
    ck_assert_int_eq(plan.kernel, CLATTN_KERNEL_UNFUSED);
    ck_assert_msg(strstr(plan.why, "flash_lanes") && strstr(plan.why, "-11"), "%s", plan.why);
    refuse(NULL, NO_STEP, 0);
    clattn_context_destroy(c);
}
END_TEST

static clattn_context *open_again(const char *cache, bool measure_again) {
    driver.hits = driver.builds = lines = errors = 0;
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .cache_dir = cache,
                                                .measure_again = measure_again,
                                                .clblast_path = "/nowhere",
                                                .log = {.fn = hear, .level = CLATTN_LOG_INFO}});
}

// The next process does not build the refused kernel, until a measurement. A failed launch is tried
// again.
START_TEST(builds_are_kept) {
    char why[512];
    clattn_unfit of;
    for (int n = 0; n < 3; n++) { // measure_again; clattn_context_measure; a launch
        const step at = n < 2 ? BUILD : LAUNCH;
        char *cache = in_folder(n == 0 ? "again" : n == 1 ? "measure" : "launch");
        refuse("flash_lanes", at, CL_INVALID_KERNEL);
        clattn_context *c = open_again(cache, false);
        ck_assert_int_eq(run(c, PREFILL, why), CLATTN_OK);
        ck_assert_uint_eq(listed(c, &of), 1);
        ck_assert_int_eq(of.kept, at == BUILD);
        clattn_context_destroy(c);
        c = open_again(cache, false);
        ck_assert_uint_eq(listed(c, &of), at == BUILD);
        ck_assert_str_eq(plan_of(c).kernel_name, at == BUILD ? "flash" : "flash_lanes");
        ck_assert_int_eq(run(c, PREFILL, why), CLATTN_OK);
        ck_assert_int_eq(driver.hits, at == LAUNCH);
        if (at == BUILD) {
            ck_assert_int_eq(driver.builds, 0);
            ck_assert_int_eq(of.code, CL_INVALID_KERNEL);
            ck_assert_str_eq(of.line, LINE);
            ck_assert(of.kept && strstr(of.options, "-DHEAD_DIM=16"));
        }
        refuse(NULL, NO_STEP, 0);
        if (n == 1) ck_assert_int_eq(clattn_context_measure(c), CLATTN_OK);
        if (n == 1) ck_assert_uint_eq(listed(c, NULL), 0);
        clattn_context_destroy(c);
        if (n == 2) continue;
        c = open_again(cache, n == 0);
        ck_assert_uint_eq(listed(c, NULL), 0);
        ck_assert_str_eq(plan_of(c).kernel_name, "flash_lanes");
        clattn_context_destroy(c);
    }
}
END_TEST

// A device that is no CPU refuses work-groups above a size. Every call must succeed with smaller
// work-groups.
static const char *const on_gpus[] = {
    "attend-f32-b1-h4-hkv2-n20-d16-causal-lse",      "attend-f32-b1-h4-hkv2-n1-nkv40-d16-full",
    "attend-f32-b1-h2-n20-d16-causal-unfused",       "attend-f32-b1-h2-n3-nkv20-d16-causal-append3",
    "attend-f32-b1-h2-n20-d16-causal-ropehalf",      "linear-f32-b1-h2-n40-d16-m32-full-native",
    "backward-f32-b1-h2-n12-nkv9-d16-full",          "layer-f32-b1-h2-n10-d16-m32-causal-native",
    "attend-f32-b1-h2-n20-d16-causal-flash-kvi8-lse"};

START_TEST(groups_become_smaller) {
    static const cl_int by[] = {CL_INVALID_WORK_GROUP_SIZE, CL_OUT_OF_RESOURCES};
    static const size_t most[] = {32, 1};
    char why[512];
    driver.slow_device = true;
    for (int n = 0; n < 2; n++) {
        refuse("", LAUNCH, by[(n + _i) % 2]);
        driver.most = most[n];
        clattn_context *c = open_context(NULL, NULL);
        const clattn_status status = run(c, on_gpus[_i], why);
        ck_assert_msg(status == CLATTN_OK, "%s: %s %s", on_gpus[_i], clattn_status_name(status), why);
        ck_assert_msg(driver.hits > 0 && driver.hits < 40, "%s: %d refusals", on_gpus[_i], driver.hits);
        driver.hits = 0;
        ck_assert_int_eq(run(c, on_gpus[_i], why), CLATTN_OK);
        ck_assert_int_eq(driver.hits, 0);
        clattn_context_destroy(c);
    }
    refuse(NULL, NO_STEP, 0);
    driver.slow_device = false;
}
END_TEST

// If a later launch of a call fails, the whole call runs again, on each queue.
START_TEST(calls_run_again_whole) {
    static const char *const last[] = {"softmax", "values"};
    const cl_command_queue queues[] = {harness()->queue, harness()->out_of_order};
    struct place *place = harness_place();
    char why[512];
    for (int q = 0; q < 2 && queues[q]; q++)
        for (int n = 0; n < 2; n++) {
            place->queue = queues[q];
            refuse(last[n], LAUNCH, CL_INVALID_WORK_GROUP_SIZE);
            driver.most = 1, driver.slow_device = true;
            clattn_context *c = open_context(NULL, NULL);
            const clattn_status status = run(c, PREFILL_UNFUSED, why);
            ck_assert_msg(status == CLATTN_OK, "%s: %s %s", last[n], clattn_status_name(status), why);
            ck_assert_int_gt(driver.hits, 0);
            refuse(NULL, NO_STEP, 0);
            driver.slow_device = false;
            clattn_context_destroy(c);
        }
    place->queue = harness()->queue;
}
END_TEST

// These kernels have only one form, so the call fails, and the next call works.
START_TEST(one_form) {
    static const char *const kernels[] = {"append", "rope"};
    static const char *const names[] = {"attend-f32-b1-h2-n3-nkv20-d16-causal-append3",
                                        "attend-f32-b1-h2-n20-d16-causal-ropehalf"};
    static const clattn_status want[] = {CLATTN_BUILD_FAILED, CLATTN_DRIVER, CLATTN_DRIVER, CLATTN_DRIVER};
    char why[512];
    for (int n = 0; n < 2; n++)
        for (step at = BUILD; at < STEPS; at++) {
            refuse(kernels[n], at, CL_INVALID_KERNEL);
            clattn_context *c = open_context(NULL, NULL);
            ck_assert_int_eq(run(c, names[n], why), want[at - BUILD]);
            ck_assert_uint_eq(listed(c, NULL), 0);
            refuse(NULL, NO_STEP, 0);
            ck_assert_int_eq(run(c, names[n], why), CLATTN_OK);
            clattn_context_destroy(c);
        }
}
END_TEST

// The driver refuses one of several kernels, and the call works without this kernel.
START_TEST(parts_are_left_out) {
    static const struct way parts[] = {
        {"attend-f32-b1-h2-n1-nkv2000-d16-full", "combine", NULL},
        {"attend-bf16-b1-h2-n40-d32-causal-lse", "matrix_pack", "flash_matrix :"},
    };
    char why[512];
    clattn_unfit of;
    for (int n = 0; n < 2; n++)
        for (step at = BUILD; at < STEPS; at++) {
            refuse(parts[n].kernel, at, CL_INVALID_KERNEL);
            clattn_context *c = open_context(parts[n].rows, NULL);
            const clattn_status status = run(c, parts[n].name, why);
            ck_assert_msg(status == CLATTN_OK, "%s at %s: %s %s", parts[n].kernel, step_names[at],
                          clattn_status_name(status), why);
            ck_assert_int_gt(driver.hits, 0);
            ck_assert_uint_eq(listed(c, &of), 1);
            ck_assert_str_eq(of.kernel, parts[n].kernel);
            driver.hits = 0;
            ck_assert_int_eq(run(c, parts[n].name, why), CLATTN_OK);
            ck_assert_int_eq(driver.hits, 0);
            refuse(NULL, NO_STEP, 0);
            clattn_context_destroy(c);
        }
}
END_TEST

// Every other call fails with a status and a message that names the kernel, if the driver refuses
// each of its kernels. No kernel is recorded.
START_TEST(small_calls_fail_plainly) {
    struct place place = *harness_place();
    struct small_call call;
    char text[1024];
    clattn_context *c = place.context = open_context(NULL, NULL);
    small_open(&call, _i, &place);
    for (step at = BUILD; at < STEPS; at++) {
        refuse("", at, CL_INVALID_KERNEL);
        const clattn_status status = small_enqueue(&call, c, place.queue, 0, NULL, NULL);
        clattn_context_last_error(c, text, sizeof text);
        harness_finish(place.queue);
        ck_assert_msg(status == (at == BUILD ? CLATTN_BUILD_FAILED : CLATTN_DRIVER), "%s: %s: %s",
                      small_names[_i], step_names[at], clattn_status_name(status));
        ck_assert_msg(strstr(text, "kernel ") && (at == BUILD || strstr(text, step_names[at])), "%s: %s",
                      small_names[_i], text);
        ck_assert_uint_eq(listed(c, NULL), 0);
    }
    refuse(NULL, NO_STEP, 0);
    ck_assert_int_eq(small_enqueue(&call, c, place.queue, 0, NULL, NULL), CLATTN_OK);
    harness_finish(place.queue);
    small_close(&call);
    clattn_context_destroy(c);
}
END_TEST

// During recording the call falls back to another kernel. A failed replay returns its status, and
// the next recording avoids the kernel.
static clattn_status record(clattn_context *c, struct case_arrays *arrays, clattn_recording **r) {
    ck_assert_int_eq(clattn_recording_begin(c, harness()->queue, r), CLATTN_OK);
    const clattn_status status = case_enqueue(c, harness()->queue, arrays, NULL);
    ck_assert_int_eq(clattn_recording_end(*r), CLATTN_OK);
    return status;
}

START_TEST(recorded_steps) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    clattn_recording *r;
    clattn_unfit of;
    char why[512];
    ck_assert(case_parse(PREFILL, &test, why));
    for (int n = 0; n < 2; n++) {
        clattn_context *c = place.context = open_context(NULL, NULL);
        struct case_data *data = case_make(&test);
        case_bind(data, &place, &arrays);
        refuse(n == 0 ? "flash_lanes" : NULL, ARGUMENT, CL_INVALID_KERNEL_ARGS);
        ck_assert_int_eq(record(c, &arrays, &r), CLATTN_OK);
        ck_assert_uint_eq(listed(c, NULL), n == 0);
        refuse(n == 1 ? "flash_lanes" : NULL, LAUNCH, CL_OUT_OF_RESOURCES);
        const clattn_status replayed = clattn_recording_enqueue(r, place.queue, 0, NULL, NULL);
        ck_assert_int_eq(replayed, n == 0 ? CLATTN_OK : CLATTN_OUT_OF_MEMORY);
        ck_assert_uint_eq(listed(c, &of), 1);
        ck_assert_str_eq(of.kernel, "flash_lanes");
        clattn_recording_destroy(r);
        if (n == 1) {
            ck_assert_int_eq(record(c, &arrays, &r), CLATTN_OK);
            ck_assert_int_eq(clattn_recording_enqueue(r, place.queue, 0, NULL, NULL), CLATTN_OK);
            harness_finish(place.queue);
            clattn_recording_destroy(r);
        }
        harness_finish(place.queue);
        ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s", why);
        refuse(NULL, NO_STEP, 0);
        case_unbind(&arrays);
        case_free(data);
        clattn_context_destroy(c);
    }
}
END_TEST

// A planned workspace stays large enough if the driver then refuses the planned kernel.
START_TEST(workspaces_stay_large_enough) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    cl_int code;
    char why[512];
    cl_mem few = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, 16, NULL, &code);
    ck_assert(case_parse(PREFILL, &test, why));
    clattn_context *c = place.context = open_context(NULL, NULL);
    struct case_data *data = case_make(&test);
    case_bind(data, &place, &arrays);
    arrays.params.workspace = few;
    refuse("flash", BUILD, CL_BUILD_PROGRAM_FAILURE);
    for (int n = 0; n < 2; n++) {
        ck_assert_int_eq(clattn_attention_enqueue(c, place.queue, &arrays.params, 0, NULL, NULL), CLATTN_OK);
        harness_finish(place.queue);
        ck_assert_msg(case_holds(data, &arrays, place.queue, why, sizeof why), "%s", why);
    }
    refuse(NULL, NO_STEP, 0);
    case_unbind(&arrays);
    case_free(data);
    clReleaseMemObject(few);
    clattn_context_destroy(c);
}
END_TEST

// A caller's expression that no kernel can compile is the caller's error, with its line. If only
// the lanes kernel cannot compile an expression, other expressions still use that kernel.
static clattn_status prepare_mod(clattn_context *c, const char *text) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_AUTO};
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 20, 16);
    p.score.score_mod = text;
    return clattn_attention_prepare(c, &p);
}

START_TEST(texts_of_the_caller) {
    char text[512];
    lines = errors = 0;
    clattn_context *c = harness_open((clattn_context_params){
        .context = harness()->opencl, .mods_unchecked = true, .log = {.fn = hear, .level = CLATTN_LOG_INFO}});
    ck_assert_int_eq(prepare_mod(c, "score + nothing_of_that_name"), CLATTN_BUILD_FAILED);
    clattn_context_last_error(c, text, sizeof text);
    ck_assert_msg(strstr(text, "score_mod:1:"), "%s", text);
    ck_assert_uint_eq(listed(c, NULL), 0);
    ck_assert_int_eq(lines, 0);
    refuse("flash_lanes", BUILD, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_int_eq(prepare_mod(c, "score * 0.5f"), CLATTN_OK);
    ck_assert_uint_eq(listed(c, NULL), 1);
    driver.hits = 0;
    ck_assert_int_eq(prepare_mod(c, "score * 0.5f"), CLATTN_OK);
    ck_assert_int_eq(driver.hits, 0);
    ck_assert_int_eq(prepare_mod(c, "score * 0.25f"), CLATTN_OK);
    ck_assert_int_gt(driver.hits, 0);
    refuse(NULL, NO_STEP, 0);
    clattn_context_destroy(c);
}
END_TEST

// The log reports a build while it lasts long, and does not report short builds.
START_TEST(long_builds_are_told) {
    char why[512];
    for (int n = 0; n < 2; n++) {
        told = 0;
        driver.slow_build = n == 1;
        clattn_context *c = open_context("flash_lanes :", NULL);
        ck_assert_int_eq(run(c, PREFILL, why), CLATTN_OK);
        driver.slow_build = false;
        ck_assert_int_eq(told, n);
        clattn_context_destroy(c);
    }
}
END_TEST

static void *prepare_thread(void *context) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_AUTO};
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 20, 16);
    return (void *)(intptr_t)clattn_attention_prepare(context, &p);
}

START_TEST(threads_meet_it_at_once) {
    enum { THREADS = 6 };
    pthread_t thread[THREADS];
    refuse("flash_lanes", BUILD, CL_BUILD_PROGRAM_FAILURE);
    clattn_context *c = open_context(NULL, NULL);
    for (int n = 0; n < THREADS; n++)
        ck_assert_int_eq(pthread_create(&thread[n], NULL, prepare_thread, c), 0);
    for (int n = 0; n < THREADS; n++) {
        void *status;
        pthread_join(thread[n], &status);
        ck_assert_int_eq((int)(intptr_t)status, CLATTN_OK);
    }
    ck_assert_uint_eq(listed(c, NULL), 1);
    refuse(NULL, NO_STEP, 0);
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("way_down");
    TCase *group = harness_add(suite, "calls", (const TTest *const[]){NULL});
    tcase_add_loop_test(group, calls_go_on, 0, WAYS);
    harness_add(suite, "ends",
                (const TTest *const[]){the_plainest_fails, plans_say_why, one_form, parts_are_left_out,
                                       recorded_steps, workspaces_stay_large_enough, texts_of_the_caller,
                                       long_builds_are_told, threads_meet_it_at_once, calls_run_again_whole,
                                       NULL});
    tcase_add_loop_test(harness_add(suite, "groups", (const TTest *const[]){NULL}), groups_become_smaller, 0,
                        (int)(sizeof on_gpus / sizeof on_gpus[0]));
    harness_add_loop(harness_add(suite, "small", (const TTest *const[]){NULL}), small_calls_fail_plainly,
                     SMALL_CALLS);
    TCase *kept = harness_add(suite, "kept", (const TTest *const[]){builds_are_kept, NULL});
    tcase_add_unchecked_fixture(kept, enter, leave);
    return harness_run(suite);
}
