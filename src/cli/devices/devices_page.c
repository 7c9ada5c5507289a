// devices_page.c: see devices_page.h.
#include "cli/devices/devices_page.h"

#include <stdarg.h>
#include <time.h>

#include "verification/device/measure.h"
#include "verification/limits/limits.h"

#define LEFT 14
#define MEASURE_MS 300.0 // time limit of each measurement

static bool enqueue(void *user, cl_event *event) {
    return limit_enqueue(user, event);
}

// Work per nanosecond in the fastest run; 0: the measurement failed.
static double best_rate(struct place *place, limit_kind kind) {
    const measure_settings settings = {.repeat = 20, .max_ms = MEASURE_MS};
    measure_times times;
    double rate = 0.0, wall = 0.0;
    struct limit *l = limit_create(place, kind, 0);
    if (l && measure_once(place, enqueue, l, &wall) && measure_run(place, &settings, enqueue, l, &times) &&
        times.time_ns_min > 0.0)
        rate = limit_work(l) / times.time_ns_min;
    limit_destroy(l);
    return rate;
}

void devices_measure(session *s, devices_page *page) {
    struct place place = session_place(s);
    page->fma_gflops = best_rate(&place, LIMIT_FMA);
    page->read_gbytes_per_s = best_rate(&place, LIMIT_READ);
}

const char *devices_date(const clattn_engine *e, const char *format, char text[32]) {
    const time_t when = (time_t)e->measured;
    const struct tm *parts = e->measured > 0 ? gmtime(&when) : NULL;
    if (!parts || !strftime(text, 32, format, parts)) text[0] = '\0';
    return text;
}

// Print a line of words after its label. Words that do not fit continue on the next line.
static void line(const char *label, const char *format, ...) TOOL_PRINTF(2);
static void line(const char *label, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("   %-*s", LEFT - 3, label);
    options_text_wrapped(printable(text), LEFT, LEFT, stdout);
}

// Engines under the names that a reader knows. An engine that matches no entry, such as
// "multiply-add in vectors", has no line.
static const struct {
    const char *part, *title; // part of an engine's name
    bool of_gpus;
} kinds[] = {{"bfloat16 dot product", "bfloat16 dot product", false},
             {"(VNNI)", "integer dot product (VNNI)", false},
             {"(AMX)", "matrix tiles (AMX)", false},
             {"sub-groups", "sub-groups", true},
             {"(GPUs)", "integer dot product", true},
             {"(mma.sync)", "mma.sync", true},
             {"(wgmma)", "wgmma", true},
             {"(WMMA)", "WMMA", true},
             {"(MFMA)", "MFMA", true},
             {"(DPAS)", "DPAS", true}};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

// Why an engine is off.
typedef enum off_reason {
    OFF_NOT,
    OFF_DIED,
    OFF_FAILED,
    OFF_ABSENT,
    OFF_OF_GPUS,
    OFF_OF_CPUS,
    OFF_REASONS
} off_reason;
static const char *const off_texts[OFF_REASONS] = {
    [OFF_FAILED] = "tried, and its result was wrong or the driver did not compile it",
    [OFF_ABSENT] = "not offered by the device or its driver",
    [OFF_OF_GPUS] = "for GPUs",
    [OFF_OF_CPUS] = "for CPUs"};

static off_reason reason_of(const devices_page *page, int kind) {
    bool there = false, tried = false, died = false;
    for (size_t i = 0; i < page->engines.count; i++) {
        const clattn_engine *e = &page->engines.engines[i];
        if (!strstr(e->name, kinds[kind].part)) continue;
        if (e->works) return OFF_NOT;
        there = true, tried = tried || e->measured > 0, died = died || e->died;
    }
    if (!there) return OFF_NOT;
    if (died) return OFF_NOT; // print_died prints the engine's line
    if (tried) return OFF_FAILED;
    if (page->device.is_cpu && kinds[kind].of_gpus) return OFF_OF_GPUS;
    return page->device.is_gpu && !kinds[kind].of_gpus ? OFF_OF_CPUS : OFF_ABSENT;
}

