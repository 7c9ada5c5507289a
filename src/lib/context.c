// context.c: creates and destroys a context, and so knows all of its parts. device/context.h
// declares the struct.
#include "device/context.h"

#include "attention/mods/mods.h"
#include "launch/chain.h"
#include "base/host.h"
#include "device/pointer.h"
#include "probe/probe.h"
#include "probe/survey.h"
#include "program/unfit.h"
#include "layer/projection/clblast.h"
#include "layer/projection/projector.h"
#include "plan/planner.h"

// Without a context yet, an error goes only to the log.
static clattn_status refuse(const clattn_log *log, clattn_status status, const char *why) {
    cla_log_send(log, CLATTN_LOG_ERROR, "context: %s", why);
    return status;
}

static const char unknown_device[] = "the driver does not know the given device";

static clattn_status refuse_opencl(const clattn_log *log, const char *what, cl_int code) {
    cla_log_send(log, CLATTN_LOG_ERROR, "context: %s: OpenCL error %d (%s)", what, (int)code,
                 cla_opencl_error_name(code));
    return cla_opencl_status(code);
}

static cl_int context_lists_device(const clattn_host_memory *host, cl_context context, cl_device_id device,
                                   bool *holds) {
    size_t bytes = 0;
    cl_int code = clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes);
    if (code != CL_SUCCESS || !bytes) return code;
    cl_device_id *devices = cla_host_take(host, bytes);
    code =
        devices ? clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, devices, NULL) : CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; code == CL_SUCCESS && i < bytes / sizeof *devices; i++) *holds |= devices[i] == device;
    cla_host_release(host, devices);
    return code;
}

// For a context on a sub-device (clCreateSubDevices), PoCL lists the whole device. Creating a queue
// shows if the sub-device belongs to the context.
static bool context_holds_part(cl_context context, cl_device_id device) {
    cl_device_id whole = NULL;
    if (clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof whole, &whole, NULL) != CL_SUCCESS || !whole)
        return false;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    if (queue) clReleaseCommandQueue(queue);
    return queue != NULL;
}

static clattn_status take_opencl(clattn_context *c, cl_context given) {
    bool holds = false;
    cl_int code = context_lists_device(&c->host, given, c->device, &holds);
    if (code == CL_INVALID_CONTEXT)
        return refuse(&c->log, CLATTN_INVALID_ARGUMENT, "the driver does not know the given cl_context");
    if (code != CL_SUCCESS) return refuse_opencl(&c->log, "clGetContextInfo", code);
    if (!holds && !context_holds_part(given, c->device))
        return refuse(&c->log, CLATTN_INVALID_ARGUMENT,
                      "the given cl_context does not hold the given device");
    code = clRetainContext(given);
    if (code != CL_SUCCESS) return refuse_opencl(&c->log, "clRetainContext", code);
    c->opencl = given;
    return CLATTN_OK;
}

