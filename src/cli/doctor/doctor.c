// doctor.c: the command `clattn doctor`: which OpenCL is installed, and which parts of it work.
// This process calls no OpenCL. Steps that may crash or hang a driver run in child processes
// (doctor_child.h).
#ifndef _WIN32
#define _GNU_SOURCE // mkdtemp
#include <dirent.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>
#endif

#include "cli/common/child.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/common/survey.h"
#include "cli/doctor/doctor_child.h"
#include "cli/doctor/doctor_page.h"
#include "cli/doctor/doctor_private.h"
#include "cli/doctor/doctor_system.h"

// The largest cache entry that holds a probe's or survey's result; compiled kernels are larger.
#define ANSWER_MOST 512

typedef struct doctor {
    const char *only;
    int64_t limit_s;
    common_options common;
    json_t *report, *findings;
    json_t *device;                     // the current device
    char folder[4096], own_folder[256]; // the cache folder; a temporary folder, removed at the end
    // index of the kernel that has begun and not ended; negative: none
    int at;
    char step[256];
    progress shown;
} doctor;

static json_t *list_of(json_t *object, const char *key) {
    json_t *list = json_object_get(object, key);
    if (list) return list;
    json_object_set_new(object, key, json_array());
    return json_object_get(object, key);
}

static void show(doctor *d, double more, const char *what) {
    progress_more(&d->shown, more, what);
}

// Store a child's answer in the report, if its place does not depend on the step that runs.
static void take_answer(void *user, const char *text) {
    static const struct {
        const char *key, *list;
    } lists[] = {{"platform", "platforms"}, {"engine", "engines"}, {"unfit", "unfit"}};
    doctor *d = user;
    json_t *answer = json_loads(text, 0, NULL), *part;
    if (json_object_get(answer, "begin")) {
        const char *name = json_string_value(json_object_get(answer, "kernel")),
                   *step = json_string_value(json_object_get(answer, "begin"));
        d->at = name ? (int)json_integer_value(json_object_get(answer, "begin")) : -1;
        snprintf(d->step, sizeof d->step, "%s", name ? name : step ? step : "");
        show(d, 0.0, d->step);
    } else if ((part = json_object_get(answer, "call"))) {
        d->at = -1;
        json_array_append(list_of(d->device, "calls"), part);
        show(d, 1.0, d->step);
    } else if ((part = json_object_get(answer, "device"))) {
        json_array_append(list_of(d->report, "devices"), part);
    } else if (!json_object_get(answer, "log")) {
        json_t *to = d->device ? d->device : d->report;
        bool listed = false;
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
            if ((part = json_object_get(answer, lists[i].key)))
                listed = json_array_append(list_of(to, lists[i].list), part) == 0;
        if (!listed && json_is_object(answer)) json_object_update(to, answer);
    }
    json_decref(answer);
}

static void run(doctor *d, child *c, const char *const arguments[], const char *variable) {
    d->at = -1, d->step[0] = '\0';
    child_run(c, arguments, variable, (double)d->limit_s, take_answer, d);
}

// Describe a child's early end: how it ended, the step it was in, and the driver's last line on
// stderr.
static const char *end_text(const doctor *d, const child *c, char text[900]) {
    char end[128];
    child_text(c, (double)d->limit_s, end);
    snprintf(text, 900, "%.127s%s%.200s%s%.500s%s", end, d->at < 0 && d->step[0] ? " in " : "",
             d->at < 0 ? d->step : "", c->words[0] ? " (" : "", c->words, c->words[0] ? ")" : "");
    return text;
}

static bool ended_early(const child *c) {
    return c->end != CHILD_DONE || c->number != EXIT_DONE;
}

static void look_at_files(doctor *d) {
    size_t i, n;
    json_t *folder, *file;
    child c;
    json_array_foreach(json_object_get(d->report, "driver_files"), i, folder) {
        json_array_foreach(json_object_get(folder, "files"), n, file) {
            const char *library = json_string_value(json_object_get(file, "library"));
            const char *const arguments[] = {"library", library, NULL};
            char text[900];
            if (!library) continue;
            d->device = file;
            show(d, 0.0, "loading drivers");
            run(d, &c, arguments, NULL);
            if (ended_early(&c)) {
                json_object_set_new(file, "loads", json_false());
                json_object_set_new(file, "words", json_string(end_text(d, &c, text)));
            }
            d->device = NULL;
        }
    }
}

