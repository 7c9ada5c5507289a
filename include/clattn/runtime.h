/* runtime.h: status, log, devices and contexts. Included by clattn.h (rules, contracts). */
#ifndef CLATTN_RUNTIME_H
#define CLATTN_RUNTIME_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(CLATTN_SHARED)
#ifdef CLATTN_BUILDING
#define CLATTN_API __declspec(dllexport)
#else
#define CLATTN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define CLATTN_API __attribute__((visibility("default")))
#else
#define CLATTN_API
#endif

/* ----------------------------------------------------------------------------------- status --- */

/* X(NAME, value, "what it means and what the caller can do") */
#define CLATTN_STATUS_LIST(X)                                                                                \
    X(OK, 0, "done")                                                                                         \
    X(INVALID_ARGUMENT, 1, "the request is wrong: change it as the message says")                            \
    X(UNSUPPORTED, 2, "this build or this device cannot do it: choose another device or option")             \
    X(OUT_OF_MEMORY, 3, "the host or the device is out of memory: ask for less or free some")                \
    X(BUILD_FAILED, 4, "the driver refused a kernel: report its build log, try another device")              \
    X(DEVICE_LOST, 5, "the device is gone: destroy the context and create a new one")                        \
    X(DRIVER, 6, "an OpenCL call failed: the message has its error code")                                    \
    X(CANCELLED, 7, "the caller's progress callback cancelled it: what it wrote so far is undefined")

typedef enum clattn_status {
#define CLATTN_X(name, value, text) CLATTN_##name = value,
    CLATTN_STATUS_LIST(CLATTN_X)
#undef CLATTN_X
        CLATTN_STATUS_COUNT
} clattn_status;

/* Return the status's name without prefix, such as "INVALID_ARGUMENT"; "UNKNOWN" for other numbers.
 *    Lifetime: static.   Threads: any.   Blocking: never. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* Return what the status means and what the caller can do.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_status_text(clattn_status status);

/* Return the library's version, such as "0.2.0".   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_version(void);

/* Return the version as one number, to compare with CLATTN_VERSION_NUMBER. Structs may differ where
 * major or minor differ (while major is 0): then call no other function.   Threads: any. */
CLATTN_API int clattn_version_number(void);

/* -------------------------------------------------------------------------------------- log --- */

typedef enum clattn_log_level {
    CLATTN_LOG_ERROR = 0, /* why a call failed, and the log of a failed build */
    /* kernels built or loaded, rows, probes, measurements, an unused cache folder */
    CLATTN_LOG_INFO = 1,
    CLATTN_LOG_DEBUG = 2 /* nothing yet */
} clattn_log_level;

/* Receives one message, a line or a build log, without a final newline.
 *    Lifetime  `message` is valid during the call
 *    Threads   the callback contract; during builds of more than 10 seconds also a thread of the
 *              library, which ends before the call does */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *message);

/* The receiver of messages, and its level of detail. */
typedef struct clattn_log {
    clattn_log_fn fn; /* NULL: no log */
    void *user;
    clattn_log_level level; /* the most detailed level; 0: errors only */
} clattn_log;

/* --------------------------------------------------------------------------------- progress --- */

/* Progress and cancellation of a long call, which then runs in slices of about a quarter of a
 * second, waits for each, and blocks until all is done. See docs/context.md, "Slices".
 *
 * After each slice the call passes fn the share that is done: above 0, growing, 1 at the end. A
 * call without work does not call fn. If fn returns false before 1, the call enqueues no more and
 * returns CANCELLED once nothing of it runs. Outputs are then undefined, inputs unchanged.
 *    Threads   on the thread of the call, which holds no lock of the context: fn may call the
 *              library */
typedef struct clattn_progress {
    bool (*fn)(void *user, double done);
    void *user;
} clattn_progress;

/* ---------------------------------------------------------------------------------- devices --- */

