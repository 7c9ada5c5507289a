// cl_layer.c: an OpenCL layer (OPENCL_LAYERS names the built library) that counts objects and makes
// calls fail. It wraps every entry point that the library, CLBlast or a test uses.
// tests/cl_layer/check_layer.sh compares the list with their imports. See cl_layer.h.
#define _GNU_SOURCE // memmem
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include "cl_layer/cl_layer_driver.h"
#include "cl_layer/cl_layer_inside.h"
#include "cl_layer/cl_layer_options.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXTS 8 // most source texts of a program

static struct _cl_icd_dispatch layer;
static const struct _cl_icd_dispatch *next;

static bool use_waits(cl_uint count, const cl_event *waits, const char *call) {
    bool live = true;
    for (cl_uint n = 0; waits != NULL && n < count; n++)
        live = layer_object_used(LAYER_EVENT, waits[n], call) && live;
    return live;
}

static _Atomic cl_event
    // returned in place of a command's own event, with a reference that belongs to no program
    to_fail;

// Events that may wait for a failing one are held until the program has finished its queues and
// arms again or releases them. PoCL 3.1 notifies a failed event of the end of others, even after it
// is freed.
static bool holding;
#define MOST_BEHIND 256
static cl_event behind[MOST_BEHIND];
static int behind_count;

static void hold(cl_event event) {
    if (behind_count < MOST_BEHIND && next->clRetainEvent(event) == CL_SUCCESS)
        behind[behind_count++] = event;
}

static void let_go(void) {
    while (behind_count > 0) next->clReleaseEvent(behind[--behind_count]);
}

static cl_int give_failing_event(cl_command_queue queue, cl_event *event) {
    cl_context context = NULL;
    cl_int code = next->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (event == NULL || code != CL_SUCCESS) return code;
    *event = next->clCreateUserEvent(context, &code);
    atomic_store(&to_fail, *event);
    if (*event != NULL) hold(*event);
    return code;
}

static void hold_events(bool on) {
    holding = on;
    if (!on) let_go();
}

static void fail_event(void) {
    cl_event event = atomic_exchange(&to_fail, NULL);
    if (event == NULL) return;
    next->clSetUserEventStatus(event, CL_OUT_OF_RESOURCES);
}

// Record the event of an enqueued command as an object.
static cl_int took_event(cl_int code, const cl_event *event, const char *call) {
    if (code != CL_SUCCESS || event == NULL) return code;
    layer_object_created(LAYER_EVENT, *event, call);
    if (holding || behind_count > 0) hold(*event);
    return code;
}

// Entry points that return a status and create nothing.
#define PLAIN(name, parameters, arguments)                                                                   \
    static cl_int CL_API_CALL layer_##name parameters {                                                      \
        const int code = layer_fault(#name, false);                                                          \
        return code != 0 ? code : next->name arguments;                                                      \
    }
