// bench_measure.c: see bench_call.h. The timer is verification/device/measure.c.
#include "cli/bench/bench_call.h"

#include "verification/limits/model.h"

// Write why a run failed: the call's own reason, or else the device's.
static bench_status failed(const bench_call *p, char why[256]) {
    snprintf(why, 256, "%s", p->status != BENCH_OK ? p->why : p->place.error);
    return p->status != BENCH_OK ? p->status : BENCH_FAIL;
}

#define PATIENCE 10.0 // times --max-ms
#define LEAST_PATIENCE_MS 2e3
#define DEFAULT_MS 1000.0 // the default in measure.c
// A kernel not tuned for the device may be this many times slower than the device's peak.
#define SLOWEST 50.0
// The measured float32 peak may be too low by this factor, if other programs used the machine.
#define FLOAT_MARGIN 1.2
// A matrix engine may compute 16-bit products faster than float32 FMA, by this factor.
#define HALF_MARGIN 32.0

double bench_patience_ms(const bench_settings *settings) {
    const double max_ms = settings->measure.max_ms > 0.0 ? settings->measure.max_ms : DEFAULT_MS;
    return PATIENCE * max_ms > LEAST_PATIENCE_MS ? PATIENCE * max_ms : LEAST_PATIENCE_MS;
}

bool bench_can_end(const bench_settings *settings, bench_row *row) {
    const struct test_case c = case_complete(&row->c.test);
    const double margin = c.q_type == CLATTN_TYPE_F32 ? FLOAT_MARGIN : HALF_MARGIN;
    const double least_ms =
        settings->fma_gflops > 0.0 ? model_flops(&c) / (margin * settings->fma_gflops) / 1e6 : 0.0;
    if (least_ms <= bench_patience_ms(settings)) return true;
    snprintf(row->why, sizeof row->why,
             "a run takes at least %.1f s on this device, more than ten times --max-ms: not begun",
             least_ms / 1e3);
    row->status = BENCH_UNSUPPORTED;
    return false;
}

// The longest time of a run before it is cancelled; 0: not watched. A watched call waits between
// its launches, so calls that are certainly short are not watched.
static double watched_ms(const bench_call *p, const bench_settings *settings) {
    const double patience_ms = bench_patience_ms(settings), limit = settings->fma_gflops;
    const bool is_short = limit > 0.0 && SLOWEST * model_flops(&p->data->test) / limit / 1e6 < patience_ms;
    return is_short ? 0.0 : patience_ms;
}

// The longest time to measure reading, before a case and again after it. A quiet machine needs
// about 20 ms.
#define READ_MS 150.0

static struct limit_demand demand_of(const bench_row *row) {
    const struct test_case c = case_complete(&row->c.test);
    return (struct limit_demand){.flops = model_flops(&c),
                                 .bytes = model_bytes(&c),
                                 .time_ns = row->times.time_ns,
                                 .engine = row->engine,
                                 .read_gbytes_per_s = row->read_gbytes_per_s};
}

// Measure reading as many bytes as the case has, if reading may bound the case.
static void read_beside(bench_call *p, const bench_settings *settings, bench_row *row) {
    const struct limit_demand d = demand_of(row);
    if (!settings->limits || !limits_may_read(settings->limits, &d)) return;
    const double most = settings->measure.max_ms / 4.0, ms = most > 0.0 && most < READ_MS ? most : READ_MS;
    const double rate = limits_read(&p->place, (size_t)d.bytes, ms);
    if (rate > row->read_gbytes_per_s) row->read_gbytes_per_s = rate;
}

bench_status bench_warm_up(bench_call *p, const bench_settings *settings, double *wall_ns, bench_row *row) {
    struct case_verdict verdict;
    double again_ns;
    bench_call_watch(p, watched_ms(p, settings));
    const bool ran = measure_once(&p->place, bench_call_enqueue, p, wall_ns);
    bench_call_watch(p, 0.0);
    if (!ran) return failed(p, row->why);
    if (settings->check) {
        case_judge(p->data, &p->arrays, p->session->queue, &verdict);
        row->error_nmse = verdict.nmse;
        if (!verdict.good) {
            snprintf(row->why, sizeof row->why, "the result is wrong: %.230s", verdict.why);
            return BENCH_FAIL;
        }
    }
    row->engine = p->engine;
    read_beside(p, settings, row);
    for (int64_t n = 1; n < settings->warmup; n++)
        if (!measure_once(&p->place, bench_call_enqueue, p, &again_ns)) return failed(p, row->why);
    return BENCH_OK;
}

// CLBlast compiles from source in its first call and does not report the time. Count the first
// call's extra time as the build time.
static void add_first_call(double first_ns, bench_row *row) {
    if (strcmp(row->kernel, "clblast")) return;
    if (first_ns > row->times.wall_ns) row->build_ms += (first_ns - row->times.wall_ns) / 1e6;
    row->cold = true;
}

void bench_take_times(bench_row *row, const measure_times *times) {
    const struct test_case c = case_complete(&row->c.test);
    row->times = *times;
    row->gflops = model_flops(&c) / times->time_ns;
    row->gbytes_per_s = model_bytes(&c) / times->time_ns;
}

static bench_status measure(session *s, const bench_settings *settings, bench_row *row) {
    bench_call p;
    clattn_context_stats stats = {0};
    double first_ns = 0.0;
    bench_status status = bench_call_create(&p, s, &row->c, row->kernel, row->why);
    if (status == BENCH_OK) status = bench_call_prepare(&p, row->why);
    if (status == BENCH_OK) status = bench_warm_up(&p, settings, &first_ns, row);
    clattn_context_get_stats(s->context, &stats);
    row->build_ms = ((double)stats.build_time_ns + p.build_ns) / 1e6;
    row->cold = stats.programs_built > 0;
    row->peak_bytes = p.bytes;
    measure_times times;
    if (status == BENCH_OK && measure_run(&p.place, &settings->measure, bench_call_enqueue, &p, &times))
        bench_take_times(row, &times);
    else if (status == BENCH_OK)
        status = failed(&p, row->why);
    if (status == BENCH_OK) add_first_call(first_ns, row), read_beside(&p, settings, row);
    bench_call_destroy(&p);
    return status;
}

void bench_measure(session *s, const bench_case *c, const bench_settings *settings, bench_row *row) {
    const clattn_device device = s->device;
    *row = (bench_row){.c = *c, .error_nmse = -1.0, .status = BENCH_FAIL};
    s->message[0] = '\0';
    if (!bench_can_end(settings, row)) return;
    if (session_open_device(s, &device, NULL) >= 0) {
        snprintf(row->why, sizeof row->why, "%.255s",
                 s->message[0] ? s->message : "no context can be created on the device");
        return;
    }
    row->status = measure(s, settings, row);
    session_close(s);
}

void bench_measure_percent(bench_row *row, const struct limits *of_device) {
    const struct limit_demand d = demand_of(row);
    row->limit = limits_share(of_device, &d);
}