static clattn_status open_opencl(clattn_context *c, const clattn_context_params *params) {
    if (params->context) return take_opencl(c, params->context);
    cl_platform_id platform = NULL;
    cl_int code = clGetDeviceInfo(c->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    if (code == CL_INVALID_DEVICE) return refuse(&c->log, CLATTN_INVALID_ARGUMENT, unknown_device);
    if (code != CL_SUCCESS) return refuse_opencl(&c->log, "clGetDeviceInfo", code);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    c->opencl = clCreateContext(properties, 1, &c->device, NULL, NULL, &code);
    return c->opencl ? CLATTN_OK : refuse_opencl(&c->log, "clCreateContext", code);
}

static bool init_locks(clattn_context *c) {
    if (!cla_os_mutex_init_two(&c->error_lock, &c->program_lock)) return false;
    c->locks_ready = cla_os_condition_init(&c->program_built);
    if (c->locks_ready) return true;
    cla_os_mutex_destroy(&c->error_lock);
    cla_os_mutex_destroy(&c->program_lock);
    return false;
}

static clattn_status open_planner(clattn_context *c, const char *own_rows) {
    char why[256];
    const clattn_status status = cla_planner_create(c, own_rows, why);
    return status == CLATTN_OK ? status : refuse(&c->log, status, why[0] ? why : "no memory for the planner");
}

// An unusable cache is no error: it costs only time.
static void tell_of_cache(void *context, const char *line) {
    const clattn_context *c = context;
    cla_log_send(&c->log, CLATTN_LOG_INFO, "%s", line);
}

static clattn_status describe(clattn_context *c) {
    device_failure failure;
    const clattn_status status = cla_device_describe(&c->host, c->device, &c->capabilities, &failure);
    if (status == CLATTN_INVALID_ARGUMENT) return refuse(&c->log, status, unknown_device);
    if (status != CLATTN_OK) {
        cla_log_send(&c->log, CLATTN_LOG_ERROR,
                     "context: what the device can do: %s(0x%04X): OpenCL error %d (%s)", failure.call,
                     (unsigned)failure.what, (int)failure.code, cla_opencl_error_name(failure.code));
        return status;
    }
    if (!c->capabilities.available)
        return refuse(&c->log, CLATTN_UNSUPPORTED, "the device is not available or has no compiler");
    if (!c->capabilities.little_endian)
        return refuse(&c->log, CLATTN_UNSUPPORTED, "the device is not little-endian");
    if (c->capabilities.max_argument_bytes < LAUNCH_MAX_BYTES) {
        cla_log_send(&c->log, CLATTN_LOG_ERROR,
                     "context: the device takes %llu bytes of kernel arguments, %d are needed",
                     (unsigned long long)c->capabilities.max_argument_bytes, LAUNCH_MAX_BYTES);
        return CLATTN_UNSUPPORTED;
    }
    return CLATTN_OK;
}

void cla_context_request_engines(clattn_context *c, unsigned engines) {
    if (c->capabilities.is_cpu && (engines & CLATTN_ENGINE_AMX) &&
        c->capabilities.assembly & CLATTN_ASSEMBLY_X86 && cla_os_request_amx())
        c->engines |= CLATTN_ENGINE_AMX;
}

static clattn_status context_open(clattn_context *c, const clattn_context_params *params) {
    c->log = params->log;
    c->device = params->device;
    c->no_measurements = params->no_measurements;
    c->measure_again = c->tries_again = params->measure_again;
    c->mods_unchecked = params->mods_unchecked;
    if (params->engines & ~CLATTN_ENGINES_ALL)
        return refuse(&c->log, CLATTN_INVALID_ARGUMENT, "engines: has a bit that is none of CLATTN_ENGINE_*");
    if (!params->memory.create != !params->memory.release)
        return refuse(&c->log, CLATTN_INVALID_ARGUMENT, "memory: create and release: give both or none");
    TRY(cla_opencl_open(&c->log));
    TRY(describe(c));
    if (c->capabilities.is_cpu) cla_os_cpu_model(c->cpu_model);
    const cl_int code = clRetainDevice(c->device); // PoCL's contexts do not retain their devices
    if (code != CL_SUCCESS) return refuse_opencl(&c->log, "clRetainDevice", code);
    c->device_retained = true;
    cla_pointers_find(c);
    bool copied = true;
    c->clblast_path = cla_text_copy(&c->host, params->clblast_path, &copied);
    if (!init_locks(c) || !cla_pace_create(c) || !cla_pool_create(c, &params->memory) ||
        !cla_probe_state_create(c) || !cla_projector_create(c) || !cla_unfit_create(c) || !copied)
        return refuse(&c->log, CLATTN_OUT_OF_MEMORY, "no memory for the context");
    TRY(open_planner(c, params->tuned_rows));
    c->cache = cla_cache_open(&(cache_params){.dir = params->cache_dir,
                                              .max_bytes = params->cache_max_bytes,
                                              .load = params->cache.load,
                                              .store = params->cache.store,
                                              .own = params->cache.user,
                                              .tell = tell_of_cache,
                                              .host = &c->host,
                                              .user = c});
    cla_survey_read(c);
    cla_context_request_engines(c, params->engines);
    if (c->measure_again)
        cla_unfit_forget(c);
    else
        cla_unfit_load(c);
    return open_opencl(c, params);
}

clattn_status clattn_context_create(const clattn_context_params *params, clattn_context **context) {
    if (context) *context = NULL;
    if (!params) return CLATTN_INVALID_ARGUMENT;
    if (!context) return refuse(&params->log, CLATTN_INVALID_ARGUMENT, "the result pointer is NULL");
    if (!params->device)
        return refuse(&params->log, CLATTN_INVALID_ARGUMENT,
                      "device is NULL: take one from clattn_device_list()");
    if (!params->host_memory.allocate != !params->host_memory.release)
        return refuse(&params->log, CLATTN_INVALID_ARGUMENT,
                      "host_memory: allocate and release: give both or none");
    clattn_context *c = cla_host_take_zeroed(&params->host_memory, 1, sizeof *c);
    if (!c) return refuse(&params->log, CLATTN_OUT_OF_MEMORY, "no memory for the context");
    c->host = params->host_memory;
    const clattn_status status = context_open(c, params);
    if (status == CLATTN_OK)
        *context = c;
    else
        clattn_context_destroy(c);
    return status;
}

void clattn_context_destroy(clattn_context *context) {
    if (!context) return;
    if (context->locks_ready) clattn_context_save_kernels(context);
    cla_programs_release(context);
    cla_mods_release(context);
    cla_pool_destroy(context);
    cla_pace_destroy(context);
    cla_projector_destroy(context); // releases CLBlast's programs, so before the context
    if (context->opencl) clReleaseContext(context->opencl);
    if (context->device_retained) clReleaseDevice(context->device);
    cla_cache_close(context->cache);
    cla_probe_state_destroy(context);
    cla_planner_destroy(context);
    cla_unfit_destroy(context);
    if (context->locks_ready) {
        cla_os_condition_destroy(&context->program_built);
        cla_os_mutex_destroy(&context->program_lock);
        cla_os_mutex_destroy(&context->error_lock);
    }
    const clattn_host_memory host = context->host;
    cla_host_release(&host, context->clblast_path);
    cla_host_release(&host, context);
}

cl_context clattn_context_opencl(const clattn_context *context) {
    return context ? context->opencl : NULL;
}
cl_device_id clattn_context_device(const clattn_context *context) {
    return context ? context->device : NULL;
}
const clattn_capabilities *clattn_context_capabilities(const clattn_context *context) {
    return context ? &context->capabilities : NULL;
}

void clattn_context_get_stats(clattn_context *context, clattn_context_stats *stats) {
    if (!stats) return;
    *stats = (clattn_context_stats){0};
    if (!context) return;
    cla_os_mutex_lock(&context->program_lock);
    *stats = context->stats;
    cla_os_mutex_unlock(&context->program_lock);
}

clattn_status clattn_features_get(clattn_context *context, clattn_features *features) {
    if (!features) return CLATTN_INVALID_ARGUMENT;
    *features = (clattn_features){0};
#ifdef CLATTN_LINK_OPENCL
    features->opencl_linked = true;
#endif
#ifdef CLATTN_HAVE_CLBLAST
    features->clblast = true;
#endif
    if (context) features->clblast_found = cla_clblast_available(context);
    if (context) features->engines = context->engines, features->surveyed = context->surveyed;
    if (context) features->svm = context->pointers.set_svm, features->usm = context->pointers.set_usm;
    return CLATTN_OK;
}

static void tell_of_refusal(void *log, const char *line) {
    cla_log_send(log, CLATTN_LOG_ERROR, "%s", line);
}

clattn_status clattn_cache_clean(const char *dir, uint64_t max_bytes, const clattn_log *log) {
    clattn_log to = log ? *log : (clattn_log){.fn = NULL};
    cache *opened = cla_cache_open(&(cache_params){.dir = dir, .tell = tell_of_refusal, .user = &to});
    if (!dir) cla_log_send(log, CLATTN_LOG_ERROR, "cache: dir is NULL");
    if (!opened) return CLATTN_INVALID_ARGUMENT;
    cla_cache_trim(opened, max_bytes);
    cla_cache_close(opened);
    return CLATTN_OK;
}
