// context.h: the contents of a context, and how a call on a context fails. The planner's and the
// projections' parts are opaque pointers in this folder. src/lib/context.c assembles them.
#ifndef CLATTN_DEVICE_CONTEXT_H
#define CLATTN_DEVICE_CONTEXT_H
#include <stdatomic.h>

#include "base/cache.h"
#include "device/opencl.h"
#include "base/os.h"
#include "device/try.h"

struct clblast_calls;
struct mod_text;
struct pace;
struct pool;
struct program;
struct build_job;
struct probe_state;
struct planner;
struct projector;
struct unfit_list;
struct clattn_recording;

// OpenCL functions for tensors that are addresses. NULL if the device has no such memory, or if its
// OpenCL lacks the functions.
typedef struct pointer_calls {
    cl_int(CL_API_CALL *set_svm)(cl_kernel kernel, cl_uint index, const void *address);
    cl_int(CL_API_CALL *set_usm)(cl_kernel kernel, cl_uint index, const void *address);
    cl_int(CL_API_CALL *ask_usm)(cl_context context, const void *address, cl_uint what, size_t size, void *to,
                                 size_t *bytes);
    bool usm_of_system; // USM: kernels may read any host memory
} pointer_calls;

// Alignments of host memory, 1 to 4096 bytes, and the alignments of its size, 1 to 64.
#define IN_PLACE_ALIGNMENTS 13
#define IN_PLACE_SIZES 7

struct clattn_context {
    cl_context opencl;
    cl_device_id device;
    bool device_retained;
    clattn_capabilities capabilities;
    char cpu_model[OS_CPU_MODEL_BYTES]; // from cla_os_cpu_model on a CPU device, else ""
    pointer_calls pointers;             // see device/pointer.h
    clattn_log log;
    clattn_host_memory host; // see base/host.h
    cache *cache;

    os_mutex error_lock; // guards the next three fields
    char last_error[1024];
    bool has_run; // a kernel was enqueued before: certain error codes now mean a lost device
    bool lost;

    os_mutex program_lock;      // guards the program list and statistics; not held during builds
    os_condition program_built; // signalled when a program is no longer `building`
    struct program *programs;
    struct build_job *jobs; // program/behind.h
    uint64_t late_ended;    // builds that calls had gone on without
    clattn_context_stats stats;
    bool no_measurements, measure_again;
    bool tries_again;          // also try kernels that ended an earlier process
    bool surveys;              // a survey's process, which the driver may end: src/lib/survey.c
    bool surveyed;             // the cache has a survey of the device
    unsigned engines;          // CLATTN_ENGINE_... that the caller requested and the system granted
    atomic_bool large_buffers; // a call had a buffer above the device's limit and 4 GiB
    atomic_bool large_refused; // the compiler rejects the option for large buffers (program.c)
    atomic_bool binaries_told; // logged why binaries are not cached (program.c)
    uint64_t compile_limit_ns; // longest time that a call waits for builds; 0: no limit
    // promises that the driver breaks (program/promises.c); 0: not probed yet
    atomic_uint promises;
    char *clblast_path; // from the caller; NULL: search for the module
    _Atomic(const struct clblast_calls *)
        clblast;       // see layer/projection/clblast_module.h; NULL: not searched for yet
    bool clblast_used; // CLBlast caches programs of this cl_context

    // The active recording (launch/recording.h) and the queue that it records. NULL: none.
    _Atomic(struct clattn_recording *) recording;
    _Atomic(cl_command_queue) recorded_queue;
    struct pace *pace;           // see device/launch_slicing.h
    struct pool *pool;           // see device/pool.h
    struct probe_state *probes;  // see probe/probe.h
    struct planner *planner;     // see plan/planner.h
    struct projector *projector; // see layer/projection/projector.h
    struct unfit_list *unfit;    // see program/unfit.h
    struct mod_text *mods;       // attention/mods/mods_kept.h; last used first; under program_lock
    struct mod_text *mods_gone[2];
    atomic_uint mods_epoch;
    atomic_int mods_calls[2];
    bool mods_unchecked;
    atomic_uchar in_place[IN_PLACE_ALIGNMENTS][IN_PLACE_SIZES]; // what device/in_place.c found
    bool locks_ready;
};

#if defined(__GNUC__) && !defined(__MINGW32__)
#define PRINTF_LIKE(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define PRINTF_LIKE(at, first)
#endif

// Send a message, if the log's level includes `level`.
void cla_log_send(const clattn_log *log, clattn_log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

// Store the formatted line as the last error, log it, and return `status`.
clattn_status cla_context_fail(clattn_context *context, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

// As cla_context_fail, for an OpenCL error code. Returns OUT_OF_MEMORY, DEVICE_LOST or DRIVER,
// depending on the code.
clattn_status cla_context_fail_opencl(clattn_context *context, cl_int code, const char *call);

// Read a device's capabilities. On an error, `failure` has the OpenCL function, the queried
// property and the error code.
typedef struct device_failure {
    const char *call;
    cl_uint what;
    cl_int code;
} device_failure;
clattn_status cla_device_describe(const clattn_host_memory *host, cl_device_id device,
                                  clattn_capabilities *capabilities, device_failure *failure);

// Add CLATTN_ASSEMBLY_... bits that the device's compiler accepts, and the capabilities that depend
// on them.
void cla_device_add_assembly(cl_device_id device, clattn_capabilities *capabilities, unsigned assembly);
// Request these engines from the system, for the context's caller.
void cla_context_request_engines(clattn_context *context, unsigned engines);

// The status of an OpenCL code before a context exists: OUT_OF_MEMORY or DRIVER.
clattn_status cla_opencl_status(cl_int code);
// True if a code means lack of memory or a lost device, and so says nothing about the failed
// command itself.
bool cla_opencl_is_of_device(cl_int code);

// Returns DEVICE_LOST if an earlier call lost the device, else OK.
clattn_status cla_context_check(clattn_context *context);
void cla_context_mark_run(clattn_context *context);
#endif
