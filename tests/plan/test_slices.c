// test_slices.c: work that is cut into slices (device/launch_slicing.h), tested inside the library:
// cuts of grids and rows, and the learned rate. Also identical results with one slice and many,
// progress callbacks and cancellation. Results of calls are in every other suite.
#include "support/case_assert.h"
#include "support/harness.h"
#include "support/layer_client.h"

#include "program/program.h"
#include "verification/reference/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

START_TEST(grids_are_cut) {
    static const struct {
        size_t global[3], local[3];
        bool first;
        double flops, most;
        size_t want[3];
    } cases[] = {
        {{128, 4, 2}, {128, 1, 1}, false, 1000, 1000, {128, 4, 2}},
        {{128, 4, 2}, {128, 1, 1}, false, 1000, INFINITY, {128, 4, 2}},
        {{128, 4, 2}, {128, 1, 1}, false, 1000, 500, {128, 4, 1}},
        {{128, 4, 2}, {128, 1, 1}, false, 1000, 400, {128, 3, 1}},
        {{128, 4, 2}, {128, 1, 1}, false, 1000, 1, {128, 1, 1}},
        {{128, 4, 2}, {16, 2, 1}, true, 1000, 1, {16, 2, 1}},
        {{128, 4, 2}, {16, 2, 1}, true, 1000, 100, {48, 2, 1}},
        {{128, 70000, 40000}, {64, 1, 1}, false, 0, 1, {128, PACE_GRID, PACE_GRID}},
        {{128, 0, 2}, {64, 1, 1}, true, 1000, 1, {128, 0, 2}},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        size_t got[3];
        cla_pace_cut(cases[n].global, cases[n].local, cases[n].first, cases[n].flops, cases[n].most, got);
        for (int i = 0; i < 3; i++)
            ck_assert_msg(got[i] == cases[n].want[i], "case %zu: %zu in dimension %d", n, got[i], i);
    }
}
END_TEST

// For any grid: no part exceeds the limit unless it is one group. A part has at least half of the
// limit if possible.
START_TEST(any_grid_is_cut) {
    struct random random = {_i + 1};
    for (int n = 0; n < 1000; n++) {
        size_t local[3], global[3], step[3];
        const bool first = n % 2;
        double all = 1.0, part = 1.0;
        for (int i = 0; i < 3; i++) {
            local[i] = (size_t)1 << (int)random_uniform(&random, 0, i ? 3 : 7);
            global[i] = local[i] * (size_t)exp(random_uniform(&random, 0, i ? 5 : 9));
            all *= (double)global[i];
        }
        const double most = all * exp(random_uniform(&random, -12, 1));
        cla_pace_cut(global, local, first, all, most, step);
        bool least = true;
        for (int i = 0; i < 3; i++) {
            ck_assert(step[i] >= local[i] && step[i] <= global[i] && step[i] % local[i] == 0);
            part *= (double)step[i];
            least = least && (step[i] == local[i] || (i == 0 && !first));
        }
        ck_assert_msg(part <= most * (1 + 1e-9) || least, "%g of %g", part, most);
        const bool whole = step[0] == global[0] && step[1] == global[1] && step[2] == global[2];
        ck_assert_msg(part >= most / 2.0001 || whole || !first, "%g of %g: too little", part, most);
    }
}
END_TEST

START_TEST(rows_are_cut) {
    ck_assert_int_eq(cla_pace_rows(1000, 16, 10.0, 1e9), 1000);
    ck_assert_int_eq(cla_pace_rows(1000, 16, 10.0, INFINITY), 1000);
    ck_assert_int_eq(cla_pace_rows(1000, 16, 10.0, 5000), 496);
    ck_assert_int_eq(cla_pace_rows(1000, 16, 10.0, 9999), 992);
    ck_assert_int_eq(cla_pace_rows(1000, 16, 10.0, 10.0), 16);
    ck_assert_int_eq(cla_pace_rows(10, 16, 10.0, 10.0), 10);
    ck_assert_int_eq(cla_pace_rows(1000, 16, 0.0, 0.0), 1000);
}
END_TEST

static clattn_context *context;
// Use the kernels for GPUs, whose tiles have few rows.
static void setup(void) {
    context = harness_open((clattn_context_params){
        .context = harness()->opencl,
        .log = harness_log(),
        .tuned_rows = "flash :\ndecode_groups :\nlinear_rows nq=..64 :\nlinear_tiles :\n"});
}
static void teardown(void) {
    clattn_context_destroy(context);
}