/* An OpenCL device and its platform. */
typedef struct clattn_device {
    cl_platform_id platform;
    cl_device_id device;
} clattn_device;

/* Extensions for sub-groups: bits of clattn_capabilities.subgroup_ways. */
#define CLATTN_SUBGROUPS_KHR 1u           /* cl_khr_subgroups, or a feature of OpenCL C 3.0 */
#define CLATTN_SUBGROUPS_INTEL 2u         /* cl_intel_subgroups, with shuffles */
#define CLATTN_SUBGROUPS_SHUFFLE_KHR 4u   /* cl_khr_subgroup_shuffle */
#define CLATTN_SUBGROUPS_SHUFFLE_QCOM 8u  /* cl_qcom_subgroup_shuffle */
#define CLATTN_SUBGROUPS_SIZE_INTEL 16u   /* cl_intel_required_subgroup_size */
#define CLATTN_SUBGROUPS_SIZE_QCOM 32u    /* cl_qcom_reqd_sub_group_size */
#define CLATTN_SUBGROUPS_MATRIX_INTEL 64u /* cl_intel_subgroup_matrix_multiply_accumulate */

/* Instructions that a compiler accepts: bits of clattn_capabilities.assembly. */
#define CLATTN_ASSEMBLY_X86 1u /* inline assembly of x86 */
#define CLATTN_ASSEMBLY_PTX 2u /* inline assembly of NVIDIA's PTX */
#define CLATTN_ASSEMBLY_AMD 4u /* built-in functions of AMD's compilers */

/* Capabilities of a device, as its driver reports them. */
typedef struct clattn_capabilities {
    char name[256];             /* CL_DEVICE_NAME, trimmed */
    char vendor[256];           /* CL_DEVICE_VENDOR */
    char driver[128];           /* CL_DRIVER_VERSION */
    char platform[256];         /* CL_PLATFORM_NAME and CL_PLATFORM_VERSION */
    char version[128];          /* CL_DEVICE_VERSION */
    bool is_cpu, is_gpu;        /* CL_DEVICE_TYPE */
    bool available;             /* CL_DEVICE_AVAILABLE and CL_DEVICE_COMPILER_AVAILABLE */
    bool half_arithmetic;       /* cl_khr_fp16 */
    bool double_arithmetic;     /* cl_khr_fp64 */
    bool subgroups;             /* any extension for sub-groups; false with PoCL 4 to 6 */
    bool little_endian;         /* CL_DEVICE_ENDIAN_LITTLE */
    bool out_of_order;          /* queues may be out of order */
    bool local_memory_is_local; /* CL_LOCAL: local memory is apart from global memory */
    uint32_t compute_units;
    uint32_t clock_mhz;
    /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, at least 1; a hint on CPUs */
    uint32_t float_vector_width;
    uint32_t address_bits;
    uint64_t max_work_group; /* work-items */
    uint64_t max_work_item[3];
    uint64_t local_memory_bytes;
    uint64_t global_memory_bytes;
    uint64_t max_allocation_bytes;
    uint64_t max_argument_bytes; /* CL_DEVICE_MAX_PARAMETER_SIZE; a context requires 1024 */
    uint32_t subgroup_ways;      /* CLATTN_SUBGROUPS_*, or-ed; 0 if `subgroups` is false */
    /* Sizes of sub-groups that a kernel may request (4, 8, 16, ...), or-ed:
     * CL_DEVICE_SUB_GROUP_SIZES_INTEL. 0: none */
    uint32_t subgroup_sizes;
    /* CL_DEVICE_SVM_CAPABILITIES, or-ed: 1 coarse-grained, 2 fine-grained, 4 of the system, 8
     * atomics */
    uint32_t svm;
    bool usm; /* cl_intel_unified_shared_memory */
    /* 10 * major + minor of cl_nv_device_attribute_query; 0: unknown, or not NVIDIA's platform */
    uint32_t compute_capability;
    /* CL_DEVICE_WAVEFRONT_WIDTH_AMD, work-items that run together; 0: unknown */
    uint32_t wavefront_width;
    /* CLATTN_ASSEMBLY_*, or-ed: known for the driver (docs/drivers.md), or found by a survey.
     * Kernels use no other. */
    uint32_t assembly;
    bool driver_known;   /* clattn's suites ran on this driver; other drivers need a survey first */
    bool unified_memory; /* CL_DEVICE_HOST_UNIFIED_MEMORY: CPUs and integrated GPUs */
} clattn_capabilities;

