// test_fallback.c: late failures: a compiled kernel that allows fewer work-items than its device,
// CLBlast that fails during a call, and a machine too busy for measurements. The program's own
// OpenCL functions replace the loader's. POSIX only.
//
// Environment:
//   CLATTN_TEST_NO_CLBLAST  1: the library has no CLBlast; its failures are skipped
#define _GNU_SOURCE
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/next_function.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    size_t allowed;      // work-items of a group; 0: the driver's number
    cl_int clblast_code; // result of every launch of a GEMM kernel
    int spared;          // the first `spared` launches succeed
    bool busy;           // every other pair of clFinish needs a second of the clock below
    int skew_s;
    bool slow_launch;   // wait_in_launch
    bool greedy;        // every kernel needs more local memory than the device has
    int refused, gemms; // launches that this driver refused, and launches of GEMM kernels
    int finishes;
} driver;

CL_API_ENTRY cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                         cl_kernel_work_group_info what, size_t size,
                                                         void *value, size_t *size_ret) {
    cl_int (*real)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
    *(void **)&real = next("clGetKernelWorkGroupInfo");
    const cl_int code = real(kernel, device, what, size, value, size_ret);
    if (code == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && driver.allowed && value &&
        *(size_t *)value > driver.allowed)
        *(size_t *)value = driver.allowed;
    if (code == CL_SUCCESS && what == CL_KERNEL_LOCAL_MEM_SIZE && driver.greedy && value)
        *(cl_ulong *)value = (cl_ulong)1 << 40;
    return code;
}

static bool is_gemm(cl_kernel kernel) {
    char name[128] = "";
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    return strncmp(name, "Xgemm", 5) == 0;
}

// A driver that compiles at a kernel's first launch. The first thread stops here until another
// thread has passed. If the library held a lock, the test would never end.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int inside;
    bool passed, timed_out;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void wait_in_launch(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    pthread_mutex_lock(&slow.lock);
    slow.passed = slow.passed || slow.inside > 0;
    slow.inside++;
    pthread_cond_broadcast(&slow.changed);
    while (!slow.passed && !slow.timed_out)
        slow.timed_out = pthread_cond_timedwait(&slow.changed, &slow.lock, &end) != 0;
    pthread_mutex_unlock(&slow.lock);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                       const size_t *offset, const size_t *global,
                                                       const size_t *local, cl_uint count,
                                                       const cl_event *list, cl_event *event) {
    cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                   cl_uint, const cl_event *, cl_event *);
    *(void **)&real = next("clEnqueueNDRangeKernel");
    size_t group = 1;
    for (cl_uint i = 0; local && i < dims; i++) group *= local[i];
    if (driver.allowed && group > driver.allowed) {
        driver.refused++;
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    if (driver.slow_launch) wait_in_launch();
    if (driver.clblast_code && is_gemm(kernel) && driver.spared-- <= 0) {
        driver.gemms++;
        return driver.clblast_code;
    }
    return real(queue, kernel, dims, offset, global, local, count, list, event);
}

CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue) {
    cl_int (*real)(cl_command_queue);
    *(void **)&real = next("clFinish");
    // first, fourth, fifth, eighth, ...
    if (driver.busy && driver.finishes++ % 4 % 3 == 0) driver.skew_s++;
    return real(queue);
}

static int cleared; // CLBlast's cache

int CLBlastClearCache(void);
int CLBlastClearCache(void) {
    int (*real)(void);
    *(void **)&real = next("CLBlastClearCache");
    cleared++;
    return real();
}

// The library's clock. With it, no test has to wait.
int clock_gettime(clockid_t clock, struct timespec *now) {
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += driver.skew_s;
    return result;
}

static int measurements, unsure, refusals;
static void count_lines(void *user, clattn_log_level level, const char *text) {
    (void)user, (void)level;
    // a probe may be unsure because of other work on the machine
    const char *projection = strstr(text, "measured:");
    measurements += projection != NULL;
    unsure += projection && strstr(projection, "not sure");
    refusals += strstr(text, "-2046") != NULL;
}

