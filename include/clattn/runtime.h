/* runtime.h: status, log, devices, context: what stands under attention. Included by clattn.h, which tells
 * the rules. */
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

/* ------------------------------------------------------------------------------------------ status --- */

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

/* The status's name without prefix, such as "INVALID_ARGUMENT"; "UNKNOWN" for a number that is none.
 * Lifetime: static.   Threads: any.   Blocking: never. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* What the status means, and what the caller can do about it.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_status_text(clattn_status status);

/* The library's own version, such as "0.2.0".   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_version(void);

/* The same as one number, to be compared with CLATTN_VERSION_NUMBER of the header an application was compiled with:
 * structs may differ where major or minor do (while major is 0), and then nothing may be called but this. */
CLATTN_API int clattn_version_number(void);

/* --------------------------------------------------------------------------------------------- log --- */

typedef enum clattn_log_level {
    CLATTN_LOG_ERROR = 0, /* why a call failed, and the log of a build that did */
    CLATTN_LOG_INFO = 1,  /* kernels built or loaded, rows, probes, measurements, an unused cache folder */
    CLATTN_LOG_DEBUG = 2  /* nothing yet */
} clattn_log_level;

/* Receives one message (a line, except a build log) without a newline at its end.
 * Lifetime: `message` is valid during the call.   Threads: called on the thread whose call it is about, so it must be
 * safe to call from several at once. A line about a kernel that the driver compiles for more than 10 seconds comes from a thread of the
 * library's own, which ends before the call does. With compile_limit_ms (clattn_context_params), lines about builds come from threads
 * of the library's own, too, which end before clattn_context_destroy returns.   It must not call back into the same context. */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *message);

/* Where messages go, and which of them. */
typedef struct clattn_log {
    clattn_log_fn fn; /* NULL: no log */
    void *user;
    clattn_log_level level; /* the most detailed level that is sent; 0 sends errors only */
} clattn_log;

/* ---------------------------------------------------------------------------------------- progress --- */

/* How a long call, of attention or of a layer, tells of its work, and how it is cancelled. A call with one runs in slices of
 * about a quarter of a second, at the rate that its kernels have shown on the context (before, at a cautious guess from compute
 * units and clock), and waits for each slice: it blocks until all is done.
 *   fn      is called after each slice with the share that is done, above 0 and growing, and with 1 when all is; a call that
 *           has nothing to do does not call it. Returning false cancels: no further slice is enqueued, nothing of the call is
 *           running any more, and the call returns CANCELLED. After 1 the answer is not looked at.
 * What a cancelled call was to write is undefined: some rows may be written, in no order; its inputs are as they were.
 * Without one, a call never waits; on devices that are no CPU it, and a projection alone, is cut into the same slices, so that
 * no launch holds a display for long. Such a device's rates are learned from launches of more than about 60 milliseconds, one
 * at a time, which have an event that the next such launch looks at: exactly where the queue keeps times
 * (CL_QUEUE_PROFILING_ENABLE), else from when the launch was enqueued to when it was found to be done, which can only be too
 * long. A short launch on an in-order queue has no event.
 * Threads   fn is called on the thread of the call, which holds no lock of the context's: it may call the library. */
typedef struct clattn_progress {
    bool (*fn)(void *user, double done);
    void *user;
} clattn_progress;

/* ----------------------------------------------------------------------------------------- devices --- */

/* An OpenCL device and the platform that has it. */
typedef struct clattn_device {
    cl_platform_id platform;
    cl_device_id device;
} clattn_device;

/* How a device spells sub-groups: bits of clattn_capabilities.subgroup_ways. */
#define CLATTN_SUBGROUPS_KHR 1u   /* cl_khr_subgroups, or OpenCL C 3.0's own: needs OpenCL C 2.0 or 3.0 */
#define CLATTN_SUBGROUPS_INTEL 2u /* cl_intel_subgroups, which has shuffles and needs OpenCL C 1.2 */
#define CLATTN_SUBGROUPS_SHUFFLE_KHR 4u  /* cl_khr_subgroup_shuffle */
#define CLATTN_SUBGROUPS_SHUFFLE_QCOM 8u /* cl_qcom_subgroup_shuffle */
#define CLATTN_SUBGROUPS_SIZE_INTEL 16u  /* cl_intel_required_subgroup_size: a kernel may ask for a size */
#define CLATTN_SUBGROUPS_SIZE_QCOM 32u /* cl_qcom_reqd_sub_group_size: for the smaller or the larger of two */
#define CLATTN_SUBGROUPS_MATRIX_INTEL 64u /* cl_intel_subgroup_matrix_multiply_accumulate */

