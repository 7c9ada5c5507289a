// tune.c: the command `clattn tune`: find the fastest kernels and knobs of this device. Each
// candidate is forced by a tuned row, verified on hard cases against the double-precision
// reference, then timed. The winners are printed as rows for clattn_context_params.tuned_rows or
// for src/lib/plan/rows/tuned_rows.c.
#include "verification/sets/hard_cases.h"
#include "verification/limits/model.h"
#include "verification/words/words.h"
#include "cli/bench/bench_call.h"
#include "cli/files/file.h"
#include "cli/common/report.h"
#include "cli/tune/tune.h"
#include "cli/tune/tuned.h"
#include "cli/verify/verify_case.h"

// The devices on which a candidate is tried; see families.def.
typedef enum tune_where { TUNE_ANY, TUNE_CPU, TUNE_OTHER, TUNE_MATRIX } tune_where;

static const struct {
    tune_where where;
    const char *row;
} candidates[] = {
#define TUNE(where, row) {TUNE_##where, row},
#include "tables/families.def"
};

static const struct {
    const char *condition, *name;
} classes[] = {{"nq=..16", "attend-f32-b8-h12-n16-d64-full"},
               {"nq=17..96", "attend-f32-b2-h12-n77-d64-full"},
               {"nq=97.. band=513..", "attend-f32-b1-h8-n1024-d64-full"}};
#define CLASSES ((int)(sizeof classes / sizeof classes[0]))
_Static_assert(sizeof classes / sizeof classes[0] == TUNE_CLASSES, "a class each");

// Write the row's condition for a class: the number of query rows, and for many rows the width of
// the window or none.
static void name_class(tune_class *class) {
    const struct test_case *c = &class->test;
    const clattn_score *s = &c->score;
    const long long n = (long long)c->n_q, left = s->window ? s->window_left : -1,
                    right = s->causal   ? 0
                            : s->window ? s->window_right
                                        : -1;
    char band[32] = "band=513..";
    if (left >= 0 && right >= 0) snprintf(band, sizeof band, "band=..%lld", left + right + 1);
    if (n < 97) // shipped rows do not distinguish windows for few rows
        snprintf(class->condition, sizeof class->condition, "nq=%lld..%lld", n, n);
    else
        snprintf(class->condition, sizeof class->condition, "nq=%lld..%lld %s", n, n, band);
}

static void add_line(tune *t, const char *line) {
    const int length = (int)strcspn(line, "#"), end = length && line[length] ? length - 2 : length;
    const char *remark = line[length] ? line + length + 2 : "";
    if (t->common.json && length)
        json_array_append_new(
            t->rows, json_pack("{s:o, s:s}", "row", json_sprintf("%.*s", end, line), "remark", remark));
    const int n = snprintf(t->text + t->used, sizeof t->text - t->used, "%s\n", line);
    if (n > 0 && (size_t)n < sizeof t->text - t->used) t->used += (size_t)n;
}

// The rows' condition on the device. A CPU may report no vectors although it has some. The planner
// then probes the width, and the row applies to any width.
static const char *device_condition(const clattn_capabilities *device, char text[40]) {
    const bool hint = device->is_cpu && device->float_vector_width < 4;
    snprintf(text, 40, hint ? "cpu=%d" : "cpu=%d lanes=%u", device->is_cpu,
             (unsigned)device->float_vector_width);
    return text;
}

static int print_json(const tune *t, bool keeps) {
    return report_json(json_pack("{s:s, s:s, s:s, s:i, s:O}", "clattn", clattn_version(), "device",
                                 t->device.name, "driver", t->device.driver, "kept",
                                 keeps ? t->kept_count : 0, "rows", t->rows));
}

static bool take_case(void *target, const char *value, char why[256]) {
    tune *t = target;
    struct test_case *c = &t->classes[0].test;
    const int hard = hard_case_find(value);
    if (hard >= 0) *c = hard_case(hard);
    if (hard < 0 && !case_parse(value, c, why)) return false;
    t->named = true;
    t->class_count = 1;
    name_class(&t->classes[0]);
    return true;
}

static bool take_keep(void *target, const char *value, char why[256]) {
    static const char *const words[] = {"on", "off", NULL};
    int word = 0;
    if (!option_choice(value, words, &word, why)) return false;
    ((tune *)target)->keep = word ? TUNE_KEEP_OFF : TUNE_KEEP_ON;
    return true;
}