static clattn_context *open_context(const char *rows, const char *cache) {
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .tuned_rows = rows,
                                                .cache_dir = cache,
                                                .log = {.fn = count_lines, .level = CLATTN_LOG_INFO}});
}

// Run the case on context c, and compare with the reference.
static void assert_case(clattn_context *c, const char *name) {
    struct test_case test;
    struct place place = *harness_place();
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    place.context = c;
    struct case_result got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    ck_assert_msg(good, "%s: %s", name, why);
}

static clattn_plan plan_of(clattn_context *c) {
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_FLASH};
    clattn_plan plan;
    p.q = p.out = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 40, 32);
    p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 50, 32);
    ck_assert_int_eq(clattn_attention_plan(c, &p, &plan), CLATTN_OK);
    return plan;
}

// Tuned rows of the portable kernel, whose groups have 128 work-items if the device allows it.
START_TEST(a_smaller_tile_is_taken) {
    static const size_t limits[] = {100, 64, 20, 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        clattn_context *c = open_context("flash :", NULL);
        ck_assert_int_eq(plan_of(c).work_group, 128);
        driver.allowed = limits[i], driver.refused = 0;
        assert_case(c, "attend-f32-b1-h2-n40-nkv50-d32-full-flash-lse");
        const clattn_plan plan = plan_of(c);
        assert_case(c, "attend-f32-b2-h2-n33-nkv9-d32-causal-flash");
        driver.allowed = 0;
        ck_assert_int_le(plan.work_group, (int)limits[i]);
        ck_assert_int_eq(driver.refused, 0);
        clattn_context_destroy(c);
    }
}
END_TEST

// A layer's plan changes in the same way, also by prepare. Its workspace contains the workspace of
// attention.
START_TEST(a_layer_is_laid_out_again) {
    clattn_context *c = open_context("flash :", NULL);
    driver.allowed = 16, driver.refused = 0;
    assert_case(c, "layer-f32-b1-h2-n40-d32-m64-full-flash-native");
    driver.allowed = 0;
    ck_assert_int_le(plan_of(c).work_group, 16);
    clattn_context_destroy(c);
    c = open_context("flash :", NULL);
    clattn_attention_params p = {.kernel = CLATTN_KERNEL_FLASH};
    p.q = p.out = p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 40, 32);
    driver.allowed = 8;
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_OK);
    driver.allowed = 0;
    ck_assert_int_le(plan_of(c).work_group, 8);
    ck_assert_int_eq(driver.refused, 0);
    clattn_context_destroy(c);
}
END_TEST

// A tuned row of the caller makes CLBlast the first choice on any device.
static const char clblast_first[] = "clblast :";

START_TEST(clblast_may_fail) {
    static const cl_int codes[] = {CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE, CL_INVALID_VALUE,
                                   CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY};
    static const char *const cases[] = {
        "linear-f32-b1-h2-n20-d32-m64-full", "layer-f32-b2-h2-n20-d32-m64-full-biases",
        "layer-bf16-b1-h4-hkv2-n9-d16-m48-causal", "layer-f32-b1-h2-n12-d32-m64-causal-ropehalf"};
    if (!harness_has_clblast()) return;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        clattn_context *c = open_context(clblast_first, NULL);
        driver.clblast_code = codes[i], driver.gemms = 0;
        // In a shortened run each code occurs in a projection, and only the first one in layers.
        const size_t count = i > 0 && harness_every() > 1 ? 1 : sizeof cases / sizeof cases[0];
        for (size_t n = 0; n < count; n++) assert_case(c, cases[n]);
        driver.clblast_code = 0;
        ck_assert_int_eq(driver.gemms, 1); // after the first failure it is not tried again
        clattn_context_destroy(c);
    }
}
END_TEST

static bool grows(void *user, double done) {
    double *const last = user;
    *last = done > *last && done <= 1.0 ? done : NAN;
    return true;
}

