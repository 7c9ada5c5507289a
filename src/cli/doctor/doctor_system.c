// doctor_system.c: see doctor_system.h.
#ifndef _WIN32
#define _GNU_SOURCE // mkdtemp
#include <dirent.h>
#include <glob.h>
#include <unistd.h>
#endif
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "cli/common/session.h"
#include "cli/common/tool.h"
#include "cli/doctor/doctor_system.h"

#ifdef _WIN32
#define environ _environ
#else
extern char **environ;
#endif

// Names of environment variables. A star matches any end.
static const char *const variables[] = {
    "OCL_*",      "OPENCL_*", "POCL_*",   "RUSTICL_*", "CLATTN_*",         "CL_CONFIG_*", "CLBLAST_*",
    "OCLGRIND_*", "MESA_*",   "LIBCLC_*", "CUDA_*",    "NVIDIA_*",         "GPU_*",       "AMD_*",
    "ROCR_*",     "HIP_*",    "HSA_*",    "ROC_*",     "NEOReadDebugKeys", "ZE_*",        "ONEAPI_*",
    "SYCL_*",     "IGC_*",    "CLVK_*",   "VK_*",      "LD_LIBRARY_PATH",  "LD_PRELOAD",  "XDG_CACHE_HOME",
    "DYLD_*",     "TMPDIR"};

static bool is_listed(const char *entry, size_t length) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const size_t part = strcspn(variables[i], "*");
        if (!strncmp(entry, variables[i], part) && (variables[i][part] || part == length)) return true;
    }
    return false;
}

// Variables whose name contains one of these words are not shown, because their value may be a
// secret.
static bool is_secret(const char *entry, size_t length) {
    static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASS", "AUTH"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (size_t at = 0; at + strlen(words[i]) <= length; at++)
            if (!strncmp(entry + at, words[i], strlen(words[i]))) return true;
    return false;
}

json_t *doctor_environment(void) {
    json_t *all = json_array();
    for (char **entry = environ; entry && *entry; entry++) {
        const size_t length = strcspn(*entry, "=");
        char value[512];
        if (!(*entry)[length] || !is_listed(*entry, length)) continue;
        snprintf(value, sizeof value, "%s", is_secret(*entry, length) ? "(set)" : *entry + length + 1);
        json_array_append_new(all,
                              json_pack("{s:s%, s:s}", "name", *entry, length, "value", printable(value)));
    }
    return all;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// Read a driver file. The first word of its first line is the driver's library.
static json_t *driver_file(const char *folder, const char *name) {
    char path[4096], line[1024] = "";
    snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", name);
    FILE *file = fopen(path, "r");
    const bool read = file && fgets(line, sizeof line, file);
    json_t *result = json_object();
    json_object_set_new(result, "file", report_text(name));
    line[strcspn(line, "\r\n")] = '\0';
    if (read && line[0]) json_object_set_new(result, "library", report_text(line));
    if (!read) json_object_set_new(result, "why", json_string(file ? "it is empty" : strerror(errno)));
    if (file) (void)fclose(file);
    return result;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text);
    return length >= strlen(end) && !strcmp(text + length - strlen(end), end);
}

static void add_folder(json_t *all, const char *folder, const char *from) {
    json_t *files = json_array();
#ifndef _WIN32
    struct dirent **names = NULL;
    const int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (ends_with(names[i]->d_name, ".icd"))
            json_array_append_new(files, driver_file(folder, names[i]->d_name));
        free(names[i]);
    }
    free(names);
#endif
    json_array_append_new(all, json_pack("{s:o, s:s, s:b, s:o}", "folder", report_text(folder), "from", from,
                                         "there", is_folder(folder), "files", files));
}

// Add one file, which is a driver file or a library.
static void add_file(json_t *all, const char *name, const char *from) {
    json_t *files = json_array();
    if (ends_with(name, ".icd"))
        json_array_append_new(files, driver_file("", name));
    else
        json_array_append_new(
            files, json_pack("{s:o, s:o}", "file", report_text(name), "library", report_text(name)));
    json_array_append_new(
        all, json_pack("{s:s, s:s, s:b, s:o}", "folder", "", "from", from, "there", true, "files", files));
}

static void add_each_file(json_t *all, const char *list, const char *from) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *word = strtok(copy, ":"); word; word = strtok(NULL, ":")) add_file(all, word, from);
}

json_t *doctor_driver_files(void) {
    json_t *all = json_array();
    const char *vendors = getenv("OCL_ICD_VENDORS"), *files = getenv("OCL_ICD_FILENAMES"),
               *path = getenv("OPENCL_VENDOR_PATH");
    if (vendors && *vendors && (is_folder(vendors) || ends_with(vendors, "/")))
        add_folder(all, vendors, "$OCL_ICD_VENDORS");
    else if (vendors && *vendors)
        add_file(all, vendors, "$OCL_ICD_VENDORS");
    else if (path && *path)
        add_folder(all, path, "$OPENCL_VENDOR_PATH");
    else
        add_folder(all, "/etc/OpenCL/vendors", "the system");
    if (files && *files) add_each_file(all, files, "$OCL_ICD_FILENAMES");
    return all;
}

void doctor_say(json_t *texts, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_array_append_new(texts, json_string(printable(text)));
}