/* List the devices of all platforms, in the loader's order. The list contract applies. log may be
 * NULL. A platform that fails beside others is skipped, with a log line (INFO).
 *    Threads   any; see docs/drivers.md for PoCL 3.1
 *    Blocking  may load drivers
 *    Returns   INVALID_ARGUMENT       by the list contract
 *              UNSUPPORTED            no OpenCL, platform or device; the log says what was
 *                                     searched; count is 0
 *              OUT_OF_MEMORY, DRIVER  the loader or every platform failed; count is 0
 *    Source    OpenCL 1.2 specification, sections 4.1 and 4.2 */
CLATTN_API clattn_status clattn_device_list(clattn_device *devices, size_t capacity, size_t *count,
                                            const clattn_log *log);

/* Describe one device. If the call fails, capabilities is zero.
 *    Threads: any.   Blocking: never.
 *    Returns   INVALID_ARGUMENT       device or capabilities is NULL, or the driver does not know
 *                                     the device
 *              UNSUPPORTED            no OpenCL
 *              OUT_OF_MEMORY, DRIVER  the driver does not answer a query */
CLATTN_API clattn_status clattn_device_describe(cl_device_id device, clattn_capabilities *capabilities);

/* ---------------------------------------------------------------------------------- context --- */

/* One device with its compiled kernels, scratch memory and measurements. */
typedef struct clattn_context clattn_context;

/* Engines that change the process, for clattn_context_params.engines. See docs/context.md, "Engines
 * and measurements".
 *    AMX  x86 matrix tiles for bfloat16 and int8, on Linux. The context requests tile registers
 *         for the whole process, until it ends. Signal stacks then need 8 KiB more */
#define CLATTN_ENGINE_AMX 1u
#define CLATTN_ENGINES_ALL CLATTN_ENGINE_AMX

/* The application's own store for compiled kernels and measurements. An entry's name has at most 95
 * letters, digits and points. An entry contains its SHA-256; a damaged entry is rebuilt. The
 * callback contract applies. */
typedef struct clattn_cache {
    /* Returns the size of an entry (0: missing), and copies it to `bytes` unless that is NULL.
     * Optional */
    size_t (*load)(void *user, const char *name, void *bytes, size_t capacity);
    /* Stores an entry in place of one of the same name, or ignores it. Optional */
    void (*store)(void *user, const char *name, const void *bytes, size_t count);
    void *user;
} clattn_cache;

/* Device memory that calls borrow from their context: workspaces that the caller does not pass, and
 * small tables. Probes and clattn_context_measure use other memory. The flags have
 * CL_MEM_ALLOC_HOST_PTR on devices with unified_memory, except CPUs. The callback contract
 * applies. */
typedef struct clattn_memory {
    /* Most bytes that the context holds, cached and lent; 0: no limit. Cached buffers are released
     * first; a call that needs more is OUT_OF_MEMORY. Released buffers do not count. */
    uint64_t max_bytes;
    /* Replaces clCreateBuffer. A NULL result makes the call OUT_OF_MEMORY if *code is CL_SUCCESS or
     * a code of memory or resources, else DRIVER. The context stays usable. */
    cl_mem (*create)(void *user, cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                     cl_int *code);
    /* Replaces clReleaseMemObject; with create only. Commands may still use the buffer: wait for
     * them before reuse. */
    void (*release)(void *user, cl_mem buffer);
    void *user;
} clattn_memory;

