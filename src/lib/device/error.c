// error.c: a failed call writes one line to the log and to the context's last error, and returns
// the matching status.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/context.h"

void cla_log_send(const clattn_log *log, clattn_log_level level, const char *format, ...) {
    if (!log || !log->fn || level > log->level) return;
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    log->fn(log->user, level, text);
}

const char *cla_opencl_error_name(cl_int code) {
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
#define NAME(x) {x, #x}
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_HOST_PTR),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_DIMENSION),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_GLOBAL_WORK_SIZE),
#undef NAME
        {OPENCL_PLATFORM_NOT_FOUND, "CL_PLATFORM_NOT_FOUND_KHR"},
        {OPENCL_ILLEGAL_ACCESS, "illegal memory access in a kernel"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code) return names[i].name;
    return "unknown";
}

clattn_status cla_context_fail(clattn_context *context, clattn_status status, const char *format, ...) {
    char text[sizeof context->last_error];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cla_os_mutex_lock(&context->error_lock);
    memcpy(context->last_error, text, sizeof text);
    cla_os_mutex_unlock(&context->error_lock);
    cla_log_send(&context->log, CLATTN_LOG_ERROR, "%s", text);
    return status;
}

// OpenCL has no portable code for a lost device. After a successful launch these codes mean one:
// the queue's context was valid just before. CL_OUT_OF_RESOURCES is not among them, because an
// oversized launch returns it, too. A failed event in a wait list may be the caller's. If the
// device is lost, a later call reports it.
static bool means_lost(cl_int code) {
    return code == CL_DEVICE_NOT_AVAILABLE || code == CL_INVALID_COMMAND_QUEUE ||
           code == OPENCL_ILLEGAL_ACCESS;
}

static bool means_memory(cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
           code == CL_OUT_OF_RESOURCES;
}

bool cla_opencl_is_of_device(cl_int code) {
    return means_memory(code) || means_lost(code);
}

clattn_status cla_opencl_status(cl_int code) {
    return means_memory(code) ? CLATTN_OUT_OF_MEMORY : CLATTN_DRIVER;
}

clattn_status cla_context_fail_opencl(clattn_context *context, cl_int code, const char *call) {
    clattn_status status = cla_opencl_status(code);
    const char *advice = "the driver refused";
    cla_os_mutex_lock(&context->error_lock);
    if (context->has_run && means_lost(code)) {
        context->lost = true;
        status = CLATTN_DEVICE_LOST;
        advice = "the device is gone: destroy this context and create a new one";
    } else if (status == CLATTN_OUT_OF_MEMORY) {
        advice = "out of memory or of other resources: ask for less or free some";
    } else if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
        advice = "what it waits for ended with an error";
    }
    cla_os_mutex_unlock(&context->error_lock);
    return cla_context_fail(context, status, "%s: OpenCL error %d (%s): %s", call, (int)code,
                            cla_opencl_error_name(code), advice);
}

clattn_status cla_context_check(clattn_context *context) {
    cla_os_mutex_lock(&context->error_lock);
    const bool lost = context->lost;
    cla_os_mutex_unlock(&context->error_lock);
    if (!lost) return CLATTN_OK;
    return cla_context_fail(
        context, CLATTN_DEVICE_LOST,
        "context: its device was lost in an earlier call: destroy it and create a new one");
}

void cla_context_mark_run(clattn_context *context) {
    cla_os_mutex_lock(&context->error_lock);
    context->has_run = true;
    cla_os_mutex_unlock(&context->error_lock);
}

size_t clattn_context_last_error(clattn_context *context, char *text, size_t size) {
    if (!context) {
        if (text && size) text[0] = '\0';
        return 0;
    }
    cla_os_mutex_lock(&context->error_lock);
    const size_t length = strlen(context->last_error);
    if (text && size) {
        const size_t n = length < size - 1 ? length : size - 1;
        memcpy(text, context->last_error, n);
        text[n] = '\0';
    }
    cla_os_mutex_unlock(&context->error_lock);
    return length;
}