// A rate is learned from launches that last long enough. It drops at once, and rises by half per
// launch.
START_TEST(rates_are_learned) {
    clattn_capabilities unknown = {.name = ""}, known = {.compute_units = 10, .clock_mhz = 1000};
    ck_assert_double_eq(cla_pace_start_rate(&known), 10 * 1e9 * PACE_START_FLOPS);
    ck_assert_double_gt(cla_pace_start_rate(&unknown), 0.0);
    const double start = cla_pace_start_rate(&context->capabilities);
    pace_rate rate = {0};
    context->pace->cuts_all = true;
    ck_assert_double_eq_tol(cla_pace_most(context, &rate, false), start * PACE_SECONDS, 1e-3 * start);
    cla_pace_learn(context, &rate, start * 1e-6, 1e-3, false); // too short to prove a slow rate
    ck_assert_double_eq(rate.flops, 0.0);
    cla_pace_learn(context, &rate, start, 2.0, false);
    ck_assert_double_eq_tol(rate.flops, start / 2, 1e-3 * start);
    cla_pace_learn(context, &rate, start, 0.5, false);
    ck_assert_double_eq_tol(rate.flops, start * 1.25, 1e-3 * start);
    cla_pace_learn(context, &rate, start, 10.0, false);
    ck_assert_double_eq_tol(rate.flops, start * 0.1, 1e-3 * start);
    cla_pace_learn(context, &rate, start, 100.0, true); // the launch may have waited
    ck_assert_double_eq_tol(rate.flops, start * 0.1, 1e-3 * start);
    cla_pace_learn(context, &rate, 0.0, 1.0, false);
    cla_pace_learn(context, &rate, 1.0, 0.0, false);
    ck_assert_double_eq_tol(rate.flops, start * 0.1, 1e-3 * start);
}
END_TEST

// Launches on a CPU are cut only if the caller has a progress callback. On other devices they are
// always cut.
START_TEST(who_is_cut) {
    const pace_rate rate = {0};
    context->capabilities.is_cpu = true;
    ck_assert(isinf(cla_pace_most(context, &rate, false)));
    ck_assert(!isinf(cla_pace_most(context, &rate, true)));
    context->capabilities.is_cpu = false;
    ck_assert(!isinf(cla_pace_most(context, &rate, false)));
}
END_TEST

static const char *const names[] = {
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-causal-flash-padded-lse-alibi-sinks-qlen-kvlen-ropehalf-devicesinks",
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-causal-flash-lse-maskbhqk-biasqk",
    "attend-f32-b1-h2-n70-nkv83-d32-full-flash-bottomright-window9:3-dropout0.4:5",
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-causal-flash-lse-maskbhqk-biasqk-qlen-mods",
    "attend-f32-b1-h2-n150-nkv183-d32-causal-flash-lse-maskqk-mods-blocks",
    "attend-bf16-b1-h2-n70-nkv83-d40-dv24-causal-flash-bshd-lse-biasbhqk",
    "attend-f32-b2-h4-hkv2-n70-nkv83-d32-causal-unfused-padded-lse-weights-biasqk-qlen",
    "attend-f32-b2-h2-n70-nkv83-d32-full-unfused-weights-scoresraw-alibi",
    "attend-f16-b2-h2-n70-nkv83-d32-full-unfused-weights-scoressoftmax-dropout0.5:9",
    "decode-f16-b2-h4-hkv2-n3-nkv300-d32-full-decode-splits3-dropout0.3:1",
    "attend-f32-b4-h4-hkv2-n70-nkv183-d32-causal-lse-qlen70:0:3:33-kvlen83:9:183:40-raggedhost",
    "attend-f32-b4-h4-hkv2-n70-nkv83-d32-causal-flash-lse-qlen70:0:3:33-kvlen83:9:50:40-raggedgapsdevice",
    "layer-f32-b2-h2-n70-d32-m64-causal-native-padded-ropehalf",
    "layer-f16-b2-h4-hkv2-n70-d32-m64-causal-native-biases-qlen-kvlen-ropeinterleaved",
    "layer-f32-b2-h2-n150-d64-m64-full-clblast-biases-ropehalf",
    "layer-bf16-b1-h2-n150-d64-m64-full-clblast",
    "linear-f32-b2-h2-n150-d64-m200-full-native",
    "linear-bf16-b2-h2-n20-d32-m64-full-native",
    "linear-f32-b2-h2-n150-d64-m200-full-clblast",
};
#define NAMES ((int)(sizeof names / sizeof names[0]))

// Forget the learned rates, so that the pace is that of a new context.
static void forget(void) {
    if (cla_pace_begin(context)) cla_pace_end(context, &(pace_timed){0});
    for (program *p = context->programs; p; p = p->next) p->rate.flops = 0.0;
    context->pace->clblast.flops = 0.0;
}