static bool make_classes(tune *t, char why[256]) {
    for (int i = 0; i < CLASSES && !t->named; i++) {
        snprintf(t->classes[i].condition, sizeof t->classes[i].condition, "%s", classes[i].condition);
        if (!case_parse(classes[i].name, &t->classes[i].test, why)) return false;
        t->class_count = CLASSES;
    }
    return true;
}

// True for a case without extra options. Such cases have head size 64, so that verification and
// timing share one program.
static bool without_extras(const struct test_case *c) {
    const unsigned lengths = CASE_HOST_BIT(CASE_Q_LENGTHS) | CASE_HOST_BIT(CASE_KV_LENGTHS);
    return case_attends(c) && c->head_dim == 64 && c->head_dim_v == 64 && c->layout == LAYOUT_DENSE &&
           !c->mask.rank && !c->bias.rank && !c->weights && !c->scores && !c->splits && !c->rope.layout &&
           !(c->hosts & ~lengths) && c->score.softcap == 0.0f && c->q_type == c->kv_type;
}

// Verify a candidate. At least one case must pass: a kernel that supports no case is not verified.
static bool verified(session *s, clattn_type type, clattn_kernel kernel) {
    int passed = 0;
    for (int i = 0; i < hard_case_count; i++) {
        struct test_case c = hard_case(i);
        char why[256];
        if (!without_extras(&c)) continue;
        c.q_type = c.kv_type = c.out_type = type;
        verify_family ran;
        const verify_result result = verify_run(s, &c, kernel, NULL, &ran, why);
        passed += result == VERIFY_PASS;
        if (result == VERIFY_FAIL) {
            tool_note("%s failed: %s", c.name, why);
            return false;
        }
    }
    return passed > 0;
}

// Median time of a case in ns; 0 if the case fails or its result is wrong.
static double timed(session *s, const struct test_case *test, int64_t repeat, bool check) {
    const measure_settings settings = {.repeat = repeat};
    const bench_case c = {.test = *test};
    measure_times times = {0};
    struct case_verdict verdict = {.good = true};
    bench_call call;
    char kernel[32], why[256];
    double wall;
    s->message[0] = '\0';
    bool ok = bench_call_create(&call, s, &c, kernel, why) == BENCH_OK &&
              bench_call_prepare(&call, why) == BENCH_OK;
    for (int i = 0; i < 2 && ok; i++) ok = measure_once(&call.place, bench_call_enqueue, &call, &wall);
    if (ok && check) case_judge(call.data, &call.arrays, s->queue, &verdict);
    if (!verdict.good) tool_note("failed: %s", verdict.why);
    ok = ok && verdict.good && measure_run(&call.place, &settings, bench_call_enqueue, &call, &times);
    bench_call_destroy(&call);
    return ok ? times.time_ns : 0.0;
}

// Parameters for CLBlast's GEMM kernels on devices that its database lacks. CLBlast 1.5.3 does not
// report its own choice, so its own is timed first. The sets are from its database, for CPUs and
// several kinds of GPUs, ordered by work-group size. CLBlast keeps the last set until the process
// ends.
typedef struct gemm {
    unsigned group, local_bytes;
    const char *parameters;
} gemm;
#define XGEMM(kwg, mdim, mwg, ndim, nwg, local, vwm, vwn)                                                    \
    "GEMMK=0 KREG=1 KWG=" #kwg " KWI=2 MDIMA=" #mdim " MDIMC=" #mdim " MWG=" #mwg " NDIMB=" #ndim            \
    " NDIMC=" #ndim " NWG=" #nwg " SA=" #local " SB=" #local " STRM=0 STRN=0 VWM=" #vwm " VWN=" #vwn
#define DIRECT(mdim, ndim, vwmd, vwnd, wgd)                                                                  \
    "KWID=2 MDIMAD=" #mdim " MDIMCD=" #mdim " NDIMBD=" #ndim " NDIMCD=" #ndim " PADA=1 PADB=1 VWMD=" #vwmd   \
    " VWND=" #vwnd " WGD=" #wgd
