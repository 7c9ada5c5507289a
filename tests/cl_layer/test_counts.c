// test_counts.c: OpenCL calls of good cases, counted by the layer. Fallbacks (program/unfit.h), the
// compile limit and probes of promises must cost a good driver nothing. The first call of a context
// on a known CPU driver makes the recorded calls. Later calls only query queue and buffers, set
// arguments and launch.
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/layer_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 64

typedef struct counted {
    struct {
        const char *name;
        int count;
    } of[MOST_NAMES];
    int names;
} counted;

static void add(counted *c, const char *name) {
    int n = 0;
    while (n < c->names && strcmp(c->of[n].name, name) != 0) n++;
    ck_assert_int_lt(n, MOST_NAMES);
    if (n == c->names) c->of[c->names++].name = name, c->of[n].count = 0;
    c->of[n].count++;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// "clBuildProgram 1, clCreateKernel 1, ..."
static const char *text_of(counted *c, char text[1024]) {
    size_t used = 0;
    qsort(c->of, (size_t)c->names, sizeof c->of[0], by_name);
    text[0] = '\0';
    for (int n = 0; n < c->names && used < 1000; n++)
        used += (size_t)snprintf(text + used, 1024 - used, "%s%s %d", n ? ", " : "", c->of[n].name,
                                 c->of[n].count);
    return text;
}

static const char *calls_of(clattn_context *c, const struct place *place, const struct case_arrays *arrays,
                            char text[1024]) {
    const struct layer_control *layer = layer_client();
    counted all = {.names = 0};
    layer->arm(0, 0);
    const clattn_status status = case_enqueue(c, place->queue, arrays, NULL);
    const struct layer_armed armed = layer->disarm();
    harness_finish(place->queue);
    ck_assert_int_eq(status, CLATTN_OK);
    for (int n = 1; n <= armed.calls; n++) add(&all, layer->call(n));
    return text_of(&all, text);
}

// The record, for CPU devices with a known driver: kernels and buffers that the first call
// creates, and the launches, queries and arguments of every call. Fallbacks have added one call: a
// query of a built kernel's local memory.
static const struct good {
    const char *name;
    int kernels, buffers, launches, asks, arguments;
} goods[] = {
    {"attend-f32-b1-h2-n20-d16-causal-lse", 1, 0, 1, 25, 7},
    {"attend-f32-b1-h2-n1-nkv40-d16-full", 1, 0, 1, 20, 7},
    {"attend-f32-b1-h2-n3-nkv20-d16-causal-append3", 2, 0, 2, 30, 13},
    {"linear-f32-b1-h2-n40-d16-m32-full-native", 1, 0, 1, 15, 15},
    {"layer-f32-b1-h2-n10-d16-m32-causal-native", 1, 2, 1, 30, 20},
};

static void write_record(const struct good *g, char first[1024], char later[1024]) {
    char buffers[64] = "";
    if (g->buffers > 0) snprintf(buffers, sizeof buffers, "clCreateBuffer %d, ", g->buffers);
    snprintf(
        first, 1024,
        "clBuildProgram %d, %sclCreateKernel %d, clCreateProgramWithSource %d, clEnqueueNDRangeKernel %d, "
        "clGetCommandQueueInfo 3, clGetKernelWorkGroupInfo %d, clGetMemObjectInfo %d, clSetKernelArg %d",
        g->kernels, buffers, g->kernels, g->kernels, g->launches, 3 * g->kernels, g->asks, g->arguments);
    snprintf(later, 1024,
             "clEnqueueNDRangeKernel %d, clGetCommandQueueInfo 3, clGetMemObjectInfo %d, clSetKernelArg %d",
             g->launches, g->asks, g->arguments);
}

// A call that is not the first builds, creates and waits for nothing, on any device.
static void expect_plain(const struct good *g, const char *calls) {
    static const char *const names[] = {"clBuild",  "clCreate",  "clWait",
                                        "clFinish", "Profiling", "WorkGroupInfo"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        ck_assert_msg(!strstr(calls, names[n]), "%s: %s", g->name, calls);
}

static void count_calls(const struct good *g, clattn_context *c) {
    struct test_case test;
    struct case_arrays arrays;
    struct place place = *harness_place();
    const clattn_capabilities *of = clattn_context_capabilities(c);
    char text[1024], first[1024], later[1024], why[512];
    const bool recorded = of->is_cpu && of->driver_known;
    ck_assert_msg(case_parse(g->name, &test, why), "%s: %s", g->name, why);
    struct case_data *data = case_make(&test);
    place.context = c;
    write_record(g, first, later);
    case_bind(data, &place, &arrays);
    calls_of(c, &place, &arrays, text);
    if (recorded) ck_assert_str_eq(text, first);
    for (int n = 2; n <= 10; n++) {
        expect_plain(g, calls_of(c, &place, &arrays, text));
        if (recorded) ck_assert_str_eq(text, later);
    }
    case_unbind(&arrays);
    case_free(data);
    clattn_context_destroy(c);
}

// Also with a limit of compile time that is not reached.
START_TEST(good_calls_cost_what_they_did) {
    if (!layer_client()) return;
    for (int limited = 0; limited < 2; limited++)
        count_calls(&goods[_i], harness_open((clattn_context_params){
                                    .context = harness()->opencl, .compile_limit_ms = limited ? 600000 : 0}));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("counts");
    tcase_add_loop_test(harness_add(suite, "calls", (const TTest *const[]){NULL}),
                        good_calls_cost_what_they_did, 0, (int)(sizeof goods / sizeof goods[0]));
    return harness_run(suite);
}
