// test_threads_layer.c: projections, layers and merges in several threads at once, native and with
// CLBlast. The threads share one context, each with its own queue, or create and destroy their own
// contexts. Attention alone is in test_threads.c. Threads that wait for each other's builds are in
// test_building.c.
#include "support/case_assert.h"
#include "support/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4 };

// Each thread starts with a different case, so that first uses overlap.
static const char *const names[] = {
    "linear-f32-b1-h2-n20-d32-m64-full-clblast", "layer-f32-b1-h2-n9-d32-m64-causal-native",
    "linear-bf16-b2-h2-n3-d16-m48-full-native",  "layer-f32-b2-h2-n12-d16-m32-full-clblast-biases",
    "layer-bf16-b1-h4-hkv2-n9-d16-m48-causal",   "layer-f32-b1-h2-n12-d32-m64-causal-native-ropehalf",
    "linear-f16-b1-h2-n20-d32-m64-full-clblast", "attend-f32-b1-h2-n9-nkv32-d32-full-lse"};
#define NAMES ((int)(sizeof names / sizeof names[0]))

struct worker {
    pthread_t thread;
    int number, rounds;
    clattn_context *shared; // NULL: a new context for each round
    pthread_barrier_t *start;
    char why[512]; // "" if all went well
};

// Run the last case with its keys in two halves, and merge both results.
static clattn_status attend_in_halves(clattn_context *c, cl_command_queue queue, struct case_arrays *a,
                                      struct case_arrays *b) {
    clattn_attention_params *p[] = {&a->params, &b->params};
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < 2 && status == CLATTN_OK; n++) {
        p[n]->kv.k.shape[2] = p[n]->kv.v.shape[2] = 16;
        p[n]->kv.k.offset += 16 * 32 * n, p[n]->kv.v.offset += 16 * 32 * n;
        status = clattn_attention_enqueue(c, queue, p[n], 0, NULL, NULL);
    }
    const clattn_merge_params merge = {p[0]->out, p[0]->lse, p[1]->out, p[1]->lse};
    return status == CLATTN_OK ? clattn_merge_enqueue(c, queue, &merge, 0, NULL, NULL) : status;
}

static bool one_call(struct worker *w, clattn_context *c, cl_command_queue queue, const char *name) {
    struct test_case test;
    struct case_arrays arrays, other;
    if (!case_parse(name, &test, w->why)) return false;
    if (test.projection == CLATTN_PROJECTION_CLBLAST && !harness_has_clblast()) return true;
    test.seed += (uint64_t)w->number;
    struct case_data *data = case_make(&test);
    struct place place = *harness_place(); // a copy, because a case writes into its place
    case_bind(data, &place, &arrays);
    case_bind(data, &place, &other);
    const clattn_status status = test.op == CASE_ATTEND ? attend_in_halves(c, queue, &arrays, &other)
                                                        : case_enqueue(c, queue, &arrays, NULL);
    struct case_result got = case_collect(&arrays, queue, NULL);
    got.status = status;
    const bool good = case_agrees(data, &got, w->why, sizeof w->why);
    case_result_free(&got);
    case_unbind(&arrays);
    case_unbind(&other);
    case_free(data);
    return good;
}

static clattn_context *open_context(const char *cache) {
    clattn_context *c = NULL;
    const clattn_context_params params = {
        .device = harness()->device, .context = harness()->opencl, .cache_dir = cache};
    return clattn_context_create(&params, &c) == CLATTN_OK ? c : NULL;
}

static void *work(void *argument) {
    struct worker *w = argument;
    cl_int code;
    bool good = true;
    cl_command_queue queue = clCreateCommandQueue(harness()->opencl, harness()->device, 0, &code);
    harness_expect(code, "clCreateCommandQueue");
    pthread_barrier_wait(w->start);
    for (int round = 0; round < w->rounds && good; round++) {
        clattn_context *c = w->shared ? w->shared : open_context(getenv("CLATTN_TEST_CACHE"));
        good = c && one_call(w, c, queue, names[(w->number * 3 + round) % NAMES]);
        if (!w->shared) clattn_context_destroy(c);
    }
    if (!good && !w->why[0]) snprintf(w->why, sizeof w->why, "no context");
    clReleaseCommandQueue(queue);
    return NULL;
}

// Only the main thread may use Check's assertions, so workers record their failure in `why`.
static void run_workers(clattn_context *shared, int rounds) {
    struct worker workers[THREADS] = {0};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int n = 0; n < THREADS; n++) {
        workers[n].number = n, workers[n].rounds = rounds;
        workers[n].shared = shared;
        workers[n].start = &start;
        harness_expect(pthread_create(&workers[n].thread, NULL, work, &workers[n]), "pthread_create");
    }
    for (int n = 0; n < THREADS; n++) pthread_join(workers[n].thread, NULL);
    pthread_barrier_destroy(&start);
    for (int n = 0; n < THREADS; n++)
        ck_assert_msg(workers[n].why[0] == '\0', "thread %d: %s", n, workers[n].why);
}

// No kernel is built when the threads start.
START_TEST(one_context) {
    clattn_context *c = open_context(NULL);
    ck_assert_ptr_nonnull(c);
    run_workers(c, NAMES);
    clattn_context_destroy(c);
}
END_TEST

// The last thread to finish clears CLBlast's cache while others start.
START_TEST(contexts_come_and_go) {
    run_workers(NULL, 2);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {one_context, contexts_come_and_go, NULL};
    Suite *suite = suite_create("threads_layer");
    harness_add(suite, "threads", tests);
    return harness_run(suite);
}
