// session.c: open a device's context and queue from --device, and map library errors to an error
// line and exit status.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verification/case/case_run.h"
#include "verification/device/choose_device.h"
#include "verification/device/opencl.h"
#include "cli/files/file.h"
#include "cli/common/progress.h"
#include "cli/common/session.h"
#include "cli/common/survey.h"
#include "cli/tune/tuned.h"

#define SURVEY_STEP_S 300.0 // a GPU's compiler may need minutes

static void keep_message(void *user, clattn_log_level level, const char *message) {
    session *s = user;
    if (level == CLATTN_LOG_ERROR && !strchr(message, '\n'))
        snprintf(s->message, sizeof s->message, "%s", message);
    if (s->options.verbose && (level != CLATTN_LOG_ERROR || strchr(message, '\n')))
        printable_printf(stderr, "clattn%s: %s\n", tool_name(), message);
}

clattn_log session_log(session *s) {
    return (clattn_log){keep_message, s, s->options.verbose ? CLATTN_LOG_INFO : CLATTN_LOG_ERROR};
}

// Warn once in a process.
static void warn_folder(const char *folder, const char *from, int failure) {
    static bool told;
    if (!told)
        tool_note("warning: the cache folder %s (%s) cannot be written: %s; compiled kernels are not kept",
                  folder, from, strerror(failure));
    told = true;
}

#ifdef _WIN32
static void check_folder(const common_options *o, const char *folder) {
    (void)o, (void)folder, (void)warn_folder;
}

const char *tool_cache_dir(const common_options *o, char *text, size_t size) {
    const char *base = getenv("LOCALAPPDATA");
    if (o->cache_dir) return strcmp(o->cache_dir, "off") ? o->cache_dir : NULL;
    const int length = base && *base ? snprintf(text, size, "%s\\clattn", base) : -1;
    return length >= 0 && (size_t)length < size ? text : NULL;
}
#else
// Create the parent folders as mkdir -p does, with mode 0700. The library creates the last
// component.
static bool make_parents(char *path) {
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        const bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok) return false;
    }
    return true;
}

const char *tool_cache_dir(const common_options *o, char *text, size_t size) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (o->cache_dir && !strcmp(o->cache_dir, "off")) return NULL;
    if (o->cache_dir) return o->cache_dir;
    const bool own = base && base[0] == '/';
    if (!own && !(home && home[0] == '/')) return NULL;
    const int length = snprintf(text, size, own ? "%s/clattn" : "%s/.cache/clattn", own ? base : home);
    if (length < 0 || (size_t)length >= size) return NULL;
    if (make_parents(text)) return text;
    warn_folder(text, own ? "$XDG_CACHE_HOME" : "$HOME", errno);
    return NULL;
}

// Create the folder and test that it is writable. The library would report an unusable folder only
// in its log.
static void check_folder(const common_options *o, const char *folder) {
    char path[4200];
    if (folder && (mkdir(folder, 0700) == 0 || errno == EEXIST)) {
        snprintf(path, sizeof path, "%s/.clattn-%lx", folder, (unsigned long)getpid());
        const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) (void)close(file), (void)unlink(path);
        if (file >= 0 || errno == EEXIST) return;
    }
    if (folder)
        warn_folder(folder,
                    o->cache_dir               ? "--cache-dir"
                    : getenv("XDG_CACHE_HOME") ? "$XDG_CACHE_HOME"
                                               : "$HOME",
                    errno);
}
#endif

int session_devices(session *s, clattn_device **devices, size_t *count) {
    const clattn_log log = session_log(s);
    *devices = NULL;
    linker_look();
    clattn_status status = clattn_device_list(NULL, 0, count, &log);
    if (status == CLATTN_OK && !(*devices = calloc(*count, sizeof **devices)))
        return tool_failed("no memory");
    if (status == CLATTN_OK) status = clattn_device_list(*devices, *count, count, &log);
    if (status == CLATTN_OK) return -1;
    free(*devices);
    *devices = NULL;
    return tool_failed("%s", s->message);
}

// Formats "0: NAME (CPU), 1: NAME (GPU)".
static void list_devices(const clattn_device *devices, size_t count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        clattn_capabilities c;
        if (clattn_device_describe(devices[i].device, &c) != CLATTN_OK) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%zu: %.60s (%s)", used ? ", " : "", i, c.name,
                                 c.is_gpu   ? "GPU"
                                 : c.is_cpu ? "CPU"
                                            : "other");
    }
}