static bool is_built(const char *name) {
    return harness_has_clblast() || !strstr(name, "clblast");
}

// Run the case in a context with slices of at most `most` operations. Returns the number of
// launches.
static int run(const char *name, double most, cl_command_queue queue) {
    struct case_arrays arrays;
    char why[512] = "";
    struct case_data *data = case_open(name, &arrays);
    forget();
    context->pace->cuts_all = true;
    context->pace->seconds = most / cla_pace_start_rate(&context->capabilities);
    layer_client()->arm(0, 0);
    const clattn_status status = case_enqueue(context, queue, &arrays, NULL);
    const int count = layer_client_count("clEnqueueNDRangeKernel");
    ck_assert_msg(status == CLATTN_OK, "%s: %s", name, harness_log_text());
    ck_assert_msg(case_holds(data, &arrays, queue, why, sizeof why), "%s in %d launches: %s", name, count,
                  why);
    case_unbind(&arrays);
    case_free(data);
    return count;
}

START_TEST(slices_give_the_same) {
    cl_command_queue queues[] = {harness()->queue, harness()->out_of_order};
    for (int n = 0; is_built(names[_i]) && n < 2 && queues[n]; n++) {
        (void)run(names[_i], INFINITY, queues[n]); // this run may run probes
        const int one = run(names[_i], INFINITY, queues[n]), few = run(names[_i], 2e5, queues[n]),
                  most = run(names[_i], 1.0, queues[n]);
        ck_assert_msg(one < few || one < most, "%s: %d, %d and %d launches", names[_i], one, few, most);
        ck_assert_int_ge(most, few);
    }
}
END_TEST

struct heard {
    int calls, cancel_at;
    double last;
    bool grows;
};
static bool hear(void *user, double done) {
    struct heard *h = user;
    h->grows = h->grows && done > h->last && done <= 1.0;
    h->last = done;
    return ++h->calls != h->cancel_at;
}

static clattn_status listen(struct case_arrays *arrays, struct heard *h, int cancel_at, cl_event *event) {
    const clattn_progress progress = {hear, h};
    *h = (struct heard){.cancel_at = cancel_at, .grows = true};
    arrays->params.progress = arrays->layer.progress = &progress;
    harness_log_clear();
    return case_enqueue(context, harness()->queue, arrays, event);
}

// The callback is called after every slice, and at the end when nothing of the call runs any more.
// A cancelled call starts no further slice.
START_TEST(progress) {
    struct case_arrays arrays;
    struct heard h;
    char why[512] = "";
    cl_event event = NULL;
    if (strncmp(names[_i], "linear", 6) == 0 || !is_built(names[_i])) return;
    struct case_data *data = case_open(names[_i], &arrays);
    forget();
    context->pace->seconds = 1.0 / cla_pace_start_rate(&context->capabilities);
    ck_assert_int_eq(listen(&arrays, &h, 0, &event), CLATTN_OK);
    cl_int state = CL_QUEUED;
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    ck_assert_int_eq(state, CL_COMPLETE);
    clReleaseEvent(event);
    ck_assert(h.grows && h.last == 1.0);
    ck_assert_int_ge(h.calls, 2);
    const int all = h.calls;
    ck_assert(case_holds(data, &arrays, harness()->queue, why, sizeof why));
    for (int at = 1; at < all; at += 1 + all / 5) {
        ck_assert_int_eq(listen(&arrays, &h, at, &event), CLATTN_CANCELLED);
        ck_assert(h.calls == at && h.grows && h.last < 1.0 && event == NULL);
        ck_assert_ptr_nonnull(strstr(harness_log_text(), "progress"));
    }
    ck_assert_int_eq(listen(&arrays, &h, all, NULL), CLATTN_OK); // too late
    ck_assert_int_eq(listen(&arrays, &h, 0, NULL), CLATTN_OK);
    ck_assert_msg(case_holds(data, &arrays, harness()->queue, why, sizeof why), "after a cancelled one: %s",
                  why);
    case_unbind(&arrays);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const alone[] = {grids_are_cut, rows_are_cut, rates_are_learned, who_is_cut, NULL};
    Suite *suite = suite_create("slices");
    TCase *group = harness_add(suite, "slices", alone);
    tcase_add_checked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, any_grid_is_cut, 0, 3);
    harness_add_loop(group, slices_give_the_same, NAMES);
    harness_add_loop(group, progress, NAMES);
    return harness_run(suite);
}