/* Instructions that a driver's compiler takes in a kernel beyond OpenCL C: bits of clattn_capabilities.assembly. */
#define CLATTN_ASSEMBLY_X86 1u /* inline assembly of x86 */
#define CLATTN_ASSEMBLY_PTX 2u /* inline assembly of NVIDIA's PTX */
#define CLATTN_ASSEMBLY_AMD 4u /* built-in functions of AMD's compilers */

/* What a device can do, as its driver reports it. Nothing in it decides by a vendor's name. */
typedef struct clattn_capabilities {
    char name[256];         /* CL_DEVICE_NAME, trimmed */
    char vendor[256];       /* CL_DEVICE_VENDOR */
    char driver[128];       /* CL_DRIVER_VERSION */
    char platform[256];     /* CL_PLATFORM_NAME and CL_PLATFORM_VERSION */
    char version[128];      /* CL_DEVICE_VERSION */
    bool is_cpu, is_gpu;    /* CL_DEVICE_TYPE */
    bool available;         /* CL_DEVICE_AVAILABLE and CL_DEVICE_COMPILER_AVAILABLE */
    bool half_arithmetic;   /* cl_khr_fp16 */
    bool double_arithmetic; /* cl_khr_fp64 */
    bool subgroups;         /* it has sub-groups, however spelled; none with PoCL 4 to 6 */
    bool little_endian;     /* CL_DEVICE_ENDIAN_LITTLE */
    bool out_of_order;      /* queues may be out of order */
    bool
        local_memory_is_local; /* CL_LOCAL: apart from global memory, so a tile there is worth its barriers */
    uint32_t compute_units;
    uint32_t clock_mhz;
    uint32_t float_vector_width; /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, at least 1: of a CPU device a hint */
    uint32_t address_bits;
    uint64_t max_work_group; /* work-items */
    uint64_t max_work_item[3];
    uint64_t local_memory_bytes;
    uint64_t global_memory_bytes;
    uint64_t max_allocation_bytes;
    uint64_t
        max_argument_bytes; /* CL_DEVICE_MAX_PARAMETER_SIZE; a context needs 1024, as OpenCL asks of a device */
    uint32_t subgroup_ways; /* CLATTN_SUBGROUPS_*, or-ed; 0 where `subgroups` is false */
    uint32_t
        subgroup_sizes; /* work-items of the sub-groups that a kernel may ask for (4, 8, 16, ...), or-ed: from
                                CL_DEVICE_SUB_GROUP_SIZES_INTEL; 0: it cannot ask */
    uint32_t
        svm; /* CL_DEVICE_SVM_CAPABILITIES: 1 coarse-grained, 2 fine-grained, 4 of the system, 8 atomics, or-ed */
    bool usm; /* cl_intel_unified_shared_memory */
    uint32_t
        compute_capability; /* 10 * CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV + ..._MINOR_NV of cl_nv_device_attribute_query, whose
                               compilers take PTX in kernels; 0: not told, or not NVIDIA's platform */
    uint32_t
        wavefront_width; /* CL_DEVICE_WAVEFRONT_WIDTH_AMD of cl_amd_device_attribute_query, whose compilers have built-in
                            functions for matrices where the chip has them: work-items that run together; 0: not told */
    /* CLATTN_ASSEMBLY_*, or-ed: the compiler is known to take it (docs/drivers.md), or a context found a survey of the
     * device in its cache_dir (clattn_device_survey). No kernel has any other. */
    uint32_t assembly;
    bool driver_known; /* clattn's suites ran on this driver; on another one a survey comes first */
    bool
        unified_memory; /* CL_DEVICE_HOST_UNIFIED_MEMORY: device and host share one memory, as CPUs and integrated GPUs do */
} clattn_capabilities;

