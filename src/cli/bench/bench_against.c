// bench_against.c: see bench.h.
#include "cli/bench/bench.h"

#include "verification/limits/model.h"

int bench_against_complete(const bench *b, bench *other) {
    const measure_settings *m = &other->settings.measure;
    const bool odd = other->save || other->submit || other->format >= 0 || other->against || other->batch ||
                     other->options || other->several.devices || other->several.deal_given ||
                     other->baselines.count || m->repeat || m->max_ms > 0.0 || other->settings.warmup ||
                     !other->settings.check || !other->limits;
    const common_options *c = &other->common;
    if (odd || c->device || c->json || c->quiet || c->verbose)
        return tool_wrong("--against %s: lists of one value, --case, --tuned and --cache-dir are accepted",
                          b->against);
    if (b->options || b->baselines.count)
        return tool_wrong(
            "--against: measures pairs of its own: no --options or --baselines is accepted with it");
    for (int a = 0; a < BENCH_AXES; a++)
        if (!other->lists[a].count && !other->named) other->lists[a] = b->lists[a];
    if (!other->named) other->named = b->named, other->batch = b->batch;
    if (!c->tuned) other->common.tuned = b->common.tuned;
    if (!c->cache_dir) other->common.cache_dir = b->common.cache_dir;
    other->common.device = b->common.device;
    other->settings = b->settings;
    return -1;
}

// Open a session, prepare a call on it, run the call once and verify its result.
static bench_status make_ready(bench_call *p, session *s, const clattn_device *device, const char *rows,
                               const bench_settings *settings, bench_row *row) {
    clattn_context_stats stats = {0};
    double wall_ns = 0.0;
    *p = (bench_call){.session = s};
    if (session_open_device(s, device, rows) >= 0) {
        snprintf(row->why, sizeof row->why, "%.255s",
                 s->message[0] ? s->message : "no context can be created on the device");
        return BENCH_FAIL;
    }
    bench_status status = bench_call_create(p, s, &row->c, row->kernel, row->why);
    if (status == BENCH_OK) status = bench_call_prepare(p, row->why);
    if (status == BENCH_OK) status = bench_warm_up(p, settings, &wall_ns, row);
    clattn_context_get_stats(s->context, &stats);
    row->build_ms = ((double)stats.build_time_ns + p->build_ns) / 1e6;
    row->cold = stats.programs_built > 0;
    row->peak_bytes = p->bytes;
    return status;
}

static bench_status take_turns(bench_call calls[2], const bench_settings *settings, bench_pair *pair) {
    struct place *const places[2] = {&calls[0].place, &calls[1].place};
    void *const users[2] = {&calls[0], &calls[1]};
    measure_pair pairs;
    if (!measure_interleaved(places, &settings->measure, bench_call_enqueue, users, &pairs)) {
        for (int n = 0; n < 2; n++) {
            const char *why = calls[n].status != BENCH_OK ? calls[n].why : places[n]->error;
            if (*why)
                snprintf(pair->row.why, sizeof pair->row.why, "%.*s", (int)sizeof pair->row.why - 1, why);
        }
        return BENCH_FAIL;
    }
    bench_take_times(&pair->row, &pairs.times[0]);
    bench_take_times(&pair->other, &pairs.times[1]);
    pair->ratio = compare_ratio_paired(pairs.ratios, pairs.ratio_count);
    return BENCH_OK;
}

void bench_pair_measure(const clattn_device *device, const bench_side sides[2],
                        const bench_settings *settings, bench_pair *pair) {
    session sessions[2];
    bench_call calls[2] = {{.session = NULL}};
    *pair = (bench_pair){.row = {.error_nmse = -1.0}, .other = {.error_nmse = -1.0}};
    bench_row *const rows[2] = {&pair->row, &pair->other};
    for (int n = 0; n < 2; n++) {
        sessions[n] = (session){.options = *sides[n].options};
        rows[n]->c = sides[n].c;
        rows[n]->c.test = case_complete(&rows[n]->c.test);
        if (!bench_can_end(settings, rows[n])) continue;
        rows[n]->status = make_ready(&calls[n], &sessions[n], device, sides[n].rows, settings, rows[n]);
    }
    if (pair->row.status == BENCH_OK && pair->other.status != BENCH_OK)
        snprintf(pair->row.why, sizeof pair->row.why, "against: %.245s", pair->other.why);
    if (pair->row.status == BENCH_OK) pair->row.status = pair->other.status;
    if (pair->row.status == BENCH_OK) pair->row.status = take_turns(calls, settings, pair);
    for (int n = 0; n < 2; n++) {
        if (sessions[n].queue) bench_call_destroy(&calls[n]);
        session_close(&sessions[n]);
    }
}

void bench_against_measure(const bench *b, const session *device, int i, bench_pair *pair) {
    const bench_side sides[2] = {{&b->common, NULL, b->cases[i]},
                                 {&b->other->common, NULL, b->other->cases[i]}};
    bench_pair_measure(&device->device, sides, &b->settings, pair);
}
