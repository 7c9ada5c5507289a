// bench.c: clattn bench: what to measure and where, and the table of what came out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "evidence/names.h"
#include "tool/bench_table.h"
#include "tool/file.h"
#include "tool/outputs.h"

enum {
    BENCH_BASELINES = 400 + BENCH_AXES,
    BENCH_OUTPUT,
    BENCH_SAVE,
    BENCH_CASE,
    BENCH_REPEAT,
    BENCH_MAX_MS,
    BENCH_CHECK,
    BENCH_OPTIONS
};

typedef struct bench {
    bench_list lists[BENCH_AXES], baselines;
    bench_settings settings;
    int format; // -1: not given
    const char *save, *named;
    bool options;
    common_options common;
    bench_case *cases;
    int case_count, failures, rows, measured;
    json_t *table;
} bench;

#define AXIS(axis) (400 + BENCH_AXIS_##axis)
static const option_row bench_rows[] = {
    {"-b", "LIST", AXIS(B), "batches; a list is 1,4 or 1k..16k*2 (k is 1024), lists multiply"},
    {"-n", "LIST", AXIS(N), "query rows"},
    {"n-kv", "LIST", AXIS(N_KV), "key rows; default as -n"},
    {"-d", "LIST", AXIS(D), "head size"},
    {"dv", "LIST", AXIS(DV), "head size of V; default as -d"},
    {"heads", "LIST", AXIS(HEADS), "query heads"},
    {"kv-heads", "LIST", AXIS(KV_HEADS), "key/value heads; default as --heads"},
    {"d-model", "LIST", AXIS(MODEL),
     "model width of a layer, inner size of a linear; default heads * head size"},
    {"causal", "LIST", AXIS(CAUSAL), "no, yes or both; aligned bottom-right"},
    {"dtype", "LIST", AXIS(DTYPE), "f32, f16, bf16"},
    {"kernel", "LIST", AXIS(KERNEL), "auto, unfused, flash, decode"},
    {"projection", "LIST", AXIS(PROJECTION), "auto, clblast, native: who multiplies in layer and linear"},
    {"precision", "LIST", AXIS(PRECISION),
     "exact, split: how the projections of layer and linear multiply float32"},
    {"packed", "LIST", AXIS(PACKED), "no, yes or both: whether their weights are packed before"},
    {"op", "LIST", AXIS(OP), "attend, decode, layer, linear (the query projection of such a layer alone)"},
    {"baselines", "LIST", BENCH_BASELINES,
     "none, unfused, clblast (float32, Q K^T and P V as its products): a row more for each case they can do; "
     "default none, and with no list at all both for one case"},
    {"preset", "LIST", AXIS(PRESET),
     "bert-base, gpt2, gpt3, llama3-8b, decode, mla-decode: sizes that the options above override; or a "
     "published "
     "model's "
     "attention with its RoPE, masks and (--op layer) norms, as clattn layer --list-presets names them"},
    {"case", "NAME[,NAME]", BENCH_CASE,
     "hard cases of verify, or OP-TYPE-bN-hN[-hkvN]-nN[-nkvN]-dN-full|causal and options, as tests, verify "
     "and tune name "
     "them: attend-f32-b1-h2-n9-nkv33-d64-causal-window5:3-alibi (all of them: src/evidence/case.h)"},
    {"repeat", "N", BENCH_REPEAT, "runs that are timed; default as many as --max-ms allows, at least 5"},
    {"max-ms", "X", BENCH_MAX_MS, "time for the runs of one case; default 1000"},
    {"options", NULL, BENCH_OPTIONS,
     "what each option of an attention call costs, beside the plain call in turns: of a prefill and a decode "
     "shape, or "
     "of the shapes of --case"},
    {"check", "on|off", BENCH_CHECK, "verify each case before it is timed; default on"},
    {"-o", "FORMAT", BENCH_OUTPUT, "md, csv, json, jsonl or sql on stdout; default md"},
    {"save", "FILE", BENCH_SAVE,
     "write a file too: JSON for clattn compare, or by its ending .md, .csv, .jsonl or .sql"},
};

