// devices.c: the command `clattn devices`: every platform and device, its capabilities, and the
// kernels that the planner would select. devices_page.c prints the page.
#include <jansson.h>

#include "verification/device/choose_device.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/devices/devices_page.h"

static const devices_example examples[DEVICES_EXAMPLES] = {
    [DEVICES_PREFILL] = {.name = "prefill", .rows = "f32, 4096 rows", .type = CLATTN_TYPE_F32, .n_q = 4096},
    [DEVICES_PREFILL_BF16] = {.name = "bf16",
                              .rows = "bf16, 4096 rows",
                              .type = CLATTN_TYPE_BF16,
                              .n_q = 4096},
    [DEVICES_DECODE] = {.name = "decode", .rows = "f32, 1 row", .type = CLATTN_TYPE_F32, .n_q = 1},
};

static void ask_engines(session *s, devices_engines *list) {
    if (clattn_context_engines(s->context, list->engines, DEVICES_ENGINES, &list->count) != CLATTN_OK)
        list->count = 0;
    if (list->count > DEVICES_ENGINES) list->count = DEVICES_ENGINES;
}

static void ask_unfit(session *s, devices_page *page) {
    if (clattn_context_unfit(s->context, page->unfit, DEVICES_UNFIT, &page->unfit_count) != CLATTN_OK)
        page->unfit_count = 0;
    if (page->unfit_count > DEVICES_UNFIT) page->unfit_count = DEVICES_UNFIT;
}

static json_t *unfit_json(const devices_page *page) {
    json_t *all = json_array();
    for (size_t i = 0; i < page->unfit_count; i++) {
        const clattn_unfit *u = &page->unfit[i];
        char words[sizeof u->line];
        snprintf(words, sizeof words, "%s", u->line);
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:i, s:I, s:b, s:b, s:s}", "kernel", u->kernel,
                                             "options", u->options, "step", u->step, "code", u->code,
                                             "work_group", (json_int_t)u->work_group, "smaller", u->smaller,
                                             "kept", u->kept, "words", printable(words)));
    }
    return all;
}

static json_t *engines_json(const devices_engines *list) {
    json_t *engines = json_array();
    char date[32];
    for (size_t i = 0; i < list->count; i++) {
        const clattn_engine *e = &list->engines[i];
        devices_date(e, "%Y-%m-%dT%H:%M:%SZ", date);
        json_array_append_new(engines,
                              json_pack("{s:s, s:b, s:f, s:s?, s:i, s:f, s:b, s:b, s:b}", "name", e->name,
                                        "works", e->works, "gflops", (double)e->gflops, "measured",
                                        date[0] ? date : NULL, "runs", e->runs, "spread", (double)e->spread,
                                        "sure", e->sure, "kept", e->kept, "died", e->died));
    }
    return engines;
}

// Plan one example. Its families stay empty if the device cannot create a context.
static void plan_example(session *s, devices_example *e) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, e->type, 1, 32, e->n_q, 128),
                                 .kv.k = clattn_tensor_bhsd(NULL, e->type, 1, 8, 4096, 128)};
    p.kv.v = p.kv.k;
    p.out = p.q;
    if (clattn_attention_plan(s->context, &p, &e->plan) != CLATTN_OK ||
        clattn_attention_families(s->context, &p, e->families, DEVICES_FAMILIES, &e->count) != CLATTN_OK)
        e->count = 0;
    if (e->count > DEVICES_FAMILIES) e->count = DEVICES_FAMILIES;
}

static json_t *plan_json(const devices_example *e) {
    const clattn_plan *p = &e->plan;
    json_t *families = json_array();
    for (size_t i = 0; i < e->count; i++)
        json_array_append_new(families, json_pack("{s:s, s:b, s:s}", "name", e->families[i].name, "taken",
                                                  e->families[i].taken, "why", e->families[i].why));
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:s, s:o}", "kernel", p->kernel_name, "tile_q", p->tile_q,
                     "tile_kv", p->tile_kv, "splits", p->splits, "local_bytes", (json_int_t)p->local_bytes,
                     "why", p->why, "families", families);
}