static const gemm xgemm[] = {
    {64, 8192, XGEMM(16, 8, 64, 8, 64, 1, 4, 4)},       {64, 0, XGEMM(32, 8, 64, 8, 64, 0, 4, 4)},
    {256, 12288, XGEMM(16, 16, 128, 16, 64, 1, 4, 4)},  {64, 4096, XGEMM(16, 8, 32, 8, 32, 1, 2, 2)},
    {256, 16384, XGEMM(16, 16, 128, 16, 128, 1, 4, 4)}, {128, 6144, XGEMM(16, 16, 64, 8, 32, 1, 4, 4)},
    {128, 24576, XGEMM(32, 8, 128, 16, 64, 1, 4, 4)},   {256, 8192, XGEMM(16, 16, 64, 16, 64, 1, 2, 2)},
    {64, 0, XGEMM(16, 8, 64, 8, 64, 0, 8, 8)}};
static const gemm direct[] = {{64, 8448, DIRECT(8, 8, 4, 4, 32)},     {64, 8448, DIRECT(8, 8, 2, 2, 32)},
                              {256, 8448, DIRECT(16, 16, 1, 1, 32)},  {64, 2176, DIRECT(8, 8, 1, 1, 16)},
                              {256, 33280, DIRECT(16, 16, 4, 4, 64)}, {64, 33280, DIRECT(8, 8, 8, 8, 64)}};
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

// A set must need less than this share of the time of CLBlast's own set. Smaller gains may be
// chance.
#define WORTH 0.95

static int try_parameters(tune *t, const char *row, const struct test_case *test, double *time_ns) {
    session s = {0};
    const int status = session_open_rows(&s, &t->common, row);
    if (status >= 0) return status;
    *time_ns = timed(&s, test, 7, true);
    progress_more(&t->progress, 1.0, "parameters of CLBlast");
    progress_wipe(&t->progress);
    session_close(&s);
    return -1;
}

typedef enum tuned_gemm { TUNE_XGEMM, TUNE_XGEMM_DIRECT } tuned_gemm;
// Time the sets of a kernel on a projection by CLBlast, its own set first. Add a row if another set
// is faster. *best_ns receives the best time. Returns -1, or the exit status if the device is lost.
static int try_gemm(tune *t, tuned_gemm kernel, const struct test_case *test, double *best_ns) {
    const gemm *const all = kernel == TUNE_XGEMM ? xgemm : direct, *best = NULL;
    const char *const word = kernel == TUNE_XGEMM ? "clblast_xgemm" : "clblast_xgemm_direct";
    struct test_case c = *test;
    char device[40], row[512];
    c.projection = CLATTN_PROJECTION_CLBLAST;
    int status = try_parameters(t, "", &c, best_ns);
    const double own_ns = *best_ns;
    for (int i = 0; status < 0 && own_ns > 0.0 && i < (kernel == TUNE_XGEMM ? COUNT(xgemm) : COUNT(direct));
         i++) {
        double time_ns = 0.0;
        if (t->quick && i % 3 != 0) continue;
        if (all[i].group > t->device.max_work_group || all[i].local_bytes > t->device.local_memory_bytes)
            continue;
        snprintf(row, sizeof row, "%s : %s\n", word, all[i].parameters);
        status = try_parameters(t, row, &c, &time_ns);
        if (status >= 0 || time_ns == 0.0 || time_ns >= WORTH * own_ns || time_ns >= *best_ns) continue;
        *best_ns = time_ns;
        best = &all[i];
    }
    if (status >= 0 || own_ns == 0.0) return status;
    snprintf(row, sizeof row, "%s %s : %s  # %.2f ms, CLBlast's own %.2f ms", word,
             device_condition(&t->device, device), best ? best->parameters : "", *best_ns / 1e6,
             own_ns / 1e6);
    if (!best)
        snprintf(row, sizeof row, "# %s: CLBlast's own parameters are the fastest: %.2f ms", word,
                 own_ns / 1e6);
    add_line(t, row);
    t->row_count++;
    return -1;
}

typedef struct winner {
    char row[256];
    double time_ns;
} winner;

// Time one tuned row on the cases with this type. For each class, keep the row if it is the
// fastest. Returns -1, or the exit status if the device is lost.
static int try_row(tune *t, const char *row, clattn_type type, winner *winners) {
    session s = {0};
    char text[300];
    snprintf(text, sizeof text, "%s\n", row);
    char what[320];
    snprintf(what, sizeof what, "%s %s", names_types[type], row);
    progress_more(&t->progress, 0.0, what);
    const int status = session_open_rows(&s, &t->common, text);
    if (status >= 0) return status;
    if (verified(&s, type, CLATTN_KERNEL_FLASH))
        for (int i = 0; i < t->class_count; i++) {
            struct test_case c = t->classes[i].test;
            if (!t->named) c.q_type = c.kv_type = c.out_type = type;
            c.kernel = CLATTN_KERNEL_FLASH;
            const double time_ns = timed(&s, &c, 9, t->named);
            if (time_ns > 0.0 && (winners[i].time_ns == 0.0 || time_ns < winners[i].time_ns)) {
                snprintf(winners[i].row, sizeof winners[i].row, "%s", row);
                winners[i].time_ns = time_ns;
            }
        }
    session_close(&s);
    progress_more(&t->progress, 1.0, what);
    progress_wipe(&t->progress);
    return -1;
}

