// test_building.c: compilation beside running calls, on one context. A kernel that several threads
// need is built once. Meanwhile, threads that need other kernels do not wait. Also prints the time
// of the enqueues of eight threads while a ninth compiles; that figure cannot fail. Results under
// threads are in test_threads.c.
#include "support/case_assert.h"
#include "support/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNNERS 8
#define SHAPES 6 // shapes that one thread compiles while others run

static clattn_context *open_context(clattn_log log) {
    return harness_open((clattn_context_params){.context = harness()->opencl, .log = log});
}

static cl_command_queue open_queue(void) {
    cl_int status;
    cl_command_queue queue = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &status);
    harness_expect(status, "clCreateCommandQueue");
    return queue;
}

// A case that is ready to be enqueued repeatedly.
struct ready {
    struct case_data *data;
    struct case_arrays arrays;
};

static void ready_open(struct ready *r, const char *name) {
    struct test_case test;
    char why[256] = "";
    ck_assert_msg(case_parse(name, &test, why), "%s: %s", name, why);
    r->data = case_make(&test);
    case_bind(r->data, harness_place(), &r->arrays);
}

static void ready_close(struct ready *r) {
    case_unbind(&r->arrays);
    case_free(r->data);
}

static clattn_status ready_run(struct ready *r, clattn_context *c, cl_command_queue queue) {
    const clattn_status status = case_enqueue(c, queue, &r->arrays, NULL);
    return clFinish(queue) == CL_SUCCESS ? status : CLATTN_DRIVER;
}

// Head sizes that no other case has, so their kernels do not exist yet.
static clattn_status prepare_shape(clattn_context *c, int n) {
    clattn_attention_params p = {0};
    const int64_t d = 24 + 8 * n;
    p.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 48, d);
    p.kv.k = p.kv.v = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 48, d);
    p.out = p.q;
    return clattn_attention_prepare(c, &p);
}

static uint64_t built(clattn_context *c) {
    clattn_context_stats stats;
    clattn_context_get_stats(c, &stats);
    return stats.programs_built;
}

struct asker {
    pthread_t thread;
    clattn_context *context;
    pthread_barrier_t *start;
    clattn_status status;
};

static void *ask(void *argument) {
    struct asker *a = argument;
    pthread_barrier_wait(a->start);
    for (int n = 0; n < 3 && a->status == CLATTN_OK; n++) a->status = prepare_shape(a->context, n);
    return NULL;
}

START_TEST(threads_that_want_the_same_build_it_once) {
    clattn_context *alone = open_context((clattn_log){0}), *shared = open_context((clattn_log){0});
    struct asker askers[RUNNERS];
    pthread_barrier_t start;
    for (int n = 0; n < 3; n++) ck_assert_int_eq(prepare_shape(alone, n), CLATTN_OK);
    ck_assert_uint_ge(built(alone), 3);
    pthread_barrier_init(&start, NULL, RUNNERS);
    for (int n = 0; n < RUNNERS; n++) {
        askers[n] = (struct asker){.context = shared, .start = &start, .status = CLATTN_OK};
        harness_expect(pthread_create(&askers[n].thread, NULL, ask, &askers[n]), "pthread_create");
    }
    for (int n = 0; n < RUNNERS; n++) pthread_join(askers[n].thread, NULL);
    for (int n = 0; n < RUNNERS; n++) ck_assert_int_eq(askers[n].status, CLATTN_OK);
    ck_assert_uint_eq(built(shared), built(alone));
    pthread_barrier_destroy(&start);
    clattn_context_destroy(alone);
    clattn_context_destroy(shared);
}
END_TEST

// The library logs a kernel before other threads can use it. The callback stops there until the
// other thread is done. If the library held a lock then, the test would never end.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool armed, inside, done, timed_out;
} moment = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hold_moment(void *user, clattn_log_level level, const char *message) {
    struct timespec end;
    (void)user, (void)level;
    if (strncmp(message, "kernel ", 7) != 0 || !strstr(message, " built ")) return;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    pthread_mutex_lock(&moment.lock);
    if (moment.armed) {
        moment.inside = true;
        pthread_cond_broadcast(&moment.changed);
        while (!moment.done && !moment.timed_out)
            moment.timed_out = pthread_cond_timedwait(&moment.changed, &moment.lock, &end) != 0;
    }
    pthread_mutex_unlock(&moment.lock);
}

static void *prepare_one(void *argument) {
    clattn_context *c = argument;
    return prepare_shape(c, 0) == CLATTN_OK ? c : NULL;
}

static void wait_until_inside(void) {
    pthread_mutex_lock(&moment.lock);
    while (!moment.inside) pthread_cond_wait(&moment.changed, &moment.lock);
    pthread_mutex_unlock(&moment.lock);
}

static const char *const ready_names[] = {
    "attend-f32-b1-h2-n40-d64-full", "decode-f32-b1-h4-hkv2-n1-nkv70-d64-causal",
    "linear-f32-b1-h2-n20-d32-m64-full-native", "layer-f32-b1-h2-n20-d32-m64-full-native"};
#define READY ((int)(sizeof ready_names / sizeof ready_names[0]))

