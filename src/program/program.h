// program.h: compiled kernels of a context, one for each program_spec, built on first use or taken from the cache.
#ifndef CLATTN_PROGRAM_PROGRAM_H
#define CLATTN_PROGRAM_PROGRAM_H
#include "device/context.h"
#include "program/kernels.h"
#include "program/knobs.h"
#include "device/pace.h"

struct program;

// The status of a step after which the call is checked and planned again: the planner has learned what a compiled kernel allows, or that
// the driver refused one (unfit.h).
#define ENTRY_PLAN_AGAIN ((clattn_status)CLATTN_STATUS_COUNT)

// A kernel that is linked with others: fused_launches.cl.
typedef struct linked_kernel {
    const struct program *of; // built
    const char *call;         // OpenCL C behind its source
} linked_kernel;

// The name of a program: all of it is compared, and all of it is in the cache's key, but `linked`, which `inserted` tells.
typedef struct program_spec {
    enum kernel_id id;
    knobs knobs;
    const char *options; // of the compiler, besides the knobs; NULL: PROGRAM_OPTIONS
    bool large;          // for buffers past the device's limit: the context says so, not who asks
    bool
        placed; // the kernel's last argument is the offset of its grid (three of args_i64), and the grid has none
    // OpenCL C in the source in place of its mark, or in front of it, such as a caller's score function; NULL: none
    const char *inserted;
    const linked_kernel
        *linked; // while it is built; its refusal is told as no error, since whoever asks goes on without it
    int linked_count;
} program_spec;

#define PROGRAM_INSERTED "// CLATTN_INSERTED"

// An inserted text may have parts that a compiler may refuse, between "#if !" PROGRAM_PLAIN and "#endif": the program is then
// built without them, and nobody is told.
#define PROGRAM_PLAIN "CLATTN_PLAIN"

#define PROGRAM_OPTIONS "-cl-std=CL1.2"
#define PROGRAM_MOST_OPTIONS 1024
// Options of the context's device for each program, with a blank in front; "" where there are none. A CPU's compiler that is not known
// to take inline assembly (device/defects.h) gets none: texts have some wherever the compiler says that its target has AVX-512.
const char *cla_program_device_options(const clattn_context *context);

#define PROGRAM_MOST_IDLE 16

typedef struct program {
    struct program *next;
    program_spec spec; // with texts of its own
    cl_program program;
    uint8_t key[32];
    char *options;      // of the compiler, with the knobs
    size_t group_limit; // work-items of a group that the compiled kernel allows: maybe fewer than its device
    pace_rate rate;     // what it has shown
    // Private memory of a work-item, as the driver tells it: what did not fit its registers, or, of some drivers, all it has.
    cl_ulong private_bytes;
    cl_ulong local_bytes; // likewise of a group
    bool building; // by a thread: the rest is not there yet, and program_built of the context tells the end
    bool behind, late;        // program/behind.h: by a thread of its own; and a call has gone on without it
    struct build_wait *waits; // the call for which that thread builds
    uint64_t build_ns;        // that it took
    bool unsaved;             // built here and not in the cache yet
    // A kernel object holds the arguments of one launch, so each launch has one for itself. Those that no launch has:
    os_mutex lock; // guards them, for a moment
    int idle_count;
    cl_kernel idle[PROGRAM_MOST_IDLE];
} program;

// The compiled kernel; it belongs to the context. BUILD_FAILED sends the build log to the log callback.
clattn_status cla_program_get_spec(clattn_context *context, const program_spec *spec, program **result);
// The same with the usual options and nothing inserted.
clattn_status cla_program_get(clattn_context *context, enum kernel_id id, const knobs *k, program **result);
// The same with work_group set: 1 on a CPU, else the largest power of two up to `most` that device and compiled kernel allow.
clattn_status cla_program_get_group(clattn_context *context, enum kernel_id id, knobs *k, int most,
                                    program **result);

// The program that is listed, or NULL. The caller holds program_lock.
program *cla_program_find(const clattn_context *context, const program_spec *spec);

// A part of program.c: the kernels of spec->linked, each compiled behind fused_launches.cl, and linked with it. *built is NULL where there
// is not even a program, else what was refused has its log.
cl_int cla_program_link(clattn_context *context, const program_spec *spec, const char *options,
                        cl_program *built);

// Work-items that a group may have: what the compiled kernel allows, and no launch of it has shown to be too many.
size_t cla_program_group(const clattn_context *context, const program *p);

// A kernel object for one launch, or OpenCL's error; the same, of which a call fails; and back again.
cl_int cla_program_object(program *p, cl_kernel *kernel);
clattn_status cla_program_take_kernel(clattn_context *context, program *p, cl_kernel *kernel);
void cla_program_give_kernel(program *p, cl_kernel kernel);

// The programs that have this text inserted are taken off the context; false, and none is: one is being built. The caller holds
// program_lock.
bool cla_programs_take(clattn_context *context, const char *inserted, program **taken);
// Keep what is not kept yet in the cache, and release them.
void cla_programs_release_taken(clattn_context *context, program *taken);

// A call that may find programs of texts that others take off the context (attention/mods/mods_kept.c) begins, and ends.
unsigned cla_mods_begin(clattn_context *context);
void cla_mods_end(clattn_context *context, unsigned begun);

// Release all of a context's programs.
void cla_programs_release(clattn_context *context);
#endif