/* List the devices of all platforms, in the order of the OpenCL loader, which is found first (opencl.h).
 *   devices   room for `capacity` entries, or NULL with capacity 0 to ask for the number alone
 *   count     receives the number of devices there are, which may be more than capacity
 *   log       may be NULL
 * Threads: any; but some drivers (PoCL 3.1) have no device for a thread that asks while another one's first question starts
 *          them, so that an application lists devices before its threads do.   Blocking: may load drivers.
 * Returns   INVALID_ARGUMENT  count is NULL, or devices is where capacity is not 0
 *           UNSUPPORTED       no OpenCL, no platform, or no device in any ("no OpenCL" in the log, and what was
 *                             looked for); count is 0
 *           OUT_OF_MEMORY, DRIVER  the loader failed, or every platform that could have had a device; count is 0
 * A platform that fails beside others is left out, with a line in the log (CLATTN_LOG_INFO).
 * Source    OpenCL 1.2 specification, sections 4.1 and 4.2 */
CLATTN_API clattn_status clattn_device_list(clattn_device *devices, size_t capacity, size_t *count,
                                            const clattn_log *log);

/* Describe one device.   Threads: any.   Blocking: never.
 * Returns   INVALID_ARGUMENT  device or capabilities is NULL, or the driver does not know the device
 *           UNSUPPORTED       no OpenCL; capabilities is zero
 *           OUT_OF_MEMORY, DRIVER  the driver leaves a question unanswered; capabilities is zero */
CLATTN_API clattn_status clattn_device_describe(cl_device_id device, clattn_capabilities *capabilities);

/* ----------------------------------------------------------------------------------------- context --- */

/* One device with its compiled kernels, scratch memory and measurements: what every call is made on. */
typedef struct clattn_context clattn_context;

/* Engines that change the process they run in, and so are used only where the caller asks for them (clattn_context_params). A
 * process that did not get what an engine needs never runs, nor builds, a kernel for it. Others need no asking.
 *   AMX  x86's matrix tiles, for bfloat16 attention, its gradients and projections, and for attention over int8, on CPU devices (Linux
 *        alone): numbers and sums of magnitudes below 2^-126 are 0 there. The process asks its system for the tile
 *        registers when the context is created (arch_prctl, ARCH_REQ_XCOMP_PERM), for all of its threads and for good:
 *        what a signal saves on the stack of a thread that used tiles is 8 KiB more, which stacks made for signals
 *        (sigaltstack) must hold, or the system refuses. Granted on PoCL up to 7 and Intel's CPU runtime alone. */
#define CLATTN_ENGINE_AMX 1u
#define CLATTN_ENGINES_ALL CLATTN_ENGINE_AMX

/* Compiled kernels, and what was measured, through the application: an archive, a database, memory of its own. An entry has a
 * name of at most 95 letters, digits and points, and holds a SHA-256 of itself: one that was damaged costs a rebuild.
 * load   the bytes of an entry, or 0 where there is none; with `bytes` NULL it is asked how many they are, then with room for so
 *        many, which it fills
 * store  keep an entry, in place of one of the same name; it may also not
 * Both are called on the thread of the call that needs a kernel, or destroys the context, from several threads at once, and must not
 * call back into the same context. With compile_limit_ms (clattn_context_params) they are also called on threads of the library's own. */
typedef struct clattn_cache {
    size_t (*load)(void *user, const char *name, void *bytes,
                   size_t capacity); /* NULL: nothing is asked for */
    void (*store)(void *user, const char *name, const void *bytes, size_t count); /* NULL: nothing is given */
    void *user;
} clattn_cache;