/* Host memory of a context, from creation to destruction; all of it is released. Functions without
 * a context, the C library, drivers and CLBlast use other memory. The callback contract applies. */
typedef struct clattn_host_memory {
    /* Returns `bytes` bytes, 1 or more, aligned like malloc. After NULL, the call is OUT_OF_MEMORY
     * or works without the cache. Without both functions: malloc and free. */
    void *(*allocate)(void *user, size_t bytes);
    /* Releases memory of allocate: each once, never NULL, on any thread */
    void (*release)(void *user, void *memory);
    void *user;
} clattn_host_memory;

/* The device of a context, and its options. Strings are copied. */
typedef struct clattn_context_params {
    cl_device_id device; /* required; a device or a sub-device (clCreateSubDevices); retained */
    cl_context context;  /* the caller's, with `device`, retained; NULL: clattn creates one */
    clattn_log log;
    /* Folder for compiled kernels and measurements; NULL: none. Its parent must exist. An unsafe
     * folder is ignored without an error. See docs/context.md, "Compiled kernels". */
    const char *cache_dir;
    uint64_t cache_max_bytes; /* of all entries; 0: 256 MiB. The least recently used are removed */
    /* Rows from `clattn tune`, or written by hand: a text, not a file's name. They precede the
     * shipped rows. See docs/context.md, "Tuned rows". */
    const char *tuned_rows;
    /* Ignore results of clattn_context_measure: plans depend on tuned rows only. */
    bool no_measurements;
    /* Ignore stored rates of engines and failures of kernels, and replace them. */
    bool measure_again;
    /* Accept any OpenCL C expression as score_mod and mask_mod. Such a text can read and write the
     * process's memory, so it must be trusted. */
    bool mods_unchecked;
    unsigned engines; /* CLATTN_ENGINE_..., or-ed: engines that may change the process; 0: none */
    /* CLBlast's module, such as libclattn-clblast-0.2.so, loaded when first needed. NULL: beside
     * this library or program, then where the system searches. Unused with -Dopencl=link. */
    const char *clblast_path;
    /* Most milliseconds that a call, or a prepare function, waits for the driver's compiler; 0: no
     * limit. Past the limit, the call uses plainer kernels. Later calls use the better kernels:
     * see docs/call.md, "Kernels with long builds". */
    uint32_t compile_limit_ms;
    /* read after cache_dir, written together with it; either may be missing */
    clattn_cache cache;
    clattn_memory memory; /* of what calls borrow */
    clattn_host_memory host_memory;
} clattn_context_params;

/* Create a context. See docs/context.md, "Memory", for the buffers that it caches. A driver may end
 * the process at its first kernel: see docs/drivers.md.
 *    Lifetime  destroy it with clattn_context_destroy; params is read during the call and copied
 *    Threads   any
 *    Blocking  the driver may
 *    Returns   INVALID_ARGUMENT  no device, or params->context lacks it; half a pair of functions;
 *                                an unknown engine; a wrong line of tuned_rows, with its number in
 *                                the log
 *              UNSUPPORTED       no OpenCL (opencl.h); the device has no compiler, is unavailable,
 *                                is not little-endian, or accepts less than 1024 bytes of arguments
 *              OUT_OF_MEMORY, DRIVER */
CLATTN_API clattn_status clattn_context_create(const clattn_context_params *params, clattn_context **context);

/* Destroy a context; NULL is allowed. Finish its queues before, because the call waits for no
 * command. With compile_limit_ms, the call waits for builds that still run.
 *    Threads: no other thread uses the context any more. */
CLATTN_API void clattn_context_destroy(clattn_context *context);

