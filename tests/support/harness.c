// harness.c: choice of the device, context, queues, captured log, and the main loop of a suite.
// Used by every device suite. In the tests only this file reads the environment for them. Buffers
// and cases are elsewhere.
#include "support/harness.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_run.h"

static struct harness the_harness;
static struct place the_place = {.guard = PLACE_GUARD};

// One log per thread: the library calls back on the thread whose call failed.
static _Thread_local char log_text[2048];
static _Thread_local int log_count;

const struct harness *harness(void) {
    return &the_harness;
}

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user;
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", message);
    log_count++;
}

clattn_log harness_log(void) {
    return (clattn_log){.fn = on_log, .level = CLATTN_LOG_ERROR};
}

const char *harness_log_text(void) {
    return log_text;
}

int harness_log_count(void) {
    return log_count;
}

void harness_log_clear(void) {
    log_text[0] = '\0';
    log_count = 0;
}

void harness_expect(cl_int status, const char *what) {
    if (status == CL_SUCCESS) return;
    fprintf(stderr, "the test's own %s failed with %d\n", what, (int)status);
    exit(HARNESS_BROKEN);
}

static void end_program(const char *what, cl_int code) {
    harness_expect(code, what);
}

struct place *harness_place(void) {
    return &the_place;
}

void harness_set_guard(int64_t elements) {
    the_place.guard = elements;
}

void harness_finish(cl_command_queue queue) {
    harness_expect(clFinish(queue), "clFinish");
}

static bool matches(const clattn_device *device, size_t index, const char *wanted) {
    clattn_capabilities facts;
    char *end;
    if (wanted == NULL || wanted[0] == '\0') return true;
    unsigned long number = strtoul(wanted, &end, 10);
    if (isdigit((unsigned char)wanted[0]) && *end == '\0') return number == index;
    if (clattn_device_describe(device->device, &facts) != CLATTN_OK) return false;
    return strstr(facts.name, wanted) != NULL || strstr(facts.platform, wanted) != NULL;
}

static void skip(const char *why) {
    printf("skipped: %s\n", why);
    exit(HARNESS_SKIP);
}

static cl_device_id choose(void) {
    const char *wanted = getenv("CLATTN_TEST_DEVICE");
    clattn_device devices[64];
    clattn_log log = harness_log();
    size_t count = 0;
    clattn_status status = clattn_device_list(devices, 64, &count, &log);
    if (status != CLATTN_OK) skip(log_text[0] != '\0' ? log_text : clattn_status_name(status));
    for (size_t n = 0; n < count && n < 64; n++)
        if (matches(&devices[n], n, wanted)) return devices[n].device;
    skip("no device matches CLATTN_TEST_DEVICE");
    return NULL;
}

static bool is_pocl_4_to_6(const char *platform) {
    return strstr(platform, "PoCL 4.") || strstr(platform, "PoCL 5.") || strstr(platform, "PoCL 6.");
}

bool harness_compiles_right(const clattn_context *context, const char *rows) {
    return (!strstr(rows, "tiles") && !strstr(rows, "decode_groups")) ||
           !is_pocl_4_to_6(clattn_context_capabilities(context)->platform);
}

void harness_start(void) {
    clattn_context *context = NULL;
    clattn_context_params params = {.device = choose(), .log = harness_log()};
    params.cache_dir = getenv("CLATTN_TEST_CACHE");
    params.tuned_rows = getenv("CLATTN_TEST_ROWS");
    params.engines = CLATTN_ENGINES_ALL;
    const char *limit = getenv("CLATTN_TEST_LIMIT");
    params.compile_limit_ms = limit ? (uint32_t)atoi(limit) : 0;
    if (clattn_context_create(&params, &context) != CLATTN_OK) {
        fprintf(stderr, "clattn_context_create: %s\n", log_text);
        exit(EXIT_FAILURE);
    }
    if (params.tuned_rows && !harness_compiles_right(context, params.tuned_rows)) {
        clattn_context_destroy(context);
        skip("PoCL 4 to 6 compile kernels of tiles and groups right or wrong by chance");
    }
    case_skip_first_call(context);
    harness_adopt(context);
}

