// test_threads.c: four threads share one context, each with its own queue and shapes. All need
// kernels that are not compiled yet. Single-threaded calls are in every other suite.
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/small_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define ROUNDS (harness_every() > 1 ? 4 : 12)

struct worker {
    pthread_t thread;
    int number;
    clattn_context *context;
    cl_command_queue queue;
    pthread_barrier_t *start;
    int options;   // the first option, in rounds over options; else -1
    char why[512]; // "" without an error
};

// Threads 0 and 1 need the same kernels at the same moment. Threads 2 and 3 differ in head size and
// storage type.
static struct test_case shape_of(int thread, int round) {
    static const int64_t head_dims[THREADS] = {32, 32, 48, 40};
    struct test_case test = {.name = "threads", .batch = 2, .heads = 4, .kv_heads = 2};
    test.n_q = 1 + (round * 7 + thread * 5) % 23;
    test.n_kv = 9 + (round * 11 + thread * 3) % 40;
    test.head_dim = head_dims[thread];
    if (thread == 3) test.q_type = test.kv_type = test.out_type = CLATTN_TYPE_F16;
    test.seed = (uint64_t)(thread * 100 + round);
    test.kernel = case_kernel(round % 3);
    test.score.causal = round % 2;
    if (round % 4 == 3) test.rope.layout = CLATTN_ROPE_HALF;
    test.hosts = round % 5 == 4 ? CASE_HOST_BIT(CASE_SINKS) : 0;
    return test;
}

// Layouts of keys and expressions: each has its own tables, copies and kernels.
static const char *const options[] = {
    "attend-f32-b2-h4-hkv2-n3-nkv37-d32-causal-flash-lse-past30:30:7-ropehalf-positions",
    "attend-f32-b2-h4-hkv2-n3-nkv36-d32-causal-flash-lse-pages4-kvlen36:9",
    "attend-f32-b2-h4-hkv2-n3-nkv37-d32-causal-flash-lse-kvlen37:9-append3",
    "attend-f32-b3-h4-hkv2-n9-nkv37-d32-causal-flash-lse-qlen9:0:4-kvlen37:25:1-raggedhost",
    "attend-f32-b3-h4-hkv2-n9-nkv37-d32-causal-flash-lse-qlen9:0:4-kvlen37:25:1-raggeddevice",
    "attend-f32-b2-h4-hkv2-n9-nkv37-d32-causal-flash-lse-dropout0.3:7",
    "attend-f32-b2-h4-hkv2-n9-nkv37-d32-causal-flash-lse-alibi-mods-blocks"};
enum { OPTIONS = sizeof options / sizeof options[0] };

// Each thread has its own queue.
static struct place own_place(const struct worker *worker) {
    struct place place = *harness_place();
    place.context = worker->context, place.queue = worker->queue;
    return place;
}

// A small call writes what it wrote before, while other threads call.
static bool one_small_call(struct worker *worker, int which) {
    struct small_call call;
    double first = 0, second = 0;
    struct place place = own_place(worker);
    bool good = true;
    for (int n = 0; n < 2; n++) { // each on memory of its own, because a shift changes its input
        small_open(&call, which, &place);
        good = small_enqueue(&call, worker->context, worker->queue, 0, NULL, NULL) == CLATTN_OK &&
               small_intact(&call, worker->queue, n ? &second : &first) && good;
        small_close(&call);
    }
    if (!good || first != second)
        snprintf(worker->why, sizeof worker->why, "%s: %.17g, then %.17g", small_names[which], first, second);
    return worker->why[0] == '\0';
}