/* Device memory that calls borrow from their context: workspaces that a call is not given, and its small tables. What probes and
 * clattn_context_measure use for a moment is not of it.
 * max_bytes  what the context holds of it at most, kept and lent together; buffers that are kept make way first, and a call
 *            that still needs more is OUT_OF_MEMORY; 0: as much as the device has. A buffer that was released counts no
 *            more, though the driver may keep it until its commands are done
 * create     makes a buffer in place of clCreateBuffer, with its arguments; NULL is a failure, with its reason in *code: the call is
 *            OUT_OF_MEMORY for OpenCL's codes of memory and resources, and for CL_SUCCESS, DRIVER for all others, and the
 *            context stays as it is: no number of a callback means DEVICE_LOST
 *            The flags have CL_MEM_ALLOC_HOST_PTR on a device with unified_memory that is no CPU
 * release    in place of clReleaseMemObject; with create only. Commands that use the buffer may still run: who keeps it for others
 *            waits for them (OpenCL itself does, where it is released)
 * Both are called on the threads of calls, from several at once, and must not call back into the same context. */
typedef struct clattn_memory {
    uint64_t max_bytes;
    cl_mem (*create)(void *user, cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                     cl_int *code);
    void (*release)(void *user, cl_mem buffer);
    void *user;
} clattn_memory;

/* Host memory that a context takes: for itself, its tables, texts and compiled kernels on their way, in creating it, in calls and until
 * it is destroyed. Nothing is taken for good, and none is handed to the application. Not asked: functions without a context
 * (clattn_device_list, clattn_device_describe, clattn_cache_clean), which use the C library; nor what the C library itself, OpenCL's
 * drivers and CLBlast take.
 * allocate  so many bytes, 1 at least, aligned as malloc does (for any type of C); their content does not matter. NULL: there are
 *           none, and the call is OUT_OF_MEMORY with nothing left behind, or does without (the cache)
 * release   what allocate gave, once each, never NULL; from any thread, whoever allocated it
 * Both are called on the threads of calls, from several at once, must not call back into the same context, and are needed until
 * clattn_context_destroy returns. With compile_limit_ms they are also called on threads of the library's own. */
typedef struct clattn_host_memory {
    void *(*allocate)(void *user, size_t bytes); /* NULL, with release: malloc and free */
    void (*release)(void *user, void *memory);
    void *user;
} clattn_host_memory;