static json_t *device_json(const devices_page *page) {
    const devices_example *e = page->examples;
    json_t *device = report_device(&page->device);
    json_t *own = json_pack(
        "{s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:b}", "index", (json_int_t)page->index, "matrix_instructions",
        e[DEVICES_PREFILL_BF16].plan.matrix_instructions, "prefill", plan_json(&e[DEVICES_PREFILL]), "decode",
        plan_json(&e[DEVICES_DECODE]), "prefill_bf16", plan_json(&e[DEVICES_PREFILL_BF16]), "engines",
        engines_json(&page->engines), "unfit", unfit_json(page), "driver_known", page->device.driver_known);
    json_object_update(device, own);
    json_decref(own);
    return device;
}

// Describe a device. Returns false if --device does not select it or it reports no capabilities.
static bool tell_device(session *s, devices_page page, const clattn_device *device, json_t *all,
                        progress *asked) {
    const common_options *o = &s->options;
    const size_t index = page.index;
    page.verbose = o->verbose;
    memcpy(page.examples, examples, sizeof examples);
    if (clattn_device_describe(device->device, &page.device) != CLATTN_OK) return false;
    if (o->device && !choose_device_score(o->device, index, &page.device)) return false;
    if (session_open_device(s, device, NULL) < 0) {
        ask_engines(s, &page.engines);
        ask_unfit(s, &page);
        for (int n = 0; n < DEVICES_EXAMPLES; n++) plan_example(s, &page.examples[n]);
        if (!o->json && !o->quiet) devices_measure(s, &page);
        session_close(s);
        page.opened = true;
    }
    progress_wipe(asked);
    if (o->json)
        json_array_append_new(all, device_json(&page));
    else if (!o->quiet)
        devices_print(&page);
    return true;
}

// The index of the device that a command uses without --device; `count` if there is none.
static size_t find_default(const clattn_device *devices, size_t count) {
    const char *named = getenv("CLATTN_DEVICE");
    const clattn_device *other = NULL,
                        *chosen = choose_device(devices, count, named && *named ? named : NULL, &other);
    if (!chosen && !other && named && *named)
        tool_note("warning: $CLATTN_DEVICE %s: matches none of these devices, so commands will refuse it",
                  named);
    return chosen ? (size_t)(chosen - devices) : count;
}

static const option_row rows[] = {{"measure", NULL,
                                   "measure the rates of the device's engines again, also those that the "
                                   "cache folder keeps, and keep the new "
                                   "rates; a quiet machine gives the best ones",
                                   AS_SWITCH(session, measures_again)}};

int tool_devices(int argc, char **argv) {
    common_options o = {0};
    session s = {.measures_again = false};
    const option_group groups[] = {{"devices", OPTION_ROWS(rows), &s}, common_group(&o)};
    command_line line = {.command = "devices",
                         .summary = "list OpenCL devices, their capabilities and the kernels that clattn "
                                    "uses on them; --verbose lists all engines and kernels",
                         .example = "clattn devices\nclattn devices --json\nclattn devices --measure",
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
    const size_t first = find_default(devices, count);
    progress_begin(&asked, o.quiet, (double)count, 0.0);
    for (size_t i = 0; i < count; i++) {
        progress_at(&asked, (double)i, "asking what the device can do");
        const devices_page page = {.index = i, .is_default = i == first, .follows = told > 0};
        told += tell_device(&s, page, &devices[i], all, &asked);
    }
    progress_wipe(&asked);
    if (told == 0 && !o.device)
        status = tool_failed("none of the %zu devices here can be described; see clattn doctor", count);
    else if (told == 0)
        status = session_no_device("--device", o.device, devices, count);
    free(devices);
    if (told && o.json && json_array_size(all) != (size_t)told)
        status = tool_failed("a device could not be written as JSON");
    if (status < 0)
        status = o.json ? report_json(json_pack("{s:s, s:O}", "clattn", clattn_version(), "devices", all))
                        : EXIT_DONE;
    json_decref(all);
    return status;
}
