// probe.c: see probe.h. Decides which probes run, when, and which results are cached.

#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/host.h"
#include "probe/int8_dot_gpu.h"
#include "probe/lane_widths.h"
#include "probe/probe.h"
#include "base/sha256.h"

struct probe_state {
    os_mutex lock;    // guards the results, briefly
    os_mutex running; // held while probes run; locked before `lock`
    probe_results results;
    probe_rate rates[PROBE_COUNT];
    unsigned looked; // probes whose cache entry was looked up
    unsigned kept;   // probes whose result came from the cache
};

bool cla_probe_state_create(clattn_context *context) {
    struct probe_state *s = cla_host_take_zeroed(&context->host, 1, sizeof *s);
    if (s && cla_os_mutex_init_two(&s->lock, &s->running)) {
        context->probes = s;
        return true;
    }
    cla_host_release(&context->host, s);
    return false;
}

void cla_probe_state_destroy(clattn_context *context) {
    if (!context->probes) return;
    cla_os_mutex_destroy(&context->probes->lock);
    cla_os_mutex_destroy(&context->probes->running);
    cla_host_release(&context->host, context->probes);
    context->probes = NULL;
}

static void probe_key(const clattn_context *c, const probe *p, uint8_t key[CACHE_KEY_BYTES]) {
    cla_probe_key(c, p, CLATTN_VERSION_STRING, key);
}

bool cla_probe_was_fatal(const clattn_context *c, const probe *p) {
    uint8_t key[CACHE_KEY_BYTES];
    if (c->tries_again) return false;
    probe_key(c, p, key);
    return cla_cache_was_fatal(c->cache, key);
}

// The format of a cache entry.
typedef struct kept_rate {
    float gflops, spread;
    int32_t runs, settled;
    int64_t measured;
} kept_rate;

// Load a result from the cache, which has only sure results. Returns false on a miss, or if
// measure_again is set.
static bool load_rate(const clattn_context *c, int id, probe_rate *rate) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *kept = NULL;
    size_t count = 0;
    if (c->measure_again) return false;
    probe_key(c, &cla_probes[id], key);
    if (!cla_cache_load(c->cache, key, &kept, &count)) return false;
    kept_rate of = {.gflops = -1.0f};
    if (count == sizeof of) memcpy(&of, kept, sizeof of);
    cla_host_release(&c->host, kept);
    *rate = (probe_rate){.gflops = of.gflops,
                         .spread = of.spread,
                         .runs = of.runs,
                         .sure = true,
                         .settled = of.settled != 0,
                         .measured = of.measured};
    return of.gflops >= 0.0f && of.gflops < 1e9f;
}

static bool is_asked(const clattn_context *c, const probe *p) {
    return !(p->engine & ~c->engines) && p->applies(&c->capabilities);
}

static probe_results known_results(struct probe_state *s) {
    cla_os_mutex_lock(&s->lock);
    const probe_results results = s->results;
    cla_os_mutex_unlock(&s->lock);
    return results;
}

static void keep_result(const clattn_context *context, int id, const probe_rate *rate, bool kept) {
    struct probe_state *s = context->probes;
    const unsigned bit = 1u << id;
    cla_os_mutex_lock(&s->lock);
    s->results.ran |= bit;
    s->results.proven = rate->gflops > 0.0f ? s->results.proven | bit : s->results.proven & ~bit;
    s->results.sure = rate->sure ? s->results.sure | bit : s->results.sure & ~bit;
    s->results.rate[id] = rate->gflops;
    s->rates[id] = *rate;
    s->kept = kept ? s->kept | bit : s->kept & ~bit;
    cla_os_mutex_unlock(&s->lock);
}