static bool take_switch(const char *value, bench_list *list, char why[256]) {
    static const char *const names[] = {"no", "yes", "both", NULL};
    if (!bench_list_names(value, names, list, why)) return false;
    bool wanted[2] = {false, false};
    for (int i = 0; i < list->count; i++)
        for (int c = 0; c < 2; c++) wanted[c] = wanted[c] || list->x[i] == c || list->x[i] == 2;
    list->count = 0;
    for (int c = 0; c < 2; c++)
        if (wanted[c]) list->x[list->count++] = c;
    return true;
}

static bool take_axis(bench_list *list, int axis, const char *value, char why[256]) {
    switch (axis) {
    case BENCH_AXIS_PRESET:
        return bench_list_names(value, bench_presets, list, why);
    case BENCH_AXIS_OP:
        return bench_list_names(value, names_ops, list, why);
    case BENCH_AXIS_DTYPE:
        return bench_list_names(value, names_types, list, why);
    case BENCH_AXIS_KERNEL:
        return bench_list_names(value, names_kernels, list, why);
    case BENCH_AXIS_PROJECTION:
        return bench_list_names(value, names_projections, list, why);
    case BENCH_AXIS_PRECISION:
        return bench_list_names(value, names_precisions, list, why);
    case BENCH_AXIS_CAUSAL:
    case BENCH_AXIS_PACKED:
        return take_switch(value, list, why);
    default:
        return bench_list_numbers(value, list, why);
    }
}

static bool take_max_ms(bench *b, const char *value, char why[256]) {
    if (option_number(value, &b->settings.measure.max_ms, why) && b->settings.measure.max_ms > 0.0)
        return true;
    snprintf(why, 256, "a number of milliseconds above 0 is needed");
    return false;
}

// By its ending; JSON without one. -1: an ending that none of the formats has.
static int format_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (int i = 0; dot && bench_formats[i]; i++)
        if (!strcmp(dot + 1, bench_formats[i])) return i;
    return dot ? -1 : BENCH_JSON;
}

static bool take_bench(void *target, int id, const char *value, char why[256]) {
    static const char *const switches[] = {"off", "on", NULL};
    bench *b = target;
    int index = 0;
    if (id < 400 + BENCH_AXES) return take_axis(&b->lists[id - 400], id - 400, value, why);
    switch (id) {
    case BENCH_BASELINES:
        return bench_list_names(value, bench_baselines, &b->baselines, why);
    case BENCH_CASE:
        b->named = value;
        return true;
    case BENCH_OUTPUT:
        return option_choice(value, bench_formats, &b->format, why);
    case BENCH_REPEAT:
        return option_integer(value, 1, 1000, &b->settings.measure.repeat, why);
    case BENCH_MAX_MS:
        return take_max_ms(b, value, why);
    case BENCH_CHECK:
        if (!option_choice(value, switches, &index, why)) return false;
        b->settings.check = index == 1;
        return true;
    case BENCH_OPTIONS:
        b->options = true;
        return true;
    default:
        b->save = value;
        snprintf(why, 256,
                 "a name in .json, .md, .csv, .jsonl or .sql is needed; without an ending it is JSON");
        return format_of(value) >= 0;
    }
}