// Progress that a caller has received does not fall when the work starts again.
START_TEST(progress_survives) {
    struct test_case test;
    struct case_arrays arrays;
    char why[256];
    double last = 0.0;
    const clattn_progress progress = {grows, &last};
    if (!harness_has_clblast()) return;
    ck_assert(case_parse("layer-bf16-b1-h4-hkv2-n9-d16-m48-causal-biases", &test, why));
    clattn_context *c = open_context(clblast_first, NULL);
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    arrays.layer.progress = &progress;
    driver.clblast_code = CL_INVALID_WORK_GROUP_SIZE, driver.spared = 2;
    ck_assert_int_eq(case_enqueue(c, harness()->queue, &arrays, NULL), CLATTN_OK);
    driver.clblast_code = 0, driver.spared = 0;
    ck_assert_double_eq(last, 1.0);
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "%s", why);
    case_unbind(&arrays);
    case_free(data);
    clattn_context_destroy(c);
}
END_TEST

// CLBlast refuses with its own code -2046 (kernels need too much local memory) before any launch.
START_TEST(clblast_may_refuse) {
    if (!harness_has_clblast()) return;
    clattn_context *c = open_context(clblast_first, NULL);
    clattn_linear_choice choice;
    const int64_t x[] = {1, 20, 32}, w[] = {64, 32}, y[] = {1, 20, 64};
    const clattn_linear_params p = {.x = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, x),
                                    .w = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 2, w),
                                    .out = clattn_tensor_dense(NULL, CLATTN_TYPE_F32, 3, y)};
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    ck_assert_int_eq(choice.projection, CLATTN_PROJECTION_CLBLAST);
    driver.greedy = true, refusals = 0;
    assert_case(c, "linear-f32-b1-h2-n20-d32-m64-full");
    driver.greedy = false;
    ck_assert_int_eq(refusals, 1);
    ck_assert_int_eq(clattn_linear_plan(c, &p, &choice), CLATTN_OK);
    ck_assert_int_eq(choice.projection, CLATTN_PROJECTION_NATIVE);
    clattn_context_destroy(c);
}
END_TEST

// The kernels of gradients: tiles in registers, replaced by the portable kernel if no tile is small
// enough; the portable kernel; and the kernel of numbers a head.
static const char *const gradient_rows[] = {"backward_tiles :", "backward :"};

START_TEST(gradients_take_smaller_groups) {
    static const size_t limits[] = {64, 20, 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        clattn_context *c = open_context(gradient_rows[_i], NULL);
        driver.allowed = limits[i], driver.refused = 0;
        assert_case(c, "backward-f32-b2-h4-hkv2-n70-nkv50-d32-full-dlse-alibi-sinks-headscales");
        driver.allowed = 0;
        ck_assert_int_eq(driver.refused, 0);
        clattn_context_destroy(c);
    }
}
END_TEST

enum { ROWS = 20, WIDTH = 64 };

static cl_mem buffer_of(const float *values, size_t bytes) {
    cl_int status;
    const cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                         (void *)(uintptr_t)values, &status);
    harness_expect(status, "clCreateBuffer");
    return buffer;
}

// The gradients of a projection, or of a layer whose four projections have the same matrix.
static clattn_status enqueue_gradients(clattn_context *c, bool of_layer, clattn_projection projection,
                                       cl_mem in, cl_mem dx, cl_mem dw) {
    const int64_t rows[3] = {1, ROWS, WIDTH}, square[2] = {WIDTH, WIDTH};
    const clattn_tensor x = clattn_tensor_dense(in, CLATTN_TYPE_F32, 3, rows),
                        w = clattn_tensor_dense(in, CLATTN_TYPE_F32, 2, square);
    const clattn_linear_backward_params linear = {
        .x = x,
        .w = w,
        .dout = x,
        .dx = dx ? clattn_tensor_dense(dx, CLATTN_TYPE_F32, 3, rows) : (clattn_tensor){0},
        .dw = dw ? clattn_tensor_dense(dw, CLATTN_TYPE_F32, 2, square) : (clattn_tensor){0},
        .projection = projection};
    if (!of_layer) return clattn_linear_backward_enqueue(c, harness()->queue, &linear, 0, NULL, NULL);
    const clattn_layer_backward_params layer = {
        .forward =
            {.x = x, .wq = w, .wk = w, .wv = w, .wo = w, .heads = 2, .kv_heads = 2, .projection = projection},
        .dout = x,
        .dx = linear.dx,
        .dwk = linear.dw};
    return clattn_layer_backward_enqueue(c, harness()->queue, &layer, 0, NULL, NULL);
}