// Commands: (cl_command_queue q, ..., cl_uint n, const cl_event *waits, cl_event *event).
#define COMMAND(name, parameters, arguments)                                                                 \
    static cl_int CL_API_CALL layer_##name parameters {                                                      \
        const int code = layer_fault(#name, true);                                                           \
        if (!layer_object_used(LAYER_QUEUE, q, #name)) return CL_INVALID_COMMAND_QUEUE;                      \
        if (!use_waits(n, waits, #name)) return CL_INVALID_EVENT_WAIT_LIST;                                  \
        if (code < 0) return code;                                                                           \
        return took_event(code == LAYER_FAILED_EVENT ? give_failing_event(q, event) : next->name arguments,  \
                          event, #name);                                                                     \
    }
#define CREATES(kind, type, name, parameters, arguments)                                                     \
    CREATES_UNLESS(0, kind, type, name, parameters, arguments)
#define CREATES_UNLESS(refused, kind, type, name, parameters, arguments)                                     \
    static type CL_API_CALL layer_##name parameters {                                                        \
        const int fault = layer_fault(#name, false), code = fault != 0 ? fault : (refused);                  \
        type made = NULL;                                                                                    \
        if (code == 0)                                                                                       \
            made = next->name arguments;                                                                     \
        else if (err != NULL)                                                                                \
            *err = code;                                                                                     \
        if (made != NULL) layer_object_created(kind, made, #name);                                           \
        return made;                                                                                         \
    }
#define RETAINS(kind, type, name)                                                                            \
    static cl_int CL_API_CALL layer_##name(type object) {                                                    \
        const int code = layer_fault(#name, false);                                                          \
        if (code != 0) return code;                                                                          \
        return layer_object_retained(kind, object, #name) ? next->name(object) : CL_INVALID_VALUE;           \
    }
// A release that fails still counts, because a caller could do nothing about it. A release of a
// missing object does not reach the driver, which may crash on it.
#define RELEASES(kind, type, name)                                                                           \
    static cl_int CL_API_CALL layer_##name(type object) {                                                    \
        const int code = layer_fault(#name, false);                                                          \
        if (!layer_object_released(kind, object, #name)) return CL_INVALID_VALUE;                            \
        const cl_int done = next->name(object);                                                              \
        return code != 0 ? code : done;                                                                      \
    }

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *program_notify)(cl_program, void *);
typedef void(CL_CALLBACK *memory_notify)(cl_mem, void *);
typedef void(CL_CALLBACK *event_notify)(cl_event, cl_int, void *);

PLAIN(clGetPlatformIDs, (cl_uint n, cl_platform_id *p, cl_uint *count), (n, p, count))
static cl_int CL_API_CALL layer_clGetDeviceIDs(cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *d,
                                               cl_uint *count) {
    const int code = layer_fault("clGetDeviceIDs", false);
    const cl_device_type real = layer_driver_type(t);
    if (real == 0 && count != NULL) *count = 0;
    return code != 0 ? code : real == 0 ? CL_DEVICE_NOT_FOUND : next->clGetDeviceIDs(p, real, n, d, count);
}
PLAIN(clGetContextInfo, (cl_context c, cl_context_info what, size_t size, void *to, size_t *got),
      (c, what, size, to, got))
PLAIN(clGetCommandQueueInfo,
      (cl_command_queue q, cl_command_queue_info what, size_t size, void *to, size_t *got),
      (q, what, size, to, got))
PLAIN(clGetMemObjectInfo, (cl_mem m, cl_mem_info what, size_t size, void *to, size_t *got),
      (m, what, size, to, got))
PLAIN(clGetProgramInfo, (cl_program p, cl_program_info what, size_t size, void *to, size_t *got),
      (p, what, size, to, got))
PLAIN(clGetProgramBuildInfo,
      (cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *to, size_t *got),
      (p, d, what, size, to, got))
PLAIN(clGetKernelInfo, (cl_kernel k, cl_kernel_info what, size_t size, void *to, size_t *got),
      (k, what, size, to, got))
static cl_int CL_API_CALL layer_clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d,
                                                         cl_kernel_work_group_info what, size_t size,
                                                         void *to, size_t *got) {
    const int code = layer_fault("clGetKernelWorkGroupInfo", false);
    const cl_int asked = code != 0 ? code : next->clGetKernelWorkGroupInfo(k, d, what, size, to, got);
    if (asked == CL_SUCCESS) layer_driver_kernel_answer(what, to);
    return asked;
}
PLAIN(clGetEventInfo, (cl_event e, cl_event_info what, size_t size, void *to, size_t *got),
      (e, what, size, to, got))
PLAIN(clGetEventProfilingInfo, (cl_event e, cl_profiling_info what, size_t size, void *to, size_t *got),
      (e, what, size, to, got))
PLAIN(clSetUserEventStatus, (cl_event e, cl_int status), (e, status))
PLAIN(clSetMemObjectDestructorCallback, (cl_mem m, memory_notify f, void *user), (m, f, user))
PLAIN(clSetEventCallback, (cl_event e, cl_int status, event_notify f, void *user), (e, status, f, user))

static cl_int CL_API_CALL layer_clBuildProgram(cl_program p, cl_uint n, const cl_device_id *d, const char *o,
                                               program_notify f, void *user) {
    const int code = layer_fault("clBuildProgram", false);
    layer_options_wait(LAYER_SLOW_BUILD);
    const int refused = code != 0 ? code : layer_driver_build(next, p);
    if (refused != 0) return refused;
    char *options = layer_options(next, p, o);
    const cl_int built = next->clBuildProgram(p, n, d, options ? options : o, f, user);
    free(options);
    return built;
}

static cl_int CL_API_CALL layer_clCompileProgram(cl_program p, cl_uint n, const cl_device_id *d,
                                                 const char *o, cl_uint headers, const cl_program *header,
                                                 const char **names, program_notify f, void *user) {
    const int code = layer_fault("clCompileProgram", false);
    if (code != 0) return code;
    char *options = layer_options(next, p, o);
    const cl_int built =
        next->clCompileProgram(p, n, d, options ? options : o, headers, header, names, f, user);
    free(options);
    return built;
}

static cl_uint pretended;
static const void *pretended_bytes;
static size_t pretended_count;

static void pretend(unsigned what, const void *bytes, size_t count) {
    pretended = what, pretended_bytes = bytes, pretended_count = count;
}

static cl_int answer(const void *value, size_t value_size, size_t size, void *to, size_t *size_ret) {
    if (to != NULL && size < value_size) return CL_INVALID_VALUE;
    if (to != NULL) memcpy(to, value, value_size);
    if (size_ret != NULL) *size_ret = value_size;
    return CL_SUCCESS;
}

// Queries whose result can be replaced.
#define QUESTION(name, type)                                                                                 \
    static cl_int CL_API_CALL layer_##name(type of, cl_uint what, size_t size, void *to, size_t *got) {      \
        const int code = layer_fault(#name, false);                                                          \
        if (code != 0) return code;                                                                          \
        if (pretended == 0 || what != pretended) return ask_##name(of, what, size, to, got);                 \
        return answer(pretended_bytes, pretended_count, size, to, got);                                      \
    }
static cl_int ask_clGetPlatformInfo(cl_platform_id of, cl_uint what, size_t size, void *to, size_t *got) {
    const void *bytes;
    size_t count;
    if (layer_driver_answer(true, what, &bytes, &count)) return answer(bytes, count, size, to, got);
    const cl_int code = next->clGetPlatformInfo(of, what, size, to, got);
    if (code == CL_SUCCESS && to != NULL && what == CL_PLATFORM_VERSION) layer_options_version(to);
    return code;
}
static cl_int ask_clGetDeviceInfo(cl_device_id of, cl_uint what, size_t size, void *to, size_t *got) {
    const void *bytes;
    size_t count;
    if (layer_driver_answer(false, what, &bytes, &count)) return answer(bytes, count, size, to, got);
    return next->clGetDeviceInfo(of, what, size, to, got);
}
QUESTION(clGetPlatformInfo, cl_platform_id)
QUESTION(clGetDeviceInfo, cl_device_id)

// Calls that make the driver work, or wait for it.
#define PUSHES(name)                                                                                         \
    static cl_int CL_API_CALL layer_##name(cl_command_queue q) {                                             \
        const int code = layer_fault(#name, false);                                                          \
        fail_event();                                                                                        \
        return code != 0 ? code : next->name(q);                                                             \
    }
PUSHES(clFinish)
PUSHES(clFlush)

static cl_int CL_API_CALL layer_clSetKernelArg(cl_kernel k, cl_uint i, size_t size, const void *value) {
    const int code = layer_fault("clSetKernelArg", false);
    if (!layer_object_used(LAYER_KERNEL, k, "clSetKernelArg")) return CL_INVALID_KERNEL;
    return code != 0 ? code : next->clSetKernelArg(k, i, size, layer_driver_argument(size, value));
}

static cl_int CL_API_CALL layer_clSetKernelArgSVMPointer(cl_kernel k, cl_uint i, const void *address) {
    const int code = layer_fault("clSetKernelArgSVMPointer", false);
    if (!layer_object_used(LAYER_KERNEL, k, "clSetKernelArgSVMPointer")) return CL_INVALID_KERNEL;
    return code != 0 ? code : next->clSetKernelArgSVMPointer(k, i, address);
}

static cl_int CL_API_CALL layer_clWaitForEvents(cl_uint n, const cl_event *events) {
    const int code = layer_fault("clWaitForEvents", false);
    if (!use_waits(n, events, "clWaitForEvents")) return CL_INVALID_EVENT;
    fail_event();
    return code != 0 ? code : next->clWaitForEvents(n, events);
}

static cl_int launch(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset,
                     const size_t *global, const size_t *local, cl_uint n, const cl_event *waits,
                     cl_event *event) {
    size_t made[3];
    layer_options_wait(LAYER_SLOW_LAUNCH);
    const int refused = layer_driver_launch(next, k, dims, &offset, local, made);
    return refused != 0 ? refused
                        : next->clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n, waits, event);
}
static cl_int CL_API_CALL layer_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dims,
                                                       const size_t *offset, const size_t *global,
                                                       const size_t *local, cl_uint n, const cl_event *waits,
                                                       cl_event *event) {
    const int code = layer_fault("clEnqueueNDRangeKernel", true);
    if (!layer_object_used(LAYER_QUEUE, q, "clEnqueueNDRangeKernel")) return CL_INVALID_COMMAND_QUEUE;
    if (!use_waits(n, waits, "clEnqueueNDRangeKernel")) return CL_INVALID_EVENT_WAIT_LIST;
    if (code < 0) return code;
    return took_event(code == LAYER_FAILED_EVENT ? give_failing_event(q, event)
                                                 : launch(q, k, dims, offset, global, local, n, waits, event),
                      event, "clEnqueueNDRangeKernel");
}
COMMAND(clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool block, size_t offset, size_t size, void *to, cl_uint n,
         const cl_event *waits, cl_event *event),
        (q, m, (fail_event(), block), offset, size, to, n, waits, event))
COMMAND(clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool block, size_t offset, size_t size, const void *from, cl_uint n,
         const cl_event *waits, cl_event *event),
        (q, m, block, offset, size, from, n, waits, event))
COMMAND(clEnqueueReadBufferRect,
        (cl_command_queue q, cl_mem m, cl_bool block, const size_t *offset, const size_t *host_offset,
         const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, void *to,
         cl_uint n, const cl_event *waits, cl_event *event),
        (q, m, block, offset, host_offset, region, row, slice, host_row, host_slice, to, n, waits, event))
COMMAND(clEnqueueWriteBufferRect,
        (cl_command_queue q, cl_mem m, cl_bool block, const size_t *offset, const size_t *host_offset,
         const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, const void *from,
         cl_uint n, const cl_event *waits, cl_event *event),
        (q, m, block, offset, host_offset, region, row, slice, host_row, host_slice, from, n, waits, event))
COMMAND(clEnqueueCopyBuffer,
        (cl_command_queue q, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
         cl_uint n, const cl_event *waits, cl_event *event),
        (q, from, to, from_offset, to_offset, size, n, waits, event))
COMMAND(clEnqueueFillBuffer,
        (cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t offset, size_t size,
         cl_uint n, const cl_event *waits, cl_event *event),
        (q, m, pattern, pattern_size, offset, size, n, waits, event))
COMMAND(clEnqueueUnmapMemObject,
        (cl_command_queue q, cl_mem m, void *mapped, cl_uint n, const cl_event *waits, cl_event *event),
        (q, m, mapped, n, waits, event))
COMMAND(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event),
        (q, n, waits, event))
COMMAND(clEnqueueBarrierWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *waits, cl_event *event),
        (q, n, waits, event))

static void *CL_API_CALL layer_clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool block, cl_map_flags f,
                                                  size_t offset, size_t size, cl_uint n,
                                                  const cl_event *waits, cl_event *event, cl_int *err) {
    const int code = layer_fault("clEnqueueMapBuffer", false);
    if (!use_waits(n, waits, "clEnqueueMapBuffer")) return NULL;
    if (code != 0 && err != NULL) *err = code;
    void *mapped =
        code == 0 ? next->clEnqueueMapBuffer(q, m, block, f, offset, size, n, waits, event, err) : NULL;
    took_event(mapped != NULL ? CL_SUCCESS : CL_MAP_FAILURE, event, "clEnqueueMapBuffer");
    return mapped;
}