static void add_winner(tune *t, clattn_type type, int i, const winner *w) {
    char row[400], line[640], device[40];
    tune_gained gained;
    const char *colon = strchr(w->row, ':');
    struct test_case c = t->classes[i].test;
    if (!colon) return;
    if (!t->named) c.q_type = c.kv_type = c.out_type = type;
    snprintf(row, sizeof row, "%.*s%s type=%s %s %s", (int)(colon - w->row), w->row,
             device_condition(&t->device, device), names_types[type], t->classes[i].condition, colon);
    progress_more(&t->progress, 0.0, "beside what is shipped");
    tune_gain(t, row, &c, &gained);
    progress_more(&t->progress, 1.0, "beside what is shipped");
    progress_wipe(&t->progress);
    const double gflops = model_flops(&t->classes[i].test) / w->time_ns;
    snprintf(line, sizeof line, "%s  # %.0f GFLOP/s, %s", row, gflops, gained.remark);
    add_line(t, line);
    t->row_count++;
    if (gained.faster) tune_keep_row(t, line);
    json_t *numbers = json_pack("{s:f, s:f, s:f, s:f, s:b}", "gflops", gflops, "gain", gained.gain,
                                "gain_low", gained.low, "gain_high", gained.high, "faster", gained.faster);
    json_object_update(json_array_get(t->rows, json_array_size(t->rows) - 1), numbers);
    json_decref(numbers);
}

// The nth candidate for these devices; NULL past the last.
static const char *candidate(tune_where where, int n) {
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i].where == where && n-- == 0) return candidates[i].row;
    return NULL;
}

// The nth candidate for this device. An empty row is one that cannot differ from another here.
static const char *candidate_here(const tune *t, int n) {
    const char *row = candidate(t->device.is_cpu ? TUNE_CPU : TUNE_OTHER, n);
    return row && strstr(row, "SUBGROUP") && !t->device.subgroups ? "" : row;
}

// Set *has if the row's kernel runs on a matrix engine that a probe has verified. Otherwise the
// kernel would be emulated, or another kernel would run.
static int ask_matrix(tune *t, const char *row, clattn_type type, bool *has) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, type, 1, 8, 1024, 64)};
    session s = {0};
    clattn_plan plan = {.matrix_instructions = false};
    const int status = session_open_rows(&s, &t->common, row);
    if (status >= 0) return status;
    p.kv.k = p.kv.v = p.out = p.q;
    *has = clattn_attention_plan(s.context, &p, &plan) == CLATTN_OK && plan.matrix_instructions &&
           !strncmp(row, plan.kernel_name, strcspn(row, " ")) &&
           strlen(plan.kernel_name) == strcspn(row, " ");
    session_close(&s);
    return -1;
}

// Try the candidates of matrix engines. The rows of a kernel are adjacent; --quick tries only the
// first of each kernel. Rows with BF16_TERMS are for float32.
static int try_matrix(tune *t, clattn_type type, winner *winners) {
    const char *row, *before = "";
    bool has = false;
    int status = -1;
    for (int i = 0; status < 0 && (row = candidate(TUNE_MATRIX, i)); i++, before = row) {
        const bool terms = strstr(row, "BF16_TERMS") != NULL;
        const bool first = terms || strncmp(row, before, strcspn(row, " ") + 1) != 0;
        if (terms != (type == CLATTN_TYPE_F32)) continue;
        if (first) status = ask_matrix(t, row, type, &has);
        if (status < 0 && has && (first || !t->quick)) status = try_row(t, row, type, winners);
    }
    return status;
}

