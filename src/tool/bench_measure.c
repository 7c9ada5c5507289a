// measure.c: see measure.h.
//
// Device time runs from a marker to the end of the call's last command. For a short call both are enqueued
// behind a user event, so that the time contains no enqueueing; wall time then comes from a second run
// without that event.
#include "tool/bench_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/bench_check.h"
#include "evidence/model.h"

#define LEAST_REPEATS 5
#define MOST_REPEATS 1000
#define DEFAULT_MS 1000.0
#define SHORT_NS 5e7 // of a call longer than this, enqueueing is nothing

typedef struct times {
    double device[MOST_REPEATS], wall[MOST_REPEATS];
    int64_t count;
} times;

static bench_status failed(char why[256], const char *what) {
    snprintf(why, 256, "%s", what);
    return BENCH_FAIL;
}

static bool end_of(cl_event event, cl_ulong *end) {
    cl_int state = CL_QUEUED;
    return clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) ==
               CL_SUCCESS &&
           state == CL_COMPLETE &&
           clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *end, end, NULL) == CL_SUCCESS;
}

typedef struct duration {
    double device, wall; // ns
} duration;

// A driver whose clock says nothing, or more than the host has seen pass, gives wall time twice.
static double device_ns(cl_event marker, cl_event call, double wall) {
    cl_ulong start = 0, end = 0;
    if (!marker || !call || !end_of(marker, &start) || !end_of(call, &end) || !start || end <= start)
        return wall;
    const double ns = (double)(end - start);
    return ns > wall ? wall : ns;
}

static bench_status run(problem *p, bool gated, duration *d, char why[256]) {
    cl_event marker = NULL, call = NULL, gate = NULL;
    cl_command_queue queue = p->session->queue;
    if (gated) gate = clCreateUserEvent(clattn_context_opencl(p->session->context), NULL);
    const uint64_t start = tool_time_ns();
    clEnqueueMarkerWithWaitList(queue, gate ? 1 : 0, gate ? &gate : NULL, &marker);
    bench_status status = problem_enqueue(p, &call, why);
    clFlush(queue);
    if (gate) clSetUserEventStatus(gate, CL_COMPLETE);
    if (clFinish(queue) != CL_SUCCESS && status == BENCH_OK) status = failed(why, "the device failed");
    d->wall = (double)(tool_time_ns() - start);
    d->device = device_ns(marker, call, d->wall);
    if (marker) clReleaseEvent(marker);
    if (call) clReleaseEvent(call);
    if (gate) clReleaseEvent(gate);
    return status;
}

static bool go_on(const bench_settings *s, int64_t done, double spent_ms) {
    const double most_ms = s->max_ms > 0.0 ? s->max_ms : DEFAULT_MS;
    if (done < 1) return true;
    if (done >= MOST_REPEATS) return false;
    if (s->repeat) return done < s->repeat && (s->max_ms <= 0.0 || spent_ms < most_ms);
    return spent_ms < most_ms || (done < LEAST_REPEATS && s->max_ms <= 0.0);
}

static bench_status take_times(problem *p, const bench_settings *settings, times *t, char why[256]) {
    const uint64_t start = tool_time_ns();
    bench_status status = BENCH_OK;
    for (t->count = 0;
         status == BENCH_OK && go_on(settings, t->count, (double)(tool_time_ns() - start) / 1e6);
         t->count++) {
        duration open = {0}, gated = {0};
        status = run(p, false, &open, why);
        if (status == BENCH_OK && open.wall < SHORT_NS) status = run(p, true, &gated, why);
        t->wall[t->count] = open.wall;
        t->device[t->count] = open.wall < SHORT_NS ? gated.device : open.device;
    }
    return status;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of sorted numbers, between neighbours by proportion.
static double quantile(const double *x, int64_t count, double q) {
    const double at = q * (double)(count - 1);
    const int64_t below = (int64_t)at;
    const double part = at - (double)below;
    return below + 1 < count ? x[below] * (1.0 - part) + x[below + 1] * part : x[below];
}

static void summarize(times *t, bench_row *row) {
    qsort(t->device, (size_t)t->count, sizeof t->device[0], compare_doubles);
    qsort(t->wall, (size_t)t->count, sizeof t->wall[0], compare_doubles);
    row->repeats = t->count;
    row->time_ns = quantile(t->device, t->count, 0.5);
    row->time_ns_min = t->device[0];
    row->time_ns_spread = quantile(t->device, t->count, 0.75) - quantile(t->device, t->count, 0.25);
    row->wall_ns = quantile(t->wall, t->count, 0.5);
    row->gflops = bench_model_flops(&row->c) / row->time_ns;
    row->gbytes_per_s = bench_model_bytes(&row->c) / row->time_ns;
}

// The first run compiles what prepare could not, and gives the result that is verified.
static bench_status warm_up(problem *p, const bench_settings *settings, double *wall_ns, bench_row *row) {
    duration first = {0};
    const bench_status status = run(p, false, &first, row->why);
    *wall_ns = first.wall;
    if (status != BENCH_OK || !settings->check) return status;
    row->error_nmse = bench_check_nmse(p);
    if (row->error_nmse < 0.0) return failed(row->why, "the result could not be read back");
    if (row->error_nmse <= bench_check_budget(p->c.dtype)) return BENCH_OK;
    snprintf(row->why, sizeof row->why,
             "the result is wrong: normalised mean square error %.3g, at most %g is right", row->error_nmse,
             bench_check_budget(p->c.dtype));
    return BENCH_FAIL;
}

// CLBlast compiles at its first call, from source, and tells no time: what that call took longer than the
// rest.
static void add_first_call(double first_ns, bench_row *row) {
    if (strcmp(row->kernel, "clblast")) return;
    if (first_ns > row->wall_ns) row->build_ms += (first_ns - row->wall_ns) / 1e6;
    row->cold = true;
}

static bench_status measure(session *s, const bench_settings *settings, bench_row *row) {
    static times t; // too large for some stacks
    problem p;
    clattn_context_stats stats = {0};
    double first_ns = 0.0;
    bench_status status = problem_create(&p, s, &row->c, row->kernel, row->why);
    if (status == BENCH_OK) status = problem_prepare(&p, row->why);
    if (status == BENCH_OK) status = warm_up(&p, settings, &first_ns, row);
    clattn_context_get_stats(s->context, &stats);
    row->build_ms = ((double)stats.build_time_ns + p.build_ns) / 1e6;
    row->cold = stats.programs_built > 0;
    row->peak_bytes = p.bytes;
    if (status == BENCH_OK) status = take_times(&p, settings, &t, row->why);
    if (status == BENCH_OK) summarize(&t, row);
    if (status == BENCH_OK) add_first_call(first_ns, row);
    problem_destroy(&p);
    return status;
}

void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row) {
    const clattn_device device = s->device;
    *row = (bench_row){.c = *c, .error_nmse = -1.0, .status = BENCH_FAIL};
    s->message[0] = '\0';
    if (session_open_device(s, &device, NULL) >= 0) {
        snprintf(row->why, sizeof row->why, "%.255s",
                 s->message[0] ? s->message : "the device takes no context");
        return;
    }
    row->status = measure(s, settings, row);
    session_close(s);
}

void bench_measure_percent(bench_row *row, const bench_limits *limits) {
    const bool reads = row->c.op == BENCH_DECODE;
    const double limit = reads ? limits->read_gbytes_per_s : limits->fma_gflops;
    if (limit > 0.0) row->limit_percent = 100.0 * (reads ? row->gbytes_per_s : row->gflops) / limit;
}