CREATES_UNLESS(layer_driver_context(), LAYER_CONTEXT, cl_context, clCreateContext,
               (const cl_context_properties *p, cl_uint n, const cl_device_id *d, context_notify f,
                void *user, cl_int *err),
               (p, n, d, f, user, err))
CREATES(LAYER_QUEUE, cl_command_queue, clCreateCommandQueue,
        (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *err), (c, d, p, err))
CREATES(LAYER_QUEUE, cl_command_queue, clCreateCommandQueueWithProperties,
        (cl_context c, cl_device_id d, const cl_queue_properties *p, cl_int *err), (c, d, p, err))
static cl_mem CL_API_CALL layer_clCreateBuffer(cl_context c, cl_mem_flags f, size_t size, void *host,
                                               cl_int *err) {
    const int fault = layer_fault("clCreateBuffer", false);
    const int code = fault != 0 ? fault : layer_driver_buffer(size);
    cl_mem made = code == 0 ? next->clCreateBuffer(c, layer_options_flags(f), size, host, err) : NULL;
    if (code != 0 && err != NULL) *err = code;
    if (made == NULL) return NULL;
    layer_object_created(LAYER_BUFFER, made, "clCreateBuffer");
    layer_object_sized(LAYER_BUFFER, made, size);
    return made;
}
CREATES(LAYER_BUFFER, cl_mem, clCreateSubBuffer,
        (cl_mem m, cl_mem_flags f, cl_buffer_create_type t, const void *region, cl_int *err),
        (m, f, t, region, err))
