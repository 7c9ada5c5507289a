// test_pool.c: buffers that a context keeps for its calls. A repeated call creates no buffer, on
// every queue. A lent buffer is never lent again too early, with several threads and queues, and
// with calls that have not begun. Kept memory has a limit. The layer under the suite counts
// buffers. Failing calls are in test_faults.c.
#include "support/case_assert.h"
#include "support/harness.h"
#include "verification/reference/random.h"
#include "support/layer_client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 100

// Zeros without a layer, as under ThreadSanitizer.
static struct layer_counts counted(void) {
    struct layer_counts counts = {.misused = 0};
    if (!getenv("OPENCL_LAYERS")) return counts;
    ck_assert_ptr_nonnull(layer_client());
    layer_client()->count(&counts);
    return counts;
}
static long made(void) {
    return counted().created[LAYER_BUFFER];
}
static long live(void) {
    return counted().live[LAYER_BUFFER];
}

// Calls with tables, RoPE's frequencies, and each kind of scratch memory: RoPE'd copies, partial
// results, scores, conversions, a layer.
static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-alibi-sinks-qlen-kvlen",
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-flash-lse-ropehalf",
    "attend-f32-b2-h4-hkv2-n20-nkv33-d32-causal-unfused-lse-qlen",
    "decode-f16-b2-h4-hkv2-n1-nkv300-d32-full-decode-splits3",
    "layer-bf16-b1-h4-hkv2-n9-d16-m48-causal-native-biases",
    "layer-f32-b2-h2-n20-d32-m64-full-native-qlen-ropehalf",
};
#define NAMES ((int)(sizeof names / sizeof names[0]))

static void enqueue(const char *name, const struct case_arrays *arrays, cl_command_queue queue,
                    cl_event *done) {
    const clattn_status status = case_enqueue(harness()->context, queue, arrays, done);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
}

// Calls that have not begun, so that all of them borrow at once; then many more after they have.
static void repeat(cl_command_queue queue, const char *name, int at_once) {
    struct test_case test;
    struct case_arrays arrays;
    char why[512] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    struct case_data *data = case_make(&test);
    case_bind(data, harness_place(), &arrays);
    for (int n = 0; n < 3; n++) enqueue(name, &arrays, queue, NULL);
    harness_finish(queue);
    cl_event gate = harness_gate();
    harness_expect(clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL), "clEnqueueBarrierWithWaitList");
    for (int n = 0; n < at_once; n++) enqueue(name, &arrays, queue, NULL);
    harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
    clReleaseEvent(gate);
    harness_finish(queue);
    const long before = made();
    for (int n = 0; n < CALLS; n++) {
        enqueue(name, &arrays, queue, NULL);
        if (n % at_once == at_once - 1) harness_finish(queue);
    }
    const long after = made();
    ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "%s: %s", name, why);
    ck_assert_msg(after == before, "%s: %ld buffers in %d calls", name, after - before, CALLS);
    case_unbind(&arrays);
    case_free(data);
}

START_TEST(none_is_made_in_order) {
    repeat(harness()->queue, names[_i], CALLS);
}
END_TEST

START_TEST(none_is_made_out_of_order) {
    if (harness()->out_of_order) repeat(harness()->out_of_order, names[_i], 4);
}
END_TEST

// A call with tables that change from call to call, RoPE and partial results. Each call has its own
// result.
enum { BATCH = 2, HEADS = 4, KEYS = 300, SIZE = 32, RESULT = BATCH * HEADS * SIZE };

struct inputs {
    cl_mem q, k, v;
};

static cl_mem numbers(size_t count, uint64_t seed) {
    struct random random = {seed};
    cl_int code;
    float *all = malloc(count * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i < count; i++) all[i] = (float)random_uniform(&random, -1, 1);
    cl_mem buffer = clCreateBuffer(harness()->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   count * sizeof *all, all, &code);
    harness_expect(code, "clCreateBuffer");
    free(all);
    return buffer;
}

static void inputs_open(struct inputs *in) {
    *in = (struct inputs){numbers(RESULT, 1), numbers((size_t)BATCH * HEADS * KEYS * SIZE, 2),
                          numbers((size_t)BATCH * HEADS * KEYS * SIZE, 3)};
}
static void inputs_close(const struct inputs *in) {
    clReleaseMemObject(in->q), clReleaseMemObject(in->k), clReleaseMemObject(in->v);
}

