// launch_slicing.c: see launch_slicing.h.
#include "device/launch_slicing.h"

#include <math.h>

#include "base/host.h"

bool cla_pace_create(clattn_context *context) {
    struct pace *p = cla_host_take_zeroed(&context->host, 1, sizeof *p);
    if (!p || !cla_os_mutex_init(&p->lock)) {
        cla_host_release(&context->host, p);
        return false;
    }
    p->seconds = PACE_SECONDS;
    context->pace = p;
    return true;
}

void cla_pace_destroy(clattn_context *context) {
    struct pace *p = context->pace;
    if (!p) return;
    if (p->timed.event) clReleaseEvent(p->timed.event);
    cla_os_mutex_destroy(&p->lock);
    cla_host_release(&context->host, p);
    context->pace = NULL;
}

double cla_pace_start_rate(const clattn_capabilities *device) {
    const double units = device->compute_units ? device->compute_units : 1.0;
    const double mhz = device->clock_mhz ? device->clock_mhz : PACE_START_MHZ;
    return units * mhz * 1e6 * PACE_START_FLOPS;
}

double cla_pace_most(clattn_context *context, const pace_rate *of, bool heard) {
    struct pace *p = context->pace;
    cla_os_mutex_lock(&p->lock);
    const double rate = of->flops > 0.0 ? of->flops : cla_pace_start_rate(&context->capabilities);
    const double most = rate * p->seconds;
    const bool cuts = heard || p->cuts_all || !context->capabilities.is_cpu;
    cla_os_mutex_unlock(&p->lock);
    return cuts ? most : (double)INFINITY;
}

// Update a kernel's rate. One launch may be an outlier, so a lower rate replaces the old one at
// once and a higher rate by half. The time of a short launch is mostly overhead, so its rate is
// only a lower bound.
static void learn(const clattn_context *context, pace_rate *of, double flops, double seconds, bool at_most) {
    if (!(flops > 0.0) || !(seconds > 0.0)) return;
    const double rate = flops / seconds;
    const bool first = !(of->flops > 0.0);
    const double known = first ? cla_pace_start_rate(&context->capabilities) : of->flops;
    if (rate > known || (seconds >= PACE_SHORT_SECONDS && !at_most))
        of->flops = first || rate < known ? rate : (known + rate) / 2;
}

void cla_pace_learn(clattn_context *context, pace_rate *of, double flops, double seconds, bool at_most) {
    cla_os_mutex_lock(&context->pace->lock);
    learn(context, of, flops, seconds, at_most);
    cla_os_mutex_unlock(&context->pace->lock);
}

// The run time of a command on the device in seconds. 0: unknown. Mesa's llvmpipe reports a
// nanosecond for every command, so times that are too short for a timed launch are ignored.
static double seconds_of(const pace_timed *t, double slice) {
    cl_ulong start = 0, end = 0;
    if (t->start_ns) return (double)(cla_os_time_ns() - t->start_ns) * 1e-9;
    if (clGetEventProfilingInfo(t->event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) !=
            CL_SUCCESS ||
        clGetEventProfilingInfo(t->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS)
        return 0.0;
    const double seconds = end > start ? (double)(end - start) * 1e-9 : 0.0;
    return seconds < slice * PACE_LEAST_SHARE ? 0.0 : seconds;
}

bool cla_pace_begin(clattn_context *context) {
    struct pace *p = context->pace;
    cl_int status = CL_COMPLETE;
    cla_os_mutex_lock(&p->lock);
    const pace_timed timed = p->timed;
    const double slice = p->seconds;
    bool free = !p->taken;
    if (free && timed.event)
        free = clGetEventInfo(timed.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) !=
                   CL_SUCCESS ||
               status <= CL_COMPLETE;
    if (free) p->taken = true, p->timed.event = NULL;
    // This needs the lock: a caller of cla_pace_forget may free the rate as soon as no timed launch
    // refers to it.
    if (free && timed.event && status == CL_COMPLETE)
        learn(context, timed.of, timed.flops, seconds_of(&timed, slice), timed.start_ns != 0);
    cla_os_mutex_unlock(&p->lock);
    if (free && timed.event) clReleaseEvent(timed.event);
    return free;
}

void cla_pace_forget(clattn_context *context, const pace_rate *of) {
    struct pace *p = context->pace;
    cla_os_mutex_lock(&p->lock);
    cl_event event = p->timed.of == of ? p->timed.event : NULL;
    if (event) p->timed.event = NULL;
    cla_os_mutex_unlock(&p->lock);
    if (event) clReleaseEvent(event);
}

void cla_pace_end(clattn_context *context, const pace_timed *timed) {
    struct pace *p = context->pace;
    const bool kept = timed->event && clRetainEvent(timed->event) == CL_SUCCESS;
    cla_os_mutex_lock(&p->lock);
    p->taken = false;
    p->timed = *timed;
    if (!kept) p->timed.event = NULL;
    cla_os_mutex_unlock(&p->lock);
}

// The largest multiple of `unit` that is at most all * share, but at least `unit`.
static size_t part_of(size_t all, size_t unit, double share) {
    const double units = floor((double)(all / unit) * share);
    return units < 1.0 ? unit : units < (double)(all / unit) ? (size_t)units * unit : all;
}

void cla_pace_cut(const size_t global[3], const size_t local[3], bool first, double flops, double most,
                  size_t step[3]) {
    double part = flops;
    for (int i = 0; i < 3; i++) {
        step[i] = global[i];
        if (i > 0 && step[i] > PACE_GRID) step[i] = PACE_GRID;
        part *= global[i] ? (double)step[i] / (double)global[i] : 0.0;
    }
    for (int i = 2; i >= (first ? 0 : 1) && part > most; i--) {
        const size_t fewer = part_of(step[i], local[i], most / part);
        part *= (double)fewer / (double)step[i];
        step[i] = fewer;
    }
}

int64_t cla_pace_rows(int64_t rows, int tile, double row_flops, double most) {
    const double tiles = floor(most / (row_flops * tile));
    if (!(row_flops > 0.0) || tile >= rows || tiles * tile >= (double)rows) return rows;
    return tiles < 1.0 ? tile : (int64_t)tiles * tile;
}
