// opencl_load.c: finds OpenCL at run time, once. The caller's functions or library come first, then
// the functions that the process already contains, then the OpenCL loader under its names on each
// system.
#define OPENCL_OWN_NAMES
#include "device/opencl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device/context.h"
#include "base/os.h"

// A source of OpenCL's functions. A NULL `library` means the caller's `find`.
typedef struct source {
    void *library;
    clattn_function (*find)(void *user, const char *name);
    void *user;
} source;

static const char *const names[] = {
#if defined(_WIN32)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#elif defined(__ANDROID__) && defined(__LP64__)
    "libOpenCL.so",
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/libPVROCL.so",
#elif defined(__ANDROID__)
    "libOpenCL.so",
    "/vendor/lib/libOpenCL.so",
    "/system/vendor/lib/libOpenCL.so",
    "/system/lib/libOpenCL.so",
    "/vendor/lib/egl/libGLES_mali.so",
    "/system/vendor/lib/libPVROCL.so",
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
#endif
};

static const struct {
    const char *name;
    size_t offset;
} entries[] = {
#define OPENCL_CALL(name) {#name, offsetof(opencl_calls, name)},
#include "tables/opencl_calls.def"
#undef OPENCL_CALL
};

enum { EMPTY, FILLING, READY };
opencl_calls cla_opencl;
static source found_in;
static atomic_int state;

static clattn_function look_up(const source *in, const char *name) {
    clattn_function function = NULL;
    if (!in->library) return in->find ? in->find(in->user, name) : NULL;
    void *symbol = cla_os_library_symbol(in->library, name);
    // ISO C has no cast from object to function pointers.
    memcpy(&function, &symbol, sizeof function);
    return function;
}

// Fill the table. Returns the name of the first missing function, NULL if none is missing.
static const char *fill(const source *from, opencl_calls *calls) {
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const clattn_function function = look_up(from, entries[i].name);
        if (!function) return entries[i].name;
        memcpy((char *)calls + entries[i].offset, &function, sizeof function);
    }
    return NULL;
}

// Keep the first result of several threads. Other threads wait only for the copy of the table.
// Returns true if this caller's result was kept.
static bool keep(const opencl_calls *calls, const source *from) {
    int empty = EMPTY;
    const bool first = atomic_compare_exchange_strong(&state, &empty, FILLING);
    if (first) {
        cla_opencl = *calls;
        found_in = *from;
        atomic_store(&state, READY);
    } else {
        cla_os_library_close(from->library);
    }
    while (atomic_load(&state) != READY) continue;
    return first;
}

// The state of a search, and the libraries tried, for the error line.
typedef struct search {
    opencl_calls calls;
    source from;
    char tried[700];
} search;

static void note(search *s, const char *what, const char *lacks) {
    const size_t used = strlen(s->tried);
    snprintf(s->tried + used, sizeof s->tried - used, "%s%s (%s%s)", used ? ", " : "", what,
             lacks ? "has no " : "not there", lacks ? lacks : "");
}

static bool try_library(search *s, const char *name) {
    s->from = (source){.library = cla_os_library_open(name)};
    const char *lacks = s->from.library ? fill(&s->from, &s->calls) : NULL;
    if (s->from.library && !lacks) return true;
    // Most processes contain no OpenCL, so its absence there is not noted.
    if (name) note(s, name, lacks);
    cla_os_library_close(s->from.library);
    return false;
}

static bool look_everywhere(search *s) {
    if (try_library(s, NULL)) return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (try_library(s, names[i])) return true;
    return false;
}

static bool look_where_told(search *s, const clattn_opencl_params *params) {
    if (!params->find) return try_library(s, params->path);
    s->from = (source){.find = params->find, .user = params->user};
    const char *lacks = fill(&s->from, &s->calls);
    if (lacks) note(s, "the functions that were given", lacks);
    return !lacks;
}

static clattn_status load(const clattn_opencl_params *params, const clattn_log *log) {
    const bool told = params && (params->find || params->path);
    search s = {.tried = ""};
    if (!(told ? look_where_told(&s, params) : look_everywhere(&s))) {
        cla_log_send(log, CLATTN_LOG_ERROR,
                     "no OpenCL: looked for %s: install a loader and a driver; for any CPU: apt install "
                     "ocl-icd-libopencl1 pocl-opencl-icd, or beside the Python module on x86-64: pip install "
                     "intel-opencl-rt intel-cmplr-lib-rt",
                     s.tried);
        return CLATTN_UNSUPPORTED;
    }
    if (keep(&s.calls, &s.from) || !told) return CLATTN_OK;
    cla_log_send(log, CLATTN_LOG_ERROR, "OpenCL was found before: it cannot be taken from elsewhere now");
    return CLATTN_INVALID_ARGUMENT;
}

#ifdef CLATTN_LINK_OPENCL
clattn_status cla_opencl_open(const clattn_log *log) {
    (void)log;
    return CLATTN_OK;
}
#else
clattn_status cla_opencl_open(const clattn_log *log) {
    return atomic_load(&state) == READY ? CLATTN_OK : load(NULL, log);
}
#endif

clattn_status clattn_opencl_load(const clattn_opencl_params *params) {
    const clattn_log *log = params ? &params->log : NULL;
    const bool told = params && (params->find || params->path);
    if (told && params->find && params->path) {
        cla_log_send(log, CLATTN_LOG_ERROR, "OpenCL: find and path: give one of them");
        return CLATTN_INVALID_ARGUMENT;
    }
#ifdef CLATTN_LINK_OPENCL
    if (told) {
        cla_log_send(log, CLATTN_LOG_ERROR,
                     "OpenCL: this library was linked with it and takes no other (-Dopencl=link)");
        return CLATTN_UNSUPPORTED;
    }
#endif
    if (!told) return cla_opencl_open(log);
    if (atomic_load(&state) != READY) return load(params, log);
    cla_log_send(log, CLATTN_LOG_ERROR, "OpenCL was found before: it cannot be taken from elsewhere now");
    return CLATTN_INVALID_ARGUMENT;
}

clattn_function clattn_opencl_function(const char *name) {
    if (!name || (atomic_load(&state) != READY && load(NULL, NULL) != CLATTN_OK)) return NULL;
    return look_up(&found_in, name);
}