static int tune_type(tune *t, clattn_type type) {
    winner winners[CLASSES] = {{{0}, 0.0}};
    const char *row;
    int status = -1;
    for (int i = 0; status < 0 && (row = candidate(TUNE_ANY, i)); i++)
        status = try_row(t, row, type, winners);
    if (status < 0) status = try_matrix(t, type, winners);
    for (int i = 0; status < 0 && (row = candidate_here(t, i)); i++)
        if (*row && !(t->quick && i % 3 != 1) && !interrupt_asked()) status = try_row(t, row, type, winners);
    for (int i = 0; status < 0 && i < t->class_count && !interrupt_asked(); i++)
        add_winner(t, type, i, &winners[i]);
    return status;
}

// The number of rows to try. Matrix engine rows are not counted, because their availability is not
// known yet.
static double count_rows(const tune *t) {
    const struct test_case *own = t->named ? &t->classes[0].test : NULL;
    const bool linear = own && own->op == CASE_LINEAR;
    const char *row;
    int each = t->class_count, types = t->projection || linear ? 0 : own ? 1 : 3;
    for (int i = 0; candidate(TUNE_ANY, i); i++) each++;
    for (int i = 0; (row = candidate_here(t, i)); i++) each += *row && !(t->quick && i % 3 != 1);
    // candidates for CLBlast's parameters
    const int projections = t->projection ? t->quick ? 5 : 16 : 0;
    return types * each + (!own || linear ? 2 : 0) + projections;
}

// The native kernel for many rows of the case's types. For block types it is the float32 kernel.
static void native_kernel(session *s, const struct test_case *c, clattn_linear_choice *choice) {
    const int64_t x[3] = {1, 256, 512}, w[2] = {512, 512};
    const clattn_tensor rows = clattn_tensor_dense(NULL, c->q_type, 3, x);
    const clattn_type type = clattn_type_numbers(c->matrix_type) > 1 ? CLATTN_TYPE_F32 : c->matrix_type;
    const clattn_linear_params p = {.x = rows,
                                    .out = rows,
                                    .w = clattn_tensor_dense(NULL, type, 2, w),
                                    .projection = CLATTN_PROJECTION_NATIVE};
    if (clattn_linear_plan(s->context, &p, choice) != CLATTN_OK)
        snprintf(choice->kernel_name, sizeof choice->kernel_name, "linear_tiles");
}

static const char *projection_rows(const tune *t, bool lanes, char text[48]) {
    const long long n = (long long)t->classes[0].test.n_q;
    if (!t->named) return lanes ? "nq=41.." : "type=f32 nq=17..";
    snprintf(text, 48, "nq=%lld..%lld", n, n);
    return text;
}

// Tune one projection: time CLBlast with its best parameters against the native kernel, and add a
// row for the faster.
static int tune_projection(tune *t, const char *name) {
    struct test_case c;
    char why[256], line[512], device[40], rows[48];
    double clblast = 0.0, native = 0.0;
    session s = {0};
    if (t->named)
        c = t->classes[0].test;
    else if (!case_parse(name, &c, why))
        return tool_failed("%s", why);
    int status = session_open(&s, &t->common);
    clattn_linear_choice choice = {.kernel_name = "linear_tiles"};
    if (status < 0) native_kernel(&s, &c, &choice);
    const bool lanes = !strcmp(choice.kernel_name, "linear_lanes");
    c.projection = CLATTN_PROJECTION_CLBLAST;
    progress_more(&t->progress, 0.0, "projection by CLBlast");
    if (status < 0) clblast = timed(&s, &c, 7, t->named);
    c.projection = CLATTN_PROJECTION_NATIVE;
    progress_more(&t->progress, 1.0, "projection by clattn");
    if (status < 0) native = timed(&s, &c, 7, t->named);
    progress_more(&t->progress, 1.0, NULL);
    progress_wipe(&t->progress);
    session_close(&s);
    if (status < 0 && t->projection && clblast > 0.0) status = try_gemm(t, TUNE_XGEMM_DIRECT, &c, &clblast);
    if (status >= 0) return status;
    snprintf(line, sizeof line,
             "%s %s %s :  # %lld x %lld x %lld: CLBlast %.2f ms, native %.2f ms (0: it failed)",
             native > 0.0 && (clblast == 0.0 || native < clblast) ? choice.kernel_name : "clblast",
             device_condition(&t->device, device), projection_rows(t, lanes, rows), (long long)c.n_q,
             (long long)c.width, (long long)case_matrix_rows(&c, LAYER_Q), clblast / 1e6, native / 1e6);
    if (clblast > 0.0 || native > 0.0) add_line(t, line), t->row_count++;
    return -1;
}

