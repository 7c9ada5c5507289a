// bench_run.c: run a bench on each device: measure the limits, then the cases, then add the table's
// rows.
#include "verification/limits/model.h"
#include "cli/bench/bench.h"

// Expected times of the parts, used for the progress line. Only their proportions matter.
#define LIMITS_MS 2000.0
#define PROJECTIONS_MS 500.0
#define COMPILE_MS 300.0
#define CHECK_FLOPS_PER_MS 5e7 // speed of the reference, which computes in double precision

static double case_ms(const bench *b, const bench_case *c) {
    const bench_settings *s = &b->settings;
    const double runs = s->measure.max_ms > 0.0 ? s->measure.max_ms : 1000.0;
    const double check = s->check ? model_flops(&c->test) / CHECK_FLOPS_PER_MS : 0.0;
    return (COMPILE_MS + runs + check) * (b->options ? bench_option_count() : b->other ? 2 : 1);
}

// Expected milliseconds of one device.
static double device_ms(const bench *b) {
    double all = (!b->limits ? 0 : b->options || b->other ? 1 : 2) * LIMITS_MS + PROJECTIONS_MS;
    for (int i = 0; i < b->case_count; i++) all += case_ms(b, &b->cases[i]);
    return all;
}

void bench_count(bench *b, const bench_row *row) {
    char name[CASE_NAME_SIZE];
    case_name(&row->c.test, name);
    if (row->status == BENCH_FAIL) tool_failed("%s: fail: %s", name, row->why);
    if (row->status == BENCH_UNSUPPORTED && b->common.verbose)
        tool_failed("%s: unsupported: %s", name, row->why);
    b->failures += row->status == BENCH_FAIL;
    b->measured += row->status == BENCH_OK;
    b->rows++;
}

#define MOST_ENGINES 32

// Add the peaks of engines other than float32 FMA if a case has types for such an engine. The
// probes run once for each device.
static void take_engines(const bench *b, session *s, struct limits *found) {
    clattn_engine engines[MOST_ENGINES];
    size_t count = 0;
    bool wanted = false;
    for (int i = 0; i < b->case_count; i++) {
        const struct test_case *t = &b->cases[i].test;
        wanted = wanted || t->q_type != CLATTN_TYPE_F32 || t->kv_type != CLATTN_TYPE_F32 ||
                 (case_projects(t) && t->matrix_type != CLATTN_TYPE_F32);
    }
    if (!wanted || !s->capabilities->is_cpu ||
        clattn_context_engines(s->context, engines, MOST_ENGINES, &count) != CLATTN_OK)
        return;
    limits_take_engines(engines, count < MOST_ENGINES ? count : MOST_ENGINES, s->capabilities->compute_units,
                        found);
}

static void measure_place(bench *b, session *s, struct limits *found) {
    struct place place = session_place(s);
    limits_measure(&place, b->settings.measure.max_ms > 0.0 ? b->settings.measure.max_ms : 1000.0, found);
    const bool native = found->native_fma_gflops > found->fma_gflops;
    b->settings.fma_gflops = native ? found->native_fma_gflops : found->fma_gflops;
    b->settings.limits = found;
    take_engines(b, s, found);
    if (b->other) b->other->settings.fma_gflops = b->settings.fma_gflops;
}

static int measure_limits(bench *b, session *s, struct limits *found) {
    const clattn_device device = s->device;
    if (!b->limits) return -1;
    progress_more(&b->progress, 0.0, "limits of the device");
    const int status = session_open_device(s, &device, NULL);
    if (status < 0) measure_place(b, s, found);
    session_close(s);
    progress_more(&b->progress, LIMITS_MS, NULL);
    progress_wipe(&b->progress);
    return status;
}

// Warn on stderr if other work disturbed the limits of a device that has rows.
static void tell_contended(const bench *b, const clattn_capabilities *capabilities,
                           const struct limits *found) {
    char line[LIMIT_LINE];
    const char *contended = limits_contended(found, line);
    if (*contended && b->measured > 0 && !b->common.quiet) tool_note("%s: %s", capabilities->name, contended);
}

// If a case leaves the projection open, measure CLBlast's and clattn's projections once for each
// device, before the cases. The cache folder keeps the result.
static int measure_projections(bench *b, session *s) {
    bool open = false;
    for (int i = 0; i < b->case_count; i++) {
        const struct test_case *t = &b->cases[i].test;
        const bool projects = t->op == CASE_LAYER || t->op == CASE_LINEAR;
        open = open || (projects && t->projection == CLATTN_PROJECTION_AUTO);
    }
    if (!open) return -1;
    const clattn_device device = s->device;
    progress_more(&b->progress, 0.0, "projections, CLBlast's and clattn's");
    int status = session_open_device(s, &device, NULL);
    if (status < 0 && clattn_context_measure(s->context) != CLATTN_OK)
        tool_failed("projections could not be measured, shipped rows are used: %s", s->message);
    session_close(s);
    progress_more(&b->progress, PROJECTIONS_MS, NULL);
    progress_wipe(&b->progress);
    return status;
}

