// fault_child.c: uses the library once, end to end, while the fault layer makes one OpenCL call fail, and
// judges what came of it: a status and a message, no event, no wrong result, and either recovery or
// DEVICE_LOST for good. Called by test_faults.c in a process of its own.
#include "fault_child.h"

#include "harness.h"
#include "case_assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Codes that mean the device is gone once something has worked, whatever the call.
#define DEVICE_RESET (-36)
#define DRIVER_GONE (-9999)

static int failing_code;
static bool failed_once, lost, worked_once;

static void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _Exit(FAULT_WRONG);
}

// A refusal has a status that is known, and a message of one line.
static void judge(const char *what, clattn_status status, clattn_context *context) {
    char text[1024] = "";
    if (status <= CLATTN_OK || status >= CLATTN_STATUS_COUNT) wrong("%s: status %d", what, (int)status);
    if (context != NULL)
        clattn_context_last_error(context, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", harness_log_text());
    if (text[0] == '\0' || strchr(text, '\n') != NULL) wrong("%s: message '%s'", what, text);
    if (status == CLATTN_INVALID_ARGUMENT) wrong("%s: blames the caller: %s", what, text);
    bool gone = failing_code == DEVICE_RESET || failing_code == DRIVER_GONE;
    if (gone && worked_once && status != CLATTN_DEVICE_LOST)
        wrong("%s: %s after %d", what, clattn_status_name(status), failing_code);
    if (failed_once && !lost) wrong("%s failed again: %s", what, text);
    if (lost && status != CLATTN_DEVICE_LOST) wrong("%s: %s after a loss", what, clattn_status_name(status));
    failed_once = true;
    lost = status == CLATTN_DEVICE_LOST;
    fprintf(stderr, "%s: %s: %s\n", what, clattn_status_name(status), text);
}

// After an attempt that failed: one that must succeed, or must find the device lost.
static bool again(int attempt, clattn_status status) {
    return attempt == 0 && status != CLATTN_OK;
}

static void attend(clattn_kernel kernel, bool rotary) {
    struct test_case test = {.name = "faults", .heads = 2, .n_q = 5, .n_kv = 9, .head_dim = 16};
    clattn_status status = CLATTN_DRIVER;
    test.kernel = kernel;
    case_give(&test, CASE_KV_LENGTHS, 1, (const int32_t[]){8});
    test.hosts |= CASE_HOST_BIT(CASE_SINKS);
    if (rotary) test.rope.layout = CLATTN_ROPE_HALF;
    struct case_data *data = case_make(&test);
    struct case_arrays arrays;
    case_bind(data, harness_place(), &arrays);
    for (int attempt = 0; attempt == 0 || again(attempt - 1, status); attempt++) {
        cl_event event = NULL;
        char why[512];
        status =
            clattn_attention_enqueue(harness()->context, harness()->queue, &arrays.params, 0, NULL, &event);
        if (status != CLATTN_OK) {
            if (event != NULL) wrong("%s: an event from a failed call", names_kernels[kernel]);
            judge(names_kernels[kernel], status, harness()->context);
            continue;
        }
        if (event == NULL) wrong("%s: no event", names_kernels[kernel]);
        clReleaseEvent(event);
        struct case_result got = case_collect(&arrays, harness()->queue, NULL);
        if (!case_agrees(data, &got, why, sizeof why)) wrong("%s: %s", names_kernels[kernel], why);
        case_result_free(&got);
        worked_once = true;
    }
    case_unbind(&arrays);
    case_free(data);
}

static void project(void) {
    struct test_case test = {
        .op = CASE_LAYER, .name = "faults", .n_q = 5, .width = 12, .heads = 2, .head_dim = 8};
    clattn_status status = CLATTN_DRIVER;
    test.projection = CLATTN_PROJECTION_NATIVE;
    test.biases = LAYER_ALL_BIASES;
    test.rope.layout = CLATTN_ROPE_HALF; // in the projections, with buffers of its own
    case_give(&test, CASE_Q_LENGTHS, 1, (const int32_t[]){4});
    struct case_data *data = case_make(&test);
    for (int attempt = 0; attempt == 0 || again(attempt - 1, status); attempt++) {
        char why[512];
        struct case_result got = case_run(data, harness()->queue);
        status = got.status;
        if (status != CLATTN_OK)
            judge("layer", status, harness()->context);
        else if (!case_agrees(data, &got, why, sizeof why))
            wrong("layer: %s", why);
        case_result_free(&got);
    }
    case_free(data);
}

// Merging a result with itself: the mean of the two is the result again.
static void merge(void) {
    struct test_case test = {.name = "faults", .heads = 2, .n_q = 5, .n_kv = 9, .head_dim = 16};
    clattn_status status = CLATTN_DRIVER;
    struct case_data *data = case_make(&test);
    for (int attempt = 0; attempt == 0 || again(attempt - 1, status); attempt++) {
        struct case_arrays a, b;
        case_bind(data, harness_place(), &a);
        case_bind(data, harness_place(), &b);
        clattn_merge_params params = {a.params.out, a.params.lse, b.params.out, b.params.lse};
        status = clattn_merge_enqueue(harness()->context, harness()->queue, &params, 0, NULL, NULL);
        if (status != CLATTN_OK)
            judge("merge", status, harness()->context);
        else
            harness_finish(harness()->queue);
        case_unbind(&a);
        case_unbind(&b);
    }
    case_free(data);
}

static clattn_context *create(cl_device_id device) {
    clattn_context_params params = {.device = device, .log = harness_log()};
    params.cache_dir = getenv("CLATTN_TEST_CACHE");
    for (int attempt = 0; attempt < 2; attempt++) {
        clattn_context *context = NULL;
        harness_log_clear();
        clattn_status status = clattn_context_create(&params, &context);
        if (status == CLATTN_OK) return context;
        if (context != NULL) wrong("a context from a failed call");
        judge("context", status, NULL);
    }
    return NULL;
}

static cl_device_id find(void) {
    clattn_device device = {0};
    clattn_log log = harness_log();
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t count = 0;
        harness_log_clear();
        clattn_status status = clattn_device_list(&device, 1, &count, &log);
        if (status == CLATTN_OK && count > 0) return device.device;
        judge("devices", status, NULL);
    }
    return NULL;
}

static void use_everything(void) {
    attend(CLATTN_KERNEL_FLASH, false);
    attend(CLATTN_KERNEL_UNFUSED, true);
    attend(CLATTN_KERNEL_AUTO, false);
    merge();
    project();
}

int fault_child(int code) {
    failing_code = code;
    alarm(60);
    cl_device_id device = find();
    clattn_context *context = device != NULL ? create(device) : NULL;
    if (context == NULL) wrong("no context after one fault");
    harness_adopt(context);
    use_everything();
    harness_stop();
    if (!lost) return failed_once ? FAULT_REPORTED : FAULT_UNNOTICED;
    lost = failed_once = false;
    context = create(device);
    if (context == NULL) wrong("no new context after a loss");
    harness_adopt(context);
    use_everything();
    harness_stop();
    return failed_once ? FAULT_WRONG : FAULT_LOST;
}