/* Measure rates for plans: projections with float32 weights by CLBlast and clattn, engines, and
 * prefetch on CPUs. Results are stored in cache_dir, and measured again only if runs disagreed.
 * Plans and workspace sizes may change. Call it once for each device and cache_dir, on a quiet
 * machine.
 *    Threads   any; calls of other threads continue
 *    Blocking  for seconds, because CLBlast compiles
 *    Returns   INVALID_ARGUMENT  the context has no_measurements
 *              OUT_OF_MEMORY     no device memory for three matrices of 2048 x 2048 float32
 *              DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_context_measure(clattn_context *context);

/* An engine: instructions of the device that clattn has kernels for, and what its probe found. */
typedef struct clattn_engine {
    char name[48];
    bool works; /* it was requested, compiled, and exact to the bit */
    /* billion operations a second of one work-item, where timed; 0 if it does not work */
    float gflops;
    int64_t measured; /* seconds since 1970 (UTC); 0: not probed, or the system has no clock */
    /* timed runs, of which the fastest counts; compared engines are interleaved */
    int runs;
    float spread; /* how much slower the second fastest run was, as a share of the fastest */
    /* The two fastest runs agree within a tenth, and with earlier results. Only sure results are
     * stored, and select a CPU's vector width. */
    bool sure;
    bool kept; /* an earlier context measured it */
    /* An earlier process ended during this probe (found in cache_dir). Only a survey or
     * measure_again tries again. */
    bool died;
} clattn_engine;

/* Probe the engines, each once, and list them. The list contract applies; NULL and 0 probe nothing.
 * Plans and workspace sizes may change. See docs/context.md, "Engines and measurements".
 *    Threads   any
 *    Blocking  about 30 ms for each engine that must be compiled
 *    Returns   INVALID_ARGUMENT  context is NULL, or by the list contract
 *              DEVICE_LOST */
CLATTN_API clattn_status clattn_context_engines(clattn_context *context, clattn_engine *engines,
                                                size_t capacity, size_t *count);

/* A kernel that the driver refused to build or to launch, and that the context therefore avoids. */
typedef struct clattn_unfit {
    char kernel[48];     /* as in plans */
    char options[1024];  /* compiler options: the knobs, each as -DNAME=VALUE */
    char step[40];       /* the OpenCL function that failed, such as "clBuildProgram" */
    int code;            /* what that function returned, such as -11 */
    uint64_t work_group; /* work-items of a group of the launch that failed; 0: no launch failed */
    bool smaller;        /* true: the kernel still runs, in smaller groups; false: it is not used */
    char line[256];      /* the compiler's first error line; "" if there is none */
    bool kept;           /* stored in cache_dir and cache: later contexts do not build the kernel */
} clattn_unfit;

/* List the kernels that the driver refused. A call that needs such a kernel uses smaller groups or
 * another kernel: see docs/call.md, "Kernels that a driver refuses". Failed builds are stored in
 * the cache, failed launches only in this context. clattn_context_measure and measure_again forget
 * both. The list contract applies.
 *    Threads   any.   Blocking: never.
 *    Returns   INVALID_ARGUMENT  context is NULL, or by the list contract */
CLATTN_API clattn_status clattn_context_unfit(clattn_context *context, clattn_unfit *kernels, size_t capacity,
                                              size_t *count);

/* Try steps that may end the process: inline assembly, sub-groups, matrix instructions, first
 * builds. Call it in a child process, for drivers that are not known
 * (clattn_capabilities.driver_known). Later contexts read the results from cache_dir, and avoid
 * steps that ended a process. See docs/drivers.md.
 *    params    as for a context, with cache_dir; no_measurements, tuned_rows and memory are ignored
 *    resume    false: try all. true: skip the step that ended the last survey. Run another child
 *              with true as long as a child crashes or hangs
 *    Threads   any
 *    Blocking  for seconds: it compiles about 20 kernels. It may not return
 *    Returns   INVALID_ARGUMENT  params or cache_dir is NULL, the folder is unusable, or as
 *                                clattn_context_create
 *              UNSUPPORTED, OUT_OF_MEMORY, DRIVER  as clattn_context_create */