// Find the driver that crashes or hangs a process: load each driver alone.
static void try_each_driver(doctor *d) {
    size_t i, n;
    json_t *folder, *file;
    json_array_foreach(json_object_get(d->report, "driver_files"), i, folder) {
        json_array_foreach(json_object_get(folder, "files"), n, file) {
            const char *path = json_string_value(json_object_get(folder, "folder")),
                       *name = json_string_value(json_object_get(file, "file"));
            const char *const arguments[] = {"platforms", "", NULL};
            char variable[4096], text[900];
            child c;
            json_t *report = d->report;
            if (!path || !name) continue;
            snprintf(variable, sizeof variable, "OCL_ICD_VENDORS=%s%s%s", path, path[0] ? "/" : "", name);
            d->report = json_object(); // answers are already in the real report
            run(d, &c, arguments, variable);
            json_decref(d->report);
            d->report = report;
            json_object_set_new(file, "alone",
                                json_string(ended_early(&c) ? end_text(d, &c, text) : "works"));
            if (ended_early(&c)) doctor_say(d->findings, "driver %s alone: %s", name, text);
        }
    }
}

static void look_at_platforms(doctor *d) {
    const char *const arguments[] = {"platforms", d->common.device ? d->common.device : "", NULL};
    const json_t *devices;
    child c;
    char text[900];
    run(d, &c, arguments, NULL);
    if (ended_early(&c)) {
        doctor_say(d->findings, "OpenCL: %s", end_text(d, &c, text));
        try_each_driver(d);
    }
    devices = json_object_get(d->report, "devices");
    if (json_is_null(json_object_get(d->report, "loader"))) {
        json_object_set(d->report, "loader_why", json_object_get(d->report, "why"));
        doctor_say(d->findings, "no OpenCL loader");
    } else if (!json_array_size(devices) && !ended_early(&c))
        doctor_say(d->findings, json_array_size(json_object_get(d->report, "platforms"))
                                    ? "no platform has a device"
                                    : "no OpenCL platform");
    json_object_del(d->report, "why");
    (void)list_of(d->report, "platforms");
    (void)list_of(d->report, "devices");
}

static void note_step(void *user, const char *text) {
    show(user, 0.1, text);
}
static void note_death(void *user, const char *text, const char *at) {
    doctor *d = user;
    char line[512];
    snprintf(line, sizeof line, "%s after: %s", text, at[0] ? at : "its start");
    json_array_append_new(list_of(d->device, "deaths"), json_string(printable(line)));
}

// Survey an unknown driver. Engines and kernels that crash are then disabled, and calls do not fail
// because of them.
static void survey(doctor *d, size_t index) {
    survey_report r = {.step = note_step, .death = note_death, .user = d};
    char text[256];
    if (json_is_true(json_object_get(d->device, "driver_known")))
        snprintf(text, sizeof text, "not needed: the driver is known");
    else {
        survey_run(index, d->folder, false, (double)d->limit_s, &r);
        snprintf(text, sizeof text, "%s; %d of its processes ended early%s%s",
                 r.finished ? "done, what works is used" : "not finished", r.deaths,
                 r.finished || !r.last[0] ? "" : ": ", r.finished ? "" : r.last);
        if (!r.finished) doctor_say(d->findings, "device %zu: its survey is not finished: %s", index, r.last);
    }
    json_object_set_new(d->device, "survey", json_string(text));
}

static void look_at_engines(doctor *d, const char *number) {
    const char *const arguments[] = {"engines", number, d->folder, NULL};
    char text[900];
    child c;
    run(d, &c, arguments, NULL);
    if (ended_early(&c)) doctor_say(d->findings, "device %s: its engines: %s", number, end_text(d, &c, text));
    const json_t *error = json_object_get(d->device, "error_of_context");
    if (error) doctor_say(d->findings, "device %s: no context: %s", number, json_string_value(error));
}

static void add_call(doctor *d, int n, const char *outcome, const char *why) {
    const doctor_kernel *k = doctor_kernel_at(n);
    char name[160];
    json_array_append_new(list_of(d->device, "calls"),
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:n, s:n}", "kernel", k->name, "case",
                                    doctor_case(k, name), "family", "", "outcome", outcome, "why", why,
                                    "error_nmse", "seconds"));
}

// Try all kernels. After a crash, a new process continues with the next kernel.
static void try_kernels(doctor *d, const char *number) {
    char first[16], text[900];
    child c;
    int n = 0;
    for (bool more = true; more && n < doctor_kernel_count();) {
        const char *const arguments[] = {
            "calls", number, d->own_folder[0] ? d->own_folder : d->folder, first, d->only ? d->only : "",
            NULL};
        snprintf(first, sizeof first, "%d", n);
        run(d, &c, arguments, NULL);
        const int at = d->at;
        more = ended_early(&c) && at >= n;
        if (more)
            add_call(d, at, c.end == CHILD_TIMED_OUT ? "timeout" : "died", end_text(d, &c, text)), n = at + 1;
        if (ended_early(&c) && !more)
            doctor_say(d->findings, "device %s: its calls: %s", number, end_text(d, &c, text));
    }
}

