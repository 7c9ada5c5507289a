// pace.c: see pace.h.
#include "core/pace.h"

#include <math.h>
#include <stdlib.h>

bool cla_pace_create(clattn_context *context) {
    struct pace *p = calloc(1, sizeof *p);
    if (!p || !cla_os_mutex_init(&p->lock)) {
        free(p);
        return false;
    }
    p->seconds = PACE_SECONDS;
    context->pace = p;
    return true;
}

void cla_pace_destroy(clattn_context *context) {
    if (!context->pace) return;
    cla_os_mutex_destroy(&context->pace->lock);
    free(context->pace);
    context->pace = NULL;
}

double cla_pace_start_rate(const clattn_capabilities *device) {
    const double units = device->compute_units ? device->compute_units : 1.0;
    const double mhz = device->clock_mhz ? device->clock_mhz : PACE_START_MHZ;
    return units * mhz * 1e6 * PACE_START_FLOPS;
}

double cla_pace_most(clattn_context *context, enum kernel_id id, bool heard) {
    struct pace *p = context->pace;
    cla_os_mutex_lock(&p->lock);
    const double rate = p->rate[id] > 0.0 ? p->rate[id] : cla_pace_start_rate(&context->capabilities);
    const double most = rate * p->seconds;
    const bool cuts = heard || p->cuts_all || !context->capabilities.is_cpu;
    cla_os_mutex_unlock(&p->lock);
    return cuts ? most : (double)INFINITY;
}

// What one launch shows may be chance; a rate that falls is believed at once, one that rises by half. A short one shows how
// long it takes to begin and to be heard of: its rate is at least what it seems.
void cla_pace_learn(clattn_context *context, enum kernel_id id, double flops, double seconds) {
    struct pace *p = context->pace;
    if (!(flops > 0.0) || !(seconds > 0.0)) return;
    const double rate = flops / seconds;
    cla_os_mutex_lock(&p->lock);
    const bool first = !(p->rate[id] > 0.0);
    const double known = first ? cla_pace_start_rate(&context->capabilities) : p->rate[id];
    if (seconds >= PACE_SHORT_SECONDS || rate > known)
        p->rate[id] = first || rate < known ? rate : (known + rate) / 2;
    cla_os_mutex_unlock(&p->lock);
}

// So many of `all` that they are at most the share, in whole multiples of `unit`, at least one of them.
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

int cla_pace_rows(int rows, int tile, double row_flops, double most) {
    const double tiles = floor(most / (row_flops * tile));
    if (!(row_flops > 0.0) || tile >= rows || tiles * tile >= rows) return rows;
    return tiles < 1.0 ? tile : (int)tiles * tile;
}