// Print each kernel that the driver rejected, once, with the first compiler message.
static void print_unfit(const devices_page *page) {
    const char *label = "unfit";
    for (size_t i = 0; i < page->unfit_count; i++) {
        const clattn_unfit *u = &page->unfit[i];
        size_t first = 0, count = 0;
        while (strcmp(page->unfit[first].kernel, u->kernel)) first++;
        if (first < i && !page->verbose) continue;
        for (size_t n = i; n < page->unfit_count; n++) count += !strcmp(page->unfit[n].kernel, u->kernel);
        line(label, "%s%s: %s returned %d%s%s", u->kernel, count > 1 && !page->verbose ? " (several)" : "",
             u->step, u->code, u->line[0] ? ": " : "", u->line);
        if (page->verbose) line("", "  %s", u->options);
        label = "";
    }
}

// Print the engines whose probe crashed the driver. Returns true if there are any.
static bool print_died(const devices_page *page) {
    char names[512] = "";
    for (size_t i = 0; i < page->engines.count; i++) {
        const size_t used = strlen(names);
        if (page->engines.engines[i].died)
            snprintf(names + used, sizeof names - used, "%s%s", used ? "; " : "",
                     page->engines.engines[i].name);
    }
    if (names[0]) line("off", "%s: an earlier process ended in it; --measure tries it again", names);
    return names[0] != '\0';
}

static void print_off(const devices_page *page) {
    const char *label = print_died(page) ? "" : "off";
    for (int why = OFF_FAILED; why < OFF_REASONS; why++) {
        char names[512] = "";
        for (int n = 0; n < KINDS; n++)
            if ((int)reason_of(page, n) == why) {
                const size_t used = strlen(names);
                snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", kinds[n].title);
            }
        if (!names[0]) continue;
        line(label, "%s: %s", names, off_texts[why]);
        label = "";
    }
}

// The bfloat16 engines with correct results, and the engine that the example uses.
static const char *matrix_text(const devices_page *page, char text[512]) {
    const clattn_plan *plan = &page->examples[DEVICES_PREFILL_BF16].plan;
    size_t used = 0;
    text[0] = '\0';
    if (!page->engines.count) return "not asked";
    if (plan->matrix_instructions) {
        snprintf(text, 512, "%s (self-tested)",
                 !strcmp(plan->kernel_name, "flash_matrix") ? "AMX"
                 : strstr(plan->kernel_name, "_fragments")  ? "matrix fragments"
                                                            : "bfloat16 dot product");
        return text;
    }
    for (size_t i = 0; i < page->engines.count; i++)
        if (page->engines.engines[i].works && !strncmp(page->engines.engines[i].name, "bfloat16", 8) &&
            used < 400)
            used += (size_t)snprintf(
                text + used, 512 - used, "%s%s",
                used ? ", " : "(self-tested; not used below): ", page->engines.engines[i].name);
    return used ? text : "none found";
}

// The device's peak as the rate of one compute unit times their number; 0: not measured. An upper
// bound: compute units that share a core reach half of it.
static double fma_of_units(const devices_page *page) {
    for (size_t i = 0; i < page->engines.count; i++)
        if (!strcmp(page->engines.engines[i].name, "multiply-add in vectors"))
            return (double)page->engines.engines[i].gflops * page->device.compute_units;
    return 0.0;
}

static void print_rates(const devices_page *page) {
    const clattn_capabilities *c = &page->device;
    const clattn_engine *best = NULL;
    if (page->fma_gflops > 0.0)
        line("rates", "whole device: %.4g GFLOP/s float32 multiply-adds, %.3g GB/s read from memory",
             page->fma_gflops, page->read_gbytes_per_s);
    for (size_t i = 0; i < page->engines.count; i++) {
        const clattn_engine *e = &page->engines.engines[i];
        if (e->works && (!best || e->gflops > best->gflops)) best = e;
    }
    if (best)
        line(page->fma_gflops > 0.0 ? "" : "rates", "fastest engine (%s): %.4g GFLOP/s a compute unit%s",
             best->name, (double)best->gflops, best->sure ? "" : " (not sure: the machine had other work)");
    if (c->is_cpu && best && page->fma_gflops > 0.0 && page->fma_gflops < 0.4 * fma_of_units(page))
        line("", "the machine has other work: the rates of the whole device are too low");
}