CREATES(LAYER_BUFFER, cl_mem, clCreateImage,
        (cl_context c, cl_mem_flags f, const cl_image_format *format, const cl_image_desc *d, void *host,
         cl_int *err),
        (c, f, format, d, host, err))
static cl_program program_of(cl_context c, cl_uint n, const char **s, const size_t *length, cl_int *err) {
    const char *all[MOST_TEXTS + 1];
    size_t bytes[MOST_TEXTS + 1];
    bool converts = false; // CLBlast's texts, which do not convert, are of an older OpenCL C
    for (cl_uint i = 0; i < n && n <= MOST_TEXTS; i++) {
        all[i + 1] = s[i], bytes[i + 1] = length && length[i] ? length[i] : strlen(s[i]);
        converts = converts || memmem(s[i], bytes[i + 1], "vload_half", 10) != NULL;
    }
    all[0] = converts ? layer_driver_text() : "";
    bytes[0] = strlen(all[0]);
    if (bytes[0] == 0) return next->clCreateProgramWithSource(c, n, s, length, err);
    return next->clCreateProgramWithSource(c, n + 1, all, bytes, err);
}
static cl_program CL_API_CALL layer_clCreateProgramWithSource(cl_context c, cl_uint n, const char **s,
                                                              const size_t *length, cl_int *err) {
    const int code = layer_fault("clCreateProgramWithSource", false);
    cl_program made = code == 0 ? program_of(c, n, s, length, err) : NULL;
    if (code != 0 && err != NULL) *err = code;
    if (made != NULL) layer_object_created(LAYER_PROGRAM, made, "clCreateProgramWithSource");
    return made;
}
CREATES_UNLESS(layer_driver_binary(), LAYER_PROGRAM, cl_program, clCreateProgramWithBinary,
               (cl_context c, cl_uint n, const cl_device_id *d, const size_t *length, const unsigned char **b,
                cl_int *status, cl_int *err),
               (c, n, d, length, b, status, err))