// The lengths of each variety must only differ.
static clattn_status attend(clattn_context *c, const struct inputs *in, cl_command_queue queue, int variety,
                            cl_mem out, cl_event *done) {
    int32_t lengths[BATCH];
    for (int b = 0; b < BATCH; b++) lengths[b] = 1 + (variety * 37 + b * 11) % KEYS;
    clattn_attention_params p = {
        .q = clattn_tensor_bhsd(in->q, CLATTN_TYPE_F32, BATCH, HEADS, 1, SIZE),
        .kv = {.k = clattn_tensor_bhsd(in->k, CLATTN_TYPE_F32, BATCH, HEADS, KEYS, SIZE),
               .v = clattn_tensor_bhsd(in->v, CLATTN_TYPE_F32, BATCH, HEADS, KEYS, SIZE)},
        .out = clattn_tensor_bhsd(out, CLATTN_TYPE_F32, BATCH, HEADS, 1, SIZE),
        .score = {.kv_lengths = lengths},
        .rope = {.layout = CLATTN_ROPE_HALF, .base = 10000.0 + variety % 2},
        .kernel = CLATTN_KERNEL_DECODE,
        .splits = 3};
    const clattn_status status = clattn_attention_enqueue(c, queue, &p, 0, NULL, done);
    // the call has returned, so the caller may change the lengths
    for (int b = 0; b < BATCH; b++) lengths[b] = -1;
    return status;
}

// One run of many calls, and their results.
struct run {
    clattn_context *context;
    cl_command_queue queue;
    const struct inputs *in;
    int first, count;
    cl_mem out[CALLS];
};

static void run_open(struct run *r, clattn_context *context, cl_command_queue queue, const struct inputs *in,
                     int first, int count) {
    *r = (struct run){.context = context, .queue = queue, .in = in, .first = first, .count = count};
    for (int n = 0; n < count; n++) r->out[n] = numbers(RESULT, 4);
}
static bool run_enqueue(struct run *r) {
    for (int n = 0; n < r->count; n++)
        if (attend(r->context, r->in, r->queue, r->first + n, r->out[n], NULL) != CLATTN_OK) return false;
    return clFlush(r->queue) == CL_SUCCESS;
}

// The reference: the same calls one at a time, in a context of their own that keeps nothing.
static void run_close(struct run *r) {
    clattn_context *fresh = harness_open((clattn_context_params){.context = harness()->opencl});
    cl_mem out = numbers(RESULT, 5);
    float want[RESULT], got[RESULT];
    harness_finish(r->queue);
    for (int n = 0; n < r->count; n++) {
        ck_assert_int_eq(attend(fresh, r->in, harness()->queue, r->first + n, out, NULL), CLATTN_OK);
        harness_expect(
            clEnqueueReadBuffer(harness()->queue, out, CL_TRUE, 0, sizeof want, want, 0, NULL, NULL), "read");
        harness_expect(clEnqueueReadBuffer(r->queue, r->out[n], CL_TRUE, 0, sizeof got, got, 0, NULL, NULL),
                       "read");
        ck_assert_msg(memcmp(want, got, sizeof got) == 0, "call %d differs: %g instead of %g", n,
                      (double)got[0], (double)want[0]);
        clReleaseMemObject(r->out[n]);
    }
    clReleaseMemObject(out);
    clattn_context_destroy(fresh);
}