CLATTN_API clattn_status clattn_device_survey(const clattn_context_params *params, bool resume);

/* Features of this build, and of this context. */
typedef struct clattn_features {
    /* the library is linked with OpenCL, so it does not search for OpenCL at run time (opencl.h) */
    bool opencl_linked;
    bool clblast;       /* built with CLBlast, linked or as a module */
    bool clblast_found; /* the module exists; this call searches for it if necessary */
    unsigned engines;   /* CLATTN_ENGINE_..., or-ed: requested and permitted, before any probe */
    bool svm, usm;      /* tensors may have addresses of this kind (tensor.h) */
    bool surveyed;      /* cache_dir has a finished survey of the device and driver */
} clattn_features;

/* Get the features. Without a context (NULL), clblast_found and the fields after it are 0.
 *    Threads: any.   Blocking: may load CLBlast.
 *    Returns   INVALID_ARGUMENT  features is NULL */
CLATTN_API clattn_status clattn_features_get(clattn_context *context, clattn_features *features);

/* Clean a cache folder: remove remains of killed processes, then the least recently used entries
 * until max_bytes remain (0: all). Contexts that use the folder lose only time. log may be NULL.
 *    Threads: any.   Blocking: on the file system.
 *    Returns   INVALID_ARGUMENT  dir is NULL, or a folder that no context would use; the log says
 *                                why */
CLATTN_API clattn_status clattn_cache_clean(const char *dir, uint64_t max_bytes, const clattn_log *log);

/* Write new compiled kernels to cache_dir and cache, as clattn_context_destroy does. NULL is
 * allowed. The queues that used the context must be finished.
 *    Threads: any.   Blocking: on the file system. */
CLATTN_API void clattn_context_save_kernels(clattn_context *context);

/* Return the OpenCL context and device, for queues and buffers, and the device's capabilities; NULL
 * for NULL.
 *    Lifetime: the context's; not retained.   Threads: any. */
CLATTN_API cl_context clattn_context_opencl(const clattn_context *context);
CLATTN_API cl_device_id clattn_context_device(const clattn_context *context);
CLATTN_API const clattn_capabilities *clattn_context_capabilities(const clattn_context *context);

/* Test if the device computes in this host memory, so that no copy is needed. A CL_MEM_USE_HOST_PTR
 * buffer is then this memory itself, and the host may access it without mapping while no command
 * uses it.
 *
 * CPU devices accept any address. Other devices need clattn_capabilities.unified_memory and an
 * address that is a multiple of 4096. Two small copies decide, once per context for each alignment
 * of `address` and `bytes`.
 *    address   NULL: *in_place becomes false
 *    in_place  receives the answer; false on failure
 *    Threads   any
 *    Blocking  until the two copies are done, on a queue of their own
 *    Returns   INVALID_ARGUMENT  context or in_place is NULL
 *              DEVICE_LOST */
CLATTN_API clattn_status clattn_context_in_place(clattn_context *context, const void *address, size_t bytes,
                                                 bool *in_place);

/* Copy the message of the last failed call on this context, by any thread, into text[size],
 * truncated and terminated; "" if none failed. Return its full length; text may be NULL. Successful
 * calls keep the message.   Threads: any. */
CLATTN_API size_t clattn_context_last_error(clattn_context *context, char *text, size_t size);

/* Counts of the context's builds so far, for start-up measurements. */
typedef struct clattn_context_stats {
    uint64_t programs_built;  /* compiled from source by the driver */
    uint64_t programs_cached; /* read from cache_dir or cache */
    uint64_t build_time_ns;   /* spent in both */
    uint64_t builds_running;  /* builds that continue behind calls (compile_limit_ms) */
} clattn_context_stats;
/* Get the numbers.   Threads: any.   Blocking: never. */
CLATTN_API void clattn_context_get_stats(clattn_context *context, clattn_context_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