/* What a context is made of: the device, and what the application brings or allows. */
typedef struct clattn_context_params {
    cl_device_id device; /* required; a device or a part of one (clCreateSubDevices); retained */
    cl_context
        context; /* NULL: clattn makes its own; else the caller's, which must hold `device`; it is retained */
    clattn_log log;
    /* Folder of compiled kernels; NULL: nothing is kept on disk. Its last component is created with mode 0700
     * if it is missing; the parent must exist. A folder that is a symbolic link, belongs to another user or
     * is writable by others is not used: that, and any damaged entry, costs a rebuild and is never an error
     * (on Windows links are refused, but owner and permissions are those of the parent folder and not
     * checked). Entries carry a SHA-256 that is checked before the driver sees them. A line at CLATTN_LOG_INFO
     * says why a folder is not used or an entry is not kept. PoCL is never asked for a binary: it would compile each
     * kernel once more, and PoCL 4.0 to 6.0 may end the process. So no compiled kernel is kept there, here or in `cache`. The
     * log says so once. PoCL keeps kernels in a cache of its own, and clattn keeps its measurements here. The string is copied. */
    const char *cache_dir;
    /* Of all entries together; 0: 256 MiB. What was not used for longest is removed when a new entry exceeds it. */
    uint64_t cache_max_bytes;
    /* Rows made by `clattn tune`, or by hand (a file's whole text, not its name); NULL: the rows that the library ships. Copied.
     *     flash_lanes cpu=1 lanes=16 type=f32 d=1..96 nq=33.. : ROW_VECTORS=3 KEY_BLOCK=8 TILE_KV=64   # a remark
     * A line is a row: a kernel, as plans name it, conditions that must all hold, a colon, and knobs that take the place of the
     * planner's, none or some; the first row that fits wins, before all that is shipped. A condition is a number or a range with open
     * ends of: cpu (1: the device is one), lanes (floats of a CPU's vector), type (of k, v or W), d (the larger of D and Dv, or a
     * projection's reduction), nq (rows), share (rows on one key/value head), band (keys that a window leaves a row), tall (1: tiles of
     * 4 x 6 vectors were measured faster). `clblast nq=64.. :` sends projections to CLBlast. A row without conditions, `flash_tiles :`,
     * has its kernel take all calls that it can, on any device: so the kernels of GPUs are tested on a CPU.
     * Rows with parameters of CLBlast's kernels (clblast_xgemm, clblast_xgemm_direct, clblast_gemm) are given to
     * CLBlast when the context first uses it; CLBlast then has them for the device in the whole process, until other
     * rows take their place. Parameters that need more work-items or local memory than the device has are left out,
     * and the log says so. */
    const char *tuned_rows;
    /* What clattn_context_measure found, here or in an earlier process, is not used: tuned rows alone decide, and a
     * plan is the same on every day. */
    bool no_measurements;
    /* What cache_dir and cache keep of engines' rates is not read: they are measured again when they are asked for, and what is
     * found takes its place. */
    bool measure_again;
    /* score_mod and mask_mod (attention.h) may be any expression of OpenCL C, not one of the language that cannot write, read
     * elsewhere, trap, loop or call: a text is then code of the application's own, and one of somebody who is not trusted can
     * read and write the process's memory, and end it. */
    bool mods_unchecked;
    unsigned engines; /* CLATTN_ENGINE_..., or-ed: those that may change the process; 0: none of them */
    /* CLBlast's module, a library with a name such as libclattn-clblast-0.2.so, loaded when a projection first asks for
     * CLBlast and never unloaded; NULL: the one beside this library (or the program, where it is static), else by
     * its name where the system looks for libraries. Without it clattn's own kernels project. Not asked for where this
     * library was linked with CLBlast (-Dopencl=link). Copied. */
    const char *clblast_path;
    /* Milliseconds that a call, or a prepare function, waits for the driver's compiler in all. 0: until its
     * kernels are compiled, and the library starts no thread for that.
     * Past the limit the call goes on with plainer kernels. The better kernels are compiled behind the call,
     * each in a thread of the library's own. A later call uses a kernel once it is compiled. `why` of a plan
     * names a kernel that is still being compiled. The log says once that a call goes on without it.
     *   A call can wait for longer: it waits for the first kernel that can do its work, such as `flash` or
     *   `unfused`. RoPE, append and others have one kernel, for which the call waits. Probes of engines
     *   (clattn_context_engines) and CLBlast know no limit.
     *   Plans and workspace sizes may be others once a kernel is ready. A workspace that is too small for the
     *   other kernel is not used: the call borrows from the context. The last bits of results may differ.
     *   A recording keeps the kernels that it was recorded with. An application records when builds_running of
     *   clattn_context_stats is 0, or records again then. clattn_recording_fuse leaves launches apart whose
     *   kernels took longer than the limit to build.
     *   No thread is ever stopped, since OpenCL cannot stop a compiler. clattn_context_destroy waits for builds
     *   that still run. An application that exits without destroying its context ends them with the process. */
    uint32_t compile_limit_ms;
    clattn_cache cache;   /* asked after cache_dir, and given what that is given; either may be missing */
    clattn_memory memory; /* of what calls borrow */
    clattn_host_memory host_memory;
} clattn_context_params;

/* Create a context. Kernels are compiled on first use, or by the prepare functions; with a cache_dir their
 * binaries are kept there. What calls borrow, a context keeps for later ones, so that a call like one before it creates no
 * buffer: scratch memory of calls without a workspace, at most 16 buffers and the lesser of 512 MiB and an eighth of the
 * device's memory; tables of lengths, of what differs from head to head and of RoPE's frequencies, at most 128 buffers and
 * 8 MiB. What does not fit, as where more calls than that have not run yet, is created for one call.
 * The first call on a new driver, which may compile a large kernel for minutes, takes the kernels with the least
 * text (`flash`, `unfused`, `linear_rows`, `backward`). Later calls take the best kernels. A driver is new if no
 * suite of clattn ran on it (driver_known), it has no survey, and cache_dir has no note of an earlier call. A
 * prepare function or a recorded call compiles the best kernels at once, and ends that state. A context with
 * tuned_rows or no_measurements never has it.
 * Lifetime  destroy it with clattn_context_destroy. What params points to is read during the call and copied.
 * Threads   any.
 * A driver may end the process for reasons of its own, at the first kernel: PoCL on a CPU does where there is no linker `ld` on PATH (3.1,
 * 6.0), of which the library, which reads no environment, knows nothing. The program clattn tries a kernel in a process apart then.
 * Blocking  the driver may.
 * Returns   INVALID_ARGUMENT  no device, params->context does not hold it, memory has one of create and release,
 *                             host_memory one of allocate and release, engines has a bit that is none of
 *                             CLATTN_ENGINE_*, or a line of tuned_rows is no row or asks for what its kernel
 *                             cannot do; the log has the number of the line
 *           UNSUPPORTED       no OpenCL (opencl.h); or the device has no compiler, is not available, is not
 *                             little-endian, or takes fewer than 1024 bytes of kernel arguments
 *           OUT_OF_MEMORY, DRIVER */
