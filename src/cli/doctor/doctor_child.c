// doctor_child.c: see doctor_child.h.
#define _GNU_SOURCE // dladdr
#ifndef _WIN32
#include <dlfcn.h>
#endif
#include <string.h>

#include "verification/device/choose_device.h"
#include "verification/device/opencl.h"
#include "cli/common/child.h"
#include "cli/common/report.h"
#include "cli/common/session.h"
#include "cli/doctor/doctor_child.h"

enum { PLATFORMS = 64, ENGINES = 64 };

// A JSON string of a driver's text, which may not be valid UTF-8.
static json_t *text_json(const char *text) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    return json_string(printable(copy));
}

static void keep_line(void *user, clattn_log_level level, const char *text) {
    if (level == CLATTN_LOG_ERROR) snprintf(user, 1024, "%.1023s", text);
}

// Announce a step before it runs, because the driver may crash in it.
static void begin(const char *what) {
    doctor_answer(json_pack("{s:s}", "begin", what));
}

typedef struct platform_calls {
    cl_int(CL_API_CALL *ids)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int(CL_API_CALL *info)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    cl_int(CL_API_CALL *devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
} platform_calls;

static void find(void *to, const char *name) {
    const clattn_function function = clattn_opencl_function(name);
    memcpy(to, &function, sizeof function);
}

static json_t *loader_path(const platform_calls *calls) {
#ifndef _WIN32
    Dl_info info;
    void *address;
    memcpy(&address, &calls->ids, sizeof address);
    if (dladdr(address, &info) && info.dli_fname) return text_json(info.dli_fname);
#endif
    (void)calls;
    return json_null();
}

static json_t *platform_text(const platform_calls *calls, cl_platform_id platform, cl_platform_info what) {
    char text[1024] = "";
    size_t bytes = 0;
    const cl_int code = calls->info(platform, what, sizeof text - 1, text, &bytes);
    return text_json(code == CL_SUCCESS ? text : "");
}

// Report a device, or the error by which it cannot be described.
static void tell_device(const char *spec, size_t index, cl_device_id device) {
    clattn_capabilities c;
    begin("querying a device's capabilities");
    const clattn_status status = clattn_device_describe(device, &c);
    if (status != CLATTN_OK) {
        doctor_answer(json_pack("{s:{s:I, s:b, s:s}}", "device", "index", (json_int_t)index, "chosen",
                                !spec[0], "error", clattn_status_text(status)));
        return;
    }
    json_t *d = report_device(&c);
    json_t *more = json_pack("{s:I, s:b, s:b, s:b, s:i}", "index", (json_int_t)index, "chosen",
                             !spec[0] || choose_device_score(spec, index, &c), "available", c.available,
                             "driver_known", c.driver_known, "assembly", (int)c.assembly);
    json_object_update(d, more);
    json_decref(more);
    doctor_answer(json_pack("{s:o}", "device", d));
}

static void tell_platform(const platform_calls *calls, cl_platform_id platform, const char *spec,
                          size_t *index) {
    cl_device_id devices[64];
    cl_uint count = 0;
    begin("listing a platform's devices");
    const cl_int code = calls->devices(platform, CL_DEVICE_TYPE_ALL, 64, devices, &count);
    const bool none = code != CL_SUCCESS;
    doctor_answer(json_pack("{s:{s:o, s:o, s:o, s:i, s:i}}", "platform", "name",
                            platform_text(calls, platform, CL_PLATFORM_NAME), "version",
                            platform_text(calls, platform, CL_PLATFORM_VERSION), "vendor",
                            platform_text(calls, platform, CL_PLATFORM_VENDOR), "devices",
                            none ? 0 : (int)count, "code", code == CL_DEVICE_NOT_FOUND ? 0 : (int)code));
    for (cl_uint i = 0; !none && i < count && i < 64; i++) tell_device(spec, (*index)++, devices[i]);
}

// Devices are listed in the order of clattn_device_list, so that an index means the same device
// everywhere.
static int tell_platforms(const char *spec) {
    char why[1024] = "";
    platform_calls calls;
    cl_platform_id platforms[PLATFORMS];
    cl_uint count = 0;
    size_t index = 0;
    begin("loading OpenCL");
    const clattn_opencl_params params = {.log = {keep_line, why, CLATTN_LOG_ERROR}};
    if (clattn_opencl_load(&params) != CLATTN_OK) {
        doctor_answer(json_pack("{s:n, s:o}", "loader", "why", text_json(why)));
        return EXIT_DONE;
    }
    find(&calls.ids, "clGetPlatformIDs"), find(&calls.info, "clGetPlatformInfo");
    find(&calls.devices, "clGetDeviceIDs");
    doctor_answer(json_pack("{s:o}", "loader", loader_path(&calls)));
    begin("loading the drivers");
    const cl_int code = calls.ids(PLATFORMS, platforms, &count);
    if (code != CL_SUCCESS) count = 0;
    for (cl_uint i = 0; i < count && i < PLATFORMS; i++) tell_platform(&calls, platforms[i], spec, &index);
    return EXIT_DONE;
}

static int tell_library(const char *file) {
#ifndef _WIN32
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();
    doctor_answer(json_pack("{s:b, s:o}", "loads", library != NULL, "words", text_json(why ? why : "")));
#else
    (void)file;
#endif
    return EXIT_DONE;
}

static void tell_unfit(clattn_context *context) {
    clattn_unfit *kernels = NULL;
    size_t count = 0;
    char why[400];
    if (clattn_context_unfit(context, NULL, 0, &count) != CLATTN_OK) return;
    kernels = calloc(count + 1, sizeof *kernels);
    if (kernels && clattn_context_unfit(context, kernels, count, &count) == CLATTN_OK)
        for (size_t i = 0; i < count; i++) {
            snprintf(why, sizeof why, "%s returned %d%s%s", kernels[i].step, kernels[i].code,
                     kernels[i].line[0] ? ": " : "", kernels[i].line);
            doctor_answer(json_pack("{s:{s:s, s:s, s:o, s:i, s:b}}", "unfit", "kernel", kernels[i].kernel,
                                    "options", kernels[i].options, "why", text_json(why), "code",
                                    kernels[i].code, "smaller", kernels[i].smaller));
        }
    free(kernels);
}

static int tell_engines(const common_options *o) {
    session s = {.message = ""};
    clattn_engine engines[ENGINES];
    clattn_features features;
    size_t count = 0;
    begin("creating a context");
    const int status = session_open(&s, o);
    if (status >= 0) {
        doctor_answer(json_pack("{s:o}", "error_of_context", text_json(s.message[0] ? s.message : "")));
        return EXIT_DONE;
    }
    begin("measuring its engines");
    if (clattn_context_engines(s.context, engines, ENGINES, &count) != CLATTN_OK) count = 0;
    for (size_t i = 0; i < count && i < ENGINES; i++)
        doctor_answer(json_pack("{s:{s:s, s:b, s:b, s:b, s:f}}", "engine", "name", engines[i].name, "works",
                                engines[i].works, "asked", engines[i].measured > 0 || engines[i].died, "died",
                                engines[i].died, "gflops", (double)engines[i].gflops));
    tell_unfit(s.context);
    if (clattn_features_get(s.context, &features) == CLATTN_OK)
        doctor_answer(json_pack("{s:b}", "surveyed", features.surveyed));
    session_close(&s);
    return EXIT_DONE;
}

// Report each log line, which also shows the parent that this process is alive.
static void answer_line(void *user, clattn_log_level level, const char *text) {
    char line[200];
    (void)user;
    snprintf(line, sizeof line, "%.190s", text);
    line[strcspn(line, "\n")] = '\0';
    doctor_answer(json_pack("{s:o, s:i}", "log", text_json(line), "level", (int)level));
}

static int survey(const char *device, const char *folder, bool resume, bool measure) {
    int64_t number = 0;
    char why[256];
    if (!option_integer(device, 0, 255, &number, why)) return EXIT_WRONG;
    const size_t index = (size_t)number;
    clattn_device devices[256];
    size_t count = 0;
    if (clattn_device_list(devices, 256, &count, NULL) != CLATTN_OK || index >= count || index >= 256)
        return EXIT_FAILED;
    const clattn_context_params params = {.device = devices[index].device,
                                          .cache_dir = folder,
                                          .engines = CLATTN_ENGINES_ALL,
                                          .measure_again = measure,
                                          .log = {answer_line, NULL, CLATTN_LOG_INFO}};
    return clattn_device_survey(&params, resume) == CLATTN_OK ? EXIT_DONE : EXIT_FAILED;
}

int tool_child(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    child_begin();
    if (!strcmp(kind, "platforms") && argc == 3) return tell_platforms(argv[2]);
    if (!strcmp(kind, "library") && argc == 3) return tell_library(argv[2]);
    if (!strcmp(kind, "survey") && argc == 6)
        return survey(argv[2], argv[3], argv[4][0] == '1', argv[5][0] == '1');
    if (!strcmp(kind, "calls") && argc == 6) return doctor_calls(argc, argv);
    if (!strcmp(kind, "engines") && argc == 4) {
        const common_options o = {.device = argv[2], .cache_dir = argv[3], .quiet = true};
        return tell_engines(&o);
    }
    return tool_wrong("--child: is for internal use");
}
