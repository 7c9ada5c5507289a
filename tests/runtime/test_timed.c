// test_timed.c: how a call without progress learns the speed of a device (device/launch_slicing.h),
// from inside the library. One large launch at a time is timed by its event, and no thread waits. A
// short launch is neither sliced nor timed. Hidden keys do not count. How work is sliced is in
// test_slices.c.
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/layer_client.h"

#include "attention/call/visible_keys.h"

#include <math.h>
#include <string.h>

static clattn_context *context;
static cl_command_queue profiled;

// Open the context. Launches are cut by the start rate until the kernel's rate is known.
static void setup(void) {
    cl_int code;
    context =
        harness_open((clattn_context_params){.context = harness()->opencl,
                                             .log = harness_log(),
                                             .tuned_rows = "flash :\ndecode_groups :\nlinear_tiles :\n"});
    context->pace->cuts_all = true;
    profiled = clCreateCommandQueue(harness()->opencl, harness()->device, CL_QUEUE_PROFILING_ENABLE, &code);
    harness_expect(code, "clCreateCommandQueue");
}
static void teardown(void) {
    clattn_context_destroy(context);
    clReleaseCommandQueue(profiled);
}

static cl_command_queue queue_of(int n) {
    const cl_command_queue queues[] = {harness()->queue, harness()->out_of_order, profiled};
    return queues[n];
}

static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-causal-flash-padded-lse-alibi-sinks-qlen-kvlen-ropehalf",
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-full-unfused-weights-biasqk",
    "layer-f32-b2-h2-n70-d32-m64-causal-native-ropehalf",
};
#define NAMES 3

static double best_rate(void) {
    double best = 0.0;
    for (program *p = context->programs; p; p = p->next) best = fmax(best, p->rate.flops);
    return best;
}

// Make launches of a few groups count as large.
static void cut_small(void) {
    context->pace->seconds = 1e5 / cla_pace_start_rate(&context->capabilities);
}

// Returns whether the driver's times are usable: Mesa's llvmpipe reports a nanosecond for each.
static bool keeps_times(cl_event event) {
    cl_ulong start = 0, end = 0;
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    context->pace->seconds = 1e-6, context->capabilities.clock_mhz = 1,
    context->capabilities.compute_units = 1;
    return end > start + 1;
}

// Launches on queues of each kind are timed. Then a rate is known.
START_TEST(launches_are_timed) {
    for (int n = 0; n < 3; n++) {
        struct case_arrays arrays;
        char why[512] = "";
        cl_event event = NULL;
        if (!queue_of(n)) continue;
        struct case_data *data = case_open(names[_i], &arrays);
        cut_small();
        for (int round = 0; round < 3; round++) {
            for (program *p = context->programs; p; p = p->next) p->rate.flops = 0.0;
            ck_assert_int_eq(case_enqueue(context, queue_of(n), &arrays, round == 1 ? &event : NULL),
                             CLATTN_OK);
            harness_finish(queue_of(n));
            ck_assert_msg(case_holds(data, &arrays, queue_of(n), why, sizeof why), "%s on queue %d: %s",
                          names[_i], n, why);
        }
        clReleaseEvent(event);
        for (program *x = context->programs; x; x = x->next) x->rate.flops = 0.0;
        ck_assert_ptr_nonnull(context->pace->timed.event);
        ck_assert(n < 2 || !context->pace->timed.start_ns);
        // set the start time as if the caller had waited for the launch
        if (n < 2) context->pace->timed.start_ns = cla_os_time_ns() - 1000;
        if (n < 2 || keeps_times(context->pace->timed.event)) {
            if (cla_pace_begin(context)) cla_pace_end(context, &(pace_timed){0});
            ck_assert_msg(best_rate() > 0.0, "%s on queue %d: nothing was learned", names[_i], n);
        }
        case_unbind(&arrays);
        case_free(data);
    }
}
END_TEST