static void read_floats(cl_mem buffer, float *to, size_t bytes) {
    harness_expect(clEnqueueReadBuffer(harness()->queue, buffer, CL_TRUE, 0, bytes, to, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
}

// After a failure, all gradients of a projection or a layer are computed again by the library's own
// kernels, with their bits. dx alone, dw alone, and both.
START_TEST(gradients_are_made_again) {
    static float values[WIDTH * WIDTH], want[WIDTH * WIDTH], got[WIDTH * WIDTH];
    const bool of_layer = _i >= 3, with[2] = {_i % 3 != 1, _i % 3 != 0};
    const size_t bytes = sizeof values;
    if (!harness_has_clblast()) return;
    for (int n = 0; n < WIDTH * WIDTH; n++) values[n] = (float)(n * 37 % 101) / 101.0f - 0.5f;
    cl_mem in = buffer_of(values, bytes), to[2][2];
    for (int n = 0; n < 4; n++) to[n / 2][n % 2] = buffer_of(values, bytes);
    clattn_context *c = open_context(clblast_first, NULL);
    driver.clblast_code = CL_INVALID_VALUE, driver.gemms = 0;
    const clattn_status failing = enqueue_gradients(c, of_layer, CLATTN_PROJECTION_AUTO, in,
                                                    with[0] ? to[0][0] : NULL, with[1] ? to[0][1] : NULL);
    driver.clblast_code = 0;
    const clattn_status native = enqueue_gradients(c, of_layer, CLATTN_PROJECTION_NATIVE, in,
                                                   with[0] ? to[1][0] : NULL, with[1] ? to[1][1] : NULL);
    ck_assert_int_eq(driver.gemms, 1); // after the first failure it is not tried again
    ck_assert_int_eq(failing, CLATTN_OK);
    ck_assert_int_eq(native, CLATTN_OK);
    for (int n = 0; n < 2; n++) {
        read_floats(to[0][n], got, bytes);
        read_floats(to[1][n], want, bytes);
        ck_assert_mem_eq(got, want, bytes);
        ck_assert_int_eq(memcmp(got, values, bytes) != 0, with[n]); // written only if requested
    }
    for (int n = 0; n < 4; n++) clReleaseMemObject(to[n / 2][n % 2]);
    clReleaseMemObject(in);
    clattn_context_destroy(c);
}
END_TEST

// A caller that requests CLBlast receives its failure.
START_TEST(clblast_as_asked_fails) {
    if (!harness_has_clblast()) return;
    struct test_case test;
    struct place place = *harness_place();
    char why[256];
    ck_assert(case_parse("linear-f32-b1-h2-n20-d32-m64-full-clblast", &test, why));
    struct case_data *data = case_make(&test);
    place.context = open_context(NULL, NULL);
    driver.clblast_code = CL_INVALID_WORK_GROUP_SIZE;
    struct case_result got = case_execute(data, &place);
    driver.clblast_code = 0;
    ck_assert_int_eq(got.status, CLATTN_DRIVER);
    case_result_free(&got);
    got = case_execute(data, &place);
    const bool good = case_agrees(data, &got, why, sizeof why);
    case_result_free(&got);
    case_free(data);
    clattn_context_destroy(place.context);
    ck_assert_msg(good, "%s", why);
}
END_TEST

// CLBlast has one cache for the process. It must live until the last context that used it is
// destroyed.
START_TEST(clblast_is_cleared_by_the_last) {
    static const char name[] = "linear-f32-b1-h2-n20-d32-m64-full-clblast";
    if (!harness_has_clblast()) return;
    clattn_context *a = open_context(NULL, NULL), *b = open_context(NULL, NULL),
                   *c = open_context(NULL, NULL);
    assert_case(a, name);
    assert_case(b, name);
    cleared = 0;
    clattn_context_destroy(c); // c has never used CLBlast
    clattn_context_destroy(b);
    ck_assert_int_eq(cleared, 0);
    assert_case(a, name);
    clattn_context_destroy(a);
    ck_assert_int_eq(cleared, 1);
}
END_TEST

struct launcher {
    clattn_context *context;
    cl_command_queue queue;
    struct case_data *data;
    bool good;
    char why[256];
};

static void *launch(void *argument) {
    struct launcher *l = argument;
    struct place place = *harness_place();
    place.context = l->context, place.queue = l->queue;
    struct case_result got = case_execute(l->data, &place);
    l->good = case_agrees(l->data, &got, l->why, sizeof l->why);
    case_result_free(&got);
    return NULL;
}

// Two threads launch one kernel at the same time, with different arguments.
START_TEST(a_slow_launch_holds_up_nobody) {
    struct test_case test;
    struct launcher all[2];
    pthread_t threads[2];
    char why[256];
    clattn_context *c = open_context(NULL, NULL);
    for (int n = 0; n < 2; n++) {
        cl_int status;
        ck_assert(case_parse(n ? "attend-f32-b1-h2-n40-d32-full-seed7" : "attend-f32-b1-h2-n40-d32-full",
                             &test, why));
        all[n] = (struct launcher){.context = c, .data = case_make(&test)};
        all[n].queue = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &status);
        harness_expect(status, "clCreateCommandQueue");
    }
    driver.slow_launch = true;
    for (int n = 0; n < 2; n++) ck_assert_int_eq(pthread_create(&threads[n], NULL, launch, &all[n]), 0);
    for (int n = 0; n < 2; n++) {
        pthread_join(threads[n], NULL);
        case_free(all[n].data);
        clReleaseCommandQueue(all[n].queue);
    }
    driver.slow_launch = false;
    clattn_context_destroy(c);
    ck_assert_msg(!slow.timed_out, "a launch waited for another one's return from the driver");
    for (int n = 0; n < 2; n++) ck_assert_msg(all[n].good, "%s", all[n].why);
}
END_TEST

// If measured runs disagree, the result is not final: the next call measures again.
START_TEST(a_noisy_measurement_is_taken_again) {
    char folder[] = "/tmp/clattn-fallback-XXXXXX", command[128];
    ck_assert(mkdtemp(folder) != NULL);
    clattn_context *c = open_context(NULL, folder);
    const bool can = harness_has_clblast() && clattn_context_capabilities(c)->is_cpu &&
                     clattn_context_capabilities(c)->float_vector_width >= 4;
    // run the probes first, so that every other pair of clFinish belongs to the projections
    size_t engines;
    ck_assert_int_eq(clattn_context_engines(c, &(clattn_engine){0}, 1, &engines), CLATTN_OK);
    driver.busy = true, driver.finishes = measurements = unsure = 0;
    ck_assert_int_eq(clattn_context_measure(c), CLATTN_OK);
    driver.busy = false;
    ck_assert_int_eq(measurements, can ? 2 : 0);
    ck_assert_int_eq(unsure, can ? 2 : 0);
    clattn_context_destroy(c);
    c = open_context(NULL, folder); // the folder has an uncertain result
    ck_assert_int_eq(clattn_context_measure(c), CLATTN_OK);
    ck_assert_int_eq(measurements, can ? 4 : 0);
    clattn_context_destroy(c);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a_smaller_tile_is_taken,
                                  a_layer_is_laid_out_again,
                                  clblast_may_fail,
                                  progress_survives,
                                  clblast_may_refuse,
                                  clblast_as_asked_fails,
                                  clblast_is_cleared_by_the_last,
                                  a_slow_launch_holds_up_nobody,
                                  a_noisy_measurement_is_taken_again,
                                  NULL};
    Suite *suite = suite_create("fallback");
    TCase *group = harness_add(suite, "fallback", tests);
    tcase_add_loop_test(group, gradients_take_smaller_groups, 0, 2);
    tcase_add_loop_test(group, gradients_are_made_again, 0, 6);
    return harness_run(suite);
}