CREATES(LAYER_PROGRAM, cl_program, clLinkProgram,
        (cl_context c, cl_uint n, const cl_device_id *d, const char *o, cl_uint count, const cl_program *p,
         program_notify f, void *user, cl_int *err),
        (c, n, d, o, count, p, f, user, err))
CREATES_UNLESS(layer_driver_kernel(next, p), LAYER_KERNEL, cl_kernel, clCreateKernel,
               (cl_program p, const char *name, cl_int *err), (p, name, err))
CREATES(LAYER_EVENT, cl_event, clCreateUserEvent, (cl_context c, cl_int *err), (c, err))

static cl_int CL_API_CALL layer_clCreateSubDevices(cl_device_id d, const cl_device_partition_property *p,
                                                   cl_uint n, cl_device_id *devices, cl_uint *count) {
    const int code = layer_fault("clCreateSubDevices", false);
    cl_uint made = 0;
    if (code != 0) return code;
    const cl_int done = next->clCreateSubDevices(d, p, n, devices, &made);
    for (cl_uint i = 0; done == CL_SUCCESS && devices != NULL && i < made && i < n; i++)
        layer_object_created(LAYER_DEVICE, devices[i], "clCreateSubDevices");
    if (count != NULL) *count = made;
    return done;
}

// Retaining or releasing a device that is no sub-device does nothing.
static cl_int CL_API_CALL layer_clRetainDevice(cl_device_id d) {
    const int code = layer_fault("clRetainDevice", false);
    if (code != 0) return code;
    if (layer_object_is_live(LAYER_DEVICE, d)) layer_object_retained(LAYER_DEVICE, d, "clRetainDevice");
    return next->clRetainDevice(d);
}
static cl_int CL_API_CALL layer_clReleaseDevice(cl_device_id d) {
    const int code = layer_fault("clReleaseDevice", false);
    if (layer_object_is_live(LAYER_DEVICE, d)) layer_object_released(LAYER_DEVICE, d, "clReleaseDevice");
    const cl_int done = next->clReleaseDevice(d);
    return code != 0 ? code : done;
}

