// test_replays.c: replays of fused recordings without synchronisation by the caller. Each replay
// waits for the previous one, on any queue and from any thread. Launches with more parts than 32
// bits can count are fused into several launches. A queue is retained during recording. Results of
// replays are in test_record.c.
#include "support/harness.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NORMS = 8, ROWS = 1500, WIDTH = 128, QUEUES = 4, TIMES = 4 };

static void expect(clattn_status status, const char *what) {
    ck_assert_msg(status == CLATTN_OK, "%s: %s", what, harness_log_text());
}

static bool is_pocl(void) {
    return strstr(clattn_context_capabilities(harness()->context)->platform, "Portable Computing Language");
}

static cl_command_queue open_queue(cl_command_queue_properties properties) {
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(harness()->opencl, harness()->device, properties, &code);
    harness_expect(code, "clCreateCommandQueue");
    return queue;
}

// In-order queues, and one out-of-order queue if the device supports them.
static void open_queues(cl_command_queue queues[QUEUES]) {
    for (int n = 0; n < QUEUES; n++)
        queues[n] =
            open_queue(CL_QUEUE_PROFILING_ENABLE |
                       (n == 1 && harness()->out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0));
}

static void close_queues(cl_command_queue queues[QUEUES]) {
    for (int n = 0; n < QUEUES; n++) clReleaseCommandQueue(queues[n]);
}

// A chain of norms, recorded and fused. Each norm reads the previous result. `want` has the result
// of plain calls, `got` that of a replay.
typedef struct norms {
    struct guarded x[NORMS + 1];
    clattn_recording *r;
    double *want, *got;
} norms;

static void enqueue_norms(norms *c) {
    for (int n = 0; n < NORMS; n++) {
        const clattn_norm_params p = {.x = c->x[n].view, .out = c->x[n + 1].view};
        expect(clattn_norm_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL), "norm");
    }
}

static void norms_open(norms *c) {
    const struct guarded_shape shape = {CLATTN_TYPE_F32, 3, {1, ROWS, WIDTH}, LAYOUT_DENSE};
    double *values = calloc(ROWS * WIDTH, sizeof *values);
    c->want = calloc(ROWS * WIDTH, sizeof *c->want), c->got = calloc(ROWS * WIDTH, sizeof *c->got);
    for (int n = 0; n < ROWS * WIDTH; n++) values[n] = sin(0.37 * n) + n % 3;
    for (int n = 0; n <= NORMS; n++) c->x[n] = guarded_in_out(harness_place(), &shape, values);
    free(values);
    enqueue_norms(c);
    ck_assert(guarded_read(&c->x[NORMS], harness()->queue, c->want));
    expect(clattn_recording_begin(harness()->context, harness()->queue, &c->r), "begin");
    enqueue_norms(c);
    expect(clattn_recording_end(c->r), "end");
    expect(clattn_recording_fuse(c->r), "fuse");
    ck_assert(!is_pocl() || clattn_recording_launches(c->r) == 1);
}

static void norms_close(norms *c) {
    clattn_recording_destroy(c->r);
    for (int n = 0; n <= NORMS; n++) guarded_release(&c->x[n]);
    free(c->want), free(c->got);
}

// Replay results equal those of the calls, also after another replay, so the counters were reset.
static void norms_check(norms *c) {
    const float none = 0.0f;
    ck_assert(guarded_read(&c->x[NORMS], harness()->queue, c->got));
    ck_assert(memcmp(c->want, c->got, ROWS * WIDTH * sizeof *c->got) == 0);
    harness_expect(clEnqueueFillBuffer(harness()->queue, c->x[NORMS].view.buffer, &none, sizeof none,
                                       (size_t)c->x[NORMS].view.offset * sizeof none,
                                       ROWS * WIDTH * sizeof none, 0, NULL, NULL),
                   "clEnqueueFillBuffer");
    expect(clattn_recording_enqueue(c->r, harness()->queue, 0, NULL, NULL), "replay");
    ck_assert(guarded_read(&c->x[NORMS], harness()->queue, c->got));
    ck_assert(memcmp(c->want, c->got, ROWS * WIDTH * sizeof *c->got) == 0);
}

START_TEST(on_several_queues) {
    cl_command_queue queues[QUEUES];
    norms c;
    norms_open(&c);
    open_queues(queues);
    for (int n = 0; n < QUEUES * TIMES; n++)
        expect(clattn_recording_enqueue(c.r, queues[n % QUEUES], 0, NULL, NULL), "replay");
    for (int n = 0; n < QUEUES; n++) harness_expect(clFlush(queues[n]), "clFlush");
    for (int n = 0; n < QUEUES; n++) harness_finish(queues[n]);
    norms_check(&c);
    close_queues(queues);
    norms_close(&c);
}
END_TEST

typedef struct replaying {
    clattn_recording *r;
    cl_command_queue queue;
    clattn_status status;
} replaying;

static void *replay_often(void *from) {
    replaying *t = from;
    for (int n = 0; n < TIMES && t->status == CLATTN_OK; n++)
        t->status = clattn_recording_enqueue(t->r, t->queue, 0, NULL, NULL);
    if (t->status == CLATTN_OK && clFinish(t->queue) != CL_SUCCESS) t->status = CLATTN_DRIVER;
    return NULL;
}

