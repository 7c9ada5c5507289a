// faults_rules.c: driver properties that the OpenCL layer can fake (few bytes for kernel arguments,
// a long version string), and caller's events that end with an error. See faults.h.
#include "faults/faults.h"

#include <stdio.h>
#include <string.h>

static clattn_status create(clattn_context **context) {
    const clattn_context_params params = {.device = harness()->device, .log = harness_log()};
    harness_log_clear();
    return clattn_context_create(&params, context);
}

START_TEST(few_argument_bytes) {
    const size_t few = 256, enough = 1024;
    clattn_context *context = NULL;
    faults_layer()->pretend(CL_DEVICE_MAX_PARAMETER_SIZE, &few, sizeof few);
    ck_assert_int_eq(create(&context), CLATTN_UNSUPPORTED);
    ck_assert_ptr_null(context);
    ck_assert_msg(strstr(harness_log_text(), "256 bytes") != NULL, "%s", harness_log_text());
    faults_layer()->pretend(CL_DEVICE_MAX_PARAMETER_SIZE, &enough, sizeof enough);
    ck_assert_int_eq(create(&context), CLATTN_OK);
    clattn_context_destroy(context);
    faults_layer()->pretend(0, NULL, 0);
}
END_TEST

// A version longer than its field is cut. The complete version is part of the key of compiled
// kernels.
START_TEST(long_version) {
    char text[1000];
    clattn_capabilities facts;
    const cl_uint questions[] = {CL_PLATFORM_VERSION, CL_DEVICE_VERSION};
    memset(text, 'x', sizeof text);
    memcpy(text, "OpenCL 3.0 ", 11);
    text[sizeof text - 1] = '\0';
    for (int n = 0; n < 2; n++) {
        faults_layer()->pretend(questions[n], text, sizeof text);
        ck_assert_int_eq(clattn_device_describe(harness()->device, &facts), CLATTN_OK);
        faults_layer()->pretend(0, NULL, 0);
        const char *got = n == 0 ? strstr(facts.platform, ", ") : facts.version;
        ck_assert_ptr_nonnull(got);
        ck_assert_msg(strstr(got, "OpenCL 3.0 xxx") != NULL && strlen(got) > 90, "%s", got);
    }
}
bool faults_driver_tells(cl_command_queue queue) {
    cl_event gate = harness_gate(), event = NULL;
    cl_int status = CL_COMPLETE;
    cl_int zero = 0;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, sizeof zero, NULL, &status);
    harness_expect(status, "clCreateBuffer");
    harness_expect(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, sizeof zero, 1, &gate, &event),
                   "clEnqueueFillBuffer");
    harness_expect(clFlush(queue), "clFlush");
    clSetUserEventStatus(gate, -5);
    clWaitForEvents(1, &event);
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    clFinish(queue);
    clReleaseEvent(event);
    clReleaseEvent(gate);
    clReleaseMemObject(buffer);
    return status < 0;
}

static const struct test_case waiting[] = {
    {.name = "attention", .heads = 2, .n_q = 5, .n_kv = 9, .head_dim = 16, .kernel = CLATTN_KERNEL_UNFUSED},
    {.name = "layer",
     .op = CASE_LAYER,
     .n_q = 5,
     .width = 12,
     .heads = 2,
     .head_dim = 8,
     .projection = CLATTN_PROJECTION_NATIVE},
    {.name = "linear",
     .op = CASE_LINEAR,
     .n_q = 5,
     .width = 12,
     .heads = 2,
     .head_dim = 8,
     .projection = CLATTN_PROJECTION_NATIVE}};

static clattn_status enqueue(cl_command_queue queue, const struct case_arrays *a, cl_event gate,
                             cl_event *event) {
    clattn_context *context = harness()->context;
    harness_log_clear();
    if (a->op == CASE_LAYER) return clattn_layer_enqueue(context, queue, &a->layer, 1, &gate, event);
    if (a->op == CASE_LINEAR) return clattn_linear_enqueue(context, queue, &a->linear, 1, &gate, event);
    return clattn_attention_enqueue(context, queue, &a->params, 1, &gate, event);
}

// A call with an event that already failed is refused. If an event fails later, the call's own
// event fails, on drivers that propagate errors. The context remains usable.
static void wait_for_failure(const struct test_case *test, cl_command_queue queue, bool before) {
    struct case_data *data = case_make(test);
    struct case_arrays arrays;
    cl_event gate = harness_gate(), event = NULL;
    cl_int status = CL_COMPLETE;
    case_bind(data, harness_place(), &arrays);
    if (before) clSetUserEventStatus(gate, -5);
    faults_layer()->hold_events(true);
    const clattn_status got = enqueue(queue, &arrays, gate, &event);
    if (before) {
        harness_assert_refused(test->name, got, CLATTN_INVALID_ARGUMENT, "error -5");
        ck_assert_ptr_null(event);
    } else {
        ck_assert_msg(got == CLATTN_OK && event != NULL, "%s: %s", test->name, harness_log_text());
        harness_expect(clFlush(queue), "clFlush");
        clSetUserEventStatus(gate, -5);
        clWaitForEvents(1, &event);
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
        ck_assert_msg(status < 0 || (status == CL_COMPLETE && !faults_driver_tells(queue)),
                      "%s: its event ended with %d", test->name, (int)status);
        clFinish(queue);
        clReleaseEvent(event);
    }
    faults_layer()->hold_events(false);
    clReleaseEvent(gate);
    case_unbind(&arrays);
    case_free(data);
    case_assert(test);
}

START_TEST(events_fail) {
    const cl_command_queue queues[] = {harness()->queue, harness()->out_of_order};
    for (int n = 0; n < 3; n++)
        for (int q = 0; q < 2 && queues[q] != NULL; q++)
            for (int before = 0; before < 2; before++)
                if (before == 1 || faults_queue_survives(queues[q]))
                    wait_for_failure(&waiting[n], queues[q], before == 1);
}
END_TEST

void faults_add_rules(Suite *suite) {
    harness_add(suite, "rules", (const TTest *const[]){few_argument_bytes, long_version, events_fail, NULL});
}
