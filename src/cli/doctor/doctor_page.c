// doctor_page.c: see doctor_page.h. The page is made only from the report that --json prints.
#include <stdarg.h>

#include "cli/common/tool.h"
#include "cli/doctor/doctor_page.h"

#define LEFT 14
#define TEXT_MOST 4096

static void line(const char *label, const char *format, ...) TOOL_PRINTF(2);
static void line(const char *label, const char *format, ...) {
    char text[TEXT_MOST];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("%-*s", LEFT, label);
    options_text_wrapped(printable(text), LEFT, LEFT, stdout);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_true(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static void add(char text[TEXT_MOST], const char *before, const char *word) {
    const size_t used = strlen(text);
    snprintf(text + used, TEXT_MOST - used, "%s%.600s", used ? before : "", word);
}

static void print_driver_files(const json_t *report) {
    const char *label = "driver files";
    size_t i, n;
    json_t *folder, *file;
    json_array_foreach(json_object_get(report, "driver_files"), i, folder) {
        const json_t *files = json_object_get(folder, "files");
        if (text_of(folder, "folder")[0])
            line(label, "%s (%s): %s", text_of(folder, "folder"), text_of(folder, "from"),
                 !is_true(folder, "there") ? "no such folder"
                 : json_array_size(files)  ? ""
                                           : "no .icd file in it");
        else
            line(label, "(%s)", text_of(folder, "from"));
        label = "";
        json_array_foreach(files, n, file) {
            const bool loads = is_true(file, "loads");
            line("", "  %s: %s%s%s%s%s", text_of(file, "file"),
                 text_of(file, "library")[0] ? text_of(file, "library") : text_of(file, "why"),
                 loads                         ? ", loads"
                 : text_of(file, "library")[0] ? ", DOES NOT LOAD"
                                               : "",
                 text_of(file, "words")[0] ? ": " : "", text_of(file, "words"), "");
            if (text_of(file, "alone")[0]) line("", "  with this driver alone: %s", text_of(file, "alone"));
        }
    }
}

static void print_system(const json_t *report) {
    const json_t *system = json_object_get(report, "system");
    char text[TEXT_MOST] = "";
    size_t i;
    json_t *item;
    printf("clattn %s\n", text_of(report, "clattn"));
    line("system", "%s, %s", text_of(system, "os"), text_of(system, "machine"));
    line("loader", "%s%s%s", text_of(report, "loader")[0] ? text_of(report, "loader") : "none",
         text_of(report, "loader_why")[0] ? ": " : "", text_of(report, "loader_why"));
    print_driver_files(report);
    json_array_foreach(json_object_get(report, "environment"), i, item) {
        char pair[700];
        snprintf(pair, sizeof pair, "%.100s=%.512s", text_of(item, "name"), text_of(item, "value"));
        add(text, "  ", pair);
    }
    line("environment", "%s", text[0] ? text : "no variable of OpenCL or a driver is set");
    json_array_foreach(json_object_get(report, "platforms"), i, item)
        line(i ? "" : "platforms", "%s, %s: %d devices%s", text_of(item, "name"), text_of(item, "version"),
             (int)json_integer_value(json_object_get(item, "devices")),
             json_integer_value(json_object_get(item, "code")) ? "; clGetDeviceIDs failed" : "");
}

// Print the calls by outcome: all right ones in one line, all absent ones in one line, and each
// failed one in a line.
static void print_calls(const json_t *device) {
    char right[TEXT_MOST] = "", absent[TEXT_MOST] = "";
    size_t i;
    json_t *call;
    const char *label = "FAILED";
    json_array_foreach(json_object_get(device, "calls"), i, call) {
        const char *outcome = text_of(call, "outcome");
        if (!strcmp(outcome, "right")) add(right, ", ", text_of(call, "kernel"));
        if (!strcmp(outcome, "absent")) add(absent, ", ", text_of(call, "kernel"));
        if (!strcmp(outcome, "right") || !strcmp(outcome, "absent")) continue;
        line(label, "%s: %s", text_of(call, "kernel"), text_of(call, "words"));
        label = "";
    }
    if (right[0]) line("right", "%s", right);
    if (!absent[0]) return;
    line("not here", "%s", absent);
}

static void print_absent(const json_t *device) {
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(device, "calls"), i,
                       call) if (!strcmp(text_of(call, "outcome"), "absent"))
        line("", "%s: %s", text_of(call, "kernel"), text_of(call, "words"));
}

static void print_engines(const json_t *device) {
    char works[TEXT_MOST] = "", died[TEXT_MOST] = "", wrong[TEXT_MOST] = "";
    size_t i;
    json_t *engine;
    json_array_foreach(json_object_get(device, "engines"), i, engine) {
        const char *name = text_of(engine, "name");
        if (is_true(engine, "works"))
            add(works, "; ", name);
        else if (is_true(engine, "died"))
            add(died, "; ", name);
        else if (is_true(engine, "asked"))
            add(wrong, "; ", name);
    }
    if (works[0]) line("engines", "%s", works);
    if (died[0]) line("off: fatal", "%s: the driver ended a process in it", died);
    if (wrong[0]) line("off", "%s: tried, and wrong or refused by the compiler", wrong);
}

static void print_device(const json_t *device, bool verbose) {
    size_t i;
    json_t *item;
    const char *type = text_of(device, "type");
    printf("\n%d: ", (int)json_integer_value(json_object_get(device, "index")));
    if (text_of(device, "error")[0]) {
        line("", "%s", text_of(device, "error"));
        return;
    }
    options_text_wrapped(text_of(device, "device"), 4, 4, stdout);
    line("driver", "%s, %s, %s", text_of(device, "driver"), text_of(device, "version"),
         is_true(device, "driver_known") ? "tested by clattn's suites" : "not tested by clattn's suites");
    line("device", "%s, %d compute units, %.1f GiB",
         !strcmp(type, "gpu")   ? "GPU"
         : !strcmp(type, "cpu") ? "CPU"
                                : "other",
         (int)json_integer_value(json_object_get(device, "compute_units")),
         (double)json_integer_value(json_object_get(device, "memory_bytes")) / 0x1p30);
    if (!is_true(device, "chosen")) {
        line("", "not tried: --device names others");
        return;
    }
    if (text_of(device, "survey")[0]) line("survey", "%s", text_of(device, "survey"));
    json_array_foreach(json_object_get(device, "deaths"), i, item)
        line(i ? "" : "  ended", "%s", json_string_value(item));
    print_engines(device);
    print_calls(device);
    if (verbose) print_absent(device);
    json_array_foreach(json_object_get(device, "unfit"), i, item)
        line(i ? "" : "unfit", "%s: %s", text_of(item, "kernel"), text_of(item, "why"));
}

static void print_list(const json_t *list, const char *label) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) line(i ? "" : label, "%s", json_string_value(item));
}

void doctor_print(const json_t *report, bool verbose) {
    const json_t *findings = json_object_get(report, "findings");
    size_t i;
    json_t *device;
    print_system(report);
    json_array_foreach(json_object_get(report, "devices"), i, device) print_device(device, verbose);
    printf("\n");
    print_list(json_object_get(report, "hints"), "hint");
    print_list(findings, "finding");
    if (!json_array_size(findings)) line("all right", "every kernel that was tried gave right results");
    line("to report", "clattn doctor --json prints all of this for an issue report, without names of user "
                      "and machine or paths of a home");
}
