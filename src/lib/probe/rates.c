// rates.c: see rates.h.
#include "probe/rates.h"

#define FAR_BELOW 0.75f

void cla_rates_time(rate_times *t, double time) {
    t->runs++;
    if (t->runs == 1 || time < t->least) {
        t->next = t->least;
        t->least = time;
    } else if (t->runs == 2 || time < t->next) {
        t->next = time;
    }
}

float cla_rates_spread(const rate_times *t, double launch) {
    const double least = t->least > launch ? t->least - launch : t->least;
    const double next = t->least > launch ? t->next - launch : t->next;
    return t->runs < 2 || least <= 0.0 || next > 2.0 * least ? 1.0f : (float)(next / least - 1.0);
}

// The highest rate of the proven probes in the set, in multiply-adds. A bfloat16 dot product counts
// half.
static float of_most(const probe_results *found, unsigned ids, probe_id *best) {
    float most = 0.0f;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        const float rate = found->rate[id] * (id == PROBE_DOT_BF16 ? 0.5f : 1.0f);
        if (!((ids & found->proven) >> id & 1u) || rate <= most) continue;
        most = rate, *best = (probe_id)id;
    }
    return most;
}

unsigned cla_rates_doubtful(const clattn_capabilities *device, const probe_results *found, probe_id *best) {
    const uint32_t width = device->float_vector_width;
    const unsigned lanes_4 = 1u << PROBE_LANES_4, lanes_8 = 1u << PROBE_LANES_8;
    unsigned full = 1u << PROBE_FMA, narrower = 0, doubtful = 0;
    full |= width >= 16  ? 1u << PROBE_LANES_16 | 1u << PROBE_DOT_BF16 | PROBES_LOADS
            : width >= 8 ? lanes_8
                         : lanes_4;
    if (width >= 8) narrower |= lanes_4;
    if (width >= 16) narrower |= lanes_8;
    *best = PROBE_NONE;
    const float most = of_most(found, full | narrower, best);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        probe_id self = PROBE_NONE;
        const float own = of_most(found, full & 1u << id, &self);
        if (self != PROBE_NONE && own < FAR_BELOW * most) doubtful |= 1u << id;
    }
    return doubtful;
}

static bool reaches(float a, float b) {
    return a * (1.0f + RATES_AGREE) >= b;
}

probe_rate cla_probe_combine_rates(const probe_rate *first, const probe_rate *again, float best,
                                   float best_again) {
    probe_rate rate = again->gflops > first->gflops ? *again : *first;
    rate.sure = rate.settled =
        again->sure && reaches(again->gflops, first->gflops) && reaches(best_again, best);
    return rate;
}