// Nothing is timed while another thread begins to time, nor before the last timed launch has ended.
START_TEST(one_at_a_time) {
    struct case_arrays arrays;
    struct case_data *data = case_open(names[0], &arrays);
    const struct pace *p = context->pace;
    cut_small();
    ck_assert(cla_pace_begin(context));
    ck_assert_int_eq(case_enqueue(context, queue_of(0), &arrays, NULL), CLATTN_OK);
    ck_assert_ptr_null(p->timed.event);
    ck_assert(!cla_pace_begin(context));
    cla_pace_end(context, &(pace_timed){0});
    cl_event gate = harness_gate();
    harness_expect(clEnqueueBarrierWithWaitList(queue_of(0), 1, &gate, NULL), "barrier");
    ck_assert_int_eq(case_enqueue(context, queue_of(0), &arrays, NULL), CLATTN_OK);
    const cl_event first = p->timed.event;
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(case_enqueue(context, queue_of(0), &arrays, NULL), CLATTN_OK);
    ck_assert_ptr_eq(p->timed.event, first);
    ck_assert_uint_ne(p->timed.start_ns, 0);
    harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
    clReleaseEvent(gate);
    harness_finish(queue_of(0));
    // Mesa's rusticl 22.3 completes an event after clFinish.
    harness_expect(clWaitForEvents(1, &first), "clWaitForEvents");
    ck_assert_int_eq(case_enqueue(context, profiled, &arrays, NULL), CLATTN_OK);
    ck_assert_uint_eq(p->timed.start_ns, 0);
    harness_finish(profiled);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// A call of the usual size on a GPU: as many commands as launches, without events.
START_TEST(short_ones_are_left_alone) {
    struct case_arrays arrays;
    struct case_data *data = case_open(names[_i], &arrays);
    context->capabilities.is_cpu = false;
    ck_assert_int_eq(case_enqueue(context, queue_of(0), &arrays, NULL), CLATTN_OK);
    layer_client()->arm(0, 0);
    ck_assert_int_eq(case_enqueue(context, queue_of(0), &arrays, NULL), CLATTN_OK);
    const char *const none[] = {"clFlush",
                                "clEnqueueMarkerWithWaitList",
                                "clEnqueueBarrierWithWaitList",
                                "clReleaseEvent",
                                "clWaitForEvents",
                                "clGetEventInfo"};
    for (size_t n = 0; n < sizeof none / sizeof none[0]; n++)
        ck_assert_msg(layer_client_count(none[n]) == 0, "%s: %s", names[_i], none[n]);
    harness_finish(queue_of(0));
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// Every OpenCL call of the library fails once while a launch is timed. The call then fails or
// returns the right result. The next call works.
START_TEST(failures) {
    struct case_arrays arrays;
    char why[512] = "";
    const cl_command_queue queue = queue_of(_i);
    int failed = 0;
    if (!queue) return;
    struct case_data *data = case_open(names[0], &arrays);
    cut_small();
    ck_assert_int_eq(case_enqueue(context, queue, &arrays, NULL), CLATTN_OK);
    harness_finish(queue);
    layer_client()->arm(0, 0);
    ck_assert_int_eq(case_enqueue(context, queue, &arrays, NULL), CLATTN_OK);
    const int calls = layer_client()->disarm().calls;
    for (int nth = 1; nth <= calls; nth++) {
        harness_finish(queue);
        layer_client()->arm(nth, CL_OUT_OF_HOST_MEMORY);
        const clattn_status status = case_enqueue(context, queue, &arrays, NULL);
        const struct layer_armed armed = layer_client()->disarm();
        failed += status != CLATTN_OK;
        ck_assert_msg(status == CLATTN_OK || (armed.hit && status == CLATTN_OUT_OF_MEMORY), "%d, %s: %s", nth,
                      armed.hit ? armed.hit : "none", harness_log_text());
        harness_finish(queue);
        if (status != CLATTN_OK) ck_assert_int_eq(case_enqueue(context, queue, &arrays, NULL), CLATTN_OK);
        ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "%d, %s: %s", nth,
                      armed.hit ? armed.hit : "none", why);
    }
    ck_assert_int_gt(failed, 10);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

// The number of visible keys, compared with a count.
START_TEST(what_is_seen) {
    static const struct {
        int shift, left, right, n_q, n_kv, first, rows;
    } cases[] = {{0, -1, -1, 7, 9, 0, 7}, {0, -1, 0, 7, 9, 0, 7},   {2, -1, 0, 7, 9, 3, 2},
                 {-4, -1, 0, 7, 9, 0, 7}, {50, -1, 0, 7, 9, 0, 7},  {0, 2, 0, 7, 9, 0, 7},
                 {3, 2, 1, 7, 9, 2, 5},   {-3, 1, 4, 20, 9, 0, 20}, {0, 3, -1, 20, 9, 5, 15},
                 {5, 0, 0, 20, 9, 0, 20}, {-30, 2, 5, 9, 9, 0, 9},  {0, 400, 400, 9, 9, 1, 8}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        call c = {
            .problem = {.batch = 3, .n_q = cases[n].n_q, .n_kv = cases[n].n_kv},
            .args = {.shift = cases[n].shift, .window_left = cases[n].left, .window_right = cases[n].right}};
        c.params.q.shape[2] = cases[n].n_q, c.params.kv.k.shape[2] = cases[n].n_kv;
        c.params.score.alignment = CLATTN_ALIGN_OFFSET;
        c.params.score.offset = cases[n].shift;
        long seen = 0, most = 0;
        for (int i = cases[n].first; i < cases[n].first + cases[n].rows; i++) {
            long row = 0;
            for (int j = 0; j < cases[n].n_kv; j++) {
                const int p = i + cases[n].shift;
                row += (cases[n].left < 0 || j >= p - cases[n].left) &&
                       (cases[n].right < 0 || j <= p + cases[n].right);
            }
            seen += row;
            most = row > most ? row : most;
        }
        const double got = cla_call_seen(&c, cases[n].first, cases[n].rows);
        ck_assert_msg(fabs(got - 3.0 * (double)seen) < 1e-6, "case %zu: %g instead of %ld", n, got, 3 * seen);
        ck_assert(cla_call_row_keys(&c) >= (double)most);
    }
}
END_TEST

int main(void) {
    const TTest *const alone[] = {one_at_a_time, what_is_seen, NULL};
    Suite *suite = suite_create("timed");
    TCase *group = harness_add(suite, "timed", alone);
    tcase_add_checked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, launches_are_timed, 0, NAMES);
    tcase_add_loop_test(group, short_ones_are_left_alone, 0, NAMES);
    tcase_add_loop_test(group, failures, 0, 3);
    return harness_run(suite);
}
