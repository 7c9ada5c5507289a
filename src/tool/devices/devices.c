// devices.c: clattn devices: every platform and device, what it can do, and which kernel the planner would
// take.
#include <jansson.h>
#include <time.h>

#include "evidence/device/choose_device.h"
#include "tool/cli/progress.h"
#include "tool/cli/report.h"

#define FAMILIES 32

// A typical call, its plan and what each kernel family says of it.
typedef struct example {
    const char *name, *label;
    clattn_type type;
    int64_t n_q;
    clattn_plan plan;
    clattn_family families[FAMILIES];
    size_t count;
} example;

enum { PREFILL, PREFILL_BF16, DECODE, EXAMPLES };
static const example examples[EXAMPLES] = {
    [PREFILL] = {.name = "prefill", .label = "prefill", .type = CLATTN_TYPE_F32, .n_q = 4096},
    [PREFILL_BF16] = {.name = "prefill_bf16", .label = "in bf16", .type = CLATTN_TYPE_BF16, .n_q = 4096},
    [DECODE] = {.name = "decode", .label = "decode", .type = CLATTN_TYPE_F32, .n_q = 1},
};

#define MOST_ENGINES 32

typedef struct engine_list {
    clattn_engine engines[MOST_ENGINES];
    size_t count;
} engine_list;

static void ask_engines(session *s, engine_list *list) {
    if (clattn_context_engines(s->context, list->engines, MOST_ENGINES, &list->count) != CLATTN_OK)
        list->count = 0;
    if (list->count > MOST_ENGINES) list->count = MOST_ENGINES;
}

// In UTC, as `format` of strftime's says; "" where it was not measured.
static const char *date_of(const clattn_engine *e, const char *format, char text[32]) {
    const time_t when = (time_t)e->measured;
    const struct tm *parts = e->measured > 0 ? gmtime(&when) : NULL;
    if (!parts || !strftime(text, 32, format, parts)) text[0] = '\0';
    return text;
}

static json_t *engines_json(const engine_list *list) {
    json_t *engines = json_array();
    char date[32];
    for (size_t i = 0; i < list->count; i++) {
        const clattn_engine *e = &list->engines[i];
        date_of(e, "%Y-%m-%dT%H:%M:%SZ", date);
        json_array_append_new(engines, json_pack("{s:s, s:b, s:f, s:s?, s:i, s:f, s:b, s:b}", "name", e->name,
                                                 "works", e->works, "gflops", (double)e->gflops, "measured",
                                                 date[0] ? date : NULL, "runs", e->runs, "spread",
                                                 (double)e->spread, "sure", e->sure, "kept", e->kept));
    }
    return engines;
}

// When and how.
static void print_measured(const clattn_engine *e) {
    char date[32];
    printf(" (%s", e->kept ? date_of(e, "%Y-%m-%d %H:%M UTC", date) : "now");
    if (e->spread < 1.0f)
        printf(", %d runs, the best two within %.2g %%", e->runs, 100.0 * (double)e->spread);
    printf("%s)", e->sure ? "" : "; not sure: the machine had other work, it is not kept");
}

// Engines that are right, with their rates, then the others.
static void print_engines(const engine_list *list) {
    int told = 0, others = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->engines[i].works) {
            printf("   %-10s %s, %.4g GFLOP/s a work-item", told++ ? "" : "engines", list->engines[i].name,
                   (double)list->engines[i].gflops);
            print_measured(&list->engines[i]);
            printf("\n");
        }
    for (size_t i = 0; i < list->count; i++)
        if (!list->engines[i].works)
            printf("%s%s", others++ ? ", " : "              not: ", list->engines[i].name);
    if (others) printf("\n");
}

// Engines of bfloat16 that are right on the device, and whether the example takes one.
static void print_matrix(const clattn_plan *plan, const engine_list *list) {
    int told = 0;
    printf("matrix instructions ");
    if (plan->matrix_instructions)
        told = printf("%s (self-tested)", !strcmp(plan->kernel_name, "flash_matrix") ? "AMX"
                                          : strstr(plan->kernel_name, "_fragments")  ? "mma.sync"
                                                                                    : "bfloat16 dot product");
    for (size_t i = 0; i < list->count && !plan->matrix_instructions; i++)
        if (list->engines[i].works && !strncmp(list->engines[i].name, "bfloat16", 8))
            told += printf("%s%s", told ? ", " : "", list->engines[i].name);
    printf("%s\n", !list->count                ? "not asked"
                   : !told                     ? "none found"
                   : plan->matrix_instructions ? ""
                                               : " (self-tested; not taken below)");
}

// Left empty where the device takes no context.
static void plan_example(session *s, example *e) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, e->type, 1, 32, e->n_q, 128),
                                 .kv.k = clattn_tensor_bhsd(NULL, e->type, 1, 8, 4096, 128)};
    p.kv.v = p.kv.k;
    p.out = p.q;
    if (clattn_attention_plan(s->context, &p, &e->plan) != CLATTN_OK ||
        clattn_attention_families(s->context, &p, e->families, FAMILIES, &e->count) != CLATTN_OK)
        e->count = 0;
    if (e->count > FAMILIES) e->count = FAMILIES;
}