// Keep a result, and log it.
static void tell_result(const clattn_context *context, int id, const probe_rate *rate, bool kept) {
    keep_result(context, id, rate, kept);
    cla_log_send(&context->log, CLATTN_LOG_INFO, "probe: %s: %s, %.4g GFLOP/s a work-item%s",
                 cla_probes[id].name, rate->gflops > 0.0f ? "works" : "not used", (double)rate->gflops,
                 rate->died                           ? "; an earlier process ended while it ran this"
                 : rate->sure || rate->gflops <= 0.0f ? ""
                                                      : ", not sure: the machine had other work");
}

static void store_rate(const clattn_context *c, int id, const probe_rate *rate) {
    const kept_rate kept = {rate->gflops, rate->spread, rate->runs, rate->settled, rate->measured};
    uint8_t key[CACHE_KEY_BYTES];
    probe_key(c, &cla_probes[id], key);
    cla_cache_store(c->cache, key, &kept, sizeof kept);
}

// Run these probes interleaved. *answered: the probes that the device has answered.
static void run_set(const clattn_context *c, unsigned ids, probe_rate rates[PROBE_COUNT],
                    unsigned *answered) {
    const probe *probes[PROBE_COUNT];
    probe_rate found[PROBE_COUNT];
    bool has_answered[PROBE_COUNT];
    int of[PROBE_COUNT], count = 0;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if (ids >> id & 1u) of[count] = id, probes[count++] = &cla_probes[id];
    cla_probe_run_set(c, probes, count, found, has_answered);
    for (int i = 0; i < count; i++) {
        rates[of[i]] = found[i];
        *answered |= (unsigned)has_answered[i] << of[i];
    }
}

// The probes that plans compare with this one, and that therefore run interleaved. Does not include
// a cheaper probe whose result decides whether to run this one.
static unsigned compared_with(int id) {
    static const unsigned sets[] = {1u << PROBE_FMA | 1u << PROBE_DOT_BF16 | 1u << PROBE_DOT_I8,
                                    PROBES_LANES & ~(1u << PROBE_TILES),
                                    PROBES_LOADS,
                                    PROBES_ASK,
                                    PROBES_MMA,
                                    PROBES_WMMA,
                                    PROBES_MFMA,
                                    PROBES_DPAS,
                                    PROBES_WGMMA,
                                    PROBES_EIGHTS};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (sets[i] >> id & 1u) return sets[i];
    return 1u << id;
}

// The ids that still need a measurement. Results that are known without one are kept.
static unsigned without_answer(const clattn_context *context, unsigned ids) {
    const probe_results known = known_results(context->probes);
    unsigned open = 0;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        const probe *p = &cla_probes[id];
        probe_rate rate = {.sure = true};
        if (!(ids >> id & 1u)) continue;
        if (!is_asked(context, p) || (p->worth && !p->worth(&context->capabilities, &known)))
            tell_result(context, id, &rate, false);
        else if (load_rate(context, id, &rate))
            tell_result(context, id, &rate, true);
        else if (cla_probe_was_fatal(context, p))
            tell_result(context, id, &(probe_rate){.sure = true, .died = true}, false);
        else
            open |= 1u << id;
    }
    return open;
}

void cla_probe_keep(const clattn_context *context, unsigned ids, const probe_rate *rates) {
    unsigned unsure = 0;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        if (!(ids >> id & 1u)) continue;
        tell_result(context, id, &rates[id], false);
        if (!rates[id].sure) unsure |= 1u << id | compared_with(id);
    }
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if ((ids & ~unsure) >> id & 1u) store_rate(context, id, &rates[id]);
}