static cl_command_queue open_queue(bool in_order) {
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(
        harness()->opencl, harness()->device, in_order ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    harness_expect(code, "clCreateCommandQueue");
    return queue;
}

// New tables are written into the buffers of old ones, again and again. No buffer is created, and
// each call sees its own table.
START_TEST(tables_are_written_anew) {
    struct inputs in;
    struct run warm, run;
    inputs_open(&in);
    run_open(&warm, harness()->context, harness()->queue, &in, 0, 40);
    for (int n = 0; n < 2; n++) {
        ck_assert(run_enqueue(&warm));
        harness_finish(harness()->queue);
    }
    run_open(&run, harness()->context, harness()->queue, &in, 40, CALLS);
    const long before = made();
    for (int n = 0; n < CALLS; n++) {
        ck_assert_int_eq(attend(run.context, &in, run.queue, 40 + n, run.out[n], NULL), CLATTN_OK);
        if (n % 4 == 3) harness_finish(run.queue);
    }
    const long after = made();
    ck_assert_msg(after == before, "%ld buffers", after - before);
    run_close(&run);
    run_close(&warm);
    inputs_close(&in);
}
END_TEST

// Calls wait for a gate while calls run on another queue. There are more calls than the pool keeps
// buffers.
START_TEST(nothing_is_lent_too_early) {
    struct inputs in;
    struct run runs[3];
    inputs_open(&in);
    cl_command_queue queues[3] = {open_queue(true), open_queue(true),
                                  open_queue(harness()->out_of_order == NULL)};
    for (int round = 0; round < 3; round++) {
        cl_event gate = harness_gate();
        harness_expect(clEnqueueBarrierWithWaitList(queues[round], 1, &gate, NULL), "barrier");
        for (int n = 0; n < 3; n++)
            run_open(&runs[n], harness()->context, queues[n], &in, 50 * n + 7 * round,
                     n == round ? CALLS : 40);
        ck_assert(run_enqueue(&runs[round]));
        for (int n = 0; n < 3; n++)
            if (n != round) ck_assert(run_enqueue(&runs[n])), harness_finish(queues[n]);
        harness_expect(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
        for (int n = 0; n < 3; n++) run_close(&runs[n]);
        clReleaseEvent(gate);
    }
    for (int n = 0; n < 3; n++) clReleaseCommandQueue(queues[n]);
    inputs_close(&in);
}
END_TEST

#define THREADS 4
static void *work(void *argument) {
    struct run *r = argument;
    for (int n = 0; n < 3; n++)
        if (!run_enqueue(r)) r->count = -1;
    return NULL;
}

START_TEST(threads_share_a_context) {
    struct inputs in;
    struct run runs[THREADS];
    pthread_t threads[THREADS];
    clattn_context *c = harness_open((clattn_context_params){.context = harness()->opencl});
    inputs_open(&in);
    for (int n = 0; n < THREADS; n++)
        run_open(&runs[n], c, open_queue(n % 2 == 0 || !harness()->out_of_order), &in, 9 * n, 30);
    for (int n = 0; n < THREADS; n++)
        harness_expect(pthread_create(&threads[n], NULL, work, &runs[n]), "pthread_create");
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    for (int n = 0; n < THREADS; n++) {
        ck_assert_int_eq(runs[n].count, 30);
        run_close(&runs[n]);
        clReleaseCommandQueue(runs[n].queue);
    }
    clattn_context_destroy(c);
    inputs_close(&in);
}
END_TEST

// Queues are created and released, and tables differ: kept memory stays below the limits of pool.h,
// and is freed with the context.
START_TEST(what_is_kept_has_a_limit) {
    struct inputs in;
    inputs_open(&in);
    cl_mem out = numbers(RESULT, 6);
    clattn_context *c = harness_open((clattn_context_params){.context = harness()->opencl});
    const long before = live();
    for (int n = 0; n < 3 * CALLS; n++) {
        cl_command_queue queue = open_queue(n % 3 != 0 || !harness()->out_of_order);
        ck_assert_int_eq(attend(c, &in, queue, n, out, NULL), CLATTN_OK);
        harness_finish(queue);
        clReleaseCommandQueue(queue);
    }
    const long kept = live() - before;
    ck_assert_msg(kept >= 0 && kept <= 128 + 16, "%ld buffers are kept", kept);
    clattn_context_destroy(c);
    ck_assert_int_eq(live(), before);
    clReleaseMemObject(out);
    inputs_close(&in);
}
END_TEST

int main(void) {
    const TTest *const alone[] = {tables_are_written_anew, nothing_is_lent_too_early, threads_share_a_context,
                                  what_is_kept_has_a_limit, NULL};
    Suite *suite = suite_create("pool");
    TCase *group = harness_add(suite, "pool", alone);
    harness_add_loop(group, none_is_made_in_order, NAMES);
    harness_add_loop(group, none_is_made_out_of_order, NAMES);
    return harness_run(suite);
}