static json_t *plan_json(const example *e) {
    const clattn_plan *p = &e->plan;
    json_t *families = json_array();
    for (size_t i = 0; i < e->count; i++)
        json_array_append_new(families, json_pack("{s:s, s:b, s:s}", "name", e->families[i].name, "taken",
                                                  e->families[i].taken, "why", e->families[i].why));
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:s, s:o}", "kernel", p->kernel_name, "tile_q", p->tile_q,
                     "tile_kv", p->tile_kv, "splits", p->splits, "local_bytes", (json_int_t)p->local_bytes,
                     "why", p->why, "families", families);
}

static json_t *device_json(size_t index, const clattn_capabilities *c, const engine_list *engines,
                           const example e[EXAMPLES]) {
    json_t *device = report_device(c);
    json_t *own = json_pack("{s:I, s:b, s:o, s:o, s:o, s:o}", "index", (json_int_t)index,
                            "matrix_instructions", e[PREFILL_BF16].plan.matrix_instructions, "prefill",
                            plan_json(&e[PREFILL]), "decode", plan_json(&e[DECODE]), "prefill_bf16",
                            plan_json(&e[PREFILL_BF16]), "engines", engines_json(engines));
    json_object_update(device, own);
    json_decref(own);
    return device;
}

static void print_device(size_t index, const clattn_capabilities *c, const engine_list *engines,
                         const example e[EXAMPLES]) {
    printable_printf(stdout, "%zu  %s\n", index, c->name);
    printable_printf(stdout, "   platform   %s\n   driver     %s, %s\n", c->platform, c->driver, c->version);
    printf("   type       %s, %u compute units, %.1f GiB, largest buffer %.1f GiB\n",
           c->is_gpu   ? "GPU"
           : c->is_cpu ? "CPU"
                       : "other",
           c->compute_units, (double)c->global_memory_bytes / 0x1p30,
           (double)c->max_allocation_bytes / 0x1p30);
    printf("   limits     %llu work-items a group, %llu KiB local memory%s\n",
           (unsigned long long)c->max_work_group, (unsigned long long)c->local_memory_bytes / 1024,
           c->local_memory_is_local ? "" : " (not apart from global)");
    printf("   can        half arithmetic %s, double %s, sub-groups %s, ", c->half_arithmetic ? "yes" : "no",
           c->double_arithmetic ? "yes" : "no", c->subgroups ? "yes" : "no");
    print_matrix(&e[PREFILL_BF16].plan, engines);
    print_engines(engines);
    for (int i = 0; i < EXAMPLES && e[i].plan.why[0]; i++) {
        printable_printf(stdout, "   %-10s %s\n", e[i].label, e[i].plan.why);
        for (size_t f = 0; f < e[i].count; f++)
            if (!e[i].families[f].taken)
                printable_printf(stdout, "                not %s: %s\n", e[i].families[f].name,
                                 e[i].families[f].why);
    }
}

// Whether --device means this one, and it tells of itself.
static bool tell_device(session *s, size_t index, const clattn_device *device, json_t *all, progress *asked) {
    const common_options *o = &s->options;
    clattn_capabilities c;
    example e[EXAMPLES];
    engine_list engines = {.count = 0};
    memcpy(e, examples, sizeof e);
    if (clattn_device_describe(device->device, &c) != CLATTN_OK) return false;
    if (o->device && !choose_device_score(o->device, index, &c)) return false;
    if (session_open_device(s, device, NULL) < 0) {
        ask_engines(s, &engines);
        for (int n = 0; n < EXAMPLES; n++) plan_example(s, &e[n]);
        session_close(s);
    }
    progress_wipe(asked);
    if (o->json)
        json_array_append_new(all, device_json(index, &c, &engines, e));
    else if (!o->quiet)
        print_device(index, &c, &engines, e);
    return true;
}

static const option_row rows[] = {{"measure", NULL,
                                   "measure the engines' rates again, also those that the cache folder "
                                   "keeps, and keep what is found now; a quiet machine answers best",
                                   AS_SWITCH(session, measures_again)}};

int tool_devices(int argc, char **argv) {
    common_options o = {0};
    session s = {.measures_again = false};
    const option_group groups[] = {{"devices", OPTION_ROWS(rows), &s}, common_group(&o)};
    command_line line = {.command = "devices",
                         .summary = "list OpenCL devices and what clattn does with them",
                         .example = "clattn devices --json\n  clattn devices --measure",
                         .groups = groups,
                         .group_count = 2};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    s.options = o;
    clattn_device *devices;
    size_t count = 0;
    status = session_devices(&s, &devices, &count);
    if (status >= 0) return status;
    json_t *all = json_array();
    int told = 0;
    progress asked;
    progress_begin(&asked, o.quiet, (double)count, 0.0);
    for (size_t i = 0; i < count; i++) {
        progress_at(&asked, (double)i, "asking what the device can do");
        told += tell_device(&s, i, &devices[i], all, &asked);
    }
    progress_wipe(&asked);
    free(devices);
    if (told == 0) {
        json_decref(all);
        return tool_wrong("--device %s: none of the %zu devices is that", o.device ? o.device : "any", count);
    }
    const bool bad = o.json && json_array_size(all) != (size_t)told;
    status =
        o.json ? report_json(json_pack("{s:s, s:O}", "clattn", clattn_version(), "devices", all)) : EXIT_DONE;
    json_decref(all);
    if (bad) return tool_failed("a device could not be told as JSON");
    return status;
}