// Tune the CLBlast kernel for large products, independent of the case.
static int tune_large(tune *t) {
    struct test_case c;
    char why[256];
    double best_ns = 0.0;
    if (!case_parse("linear-f32-b1-h1-n1024-d1024-m1024-full", &c, why)) return tool_failed("%s", why);
    return try_gemm(t, TUNE_XGEMM, &c, &best_ns);
}

static int run_tune(tune *t) {
    session s = {0};
    char line[TUNED_HEAD], error[512];
    int status = session_open(&s, &t->common);
    if (status >= 0) return status;
    t->device = *s.capabilities;
    t->id = s.device;
    session_close(&s);
    add_line(t, tuned_head(&t->device, line));
    progress_begin(&t->progress, t->common.quiet, count_rows(t), 0.0);
    const struct test_case *own = t->named ? &t->classes[0].test : NULL;
    for (int type = CLATTN_TYPE_F32; type <= CLATTN_TYPE_BF16 && status < 0 && !interrupt_asked(); type++)
        if (!t->projection && (!own || (own->op != CASE_LINEAR && (int)own->q_type == type)))
            status = tune_type(t, (clattn_type)type);
    if (status < 0 && !interrupt_asked() && (!own || own->op == CASE_LINEAR))
        status = tune_projection(t, "linear-f32-b1-h1-n256-d512-m512-full");
    if (status < 0 && t->projection && !interrupt_asked()) status = tune_large(t);
    if (status >= 0) return status;
    if (!t->row_count && interrupt_asked()) return tool_interrupted("interrupted before the first row");
    if (!t->row_count) return tool_failed("no candidate ran with a right result: there is no row");
    if (!t->common.json) fputs(t->text, stdout);
    if (t->out && !file_write_whole(t->out, t->text, t->used, error)) return tool_failed("%s", error);
    const bool general = !t->named && !t->projection;
    const bool keeps = t->keep == TUNE_KEEP_ON || (t->keep == TUNE_KEEP_GENERAL && general);
    if (keeps) status = tune_keep(t);
    if (status < 0 && t->common.json) status = print_json(t, keeps);
    if (status == EXIT_DONE) status = -1;
    if (status < 0 && interrupt_asked())
        return tool_interrupted("interrupted: %d rows were found before", t->row_count);
    return status < 0 ? EXIT_DONE : status;
}

int tool_tune(int argc, char **argv) {
    static tune t; // static because it is large; every run initialises it
    static const option_row rows[] = {
        {"out", "FILE",
         "also write the rows to this file: a text for clattn_context_params.tuned_rows, whose format "
         "clattn.h describes; the row \"flash_tiles :\" selects that kernel on any device",
         AS_OUTPUT(tune, out)},
        {"quick", NULL, "try a third of the candidates", AS_SWITCH(tune, quick)},
        {"case", "NAME", "time the candidates only on this case, named as in tests, verify and bench",
         AS_CALL(take_case)},
        {"keep", "on|off",
         "keep the rows that are certainly faster than the shipped ones in the cache folder, where clattn "
         "finds them for this device; default on, but off with --case and --projection",
         AS_CALL(take_keep)},
        {"projection", NULL,
         "tune only projections, with parameters of CLBlast's kernels: clattn tune --projection --device gpu "
         "--out rows.txt",
         AS_SWITCH(tune, projection)}};
    const option_group groups[] = {{"tune", OPTION_ROWS(rows), &t}, common_group(&t.common)};
    command_line line = {.command = "tune",
                         .summary =
                             "find the fastest kernel variants for this device, as rows for the planner",
                         .example = "clattn tune --device cpu --out rows.txt",
                         .groups = groups,
                         .group_count = 2};
    char why[256];
    memset(&t, 0, sizeof t);
    int status = options_parse(&line, argc, argv);
    if (status < 0 && t.common.tuned)
        return tool_wrong("--tuned: has no effect: rows are compared with what is shipped");
    if (status < 0 && t.projection && t.named && t.classes[0].test.op != CASE_LINEAR)
        return tool_wrong("--projection: the case has no projection: a linear case is needed");
    if (status < 0) status = options_check_outputs(&line);
    if (status >= 0) return status;
    t.common.tuned = "off";
    t.rows = json_array();
    interrupt_catch();
    status = make_classes(&t, why) ? run_tune(&t) : tool_failed("%s", why);
    json_decref(t.rows);
    return status;
}