static bool one_round(struct worker *worker, int round) {
    struct test_case test = shape_of(worker->number, round);
    const int option = (worker->options + round) % (OPTIONS + SMALL_CALLS);
    if (worker->options >= 0 && option >= OPTIONS) return one_small_call(worker, option - OPTIONS);
    if (worker->options >= 0 && !case_parse(options[option], &test, worker->why)) return false;
    struct case_data *data = case_make(&test);
    struct case_arrays arrays;
    struct place place = own_place(worker);
    case_bind(data, &place, &arrays);
    harness_log_clear();
    clattn_status status =
        clattn_attention_enqueue(worker->context, worker->queue, &arrays.params, 0, NULL, NULL);
    struct case_result got = case_collect(&arrays, worker->queue, NULL);
    got.status = status;
    bool good = case_agrees(data, &got, worker->why, sizeof worker->why);
    case_result_free(&got);
    case_unbind(&arrays);
    case_free(data);
    return good;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    pthread_barrier_wait(worker->start);
    for (int round = 0; round < ROUNDS; round++)
        if (!one_round(worker, round)) break;
    return NULL;
}

// Only the main thread may use Check's assertions, so a worker only notes an error.
static void run_workers(clattn_context *context, bool with_options) {
    struct worker workers[THREADS] = {0};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int n = 0; n < THREADS; n++) {
        cl_int status;
        workers[n].number = n;
        // two threads begin with the same option
        workers[n].options = with_options ? n / 2 * 5 : -1;
        workers[n].context = context;
        workers[n].start = &start;
        workers[n].queue = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &status);
        harness_expect(status, "clCreateCommandQueue");
        harness_expect(pthread_create(&workers[n].thread, NULL, work, &workers[n]), "pthread_create");
    }
    for (int n = 0; n < THREADS; n++) pthread_join(workers[n].thread, NULL);
    for (int n = 0; n < THREADS; n++) clReleaseCommandQueue(workers[n].queue);
    pthread_barrier_destroy(&start);
    for (int n = 0; n < THREADS; n++)
        ck_assert_msg(workers[n].why[0] == '\0', "thread %d: %s", n, workers[n].why);
}

START_TEST(one_context) {
    run_workers(harness()->context, false);
}
END_TEST

START_TEST(options_at_once) {
    run_workers(harness()->context, true);
}
END_TEST

// A context without kernels and without a cache on disk: first uses race.
START_TEST(first_use) {
    clattn_context_params params = {.device = harness()->device, .context = harness()->opencl};
    clattn_context *context = NULL;
    params.log = harness_log();
    ck_assert(clattn_context_create(&params, &context) == CLATTN_OK);
    run_workers(context, false);
    clattn_context_destroy(context);
}
END_TEST

static void *refuse(void *argument) {
    struct worker *worker = argument;
    char text[256];
    clattn_plan plan;
    clattn_attention_params params = {0};
    for (int round = 0; round < 500; round++) {
        harness_log_clear();
        clattn_status status = clattn_attention_plan(worker->context, &params, &plan);
        clattn_context_last_error(worker->context, text, sizeof text);
        if (status == CLATTN_INVALID_ARGUMENT && harness_log_count() == 1 && strchr(text, '\n') == NULL)
            continue;
        snprintf(worker->why, sizeof worker->why, "%s, %d messages", clattn_status_name(status),
                 harness_log_count());
    }
    return NULL;
}

// Failing calls of several threads log on their own threads, and last_error is always one complete
// message.
START_TEST(errors_at_once) {
    struct worker workers[THREADS] = {0};
    for (int n = 0; n < THREADS; n++) {
        workers[n].context = harness()->context;
        harness_expect(pthread_create(&workers[n].thread, NULL, refuse, &workers[n]), "pthread_create");
    }
    for (int n = 0; n < THREADS; n++) pthread_join(workers[n].thread, NULL);
    for (int n = 0; n < THREADS; n++)
        ck_assert_msg(workers[n].why[0] == '\0', "thread %d: %s", n, workers[n].why);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {first_use, one_context, options_at_once, errors_at_once, NULL};
    Suite *suite = suite_create("threads");
    harness_add(suite, "threads", tests);
    return harness_run(suite);
}
