// program.h: a context's compiled kernels, one per program_spec. Each is built on first use or
// loaded from the cache.
#ifndef CLATTN_PROGRAM_PROGRAM_H
#define CLATTN_PROGRAM_PROGRAM_H
#include "device/context.h"
#include "program/kernels.h"
#include "program/knobs.h"
#include "device/launch_slicing.h"

struct program;

// The status of a step after which the call must be checked and planned again. The planner has
// learned a compiled kernel's limits, or that the driver refused a kernel (unfit.h).
#define ENTRY_PLAN_AGAIN ((clattn_status)CLATTN_STATUS_COUNT)

// A kernel that is linked with others into one program: fused_launches.cl.
typedef struct linked_kernel {
    const struct program *of; // already built
    const char *call;         // OpenCL C appended to its source
} linked_kernel;

// The identity of a program. All fields are compared and are part of the cache key, except
// `linked`, which `inserted` reflects.
typedef struct program_spec {
    enum kernel_id id;
    knobs knobs;
    const char *options; // compiler options besides the knobs; NULL: PROGRAM_OPTIONS
    bool large;          // for buffers above the device's limit; set by the context, not the caller
    // The kernel's last argument is the offset of its grid (three of args_i64), and its launch has
    // no global offset.
    bool placed;
    // OpenCL C that replaces the mark in the source, or is prepended, such as a caller's score
    // function. NULL: none.
    const char *inserted;
    // Valid during the build. A failed build is not logged as an error, because the caller then
    // runs the kernels separately.
    const linked_kernel *linked;
    int linked_count;
} program_spec;

#define PROGRAM_INSERTED "// CLATTN_INSERTED"

// Inserted text may have parts between "#if !" PROGRAM_PLAIN and "#endif" that a compiler may
// reject. The program is then built without these parts, which is not an error.
#define PROGRAM_PLAIN "CLATTN_PLAIN"

#define PROGRAM_OPTIONS "-cl-std=CL1.2"
#define PROGRAM_MOST_OPTIONS 1024
// Options that the context's device needs for every program, with a leading blank, or "". On a CPU
// whose compiler is not known to accept inline assembly (device/driver_quirks.h) they disable it.
// Otherwise kernels contain assembly if the compiler's target has AVX-512.
const char *cla_program_device_options(const clattn_context *context);

#define PROGRAM_MOST_IDLE 16

typedef struct program {
    struct program *next;
    program_spec spec; // owns its texts
    cl_program program;
    uint8_t key[32];
    char *options; // all compiler options, including the knobs
    // Largest work-group of the compiled kernel; can be below the device's limit.
    size_t group_limit;
    pace_rate rate; // measured rate
    // Private memory per work-item that the driver reports. Most drivers report only spilled
    // registers, others all private memory.
    cl_ulong private_bytes;
    cl_ulong local_bytes; // local memory per work-group that the driver reports
    // A thread is building it; other fields are not valid until program_built is signalled.
    bool building;
    // Built by a thread of its own; a call has continued without it (program/behind.h).
    bool behind, late;
    struct build_wait *waits; // the call for which that thread builds
    uint64_t build_ns;        // duration of the build
    bool unsaved;             // built from source and not in the cache yet
    // A kernel object holds the arguments of one launch, so each launch uses its own. `idle` has
    // the unused ones.
    os_mutex lock; // guards idle and idle_count, briefly
    int idle_count;
    cl_kernel idle[PROGRAM_MOST_IDLE];
} program;

// Return the compiled kernel, which the context owns. On BUILD_FAILED the build log goes to the log
// callback.
clattn_status cla_program_get_spec(clattn_context *context, const program_spec *spec, program **result);
// As cla_program_get_spec, with PROGRAM_OPTIONS and without inserted text.
clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result);
// As cla_program_get, with k->work_group set: 1 on a CPU, else the largest power of two up to
// `most` that the device and the compiled kernel allow.
clattn_status cla_program_get_group(clattn_context *context, enum kernel_id id, knobs *k, int most,
                                    program **result);

// The listed program, or NULL. The caller holds program_lock.
program *cla_program_find(const clattn_context *context, const program_spec *spec);

// Part of program.c: compile each kernel of spec->linked together with fused_launches.cl, and link
// them. *built is NULL if no cl_program could be created. On a compile error *built is the program
// with the log.
cl_int cla_program_link(clattn_context *context, const program_spec *spec, const char *options,
                        cl_program *built);

// The largest work-group of the kernel: within its compiled limit, and smaller than any size that
// failed to launch.
size_t cla_program_group(const clattn_context *context, const program *p);

// A kernel object for one launch. The first function returns OpenCL's error, the second a status.
// cla_program_give_kernel returns the object.
cl_int cla_program_object(program *p, cl_kernel *kernel);
clattn_status cla_program_take_kernel(clattn_context *context, program *p, cl_kernel *kernel);
void cla_program_give_kernel(program *p, cl_kernel kernel);

// Move all programs with this inserted text from the context to the list at `taken`. If one of them
// is being built, returns false and moves none. The caller holds program_lock.
bool cla_programs_take(clattn_context *context, const char *inserted, program **taken);
// Store the list's unsaved programs in the cache, and release the whole list.
void cla_programs_release_taken(clattn_context *context, program *taken);

// Begin and end a call that may use programs with inserted texts. While it runs,
// attention/mods/mods_kept.c does not release them.
unsigned cla_mods_begin(clattn_context *context);
void cla_mods_end(clattn_context *context, unsigned begun);

// Release all of the context's programs.
void cla_programs_release(clattn_context *context);
#endif