void harness_adopt(clattn_context *context) {
    cl_int status;
    struct harness h = {.context = context};
    h.opencl = clattn_context_opencl(context);
    h.device = clattn_context_device(context);
    h.queue = clCreateCommandQueue(h.opencl, h.device, 0, &status);
    harness_expect(status, "clCreateCommandQueue");
    if (clattn_context_capabilities(context)->out_of_order) {
        h.out_of_order =
            clCreateCommandQueue(h.opencl, h.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
        harness_expect(status, "clCreateCommandQueue, out of order");
    }
    the_harness = h;
    the_place.context = context;
    the_place.opencl = h.opencl;
    the_place.device = h.device;
    the_place.queue = h.queue;
    the_place.broken = end_program;
    the_place.recorded = getenv("CLATTN_TEST_RECORDED") != NULL;
}

void harness_stop(void) {
    if (the_harness.queue != NULL) clReleaseCommandQueue(the_harness.queue);
    if (the_harness.out_of_order != NULL) clReleaseCommandQueue(the_harness.out_of_order);
    clattn_context_destroy(the_harness.context);
    the_harness = (struct harness){0};
}

clattn_context *harness_open_first(clattn_context_params params) {
    clattn_context *context = NULL;
    params.device = the_harness.device;
    const clattn_status status = clattn_context_create(&params, &context);
    ck_assert_msg(status == CLATTN_OK, "clattn_context_create: %s", clattn_status_name(status));
    return context;
}

clattn_context *harness_open(clattn_context_params params) {
    clattn_context *context = harness_open_first(params);
    case_skip_first_call(context);
    return context;
}

clattn_type harness_type(void) {
    const char *name = getenv("CLATTN_TEST_TYPE");
    for (int n = 0; name != NULL && n < CLATTN_TYPE_COUNT; n++)
        if (strcmp(name, clattn_type_name((clattn_type)n)) == 0) return (clattn_type)n;
    return CLATTN_TYPE_F32;
}

int harness_every(void) {
    const char *const every = getenv("CLATTN_TEST_EVERY");
    return every == NULL || atoi(every) < 1 ? 1 : atoi(every);
}

bool harness_takes(int n) {
    const char *const every = getenv("CLATTN_TEST_EVERY"), *const share = every ? strchr(every, '/') : NULL;
    return (((uint32_t)n * 2654435761u >> 16) + (share ? (uint32_t)atoi(share + 1) : 0)) %
               (uint32_t)harness_every() ==
           0;
}

void harness_add_loop(TCase *group, const TTest *test, int count) {
    for (int n = 0; n < count; n++)
        if (harness_takes(n)) tcase_add_loop_test(group, test, n, n + 1);
}

static int kernel_taken, kernel_counted;

bool harness_counts_kernels(void) {
    return getenv("CLATTN_TEST_TAKEN") != NULL;
}

void harness_count_kernel(const char *name) {
    const char *wanted = getenv("CLATTN_TEST_TAKEN");
    const size_t n = strcspn(wanted, " ");
    kernel_counted++;
    kernel_taken += strlen(name) == n && strncmp(name, wanted, n) == 0;
}

// A suite about one kernel proves nothing if that kernel ran too few cases.
static bool kernel_took_enough(void) {
    const char *wanted = getenv("CLATTN_TEST_TAKEN");
    if (wanted == NULL) return true;
    const int least = atoi(wanted + strcspn(wanted, " "));
    printf("taken: %d of %d cases, \"%s\" is wanted\n", kernel_taken, kernel_counted, wanted);
    return least > 0 && kernel_taken >= least;
}

int harness_run(Suite *suite) {
    harness_start();
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    // Check runs nothing, without an error, if no group has the name in CK_RUN_CASE.
    const bool ran = srunner_ntests_run(runner) > 0;
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    harness_stop();
    const bool enough = kernel_took_enough();
    return failed == 0 && ran && enough ? EXIT_SUCCESS : EXIT_FAILURE;
}

TCase *harness_add(Suite *suite, const char *name, const TTest *const *tests) {
    TCase *group = tcase_create(name);
    tcase_set_timeout(group, 0);
    for (int n = 0; tests[n] != NULL; n++) tcase_add_test(group, tests[n]);
    suite_add_tcase(suite, group);
    return group;
}

void harness_assert_refused(const char *name, clattn_status got, clattn_status want, const char *word) {
    char text[1024] = "";
    size_t length = clattn_context_last_error(the_harness.context, text, sizeof text);
    ck_assert_msg(got == want, "%s: %s instead of %s (%s)", name, clattn_status_name(got),
                  clattn_status_name(want), log_text);
    ck_assert_msg(length == strlen(text) && length > 0, "%s: message of %zu characters", name, length);
    ck_assert_msg(log_count == 1, "%s: %d messages in the log", name, log_count);
    ck_assert_msg(strcmp(text, log_text) == 0, "%s: log says '%s', last_error '%s'", name, log_text, text);
    ck_assert_msg(strchr(text, '\n') == NULL, "%s: more than one line: %s", name, text);
    ck_assert_msg(strstr(text, word) != NULL, "%s: no '%s' in: %s", name, word, text);
}

cl_event harness_gate(void) {
    cl_int status;
    cl_event gate = clCreateUserEvent(the_harness.opencl, &status);
    harness_expect(status, "clCreateUserEvent");
    return gate;
}

static cl_int event_status(cl_event event) {
    cl_int status = CL_COMPLETE;
    harness_expect(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
                   "clGetEventInfo");
    return status;
}

void harness_open_gate(cl_event gate, cl_event done, cl_command_queue queue) {
    ck_assert_msg(done != NULL, "no event came back");
    harness_expect(clFlush(queue), "clFlush");
    for (int n = 0; n < 1000; n++)
        ck_assert_msg(event_status(done) > CL_COMPLETE, "ran before its wait list");
    harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
    harness_expect(clWaitForEvents(1, &done), "clWaitForEvents");
    ck_assert_int_eq(event_status(done), CL_COMPLETE);
    clReleaseEvent(gate);
    clReleaseEvent(done);
}

bool harness_has_clblast(void) {
    const char *without = getenv("CLATTN_TEST_NO_CLBLAST");
    return without == NULL || strcmp(without, "1") != 0;
}

bool harness_keeps_kernels(const char *test) {
    const char *platform = clattn_context_capabilities(the_harness.context)->platform;
    if (!strstr(platform, "PoCL ")) return true;
    printf("%s: skipped: no kernels are kept with %s\n", test, platform);
    return false;
}

void harness_each_way(void (*run)(cl_command_queue queue, clattn_projection projection)) {
    const cl_command_queue queues[] = {harness()->queue, harness()->out_of_order};
    for (int n = 0; n < 2 && queues[n] != NULL; n++) {
        run(queues[n], CLATTN_PROJECTION_NATIVE);
        if (harness_has_clblast()) run(queues[n], CLATTN_PROJECTION_CLBLAST);
    }
}

const char *harness_data_folder(void) {
    return getenv("CLATTN_TEST_DATA");
}

const char *harness_data_path(const char *name, char *path, size_t size) {
    snprintf(path, size, "%s/%s", harness_data_folder(), name);
    return path;
}

char *harness_header(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/../../include/clattn/%s", harness_data_folder(), name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1 << 17, 1);
    ck_assert_msg(file != NULL && text != NULL, "%s cannot be read", path);
    ck_assert_uint_gt(fread(text, 1, (1 << 17) - 1, file), 0);
    fclose(file);
    for (char *at = text; (at = strstr(at, "/*")) != NULL;)
        while (strncmp(at, "*/", 2) != 0) *at++ = ' ';
    return text;
}