// Visit each driver file with its folder.
#define EACH_FILE(report, folder, file)                                                                      \
    for (size_t f_##file = 0; f_##file < json_array_size(json_object_get(report, "driver_files"));           \
         f_##file++)                                                                                         \
        for (size_t n_##file = 0;                                                                            \
             n_##file < json_array_size(json_object_get(                                                     \
                            folder = json_array_get(json_object_get(report, "driver_files"), f_##file),      \
           "files")) &&                                                                                      \
             (file = json_array_get(json_object_get(folder, "files"), n_##file));                            \
             n_##file++)

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool library_is(const json_t *report, const char *part) {
    const json_t *folder, *file;
    EACH_FILE(report, folder, file) if (strstr(text_of(file, "library"), part)) return true;
    return false;
}

// Count the platforms whose name contains `part`, and their devices.
static size_t platforms_of(const json_t *report, const char *part, json_int_t *devices) {
    size_t i, count = 0;
    json_t *platform;
    *devices = 0;
    json_array_foreach(json_object_get(report, "platforms"), i, platform) {
        if (!strstr(text_of(platform, "name"), part)) continue;
        count++;
        *devices += json_integer_value(json_object_get(platform, "devices"));
    }
    return count;
}

static void hint_files(const json_t *report, json_t *hints) {
    const json_t *folder, *file;
    size_t count = 0;
    EACH_FILE(report, folder, file) {
        count++;
        if (text_of(file, "why")[0])
            doctor_say(hints, "driver file %s: %s", text_of(file, "file"), text_of(file, "why"));
        else if (json_is_false(json_object_get(file, "loads")))
            doctor_say(
                hints,
                "driver file %s names %s, which cannot be loaded: %s. Install that driver again, or remove "
                "the file",
                text_of(file, "file"), text_of(file, "library"), text_of(file, "words"));
    }
    if (!count)
        doctor_say(
            hints,
            "no driver file (.icd) was found. Install your device's OpenCL driver; for any CPU: apt install "
            "pocl-opencl-icd");
}

#ifdef _WIN32
static void hint_pocl(const json_t *report, json_t *hints) {
    (void)report, (void)hints;
}
static void hint_permissions(json_t *hints) {
    (void)hints;
}
#else
// True if this folder, or its nearest parent that exists, is writable.
static bool can_write(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s", folder);
    while (access(path, F_OK) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash) return false;
        if (slash == path) return false;
        *slash = '\0';
    }
    const size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/.clattn-doctor-XXXXXX");
    return mkdtemp(path) && rmdir(path) == 0;
}

// PoCL's cache folder, chosen as in its function pocl_cache_init_topdir. PoCL has no device if it
// cannot write there.
static void hint_pocl(const json_t *report, json_t *hints) {
    const char *own = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[4096];
    json_int_t devices;
    if (!platforms_of(report, "Portable Computing Language", &devices) && !library_is(report, "pocl")) return;
    snprintf(folder, sizeof folder, "%s%s",
             own && *own       ? own
             : cache && *cache ? cache
             : home && *home   ? home
                               : "/tmp",
             own && *own       ? ""
             : cache && *cache ? "/pocl"
             : home && *home   ? "/.cache/pocl"
                               : "/pocl");
    if (folder[0] != '/' || !can_write(folder))
        doctor_say(
            hints,
            "PoCL cannot write its cache folder (%s). Set POCL_CACHE_DIR to a folder that can be written",
            own && *own       ? "$POCL_CACHE_DIR"
            : cache && *cache ? "$XDG_CACHE_HOME"
                              : "$HOME");
    if (!linker_on_path("ld"))
        doctor_say(hints,
                   "PoCL links each kernel with `ld`, and there is none on PATH. Install binutils, or add "
                   "its folder "
                   "to PATH");
}

// Report device files that exist and that this user may not open.
static void hint_permissions(json_t *hints) {
    static const struct {
        const char *pattern, *advice;
    } files[] = {{"/dev/dri/renderD*", "Add the user to the group render"},
                 {"/dev/nvidia[0-9]*", "Ask the administrator for access"},
                 {"/dev/nvidiactl", "Ask the administrator for access"},
                 {"/dev/kfd", "Add the user to the groups render and video"},
                 {"/dev/mali0", "Add the user to the group video"},
                 {"/dev/kgsl-3d0", "Add the user to the group video"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        glob_t found;
        if (glob(files[i].pattern, 0, NULL, &found) != 0) continue;
        for (size_t n = 0; n < found.gl_pathc; n++)
            if (access(found.gl_pathv[n], R_OK | W_OK) != 0)
                doctor_say(hints, "%s: no permission: %s. %s", found.gl_pathv[n], strerror(errno),
                           files[i].advice);
        globfree(&found);
    }
}
#endif

json_t *doctor_hints(const json_t *report) {
    json_t *hints = json_array();
    json_int_t devices;
    if (json_is_null(json_object_get(report, "loader")))
        doctor_say(hints, "no OpenCL loader (libOpenCL.so.1). Install one: apt install ocl-icd-libopencl1");
    hint_files(report, hints);
    const size_t rusticl = platforms_of(report, "rusticl", &devices);
    const char *enabled = getenv("RUSTICL_ENABLE");
    if (rusticl && !devices && enabled && *enabled)
        doctor_say(hints, "rusticl (Mesa) shows no device for RUSTICL_ENABLE=%s", enabled);
    else if ((rusticl || library_is(report, "RusticlOpenCL")) && !devices)
        doctor_say(hints, "rusticl (Mesa) shows no device unless RUSTICL_ENABLE names its driver: "
                          "RUSTICL_ENABLE=radeonsi, iris, "
                          "nouveau, panfrost, asahi, or llvmpipe for a CPU");
    hint_pocl(report, hints);
    hint_permissions(hints);
    return hints;
}