CLATTN_API clattn_status clattn_context_create(const clattn_context_params *params, clattn_context **context);

/* Destroy a context; NULL is allowed. Waits for no command: the caller has finished its queues before. With compile_limit_ms it waits for
 * builds that still run.
 * Threads: no other thread uses the context any more. */
CLATTN_API void clattn_context_destroy(clattn_context *context);

/* Measure on the device what plans ask of it: which of CLBlast and clattn's own kernels projects faster with float32
 * weights, the rates of engines beyond plain OpenCL C, and on a CPU how decode asks its caches for what comes next, for which
 * 64 MiB are taken for a moment. cache_dir keeps the answers; those that are there already are not measured again, but for a
 * comparison whose rounds disagreed because the machine had other work. Nothing else in this library measures projections: an
 * application calls it, once a device and cache_dir, as clattn bench does before it times layers; without this call tuned rows
 * decide, and what the library prefers. Plans and workspace sizes may be others afterwards.
 * Threads   any; calls of other threads go on meanwhile.
 * Blocking  for seconds, because CLBlast compiles. A quiet machine answers best.
 * Returns   INVALID_ARGUMENT  the context was created with no_measurements
 *           OUT_OF_MEMORY     no memory on the device for three matrices of up to 2048 x 2048 float32
 *           DEVICE_LOST, DRIVER */
CLATTN_API clattn_status clattn_context_measure(clattn_context *context);

/* What a device may compute with, and what a small kernel found of it. */
typedef struct clattn_engine {
    char name[48];
    bool
        works; /* it was asked, compiled, and right to the bit; false: there is none, or `engines` left it out */
    float
        gflops; /* billion operations a second of one work-item, so far as it was timed; 0 where it does not work */
    int64_t measured; /* when, in seconds since 1970 (UTC); 0: it was not asked, or the system has no clock */
    int runs;     /* timed ones, of which the fastest counts; those that plans compare are timed in turns */
    float spread; /* by what share of its time the second fastest run was slower */
    bool
        sure; /* its two fastest runs agree within a tenth, and it is not far below what the others say of the same engine, or was
                  found so again beside the best of them: only then is it kept, and only then does it decide which vectors a
                  CPU device takes in place of those that it reports; else the next context measures it again */
    bool kept; /* it was measured by an earlier context */
    /* An earlier process ended while it compiled or first ran this engine's probe, so that no context tries it again. A survey
     * (clattn_device_survey), or a context with measure_again, does. Found in cache_dir. */
    bool died;
} clattn_engine;

/* Probe the engines that clattn has kernels for, in the order of its table; those that were probed before are not probed
 * again. The planner takes the family that is predicted to be fastest: by its engine's rate and what it reaches of it; tuned
 * rows of the caller's come before that. Of the widths of vectors it takes the fastest that is right: on a CPU device that
 * reports one, that, unless it is wrong or another a quarter faster, and until they are probed, here or by
 * clattn_context_measure (cache_dir keeps it), without a look; on one that reports none, what the first call's probes find.
 * So plans and workspace sizes may be others afterwards.
 *   engines   room for `capacity` of them, or NULL with capacity 0 to ask for the number alone, which probes nothing
 *   count     receives how many there are, which may be more than capacity
 * Threads   any.
 * Blocking  about 30 ms an engine where a kernel must be compiled.
 * Returns   INVALID_ARGUMENT  context or count is NULL, or engines is where capacity is not 0
 *           DEVICE_LOST */