// Find rates that are far below the device's other rates, and measure them again, interleaved with
// the best of the other probes.
static unsigned look_again(const clattn_context *context, probe_rate rates[PROBE_COUNT]) {
    const clattn_capabilities *device = &context->capabilities;
    probe_results known = known_results(context->probes);
    probe_rate again[PROBE_COUNT];
    probe_id best;
    unsigned answered = 0, doubtful = cla_rates_doubtful(device, &known, &best), still;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if (rates[id].settled) doubtful &= ~(1u << id);
    if (!doubtful) return 0;
    run_set(context, doubtful | 1u << best, again, &answered);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        if (!(doubtful >> id & 1u)) continue;
        rates[id] = cla_probe_combine_rates(&rates[id], &again[id], known.rate[best], again[best].gflops);
        known.rate[id] = rates[id].gflops;
    }
    still = cla_rates_doubtful(device, &known, &best);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if ((doubtful & ~still) >> id & 1u) rates[id].sure = again[id].sure, rates[id].settled = false;
    return doubtful;
}

// A thread that needs only known results never waits for a thread that probes. Rates change only
// under `running`.
probe_results cla_probe_results(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    probe_results results = known_results(s);
    probe_rate rates[PROBE_COUNT];
    unsigned open = 0, answered = 0;
    wanted = cla_lanes_wanted(wanted);
    if (!(wanted & ~results.ran)) return results;
    cla_os_mutex_lock(&s->running);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++) {
        // Other threads may have run some probes meanwhile.
        const unsigned ran = known_results(s).ran;
        if (!((wanted & ~ran) >> id & 1u)) continue;
        const unsigned now = without_answer(context, wanted & ~ran & compared_with(id));
        if (now) run_set(context, now, rates, &answered);
        for (int n = PROBE_NONE + 1; n < PROBE_COUNT; n++)
            if (now >> n & 1u) keep_result(context, n, &rates[n], false);
        open |= now;
    }
    memcpy(rates, s->rates, sizeof rates); // only this thread can write rates here
    open |= look_again(context, rates);
    cla_probe_keep(context, open, rates);
    results = known_results(s);
    cla_os_mutex_unlock(&s->running);
    return results;
}

// Load these probes' results from the cache. Other threads wait for the first one, so that all
// threads make the same plans.
static void look(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    probe_rate rate;
    cla_os_mutex_lock(&s->running);
    const unsigned ran = known_results(s).ran;
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if ((wanted & ~ran) >> id & 1u && is_asked(context, &cla_probes[id]) && load_rate(context, id, &rate))
            tell_result(context, id, &rate, true);
    cla_os_mutex_lock(&s->lock);
    s->looked |= wanted;
    cla_os_mutex_unlock(&s->lock);
    cla_os_mutex_unlock(&s->running);
}

probe_results cla_probe_results_kept(const clattn_context *context, unsigned wanted) {
    struct probe_state *s = context->probes;
    cla_os_mutex_lock(&s->lock);
    const probe_results results = s->results;
    const unsigned open = wanted & ~results.ran & ~s->looked;
    cla_os_mutex_unlock(&s->lock);
    if (!open) return results;
    look(context, open);
    return known_results(s);
}

clattn_status clattn_context_engines(clattn_context *context, clattn_engine *engines, size_t capacity,
                                     size_t *count) {
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!count) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "count: is NULL");
    if (capacity && !engines)
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "engines: is NULL with a capacity");
    TRY(cla_context_check(context));
    *count = PROBE_COUNT - 1;
    if (!capacity) return CLATTN_OK;
    (void)cla_probe_results(context, ~0u);
    struct probe_state *s = context->probes;
    for (size_t i = 0; i < *count && i < capacity; i++) {
        const size_t id = i + 1;
        cla_os_mutex_lock(&s->lock);
        const probe_rate r = s->rates[id];
        const bool kept = s->kept >> id & 1u;
        cla_os_mutex_unlock(&s->lock);
        engines[i] = (clattn_engine){.works = r.gflops > 0.0f,
                                     .gflops = r.gflops,
                                     .measured = r.measured,
                                     .runs = r.runs,
                                     .spread = r.spread,
                                     .sure = r.sure,
                                     .died = r.died,
                                     .kept = kept};
        snprintf(engines[i].name, sizeof engines[i].name, "%s", cla_probes[id].name);
    }
    return CLATTN_OK;
}