// One line that is overwritten, for somebody who watches.
static void show_progress(const bench *b, const char *what, int number) {
    if (b->common.quiet || !isatty(STDERR_FILENO)) return;
    if (what)
        fprintf(stderr, "\r\033[K%d/%d %s", number, b->case_count, what);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static void tell_problem(const bench *b, const bench_row *row, const char *name) {
    if (row->status == BENCH_FAIL) tool_failed("bench", "%s: fail: %s", name, row->why);
    if (row->status == BENCH_UNSUPPORTED && b->common.verbose)
        tool_failed("bench", "%s: unsupported: %s", name, row->why);
}

static void measure_place(session *s, struct limits *found) {
    struct place place = session_place(s);
    limits_measure(&place, found);
}

static int measure_limits(const bench *b, session *s, struct limits *found) {
    const clattn_device device = s->device;
    show_progress(b, "limits of the device", 0);
    const int status = session_open_device(s, &device, NULL);
    if (status < 0) measure_place(s, found);
    session_close(s);
    show_progress(b, NULL, 0);
    return status;
}

// Who projects where a case leaves it open: once a device, for the cache folder, before a row is measured.
static int measure_projections(const bench *b, session *s) {
    bool open = false;
    for (int i = 0; i < b->case_count; i++) {
        const struct test_case *t = &b->cases[i].test;
        const bool projects = t->op == CASE_LAYER || t->op == CASE_LINEAR;
        open = open || (projects && t->projection == CLATTN_PROJECTION_AUTO);
    }
    if (!open) return -1;
    const clattn_device device = s->device;
    show_progress(b, "projections, CLBlast's and clattn's", 0);
    int status = session_open_device(s, &device, NULL);
    if (status < 0 && clattn_context_measure(s->context) != CLATTN_OK)
        tool_failed("bench", "projections are not measured, shipped rows decide: %s", s->message);
    session_close(s);
    show_progress(b, NULL, 0);
    return status;
}

static void run_cases(bench *b, session *s, bench_row *rows) {
    for (int i = 0; i < b->case_count; i++) {
        char name[CASE_NAME_SIZE];
        case_name(&b->cases[i].test, name);
        show_progress(b, name, i + 1);
        bench_measure(s, &b->cases[i], &b->settings, &rows[i]);
        show_progress(b, NULL, 0);
        tell_problem(b, &rows[i], name);
        b->failures += rows[i].status == BENCH_FAIL;
    }
}

static void show_option(void *user, const char *name) {
    show_progress(user, name, 0);
}

static void add_options(bench *b, const bench_option *options) {
    for (int n = 0; n < bench_option_count(); n++) {
        bench_option o = options[n];
        char name[CASE_NAME_SIZE];
        tell_problem(b, &o.row, case_name(&o.row.c.test, name));
        b->failures += o.row.status == BENCH_FAIL;
        b->measured += o.row.status == BENCH_OK;
        b->rows++;
        bench_table_add_option(b->table, &o);
    }
}

static int run_options(bench *b, session *s, const clattn_capabilities *capabilities) {
    struct limits found = {0};
    bench_option *options = calloc((size_t)bench_option_count(), sizeof *options);
    int status = options ? measure_limits(b, s, &found) : tool_failed("bench", "no memory");
    if (status < 0) bench_table_add_device(b->table, capabilities, &found);
    for (int i = 0; status < 0 && i < b->case_count; i++) {
        bench_options_measure(s, &b->cases[i].test, &b->settings, options, show_option, b);
        show_progress(b, NULL, 0);
        for (int n = 0; n < bench_option_count(); n++) bench_measure_percent(&options[n].row, &found);
        add_options(b, options);
    }
    free(options);
    return status;
}

// Limits are taken before and after, since a machine that others use has its best moment at any time.
static int run_device(bench *b, session *s) {
    struct limits found = {0};
    clattn_capabilities capabilities;
    if (clattn_device_describe(s->device.device, &capabilities) != CLATTN_OK)
        return tool_failed("bench", "a device that tells nothing of itself");
    if (b->options) return run_options(b, s, &capabilities);
    bench_row *rows = calloc((size_t)b->case_count, sizeof *rows);
    if (!rows) return tool_failed("bench", "no memory");
    int status = measure_limits(b, s, &found);
    if (status < 0) status = measure_projections(b, s);
    if (status < 0) {
        run_cases(b, s, rows);
        measure_limits(b, s, &found);
        bench_table_add_device(b->table, &capabilities, &found);
    }
    for (int i = 0; status < 0 && i < b->case_count; i++) {
        bench_measure_percent(&rows[i], &found);
        bench_table_add_row(b->table, &rows[i]);
        b->rows++;
        b->measured += rows[i].status == BENCH_OK;
    }
    free(rows);
    return status;
}

// The device that --device or CLATTN_DEVICE names, else each in turn; one that takes no context is passed
// over, unless none does.
static int run_devices(bench *b) {
    session s = {.command = "bench", .options = b->common};
    clattn_device *devices = NULL;
    size_t count = 0;
    const char *named = getenv("CLATTN_DEVICE");
    if (b->common.device || (named && *named)) {
        const int status = session_open(&s, "bench", &b->common);
        if (status >= 0) return status;
        session_close(&s);
        return run_device(b, &s);
    }
    int status = session_devices(&s, &devices, &count);
    if (status >= 0) return status;
    for (size_t i = 0; i < count; i++) {
        s.device = devices[i];
        status = run_device(b, &s);
    }
    free(devices);
    return b->rows ? -1 : status;
}

static int save_table(const bench *b) {
    char error[512];
    size_t bytes = 0;
    if (!b->save) return -1;
    char *text = bench_table_text(b->table, (bench_format)format_of(b->save), &bytes);
    const bool ok = text && file_write_whole(b->save, text, bytes, error, sizeof error);
    const int status = ok ? -1 : tool_failed("bench", "--save: %s", text ? error : "no memory");
    free(text);
    return status;
}

static int print_table(const bench *b) {
    size_t bytes = 0;
    if (b->common.quiet) return -1;
    const bench_format format = b->common.json  ? BENCH_JSON
                                : b->format < 0 ? BENCH_MD
                                                : (bench_format)b->format;
    char *text = bench_table_text(b->table, format, &bytes);
    if (!text) return tool_failed("bench", "no memory to print the table");
    fwrite(text, 1, bytes, stdout);
    free(text);
    return -1;
}

// The shapes whose options are measured: calls of attention without any.
static bool make_option_cases(bench *b, bool listed, char why[256]) {
    char standard[256] = "";
    for (int n = 0; bench_option_cases[n]; n++) {
        const size_t used = strlen(standard);
        snprintf(standard + used, sizeof standard - used, "%s%s", n ? "," : "", bench_option_cases[n]);
    }
    snprintf(why, 256, "--options: has its own cases, or those of --case: no list or baseline beside it");
    if (listed || !bench_cases_named(b->named ? b->named : standard, &b->cases, &b->case_count, why))
        return false;
    for (int i = 0; i < b->case_count; i++) {
        const struct test_case *t = &b->cases[i].test;
        snprintf(why, 256, "--options: options are of attend and decode alone");
        if (!case_projects(t) && !t->composed) continue;
        free(b->cases);
        return false;
    }
    return true;
}

static bool make_cases(bench *b, char why[256]) {
    bool listed = b->baselines.count > 0;
    for (int a = 0; a < BENCH_AXES; a++) listed = listed || b->lists[a].count > 0;
    if (b->options) return make_option_cases(b, listed, why);
    if (!b->named) return bench_cases_make(b->lists, &b->baselines, &b->cases, &b->case_count, why);
    if (!listed) return bench_cases_named(b->named, &b->cases, &b->case_count, why);
    snprintf(why, 256, "--case: says it all, no list or baseline beside it");
    return false;
}

int tool_bench(int argc, char **argv) {
    bench b = {.format = -1, .settings = {.check = true}};
    char why[256];
    const option_group groups[] = {
        {"what is measured; with nothing, a minute of standard cases on every device", bench_rows,
         sizeof bench_rows / sizeof bench_rows[0], take_bench, &b},
        common_group(&b.common)};
    command_line line = {.command = "bench",
                         .summary = "measure attention, verified first, against what the device can do",
                         .example =
                             "clattn bench -n 512,1k..4k*2 -d 64 --heads 12 --causal both --dtype f32,bf16",
                         .groups = groups,
                         .group_count = 2};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    const output_file output = {"save", b.save};
    if (b.format >= 0 && b.common.json)
        return tool_wrong("bench", "--json: says it, and so does -o: one is accepted");
    status = outputs_check("bench", &output, 1);
    if (status >= 0) return status;
    if (!make_cases(&b, why)) return tool_wrong("bench", "%s", why);
    b.table = bench_table_new();
    status = run_devices(&b);
    if (status < 0) status = print_table(&b);
    if (status < 0) status = save_table(&b); // last: a table that cannot be saved has at least been seen
    json_decref(b.table);
    free(b.cases);
    if (status >= 0) return status;
    if (b.measured + b.failures == 0)
        return tool_failed("bench",
                           "nothing was measured: no device takes any of the %d cases; --verbose tells why",
                           b.case_count);
    return b.failures ? EXIT_FAILED : EXIT_DONE;
}