// Compare each call's result with the expectation. A result that is neither "right" nor "absent" is
// a finding.
static void judge_calls(doctor *d, const char *number) {
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(d->device, "calls"), i, call) {
        const char *outcome = json_string_value(json_object_get(call, "outcome")),
                   *why = json_string_value(json_object_get(call, "why")),
                   *kernel = json_string_value(json_object_get(call, "kernel"));
        char words[1100];
        if (!outcome || !why) continue;
        if (!strcmp(outcome, "wrong"))
            snprintf(words, sizeof words, "wrong by %.1e (NMSE): %s",
                     json_number_value(json_object_get(call, "error_nmse")), why);
        else
            snprintf(words, sizeof words, "%s%s",
                     !strcmp(outcome, "right")    ? "right"
                     : !strcmp(outcome, "absent") ? "not for this device: "
                     : !strcmp(outcome, "failed") ? "failed: "
                                                  : "",
                     !strcmp(outcome, "right") ? "" : why);
        json_object_set_new(call, "words", json_string(printable(words)));
        if (strcmp(outcome, "right") && strcmp(outcome, "absent"))
            doctor_say(d->findings, "device %s: %s: %s", number, kernel ? kernel : "", words);
    }
}

#ifndef _WIN32
static void copy_file(int from, int to, const char *name) {
    char bytes[ANSWER_MOST];
    const int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const ssize_t count = in >= 0 ? read(in, bytes, sizeof bytes) : -1;
    const int out = count >= 0 && count < ANSWER_MOST
                        ? openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                        : -1;
    if (out >= 0) (void)!write(out, bytes, (size_t)count), (void)close(out);
    if (in >= 0) (void)close(in);
}
#endif

// Copy the results of survey and probes to the calls' cache, so that calls need no probe. Compiled
// kernels are not copied: they are larger.
static void copy_answers(const doctor *d) {
#ifndef _WIN32
    DIR *from = d->own_folder[0] && strcmp(d->folder, d->own_folder) ? opendir(d->folder) : NULL,
        *to = from ? opendir(d->own_folder) : NULL;
    for (struct dirent *e = to ? readdir(from) : NULL; e; e = readdir(from))
        if (e->d_name[0] != '.') copy_file(dirfd(from), dirfd(to), e->d_name);
    if (to) (void)closedir(to);
    if (from) (void)closedir(from);
#else
    (void)d;
#endif
}

static void look_at_device(doctor *d) {
    char number[24];
    const size_t index = (size_t)json_integer_value(json_object_get(d->device, "index"));
    snprintf(number, sizeof number, "%zu", index);
    if (!json_is_true(json_object_get(d->device, "chosen"))) return;
    if (json_object_get(d->device, "error")) {
        doctor_say(d->findings, "device %s: it cannot be described: %s", number,
                   json_string_value(json_object_get(d->device, "error")));
        return;
    }
    if (json_is_false(json_object_get(d->device, "available"))) {
        doctor_say(d->findings, "device %s: it is not available, or has no compiler", number);
        return;
    }
    if (!d->only) {
        survey(d, index);
        look_at_engines(d, number);
    }
    copy_answers(d);
    try_kernels(d, number);
    judge_calls(d, number);
}

static void look_at_devices(doctor *d) {
    size_t i;
    json_t *device;
    json_array_foreach(json_object_get(d->report, "devices"), i, device) {
        d->device = device;
        look_at_device(d);
    }
    d->device = NULL;
}

// Calls use a temporary cache, so that a call that crashed is tried again in the next run.
static void make_folders(doctor *d) {
    char path[4096];
    const char *kept = tool_cache_dir(&d->common, path, sizeof path);
#ifndef _WIN32
    const char *temporary = getenv("TMPDIR");
    if (!temporary || temporary[0] != '/' || strlen(temporary) > 200) temporary = "/tmp";
    snprintf(d->own_folder, sizeof d->own_folder, "%s/clattn-doctor-XXXXXX", temporary);
    if (!mkdtemp(d->own_folder)) d->own_folder[0] = '\0';
#endif
    snprintf(d->folder, sizeof d->folder, "%s", kept ? kept : d->own_folder);
}

