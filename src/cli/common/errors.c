// errors.c: JSON answers and error lines. Error lines go to stderr at once as "clattn COMMAND:
// ...". With --json they are collected into one object that is printed at the end, so that stderr
// is valid JSON.
#include <math.h>
#include <stdarg.h>

#include "cli/common/tool.h"

typedef struct kept {
    bool json, held;
    char command[32], error[2048]; // the last error line; "" if none
    json_t *notes;                 // earlier notes and errors
} kept;

static kept all;         // the process runs one command, so it needs one
static char command[32]; // " COMMAND"

void tool_begin(const char *name) {
    snprintf(command, sizeof command, "%s%s", name ? " " : "", name ? name : "");
}

const char *tool_name(void) {
    return command;
}

void tool_errors_json(void) {
    all.json = true;
}

void tool_errors_begin(int argc, char **argv) {
    tool_errors_end(EXIT_DONE);
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--json")) tool_errors_json();
}

static void keep_note(const char *line) {
    if (!all.notes) all.notes = json_array();
    json_array_append_new(all.notes, json_string(line));
}

// Print or keep one line of UTF-8. Quoted file names may contain newlines or terminal control
// sequences, which are replaced.
static void tell(bool error, const char *format, va_list list) {
    char line[sizeof all.error];
    vsnprintf(line, sizeof line, format, list);
    printable(line);
    if (!all.json && !(all.held && error)) {
        fprintf(stderr, "clattn%s: %s\n", command, line);
    } else if (error) {
        if (all.error[0] && all.json) keep_note(all.error);
        snprintf(all.command, sizeof all.command, "%s", command);
        memcpy(all.error, line, sizeof line);
    } else {
        keep_note(line);
    }
}

void tool_errors_hold(void) {
    all.held = true;
}

static void print_held(void) {
    if (all.error[0]) fprintf(stderr, "clattn%s: %s\n", all.command, all.error);
    all.error[0] = '\0';
}

void tool_errors_release(bool mine) {
    if (!mine) all.error[0] = '\0';
    if (!all.json) print_held();
}

int tool_wrong(const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(true, format, list);
    va_end(list);
    return EXIT_WRONG;
}

int tool_failed(const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(true, format, list);
    va_end(list);
    return EXIT_FAILED;
}

int tool_interrupted(const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(true, format, list);
    va_end(list);
    return EXIT_INTERRUPTED;
}

void tool_note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(false, format, list);
    va_end(list);
}

int tool_errors_end(int status) {
    json_t *object = NULL;
    if (all.held && !all.json) print_held();
    if (status != EXIT_DONE && all.error[0]) {
        object = json_pack("{s:{s:i, s:o*, s:o}}", "error", "status", status, "command",
                           all.command[0] ? json_string(all.command + 1) : NULL, "message",
                           json_string(all.error));
        if (all.notes) json_object_set(json_object_get(object, "error"), "notes", all.notes);
    } else if (all.error[0] || all.notes) {
        if (all.error[0]) keep_note(all.error);
        object = json_pack("{s:O}", "notes", all.notes);
    }
    if (object) {
        json_dumpf(object, stderr, JSON_COMPACT | JSON_ENSURE_ASCII);
        fputc('\n', stderr);
    }
    json_decref(object);
    json_decref(all.notes);
    memset(&all, 0, sizeof all);
    return status;
}

json_t *report_text(const char *text) {
    char plain[4096];
    json_t *json = json_string(text);
    if (json) return json;
    snprintf(plain, sizeof plain, "%s", text);
    return json_string(printable(plain));
}

int report_json(json_t *object) {
    const int bad = !object || json_dumpf(object, stdout,
                                          JSON_INDENT(1) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII) != 0;
    json_decref(object);
    printf("\n");
    return bad ? EXIT_FAILED : EXIT_DONE;
}

json_t *report_real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}