CLATTN_API clattn_status clattn_context_engines(clattn_context *context, clattn_engine *engines,
                                                size_t capacity, size_t *count);

/* A kernel that the driver refused to build or to launch, and that the context therefore avoids. */
typedef struct clattn_unfit {
    char kernel[48];    /* the name of the kernel, as plans have it */
    char options[1024]; /* the options that it was compiled with: its knobs, each as -DNAME=VALUE */
    char step[40]; /* the OpenCL function that failed, such as "clBuildProgram" or "clEnqueueNDRangeKernel" */
    int code;      /* what that function returned, such as -11 */
    uint64_t work_group; /* work-items of a group of the launch that failed; 0: no launch failed */
    bool smaller;   /* the kernel is still launched, in groups of fewer work-items; false: it is not used */
    char line[256]; /* the compiler's first line that names an error; "" where there is none */
    bool kept;      /* cache_dir and cache have it, so that later contexts do not build the kernel */
} clattn_unfit;

/* List the kernels that the driver refused. When clBuildProgram, clCreateKernel, clSetKernelArg or clEnqueueNDRangeKernel fails for a
 * kernel, the call does not fail. It is planned again without this kernel, with others down to `flash` and `unfused`, which run
 * on any device. Where a launch failed, smaller groups come first: with CL_OUT_OF_RESOURCES, CL_INVALID_KERNEL_ARGS,
 * CL_INVALID_WORK_GROUP_SIZE and CL_INVALID_WORK_ITEM_SIZE. The call fails when the plainest kernel fails, with the status of that failure,
 * and nothing is listed then. Each listed kernel is one line in the log (CLATTN_LOG_INFO), and `why` of a plan names it.
 *   Not a kernel's failure: CL_MEM_OBJECT_ALLOCATION_FAILURE; CL_OUT_OF_HOST_MEMORY of a launch; a lost device; an object of the
 *   caller's that is not valid. Such a call fails at once.
 *   A call of several launches is run again whole. A call that writes over what it reads, such as RoPE in place, cannot be once
 *   it has enqueued such a launch: it fails with the status of the launch that failed, and what it writes is undefined. A replay fails in
 *   the same way (record.h).
 *   A workspace that is smaller than the other kernel needs is not used: the call borrows from the context.
 * A failed build is kept in cache_dir and cache, for this device, driver and version of clattn. A failed launch counts for this context
 * alone. clattn_context_measure, and a context with measure_again, forget all of them.
 *   kernels   room for `capacity` entries, or NULL with capacity 0 to ask for the number alone
 *   count     receives the number of entries there are, which may be more than capacity
 * Threads   any.   Blocking: never.
 * Returns   INVALID_ARGUMENT  context or count is NULL, or kernels is where capacity is not 0 */
CLATTN_API clattn_status clattn_context_unfit(clattn_context *context, clattn_unfit *kernels, size_t capacity,
                                              size_t *count);

/* Try on a device what may end the process: inline assembly, sub-groups and matrix instructions, and the first compilation of common
 * kernels. An application calls this in a process of its own choosing, such as a child, since no library should start one. The answers
 * are stored in params->cache_dir. Later contexts on that folder read them: they use what worked, also inline assembly of a compiler that
 * is not known, and never run what ended the process. A device whose driver is known (clattn_capabilities.driver_known) needs no survey.
 * Without one, a context on another driver uses only what the driver advertises. The program clattn does this before its first context on
 * such a driver.
 *   params  as for a context; cache_dir is required. no_measurements, tuned_rows and the callbacks of memory have no effect
 *   resume  false: try all again, also what ended an earlier process.
 *           true: go on after a process that ended in a survey, and pass over what ended it.
 * A caller runs a child with resume false. While a child ends by a signal, or the caller ends one that does not answer, it runs another
 * with resume true. Each further child passes over one thing more.
 * Threads   any.
 * Blocking  for seconds: it compiles about 20 kernels. It may not return.
 * Returns   INVALID_ARGUMENT  params or cache_dir is NULL, the folder is not usable, or as clattn_context_create
 *           UNSUPPORTED, OUT_OF_MEMORY, DRIVER  as clattn_context_create */