static void remove_folder(const doctor *d) {
#ifndef _WIN32
    DIR *folder = d->own_folder[0] ? opendir(d->own_folder) : NULL;
    if (!folder) return;
    for (struct dirent *e = readdir(folder); e; e = readdir(folder))
        (void)unlinkat(dirfd(folder), e->d_name, 0);
    (void)closedir(folder);
    (void)rmdir(d->own_folder);
#else
    (void)d;
#endif
}

static json_t *system_json(void) {
#ifndef _WIN32
    struct utsname name;
    if (uname(&name) == 0) {
        char os[160];
        snprintf(os, sizeof os, "%.64s %.80s", name.sysname, name.release);
        return json_pack("{s:s, s:s}", "os", os, "machine", name.machine);
    }
#endif
    return json_pack("{s:s, s:s}", "os", "Windows", "machine", "");
}

// Check the names of --only. Returns -1, or an exit status for an unknown kernel.
static int check_only(const doctor *d) {
    const char *names[64];
    size_t count = 0;
    for (const doctor_kernel *k; count < 64 && (k = doctor_kernel_at((int)count)); count++)
        names[count] = k->name;
    for (const char *word = d->only; word && *word;) {
        char one[64], near[256];
        const size_t length = strcspn(word, ",");
        bool known = false;
        snprintf(one, sizeof one, "%.*s", (int)length, word);
        for (size_t i = 0; i < count; i++) known = known || !strcmp(one, names[i]);
        nearest_names(one, names, count, near, sizeof near);
        if (!known) return tool_wrong("--only %s: no such kernel; like it: %s", one, near);
        word += length + (word[length] == ',');
    }
    return d->only && !*d->only ? tool_wrong("--only: is empty: the name of a kernel is needed") : -1;
}

// A device that --device names and that does not exist is a wrong request.
static int check_chosen(const doctor *d) {
    size_t i;
    json_t *device;
    const json_t *all = json_object_get(d->report, "devices");
    json_array_foreach(all, i, device) if (json_is_true(json_object_get(device, "chosen"))) return -1;
    if (!json_array_size(all)) return -1;
    return tool_wrong(
        "--device %s: no such device: a number from clattn devices, gpu, cpu, or part of a device's or "
        "platform's name is accepted",
        d->common.device ? d->common.device : "any");
}

static const option_row rows[] = {
    {"only", "LIST",
     "try only these kernels, named as in clattn verify --only: flash,unfused; without survey and engines",
     AS_TEXT(doctor, only)},
    {"time-limit", "SECONDS",
     "seconds that one step of a driver may need before its process is ended; default 120",
     AS_INTEGER(doctor, limit_s, 1, 100000)}};

static int examine(doctor *d) {
    json_object_set_new(d->report, "system", system_json());
    json_object_set_new(d->report, "environment", doctor_environment());
    json_object_set_new(d->report, "driver_files", doctor_driver_files());
    progress_begin(&d->shown, d->common.quiet, doctor_kernel_count(), 0.0);
    look_at_files(d);
    look_at_platforms(d);
    const int status = check_chosen(d);
    if (status < 0) look_at_devices(d);
    json_object_set_new(d->report, "hints", doctor_hints(d->report));
    progress_wipe(&d->shown);
    return status;
}

int tool_doctor(int argc, char **argv) {
    doctor d = {.limit_s = 120};
    const option_group groups[] = {{"doctor", OPTION_ROWS(rows), &d}, common_group(&d.common)};
    command_line line = {
        .command = "doctor",
        .summary = "diagnose OpenCL on this machine: drivers, devices, hints, and a tiny call of each "
                   "kernel, in processes of their own. Exit status 1: there is a finding",
        .example = "clattn doctor\nclattn doctor --json > report.json\nclattn doctor --device 1 --only "
                   "flash,unfused",
        .groups = groups,
        .group_count = 2};
    int status = options_parse(&line, argc, argv);
    if (status < 0) status = check_only(&d);
    if (status >= 0) return status;
    d.report = json_pack("{s:s}", "clattn", clattn_version());
    d.findings = json_array();
    make_folders(&d);
    status = examine(&d);
    remove_folder(&d);
    if (status < 0) {
        const bool found = json_array_size(d.findings) > 0;
        json_object_set(d.report, "findings", d.findings);
        doctor_remove_private(d.report);
        if (d.common.json)
            status = report_json(json_incref(d.report));
        else if (!d.common.quiet)
            doctor_print(d.report, d.common.verbose);
        if (status < 0) status = EXIT_DONE;
        if (found && status == EXIT_DONE) status = EXIT_FAILED;
    }
    json_decref(d.findings);
    json_decref(d.report);
    return status;
}
