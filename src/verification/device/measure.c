// measure.c: see measure.h.
//
// Device time runs from a marker to the end of the call's last command. For a short call both are
// enqueued behind a user event, so that the time contains no enqueueing. Wall time then comes from
// a second run without that event.
#include "verification/device/measure.h"
#include "verification/device/opencl.h"

#include <stdlib.h>
#include <time.h>

#define LEAST_REPEATS 5
#define PATIENCE 10.0 // a measurement may exceed its limit by this factor to reach LEAST_REPEATS
#define MOST_REPEATS 1000
#define DEFAULT_MS 1000.0
#define SHORT_NS 5e7 // in a longer call, the time for enqueueing is negligible

typedef struct samples {
    double device[MOST_REPEATS], wall[MOST_REPEATS];
    int64_t count;
} samples;

uint64_t measure_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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

// Device time by events. If the driver's clock is 0 or exceeds wall time, the result is wall time.
static double device_ns(cl_event marker, cl_event call, double wall) {
    cl_ulong start = 0, end = 0;
    if (!marker || !call || !end_of(marker, &start) || !end_of(call, &end) || !start || end <= start)
        return wall;
    const double ns = (double)(end - start);
    return ns > wall ? wall : ns;
}

static bool run(struct place *place, bool gated, measure_call *call, void *user, duration *d) {
    cl_event marker = NULL, last = NULL, gate = NULL;
    if (gated) gate = clCreateUserEvent(place->opencl, NULL);
    const uint64_t start = measure_clock_ns();
    clEnqueueMarkerWithWaitList(place->queue, gate ? 1 : 0, gate ? &gate : NULL, &marker);
    bool ok = call(user, &last);
    clFlush(place->queue);
    if (gate) clSetUserEventStatus(gate, CL_COMPLETE);
    const cl_int code = clFinish(place->queue);
    if (code != CL_SUCCESS && ok) place_broken(place, "the device failed", code);
    d->wall = (double)(measure_clock_ns() - start);
    d->device = device_ns(marker, last, d->wall);
    if (marker) clReleaseEvent(marker);
    if (last) clReleaseEvent(last);
    if (gate) clReleaseEvent(gate);
    return ok && code == CL_SUCCESS;
}

bool measure_once(struct place *place, measure_call *call, void *user, double *wall_ns) {
    duration first = {0};
    const bool ok = run(place, false, call, user, &first);
    *wall_ns = first.wall;
    return ok;
}

static bool go_on(const measure_settings *s, int64_t done, double spent_ms) {
    const double most_ms = s->max_ms > 0.0 ? s->max_ms : DEFAULT_MS;
    if (done < 1) return true;
    if (done >= MOST_REPEATS) return false;
    if (s->repeat) return done < s->repeat && (s->max_ms <= 0.0 || spent_ms < most_ms);
    return spent_ms < (done < LEAST_REPEATS && s->max_ms <= 0.0 ? PATIENCE : 1.0) * most_ms;
}

static bool take_sample(struct place *place, measure_call *call, void *user, samples *t) {
    duration open = {0}, gated = {0};
    if (!run(place, false, call, user, &open)) return false;
    if (open.wall < SHORT_NS && !run(place, true, call, user, &gated)) return false;
    t->wall[t->count] = open.wall;
    t->device[t->count++] = open.wall < SHORT_NS ? gated.device : open.device;
    return true;
}

static bool take_samples(struct place *place, const measure_settings *settings, measure_call *call,
                         void *user, samples *t) {
    const uint64_t start = measure_clock_ns();
    t->count = 0;
    while (go_on(settings, t->count, (double)(measure_clock_ns() - start) / 1e6))
        if (!take_sample(place, call, user, t)) return false;
    return true;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A quantile of sorted numbers, interpolated linearly.
static double quantile(const double *x, int64_t count, double q) {
    const double at = q * (double)(count - 1);
    const int64_t below = (int64_t)at;
    const double part = at - (double)below;
    return below + 1 < count ? x[below] * (1.0 - part) + x[below + 1] * part : x[below];
}

// Keep at most MEASURE_SAMPLES of the sorted numbers, evenly spaced.
static int thin(const double *x, int64_t count, double kept[MEASURE_SAMPLES]) {
    const int most = count < MEASURE_SAMPLES ? (int)count : MEASURE_SAMPLES;
    for (int i = 0; i < most; i++)
        kept[i] = most == count ? x[i] : quantile(x, count, (i + 0.5) / MEASURE_SAMPLES);
    return most;
}

// Sorts the samples.
static measure_times times_of(samples *t) {
    qsort(t->device, (size_t)t->count, sizeof t->device[0], compare_doubles);
    qsort(t->wall, (size_t)t->count, sizeof t->wall[0], compare_doubles);
    measure_times times = {.repeats = t->count,
                           .time_ns = quantile(t->device, t->count, 0.5),
                           .time_ns_min = t->device[0],
                           .time_ns_spread =
                               quantile(t->device, t->count, 0.75) - quantile(t->device, t->count, 0.25),
                           .wall_ns = quantile(t->wall, t->count, 0.5)};
    times.sample_count = thin(t->device, t->count, times.samples);
    return times;
}

bool measure_run(struct place *place, const measure_settings *settings, measure_call *call, void *user,
                 measure_times *times) {
    samples *t = malloc(sizeof *t); // too large for some stacks
    *times = (measure_times){0};
    if (t == NULL) place_broken(place, "malloc", CL_OUT_OF_HOST_MEMORY);
    const bool ok = t != NULL && take_samples(place, settings, call, user, t);
    if (ok) *times = times_of(t);
    free(t);
    return ok;
}

static bool take_turns(struct place *const places[2], const measure_settings *settings, measure_call *call,
                       void *const users[2], samples t[2]) {
    const uint64_t start = measure_clock_ns();
    t[0].count = t[1].count = 0;
    while (go_on(settings, t[1].count, (double)(measure_clock_ns() - start) / 1e6)) {
        const int first = t[0].count % 2 != 0;
        if (!take_sample(places[first], call, users[first], &t[first]) ||
            !take_sample(places[!first], call, users[!first], &t[!first]))
            return false;
    }
    return true;
}

bool measure_interleaved(struct place *const places[2], const measure_settings *settings, measure_call *call,
                         void *const users[2], measure_pair *pair) {
    samples *t = malloc(3 * sizeof *t); // times of both calls, and their ratios
    *pair = (measure_pair){0};
    if (t == NULL) place_broken(places[0], "malloc", CL_OUT_OF_HOST_MEMORY);
    const bool ok = t != NULL && take_turns(places, settings, call, users, t);
    if (ok) {
        double *const ratios = t[2].device;
        for (int64_t n = 0; n < t[1].count; n++) ratios[n] = t[1].device[n] / t[0].device[n];
        qsort(ratios, (size_t)t[1].count, sizeof ratios[0], compare_doubles);
        pair->ratio = quantile(ratios, t[1].count, 0.5);
        pair->ratio_spread = quantile(ratios, t[1].count, 0.75) - quantile(ratios, t[1].count, 0.25);
        pair->ratio_count = thin(ratios, t[1].count, pair->ratios);
        for (int n = 0; n < 2; n++) pair->times[n] = times_of(&t[n]);
    }
    free(t);
    return ok;
}