CLATTN_API clattn_status clattn_device_survey(const clattn_context_params *params, bool resume);

/* What this build has, and what this context found. */
typedef struct clattn_features {
    bool opencl_linked; /* the library is linked with OpenCL, and finds none at run time (opencl.h) */
    bool clblast;       /* it was built with CLBlast: linked, or as a module */
    bool clblast_found; /* that module is there; looked for now, where nothing asked for it before */
    unsigned
        engines;   /* CLATTN_ENGINE_..., or-ed: asked for and granted; clattn_context_engines proves them */
    bool svm, usm; /* tensors may be such addresses (tensor.h): device and OpenCL have what it takes */
    bool surveyed; /* cache_dir has a finished survey of the device under this driver: clattn_device_survey */
} clattn_features;

/* Ask for them; without a context (NULL) clblast_found and what follows it are none.   Threads: any.   Blocking: may load CLBlast.
 * Returns   INVALID_ARGUMENT  features is NULL */
CLATTN_API clattn_status clattn_features_get(clattn_context *context, clattn_features *features);

/* Clean a folder of compiled kernels (cache_dir): what killed processes left is removed, and of the entries those unused for
 * longest until the rest is max_bytes at most; 0: all of them. Contexts that use the folder lose nothing but time. log may be
 * NULL. No device is needed.   Threads: any.   Blocking: on the file system.
 * Returns   INVALID_ARGUMENT  dir is NULL, or a folder that no context would use; the line says why */
CLATTN_API clattn_status clattn_cache_clean(const char *dir, uint64_t max_bytes, const clattn_log *log);

/* Write what was compiled since the last time into cache_dir and cache. Destroying a context does it, too; an
 * application that never destroys its context calls this once its first results are there. PoCL is asked for nothing
 * (cache_dir). NULL is allowed. Threads: any; the queues that used the context are finished. Blocking: on the file system. */
CLATTN_API void clattn_context_save_kernels(clattn_context *context);

/* The OpenCL context and device, for creating queues and buffers; NULL of NULL.   Lifetime: the context's; not
 * retained. */
CLATTN_API cl_context clattn_context_opencl(const clattn_context *context);
CLATTN_API cl_device_id clattn_context_device(const clattn_context *context);
CLATTN_API const clattn_capabilities *clattn_context_capabilities(const clattn_context *context);

/* Whether the device works in this host memory in place: a buffer of CL_MEM_USE_HOST_PTR over it is that memory,
 * and the host reads and writes it without mapping while no command uses it. Python, torch, ONNX Runtime and ggml
 * copy nothing there.
 * CPU devices are asked about any address. Another device is asked if it says that it shares the host's memory
 * (clattn_capabilities.unified_memory), about memory that begins on a page of 4096 bytes. The driver's word is not
 * enough: two small copies show it, once a context for each alignment of `address` and `bytes`. They use memory of
 * their own.
 *   address   of the memory; NULL: the answer is false
 *   bytes     how many there are
 *   in_place  receives the answer; false on failure
 * Threads   any.   Blocking: for the two copies, on a queue of its own.
 * Returns   INVALID_ARGUMENT  context or in_place is NULL
 *           DEVICE_LOST */
CLATTN_API clattn_status clattn_context_in_place(clattn_context *context, const void *address, size_t bytes,
                                                 bool *in_place);

/* Copy the message of the last call that failed on this context (of any thread; the log callback tells
 * threads apart) into text[size], cut to fit and always terminated; "" when none failed. A call that goes well leaves
 * it. Returns the full length; text may be NULL to ask for that alone. */
CLATTN_API size_t clattn_context_last_error(clattn_context *context, char *text, size_t size);

/* What the context has done so far, for start-up measurements. */
typedef struct clattn_context_stats {
    uint64_t programs_built;  /* compiled from source by the driver */
    uint64_t programs_cached; /* taken from cache_dir */
    uint64_t build_time_ns;   /* spent in both */
    uint64_t
        builds_running; /* kernels that are compiled behind calls now: compile_limit_ms of clattn_context_params */
} clattn_context_stats;
CLATTN_API void clattn_context_get_stats(clattn_context *context, clattn_context_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