// Returns how many cases ran before an interrupt.
static int run_cases(bench *b, session *s, bench_row *rows) {
    int i = 0;
    for (; i < b->case_count && !interrupt_asked(); i++) {
        char name[CASE_NAME_SIZE];
        case_name(&b->cases[i].test, name);
        progress_more(&b->progress, 0.0, name);
        bench_measure(s, &b->cases[i], &b->settings, &rows[i]);
        progress_more(&b->progress, case_ms(b, &b->cases[i]), NULL);
        progress_wipe(&b->progress);
        bench_count(b, &rows[i]);
    }
    return i;
}

static void show_option(void *user, const char *name) {
    bench *b = user;
    progress_more(&b->progress, b->option_ms, name);
}

static void add_options(bench *b, const bench_option *options) {
    for (int n = 0; n < bench_option_count(); n++) {
        bench_count(b, &options[n].row);
        bench_table_add_option(b->table, &options[n]);
    }
}

static int run_options(bench *b, session *s, const clattn_capabilities *capabilities) {
    struct limits found = {0};
    bench_option *options = calloc((size_t)bench_option_count(), sizeof *options);
    int status = options ? measure_limits(b, s, &found) : tool_failed("no memory");
    if (status < 0) bench_table_add_device(b->table, capabilities, &found);
    for (int i = 0; status < 0 && i < b->case_count && !interrupt_asked(); i++) {
        b->option_ms = case_ms(b, &b->cases[i]) / bench_option_count();
        bench_options_measure(s, &b->cases[i].test, &b->settings, options, show_option, b);
        progress_wipe(&b->progress);
        for (int n = 0; n < bench_option_count(); n++) bench_measure_percent(&options[n].row, &found);
        add_options(b, options);
    }
    if (status < 0) tell_contended(b, capabilities, &found);
    free(options);
    return status;
}

// Measure each case beside its partner, interleaved.
static int run_against(bench *b, session *s, const clattn_capabilities *capabilities) {
    struct limits found = {0};
    const int status = measure_limits(b, s, &found);
    if (status >= 0) return status;
    bench_table_add_device(b->table, capabilities, &found);
    for (int i = 0; i < b->case_count && !interrupt_asked(); i++) {
        bench_pair pair;
        char name[CASE_NAME_SIZE];
        case_name(&b->cases[i].test, name);
        progress_more(&b->progress, 0.0, name);
        bench_against_measure(b, s, i, &pair);
        progress_more(&b->progress, case_ms(b, &b->cases[i]), NULL);
        progress_wipe(&b->progress);
        bench_measure_percent(&pair.row, &found);
        bench_count(b, &pair.row);
        bench_table_add_pair(b->table, b->against, &pair);
    }
    tell_contended(b, capabilities, &found);
    return -1;
}

// Limits are measured before and after the cases: other work on the machine may lower either
// measurement.
static int run_device(bench *b, session *s) {
    struct limits found = {0};
    clattn_capabilities capabilities;
    if (clattn_device_describe(s->device.device, &capabilities) != CLATTN_OK)
        return tool_failed("a device that cannot be described");
    if (b->options) return run_options(b, s, &capabilities);
    if (b->other) return run_against(b, s, &capabilities);
    int done = 0;
    bench_row *rows = calloc((size_t)b->case_count, sizeof *rows);
    if (!rows) return tool_failed("no memory");
    int status = measure_limits(b, s, &found);
    if (status < 0) status = measure_projections(b, s);
    if (status < 0) {
        done = run_cases(b, s, rows);
        if (!interrupt_asked()) measure_limits(b, s, &found);
        bench_table_add_device(b->table, &capabilities, &found);
    }
    for (int i = 0; i < done; i++) {
        bench_measure_percent(&rows[i], &found);
        bench_table_add_row(b->table, &rows[i]);
    }
    if (status < 0) tell_contended(b, &capabilities, &found);
    free(rows);
    return status;
}

// Run on the device that --device or CLATTN_DEVICE names, otherwise on every device. Devices that
// cannot create a context are skipped, unless all of them fail.
int bench_run_devices(bench *b) {
    session s = {.options = b->common};
    clattn_device *devices = NULL;
    size_t count = 0;
    const char *named = getenv("CLATTN_DEVICE");
    if (b->common.device || (named && *named)) {
        const int status = session_open(&s, &b->common);
        if (status >= 0) return status;
        session_close(&s);
        progress_begin(&b->progress, b->common.quiet, device_ms(b), 0.0);
        return run_device(b, &s);
    }
    int status = session_devices(&s, &devices, &count);
    if (status >= 0) return status;
    const double each = device_ms(b);
    progress_begin(&b->progress, b->common.quiet, each * (double)count, 0.0);
    for (size_t i = 0; i < count && !interrupt_asked(); i++) {
        s.device = devices[i];
        status = run_device(b, &s);
        progress_at(&b->progress, each * (double)(i + 1), NULL);
        progress_wipe(&b->progress);
    }
    free(devices);
    return b->rows ? -1 : status;
}
