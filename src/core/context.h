// context.h: what a context holds, and how a call on it fails.
#ifndef CLATTN_CORE_CONTEXT_H
#define CLATTN_CORE_CONTEXT_H
#include "core/cache.h"
#include "core/opencl.h"
#include "core/os.h"
#include "plan/variant.h"

struct program;

struct clattn_context {
    cl_context opencl;
    cl_device_id device;
    clattn_capabilities capabilities;
    clattn_log log;
    cache *cache;
    tuned_rows own_rows, shipped_rows;
    plan_input planner; // points at the three above

    os_mutex error_lock; // guards the next three
    char last_error[1024];
    bool has_run; // a kernel was enqueued once: from then on certain codes mean that the device is gone
    bool lost;

    os_mutex program_lock; // guards the list, the statistics and building
    struct program *programs;
    clattn_context_stats stats;
    bool locks_ready;
    bool probed;          // planner.dot_bf16 is known
    bool projection_used; // CLBlast holds programs of this context

    os_mutex measure_lock; // held while projections are measured
    bool measured;         // planner.measured says what can be known
};

#if defined(__GNUC__) && !defined(__MINGW32__)
#define PRINTF_LIKE(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define PRINTF_LIKE(at, first)
#endif

// Send a message, if the log wants this level.
void cla_log_send(const clattn_log *log, clattn_log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

// Record one line of why, send it to the log, and return `status`.
clattn_status cla_context_fail(clattn_context *context, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

// The same for an OpenCL code: out of memory, device lost or driver, whichever it is.
clattn_status cla_context_fail_opencl(clattn_context *context, cl_int code, const char *call);

// DEVICE_LOST when the context was lost before, else OK.
clattn_status cla_context_check(clattn_context *context);
void cla_context_mark_run(clattn_context *context);
#endif