static void *CL_API_CALL layer_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                                        const char *name) {
    if (layer_fault("clGetExtensionFunctionAddressForPlatform", false) != 0) return NULL;
    return layer_extension(next->clGetExtensionFunctionAddressForPlatform(platform, name), name);
}

RETAINS(LAYER_CONTEXT, cl_context, clRetainContext)
RETAINS(LAYER_QUEUE, cl_command_queue, clRetainCommandQueue)
RETAINS(LAYER_BUFFER, cl_mem, clRetainMemObject)
RETAINS(LAYER_PROGRAM, cl_program, clRetainProgram)
RETAINS(LAYER_KERNEL, cl_kernel, clRetainKernel)
RETAINS(LAYER_EVENT, cl_event, clRetainEvent)
RELEASES(LAYER_CONTEXT, cl_context, clReleaseContext)
RELEASES(LAYER_QUEUE, cl_command_queue, clReleaseCommandQueue)
RELEASES(LAYER_BUFFER, cl_mem, clReleaseMemObject)
RELEASES(LAYER_PROGRAM, cl_program, clReleaseProgram)
RELEASES(LAYER_KERNEL, cl_kernel, clReleaseKernel)
RELEASES(LAYER_EVENT, cl_event, clReleaseEvent)

static void arm(int nth, int code) {
    let_go();
    layer_fault_arm(nth, code);
}

static struct layer_armed disarm(void) {
    fail_event();
    return layer_fault_disarm();
}

static void fill_dispatch(void) {
#define WRAPPED(name) layer.name = layer_##name;
#include "cl_layer/cl_layer_calls.def"
#undef WRAPPED
}

__attribute__((visibility("default"))) extern const struct layer_control clattn_layer;
const struct layer_control clattn_layer = {
    layer_object_counts, layer_object_watch, arm, disarm, layer_fault_call, pretend, hold_events};

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name,
                                                                                      size_t size,
                                                                                      void *value,
                                                                                      size_t *size_ret) {
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char layer_name[] = "clattn objects and faults";
    if (name == CL_LAYER_API_VERSION) return answer(&version, sizeof version, size, value, size_ret);
    if (name == CL_LAYER_NAME) return answer(layer_name, sizeof layer_name, size, value, size_ret);
    return CL_INVALID_VALUE;
}

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL clInitLayer(
    cl_uint entries, const cl_icd_dispatch *target, cl_uint *entries_ret, const cl_icd_dispatch **dispatch) {
    const cl_uint own = sizeof layer / sizeof(void *);
    if (target == NULL || entries_ret == NULL || dispatch == NULL) return CL_INVALID_VALUE;
    const cl_uint common = entries < own ? entries : own;
    next = target;
    memcpy(&layer, target, common * sizeof(void *));
    fill_dispatch();
    layer_object_report_at_exit();
    layer_options_begin();
    layer_driver_begin();
    *entries_ret = common;
    *dispatch = &layer;
    return CL_SUCCESS;
}