START_TEST(a_build_holds_up_nobody) {
    clattn_context *c = open_context((clattn_log){.fn = hold_moment, .level = CLATTN_LOG_INFO});
    cl_command_queue queue = open_queue();
    struct ready ready[READY];
    pthread_t builder;
    void *prepared = NULL;
    for (int n = 0; n < READY; n++) {
        ready_open(&ready[n], ready_names[n]);
        ck_assert_int_eq(ready_run(&ready[n], c, queue), CLATTN_OK);
    }
    moment.armed = true;
    harness_expect(pthread_create(&builder, NULL, prepare_one, c), "pthread_create");
    wait_until_inside();
    const uint64_t before = built(c);
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < READY && status == CLATTN_OK; n++) status = ready_run(&ready[n], c, queue);
    clattn_context_save_kernels(c);
    pthread_mutex_lock(&moment.lock);
    moment.armed = false, moment.done = true;
    pthread_cond_broadcast(&moment.changed);
    pthread_mutex_unlock(&moment.lock);
    pthread_join(builder, &prepared);
    ck_assert_msg(!moment.timed_out, "a thread that needed no new kernel waited for one that was built");
    ck_assert_ptr_nonnull(prepared);
    ck_assert_int_eq(status, CLATTN_OK);
    ck_assert_uint_gt(built(c), before);
    for (int n = 0; n < READY; n++) ready_close(&ready[n]);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(c);
}
END_TEST

struct runner {
    pthread_t thread;
    clattn_context *context;
    cl_command_queue queue;
    struct ready ready;
    const bool *stop;
    pthread_mutex_t *lock; // of stop
    clattn_status status;
    uint64_t longest_ns, calls;
};

static bool is_over(struct runner *r) {
    pthread_mutex_lock(r->lock);
    const bool over = *r->stop;
    pthread_mutex_unlock(r->lock);
    return over;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *keep_running(void *argument) {
    struct runner *r = argument;
    while (!is_over(r) && r->status == CLATTN_OK) {
        const uint64_t start = now_ns();
        r->status = case_enqueue(r->context, r->queue, &r->ready.arrays, NULL);
        const uint64_t time = now_ns() - start;
        if (time > r->longest_ns) r->longest_ns = time;
        r->calls++;
        if (clFinish(r->queue) != CL_SUCCESS) r->status = CLATTN_DRIVER;
    }
    return NULL;
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// Run all for a while, with or without a thread that compiles meanwhile. Returns the longest
// enqueue in milliseconds.
static double longest(struct runner runners[RUNNERS], clattn_context *c, int shapes, bool *stop,
                      uint64_t *calls) {
    uint64_t most = 0;
    *stop = false, *calls = 0;
    for (int n = 0; n < RUNNERS; n++) {
        runners[n].longest_ns = runners[n].calls = 0;
        harness_expect(pthread_create(&runners[n].thread, NULL, keep_running, &runners[n]), "pthread_create");
    }
    for (int n = 0; n < shapes; n++) ck_assert_int_eq(prepare_shape(c, n), CLATTN_OK);
    if (!shapes) sleep_ms(500);
    pthread_mutex_lock(runners[0].lock);
    *stop = true;
    pthread_mutex_unlock(runners[0].lock);
    for (int n = 0; n < RUNNERS; n++) {
        pthread_join(runners[n].thread, NULL);
        ck_assert_int_eq(runners[n].status, CLATTN_OK);
        most = runners[n].longest_ns > most ? runners[n].longest_ns : most;
        *calls += runners[n].calls;
    }
    return (double)most / 1e6;
}

START_TEST(enqueues_beside_a_compiler) {
    clattn_context *c = open_context((clattn_log){0});
    struct runner runners[RUNNERS];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool stop = false;
    uint64_t quiet_calls, calls;
    for (int n = 0; n < RUNNERS; n++) {
        runners[n] = (struct runner){.context = c, .queue = open_queue(), .stop = &stop, .lock = &lock};
        ready_open(&runners[n].ready, ready_names[n % READY]);
        ck_assert_int_eq(ready_run(&runners[n].ready, c, runners[n].queue), CLATTN_OK);
    }
    const double quiet = longest(runners, c, 0, &stop, &quiet_calls);
    const uint64_t before = built(c);
    const double beside = longest(runners, c, SHAPES, &stop, &calls);
    ck_assert_uint_gt(built(c), before);
    printf("longest of %llu enqueues of %d threads: %.2f ms; of %llu beside a thread that built %llu "
           "kernels: %.2f ms\n",
           (unsigned long long)quiet_calls, RUNNERS, quiet, (unsigned long long)calls,
           (unsigned long long)(built(c) - before), beside);
    for (int n = 0; n < RUNNERS; n++) {
        ready_close(&runners[n].ready);
        clReleaseCommandQueue(runners[n].queue);
    }
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    // PoCL's cache of an earlier run would make the kernels ready at once.
    char folder[] = "/tmp/clattn-building-XXXXXX", command[128];
    if (!mkdtemp(folder) || setenv("POCL_CACHE_DIR", folder, 1) != 0) return HARNESS_BROKEN;
    const TTest *const tests[] = {threads_that_want_the_same_build_it_once, a_build_holds_up_nobody,
                                  enqueues_beside_a_compiler, NULL};
    Suite *suite = suite_create("building");
    harness_add(suite, "building", tests);
    const int result = harness_run(suite);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? result : HARNESS_BROKEN;
}
