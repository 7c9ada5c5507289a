// context.h: what a context holds, and how a call on it fails. The parts of the planner and of the projections are
// theirs: this folder carries the pointers and never looks behind them; src/context.c puts all together.
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

// Functions for tensors that are addresses; NULL where the device has no such memory, or its OpenCL lacks them.
typedef struct pointer_calls {
    cl_int(CL_API_CALL *set_svm)(cl_kernel kernel, cl_uint index, const void *address);
    cl_int(CL_API_CALL *set_usm)(cl_kernel kernel, cl_uint index, const void *address);
    cl_int(CL_API_CALL *ask_usm)(cl_context context, const void *address, cl_uint what, size_t size, void *to,
                                 size_t *bytes);
    bool usm_of_system; // any memory of the host's is usm
} pointer_calls;

// Of host memory: alignments of 1 to 4096 bytes, and what its bytes are a multiple of, 1 to 64.
#define IN_PLACE_ALIGNMENTS 13
#define IN_PLACE_SIZES 7

struct clattn_context {
    cl_context opencl;
    cl_device_id device;
    bool device_retained;
    clattn_capabilities capabilities;
    char cpu_model[OS_CPU_MODEL_BYTES]; // cla_os_cpu_model's of a CPU device, else ""
    pointer_calls pointers;             // device/pointer.h
    clattn_log log;
    clattn_host_memory host; // base/host.h
    cache *cache;

    os_mutex error_lock; // guards the next three
    char last_error[1024];
    bool has_run; // a kernel was enqueued once: from then on certain codes mean that the device is gone
    bool lost;

    os_mutex program_lock;      // guards the lists and the statistics; nobody holds it while the driver works
    os_condition program_built; // a program has left its state of being built
    struct program *programs;
    struct build_job *jobs; // program/behind.h
    uint64_t late_ended;    // builds that calls had gone on without
    clattn_context_stats stats;
    bool no_measurements, measure_again;
    bool tries_again;          // also what ended an earlier process
    bool surveys;              // this process may end: src/survey.c
    bool surveyed;             // the cache has a survey of the device
    unsigned engines;          // CLATTN_ENGINE_...: asked for, and granted by the system
    atomic_bool large_buffers; // a call had one that is larger than the device said and than 32 bits count
    atomic_bool large_refused; // its compiler takes no option for them (program.c)
    atomic_bool binaries_told; // why its driver is asked for none (program.c)
    uint64_t compile_limit_ns; // that a call waits for builds; 0: until they end
    atomic_uint promises;      // that the driver breaks (program/promises.c); 0: it was not asked
    char *clblast_path;        // the caller's; NULL: where the module is looked for
    _Atomic(const struct clblast_calls *)
        clblast;       // layer/projection/clblast_module.h; NULL: nobody looked yet
    bool clblast_used; // it holds programs of this cl_context

    // launch/recording.h: the one that is not ended, NULL: none; and the queue whose calls it takes
    _Atomic(struct clattn_recording *) recording;
    _Atomic(cl_command_queue) recorded_queue;
    struct pace *pace;           // device/pace.h
    struct pool *pool;           // device/pool.h
    struct probe_state *probes;  // probe/probe.h
    struct planner *planner;     // plan/planner.h
    struct projector *projector; // layer/projection/projector.h
    struct unfit_list *unfit;    // program/unfit.h
    struct mod_text *mods;       // attention/mods/mods_kept.h, used last first; under program_lock
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

// Send a message, if the log wants this level.
void cla_log_send(const clattn_log *log, clattn_log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

// Record one line of why, send it to the log, and return `status`.
clattn_status cla_context_fail(clattn_context *context, clattn_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

// The same for an OpenCL code: out of memory, device lost or driver, whichever it is.
clattn_status cla_context_fail_opencl(clattn_context *context, cl_int code, const char *call);

// Describe a device; a status that is not OK has its reason in `failure`: which question about what, and its code.
typedef struct device_failure {
    const char *call;
    cl_uint what;
    cl_int code;
} device_failure;
clattn_status cla_device_describe(const clattn_host_memory *host, cl_device_id device,
                                  clattn_capabilities *capabilities, device_failure *failure);

// Add to the assembly that the device's compiler takes (CLATTN_ASSEMBLY_...), with what that says of the device.
void cla_device_add_assembly(cl_device_id device, clattn_capabilities *capabilities, unsigned assembly);
// Ask the system for these engines, as the caller of a context does.
void cla_context_request_engines(clattn_context *context, unsigned engines);

// The status of an OpenCL code where there is no context yet: out of memory or driver.
clattn_status cla_opencl_status(cl_int code);
// Whether a code tells of memory or of a device that is gone, and nothing of what was asked.
bool cla_opencl_is_of_device(cl_int code);

// DEVICE_LOST when the context was lost before, else OK.
clattn_status cla_context_check(clattn_context *context);
void cla_context_mark_run(clattn_context *context);
#endif