int session_no_device(const char *option, const char *spec, const clattn_device *devices, size_t count) {
    char all[1024];
    list_devices(devices, count, all, sizeof all);
    return tool_wrong(
        "%s %s: no such device: none of the %zu here matches: %s; a number, gpu, cpu, or part of "
        "a device's or platform's name is accepted",
        option, spec, count, all);
}

static int find_device(session *s) {
    const char *spec = s->options.device ? s->options.device : getenv("CLATTN_DEVICE");
    clattn_device *devices;
    size_t count = 0;
    int status = session_devices(s, &devices, &count);
    if (status >= 0) return status;
    const clattn_device *other = NULL;
    const clattn_device *chosen = choose_device(devices, count, spec && *spec ? spec : NULL, &other);
    const char *option = s->options.device_option ? s->options.device_option
                         : s->options.device      ? "--device"
                                                  : "$CLATTN_DEVICE";
    if (chosen)
        s->device = *chosen;
    else if (other)
        status = tool_wrong(
            "%s %s: matches device %zu and others: a number or a whole name from clattn devices is needed",
            option, spec, (size_t)(other - devices));
    else
        status = session_no_device(option, spec, devices, count);
    free(devices);
    return status;
}

// Words that other programs use for off, and that are unlikely names of a folder.
static bool means_off(const char *word) {
    static const char *const words[] = {"none", "no", "disabled", "false", "never", "null", "0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(word, words[i])) return true;
    return false;
}

// Reject --cache-dir if it cannot be a folder. The library would only log this and cache nothing.
static int check_cache_dir(const session *s) {
    const char *given = s->options.cache_dir;
    struct stat status;
    reason why;
    if (!given || !strcmp(given, "off")) return -1;
    if (means_off(given) && stat(given, &status) != 0)
        return tool_wrong("--cache-dir %s: off disables the cache; ./%s is a folder of that name", given,
                          given);
    if (stat(given, &status) == 0)
        return S_ISDIR(status.st_mode)
                   ? -1
                   : tool_wrong("--cache-dir %s: is not a folder: a folder or off is needed", given);
    return file_can_write(given, why) ? -1 : tool_wrong("--cache-dir %s", why);
}

static clattn_status make_context(session *s, const char *folder, const char *rows) {
    const clattn_context_params params = {.device = s->device.device,
                                          .log = session_log(s),
                                          .tuned_rows = rows,
                                          .mods_unchecked = s->options.mods_unchecked,
                                          .engines = CLATTN_ENGINES_ALL,
                                          .measure_again = s->measures_again,
                                          .cache_dir = folder};
    s->message[0] = '\0';
    return clattn_context_create(&params, &s->context);
}

// Retry without tuned rows if the library no longer accepts kept ones. Rows that the user passed
// are not ignored.
static clattn_status make_tuned(session *s, const char *folder, const char *rows, bool given) {
    const clattn_status status = make_context(s, folder, rows);
    if (status != CLATTN_INVALID_ARGUMENT || !rows || given) return status;
    if (s->options.verbose)
        printable_printf(stderr, "clattn%s: rows that were kept are not used: %s\n", tool_name(), s->message);
    return make_context(s, folder, NULL);
}

static void show_step(void *user, const char *text) {
    char line[96];
    snprintf(line, sizeof line, "first use of this driver: %.60s", text);
    progress_more(user, 1.0, line);
}

static size_t index_of(const clattn_device *device) {
    clattn_device all[256];
    size_t count = 0, index = 0;
    if (clattn_device_list(all, 256, &count, NULL) != CLATTN_OK) return 0;
    while (index < count && index < 255 && all[index].device != device->device) index++;
    return index;
}

// On a driver that clattn has no test record of, probes and first builds run in a process of their
// own first (clattn_device_survey). True: the survey is done and the context must be created again.
static bool survey_first(session *s, const char *folder) {
    progress shown;
    survey_report r = {.step = show_step, .user = &shown};
    if (!folder || child_is() || !survey_is_missing(s, folder)) return false;
    progress_begin(&shown, s->options.quiet, 60.0, 0.0);
    survey_run(index_of(&s->device), folder, s->measures_again, SURVEY_STEP_S, &r);
    progress_wipe(&shown);
    if (s->options.verbose)
        printable_printf(
            stderr, "clattn%s: first use of this driver: a survey %s; %d of its processes ended early%s%s\n",
            tool_name(), r.finished ? "is done" : "is not finished", r.deaths, r.last[0] ? ": " : "", r.last);
    if (r.finished) s->measures_again = false; // the survey has measured
    return r.finished;
}

int session_open_device(session *s, const clattn_device *device, const char *rows) {
    char path[4096]; // longer paths disable the cache
    char *kept = NULL;
    bool given = true;
    cl_int code = CL_SUCCESS;
    int wrong = check_cache_dir(s);
    const char *folder = wrong < 0 ? tool_cache_dir(&s->options, path, sizeof path) : NULL;
    if (wrong < 0 && !rows) wrong = tuned_rows(&s->options, folder, device->device, &kept, &given);
    if (wrong >= 0) return wrong;
    check_folder(&s->options, folder);
    s->device = *device;
    clattn_status status = make_tuned(s, folder, rows ? rows : kept, given);
    if (status == CLATTN_OK) s->capabilities = clattn_context_capabilities(s->context);
    if (status == CLATTN_OK && survey_first(s, folder)) {
        session_close(s);
        status = make_tuned(s, folder, rows ? rows : kept, given);
    }
    free(kept);
    if (status != CLATTN_OK) return session_status(s, status);
    s->capabilities = clattn_context_capabilities(s->context);
    case_skip_first_call(s->context);
    if (linker_is_missing(s->capabilities)) {
        session_close(s);
        return tool_failed("PoCL links each kernel with ld, which is not on PATH: install binutils (apt-get "
                           "install binutils), or add its folder to PATH");
    }
    s->queue = clCreateCommandQueue(clattn_context_opencl(s->context), device->device,
                                    CL_QUEUE_PROFILING_ENABLE, &code);
    if (s->queue) return -1;
    session_close(s);
    return tool_failed("clCreateCommandQueue: OpenCL error %d", (int)code);
}

int session_open_rows(session *s, const common_options *o, const char *rows) {
    *s = (session){.options = *o};
    const int status = find_device(s);
    if (status >= 0) return status;
    const clattn_device device = s->device;
    return session_open_device(s, &device, rows);
}

int session_open(session *s, const common_options *o) {
    return session_open_rows(s, o, NULL);
}

void session_close(session *s) {
    if (s->queue) {
        clFinish(s->queue);
        clReleaseCommandQueue(s->queue);
    }
    clattn_context_destroy(s->context);
    s->queue = NULL;
    s->context = NULL;
}

// An expression that does not compile is the user's error. The message names the place in the
// expression.
static bool blames_expression(const char *message) {
    return !strncmp(message, "score_mod:", 10) || !strncmp(message, "mask_mod:", 9);
}

int session_status(session *s, clattn_status status) {
    const bool wrong = status == CLATTN_INVALID_ARGUMENT || status == CLATTN_UNSUPPORTED ||
                       (status == CLATTN_BUILD_FAILED && blames_expression(s->message));
    const char *why = s->message[0] ? s->message : clattn_status_text(status);
    if (status == CLATTN_CANCELLED) return tool_interrupted("%s", why);
    return wrong ? tool_wrong("%s", why) : tool_failed("%s", why);
}

int session_buffer(session *s, const void *data, size_t bytes, cl_mem *buffer) {
    cl_int code = CL_SUCCESS;
    *buffer = NULL;
    if (bytes == 0) return -1;
    if (bytes > s->capabilities->max_allocation_bytes)
        return tool_failed("a tensor of %zu bytes is more than the device's largest buffer of %llu bytes",
                           bytes, (unsigned long long)s->capabilities->max_allocation_bytes);
    // A write command, unlike CL_MEM_COPY_HOST_PTR, leaves no second copy of the data alive.
    *buffer = clCreateBuffer(clattn_context_opencl(s->context), CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (*buffer && data)
        code = clEnqueueWriteBuffer(s->queue, *buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? -1 : tool_failed("a buffer of %zu bytes: OpenCL error %d", bytes, (int)code);
}

int session_read(session *s, cl_mem buffer, void *data, size_t bytes) {
    if (bytes == 0) return -1;
    const cl_int code = clEnqueueReadBuffer(s->queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return code == CL_SUCCESS ? -1 : tool_failed("reading %zu bytes back: OpenCL error %d", bytes, (int)code);
}

int session_finish(session *s) {
    const cl_int code = clFinish(s->queue);
    return code == CL_SUCCESS ? -1 : tool_failed("the device failed: OpenCL error %d", (int)code);
}

struct place session_place(const session *s) {
    return (struct place){.context = s->context,
                          .opencl = clattn_context_opencl(s->context),
                          .device = s->device.device,
                          .queue = s->queue,
                          .guard = PLACE_GUARD};
}