// The planner's reason without the leading path ("flash: ..."), which the kernel's name already
// shows.
static const char *short_why(const clattn_plan *plan) {
    const char *why = strchr(plan->why, ':');
    return why && why[1] == ' ' && (size_t)(why - plan->why) <= strlen("unfused") ? why + 2 : plan->why;
}

static void print_kernels(const devices_page *page) {
    for (int i = 0; i < DEVICES_EXAMPLES; i++) {
        const devices_example *e = &page->examples[i];
        if (e->plan.why[0]) line(e->name, "%s (%s): %s", e->plan.kernel_name, e->rows, short_why(&e->plan));
    }
    line("", "of calls with 32 query heads, 8 key/value heads of size 128, and 4096 keys");
}

// Print the engines that work, with their rates and when and how these were measured; then the
// other engines.
static void print_engines(const devices_engines *list) {
    char date[32], runs[80];
    int told = 0;
    for (size_t i = 0; i < list->count; i++) {
        const clattn_engine *e = &list->engines[i];
        if (!e->works) continue;
        runs[0] = '\0';
        if (e->spread < 1.0f)
            snprintf(runs, sizeof runs, ", %d runs, the best two within %.2g %%", e->runs,
                     100.0 * (double)e->spread);
        line(told++ ? "" : "engines", "%s, %.4g GFLOP/s a work-item (%s%s)%s", e->name, (double)e->gflops,
             e->kept ? devices_date(e, "%Y-%m-%d %H:%M UTC", date) : "now", runs,
             e->sure ? "" : "; not sure: the machine had other work, it is not kept");
    }
    for (size_t i = 0; i < list->count; i++)
        if (!list->engines[i].works) line("", "not: %s", list->engines[i].name);
}

static void print_families(const devices_page *page) {
    for (int i = 0; i < DEVICES_EXAMPLES; i++) {
        const devices_example *e = &page->examples[i];
        if (!e->plan.why[0]) continue;
        line(e->name, "%s: %s", e->plan.kernel_name, e->plan.why);
        for (size_t f = 0; f < e->count; f++)
            if (!e->families[f].taken) line("", "not %s: %s", e->families[f].name, e->families[f].why);
    }
}

static void print_head(const devices_page *page) {
    const clattn_capabilities *c = &page->device;
    const char *type = c->is_gpu ? "GPU" : c->is_cpu ? "CPU" : "other";
    const int shown = page->verbose ? (int)sizeof c->platform : 80;
    char matrix[512];
    printable_printf(stdout, "%s%zu  %s\n", page->follows ? "\n" : "", page->index, c->name);
    line("type", "%s, %u compute units, %u MHz%s", type, c->compute_units, c->clock_mhz,
         page->is_default ? "; commands use it without --device" : "");
    line("platform", "%.*s%s", shown, c->platform, strlen(c->platform) > (size_t)shown ? "..." : "");
    line("driver", "%s, %s", c->driver, c->version);
    line("memory", "%.1f GiB, largest buffer %.1f GiB; local memory %llu KiB%s",
         (double)c->global_memory_bytes / 0x1p30, (double)c->max_allocation_bytes / 0x1p30,
         (unsigned long long)c->local_memory_bytes / 1024,
         c->local_memory_is_local ? "" : ", which is a part of the global");
    if (page->verbose) line("limits", "%llu work-items a group", (unsigned long long)c->max_work_group);
    line("types", "f32, f16, bf16; half arithmetic %s, double %s, sub-groups %s",
         c->half_arithmetic ? "yes" : "no", c->double_arithmetic ? "yes" : "no", c->subgroups ? "yes" : "no");
    line("", "matrix instructions %s", matrix_text(page, matrix));
}

void devices_print(const devices_page *page) {
    print_head(page);
    if (!page->opened) {
        line("kernels", "none: clattn cannot use this device, see the error line");
        return;
    }
    print_rates(page);
    if (page->verbose) {
        print_engines(&page->engines);
        print_families(page);
        print_unfit(page);
        return;
    }
    print_kernels(page);
    print_off(page);
    print_unfit(page);
    line("more", "--verbose prints each engine's rate, and why each kernel is used or not");
}