START_TEST(from_several_threads) {
    cl_command_queue queues[QUEUES];
    replaying of[QUEUES];
    pthread_t threads[QUEUES];
    norms c;
    norms_open(&c);
    open_queues(queues);
    for (int n = 0; n < QUEUES; n++) {
        of[n] = (replaying){c.r, queues[n], CLATTN_OK};
        ck_assert_int_eq(pthread_create(&threads[n], NULL, replay_often, &of[n]), 0);
    }
    for (int n = 0; n < QUEUES; n++) {
        ck_assert_int_eq(pthread_join(threads[n], NULL), 0);
        ck_assert_int_eq(of[n].status, CLATTN_OK);
    }
    norms_check(&c);
    close_queues(queues);
    norms_close(&c);
}
END_TEST

static cl_ulong time_of(cl_event event, cl_profiling_info what) {
    cl_ulong time = 0;
    harness_expect(clGetEventProfilingInfo(event, what, sizeof time, &time, NULL), "clGetEventProfilingInfo");
    return time;
}

// The first replay waits for a gate. Each other replay starts after the previous one has ended, by
// the device's clock. The caller may release a replay's queue at once.
START_TEST(behind_the_one_before) {
    cl_command_queue queues[QUEUES];
    cl_event gate = harness_gate(), events[QUEUES];
    norms c;
    norms_open(&c);
    open_queues(queues);
    for (int n = 0; n < QUEUES; n++)
        expect(clattn_recording_enqueue(c.r, queues[n], n == 0, n == 0 ? &gate : NULL, &events[n]), "replay");
    clReleaseCommandQueue(queues[0]);
    enqueue_norms(&c); // time in which a replay without a wait would run
    harness_finish(harness()->queue);
    harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
    harness_expect(clWaitForEvents(QUEUES, events), "clWaitForEvents");
    for (int n = 1; n < QUEUES && is_pocl(); n++)
        ck_assert_msg(time_of(events[n], CL_PROFILING_COMMAND_START) >=
                          time_of(events[n - 1], CL_PROFILING_COMMAND_END),
                      "replay %d begins before the one before has ended", n);
    norms_check(&c);
    for (int n = 0; n < QUEUES; n++) clReleaseEvent(events[n]);
    clReleaseEvent(gate);
    for (int n = 1; n < QUEUES; n++) clReleaseCommandQueue(queues[n]);
    norms_close(&c);
}
END_TEST

// Launches with 2.2 * 2^30 parts in all. Nothing runs; only the sum of the parts is checked.
START_TEST(more_parts_than_32_bits_count) {
    enum { PARTS = 6200000, LAUNCHES = 360 };
    const int64_t shape[] = {1, PARTS, 1};
    cl_int code;
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE, PARTS * sizeof(float), NULL, &code);
    harness_expect(code, "clCreateBuffer");
    clattn_activation_params p = {.activation = CLATTN_ACTIVATION_RELU};
    p.x = p.out = clattn_tensor_dense(buffer, CLATTN_TYPE_F32, 3, shape);
    clattn_recording *r;
    expect(clattn_recording_begin(harness()->context, harness()->queue, &r), "begin");
    for (int n = 0; n < LAUNCHES; n++)
        expect(clattn_activation_enqueue(harness()->context, harness()->queue, &p, 0, NULL, NULL), "call");
    expect(clattn_recording_end(r), "end");
    ck_assert_uint_eq(clattn_recording_launches(r), LAUNCHES);
    expect(clattn_recording_fuse(r), "fuse");
    ck_assert_msg(clattn_recording_launches(r) == 2 || !is_pocl(), "%zu launches",
                  clattn_recording_launches(r));
    clattn_recording_destroy(r);
    clReleaseMemObject(buffer);
}
END_TEST

static cl_uint references(cl_command_queue queue) {
    cl_uint count = 0;
    harness_expect(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
                   "clGetCommandQueueInfo");
    return count;
}

// A recording that never ends, that ends, and that is destroyed before its end.
START_TEST(queues_are_retained) {
    cl_command_queue queue = open_queue(0);
    clattn_recording *r, *other;
    for (int n = 0; n < 2; n++) {
        const cl_uint before = references(queue);
        expect(clattn_recording_begin(harness()->context, queue, &r), "begin");
        ck_assert_uint_eq(references(queue), before + 1);
        ck_assert_int_eq(clattn_recording_begin(harness()->context, queue, &other), CLATTN_INVALID_ARGUMENT);
        ck_assert_uint_eq(references(queue), before + 1);
        if (n == 0) expect(clattn_recording_end(r), "end");
        if (n == 0) ck_assert_uint_eq(references(queue), before);
        clattn_recording_destroy(r);
        ck_assert_uint_eq(references(queue), before);
    }
    clReleaseCommandQueue(queue);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {on_several_queues,     from_several_threads,
                                  behind_the_one_before, more_parts_than_32_bits_count,
                                  queues_are_retained,   NULL};
    Suite *suite = suite_create("replays");
    harness_add(suite, "replays", tests);
    return harness_run(suite);
}
